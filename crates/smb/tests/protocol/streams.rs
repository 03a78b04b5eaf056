//! Named streams: names, attributes shared with the file, and deletion.

use crate::file_information::{dispose, exists, rename};
use crate::ioctl::ranges::{set_sparse, zero};
use crate::rig::{BOB, Client, NOW, Opening, Rig, SHARE, lease, name};
use smb_wire::chain;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{BasicInformation, RenameInformation, StandardInformation};
use smb_wire::create::{CreateAction, CreateDisposition, CreateOptions, OplockLevel, ShareAccess};
use smb_wire::header::Command;
use smb_wire::info::{InfoType, SecurityInformation, SetInfoRequest};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, Encode, FileId, NtStatus, Utf16};
use std::sync::Arc;
use vfs::{Blocking, Caller, Capacity, Durability, ExportRule, FsError, PendingSync, Volume, VolumeId};
use vfs_testing::MemFs;

const OPEN: CreateDisposition = CreateDisposition::OPEN;
const CREATE: CreateDisposition = CreateDisposition::CREATE;

/// The names and sizes of the streams of an open file.
#[track_caller]
fn streams(client: &mut Client, file: FileId) -> Vec<(String, u64)> {
    let listed = client.info(file, FileClass::STREAM);
    let entry = |bytes: &[u8]| {
        let length = usize::try_from(u32::from_le_bytes(bytes[4..8].try_into().unwrap())).unwrap();
        let units: Vec<u16> =
            bytes[24..24 + length].chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
        let size = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        (String::from_utf16(&units).unwrap(), size)
    };
    let mut all: Vec<_> = chain::entries(8, &listed).map(|bytes| entry(bytes.unwrap())).collect();
    all.sort();
    all
}

/// The streams of a file by its path.
#[track_caller]
fn streams_of(client: &mut Client, path: &str) -> Vec<(String, u64)> {
    let access = AccessMask::READ_ATTRIBUTES;
    let file = client.open(path, Opening { access, ..Opening::by(OPEN) });
    let all = streams(client, file);
    client.close(file);
    all
}

fn owned(all: &[(&str, u64)]) -> Vec<(String, u64)> {
    all.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
}

#[test]
fn streams_have_their_own_data() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"data");
    client.put("file:one", b"first");
    client.put("file:Two:$DATA", b"second stream");
    assert_eq!(client.get("file::$data"), b"data");
    assert_eq!(client.get("FILE:ONE:$data"), b"first", "names differ by more than case");
    assert_eq!(client.get("file:two"), b"second stream");
    assert_eq!(
        streams_of(&mut client, "file"),
        owned(&[("::$DATA", 4), (":Two:$DATA", 13), (":one:$DATA", 5)])
    );
    assert_eq!(streams_of(&mut client, "file:one").len(), 3, "an open of a stream tells of all");
    let stream = client.open("file:one", Opening::by(OPEN));
    let standard = StandardInformation::from_bytes(&client.info(stream, FileClass::STANDARD)).unwrap();
    assert_eq!((standard.end_of_file, standard.directory), (5, false));
    assert_eq!(client.query(stream, FileClass::STREAM, 24).status(), NtStatus::BUFFER_OVERFLOW);
}

#[test]
fn creating_a_stream_creates_its_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.create("new:s", Opening::by(OPEN)).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    assert!(!exists(&mut client, "new"));
    assert_eq!(client.action("new:s", Opening::by(CREATE)), Ok(CreateAction::CREATED));
    assert_eq!(streams_of(&mut client, "new"), owned(&[("::$DATA", 0), (":s:$DATA", 0)]));
    client.create("new:S", Opening::by(CREATE)).assert_refused(NtStatus::OBJECT_NAME_COLLISION);
    client.create("new:t", Opening::by(OPEN)).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    client.put("new:s", b"longer");
    assert_eq!(
        client.action("new:s", Opening::by(CreateDisposition::OVERWRITE)),
        Ok(CreateAction::OVERWRITTEN)
    );
    assert_eq!(streams_of(&mut client, "new"), owned(&[("::$DATA", 0), (":s:$DATA", 0)]));
    // A replaced file loses its streams.
    client.put("new", b"data");
    assert_eq!(streams_of(&mut client, "new"), owned(&[("::$DATA", 4)]));
}

