//! Snapshots: the list of those of a file, MS-SMB2 §2.2.32.2, and the context that opens a file in one, §2.2.13.2.7.

use crate::{Decode, Encode, FileTime, Malformed, Reader, Utf16, Wire, Writer};
use std::fmt;

/// The number of UTF-16 units of a [`GmtToken`].
const TOKEN_UNITS: usize = 24;
/// The shortest `SRV_SNAPSHOT_ARRAY`, which a client with no more room gets.
pub const ARRAY_BYTES_MIN: usize = 16;
const ARRAY_HEAD_BYTES: usize = 12;
const DAY_SECONDS: i64 = 86_400;

/// `SMB2_CREATE_TIMEWARP_TOKEN`, MS-SMB2 §2.2.13.2.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct TimewarpToken {
    pub timestamp: FileTime,
}

impl TimewarpToken {
    pub const NAME: &'static [u8] = b"TWrp";
}

/// The name of a snapshot: its time in UTC, as `@GMT-2023.11.14-22.13.20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GmtToken {
    /// Seconds since 1970.
    pub seconds: i64,
}

impl fmt::Display for GmtToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.seconds.div_euclid(DAY_SECONDS));
        let of_day = self.seconds.rem_euclid(DAY_SECONDS);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "@GMT-{year:04}.{month:02}.{day:02}-{hour:02}.{minute:02}.{second:02}")
    }
}

/// Year, month and day of a day since 1970, in the Gregorian calendar.
fn date(days: i64) -> (i64, i64, i64) {
    // Years that begin in March, so that the leap day is the last; 719,468 days lie between the years 0 and 1970.
    const ERA_DAYS: i64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// `SRV_SNAPSHOT_ARRAY`, MS-SMB2 §2.2.32.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotArray<'a> {
    pub number_of_snapshots: u32,
    pub number_of_snapshots_returned: u32,
    /// The bytes of all names, also where none is returned.
    pub snap_shot_array_size: u32,
    /// The names ([`GmtToken`]), each terminated by a zero, with one more zero at the end. Empty if none is returned.
    pub snapshots: Utf16<'a>,
}

impl SnapshotArray<'_> {
    /// The bytes of the names of `count` snapshots.
    pub fn names_bytes(count: usize) -> usize {
        count.saturating_mul(2 * (TOKEN_UNITS + 1)).saturating_add(2)
    }

    /// The bytes of the structure with the names of `count` snapshots.
    pub fn whole_bytes(count: usize) -> usize {
        (ARRAY_HEAD_BYTES + Self::names_bytes(count)).max(ARRAY_BYTES_MIN)
    }

    /// Encodes names for [`SnapshotArray::snapshots`].
    pub fn names(tokens: impl Iterator<Item = GmtToken>) -> Vec<u8> {
        let texts = tokens.map(|token| format!("{token}\0"));
        let units = texts.flat_map(|text| text.encode_utf16().collect::<Vec<_>>()).chain([0]);
        units.flat_map(u16::to_le_bytes).collect()
    }
}

impl Encode for SnapshotArray<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let start = w.position();
        for number in [self.number_of_snapshots, self.number_of_snapshots_returned, self.snap_shot_array_size]
        {
            number.encode(w);
        }
        w.bytes(self.snapshots.bytes());
        w.zeros(ARRAY_BYTES_MIN.saturating_sub(w.position() - start));
    }
}

impl<'a> Decode<'a> for SnapshotArray<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut number = || u32::decode(r);
        let (all, returned, bytes) = (number()?, number()?, number()?);
        let length = if returned == 0 { 0 } else { usize::try_from(bytes).unwrap_or(usize::MAX) };
        let snapshots = Utf16::new(r.bytes(length)?)?;
        // Pads a structure without names.
        r.skip((ARRAY_BYTES_MIN - ARRAY_HEAD_BYTES).saturating_sub(length))?;
        Ok(Self {
            number_of_snapshots: all,
            number_of_snapshots_returned: returned,
            snap_shot_array_size: bytes,
            snapshots,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_the_time_in_utc() {
        for (seconds, text) in [
            (0, "@GMT-1970.01.01-00.00.00"),
            (-1, "@GMT-1969.12.31-23.59.59"),
            (951_782_400, "@GMT-2000.02.29-00.00.00"),
            (1_700_000_000, "@GMT-2023.11.14-22.13.20"),
            (4_107_542_399, "@GMT-2100.02.28-23.59.59"),
            (4_107_542_400, "@GMT-2100.03.01-00.00.00"),
        ] {
            assert_eq!(GmtToken { seconds }.to_string(), text);
        }
    }

    #[test]
    fn array_counts_names_that_it_does_not_hold() {
        let size = u32::try_from(SnapshotArray::names_bytes(2)).unwrap();
        let none = SnapshotArray {
            number_of_snapshots: 2,
            number_of_snapshots_returned: 0,
            snap_shot_array_size: size,
            snapshots: Utf16::EMPTY,
        };
        assert_eq!(none.to_bytes(), [2, 0, 0, 0, 0, 0, 0, 0, 102, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(SnapshotArray::from_bytes(&none.to_bytes()), Ok(none));
        let names = SnapshotArray::names([0, 1].map(|seconds| GmtToken { seconds }).into_iter());
        let snapshots = Utf16::new(&names).unwrap();
        let all = SnapshotArray { number_of_snapshots_returned: 2, snapshots, ..none };
        assert_eq!((names.len(), all.to_bytes().len()), (102, SnapshotArray::whole_bytes(2)));
        assert_eq!(SnapshotArray::from_bytes(&all.to_bytes()), Ok(all));
        assert!(names.starts_with(b"@\0G\0M\0T\0-\0") && names.ends_with(&[0; 4]));
        assert!(SnapshotArray::from_bytes(&all.to_bytes()[..100]).is_err());
    }
}
