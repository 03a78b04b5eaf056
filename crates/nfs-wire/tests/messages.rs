//! Messages as bytes on the wire, word by word.

use std::fmt::Debug;

use nfs_wire::{mount, nlm, nsm, portmap, rpc::*, rquota, v3::*};
use xdr::{Decode, Encode, Inline, List, Malformed, Reader, Writer};

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

/// Attributes whose every word differs, and their wire form.
fn attributes() -> (Fattr, Vec<u8>) {
    let time = |seconds| NfsTime { seconds, nseconds: seconds + 1 };
    let fattr = Fattr {
        ftype: FileType::Regular,
        mode: 0o644,
        nlink: 2,
        uid: 3,
        gid: 4,
        size: 0x0000_0005_0000_0006,
        used: 0x0000_0007_0000_0008,
        rdev: SpecData { specdata1: 9, specdata2: 10 },
        fsid: 0x0000_000b_0000_000c,
        fileid: 0x0000_000d_0000_000e,
        atime: time(15),
        mtime: time(17),
        ctime: time(19),
    };
    let mut bytes = words(&[1, 0o644]);
    bytes.extend(words(&(2..=20).collect::<Vec<_>>()));
    (fattr, bytes)
}

#[test]
fn attributes_are_21_words_in_order() {
    let (fattr, bytes) = attributes();
    assert_eq!(bytes.len(), Fattr::SIZE);
    both_ways(&fattr, &bytes);
}

#[test]
fn a_read_call_decodes_from_header_to_arguments() {
    let credential = AuthSys {
        stamp: 0x11,
        machinename: b"ship",
        uid: 1000,
        gid: 100,
        gids: Inline::new(&[100, 27]).unwrap(),
    };
    let body = [words(&[0x11, 4]), b"ship".to_vec(), words(&[1000, 100, 2, 100, 27])].concat();
    both_ways(&credential, &body);

    let header = CallHeader {
        xid: 0xfeed,
        rpcvers: RPC_VERSION,
        prog: PROGRAM,
        vers: VERSION,
        proc: Procedure::READ.0,
        cred: OpaqueAuth { flavor: AuthFlavor::SYS, body: &body },
        verf: OpaqueAuth::default(),
    };
    let bytes = [words(&[0xfeed, 0, 2, 100_003, 3, 6, 1, 32]), body.clone(), words(&[0, 0])].concat();
    both_ways(&header, &bytes);

    let args = ReadArgs { file: FileHandle(b"handle"), offset: 1 << 32, count: 4096 };
    both_ways(&args, &[words(&[6]), b"handle\0\0".to_vec(), words(&[1, 0, 4096])].concat());
}

#[test]
fn a_call_of_another_rpc_version_decodes_to_xid_and_version() {
    let bytes = words(&[7, 0, 3]);
    let header = CallHeader::decode(&mut Reader::new(&bytes)).unwrap();
    assert_eq!(header, CallHeader { xid: 7, rpcvers: 3, ..CallHeader::default() });
    let reply = words(&[7, 1, 2]);
    assert_eq!(CallHeader::decode(&mut Reader::new(&reply)), Err(Malformed("not a call")));
}

#[test]
fn reply_headers_encode_as_specified() {
    let none = OpaqueAuth::default();
    let accepted = |stat| ReplyHeader { xid: 7, body: ReplyBody::Accepted(none, stat) };
    let denied = |why| ReplyHeader { xid: 7, body: ReplyBody::Denied(why) };
    both_ways(&accepted(Accepted::Success), &words(&[7, 1, 0, 0, 0, 0]));
    assert_eq!(ReplyHeader::success(7).as_slice(), accepted(Accepted::Success).to_bytes());
    both_ways(&accepted(Accepted::ProgUnavail), &words(&[7, 1, 0, 0, 0, 1]));
    let mismatch = Accepted::ProgMismatch(Versions { low: 3, high: 4 });
    both_ways(&accepted(mismatch), &words(&[7, 1, 0, 0, 0, 2, 3, 4]));
    both_ways(&accepted(Accepted::ProcUnavail), &words(&[7, 1, 0, 0, 0, 3]));
    both_ways(&accepted(Accepted::GarbageArgs), &words(&[7, 1, 0, 0, 0, 4]));
    both_ways(&accepted(Accepted::SystemErr), &words(&[7, 1, 0, 0, 0, 5]));
    both_ways(&denied(Rejected::RpcMismatch(Versions { low: 2, high: 2 })), &words(&[7, 1, 1, 0, 2, 2]));
    both_ways(&denied(Rejected::AuthError(AuthStat::TOOWEAK)), &words(&[7, 1, 1, 1, 5]));
}

