//! Attributes, creation times and frozen times that the server stores with a file.

use crate::ioctl::copy::{clone, copy, key_of};
use crate::ioctl::ranges::zero;
use crate::rig::{BOB, Client, Opening, Rig, SHARE, name};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{BasicInformation, RenameInformation};
use smb_wire::create::{CreateDisposition, CreateResponse};
use smb_wire::dir::{DirectoryClass, OutputResponse, QueryDirectoryFlags, QueryDirectoryRequest};
use smb_wire::header::Command;
use smb_wire::ioctl::CtlCode;
use smb_wire::ranges::{FileLevelTrim, TrimRange};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, Encode, FileId, FileTime, NtStatus, Utf16, chain};
use vfs::{Caller, FsError, PendingSync, SetAttrs, SetXattr};

const OPEN: CreateDisposition = CreateDisposition::OPEN;
const MARKS: FileAttributes = FileAttributes(FileAttributes::HIDDEN.0 | FileAttributes::SYSTEM.0);

fn basic(client: &mut Client, file: FileId) -> BasicInformation {
    BasicInformation::from_bytes(&client.info(file, FileClass::BASIC)).unwrap()
}

fn set(client: &mut Client, file: FileId, value: BasicInformation) -> NtStatus {
    client.set(file, FileClass::BASIC, &value)
}

fn set_attributes(client: &mut Client, file: FileId, file_attributes: FileAttributes) -> NtStatus {
    set(client, file, BasicInformation { file_attributes, ..BasicInformation::default() })
}

fn opened(client: &mut Client, path: &str, opening: Opening) -> (FileId, FileAttributes) {
    let reply = client.create(path, opening);
    let response: CreateResponse<'_> = reply.body();
    (response.file_id, response.file_attributes)
}

#[test]
fn file_attributes_round_trip() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    for attributes in [
        MARKS,
        FileAttributes::NORMAL,
        FileAttributes::ARCHIVE | FileAttributes::READONLY,
        FileAttributes::TEMPORARY | FileAttributes::OFFLINE | FileAttributes::NOT_CONTENT_INDEXED,
        FileAttributes::ARCHIVE,
    ] {
        assert_eq!(set_attributes(&mut client, file, attributes), NtStatus::SUCCESS);
        assert_eq!(basic(&mut client, file).file_attributes, attributes);
        assert_eq!(set_attributes(&mut client, file, FileAttributes::empty()), NtStatus::SUCCESS);
        assert_eq!(basic(&mut client, file).file_attributes, attributes, "none are set");
    }
    // Attributes that cannot be set on a file are ignored.
    let odd = FileAttributes::SPARSE_FILE | FileAttributes::ENCRYPTED | FileAttributes::REPARSE_POINT;
    assert_eq!(set_attributes(&mut client, file, odd | MARKS), NtStatus::SUCCESS);
    assert_eq!(basic(&mut client, file).file_attributes, MARKS);
    let dir = client.open("dir", Opening::dir());
    let attributes = FileAttributes::HIDDEN | FileAttributes::READONLY;
    assert_eq!(set_attributes(&mut client, dir, attributes), NtStatus::SUCCESS);
    assert_eq!(basic(&mut client, dir).file_attributes, attributes | FileAttributes::DIRECTORY);
    client.put("dir\\file", b"a directory that is read-only takes names");
}

#[test]
fn create_sets_attributes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let made = Opening { attributes: MARKS, ..Opening::default() };
    let (file, told) = opened(&mut client, "file", made);
    assert_eq!(told, MARKS | FileAttributes::ARCHIVE);
    assert_eq!(basic(&mut client, file).file_attributes, told);
    let dir = Opening { attributes: FileAttributes::HIDDEN, ..Opening::dir() };
    assert_eq!(opened(&mut client, "dir", dir).1, FileAttributes::HIDDEN | FileAttributes::DIRECTORY);
    // An existing file keeps its own.
    let other = Opening { attributes: FileAttributes::READONLY, ..Opening::default() };
    assert_eq!(opened(&mut client, "file", other).1, told);
    let never = Opening { attributes: FileAttributes(0x8), ..Opening::default() };
    client.create("volume", never).assert_refused(NtStatus::INVALID_PARAMETER);
    let never = Opening { attributes: FileAttributes::TEMPORARY, ..Opening::dir() };
    client.create("passing", never).assert_refused(NtStatus::INVALID_PARAMETER);
}

