//! CREATE, READ, WRITE, FLUSH and CLOSE.

use crate::rig::{Opening, Rig, write};
use smb_wire::create::{CreateAction, CreateDisposition, CreateOptions, CreateResponse, ShareAccess};
use smb_wire::file::{CloseFlags, CloseRequest, CloseResponse, FlushRequest, WriteResponse};
use smb_wire::header::Command;
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{FileId, FileTime, NtStatus};

const MIB: u32 = 1 << 20;

#[test]
fn dispositions_have_specified_actions() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let missing = Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    let table = [
        (CreateDisposition::SUPERSEDE, Ok(CreateAction::CREATED), Ok(CreateAction::SUPERSEDED), ""),
        (CreateDisposition::OPEN, missing, Ok(CreateAction::OPENED), "data"),
        (CreateDisposition::CREATE, Ok(CreateAction::CREATED), Err(NtStatus::OBJECT_NAME_COLLISION), "data"),
        (CreateDisposition::OPEN_IF, Ok(CreateAction::CREATED), Ok(CreateAction::OPENED), "data"),
        (CreateDisposition::OVERWRITE, missing, Ok(CreateAction::OVERWRITTEN), ""),
        (CreateDisposition::OVERWRITE_IF, Ok(CreateAction::CREATED), Ok(CreateAction::OVERWRITTEN), ""),
    ];
    for (disposition, of_none, of_one, left) in table {
        let (none, one) = (format!("none{}", disposition.0), format!("one{}", disposition.0));
        assert_eq!(client.action(&none, Opening::by(disposition)), of_none, "{disposition:?} of nothing");
        client.put(&one, b"data");
        assert_eq!(client.action(&one, Opening::by(disposition)), of_one, "{disposition:?} of a file");
        let file = client.open(&one, Opening::by(CreateDisposition::OPEN));
        match left {
            "" => client.read(file, 0, 10).assert_refused(NtStatus::END_OF_FILE),
            left => assert_eq!(client.data(file, 0, 10), left.as_bytes()),
        }
    }
    let unknown = Opening::by(CreateDisposition(6));
    assert_eq!(client.action("file", unknown), Err(NtStatus::INVALID_PARAMETER));
}

#[test]
fn create_reply_has_file_attributes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"12345");
    let reply = client.create("file", Opening::by(CreateDisposition::OPEN));
    let created: CreateResponse<'_> = reply.body();
    let now = FileTime::from_unix(crate::rig::NOW.seconds, 0);
    assert_eq!((created.creation_time, created.last_write_time, created.change_time), (now, now, now));
    assert_eq!((created.end_of_file, created.file_attributes), (5, FileAttributes::ARCHIVE));
    assert!(created.allocation_size >= 5 && created.contexts.0.is_empty());
    let flags = CloseFlags::POSTQUERY_ATTRIB;
    let closed = client.call(Command::CLOSE, &CloseRequest { flags, file_id: created.file_id });
    let closed: CloseResponse = closed.body();
    assert_eq!((closed.flags, closed.end_of_file, closed.last_write_time), (flags, 5, now));
    client.close(created.file_id).assert_refused(NtStatus::FILE_CLOSED);
    let reply = client.create("dir", Opening::dir());
    let dir: CreateResponse<'_> = reply.body();
    assert_eq!((dir.end_of_file, dir.file_attributes), (0, FileAttributes::DIRECTORY));
    let closed = client.close(dir.file_id);
    assert_eq!(closed.body::<CloseResponse>(), CloseResponse::default(), "nothing was asked for");
}

