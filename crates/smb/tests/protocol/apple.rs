//! Clients with macOS's behavior: the create context AAPL, and streams for Finder info and resource forks.

use crate::file_information::{dispose, exists, rename};
use crate::posix::mode_of;
use crate::query_directory;
use crate::rig::{BOB, Client, Offer, Opening, Rig, SHARE, lease, name};
use crate::security::{list, set, told};
use smb_wire::apple::{
    self, AppleCapabilities, AppleVolumeCapabilities, QueryBitmap, ServerQuery, ServerQueryResponse,
};
use smb_wire::classes::FileClass;
use smb_wire::contexts::MaximalAccess;
use smb_wire::create::{CreateContext, CreateContexts, CreateOptions, CreateResponse};
use smb_wire::dir::{DirectoryClass, QueryDirectoryFlags};
use smb_wire::header::Command;
use smb_wire::info::SecurityInformation;
use smb_wire::security::{Ace, AceFlags, Sid};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, NtStatus, Utf16, chain};
use vfs::{ExportRule, SecurityStyle};

/// Opens `path` with this create context and returns its response context.
fn ask_of(client: &mut Client, path: &str, context: (&[u8], &[u8])) -> Option<Vec<u8>> {
    let (wire, opening) = (name(path), Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::default() });
    let contexts = CreateContexts(vec![CreateContext { name: context.0, data: context.1 }]);
    let reply =
        client.call(Command::CREATE, &smb_wire::create::CreateRequest { contexts, ..opening.request(&wire) });
    let response: CreateResponse<'_> = reply.body();
    let answer = response.contexts.find(context.0).map(<[u8]>::to_vec);
    client.close(response.file_id);
    answer
}

/// Opens the root of the share with this AAPL context.
fn ask(client: &mut Client, data: &[u8]) -> Option<Vec<u8>> {
    ask_of(client, "", (apple::NAME, data))
}

fn query(request_bitmap: QueryBitmap, client_capabilities: AppleCapabilities) -> Vec<u8> {
    ServerQuery { request_bitmap, client_capabilities }.to_bytes()
}

/// The entries of the root of the share: names and fixed parts.
fn listed(client: &mut Client, class: DirectoryClass) -> Vec<(String, Vec<u8>)> {
    let access = AccessMask::GENERIC_READ;
    let root = client.open("", Opening { access, ..Opening::default() });
    let reply = query_directory::ask(client, root, "*", class, QueryDirectoryFlags::RESTART_SCANS, 1 << 16);
    client.close(root);
    let fixed = if class == DirectoryClass::ID_BOTH_DIRECTORY { 104 } else { 94 };
    let entries = chain::entries(8, query_directory::output(&reply)).map(|entry| {
        let entry = entry.unwrap();
        let length = usize::try_from(u32::from_le_bytes(entry[60..64].try_into().unwrap())).unwrap();
        let units: Vec<u16> = Utf16::new(&entry[fixed..fixed + length]).unwrap().units().collect();
        (String::from_utf16(&units).unwrap(), entry[..fixed].to_vec())
    });
    entries.collect()
}

fn entry_of<'l>(listed: &'l [(String, Vec<u8>)], name: &str) -> &'l [u8] {
    &listed.iter().find(|(found, _)| found == name).unwrap().1
}

/// Finder info with recognizable bytes.
fn afp_info() -> Vec<u8> {
    [&b"AFP\0"[..], &[0; 12], &(1..=32).collect::<Vec<u8>>(), &[0; 12]].concat()
}

#[test]
fn aapl_response_has_requested_capabilities() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let all = QueryBitmap::SERVER_CAPS | QueryBitmap::VOLUME_CAPS | QueryBitmap::MODEL_INFO;
    let (none, lists) = (AppleCapabilities::empty(), AppleCapabilities::SUPPORTS_READ_DIR_ATTR);
    let told = ask(&mut client, &query(all, none)).unwrap();
    let told = ServerQueryResponse::from_bytes(&told).unwrap();
    let always = AppleCapabilities::UNIX_BASED | AppleCapabilities::SUPPORTS_NFS_ACE;
    assert_eq!(told.server_capabilities, Some(always));
    let everything = AppleCapabilities(u64::MAX);
    let told = ask(&mut client, &query(all, everything)).unwrap();
    let told = ServerQueryResponse::from_bytes(&told).unwrap();
    assert_eq!(told.server_capabilities, Some(always | lists));
    assert_eq!(told.volume_capabilities, Some(AppleVolumeCapabilities::SUPPORTS_FULL_SYNC));
    assert_eq!(told.model.unwrap().bytes(), name("MacSamba"));
    let told = ask(&mut client, &query(QueryBitmap::SERVER_CAPS, lists)).unwrap();
    let told = ServerQueryResponse::from_bytes(&told).unwrap();
    assert_eq!((told.volume_capabilities, told.model), (None, None));
}

