//! Volumes: made as asked for, refused with the reason, removed only when nobody minds.

use super::rig::{FailureMode, Rig, context, furnished, new_pool, new_volume, pool, volume};
use crate::{Error, NewVolume, Outcome, Protocols, SmbSettings, State, VolumeChange, Warning};
use envelope::{Bytes, Level};
use std::sync::atomic::Ordering;
use vfs::{Blocking, Durability, FsError, Provisioner, Root, ShareSettings, VolumeId};

#[test]
fn a_volume_is_made_served_and_found_again() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let new = NewVolume {
        share: Some("tools".parse().unwrap()),
        root: Some(Root { mode: 0o1777, uid: 5, gid: 6 }),
        durability: Some(Durability::Relaxed),
        rules: Some(vec![crate::ExportRule::for_clients("10.0.0.0/8".parse().unwrap())]),
        labels: [("team".to_owned(), "chips".to_owned())].into(),
        ..new_volume("w", "p", 200)
    };
    let made = service.create_volume(&context(), &new).unwrap();
    assert_eq!((made.value.state, made.value.version), (State::Ready, 1));
    assert_eq!(made.operation.outcome, Outcome::Succeeded);
    assert!(made.operation.ended_ms > Some(made.operation.started_ms));
    rig.check_agreement(&service);
    let namespace = rig.namespace.load_full();
    let export = namespace.volume(made.value.id).unwrap();
    assert_eq!((export.path.as_str(), export.volume.name()), ("/tools", "w"));
    assert_eq!(export.volume.durability(), Durability::Relaxed);
    assert_eq!(export.root().attrs(Blocking::Allowed).unwrap().uid, 5);
    drop(service);
    let service = rig.open();
    assert_eq!(service.volume(&volume("w")).unwrap(), made.value, "after a restart");
    assert_eq!(
        made.value.id,
        VolumeId(u64::MAX - 1),
        "a number that the store's integers hold as a negative one"
    );
    rig.check_agreement(&service);
}

#[test]
fn root_directories_belong_to_somebody() {
    let rig = Rig::new();
    let service = furnished(&rig);
    for (uid, gid, what) in [(u32::MAX, 0, "owner 4294967295"), (0, u32::MAX, "group 4294967295")] {
        let root = Some(Root { mode: 0o755, uid, gid });
        let made = service.create_volume(&context(), &NewVolume { root, ..new_volume("x", "p", 200) });
        let change = VolumeChange { root, ..VolumeChange::default() };
        let changed = service.update_volume(&context(), &volume("v"), &change);
        for error in [made.unwrap_err().to_string(), changed.unwrap_err().to_string()] {
            assert!(error.contains(what) && error.contains("0 to 4294967294"), "{error}");
        }
    }
    rig.check_agreement(&service);
}

#[test]
fn the_same_again_is_the_same_and_another_is_a_conflict() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let made = service.volume(&volume("v")).unwrap();
    let again = service.create_volume(&context(), &new_volume("v", "p", 1024)).unwrap();
    assert_eq!((again.value, again.operation.detail.as_str()), (made.clone(), "nothing to change"));
    let root = Some(Root { mode: 0o700, uid: 0, gid: 0 });
    let other = NewVolume { root, ..new_volume("v", "p", 1025) };
    let error = service.create_volume(&context(), &other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the volume v exists with other properties, size (1 TiB, not 1025 GiB), root (0770, 0:0, not 0700, 0:0): \
         change it, or choose another name"
    );
    // What is left open is not compared; what is said is.
    let rules = VolumeChange { rules: Some(Vec::new()), protocols: None, ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &rules).unwrap();
    let protocols = Some("nfsv3,nfsv4.1".parse::<Protocols>().unwrap());
    let said = NewVolume { protocols, ..new_volume("v", "p", 1024) };
    assert!(matches!(service.create_volume(&context(), &said), Err(Error::Conflict { .. })));
    assert!(service.create_volume(&context(), &new_volume("v", "p", 1024)).is_ok());
    assert_eq!(service.volumes(None, 9).unwrap().items.len(), 1);
}

