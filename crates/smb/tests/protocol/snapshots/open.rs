//! Opens below `~snapshot`, and opens by time.

use super::{Past, READS, at, at_time};
use crate::durable::{Context, again, back_v2, create, has, id, leased, lose, v2};
use crate::ioctl::copy::{assert_copied, copy, key_of};
use crate::notify::wait_for;
use crate::persistent::{self, Machine, asks, granted};
use crate::query_directory::scan;
use crate::rig::{NOW, Offer, Opening, Rig, SHARE, lease, lease_v2, name};
use smb_wire::copy::DuplicateExtents;
use smb_wire::create::{CreateDisposition, CreateOptions, CreateResponse, OplockLevel};
use smb_wire::durable::{DurableFlags, DurableRequestV2};
use smb_wire::file::{CloseFlags, CloseRequest};
use smb_wire::header::Command;
use smb_wire::ioctl::CtlCode;
use smb_wire::types::AccessMask;
use smb_wire::{Encode, FileTime, NtStatus};
use vfs::{Backend, Caller, Disposition, PendingSync, SetAttrs, SnapshotDirectory};

const NO_NAME: NtStatus = NtStatus::OBJECT_NAME_NOT_FOUND;
const NO_PATH: NtStatus = NtStatus::OBJECT_PATH_NOT_FOUND;

#[test]
fn snapshots_are_below_a_name_in_every_directory() {
    let mut past = Past::new();
    for path in [
        "~snapshot\\one\\doc",
        "dir\\~snapshot\\one\\file",
        "~SNAPSHOT\\one\\DIR\\File",
        ".snapshot\\one\\doc",
    ] {
        assert_eq!(past.read(path), Ok(b"old".to_vec()), "{path}");
    }
    assert_eq!(past.read("~snapshot\\one\\doc:s"), Ok(b"old".to_vec()));
    assert_eq!(past.read("~snapshot\\two\\doc"), Err(NO_PATH));
    assert_eq!(past.read("~snapshot\\one\\young"), Err(NO_NAME));
    assert_eq!(past.read("~snapshot\\one\\~snapshot"), Err(NO_NAME), "there is none in a snapshot");
    past.rig.volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    assert_eq!(past.read("~snapshot\\one\\doc"), Err(NO_PATH));
}

#[test]
fn own_file_of_the_name_comes_first() {
    let mut past = Past::new();
    let root = past.rig.namespace.load().exports()[0].root();
    let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
    let (alice, mut pending) = (Caller::new(1000, 100, []), PendingSync::default());
    root.create(&alice, b"~SnapShot", Disposition::CreateNew, &set, &mut pending).unwrap();
    let own = past.client.open("~snapshot", READS);
    past.client.read(own, 0, 10).assert_refused(NtStatus::END_OF_FILE);
    assert_eq!(past.read("~snapshot\\one\\doc"), Err(NO_PATH));
    assert_eq!(past.read("dir\\~snapshot\\one\\file"), Ok(b"old".to_vec()));
    // An own file called `.snapshot` does not hide the snapshots.
    let mut past = Past::new();
    past.rig.volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    past.client.put(".snapshot", b"mine");
    past.rig.volume.set_snapshot_directory(SnapshotDirectory::Reachable);
    assert_eq!(past.read(".snapshot"), Ok(b"mine".to_vec()));
    assert_eq!(past.read("~snapshot\\one\\doc"), Ok(b"old".to_vec()));
}

#[test]
fn no_listing_has_the_directory_of_snapshots() {
    let mut past = Past::new();
    for directory in [SnapshotDirectory::Reachable, SnapshotDirectory::Listed] {
        past.rig.volume.set_snapshot_directory(directory);
        for path in ["", "dir"] {
            let dir = past.client.open(path, READS);
            let names = scan(&mut past.client, dir, "*", 1 << 16).unwrap();
            assert!(!names.iter().any(|name| name.ends_with("snapshot")), "{directory:?}: {names:?}");
            past.client.close(dir);
        }
    }
    // A file of that name is listed.
    past.rig.volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    past.client.put(".snapshot", b"mine");
    past.rig.volume.set_snapshot_directory(SnapshotDirectory::Listed);
    let root = past.client.open("", READS);
    let names = scan(&mut past.client, root, "*", 1 << 16).unwrap();
    assert!(names.contains(&".snapshot".to_owned()), "{names:?}");
}