#[test]
fn failed_stream_creation_leaves_no_file() {
    let fs = MemFs::new(Arc::new(|| NOW));
    let storage = Arc::new(fs.clone());
    let rig = Rig::with(ExportRule::everybody(), |_| {
        Volume::new(VolumeId(0x0101), SHARE, storage, Durability::Sync, 7)
    });
    let mut client = rig.alice();
    let wide = format!("new:{}", "ü".repeat(128));
    client.create(&wide, Opening::by(CREATE)).assert_refused(NtStatus::OBJECT_NAME_INVALID);
    assert!(!exists(&mut client, "new"));
    // The volume has room for the file but not for the stream.
    let (bytes, files) = (1 << 20, fs.usage().files + 1);
    fs.set_capacity(Capacity { bytes, files });
    client.create("new:s", Opening::by(CREATE)).assert_refused(NtStatus::DISK_FULL);
    assert!(!exists(&mut client, "new"));
    // The hidden tree needs a directory and a marker, the file a directory there.
    fs.set_capacity(Capacity { bytes, files: files + 4 });
    assert_eq!(client.action("new:s", Opening::by(CREATE)), Ok(CreateAction::CREATED));
}

#[test]
fn directories_have_streams_but_no_data() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let dir = client.open("dir", Opening::dir());
    assert_eq!(streams(&mut client, dir), []);
    client.put("dir:s", b"of a directory");
    assert_eq!(streams(&mut client, dir), owned(&[(":s:$DATA", 14)]));
    client.create("dir:s", Opening::dir()).assert_refused(NtStatus::NOT_A_DIRECTORY);
    client.create("dir::$DATA", Opening::dir()).assert_refused(NtStatus::NOT_A_DIRECTORY);
    client.create("dir::$DATA", Opening::by(OPEN)).assert_refused(NtStatus::FILE_IS_A_DIRECTORY);
    client.put(":s", b"of the root");
    assert_eq!(client.get(":s"), b"of the root");
}

#[test]
fn directory_streams_keep_directory_attributes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let dir = client.open("dir", Opening::dir());
    let attributes = |client: &mut Client, file| {
        BasicInformation::from_bytes(&client.info(file, FileClass::BASIC)).unwrap().file_attributes
    };
    let stream = client.open("dir:s", Opening::default());
    assert_eq!(attributes(&mut client, stream), FileAttributes::NORMAL);
    for sparse in [1, 0] {
        assert_eq!(set_sparse(&mut client, stream, &[sparse]), NtStatus::SUCCESS);
        assert_eq!(attributes(&mut client, dir), FileAttributes::DIRECTORY, "sparse: {sparse}");
    }
    // A client sets the attributes that it has read.
    let hidden = attributes(&mut client, stream) | FileAttributes::HIDDEN;
    let value = BasicInformation { file_attributes: hidden, ..BasicInformation::default() };
    assert_eq!(client.set(stream, FileClass::BASIC, &value), NtStatus::SUCCESS);
    assert_eq!(attributes(&mut client, dir), FileAttributes::DIRECTORY | FileAttributes::HIDDEN);
    assert_eq!(attributes(&mut client, stream), FileAttributes::HIDDEN);
    // A stream of a directory is not a directory, and a directory is not temporary.
    for file_attributes in [FileAttributes::DIRECTORY, FileAttributes::TEMPORARY] {
        let value = BasicInformation { file_attributes, ..BasicInformation::default() };
        assert_eq!(client.set(stream, FileClass::BASIC, &value), NtStatus::INVALID_PARAMETER);
    }
}

#[test]
fn set_sparse_marks_stream() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for path in ["file", "dir"] {
        let opening = if path == "dir" { Opening::dir() } else { Opening::default() };
        let file = client.open(path, opening);
        client.close(file);
        let path = format!("{path}:s");
        client.put(&path, &[7; 8192]);
        let stream = client.open(&path, Opening::default());
        assert_eq!(set_sparse(&mut client, stream, &[1]), NtStatus::SUCCESS);
        assert_eq!(zero(&mut client, stream, 0, 4096), NtStatus::SUCCESS);
        let standard = StandardInformation::from_bytes(&client.info(stream, FileClass::STANDARD)).unwrap();
        assert_eq!(standard.allocation_size, 4096, "{path}: its storage is given back");
    }
}

#[test]
fn invalid_stream_names_are_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"");
    let long = format!("file:{}", "x".repeat(255));
    let wide = format!("file:{}", "ü".repeat(128));
    for bad in ["file:", "file:s:x", "file:s:$DATA:", "file:a\\b", "file:a/b", "file:a\0b", &long, &wide] {
        client.create(bad, Opening::default()).assert_refused(NtStatus::OBJECT_NAME_INVALID);
    }
    for good in ["file:..", "file:.", "file: ?*<>|\u{1}.", "file:$DATA", &format!("file:{}", "x".repeat(254))]
    {
        client.put(good, good.as_bytes());
        assert_eq!(client.get(good), good.as_bytes());
    }
    assert_eq!(streams_of(&mut client, "file").len(), 6);
}