#[test]
fn a_record_mark_is_a_bit_and_a_length() {
    let mark = RecordMark { last: true, length: 0x1234 };
    assert_eq!(mark.to_word(), 0x8000_1234);
    assert_eq!(RecordMark::from_word(0x8000_1234), mark);
    assert_eq!(RecordMark::from_word(0x7fff_ffff), RecordMark { last: false, length: 0x7fff_ffff });
}

#[test]
fn a_read_reply_and_its_head_encode_to_the_same_bytes() {
    let (fattr, attributes) = attributes();
    let reply: ReadReply<'_> =
        Reply::Ok(ReadOk { file_attributes: Some(fattr), count: 5, eof: true, data: b"12345" });
    let bytes = [words(&[0, 1]), attributes, words(&[5, 1, 5]), b"12345\0\0\0".to_vec()].concat();
    both_ways(&reply, &bytes);

    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    Status::OK.encode(&mut w);
    ReadOkHead { file_attributes: Some(fattr), count: 5, eof: true, data_length: 5 }.encode(&mut w);
    w.buffer().extend_from_slice(b"12345");
    w.pad(5);
    assert_eq!(out, bytes);

    let fail: ReadReply<'_> = Reply::Err(Status::STALE, ReadFail { file_attributes: None });
    both_ways(&fail, &words(&[70, 0]));
    both_ways(&GetattrReply::Err(Status(12345), ()), &words(&[12345]));
}

#[test]
fn write_calls_and_replies_encode_as_specified() {
    let args = WriteArgs {
        file: FileHandle(b"fhfh"),
        offset: 8,
        count: 3,
        stable: StableHow::FileSync,
        data: b"abc",
    };
    let bytes = [words(&[4]), b"fhfh".to_vec(), words(&[0, 8, 3, 2, 3]), b"abc\0".to_vec()].concat();
    both_ways(&args, &bytes);

    let before = WccAttr { size: 9, ..WccAttr::default() };
    let file_wcc = WccData { before: Some(before), after: None };
    let reply =
        WriteReply::Ok(WriteOk { file_wcc, count: 3, committed: StableHow::DataSync, verf: *b"verifier" });
    let bytes = [words(&[0, 1, 0, 9, 0, 0, 0, 0, 0, 3, 1]), b"verifier".to_vec()].concat();
    both_ways(&reply, &bytes);
}

