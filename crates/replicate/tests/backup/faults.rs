//! Backups that are interrupted, and what a later call does.

use crate::rig::{MemStore, Rig, Volume, name, new_id, noise, seconds, source};
use crate::trees;
use replicate::{BackupId, Error, Job, Key, Source, backup};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use vfs_testing::UncheckedNode;

/// Several packs, with and without a previous backup.
fn volume() -> Volume {
    let volume = Volume::new();
    trees::fill(&volume);
    for number in 0..5 {
        volume.put(&format!("large-{number}"), &noise(number, 30 << 20));
    }
    volume
}

fn packs(rig: &Rig) -> Vec<String> {
    rig.store.objects().keys().filter(|name| name.starts_with("packs/")).cloned().collect()
}

/// Interrupts a backup before each of its objects in turn, and goes on with it. Each object is sent once.
fn interrupt_at_each(key: Option<Key>, is_answer_lost: bool) {
    let mut store = MemStore::new();
    store.is_answer_lost = is_answer_lost;
    let (rig, volume) = (Rig::with_store(store, key), volume());
    let id = new_id();
    let mut attempts = 0;
    let (mut seen, mut sent) = (Vec::new(), 0);
    let manifest = loop {
        attempts += 1;
        assert!(attempts < 60);
        // The session, a pack more than before, and one thing after it.
        rig.store.fail_after(attempts);
        match rig.try_back_up(&volume, id, None) {
            Ok((manifest, _)) => break manifest,
            Err(Error::Store(..)) => {}
            Err(error) => panic!("{error}"),
        }
        rig.store.heal();
        if rig.vault.list().unwrap().backups.is_empty() {
            assert!(
                !rig.store.objects().keys().any(|name| name.ends_with("manifest")),
                "nothing half is visible"
            );
        } else {
            assert!(is_answer_lost, "the manifest was put");
        }
        assert!(rig.vault.unfinished().unwrap().iter().all(|open| *open == id));
        let now = packs(&rig);
        assert!(seen.iter().all(|pack| now.contains(pack)));
        seen = now;
        sent = rig.store.sent.load(Ordering::Relaxed);
    };
    rig.store.heal();
    assert!(attempts > 4, "{attempts}");
    assert_eq!(rig.vault.list().unwrap().backups, std::slice::from_ref(&manifest));
    assert!(manifest.totals.sent_bytes > 150 << 20, "of all attempts");
    assert_eq!(rig.vault.unfinished().unwrap(), []);
    assert!(sent > 150 << 20 && sent < 172 << 20, "packs are sent once: {sent}");
    assert_eq!(packs(&rig).len(), 4, "three of data, one of the index");
    rig.check_restore(&manifest, &volume);
    let again = rig.try_back_up(&volume, id, None).unwrap();
    assert_eq!(again.0, manifest, "a finished backup is not made again");
}

#[test]
fn interrupted_backup_goes_on_at_any_object() {
    interrupt_at_each(None, false);
}

#[test]
fn interrupted_encrypted_backup_goes_on_when_answers_are_lost() {
    interrupt_at_each(Some(Key([3; 32])), true);
}

#[test]
fn data_that_was_sent_is_not_read_again() {
    let (rig, volume) = (Rig::new(None), volume());
    let id = new_id();
    // The session and two packs.
    rig.store.fail_after(3);
    assert!(rig.try_back_up(&volume, id, None).is_err());
    rig.store.heal();
    let (_, progress) = rig.try_back_up(&volume, id, None).unwrap();
    assert!(progress.bytes_read < 50 << 20, "{}", progress.bytes_read);
    assert_eq!(progress.bytes_left(), Some(0));
}

