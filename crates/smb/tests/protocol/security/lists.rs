//! ACLs on volumes with NTFS rules: access checks and inheritance.

use super::*;
use crate::file_information::dispose;
use crate::rig::NOW;
use crate::settings;
use smb_wire::FileTime;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::BasicInformation;
use smb_wire::create::CreateOptions;
use std::sync::Arc;
use vfs::{
    Access, Disposition, Durability, Export, ExportRule, File, FsError, PendingSync, SecurityStyle, SetAttrs,
    ShareSettings, Volume, VolumeId,
};
use vfs_testing::MemFs;

const ALICES: u32 = 1000;
const BOBS: u32 = 1001;

fn rig() -> Rig {
    let make = |volume: vfs::Volume| volume.with_security_style(SecurityStyle::Ntfs).unwrap();
    Rig::with(ExportRule::everybody(), make)
}

/// The rig, and the root of its storage below the service, where ACLs have no effect.
fn rig_and_storage() -> (Rig, File) {
    let fs = Arc::new(MemFs::new(Arc::new(|| NOW)));
    let volume = |id| Volume::new(VolumeId(id), SHARE, Arc::clone(&fs) as _, Durability::Sync, 7);
    let make = |_| volume(1).with_security_style(SecurityStyle::Ntfs).unwrap();
    let rig = Rig::with(ExportRule::everybody(), make);
    (rig, Arc::new(Export::new("/past", Arc::new(volume(2)), vec![])).root())
}

fn create(dir: &File, caller: &Caller, name: &str, mode: u32) -> File {
    let (set, mut pending) = (SetAttrs { mode: Some(mode), ..SetAttrs::default() }, PendingSync::default());
    dir.create(caller, name.as_bytes(), Disposition::CreateNew, &set, &mut pending).unwrap().file
}

fn user(uid: u32) -> Sid {
    let mut client_sid = vec![1, 5, 0, 0, 0, 0, 0, 5];
    // The SIDs of the rig's machine: 1000 plus twice the uid.
    for part in [21, 1, 2, 3, 1000 + 2 * uid] {
        client_sid.extend(part.to_le_bytes());
    }
    Sid::from_bytes(&client_sid).unwrap()
}

/// The file over NFS.
fn file(rig: &Rig, name: &[u8]) -> File {
    let root = rig.namespace.load().exports()[0].root();
    let dir = root.open_dir(&Caller::new(0, 0, []), Blocking::Allowed).unwrap();
    dir.lookup(name, Blocking::Allowed).unwrap().file
}

fn by(access: AccessMask) -> Opening {
    Opening { access, disposition: CreateDisposition::OPEN, ..ALL }
}

