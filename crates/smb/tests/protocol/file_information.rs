//! QUERY_INFO and SET_INFO.

use crate::rename::link;
use crate::rig::{Client, Opening, Rig, name, query};
use smb_wire::classes::file::{
    BasicInformation, DispositionFlags, DispositionInformation, DispositionInformationEx, Mode,
    ModeInformation, PositionInformation, RenameInformation, SizeInformation, StandardInformation,
};
use smb_wire::classes::{FileClass, FileSystemClass};
use smb_wire::create::{CreateDisposition, CreateOptions, CreateResponse, ShareAccess};
use smb_wire::dir::OutputResponse;
use smb_wire::header::Command;
use smb_wire::info::InfoType;
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, FileId, FileTime, NtStatus, Utf16};

const OPEN: CreateDisposition = CreateDisposition::OPEN;
const MISSING: NtStatus = NtStatus::OBJECT_NAME_NOT_FOUND;

pub(crate) fn rename(client: &mut Client, file: FileId, to: &str, replace_if_exists: bool) -> NtStatus {
    let to = name(to);
    let file_name = Utf16::new(&to).unwrap();
    let value = RenameInformation { replace_if_exists, root_directory: 0, file_name };
    client.set(file, FileClass::RENAME, &value)
}

pub(crate) fn dispose(client: &mut Client, file: FileId, delete_pending: bool) -> NtStatus {
    client.set(file, FileClass::DISPOSITION, &DispositionInformation { delete_pending })
}

fn set_size(client: &mut Client, file: FileId, size: i64) -> NtStatus {
    client.set(file, FileClass::END_OF_FILE, &SizeInformation { size })
}

fn basic(client: &mut Client, file: FileId) -> BasicInformation {
    BasicInformation::from_bytes(&client.info(file, FileClass::BASIC)).unwrap()
}

fn standard(client: &mut Client, file: FileId) -> StandardInformation {
    StandardInformation::from_bytes(&client.info(file, FileClass::STANDARD)).unwrap()
}

pub(crate) fn exists(client: &mut Client, path: &str) -> bool {
    match client.action(path, Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::by(OPEN) }) {
        Ok(_) => true,
        Err(status) => {
            assert_eq!(status, MISSING, "{path}");
            false
        }
    }
}

#[test]
fn standard_information_has_sizes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"12345");
    let file = client.open("file", Opening::default());
    let told = standard(&mut client, file);
    assert_eq!((told.end_of_file, told.number_of_links, told.delete_pending), (5, 1, false));
    let times = basic(&mut client, file);
    let now = FileTime::from_unix(crate::rig::NOW.seconds, 0);
    assert_eq!((times.last_write_time, times.change_time), (now, now));
    assert_eq!(times.file_attributes, FileAttributes::ARCHIVE);
    let dir = client.open("dir", Opening::dir());
    let dir = basic(&mut client, dir);
    assert_eq!(dir.file_attributes, FileAttributes::DIRECTORY);
}