#[test]
fn volume_beyond_its_level_is_refused() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let refused = |new: NewVolume, part: &str| {
        let error = service.create_volume(&context(), &new).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(new_volume("w", "none", 200), "there is no pool none");
    refused(new_volume("w", "p", 99), "allowed: 100 GiB to");
    refused(new_volume("Große", "p", 200), "^[a-z]");
    refused(new_volume("w-", "p", 200), "^[a-z]");
    let share = Some("Tools".parse().unwrap());
    refused(NewVolume { share, ..new_volume("w", "p", 200) }, "^[a-z]");
    refused(
        NewVolume { share: Some("v".parse().unwrap()), ..new_volume("w", "p", 200) },
        "is that of the volume v",
    );
    let root = Some(Root { mode: 0o100_755, uid: 0, gid: 0 });
    refused(NewVolume { root, ..new_volume("w", "p", 200) }, "0 to 7777");
    refused(
        NewVolume { protocols: Some(Protocols::default()), ..new_volume("w", "p", 200) },
        "one or more of",
    );
    refused(NewVolume { level: Some(Level::GcnvExtreme), ..new_volume("w", "p", 200) }, "the pool's level");
    service.create_pool(&context(), &new_pool("flex", Level::GcnvFlex, 4)).unwrap();
    let dual = NewVolume { protocols: Some("nfsv3,smb".parse().unwrap()), ..new_volume("w", "flex", 200) };
    refused(dual, "SMB and NFS together");
    let labels = [(String::new(), String::new())].into();
    refused(NewVolume { labels, ..new_volume("w", "p", 200) }, "a key of 1 to");
    rig.check_agreement(&service);
    assert_eq!(service.operations(None, 9).unwrap().items.len(), 3, "what is refused has changed nothing");
}

#[test]
fn a_pool_is_not_promised_away_twice_but_by_force() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let error = service.create_volume(&context(), &new_volume("w", "p", 3073)).unwrap_err();
    assert!(matches!(error, Error::PoolFull { .. }) && error.may_be_forced(), "{error}");
    service.create_volume(&context(), &new_volume("w", "p", 3072)).unwrap();
    service.create_volume(&context().forced(), &new_volume("x", "p", 100)).unwrap();
    let warnings = service.warnings().unwrap();
    assert!(warnings.iter().any(|one| matches!(one, Warning::OverPool { .. })), "{warnings:?}");
}

#[test]
fn level_limits_the_volumes_of_a_pool() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("flex", Level::GcnvFlex, 4)).unwrap();
    for number in 0..50 {
        service.create_volume(&context(), &new_volume(&format!("v{number}"), "flex", 1)).unwrap();
    }
    let error = service.create_volume(&context(), &new_volume("more", "flex", 1)).unwrap_err();
    assert!(error.to_string().contains("allowed: at most 50"), "{error}");
}

#[test]
fn a_level_of_its_own_needs_a_pool_that_leaves_it_open() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("own", Level::Unlimited, 10)).unwrap();
    let new = NewVolume { level: Some(Level::AnfPremium), ..new_volume("v", "own", 2048) };
    service.create_volume(&context(), &new).unwrap();
    let limits = rig.gate(&service, &volume("v")).limits();
    assert_eq!(limits.all.bytes.map(std::num::NonZeroU64::get), Some(128 << 20));
    let change = VolumeChange { level: Some(None), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    assert!(rig.gate(&service, &volume("v")).limits().is_none());
    let new = NewVolume { level: Some(Level::GcnvFlex), ..new_volume("w", "own", 2048) };
    assert!(service.create_volume(&context(), &new).unwrap_err().to_string().contains("are a pool's"));
    rig.check_agreement(&service);
}

#[test]
fn a_volume_with_clients_is_removed_by_force_alone() {
    let rig = Rig::new();
    let service = furnished(&rig);
    rig.clients.store(3, Ordering::SeqCst);
    let error = service.delete_volume(&context(), &volume("v")).unwrap_err();
    assert!(matches!(error, Error::Busy { clients: 3, .. }) && error.may_be_forced(), "{error}");
    assert!(matches!(service.delete_volume(&context().at(7), &volume("v")), Err(Error::Version { .. })));
    rig.check_agreement(&service);
    let id = service.volume(&volume("v")).unwrap().id;
    let operation = service.delete_volume(&context().forced().at(1), &volume("v")).unwrap();
    assert_eq!(operation.outcome, Outcome::Succeeded);
    assert!(rig.disk.list().unwrap().is_empty() && rig.namespace.load().exports().is_empty());
    assert!(service.served(&volume("v")).is_none());
    assert!(matches!(service.delete_volume(&context(), &volume("v")), Err(Error::NotFound { .. })));
    let again = service.create_volume(&context(), &new_volume("v", "p", 1024)).unwrap().value;
    assert_ne!(again.id, id, "handles of the old one must not mean the new one");
}

#[test]
fn a_removal_that_fails_hides_the_volume_and_is_repeated() {
    let rig = Rig::new();
    let service = furnished(&rig);
    rig.fuse.arm(1, FailureMode::Refused);
    assert!(matches!(
        service.delete_volume(&context(), &volume("v")),
        Err(Error::Storage { error: FsError::Io, .. })
    ));
    assert!(rig.namespace.load().exports().is_empty());
    let left = service.volume(&volume("v")).unwrap();
    assert_eq!(left.state, State::Deleting);
    let change = VolumeChange { size: Some(Bytes::gib(500)), ..VolumeChange::default() };
    assert!(matches!(service.update_volume(&context(), &volume("v"), &change), Err(Error::NotFound { .. })));
    rig.check_agreement(&service);
}