#[test]
fn unions_of_create_mknod_and_setattr_encode_as_specified() {
    let place = DirOpArgs { dir: FileHandle(b""), name: b"n" };
    let start = [words(&[0, 1]), b"n\0\0\0".to_vec()].concat();
    let create = |how| CreateArgs { place, how };
    let sattr = Sattr {
        mode: Some(0o600),
        size: Some(1),
        atime: SetTime::ServerTime,
        mtime: SetTime::ClientTime(NfsTime { seconds: 5, nseconds: 6 }),
        ..Sattr::default()
    };
    let sattr_words = [1, 0o600, 0, 0, 1, 0, 1, 1, 2, 5, 6];
    both_ways(
        &create(CreateHow::Guarded(sattr)),
        &[start.clone(), words(&[1]), words(&sattr_words)].concat(),
    );
    let exclusive = [start.clone(), words(&[2]), b"verifier".to_vec()].concat();
    both_ways(&create(CreateHow::Exclusive(*b"verifier")), &exclusive);
    let unknown = [start.clone(), words(&[3])].concat();
    let refused = CreateArgs::decode(&mut Reader::new(&unknown));
    assert_eq!(refused, Err(Malformed("unknown arm of CreateHow")));

    let device = DeviceData { dev_attributes: sattr, spec: SpecData { specdata1: 8, specdata2: 1 } };
    let mknod = MknodArgs { place, what: MknodData::BlockDevice(device) };
    both_ways(&mknod, &[start.clone(), words(&[3]), words(&sattr_words), words(&[8, 1])].concat());
    both_ways(&MknodArgs { place, what: MknodData::Other(1) }, &[start, words(&[1])].concat());

    let guard = Some(NfsTime { seconds: 1, nseconds: 2 });
    let setattr = SetattrArgs { object: FileHandle(b""), new_attributes: Sattr::default(), guard };
    both_ways(&setattr, &words(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2]));
}

#[test]
fn a_directory_is_written_entry_by_entry_and_read_without_copying() {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    Status::OK.encode(&mut w);
    ReaddirOkHead { dir_attributes: None, cookieverf: *b"verifier" }.encode(&mut w);
    let entries =
        [Entry { fileid: 1, name: b".", cookie: 1 }, Entry { fileid: 9, name: b"a file", cookie: 2 }];
    entries.iter().for_each(|&entry| Some(entry).encode(&mut w));
    let full = w.len();
    Some(Entry { fileid: 10, name: b"does not fit", cookie: 3 }).encode(&mut w);
    w.truncate(full);
    DirListEnd { eof: false }.encode(&mut w);
    assert_eq!(out.len(), full + DirListEnd::SIZE);

    let list =
        [words(&[1, 0, 1, 1]), b".\0\0\0".to_vec(), words(&[0, 1, 1, 0, 9, 6]), b"a file\0\0".to_vec()];
    let bytes =
        [words(&[0, 0]), b"verifier".to_vec(), list.concat(), words(&[0, 2]), words(&[0, 0])].concat();
    assert_eq!(out, bytes);

    let reply = ReaddirReply::decode(&mut Reader::new(&out)).unwrap();
    let Reply::Ok(ok) = reply else { panic!("{reply:?}") };
    assert!(ok.entries.iter().eq(entries));
    assert!(!ok.eof);
    assert!(ReaddirReply::decode(&mut Reader::new(&out[..out.len() - 4])).is_err());
}

#[test]
fn directories_with_attributes_and_handles_encode_as_specified() {
    let (fattr, attributes) = attributes();
    let entry = EntryPlus {
        fileid: 1,
        name: b"name",
        cookie: 2,
        name_attributes: Some(fattr),
        name_handle: Some(FileHandle(b"h")),
    };
    let tail = [words(&[1, 1]), b"h\0\0\0".to_vec()].concat();
    both_ways(&entry, &[words(&[0, 1, 4]), b"name".to_vec(), words(&[0, 2, 1]), attributes, tail].concat());
}

#[test]
fn long_names_decode_and_long_handles_do_not() {
    let long = [b'x'; 300];
    let lookup = LookupArgs { what: DirOpArgs { dir: FileHandle(b""), name: &long } };
    both_ways(&lookup, &[words(&[0, 300]), long.to_vec()].concat());
    let handle = [words(&[65]), vec![0; 68]].concat();
    let refused = GetattrArgs::decode(&mut Reader::new(&handle));
    assert_eq!(refused, Err(Malformed("opaque above its bound")));
    let groups = [words(&[0, 0, 0, 0, 17]), vec![0; 68]].concat();
    assert_eq!(AuthSys::decode(&mut Reader::new(&groups)), Err(Malformed("array above its bound")));
    let credential = [words(&[1, 401]), vec![0; 404]].concat();
    assert!(OpaqueAuth::decode(&mut Reader::new(&credential)).is_err());
}