/// rename(2) semantics: opens below the directory continue under the new path, for every client.
#[test]
fn macos_renames_directory_with_open_files() {
    let rig = Rig::new();
    let (mut mac, mut other) = (rig.alice(), rig.alice());
    let dir = mac.open("dir", Opening::dir());
    let deep = mac.open("dir\\deep", Opening::dir());
    let like = other.open("dirt", Opening::default());
    let mine = mac.open("dir\\deep\\mine", Opening::default());
    let theirs = other.open("dir\\theirs", Opening::default());
    assert_eq!(
        rename(&mut mac, dir, "new", false),
        NtStatus::ACCESS_DENIED,
        "the client has not negotiated AAPL"
    );
    ask(&mut mac, &query(QueryBitmap::SERVER_CAPS, AppleCapabilities::empty())).unwrap();
    assert_eq!(rename(&mut mac, dir, "new", false), NtStatus::SUCCESS);
    let path = |client: &mut Client, file| client.info(file, FileClass::NORMALIZED_NAME)[4..].to_vec();
    assert_eq!(path(&mut mac, mine), name("new\\deep\\mine"));
    assert_eq!(path(&mut other, theirs), name("new\\theirs"));
    assert_eq!(path(&mut other, like), name("dirt"));
    assert_eq!(other.write(theirs, 0, b"on").status(), NtStatus::SUCCESS);
    assert_eq!(mac.get("new\\theirs"), b"on");
    // The open files are renamed and deleted at their new place.
    assert_eq!(rename(&mut mac, mine, "moved", false), NtStatus::SUCCESS);
    assert_eq!(dispose(&mut other, theirs, true), NtStatus::SUCCESS);
    other.close(theirs);
    assert!(exists(&mut mac, "moved") && !exists(&mut mac, "new\\theirs"));
    // Moves it again, below another directory.
    let away = mac.open("away", Opening::dir());
    mac.close(away);
    assert_eq!(rename(&mut mac, dir, "away\\dir", false), NtStatus::SUCCESS);
    assert_eq!(path(&mut mac, deep), name("away\\dir\\deep"));
    assert_eq!(path(&mut mac, mine), name("moved"));
    assert_eq!(rename(&mut mac, dir, "away\\dir\\deep\\dir", false), NtStatus::ACCESS_DENIED, "below itself");
    // Windows semantics still apply to other clients.
    let theirs = other.open("away", Opening { access: AccessMask::DELETE, ..Opening::dir() });
    assert_eq!(rename(&mut other, theirs, "gone", false), NtStatus::ACCESS_DENIED);
}

/// A handle lease whose client deferred the close is broken first.
#[test]
fn macos_directory_rename_waits_for_deferred_closes() {
    let rig = Rig::new();
    let (mut mac, mut other) = (rig.alice_at(1), rig.alice_at(2));
    let dir = mac.open("dir", Opening::dir());
    ask(&mut mac, &query(QueryBitmap::SERVER_CAPS, AppleCapabilities::empty())).unwrap();
    let kept = other.open_lease("dir\\file", Opening::default(), lease(1, "RH"));
    std::thread::scope(|scope| {
        let renaming = scope.spawn(|| rename(&mut mac, dir, "new", false));
        other.assert_lease_break(1, "RH", "R", true);
        assert_eq!(other.acknowledge_lease(1, "R"), NtStatus::SUCCESS);
        assert_eq!(renaming.join().unwrap(), NtStatus::SUCCESS);
    });
    assert_eq!(other.write(kept.file_id, 0, b"on").status(), NtStatus::SUCCESS);
    assert_eq!(mac.get("new\\file"), b"on");
}

#[test]
fn malformed_aapl_query_gets_no_response() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for bad in [&b""[..], &[2; 24], &[1, 0, 0, 0, 0, 0, 0, 0, 7]] {
        assert_eq!(ask(&mut client, bad), None, "{bad:?}");
    }
}

#[test]
fn finder_info_and_resource_fork_are_streams() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file:AFP_AfpInfo", &[b'A'; 60]);
    client.put("file:AFP_Resource", &[7; 70_000][..60_000]);
    client.put("file:com.apple.metadata\u{f022}_kMDItemUserTags:$DATA", b"tags");
    assert_eq!(client.get("file:afp_afpinfo"), [b'A'; 60]);
    assert_eq!(client.get("file:AFP_Resource").len(), 60_000);
    assert_eq!(client.get("file:com.apple.metadata\u{f022}_kMDItemUserTags"), b"tags");
}

