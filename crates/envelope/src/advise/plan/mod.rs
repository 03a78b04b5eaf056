//! A plan for several workloads: a volume for each, in pools that they share where the level allows.

mod raise;
mod shared;
mod years;

use std::collections::BTreeSet;

use super::{Catalog, Choice, Cost, SkippedLevel, Workload, advise, size_to_buy};
use crate::source::OWN;
use crate::{Bytes, Level, Pool, Provider, Refusal};
use serde::Serialize;

pub use raise::PoolRaise;
pub use years::PlanYear;

/// A plan: options for all workloads together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// By price, then by capacity; without prices the best of each provider first.
    pub options: Vec<PlanOption>,
    pub left_out: Vec<SkippedLevel>,
}

/// Pools and volumes for all workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanOption {
    pub pools: Vec<PlannedPool>,
    /// Cost per month of all pools, if the price table has every level.
    pub cost: Option<Cost>,
}

/// Pools of one kind, and the volumes in each of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedPool {
    /// Number of such pools; 1 if workloads share it.
    pub count: u32,
    pub pool: Pool,
    pub volumes: Vec<PlannedVolume>,
    pub cost: Option<Cost>,
}

/// The volumes of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedVolume {
    /// The workload by its place, counted from 0.
    pub workload: usize,
    /// The volumes with their bounds. In a shared pool it has no cost of its own.
    pub choice: Choice,
}

/// The greatest number of workloads: one plan is one screen.
const WORKLOADS_MAX: usize = 50;

/// Plans for workloads by name. Each gets one volume, or several where one cannot carry it.
pub fn plan(workloads: &[(String, Workload)], catalog: &Catalog) -> Result<Plan, Refusal> {
    if !(1..=WORKLOADS_MAX).contains(&workloads.len()) {
        let what = format!("a plan with {} workloads", workloads.len());
        return Err(Refusal::new(what, format!("1 to {WORKLOADS_MAX}"), OWN));
    }
    catalog.check()?;
    let members: Vec<Member<'_>> = workloads
        .iter()
        .enumerate()
        .map(|(place, (name, workload))| Member { place, name, workload })
        .collect();
    let mut plan = Plan { options: Vec::new(), left_out: Vec::new() };
    for &level in &catalog.levels {
        match of_level(level, &members, catalog)? {
            Ok(pools) => plan.options.push(PlanOption::new(pools)),
            Err(why) => plan.left_out.push(SkippedLevel { level, why }),
        }
    }
    for option in mixed(&members, catalog)? {
        let same = plan.options.iter().filter(|one| one.provider() == option.provider());
        let cheapest = same.filter_map(|one| one.cost.as_ref()).map(|cost| cost.millionths).min();
        let cost = option.cost.as_ref().map(|cost| cost.millionths);
        let is_cheaper = cost.is_some_and(|cost| cheapest.is_none_or(|cheapest| cost < cheapest));
        plan.options.extend(is_cheaper.then_some(option));
    }
    sort(&mut plan.options);
    Ok(plan)
}

/// A workload of the plan.
#[derive(Clone, Copy)]
struct Member<'a> {
    place: usize,
    name: &'a str,
    workload: &'a Workload,
}

