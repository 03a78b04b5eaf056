//! Names with Unix semantics: paths, listings, symbolic links.

use super::*;
use smb_wire::classes::file::RenameInformation;
use smb_wire::dir::{DirectoryClass, QueryDirectoryFlags, QueryDirectoryRequest};
use smb_wire::error::{ErrorContext, ErrorId, ErrorResponse, SymlinkError, SymlinkFlags};
use smb_wire::ioctl::CtlCode;
use smb_wire::reparse::ReparseData;
use smb_wire::{Reader, Utf16, chain};

fn write(client: &mut Client, path: &str, data: &[u8]) {
    let file = open(client, path, Opening { disposition: CreateDisposition::OPEN_IF, ..OPEN }, 0o644);
    assert_eq!(client.write(file, 0, data).status(), NtStatus::SUCCESS);
    client.close(file);
}

fn read(client: &mut Client, path: &str) -> Vec<u8> {
    let file = open(client, path, OPEN, 0);
    let data = client.data(file, 0, 100);
    client.close(file);
    data
}

fn ask(client: &mut Client, file_id: FileId, class: DirectoryClass, pattern: &str, room: u32) -> Reply {
    let pattern = name(pattern);
    let request = QueryDirectoryRequest {
        file_information_class: class,
        flags: QueryDirectoryFlags::RESTART_SCANS,
        file_index: 0,
        file_id,
        file_name: Utf16::new(&pattern).unwrap(),
        output_buffer_length: room,
    };
    client.call(Command::QUERY_DIRECTORY, &request)
}

/// A listing as Linux parses it: attributes, length of the name, name.
fn list(client: &mut Client, dir: FileId, pattern: &str) -> Vec<(String, PosixInformation)> {
    let reply = ask(client, dir, DirectoryClass::POSIX, pattern, 1 << 16);
    if reply.status() == NtStatus::NO_SUCH_FILE {
        return Vec::new();
    }
    let entries = chain::entries(8, reply.body::<OutputResponse<&[u8]>>().output).map(|entry| {
        let mut r = Reader::new(entry.unwrap());
        r.skip(8).unwrap();
        let information = PosixInformation::decode(&mut r).unwrap();
        let length = u32::decode(&mut r).unwrap();
        let name = Utf16::new(r.bytes(usize::try_from(length).unwrap()).unwrap()).unwrap();
        (String::from_utf16(&name.units().collect::<Vec<_>>()).unwrap(), information)
    });
    entries.collect()
}

fn names(client: &mut Client, path: &str, pattern: &str) -> Vec<String> {
    let dir = open(client, path, OPEN, 0);
    let mut names: Vec<_> = list(client, dir, pattern).into_iter().map(|(name, _)| name).collect();
    client.close(dir);
    names.retain(|name| name != "." && name != "..");
    names.sort();
    names
}

#[test]
fn posix_names_are_case_sensitive() {
    let rig = Rig::new();
    let (mut unix, mut windows) = (unix(&rig, ALICE), rig.alice());
    open(&mut unix, "Dir", MAKE_DIR, 0o755);
    write(&mut unix, "Dir/a", b"small");
    write(&mut unix, "Dir/A", b"large");
    assert_eq!((read(&mut unix, "Dir/a"), read(&mut unix, "Dir/A")), (b"small".to_vec(), b"large".to_vec()));
    create(&mut unix, "dir/a", OPEN, 0).assert_refused(NtStatus::OBJECT_PATH_NOT_FOUND);
    create(&mut unix, "DIR", OPEN, 0).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    // Windows clients find each by its spelling, and either one after the other is gone.
    assert_eq!((windows.get("dir\\a"), windows.get("DIR\\A")), (b"small".to_vec(), b"large".to_vec()));
    let deletes = Opening { access: AccessMask::DELETE, options: CreateOptions::DELETE_ON_CLOSE, ..OPEN };
    let file = open(&mut unix, "Dir/a", deletes, 0);
    unix.close(file);
    assert_eq!(windows.get("dir\\a"), b"large");
    create(&mut unix, "Dir/a", OPEN, 0).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(names(&mut unix, "Dir", "a"), Vec::<String>::new());
}