#[test]
fn overwrite_needs_matching_hidden_attribute() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let made = Opening { attributes: MARKS, ..Opening::default() };
    let (file, _) = opened(&mut client, "file", made);
    client.write(file, 0, b"data");
    for disposition in
        [CreateDisposition::OVERWRITE, CreateDisposition::OVERWRITE_IF, CreateDisposition::SUPERSEDE]
    {
        let unsaid = Opening { attributes: FileAttributes::HIDDEN, ..Opening::by(disposition) };
        client.create("file", unsaid).assert_refused(NtStatus::ACCESS_DENIED);
        assert_eq!(client.data(file, 0, 10), b"data");
        let said = Opening { attributes: MARKS | FileAttributes::OFFLINE, ..Opening::by(disposition) };
        let (again, told) = opened(&mut client, "file", said);
        assert_eq!(told, MARKS | FileAttributes::OFFLINE | FileAttributes::ARCHIVE);
        client.read(file, 0, 10).assert_refused(NtStatus::END_OF_FILE);
        client.write(again, 0, b"data");
    }
    let read_only = MARKS | FileAttributes::READONLY;
    let (_, told) = opened(
        &mut client,
        "file",
        Opening { attributes: read_only, ..Opening::by(CreateDisposition::OVERWRITE) },
    );
    assert_eq!(told, read_only | FileAttributes::ARCHIVE);
    let again = Opening { attributes: read_only, ..Opening::by(CreateDisposition::OVERWRITE) };
    client.create("file", again).assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn read_only_file_refuses_writes_and_keeps_its_mode() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let mode = || {
        let root = rig.namespace.load().exports()[0].root();
        let dir = root.open_dir(&Caller::new(0, 0, []), vfs::Blocking::Allowed).unwrap();
        dir.lookup(b"file", vfs::Blocking::Allowed).unwrap().attrs.mode
    };
    assert_eq!(set_attributes(&mut client, file, FileAttributes::READONLY), NtStatus::SUCCESS);
    assert_eq!(mode(), 0o644);
    assert_eq!(client.write(file, 0, b"who has it open goes on").status(), NtStatus::SUCCESS);
    for access in [AccessMask::WRITE_DATA, AccessMask::APPEND_DATA, AccessMask::GENERIC_WRITE] {
        let writing = Opening { access, ..Opening::by(OPEN) };
        client.create("file", writing).assert_refused(NtStatus::ACCESS_DENIED);
    }
    let most = client.open("file", Opening { access: AccessMask::MAXIMUM_ALLOWED, ..Opening::by(OPEN) });
    client.write(most, 0, b"x").assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(set_attributes(&mut client, file, FileAttributes::NORMAL), NtStatus::SUCCESS);
    client.open("file", Opening::by(OPEN));
}

#[test]
fn creation_time_follows_the_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    for seconds in [-63_158_400, -1, 0, 1, 15_032_385_535] {
        let (creation_time, change_time) =
            (FileTime::from_unix(seconds, 700), FileTime::from_unix(seconds + 1, 0));
        let value = BasicInformation { creation_time, change_time, ..BasicInformation::default() };
        assert_eq!(set(&mut client, file, value), NtStatus::SUCCESS);
        let told = basic(&mut client, file);
        assert_eq!((told.creation_time, told.change_time), (creation_time, change_time));
    }
    let told = basic(&mut client, file);
    let dir = client.open("dir", Opening::dir());
    client.close(dir);
    let wire = name("dir\\moved");
    let file_name = Utf16::new(&wire).unwrap();
    let rename = RenameInformation { replace_if_exists: false, root_directory: 0, file_name };
    assert_eq!(client.set(file, FileClass::RENAME, &rename), NtStatus::SUCCESS);
    let reply = client.create("dir\\moved", Opening::by(OPEN));
    assert_eq!(reply.body::<CreateResponse<'_>>().creation_time, told.creation_time);
    client.put("file", b"another");
    let another = client.open("file", Opening::default());
    assert_ne!(basic(&mut client, another).creation_time, told.creation_time);
}