/// The pools of one level for these workloads, or the reason why there are none.
fn of_level(
    level: Level,
    members: &[Member<'_>],
    catalog: &Catalog,
) -> Result<Result<Vec<PlannedPool>, String>, Refusal> {
    let own = restricted(catalog, level);
    let mut alone: Vec<(Member<'_>, Choice)> = Vec::new();
    for member in members {
        let advice = advise(member.workload, &own)?;
        let single = advice.options.iter().position(|choice| choice.volumes() == 1).unwrap_or(0);
        match advice.options.into_iter().nth(single) {
            Some(choice) => alone.push((*member, choice)),
            None => {
                let skipped = advice.left_out.into_iter().next().map(|one| one.why);
                return Ok(Err(skipped.unwrap_or_else(|| format!("does not carry {}", member.name))));
            }
        }
    }
    let (single, several): (Vec<_>, Vec<_>) =
        alone.into_iter().partition(|(_, choice)| choice.volumes() == 1);
    let separate: Vec<PlannedPool> =
        single.iter().map(|(member, choice)| PlannedPool::alone(member.place, choice)).collect();
    let together: Vec<Member<'_>> = single.iter().map(|(member, _)| *member).collect();
    let shared = shared::pool(level, &together, &own).map(|pool| vec![pool]);
    let best = shared.filter(|shared| order(shared) <= order(&separate)).unwrap_or(separate);
    let several = several.iter().map(|(member, choice)| PlannedPool::alone(member.place, choice));
    Ok(Ok(best.into_iter().chain(several).collect()))
}

/// With prices: each workload at the level of its provider that is cheapest for it alone, where that makes a plan of
/// several levels cheaper than every plan of one.
fn mixed(members: &[Member<'_>], catalog: &Catalog) -> Result<Vec<PlanOption>, Refusal> {
    let mut options = Vec::new();
    if catalog.prices.is_none() || members.len() < 2 {
        return Ok(options);
    }
    for provider in [Provider::Anf, Provider::Gcnv, Provider::Filestore] {
        let levels = catalog.levels.iter().copied().filter(|level| level.info().provider == provider);
        let own = Catalog { levels: levels.collect(), profiles: Vec::new(), ..catalog.clone() };
        let mut cheapest: Vec<(Level, Member<'_>)> = Vec::new();
        for member in members {
            let best = advise(member.workload, &own)?.options.into_iter().next();
            cheapest.extend(best.filter(|best| best.cost.is_some()).map(|best| (best.level(), *member)));
        }
        let levels: BTreeSet<Level> = cheapest.iter().map(|(level, _)| *level).collect();
        if cheapest.len() < members.len() || levels.len() < 2 {
            continue;
        }
        let mut pools = Vec::new();
        for level in levels {
            let group: Vec<Member<'_>> =
                cheapest.iter().filter(|(own, _)| *own == level).map(|(_, member)| *member).collect();
            pools.extend(of_level(level, &group, catalog)?.unwrap_or_default());
        }
        let complete = pools.iter().map(|pool| pool.volumes.len()).sum::<usize>() == members.len();
        options.extend(complete.then(|| PlanOption::new(pools)));
    }
    Ok(options)
}

/// The catalog with one level, and with the profiles that change it.
fn restricted(catalog: &Catalog, level: Level) -> Catalog {
    restricted_to(catalog, vec![level])
}

fn restricted_to(catalog: &Catalog, levels: Vec<Level>) -> Catalog {
    let changes =
        |profile: &&crate::Profile| profile.info().levels.iter().any(|(one, _)| levels.contains(one));
    let profiles = catalog.profiles.iter().filter(changes).copied().collect();
    Catalog { levels, profiles, ..catalog.clone() }
}

/// The cost, then the capacity, then the number of pools.
fn order(pools: &[PlannedPool]) -> (u64, Bytes, u32) {
    let cost = total_cost(pools).map_or(u64::MAX, |cost| cost.millionths);
    let capacity = pools.iter().fold(0, |sum: u64, pool| sum.saturating_add(pool.capacity().0));
    (cost, Bytes(capacity), pools.iter().map(|pool| pool.count).sum())
}

fn total_cost(pools: &[PlannedPool]) -> Option<Cost> {
    let mut total: Option<Cost> = None;
    for pool in pools {
        let cost = pool.cost.clone()?;
        total = Some(match total {
            Some(sum) => Cost { millionths: sum.millionths.saturating_add(cost.millionths), ..cost },
            None => cost,
        });
    }
    total
}

fn sort(options: &mut Vec<PlanOption>) {
    options.sort_by_key(|option| order(&option.pools));
    if options.iter().any(|option| option.cost.is_some()) {
        return;
    }
    let mut leaders: Vec<Provider> = Vec::new();
    let (best, rest): (Vec<PlanOption>, Vec<PlanOption>) =
        std::mem::take(options).into_iter().partition(|option| {
            let provider = option.provider();
            let is_first = provider.is_some_and(|provider| !leaders.contains(&provider));
            leaders.extend(provider.filter(|_| is_first));
            is_first
        });
    options.extend(best);
    options.extend(rest);
}

impl PlanOption {
    fn new(pools: Vec<PlannedPool>) -> Self {
        Self { cost: total_cost(&pools), pools }
    }

    fn provider(&self) -> Option<Provider> {
        self.pools.first().map(|pool| pool.pool.level.info().provider)
    }

    /// Capacity that is paid for.
    pub fn capacity(&self) -> Bytes {
        order(&self.pools).1
    }

    pub fn pool_count(&self) -> u32 {
        order(&self.pools).2
    }

    /// The levels, each once.
    pub fn levels(&self) -> Vec<Level> {
        let levels: BTreeSet<Level> = self.pools.iter().map(|pool| pool.pool.level).collect();
        levels.into_iter().collect()
    }

    /// The names of the levels.
    pub fn name(&self) -> String {
        self.levels().iter().map(|level| level.name()).collect::<Vec<_>>().join(" and ")
    }

    /// `3 TiB in 1 pool, 2 volumes, 614.40 EUR a month`.
    pub fn total(&self) -> String {
        let counted = |count: u32, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let volumes = self.pools.iter().map(PlannedPool::volume_count).sum();
        let cost = self.cost.as_ref().map_or_else(String::new, |cost| format!(", {cost} a month"));
        let capacity = size_to_buy(self.capacity());
        format!("{capacity} in {}, {}{cost}", counted(self.pool_count(), "pool"), counted(volumes, "volume"))
    }

    /// The volumes of all workloads, in the order of the workloads.
    pub fn volumes(&self) -> Vec<&PlannedVolume> {
        let mut all: Vec<&PlannedVolume> = self.pools.iter().flat_map(|pool| &pool.volumes).collect();
        all.sort_by_key(|volume| volume.workload);
        all
    }
}

impl PlannedPool {
    fn alone(place: usize, choice: &Choice) -> Self {
        Self {
            count: choice.pools,
            pool: choice.pool.clone(),
            volumes: vec![PlannedVolume { workload: place, choice: choice.clone() }],
            cost: choice.cost.clone(),
        }
    }

    fn capacity(&self) -> Bytes {
        Bytes(self.pool.size.0.saturating_mul(u64::from(self.count)))
    }

    /// Number of volumes of all workloads in all pools of this kind.
    pub fn volume_count(&self) -> u32 {
        self.volumes.iter().map(|volume| volume.choice.volumes()).sum()
    }

    /// Settings of each pool besides its size; `None` without any.
    pub fn settings(&self) -> Option<String> {
        self.volumes.first()?.choice.pool_settings()
    }
}

#[cfg(test)]
mod tests;