#[test]
fn file_is_opened_at_the_time_of_a_snapshot() {
    let mut past = Past::new();
    past.snapshot(2, "two");
    assert_eq!(past.get_at(1, "doc"), b"old");
    assert_eq!(past.get_at(1, "dir\\file"), b"old");
    assert_eq!(past.get_at(1, "DIR\\FILE"), b"old");
    assert_eq!(past.get_at(1, "doc:s"), b"old");
    assert_eq!(past.get_at(1, "doc::$DATA"), b"old");
    assert_eq!((past.get_at(2, "doc"), past.get_at(2, "young")), (b"newer".to_vec(), b"newer".to_vec()));
    past.create_at(1, "young", READS).assert_refused(NO_NAME);
    past.create_at(1, "nowhere\\young", READS).assert_refused(NO_PATH);
    past.create_at(1, "~snapshot", READS).assert_refused(NO_NAME);
    for path in ["", "dir"] {
        let dir = past.open_at(1, path, Opening { options: CreateOptions::DIRECTORY_FILE, ..READS });
        let names = scan(&mut past.client, dir, "*", 1 << 16).unwrap();
        assert!(!names.contains(&"young".to_owned()) && names.len() >= 3, "{names:?}");
    }
    assert_eq!(past.read("doc"), Ok(b"newer".to_vec()), "the next open is live again");
}

#[test]
fn time_of_no_snapshot_is_not_found_and_a_part_of_a_second_does_not_matter() {
    let mut past = Past::new();
    let open = |past: &mut Past, timestamp: FileTime| {
        create(&mut past.client, "doc", READS, OplockLevel::NONE, &[at_time(timestamp)]).status()
    };
    let second = FileTime::from_unix(NOW.seconds + 1, 0);
    assert_eq!(open(&mut past, FileTime(second.0 + 9_999_999)), NtStatus::SUCCESS);
    for other in [0, 1, second.0 - 1, second.0 + 10_000_000, u64::MAX] {
        assert_eq!(open(&mut past, FileTime(other)), NO_NAME, "{other}");
    }
    let short = (b"TWrp".as_slice(), vec![0; 7]);
    create(&mut past.client, "doc", READS, OplockLevel::NONE, &[short])
        .assert_refused(NtStatus::INVALID_PARAMETER);
    past.rig.volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    assert_eq!(open(&mut past, second), NO_NAME, "clients may not reach it");
    past.rig.volume.set_snapshot_directory(SnapshotDirectory::Reachable);
    past.rig.volume.set_snapshots(Vec::new());
    assert_eq!(open(&mut past, second), NO_NAME);
    let spare = past.client.tree_connect("spare").header.tree_id();
    past.client.tree_id = spare;
    past.client.put("doc", b"x");
    assert_eq!(open(&mut past, second), NO_NAME, "a snapshot of another volume");
}

/// Samba's server, too, knows such names in SMB 1 alone.
#[test]
fn token_in_a_path_is_a_name() {
    let mut past = Past::new();
    assert_eq!(past.read("@GMT-2001.09.09-01.46.41\\doc"), Err(NO_PATH));
}

