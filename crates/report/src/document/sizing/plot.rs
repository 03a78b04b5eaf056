//! The envelope plot: the ceiling of a choice over the share of reads, with the workload.

use envelope::{Access, BytesPerSecond, Catalog, Choice, Evidence, MixCeilings, Stream, Workload};

use super::super::axes::Form;
use super::super::plot::{Area, Axis, Chart, Line, Lines, Mark, Plot};
use super::super::table::Value;

const CEILING: usize = 0;
const LOAD: usize = 1;
const PUBLISHED: usize = 2;
const MEASURED: usize = 3;
const DOCUMENTED: usize = 6;
const STEP: usize = 10;
/// A value above this multiple of all others would flatten them.
const FAR: f64 = 3.0;
/// A multiple for loads with documented limits alone: beyond it the load would lie on the floor.
const FAR_ALONE: f64 = 20.0;

/// Values over the percent of reads, without a gap.
type Piece<T> = Vec<(f64, T)>;

pub(super) fn of(choice: &Choice, workload: &Workload, catalog: &Catalog) -> Option<Plot> {
    (!workload.streams.is_empty()).then_some(())?;
    let unit = Unit::of(workload);
    let mixes = choice.over_mixes(workload, catalog, mixes(workload, catalog).into_iter());
    let areas = areas(&mixes, unit);
    let ceilings = pieces(&mixes, |mix| Some((mix.evidence, unit.rate(mix.all?))));

    let high = areas.iter().flat_map(|area| area.points.iter().map(|(_, _, high)| *high));
    let max = high.chain(ceilings.iter().flatten().map(|(_, rate)| *rate));
    let max = max.fold(unit.needed(workload), f64::max);
    let is_alone = ceilings.is_empty();
    let is_near = |rate: f64| rate <= max * if is_alone { FAR_ALONE } else { FAR };
    let documented = |mix: &MixCeilings| mix.documented.map(|rate| unit.rate(rate));
    let is_far = mixes.iter().filter_map(documented).any(|rate| !is_near(rate));
    // Documented limits have the same evidence at all mixes.
    let limits = |mix: &MixCeilings| Some((Evidence::Limits, documented(mix).filter(|rate| is_near(*rate))?));

    let (mut lines, mut marks) = lines_and_marks("limit: all bounds together", CEILING, false, ceilings);
    let (line, alone) = lines_and_marks("documented limits", DOCUMENTED, true, pieces(&mixes, limits));
    lines.extend(line);
    marks.extend(alone);
    marks.extend(mixes.iter().filter_map(|mix| exact_mark(mix, unit)).filter(|mark| is_near(mark.at.1)));
    marks.extend(load(workload, unit));
    let (x, y) = (read_share_axis(), Axis::new(unit.form.unit()));
    let chart = Lines { x, y, lines, areas, marks, smooth: true, ..Lines::default() };
    let note = note(workload, choice, &mixes, is_far);
    Some(Plot { title: "Ceiling over the share of reads".to_owned(), note, chart: Chart::Lines(chart) })
}

/// Pieces become lines, or points if known at one mix alone.
fn lines_and_marks(name: &str, color: usize, ideal: bool, pieces: Vec<Piece<f64>>) -> (Vec<Line>, Vec<Mark>) {
    let (alone, long): (Vec<_>, Vec<_>) = pieces.into_iter().partition(|piece| piece.len() == 1);
    let line = |(index, points)| {
        let name = if index == 0 { name.to_owned() } else { String::new() };
        Line { name, color, ideal, points }
    };
    let alone = alone.into_iter().flatten().map(|at| Mark { hollow: true, ..mark(name, color, at) });
    (long.into_iter().enumerate().map(line).collect(), alone.collect())
}

fn exact_mark(mix: &MixCeilings, unit: Unit) -> Option<Mark> {
    let color = if mix.evidence == Evidence::Measured { MEASURED } else { PUBLISHED };
    let name = format!("curve where it was {}", mix.evidence.name());
    Some(mark(&name, color, (percent(mix.read_thousandths), unit.rate(mix.exact?))))
}

fn load(workload: &Workload, unit: Unit) -> Vec<Mark> {
    let (reads, peak) = (percent(workload.read_thousandths()), unit.rate(Stream::total(&workload.streams).0));
    let name = format!("peak, the bar {} % headroom", workload.headroom_percent);
    let mut marks = vec![Mark { up_to: Some(unit.needed(workload)), ..mark(&name, LOAD, (reads, peak)) }];
    if workload.average_percent < 100 {
        let average = peak * f64::from(workload.average_percent) / 100.0;
        marks.push(Mark { hollow: true, ..mark("average", LOAD, (reads, average)) });
    }
    marks
}

fn mark(name: &str, color: usize, at: (f64, f64)) -> Mark {
    Mark { name: name.to_owned(), color, hollow: false, at, up_to: None }
}

