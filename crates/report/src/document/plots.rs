//! The plots of a series.

use envelope::{Direction, Figure, Unit};

use super::axes::{self, Axis, Form, Group};
use super::ceilings::{self, Drawn};
use super::plot::{self, Bars, COLORS, Ceiling, Chart, Line, Lines, Part, Plot, Stack};
use super::table::Value;
use super::{figures, published};
use crate::curve::{Curve, CurvePoint, MEAN_MAX_MS, Time};
use crate::result::{Cell, Latency, Measurement, Run};
use crate::scenario::{Series, Work};

const READ: usize = 0;
const WRITE: usize = 1;
const TOTAL: usize = 2;
/// More lines in one plot look alike.
const LINES_MAX: usize = COLORS;
/// Ticks of percentile plots. Distances grow with the logarithm of the share beyond the tick.
const PERCENTILES: [f64; 9] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

fn lines(title: String, note: &str, chart: Lines) -> Plot {
    Plot { title, note: note.to_owned(), chart: Chart::Lines(chart) }
}

pub(super) fn titled(title: &str, name: &str) -> String {
    if name.is_empty() { title.to_owned() } else { format!("{title}: {name}") }
}

fn of_latencies(points: &[(f64, Latency)]) -> Vec<Line> {
    type Figure = fn(&Latency) -> f64;
    const SHOWN: [(&str, Figure); 3] =
        [("p50", |one| one.p50_ms), ("p95", |one| one.p95_ms), ("p99", |one| one.p99_ms)];
    let line = |(color, (name, figure)): (usize, &(&str, Figure))| Line {
        name: (*name).to_owned(),
        color,
        ideal: false,
        points: points.iter().map(|(rate, latency)| (*rate, figure(latency))).collect(),
    };
    SHOWN.iter().enumerate().map(line).collect()
}

/// Bars of reads and writes at each value of `axis`, beside the published ones. Published bars over mixes add a second
/// plot, which shows each bar as a share of its own maximum: forms are comparable despite different rates.
pub(super) fn rates(run: &Run, series: &Series, group: &Group<'_>, axis: Axis) -> Vec<Plot> {
    let cells = &group.cells;
    let form = cells.first().map_or(Form::Mib, |cell| Form::of(series, &cell.point));
    let part = |name: &str, color, direction| Part {
        name: name.to_owned(),
        color,
        values: cells.iter().map(|cell| cell.has_result().then(|| form.rate(cell, direction))).collect(),
    };
    let own = match series.work {
        Work::Transfers => {
            vec![part("Read", READ, Direction::Read), part("Write", WRITE, Direction::Write)]
        }
        Work::OpenRead | Work::Metadata | Work::EdaBlend => {
            vec![part("Operations", READ, Direction::Total)]
        }
    };
    let mut stacks = vec![Stack { published: false, parts: own }];
    for (one, name) in published::short_names(series) {
        let figures: Vec<Vec<Figure>> =
            cells.iter().map(|cell| published::at(one, series, &cell.point)).collect();
        stacks.extend(published_stack(&name, form, &figures));
    }
    let groups = cells.iter().map(|cell| axis.value(&cell.point)).collect();
    let Drawn { ceiling, note: above } = ceilings::of_cells(run, series, cells, form);
    let ceilings = ceiling.into_iter().collect();
    let mut bars = Bars { unit: form.unit().to_owned(), groups, stacks, totals: true, ceilings };
    let relative = (axis == Axis::Mix && bars.stacks.len() > 1).then(|| relative(&bars));
    let heading = axis.heading();
    let note = match (bars.stacks.len(), published_above(&bars)) {
        (1, _) => format!("{heading}."),
        (_, None) => format!("{heading}. Filled: measured; hollow: published."),
        (_, Some(max)) => {
            bars.stacks.truncate(1);
            let max = Value::figure(max);
            format!("{heading}. The published figures reach {max} {} and are in the table.", form.unit())
        }
    };
    let plot = |title: &str, note: String, bars: Bars| Plot {
        title: titled(title, &group.name),
        note,
        chart: Chart::Bars(bars),
    };
    let title = if axis == Axis::Mix {
        "Rates by mix".to_owned()
    } else {
        format!("Rates by {}", heading.to_lowercase())
    };
    let mut plots = vec![plot(&title, ceilings::noted(&note, &above), bars)];
    let own = "Read/write %. Each in percent of its own largest: its form, whatever its height.".to_owned();
    plots.extend(relative.map(|bars| plot("The same, each relative to its own largest", own, bars)));
    plots
}

