//! Many volumes: each new one costs as much as the first, and a removed one leaves nothing.

use super::rig::{Rig, context, new_pool, new_volume, volume};
use crate::{Service, VolumeChange};
use envelope::Level;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;

fn make(service: &Service, numbers: std::ops::Range<usize>) {
    for number in numbers {
        service.create_volume(&context(), &new_volume(&format!("v{number}"), "p", 1)).unwrap();
    }
}

fn with_pool(rig: &Rig) -> Service {
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::Unlimited, 90)).unwrap();
    service
}

/// The processor time of this thread, without waits for the disk and other tests.
fn processor(work: impl FnOnce()) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let begun = now();
    work();
    now() - begun
}

#[test]
fn the_last_volumes_of_a_pool_take_as_long_as_the_first() {
    const STEP: usize = 50;
    let rig = Rig::new();
    let service = with_pool(&rig);
    make(&service, 0..20 * STEP);
    // The first ones are another service's, at the same moment: the machine may be slower or faster later, and
    // other tests use the same caches.
    let takes_as_long = |turn: usize| {
        let fresh = Rig::new();
        let other = with_pool(&fresh);
        let first = processor(|| make(&other, 0..STEP));
        let from = (20 + turn) * STEP;
        let last = processor(|| make(&service, from..from + STEP));
        eprintln!("{first:.1?} for {STEP} volumes, {last:.1?} after {from}");
        // Looking at each of them again would make it tens of times. The namespace's copy is all that grows.
        last < 5 * first
    };
    assert!((0..5).any(takes_as_long));
}

#[test]
fn removed_volumes_leave_no_state() {
    let rig = Rig::new();
    let service = with_pool(&rig);
    make(&service, 0..50);
    for number in 0..50 {
        service.delete_volume(&context(), &volume(&format!("v{number}"))).unwrap();
    }
    let state = service.state();
    assert!(state.open.is_empty() && state.meters.gate_count() == 0);
    assert_eq!(state.totals, crate::pool_totals::PoolTotals::default());
    assert!(rig.namespace.load().exports().is_empty());
}

#[test]
fn a_change_of_one_export_leaves_the_others_as_they_are() {
    let rig = Rig::new();
    let service = with_pool(&rig);
    make(&service, 0..2);
    let exports = || rig.namespace.load().exports().to_vec();
    let before = exports();
    let rules = Some(vec![crate::ExportRule::for_clients("10.0.0.1".parse().unwrap())]);
    service
        .update_volume(&context(), &volume("v1"), &VolumeChange { rules, ..VolumeChange::default() })
        .unwrap();
    let after = exports();
    assert!(Arc::ptr_eq(&before[0], &after[0]) && !Arc::ptr_eq(&before[1], &after[1]));
    make(&service, 2..3);
    assert!(Arc::ptr_eq(&after[1], &exports()[1]));
    service.delete_volume(&context(), &volume("v1")).unwrap();
    assert!(Arc::ptr_eq(&before[0], &exports()[0]));
}
