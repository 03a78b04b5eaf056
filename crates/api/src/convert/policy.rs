//! Policies.

use super::{FromBody, ToBody, ToValue, version_text};
use api_client::model::{
    DailySchedule, HourlySchedule, MonthlySchedule, NewPolicy, Policy, PolicyPatch, Timestamp, WeeklySchedule,
};
use control::{Daily, Error, Hourly, Monthly, PolicyChange, Schedules, VolumeName, Weekly};

impl ToBody for (control::Policy, Vec<VolumeName>) {
    type Body = Policy;

    fn to_body(&self) -> Policy {
        let (policy, volumes) = self;
        let Schedules { hourly, daily, weekly, monthly } = &policy.schedules;
        Policy {
            name: policy.name.to_string(),
            vault: policy.vault.as_ref().map(ToString::to_string),
            enabled: policy.is_enabled,
            time_zone: policy.zone.name().to_owned(),
            hourly: hourly.as_ref().map(|of| HourlySchedule { keep: of.keep, minute: of.minute }),
            daily: daily.as_ref().map(|of| DailySchedule { keep: of.keep, hour: of.hour, minute: of.minute }),
            weekly: weekly.as_ref().map(|of| WeeklySchedule {
                keep: of.keep,
                days: of.days.iter().map(ToBody::to_body).collect(),
                hour: of.hour,
                minute: of.minute,
            }),
            monthly: monthly.as_ref().map(|of| MonthlySchedule {
                keep: of.keep,
                days: of.days.iter().copied().collect(),
                hour: of.hour,
                minute: of.minute,
            }),
            volumes: volumes.iter().map(ToString::to_string).collect(),
            created: Timestamp::from_ms(policy.created_ms),
            changed: Timestamp::from_ms(policy.changed_ms),
            version: version_text(policy.version, policy.created_ms),
        }
    }
}

impl FromBody<NewPolicy> for control::NewPolicy {
    fn from_body(of: NewPolicy) -> Result<Self, Error> {
        Ok(Self {
            name: of.name.parse()?,
            vault: of.vault.map(|vault| vault.parse()).transpose()?,
            is_enabled: of.enabled,
            zone: of.time_zone.parse()?,
            schedules: Schedules {
                hourly: of.hourly.map(hourly),
                daily: of.daily.map(daily),
                weekly: of.weekly.map(weekly),
                monthly: of.monthly.map(monthly),
            },
        })
    }
}

impl FromBody<PolicyPatch> for PolicyChange {
    fn from_body(of: PolicyPatch) -> Result<Self, Error> {
        Ok(Self {
            is_enabled: of.enabled,
            zone: of.time_zone.map(|zone| zone.parse()).transpose()?,
            hourly: of.hourly.map(|schedule| schedule.map(hourly)),
            daily: of.daily.map(|schedule| schedule.map(daily)),
            weekly: of.weekly.map(|schedule| schedule.map(weekly)),
            monthly: of.monthly.map(|schedule| schedule.map(monthly)),
        })
    }
}

fn hourly(HourlySchedule { keep, minute }: HourlySchedule) -> Hourly {
    Hourly { keep, minute }
}

fn daily(DailySchedule { keep, hour, minute }: DailySchedule) -> Daily {
    Daily { keep, hour, minute }
}

fn weekly(WeeklySchedule { keep, days, hour, minute }: WeeklySchedule) -> Weekly {
    Weekly { keep, days: days.into_iter().map(ToValue::to_value).collect(), hour, minute }
}

fn monthly(MonthlySchedule { keep, days, hour, minute }: MonthlySchedule) -> Monthly {
    Monthly { keep, days: days.into_iter().collect(), hour, minute }
}
