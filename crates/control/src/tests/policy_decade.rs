//! Policies over ten years in twenty time zones, against a list of all due times that is computed from the changes of the
//! zones' clocks.

use crate::policy::Policy;
use crate::schedule::tests::ZONES;
use crate::{Daily, Hourly, Monthly, Schedules, SnapshotKind, WeekDay, Weekly};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};
use std::collections::{BTreeSet, VecDeque};

const START: i64 = 1_451_606_400;
const END: i64 = 1_767_225_600;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// A time in which a zone has one offset from UTC, all in seconds.
struct Span {
    from: i64,
    to: i64,
    offset: i64,
}

fn spans(zone: &TimeZone) -> Vec<Span> {
    let first = Timestamp::from_second(START - 400 * DAY).unwrap();
    let mut spans =
        vec![Span { from: i64::MIN, to: i64::MAX, offset: zone.to_offset(first).seconds().into() }];
    for change in zone.following(first).take_while(|change| change.timestamp().as_second() < END + 2 * DAY) {
        let (at, offset) = (change.timestamp().as_second(), change.offset().seconds().into());
        spans.last_mut().unwrap().to = at;
        spans.push(Span { from: at, to: i64::MAX, offset });
    }
    spans
}

/// The moment at which the clocks show a time, which is in seconds since 1970 by these clocks: the first, or the one that would
/// have shown it without a change of the clocks that skips it.
fn moment(spans: &[Span], local: i64) -> i64 {
    for (at, span) in spans.iter().enumerate() {
        let moment = local - span.offset;
        let is_here = (span.from..span.to).contains(&moment);
        let is_skipped =
            moment >= span.to && spans.get(at + 1).is_some_and(|next| local - next.offset < next.from);
        if is_here || is_skipped {
            return moment;
        }
    }
    panic!("no moment for {local}");
}

fn schedules() -> Schedules {
    Schedules {
        hourly: Some(Hourly { keep: 5, minute: 40 }),
        daily: Some(Daily { keep: 7, hour: 2, minute: 30 }),
        weekly: Some(Weekly { keep: 4, days: [WeekDay::Sunday].into(), hour: 0, minute: 0 }),
        monthly: Some(Monthly { keep: 12, days: [1, 31].into(), hour: 23, minute: 59 }),
    }
}

/// All due times of a kind, in milliseconds.
fn dues(kind: SnapshotKind, spans: &[Span]) -> Vec<u64> {
    let mut dues = BTreeSet::new();
    if kind == SnapshotKind::Hourly {
        for span in spans {
            let (from, to) = (span.from.max(START - DAY), span.to.min(END + DAY));
            let shift = (40 * 60 - (from + span.offset)).rem_euclid(HOUR);
            dues.extend((from + shift..to).step_by(3_600));
        }
    } else {
        let mut date = civil::date(2015, 12, 30);
        while date < civil::date(2026, 1, 3) {
            let midnight = TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0)).unwrap().as_second();
            let (is_due, time) = match kind {
                SnapshotKind::Daily => (true, 2 * HOUR + 30 * 60),
                SnapshotKind::Weekly => (date.weekday() == civil::Weekday::Sunday, 0),
                _ => ([1, 31].contains(&date.day()), 23 * HOUR + 59 * 60),
            };
            if is_due {
                dues.insert(moment(spans, midnight + time));
            }
            date = date.checked_add(SignedDuration::from_secs(DAY)).unwrap();
        }
    }
    dues.into_iter()
        .filter(|due| (START..END).contains(due))
        .map(|due| u64::try_from(due).unwrap() * 1_000)
        .collect()
}

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The times at which the service looks, in milliseconds: often around the changes of the clocks, else every few hours, with
/// downtimes of days, and with steps of the time of day back.
fn looks(spans: &[Span], random: &mut Random) -> Vec<u64> {
    let (start, end) = (u64::try_from(START).unwrap() * 1_000, u64::try_from(END).unwrap() * 1_000);
    let minutes = |minutes: u64| minutes * 60_000;
    let changes: Vec<u64> = spans
        .iter()
        .filter(|span| span.from > START)
        .map(|span| u64::try_from(span.from).unwrap() * 1_000)
        .collect();
    let (mut at, mut looks) = (start, Vec::new());
    while at < end {
        looks.push(at);
        let is_change = changes.iter().any(|change| at.abs_diff(*change) < minutes(300));
        let step = match random.below(400) {
            0 => minutes(60 * 24 * random.below(50)),
            _ if is_change => minutes(1) + random.below(minutes(12)),
            _ => random.below(minutes(60 * 14)),
        };
        // A step back is a look at an earlier time.
        if random.below(50) == 0 {
            looks.push(at.saturating_sub(random.below(minutes(180))).max(start));
        }
        at += step;
    }
    looks
}