#[test]
fn streams_have_their_own_share_modes_and_locks() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    client.put("file", b"data");
    let alone = client.open("file:s", Opening::alone());
    other.create("file:s", Opening::default()).assert_refused(NtStatus::SHARING_VIOLATION);
    // Deleting a file deletes its streams (MS-FSA §2.1.5.1.2.2).
    other.create("file", Opening::by(OPEN)).assert_refused(NtStatus::SHARING_VIOLATION);
    let access = AccessMask::GENERIC_READ | AccessMask::GENERIC_WRITE;
    let data = other.open("file", Opening { access, ..Opening::by(OPEN) });
    other.open("file:t", Opening::alone());
    assert_eq!(other.write(data, 0, b"DATA").status(), NtStatus::SUCCESS);
    client.close(alone);
    let deleter = AccessMask::DELETE;
    let deleter = client.open("file:s", Opening { access: deleter, ..Opening::default() });
    let reads = Opening { share: ShareAccess::READ, access: AccessMask::GENERIC_READ, ..Opening::by(OPEN) };
    other.create("file:s", reads).assert_refused(NtStatus::SHARING_VIOLATION);
    client.close(deleter);
}

#[test]
fn deleting_a_stream_keeps_its_file() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    client.put("file", b"data");
    client.put("file:s", b"stream");
    let first = client.open("file:s", Opening::by(OPEN));
    let second = other.open("file:s", Opening::by(OPEN));
    assert_eq!(dispose(&mut client, first, true), NtStatus::SUCCESS);
    other.create("file:s", Opening::default()).assert_refused(NtStatus::DELETE_PENDING);
    assert_eq!(other.action("file", Opening::by(OPEN)), Ok(CreateAction::OPENED));
    client.close(first);
    assert_eq!(other.data(second, 0, 100), b"stream");
    other.close(second);
    assert_eq!(streams_of(&mut client, "file"), owned(&[("::$DATA", 4)]));
}

#[test]
fn deleted_file_goes_with_its_last_stream_open() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    client.put("file:s", b"stream");
    let stream = other.open("file:s", Opening::by(OPEN));
    let file = client.open("file", Opening::by(OPEN));
    assert_eq!(dispose(&mut client, file, true), NtStatus::SUCCESS);
    client.close(file);
    for path in ["file", "file:s", "file:t"] {
        client.create(path, Opening::default()).assert_refused(NtStatus::DELETE_PENDING);
    }
    assert_eq!(other.data(stream, 0, 100), b"stream");
    other.close(stream);
    assert!(!exists(&mut client, "file"));
    client.put("file", b"");
    assert_eq!(streams_of(&mut client, "file"), owned(&[("::$DATA", 0)]), "a new file has none");
}

#[test]
fn stream_is_renamed_within_its_file() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    client.put("file:from", b"stream");
    client.put("file:taken", b"other");
    let stream = client.open("file:from", Opening::by(OPEN));
    let second = other.open("file:from", Opening::by(OPEN));
    assert_eq!(rename(&mut client, stream, ":taken", false), NtStatus::OBJECT_NAME_COLLISION);
    for bad in ["to", "file:to", ":", "::$DATA", ":a:b"] {
        assert!(rename(&mut client, stream, bad, false).is_error(), "{bad}");
    }
    assert_eq!(rename(&mut client, stream, ":to:$DATA", false), NtStatus::SUCCESS);
    assert_eq!(rename(&mut client, stream, ":TO", false), NtStatus::SUCCESS, "another case of its name");
    assert_eq!(rename(&mut client, stream, ":taken", true), NtStatus::SUCCESS);
    assert_eq!(streams(&mut other, second), owned(&[("::$DATA", 0), (":taken:$DATA", 6)]));
    // The second open deletes the new name.
    assert_eq!(dispose(&mut other, second, true), NtStatus::SUCCESS);
    assert_eq!(rename(&mut client, stream, ":last", false), NtStatus::SUCCESS);
    client.close(stream);
    other.close(second);
    assert_eq!(streams_of(&mut client, "file"), owned(&[("::$DATA", 0)]));
    // The same for delete-on-close, which lets others open the file until then.
    let stream =
        client.open("file:from", Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() });
    assert_eq!(rename(&mut client, stream, ":to", false), NtStatus::SUCCESS);
    assert_eq!(other.action("file:to", Opening::by(OPEN)), Ok(CreateAction::OPENED));
    client.close(stream);
    assert_eq!(streams_of(&mut client, "file"), owned(&[("::$DATA", 0)]));
}

