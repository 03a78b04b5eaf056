//! Renames and hard links of open files.

use crate::file_information::{dispose, exists, rename};
use crate::rig::{Client, NOW, Opening, Rig, SHARE, lease, name};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{RenameFlags, RenameInformation, RenameInformationEx};
use smb_wire::create::{CreateDisposition, CreateOptions, ShareAccess};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{FileId, NtStatus, Utf16};
use std::sync::Arc;
use vfs::{Caller, Disposition, Durability, ExportRule, PendingSync, SetAttrs, Volume, VolumeId};
use vfs_testing::MemFs;

pub(crate) fn link(client: &mut Client, file: FileId, to: &str) -> NtStatus {
    link_over(client, file, to, false)
}

fn link_over(client: &mut Client, file: FileId, to: &str, replace_if_exists: bool) -> NtStatus {
    let to = name(to);
    let file_name = Utf16::new(&to).unwrap();
    let value = RenameInformation { replace_if_exists, root_directory: 0, file_name };
    client.set(file, FileClass::LINK, &value)
}

#[test]
fn link_needs_writable_directory() {
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
fn failed_link_replaces_nothing() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("to", b"stays");
    let file = client.open("from", Opening::default());
    let (caller, mut pending) = (Caller::new(1000, 100, []), PendingSync::default());
    rig.namespace.load().exports()[0].root().remove(&caller, b"from", &mut pending).unwrap();
    assert_eq!(link_over(&mut client, file, "to", true), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(client.get("to"), b"stays");
}

#[test]
fn link_beyond_maximum_replaces_nothing() {
    let mut options = vfs_testing::memfs::Options::default();
    options.limits.links_max = 2;
    let fs = Arc::new(MemFs::with_options(Arc::new(|| NOW), options));
    let rig =
        Rig::with(ExportRule::everybody(), |_| Volume::new(VolumeId(1), SHARE, fs, Durability::Sync, 7));
    let mut client = rig.alice();
    client.put("to", b"stays");
    let file = client.open("from", Opening::default());
    assert_eq!(link(&mut client, file, "link"), NtStatus::SUCCESS);
    assert_eq!(link(&mut client, file, "more"), NtStatus::TOO_MANY_LINKS);
    assert_eq!(link_over(&mut client, file, "to", true), NtStatus::TOO_MANY_LINKS);
    assert_eq!(client.get("to"), b"stays");
}

#[test]
fn replacing_link_waits_for_leases() {
    let rig = Rig::new();
    let (mut client, mut keeper) = (rig.alice_at(1), rig.alice_at(2));
    client.put("to", b"goes");
    keeper.put("from", b"new");
    keeper.open_lease("from", Opening::default(), lease(1, "RH")).assert_state("RH");
    let file = client.open("from", Opening::default());
    let linking = std::thread::spawn(move || (link_over(&mut client, file, "to", true), client));
    keeper.assert_lease_break(1, "RH", "R", true);
    assert_eq!(keeper.get("to"), b"goes");
    assert_eq!(keeper.acknowledge_lease(1, "R"), NtStatus::SUCCESS);
    let (linked, _client) = linking.join().unwrap();
    assert_eq!((linked, &keeper.get("to")[..]), (NtStatus::SUCCESS, &b"new"[..]));
}

#[test]
fn read_only_target_is_not_replaced() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let attributes = FileAttributes::READONLY;
    let access = AccessMask::READ_ATTRIBUTES;
    let to = client.open("to", Opening { attributes, access, ..Opening::by(CreateDisposition::CREATE) });
    client.close(to);
    let file = client.open("from", Opening::default());
    assert_eq!(rename(&mut client, file, "to", true), NtStatus::ACCESS_DENIED);
    assert_eq!(link_over(&mut client, file, "to", true), NtStatus::ACCESS_DENIED);
    assert!(exists(&mut client, "from") && exists(&mut client, "to"));
    let wire = name("to");
    let flags = RenameFlags::REPLACE_IF_EXISTS | RenameFlags::IGNORE_READONLY_ATTRIBUTE;
    let ex = RenameInformationEx { flags, root_directory: 0, file_name: Utf16::new(&wire).unwrap() };
    assert_eq!(client.set(file, FileClass::RENAME_EX, &ex), NtStatus::SUCCESS);
    assert!(!exists(&mut client, "from"));
}