#[test]
fn caller_stops_a_backup_and_goes_on() {
    let (rig, volume) = (Rig::new(None), volume());
    let id = new_id();
    let (mut calls, mut paced) = (0, 0);
    let mut job = Job {
        scratch: rig.scratch.path(),
        random: &mut crate::rig::random,
        now: &|| seconds(5),
        pace: &mut |bytes| {
            paced += bytes;
            ControlFlow::Continue(())
        },
        progress: &mut |progress| {
            calls += 1;
            if progress.bytes_sent > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    };
    let source = source(&volume, None, seconds(volume.now()));
    let stopped = backup(&rig.vault, id, &source, &mut job);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert!(calls > 50);
    assert!(paced > 50 << 20, "objects are paced before they are sent: {paced}");
    let (manifest, progress) = rig.run(id, &source).unwrap();
    assert!(progress.bytes_read < 110 << 20, "{}", progress.bytes_read);
    rig.check_restore(&manifest, &volume);
}

#[test]
fn progress_tells_what_is_packed_and_not_sent() {
    let (rig, volume) = (Rig::new(None), volume());
    let mut seen = Vec::new();
    let mut job = Job {
        scratch: rig.scratch.path(),
        random: &mut crate::rig::random,
        now: &|| seconds(5),
        pace: &mut |_| ControlFlow::Continue(()),
        progress: &mut |progress| {
            seen.push(*progress);
            ControlFlow::Continue(())
        },
    };
    backup(&rig.vault, new_id(), &source(&volume, None, seconds(volume.now())), &mut job).unwrap();
    assert!(seen.iter().any(|one| one.bytes_waiting > 1 << 20 && one.bytes_sent == 0));
    assert!(seen.iter().all(|one| one.bytes_waiting <= one.bytes_read));
    let last = seen.last().unwrap();
    assert_eq!((last.bytes_waiting, last.bytes_left()), (0, Some(0)), "all is sent");
}

#[test]
fn interrupted_backup_goes_on_from_its_own_snapshot_only() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    volume.put("file", b"x");
    let id = new_id();
    rig.store.fail_after(1);
    assert!(rig.try_back_up(&volume, id, None).is_err());
    rig.store.heal();
    let other = Source { snapshot: "another", ..source(&volume, None, seconds(volume.now())) };
    let refused = rig.run(id, &other);
    assert!(matches!(refused, Err(Error::OtherSource(_))), "{refused:?}");
    assert!(rig.try_back_up(&volume, id, None).is_ok());
}

#[test]
fn storage_error_ends_a_backup_with_the_file() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    trees::fill(&volume);
    let faulty = vfs_testing::Faulty::new(std::sync::Arc::new(volume.fs.clone()));
    let at = source(&volume, None, seconds(volume.now()));
    let at = Source { backend: &faulty, ..at };
    let id = new_id();
    let mut failed = 0;
    for nth in 1.. {
        faulty.fail_at(nth, vfs::FsError::Io);
        match rig.run(id, &at) {
            Ok((manifest, _)) => {
                faulty.heal();
                rig.check_restore(&manifest, &volume);
                break;
            }
            Err(Error::File(..)) => failed += 1,
            Err(error) => panic!("{error}"),
        }
        assert_eq!(rig.vault.list().unwrap().backups, []);
    }
    assert!(failed > 100, "{failed}");
}

#[test]
fn abandoned_backup_can_no_longer_be_completed() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    volume.put("file", &noise(1, 100_000));
    let id: BackupId = new_id();
    rig.store.fail_after(2);
    assert!(rig.try_back_up(&volume, id, None).is_err());
    rig.store.heal();
    assert_eq!(rig.vault.unfinished().unwrap(), [id]);
    assert!(replicate::abandon(&rig.vault, id, &mut crate::rig::random).unwrap());
    assert_eq!(rig.vault.unfinished().unwrap(), []);
    let refused = rig.try_back_up(&volume, id, None);
    assert!(matches!(refused, Err(Error::Abandoned(_))), "{refused:?}");
    assert_eq!(rig.sweep_at(3_000).unwrap().packs, 1);
    let done = rig.back_up(&volume, None);
    assert!(!replicate::abandon(&rig.vault, done.id, &mut crate::rig::random).unwrap());
    rig.check_restore(&done, &volume);
}

#[test]
fn restore_of_a_failing_store_ends_with_an_error_and_never_with_wrong_data() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let file = volume.put("file", &noise(1, 3 << 20));
    let manifest = rig.back_up(&volume, None);
    rig.store.fail_after(0);
    assert!(matches!(rig.restore(&manifest, replicate::Selection::Whole), Err(Error::Store(..))));
    rig.store.heal();
    let pack = packs(&rig).into_iter().find(|pack| rig.store.objects()[pack].len() > 1 << 20).unwrap();
    rig.store.objects().get_mut(&pack).unwrap()[2_000_000] ^= 1;
    assert!(matches!(rig.restore(&manifest, replicate::Selection::Whole), Err(Error::Damaged(..))));
    assert!(file.read_vec(0, 9, vfs::Blocking::Allowed).is_ok());
    assert!(volume.root().lookup(name(b"file"), vfs::Blocking::Allowed).is_ok());
}

#[test]
fn pace_ends_a_backup_before_it_sends() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    volume.put("file", &noise(1, 100_000));
    let source = source(&volume, None, seconds(volume.now()));
    let mut job = Job {
        scratch: rig.scratch.path(),
        random: &mut crate::rig::random,
        now: &|| seconds(5),
        pace: &mut |_| ControlFlow::Break(()),
        progress: &mut |_| ControlFlow::Continue(()),
    };
    let stopped = backup(&rig.vault, new_id(), &source, &mut job);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert_eq!(packs(&rig), [""; 0]);
}