#[test]
fn directory_and_file_options_are_enforced() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"");
    client.open("dir", Opening::dir());
    let no_dir = Opening { options: CreateOptions::NON_DIRECTORY_FILE, ..Opening::default() };
    assert_eq!(client.action("dir", no_dir), Err(NtStatus::FILE_IS_A_DIRECTORY));
    assert_eq!(client.action("file", Opening::dir()), Err(NtStatus::NOT_A_DIRECTORY));
    let both = CreateOptions::DIRECTORY_FILE | CreateOptions::NON_DIRECTORY_FILE;
    let both = Opening { options: both, ..Opening::default() };
    assert_eq!(client.action("dir", both), Err(NtStatus::INVALID_PARAMETER));
    let emptied = Opening { disposition: CreateDisposition::OVERWRITE_IF, ..Opening::default() };
    assert_eq!(client.action("dir", emptied), Err(NtStatus::FILE_IS_A_DIRECTORY));
    assert_eq!(client.action("file\\below", Opening::default()), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    assert_eq!(client.action("none\\below", Opening::default()), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    assert_eq!(client.action("dir\\below", Opening::default()), Ok(CreateAction::CREATED));
    let root = Opening { access: AccessMask::GENERIC_READ, ..Opening::dir() };
    assert_eq!(client.action("", root), Ok(CreateAction::OPENED));
    let file = client.open("dir", Opening::dir());
    client.read(file, 0, 1).assert_refused(NtStatus::INVALID_DEVICE_REQUEST);
    client.write(file, 0, b"1").assert_refused(NtStatus::INVALID_DEVICE_REQUEST);
}

#[test]
fn invalid_or_unsupported_options_are_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"");
    let mut with = |bit: u32| {
        let options = CreateOptions(1 << bit);
        client.action("file", Opening { options, ..Opening::default() })
    };
    // Directories and delete-on-close have other tests.
    for bit in (0..32).filter(|bit| ![0, 12].contains(bit)) {
        let answer = match bit {
            7 | 13 | 20 => Err(NtStatus::NOT_SUPPORTED),
            24.. => Err(NtStatus::INVALID_PARAMETER),
            _ => Ok(CreateAction::OPENED),
        };
        assert_eq!(with(bit), answer, "bit {bit}");
    }
}

#[test]
fn invalid_or_escaping_names_are_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.open("dir", Opening::dir());
    let bad = NtStatus::OBJECT_PATH_SYNTAX_BAD;
    let invalid = NtStatus::OBJECT_NAME_INVALID;
    for (path, status) in [
        ("..", bad),
        ("dir\\..\\..\\file", bad),
        (".", bad),
        ("dir\\\\file", bad),
        ("\\file", NtStatus::INVALID_PARAMETER),
        ("a/b", invalid),
        ("a\0b", invalid),
        ("a*", invalid),
        ("\u{f02e}\u{f02e}", NtStatus::SUCCESS),
    ] {
        let found = client.action(path, Opening::default()).err().unwrap_or(NtStatus::SUCCESS);
        assert_eq!(found, status, "{path:?}");
    }
    let deep = vec!["d"; smb::limits::PATH_NAMES_MAX + 1].join("\\");
    assert_eq!(client.action(&deep, Opening::default()), Err(invalid));
    let long = "x".repeat(300);
    assert_eq!(client.action(&long, Opening::default()), Err(invalid));
}

#[test]
fn share_modes_apply_to_every_other_open() {
    let rig = Rig::new();
    let (mut alice, mut other) = (rig.alice(), rig.alice());
    alice.put("file", b"data");
    let only =
        |access, share| Opening { access, share, disposition: CreateDisposition::OPEN, ..Opening::default() };
    let (read, write, delete) = (AccessMask::READ_DATA, AccessMask::WRITE_DATA, AccessMask::DELETE);
    let all = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    let refused = Err(NtStatus::SHARING_VIOLATION);
    let opened = Ok(CreateAction::OPENED);
    let table = [
        (only(read, ShareAccess::READ), only(read, all), opened),
        (only(read, ShareAccess::READ), only(write, all), refused),
        (only(read, ShareAccess::READ), only(delete, all), refused),
        (only(read, all), only(write, ShareAccess::WRITE), refused),
        (only(write, all), only(read, ShareAccess::WRITE), opened),
        (only(read, ShareAccess::empty()), only(read, all), refused),
        (only(read, ShareAccess::empty()), only(AccessMask::READ_ATTRIBUTES, ShareAccess::empty()), opened),
        (only(AccessMask::READ_ATTRIBUTES, ShareAccess::empty()), only(write, ShareAccess::empty()), opened),
    ];
    for (first, second, expected) in table {
        let file = alice.open("file", first);
        assert_eq!(other.action("file", second), expected, "{first:?}\n{second:?}");
        assert_eq!(alice.action("file", second), expected, "its own opens are others, too");
        alice.close(file);
        assert_eq!(other.action("file", second), opened);
    }
    let file = alice.open("file", only(read, ShareAccess::READ | ShareAccess::DELETE));
    let emptied =
        Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::by(CreateDisposition::OVERWRITE) };
    assert_eq!(other.action("file", emptied), refused, "to empty a file is to write it");
    assert_eq!(alice.data(file, 0, 10), b"data");
    alice.close(file);
    // Overwriting ends the writer's caching.
    other.open("file", emptied);
    alice.open("file", only(read, ShareAccess::READ));
}

