//! QUERY_DIRECTORY.

use crate::rig::{Client, Opening, Reply, Rig, name};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::DispositionInformation;
use smb_wire::create::{CreateDisposition, CreateOptions};
use smb_wire::dir::{DirectoryClass, OutputResponse, QueryDirectoryFlags, QueryDirectoryRequest};
use smb_wire::header::Command;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus, Utf16, chain};

/// Each class with the offsets of its name length and its name (MS-FSCC §2.4).
const CLASSES: [(DirectoryClass, usize, usize); 7] = [
    (DirectoryClass::DIRECTORY, 60, 64),
    (DirectoryClass::FULL_DIRECTORY, 60, 68),
    (DirectoryClass::BOTH_DIRECTORY, 60, 94),
    (DirectoryClass::NAMES, 8, 12),
    (DirectoryClass::ID_BOTH_DIRECTORY, 60, 104),
    (DirectoryClass::ID_FULL_DIRECTORY, 60, 80),
    (DirectoryClass::ID_EXTD_DIRECTORY, 60, 88),
];
const NAMES: DirectoryClass = DirectoryClass::NAMES;
const NONE: QueryDirectoryFlags = QueryDirectoryFlags(0);
const ROOM: u32 = 1 << 16;

pub(crate) fn ask(
    client: &mut Client,
    file_id: FileId,
    pattern: &str,
    class: DirectoryClass,
    flags: QueryDirectoryFlags,
    room: u32,
) -> Reply {
    let pattern = name(pattern);
    let request = QueryDirectoryRequest {
        file_information_class: class,
        flags,
        file_index: 0,
        file_id,
        file_name: Utf16::new(&pattern).unwrap(),
        output_buffer_length: room,
    };
    let charge = u16::try_from(room.div_ceil(1 << 16).max(1)).unwrap();
    client.call_charged(Command::QUERY_DIRECTORY, &request, charge)
}

pub(crate) fn output(reply: &Reply) -> &[u8] {
    reply.body::<OutputResponse<&[u8]>>().output
}

pub(crate) fn names_in(reply: &Reply, class: DirectoryClass) -> Vec<String> {
    let (_, length, start) = CLASSES.into_iter().find(|(known, ..)| *known == class).unwrap();
    let entries = chain::entries(8, output(reply)).map(|entry| {
        let entry = entry.unwrap();
        let length = u32::from_le_bytes(entry[length..length + 4].try_into().unwrap());
        let name = &entry[start..start + usize::try_from(length).unwrap()];
        String::from_utf16(&Utf16::new(name).unwrap().units().collect::<Vec<_>>()).unwrap()
    });
    entries.collect()
}

/// The names of a complete scan, in order.
pub(crate) fn scan(
    client: &mut Client,
    dir: FileId,
    pattern: &str,
    room: u32,
) -> Result<Vec<String>, NtStatus> {
    let mut names = Vec::new();
    let mut flags = QueryDirectoryFlags::RESTART_SCANS;
    loop {
        let reply = ask(client, dir, pattern, NAMES, flags, room);
        match reply.status() {
            NtStatus::SUCCESS => names.extend(names_in(&reply, NAMES)),
            NtStatus::NO_MORE_FILES => return Ok(names),
            status => return Err(status),
        }
        flags = NONE;
    }
}

fn root(client: &mut Client) -> FileId {
    let options = CreateOptions::DIRECTORY_FILE;
    let opening = Opening { options, access: AccessMask::GENERIC_READ, ..Opening::default() };
    client.open("", opening)
}

