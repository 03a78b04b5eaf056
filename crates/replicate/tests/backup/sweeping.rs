//! Deletion of backups, and what a sweep removes.

use crate::rig::{Rig, Volume, new_id, noise, random, seconds, source};
use replicate::{BackupId, Depth, Error, Manifest, Source, Sweep, Verify, delete, sweep, verify};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Three backups: one file stays, one is replaced each time.
fn chain() -> (Rig, Volume, Vec<Manifest>) {
    let (rig, volume) = (Rig::new(None), Volume::new());
    volume.put("stays", &noise(1, 3 << 20));
    let mut made: Vec<Manifest> = Vec::new();
    for round in 0..3 {
        volume.put("replaced", &noise(round + 10, 2 << 20));
        volume.advance(10);
        made.push(rig.back_up(&volume, made.last().map(|last| last.id)));
    }
    (rig, volume, made)
}

fn is_intact(rig: &Rig, manifest: &Manifest) -> bool {
    let progress = &mut |_, _| ControlFlow::Continue(());
    let mut job = Verify { depth: Depth::Data, pace: &mut |_| ControlFlow::Continue(()), progress };
    verify(&rig.vault, manifest, &mut job).unwrap().is_empty()
}

fn packs(rig: &Rig) -> usize {
    rig.store.objects().keys().filter(|name| name.starts_with("packs/")).count()
}

#[test]
fn deleted_backup_frees_what_no_other_needs() {
    let (rig, volume, made) = chain();
    assert_eq!(packs(&rig), 6);
    delete(&rig.vault, made[1].id, seconds(1), &mut random).unwrap();
    assert_eq!(rig.vault.list().unwrap().backups, [made[0].clone(), made[2].clone()]);
    assert!(matches!(rig.vault.manifest(made[1].id), Err(Error::NotFound(_))));
    assert_eq!(packs(&rig), 6, "its space is free after a sweep");
    let swept = rig.sweep_at(1).unwrap();
    assert_eq!((swept.packs, swept.backups), (2, 1));
    assert!(swept.bytes > 2 << 20 && swept.bytes < 3 << 20, "{swept:?}");
    assert!(is_intact(&rig, &made[0]) && is_intact(&rig, &made[2]));
    rig.check_restore(&made[2], &volume);
    // The first has data that the last needs, too.
    delete(&rig.vault, made[0].id, seconds(1), &mut random).unwrap();
    rig.sweep_at(1).unwrap();
    rig.check_restore(&made[2], &volume);
    delete(&rig.vault, made[2].id, seconds(1), &mut random).unwrap();
    rig.sweep_at(1).unwrap();
    let left: Vec<String> = rig.store.objects().keys().cloned().collect();
    assert!(
        left.iter().all(|name| ["vault", "owners", "leases"].contains(&name.split('/').next().unwrap())),
        "{left:?}"
    );
}

#[test]
fn sweep_that_is_interrupted_anywhere_leaves_the_others_intact() {
    for changes in 0.. {
        let (rig, volume, made) = chain();
        delete(&rig.vault, made[0].id, seconds(1), &mut random).unwrap();
        delete(&rig.vault, made[1].id, seconds(1), &mut random).unwrap();
        rig.store.fail_after(changes);
        let swept = rig.sweep_at(1);
        rig.store.heal();
        assert_eq!(rig.vault.list().unwrap().backups, [made[2].clone()]);
        assert!(is_intact(&rig, &made[2]));
        if swept.is_ok() {
            assert!(changes > 8, "{changes}");
            break;
        }
        // After a crash the lease runs out.
        rig.sweep_at(5_000).unwrap();
        let last = rig.check_restore(&made[2], &volume);
        drop(last);
        assert!(!rig.store.objects().keys().any(|name| name.starts_with("deleted/")));
    }
}