#[test]
fn rename_updates_every_open_of_the_name() {
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
    // The second open deletes the new name, not the file that now has the old one.
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
fn delete_on_close_removes_current_name() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let deleting = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    let file = client.open("from", deleting);
    let second = other.open("from", deleting);
    assert_eq!(rename(&mut client, file, "to", false), NtStatus::SUCCESS);
    let third = other.open("to", Opening::default());
    client.put("from", b"another");
    // The same after an NFS rename.
    let (caller, mut pending) = (Caller::new(1000, 100, []), PendingSync::default());
    let root = rig.namespace.load().exports()[0].root();
    root.rename(&caller, b"to", &root, b"then", &mut pending).unwrap();
    client.put("to", b"another");
    client.close(file);
    other.create("then", Opening::default()).assert_refused(NtStatus::DELETE_PENDING);
    other.close(second);
    other.close(third);
    assert!(!exists(&mut client, "then"));
    assert_eq!((client.get("from"), client.get("to")), (b"another".to_vec(), b"another".to_vec()));
}

#[test]
fn directory_with_open_files_is_not_renamed() {
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

#[test]
fn rename_does_not_move_a_successor_of_the_name() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("from", Opening::default());
    let (caller, mut pending) = (Caller::new(1000, 100, []), PendingSync::default());
    let root = rig.namespace.load().exports()[0].root();
    root.rename(&caller, b"from", &root, b"moved", &mut pending).unwrap();
    root.create(&caller, b"from", Disposition::CreateNew, &SetAttrs::default(), &mut pending).unwrap();
    client.put("to", b"stays");
    for to in ["to", "new"] {
        assert_eq!(rename(&mut client, file, to, true), NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    assert_eq!(dispose(&mut client, file, true), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(client.get("to"), b"stays");
    assert!(exists(&mut client, "from") && exists(&mut client, "moved") && !exists(&mut client, "new"));
    assert_eq!(link(&mut client, file, "link"), NtStatus::SUCCESS);
    client.write(file, 0, b"mine");
    assert_eq!(client.get("link"), b"mine", "a hard link follows the file");
}

#[test]
fn rename_onto_own_hard_link_removes_the_source() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("from", Opening::default());
    assert_eq!(link(&mut client, file, "link"), NtStatus::SUCCESS);
    assert_eq!(link(&mut client, file, "LINK"), NtStatus::OBJECT_NAME_COLLISION);
    assert_eq!(rename(&mut client, file, "link", false), NtStatus::OBJECT_NAME_COLLISION);
    assert!(exists(&mut client, "from"));
    client.write(file, 0, b"data");
    assert_eq!(rename(&mut client, file, "LINK", true), NtStatus::SUCCESS);
    assert!(!exists(&mut client, "from") && exists(&mut client, "link"));
    assert_eq!(rename(&mut client, file, "LINK", true), NtStatus::SUCCESS, "its only name, in another case");
    assert_eq!(client.get("link"), b"data");
    assert_eq!(rename(&mut client, file, "link", true), NtStatus::SUCCESS);
    let path = |client: &mut Client| client.info(file, FileClass::NORMALIZED_NAME)[4..].to_vec();
    assert_eq!(path(&mut client), name("link"));
    for to in ["link", "Link"] {
        assert_eq!(rename(&mut client, file, to, false), NtStatus::SUCCESS, "its own name, in another case");
        assert_eq!(path(&mut client), name(to));
    }
    client.close(file);
    // Delete-on-close removes the remaining name.
    let options = CreateOptions::DELETE_ON_CLOSE;
    let goes = client.open("link", Opening { options, ..Opening::by(CreateDisposition::OPEN) });
    assert_eq!(link(&mut client, goes, "other"), NtStatus::SUCCESS);
    assert_eq!(rename(&mut client, goes, "other", true), NtStatus::SUCCESS);
    assert!(exists(&mut client, "other"));
    client.close(goes);
    assert!(!exists(&mut client, "other") && !exists(&mut client, "link"));
}
