use nfs_wire::v3::{
    AccessArgs as AccessArgs3, CommitArgs as CommitArgs3, DirOpArgs, SetattrArgs as SetattrArgs3,
};
use nfs_wire::v4::{
    ChangeInfo, GetattrOk, OpReply, OpenArgs, OpenDelegation, OpenResult, Reply, SequenceArgs, ShareDeny,
    Status, WriteArgs,
};

use super::super::call::WriteHead;
use super::*;
use crate::driver::compound::replies::{SESSION, compound, slot};
use crate::driver::compound::requests::only_call;
use crate::driver::fault::Fault;
use crate::pattern::Payload;
use nfs_wire::v3::GetattrArgs as GetattrArgs3;
use nfs_wire::v3::StableHow;

const UNDER: Stateid = Stateid { seqid: 3, other: [9; 12] };
const FILE: FileHandle<'_> = FileHandle(&[1; 5]);
const NAME: DirOpArgs<'_> = DirOpArgs { dir: FileHandle(&[2; 5]), name: b"f01" };

fn place() -> Place {
    Place::new(slot(1), 11)
}

/// The operations of a call behind SEQUENCE, and whether its reply is to be kept.
fn sent(call: &Call<'_>, look: impl FnOnce(&[Argument<'_>], bool)) {
    let origin = Origin::new(&Identity::new(0, 0), 1, 5);
    let (mut calls, mut place) = (Calls::new(4, 4), place());
    calls.add_slot();
    calls.payloads.push(Payload::new(4096, 4096, 1));
    let payload = if let Call::Write(head) = call { Some((0, head.count)) } else { None };
    origin.push(call, UNDER, &mut place, (0, payload), &mut calls);
    assert_eq!(place.slot.sequence, 2);
    let unsent = calls.unsent();
    let all = only_call(&unsent, 1);
    let Argument::Sequence(sequence) = all[0] else { panic!("{all:?}") };
    let SequenceArgs { sessionid, sequenceid, slotid, highest_slotid, cachethis } = sequence;
    assert_eq!((sessionid, sequenceid, slotid, highest_slotid), (SESSION, 1, 2, 8));
    look(&all[1..], cachethis);
}