/// Two CREATEs of one turn share the lookup of a directory.
#[test]
fn cached_directory_is_of_its_view() {
    let mut past = Past::new();
    for _ in 0..2 {
        assert_eq!(past.get_at(1, "dir\\file"), b"old");
        assert_eq!(past.read("dir\\file"), Ok(b"newer".to_vec()));
    }
    let wire = name("dir\\file");
    let (name, data) = at(1);
    let context = smb_wire::create::CreateContext { name, data: &data };
    let old = smb_wire::create::CreateRequest {
        contexts: smb_wire::create::CreateContexts(vec![context]),
        ..READS.request(&wire)
    };
    let create = Command::CREATE;
    let live = past.client.request(create, &READS.request(&wire));
    let old = past.client.request(create, &old);
    past.client.send_protected(live);
    past.client.send_protected(old);
    let files =
        [past.client.reply(), past.client.reply()].map(|reply| reply.body::<CreateResponse<'_>>().file_id);
    assert_eq!(files.map(|file| past.client.data(file, 0, 9)), [b"newer".to_vec(), b"old".to_vec()]);
}

/// Explorer copies the old version over the live file, which a program has open and shares with nobody but readers.
#[test]
fn restore_over_an_open_file_is_no_sharing_violation() {
    let mut past = Past::new();
    let live =
        past.client.open("doc", Opening { share: smb_wire::create::ShareAccess::READ, ..Opening::default() });
    let alone = Opening { share: smb_wire::create::ShareAccess(0), ..READS };
    let old = past.open_at(1, "doc", alone);
    past.open_at(1, "doc", alone);
    let key = key_of(&mut past.client, old);
    let end = smb_wire::classes::file::SizeInformation { size: 0 };
    assert_eq!(past.client.set(live, smb_wire::classes::FileClass::END_OF_FILE, &end), NtStatus::SUCCESS);
    assert_copied(&copy(&mut past.client, key, live, &[(0, 0, 3)]), NtStatus::SUCCESS, [1, 0, 3]);
    assert_eq!(past.client.data(live, 0, 100), b"old");
    let clone = |from, to| {
        let (source_file_offset, target_file_offset, byte_count) = (0, 0, 3);
        let source_file_id = from;
        let extents = DuplicateExtents { source_file_id, source_file_offset, target_file_offset, byte_count };
        (to, extents.to_bytes())
    };
    let (to, extents) = clone(old, live);
    let cloned = past.client.ioctl(to, CtlCode::DUPLICATE_EXTENTS_TO_FILE, &extents, 0);
    assert_eq!(cloned.status(), NtStatus::SUCCESS);
    let (to, extents) = clone(live, old);
    let cloned = past.client.ioctl(to, CtlCode::DUPLICATE_EXTENTS_TO_FILE, &extents, 0);
    assert!(cloned.status().is_error());
    // And not the other way around.
    let key = key_of(&mut past.client, live);
    copy(&mut past.client, key, old, &[(0, 0, 3)]).assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn leases_and_oplocks_of_views_are_apart_from_those_of_live_files() {
    let mut past = Past::new();
    let mut other = past.rig.alice_at(9);
    let with_lease = |number, wants| [leased(lease(number, wants)), at(1)];
    let old = create(&mut past.client, "doc", READS, OplockLevel::LEASE, &with_lease(1, "RH"));
    crate::rig::granted(&old).assert_state("RH");
    let dir = Opening { options: CreateOptions::DIRECTORY_FILE, ..READS };
    past.open_at(1, "dir", dir);
    // The key belongs to that file in that view.
    create(&mut past.client, "doc", READS, OplockLevel::LEASE, &with_lease(1, "RH")[..1])
        .assert_refused(NtStatus::INVALID_PARAMETER);
    other.put("doc", b"newest");
    let file = other.open("doc", Opening::default());
    other.close(file);
    past.client.assert_quiet();
    let oplock = create(&mut past.client, "dir\\file", READS, OplockLevel::BATCH, &[at(1)]);
    assert_eq!(oplock.body::<CreateResponse<'_>>().oplock_level, OplockLevel::BATCH);
    other.put("dir\\file", b"newest");
    past.client.assert_quiet();
}

#[test]
fn directory_of_snapshots_has_no_lease_because_nothing_would_break_it() {
    let mut past = Past::new();
    let dir = Opening { options: CreateOptions::DIRECTORY_FILE, ..READS };
    for (number, path, expected) in [
        (1, "dir", OplockLevel::LEASE),
        (2, "~snapshot\\one\\dir", OplockLevel::LEASE),
        (3, "~snapshot", OplockLevel::NONE),
    ] {
        let opened = create(
            &mut past.client,
            path,
            dir,
            OplockLevel::LEASE,
            &[leased(lease_v2(number, "RH", 0, None))],
        );
        assert_eq!(opened.body::<CreateResponse<'_>>().oplock_level, expected, "{path}");
    }
}

#[test]
fn watch_of_a_view_waits_quietly() {
    let mut past = Past::new();
    let dir = past.open_at(1, "dir", READS);
    let root = past.open_at(1, "", READS);
    let top = past.client.open("~snapshot", READS);
    for (dir, is_tree) in [(dir, false), (root, true), (top, true)] {
        wait_for(&mut past.client, dir, is_tree);
    }
    let mut other = past.rig.alice();
    other.put("dir\\file", b"x");
    other.put("dir\\another", b"x");
    past.client.assert_quiet();
    let close = CloseRequest { flags: CloseFlags::empty(), file_id: dir };
    let close = past.client.request(Command::CLOSE, &close);
    past.client.send_protected(close);
    let mut ended = [past.client.reply().status(), past.client.reply().status()];
    ended.sort_unstable_by_key(|status| status.0);
    assert_eq!(ended, [NtStatus::SUCCESS, NtStatus::NOTIFY_CLEANUP]);
}

#[test]
fn open_of_a_view_is_durable_and_comes_back() {
    let mut past = Past::new();
    let contexts = [v2(7, 0), leased(lease(3, "RH")), at(1)];
    let reply = create(&mut past.client, "doc", READS, OplockLevel::LEASE, &contexts);
    assert!(has(&reply, DurableRequestV2::NAME));
    let file = id(&reply);
    lose(&past.rig, past.client);
    let mut client = past.rig.alice();
    let back = again(&mut client, "doc", &[back_v2(file, 7), leased(lease(3, "RH"))]);
    let file = id(&back);
    assert_eq!(client.data(file, 0, 100), b"old");
}

#[test]
fn open_of_a_view_is_never_persistent() {
    let machine = Machine::new();
    let rig = machine.start();
    let mut client = persistent::alice(&rig, 1);
    client.put("doc", b"old");
    super::snapshot(&machine.disks, &rig.volume, 1, "one");
    let live = create(&mut client, "doc", READS, OplockLevel::NONE, &[asks(1)]);
    assert_eq!(granted(&live).map(|(_, flags)| flags), Some(DurableFlags::PERSISTENT));
    client.close(id(&live));
    assert_eq!(machine.records().len(), 0);
    let old = "~snapshot\\one\\doc";
    for (guid, path, time) in [(2, "doc", Some(at(1))), (3, old, None)] {
        let contexts: Vec<Context> = [asks(guid)].into_iter().chain(time).collect();
        let plain = create(&mut client, path, READS, OplockLevel::NONE, &contexts);
        assert_eq!((granted(&plain), machine.records().len()), (None, 0), "{path}");
        client.close(id(&plain));
        // With an oplock it is durable.
        let durable = create(&mut client, path, READS, OplockLevel::BATCH, &contexts);
        assert_eq!(granted(&durable).map(|(_, flags)| flags), Some(DurableFlags::empty()), "{path}");
        assert_eq!(machine.records().len(), 0);
        client.close(id(&durable));
    }
}

#[test]
fn open_file_ends_with_its_snapshot() {
    let mut past = Past::new();
    let file = past.open_at(1, "doc", READS);
    let dir = past.client.open("~snapshot\\one", READS);
    past.rig.volume.set_snapshots(Vec::new());
    past.client.read(file, 0, 10).assert_refused(NtStatus::FILE_CLOSED);
    assert!(scan(&mut past.client, dir, "*", 1 << 16).is_err());
    for open in [file, dir] {
        assert_eq!(past.client.close(open).status(), NtStatus::SUCCESS);
    }
    assert_eq!(past.read("doc"), Ok(b"newer".to_vec()));
}

#[test]
fn posix_client_opens_by_time_and_name() {
    let past = Past::new();
    let mut client = past.rig.alice_with(&Offer { posix: true, ..Offer::default() });
    client.mount(SHARE);
    let context: Context = (b"\x93\xAD\x25\x50\x9C\xB4\x11\xE7\xB4\x23\x83\xDE\x96\x8B\xCD\x7C", vec![0; 4]);
    let read = Opening { access: AccessMask::GENERIC_READ, ..Opening::by(CreateDisposition::OPEN) };
    for (path, contexts) in
        [("dir/file", vec![context.clone(), at(1)]), ("dir/~snapshot/one/file", vec![context])]
    {
        let reply = create(&mut client, path, read, OplockLevel::NONE, &contexts);
        let file = id(&reply);
        assert_eq!(client.data(file, 0, 100), b"old", "{path}");
    }
    assert!(past.disks.docs().snapshots().is_some());
    drop(Rig::over(&past.disks));
}