/// The largest published bar, if it would flatten the measured ones.
fn published_above(bars: &Bars) -> Option<f64> {
    const FAR: f64 = 5.0;
    let total =
        |stack: &Stack, group: usize| stack.parts.iter().filter_map(|part| part.values[group]).sum::<f64>();
    let max = |published: bool| {
        let stacks = bars.stacks.iter().filter(|stack| stack.published == published);
        let totals = stacks.flat_map(|stack| (0..bars.groups.len()).map(|group| total(stack, group)));
        totals.fold(0.0, f64::max)
    };
    let (own, page) = (max(false), max(true));
    (own > 0.0 && page > FAR * own).then_some(page)
}

fn relative(bars: &Bars) -> Bars {
    let stack = |stack: &Stack| {
        let total = |group: usize| stack.parts.iter().filter_map(|part| part.values[group]).sum::<f64>();
        let max = (0..bars.groups.len()).map(total).fold(0.0, f64::max);
        let of_most = |value: &Option<f64>| value.filter(|_| max > 0.0).map(|value| value / max * 100.0);
        let part = |part: &Part| Part { values: part.values.iter().map(of_most).collect(), ..part.clone() };
        Stack { published: stack.published, parts: stack.parts.iter().map(part).collect() }
    };
    let stacks = bars.stacks.iter().map(stack).collect();
    Bars { unit: "%".to_owned(), groups: bars.groups.clone(), stacks, totals: true, ceilings: Vec::new() }
}

/// A total stands for reads and writes that are not published separately. `None` without figures in this
/// unit.
fn published_stack(name: &str, form: Form, figures: &[Vec<Figure>]) -> Option<Stack> {
    let find = |figures: &[Figure], direction| {
        let mut same = figures.iter().filter(|figure| figure.direction == direction);
        same.find_map(|figure| in_form(form, figure))
    };
    let values = |direction| figures.iter().map(|one| find(one, direction)).collect::<Vec<_>>();
    let (read, write) = (values(Direction::Read), values(Direction::Write));
    let unshared = |(index, total): (usize, Option<f64>)| {
        total.filter(|_| read[index].is_none() && write[index].is_none())
    };
    let total: Vec<_> = values(Direction::Total).into_iter().enumerate().map(unshared).collect();
    let kinds = [("read", READ, read.clone()), ("write", WRITE, write), ("total", TOTAL, total)];
    let parts: Vec<Part> = kinds
        .into_iter()
        .filter(|(_, _, values)| values.iter().any(Option::is_some))
        .map(|(kind, color, values)| Part { name: format!("{name} {kind}"), color, values })
        .collect();
    (!parts.is_empty()).then_some(Stack { published: true, parts })
}

fn in_form(form: Form, figure: &Figure) -> Option<f64> {
    let number = published::number(figure);
    match (form, figure.unit) {
        (Form::Iops, Unit::Iops) | (Form::Mib, Unit::MibPerSecond) => Some(number),
        (Form::Mib, Unit::MbPerSecond) => Some(number * 1e6 / f64::from(1 << 20)),
        _ => None,
    }
}

/// Latency over throughput on the way to the peak. Needs a searched depth.
pub(super) fn searches(run: &Run, series: &Series, cells: &[&Cell], varying: &[Axis]) -> Vec<Plot> {
    let searched = cells.iter().filter(|cell| cell.search.len() > 1);
    searched.map(|cell| search(run, series, cell, varying)).collect()
}

fn search(run: &Run, series: &Series, cell: &Cell, varying: &[Axis]) -> Plot {
    let form = Form::of(series, &cell.point);
    let mut probes: Vec<(f64, Latency)> = cell
        .search
        .iter()
        .map(|probe| (if form == Form::Iops { probe.ops_per_s } else { probe.mib_per_s }, probe.latency))
        .collect();
    probes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let depths: Vec<String> = cell.search.iter().map(|probe| probe.depth.to_string()).collect();
    let note = format!("{} calls in flight of each job; {} chosen", depths.join(", "), cell.point.depth);
    let title = titled("Latency against throughput", &axes::name(&cell.point, varying));
    let limit = ceilings::of_all(run, series, &[cell], form);
    lines(title, &note, throughput(form, of_latencies(&probes), limit))
}

fn throughput(form: Form, lines: Vec<Line>, limit: Option<(f64, String)>) -> Lines {
    let x = plot::Axis::new(form.unit());
    Lines { x, y: plot::Axis::new("ms"), lines, uprights: limit.into_iter().collect(), ..Lines::default() }
}

pub(super) fn depths(run: &Run, series: &Series, group: &Group<'_>) -> Option<Plot> {
    let form = Form::of(series, &group.cells.first()?.point);
    let valid: Vec<&&Cell> = group.cells.iter().filter(|cell| cell.has_result()).collect();
    let points: Vec<(f64, Latency)> =
        valid.iter().map(|cell| (form.rate(cell, Direction::Total), cell.summary.latency)).collect();
    let depths: Vec<String> = valid.iter().map(|cell| cell.point.depth.to_string()).collect();
    let note = format!("{} calls in flight of each job", depths.join(", "));
    let title = titled("Latency against throughput", &group.name);
    let limit = ceilings::of_all(run, series, &group.cells, form);
    Some(lines(title, &note, throughput(form, of_latencies(&points), limit)))
}

