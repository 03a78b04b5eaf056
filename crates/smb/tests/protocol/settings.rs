//! Settings of a share: protection, listing, notifications and caching.

use crate::file_information::rename;
use crate::rig::{ALICE, BOB, Client, Offer, Opening, Rig, SHARE, name};
use identity::Group;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::BasicInformation;
use smb_wire::create::{CreateDisposition, CreateOptions, OplockLevel};
use smb_wire::dir::{
    ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter, DirectoryClass, OutputResponse,
    QueryDirectoryFlags, QueryDirectoryRequest,
};
use smb_wire::header::{Command, Flags};
use smb_wire::negotiate::{NegotiateResponse, SecurityMode};
use smb_wire::session::Empty;
use smb_wire::tree::{ShareFlags, TreeConnectResponse};
use smb_wire::types::{AccessMask, Dialect};
use smb_wire::{FileTime, NtStatus, Utf16, chain};
use std::sync::Arc;
use vfs::{
    Blocking, Caller, Disposition, Export, ExportRule, FsError, Namespace, PendingSync, SetAttrs,
    ShareSettings, Stability,
};

const UNSIGNED: ShareSettings = ShareSettings { signing: false, ..DEFAULT };
pub(crate) const DEFAULT: ShareSettings = ShareSettings {
    encryption: false,
    signing: true,
    compression: false,
    browsable: true,
    access_based_enumeration: false,
    continuously_available: false,
    oplocks: true,
    change_notify: true,
    create_mode: 0o644,
    directory_mode: 0o755,
};

/// Changes the settings of [`SHARE`].
pub(crate) fn set(rig: &Rig, share: ShareSettings) {
    let docs = Export::new("/docs", Arc::clone(&rig.volume), vec![ExportRule::everybody()]).shared(share);
    let spare = Arc::clone(&rig.namespace.load().exports()[1]);
    rig.namespace.store(Arc::new(Namespace::new([Arc::new(docs), spare])));
}

fn with(share: ShareSettings) -> Rig {
    let rig = Rig::new();
    set(&rig, share);
    rig
}

/// Alice without a share, and the server's security mode.
fn logged_on(rig: &Rig, offer: &Offer) -> (Client, SecurityMode) {
    let mut client = rig.connect();
    let mode = client.negotiate(offer).body::<NegotiateResponse<'_>>().security_mode;
    client.log_on(ALICE);
    (client, mode)
}

/// Alice at [`SHARE`], not signing.
fn unsigned(rig: &Rig) -> Client {
    let mut client = rig.alice();
    client.signs = false;
    client
}

#[test]
fn replies_are_signed_only_if_requests_are() {
    let rig = with(UNSIGNED);
    let (_, mode) = logged_on(&rig, &Offer::default());
    assert_eq!(mode, SecurityMode::SIGNING_ENABLED);
    let mut client = unsigned(&rig);
    client.put("file", b"bare");
    assert_eq!(client.get("file"), b"bare");
    assert!(!client.call(Command::ECHO, &Empty).header.flags.contains(Flags::SIGNED));
    client.signs = true;
    assert!(client.call(Command::ECHO, &Empty).header.flags.contains(Flags::SIGNED));
    // An unrequired signature is still valid.
    let mut request = client.signed(Command::ECHO, &Empty);
    *request.last_mut().unwrap() ^= 1;
    client.send(&request);
    assert_eq!(client.reply().status(), NtStatus::ACCESS_DENIED);
    client.seals = true;
    assert_eq!(client.get("file"), b"bare");
}

#[test]
fn validate_negotiate_reply_is_always_signed() {
    let rig = with(UNSIGNED);
    let (mut client, _) = logged_on(&rig, &Offer::default());
    let path = name("\\\\files.example.org\\docs");
    let path = Utf16::new(&path).unwrap();
    let flags = smb_wire::tree::TreeConnectFlags::empty();
    let request = client.request(Command::TREE_CONNECT, &smb_wire::tree::TreeConnectRequest { flags, path });
    client.send(&request);
    client.assert_ended();
    // Clients of 3.0 also validate the negotiation.
    let (mut client, mode) = logged_on(&rig, &Offer::of(Dialect::SMB302));
    assert_eq!(mode, SecurityMode::SIGNING_ENABLED);
    client.signs = false;
    client.mount(SHARE);
    client.put("file", b"x");
}