fn filled(rig: &Rig, names: &[&str]) -> (Client, FileId) {
    let mut client = rig.alice();
    for name in names {
        client.put(name, b"");
    }
    let root = root(&mut client);
    (client, root)
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

#[test]
fn every_class_lists_every_name_once() {
    let rig = Rig::new();
    let (mut client, dir) = filled(&rig, &["a", "odd", "a name with blanks", "grün€"]);
    for (class, ..) in CLASSES {
        let reply = ask(&mut client, dir, "*", class, QueryDirectoryFlags::RESTART_SCANS, ROOM);
        let found = sorted(names_in(&reply, class));
        assert_eq!(found, [".", "..", "a", "a name with blanks", "grün€", "odd"], "{class:?}");
        ask(&mut client, dir, "*", class, NONE, ROOM).assert_refused(NtStatus::NO_MORE_FILES);
    }
}

#[test]
fn entry_has_file_attributes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"12345");
    let dir = root(&mut client);
    let reply = ask(&mut client, dir, "file", DirectoryClass::ID_BOTH_DIRECTORY, NONE, ROOM);
    let entry = output(&reply);
    let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
    let now = smb_wire::FileTime::from_unix(crate::rig::NOW.seconds, 0).0;
    assert_eq!([number(8), number(16), number(24), number(32)], [now; 4], "times");
    assert_eq!(number(40), 5, "EndOfFile");
    assert!(number(48) >= 5, "AllocationSize");
    assert_eq!(entry[56..60], [0x20, 0, 0, 0], "FileAttributes: ARCHIVE");
    assert_eq!(entry[68..96], [0; 28], "no short name");
    assert_ne!(number(96), 0, "FileId");
    assert_eq!(entry.len(), 104 + 8);
}

#[test]
fn patterns_follow_windows() {
    let rig = Rig::new();
    let (mut client, dir) = filled(&rig, &["abc", "abcd", "a.txt", "B.TXT", "noext", "x.y.z"]);
    for (pattern, expected) in [
        // An empty pattern matches everything, and later repeats the earlier pattern.
        ("", vec![".", "..", "B.TXT", "a.txt", "abc", "abcd", "noext", "x.y.z"]),
        ("*.txt", vec!["B.TXT", "a.txt"]),
        ("a?c", vec!["abc"]),
        ("A??", vec!["abc"]),
        ("ABC", vec!["abc"]),
        ("*.*.*", vec!["..", "x.y.z"]),
        ("?.?.?", vec!["x.y.z"]),
        ("a*", vec!["a.txt", "abc", "abcd"]),
        ("", vec!["a.txt", "abc", "abcd"]),
    ] {
        assert_eq!(scan(&mut client, dir, pattern, ROOM).map(sorted).unwrap(), expected, "{pattern:?}");
    }
    for none in ["zzz", "*.none", "?"] {
        // In the root, "?" matches only ".".
        let found = scan(&mut client, dir, none, ROOM);
        let expected = if none == "?" { Ok(vec![".".to_owned()]) } else { Err(NtStatus::NO_SUCH_FILE) };
        assert_eq!(found, expected, "{none:?}");
    }
    for bad in ["a/b", "a\\b", &"x".repeat(256)] {
        let flags = QueryDirectoryFlags::RESTART_SCANS;
        let status = ask(&mut client, dir, bad, NAMES, flags, ROOM).status();
        assert!(
            [NtStatus::OBJECT_NAME_INVALID, NtStatus::NO_SUCH_FILE].contains(&status),
            "{bad:?} {status:?}"
        );
    }
}

#[test]
fn scan_resumes_with_its_pattern() {
    let rig = Rig::new();
    let (mut client, dir) = filled(&rig, &["a1", "a2", "a3", "b1"]);
    let single = QueryDirectoryFlags::RETURN_SINGLE_ENTRY;
    let mut found = Vec::new();
    for pattern in ["a*", "b*", ""] {
        // The pattern of a continued scan is ignored.
        let reply = ask(&mut client, dir, pattern, NAMES, single, ROOM);
        found.extend(names_in(&reply, NAMES));
    }
    assert_eq!(sorted(found), ["a1", "a2", "a3"]);
    ask(&mut client, dir, "b*", NAMES, single, ROOM).assert_refused(NtStatus::NO_MORE_FILES);
    let again = QueryDirectoryFlags::RESTART_SCANS | single;
    let first = names_in(&ask(&mut client, dir, "a*", NAMES, again, ROOM), NAMES);
    assert_eq!(first.len(), 1);
    let reopen = QueryDirectoryFlags::REOPEN;
    assert_eq!(names_in(&ask(&mut client, dir, "b*", NAMES, reopen, ROOM), NAMES), ["b1"]);
    // Another open has its own scan.
    let other = root(&mut client);
    let all = scan(&mut client, other, "*", ROOM).unwrap();
    assert_eq!(all.len(), 6);
}

