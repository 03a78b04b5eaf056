//! The POSIX extensions: opens with Unix semantics, beside clients without them.

mod names;

use crate::file_information::rename;
use crate::rig::{ALICE, BOB, Client, Offer, Opening, Reply, Rig, SHARE, name, query};
use crate::security::set;
use smb_wire::classes::file::{BasicInformation, DispositionInformation};
use smb_wire::classes::{FileClass, FileSystemClass};
use smb_wire::create::{
    CreateContext, CreateContexts, CreateDisposition, CreateOptions, CreateRequest, CreateResponse,
};
use smb_wire::dir::OutputResponse;
use smb_wire::error::ReparseTag;
use smb_wire::header::Command;
use smb_wire::info::{InfoType, SecurityInformation};
use smb_wire::negotiate::{ContextType, NegotiateContext, NegotiateRequest, NegotiateResponse};
use smb_wire::posix::{FileSystemPosixInformation, NAME, PosixFileType, PosixInformation, PosixResponse};
use smb_wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use smb_wire::types::{AccessMask, Dialect, FileAttributes};
use smb_wire::{Decode, FileId, FileTime, NtStatus};
use vfs::{Blocking, Caller, ExportRule, PendingSync, SecurityStyle, SetAttrs, Special};

/// The default open of these tests.
const OPEN: Opening = Opening {
    access: AccessMask::MAXIMUM_ALLOWED,
    share: smb_wire::create::ShareAccess(7),
    disposition: CreateDisposition::OPEN,
    options: CreateOptions(0),
    attributes: FileAttributes(0),
};
const MAKE: Opening = Opening { disposition: CreateDisposition::CREATE, ..OPEN };
const MAKE_DIR: Opening = Opening { options: CreateOptions::DIRECTORY_FILE, ..MAKE };
const TO_CHMOD: Opening = Opening { access: AccessMask::WRITE_DAC, ..OPEN };

fn unix(rig: &Rig, user: (&str, &str)) -> Client {
    let mut client = rig.connect();
    client.negotiate(&Offer { posix: true, ..Offer::default() });
    client.log_on(user);
    client.mount(SHARE);
    client
}

fn create_with(client: &mut Client, path: &str, opening: Opening, contexts: Vec<CreateContext<'_>>) -> Reply {
    let wire = name(path);
    let contexts = CreateContexts(contexts);
    client.call(Command::CREATE, &CreateRequest { contexts, ..opening.request(&wire) })
}

/// CREATE with Unix semantics.
fn create(client: &mut Client, path: &str, opening: Opening, mode: u32) -> Reply {
    let data = &mode.to_le_bytes();
    create_with(client, path, opening, vec![CreateContext { name: NAME, data }])
}

/// CREATE with Unix semantics, which must succeed.
#[track_caller]
fn open(client: &mut Client, path: &str, opening: Opening, mode: u32) -> FileId {
    create(client, path, opening, mode).body::<CreateResponse<'_>>().file_id
}

/// The POSIX context in a CREATE reply.
fn told(reply: &Reply) -> Option<PosixResponse> {
    let created: CreateResponse<'_> = reply.body();
    created.contexts.find(NAME).map(|data| PosixResponse::from_bytes(data).unwrap())
}

fn information(client: &mut Client, file: FileId) -> PosixInformation {
    PosixInformation::from_bytes(&client.info(file, FileClass::POSIX)).unwrap()
}

/// The file's mode as seen over NFS.
pub(crate) fn mode_of(rig: &Rig, name: &str) -> u32 {
    let root = rig.namespace.load().exports()[0].root();
    let dir = root.open_dir(&Caller::new(0, 0, []), Blocking::Allowed).unwrap();
    dir.lookup(name.as_bytes(), Blocking::Allowed).unwrap().attrs.mode
}

fn make_special(rig: &Rig, name: &str, special: Special<'_>) {
    let (caller, mut pending) = (Caller::new(1000, 100, []), PendingSync::default());
    let root = rig.namespace.load().exports()[0].root();
    root.make_special(&caller, name.as_bytes(), special, &SetAttrs::default(), &mut pending).unwrap();
}