#[test]
fn short_buffer_truncates_or_fails() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("a long name", Opening::default());
    let [fits, cut] = [NtStatus::SUCCESS, NtStatus::BUFFER_OVERFLOW];
    // The minimum buffer of each class (MS-FSA §2.1.5.12), and the result at exactly that size.
    for (class, fixed, told) in [
        (FileClass::BASIC, 40, fits),
        (FileClass::STANDARD, 24, fits),
        (FileClass::INTERNAL, 8, fits),
        (FileClass::EA, 4, fits),
        (FileClass::ACCESS, 4, fits),
        (FileClass::POSITION, 8, fits),
        (FileClass::MODE, 4, fits),
        (FileClass::ALIGNMENT, 4, fits),
        (FileClass::ALL, 104, cut),
        (FileClass::NORMALIZED_NAME, 8, cut),
        (FileClass::ALTERNATE_NAME, 4, MISSING),
        (FileClass::NETWORK_OPEN, 56, fits),
        (FileClass::ATTRIBUTE_TAG, 8, fits),
        (FileClass::COMPRESSION, 16, fits),
        (FileClass::STREAM, 24, cut),
    ] {
        for room in [0, fixed - 1] {
            let status = client.query(file, class, room).status();
            assert_eq!(status, NtStatus::INFO_LENGTH_MISMATCH, "{class:?} {room}");
        }
        assert_eq!(client.query(file, class, fixed).status(), told, "{class:?}");
    }
    for (class, fixed, told) in [
        (FileSystemClass::VOLUME, 24, cut),
        (FileSystemClass::SIZE, 24, fits),
        (FileSystemClass::DEVICE, 8, fits),
        (FileSystemClass::ATTRIBUTE, 16, cut),
        (FileSystemClass::CONTROL, 48, fits),
        (FileSystemClass::FULL_SIZE, 32, fits),
        (FileSystemClass::OBJECT_ID, 64, fits),
        (FileSystemClass::SECTOR_SIZE, 28, fits),
    ] {
        let mut ask = |room| {
            let asked = query(InfoType::FILESYSTEM, file, class.0, room);
            client.call(Command::QUERY_INFO, &asked).status()
        };
        for room in [0, fixed - 1] {
            assert_eq!(ask(room), NtStatus::INFO_LENGTH_MISMATCH, "{class:?} {room}");
        }
        assert_eq!(ask(fixed), told, "{class:?}");
    }
    let all = client.info(file, FileClass::ALL);
    let room = u32::try_from(all.len()).unwrap() - 4;
    let reply = client.query(file, FileClass::ALL, room);
    assert_eq!(reply.status(), NtStatus::BUFFER_OVERFLOW);
    assert_eq!(reply.body::<OutputResponse<&[u8]>>().output, &all[..all.len() - 4]);
    let reply = client.call_charged(
        Command::QUERY_INFO,
        &query(InfoType::FILE, file, FileClass::ALL.0, (1 << 20) + 1),
        17,
    );
    reply.assert_refused(NtStatus::INVALID_PARAMETER);
}

#[test]
fn unknown_class_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    for class in [0, 3, 77, 255] {
        client.query(file, FileClass(class), 4096).assert_refused(NtStatus::INVALID_INFO_CLASS);
        assert_eq!(client.set(file, FileClass(class), &0_u64), NtStatus::INVALID_INFO_CLASS);
        let of_volume = query(InfoType::FILESYSTEM, file, class.max(100), 4096);
        client.call(Command::QUERY_INFO, &of_volume).assert_refused(NtStatus::INVALID_INFO_CLASS);
    }
    let nothing = query(InfoType(9), file, 4, 4096);
    client.call(Command::QUERY_INFO, &nothing).assert_refused(NtStatus::INVALID_PARAMETER);
    let size = query(InfoType::FILESYSTEM, file, FileSystemClass::SIZE.0, 24);
    let reply = client.call(Command::QUERY_INFO, &size);
    assert_eq!(reply.body::<OutputResponse<&[u8]>>().output.len(), 24);
}

#[test]
fn rename_moves_file_and_open() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("from", b"data");
    let dir = client.open("dir", Opening::dir());
    let file = client.open("from", Opening::default());
    client.close(dir);
    assert_eq!(rename(&mut client, file, "dir\\to", false), NtStatus::SUCCESS);
    assert!(!exists(&mut client, "from") && exists(&mut client, "dir\\to"));
    assert_eq!(client.data(file, 0, 10), b"data");
    // A later deletion removes the name of that time.
    assert_eq!(dispose(&mut client, file, true), NtStatus::SUCCESS);
    assert_eq!(dispose(&mut client, file, false), NtStatus::SUCCESS);
    assert_eq!(rename(&mut client, file, "TO", false), NtStatus::SUCCESS);
    assert_eq!(rename(&mut client, file, "to", false), NtStatus::SUCCESS, "another case of its own name");
    assert_eq!(dispose(&mut client, file, true), NtStatus::SUCCESS);
    client.put("dir\\to", b"another");
    client.close(file);
    assert!(!exists(&mut client, "to") && exists(&mut client, "dir\\to"));
}

