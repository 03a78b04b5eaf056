//! Changes of snapshots at random, side by side with each other, with jobs, policies and removals of volumes.

use super::rig::{Rig, context, furnished, new_snapshot, new_volume, snapshot, volume};
use crate::{Error, Hourly, NewPolicy, Outcome, Result, Schedules, Service, SnapshotChange, VolumeChange};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const THREADS: u64 = 4;
const CHANGES: u64 = 150;

/// Numbers that are the same in each run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn change_at_random(service: &Service, draws: &mut Draws) -> Result<()> {
    let of = volume(&format!("w{}", draws.below(2)));
    let name = snapshot(&format!("s{}", draws.below(3)));
    match draws.below(12) {
        0..=3 => service.create_snapshot(&context(), &of, &new_snapshot(name.as_str())).map(drop),
        4..=6 => service.delete_snapshot(&context(), &of, &name).map(drop),
        7 => {
            let running = service.operations(None, 20)?.items.into_iter().find(|one| one.can_be_cancelled());
            running.map_or(Ok(()), |one| service.cancel_operation(one.id).map(drop))
        }
        8 => {
            let description = Some(draws.below(100).to_string());
            let change = SnapshotChange { description, ..SnapshotChange::default() };
            service.update_snapshot(&context(), &of, &name, &change).map(drop)
        }
        9 => service.delete_volume(&context().forced(), &of).map(drop),
        10 => service.create_volume(&context(), &new_volume(of.as_str(), "p", 100)).map(drop),
        _ => {
            let policy = (draws.below(3) > 0).then(|| "p1".parse()).transpose()?;
            let change = VolumeChange { policy: Some(policy), ..VolumeChange::default() };
            service.update_volume(&context(), &of, &change).map(drop)
        }
    }
}

fn is_expected(error: &Error) -> bool {
    matches!(
        error,
        Error::NotFound { .. }
            | Error::Conflict { .. }
            | Error::Changing { .. }
            | Error::SnapshotState { .. }
            | Error::NotRunning { .. }
    )
}

#[test]
fn random_changes_side_by_side_leave_store_storage_and_clients_in_agreement() {
    let rig = Rig::new();
    let service = Arc::new(furnished(&rig));
    rig.deletion_steps.store(3, Ordering::SeqCst);
    let schedules = Schedules { hourly: Some(Hourly { keep: 2, minute: 0 }), ..Schedules::default() };
    let zone = crate::Zone::utc();
    let new = NewPolicy { name: "p1".parse().unwrap(), vault: None, is_enabled: true, zone, schedules };
    service.create_policy(&context(), &new).unwrap();
    service.start_jobs().unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let policies = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                rig.now_ms.fetch_add(20 * 60_000, Ordering::SeqCst);
                // A volume can be removed between the look and the snapshot.
                service.run_policies().unwrap();
                std::thread::yield_now();
            }
        });
        let change = |seed| {
            let mut draws = Draws(seed);
            for _ in 0..CHANGES {
                let changed = change_at_random(&service, &mut draws);
                assert!(changed.as_ref().err().is_none_or(is_expected), "{changed:?}");
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || change(seed))).collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_done.store(true, Ordering::SeqCst);
        policies.join().unwrap();
        assert!(ended.iter().all(std::thread::Result::is_ok));
    });
    service.stop_jobs();
    drop(service);
    // Deletions that were cancelled after they had begun go on.
    let service = rig.open();
    service.run_waiting_jobs();
    rig.check_agreement(&service);
    let all = service.operations(None, 1000).unwrap().items;
    let count = |outcome: &Outcome| all.iter().filter(|one| one.outcome == *outcome).count();
    assert!(count(&Outcome::Succeeded) > 100, "most changes have an effect");
}