/// The descriptors by which Linux sets a mode: an allowing entry with `posix`, a denying entry without rights with
/// `modefromsid`.
fn says_mode(mode: u32) -> [SecurityDescriptor; 2] {
    let sid = Sid::new(5, &[88, 3, mode]).unwrap();
    let authenticated = Sid::new(5, &[11]).unwrap();
    let none = AccessMask::empty();
    let lists = [
        vec![Ace::allow(AceFlags::empty(), none, sid)],
        vec![
            Ace::deny(AceFlags::empty(), none, sid),
            Ace::allow(AceFlags::empty(), AccessMask::GENERIC_ALL, authenticated),
        ],
    ];
    lists.map(|aces| SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Acl::new(aces),
        ..SecurityDescriptor::default()
    })
}

fn chmod(client: &mut Client, file: FileId, mode: u32) -> NtStatus {
    set(client, file, SecurityInformation::DACL, &says_mode(mode)[0])
}

#[test]
fn posix_extensions_need_matching_version() {
    let rig = Rig::new();
    let ask = |data: &[&'static [u8]]| {
        let context_type = ContextType::POSIX_EXTENSIONS_AVAILABLE;
        let offer = Offer::of(Dialect::SMB311).request();
        let mut contexts = offer.contexts.clone();
        contexts.extend(data.iter().map(|data| NegotiateContext::Other { context_type, data }));
        let mut client = rig.connect();
        let reply = client.call(Command::NEGOTIATE, &NegotiateRequest { contexts, ..offer });
        if reply.status().is_error() {
            return Err(reply.status());
        }
        let answer: NegotiateResponse<'_> = reply.body();
        let ours = NegotiateContext::Other { context_type, data: NAME };
        Ok(answer.contexts.iter().filter(|context| **context == ours).count())
    };
    const OTHER: &[u8] = b"0123456789012345";
    const BOTH: &[u8] = b"0123456789012345\x93\xad\x25\x50\x9c\xb4\x11\xe7\xb4\x23\x83\xde\x96\x8b\xcd\x7c";
    assert_eq!(ask(&[]), Ok(0));
    assert_eq!(ask(&[NAME]), Ok(1));
    assert_eq!(ask(&[OTHER]), Ok(0), "another version");
    assert_eq!(ask(&[BOTH]), Ok(1), "of several versions");
    for data in [&[NAME, NAME][..], &[b""], &[&NAME[..15]], &[b"0123456789012345x"]] {
        assert_eq!(ask(data), Err(NtStatus::INVALID_PARAMETER), "{data:?}");
    }
}

#[test]
fn unnegotiated_posix_context_is_ignored() {
    let rig = Rig::new();
    rig.alice().put("file", b"data");
    let of_302 = Offer { posix: true, ..Offer::of(Dialect::SMB302) };
    for offer in [Offer::default(), of_302] {
        let mut client = rig.alice_with(&offer);
        let reply = create(&mut client, "FILE", OPEN, 0);
        assert_eq!(told(&reply), None, "and the name is found in another case");
        let file = reply.body::<CreateResponse<'_>>().file_id;
        client.query(file, FileClass::POSIX, 4096).assert_refused(NtStatus::INVALID_INFO_CLASS);
        client.close(file);
        let reply = create_with(&mut client, "file", OPEN, vec![CreateContext { name: NAME, data: b"1" }]);
        assert_eq!(reply.status(), NtStatus::SUCCESS);
        create(&mut client, "a:b/c", MAKE, 0).assert_refused(NtStatus::OBJECT_NAME_INVALID);
    }
}

