//! The time that clients keep their state: without a sign of life, and over a restart.

use crate::exit::usage;
use crate::number::{self, whole};
use clap::Args;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A lease of NFSv4, unless something else is asked for.
pub(crate) const LEASE_S: u32 = 30;
/// The leases that there may be: within the shortest a client renews in time, and the longest is more than anybody waits for a lock.
pub(crate) const LEASES_S: RangeInclusive<u32> = 5..=3600;

/// The times of a lease and of the grace period.
#[derive(Clone, Debug, Args)]
pub(crate) struct LeaseArgs {
    /// Seconds that an NFSv4 client keeps its state without a sign of life, 5 to 3600; then other clients may take it
    #[arg(long, default_value_t = LEASE_S, value_name = "SECONDS", hide_short_help = true, value_parser = whole::<u32>(LEASES_S))]
    pub(crate) lease: u32,
    /// Seconds after a start in which clients reclaim their locks, and no client gets new ones, at least as long as the lease; 0
    /// for none [default: 1.5 times the lease, 45]
    #[arg(long, value_name = "SECONDS", hide_short_help = true, value_parser = whole::<u32>(0..=*LEASES_S.end()))]
    pub(crate) grace_period: Option<u32>,
}

impl Default for LeaseArgs {
    fn default() -> Self {
        Self { lease: LEASE_S, grace_period: None }
    }
}

impl LeaseArgs {
    /// Whether these times go together.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Self { lease, grace_period } = self;
        if !LEASES_S.contains(lease) {
            return Err(usage(format!("--lease is {lease}; {}", number::allowed(&LEASES_S))));
        }
        let grace_periods = *lease..=*LEASES_S.end();
        if let Some(grace @ 1..) = grace_period.filter(|grace| !grace_periods.contains(grace)) {
            return Err(usage(format!(
                "--grace-period is {grace}; {}, so that every client of a lease of {lease} seconds notices the restart in time, \
                 or 0 for none",
                number::allowed(&grace_periods)
            )));
        }
        Ok(())
    }

    /// The time after a start in which clients may reclaim their state.
    pub(crate) fn grace(&self) -> Duration {
        let grace = self.grace_period.unwrap_or(self.lease.div_ceil(2) + self.lease);
        Duration::from_secs(grace.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lease: u32, grace_period: Option<u32>) -> Result<u64, String> {
        let times = LeaseArgs { lease, grace_period };
        times.check().map_err(|error| error.to_string())?;
        Ok(times.grace().as_secs())
    }

    #[test]
    fn the_grace_period_is_half_as_long_again_as_the_lease_or_as_asked() {
        assert_eq!(check(30, None), Ok(45));
        assert_eq!(check(5, None), Ok(8));
        assert_eq!(check(3600, None), Ok(5400));
        assert_eq!(check(90, Some(90)), Ok(90));
        assert_eq!(check(90, Some(0)), Ok(0));
    }

    #[test]
    fn times_that_do_not_go_together_are_refused_with_what_is_allowed() {
        let said = check(4, None).unwrap_err();
        assert_eq!(said, "--lease is 4; allowed: a whole number from 5 to 3600");
        assert!(check(3601, Some(0)).unwrap_err().starts_with("--lease is 3601; "));
        let short = check(30, Some(29)).unwrap_err();
        assert!(
            short.starts_with("--grace-period is 29; allowed: a whole number from 30 to 3600"),
            "{short}"
        );
        assert!(check(30, Some(u32::MAX)).is_err());
    }
}