#[test]
fn access_not_requested_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"data");
    let of = |access| Opening { access, ..Opening::by(CreateDisposition::OPEN) };
    let reading = client.open("file", of(AccessMask::GENERIC_READ));
    client.write(reading, 0, b"no").assert_refused(NtStatus::ACCESS_DENIED);
    let flushed = client.call(Command::FLUSH, &FlushRequest { reserved1: 0, file_id: reading });
    flushed.assert_refused(NtStatus::ACCESS_DENIED);
    let writing = client.open("file", of(AccessMask::WRITE_DATA));
    client.read(writing, 0, 4).assert_refused(NtStatus::ACCESS_DENIED);
    let appending = client.open("file", of(AccessMask::APPEND_DATA));
    client.write(appending, 3, b"no").assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(client.write(appending, 4, b"more").status(), NtStatus::SUCCESS);
    assert_eq!(client.data(reading, 0, 100), b"datamore");
    let executing = client.open("dir", Opening { access: AccessMask::SYNCHRONIZE, ..Opening::dir() });
    client.read(executing, 0, 1).assert_refused(NtStatus::INVALID_DEVICE_REQUEST);
    assert_eq!(client.action("file", of(AccessMask::empty())), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(client.action("file", of(AccessMask(1 << 27))), Err(NtStatus::ACCESS_DENIED));
    let security = of(AccessMask::ACCESS_SYSTEM_SECURITY);
    assert_eq!(client.action("file", security), Err(NtStatus::PRIVILEGE_NOT_HELD));
}

#[test]
fn mode_bits_exclude_other_users() {
    let rig = Rig::new();
    let mut alice = rig.alice();
    let read_only = Opening { attributes: FileAttributes::READONLY, ..Opening::default() };
    let file = alice.open("mine", read_only);
    assert_eq!(alice.write(file, 0, b"x").status(), NtStatus::SUCCESS, "the creator of a file may write it");
    alice.close(file);
    let mut bob = rig.connect();
    bob.negotiate(&crate::rig::Offer::default());
    bob.log_on(crate::rig::BOB);
    bob.mount(crate::rig::SHARE);
    let of = |access| Opening { access, ..Opening::by(CreateDisposition::OPEN) };
    for client in [&mut bob, &mut alice] {
        assert_eq!(client.action("mine", of(AccessMask::WRITE_DATA)), Err(NtStatus::ACCESS_DENIED));
        assert_eq!(client.action("mine", of(AccessMask::READ_DATA)), Ok(CreateAction::OPENED));
    }
    let overwritten = Opening { access: AccessMask::READ_DATA, ..Opening::by(CreateDisposition::OVERWRITE) };
    assert_eq!(bob.action("mine", overwritten), Err(NtStatus::ACCESS_DENIED));
    let most = bob.open("mine", of(AccessMask::MAXIMUM_ALLOWED));
    bob.write(most, 0, b"no").assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(bob.data(most, 0, 10), b"x");
}

#[test]
fn read_stops_at_end_of_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"0123456789");
    let file = client.open("file", Opening::default());
    assert_eq!(client.data(file, 0, 10), b"0123456789");
    assert_eq!(client.data(file, 8, 10), b"89");
    for offset in [10, 11, 1 << 40, i64::MAX as u64 - 1] {
        client.read(file, offset, 1).assert_refused(NtStatus::END_OF_FILE);
    }
    for beyond in [i64::MAX as u64, 1 << 63, u64::MAX] {
        client.read(file, beyond, 1).assert_refused(NtStatus::INVALID_PARAMETER);
    }
    assert_eq!(client.data(file, 3, 0), b"", "a read past the end returns nothing");
    let least = smb_wire::file::ReadRequest { minimum_count: 3, ..crate::rig::read(file, 8, 10) };
    client.call(Command::READ, &least).assert_refused(NtStatus::END_OF_FILE);
    let least = smb_wire::file::ReadRequest { minimum_count: 2, ..least };
    assert_eq!(client.call(Command::READ, &least).status(), NtStatus::SUCCESS);
}

