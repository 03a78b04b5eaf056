//! Times as texts (RFC 3339), in UTC and to the millisecond.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A moment, written as `2026-01-31T09:05:00.250Z`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub String);

impl Timestamp {
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self::from_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn from_ms(ms: u64) -> Self {
        let (days, in_day) = (ms / 86_400_000, ms % 86_400_000);
        let (year, month, day) = civil(days);
        let (s, ms) = (in_day / 1000, in_day % 1000);
        Self(format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z",
            s / 3600,
            s / 60 % 60,
            s % 60
        ))
    }
}

impl Timestamp {
    /// Milliseconds since 1970 of a time as [`Timestamp::from_ms`] writes it, with or without a fraction; `None` if it is not one.
    pub fn to_ms(&self) -> Option<u64> {
        let (date, time) = self.0.strip_suffix('Z')?.split_once('T')?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [hours, minutes, seconds] = numbers(time, ':', [2, 2, 2])?;
        let [fraction_ms] = numbers(fraction, '.', [fraction.len().clamp(1, 3)])?;
        let fraction_ms = fraction_ms * [1, 100, 10, 1][fraction.len()];
        let days = days_of(year, month, day)?;
        if civil(days) != (year, month, day) || hours > 23 || minutes > 59 || seconds > 59 {
            return None;
        }
        Some((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms)
    }
}

/// Numbers with these many digits, with a separator between them.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        *number = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

/// The inverse of [`civil`], also for days that their month does not have; `None` before 1970.
fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    let (year, shifted) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * shifted + 2) / 5 + day - 1;
    days.checked_sub(719_468)
}

/// The date of a day since 1970, in the Gregorian calendar. Years are counted from March on, so that the leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    // Days since the first of March of the year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time", "examples": ["2026-01-31T09:05:00.250Z"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_their_dates() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_767_225_599_001, "2025-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::from_ms(ms).to_string(), text);
            assert_eq!(Timestamp(text.to_owned()).to_ms(), Some(ms));
        }
        assert_eq!(Timestamp("1970-01-01T00:00:01Z".to_owned()).to_ms(), Some(1_000));
        assert_eq!(Timestamp("1970-01-01T00:00:00.5Z".to_owned()).to_ms(), Some(500));
    }

    #[test]
    fn texts_that_are_no_moments_are_refused() {
        for text in [
            "",
            "2026-01-31",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "1969-12-31T00:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T00:60:00Z",
            "2026-01-31T00:00:60Z",
            "2026-01-31T00:00:00",
            "2026-01-31T00:00:00+01:00",
            "2026-01-31T00:00:00.Z",
            "2026-01-31T00:00:00.1234Z",
            "2026-1-31T00:00:00Z",
            "+026-01-31T00:00:00Z",
        ] {
            assert_eq!(Timestamp(text.to_owned()).to_ms(), None, "{text}");
        }
    }
}
