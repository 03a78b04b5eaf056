//! Matches the cells of two runs, and finds obstacles to comparing them.

use crate::document::axes::{self, AXES, Axis};
use crate::document::words;
use crate::result::{CaveatKind, Cell, Measurement, Run};
use crate::scenario::{Depth, Point, Series};

pub(super) struct Pair<'a> {
    pub(super) series: String,
    pub(super) point: String,
    pub(super) a: Vec<&'a Measurement>,
    pub(super) b: Vec<&'a Measurement>,
    /// Present if both depths were searched for and differ.
    pub(super) depths: Option<(usize, usize)>,
    /// Present if the cells cannot be compared.
    pub(super) obstacle: Option<String>,
}

pub(super) fn of<'a>(a: &'a Run, b: &'a Run) -> Vec<Pair<'a>> {
    let of_runs = obstacle_of_runs(a, b);
    let numbered = a.scenario.series.iter().enumerate();
    let pairs = numbered.flat_map(|(index, series)| {
        let cells: Vec<&Cell> = a.cells_of(index).collect();
        let varying = Axis::varying(series, &cells);
        let of_runs = of_runs.clone();
        cells.into_iter().map(move |cell| {
            let point = axes::name(&cell.point, &varying);
            let mut pair = pair(series, cell, point, b);
            pair.obstacle = of_runs.clone().or(pair.obstacle);
            pair
        })
    });
    pairs.collect()
}

fn pair<'a>(series: &Series, cell: &'a Cell, point: String, b: &'a Run) -> Pair<'a> {
    let mut pair = Pair {
        series: series.name.clone(),
        point,
        a: valid(cell),
        b: Vec::new(),
        depths: None,
        obstacle: None,
    };
    let other_series = b.scenario.series.iter().enumerate().find(|(_, other)| other.name == series.name);
    let Some((index, other)) = other_series else {
        pair.obstacle = Some("B has no such series".to_owned());
        return pair;
    };
    let same = |one: &&Cell| differing(series, &cell.point, &one.point).is_empty();
    match b.cells_of(index).find(same) {
        None => pair.obstacle = Some(without_partner(series, cell, b.cells_of(index))),
        Some(partner) => {
            pair.b = valid(partner);
            let (of_a, of_b) = (cell.point.depth, partner.point.depth);
            pair.depths = (of_a != of_b).then_some((of_a, of_b));
            pair.obstacle = obstacle_of_series(series, other).or_else(|| obstacle_of_cells(cell, partner));
        }
    }
    pair
}

fn valid(cell: &Cell) -> Vec<&Measurement> {
    cell.measurements.iter().filter(|one| one.is_valid()).collect()
}

/// The axes along which two points differ. A searched depth is a result, not an axis.
fn differing(series: &Series, a: &Point, b: &Point) -> Vec<Axis> {
    let searched = matches!(series.depths, Depth::Search(_));
    let counts = |axis: &&Axis| !(searched && **axis == Axis::Depth);
    AXES.iter().filter(counts).filter(|axis| axis.key(a) != axis.key(b)).copied().collect()
}

fn without_partner<'a>(series: &Series, cell: &Cell, others: impl Iterator<Item = &'a Cell>) -> String {
    let nearest = others.min_by_key(|other| differing(series, &cell.point, &other.point).len());
    let Some(nearest) = nearest else { return "B ended before this series".to_owned() };
    match differing(series, &cell.point, &nearest.point).as_slice() {
        [axis] => format!("{} against {}", axis.words(&cell.point), axis.words(&nearest.point)),
        _ => "B has no such point".to_owned(),
    }
}

fn obstacle_of_runs(a: &Run, b: &Run) -> Option<String> {
    let (a, b) = (&a.target, &b.target);
    let place = |co_located| if co_located { "co-located" } else { "on hosts of their own" };
    let texts = |a: &str, b: &str| (a != b).then(|| format!("{a} against {b}"));
    texts(&a.protocol, &b.protocol)
        .or_else(|| texts(&a.generator, &b.generator))
        .or_else(|| texts(place(a.co_located), place(b.co_located)))
}

fn obstacle_of_series(a: &Series, b: &Series) -> Option<String> {
    let differs = |what: &str, a: String, b: String| (a != b).then(|| format!("{what} {a} against {b}"));
    let debug = |what: &str, a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug| {
        differs(what, format!("{a:?}").to_lowercase(), format!("{b:?}").to_lowercase())
    };
    debug("work", &a.work, &b.work)
        .or_else(|| debug("pattern", &a.pattern, &b.pattern))
        .or_else(|| debug("stability", &a.stability, &b.stability))
        .or_else(|| debug("cache", &a.cache, &b.cache))
        .or_else(|| debug("jobs", &a.jobs, &b.jobs))
        .or_else(|| differs("rate", rate(a), rate(b)))
}

fn rate(series: &Series) -> String {
    series.rate.map_or_else(|| "without limit".to_owned(), |rate| format!("{rate}/s"))
}

fn obstacle_of_cells(a: &Cell, b: &Cell) -> Option<String> {
    let void = match (a.has_result(), b.has_result()) {
        (true, true) => None,
        (false, true) => Some("void in A"),
        (true, false) => Some("void in B"),
        (false, false) => Some("void in both"),
    };
    let mixed = |cell: &Cell| words::caveats(cell).iter().any(|caveat| caveat.kind == CaveatKind::CacheMixed);
    let cache = match (mixed(a), mixed(b)) {
        (true, true) => Some("the cache was mixed in both"),
        (true, false) => Some("the cache was mixed in A"),
        (false, true) => Some("the cache was mixed in B"),
        (false, false) => None,
    };
    void.or(cache).map(str::to_owned)
}

pub(super) fn notes(a: &Run, b: &Run, pairs: &[Pair<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut differs = |what: &str, a: String, b: String| {
        if a != b {
            notes.push(format!("{what}: {a} in A, {b} in B"));
        }
    };
    differs("preset", format!("{:?}", a.preset).to_lowercase(), format!("{:?}", b.preset).to_lowercase());
    differs("version", a.version.clone(), b.version.clone());
    let scaled = |run: &Run| if run.scaled.is_empty() { "nothing".into() } else { run.scaled.join("; ") };
    differs("scaled", scaled(a), scaled(b));
    let level = |run: &Run| {
        let volume = run.target.volume.as_ref();
        volume.map_or("unknown".into(), |volume| {
            format!("{}, limits {}", volume.level, words::limits_line(&volume.limits))
        })
    };
    differs("level", level(a), level(b));
    for (name, run) in [("A", a), ("B", b)] {
        for kind in [CaveatKind::ClientLimited, CaveatKind::NotSteady, CaveatKind::Short] {
            let has = |cell: &&Cell| words::caveats(cell).iter().any(|caveat| caveat.kind == kind);
            let cells = run.cells.iter().filter(has).count();
            if cells > 0 {
                notes.push(format!(
                    "{} in {cells} of {} cells of {name}",
                    words::kind(kind),
                    run.cells.len()
                ));
            }
        }
    }
    let more = b.cells.len().saturating_sub(pairs.iter().filter(|pair| !pair.b.is_empty()).count());
    if more > 0 {
        notes.push(format!("{more} cells of B have none in A to be compared with"));
    }
    notes
}
