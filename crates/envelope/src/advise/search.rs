//! Searches for the smallest choice that carries the load.

use super::assess::assess;
use super::constraint::Bound;
use super::layout::{Candidate, Layout, first_matching};
use super::rank;
use super::{Advice, Catalog, Choice, Evidence, SkippedLevel, Utilization, Workload};
use crate::{Bytes, Level, Provider, Range, Refusal};

/// Advises on a workload. For each kind of volume: the smallest capacity or the lowest cost, cheapest first, and also
/// one single volume if several are smaller. Choices that do not fit are included with the smallest excess.
pub fn advise(workload: &Workload, catalog: &Catalog) -> Result<Advice, Refusal> {
    workload.check()?;
    catalog.check()?;
    let mut advice =
        Advice { workload: workload.clone(), options: Vec::new(), misses: Vec::new(), left_out: Vec::new() };
    for &level in &catalog.levels {
        if let Some(why) = exclusion_reason(level, workload, catalog) {
            advice.left_out.push(SkippedLevel { level, why });
            continue;
        }
        for large in [false, true] {
            let none = large && level.info().large_volume_sizes.is_none();
            if none || catalog.large.is_some_and(|wanted| wanted != large) {
                continue;
            }
            let layouts = Layout::all(level, large, workload);
            let candidate = smallest(&layouts, workload, catalog);
            let alone: Vec<Layout> =
                layouts.iter().filter(|layout| layout.pools * layout.per_pool == 1).copied().collect();
            // The advice also shows a single volume if several volumes are smaller.
            let single = match &candidate {
                Some(several) if several.volumes() > 1 => smallest(&alone, workload, catalog),
                Some(_) => None,
                None => {
                    let nearest = nearest(&layouts, workload, catalog);
                    advice.misses.extend(nearest.and_then(|one| Choice::of(one, workload, catalog).ok()));
                    None
                }
            };
            for candidate in candidate.into_iter().chain(single) {
                let choice = Choice::of(candidate, workload, catalog)?;
                if is_unbounded(&choice, workload) {
                    let why =
                        "was measured with other loads than this one: measure it with `plimsoll bench run`";
                    advice.left_out.push(SkippedLevel { level, why: why.to_owned() });
                } else {
                    advice.options.push(choice);
                }
            }
        }
    }
    rank::sort(&mut advice.options);
    advice.misses.sort_by_key(|miss| miss.binding().map(|one| one.used));
    Ok(advice)
}

fn exclusion_reason(level: Level, workload: &Workload, catalog: &Catalog) -> Option<String> {
    let info = level.info();
    if !info.protocols.contains(&workload.protocol) {
        return Some(format!("is not served over {}", workload.protocol.name()));
    }
    if info.provider != Provider::Plimsoll {
        return None;
    }
    if level == Level::Unlimited {
        return Some("has no limits".to_owned());
    }
    let measured = catalog.measured.iter().any(|one| one.level == level);
    (!measured).then(|| {
        "the performance of this machine is unknown: measure it with `plimsoll bench run`".to_owned()
    })
}

/// Whether nothing bounds the load: our own volumes have declared limits, not measured ones.
fn is_unbounded(choice: &Choice, workload: &Workload) -> bool {
    let own = choice.level().info().provider == Provider::Plimsoll;
    own && choice.evidence == Evidence::Limits && !workload.streams.is_empty()
}

/// Returns the cheapest candidate if there are prices, otherwise the smallest capacity. Ties go to the fewest
/// volumes.
pub(super) fn smallest(layouts: &[Layout], workload: &Workload, catalog: &Catalog) -> Option<Candidate> {
    let cost = |candidate: &Candidate| {
        let priced = catalog.prices.as_ref().and_then(|prices| prices.of(candidate));
        (priced.map(|cost| cost.millionths), candidate.capacity())
    };
    let mut best: Option<Candidate> = None;
    for layout in layouts {
        // Without prices nothing is better than exactly the needed capacity.
        if best.as_ref().map(cost).is_some_and(|best| best <= (None, workload.needed_capacity())) {
            break;
        }
        for range in layout.ranges(catalog) {
            let Some(candidate) = smallest_in(layout, &range, workload, catalog) else { continue };
            if best.as_ref().is_none_or(|best| cost(&candidate) < cost(best)) {
                best = Some(candidate);
            }
        }
    }
    best
}

