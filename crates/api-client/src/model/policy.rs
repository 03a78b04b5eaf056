//! Policies: schedules of snapshots, or of backups.

use super::words::words;
use super::{NAME, SNAPSHOTS_MAX, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// A day of the week.
    WeekDay {
        /// Monday.
        Monday = "monday",
        /// Tuesday.
        Tuesday = "tuesday",
        /// Wednesday.
        Wednesday = "wednesday",
        /// Thursday.
        Thursday = "thursday",
        /// Friday.
        Friday = "friday",
        /// Saturday.
        Saturday = "saturday",
        /// Sunday.
        Sunday = "sunday",
    }
}

/// A policy: schedules by which the service makes snapshots or backups of volumes, and deletes them beyond the number to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Name.
    pub name: String,
    /// The vault of its backups. Without one it makes snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<String>,
    /// Whether its schedules run.
    pub enabled: bool,
    /// The time zone of its schedules, by its name in the IANA database.
    pub time_zone: String,
    /// Snapshots each hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hourly: Option<HourlySchedule>,
    /// Snapshots each day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily: Option<DailySchedule>,
    /// Snapshots on days of the week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekly: Option<WeeklySchedule>,
    /// Snapshots on days of the month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monthly: Option<MonthlySchedule>,
    /// The volumes that have it.
    pub volumes: Vec<String>,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its last change.
    pub changed: Timestamp,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A snapshot each hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HourlySchedule {
    /// Snapshots to keep.
    #[schemars(range(min = 1, max = SNAPSHOTS_MAX))]
    pub keep: u32,
    /// Minute of the hour; 0 if left out.
    #[serde(default)]
    #[schemars(range(max = 59))]
    pub minute: u8,
}

/// A snapshot each day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DailySchedule {
    /// Snapshots to keep.
    #[schemars(range(min = 1, max = SNAPSHOTS_MAX))]
    pub keep: u32,
    /// Hour of the day; 0 if left out.
    #[serde(default)]
    #[schemars(range(max = 23))]
    pub hour: u8,
    /// Minute of the hour; 0 if left out.
    #[serde(default)]
    #[schemars(range(max = 59))]
    pub minute: u8,
}

/// A snapshot on days of the week.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeeklySchedule {
    /// Snapshots to keep.
    #[schemars(range(min = 1, max = SNAPSHOTS_MAX))]
    pub keep: u32,
    /// Days; Sunday if left out.
    #[serde(default = "sunday", deserialize_with = "distinct")]
    #[schemars(length(min = 1, max = 7), extend("uniqueItems" = true))]
    pub days: Vec<WeekDay>,
    /// Hour of the day; 0 if left out.
    #[serde(default)]
    #[schemars(range(max = 23))]
    pub hour: u8,
    /// Minute of the hour; 0 if left out.
    #[serde(default)]
    #[schemars(range(max = 59))]
    pub minute: u8,
}

/// A snapshot on days of the month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MonthlySchedule {
    /// Snapshots to keep.
    #[schemars(range(min = 1, max = SNAPSHOTS_MAX))]
    pub keep: u32,
    /// Days; the first if left out. A month that lacks a day has no snapshot on it.
    #[serde(default = "first", deserialize_with = "distinct")]
    #[schemars(length(min = 1, max = 31), inner(range(min = 1, max = 31)), extend("uniqueItems" = true))]
    pub days: Vec<u8>,
    /// Hour of the day; 0 if left out.
    #[serde(default)]
    #[schemars(range(max = 23))]
    pub hour: u8,
    /// Minute of the hour; 0 if left out.
    #[serde(default)]
    #[schemars(range(max = 59))]
    pub minute: u8,
}

/// A policy to create. It needs a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// Name.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"nightly")]
    pub name: String,
    /// The vault of its backups; without one it makes snapshots. It never changes.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub vault: Option<String>,
    /// Whether its schedules run: true if left out.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// The time zone of its schedules, by its name in the IANA database; UTC if left out. Names of snapshots are in UTC.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64), example = &"Europe/Berlin")]
    pub time_zone: String,
    /// Snapshots each hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly: Option<HourlySchedule>,
    /// Snapshots each day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily: Option<DailySchedule>,
    /// Snapshots on days of the week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weekly: Option<WeeklySchedule>,
    /// Snapshots on days of the month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly: Option<MonthlySchedule>,
}

/// Changes of a policy. Omitted properties keep their values; `null` removes a schedule. A schedule replaces the old one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPatch {
    /// Whether its schedules run.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub enabled: Option<bool>,
    /// New time zone of its schedules.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// New hourly schedule.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<HourlySchedule>")]
    pub hourly: Option<Option<HourlySchedule>>,
    /// New daily schedule.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DailySchedule>")]
    pub daily: Option<Option<DailySchedule>>,
    /// New weekly schedule.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WeeklySchedule>")]
    pub weekly: Option<Option<WeeklySchedule>>,
    /// New monthly schedule.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<MonthlySchedule>")]
    pub monthly: Option<Option<MonthlySchedule>>,
}

/// Reads a list of one or more days, each once.
fn distinct<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + PartialEq,
{
    let days = Vec::<T>::deserialize(from)?;
    if days.is_empty() {
        return Err(serde::de::Error::custom("is an empty array; allowed: one day or more"));
    }
    if days.iter().enumerate().any(|(place, day)| days[..place].contains(day)) {
        return Err(serde::de::Error::custom("has a day twice; allowed: each day once"));
    }
    Ok(days)
}

fn enabled() -> bool {
    true
}

fn utc() -> String {
    "UTC".to_owned()
}

fn sunday() -> Vec<WeekDay> {
    vec![WeekDay::Sunday]
}

fn first() -> Vec<u8> {
    vec![1]
}