#[test]
fn listing_shows_stored_attributes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening { attributes: MARKS, ..Opening::default() });
    let creation_time = FileTime::from_unix(7, 0);
    let value = BasicInformation { creation_time, ..BasicInformation::default() };
    assert_eq!(set(&mut client, file, value), NtStatus::SUCCESS);
    client.put("plain", b"");
    let root = client.open("", Opening { access: AccessMask::GENERIC_READ, ..Opening::dir() });
    for pattern in ["*", "file"] {
        let wire = name(pattern);
        let request = QueryDirectoryRequest {
            file_information_class: DirectoryClass::DIRECTORY,
            flags: QueryDirectoryFlags::RESTART_SCANS,
            file_index: 0,
            file_id: root,
            file_name: Utf16::new(&wire).unwrap(),
            output_buffer_length: 4096,
        };
        let reply = client.call(Command::QUERY_DIRECTORY, &request);
        let output = reply.body::<OutputResponse<&[u8]>>().output;
        // MS-FSCC §2.4.10: the creation time; and attributes 48 bytes later.
        let file = name("file");
        let mut entries = chain::entries(8, output).map(|entry| entry.unwrap());
        let entry = entries.find(|entry| entry[64..].starts_with(&file)).unwrap();
        assert_eq!(entry[8..16], creation_time.0.to_le_bytes(), "{pattern}");
        assert_eq!(entry[56..60], (MARKS | FileAttributes::ARCHIVE).0.to_le_bytes());
    }
}

#[test]
fn set_time_survives_writes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let (file, other) = (client.open("file", Opening::default()), client.open("file", Opening::default()));
    let last_write_time = FileTime::from_unix(5, 0);
    let value = BasicInformation { last_write_time, ..BasicInformation::default() };
    assert_eq!(set(&mut client, file, value), NtStatus::SUCCESS);
    client.write(file, 0, b"data");
    assert_eq!(basic(&mut client, file).last_write_time, last_write_time);
    let thaw = BasicInformation { last_write_time: FileTime::THAW, ..BasicInformation::default() };
    assert_eq!(set(&mut client, file, thaw), NtStatus::SUCCESS);
    client.write(file, 0, b"data");
    let written = basic(&mut client, file).last_write_time;
    assert_ne!(written, last_write_time);
    // Another open of the file is not affected.
    assert_eq!(set(&mut client, file, value), NtStatus::SUCCESS);
    client.write(other, 0, b"data");
    assert_eq!(basic(&mut client, file).last_write_time, written);
    let freeze = BasicInformation { last_write_time: FileTime::FREEZE, ..BasicInformation::default() };
    assert_eq!(set(&mut client, file, freeze), NtStatus::SUCCESS);
    for none in [FileTime(u64::MAX - 2), FileTime(1 << 63)] {
        let value = BasicInformation { creation_time: none, ..BasicInformation::default() };
        assert_eq!(set(&mut client, file, value), NtStatus::INVALID_PARAMETER, "{none:?}");
    }
}

#[test]
fn set_time_survives_ioctls() {
    type Act = (&'static str, fn(&mut Client, FileId));
    let acts: [Act; 5] = [
        ("a copy", |client, file| {
            let from = client.open("source", Opening::by(OPEN));
            let key = key_of(client, from);
            assert_eq!(copy(client, key, file, &[(0, 0, 10)]).status(), NtStatus::SUCCESS);
        }),
        ("a copy that ends early", |client, file| {
            let from = client.open("source", Opening::by(OPEN));
            let key = key_of(client, from);
            let reply = copy(client, key, file, &[(0, 0, 10), (1 << 20, 0, 10)]);
            assert_eq!(reply.status(), NtStatus::INVALID_VIEW_SIZE);
        }),
        ("a clone", |client, file| {
            let from = client.open("source", Opening::by(OPEN));
            assert_eq!(clone(client, from, file, [0, 0, 4096]), NtStatus::SUCCESS);
        }),
        ("zeros", |client, file| assert_eq!(zero(client, file, 0, 10), NtStatus::SUCCESS)),
        ("a trim", |client, file| {
            let input = FileLevelTrim { ranges: vec![TrimRange { offset: 0, length: 4096 }] }.to_bytes();
            let reply = client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4);
            assert_eq!(reply.status(), NtStatus::SUCCESS);
        }),
    ];
    for (what, act) in acts {
        let rig = Rig::new();
        let mut client = rig.alice();
        client.put("source", &[1; 8192]);
        client.put("file", &[7; 8192]);
        let file = client.open("file", Opening::default());
        let last_write_time = FileTime::from_unix(5, 0);
        let value = BasicInformation { last_write_time, ..BasicInformation::default() };
        assert_eq!(set(&mut client, file, value), NtStatus::SUCCESS);
        act(&mut client, file);
        assert_eq!(basic(&mut client, file).last_write_time, last_write_time, "{what}");
        let thaw = BasicInformation { last_write_time: FileTime::THAW, ..BasicInformation::default() };
        assert_eq!(set(&mut client, file, thaw), NtStatus::SUCCESS);
        act(&mut client, file);
        assert_ne!(basic(&mut client, file).last_write_time, last_write_time, "{what}");
    }
}