#[test]
fn acl_round_trips() {
    let rig = rig();
    let mut alice = rig.alice();
    let made = alice.open("file", ALL);
    let stranger = Sid::new(5, &[21, 7, 8, 9, 1234]).unwrap();
    let mut entries = vec![
        allow(AccessMask::READ_DATA, user(BOBS)),
        Ace::deny(AceFlags::INHERITED, AccessMask::WRITE_DATA, stranger),
        allow(AccessMask::DELETE, Sid::new(22, &[1, 4711]).unwrap()),
        allow(AccessMask::READ_EA, Sid::new(22, &[2, 4711]).unwrap()),
        Ace::deny(AceFlags::empty(), AccessMask::FILE_ALL, everyone()),
    ];
    for known in [(3, 0), (3, 1), (3, 4)] {
        entries.push(allow(AccessMask::READ_DATA, Sid::new(known.0, &[known.1]).unwrap()));
    }
    let mut descriptor = list(&entries);
    descriptor.control = Control::DACL_PRESENT | Control::DACL_PROTECTED;
    assert_eq!(set(&mut alice, made, DACL, &descriptor), NtStatus::SUCCESS);
    let said = told(&mut alice, made, DACL).unwrap();
    assert_eq!(said.dacl, descriptor.dacl, "in this order, though no tool would write it");
    assert!(said.control.contains(Control::DACL_PROTECTED));
    let null = SecurityDescriptor { control: Control::DACL_PRESENT, ..SecurityDescriptor::default() };
    assert_eq!(set(&mut alice, made, DACL, &null), NtStatus::SUCCESS);
    let said = told(&mut alice, made, DACL).unwrap();
    assert!(said.control.contains(Control::DACL_PRESENT) && said.dacl.is_none());
    bob(&rig).open("file", by(AccessMask::FILE_ALL));
    assert_eq!(set(&mut alice, made, DACL, &list(&[])), NtStatus::SUCCESS);
    bob(&rig).create("file", by(AccessMask::READ_DATA)).assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn access_based_listing_hides_partly_readable_files() {
    let rig = rig();
    settings::set(&rig, ShareSettings { access_based_enumeration: true, ..settings::DEFAULT });
    let mut alice = rig.alice();
    let made = alice.open("file", ALL);
    let parts =
        [AccessMask::READ_DATA, AccessMask::READ_EA, AccessMask::READ_ATTRIBUTES, AccessMask::READ_CONTROL];
    let wholly = parts.into_iter().fold(AccessMask::empty(), |all, part| all | part);
    let mut seen_with = |mask| {
        assert_eq!(set(&mut alice, made, DACL, &list(&[allow(mask, everyone())])), NtStatus::SUCCESS);
        !settings::listed(&mut bob(&rig), "*").is_empty()
    };
    assert!(seen_with(wholly));
    for part in parts {
        assert!(!seen_with(wholly.without(part)), "{part:?}");
    }
}

#[test]
fn denial_applies_in_every_protocol() {
    let rig = rig();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    let made = alice.open("file", ALL);
    let denied = Ace::deny(AceFlags::empty(), AccessMask::WRITE_DATA, user(BOBS));
    let entries = [denied, allow(AccessMask::GENERIC_ALL, everyone())];
    assert_eq!(set(&mut alice, made, DACL, &list(&entries)), NtStatus::SUCCESS);
    bob.create("file", by(AccessMask::WRITE_DATA)).assert_refused(NtStatus::ACCESS_DENIED);
    bob.create("file", by(AccessMask::FILE_ALL)).assert_refused(NtStatus::ACCESS_DENIED);
    bob.open("file", by(AccessMask::READ_DATA));
    // Over NFS, with an open and without, and through another name.
    let (nfs, caller) = (file(&rig, b"file"), Caller::new(BOBS, 100, []));
    let root = rig.namespace.load().exports()[0].root();
    root.link(&caller, &nfs, b"link", &mut PendingSync::default()).unwrap();
    for name in [b"file", b"link"] {
        let nfs = file(&rig, name);
        assert_eq!(nfs.authorize_write(&caller).map(drop), Err(FsError::Access));
        let opened = nfs.open(&caller, Access::WRITE, Blocking::Allowed);
        assert_eq!(opened.map(drop), Err(FsError::Access));
        assert!(nfs.authorize_read(&caller, Blocking::Allowed).is_ok());
        let reply = nfs.access(&caller, Blocking::Allowed).unwrap();
        assert!(reply.read && !reply.modify && reply.extend);
        let cut = SetAttrs { size: Some(0), ..SetAttrs::default() };
        let cut = nfs.set_attrs(&caller, &cut, None, &mut PendingSync::default());
        assert_eq!(cut.map(drop), Err(FsError::Access));
    }
    assert_eq!(mode_of(&rig, b"file") & 0o222, 0o200, "a mode denies all users what it cannot deny one");
}

#[test]
fn denial_of_absent_user_applies_once_created() {
    const LATER: u32 = 4711;
    let rig = rig();
    let mut alice = rig.alice();
    let made = alice.open("file", ALL);
    let entries = |who| {
        let denied = Ace::deny(AceFlags::empty(), AccessMask::WRITE_DATA, who);
        list(&[denied, allow(AccessMask::FILE_ALL, everyone())])
    };
    // ACLs restored from a backup before their users exist, or SIDs that a client remembers.
    assert_eq!(set(&mut alice, made, DACL, &entries(user(LATER))), NtStatus::SUCCESS);
    let later = Caller::new(LATER, 100, []);
    assert_eq!(file(&rig, b"file").authorize_write(&later).map(drop), Err(FsError::Access));
    let said = told(&mut alice, made, DACL).unwrap();
    assert_eq!(said.dacl, entries(Sid::new(22, &[1, LATER]).unwrap()).dacl, "the number, without a user");
    assert_eq!(set(&mut alice, made, DACL, &said), NtStatus::SUCCESS);
    assert_eq!(file(&rig, b"file").authorize_write(&later).map(drop), Err(FsError::Access));
}

#[test]
fn nfs_cannot_change_mode_or_owner_of_acl_files() {
    let rig = rig();
    rig.alice().open("file", ALL);
    let (nfs, owner) = (file(&rig, b"file"), Caller::new(ALICES, 100, [7]));
    let had = nfs.attrs(Blocking::Allowed).unwrap();
    let set = |caller: &Caller, set: SetAttrs| {
        nfs.set_attrs(caller, &set, None, &mut PendingSync::default()).map(|change| change.after)
    };
    for caller in [&owner, &Caller::new(0, 0, [])] {
        let mode = SetAttrs { mode: Some(0o700), ..SetAttrs::default() };
        assert_eq!(set(caller, mode), Err(FsError::NotOwner));
        assert_eq!(set(caller, SetAttrs { gid: Some(7), ..SetAttrs::default() }), Err(FsError::NotOwner));
        assert_eq!(set(caller, SetAttrs { uid: Some(7), ..SetAttrs::default() }), Err(FsError::NotOwner));
        let same = SetAttrs { mode: Some(had.mode), uid: Some(had.uid), ..SetAttrs::default() };
        assert_eq!(set(caller, same).unwrap().mode, had.mode);
        // The attributes that follow an exclusive NFS create.
        let now = Some(vfs::SetTime::Now);
        let follows = SetAttrs { mode: Some(0o777), accessed: now, modified: now, ..SetAttrs::default() };
        assert_eq!(set(caller, follows).unwrap().mode, had.mode);
    }
}

#[test]
fn write_stays_if_time_cannot_be_restored() {
    let rig = rig();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    let made = alice.open("file", ALL);
    let data = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    let times = AccessMask::READ_ATTRIBUTES | AccessMask::WRITE_ATTRIBUTES;
    let entries = [allow(AccessMask::FILE_ALL, user(ALICES)), allow(data | times, user(BOBS))];
    assert_eq!(set(&mut alice, made, DACL, &list(&entries)), NtStatus::SUCCESS);
    let theirs = bob.open("file", by(data | times));
    let last_write_time = FileTime::from_unix(5, 0);
    let value = BasicInformation { last_write_time, ..BasicInformation::default() };
    assert_eq!(bob.set(theirs, FileClass::BASIC, &value), NtStatus::SUCCESS);
    let entries = [allow(AccessMask::FILE_ALL, user(ALICES)), allow(data, user(BOBS))];
    assert_eq!(set(&mut alice, made, DACL, &list(&entries)), NtStatus::SUCCESS);
    assert_eq!(bob.write(theirs, 0, b"data").status(), NtStatus::SUCCESS);
    assert_eq!(alice.data(made, 0, 10), b"data");
    // Granted access lasts as long as the open.
    assert_eq!(bob.set(theirs, FileClass::BASIC, &value), NtStatus::SUCCESS);
}

#[test]
fn inheritance_applies_in_every_protocol() {
    let rig = rig();
    let mut alice = rig.alice();
    let dir = alice.open("dir", Opening { options: CreateOptions::DIRECTORY_FILE, ..ALL });
    let both = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let creator = Sid::new(3, &[0]).unwrap();
    let entries = [
        Ace::allow(both, AccessMask::FILE_ALL, user(ALICES)),
        Ace::allow(both | AceFlags::INHERIT_ONLY, AccessMask::FILE_ALL, creator),
        Ace::allow(AceFlags::empty(), AccessMask::GENERIC_ALL, everyone()),
    ];
    assert_eq!(set(&mut alice, dir, DACL, &list(&entries)), NtStatus::SUCCESS);
    let mut bob = bob(&rig);
    let by_smb = bob.open("dir\\smb", ALL);
    let below = file(&rig, b"dir");
    let (caller, mut pending) = (Caller::new(BOBS, 100, []), PendingSync::default());
    let mode = SetAttrs { mode: Some(0o777), ..SetAttrs::default() };
    below.create(&caller, b"nfs", Disposition::CreateNew, &mode, &mut pending).unwrap();
    below.make_dir(&caller, b"sub", &mode, &mut pending).unwrap();
    let expected = [(user(ALICES), AccessMask::FILE_ALL), (user(BOBS), AccessMask::FILE_ALL)];
    let plain = expected.map(|(sid, mask)| allow(mask, sid));
    assert_eq!(told(&mut bob, by_smb, DACL).unwrap(), told_as(&plain));
    let by_nfs = bob.open("dir\\nfs", by(AccessMask::READ_CONTROL));
    assert_eq!(told(&mut bob, by_nfs, DACL).unwrap(), told_as(&plain));
    let sub = bob.open("dir\\sub", by(AccessMask::READ_CONTROL));
    let handed_on = [
        Ace::allow(both, AccessMask::FILE_ALL, user(ALICES)),
        allow(AccessMask::FILE_ALL, user(BOBS)),
        Ace::allow(both | AceFlags::INHERIT_ONLY, AccessMask::FILE_ALL, creator),
    ];
    assert_eq!(told(&mut bob, sub, DACL).unwrap(), told_as(&handed_on));
    // Everyone's rights applied only to the directory, whatever mode was requested.
    let other = Caller::new(1, 1, []);
    let dir = below.open_dir(&caller, Blocking::Allowed).unwrap();
    let nfs = dir.lookup(b"nfs", Blocking::Allowed).unwrap().file;
    assert_eq!(nfs.authorize_read(&other, Blocking::Allowed).map(drop), Err(FsError::Access));
    // A moved file keeps its ACL.
    bob.open("moved", ALL);
    let root = rig.namespace.load().exports()[0].root();
    let before =
        file(&rig, b"moved").acl(&file(&rig, b"moved").attrs(Blocking::Allowed).unwrap(), Blocking::Allowed);
    root.rename(&caller, b"moved", &below, b"moved", &mut pending).unwrap();
    let dir = below.open_dir(&caller, Blocking::Allowed).unwrap();
    let moved = dir.lookup(b"moved", Blocking::Allowed).unwrap();
    assert_eq!(moved.file.acl(&moved.attrs, Blocking::Allowed), before);
}

fn told_as(aces: &[Ace]) -> SecurityDescriptor {
    let mut descriptor = list(aces);
    descriptor.control = Control::DACL_PRESENT | Control::SELF_RELATIVE;
    descriptor
}

#[test]
fn delete_is_allowed_by_file_or_directory() {
    let rig = rig();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    let dir = alice.open("dir", Opening { options: CreateOptions::DIRECTORY_FILE, ..ALL });
    let read = AccessMask::GENERIC_READ | AccessMask::EXECUTE;
    let of_dir = [allow(AccessMask::FILE_ALL, user(ALICES)), allow(read, everyone())];
    assert_eq!(set(&mut alice, dir, DACL, &list(&of_dir)), NtStatus::SUCCESS);
    let kept = alice.open("dir\\kept", ALL);
    let file_entries = [allow(AccessMask::FILE_ALL.without(AccessMask::DELETE), user(BOBS))];
    assert_eq!(set(&mut alice, kept, DACL, &list(&file_entries)), NtStatus::SUCCESS);
    let given = alice.open("dir\\given", ALL);
    assert_eq!(
        set(&mut alice, given, DACL, &list(&[allow(AccessMask::FILE_ALL, user(BOBS))])),
        NtStatus::SUCCESS
    );
    alice.close(kept);
    alice.close(given);
    bob.create("dir\\kept", by(AccessMask::DELETE)).assert_refused(NtStatus::ACCESS_DENIED);
    bob.create("dir\\new", ALL).assert_refused(NtStatus::ACCESS_DENIED);
    let (nfs, caller, mut pending) = (file(&rig, b"dir"), Caller::new(BOBS, 100, []), PendingSync::default());
    assert_eq!(nfs.remove(&caller, b"kept", &mut pending).map(drop), Err(FsError::Access));
    let root = rig.namespace.load().exports()[0].root();
    let out =
        |name: &[u8], pending: &mut PendingSync| nfs.rename(&caller, name, &root, b"out", pending).map(drop);
    assert_eq!(out(b"kept", &mut pending), Err(FsError::Access));
    // Replacing is removing: a rename must not bypass delete permission.
    bob.open("other", ALL);
    let over = root.rename(&caller, b"other", &nfs, b"kept", &mut pending);
    assert_eq!(over.map(drop), Err(FsError::Access));
    assert_eq!(out(b"given", &mut pending), Ok(()));
    // Delete permission on the directory suffices, whatever the file's ACL.
    let owner = Caller::new(ALICES, 100, []);
    nfs.remove(&owner, b"kept", &mut pending).unwrap();
}

#[test]
fn ownership_can_be_taken_but_not_given() {
    let rig = rig();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    let made = alice.open("file", ALL);
    let taking = [allow(AccessMask::WRITE_OWNER | AccessMask::READ_CONTROL, user(BOBS))];
    assert_eq!(set(&mut alice, made, DACL, &list(&taking)), NtStatus::SUCCESS);
    bob.create("file", by(AccessMask::WRITE_DAC)).assert_refused(NtStatus::ACCESS_DENIED);
    let his = bob.open("file", by(AccessMask::WRITE_OWNER | AccessMask::READ_CONTROL));
    let of = |uid| SecurityDescriptor { owner: Some(user(uid)), ..SecurityDescriptor::default() };
    assert_eq!(set(&mut bob, his, OWNER, &of(4711)), NtStatus::INVALID_OWNER);
    assert_eq!(set(&mut bob, his, DACL, &list(&[])), NtStatus::ACCESS_DENIED);
    assert_eq!(set(&mut bob, his, OWNER, &of(BOBS)), NtStatus::SUCCESS);
    assert_eq!(told(&mut bob, his, OWNER).unwrap().owner, Some(user(BOBS)));
    assert_eq!(told(&mut bob, his, DACL).unwrap(), told_as(&taking), "the list stays");
    bob.open("file", by(AccessMask::WRITE_DAC));
    assert_eq!(set(&mut alice, made, OWNER, &of(ALICES)), NtStatus::SUCCESS, "her open may still");
    // OWNER RIGHTS entries replace the owner's implicit rights.
    let owner_rights = Sid::new(3, &[4]).unwrap();
    let entries = [allow(AccessMask::READ_DATA, owner_rights)];
    assert_eq!(set(&mut alice, made, DACL, &list(&entries)), NtStatus::SUCCESS);
    alice.create("file", by(AccessMask::WRITE_DAC)).assert_refused(NtStatus::ACCESS_DENIED);
    alice.create("file", by(AccessMask::READ_CONTROL)).assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn create_descriptor_sets_acl() {
    let rig = rig();
    let mut alice = rig.alice();
    let make = |client: &mut Client, path: &str, data: &[u8]| {
        let wire = name(path);
        let contexts = CreateContexts(vec![CreateContext { name: SD_BUFFER, data }]);
        let request = CreateRequest { contexts, ..ALL.request(&wire) };
        client.call(Command::CREATE, &request).status()
    };
    let entries = [allow(AccessMask::READ_DATA, user(BOBS))];
    assert_eq!(make(&mut alice, "file", &list(&entries).to_bytes()), NtStatus::SUCCESS);
    let made = alice.open("file", by(AccessMask::READ_CONTROL));
    assert_eq!(told(&mut alice, made, DACL).unwrap(), told_as(&entries));
    alice.create("file", by(AccessMask::READ_DATA)).assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(mode_of(&rig, b"file"), 0);
    let whole = SecurityDescriptor { owner: Some(user(BOBS)), ..list(&entries) };
    assert_eq!(make(&mut alice, "given", &whole.to_bytes()), NtStatus::INVALID_OWNER);
    alice.create("given", by(AccessMask::READ_CONTROL)).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn acl_size_is_limited() {
    let rig = rig();
    let mut alice = rig.alice();
    let made = alice.open("file", ALL);
    let short = allow(AccessMask::READ_DATA, everyone());
    let most = list(&vec![short.clone(); vfs::acl::ACL_ENTRIES_MAX]);
    assert_eq!(set(&mut alice, made, DACL, &most), NtStatus::SUCCESS);
    let more = list(&vec![short.clone(); vfs::acl::ACL_ENTRIES_MAX + 1]);
    assert_eq!(set(&mut alice, made, DACL, &more), NtStatus::INVALID_ACL);
    // ACLs of the maximum wire size with unknown SIDs, larger than the storage limit.
    let stranger = Sid::new(5, &[1; 15]).unwrap();
    let strangers = list(&vec![allow(AccessMask::READ_DATA, stranger); 860]);
    assert_ne!(set(&mut alice, made, DACL, &strangers), NtStatus::SUCCESS);
    bob(&rig).open("file", by(AccessMask::READ_DATA));
    // An unknown entry type might deny access, so it is not ignored.
    let mut bytes = list(std::slice::from_ref(&short)).to_bytes();
    let at = bytes.len() - Acl::new(vec![short]).unwrap().to_bytes().len() + 8;
    for ace_type in [2, 5, 9, 10, 0x11, 0xff] {
        bytes[at] = ace_type;
        assert_ne!(set_bytes(&mut alice, made, DACL, &bytes), NtStatus::SUCCESS, "{ace_type}");
    }
}

#[test]
fn read_only_share_refuses_deletion() {
    let rule = ExportRule { read_only: true, ..ExportRule::everybody() };
    let rig = Rig::with(rule, |volume| volume.with_security_style(SecurityStyle::Ntfs).unwrap());
    let root = rig.namespace.load().exports()[0].root();
    create(&root, &Caller::new(ALICES, 100, []), "file", 0o644);
    let mut alice = rig.alice();
    for access in [AccessMask::DELETE, AccessMask::WRITE_DATA, AccessMask::WRITE_DAC, AccessMask::FILE_ALL] {
        alice.create("file", by(access)).assert_refused(NtStatus::ACCESS_DENIED);
    }
    let most = by(AccessMask::MAXIMUM_ALLOWED);
    let deleting = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..most };
    alice.create("file", deleting).assert_refused(NtStatus::ACCESS_DENIED);
    let made = alice.open("file", most);
    assert_eq!(dispose(&mut alice, made, true), NtStatus::ACCESS_DENIED);
    alice.close(made);
    alice.open("file", by(AccessMask::READ_DATA));
}

#[test]
fn sticky_directory_limits_deletion_to_owners() {
    let (rig, past) = rig_and_storage();
    let root = rig.namespace.load().exports()[0].root();
    let (service, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let sticky = SetAttrs { mode: Some(0o1777), ..SetAttrs::default() };
    past.set_attrs(&service, &sticky, None, &mut pending).unwrap();
    let (alices, bobs) = (Caller::new(ALICES, 100, []), Caller::new(BOBS, 100, []));
    create(&root, &alices, "listed", 0o644);
    create(&past, &alices, "bare", 0o644);
    create(&root, &bobs, "his", 0o644);
    let mut bob = bob(&rig);
    for name in ["listed", "bare"] {
        bob.create(name, by(AccessMask::DELETE)).assert_refused(NtStatus::ACCESS_DENIED);
        let most = bob.open(name, by(AccessMask::MAXIMUM_ALLOWED));
        assert_eq!(dispose(&mut bob, most, true), NtStatus::ACCESS_DENIED);
        bob.close(most);
        let name = name.as_bytes();
        assert_eq!(root.remove(&bobs, name, &mut pending).map(drop), Err(FsError::Access));
        let away = root.rename(&bobs, name, &root, b"away", &mut pending);
        assert_eq!(away.map(drop), Err(FsError::Access));
        let over = root.rename(&bobs, b"his", &root, name, &mut pending);
        assert_eq!(over.map(drop), Err(FsError::Access), "replacing takes the name as well");
    }
    root.rename(&bobs, b"his", &root, b"new", &mut pending).unwrap();
    let mut alice = rig.alice();
    for name in ["listed", "bare"] {
        let hers = alice.open(name, by(AccessMask::DELETE));
        alice.close(hers);
        root.remove(&alices, name.as_bytes(), &mut pending).unwrap();
    }
    // The owner of the directory removes anything.
    create(&past, &alices, "bare", 0o644);
    past.set_attrs(&service, &SetAttrs { uid: Some(BOBS), ..sticky }, None, &mut pending).unwrap();
    root.remove(&bobs, b"bare", &mut pending).unwrap();
    // The ACL alone decides.
    create(&past, &bobs, "given", 0o644);
    let all = list(&[allow(AccessMask::GENERIC_ALL, everyone())]);
    let dir = bob.open("", by(AccessMask::WRITE_DAC));
    assert_eq!(set(&mut bob, dir, DACL, &all), NtStatus::SUCCESS);
    root.remove(&alices, b"given", &mut pending).unwrap();
}

#[test]
fn set_security_without_parts_changes_nothing() {
    let (rig, past) = rig_and_storage();
    let bare = create(&past, &Caller::new(ALICES, 100, []), "file", 0o644);
    let had = bare.attrs(Blocking::Allowed).unwrap();
    let mut bob = bob(&rig);
    let looking = bob.open("file", by(AccessMask::READ_ATTRIBUTES));
    assert_eq!(set(&mut bob, looking, SecurityInformation::empty(), &list(&[])), NtStatus::SUCCESS);
    assert_eq!(bare.attrs(Blocking::Allowed).unwrap(), had);
}

#[test]
fn acl_survives_write_to_setuid_file() {
    let (rig, past) = rig_and_storage();
    let mut alice = rig.alice();
    for mode in [0o4755, 0o2755, 0o2745, 0o6777] {
        create(&past, &Caller::new(ALICES, 100, []), "file", mode);
        let made = alice.open("file", ALL);
        let entries = [allow(AccessMask::FILE_ALL, everyone())];
        assert_eq!(set(&mut alice, made, DACL, &list(&entries)), NtStatus::SUCCESS);
        assert_eq!(mode_of(&rig, b"file"), 0o777, "{mode:o}");
        assert_eq!(alice.write(made, 0, b"data").status(), NtStatus::SUCCESS);
        assert_eq!(told(&mut alice, made, DACL).unwrap(), told_as(&entries), "{mode:o}");
        assert_eq!(dispose(&mut alice, made, true), NtStatus::SUCCESS);
        alice.close(made);
    }
    // A set-gid directory still passes its group on.
    let set_gid = SetAttrs { mode: Some(0o2775), ..SetAttrs::default() };
    past.make_dir(&Caller::new(ALICES, 100, []), b"dir", &set_gid, &mut PendingSync::default()).unwrap();
    let dir = alice.open("dir", by(AccessMask::WRITE_DAC));
    assert_eq!(
        set(&mut alice, dir, DACL, &list(&[allow(AccessMask::FILE_ALL, everyone())])),
        NtStatus::SUCCESS
    );
    assert_eq!(mode_of(&rig, b"dir"), 0o2777);
}

#[test]
fn overwrite_needs_access() {
    let rig = rig();
    let mut alice = rig.alice();
    let made = alice.open("file", ALL);
    alice.write(made, 0, b"data");
    assert_eq!(crate::extended_attributes::set(&mut alice, made, &[(b"name", b"value")]), NtStatus::SUCCESS);
    let writes = AccessMask::READ_DATA | AccessMask::READ_EA | AccessMask::WRITE_DATA;
    let parts = [AccessMask::WRITE_EA, AccessMask::WRITE_ATTRIBUTES];
    let over = |access| Opening { disposition: CreateDisposition::OVERWRITE, ..by(access) };
    for more in parts {
        let entries = [allow(AccessMask::FILE_ALL, user(ALICES)), allow(writes | more, user(BOBS))];
        assert_eq!(set(&mut alice, made, DACL, &list(&entries)), NtStatus::SUCCESS);
        bob(&rig).create("file", over(AccessMask::WRITE_DATA)).assert_refused(NtStatus::ACCESS_DENIED);
        assert_eq!(alice.data(made, 0, 10), b"data");
    }
    let entries = [allow(writes | parts[0] | parts[1], user(BOBS))];
    assert_eq!(set(&mut alice, made, DACL, &list(&entries)), NtStatus::SUCCESS);
    bob(&rig).open("file", over(AccessMask::WRITE_DATA));
    alice.read(made, 0, 10).assert_refused(NtStatus::END_OF_FILE);
}
