//! The cost of a choice, by a table of the user. No provider's prices are shipped: they differ by region, contract and day.

use super::layout::Candidate;
use crate::{BytesPerSecond, Iops, Level, Pool, ProvisionedIops, grouped};
use serde::Serialize;

/// Prices of levels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prices {
    /// For people, as in `EUR`.
    pub currency: String,
    pub levels: Vec<(Level, Price)>,
}

/// The price of a level per month, in millionths of the currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Price {
    /// Per GiB of pool or instance.
    pub per_gib: u64,
    /// Per MiB/s of throughput set for the pool, beyond the included throughput.
    pub per_mib_per_s: u64,
    /// Throughput included in each pool.
    pub included_throughput: BytesPerSecond,
    /// Per operation per second set for the pool or the instance, beyond the operations that are included here or that
    /// come with the pool's throughput.
    pub per_iops: u64,
    /// Operations per second included in each pool.
    pub included_iops: Iops,
}

/// A cost per month.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cost {
    /// Millionths of the currency.
    pub millionths: u64,
    pub currency: String,
}

impl Cost {
    pub(super) fn minus(self, less: &Self) -> Self {
        Self { millionths: self.millionths.saturating_sub(less.millionths), ..self }
    }

    /// The number without the currency, rounded up to a hundredth.
    pub fn amount(&self) -> String {
        let hundredths = self.millionths.div_ceil(10_000);
        format!("{}.{:02}", grouped(hundredths / 100), hundredths % 100)
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.amount(), self.currency)
    }
}

/// Operations that a pool has by its throughput alone. An instance with operations that are set has no others.
fn included_iops(pool: &Pool) -> Iops {
    if pool.level.info().is_instance {
        return Iops(0);
    }
    let mut without = pool.clone();
    without.settings.iops = None;
    without.limits().ok().and_then(|limits| limits.total.combined_iops).unwrap_or_default()
}

impl Prices {
    pub(super) fn of(&self, candidate: &Candidate) -> Option<Cost> {
        let pool = &candidate.pool;
        let (_, price) = self.levels.iter().find(|(level, _)| *level == pool.level)?;
        let settings = &pool.settings;
        let throughput =
            settings.throughput.map_or(0, |set| set.0.saturating_sub(price.included_throughput.0));
        let operations = match settings.iops {
            Some(ProvisionedIops::Fixed(iops)) => {
                iops.0.saturating_sub(price.included_iops.max(included_iops(pool)).0)
            }
            Some(ProvisionedIops::PerTib(_)) | None => 0,
        };
        let parts = [
            (pool.size.0, price.per_gib, 1 << 30),
            (throughput, price.per_mib_per_s, 1 << 20),
            (operations, price.per_iops, 1),
        ];
        let pool: u128 =
            parts.iter().map(|&(amount, price, per)| u128::from(amount) * u128::from(price) / per).sum();
        let all = pool.saturating_mul(u128::from(candidate.pools));
        Some(Cost { millionths: u64::try_from(all).unwrap_or(u64::MAX), currency: self.currency.clone() })
    }

    /// A caveat that the price favors several pools, because each includes some throughput.
    pub(super) fn of_several_pools(&self, candidate: &Candidate) -> Option<String> {
        let (_, price) = self.levels.iter().find(|(level, _)| *level == candidate.pool.level)?;
        let included = price.included_throughput;
        (candidate.pools > 1 && included.0 > 0).then(|| {
            format!(
                "Each of the {} pools includes {included:#} in its price, which favors several pools; --volumes 1 gives \
                 one pool.",
                candidate.pools
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Volume};

    #[test]
    fn operations_that_come_with_the_throughput_cost_nothing() {
        let price = Price { per_iops: 1_000_000, ..Price::default() };
        let levels = vec![(Level::GcnvFlexCustom, price), (Level::FilestoreZonal, price)];
        let prices = Prices { currency: "EUR".to_owned(), levels };
        let cost = |level, throughput: Option<u64>, iops: u64| {
            let mut pool = Pool::new(level, Bytes::tib(2));
            pool.settings.throughput = throughput.map(BytesPerSecond::mib);
            pool.settings.iops = Some(ProvisionedIops::Fixed(Iops(iops)));
            let candidate = Candidate { pools: 1, pool, per_pool: 1, volume: Volume::new(Bytes::tib(2)) };
            prices.of(&candidate).unwrap().millionths / 1_000_000
        };
        // 1,024 operations with 64 MiB/s, and 16 with each further MiB/s.
        assert_eq!(cost(Level::GcnvFlexCustom, Some(64), 1_524), 500);
        assert_eq!(cost(Level::GcnvFlexCustom, Some(164), 2_624), 0);
        assert_eq!(cost(Level::GcnvFlexCustom, Some(164), 3_000), 376);
        assert_eq!(cost(Level::FilestoreZonal, None, 9_000), 9_000, "all that are set");
    }
}
