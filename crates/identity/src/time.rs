use std::time::Duration;

/// `FILETIME`, MS-DTYP §2.3.3: steps of 100 ns since 1601-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime(pub u64);

impl FileTime {
    const UNIX_EPOCH_SECONDS: u64 = 11_644_473_600;
    const STEPS_PER_SECOND: u64 = 10_000_000;

    /// The time `since` after 1970-01-01 UTC, saturating.
    pub fn from_unix(since: Duration) -> Self {
        let seconds = since.as_secs().saturating_add(Self::UNIX_EPOCH_SECONDS);
        Self(
            seconds
                .saturating_mul(Self::STEPS_PER_SECOND)
                .saturating_add(u64::from(since.subsec_nanos() / 100)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_epoch_converts_to_filetime() {
        assert_eq!(FileTime::from_unix(Duration::ZERO), FileTime(116_444_736_000_000_000));
        assert_eq!(FileTime::from_unix(Duration::from_nanos(1_250)), FileTime(116_444_736_000_000_012));
        assert_eq!(FileTime::from_unix(Duration::MAX), FileTime(u64::MAX));
    }
}