#[test]
fn signing_is_required_by_client_or_without_encryption() {
    let rig = with(UNSIGNED);
    let both = SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED;
    let no_cipher = Offer { ciphers: Vec::new(), ..Offer::default() };
    let asks = Offer { security_mode: both, ..Offer::default() };
    for (offer, told) in
        [(Offer::of(Dialect::SMB210), both), (no_cipher, both), (asks, SecurityMode::SIGNING_ENABLED)]
    {
        let (mut client, mode) = logged_on(&rig, &offer);
        assert_eq!(mode, told, "{offer:?}");
        client.mount(SHARE);
        client.put("file", b"signed");
        client.signs = false;
        // The refusal is signed, so it is authentic.
        let refused = client.create("file", Opening::default());
        refused.assert_refused(NtStatus::ACCESS_DENIED);
        assert!(refused.header.flags.contains(Flags::SIGNED));
    }
}

#[test]
fn share_requiring_signing_is_encrypted_for_unsigned_sessions() {
    let rig = with(UNSIGNED);
    let (mut client, _) = logged_on(&rig, &Offer::default());
    let reply = client.tree_connect("spare");
    assert!(reply.body::<TreeConnectResponse>().share_flags.contains(ShareFlags::ENCRYPT_DATA));
    client.tree_id = reply.header.tree_id();
    client.signs = false;
    client.create("file", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
    client.seals = true;
    client.put("file", b"sealed");
    // Existing sessions must follow the new settings.
    client.seals = false;
    client.signs = true;
    client.mount(SHARE);
    client.signs = false;
    let file = client.open("file", Opening::by(CreateDisposition::OPEN_IF));
    set(&rig, ShareSettings { oplocks: false, ..UNSIGNED });
    assert_eq!(client.write(file, 0, b"x").status(), NtStatus::SUCCESS);
    set(&rig, DEFAULT);
    client.write(file, 0, b"x").assert_refused(NtStatus::NETWORK_NAME_DELETED);
    let (_, mode) = logged_on(&rig, &Offer::default());
    assert!(mode.contains(SecurityMode::SIGNING_REQUIRED));
}

#[test]
fn encryption_setting_applies_immediately() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"signed");
    set(&rig, ShareSettings { encryption: true, ..DEFAULT });
    client.create("file", Opening::default()).assert_refused(NtStatus::NETWORK_NAME_DELETED);
    let reply = client.tree_connect(SHARE);
    assert!(reply.body::<TreeConnectResponse>().share_flags.contains(ShareFlags::ENCRYPT_DATA));
    client.tree_id = reply.header.tree_id();
    client.create("file", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
    client.seals = true;
    assert_eq!(client.get("file"), b"signed");
    let (mut old, _) = logged_on(&rig, &Offer::of(Dialect::SMB210));
    old.tree_connect(SHARE).assert_refused(NtStatus::ACCESS_DENIED);
}

