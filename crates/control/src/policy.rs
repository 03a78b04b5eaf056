//! Policies: schedules of snapshots, or of backups, for any number of volumes.

use crate::difference::{Difference, option, variant};
use crate::name::{PolicyName, VaultName};
use crate::schedule::{Daily, Hourly, Monthly, Schedules, Weekly, Zone};
use crate::snapshot::SnapshotKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) row: i64,
    pub name: PolicyName,
    /// Whether its schedules run.
    pub is_enabled: bool,
    /// The vault of its backups. Without one it makes snapshots.
    pub vault: Option<VaultName>,
    /// The clocks of its schedules.
    pub zone: Zone,
    pub schedules: Schedules,
    /// Due times up to this one, in milliseconds since 1970, are those of earlier schedules.
    pub(crate) since_ms: u64,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub changed_ms: u64,
}

/// A policy to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPolicy {
    pub name: PolicyName,
    pub vault: Option<VaultName>,
    pub is_enabled: bool,
    pub zone: Zone,
    pub schedules: Schedules,
}

/// Changes of a policy; `None` leaves a property as it is, `Some(None)` removes a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyChange {
    pub is_enabled: Option<bool>,
    pub zone: Option<Zone>,
    pub hourly: Option<Option<Hourly>>,
    pub daily: Option<Option<Daily>>,
    pub weekly: Option<Option<Weekly>>,
    pub monthly: Option<Option<Monthly>>,
}

/// A run of a schedule that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueRun {
    /// In milliseconds since 1970.
    pub(crate) due_ms: u64,
    /// Snapshots to retain.
    pub(crate) keep: u32,
}

impl Policy {
    /// The run of a schedule that is due now, if the last one was at `last_ms`: the last due time alone, also if several have
    /// passed.
    pub(crate) fn due_run(&self, kind: SnapshotKind, last_ms: u64, now_ms: u64) -> Option<DueRun> {
        let keep = self.schedules.keep(kind)?;
        let due_ms = self.schedules.last_due(kind, &self.zone, now_ms)?;
        (due_ms > last_ms.max(self.since_ms)).then_some(DueRun { due_ms, keep })
    }

    /// The policy after `change`, and the changed properties in words.
    pub(crate) fn changed(&self, change: &PolicyChange) -> (Self, Vec<&'static str>) {
        fn new<T: Clone>(wanted: Option<&T>, now: &T) -> T {
            wanted.unwrap_or(now).clone()
        }
        let now = &self.schedules;
        let schedules = Schedules {
            hourly: new(change.hourly.as_ref(), &now.hourly),
            daily: new(change.daily.as_ref(), &now.daily),
            weekly: new(change.weekly.as_ref(), &now.weekly),
            monthly: new(change.monthly.as_ref(), &now.monthly),
        };
        let policy = Self {
            is_enabled: change.is_enabled.unwrap_or(self.is_enabled),
            zone: new(change.zone.as_ref(), &self.zone),
            schedules,
            ..self.clone()
        };
        let all = [
            ("enabled", policy.is_enabled != self.is_enabled),
            ("time zone", policy.zone != self.zone),
            ("hourly", policy.schedules.hourly != now.hourly),
            ("daily", policy.schedules.daily != now.daily),
            ("weekly", policy.schedules.weekly != now.weekly),
            ("monthly", policy.schedules.monthly != now.monthly),
        ];
        let changes = all.into_iter().filter(|(_, is_changed)| *is_changed).map(|(property, _)| property);
        (policy, changes.collect())
    }
}

impl NewPolicy {
    /// Properties that differ from `policy`.
    pub(crate) fn differs_from(&self, policy: &Policy) -> Vec<Difference> {
        let (found, wanted) = (&policy.schedules, &self.schedules);
        let differing = [
            Difference::of("vault", &policy.vault, &self.vault, |vault| option(vault.as_ref())),
            Difference::of("enabled", &policy.is_enabled, &self.is_enabled, variant),
            Difference::of("time zone", &policy.zone, &self.zone, ToString::to_string),
            Difference::of("hourly", &found.hourly, &wanted.hourly, |_| String::new()),
            Difference::of("daily", &found.daily, &wanted.daily, |_| String::new()),
            Difference::of("weekly", &found.weekly, &wanted.weekly, |_| String::new()),
            Difference::of("monthly", &found.monthly, &wanted.monthly, |_| String::new()),
        ];
        differing.into_iter().flatten().collect()
    }
}