#[test]
fn posix_rename_keeps_case() {
    let rig = Rig::new();
    let mut client = unix(&rig, ALICE);
    let dir = open(&mut client, "dir", MAKE_DIR, 0o755);
    client.close(dir);
    write(&mut client, "one", b"1");
    write(&mut client, "dir/Two", b"2");
    let file = open(&mut client, "one", OPEN, 0);
    let mut rename = |to: &str| {
        let to = name(to);
        let file_name = Utf16::new(&to).unwrap();
        let rename = RenameInformation { replace_if_exists: false, root_directory: 0, file_name };
        client.set(file, FileClass::RENAME, &rename)
    };
    assert_eq!(rename("dir/Two"), NtStatus::OBJECT_NAME_COLLISION);
    assert_eq!(rename("dir/../two"), NtStatus::OBJECT_PATH_SYNTAX_BAD);
    assert_eq!(rename("dir/two"), NtStatus::SUCCESS);
    assert_eq!(names(&mut client, "dir", "*"), ["Two", "two"]);
}

#[test]
fn reserved_characters_are_allowed_in_posix_names() {
    let rig = Rig::new();
    let (mut unix, mut windows) = (unix(&rig, ALICE), rig.alice());
    let odd = ["\"*:<>?|", "\\", "a\\b:c", "end ", "end.", "tab\t", " . "];
    for path in odd {
        write(&mut unix, path, path.as_bytes());
    }
    let mut sorted = odd;
    sorted.sort_unstable();
    assert_eq!(names(&mut unix, "", "*"), sorted);
    for path in odd {
        assert_eq!(read(&mut unix, path), path.as_bytes());
    }
    // The private-use mapping that Windows clients see and that older Linux kernels send.
    let mapped = "\u{f020}\u{f021}\u{f022}\u{f023}\u{f024}\u{f025}\u{f027}";
    assert_eq!(windows.get(mapped), odd[0].as_bytes());
    assert_eq!(read(&mut unix, mapped), odd[0].as_bytes());
    assert_eq!(windows.get("a\u{f026}b\u{f022}c"), odd[2].as_bytes());
    assert_eq!(windows.get("end\u{f029}"), b"end.");
}

#[test]
fn posix_paths_cannot_escape_or_reach_hidden_files() {
    let rig = Rig::new();
    let mut client = unix(&rig, ALICE);
    for path in ["..", "../x", "a/..", ".", "a//b"] {
        create(&mut client, path, OPEN, 0).assert_refused(NtStatus::OBJECT_PATH_SYNTAX_BAD);
    }
    create(&mut client, "/etc/passwd", OPEN, 0).assert_refused(NtStatus::INVALID_PARAMETER);
    for path in ["\u{f029}\u{f029}", "a\0b"] {
        create(&mut client, path, OPEN, 0).assert_refused(NtStatus::OBJECT_NAME_INVALID);
    }
    let hidden = create(&mut client, ".plimsoll-streams", OPEN, 0).status();
    let made = create(&mut client, ".plimsoll-streams", MAKE_DIR, 0o777).status();
    assert_eq!((hidden, made), (NtStatus::ACCESS_DENIED, NtStatus::ACCESS_DENIED));
    // A colon is an ordinary character here and creates no stream.
    write(&mut client, "file", b"data");
    write(&mut client, "file:stream", b"a file");
    assert_eq!(names(&mut client, "", "*"), ["file", "file:stream"]);
}