/// A call consists of these operations, and whether its reply is kept.
fn is(call: &Call<'_>, kept: bool, wanted: &[Argument<'_>]) {
    sent(call, |operations, is_kept| {
        assert_eq!(operations, wanted, "{call:?}");
        assert_eq!(is_kept, kept, "{call:?}");
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
fn calls_are_those_of_linux() {
    let access = || Argument::Access(AccessArgs { access: RIGHTS });
    let attributes = || getattr(OF_A_FILE);
    is(&Call::Getattr(GetattrArgs3 { object: FILE }), false, &[putfh(FILE), attributes()]);
    let asked = Call::Access(AccessArgs3 { object: FILE, access: nfs_wire::v3::Access::READ });
    is(&asked, false, &[putfh(FILE), access(), attributes()]);
    let lookup = Argument::Lookup(LookupArgs { objname: b"f01" });
    let looked = [putfh(NAME.dir), lookup, Argument::Getfh, attributes()];
    is(&Call::Lookup(LookupArgs3 { what: NAME }), false, &looked);
    let read = Argument::Read(ReadArgs { stateid: UNDER, offset: 4096, count: 512 });
    is(&Call::Read(ReadArgs3 { file: FILE, offset: 4096, count: 512 }), false, &[putfh(FILE), read]);
    let commit = Argument::Commit(CommitArgs { offset: 0, count: 0 });
    is(&Call::Commit(CommitArgs3 { file: FILE, offset: 0, count: 0 }), false, &[putfh(FILE), commit]);
    let remove = || Argument::Remove(RemoveArgs { target: b"f01" });
    is(&Call::Remove(RemoveArgs3 { object: NAME }), true, &[putfh(NAME.dir), remove()]);
    is(&Call::Rmdir(RemoveArgs3 { object: NAME }), true, &[putfh(NAME.dir), remove()]);
    let close = Argument::Close(CloseArgs { seqid: 0, open_stateid: UNDER });
    is(&Call::Close(FILE), true, &[putfh(FILE), getattr(CONSISTENCY), close]);
    let owner = (11 * OWNERS + 2).to_be_bytes();
    let open = opening(&owner, ShareAccess::WRITE, OpenFlag::NoCreate, OpenClaim::Fh);
    let head = OpenHead { file: FILE, access: ShareAccess::WRITE, owner: 2 };
    is(&Call::Open(head), true, &[putfh(FILE), open, access(), attributes()]);
}

#[test]
fn attributes_are_set_as_the_version_wants_them() {
    let (size, mode) = (0_u64.to_be_bytes(), 0o644_u32.to_be_bytes());
    let of_size = Fattr { attrmask: Bitmap::of(&[attr::SIZE]), attr_vals: &size };
    let of_mode = Fattr { attrmask: Bitmap::of(&[attr::MODE]), attr_vals: &mode };
    let with_mode = Sattr { mode: Some(0o644), ..Sattr::default() };
    let attributes = || getattr(OF_A_FILE);
    for (new_attributes, obj_attributes) in
        [(Sattr { size: Some(0), ..Sattr::default() }, of_size), (with_mode, of_mode)]
    {
        let call = Call::Setattr(SetattrArgs3 { object: FILE, new_attributes, guard: None });
        let setattr = Argument::Setattr(SetattrArgs { stateid: UNDER, obj_attributes });
        is(&call, true, &[putfh(FILE), setattr, attributes()]);
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
    is(&Call::Mkdir(MkdirArgs { place: NAME, attributes: with_mode }), true, &made);
    let owner = (11 * OWNERS).to_be_bytes();
    let how = OpenFlag::Create(CreateHow::Unchecked(of_mode));
    let open = opening(&owner, ShareAccess::WRITE, how, OpenClaim::Null(b"f01"));
    let access = Argument::Access(AccessArgs { access: RIGHTS });
    let made = [putfh(NAME.dir), open, Argument::Getfh, access, attributes()];
    is(&Call::Create(CreateArgs3 { place: NAME, how: CreateHow3::Unchecked(with_mode) }), true, &made);
}

#[test]
fn data_of_a_write_lies_between_its_operations() {
    let data = Payload::new(4096, 4096, 1).bytes().to_vec();
    let write = WriteArgs { stateid: UNDER, offset: 8192, stable: v4::StableHow::DataSync, data: &data };
    let head = WriteHead { file: FILE, offset: 8192, count: 4096, stable: StableHow::DataSync };
    is(&Call::Write(head), false, &[putfh(FILE), Argument::Write(write), getattr(CONSISTENCY)]);
}

/// What a reply to a call is taken for, in the slot's first use.
fn with_answer<T>(call: &Call<'_>, reply: &[u8], look: impl FnOnce(Result<Answer<'_>, String>) -> T) -> T {
    let mut place = place();
    place.slot.advance();
    look(judge(call, &mut place, Reader::new(reply)).map_err(|refusal| match refusal {
        Refusal::Later => "later".to_owned(),
        Refusal::Fault(Fault::Counted { what, .. }) => what,
        Refusal::Fault(Fault::Fatal(wrong)) => wrong.to_string(),
    }))
}

#[test]
fn replies_bring_what_was_asked_for() {
    let good = |results: &[OpReply<'_>]| compound(Status::OK, 1, results);
    let attributes = OpReply::Getattr(Reply::Ok(GetattrOk {
        obj_attributes: Fattr { attrmask: Bitmap::EMPTY, attr_vals: b"" },
    }));
    let access = OpReply::Access(Reply::Ok(AccessOk { supported: RIGHTS, access: RIGHTS }));
    let getfh = OpReply::Getfh(Reply::Ok(GetfhOk { object: v4::FileHandle(&[4; 6]) }));
    let opened = OpReply::Open(Reply::Ok(OpenOk {
        stateid: UNDER,
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
    let as_written = Answer::Written { count: 8, committed: StableHow::FileSync, verf: [1; 8] };
    let made = FileHandle(&[4; 6]);
    for (call, reply, wanted) in [
        (
            open,
            good(&[opened.clone(), access.clone(), attributes.clone()]),
            Answer::Opened(OpenId::V4(UNDER), None),
        ),
        (
            create,
            good(&[opened, getfh.clone(), access, attributes.clone()]),
            Answer::Opened(OpenId::V4(UNDER), Some(made)),
        ),
        (
            Call::Lookup(LookupArgs3 { what: NAME }),
            good(&[OpReply::Lookup(Status::OK), getfh, attributes.clone()]),
            Answer::Found(Some(made)),
        ),
        (
            read,
            good(&[OpReply::Read(Reply::Ok(ReadOk { eof: true, data: &[5; 8] }))]),
            Answer::Read { count: 8, data: &[5; 8], eof: true },
        ),
        (Call::Write(write), good(&[OpReply::Write(Reply::Ok(written)), attributes.clone()]), as_written),
        (
            Call::Commit(CommitArgs3 { file: FILE, offset: 0, count: 0 }),
            good(&[OpReply::Commit(Reply::Ok(CommitOk { writeverf: [2; 8] }))]),
            Answer::Committed([2; 8]),
        ),
        (Call::Close(FILE), good(&[attributes, OpReply::Close(Reply::Ok(UNDER))]), Answer::Done),
    ] {
        with_answer(&call, &reply, |answer| assert_eq!(answer, Ok(wanted), "{call:?}"));
        // Every call knows what belongs to its reply.
        let longer = [&reply[..], &[0; 4]].concat();
        with_answer(&call, &longer, |answer| {
            let wrong = answer.unwrap_err();
            assert!(wrong.contains("4 bytes behind"), "{call:?}: {wrong}");
        });
        let old = with_answer(&call, &compound(Status::OK, 9, &[]), |answer| answer.unwrap_err());
        assert!(old.contains("answered for slot 2, call 9"), "{old}");
    }
}

#[test]
fn refusals_are_told_apart() {
    let call = Call::Getattr(GetattrArgs3 { object: FILE });
    let told = |status| {
        let reply = compound(status, 1, &[OpReply::Getattr(Reply::Err(status))]);
        with_answer(&call, &reply, |answer| answer.unwrap_err())
    };
    assert_eq!(told(Status::DELAY), "later");
    assert_eq!(told(Status::GRACE), "later");
    assert_eq!(told(Status::STALE), "NFS4ERR_STALE");
    let expired = told(Status::EXPIRED);
    assert!(expired.contains("the session is gone"), "{expired}");
}
