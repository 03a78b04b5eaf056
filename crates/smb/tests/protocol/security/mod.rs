//! Security descriptors on volumes with Unix rules.

mod lists;
mod posix_acls;

use crate::rig::{BOB, Client, Offer, Opening, Rig, SHARE, name, query};
use smb_wire::contexts::SD_BUFFER;
use smb_wire::create::{CreateContext, CreateContexts, CreateDisposition, CreateRequest};
use smb_wire::dir::OutputResponse;
use smb_wire::header::Command;
use smb_wire::info::{InfoType, SecurityInformation, SetInfoRequest};
use smb_wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, FileId, NtStatus};
use vfs::{Blocking, Caller};

const OWNER: SecurityInformation = SecurityInformation::OWNER;
const GROUP: SecurityInformation = SecurityInformation::GROUP;
const DACL: SecurityInformation = SecurityInformation::DACL;
/// An open with all rights to descriptors.
const ALL: Opening = Opening {
    access: AccessMask::MAXIMUM_ALLOWED,
    share: smb_wire::create::ShareAccess(7),
    disposition: CreateDisposition::OPEN_IF,
    options: smb_wire::create::CreateOptions(0),
    attributes: smb_wire::types::FileAttributes::NORMAL,
};

pub(crate) fn told(
    client: &mut Client,
    file: FileId,
    parts: SecurityInformation,
) -> Result<SecurityDescriptor, NtStatus> {
    let mut request = query(InfoType::SECURITY, file, 0, 4096);
    request.additional_information = parts;
    let reply = client.call(Command::QUERY_INFO, &request);
    match reply.status() {
        NtStatus::SUCCESS => {
            Ok(SecurityDescriptor::from_bytes(reply.body::<OutputResponse<&[u8]>>().output).unwrap())
        }
        status => Err(status),
    }
}

fn set_bytes(client: &mut Client, file_id: FileId, parts: SecurityInformation, buffer: &[u8]) -> NtStatus {
    let request = SetInfoRequest {
        info_type: InfoType::SECURITY,
        file_info_class: 0,
        buffer,
        additional_information: parts,
        file_id,
    };
    let charge = u16::try_from(buffer.len().div_ceil(1 << 16).max(1)).unwrap();
    client.call_charged(Command::SET_INFO, &request, charge).status()
}

pub(crate) fn set(
    client: &mut Client,
    file: FileId,
    parts: SecurityInformation,
    new: &SecurityDescriptor,
) -> NtStatus {
    set_bytes(client, file, parts, &new.to_bytes())
}

pub(crate) fn list(aces: &[Ace]) -> SecurityDescriptor {
    let dacl = Some(Acl::new(aces.to_vec()).unwrap());
    SecurityDescriptor { control: Control::DACL_PRESENT, dacl, ..SecurityDescriptor::default() }
}

fn everyone() -> Sid {
    Sid::new(1, &[0]).unwrap()
}

fn allow(mask: AccessMask, sid: Sid) -> Ace {
    Ace::allow(AceFlags::empty(), mask, sid)
}

fn mode_of(rig: &Rig, name: &[u8]) -> u32 {
    let root = rig.namespace.load().exports()[0].root();
    let dir = root.open_dir(&Caller::new(0, 0, []), Blocking::Allowed).unwrap();
    dir.lookup(name, Blocking::Allowed).unwrap().attrs.mode
}

fn bob(rig: &Rig) -> Client {
    let mut client = rig.connect();
    client.negotiate(&Offer::default());
    client.log_on(BOB);
    client.mount(SHARE);
    client
}

#[test]
fn acl_maps_to_equivalent_mode() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", ALL);
    let owner = told(&mut client, file, OWNER).unwrap().owner.unwrap();
    assert_eq!(mode_of(&rig, b"file"), 0o644);
    let private = list(&[allow(AccessMask::GENERIC_ALL, owner)]);
    assert_eq!(set(&mut client, file, DACL, &private), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, b"file"), 0o600);
    bob(&rig).create("file", Opening::by(CreateDisposition::OPEN)).assert_refused(NtStatus::ACCESS_DENIED);
    // Setting the returned descriptor changes nothing.
    let same = told(&mut client, file, DACL).unwrap();
    assert_eq!(set(&mut client, file, DACL, &same), NtStatus::SUCCESS);
    assert_eq!((mode_of(&rig, b"file"), told(&mut client, file, DACL).unwrap()), (0o600, same));
    let null = SecurityDescriptor { control: Control::DACL_PRESENT, ..SecurityDescriptor::default() };
    assert_eq!(set(&mut client, file, DACL, &null), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, b"file"), 0o666);
}

#[test]
fn acl_without_equivalent_mode_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", ALL);
    let stranger = Sid::new(5, &[21, 1, 2, 3, 4]).unwrap();
    let deny = Ace::deny(AceFlags::empty(), AccessMask::GENERIC_READ, stranger);
    let denied = list(&[deny, allow(AccessMask::GENERIC_ALL, everyone())]);
    assert_eq!(set(&mut client, file, DACL, &denied), NtStatus::NOT_SUPPORTED);
    assert_eq!(mode_of(&rig, b"file"), 0o644);
    let given =
        list(&[allow(AccessMask::GENERIC_ALL, stranger), allow(AccessMask::GENERIC_READ, everyone())]);
    assert_eq!(set(&mut client, file, DACL, &given), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, b"file"), 0o444);
}

