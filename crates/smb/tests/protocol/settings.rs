//! The settings of a share: what is protected how, listed, and told.

use crate::rig::{ALICE, BOB, Client, Offer, Opening, Rig, SHARE, name};
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
use smb_wire::{NtStatus, Utf16, chain};
use std::sync::Arc;
use vfs::{Caller, Disposition, Export, ExportRule, Namespace, PendingSync, SetAttrs, ShareSettings};

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
};

/// Has [`SHARE`] have these settings from now on.
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

/// Alice without a share, and what the server has said of signing.
fn logged_on(rig: &Rig, offer: &Offer) -> (Client, SecurityMode) {
    let mut client = rig.connect();
    let mode = client.negotiate(offer).body::<NegotiateResponse<'_>>().security_mode;
    client.log_on(ALICE);
    (client, mode)
}

/// Alice at [`SHARE`], who signs nothing from now on.
fn unsigned(rig: &Rig) -> Client {
    let mut client = rig.alice();
    client.signs = false;
    client
}

#[test]
fn without_signing_nothing_is_signed_that_its_client_does_not_sign() {
    let rig = with(UNSIGNED);
    let (_, mode) = logged_on(&rig, &Offer::default());
    assert_eq!(mode, SecurityMode::SIGNING_ENABLED);
    let mut client = unsigned(&rig);
    client.put("file", b"bare");
    assert_eq!(client.get("file"), b"bare");
    assert!(!client.call(Command::ECHO, &Empty).header.flags.contains(Flags::SIGNED));
    client.signs = true;
    assert!(client.call(Command::ECHO, &Empty).header.flags.contains(Flags::SIGNED));
    // A signature that is there is right.
    let mut request = client.signed(Command::ECHO, &Empty);
    *request.last_mut().unwrap() ^= 1;
    client.send(&request);
    assert_eq!(client.reply().status(), NtStatus::ACCESS_DENIED);
    client.seals = true;
    assert_eq!(client.get("file"), b"bare");
}

#[test]
fn what_proves_the_negotiation_is_always_signed() {
    let rig = with(UNSIGNED);
    let (mut client, _) = logged_on(&rig, &Offer::default());
    let path = name("\\\\files.example.org\\docs");
    let path = Utf16::new(&path).unwrap();
    let flags = smb_wire::tree::TreeConnectFlags::empty();
    let request = client.request(Command::TREE_CONNECT, &smb_wire::tree::TreeConnectRequest { flags, path });
    client.send(&request);
    client.assert_ended();
    // Clients of 3.0 ask besides.
    let (mut client, mode) = logged_on(&rig, &Offer::of(Dialect::SMB302));
    assert_eq!(mode, SecurityMode::SIGNING_ENABLED);
    client.signs = false;
    client.mount(SHARE);
    client.put("file", b"x");
}

#[test]
fn who_asks_for_signatures_or_cannot_encrypt_signs() {
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
        // The refusal is signed: nobody else has made it.
        let refused = client.create("file", Opening::default());
        refused.assert_refused(NtStatus::ACCESS_DENIED);
        assert!(refused.header.flags.contains(Flags::SIGNED));
    }
}

#[test]
fn a_share_that_needs_signatures_is_encrypted_for_those_who_do_not_sign() {
    let rig = with(UNSIGNED);
    let (mut client, _) = logged_on(&rig, &Offer::default());
    let reply = client.tree_connect("spare");
    assert!(reply.body::<TreeConnectResponse>().share_flags.contains(ShareFlags::ENCRYPT_DATA));
    client.tree_id = reply.header.tree_id();
    client.signs = false;
    client.create("file", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
    client.seals = true;
    client.put("file", b"sealed");
    // No session of the past is looser than the settings of now.
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
fn encryption_is_required_from_the_moment_it_is_set() {
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

/// The names in the root of the share, by this pattern.
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
fn by_access_a_listing_leaves_out_what_its_user_may_not_read() {
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

#[test]
fn where_changes_are_not_told_nobody_waits_for_them() {
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
fn where_nothing_is_to_be_cached_no_oplock_is_granted() {
    let rig = with(ShareSettings { oplocks: false, ..DEFAULT });
    let mut client = rig.alice();
    let open = client.open_oplock("file", Opening::default(), OplockLevel::BATCH);
    assert_eq!(open.level, OplockLevel::NONE);
    set(&rig, DEFAULT);
    let open = client.open_oplock("other", Opening::default(), OplockLevel::BATCH);
    assert_eq!(open.level, OplockLevel::BATCH);
}