#[test]
fn one_process_sweeps_at_a_time() {
    let (rig, _, made) = chain();
    delete(&rig.vault, made[1].id, seconds(1), &mut random).unwrap();
    let mut refused = None;
    let mut job = Sweep {
        random: &mut random,
        now: &|| seconds(100),
        progress: &mut |_, _| {
            refused.get_or_insert_with(|| (rig.sweep_at(200), rig.sweep_at(2_000).is_ok()));
            ControlFlow::Break(())
        },
    };
    let stopped = sweep(&rig.vault, &mut job);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    let (second, later) = refused.unwrap();
    assert!(matches!(second, Err(Error::Leased(until)) if until == seconds(700)), "{second:?}");
    assert!(later, "the lease of a process that crashed ends");
    assert!(is_intact(&rig, &made[0]) && is_intact(&rig, &made[2]));
}

#[test]
fn locked_backup_stays_until_its_time() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    volume.put("file", b"x");
    let until = Some(seconds(5_000));
    let locked = Source { locked_until: until, ..source(&volume, None, seconds(volume.now())) };
    let (manifest, _) = rig.run(new_id(), &locked).unwrap();
    assert_eq!(manifest.locked_until, until);
    let refused = delete(&rig.vault, manifest.id, seconds(4_999), &mut random);
    assert!(matches!(refused, Err(Error::Locked(_, at)) if Some(at) == until), "{refused:?}");
    delete(&rig.vault, manifest.id, seconds(5_000), &mut random).unwrap();
    assert_eq!(rig.sweep_at(5_000).unwrap().backups, 1);
}

#[test]
fn packs_of_an_unfinished_backup_and_of_its_base_stay() {
    let (rig, volume, made) = chain();
    let base = made[2].id;
    volume.put("new", &noise(77, 70 << 20));
    let id = new_id();
    let taken = seconds(volume.now());
    // The session and one pack.
    rig.store.fail_after(2);
    assert!(rig.run(id, &source(&volume, Some(base), taken)).is_err());
    rig.store.heal();
    for manifest in &made {
        delete(&rig.vault, manifest.id, seconds(1), &mut random).unwrap();
    }
    let swept = rig.sweep_at(1).unwrap();
    assert_eq!(swept.backups, 2, "the base is still needed");
    let (manifest, progress) = rig.run(id, &source(&volume, Some(base), taken)).unwrap();
    assert!(progress.bytes_read < 20 << 20, "{}", progress.bytes_read);
    rig.sweep_at(1).unwrap();
    rig.check_restore(&manifest, &volume);
    assert_eq!(rig.vault.list().unwrap().backups, [manifest]);
}

#[test]
fn nothing_is_swept_while_a_manifest_is_damaged() {
    let (rig, _, made) = chain();
    delete(&rig.vault, made[1].id, seconds(1), &mut random).unwrap();
    let manifest = format!("backups/{}/manifest", made[0].id);
    rig.store.objects().get_mut(&manifest).unwrap()[50] ^= 1;
    assert!(matches!(rig.sweep_at(1), Err(Error::Damaged(..))));
    assert_eq!(packs(&rig), 6);
}

/// Runs `act` with `between` before its first call of the store, then before its second, and so on.
fn interleave(
    act: impl Fn(&Rig, &Volume, &Manifest),
    between: impl Fn(&Rig, &Volume, &Manifest) + Send + Sync + Copy + 'static,
    check: impl Fn(&Rig, &Volume, &Manifest),
) {
    for calls in 0.. {
        let (rig, volume, made) = chain();
        volume.put("replaced", &noise(99, 2 << 20));
        volume.advance(10);
        let (rig, volume, base) = (Arc::new(rig), Arc::new(volume), made[2].clone());
        let (other, shared, of) = (rig.clone(), volume.clone(), base.clone());
        rig.store.interleave(calls, Some(Box::new(move || between(&other, &shared, &of))));
        act(&rig, &volume, &base);
        let is_last = rig.store.interleave(0, None);
        check(&rig, &volume, &base);
        for manifest in rig.vault.list().unwrap().backups {
            assert!(is_intact(&rig, &manifest), "{manifest:?} after {calls} calls");
        }
        if is_last {
            assert!(calls > 10, "{calls}");
            return;
        }
    }
}