fn read_share_axis() -> Axis {
    let ticks = [0, 25, 50, 75, 100].map(|percent| (f64::from(percent), percent.to_string()));
    Axis { ticks: ticks.to_vec(), ..Axis::new("reads, % of the data") }
}

fn percent(thousandths: u32) -> f64 {
    f64::from(thousandths) / 10.0
}

#[derive(Clone, Copy)]
struct Unit {
    form: Form,
    bytes: f64,
}

impl Unit {
    /// Operations if all have one small size, as on the pages; data otherwise.
    fn of(workload: &Workload) -> Self {
        let form = match workload.streams.as_slice() {
            [only] if only.access.is_fixed_mix() => Form::Iops,
            [only] => Form::of_blocks(only.block.0, only.access == Access::Random),
            _ => Form::Mib,
        };
        let block = workload.streams.first().map_or(1, |stream| stream.block.0.max(1));
        Self { form, bytes: if form == Form::Iops { block as f64 } else { f64::from(1 << 20) } }
    }

    fn rate(self, rate: BytesPerSecond) -> f64 {
        rate.0 as f64 / self.bytes
    }

    fn needed(self, workload: &Workload) -> f64 {
        self.rate(Stream::total(&workload.needed()).0)
    }
}

/// Steps, the workload's own mix, and measured mixes.
fn mixes(workload: &Workload, catalog: &Catalog) -> Vec<u32> {
    let measured = catalog.measured.iter().flat_map(|one| &one.points).map(|point| point.read_thousandths);
    let mut all: Vec<u32> = (0..=1000).step_by(STEP).chain(measured).collect();
    all.push(workload.read_thousandths());
    all.sort_unstable();
    all.dedup();
    all
}

/// A piece has no gap and one kind of evidence.
fn pieces<T>(mixes: &[MixCeilings], of: impl Fn(&MixCeilings) -> Option<(Evidence, T)>) -> Vec<Piece<T>> {
    let mut pieces: Vec<Piece<T>> = Vec::new();
    let mut before: Option<Evidence> = None;
    for mix in mixes {
        let Some((evidence, value)) = of(mix) else {
            before = None;
            continue;
        };
        let point = (percent(mix.read_thousandths), value);
        match pieces.last_mut().filter(|_| before == Some(evidence)) {
            Some(piece) => piece.push(point),
            None => pieces.push(vec![point]),
        }
        before = Some(evidence);
    }
    pieces
}

/// The uncertainty of the ceiling; of width zero where the ceiling is exact.
fn areas(mixes: &[MixCeilings], unit: Unit) -> Vec<Area> {
    let between = |mix: &MixCeilings| {
        let (low, high) = mix.between.or(mix.all.map(|all| (all, all)))?;
        Some((mix.evidence, (unit.rate(low), unit.rate(high))))
    };
    let is_estimated = |piece: &Piece<(f64, f64)>| piece.iter().any(|(_, (low, high))| low < high);
    let area = |(index, piece): (usize, Piece<(f64, f64)>)| {
        let name = if index == 0 { "where the curve is estimated, it may lie here" } else { "" };
        let points = piece.into_iter().map(|(reads, (low, high))| (reads, low, high)).collect();
        Area { name: name.to_owned(), color: CEILING, points }
    };
    pieces(mixes, between).into_iter().filter(is_estimated).enumerate().map(area).collect()
}

fn note(workload: &Workload, choice: &Choice, mixes: &[MixCeilings], is_far: bool) -> String {
    let reads = Value::figure(percent(workload.read_thousandths()));
    let is_fixed = workload.streams.iter().any(|stream| stream.access.is_fixed_mix());
    let mut notes = Vec::new();
    if choice.evidence == Evidence::Limits && is_far {
        return "No curve covers this load, and the documented limits are far above it.".to_owned();
    }
    if choice.evidence == Evidence::Limits {
        notes.push("No curve covers this load: only the documented limits are drawn.".to_owned());
    } else if is_fixed {
        notes.push(format!("The mix of this load is fixed: its ceiling is known at {reads} % reads alone."));
    } else if mixes.iter().any(|mix| mix.all.is_none()) {
        notes.push("Where the line has a gap no curve covers the mix: nothing is extrapolated.".to_owned());
    }
    let stands_on = |evidence| mixes.iter().any(|mix| mix.all.is_some() && mix.evidence == evidence);
    if stands_on(Evidence::Measured) && stands_on(Evidence::Published) {
        notes.push("The line is broken between measured and published figures.".to_owned());
    }
    if workload.streams.len() > 1 && !is_fixed {
        notes.push(format!("All streams have the same share of reads, but at {reads} % each has its own."));
    }
    if is_far {
        notes.push("The documented limits are far above where they are not drawn.".to_owned());
    }
    notes.join(" ")
}
