//! Effects of ended tree connects, by changed rules or otherwise.

use crate::durable::{again, back_v2, create, id, lock, lock_request, lose, v2};
use crate::rig::{Client, Disks, Opening, Rig, SHARE, lease, wait_until};
use crate::settings::{DEFAULT, set};
use smb_wire::create::OplockLevel;
use smb_wire::header::Command;
use smb_wire::lock::LockFlags;
use smb_wire::{FileId, NtStatus};
use std::sync::Arc;
use vfs::{Export, ExportRule, Namespace, ShareSettings, Volume};

const ALONE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

/// Turns on encryption for the share, which ends its tree connects.
fn encrypt(rig: &Rig) {
    set(rig, ShareSettings { encryption: true, ..DEFAULT });
}

/// Connects to the share again, encrypted.
fn come_back(client: &mut Client) {
    client.seals = true;
    client.mount(SHARE);
}

/// A client with a file open exclusively and a locked range.
fn with_a_file(rig: &Rig) -> (Client, FileId) {
    let mut client = rig.alice();
    let file = client.open("file", Opening::alone());
    assert_eq!(lock(&mut client, file, ALONE), NtStatus::SUCCESS);
    (client, file)
}

#[test]
fn reconnected_tree_has_no_old_opens() {
    let rig = Rig::new();
    let (mut client, file) = with_a_file(&rig);
    let old = client.tree_id;
    encrypt(&rig);
    client.write(file, 0, b"x").assert_refused(NtStatus::NETWORK_NAME_DELETED);
    come_back(&mut client);
    assert_ne!(client.tree_id, old);
    let again = client.open("file", Opening::alone());
    assert_eq!(lock(&mut client, again, ALONE), NtStatus::SUCCESS);
    client.close(file).assert_refused(NtStatus::FILE_CLOSED);
    // The tree connect does not come back.
    set(&rig, DEFAULT);
    client.tree_id = old;
    client.close(again).assert_refused(NtStatus::NETWORK_NAME_DELETED);
}

#[test]
fn excluded_client_loses_its_opens() {
    let rules = |clients: &str| {
        let clients = vec![clients.parse().unwrap()];
        vec![ExportRule { clients, ..ExportRule::everybody() }]
    };
    let rig = Rig::new();
    let (mut client, file) = with_a_file(&rig);
    client.open_lease("cached", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    let serve = |rules| {
        let export = Export::new("/docs", Arc::clone(&rig.volume), rules);
        rig.namespace.store(Arc::new(Namespace::new([export])));
    };
    // Rules for other addresses have no effect.
    serve([rules("192.0.2.0/24"), rules("127.0.0.0/8")].concat());
    rig.tick();
    assert_eq!(client.write(file, 0, b"x").status(), NtStatus::SUCCESS);
    // No client matches.
    serve(rules("192.0.2.0/24"));
    rig.tick();
    assert!(rig.volume.claims().is_empty());
    serve(rules("127.0.0.0/8"));
    client.write(file, 0, b"x").assert_refused(NtStatus::NETWORK_NAME_DELETED);
}

#[test]
fn durable_open_survives_ended_tree() {
    for is_noticed in [true, false] {
        let rig = Rig::new();
        let mut client = rig.alice();
        let opened = create(&mut client, "file", Opening::alone(), OplockLevel::BATCH, &[v2(1, 0)]);
        let old = id(&opened);
        client.write(old, 0, b"mine");
        assert_eq!(lock(&mut client, old, ALONE), NtStatus::SUCCESS);
        client.open("other", Opening::alone());
        encrypt(&rig);
        if is_noticed {
            rig.tick();
        }
        client.read(old, 0, 4).assert_refused(NtStatus::NETWORK_NAME_DELETED);
        come_back(&mut client);
        let new = id(&again(&mut client, "file", &[back_v2(old, 1)]));
        assert_eq!(client.data(new, 0, 4), b"mine");
        assert_eq!(lock(&mut client, new, LockFlags::UNLOCK), NtStatus::SUCCESS, "its range came with it");
        client.open("other", Opening::alone());
    }
}

#[test]
fn durable_open_of_an_absent_client_ends_with_the_rule_that_admits_it() {
    let read_only = ExportRule { read_only: true, ..ExportRule::everybody() };
    for rules in [vec![], vec![read_only]] {
        let rig = Rig::new();
        let mut client = rig.alice();
        let opened = create(&mut client, "file", Opening::alone(), OplockLevel::BATCH, &[v2(1, 0)]);
        assert_eq!(opened.status(), NtStatus::SUCCESS);
        lose(&rig, client);
        wait_until(|| {
            rig.tick();
            !rig.volume.claims().is_empty()
        });
        let export = Export::new("/docs", Arc::clone(&rig.volume), rules);
        rig.namespace.store(Arc::new(Namespace::new([export])));
        wait_until(|| {
            rig.tick();
            rig.volume.claims().is_empty()
        });
    }
}

#[test]
fn pending_requests_end_with_their_tree() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let (mine, theirs) = (one.open("file", Opening::default()), two.open("file", Opening::default()));
    assert_eq!(lock(&mut one, mine, ALONE), NtStatus::SUCCESS);
    let waits = two.request(Command::LOCK, &lock_request(theirs, LockFlags::EXCLUSIVE_LOCK));
    two.send_protected(waits);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    encrypt(&rig);
    rig.tick();
    // Either request may complete first.
    let status = two.reply().status();
    assert!(matches!(status, NtStatus::RANGE_NOT_LOCKED | NtStatus::NETWORK_NAME_DELETED), "{status:?}");
    assert!(rig.volume.claims().is_empty());
}

#[test]
fn volume_that_closes_makes_clients_wait_and_ends_their_opens() {
    let disks = Disks::default();
    let mut rig = Rig::over(&disks);
    let (mut client, file) = with_a_file(&rig);
    client.open_lease("cached", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    let opened = create(&mut client, "durable", Opening::alone(), OplockLevel::BATCH, &[v2(1, 0)]);
    assert_eq!(opened.status(), NtStatus::SUCCESS);
    let serve = |rig: &Rig, volume| {
        let export = Export::new("/docs", volume, vec![ExportRule::everybody()]);
        rig.namespace.store(Arc::new(Namespace::new([export])));
    };
    let old = std::mem::replace(&mut rig.volume, Arc::new(disks.volumes().0));
    serve(&rig, Arc::new(placeholder(&old)));
    client.write(file, 0, b"x").assert_refused(NtStatus::NETWORK_NAME_DELETED);
    wait_until(|| {
        rig.tick();
        old.claims().is_empty() && Arc::strong_count(&old) == 1
    });
    client.mount(SHARE);
    client.ask("file", Opening::alone(), OplockLevel::NONE, None);
    serve(&rig, Arc::clone(&rig.volume));
    client.reply().assert_refused(NtStatus::NETWORK_NAME_DELETED);
    client.mount(SHARE);
    client.open("file", Opening::alone());
}

fn placeholder(volume: &Volume) -> Volume {
    Volume::placeholder(volume.id(), volume.name(), volume.durability(), 1)
}
