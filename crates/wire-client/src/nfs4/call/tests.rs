use nfs_wire::v3::{
    AccessArgs as AccessArgs3, CommitArgs as CommitArgs3, DirOpArgs, SetattrArgs as SetattrArgs3,
};
use nfs_wire::v4::{
    ChangeInfo, GetattrOk, OpReply, OpenArgs, OpenDelegation, OpenResult, Reply, SequenceArgs, ShareDeny,
    Status, WriteArgs,
};

use nfs_wire::rpc::RecordMark;
use nfs_wire::v3::GetattrArgs as GetattrArgs3;
use nfs_wire::v3::StableHow;

use super::*;
use crate::call::WriteHead;
use crate::nfs4::testing::{SESSION, compound, only_call, slot};

const OPEN_STATEID: Stateid = Stateid { seqid: 3, other: [9; 12] };
const DATA_BYTE: u8 = 7;
const FILE: FileHandle<'_> = FileHandle(&[1; 5]);
const NAME: DirOpArgs<'_> = DirOpArgs { dir: FileHandle(&[2; 5]), name: b"f01" };

fn owner_slot() -> OwnerSlot {
    OwnerSlot::new(slot(1), 11)
}

/// Passes the operations after SEQUENCE to `look`, and whether the reply is cached.
fn encoded(call: &Call<'_>, look: impl FnOnce(&[Argument<'_>], bool)) {
    let encoder = Encoder::new(&Identity::new(0, 0), 1, 5);
    let mut slot = owner_slot();
    let mut record = encoder.header().to_vec();
    encoder.encode(call, OPEN_STATEID, &mut slot, &mut Writer::new(&mut record));
    if let Call::Write(head) = call {
        record.extend(vec![DATA_BYTE; head.count as usize]);
    }
    record.extend(encoder.tail(call.kind()));
    let length = u32::try_from(record.len() - RecordMark::SIZE).unwrap();
    record[..4].copy_from_slice(&RecordMark { last: true, length }.to_word().to_be_bytes());
    assert_eq!(slot.slot.sequence, 2);
    let all = only_call(&record, 1);
    let Argument::Sequence(sequence) = all[0] else { panic!("{all:?}") };
    let SequenceArgs { sessionid, sequenceid, slotid, highest_slotid, cachethis } = sequence;
    assert_eq!((sessionid, sequenceid, slotid, highest_slotid), (SESSION, 1, 2, 8));
    look(&all[1..], cachethis);
}

fn check(call: &Call<'_>, cached: bool, wanted: &[Argument<'_>]) {
    encoded(call, |operations, is_cached| {
        assert_eq!(operations, wanted, "{call:?}");
        assert_eq!(is_cached, cached, "{call:?}");
    });
}

fn putfh(object: FileHandle<'_>) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: v4::FileHandle(object.0) })
}

fn opening<'a>(
    owner: &'a [u8],
    access: ShareAccess,
    how: OpenFlag<'a>,
    claim: OpenClaim<'a>,
) -> Argument<'a> {
    Argument::Open(OpenArgs {
        seqid: 0,
        share_access: access | ShareAccess::WANT_NO_DELEG,
        share_deny: ShareDeny::NONE,
        owner: StateOwner { clientid: 5, owner },
        openhow: how,
        claim,
    })
}