/// Bob, and a file of Alice's that is writable by all.
fn file_for_all(rig: &Rig) -> Client {
    rig.alice().put("file", b"data");
    let export = rig.namespace.load().exports()[0].clone();
    let (owner, root, mut pending) = (Caller::new(1000, 100, []), export.root(), PendingSync::default());
    let dir = root.open_dir(&owner, vfs::Blocking::Allowed).unwrap();
    let file = dir.lookup(b"file", vfs::Blocking::Allowed).unwrap().file;
    let set = SetAttrs { mode: Some(0o666), ..SetAttrs::default() };
    file.set_attrs(&owner, &set, None, &mut pending).unwrap();
    let mut bob = rig.connect();
    bob.negotiate(&crate::rig::Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    // NFS follows Unix rules.
    let other = Caller::new(1001, 100, []);
    let modified = Some(vfs::SetTime::To(vfs::Time { seconds: 5, nanos: 0 }));
    let refused = file.set_attrs(&other, &SetAttrs { modified, ..SetAttrs::default() }, None, &mut pending);
    assert_eq!(refused.map(drop), Err(FsError::NotOwner));
    bob
}

#[test]
fn write_permission_allows_setting_times() {
    let rig = Rig::new();
    let mut bob = file_for_all(&rig);
    let file = bob.open("file", Opening::by(OPEN));
    let (creation_time, last_access_time, last_write_time) =
        (FileTime::from_unix(3, 0), FileTime::from_unix(4, 0), FileTime::from_unix(5, 0));
    // The final step of copying over a file.
    let value = BasicInformation {
        creation_time,
        last_access_time,
        last_write_time,
        change_time: FileTime::NONE,
        file_attributes: FileAttributes::ARCHIVE,
    };
    assert_eq!(set(&mut bob, file, value), NtStatus::SUCCESS);
    let times = |told: BasicInformation| (told.creation_time, told.last_access_time, told.last_write_time);
    let expected = (creation_time, last_access_time, last_write_time);
    assert_eq!(times(basic(&mut bob, file)), expected);
    assert_eq!(bob.write(file, 0, b"more").status(), NtStatus::SUCCESS);
    assert_eq!(times(basic(&mut bob, file)), expected, "it stays as it was set");
    // A client that did not request the right has none.
    let access = AccessMask::WRITE_DATA;
    let writing = bob.open("file", Opening { access, ..Opening::by(OPEN) });
    assert_eq!(set(&mut bob, writing, value), NtStatus::ACCESS_DENIED);
}

#[test]
fn attributes_need_write_permission() {
    let rig = Rig::new();
    let mut alice = rig.alice();
    alice.open("file", Opening::default());
    let mut bob = rig.connect();
    bob.negotiate(&crate::rig::Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    let marking = Opening { access: AccessMask::WRITE_ATTRIBUTES, ..Opening::by(OPEN) };
    bob.create("file", marking).assert_refused(NtStatus::ACCESS_DENIED);
    let looking = Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::by(OPEN) };
    let file = bob.open("file", looking);
    assert_eq!(set_attributes(&mut bob, file, MARKS), NtStatus::ACCESS_DENIED);
}

#[test]
fn stored_record_is_hidden_from_other_protocols() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening { attributes: MARKS, ..Opening::default() });
    let export = rig.namespace.load().exports()[0].clone();
    let root = Caller::new(0, 0, []);
    let dir = export.root();
    let dir = dir.open_dir(&root, vfs::Blocking::Allowed).unwrap();
    let found = dir.lookup(b"file", vfs::Blocking::Allowed).unwrap().file;
    found.list_xattrs(&root, 0, &mut |name, _| panic!("{name:?} is listed")).unwrap();
    let record = (b"plimsoll.kept".as_slice(), b"planted".as_slice());
    let planted = found.set_xattr(&root, record.0, record.1, SetXattr::Either, &mut PendingSync::default());
    assert_eq!(planted.map(drop), Err(FsError::Access));
    assert_eq!(found.get_xattr(&root, record.0), Err(FsError::Access));
    assert_eq!(basic(&mut client, file).file_attributes, MARKS | FileAttributes::ARCHIVE);
}