#[test]
fn position_and_mode_are_stored() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let options = CreateOptions::WRITE_THROUGH | CreateOptions::SYNCHRONOUS_IO_NONALERT;
    let file = client.open("file", Opening { options, ..Opening::default() });
    let number = |client: &mut Client, class| match client.info(file, class)[..] {
        [a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]),
        _ => panic!("too little"),
    };
    client.write(file, 5, b"12345");
    assert_eq!(number(&mut client, FileClass::POSITION), 10);
    client.read(file, 2, 3);
    assert_eq!(number(&mut client, FileClass::POSITION), 5);
    let position = |current_byte_offset| PositionInformation { current_byte_offset };
    assert_eq!(client.set(file, FileClass::POSITION, &position(77)), NtStatus::SUCCESS);
    assert_eq!(client.set(file, FileClass::POSITION, &position(1 << 63)), NtStatus::INVALID_PARAMETER);
    assert_eq!(number(&mut client, FileClass::POSITION), 77);
    assert_eq!(client.info(file, FileClass::ALL)[80], 77);
    assert_eq!(number(&mut client, FileClass::MODE), 0x22);
    let mut set = |mode| client.set(file, FileClass::MODE, &ModeInformation { mode });
    assert_eq!(set(Mode::SEQUENTIAL_ONLY | Mode::SYNCHRONOUS_IO_ALERT), NtStatus::SUCCESS);
    for wrong in
        [Mode::empty(), Mode::DELETE_ON_CLOSE | Mode::SYNCHRONOUS_IO_ALERT, Mode(0x30), Mode(1 << 20)]
    {
        assert_eq!(set(wrong), NtStatus::INVALID_PARAMETER, "{wrong:?}");
    }
    assert_eq!(number(&mut client, FileClass::MODE), 0x14);
}

#[test]
fn rename_replaces_only_if_allowed() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    client.put("from", b"new");
    client.put("to", b"old");
    client.open("dir", Opening::dir());
    let file = client.open("from", Opening::default());
    assert_eq!(rename(&mut client, file, "TO", false), NtStatus::OBJECT_NAME_COLLISION);
    let held = other.open("to", Opening::default());
    assert_eq!(rename(&mut client, file, "to", true), NtStatus::ACCESS_DENIED, "the target is open");
    assert_eq!(other.data(held, 0, 10), b"old");
    other.close(held);
    assert_eq!(rename(&mut client, file, "dir", true), NtStatus::ACCESS_DENIED, "a directory");
    assert_eq!(rename(&mut client, file, "to", true), NtStatus::SUCCESS);
    client.close(file);
    assert_eq!(client.get("to"), b"new");
    assert!(!exists(&mut client, "from"));
}

#[test]
fn invalid_rename_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let dir = client.open("dir", Opening::dir());
    let file = client.open("file", Opening::default());
    assert_eq!(rename(&mut client, dir, "dir\\below", false), NtStatus::ACCESS_DENIED);
    assert_eq!(rename(&mut client, dir, "DIR\\below", false), NtStatus::ACCESS_DENIED);
    assert_eq!(rename(&mut client, file, "none\\file", false), NtStatus::OBJECT_PATH_NOT_FOUND);
    assert_eq!(rename(&mut client, file, "", false), NtStatus::OBJECT_NAME_INVALID);
    assert_eq!(rename(&mut client, file, "..\\file", false), NtStatus::OBJECT_PATH_SYNTAX_BAD);
    assert_eq!(rename(&mut client, file, "a*b", false), NtStatus::OBJECT_NAME_INVALID);
    let value = RenameInformation { root_directory: 1, ..RenameInformation::default() };
    assert_eq!(client.set(file, FileClass::RENAME, &value), NtStatus::INVALID_PARAMETER);
    let without = Opening { access: AccessMask::GENERIC_WRITE, ..Opening::default() };
    let without = client.open("file", without);
    assert_eq!(rename(&mut client, without, "new", false), NtStatus::ACCESS_DENIED);
    // A name longer than the buffer declares.
    let long = [&[0_u8; 16][..], &u32::MAX.to_le_bytes(), &[b'x', 0]].concat();
    let long: [u8; 22] = long.try_into().unwrap();
    assert_eq!(client.set(file, FileClass::RENAME, &long), NtStatus::INFO_LENGTH_MISMATCH);
    assert!(exists(&mut client, "file") && exists(&mut client, "dir"));
}