#[test]
fn malformed_posix_context_is_refused() {
    let rig = Rig::new();
    let mut client = unix(&rig, ALICE);
    let mode = |data| CreateContext { name: NAME, data };
    for data in [&b""[..], b"123", b"12345", b"12345678"] {
        let reply = create_with(&mut client, "file", MAKE, vec![mode(data)]);
        reply.assert_refused(NtStatus::INVALID_PARAMETER);
    }
    let twice = vec![mode(b"\xff\x01\0\0"), mode(b"\0\0\0\0")];
    create_with(&mut client, "file", MAKE, twice).assert_refused(NtStatus::INVALID_PARAMETER);
    create(&mut client, "file", OPEN, 0).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn create_sets_requested_mode() {
    let rig = Rig::new();
    let mut client = unix(&rig, ALICE);
    for (path, opening, mode, expected) in [
        ("plain", MAKE, 0o640, 0o640),
        ("none", MAKE, 0, 0),
        ("own", MAKE, 0o4755, 0o4755),
        ("kind", MAKE, 0o100_600, 0o600),
        ("bits", MAKE, 0xffff_0000 | 0o700, 0o700),
        ("unsaid", MAKE, 0xffff, 0o644),
        ("dir", MAKE_DIR, 0o1750, 0o1750),
        ("unsaid dir", MAKE_DIR, 0xffff, 0o755),
    ] {
        let reply = create(&mut client, path, opening, mode);
        assert_eq!(told(&reply).unwrap().mode, expected, "{path}");
        assert_eq!(mode_of(&rig, path), expected, "{path}");
    }
    // An existing file keeps its mode.
    let reply =
        create(&mut client, "plain", Opening { disposition: CreateDisposition::OPEN_IF, ..OPEN }, 0o777);
    assert_eq!(told(&reply).unwrap().mode, 0o640);
}

#[test]
fn set_gid_needs_group_membership() {
    let rig = Rig::new();
    let root = rig.namespace.load().exports()[0].root();
    let set = SetAttrs { mode: Some(0o777), gid: Some(4711), ..SetAttrs::default() };
    let mut pending = PendingSync::default();
    let made = root.make_dir(&Caller::new(0, 0, []), b"theirs", &set, &mut pending).unwrap();
    let inherits = SetAttrs { mode: Some(0o2777), ..SetAttrs::default() };
    made.file.set_attrs(&Caller::new(0, 0, []), &inherits, None, &mut pending).unwrap();
    let mut client = unix(&rig, ALICE);
    let file = told(&create(&mut client, "theirs/file", MAKE, 0o6755)).unwrap();
    assert_eq!((file.group, file.mode), (Sid::unix_group(4711), 0o4755));
    let file = open(&mut client, "theirs/file", TO_CHMOD, 0);
    assert_eq!(chmod(&mut client, file, 0o2755), NtStatus::SUCCESS);
    let told = told(&create(&mut client, "theirs/file", OPEN, 0)).unwrap();
    assert_eq!(told.mode, 0o755);
}

#[test]
fn mode_entry_in_acl_sets_mode() {
    let rig = Rig::new();
    let mut alice = unix(&rig, ALICE);
    alice.put("file", b"data");
    let file = open(&mut alice, "file", TO_CHMOD, 0);
    for (list, mode) in [(0, 0o600), (1, 0o751), (0, 0o4711)] {
        let list = &says_mode(mode)[list];
        assert_eq!(set(&mut alice, file, SecurityInformation::DACL, list), NtStatus::SUCCESS);
        assert_eq!(mode_of(&rig, "file"), mode);
    }
    assert_eq!(chmod(&mut alice, file, u32::MAX), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, "file"), 0o7777, "and no more than there is of a mode");
    // For other clients this is an entry for a user that mode bits cannot express.
    let windows = alice.open("file", TO_CHMOD);
    assert_eq!(
        set(&mut alice, windows, SecurityInformation::DACL, &says_mode(0o600)[1]),
        NtStatus::NOT_SUPPORTED
    );
    // A descriptor without a mode entry applies as an ACL.
    let owner = Sid::new(1, &[0]).unwrap();
    let all = vec![Ace::allow(AceFlags::empty(), AccessMask::GENERIC_ALL, owner)];
    let list = SecurityDescriptor { dacl: Acl::new(all), ..says_mode(0)[0].clone() };
    assert_eq!(set(&mut alice, file, SecurityInformation::DACL, &list), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, "file"), 0o7777);
}

#[test]
fn mode_and_owner_need_ownership() {
    let rig = Rig::new();
    let (mut alice, mut bob) = (unix(&rig, ALICE), unix(&rig, BOB));
    let made = open(&mut alice, "file", MAKE, 0o666);
    for access in [AccessMask::WRITE_DAC, AccessMask::WRITE_OWNER] {
        create(&mut bob, "file", Opening { access, ..OPEN }, 0o4777).assert_refused(NtStatus::ACCESS_DENIED);
    }
    let file = open(&mut bob, "file", OPEN, 0o4777);
    assert_eq!(chmod(&mut bob, file, 0o4777), NtStatus::ACCESS_DENIED);
    // Replacing an existing file keeps its mode.
    let again = Opening { disposition: CreateDisposition::OVERWRITE_IF, ..OPEN };
    open(&mut bob, "file", again, 0o4777);
    assert_eq!(mode_of(&rig, "file"), 0o666);
    let of = |kind, number| SecurityDescriptor {
        owner: Sid::new(5, &[88, kind, number]),
        ..says_mode(0)[0].clone()
    };
    for owner in [of(1, 1001), SecurityDescriptor { owner: Some(Sid::unix_user(1001)), ..of(1, 0) }] {
        assert_eq!(set(&mut alice, made, SecurityInformation::OWNER, &owner), NtStatus::INVALID_OWNER);
    }
    let group = SecurityDescriptor { group: Sid::new(5, &[88, 2, 4711]), ..of(1, 1000) };
    assert_eq!(set(&mut alice, made, SecurityInformation::GROUP, &group), NtStatus::ACCESS_DENIED);
    assert_eq!(
        set(&mut alice, made, SecurityInformation::OWNER, &group),
        NtStatus::SUCCESS,
        "the owner may set the group"
    );
    let told = information(&mut alice, made).unix;
    assert_eq!((told.owner, told.group), (Sid::unix_user(1000), Sid::unix_group(100)));
    // A write clears set-id bits, as over NFS.
    assert_eq!(chmod(&mut alice, made, 0o4777), NtStatus::SUCCESS);
    bob.write(file, 0, b"x");
    assert_eq!(mode_of(&rig, "file"), 0o777);
}