#[test]
fn each_due_time_of_ten_years_is_run_once_in_every_zone() {
    let mut random = Random(42);
    for name in ZONES {
        let spans = spans(&TimeZone::get(name).unwrap());
        let policy = Policy {
            vault: None,
            row: 1,
            name: "p".parse().unwrap(),
            is_enabled: true,
            zone: name.parse().unwrap(),
            schedules: schedules(),
            since_ms: u64::try_from(START).unwrap() * 1_000 - 1,
            version: 1,
            created_ms: 0,
            changed_ms: 0,
        };
        let looks = looks(&spans, &mut random);
        for kind in Schedules::KINDS {
            let dues = dues(kind, &spans);
            let (mut last, mut latest, mut runs, mut wanted) = (0, 0, Vec::new(), Vec::new());
            for &now in &looks {
                if let Some(run) = policy.due_run(kind, last, now) {
                    assert_eq!(Some(run.keep), policy.schedules.keep(kind));
                    last = run.due_ms;
                    runs.push(run.due_ms);
                    assert_eq!(policy.due_run(kind, last, now), None, "{name} {kind}: twice");
                }
                // One run for all that has come due since the latest look.
                let place = dues.partition_point(|&due| due <= now);
                if now > latest
                    && let Some(&due) = place.checked_sub(1).map(|place| &dues[place])
                    && wanted.last().is_none_or(|&before| before < due)
                {
                    wanted.push(due);
                }
                latest = latest.max(now);
            }
            assert_eq!(runs.len(), wanted.len(), "{name} {kind}");
            let other = runs.iter().zip(&wanted).find(|(run, wanted)| run != wanted);
            assert_eq!(other, None, "{name} {kind}");
            assert!(runs.len() * 2 > dues.len() || kind == SnapshotKind::Hourly, "{name} {kind}");
        }
    }
}

#[test]
fn look_at_each_minute_finds_every_due_time() {
    for name in ["Europe/Berlin", "Australia/Lord_Howe", "America/Havana"] {
        let spans = spans(&TimeZone::get(name).unwrap());
        let zone = name.parse().unwrap();
        let schedules = schedules();
        // Three days around each change of the clocks in the last two years.
        let (from, end) = (END - 730 * DAY, END);
        for change in spans.iter().map(|span| span.from).filter(|at| (from..end).contains(at)) {
            for kind in Schedules::KINDS {
                let minute = |minutes: i64| u64::try_from(change + minutes * 60).unwrap() * 1_000;
                let range = -2_160..2_160;
                let mut runs = VecDeque::new();
                let mut last = schedules.last_due(kind, &zone, minute(range.start)).unwrap();
                for now in range.clone().map(minute) {
                    let due = schedules.last_due(kind, &zone, now).unwrap();
                    if due > last {
                        assert_eq!(due / 60_000, now / 60_000, "{name} {kind}: at its minute");
                        runs.push_back(due);
                        last = due;
                    }
                }
                let of_range = minute(range.start) + 1..minute(range.end);
                let mut wanted = dues(kind, &spans);
                wanted.retain(|due| of_range.contains(due));
                assert_eq!(runs, wanted, "{name} {kind}");
            }
        }
    }
}

#[test]
fn snapshots_beyond_the_count_go_in_every_zone() {
    let rig = super::rig::Rig::new();
    let service = rig.open();
    let context = super::rig::context();
    service.create_pool(&context, &super::rig::new_pool("p", envelope::Level::Unlimited, 40)).unwrap();
    let start = u64::try_from(START).unwrap() * 1_000;
    rig.now_ms.store(start, std::sync::atomic::Ordering::SeqCst);
    let monthly = Schedules {
        monthly: Some(Monthly { keep: 2, days: [1].into(), hour: 2, minute: 30 }),
        ..Schedules::default()
    };
    for (number, name) in ZONES.iter().enumerate() {
        let policy = crate::NewPolicy {
            vault: None,
            name: format!("p{number}").parse().unwrap(),
            is_enabled: true,
            zone: name.parse().unwrap(),
            schedules: monthly.clone(),
        };
        service.create_policy(&context, &policy).unwrap();
        let volume = crate::NewVolume {
            policy: Some(policy.name),
            ..super::rig::new_volume(&format!("v{number}"), "p", 1024)
        };
        service.create_volume(&context, &volume).unwrap();
    }
    // Thirteen months have come due each time, and are one run.
    let mut looks = 0;
    for day in (40..3_650).step_by(400) {
        let now = start + day * 86_400_000;
        for _ in 0..2 {
            rig.now_ms.store(now, std::sync::atomic::Ordering::SeqCst);
            service.run_policies().unwrap();
            service.run_waiting_jobs();
        }
        looks += 1;
        for (number, name) in ZONES.iter().enumerate() {
            let of = super::rig::volume(&format!("v{number}"));
            assert_eq!(service.snapshot_count(&of).unwrap(), looks.min(2), "{name}");
        }
    }
    rig.check_agreement(&service);
}
