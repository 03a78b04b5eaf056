//! The next steps up from a choice: the next size of its pools, and the next level.

use super::layout::{Layout, ThroughputSource};
use super::{Bound, Catalog, Choice, Cost, Workload};
use crate::{Bytes, BytesPerSecond, Iops, Level, Owner, Provider, Qos, Range};
use serde::Serialize;

/// Levels of one service that differ in speed alone, the slowest first.
const LADDERS: [&[Level]; 3] = [
    &[Level::AnfStandard, Level::AnfPremium, Level::AnfUltra],
    &[Level::GcnvStandard, Level::GcnvPremium, Level::GcnvExtreme],
    &[Level::FilestoreBasicHdd, Level::FilestoreBasicSsd],
];

/// A step up, as a choice for the same workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Raise {
    pub step: RaiseStep,
    pub choice: Choice,
    /// The additional cost per month; `None` without a price.
    pub more: Option<Cost>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RaiseStep {
    /// The next size of each pool or instance.
    Size,
    /// The next level, at the same size.
    Level,
}

impl Choice {
    /// The load that it carries with all settings at their maximum; `None` if they are, or if nothing is set.
    pub fn raisable_load(&self, workload: &Workload) -> Option<(BytesPerSecond, Iops)> {
        self.of_kind(Bound::Setting)?;
        let of_load = |one: &&super::Constraint| one.kind.is_of_load() && one.kind != Bound::Setting;
        let bound = self.constraints.iter().filter(of_load).max_by_key(|one| one.used)?;
        let load = super::choice::scaled_load(&self.needed(workload), bound.used);
        let set = self.maximum_load(workload)?;
        (load.0 > set.0).then_some(load)
    }

    /// The steps up that exist for this choice.
    pub fn raises(&self, workload: &Workload, catalog: &Catalog) -> Vec<Raise> {
        let next_size = self.next_pool_size().and_then(|size| self.at(self.level(), size, workload, catalog));
        let next_level =
            next_level(self.level()).and_then(|level| self.at(level, self.pool.size, workload, catalog));
        let raise = |step, choice: Choice| Raise { step, more: choice.cost_over(self), choice };
        let size = next_size.map(|choice| raise(RaiseStep::Size, choice));
        size.into_iter().chain(next_level.map(|choice| raise(RaiseStep::Level, choice))).collect()
    }

    fn cost_over(&self, lower: &Self) -> Option<Cost> {
        Some(self.cost.clone()?.minus(lower.cost.as_ref()?))
    }

    pub(super) fn next_pool_size(&self) -> Option<Bytes> {
        let sizes = self.pool.sizes()?;
        let next = sizes.ranges.iter().filter_map(|range| {
            let steps = (self.pool.size.0 + 1).saturating_sub(range.min.0).div_ceil(range.step.0);
            let next = range.min.0.checked_add(steps.checked_mul(range.step.0)?)?;
            (next <= range.max.0).then_some(Bytes(next))
        });
        next.min()
    }

    /// Equal pools and volumes at this level and size of each pool. Volumes that get their throughput from
    /// their size fill the pool.
    fn at(&self, level: Level, pool_size: Bytes, workload: &Workload, catalog: &Catalog) -> Option<Self> {
        let throughput_source = self.throughput_source(level);
        let own = Layout {
            level,
            large: self.volume.settings.large,
            pools: self.pools,
            per_pool: self.volumes_per_pool,
            throughput_source,
        };
        let size = match throughput_source {
            ThroughputSource::VolumeSize => {
                let each = Bytes(pool_size.0 / u64::from(self.volumes_per_pool.max(1)));
                own.ranges(catalog).iter().filter_map(|range| at_most(range, each)).max()?
            }
            _ => pool_size,
        };
        let candidate = own.at(size, workload, catalog)?;
        let is_up = candidate.pool.size > self.pool.size || candidate.pool.level != self.level();
        is_up.then_some(candidate).and_then(|candidate| Self::of(candidate, workload, catalog).ok())
    }