const NEXT: BackupId = BackupId([0xaa; 8]);

fn back_up_next(rig: &Rig, volume: &Volume, base: &Manifest) -> Option<Manifest> {
    match rig.try_back_up(volume, NEXT, Some(base.id)) {
        Ok((manifest, _)) => Some(manifest),
        Err(Error::NotFound(id)) if id == base.id => None,
        Err(error) => panic!("{error}"),
    }
}

fn delete_and_sweep(rig: &Rig, base: &Manifest) {
    delete(&rig.vault, base.id, seconds(1), &mut random).unwrap();
    rig.sweep_at(1).unwrap();
}

#[test]
fn base_is_deleted_and_swept_at_any_moment_of_a_backup() {
    interleave(
        |rig, volume, base| drop(back_up_next(rig, volume, base)),
        |rig, _, base| delete_and_sweep(rig, base),
        |rig, _, _| _ = rig.sweep_at(1).unwrap(),
    );
}

#[test]
fn backup_on_a_deleted_base_begins_at_any_moment_of_a_sweep() {
    interleave(
        |rig, _, base| delete_and_sweep(rig, base),
        |rig, volume, base| drop(back_up_next(rig, volume, base)),
        |rig, _, _| _ = rig.sweep_at(1).unwrap(),
    );
}

#[test]
fn base_of_a_backup_that_has_just_begun_is_deleted_at_any_moment_of_a_sweep() {
    interleave(
        |rig, _, _| _ = rig.sweep_at(1).unwrap(),
        |rig, volume, base| {
            // The session, and nothing after it.
            rig.store.fail_after(1);
            assert!(rig.try_back_up(volume, NEXT, Some(base.id)).is_err());
            rig.store.heal();
            delete(&rig.vault, base.id, seconds(1), &mut random).unwrap();
        },
        |rig, volume, base| {
            rig.sweep_at(1).unwrap();
            if rig.vault.unfinished().unwrap() == [NEXT] {
                let manifest = back_up_next(rig, volume, base).expect("its session has preserved the base");
                rig.check_restore(&manifest, volume);
            }
        },
    );
}

#[test]
fn two_processes_make_the_same_backup_at_any_moment() {
    interleave(
        |rig, volume, base| assert!(back_up_next(rig, volume, base).is_some()),
        |rig, volume, base| assert!(back_up_next(rig, volume, base).is_some()),
        |rig, volume, _| {
            rig.sweep_at(1).unwrap();
            let manifest = rig.vault.manifest(NEXT).unwrap();
            rig.check_restore(&manifest, volume);
            let parts = rig.store.objects().keys().filter(|name| name.contains(&NEXT.to_string())).count();
            assert_eq!(parts, 5, "a manifest, two parts and two packs: those of the slower process are gone");
        },
    );
}

#[test]
fn backup_is_abandoned_at_any_moment() {
    interleave(
        |rig, volume, base| match rig.try_back_up(volume, NEXT, Some(base.id)) {
            Ok(_) | Err(Error::Abandoned(NEXT)) => {}
            Err(error) => panic!("{error}"),
        },
        |rig, _, _| _ = replicate::abandon(&rig.vault, NEXT, &mut random).unwrap(),
        |rig, _, _| {
            let is_complete = rig.vault.manifest(NEXT).is_ok();
            rig.sweep_at(1).unwrap();
            let packs = rig.store.objects().keys().any(|name| name.contains(&format!("packs/{NEXT}")));
            assert_eq!(packs, is_complete, "nothing is left of an abandoned backup");
            assert_eq!(rig.vault.unfinished().unwrap(), []);
        },
    );
}