#[test]
fn storage_without_a_row_and_rows_without_storage_are_reported_and_left() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let lost = service.create_volume(&context(), &new_volume("lost", "p", 200)).unwrap().value.id;
    drop(service);
    rig.disk.remove(lost).unwrap();
    let orphan = VolumeId(4711);
    let root = Root { mode: 0o755, uid: 0, gid: 0 };
    rig.disk.make(orphan, &root, vfs::Capacity { bytes: 1 << 30, files: 100 }).unwrap();
    let service = rig.open();
    let warnings = service.warnings().unwrap();
    assert!(warnings.contains(&Warning::OrphanedStorage { volume: orphan }), "{warnings:?}");
    let not_opened = Warning::NotOpened { volume: volume("lost"), error: FsError::NotFound };
    assert!(warnings.contains(&not_opened), "{warnings:?}");
    assert!(rig.disk.list().unwrap().contains(&orphan), "its files may be somebody's");
    assert!(!rig.disk.list().unwrap().contains(&lost), "nothing new and empty in its place");
    let namespace = rig.namespace.load_full();
    assert_eq!(namespace.exports().len(), 1, "the others are served");
    service.delete_volume(&context(), &volume("lost")).unwrap();
    assert_eq!(service.volume(&volume("v")).unwrap().pool, pool("p"));
}

#[test]
fn a_start_tells_the_storage_again_what_volumes_may_hold() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let id = service.volume(&volume("v")).unwrap().id;
    drop(service);
    rig.disk.set_capacity(id, vfs::Capacity { bytes: 1, files: 1 }).unwrap();
    rig.check_agreement(&rig.open());
}

#[test]
fn a_long_removal_holds_up_nothing_but_its_volume() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let removals = rig.removals.lock();
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| service.delete_volume(&context(), &volume("v")));
        while service.volume(&volume("v")).unwrap().state != State::Deleting
            || service.served(&volume("v")).is_some()
        {
            std::thread::yield_now();
        }
        service.create_volume(&context(), &new_volume("w", "p", 200)).unwrap();
        let changing =
            |error: Option<Error>| matches!(error, Some(Error::Changing { state: State::Deleting, .. }));
        assert!(changing(service.delete_volume(&context().forced(), &volume("v")).err()));
        assert!(changing(service.create_volume(&context(), &new_volume("v", "p", 1024)).err()));
        let change = VolumeChange { size: Some(Bytes::gib(500)), ..VolumeChange::default() };
        assert!(changing(service.update_volume(&context(), &volume("v"), &change).err()));
        let error = service.create_volume(&context(), &new_volume("x", "p", 3072)).unwrap_err();
        assert!(matches!(error, Error::PoolFull { .. }), "its bytes are given back when they are: {error}");
        drop(removals);
        assert_eq!(removal.join().unwrap().unwrap().outcome, Outcome::Succeeded);
    });
    rig.check_agreement(&service);
}

#[test]
fn a_start_opens_small_volumes_before_large_ones() {
    let rig = Rig::new();
    let service = furnished(&rig);
    for (name, bytes) in [("a", 3 << 20), ("b", 1 << 20), ("c", 2 << 20)] {
        let made = service.create_volume(&context(), &new_volume(name, "p", 100)).unwrap();
        rig.fill(made.value.id, bytes);
    }
    let id = |name: &str| service.volume(&volume(name)).unwrap().id;
    let expected = ["v", "b", "c", "a"].map(id);
    drop(service);
    rig.opened.lock().clear();
    let _service = rig.open();
    assert_eq!(*rig.opened.lock(), expected);
}

#[test]
fn settings_of_the_share_hold_at_once_and_after_a_restart() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let shown = |rig: &Rig| rig.namespace.load().resolve("/v").map(|(export, _)| export.share);
    assert_eq!(shown(&rig), Some(ShareSettings::default()));
    let smb: SmbSettings = "encryption=required,oplocks=off,create-mode=0660".parse().unwrap();
    let change = VolumeChange { smb: Some(smb), ..VolumeChange::default() };
    let done = service.update_volume(&context(), &volume("v"), &change).unwrap();
    assert_eq!(done.operation.detail, "smb default → encryption=required,oplocks=off,create-mode=0660");
    assert_eq!(shown(&rig), Some(smb.0));
    drop(service);
    let service = rig.open();
    assert_eq!(service.volume(&volume("v")).unwrap().smb, smb);
    assert_eq!(shown(&rig), Some(smb.0));
    // What is left open is not compared; what is said is.
    assert!(service.create_volume(&context(), &new_volume("v", "p", 1024)).is_ok());
    let said = NewVolume { smb: Some(SmbSettings::default()), ..new_volume("v", "p", 1024) };
    assert!(matches!(service.create_volume(&context(), &said), Err(Error::Conflict { .. })));
}