#[test]
fn read_dir_attributes_need_negotiation() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"data");
    client.put("file:AFP_AfpInfo", &afp_info());
    client.put("file:AFP_Resource", &[7; 3]);
    client.put("plain", b"");
    let options = CreateOptions::DIRECTORY_FILE;
    let dir = Opening { options, ..Opening::by(smb_wire::create::CreateDisposition::CREATE) };
    let dir = client.open("dir", dir);
    client.close(dir);
    client.put("dir:AFP_AfpInfo", &afp_info());
    let class = DirectoryClass::ID_BOTH_DIRECTORY;
    let before = listed(&mut client, class);
    assert_eq!(entry_of(&before, "file")[64..96], [0; 32]);
    let lists = AppleCapabilities::SUPPORTS_READ_DIR_ATTR;
    ask(&mut client, &query(QueryBitmap::VOLUME_CAPS, lists)).unwrap();
    assert_eq!(listed(&mut client, class), before, "the attributes were not negotiated");
    ask(&mut client, &query(QueryBitmap::SERVER_CAPS, lists)).unwrap();
    let after = listed(&mut client, class);
    let told = |name: &str| {
        let entry = entry_of(&after, name);
        let (fork, mode) = (entry[70..78].to_vec(), u16::from_le_bytes([entry[94], entry[95]]));
        (u64::from_le_bytes(fork.try_into().unwrap()), entry[78..94].to_vec(), mode)
    };
    let rest = [9, 10, 25, 26, 21, 22, 23, 24];
    let (of_file, of_dir) = ([[1, 2, 3, 4, 5, 6, 7, 8], rest].concat(), [[0; 8], rest].concat());
    assert_eq!(told("file"), (3, of_file, 0o100_644));
    assert_eq!(told("plain"), (0, vec![0; 16], 0o100_644));
    assert_eq!(told("dir"), (0, of_dir, 0o040_755));
    for name in ["file", "plain", "dir"] {
        let maximal = ask_of(&mut client, name, (MaximalAccess::NAME, &[])).unwrap();
        let maximal = MaximalAccess::from_bytes(&maximal).unwrap().maximal_access;
        assert_eq!(entry_of(&after, name)[64..68], maximal.0.to_le_bytes(), "{name}");
    }
    // Other entries, classes and sessions are unchanged.
    for (name, entry) in &before {
        let now = entry_of(&after, name);
        assert_eq!((&entry[..64], &entry[96..]), (&now[..64], &now[96..]), "{name}");
    }
    let others = listed(&mut client, DirectoryClass::BOTH_DIRECTORY);
    assert_eq!(entry_of(&others, "file")[64..94], [0; 30]);
    assert_eq!(listed(&mut rig.alice(), class), before);
}