#[test]
fn delete_pending_can_be_cleared() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    client.put("file", b"data");
    let file = client.open("file", Opening::default());
    assert_eq!(dispose(&mut client, file, true), NtStatus::SUCCESS);
    assert!(standard(&mut client, file).delete_pending);
    other.create("file", Opening::default()).assert_refused(NtStatus::DELETE_PENDING);
    assert_eq!(dispose(&mut client, file, false), NtStatus::SUCCESS);
    let second = other.open("file", Opening::default());
    let without = Opening { access: AccessMask::GENERIC_READ, ..Opening::default() };
    let without = client.open("file", without);
    assert_eq!(dispose(&mut client, without, true), NtStatus::ACCESS_DENIED);
    assert_eq!(dispose(&mut client, file, true), NtStatus::SUCCESS);
    client.close(file);
    client.close(without);
    assert_eq!(other.data(second, 0, 10), b"data", "it goes with the last open");
    other.close(second);
    assert!(!exists(&mut client, "file"));
}

#[test]
fn delete_pending_shows_in_every_open() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    client.put("file", b"data");
    client.put("file:s", b"stream");
    let file = client.open("file", Opening::default());
    assert_eq!(link(&mut client, file, "link"), NtStatus::SUCCESS);
    let second = other.open("file", Opening::default());
    let stream = other.open("file:s", Opening::default());
    let told = |client: &mut Client, other: &mut Client| {
        let of = |client: &mut Client, file| {
            let alone = standard(client, file);
            let all = client.info(file, FileClass::ALL);
            assert_eq!(StandardInformation::from_bytes(&all[40..64]), Ok(alone));
            (alone.delete_pending, alone.number_of_links)
        };
        [of(client, file), of(other, second), of(other, stream)]
    };
    assert_eq!(told(&mut client, &mut other), [(false, 2); 3]);
    assert_eq!(dispose(&mut client, file, true), NtStatus::SUCCESS);
    assert_eq!(told(&mut client, &mut other), [(true, 1); 3], "a stream goes with its file");
    // Any client with DELETE access may clear the disposition.
    assert_eq!(dispose(&mut other, second, false), NtStatus::SUCCESS);
    assert_eq!(told(&mut client, &mut other), [(false, 2); 3]);
    assert_eq!(dispose(&mut other, stream, true), NtStatus::SUCCESS);
    let of_stream_alone = [(false, 2), (false, 2), (true, 2)];
    assert_eq!(told(&mut client, &mut other), of_stream_alone, "a stream is no name");
}