#[test]
fn calls_equal_those_of_linux() {
    let access = || Argument::Access(AccessArgs { access: RIGHTS });
    let attributes = || getattr(FILE_ATTRIBUTES);
    check(&Call::Getattr(GetattrArgs3 { object: FILE }), false, &[putfh(FILE), attributes()]);
    let asked = Call::Access(AccessArgs3 { object: FILE, access: nfs_wire::v3::Access::READ });
    check(&asked, false, &[putfh(FILE), access(), attributes()]);
    let lookup = Argument::Lookup(LookupArgs { objname: b"f01" });
    let lookup = [putfh(NAME.dir), lookup, Argument::Getfh, attributes()];
    check(&Call::Lookup(LookupArgs3 { what: NAME }), false, &lookup);
    let read = Argument::Read(ReadArgs { stateid: OPEN_STATEID, offset: 4096, count: 512 });
    check(&Call::Read(ReadArgs3 { file: FILE, offset: 4096, count: 512 }), false, &[putfh(FILE), read]);
    let commit = Argument::Commit(CommitArgs { offset: 0, count: 0 });
    check(&Call::Commit(CommitArgs3 { file: FILE, offset: 0, count: 0 }), false, &[putfh(FILE), commit]);
    let remove = || Argument::Remove(RemoveArgs { target: b"f01" });
    check(&Call::Remove(RemoveArgs3 { object: NAME }), true, &[putfh(NAME.dir), remove()]);
    check(&Call::Rmdir(RemoveArgs3 { object: NAME }), true, &[putfh(NAME.dir), remove()]);
    let close = Argument::Close(CloseArgs { seqid: 0, open_stateid: OPEN_STATEID });
    check(&Call::Close(FILE), true, &[putfh(FILE), getattr(CACHE_CONSISTENCY), close]);
    let owner = (11 * OWNERS + 2).to_be_bytes();
    let open = opening(&owner, ShareAccess::WRITE, OpenFlag::NoCreate, OpenClaim::Fh);
    let head = OpenHead { file: FILE, access: ShareAccess::WRITE, owner: 2 };
    check(&Call::Open(head), true, &[putfh(FILE), open, access(), attributes()]);
}

#[test]
fn attributes_are_encoded_in_order_of_numbers() {
    let (size, mode) = (0_u64.to_be_bytes(), 0o644_u32.to_be_bytes());
    let of_size = Fattr { attrmask: Bitmap::of(&[attr::SIZE]), attr_vals: &size };
    let of_mode = Fattr { attrmask: Bitmap::of(&[attr::MODE]), attr_vals: &mode };
    let with_mode = Sattr { mode: Some(0o644), ..Sattr::default() };
    let attributes = || getattr(FILE_ATTRIBUTES);
    for (new_attributes, obj_attributes) in
        [(Sattr { size: Some(0), ..Sattr::default() }, of_size), (with_mode, of_mode)]
    {
        let call = Call::Setattr(SetattrArgs3 { object: FILE, new_attributes, guard: None });
        let setattr = Argument::Setattr(SetattrArgs { stateid: OPEN_STATEID, obj_attributes });
        check(&call, true, &[putfh(FILE), setattr, attributes()]);
    }
    let both = [&7_u64.to_be_bytes()[..], &mode].concat();
    with_attributes(&Sattr { size: Some(7), ..with_mode }, |found| {
        assert_eq!(found, Fattr { attrmask: Bitmap::of(&[attr::SIZE, attr::MODE]), attr_vals: &both });
    });
    let create = Argument::Create(CreateArgs {
        objtype: CreateType::Directory,
        objname: b"f01",
        createattrs: of_mode,
    });
    let made = [putfh(NAME.dir), create, Argument::Getfh, attributes()];
    check(&Call::Mkdir(MkdirArgs { place: NAME, attributes: with_mode }), true, &made);
    let owner = (11 * OWNERS).to_be_bytes();
    let how = OpenFlag::Create(CreateHow::Unchecked(of_mode));
    let open = opening(&owner, ShareAccess::WRITE, how, OpenClaim::Null(b"f01"));
    let access = Argument::Access(AccessArgs { access: RIGHTS });
    let made = [putfh(NAME.dir), open, Argument::Getfh, access, attributes()];
    check(&Call::Create(CreateArgs3 { place: NAME, how: CreateHow3::Unchecked(with_mode) }), true, &made);
}

#[test]
fn write_data_lies_between_its_operations() {
    let data = vec![DATA_BYTE; 4096];
    let write =
        WriteArgs { stateid: OPEN_STATEID, offset: 8192, stable: v4::StableHow::DataSync, data: &data };
    let head = WriteHead { file: FILE, offset: 8192, count: 4096, stable: StableHow::DataSync };
    check(&Call::Write(head), false, &[putfh(FILE), Argument::Write(write), getattr(CACHE_CONSISTENCY)]);
}

fn decoded<'a>(call: &Call<'_>, reply: &'a [u8]) -> Result<CallResult<'a>, String> {
    let mut slot = slot(1);
    slot.advance();
    decode(call.kind(), &mut slot, Reader::new(reply)).map_err(|rejection| match rejection {
        Rejection::Later => "later".to_owned(),
        Rejection::Refused(status) => status,
        Rejection::Fatal(error) => error.to_string(),
    })
}