#[test]
fn read_dir_attributes_need_access_and_never_wait() {
    let rig = Rig::new();
    let (mut alice, mut bob) = (rig.alice_at(1), rig.connect());
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    for name in ["private", "held", "cached"] {
        alice.put(name, b"");
        alice.put(&format!("{name}:AFP_AfpInfo"), &afp_info());
    }
    let private =
        alice.open("private", Opening { access: AccessMask::MAXIMUM_ALLOWED, ..Opening::default() });
    be_apple(&mut alice);
    let mode = list(&[says(3, 0o600)]);
    assert_eq!(set(&mut alice, private, SecurityInformation::DACL, &mode), NtStatus::SUCCESS);
    let held = alice.open("held:AFP_AfpInfo", Opening::alone());
    alice.open_lease("cached:AFP_AfpInfo", Opening::default(), lease(1, "RWH"));
    let class = DirectoryClass::ID_BOTH_DIRECTORY;
    let lists = query(QueryBitmap::SERVER_CAPS, AppleCapabilities::SUPPORTS_READ_DIR_ATTR);
    let is_told = |listed: &[(String, Vec<u8>)], name: &str| entry_of(listed, name)[78..94] != [0; 16];
    // Her own caches are not broken.
    ask(&mut alice, &lists).unwrap();
    assert!(is_told(&listed(&mut alice, class), "cached"));
    alice.assert_quiet();
    ask(&mut bob, &lists).unwrap();
    let told = listed(&mut bob, class);
    for name in ["private", "held", "cached"] {
        assert!(!is_told(&told, name), "{name}");
    }
    // The break went out; Bob's reply waits for the acknowledgment.
    alice.assert_lease_break(1, "RWH", "RH", true);
    assert_eq!(alice.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    alice.close(held);
    let told = listed(&mut bob, class);
    assert_eq!(["private", "held", "cached"].map(|name| is_told(&told, name)), [false, true, true]);
    let told = listed(&mut alice, class);
    assert!(["private", "held", "cached"].iter().all(|name| is_told(&told, name)));
}

/// Marks the session as macOS.
fn be_apple(client: &mut Client) {
    ask(client, &query(QueryBitmap::SERVER_CAPS, AppleCapabilities::empty())).unwrap();
}

/// An entry that encodes a mode in its SID.
fn says(kind: u32, number: u32) -> Ace {
    Ace::allow(AceFlags::empty(), AccessMask::empty(), Sid::new(5, &[88, kind, number]).unwrap())
}

#[test]
fn macos_reads_and_sets_modes_in_descriptors() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"");
    let everything = Opening { access: AccessMask::MAXIMUM_ALLOWED, ..Opening::default() };
    let file = client.open("file", everything);
    let dacl = SecurityInformation::DACL;
    let before = told(&mut client, file, dacl).unwrap().dacl.unwrap().aces().to_vec();
    // Without AAPL such an entry has no meaning.
    assert_eq!(
        set(&mut client, file, dacl, &list(&[&before[..], &[says(3, 0o600)]].concat())),
        NtStatus::SUCCESS
    );
    assert_eq!(mode_of(&rig, "file"), 0o644);
    be_apple(&mut client);
    let after = told(&mut client, file, dacl).unwrap().dacl.unwrap().aces().to_vec();
    let numbers = [says(1, 1000), says(2, 100), says(3, 0o644)];
    assert_eq!(after, [&before[..], &numbers].concat());
    // The returned descriptor is set again with another mode, as an allowing and as a denying entry.
    assert_eq!(set(&mut client, file, dacl, &list(&after)), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, "file"), 0o644);
    let mode = |mode| [&before[..], &[says(1, 1000), says(2, 100), says(3, mode)]].concat();
    assert_eq!(set(&mut client, file, dacl, &list(&mode(0o4711))), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, "file"), 0o4711);
    let denies = |mask, sid| Ace::deny(AceFlags::empty(), mask, sid);
    let sid = Sid::new(5, &[88, 3, 0o640]).unwrap();
    assert_eq!(set(&mut client, file, dacl, &list(&[denies(AccessMask::empty(), sid)])), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, "file"), 0o640);
    assert_eq!(set(&mut client, file, dacl, &list(&[says(3, 0o640)])), NtStatus::SUCCESS);
    assert_eq!(mode_of(&rig, "file"), 0o640, "nothing else is said");
    // With an unchanged mode, the other entries apply as usual.
    let somebody = Sid::new(5, &[21, 1, 2, 3, 4]).unwrap();
    let others = [&[denies(AccessMask::FILE_ALL, somebody)][..], &mode(0o640)].concat();
    assert_eq!(set(&mut client, file, dacl, &list(&others)), NtStatus::NOT_SUPPORTED);
}

#[test]
fn unix_modes_are_not_offered_with_ntfs_acls() {
    let rig =
        Rig::with(ExportRule::everybody(), |volume| volume.with_security_style(SecurityStyle::Ntfs).unwrap());
    let mut client = rig.alice();
    let told_by = ask(&mut client, &query(QueryBitmap::SERVER_CAPS, AppleCapabilities::empty())).unwrap();
    let capabilities = ServerQueryResponse::from_bytes(&told_by).unwrap().server_capabilities;
    assert_eq!(capabilities, Some(AppleCapabilities::UNIX_BASED));
    let everything = Opening { access: AccessMask::MAXIMUM_ALLOWED, ..Opening::default() };
    let root = client.open("", everything);
    let list = told(&mut client, root, SecurityInformation::DACL).unwrap().dacl.unwrap();
    assert!(!list.aces().contains(&says(1, 1000)));
}

#[test]
fn malformed_finder_info_is_not_listed() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for (name, info) in [("short", &afp_info()[..59]), ("other", &[b'A'; 60]), ("long", &[0; 4000])] {
        client.put(name, b"");
        client.put(&format!("{name}:AFP_AfpInfo"), info);
    }
    ask(&mut client, &query(QueryBitmap::SERVER_CAPS, AppleCapabilities::SUPPORTS_READ_DIR_ATTR)).unwrap();
    let told = listed(&mut client, DirectoryClass::ID_BOTH_DIRECTORY);
    for name in ["short", "other", "long"] {
        assert_eq!(entry_of(&told, name)[78..94], [0; 16], "{name}");
    }
}