#[test]
fn delete_on_close_is_pending_after_close() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let options = CreateOptions::DELETE_ON_CLOSE;
    for opening in [
        Opening { options, ..Opening::default() },
        Opening { options: options | CreateOptions::DIRECTORY_FILE, ..Opening::default() },
    ] {
        let first = client.open("it", opening);
        let second = other.open("it", opening);
        let last = other.open("it", Opening { options: opening.options.without(options), ..opening });
        let told = |client: &mut Client, file| standard(client, file).delete_pending;
        assert_eq!([told(&mut client, first), told(&mut other, second), told(&mut other, last)], [false; 3]);
        client.close(first);
        assert_eq!([told(&mut other, second), told(&mut other, last)], [true; 2]);
        assert_eq!(dispose(&mut other, last, false), NtStatus::SUCCESS);
        assert_eq!([told(&mut other, second), told(&mut other, last)], [false; 2]);
        other.close(second);
        assert!(told(&mut other, last), "each of them deletes it");
        other.close(last);
        assert!(!exists(&mut client, "it"));
    }
}

#[test]
fn read_only_file_is_not_deleted() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let read_only = Opening { attributes: FileAttributes::READONLY, ..Opening::default() };
    let file = client.open("file", read_only);
    assert_eq!(dispose(&mut client, file, true), NtStatus::CANNOT_DELETE);
    let options = CreateOptions::DELETE_ON_CLOSE;
    let goes = Opening { options, access: AccessMask::DELETE, ..Opening::by(OPEN) };
    client.create("file", goes).assert_refused(NtStatus::CANNOT_DELETE);
    let flags = DispositionFlags::DELETE | DispositionFlags::IGNORE_READONLY_ATTRIBUTE;
    let status = client.set(file, FileClass::DISPOSITION_EX, &DispositionInformationEx { flags });
    assert_eq!(status, NtStatus::SUCCESS);
    client.close(file);
    assert!(!exists(&mut client, "file"));
    let root = client.open("", Opening { access: AccessMask::GENERIC_READ, ..Opening::dir() });
    assert_eq!(dispose(&mut client, root, true), NtStatus::ACCESS_DENIED);
}

#[test]
fn end_of_file_is_set() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"0123456789");
    let file = client.open("file", Opening::default());
    assert_eq!(set_size(&mut client, file, 4), NtStatus::SUCCESS);
    assert_eq!(set_size(&mut client, file, 6), NtStatus::SUCCESS);
    assert_eq!(client.data(file, 0, 20), b"0123\0\0");
    for bad in [-1, i64::MIN] {
        assert_eq!(set_size(&mut client, file, bad), NtStatus::INVALID_PARAMETER);
    }
    let short = client.set(file, FileClass::END_OF_FILE, &7_u32);
    assert_eq!(short, NtStatus::INFO_LENGTH_MISMATCH);
    let allocation = |size| SizeInformation { size };
    assert_eq!(client.set(file, FileClass::ALLOCATION, &allocation(1 << 20)), NtStatus::SUCCESS);
    assert_eq!(standard(&mut client, file).end_of_file, 6);
    assert_eq!(client.set(file, FileClass::ALLOCATION, &allocation(2)), NtStatus::SUCCESS);
    assert_eq!(standard(&mut client, file).end_of_file, 2);
    let reading = Opening { access: AccessMask::GENERIC_READ, ..Opening::by(OPEN) };
    let reading = client.open("file", reading);
    assert_eq!(set_size(&mut client, reading, 0), NtStatus::ACCESS_DENIED);
    let dir = client.open("dir", Opening::dir());
    for size in [0, 1, 4096, i64::MAX] {
        assert_eq!(set_size(&mut client, dir, size), NtStatus::INVALID_PARAMETER, "{size}");
        let status = client.set(dir, FileClass::ALLOCATION, &allocation(size));
        assert_eq!(status, NtStatus::INVALID_PARAMETER, "{size}");
    }
    assert_eq!(client.data(file, 0, 20), b"01");
}