/// Rates over that of the first point. The values of `axis` must be counts.
pub(super) fn gains(series: &Series, axis: Axis, groups: &[Group<'_>]) -> Option<Plot> {
    let first = groups.first()?.cells.first()?;
    let form = Form::of(series, &first.point);
    let at = |cell: &Cell| axis.key(&cell.point) as f64;
    let gain = |(color, group): (usize, &Group<'_>)| {
        let first = group.cells.first().filter(|cell| cell.has_result());
        let of_first = first.map_or(0.0, |cell| form.rate(cell, Direction::Total));
        let valid = group.cells.iter().filter(|cell| cell.has_result() && of_first > 0.0);
        let points = valid.map(|cell| (at(cell), form.rate(cell, Direction::Total) / of_first)).collect();
        let name = if group.name.is_empty() { "measured".to_owned() } else { group.name.clone() };
        Line { name, color, ideal: false, points }
    };
    let mut all: Vec<Line> = groups.iter().take(LINES_MAX).enumerate().map(gain).collect();
    let values: Vec<f64> = groups[0].cells.iter().map(|cell| at(cell)).collect();
    let ideal = values.iter().map(|value| (*value, value / values[0])).collect();
    all.push(Line { name: "in proportion".to_owned(), color: 6, ideal: true, points: ideal });
    let ticks = values.iter().map(|value| (*value, format!("{value:.0}"))).collect();
    let is_connections = axis == Axis::Connections;
    let chart = Lines {
        x: plot::Axis { ticks, ..plot::Axis::logarithmic(axis.heading()) },
        y: plot::Axis::logarithmic("times as much"),
        lines: all,
        levels: if is_connections { published_gains(series, groups) } else { Vec::new() },
        ..Lines::default()
    };
    let title = if is_connections { "Gain over connections" } else { "Gain over clients" };
    let note =
        if chart.levels.is_empty() { "" } else { "No page gives the number of connections of a gain." };
    Some(lines(title.to_owned(), note, chart))
}

fn published_gains(series: &Series, groups: &[Group<'_>]) -> Vec<(f64, String)> {
    let points = groups.iter().filter_map(|group| group.cells.first()).map(|cell| &cell.point);
    let gains = points.flat_map(|point| published::gains_at(series, point));
    gains
        .map(|gain| (published::number(&gain), format!("published: {}", published::plain_text(&gain))))
        .collect()
}

pub(super) fn clients(run: &Run, series: &Series, group: &Group<'_>, axis: Axis) -> Option<Plot> {
    let form = Form::of(series, &group.cells.first()?.point);
    let several = |cell: &&&Cell| cell.point.clients > 1 && cell.has_result();
    let cells: Vec<&Cell> = group.cells.iter().filter(several).copied().collect();
    let rates: Vec<Vec<f64>> = cells
        .iter()
        .map(|cell| figures::of_clients(cell))
        .map(|of| of.into_iter().map(|(ops, mib)| if form == Form::Iops { ops } else { mib }).collect())
        .collect();
    let max = rates.iter().map(Vec::len).max().filter(|&clients| clients > 1)?;
    let stack = |client: usize| {
        let values = rates.iter().map(|of| of.get(client).copied()).collect();
        Stack { published: false, parts: vec![Part { name: String::new(), color: READ, values }] }
    };
    let index = |(cell, rates): (&&Cell, &Vec<f64>)| {
        format!("{} · {:.3}", axis.value(&cell.point), figures::fairness(rates))
    };
    let bars = Bars {
        unit: form.unit().to_owned(),
        groups: cells.iter().zip(&rates).map(index).collect(),
        stacks: (0..max).map(stack).collect(),
        totals: false,
        ceilings: ceilings::of_each_client(run, &cells, form).into_iter().collect(),
    };
    let note = format!("A bar a client. {} · Jain's index: 1 if all get the same.", axis.heading());
    Some(Plot { title: titled("Rate of each client", &group.name), note, chart: Chart::Bars(bars) })
}

pub(super) fn percentiles(group: &Group<'_>, axis: Axis) -> Option<Plot> {
    let valid: Vec<&&Cell> = group.cells.iter().filter(|cell| cell.has_result()).collect();
    // Of too many, every n-th.
    let step = valid.len().div_ceil(LINES_MAX).max(1);
    let line = |(color, cell): (usize, &&&Cell)| {
        let merged = figures::response(cell);
        // Up to the percentile with at least one operation beyond.
        let count = merged.count() as f64;
        let shown_percentiles = PERCENTILES.iter().filter(|&&at| count * (100.0 - at) / 100.0 >= 1.0);
        let at = |percent: &f64| (beyond(*percent), merged.quantile_ns(percent / 100.0) as f64 / 1e6);
        Line {
            name: axis.words(&cell.point),
            color,
            ideal: false,
            points: shown_percentiles.map(at).collect(),
        }
    };
    let all: Vec<Line> = valid.iter().step_by(step).enumerate().map(line).collect();
    if all.iter().all(|line| line.points.is_empty()) {
        return None;
    }
    let tick = |percent: &f64| (beyond(*percent), Value::plain(&Value::Number(*percent, digits(*percent))));
    let x = plot::Axis {
        ticks: PERCENTILES.iter().map(tick).collect(),
        ..plot::Axis::logarithmic("percent of the operations")
    };
    let chart = Lines { x, y: plot::Axis::logarithmic("ms"), lines: all, ..Lines::default() };
    Some(lines(titled("Latency by percentile", &group.name), "", chart))
}

/// The reciprocal of the share of operations above a percentile.
fn beyond(percent: f64) -> f64 {
    100.0 / (100.0 - percent)
}

fn digits(percent: f64) -> usize {
    [0, 1, 2].into_iter().find(|&digits| format!("{percent:.digits$}").parse() == Ok(percent)).unwrap_or(2)
}

pub(super) fn seconds(run: &Run, series: &Series, cells: &[&Cell], varying: &[Axis]) -> Vec<Plot> {
    cells.iter().filter_map(|cell| of_seconds(run, series, cell, varying)).collect()
}

fn of_seconds(run: &Run, series: &Series, cell: &Cell, varying: &[Axis]) -> Option<Plot> {
    let form = Form::of(series, &cell.point);
    let line = |(index, one): (usize, &Measurement)| Line {
        name: format!("repetition {}", index + 1),
        color: index % COLORS,
        ideal: false,
        points: in_seconds(form, one),
    };
    let all: Vec<Line> = cell.measurements.iter().enumerate().map(line).collect();
    all.iter().any(|line| line.points.len() > 1).then_some(())?;
    let (levels, note) = match ceilings::of_cells(run, series, &[cell], form) {
        Drawn { ceiling: Some(Ceiling { name, values }), note } => {
            (values.first().copied().flatten().map(|value| (value, name)), note)
        }
        Drawn { ceiling: None, note } => (None, note),
    };
    let chart = Lines {
        x: plot::Axis::new("s"),
        y: plot::Axis::new(form.unit()),
        lines: all,
        levels: levels.into_iter().collect(),
        ..Lines::default()
    };
    Some(lines(titled("Each second", &axes::name(&cell.point, varying)), &note, chart))
}

fn in_seconds(form: Form, measurement: &Measurement) -> Vec<(f64, f64)> {
    let count = measurement.clients.iter().map(|client| client.seconds.len()).max().unwrap_or(0);
    let rate = |second: usize| {
        let of_clients = measurement.clients.iter().filter_map(|client| client.seconds.get(second));
        let rates = of_clients.map(|one| match form {
            Form::Iops => (one.reads + one.writes + one.others) as f64,
            Form::Mib => (one.read_bytes + one.write_bytes) as f64 / f64::from(1 << 20),
        });
        (second as f64 + 0.5, rates.sum())
    };
    (0..count).map(rate).collect()
}

pub(super) fn response(run: &Run, series: &Series, group: &Group<'_>, curve: &Curve) -> Option<Plot> {
    type Figure = fn(&CurvePoint) -> f64;
    const SHOWN: [(&str, Figure); 3] = [
        ("response, mean", |point| point.response.mean_ms),
        ("service, mean", |point| point.service.mean_ms),
        ("response, p99", |point| point.response.p99_ms),
    ];
    let line = |(color, (name, figure)): (usize, &(&str, Figure))| Line {
        name: (*name).to_owned(),
        color,
        ideal: false,
        points: curve.valid().iter().map(|point| (point.achieved, figure(point))).collect(),
    };
    let limit = ceilings::of_all(run, series, &group.cells, Form::Iops);
    let knee = curve.knee(Time::Response).map(|knee| (knee, format!("knee, {}", Value::figure(knee))));
    let chart = Lines {
        x: plot::Axis::new("operations reached a second"),
        y: plot::Axis::logarithmic("ms"),
        lines: SHOWN.iter().enumerate().map(line).collect(),
        levels: vec![(MEAN_MAX_MS, format!("{MEAN_MAX_MS} ms"))],
        uprights: knee.into_iter().chain(limit).collect(),
        ..Lines::default()
    };
    let note = "Response: from when an operation was to begin. Service: from when it did. Valid points only.";
    (!curve.valid().is_empty()).then(|| lines(titled("Response time over rate", &group.name), note, chart))
}