#[test]
fn mount_replies_encode_as_specified() {
    let auth_flavors = vec![AuthFlavor::SYS, AuthFlavor::NONE];
    let ok = mount::MountReply::Ok(mount::MountOk { fhandle: b"root", auth_flavors });
    both_ways(&ok, &[words(&[0, 4]), b"root".to_vec(), words(&[2, 1, 0])].concat());
    both_ways(&mount::MountReply::Err(mount::Status::ACCES), &words(&[13]));
    both_ways(&mount::FhStatus::Err(2), &words(&[2]));
    both_ways(&mount::FhStatus::Ok([7; 32]), &[words(&[0]), vec![7; 32]].concat());

    let node = |dir, groups: &[&'static [u8]]| mount::ExportNode {
        dir,
        groups: List(groups.iter().map(|&name| mount::GroupNode(name)).collect()),
    };
    let exports: mount::Exports<'_> = List(vec![node(b"/a", &[b"host"]), node(b"/b", &[])]);
    let first = [words(&[1, 2]), b"/a\0\0".to_vec(), words(&[1, 4]), b"host".to_vec(), words(&[0])].concat();
    both_ways(&exports, &[first, words(&[1, 2]), b"/b\0\0".to_vec(), words(&[0, 0])].concat());

    let mounts: mount::MountList<'_> = List(vec![mount::MountBody { hostname: b"host", directory: b"/a" }]);
    let bytes = [words(&[1, 4]), b"host".to_vec(), words(&[2]), b"/a\0\0".to_vec(), words(&[0])].concat();
    both_ways(&mounts, &bytes);
}

#[test]
fn portmap_and_rpcbind_encode_as_specified() {
    let mapping = portmap::Mapping { prog: PROGRAM, vers: 3, prot: portmap::IPPROTO_TCP, port: 2049 };
    both_ways(&mapping, &words(&[100_003, 3, 6, 2049]));
    let mappings: portmap::MappingList = List(vec![mapping]);
    both_ways(&mappings, &words(&[1, 100_003, 3, 6, 2049, 0]));

    let rpcb = portmap::Rpcb { prog: 1, vers: 2, netid: b"tcp", addr: b"0.0.0.0.8.1", owner: b"" };
    let addr = [words(&[11]), b"0.0.0.0.8.1\0".to_vec()].concat();
    both_ways(&rpcb, &[words(&[1, 2, 3]), b"tcp\0".to_vec(), addr.clone(), words(&[0])].concat());
    both_ways(&portmap::Uaddr(b"0.0.0.0.8.1"), &addr);

    let entry = portmap::RpcbEntry {
        maddr: b"0.0.0.0.8.1",
        nc_netid: b"tcp",
        nc_semantics: portmap::Semantics::COTS_ORD,
        nc_protofmly: b"inet",
        nc_proto: b"tcp",
    };
    let tcp = [words(&[3]), b"tcp\0".to_vec()].concat();
    let inet = [words(&[4]), b"inet".to_vec()].concat();
    let list: portmap::RpcbEntryList<'_> = List(vec![entry]);
    both_ways(&list, &[words(&[1]), addr, tcp.clone(), words(&[3]), inet, tcp, words(&[0])].concat());
}