#[test]
fn posix_listing_has_unix_attributes() {
    let rig = Rig::new();
    let (mut unix, mut windows) = (unix(&rig, ALICE), rig.alice());
    write(&mut unix, "file", b"12345");
    open(&mut unix, "dir", MAKE_DIR, 0o750);
    make_special(&rig, "link", Special::Symlink(b"file"));
    let root = open(&mut unix, "", OPEN, 0);
    let listed = list(&mut unix, root, "*");
    let of = |wanted: &str| listed.iter().find(|(name, _)| name == wanted).unwrap().1;
    let file = open(&mut unix, "file", OPEN, 0);
    assert_eq!(of("file"), information(&mut unix, file));
    assert_eq!((of("dir").unix.mode, of("dir").file_attributes), (0o750, FileAttributes::DIRECTORY));
    let link = of("link").unix;
    assert_eq!((link.mode & !0o777, link.reparse_tag), (PosixFileType::SYMLINK.0, ReparseTag::SYMLINK));
    assert_eq!(of("..").inode, of(".").inode, "the parent of the root is hidden");
    // A single name is an entry, too; small buffers are filled as far as possible.
    assert_eq!(list(&mut unix, root, "file"), [("file".to_owned(), of("file"))]);
    let small = ask(&mut unix, root, DirectoryClass::POSIX, "file", 131);
    small.assert_refused(NtStatus::INFO_LENGTH_MISMATCH);
    let dir = windows.open("", Opening { options: CreateOptions::DIRECTORY_FILE, ..OPEN });
    let reply = ask(&mut windows, dir, DirectoryClass::POSIX, "*", 1 << 16);
    reply.assert_refused(NtStatus::INVALID_INFO_CLASS);
}

#[test]
fn posix_link_is_reported_not_followed() {
    let rig = Rig::new();
    let mut client = unix(&rig, ALICE);
    write(&mut client, "file", b"data");
    for (path, target) in [("near", "file"), ("far", "/etc/passwd"), ("out", "../../x\\y:z")] {
        make_special(&rig, path, Special::Symlink(target.as_bytes()));
        let flags = if target.starts_with('/') { SymlinkFlags::empty() } else { SymlinkFlags::RELATIVE };
        for disposition in [CreateDisposition::OPEN, CreateDisposition::OVERWRITE_IF] {
            let reply = create(&mut client, path, Opening { disposition, ..OPEN }, 0);
            assert_eq!(reply.status(), NtStatus::STOPPED_ON_SYMLINK);
            let error: ErrorResponse<'_> = reply.read();
            let context = ErrorContext::from_bytes(error.data).unwrap();
            assert_eq!((error.context_count, context.error_id), (1, ErrorId::DEFAULT));
            let link = SymlinkError::from_bytes(context.data).unwrap();
            let wire = name(target);
            assert_eq!((link.substitute_name.bytes(), link.flags), (&wire[..], flags));
            assert_eq!(link.unparsed_path_length, 0);
        }
        create(&mut client, &format!("{path}/x"), OPEN, 0).assert_refused(NtStatus::OBJECT_PATH_NOT_FOUND);
        let itself = Opening {
            access: AccessMask::READ_ATTRIBUTES,
            options: CreateOptions::OPEN_REPARSE_POINT,
            ..OPEN
        };
        let link = open(&mut client, path, itself, 0);
        let told = information(&mut client, link);
        assert_eq!(
            (told.unix.mode, told.unix.reparse_tag),
            (PosixFileType::SYMLINK.0 | 0o777, ReparseTag::SYMLINK)
        );
        let reply = client.ioctl(link, CtlCode::GET_REPARSE_POINT, &[], 4096);
        let Ok(ReparseData::SymbolicLink(data)) = ReparseData::from_bytes(crate::rig::output(&reply)) else {
            panic!("{path} is a link")
        };
        assert_eq!((data.substitute_name.bytes(), data.flags), (&name(target)[..], flags));
    }
    // Windows clients get the same error as before.
    rig.alice().create("near", OPEN).assert_refused(NtStatus::IO_REPARSE_TAG_NOT_HANDLED);
    assert_eq!(read(&mut client, "file"), b"data");
}