#[test]
fn mode_is_ignored_with_ntfs_acls() {
    let rig =
        Rig::with(ExportRule::everybody(), |volume| volume.with_security_style(SecurityStyle::Ntfs).unwrap());
    let mut client = unix(&rig, ALICE);
    let over_nfs = {
        let root = rig.namespace.load().exports()[0].root();
        let (set, mut pending) =
            (SetAttrs { mode: Some(0o4750), ..SetAttrs::default() }, PendingSync::default());
        root.make_dir(&Caller::new(1000, 100, []), b"nfs", &set, &mut pending).unwrap().attrs.mode
    };
    assert_eq!(told(&create(&mut client, "dir", MAKE_DIR, 0o4750)).unwrap().mode, over_nfs);
    let dir = open(&mut client, "dir", OPEN, 0);
    assert_eq!(chmod(&mut client, dir, 0o700), NtStatus::ACCESS_DENIED);
    assert_eq!(mode_of(&rig, "dir"), over_nfs);
}

#[test]
fn read_only_attribute_does_not_bind_posix_opens() {
    let rig = Rig::new();
    let mut client = unix(&rig, ALICE);
    let read_only = Opening { attributes: FileAttributes::READONLY, ..MAKE };
    let file = open(&mut client, "file", read_only, 0o444);
    assert_eq!(client.write(file, 0, b"data").status(), NtStatus::SUCCESS, "it was opened when it was made");
    client.close(file);
    let writes = Opening { access: AccessMask::WRITE_DATA, ..OPEN };
    create(&mut client, "file", writes, 0).assert_refused(NtStatus::ACCESS_DENIED);
    let file = open(&mut client, "file", TO_CHMOD, 0);
    assert_eq!(chmod(&mut client, file, 0o644), NtStatus::SUCCESS);
    open(&mut client, "file", writes, 0);
    assert_eq!(chmod(&mut client, file, 0o444), NtStatus::SUCCESS);
    let mut windows = rig.alice();
    let delete = DispositionInformation { delete_pending: true };
    let deletes = Opening { access: AccessMask::DELETE, ..OPEN };
    let by_windows = windows.open("file", deletes);
    assert_eq!(windows.set(by_windows, FileClass::DISPOSITION, &delete), NtStatus::CANNOT_DELETE);
    let by_unix = open(&mut client, "file", deletes, 0);
    assert_eq!(client.set(by_unix, FileClass::DISPOSITION, &delete), NtStatus::SUCCESS);
}

#[test]
fn posix_truncation_keeps_metadata() {
    let rig = Rig::new();
    let mut client = unix(&rig, ALICE);
    client.put("file", b"data");
    client.put("file:stream", b"kept");
    let empties = Opening { disposition: CreateDisposition::OVERWRITE_IF, ..OPEN };
    let file = open(&mut client, "file", empties, 0o600);
    assert_eq!(information(&mut client, file).end_of_file, 0);
    assert_eq!(client.get("file:stream"), b"kept");
    assert_eq!(mode_of(&rig, "file"), 0o644);
}