#[test]
fn times_and_read_only_attribute_are_set() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let (accessed, written) = (FileTime::from_unix(1_000, 500), FileTime::from_unix(2_000, 0));
    let mut value = BasicInformation {
        last_access_time: accessed,
        last_write_time: written,
        file_attributes: FileAttributes::READONLY,
        ..BasicInformation::default()
    };
    assert_eq!(client.set(file, FileClass::BASIC, &value), NtStatus::SUCCESS);
    let told = basic(&mut client, file);
    assert_eq!((told.last_access_time, told.last_write_time), (accessed, written));
    assert!(told.file_attributes.contains(FileAttributes::READONLY));
    let writing = Opening { access: AccessMask::WRITE_DATA, ..Opening::by(OPEN) };
    client.create("file", writing).assert_refused(NtStatus::ACCESS_DENIED);
    // No attributes and no times to change.
    let kept = BasicInformation { last_access_time: FileTime::FREEZE, ..BasicInformation::default() };
    assert_eq!(client.set(file, FileClass::BASIC, &kept), NtStatus::SUCCESS);
    assert_eq!(basic(&mut client, file), told);
    value.file_attributes = FileAttributes::NORMAL;
    assert_eq!(client.set(file, FileClass::BASIC, &value), NtStatus::SUCCESS);
    client.open("file", writing);
    value.file_attributes = FileAttributes::DIRECTORY;
    assert_eq!(client.set(file, FileClass::BASIC, &value), NtStatus::INVALID_PARAMETER);
    let reading = Opening { access: AccessMask::GENERIC_READ, ..Opening::by(OPEN) };
    let reading = client.open("file", reading);
    assert_eq!(client.set(reading, FileClass::BASIC, &kept), NtStatus::ACCESS_DENIED);
}

/// An exclusive open does not block attribute reads.
#[test]
fn attribute_open_ignores_share_modes() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    client.open("file", Opening { share: ShareAccess::empty(), ..Opening::default() });
    let looking = Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::by(OPEN) };
    let reply = other.create("file", looking);
    let file = reply.body::<CreateResponse<'_>>().file_id;
    assert_eq!(standard(&mut other, file).end_of_file, 0);
    other.read(file, 0, 1).assert_refused(NtStatus::ACCESS_DENIED);
}

/// Offline attributes of Windows and OneDrive are accepted; the server reports none for local files.
#[test]
fn offline_attributes_are_accepted_but_not_stored() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let marks = [
        FileAttributes::RECALL_ON_OPEN,
        FileAttributes::PINNED,
        FileAttributes::UNPINNED,
        FileAttributes::RECALL_ON_DATA_ACCESS,
    ];
    for (number, mark) in marks.into_iter().enumerate() {
        let attributes = FileAttributes::HIDDEN | mark;
        for opening in [Opening::default(), Opening::dir()] {
            let path = format!("{number} {}", opening.options.is_empty());
            let made = client.open(&path, Opening { attributes, ..opening });
            let kept = FileAttributes::ARCHIVE.and(if opening.options.is_empty() {
                FileAttributes::ARCHIVE
            } else {
                FileAttributes::empty()
            });
            let is_dir =
                if opening.options.is_empty() { FileAttributes::empty() } else { FileAttributes::DIRECTORY };
            let shown = FileAttributes::HIDDEN | kept | is_dir;
            assert_eq!(basic(&mut client, made).file_attributes, shown, "{mark:?}");
            let file_attributes = FileAttributes::SYSTEM | mark;
            let set = BasicInformation { file_attributes, ..BasicInformation::default() };
            assert_eq!(client.set(made, FileClass::BASIC, &set), NtStatus::SUCCESS);
            assert_eq!(basic(&mut client, made).file_attributes, FileAttributes::SYSTEM | is_dir, "{mark:?}");
            client.close(made);
        }
        let overwrites = Opening {
            attributes: FileAttributes::SYSTEM | mark,
            ..Opening::by(CreateDisposition::OVERWRITE_IF)
        };
        let again = client.open(&format!("{number} true"), overwrites);
        client.close(again);
    }
    let unknown = Opening { attributes: FileAttributes(0x80_0000), ..Opening::default() };
    client.create("unknown", unknown).assert_refused(NtStatus::INVALID_PARAMETER);
}
