//! Schedules: the times at which a policy makes snapshots.
//!
//! A due time is a minute of the clocks of a time zone. A day on which the clocks skip that minute has it when it would
//! have been without the change; a day on which it occurs twice has the first. An hourly schedule is due whenever the clocks show its minute.

use crate::error::{Error, Result};
use crate::limits::SNAPSHOTS_PER_VOLUME_MAX;
use crate::snapshot::SnapshotKind;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

const MINUTE_MS: u64 = 60_000;
/// A month may lack a day of the schedule, but not two months in a row.
const DAYS_BACK_MAX: usize = 63;
/// The clocks of every zone show every minute once in this time.
const MINUTES_BACK_MAX: u64 = 150;

/// The schedules of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedules {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hourly: Option<Hourly>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily: Option<Daily>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekly: Option<Weekly>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monthly: Option<Monthly>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hourly {
    /// Snapshots to retain.
    pub keep: u32,
    pub minute: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daily {
    /// Snapshots to retain.
    pub keep: u32,
    pub hour: u8,
    pub minute: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weekly {
    /// Snapshots to retain.
    pub keep: u32,
    pub days: BTreeSet<WeekDay>,
    pub hour: u8,
    pub minute: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monthly {
    /// Snapshots to retain.
    pub keep: u32,
    /// Days from 1 to 31. A month that lacks a day has no snapshot on it.
    pub days: BTreeSet<u8>,
    pub hour: u8,
    pub minute: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeekDay {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

/// A time zone by its name in the IANA database, as in `Europe/Berlin`.
#[derive(Clone, Debug)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Schedules {
    /// The schedules with their kinds, the most frequent first.
    pub(crate) const KINDS: [SnapshotKind; 4] =
        [SnapshotKind::Hourly, SnapshotKind::Daily, SnapshotKind::Weekly, SnapshotKind::Monthly];

    /// The number of snapshots of a kind to retain; `None` if there is no such schedule.
    pub(crate) fn keep(&self, kind: SnapshotKind) -> Option<u32> {
        match kind {
            SnapshotKind::Hourly => self.hourly.as_ref().map(|schedule| schedule.keep),
            SnapshotKind::Daily => self.daily.as_ref().map(|schedule| schedule.keep),
            SnapshotKind::Weekly => self.weekly.as_ref().map(|schedule| schedule.keep),
            SnapshotKind::Monthly => self.monthly.as_ref().map(|schedule| schedule.keep),
            SnapshotKind::Manual | SnapshotKind::Replication | SnapshotKind::Backup => None,
        }
    }

    /// The number of snapshots to retain in all.
    pub(crate) fn keep_all(&self) -> u32 {
        Self::KINDS.iter().filter_map(|&kind| self.keep(kind)).fold(0, u32::saturating_add)
    }

    /// The last due time of a kind up to `now_ms`, in milliseconds since 1970.
    pub(crate) fn last_due(&self, kind: SnapshotKind, zone: &Zone, now_ms: u64) -> Option<u64> {
        match kind {
            SnapshotKind::Hourly => zone.last_minute(self.hourly.as_ref()?.minute, now_ms),
            SnapshotKind::Daily => {
                let Daily { hour, minute, .. } = self.daily.as_ref()?;
                zone.last_day((*hour, *minute), now_ms, |_| true)
            }
            SnapshotKind::Weekly => {
                let Weekly { hour, minute, days, .. } = self.weekly.as_ref()?;
                let is_due = |date: Date| days.contains(&WeekDay::from(date.weekday()));
                zone.last_day((*hour, *minute), now_ms, is_due)
            }
            SnapshotKind::Monthly => {
                let Monthly { hour, minute, days, .. } = self.monthly.as_ref()?;
                let is_due = |date: Date| u8::try_from(date.day()).is_ok_and(|day| days.contains(&day));
                zone.last_day((*hour, *minute), now_ms, is_due)
            }
            SnapshotKind::Manual | SnapshotKind::Replication | SnapshotKind::Backup => None,
        }
    }

    /// Refuses values that no clock shows, and schedules that are never due.
    pub(crate) fn check(&self) -> Result<()> {
        let times = [
            self.hourly.as_ref().map(|one| (one.keep, 0, one.minute)),
            self.daily.as_ref().map(|one| (one.keep, one.hour, one.minute)),
            self.weekly.as_ref().map(|one| (one.keep, one.hour, one.minute)),
            self.monthly.as_ref().map(|one| (one.keep, one.hour, one.minute)),
        ];
        if times.iter().all(Option::is_none) {
            return Err(Error::invalid("a policy without schedules", "hourly, daily, weekly, monthly"));
        }
        for (keep, hour, minute) in times.into_iter().flatten() {
            if hour > 23 || minute > 59 {
                let what = format!("the time {hour:02}:{minute:02} of a schedule");
                return Err(Error::invalid(what, "00:00 to 23:59"));
            }
            if !(1..=SNAPSHOTS_PER_VOLUME_MAX).contains(&keep) {
                let what = format!("{keep} snapshots to keep");
                return Err(Error::invalid(what, format!("1 to {SNAPSHOTS_PER_VOLUME_MAX}")));
            }
        }
        if self.weekly.as_ref().is_some_and(|weekly| weekly.days.is_empty()) {
            return Err(Error::invalid("a weekly schedule without days", "monday to sunday"));
        }
        let is_day = |day: &u8| (1..=31).contains(day);
        if self.monthly.as_ref().is_some_and(|one| one.days.is_empty() || !one.days.iter().all(is_day)) {
            let what = "a monthly schedule without days, or with other days than a month has";
            return Err(Error::invalid(what, "1 to 31"));
        }
        Ok(())
    }
}

impl Zone {
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last time up to `now_ms` at which the clocks show this minute.
    fn last_minute(&self, minute: u8, now_ms: u64) -> Option<u64> {
        let now = now_ms / MINUTE_MS * MINUTE_MS;
        let at = |minutes: u64| {
            let ms = now.checked_sub(minutes * MINUTE_MS)?;
            let shown = self.zone.to_datetime(timestamp(ms)?).minute();
            (i8::try_from(minute) == Ok(shown)).then_some(ms)
        };
        let shown = u64::try_from(self.zone.to_datetime(timestamp(now)?).minute()).ok()?;
        let back = (shown + 60 - u64::from(minute)) % 60;
        let then = now.checked_sub(back * MINUTE_MS)?;
        // Clocks that were changed meanwhile can have shown it later, or earlier.
        let is_regular = self.zone.to_offset(timestamp(now)?) == self.zone.to_offset(timestamp(then)?);
        if is_regular { Some(then) } else { (0..MINUTES_BACK_MAX).find_map(at) }
    }

    /// The last time up to `now_ms` at which the clocks show `time` on one of these days.
    fn last_day(&self, time: (u8, u8), now_ms: u64, is_due: impl Fn(Date) -> bool) -> Option<u64> {
        let (hour, minute) = (i8::try_from(time.0).ok()?, i8::try_from(time.1).ok()?);
        // The day after, because the end of a gap can be on the next day.
        let mut date = self.zone.to_datetime(timestamp(now_ms)?).date().tomorrow().ok()?;
        for _ in 0..DAYS_BACK_MAX {
            if is_due(date) {
                let due = date.at(hour, minute, 0, 0);
                let due = self.zone.to_ambiguous_zoned_datetime(due).compatible().ok()?.timestamp();
                if let Ok(due) = u64::try_from(due.as_millisecond())
                    && due <= now_ms
                {
                    return Some(due);
                }
            }
            date = date.checked_sub(1.day()).ok()?;
        }
        None
    }
}

fn timestamp(ms: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl std::str::FromStr for Zone {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = |_| {
            Error::invalid(
                format!("{text:?} is not a time zone"),
                "a name of the IANA database, as in UTC or Europe/Berlin",
            )
        };
        let zone = TimeZone::get(text).map_err(unknown)?;
        Ok(Self { name: zone.iana_name().unwrap_or(text).to_owned(), zone })
    }
}

impl From<Weekday> for WeekDay {
    fn from(day: Weekday) -> Self {
        match day {
            Weekday::Monday => Self::Monday,
            Weekday::Tuesday => Self::Tuesday,
            Weekday::Wednesday => Self::Wednesday,
            Weekday::Thursday => Self::Thursday,
            Weekday::Friday => Self::Friday,
            Weekday::Saturday => Self::Saturday,
            Weekday::Sunday => Self::Sunday,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const YEARS: std::ops::Range<i16> = 2016..2026;
    const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

    /// Zones with all kinds of changes: none, by an hour, by half an hour, at midnight, of the day.
    pub(crate) const ZONES: [&str; 20] = [
        "UTC",
        "Europe/Berlin",
        "Europe/London",
        "Europe/Dublin",
        "Europe/Moscow",
        "America/New_York",
        "America/Los_Angeles",
        "America/St_Johns",
        "America/Sao_Paulo",
        "America/Caracas",
        "America/Havana",
        "America/Santiago",
        "Africa/Cairo",
        "Africa/Casablanca",
        "Asia/Kolkata",
        "Asia/Kathmandu",
        "Asia/Tehran",
        "Asia/Pyongyang",
        "Australia/Lord_Howe",
        "Pacific/Apia",
    ];

    fn moment(text: &str) -> u64 {
        text.parse::<Timestamp>().unwrap().as_millisecond().try_into().unwrap()
    }

    fn year(year: i16) -> u64 {
        moment(&format!("{year}-01-01T00:00:00Z"))
    }

    fn all() -> Schedules {
        Schedules {
            hourly: Some(Hourly { keep: 1, minute: 5 }),
            daily: Some(Daily { keep: 1, hour: 2, minute: 30 }),
            weekly: Some(Weekly {
                keep: 1,
                days: [WeekDay::Sunday, WeekDay::Wednesday].into(),
                hour: 0,
                minute: 0,
            }),
            monthly: Some(Monthly { keep: 1, days: [1, 15, 31].into(), hour: 23, minute: 59 }),
        }
    }

    /// All due times of a kind in [`YEARS`], found from the end to the beginning.
    fn dues(kind: SnapshotKind, zone: &Zone) -> Vec<u64> {
        let schedules = all();
        let mut at = year(YEARS.end) - 1;
        let mut dues = Vec::new();
        while let Some(due) = schedules.last_due(kind, zone, at)
            && due >= year(YEARS.start)
        {
            assert!(due <= at);
            dues.push(due);
            at = due - 1;
        }
        dues
    }

    /// The days in [`YEARS`] by the calendar of the zone.
    fn days(zone: &Zone) -> BTreeSet<Date> {
        (year(YEARS.start)..year(YEARS.end))
            .step_by(usize::try_from(DAY_MS / 4).unwrap())
            .map(|ms| zone.zone.to_datetime(timestamp(ms).unwrap()).date())
            .collect()
    }

    #[test]
    fn each_day_of_ten_years_is_due_once_in_every_zone() {
        for name in ZONES {
            let zone: Zone = name.parse().unwrap();
            let days = days(&zone);
            type IsDue = fn(&Date) -> bool;
            let kinds: [(SnapshotKind, IsDue); 3] = [
                (SnapshotKind::Daily, |_| true),
                (SnapshotKind::Weekly, |date| matches!(date.weekday(), Weekday::Sunday | Weekday::Wednesday)),
                (SnapshotKind::Monthly, |date| [1, 15, 31].contains(&date.day())),
            ];
            for (kind, is_due) in kinds {
                let found = dues(kind, &zone);
                let wanted = days.iter().filter(|date| is_due(date)).count();
                // The first and the last day of a zone may be outside of the years in UTC.
                assert!(found.len().abs_diff(wanted) <= 1, "{name} {kind}: {} of {wanted}", found.len());
                let of_days = found.iter().map(|&due| zone.zone.to_datetime(timestamp(due).unwrap()).date());
                assert_eq!(
                    of_days.collect::<BTreeSet<_>>().len(),
                    found.len(),
                    "{name} {kind}: no day twice"
                );
            }
        }
    }

    #[test]
    fn each_hour_of_ten_years_is_due_once_in_every_zone() {
        let hours = usize::try_from((year(YEARS.end) - year(YEARS.start)) / (60 * MINUTE_MS)).unwrap();
        for name in ZONES {
            let zone: Zone = name.parse().unwrap();
            let found = dues(SnapshotKind::Hourly, &zone);
            // Where clocks are changed by half an hour, an hour has the minute twice in autumn and none in spring.
            let changes = if ["Australia/Lord_Howe", "America/Caracas", "Asia/Pyongyang"].contains(&name) {
                12
            } else {
                0
            };
            assert!(found.len().abs_diff(hours) <= changes, "{name}: {} of {hours}", found.len());
        }
    }

    #[test]
    fn the_hour_that_is_skipped_or_doubled_is_due_once() {
        let zone: Zone = "Europe/Berlin".parse().unwrap();
        let schedules = all();
        let last = |text: &str| schedules.last_due(SnapshotKind::Daily, &zone, moment(text));
        // On 2025-03-30 the clocks jump from 02:00 to 03:00; on 2025-10-26 they show 02:30 twice.
        assert_eq!(last("2025-03-30T23:00:00Z"), Some(moment("2025-03-30T01:30:00Z")));
        assert_eq!(last("2025-03-30T01:29:59Z"), Some(moment("2025-03-29T01:30:00Z")));
        assert_eq!(last("2025-10-26T23:00:00Z"), Some(moment("2025-10-26T00:30:00Z")));
    }

    #[test]
    fn a_month_without_the_day_has_none() {
        let schedules = Schedules {
            monthly: Some(Monthly { keep: 1, days: [31].into(), hour: 0, minute: 0 }),
            ..Schedules::default()
        };
        let last = |text: &str| schedules.last_due(SnapshotKind::Monthly, &Zone::utc(), moment(text));
        assert_eq!(last("2026-03-30T12:00:00Z"), Some(moment("2026-01-31T00:00:00Z")));
        assert_eq!(last("2026-03-31T00:00:00Z"), Some(moment("2026-03-31T00:00:00Z")));
    }

    #[test]
    fn schedules_that_are_never_due_are_refused() {
        assert!(all().check().is_ok());
        let daily = |hour, minute, keep| Schedules {
            daily: Some(Daily { keep, hour, minute }),
            ..Schedules::default()
        };
        let weekly = Weekly { keep: 1, days: BTreeSet::new(), hour: 0, minute: 0 };
        let monthly = |days: &[u8]| Schedules {
            monthly: Some(Monthly { keep: 1, days: days.iter().copied().collect(), hour: 0, minute: 0 }),
            ..Schedules::default()
        };
        for schedules in [
            Schedules::default(),
            daily(24, 0, 1),
            daily(0, 60, 1),
            daily(0, 0, 0),
            daily(0, 0, 256),
            Schedules { weekly: Some(weekly), ..Schedules::default() },
            monthly(&[]),
            monthly(&[0]),
            monthly(&[32]),
        ] {
            assert!(schedules.check().is_err(), "{schedules:?}");
        }
        assert!("Europe/Atlantis".parse::<Zone>().unwrap_err().to_string().contains("Europe/Berlin"));
        assert_eq!("europe/berlin".parse::<Zone>().unwrap().name(), "Europe/Berlin");
    }
}
