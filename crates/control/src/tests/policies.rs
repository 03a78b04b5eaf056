//! Policies in virtual time: each due time once, counts exact.

use super::rig::{Rig, context, furnished, new_snapshot, new_volume, volume};
use crate::{
    ChangeResult, Daily, Error, Hourly, Monthly, NewPolicy, Outcome, Policy, PolicyChange, PolicyName,
    Result, Schedules, Service, Snapshot, SnapshotChange, SnapshotKind, VolumeChange, WeekDay, Weekly,
};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// 2022-11-29 00:00 UTC, a Tuesday.
const START: u64 = 1_669_680_000_000;

fn name(text: &str) -> PolicyName {
    text.parse().unwrap()
}

fn schedules() -> Schedules {
    Schedules {
        hourly: Some(Hourly { keep: 3, minute: 6 }),
        daily: Some(Daily { keep: 2, hour: 1, minute: 0 }),
        weekly: Some(Weekly { keep: 2, days: [WeekDay::Monday].into(), hour: 1, minute: 0 }),
        monthly: Some(Monthly { keep: 1, days: [1].into(), hour: 1, minute: 0 }),
    }
}

fn policy(schedules: Schedules) -> NewPolicy {
    NewPolicy { name: name("p1"), vault: None, is_enabled: true, zone: crate::Zone::utc(), schedules }
}

fn assign(service: &Service, policy: Option<&str>) -> Result<ChangeResult<crate::Volume>> {
    assign_to(service, "v", policy)
}

fn assign_to(service: &Service, of: &str, policy: Option<&str>) -> Result<ChangeResult<crate::Volume>> {
    let change = VolumeChange { policy: Some(policy.map(name)), ..VolumeChange::default() };
    service.update_volume(&context(), &volume(of), &change)
}

/// A service whose volume `v` has the policy, at [`START`].
fn scheduled(rig: &Rig, new: &NewPolicy) -> Service {
    let service = furnished(rig);
    rig.now_ms.store(START, Ordering::SeqCst);
    service.create_policy(&context(), new).unwrap();
    assign(&service, Some("p1")).unwrap();
    service
}

/// The time of day is now `ms`.
fn run_at(rig: &Rig, service: &Service, ms: u64) {
    rig.now_ms.store(ms, Ordering::SeqCst);
    service.run_policies().unwrap();
    service.run_waiting_jobs();
}

fn snapshots(service: &Service) -> Vec<Snapshot> {
    let mut all = service.snapshots(&volume("v"), None, 1000).unwrap().items;
    all.sort_by_key(|one| one.created_ms);
    all
}

fn names(service: &Service) -> Vec<String> {
    snapshots(service).into_iter().map(|one| one.name.to_string()).collect()
}

fn of_kind(service: &Service, kind: SnapshotKind) -> usize {
    snapshots(service).iter().filter(|one| one.kind == kind).count()
}

#[test]
fn due_snapshots_are_made_once_and_those_beyond_the_count_deleted() {
    let rig = Rig::new();
    let service = scheduled(&rig, &policy(schedules()));
    run_at(&rig, &service, START + MINUTE);
    assert_eq!(names(&service), [""; 0], "nothing of the time before");
    for minutes in [6, 6, 7, 60, 66] {
        run_at(&rig, &service, START + minutes * MINUTE + 10_000);
    }
    let expected = ["hourly.2022-11-29_0006", "daily.2022-11-29_0100", "hourly.2022-11-29_0106"];
    assert_eq!(names(&service), expected);
    for hour in 2..=30 {
        run_at(&rig, &service, START + hour * HOUR + 6 * MINUTE);
    }
    let expected = [
        "daily.2022-11-29_0100",
        "daily.2022-11-30_0106",
        "hourly.2022-11-30_0406",
        "hourly.2022-11-30_0506",
        "hourly.2022-11-30_0606",
    ];
    assert_eq!(names(&service), expected);
    rig.check_agreement(&service);
    let made = &service.operations(None, 1000).unwrap().items;
    assert!(made.iter().any(|one| one.actor.as_str() == "policy p1" && one.kind == crate::Kind::Snapshot));
    assert!(made.iter().all(|one| one.outcome == Outcome::Succeeded));
}

#[test]
fn counts_are_exact_over_a_year() {
    let rig = Rig::new();
    let new = NewPolicy {
        zone: "Europe/Berlin".parse().unwrap(),
        ..policy(Schedules { hourly: None, ..schedules() })
    };
    let service = scheduled(&rig, &new);
    let mut made = BTreeSet::new();
    for tick in 1..=365 * 4 {
        run_at(&rig, &service, START + tick * 6 * HOUR);
        made.extend(snapshots(&service).into_iter().map(|one| (one.kind.as_str(), one.view)));
    }
    let count = |kind: &str| made.iter().filter(|(of, _)| *of == kind).count();
    // 365 days with 52 Mondays and 12 firsts of a month.
    assert_eq!([count("daily"), count("weekly"), count("monthly")], [365, 52, 12]);
    let kinds = [SnapshotKind::Daily, SnapshotKind::Weekly, SnapshotKind::Monthly];
    assert_eq!(kinds.map(|kind| of_kind(&service, kind)), [2, 2, 1]);
    rig.check_agreement(&service);
}