#[test]
fn posix_information_has_unix_attributes() {
    let rig = Rig::new();
    let mut client = unix(&rig, ALICE);
    let file = open(&mut client, "file", MAKE, 0o640);
    client.write(file, 0, b"hello");
    let told = information(&mut client, file);
    let unix = PosixResponse {
        hard_links: 1,
        reparse_tag: ReparseTag(0),
        mode: 0o640,
        owner: Sid::unix_user(1000),
        group: Sid::unix_group(100),
    };
    assert_eq!((told.unix, told.end_of_file, told.file_attributes), (unix, 5, FileAttributes::ARCHIVE));
    assert_ne!((told.inode, told.device_id), (0, 0));
    client.query(file, FileClass::POSIX, 111).assert_refused(NtStatus::INFO_LENGTH_MISMATCH);
    let blind = open(&mut client, "file", Opening { access: AccessMask::WRITE_DATA, ..OPEN }, 0);
    client.query(blind, FileClass::POSIX, 4096).assert_refused(NtStatus::ACCESS_DENIED);
    let ask = |room| query(InfoType::FILESYSTEM, file, FileSystemClass::POSIX.0, room);
    let reply = client.call(Command::QUERY_INFO, &ask(56));
    let system =
        FileSystemPosixInformation::from_bytes(reply.body::<OutputResponse<&[u8]>>().output).unwrap();
    assert_eq!(system.block_size, 4096);
    assert!(system.user_blocks_available <= system.blocks_available);
    assert!(system.blocks_available <= system.total_blocks && system.total_blocks > 0);
    client.call(Command::QUERY_INFO, &ask(55)).assert_refused(NtStatus::INFO_LENGTH_MISMATCH);
    // Windows opens do not have these classes.
    let windows = client.open("file", OPEN);
    client.query(windows, FileClass::POSIX, 4096).assert_refused(NtStatus::INVALID_INFO_CLASS);
    let ask = query(InfoType::FILESYSTEM, windows, FileSystemClass::POSIX.0, 4096);
    client.call(Command::QUERY_INFO, &ask).assert_refused(NtStatus::INVALID_INFO_CLASS);
}

#[test]
fn special_file_types_are_reported() {
    let rig = Rig::new();
    make_special(&rig, "fifo", Special::Fifo);
    make_special(&rig, "socket", Special::Socket);
    let mut client = unix(&rig, ALICE);
    let opening = Opening { access: AccessMask::READ_ATTRIBUTES, ..OPEN };
    for (path, kind, reparse_tag) in [
        ("fifo", PosixFileType::FIFO, ReparseTag::LX_FIFO),
        ("socket", PosixFileType::SOCKET, ReparseTag::AF_UNIX),
    ] {
        let file = open(&mut client, path, opening, 0);
        let told = information(&mut client, file);
        assert_eq!((told.unix.mode, told.unix.reparse_tag), (kind.0 | 0o644, reparse_tag), "{path}");
        assert!(told.file_attributes.contains(FileAttributes::REPARSE_POINT));
    }
}

#[test]
fn posix_rules_apply_to_times_of_other_users_files() {
    let rig = Rig::new();
    let (mut alice, mut bob) = (unix(&rig, ALICE), unix(&rig, BOB));
    let (mine, theirs) = (open(&mut alice, "file", MAKE, 0o666), open(&mut bob, "file", OPEN, 0));
    let last_write_time = FileTime::from_unix(5, 0);
    let value = BasicInformation { last_write_time, ..BasicInformation::default() };
    assert_eq!(bob.set(theirs, FileClass::BASIC, &value), NtStatus::ACCESS_DENIED);
    assert_eq!(alice.set(mine, FileClass::BASIC, &value), NtStatus::SUCCESS);
}

/// rename(2) ignores open files below a directory. Windows opens block it, and continue under the new path.
#[test]
fn posix_directory_rename_ignores_posix_opens_below() {
    let rig = Rig::new();
    let (mut client, mut other) = (unix(&rig, ALICE), rig.alice());
    let dir = open(&mut client, "dir", Opening { access: AccessMask::GENERIC_ALL, ..MAKE_DIR }, 0o755);
    let theirs = other.open("dir\\file", Opening::default());
    let windows = other.open("dir", Opening::dir());
    assert_eq!(rename(&mut other, windows, "new", false), NtStatus::ACCESS_DENIED);
    other.close(windows);
    assert_eq!(rename(&mut client, dir, "new", false), NtStatus::SUCCESS);
    assert_eq!(other.info(theirs, FileClass::NORMALIZED_NAME)[4..], name("new\\file"));
    assert_eq!(other.write(theirs, 0, b"on").status(), NtStatus::SUCCESS);
    assert_eq!(other.get("new\\file"), b"on");
}