    fn throughput_source(&self, level: Level) -> ThroughputSource {
        let info = level.info();
        let is_manual = self.pool.qos() == Qos::Manual && info.qos.contains(&Qos::Manual);
        match info.owner {
            _ if info.provider == Provider::Plimsoll => ThroughputSource::Declared,
            _ if info.is_instance && self.pool.settings.iops.is_some() && info.settable.iops => {
                ThroughputSource::Bought
            }
            Owner::Pool if !info.is_instance && info.settable.throughput => ThroughputSource::Bought,
            Owner::Volume if !info.is_instance && is_manual => ThroughputSource::Manual,
            Owner::Volume if !info.is_instance => ThroughputSource::VolumeSize,
            Owner::Pool | Owner::Volume => ThroughputSource::PoolSize,
        }
    }
}

/// The next faster level of the same service.
pub(super) fn next_level(level: Level) -> Option<Level> {
    LADDERS.iter().find_map(|ladder| {
        let own = ladder.iter().position(|one| *one == level)?;
        ladder.get(own + 1).copied()
    })
}

/// The greatest size of a range within `size`.
fn at_most(range: &Range<Bytes>, size: Bytes) -> Option<Bytes> {
    let steps = size.0.checked_sub(range.min.0)? / range.step.0.max(1);
    Some(Bytes(range.min.0 + steps * range.step.0).min(range.max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Price, Prices, Stream, advise};

    fn first(level: Level, mib: u64) -> (Workload, Catalog, Choice) {
        let rate = BytesPerSecond::mib(mib);
        let stream =
            Stream { access: Access::Sequential, block: Bytes(65_536), read_thousandths: 1000, rate };
        let workload = Workload { streams: vec![stream], ..Workload::new(Bytes::tib(4)) };
        let price = |per_gib| Price { per_gib, ..Price::default() };
        let levels = vec![(Level::AnfPremium, price(200_000)), (Level::AnfUltra, price(300_000))];
        let prices = Some(Prices { currency: "EUR".to_owned(), levels });
        let catalog = Catalog { prices, large: Some(false), ..Catalog::of([level]) };
        let choice = advise(&workload, &catalog).unwrap().options.remove(0);
        (workload, catalog, choice)
    }

    #[test]
    fn next_size_and_next_level_cost_more_and_carry_more() {
        let (workload, catalog, choice) = first(Level::AnfPremium, 50);
        let raises = choice.raises(&workload, &catalog);
        let shown: Vec<_> =
            raises.iter().map(|raise| (raise.step, raise.choice.pool.size, raise.choice.level())).collect();
        assert_eq!(
            shown,
            [
                (RaiseStep::Size, Bytes::tib(5), Level::AnfPremium),
                (RaiseStep::Level, Bytes::tib(4), Level::AnfUltra)
            ]
        );
        // 1 TiB at 0.20 per GiB, and 4 TiB at 0.10 more.
        let more: Vec<u64> = raises.iter().map(|raise| raise.more.as_ref().unwrap().millionths).collect();
        assert_eq!(more, [204_800_000, 409_600_000]);
        for raise in &raises {
            assert!(raise.choice.maximum_load(&workload) > choice.maximum_load(&workload), "{raise:?}");
        }
    }

    #[test]
    fn set_throughput_can_be_raised_and_size_alone_cannot() {
        let (workload, _, choice) = first(Level::AnfFlexible, 20);
        let set = choice.maximum_load(&workload).unwrap().0;
        assert_eq!(set, choice.volume.settings.throughput.unwrap(), "carries what is set");
        assert!(choice.raisable_load(&workload).is_some_and(|(rate, _)| rate > set));
        let (workload, _, choice) = first(Level::AnfUltra, 200);
        assert_eq!(choice.raisable_load(&workload), None);
    }

    #[test]
    fn every_option_of_every_level_has_sound_steps() {
        let (workload, _, _) = first(Level::AnfPremium, 100);
        let catalog = Catalog::default();
        for choice in advise(&workload, &catalog).unwrap().options {
            for raise in choice.raises(&workload, &catalog) {
                assert!(raise.choice.pool.limits().is_ok());
                assert!(raise.choice.capacity() >= choice.capacity(), "{raise:?}");
            }
        }
    }
}
