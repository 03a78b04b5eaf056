//! Messages of version 4 as bytes on the wire, word by word.

use std::fmt::Debug;

use nfs_wire::rpc::AuthFlavor;
use nfs_wire::v4::{attr, callback, *};
use xdr::{Decode, Encode, Malformed, Reader, Writer};

/// Asserts that `value` encodes to `bytes`, and that all of `bytes` decode to `value`.
fn both_ways<'a, T: Encode + Decode<'a> + PartialEq + Debug>(value: &T, bytes: &'a [u8]) {
    assert_eq!(value.to_bytes(), bytes);
    let mut r = Reader::new(bytes);
    assert_eq!(&T::decode(&mut r).unwrap(), value);
    assert_eq!(r.remaining(), 0);
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

const STATEID: Stateid = Stateid { seqid: 9, other: *b"abcdefghijkl" };

fn stateid() -> Vec<u8> {
    [words(&[9]), b"abcdefghijkl".to_vec()].concat()
}

#[test]
fn a_compound_is_read_operation_by_operation() {
    let head = CompoundHead { tag: b"open", minorversion: 2, operations: 3 };
    let operations = [
        Argument::Putfh(PutfhArgs { object: FileHandle(b"handle") }),
        Argument::Getfh,
        Argument::Illegal(Op(76)),
    ];
    let mut bytes = [words(&[4]), b"open".to_vec(), words(&[2, 3])].concat();
    bytes.extend([words(&[22, 6]), b"handle\0\0".to_vec(), words(&[10, 76])].concat());
    let mut out = head.to_bytes();
    operations.iter().for_each(|operation| operation.encode(&mut Writer::new(&mut out)));
    assert_eq!(out, bytes);

    let mut r = Reader::new(&bytes);
    assert_eq!(CompoundHead::decode(&mut r).unwrap(), head);
    for operation in operations {
        let op = Op::decode(&mut r).unwrap();
        assert_eq!(op, operation.op());
        assert_eq!(Argument::decode_body(op, &mut r).unwrap(), operation);
    }
    assert_eq!(r.remaining(), 0);
}

#[test]
fn status_and_count_of_a_compound_reply_are_patched() {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    CompoundReplyHead { status: Status::OK, tag: b"t", operations: 0 }.encode(&mut w);
    let count = w.len() - 4;
    OpReply::Putrootfh(Status::OK).encode(&mut w);
    OpReply::Lookup(Status::NOENT).encode(&mut w);
    w.patch_u32(0, Status::NOENT.0);
    w.patch_u32(count, 2);
    let bytes = [words(&[2, 1]), b"t\0\0\0".to_vec(), words(&[2, 24, 0, 15, 2])].concat();
    assert_eq!(out, bytes);

    let mut r = Reader::new(&out);
    let head = CompoundReplyHead::decode(&mut r).unwrap();
    assert_eq!(head, CompoundReplyHead { status: Status::NOENT, tag: b"t", operations: 2 });
    assert_eq!(OpReply::decode(&mut r).unwrap(), OpReply::Putrootfh(Status::OK));
    assert_eq!(OpReply::decode(&mut r).unwrap(), OpReply::Lookup(Status::NOENT));
    let unknown = OpReply::decode(&mut Reader::new(&[0, 0, 0, 76]));
    assert_eq!(unknown, Err(Malformed("result of an unknown operation")));
    both_ways(&OpReply::Illegal(Status::OP_ILLEGAL), &words(&[10044, 10044]));
}

/// Every number has its own arguments and a result, except 0 to 2 and those from 76 on.
#[test]
fn every_operation_has_arguments_and_a_result() {
    let long_enough = [0; 400];
    for (name, number) in Op::NAMED {
        let op = Op(*number);
        let argument = Argument::decode_body(op, &mut Reader::new(&long_enough));
        // The tags of some unions, and the directions of BIND_CONN_TO_SESSION, must not be zero.
        match argument {
            Ok(Argument::Illegal(_)) => assert_eq!(op, Op::ILLEGAL, "{name}"),
            Ok(argument) => assert_eq!(argument.op(), op),
            Err(why) => assert!(why.0.starts_with("unknown "), "{name}: {why}"),
        }
        match OpReply::decode_body(op, &mut Reader::new(&long_enough)) {
            Ok(reply) => assert_eq!(reply.op(), op),
            Err(why) => assert!(why.0.starts_with("unknown "), "{name}: {why}"),
        }
    }
    for number in [0, 1, 2, 76, 10043] {
        let argument = Argument::decode_body(Op(number), &mut Reader::new(&[]));
        assert_eq!(argument, Ok(Argument::Illegal(Op(number))));
    }
}

#[test]
fn a_bitmap_encodes_without_trailing_zero_words() {
    both_ways(&Bitmap::EMPTY, &words(&[0]));
    const SET: Bitmap = Bitmap::of(&[attr::TYPE, attr::SIZE, attr::MODE, attr::OPEN_ARGUMENTS]);
    both_ways(&SET, &words(&[3, 0x12, 2, 1 << 22]));
    assert!(SET.iter().eq([attr::TYPE, attr::SIZE, attr::MODE, attr::OPEN_ARGUMENTS]));
    assert_eq!(format!("{SET:?}"), "{1, 4, 33, 86}");

    let mut set = SET;
    set.remove(attr::OPEN_ARGUMENTS);
    set.remove(u32::MAX);
    both_ways(&set, &words(&[2, 0x12, 2]));
    assert!(SET.contains_all(&set) && !set.contains_all(&SET));
    assert_eq!(SET.without(&set), Bitmap::of(&[attr::OPEN_ARGUMENTS]));
    assert_eq!(SET & set, set);
    assert_eq!(set | Bitmap::of(&[attr::OPEN_ARGUMENTS]), SET);
    assert!(set.contains(attr::MODE) && !set.contains(attr::OWNER) && !set.contains(u32::MAX));
}

#[test]
fn a_bitmap_past_the_capacity_decodes_with_the_member_beyond() {
    let long = [words(&[10]), words(&[1; 10])].concat();
    let mut r = Reader::new(&long);
    let set = Bitmap::decode(&mut r).unwrap();
    assert_eq!(r.remaining(), 0);
    assert!(set.iter().eq((0..Bitmap::CAPACITY).step_by(32).chain([Bitmap::BEYOND])));
    let zeros = [words(&[6, 1]), words(&[0; 5])].concat();
    assert_eq!(Bitmap::decode(&mut Reader::new(&zeros)), Ok(Bitmap::of(&[0])));
    assert!(Bitmap::decode(&mut Reader::new(&long[..long.len() - 4])).is_err());
    assert!(Bitmap::decode(&mut Reader::new(&words(&[u32::MAX, 1, 2]))).is_err());
}

#[test]
fn special_stateids_encode_as_specified() {
    both_ways(&Stateid::ANONYMOUS, &[0; 16]);
    both_ways(&Stateid::READ_BYPASS, &[0xff; 16]);
    both_ways(&Stateid::CURRENT, &words(&[1, 0, 0, 0]));
    both_ways(&Stateid::INVALID, &words(&[u32::MAX, 0, 0, 0]));
}

#[test]
fn a_creating_open_by_name_encodes_as_specified() {
    let attrs = Fattr { attrmask: Bitmap::of(&[attr::MODE]), attr_vals: &[0, 0, 1, 0xa4] };
    let args = OpenArgs {
        seqid: 0,
        share_access: ShareAccess::BOTH | ShareAccess::WANT_READ_DELEG | ShareAccess::WANT_DELEG_TIMESTAMPS,
        share_deny: ShareDeny::NONE,
        owner: StateOwner { clientid: 1 << 32, owner: b"own" },
        openhow: OpenFlag::Create(CreateHow::Exclusive41(CreatVerfAttr { verf: *b"verifier", attrs })),
        claim: OpenClaim::Null(b"file"),
    };
    assert_eq!(args.share_access.access(), ShareAccess::BOTH);
    assert_eq!(args.share_access.want(), ShareAccess::WANT_READ_DELEG);
    let owner = [words(&[0, 0x0010_0103, 0, 1, 0, 3]), b"own\0".to_vec()];
    let how = [words(&[1, 3]), b"verifier".to_vec(), words(&[2, 0, 2, 4, 0o644])];
    let claim = [words(&[0, 4]), b"file".to_vec()];
    let bytes = [owner.concat(), how.concat(), claim.concat()].concat();
    both_ways(&Argument::Open(args), &[words(&[18]), bytes].concat());
}

#[test]
fn claims_of_open_encode_as_specified() {
    both_ways(&OpenClaim::Previous(DelegationType::Write), &words(&[1, 2]));
    let current = OpenClaimDelegateCur { delegate_stateid: STATEID, file: b"f" };
    let bytes = [words(&[2]), stateid(), words(&[1]), b"f\0\0\0".to_vec()].concat();
    both_ways(&OpenClaim::DelegateCur(current), &bytes);
    both_ways(&OpenClaim::DelegatePrev(b"f"), &[words(&[3, 1]), b"f\0\0\0".to_vec()].concat());
    both_ways(&OpenClaim::Fh, &words(&[4]));
    both_ways(&OpenClaim::DelegCurFh(STATEID), &[words(&[5]), stateid()].concat());
    both_ways(&OpenClaim::DelegPrevFh, &words(&[6]));
    let unknown = words(&[7]);
    assert_eq!(OpenClaim::decode(&mut Reader::new(&unknown)), Err(Malformed("unknown arm of OpenClaim")));
}

#[test]
fn open_results_encode_with_each_delegation() {
    let reply = |delegation| {
        OpenReply::Ok(OpenOk {
            stateid: STATEID,
            cinfo: ChangeInfo { atomic: true, before: 7, after: 8 },
            rflags: OpenResult::LOCKTYPE_POSIX | OpenResult::MAY_NOTIFY_LOCK,
            attrset: Bitmap::of(&[attr::SIZE]),
            delegation,
        })
    };
    let start = [words(&[0]), stateid(), words(&[1, 0, 7, 0, 8, 0x24, 1, 0x10])].concat();
    let permissions = attr::Ace {
        acetype: attr::AceType::ACCESS_ALLOWED,
        flag: attr::AceFlag::IDENTIFIER_GROUP,
        access_mask: attr::AceMask::GENERIC_READ,
        who: b"me@x",
    };
    let ace = [words(&[0, 0x40, 0x0012_0081, 4]), b"me@x".to_vec()].concat();
    let read = ReadDelegation { stateid: STATEID, recall: false, permissions };
    let read_bytes = [stateid(), words(&[0]), ace.clone()].concat();
    let write =
        WriteDelegation { stateid: STATEID, recall: true, space_limit: SpaceLimit::Size(5), permissions };
    let write_bytes = [stateid(), words(&[1, 1, 0, 5]), ace].concat();
    let other = NoDelegation::Other(WhyNoDelegation::IS_DIR);
    for (delegation, bytes) in [
        (OpenDelegation::None, words(&[0])),
        (OpenDelegation::Read(read), [words(&[1]), read_bytes.clone()].concat()),
        (OpenDelegation::Write(write), [words(&[2]), write_bytes.clone()].concat()),
        (OpenDelegation::NoneExt(NoDelegation::Contention(true)), words(&[3, 1, 1])),
        (OpenDelegation::NoneExt(NoDelegation::Resource(false)), words(&[3, 2, 0])),
        (OpenDelegation::NoneExt(other), words(&[3, 8])),
        (OpenDelegation::ReadAttrs(read), [words(&[4]), read_bytes].concat()),
        (OpenDelegation::WriteAttrs(write), [words(&[5]), write_bytes].concat()),
    ] {
        both_ways(&reply(delegation), &[start.clone(), bytes].concat());
    }
    both_ways(&OpenReply::Err(Status::GRACE), &words(&[10013]));
}

#[test]
fn locks_and_denials_encode_as_specified() {
    let owner = StateOwner { clientid: 2, owner: b"proc" };
    let owner_bytes = [words(&[0, 2, 4]), b"proc".to_vec()].concat();
    let args = |locker| LockArgs {
        locktype: LockType::WriteWait,
        reclaim: false,
        offset: 3,
        length: u64::MAX,
        locker,
    };
    let start = words(&[4, 0, 0, 3, u32::MAX, u32::MAX]);
    let new = OpenToLockOwner { open_seqid: 5, open_stateid: STATEID, lock_seqid: 6, lock_owner: owner };
    let new_bytes = [words(&[1, 5]), stateid(), words(&[6]), owner_bytes.clone()].concat();
    both_ways(&args(Locker::New(new)), &[start.clone(), new_bytes].concat());
    let existing = ExistLockOwner { lock_stateid: STATEID, lock_seqid: 6 };
    both_ways(&args(Locker::Existing(existing)), &[start, words(&[0]), stateid(), words(&[6])].concat());

    let denied = LockDenied { offset: 1, length: 2, locktype: LockType::Read, owner };
    let denied_bytes = [words(&[10010, 0, 1, 0, 2, 1]), owner_bytes].concat();
    both_ways(&LockReply::Ok(STATEID), &[words(&[0]), stateid()].concat());
    both_ways(&LockReply::Denied(denied), &denied_bytes);
    both_ways(&LocktReply::Denied(denied), &denied_bytes);
    both_ways(&LocktReply::Ok, &words(&[0]));
    both_ways(&LockReply::Err(Status::DEADLOCK), &words(&[10045]));
}

#[test]
fn data_and_its_heads_encode_to_the_same_bytes() {
    let args = WriteArgs { stateid: STATEID, offset: 8, stable: StableHow::FileSync, data: b"abc" };
    let head = words(&[0, 8, 2, 3]);
    let bytes = [stateid(), head, b"abc\0".to_vec()].concat();
    both_ways(&args, &bytes);
    let head = WriteHead { stateid: STATEID, offset: 8, stable: StableHow::FileSync, data_length: 3 };
    both_ways(&head, &bytes[..WriteHead::SIZE]);

    let reply = ReadReply::Ok(ReadOk { eof: true, data: b"abc" });
    let bytes = [words(&[0, 1, 3]), b"abc\0".to_vec()].concat();
    both_ways(&reply, &bytes);
    both_ways(&ReadOkHead { eof: true, data_length: 3 }, &bytes[4..12]);

    let contents = vec![
        ReadPlusContent::Hole(DataInfo { offset: 0, length: 4 }),
        ReadPlusContent::Data(Data { offset: 4, data: b"abc" }),
    ];
    let bytes = [words(&[1, 2, 1, 0, 0, 0, 4, 0, 0, 4, 3]), b"abc\0".to_vec()].concat();
    both_ways(&ReadPlusOk { eof: true, contents }, &bytes);
    both_ways(&ReadPlusOkHead { eof: true, contents_length: 2 }, &bytes[..8]);
    let head = ReadPlusDataHead { content: DataContent::Data, offset: 4, data_length: 3 };
    both_ways(&head, &bytes[28..44]);
}

#[test]
fn a_directory_is_written_entry_by_entry_and_read_without_copying() {
    let attrs = Fattr { attrmask: Bitmap::of(&[attr::FILEID]), attr_vals: &[0, 0, 0, 0, 0, 0, 0, 7] };
    let entries =
        [Entry { cookie: 3, name: b"a", attrs }, Entry { cookie: 4, name: b"file", attrs: Fattr::default() }];
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    Status::OK.encode(&mut w);
    ReaddirOkHead { cookieverf: *b"verifier" }.encode(&mut w);
    entries.iter().for_each(|&entry| Some(entry).encode(&mut w));
    DirListEnd { eof: true }.encode(&mut w);
    let first = [words(&[1, 0, 3, 1]), b"a\0\0\0".to_vec(), words(&[1, 1 << 20, 8, 0, 7])].concat();
    let second = [words(&[1, 0, 4, 4]), b"file".to_vec(), words(&[0, 0])].concat();
    let bytes = [words(&[0]), b"verifier".to_vec(), first, second, words(&[0, 1])].concat();
    assert_eq!(out, bytes);
    let Reply::Ok(ok) = ReaddirReply::decode(&mut Reader::new(&bytes)).unwrap() else { panic!("not OK") };
    assert!(ok.entries.iter().eq(entries) && ok.eof);
}

#[test]
fn a_failed_setattr_reports_the_attributes_set() {
    let reply = SetattrReply { status: Status::INVAL, attrsset: Bitmap::of(&[attr::SIZE]) };
    both_ways(&OpReply::Setattr(reply), &words(&[34, 22, 1, 0x10]));
}

#[test]
fn every_kind_of_create_encodes_as_specified() {
    let device = SpecData { specdata1: 8, specdata2: 1 };
    both_ways(&CreateType::Symlink(b"to"), &[words(&[5, 2]), b"to\0\0".to_vec()].concat());
    both_ways(&CreateType::BlockDevice(device), &words(&[3, 8, 1]));
    both_ways(&CreateType::CharDevice(device), &words(&[4, 8, 1]));
    both_ways(&CreateType::Directory, &words(&[2]));
    both_ways(&CreateType::Socket, &words(&[6]));
    both_ways(&CreateType::Fifo, &words(&[7]));
    both_ways(&CreateType::Other(1), &words(&[1]));
}

#[test]
fn session_creation_encodes_as_specified() {
    let owner = ClientOwner { verifier: *b"verifier", ownerid: b"me" };
    let date = NfsTime { seconds: -1, nseconds: 5 };
    let id = ExchangeIdArgs {
        clientowner: owner,
        flags: ExchangeIdFlags::SUPP_MOVED_REFER | ExchangeIdFlags::CONFIRMED_R,
        state_protect: StateProtect::MachCred(StateProtectOps {
            must_enforce: Bitmap::of(&[Op::EXCHANGE_ID.0]),
            must_allow: Bitmap::EMPTY,
        }),
        client_impl_id: Some(ImplId { domain: b"kern", name: b"", date }),
    };
    let owner = [b"verifier".to_vec(), words(&[2]), b"me\0\0".to_vec()].concat();
    let protect = words(&[0x8000_0001, 1, 2, 0, 1 << 10, 0]);
    let impl_id = [words(&[1, 4]), b"kern".to_vec(), words(&[0, u32::MAX, u32::MAX, 5])].concat();
    both_ways(&id, &[owner, protect, impl_id].concat());

    let fore = ChannelAttrs {
        headerpadsize: 1,
        maxrequestsize: 2,
        maxresponsesize: 3,
        maxresponsesize_cached: 4,
        maxoperations: 5,
        maxrequests: 6,
        rdma_ird: None,
    };
    let back = ChannelAttrs { rdma_ird: Some(7), ..fore };
    let session = CreateSessionArgs {
        clientid: 10,
        sequence: 11,
        flags: CreateSessionFlags::CONN_BACK_CHAN,
        fore_chan_attrs: fore,
        back_chan_attrs: back,
        cb_program: callback::PROGRAM,
        sec_parms: vec![CallbackSecParms::None],
    };
    let bytes = words(&[0, 10, 11, 2, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 1, 7, 0x4000_0000, 1, 0]);
    both_ways(&session, &bytes);
}

#[test]
fn sequence_encodes_and_decodes() {
    let sessionid = *b"0123456789abcdef";
    let args = SequenceArgs { sessionid, sequenceid: 1, slotid: 2, highest_slotid: 3, cachethis: true };
    both_ways(&args, &[sessionid.to_vec(), words(&[1, 2, 3, 1])].concat());
    let reply = SequenceReply::Ok(SequenceOk {
        sessionid,
        sequenceid: 1,
        slotid: 2,
        highest_slotid: 3,
        target_highest_slotid: 4,
        status_flags: SequenceStatus::CB_PATH_DOWN,
    });
    both_ways(&reply, &[words(&[0]), sessionid.to_vec(), words(&[1, 2, 3, 4, 1])].concat());
}

#[test]
fn version_4_0_clients_encode_as_specified() {
    let args = SetclientidArgs {
        client: NfsClientId { verifier: *b"verifier", id: b"id" },
        callback: CbClient {
            cb_program: 0x4000_0001,
            cb_location: NetAddr { r_netid: b"tcp", r_addr: b"1.2.3.4.8.1" },
        },
        callback_ident: 6,
    };
    let address = [words(&[3]), b"tcp\0".to_vec(), words(&[11]), b"1.2.3.4.8.1\0".to_vec()].concat();
    let client = [b"verifier".to_vec(), words(&[2]), b"id\0\0".to_vec(), words(&[0x4000_0001])].concat();
    both_ways(&args, &[client, address.clone(), words(&[6])].concat());
    let in_use = SetclientidReply::InUse(args.callback.cb_location);
    both_ways(&in_use, &[words(&[10017]), address].concat());
    let ok = SetclientidReply::Ok(SetclientidOk { clientid: 5, setclientid_confirm: *b"confirms" });
    both_ways(&ok, &[words(&[0, 0, 5]), b"confirms".to_vec()].concat());
    both_ways(&SetclientidReply::Err(Status::DELAY), &words(&[10008]));
}

#[test]
fn security_flavors_encode_as_specified() {
    let gss = RpcsecGssInfo { oid: b"oid", qop: 0, service: GssService::Privacy };
    let reply = SecinfoReply::Ok(SecinfoOk(vec![Secinfo::RpcsecGss(gss), Secinfo::Flavor(AuthFlavor::SYS)]));
    let bytes = [words(&[0, 2, 6, 3]), b"oid\0".to_vec(), words(&[0, 3, 1])].concat();
    both_ways(&reply, &bytes);
}

#[test]
fn copies_and_their_callbacks_encode_as_specified() {
    let response = WriteResponse {
        callback_id: Some(STATEID),
        count: 3,
        committed: StableHow::Unstable,
        writeverf: *b"verifier",
    };
    let response_bytes = [words(&[1]), stateid(), words(&[0, 3, 0]), b"verifier".to_vec()].concat();
    let requirements = CopyRequirements { consecutive: true, synchronous: false };
    let ok = CopyReply::Ok(CopyOk { response, requirements });
    both_ways(&ok, &[words(&[0]), response_bytes.clone(), words(&[1, 0])].concat());
    both_ways(&CopyReply::NoReqs(requirements), &words(&[10094, 1, 0]));
    both_ways(&CopyReply::Err(Status::NOTSUPP), &words(&[10004]));

    let args = |offload_info| {
        callback::Argument::Offload(callback::OffloadArgs {
            fh: FileHandle(b"file"),
            stateid: STATEID,
            offload_info,
        })
    };
    let start = [words(&[15, 4]), b"file".to_vec(), stateid()].concat();
    let ok = callback::OffloadInfo::Ok(response);
    both_ways(&args(ok), &[start.clone(), words(&[0]), response_bytes].concat());
    let err = callback::OffloadInfo::Err(Status::IO, 4096);
    both_ways(&args(err), &[start, words(&[5, 0, 4096])].concat());
}

#[test]
fn callback_compounds_encode_as_specified() {
    let head = callback::CompoundHead { tag: b"", minorversion: 1, callback_ident: 0, operations: 2 };
    both_ways(&head, &words(&[0, 1, 0, 2]));
    let sessionid = *b"0123456789abcdef";
    let calls = callback::ReferringCallList {
        sessionid,
        referring_calls: vec![callback::ReferringCall { sequenceid: 5, slotid: 6 }],
    };
    let sequence = callback::Argument::Sequence(callback::SequenceArgs {
        sessionid,
        sequenceid: 1,
        slotid: 2,
        highest_slotid: 3,
        cachethis: false,
        referring_call_lists: vec![calls],
    });
    let start = [words(&[11]), sessionid.to_vec(), words(&[1, 2, 3, 0, 1])].concat();
    both_ways(&sequence, &[start, sessionid.to_vec(), words(&[1, 5, 6])].concat());
    let recall = callback::RecallArgs { stateid: STATEID, truncate: true, fh: FileHandle(b"fh") };
    let bytes = [words(&[4]), stateid(), words(&[1, 2]), b"fh\0\0".to_vec()].concat();
    both_ways(&callback::Argument::Recall(recall), &bytes);
    both_ways(&callback::Argument::Illegal(callback::Op::NOTIFY), &words(&[6]));
    both_ways(&callback::OpReply::Recall(Status::BADHANDLE), &words(&[4, 10001]));
    both_ways(&callback::OpReply::Notify(Status::NOTSUPP), &words(&[6, 10004]));
}

#[test]
fn extended_attributes_encode_as_specified() {
    let args = SetxattrArgs { option: SetxattrOption::Create, key: b"user", value: XattrValue(b"value") };
    let bytes = [words(&[1, 4]), b"user".to_vec(), words(&[5]), b"value\0\0\0".to_vec()].concat();
    both_ways(&args, &bytes);
    let names = vec![Component(b"a"), Component(b"bc")];
    let reply = ListxattrsReply::Ok(ListxattrsOk { cookie: 2, names, eof: true });
    let bytes = [words(&[0, 0, 2, 2, 1]), b"a\0\0\0".to_vec(), words(&[2]), b"bc\0\0".to_vec(), words(&[1])];
    both_ways(&reply, &bytes.concat());
}

#[test]
fn attribute_values_encode_as_specified() {
    both_ways(&attr::SetTime::ServerTime, &words(&[0]));
    let time = NfsTime { seconds: 1 << 32, nseconds: 9 };
    both_ways(&attr::SetTime::ClientTime(time), &words(&[1, 1, 0, 9]));
    let location = attr::FsLocation {
        server: vec![Text(b"host")],
        rootpath: attr::Pathname(vec![Component(b"a"), Component(b"b")]),
    };
    let locations = attr::FsLocations { fs_root: attr::Pathname::default(), locations: vec![location] };
    let path = [words(&[2, 1]), b"a\0\0\0".to_vec(), words(&[1]), b"b\0\0\0".to_vec()].concat();
    both_ways(&locations, &[words(&[0, 1, 1, 4]), b"host".to_vec(), path].concat());
    assert_eq!(attr::name(attr::XATTR_SUPPORT), Some("FATTR4_XATTR_SUPPORT"));
    assert_eq!(attr::name(87), None);
}

#[test]
fn handles_and_names_are_bounded() {
    let handle = [0; 128];
    both_ways(&FileHandle(&handle), &[words(&[128]), handle.to_vec()].concat());
    let longer = [words(&[129]), vec![0; 132]].concat();
    assert_eq!(FileHandle::decode(&mut Reader::new(&longer)), Err(Malformed("opaque above its bound")));
    let name = [b'x'; 300];
    both_ways(&LookupArgs { objname: &name }, &[words(&[300]), name.to_vec()].concat());
}