#[test]
fn owner_change_is_refused() {
    let rig = Rig::new();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    let file = alice.open("file", ALL);
    let theirs = bob.open("theirs", ALL);
    let of = |client: &mut Client, file| told(client, file, OWNER | GROUP).unwrap();
    let (hers, his) = (of(&mut alice, file), of(&mut bob, theirs));
    assert_ne!(hers.owner, his.owner);
    let another = Sid::new(22, &[2, 4711]);
    let another = SecurityDescriptor { group: another, ..hers.clone() };
    assert_eq!(set(&mut alice, file, OWNER, &his), NtStatus::INVALID_OWNER);
    assert_eq!(set(&mut alice, file, GROUP, &another), NtStatus::ACCESS_DENIED);
    assert_eq!(set(&mut alice, file, OWNER | GROUP, &hers), NtStatus::SUCCESS, "nothing changes");
    let nobody = SecurityDescriptor { owner: Some(everyone()), group: hers.owner, ..hers.clone() };
    assert_eq!(set(&mut alice, file, OWNER, &nobody), NtStatus::INVALID_OWNER);
    assert_eq!(set(&mut alice, file, GROUP, &nobody), NtStatus::INVALID_PRIMARY_GROUP);
    assert_eq!(set(&mut alice, file, OWNER, &SecurityDescriptor::default()), NtStatus::INVALID_OWNER);
    // Only the owner gets the right, and without it the descriptor cannot be set.
    for access in [AccessMask::WRITE_OWNER, AccessMask::WRITE_DAC] {
        bob.create("file", Opening { access, ..ALL }).assert_refused(NtStatus::ACCESS_DENIED);
    }
    let without = bob.open("file", Opening { access: AccessMask::READ_CONTROL, ..ALL });
    assert_eq!(set(&mut bob, without, OWNER, &his), NtStatus::ACCESS_DENIED);
    assert_eq!(set(&mut bob, without, DACL, &list(&[])), NtStatus::ACCESS_DENIED);
    assert_eq!(of(&mut alice, file), hers);
}

#[test]
fn malformed_descriptor_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", ALL);
    let good = list(&[allow(AccessMask::GENERIC_ALL, everyone())]).to_bytes();
    for length in [0, 1, 19, good.len() - 1] {
        let status = set_bytes(&mut client, file, DACL, &good[..length]);
        assert_eq!(status, NtStatus::INVALID_SECURITY_DESCR, "{length} bytes");
    }
    // An ACL whose header declares the maximum count without entries; and one of a mebibyte.
    let at =
        good.len() - Acl::new(vec![allow(AccessMask::GENERIC_ALL, everyone())]).unwrap().to_bytes().len();
    let mut many = good.clone();
    many[at + 4..at + 6].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(set_bytes(&mut client, file, DACL, &many), NtStatus::INVALID_SECURITY_DESCR);
    many.extend(good[at + 8..].iter().cycle().take(1_000_000));
    assert_eq!(set_bytes(&mut client, file, DACL, &many), NtStatus::INVALID_SECURITY_DESCR);
    for parts in [SecurityInformation::SACL, SecurityInformation::LABEL, SecurityInformation(u32::MAX)] {
        assert_eq!(set_bytes(&mut client, file, parts, &good), NtStatus::ACCESS_DENIED);
    }
    assert_eq!(mode_of(&rig, b"file"), 0o644);
}

#[test]
fn descriptor_needs_read_control() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"");
    let access = AccessMask::READ_ATTRIBUTES;
    let file = client.open("file", Opening { access, ..ALL });
    for parts in [OWNER, GROUP, DACL] {
        assert_eq!(told(&mut client, file, parts), Err(NtStatus::ACCESS_DENIED));
    }
    let told = told(&mut client, file, SecurityInformation::empty()).unwrap();
    assert_eq!((told.owner, told.group, told.dacl), (None, None, None));
}

#[test]
fn create_descriptor_sets_mode() {
    let rig = Rig::new();
    let (mut client, mut bob) = (rig.alice(), bob(&rig));
    let file = client.open("file", ALL);
    let owner = told(&mut client, file, OWNER).unwrap().owner;
    let foreign = bob.open("theirs", ALL);
    let foreign = told(&mut bob, foreign, OWNER).unwrap().owner;
    let mut make = |path: &str, opening: Opening, data: &[u8]| {
        let wire = name(path);
        let contexts = CreateContexts(vec![CreateContext { name: SD_BUFFER, data }]);
        let request = CreateRequest { contexts, ..opening.request(&wire) };
        client.call(Command::CREATE, &request).status()
    };
    let mut descriptor = list(&[allow(AccessMask::GENERIC_READ, owner.unwrap())]);
    assert_eq!(make("private", Opening::default(), &descriptor.to_bytes()), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, b"private"), 0o400);
    let whole = list(&[allow(AccessMask::GENERIC_ALL, everyone())]);
    assert_eq!(make("dir", Opening::dir(), &whole.to_bytes()), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, b"dir"), 0o777);
    descriptor.owner = foreign;
    assert_eq!(make("given", Opening::default(), &descriptor.to_bytes()), NtStatus::INVALID_OWNER);
    assert_eq!(make("given", Opening::default(), b"garbage"), NtStatus::INVALID_SECURITY_DESCR);
    assert_eq!(make("given", Opening::by(CreateDisposition::OPEN), b""), NtStatus::OBJECT_NAME_NOT_FOUND);
}