/// The names in the root of the share that match this pattern.
pub(crate) fn listed(client: &mut Client, pattern: &str) -> Vec<String> {
    let (access, options) = (AccessMask::LIST_DIRECTORY, CreateOptions::DIRECTORY_FILE);
    let root = client.open("", Opening { access, options, ..Opening::by(CreateDisposition::OPEN) });
    let pattern = name(pattern);
    let request = QueryDirectoryRequest {
        file_information_class: DirectoryClass::NAMES,
        flags: QueryDirectoryFlags(0),
        file_index: 0,
        file_id: root,
        file_name: Utf16::new(&pattern).unwrap(),
        output_buffer_length: 1 << 16,
    };
    let reply = client.call(Command::QUERY_DIRECTORY, &request);
    client.close(root);
    if reply.status() == NtStatus::NO_SUCH_FILE {
        return Vec::new();
    }
    let entries = chain::entries(8, reply.body::<OutputResponse<&[u8]>>().output).map(|entry| {
        let units = Utf16::new(&entry.unwrap()[12..]).unwrap().units().collect::<Vec<_>>();
        String::from_utf16(&units).unwrap().trim_end_matches('\0').to_owned()
    });
    let mut names: Vec<String> = entries.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn access_based_listing_hides_unreadable_files() {
    let rig = Rig::new();
    let root = rig.namespace.load().exports()[0].root();
    let alice = Caller::new(1000, 100, []);
    for (name, mode) in [(&b"open"[..], 0o644), (b"shut", 0o600)] {
        let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
        root.create(&alice, name, Disposition::CreateNew, &set, &mut PendingSync::default()).unwrap();
    }
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    assert_eq!(listed(&mut bob, "*"), ["open", "shut"]);
    set(&rig, ShareSettings { access_based_enumeration: true, ..DEFAULT });
    assert_eq!(listed(&mut bob, "*"), ["open"]);
    assert_eq!(listed(&mut bob, "shut"), Vec::<String>::new());
    assert_eq!(listed(&mut rig.alice(), "*"), ["open", "shut"]);
    let told = bob.tree_connect(SHARE).body::<TreeConnectResponse>().share_flags;
    assert!(told.contains(ShareFlags::ACCESS_BASED_DIRECTORY_ENUM));
}

const TEAM: u32 = 300;
const OF_TEAM: ShareSettings = ShareSettings { create_mode: 0o660, directory_mode: 0o2770, ..DEFAULT };

/// A share with a directory of a group with alice and bob, both connected.
fn team(share: ShareSettings) -> (Rig, [Client; 2]) {
    let members = [ALICE, BOB].map(|(name, _)| name.parse().unwrap()).to_vec();
    let rig = Rig::with_accounts(vec![Group { name: "team".parse().unwrap(), gid: TEAM, members }], 0);
    set(&rig, share);
    let root = rig.namespace.load().exports()[0].root();
    let of_team = SetAttrs { mode: Some(0o2770), gid: Some(TEAM), ..SetAttrs::default() };
    root.make_dir(&Caller::new(0, 0, []), b"team", &of_team, &mut PendingSync::default()).unwrap();
    let clients = [ALICE, BOB].map(|user| {
        let mut client = rig.connect();
        client.negotiate(&Offer::default());
        client.log_on(user);
        client.mount(SHARE);
        client
    });
    (rig, clients)
}

/// Mode and group of the file at a path.
fn mode_and_group(rig: &Rig, path: &[&[u8]]) -> (u32, u32) {
    let caller = Caller::new(0, 0, []);
    let mut file = rig.namespace.load().exports()[0].root();
    for name in path {
        file =
            file.open_dir(&caller, Blocking::Allowed).unwrap().lookup(name, Blocking::Allowed).unwrap().file;
    }
    let attrs = file.attrs(Blocking::Allowed).unwrap();
    (attrs.mode, attrs.gid)
}

#[test]
fn team_modes_share_directories_in_a_group() {
    let (rig, [mut alice, mut bob]) = team(OF_TEAM);
    alice.put("team\\plan", b"alice");
    alice.put("team\\doomed", b"alice");
    alice.open("team\\notes", Opening::dir());
    alice.open("team\\notes\\deep", Opening::dir());
    for (path, mode) in [
        (&[&b"team"[..], b"plan"][..], 0o660),
        (&[b"team", b"notes"], 0o2770),
        (&[b"team", b"notes", b"deep"], 0o2770),
    ] {
        assert_eq!(mode_and_group(&rig, path), (mode, TEAM), "{path:?}");
    }
    // The steps of a program that saves a file: write, set times, replace, remove.
    let file = bob.open("team\\plan", Opening::by(CreateDisposition::OPEN));
    assert_eq!(bob.write(file, 0, b"bob's").status(), NtStatus::SUCCESS);
    let last_write_time = FileTime(0x01bf_53eb_256d_4000);
    let times = BasicInformation { last_write_time, ..BasicInformation::default() };
    assert_eq!(bob.set(file, FileClass::BASIC, &times), NtStatus::SUCCESS);
    bob.close(file);
    bob.put("team\\notes\\deep\\new", b"bob");
    let new = bob.open("team\\notes\\deep\\new", Opening::by(CreateDisposition::OPEN));
    assert_eq!(rename(&mut bob, new, "team\\plan", true), NtStatus::SUCCESS);
    bob.close(new);
    assert_eq!(mode_and_group(&rig, &[b"team", b"plan"]), (0o660, TEAM));
    let options = CreateOptions::DELETE_ON_CLOSE;
    let doomed = bob.open("team\\doomed", Opening { options, ..Opening::by(CreateDisposition::OPEN) });
    bob.close(doomed);
    alice.put("team\\plan", b"alice again");
    assert_eq!(bob.get("team\\plan"), b"alice again");
}

/// Members can also use the files over NFS; others cannot.
#[test]
fn team_modes_apply_in_every_protocol() {
    let (rig, [mut alice, mut bob]) = team(OF_TEAM);
    alice.put("team\\plan", b"alice");
    let root = rig.namespace.load().exports()[0].root();
    let (member, stranger) = (Caller::new(1001, 100, [TEAM]), Caller::new(1002, 100, []));
    let pending = &mut PendingSync::default();
    let team = |caller: &Caller| {
        let dir = root.open_dir(caller, Blocking::Allowed)?;
        Ok::<_, FsError>(dir.lookup(b"team", Blocking::Allowed)?.file)
    };
    let dir = team(&member).unwrap();
    assert_eq!(dir.open_dir(&stranger, Blocking::Allowed).err(), Some(FsError::Access));
    let plan = dir.open_dir(&member, Blocking::Allowed).unwrap().lookup(b"plan", Blocking::Allowed).unwrap();
    let mut write = |caller: &Caller, data: &[u8]| {
        let opened = plan.file.authorize_write(caller)?;
        opened.write(0, data, Stability::Unstable, pending).map(drop)
    };
    assert_eq!(write(&member, b"over NFS"), Ok(()));
    assert_eq!(write(&stranger, b"not mine"), Err(FsError::Access));
    assert_eq!(bob.get("team\\plan"), b"over NFS");
    // NFS creates files with the team's umask.
    let of_team = SetAttrs { mode: Some(0o660), ..SetAttrs::default() };
    dir.create(&member, b"theirs", Disposition::CreateNew, &of_team, pending).unwrap();
    alice.put("team\\theirs", b"alice");
    assert_eq!(mode_and_group(&rig, &[b"team", b"theirs"]), (0o660, TEAM));
}

#[test]
fn without_team_modes_group_can_only_read() {
    let (rig, [mut alice, mut bob]) = team(DEFAULT);
    alice.put("team\\plan", b"alice");
    alice.open("team\\notes", Opening::dir());
    assert_eq!(mode_and_group(&rig, &[b"team", b"plan"]), (0o644, TEAM));
    assert_eq!(mode_and_group(&rig, &[b"team", b"notes"]), (0o2755, TEAM), "the bit is handed on");
    bob.create("team\\plan", Opening::by(CreateDisposition::OPEN)).assert_refused(NtStatus::ACCESS_DENIED);
    bob.create("team\\notes\\new", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
    // The setting applies to new files.
    set(&rig, OF_TEAM);
    alice.put("team\\later", b"alice");
    bob.put("team\\later", b"bob");
    bob.create("team\\plan", Opening::by(CreateDisposition::OPEN)).assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn disabled_notifications_are_refused() {
    let rig = with(ShareSettings { change_notify: false, ..DEFAULT });
    let mut client = rig.alice();
    let (access, options) = (AccessMask::LIST_DIRECTORY, CreateOptions::DIRECTORY_FILE);
    let root = client.open("", Opening { access, options, ..Opening::by(CreateDisposition::OPEN) });
    let request = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::empty(),
        output_buffer_length: 1000,
        file_id: root,
        completion_filter: CompletionFilter::FILE_NAME,
    };
    client.call(Command::CHANGE_NOTIFY, &request).assert_refused(NtStatus::NOT_SUPPORTED);
}

#[test]
fn disabled_caching_grants_no_oplock() {
    let rig = with(ShareSettings { oplocks: false, ..DEFAULT });
    let mut client = rig.alice();
    let open = client.open_oplock("file", Opening::default(), OplockLevel::BATCH);
    assert_eq!(open.level, OplockLevel::NONE);
    set(&rig, DEFAULT);
    let open = client.open_oplock("other", Opening::default(), OplockLevel::BATCH);
    assert_eq!(open.level, OplockLevel::BATCH);
}
