//! POSIX ACLs on volumes with Unix rules.

use super::{ALL, DACL, allow, list, set, told};
use crate::rig::{BOB, Client, Disks, Offer, Opening, Rig, SHARE};
use smb_wire::create::{CreateDisposition, CreateResponse};
use smb_wire::security::AceType;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus};
use vfs::{Blocking, Caller, Disposition, PendingSync, PosixAcl, SetAttrs};

/// Alice is in the group, which has no rights; Bob has a named entry.
fn named(bits: u32) -> PosixAcl {
    let users = [(1001, bits)].into();
    PosixAcl { owner: bits, group: 0, mask: Some(bits), other: 0, users, groups: [].into() }
}

/// A file of user 3000 and the users' group, mode 0660, with its ACL.
fn rig(acl: &PosixAcl) -> (Disks, Rig) {
    let disks = Disks::default();
    let rig = Rig::over(&disks);
    let root = rig.namespace.load().exports()[0].root();
    let set = SetAttrs { mode: Some(0o660), uid: Some(3000), gid: Some(100), ..SetAttrs::default() };
    let (service, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    root.create(&service, b"file", Disposition::CreateNew, &set, &mut pending).unwrap();
    disks.docs().set_access_acl("file", Some(acl)).unwrap();
    (disks, rig)
}

fn bob(rig: &Rig) -> Client {
    let mut client = rig.connect();
    client.negotiate(&Offer::default());
    client.log_on(BOB);
    client.mount(SHARE);
    client
}

fn opening(access: AccessMask) -> Opening {
    Opening { access, ..Opening::by(CreateDisposition::OPEN) }
}

fn mode(rig: &Rig, name: &[u8]) -> u32 {
    let root = rig.namespace.load().exports()[0].root();
    let dir = root.open_dir(&Caller::new(0, 0, []), Blocking::Allowed).unwrap();
    dir.lookup(name, Blocking::Allowed).unwrap().attrs.mode
}

#[test]
fn file_is_opened_by_whom_the_list_names() {
    let (_disks, rig) = rig(&named(6));
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    for access in [AccessMask::READ_DATA, AccessMask::WRITE_DATA, AccessMask::GENERIC_READ] {
        let refused = alice.create("file", opening(access)).status();
        assert_eq!(refused, NtStatus::ACCESS_DENIED, "{access:?}");
    }
    let both = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    let file = bob.open("file", opening(both));
    assert!(!bob.write(file, 0, b"data").status().is_error());
    assert_eq!(bob.data(file, 0, 10), b"data");
    let shown = alice.create("file", opening(AccessMask::READ_CONTROL));
    let file = shown.body::<CreateResponse<'_>>().file_id;
    assert_eq!(alice.read(file, 0, 10).status(), NtStatus::ACCESS_DENIED);
}

#[test]
fn directory_is_used_by_whom_the_list_names() {
    let (disks, rig) = rig(&named(6));
    let root = PosixAcl { owner: 7, mask: Some(7), other: 7, ..named(7) };
    let groups = [(100, 0)].into();
    disks.docs().set_access_acl("", Some(&PosixAcl { groups, ..root })).unwrap();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    for (name, new) in [("new", Opening::default()), ("sub", Opening::dir())] {
        assert_eq!(alice.create(name, new).status(), NtStatus::ACCESS_DENIED);
        let file = bob.open(name, new);
        bob.close(file);
    }
    assert_eq!(alice.create("file", opening(AccessMask::READ_ATTRIBUTES)).status(), NtStatus::ACCESS_DENIED);
}

#[test]
fn descriptor_says_what_the_list_gives() {
    let (_disks, rig) = rig(&PosixAcl { other: 4, ..named(6) });
    let mut bob = bob(&rig);
    let file = bob.open("file", opening(AccessMask::READ_CONTROL));
    let entries = told(&mut bob, file, DACL).unwrap().dacl.unwrap();
    let given: Vec<(AceType, u32)> = entries
        .aces()
        .iter()
        .map(|ace| {
            let smb_wire::security::AceBody::Plain { mask, .. } = ace.body() else { panic!("{ace:?}") };
            (ace.ace_type(), mask.0 & 0x23)
        })
        .collect();
    // Owner, Bob, the group that is denied others' rights, and everyone; read access includes execute.
    let expected = [
        (AceType::ACCESS_ALLOWED, 0x23),
        (AceType::ACCESS_ALLOWED, 0x23),
        (AceType::ACCESS_ALLOWED, 0),
        (AceType::ACCESS_DENIED, 0x21),
        (AceType::ACCESS_ALLOWED, 0x21),
    ];
    assert_eq!(given, expected);
}

/// The owner's own file, with this ACL.
fn own(disks: &Disks, client: &mut Client, acl: &PosixAcl) -> FileId {
    let file = client.open("own", ALL);
    disks.docs().set_access_acl("own", Some(acl)).unwrap();
    file
}

#[test]
fn descriptor_is_not_set_as_the_mask_of_a_list() {
    let (disks, rig) = rig(&named(6));
    let mut alice = rig.alice();
    let file = own(&disks, &mut alice, &named(4));
    let owner = told(&mut alice, file, super::OWNER).unwrap().owner.unwrap();
    let group = told(&mut alice, file, super::GROUP).unwrap().group.unwrap();
    let wide = list(&[allow(AccessMask::GENERIC_ALL, owner), allow(AccessMask::GENERIC_ALL, group)]);
    assert_eq!(set(&mut alice, file, DACL, &wide), NtStatus::NOT_SUPPORTED);
    assert_eq!(mode(&rig, b"own"), 0o440, "the rights of others did not grow");
    disks.docs().set_access_acl("own", None).unwrap();
    assert_eq!(set(&mut alice, file, DACL, &wide), NtStatus::SUCCESS);
}

#[test]
fn new_files_inherit_posix_acl() {
    let (disks, rig) = rig(&named(6));
    disks.docs().set_default_acl("", Some(&named(6))).unwrap();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    let file = alice.open("new", Opening::default());
    assert_eq!(mode(&rig, b"new"), 0o660, "the list takes the place of the service's umask");
    alice.close(file);
    let file = bob.open("new", opening(AccessMask::READ_DATA | AccessMask::WRITE_DATA));
    bob.close(file);
    disks.docs().set_default_acl("", None).unwrap();
    let file = alice.open("later", Opening::default());
    alice.close(file);
    assert_eq!(mode(&rig, b"later"), 0o644);
}