/// Within one range of sizes, all bounds but the allowed capacity grow with the size.
fn smallest_in(
    layout: &Layout,
    range: &Range<Bytes>,
    workload: &Workload,
    catalog: &Catalog,
) -> Option<Candidate> {
    let sizes = Sizes::of(layout, range, workload, catalog)?;
    let fits = |candidate: &Candidate, but: Option<Bound>| {
        assess(candidate, workload, catalog).is_ok_and(|candidate| {
            candidate.constraints.iter().all(|one| one.used.fits() || Some(one.kind) == but)
        })
    };
    // The allowance fails for large sizes, not for small ones, so the bisection must leave it out.
    let carries = |step: u64| sizes.at(step).is_some_and(|one| fits(&one, Some(Bound::Allowance)));
    let candidate = sizes.at(first_matching(sizes.first, sizes.last, carries)?)?;
    fits(&candidate, None).then_some(candidate)
}

/// The arrangement with the smallest excess, at the smallest size with that excess.
fn nearest(layouts: &[Layout], workload: &Workload, catalog: &Catalog) -> Option<Candidate> {
    let miss = |candidate: &Candidate| -> Option<Utilization> {
        let candidate = assess(candidate, workload, catalog).ok()?;
        candidate.constraints.iter().map(|one| one.used).max()
    };
    let mut best: Option<(Utilization, Candidate)> = None;
    for layout in layouts {
        for range in layout.ranges(catalog) {
            let Some(sizes) = Sizes::of(layout, &range, workload, catalog) else { continue };
            let last = sizes.last_allowed();
            let Some(smallest_step) = sizes.at(last).as_ref().and_then(miss) else { continue };
            let no_worse =
                |step: u64| sizes.at(step).as_ref().and_then(miss).is_some_and(|miss| miss <= smallest_step);
            let Some(candidate) = first_matching(sizes.first, last, no_worse).and_then(|step| sizes.at(step))
            else {
                continue;
            };
            let better = |(used, than): &(Utilization, Candidate)| {
                (smallest_step, candidate.capacity(), candidate.volumes())
                    < (*used, than.capacity(), than.volumes())
            };
            if best.as_ref().is_none_or(better) {
                best = Some((smallest_step, candidate));
            }
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The sizes of an arrangement that hold the needed capacity and have pools, as steps of a range. If no size
/// holds the capacity, only the largest.
struct Sizes<'a> {
    layout: &'a Layout,
    range: &'a Range<Bytes>,
    workload: &'a Workload,
    catalog: &'a Catalog,
    first: u64,
    last: u64,
}

impl<'a> Sizes<'a> {
    fn of(
        layout: &'a Layout,
        range: &'a Range<Bytes>,
        workload: &'a Workload,
        catalog: &'a Catalog,
    ) -> Option<Self> {
        let smallest_step = layout.min_size(workload, catalog)?;
        let last = (range.max.0 - range.min.0).div_ceil(range.step.0);
        let first_step = smallest_step.0.saturating_sub(range.min.0).div_ceil(range.step.0).min(last);
        let mut sizes = Self { layout, range, workload, catalog, first: first_step, last };
        // Volumes may be larger than any pool.
        if let Some(beyond) = first_matching(first_step, last, |step| sizes.at(step).is_none()) {
            sizes.last = beyond.checked_sub(1)?;
        }
        (sizes.first <= sizes.last).then_some(sizes)
    }

    fn at(&self, step: u64) -> Option<Candidate> {
        // The largest size may not be a whole number of steps.
        let size = Bytes((self.range.min.0 + step * self.range.step.0).min(self.range.max.0));
        self.layout.at(size, self.workload, self.catalog)
    }

    /// The last step within the allowed capacity; the first if there is none.
    fn last_allowed(&self) -> u64 {
        let beyond = |step: u64| {
            let capacity = self.at(step).map(|one| one.capacity());
            self.workload.capacity_max.zip(capacity).is_some_and(|(most, capacity)| capacity > most)
        };
        let beyond = first_matching(self.first, self.last, beyond);
        beyond.map_or(self.last, |step| step.saturating_sub(1).max(self.first))
    }
}
