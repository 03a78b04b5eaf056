//! The next steps up of the pools of a plan, with their cost.

use super::super::raise::{RaiseStep, next_level};
use super::super::size_to_buy;
use super::{Catalog, Cost, Member, PlanOption, PlannedPool, Workload, restricted, shared};
use crate::{Level, Pool};

/// A step up of each pool of one kind, for the same workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRaise {
    pub step: RaiseStep,
    /// One of the pools after the step.
    pub pool: Pool,
    /// The additional cost of all such pools per month; `None` without a price.
    pub more: Option<Cost>,
}

impl PoolRaise {
    /// The next size or level, with the additional cost: `6 TiB: +204.80 EUR`.
    pub fn in_words(&self) -> String {
        let what = match self.step {
            RaiseStep::Size => size_to_buy(self.pool.size),
            RaiseStep::Level => self.pool.level.name().to_owned(),
        };
        let more = self.more.as_ref().map_or_else(|| "no price".to_owned(), |more| format!("+{more}"));
        format!("{what}: {more}")
    }
}

impl PlanOption {
    /// The steps up that exist for each kind of its pools. The order of `workloads` must be that of the plan.
    pub fn raises(&self, workloads: &[(String, Workload)], catalog: &Catalog) -> Vec<Vec<PoolRaise>> {
        self.pools.iter().map(|pool| pool.raises(workloads, catalog)).collect()
    }
}

impl PlannedPool {
    fn raises(&self, workloads: &[(String, Workload)], catalog: &Catalog) -> Vec<PoolRaise> {
        let members: Vec<Member<'_>> = self
            .volumes
            .iter()
            .filter_map(|volume| {
                let (name, workload) = workloads.get(volume.workload)?;
                Some(Member { place: volume.workload, name, workload })
            })
            .collect();
        if let ([volume], [member]) = (self.volumes.as_slice(), members.as_slice()) {
            let raises = volume.choice.raises(member.workload, catalog).into_iter();
            return raises
                .map(|raise| PoolRaise { step: raise.step, pool: raise.choice.pool, more: raise.more })
                .collect();
        }
        let Some(first) = self.volumes.first() else { return Vec::new() };
        let level = self.pool.level;
        let size = first.choice.next_pool_size().map(|size| (RaiseStep::Size, level, size));
        let up = next_level(level).map(|level| (RaiseStep::Level, level, self.pool.size));
        let raise = |(step, level, size): (RaiseStep, Level, _)| {
            let own = restricted(catalog, level);
            let raised = shared::of_size(level, size, &self.pool, &members, &own)?;
            let more = raised.cost.zip(self.cost.as_ref()).map(|(cost, least)| cost.minus(least));
            Some(PoolRaise { step, pool: raised.pool, more })
        };
        size.into_iter().chain(up).filter_map(raise).collect()
    }
}
