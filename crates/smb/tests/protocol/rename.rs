//! New names, and what others have open.

use crate::attr::{dispose, exists, rename};
use crate::rig::{Client, Opening, Rig, name};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::RenameInformation;
use smb_wire::create::ShareAccess;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus, Utf16};

pub(crate) fn link(client: &mut Client, file: FileId, to: &str) -> NtStatus {
    let to = name(to);
    let file_name = Utf16::new(&to).unwrap();
    let value = RenameInformation { replace_if_exists: false, root_directory: 0, file_name };
    client.set(file, FileClass::LINK, &value)
}

#[test]
fn a_name_is_given_where_the_directory_can_be_written_to() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let file = client.open("file", Opening::default());
    let dir = other.open("dir", Opening::dir());
    assert_eq!(rename(&mut client, file, "dir\\file", false), NtStatus::SHARING_VIOLATION, "it may go");
    other.close(dir);
    let access = AccessMask::LIST_DIRECTORY;
    let alone = other.open("dir", Opening { access, share: ShareAccess::READ, ..Opening::dir() });
    assert_eq!(
        rename(&mut client, file, "dir\\file", false),
        NtStatus::SHARING_VIOLATION,
        "it stays as it is"
    );
    other.close(alone);
    other.open("dir", Opening { access, ..Opening::dir() });
    assert_eq!(rename(&mut client, file, "dir\\file", false), NtStatus::SUCCESS);
}

#[test]
fn a_rename_moves_every_open_of_the_name() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let file = client.open("from", Opening::default());
    let second = other.open("from", Opening::default());
    assert_eq!(link(&mut client, file, "link"), NtStatus::SUCCESS);
    let linked = other.open("link", Opening::default());
    assert_eq!(rename(&mut client, file, "to", false), NtStatus::SUCCESS);
    let path = |client: &mut Client, file| client.info(file, FileClass::NORMALIZED_NAME)[4..].to_vec();
    assert_eq!(path(&mut other, second), name("to"));
    assert_eq!(path(&mut other, linked), name("link"));
    // What the second deletes is the new name, and not what has the old one by now.
    client.put("from", b"another");
    assert_eq!(dispose(&mut other, second, true), NtStatus::SUCCESS);
    assert_eq!(rename(&mut client, file, "then", false), NtStatus::SUCCESS);
    for (client, file) in [(&mut client, file), (&mut other, second)] {
        client.close(file);
    }
    other.close(linked);
    assert!(exists(&mut client, "from") && exists(&mut client, "link"));
    assert!(!exists(&mut client, "to") && !exists(&mut client, "then"));
}

#[test]
fn a_directory_keeps_its_name_while_anything_below_is_open() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let dir = client.open("dir", Opening::dir());
    let like = other.open("dirt", Opening::default());
    let below = other.open("dir\\file", Opening::default());
    assert_eq!(rename(&mut client, dir, "new", false), NtStatus::ACCESS_DENIED);
    other.close(below);
    let access = AccessMask::READ_ATTRIBUTES;
    let deep = other.open("dir\\deep", Opening { access, ..Opening::dir() });
    assert_eq!(rename(&mut client, dir, "new", false), NtStatus::ACCESS_DENIED);
    other.close(deep);
    assert_eq!(rename(&mut client, dir, "new", false), NtStatus::SUCCESS);
    other.close(like);
    assert!(exists(&mut client, "new\\file") && !exists(&mut client, "dir"));
}