#[test]
fn transfer_is_limited_to_a_mebibyte() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let data: Vec<u8> = (0..MIB).map(|i| u8::try_from(i % 251).unwrap()).collect();
    assert_eq!(client.write(file, 7, &data).body::<WriteResponse>().count, MIB);
    assert!(client.data(file, 7, MIB) == data);
    client.read(file, 0, MIB + 1).assert_refused(NtStatus::INVALID_PARAMETER);
    let more = [&data[..], b"x"].concat();
    client.write(file, 0, &more).assert_refused(NtStatus::INVALID_PARAMETER);
    assert!(client.data(file, 7, MIB) == data, "nothing of it was written");
}

#[test]
fn transfer_needs_credits() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    client.write(file, 0, &[1; 70_000]);
    let data = vec![2; 65_537];
    let short = client.call_charged(Command::WRITE, &write(file, 0, &data), 1);
    short.assert_refused(NtStatus::INVALID_PARAMETER);
    let short = client.call_charged(Command::READ, &crate::rig::read(file, 0, 65_537), 1);
    short.assert_refused(NtStatus::INVALID_PARAMETER);
    assert_eq!(client.data(file, 0, 2), [1, 1]);
}

#[test]
fn overflowing_offset_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    for offset in [u64::MAX - 1, 1 << 63, i64::MAX as u64, i64::MAX as u64 - 3] {
        let status = client.write(file, offset, b"12345").status();
        assert!([NtStatus::INVALID_PARAMETER, NtStatus::DISK_FULL].contains(&status), "{offset}: {status:?}");
    }
    client.read(file, 0, 1).assert_refused(NtStatus::END_OF_FILE);
    // All ones have no special meaning.
    client.write(file, u64::MAX, b"12").assert_refused(NtStatus::INVALID_PARAMETER);
    assert_eq!(client.write(file, 0, b"1234").status(), NtStatus::SUCCESS);
    assert_eq!(client.write(file, 2, b"").body::<WriteResponse>().count, 0);
}

#[test]
fn delete_on_close_waits_for_last_open() {
    let rig = Rig::new();
    let (mut alice, mut other) = (rig.alice(), rig.alice());
    alice.put("file", b"data");
    let goes = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    let file = alice.open("file", goes);
    let second = other.open("file", Opening::default());
    alice.close(file);
    other.create("file", Opening::default()).assert_refused(NtStatus::DELETE_PENDING);
    assert_eq!(other.data(second, 0, 10), b"data");
    other.close(second);
    assert_eq!(
        other.action("file", Opening::by(CreateDisposition::OPEN)),
        Err(NtStatus::OBJECT_NAME_NOT_FOUND)
    );
    let may_not = Opening { access: AccessMask::GENERIC_READ, ..goes };
    assert_eq!(alice.action("file", may_not), Err(NtStatus::INVALID_PARAMETER));
    let root = Opening { options: CreateOptions::DIRECTORY_FILE | CreateOptions::DELETE_ON_CLOSE, ..goes };
    assert_eq!(alice.action("", root), Err(NtStatus::ACCESS_DENIED));
}

#[test]
fn flush_needs_write_access() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    client.write(file, 0, b"data");
    let flush = FlushRequest { reserved1: 0, file_id: file };
    assert_eq!(client.call(Command::FLUSH, &flush).status(), NtStatus::SUCCESS);
    let through = Opening { options: CreateOptions::WRITE_THROUGH, ..Opening::default() };
    let through = client.open("file", through);
    assert_eq!(client.write(through, 0, b"DATA").status(), NtStatus::SUCCESS);
    let flush = FlushRequest { reserved1: 0, file_id: FileId::default() };
    client.call(Command::FLUSH, &flush).assert_refused(NtStatus::FILE_CLOSED);
}