#[test]
fn replies_decode_to_results() {
    let good = |results: &[OpReply<'_>]| compound(Status::OK, 1, results);
    let attributes = OpReply::Getattr(Reply::Ok(GetattrOk {
        obj_attributes: Fattr { attrmask: Bitmap::EMPTY, attr_vals: b"" },
    }));
    let access = OpReply::Access(Reply::Ok(AccessOk { supported: RIGHTS, access: RIGHTS }));
    let getfh = OpReply::Getfh(Reply::Ok(GetfhOk { object: v4::FileHandle(&[4; 6]) }));
    let opened = OpReply::Open(Reply::Ok(OpenOk {
        stateid: OPEN_STATEID,
        cinfo: ChangeInfo { atomic: true, before: 1, after: 1 },
        rflags: OpenResult(0),
        attrset: Bitmap::EMPTY,
        delegation: OpenDelegation::None,
    }));
    let open = Call::Open(OpenHead { file: FILE, access: ShareAccess::READ, owner: 0 });
    let create = Call::Create(CreateArgs3 { place: NAME, how: CreateHow3::Unchecked(Sattr::default()) });
    let read = Call::Read(ReadArgs3 { file: FILE, offset: 0, count: 8 });
    let write = WriteHead { file: FILE, offset: 0, count: 8, stable: StableHow::Unstable };
    let written = WriteOk { count: 8, committed: v4::StableHow::FileSync, writeverf: [1; 8] };
    let as_written = CallResult::Written { count: 8, committed: StableHow::FileSync, verf: [1; 8] };
    let made = FileHandle(&[4; 6]);
    for (call, reply, wanted) in [
        (
            open,
            good(&[opened.clone(), access.clone(), attributes.clone()]),
            CallResult::Opened(OpenId::Nfs4(OPEN_STATEID), None),
        ),
        (
            create,
            good(&[opened, getfh.clone(), access, attributes.clone()]),
            CallResult::Opened(OpenId::Nfs4(OPEN_STATEID), Some(made)),
        ),
        (
            Call::Lookup(LookupArgs3 { what: NAME }),
            good(&[OpReply::Lookup(Status::OK), getfh, attributes.clone()]),
            CallResult::Found(Some(made)),
        ),
        (
            read,
            good(&[OpReply::Read(Reply::Ok(ReadOk { eof: true, data: &[5; 8] }))]),
            CallResult::Read { count: 8, data: &[5; 8], eof: true },
        ),
        (Call::Write(write), good(&[OpReply::Write(Reply::Ok(written)), attributes.clone()]), as_written),
        (
            Call::Commit(CommitArgs3 { file: FILE, offset: 0, count: 0 }),
            good(&[OpReply::Commit(Reply::Ok(CommitOk { writeverf: [2; 8] }))]),
            CallResult::Committed([2; 8]),
        ),
        (Call::Close(FILE), good(&[attributes, OpReply::Close(Reply::Ok(OPEN_STATEID))]), CallResult::Done),
    ] {
        assert_eq!(decoded(&call, &reply), Ok(wanted), "{call:?}");
        let longer = [&reply[..], &[0; 4]].concat();
        let wrong = decoded(&call, &longer).unwrap_err();
        assert!(wrong.contains("4 bytes behind"), "{call:?}: {wrong}");
        let old = decoded(&call, &compound(Status::OK, 9, &[])).unwrap_err();
        assert!(old.contains("answered for slot 2, call 9"), "{old}");
    }
}

#[test]
fn rejections_are_told_apart() {
    let call = Call::Getattr(GetattrArgs3 { object: FILE });
    let rejected = |status| {
        let reply = compound(status, 1, &[OpReply::Getattr(Reply::Err(status))]);
        decoded(&call, &reply).unwrap_err()
    };
    assert_eq!(rejected(Status::DELAY), "later");
    assert_eq!(rejected(Status::GRACE), "later");
    assert_eq!(rejected(Status::STALE), "NFS4ERR_STALE");
    let expired = rejected(Status::EXPIRED);
    assert!(expired.contains("the session is gone"), "{expired}");
}