#[test]
fn volume_is_created_with_a_policy_from_its_creation_on() {
    let rig = Rig::new();
    let service = furnished(&rig);
    rig.now_ms.store(START, Ordering::SeqCst);
    service.create_policy(&context(), &policy(schedules())).unwrap();
    let new = |name_of: &str| crate::NewVolume { policy: Some(name(name_of)), ..new_volume("v2", "p", 1024) };
    assert!(matches!(service.create_volume(&context(), &new("other")), Err(Error::NotFound { .. })));
    rig.now_ms.store(START + 7 * MINUTE, Ordering::SeqCst);
    let made = service.create_volume(&context(), &new("p1")).unwrap().value;
    assert_eq!(made.policy, Some(name("p1")));
    let snapshots = || service.snapshots(&volume("v2"), None, 1000).unwrap().items.len();
    run_at(&rig, &service, START + 8 * MINUTE);
    assert_eq!(snapshots(), 0, "nothing of the time before");
    run_at(&rig, &service, START + 66 * MINUTE);
    assert_eq!(snapshots(), 2);
    assert!(!service.create_volume(&context(), &new("p1")).unwrap().operation.has_changed());
    let without = new_volume("v2", "p", 1024);
    assert!(!service.create_volume(&context(), &without).unwrap().operation.has_changed());
    assign_to(&service, "v2", None).unwrap();
    assert!(matches!(service.create_volume(&context(), &new("p1")), Err(Error::Conflict { .. })));
    rig.check_agreement(&service);
}

#[test]
fn volume_whose_storage_has_no_snapshots_is_not_created_with_a_policy() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service.create_policy(&context(), &policy(schedules())).unwrap();
    rig.lacks_snapshots.store(true, Ordering::SeqCst);
    let new = crate::NewVolume { policy: Some(name("p1")), ..new_volume("v2", "p", 1024) };
    assert!(matches!(service.create_volume(&context(), &new), Err(Error::NoSnapshots { .. })));
    assert!(matches!(service.volume(&volume("v2")), Err(Error::NotFound { .. })));
    service.create_volume(&context(), &new_volume("v2", "p", 1024)).unwrap();
    rig.check_agreement(&service);
}

#[test]
fn after_downtime_each_schedule_runs_once() {
    let rig = Rig::new();
    let service = scheduled(&rig, &policy(schedules()));
    run_at(&rig, &service, START + 6 * MINUTE);
    drop(service);
    rig.now_ms.store(START + 40 * DAY + 30 * MINUTE, Ordering::SeqCst);
    let service = rig.open();
    for minute in 30..34 {
        run_at(&rig, &service, START + 40 * DAY + minute * MINUTE);
    }
    let kinds = Schedules::KINDS.map(|kind| of_kind(&service, kind));
    assert_eq!(kinds, [2, 1, 1, 1], "{:?}", names(&service));
    rig.check_agreement(&service);
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_twice() {
    let rig = Rig::new();
    let service = scheduled(&rig, &policy(schedules()));
    run_at(&rig, &service, START + 6 * MINUTE);
    for minute in [0, 5, 6, 30] {
        run_at(&rig, &service, START - HOUR + minute * MINUTE);
    }
    run_at(&rig, &service, START + 10 * MINUTE);
    assert_eq!(of_kind(&service, SnapshotKind::Hourly), 1);
}

#[test]
fn manual_and_locked_snapshots_stay() {
    let rig = Rig::new();
    let service = scheduled(&rig, &policy(Schedules { hourly: schedules().hourly, ..Schedules::default() }));
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("manual")).unwrap();
    run_at(&rig, &service, START + 6 * MINUTE);
    let first = snapshots(&service).pop().unwrap();
    let change =
        SnapshotChange { locked_until_ms: Some(Some(START + 400 * DAY)), ..SnapshotChange::default() };
    service.update_snapshot(&context(), &volume("v"), &first.name, &change).unwrap();
    for hour in 1..8 {
        run_at(&rig, &service, START + hour * HOUR + 6 * MINUTE);
    }
    let left = names(&service);
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(left.contains(&"manual".to_owned()) && left.contains(&first.name.to_string()), "{left:?}");
    assert_eq!(left.last().unwrap(), "hourly.2022-11-29_0706");
}

#[test]
fn a_disabled_policy_and_one_that_was_taken_away_make_nothing() {
    let rig = Rig::new();
    let service = scheduled(&rig, &policy(schedules()));
    let enable = |is_enabled| {
        let change = PolicyChange { is_enabled: Some(is_enabled), ..PolicyChange::default() };
        service.update_policy(&context(), &name("p1"), &change).unwrap()
    };
    assert_eq!(enable(false).operation.detail, "enabled");
    run_at(&rig, &service, START + 7 * MINUTE);
    enable(true);
    run_at(&rig, &service, START + 8 * MINUTE);
    assert_eq!(names(&service), [""; 0], "what was due meanwhile is not made");
    assign(&service, None).unwrap();
    run_at(&rig, &service, START + 2 * HOUR);
    assert_eq!(names(&service), [""; 0]);
}

