//! The schedules of a policy as flags and in words.

use crate::exit::usage;
use crate::number::whole;
use api_client::model::{
    DailySchedule, HourlySchedule, MonthlySchedule, Policy, SNAPSHOTS_MAX, WeekDay, WeeklySchedule,
};
use clap::Args;
use std::str::FromStr;

/// The schedules of a policy.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Schedules")]
pub(super) struct ScheduleFlags {
    /// Hourly snapshots to keep
    #[arg(long, value_name = "KEEP", value_parser = whole::<u32>(1..=SNAPSHOTS_MAX))]
    hourly: Option<u32>,
    /// Minute of hourly snapshots [default: 0]
    #[arg(long, value_name = "MINUTE", value_parser = whole::<u8>(0..=59), hide_short_help = true)]
    hourly_minute: Option<u8>,
    /// Daily snapshots to keep
    #[arg(long, value_name = "KEEP", value_parser = whole::<u32>(1..=SNAPSHOTS_MAX))]
    daily: Option<u32>,
    /// Time of daily snapshots [default: 00:00]
    #[arg(long, value_name = "HH:MM")]
    daily_at: Option<DailyTime>,
    /// Weekly snapshots to keep
    #[arg(long, value_name = "KEEP", value_parser = whole::<u32>(1..=SNAPSHOTS_MAX))]
    weekly: Option<u32>,
    /// Days of weekly snapshots, with commas between them [default: sunday]
    #[arg(long, value_name = "DAY", value_delimiter = ',')]
    weekly_on: Vec<WeekDay>,
    /// Time of weekly snapshots [default: 00:00]
    #[arg(long, value_name = "HH:MM", hide_short_help = true)]
    weekly_at: Option<DailyTime>,
    /// Monthly snapshots to keep
    #[arg(long, value_name = "KEEP", value_parser = whole::<u32>(1..=SNAPSHOTS_MAX))]
    monthly: Option<u32>,
    /// Days of monthly snapshots, with commas between them [default: 1]
    #[arg(long, value_name = "DAY", value_delimiter = ',', value_parser = whole::<u8>(1..=31))]
    monthly_on: Vec<u8>,
    /// Time of monthly snapshots [default: 00:00]
    #[arg(long, value_name = "HH:MM", hide_short_help = true)]
    monthly_at: Option<DailyTime>,
}

/// A time of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DailyTime {
    pub(super) hour: u8,
    pub(super) minute: u8,
}

impl FromStr for DailyTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str, most: u8| {
            let is_two_digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|number| is_two_digits && *number <= most)
        };
        let time = text
            .split_once(':')
            .and_then(|(hour, minute)| Some(Self { hour: number(hour, 23)?, minute: number(minute, 59)? }));
        time.ok_or_else(|| "allowed: 00:00 to 23:59, like 01:30".to_owned())
    }
}

impl ScheduleFlags {
    /// The hourly schedule of these flags; what they leave out stays as `before`. `None` without flags.
    pub(super) fn hourly(&self, before: Option<HourlySchedule>) -> anyhow::Result<Option<HourlySchedule>> {
        if self.hourly.is_none() && self.hourly_minute.is_none() {
            return Ok(None);
        }
        let keep = keep("hourly", self.hourly, before.as_ref().map(|before| before.keep))?;
        let minute = self.hourly_minute.or(before.map(|before| before.minute)).unwrap_or(0);
        Ok(Some(HourlySchedule { keep, minute }))
    }

    /// The daily schedule, as [`ScheduleFlags::hourly`].
    pub(super) fn daily(&self, before: Option<DailySchedule>) -> anyhow::Result<Option<DailySchedule>> {
        if self.daily.is_none() && self.daily_at.is_none() {
            return Ok(None);
        }
        let keep = keep("daily", self.daily, before.as_ref().map(|before| before.keep))?;
        let DailyTime { hour, minute } =
            time(self.daily_at, before.map(|before| (before.hour, before.minute)));
        Ok(Some(DailySchedule { keep, hour, minute }))
    }

    /// The weekly schedule, as [`ScheduleFlags::hourly`].
    pub(super) fn weekly(&self, before: Option<WeeklySchedule>) -> anyhow::Result<Option<WeeklySchedule>> {
        if self.weekly.is_none() && self.weekly_on.is_empty() && self.weekly_at.is_none() {
            return Ok(None);
        }
        let keep = keep("weekly", self.weekly, before.as_ref().map(|before| before.keep))?;
        let at = before.as_ref().map(|before| (before.hour, before.minute));
        let DailyTime { hour, minute } = time(self.weekly_at, at);
        let days = match before {
            _ if !self.weekly_on.is_empty() => self.weekly_on.clone(),
            Some(before) => before.days,
            None => vec![WeekDay::Sunday],
        };
        Ok(Some(WeeklySchedule { keep, days, hour, minute }))
    }

    /// The monthly schedule, as [`ScheduleFlags::hourly`].
    pub(super) fn monthly(&self, before: Option<MonthlySchedule>) -> anyhow::Result<Option<MonthlySchedule>> {
        if self.monthly.is_none() && self.monthly_on.is_empty() && self.monthly_at.is_none() {
            return Ok(None);
        }
        let keep = keep("monthly", self.monthly, before.as_ref().map(|before| before.keep))?;
        let at = before.as_ref().map(|before| (before.hour, before.minute));
        let DailyTime { hour, minute } = time(self.monthly_at, at);
        let days = match before {
            _ if !self.monthly_on.is_empty() => self.monthly_on.clone(),
            Some(before) => before.days,
            None => vec![1],
        };
        Ok(Some(MonthlySchedule { keep, days, hour, minute }))
    }
}

fn keep(schedule: &str, given: Option<u32>, before: Option<u32>) -> anyhow::Result<u32> {
    let missing = || usage(format!("there is no {schedule} schedule yet: give --{schedule} KEEP too"));
    given.or(before).ok_or_else(missing)
}

fn time(given: Option<DailyTime>, before: Option<(u8, u8)>) -> DailyTime {
    let (hour, minute) = before.unwrap_or((0, 0));
    given.unwrap_or(DailyTime { hour, minute })
}

/// The schedules of a policy in words.
pub(super) fn described(policy: &Policy) -> Vec<String> {
    let Policy { hourly, daily, weekly, monthly, .. } = policy;
    let at = |hour: u8, minute: u8| format!("{hour:02}:{minute:02}");
    let hourly = hourly.as_ref().map(|of| format!("{} hourly at minute {}", of.keep, of.minute));
    let daily = daily.as_ref().map(|of| format!("{} daily at {}", of.keep, at(of.hour, of.minute)));
    let weekly = weekly.as_ref().map(|of| {
        let days: Vec<&str> = of.days.iter().map(|day| day.as_str()).collect();
        format!("{} weekly on {} at {}", of.keep, days.join(" and "), at(of.hour, of.minute))
    });
    let monthly = monthly.as_ref().map(|of| {
        let days: Vec<String> = of.days.iter().map(ToString::to_string).collect();
        format!("{} monthly on day {} at {}", of.keep, days.join(" and "), at(of.hour, of.minute))
    });
    [hourly, daily, weekly, monthly].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_hours_and_minutes() {
        assert_eq!("01:30".parse(), Ok(DailyTime { hour: 1, minute: 30 }));
        for text in ["", "1", "24:00", "01:60", "1:5", "01:00:00", "aa:bb"] {
            assert!(text.parse::<DailyTime>().is_err(), "{text}");
        }
    }
}