#[test]
fn long_listing_has_no_gaps_or_duplicates() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let names: Vec<String> = (0..300).map(|i| format!("file number {i:05}")).collect();
    for name in &names {
        client.action(name, Opening::by(CreateDisposition::CREATE)).unwrap();
    }
    let dir = root(&mut client);
    for room in [60, 500, 4096, 1 << 20] {
        let found = sorted(scan(&mut client, dir, "file*", room).unwrap());
        assert!(found == names, "{room}: {} of {}", found.len(), names.len());
    }
}

#[test]
fn buffer_smaller_than_an_entry_is_refused() {
    let rig = Rig::new();
    let (mut client, dir) = filled(&rig, &["name"]);
    let exactly = 12 + 8;
    for room in [0, 1, 11, exactly - 1] {
        let flags = QueryDirectoryFlags::RESTART_SCANS;
        ask(&mut client, dir, "name", NAMES, flags, room).assert_refused(NtStatus::INFO_LENGTH_MISMATCH);
    }
    // No entry was skipped.
    let reply = ask(&mut client, dir, "name", NAMES, NONE, exactly);
    assert_eq!(names_in(&reply, NAMES), ["name"]);
    // A larger buffer gets a reply of the maximum size.
    let reply = ask(&mut client, dir, "*", NAMES, QueryDirectoryFlags::RESTART_SCANS, 8 << 20);
    assert_eq!(names_in(&reply, NAMES), [".", "..", "name"]);
}

#[test]
fn listing_needs_a_readable_directory() {
    let rig = Rig::new();
    let (mut client, dir) = filled(&rig, &["file"]);
    let file = client.open("file", Opening::default());
    ask(&mut client, file, "*", NAMES, NONE, ROOM).assert_refused(NtStatus::INVALID_PARAMETER);
    for class in [DirectoryClass(0), DirectoryClass(0x7f), DirectoryClass::POSIX] {
        ask(&mut client, dir, "*", class, NONE, ROOM).assert_refused(NtStatus::INVALID_INFO_CLASS);
    }
    let blind = Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::dir() };
    let blind = client.open("", blind);
    ask(&mut client, blind, "*", NAMES, NONE, ROOM).assert_refused(NtStatus::ACCESS_DENIED);
    let unknown = FileId { persistent: 1, volatile: 77 };
    ask(&mut client, unknown, "*", NAMES, NONE, ROOM).assert_refused(NtStatus::FILE_CLOSED);
}

#[test]
fn only_empty_directory_is_deleted() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let dir = client.open("dir", Opening::dir());
    client.put("dir\\file", b"");
    let gone = DispositionInformation { delete_pending: true };
    assert_eq!(client.set(dir, FileClass::DISPOSITION, &gone), NtStatus::DIRECTORY_NOT_EMPTY);
    let file = client.open("dir\\FILE", Opening::default());
    assert_eq!(client.set(file, FileClass::DISPOSITION, &gone), NtStatus::SUCCESS);
    client.close(file);
    assert_eq!(client.set(dir, FileClass::DISPOSITION, &gone), NtStatus::SUCCESS);
    client.close(dir);
    let missing = Opening { disposition: CreateDisposition::OPEN, ..Opening::dir() };
    client.create("dir", missing).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
}