#[test]
fn lock_offsets_have_the_width_of_their_version() {
    let lock = |l_offset: u64, l_len: u64| nlm::Lock {
        caller_name: b"host",
        fh: nlm::Object(b"file"),
        oh: nlm::Object(b"7@h"),
        svid: 7,
        l_offset,
        l_len,
    };
    let named =
        [words(&[4]), b"host".to_vec(), words(&[4]), b"file".to_vec(), words(&[3]), b"7@h\0".to_vec()];
    let named = named.concat();
    let wide = [named.clone(), words(&[7, 1, 2, 0, 3])].concat();
    both_ways(&lock((1 << 32) + 2, 3), &wide);
    let nlm::Lock { caller_name, fh, oh, svid, .. } = lock(0, 0);
    let narrow = nlm::Lock { caller_name, fh, oh, svid, l_offset: 2u32, l_len: 3 };
    both_ways(&narrow, &[named, words(&[7, 2, 3])].concat());

    let cookie = nlm::Object(b"ck");
    let asked = [words(&[2]), b"ck\0\0".to_vec(), words(&[1, 0]), wide, words(&[1, 9])].concat();
    let alock = lock((1 << 32) + 2, 3);
    both_ways(
        &nlm::LockArgs { cookie, block: true, exclusive: false, alock, reclaim: true, state: 9 },
        &asked,
    );
    let holder = nlm::Holder { exclusive: true, svid: 7, oh: nlm::Object(b"o"), l_offset: 1u64, l_len: 0 };
    let denied = nlm::TestReply { cookie, stat: nlm::TestStatus::Denied(holder) };
    let bytes =
        [words(&[2]), b"ck\0\0".to_vec(), words(&[1, 1, 7, 1]), b"o\0\0\0".to_vec(), words(&[0, 1, 0, 0])];
    both_ways(&denied, &bytes.concat());
    let granted = nlm::TestReply::<u64> { cookie, stat: nlm::TestStatus::Other(nlm::Status::GRANTED) };
    both_ways(&granted, &[words(&[2]), b"ck\0\0".to_vec(), words(&[0])].concat());
}

#[test]
fn status_monitor_messages_encode_as_specified() {
    let change = nsm::StatusChange { mon_name: b"host", state: 5 };
    both_ways(&change, &[words(&[4]), b"host".to_vec(), words(&[5])].concat());
    both_ways(&nsm::StatReply { res_stat: nsm::Monitored::NO, state: 3 }, &words(&[1, 3]));
    let my_id = nsm::MyId { my_name: b"me", my_prog: 1, my_vers: 2, my_proc: 3 };
    let mon_id = nsm::MonitorId { mon_name: b"host", my_id };
    let bytes = [words(&[4]), b"host".to_vec(), words(&[2]), b"me\0\0".to_vec(), words(&[1, 2, 3])].concat();
    both_ways(&nsm::MonitorArgs { mon_id, private: [7; 16] }, &[bytes, vec![7; 16]].concat());
}

#[test]
fn quota_messages_encode_as_specified() {
    let path = [words(&[2]), b"/e\0\0".to_vec()].concat();
    both_ways(&rquota::GetArgs { path: b"/e", uid: 7 }, &[path.clone(), words(&[7])].concat());
    let asked = rquota::ExtGetArgs { path: b"/e", kind: rquota::TYPE_GROUP, id: 7 };
    both_ways(&asked, &[path.clone(), words(&[1, 7])].concat());
    let limits = rquota::SetLimits {
        block_hard: 1,
        block_soft: 2,
        blocks: 3,
        file_hard: 4,
        file_soft: 5,
        files: 6,
        block_seconds_left: 7,
        file_seconds_left: 8,
    };
    let (counts, command) = (words(&[1, 2, 3, 4, 5, 6, 7, 8]), words(&[9]));
    let set = rquota::SetArgs { command: 9, path: b"/e", uid: 10, limits };
    both_ways(&set, &[command.clone(), path.clone(), words(&[10]), counts.clone()].concat());
    let set = rquota::ExtSetArgs { command: 9, path: b"/e", id: 10, kind: 1, limits };
    both_ways(&set, &[command, path, words(&[10, 1]), counts].concat());
    let quota = rquota::Quota {
        block_bytes: 1024,
        active: true,
        block_hard: 1,
        block_soft: 2,
        blocks: 3,
        file_hard: 4,
        file_soft: 5,
        files: 6,
        block_seconds_left: 7,
        file_seconds_left: 8,
    };
    both_ways(&rquota::QuotaReply::Ok(quota), &words(&[1, 1024, 1, 1, 2, 3, 4, 5, 6, 7, 8]));
    both_ways(&rquota::QuotaReply::Err(rquota::Status::PERM), &words(&[3]));
}