#[test]
fn run_that_fails_is_in_the_record() {
    let rig = Rig::new();
    let service = scheduled(&rig, &policy(schedules()));
    rig.lacks_snapshots.store(true, Ordering::SeqCst);
    run_at(&rig, &service, START + 6 * MINUTE);
    let failed = service.operations(None, 1).unwrap().items.remove(0);
    assert_eq!((failed.name.as_str(), failed.actor.as_str()), ("v/hourly", "policy p1"));
    assert!(matches!(&failed.outcome, Outcome::Failed(reason) if reason.contains("Btrfs")), "{failed:?}");
    rig.lacks_snapshots.store(false, Ordering::SeqCst);
    run_at(&rig, &service, START + HOUR + 6 * MINUTE);
    assert_eq!(of_kind(&service, SnapshotKind::Hourly), 1, "the next one is made");
    let figures = service.snapshot_figures(&service.volume(&volume("v")).unwrap()).unwrap();
    // An hourly one has failed; then an hourly and a daily one were made.
    assert_eq!((figures.count, figures.failed_runs), (2, 1), "{:?}", names(&service));
    let newest = snapshots(&service).last().map(|one| one.created_ms);
    assert_eq!(figures.newest_ms, newest);
}

#[test]
fn a_policy_keeps_no_more_than_a_volume_may_have() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let keep = |keep| Schedules { hourly: Some(Hourly { keep, minute: 0 }), ..schedules() };
    service.create_policy(&context(), &policy(keep(250))).unwrap();
    assign(&service, Some("p1")).unwrap();
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("manual")).unwrap();
    let hourly =
        |keep| PolicyChange { hourly: Some(Some(Hourly { keep, minute: 0 })), ..PolicyChange::default() };
    let update = |keep| service.update_policy(&context(), &name("p1"), &hourly(keep));
    // 250, 2, 2 and 1, with the manual one.
    let text = update(250).map(drop).and(update(251).map(drop)).unwrap_err().to_string();
    assert!(text.contains("snapshot number 257") && text.contains("at most 255"), "{text}");
    update(249).unwrap();
    assign(&service, None).unwrap();
    update(255).unwrap();
    assert!(assign(&service, Some("p1")).unwrap_err().to_string().contains("at most 255"));
    rig.check_agreement(&service);
}

#[test]
fn policies_are_made_changed_and_deleted() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let new = policy(schedules());
    let made = service.create_policy(&context(), &new).unwrap();
    assert!(!service.create_policy(&context(), &new).unwrap().operation.has_changed());
    let other = NewPolicy { is_enabled: false, ..new.clone() };
    assert!(matches!(service.create_policy(&context(), &other), Err(Error::Conflict { .. })));
    let none = policy(Schedules::default());
    assert!(matches!(service.create_policy(&context(), &none), Err(Error::Invalid { .. })));
    let change = PolicyChange {
        zone: Some("Asia/Kolkata".parse().unwrap()),
        monthly: Some(None),
        ..PolicyChange::default()
    };
    let stale = service.update_policy(&context().at(9), &name("p1"), &change);
    assert!(matches!(stale, Err(Error::Version { .. })));
    let changed: ChangeResult<Policy> =
        service.update_policy(&context().at(1), &name("p1"), &change).unwrap();
    assert_eq!((changed.operation.detail.as_str(), changed.value.version), ("time zone, monthly", 2));
    assert!(changed.value != made.value && changed.value.schedules.monthly.is_none());
    assert!(matches!(assign(&service, Some("p2")), Err(Error::NotFound { .. })));
    let done = assign(&service, Some("p1")).unwrap();
    assert_eq!(done.operation.detail, "policy none → p1");
    let error = service.delete_policy(&context(), &name("p1")).unwrap_err();
    assert!(error.to_string().contains("is that of 1 volume:"), "{error}");
    drop(service);
    let service = rig.open();
    assert_eq!(service.policy(&name("p1")).unwrap(), changed.value, "after a restart");
    assert_eq!(service.volume(&volume("v")).unwrap().policy, Some(name("p1")));
    assign(&service, None).unwrap();
    service.delete_policy(&context(), &name("p1")).unwrap();
    assert!(service.policies(None, 9).unwrap().items.is_empty());
    rig.lacks_snapshots.store(true, Ordering::SeqCst);
    service.create_policy(&context(), &new).unwrap();
    assert!(matches!(assign(&service, Some("p1")), Err(Error::NoSnapshots { .. })));
    rig.check_agreement(&service);
}

#[test]
fn service_that_stops_makes_no_scheduled_snapshot() {
    let rig = Rig::new();
    let service = scheduled(&rig, &policy(schedules()));
    service.stop_jobs();
    run_at(&rig, &service, START + 6 * MINUTE);
    assert_eq!(names(&service), [""; 0]);
}