#[test]
fn stream_storage_is_unreachable() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file:s", b"stream");
    for path in [".plimsoll-streams", ".plimsoll-streams\\x", ".plimsoll-streams:s"] {
        let status = client.create(path, Opening::default()).status();
        assert!(
            [NtStatus::ACCESS_DENIED, NtStatus::OBJECT_PATH_NOT_FOUND].contains(&status),
            "{path}: {status:?}"
        );
    }
    let file = client.open("file", Opening::by(OPEN));
    assert!(rename(&mut client, file, ".plimsoll-streams", true).is_error());
    // NFS cannot reach it through the same export either.
    let export = std::sync::Arc::clone(&rig.namespace.load().exports()[0]);
    let (root, admin) = (export.root(), Caller::new(0, 0, []));
    let dir = root.open_dir(&admin, Blocking::Allowed).unwrap();
    assert_eq!(dir.lookup(b".plimsoll-streams", Blocking::Allowed).err(), Some(FsError::Access));
}

#[test]
fn streams_follow_nfs_rename_and_removal() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file:s", b"stream");
    let export = std::sync::Arc::clone(&rig.namespace.load().exports()[0]);
    let (root, admin, mut pending) = (export.root(), Caller::new(0, 0, []), PendingSync::default());
    root.rename(&admin, b"file", &root, b"moved", &mut pending).unwrap();
    assert_eq!(client.get("moved:s"), b"stream");
    let stream = client.open("moved:s", Opening::by(OPEN));
    assert!(root.remove(&admin, b"moved", &mut pending).is_ok());
    assert_eq!(client.data(stream, 0, 100), b"stream", "who has it open keeps it");
    client.close(stream);
    client.put("moved", b"");
    client.create("moved:s", Opening::by(OPEN)).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn adding_streams_needs_write_access() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file:s", b"stream");
    let mut bob = rig.connect();
    bob.negotiate(&crate::rig::Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    let access = AccessMask::GENERIC_READ;
    assert_eq!(bob.action("file:s", Opening { access, ..Opening::by(OPEN) }), Ok(CreateAction::OPENED));
    bob.create("file:s", Opening::by(OPEN)).assert_refused(NtStatus::ACCESS_DENIED);
    bob.create("file:t", Opening { access, ..Opening::default() }).assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(streams_of(&mut client, "file").len(), 2);
}

#[test]
fn overwriting_file_breaks_stream_leases() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    let stream = one.open_lease("file:s", Opening::default(), lease(1, "RWH"));
    stream.assert_state("RWH");
    two.ask("file", Opening::by(CreateDisposition::OVERWRITE), OplockLevel::NONE, None);
    one.assert_lease_break(1, "RWH", "", true);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    assert_eq!(one.write(stream.file_id, 0, b"late").status(), NtStatus::SUCCESS);
    assert_eq!(one.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
    assert_eq!(streams_of(&mut two, "file"), owned(&[("::$DATA", 0)]));
}

#[test]
fn exclusive_stream_open_sees_delete_pending() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    one.open_lease("file:s", Opening::alone(), lease(1, "RWH")).assert_state("RWH");
    let access = AccessMask::GENERIC_WRITE;
    two.open("file", Opening { access, ..Opening::by(CreateDisposition::OVERWRITE) });
    one.assert_lease_break(1, "RWH", "", true);
}

#[test]
fn renaming_stream_breaks_its_leases() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    let mine = two.open("file:s", Opening::default());
    one.open_lease("file:s", Opening::default(), lease(1, "RH")).assert_state("RH");
    let to = name(":t");
    let file_name = Utf16::new(&to).unwrap();
    let buffer = &RenameInformation { replace_if_exists: false, root_directory: 0, file_name }.to_bytes()[..];
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileClass::RENAME.0,
        buffer,
        additional_information: SecurityInformation::empty(),
        file_id: mine,
    };
    let request = two.request(Command::SET_INFO, &request);
    two.send_protected(request);
    one.assert_lease_break(1, "RH", "", true);
    assert_eq!(streams_of(&mut one, "file").last().unwrap().0, ":s:$DATA", "it has its name still");
    assert_eq!(one.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
    assert_eq!(streams_of(&mut one, "file").last().unwrap().0, ":t:$DATA");
}
