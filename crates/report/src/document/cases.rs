//! Compares cases of one load: the performance of a client over several mounts.

use envelope::Direction;

use super::axes::{Axis, Form};
use super::content::{Lead, Report, Section};
use super::facts::Fact;
use super::plot::{self, COLORS, Chart, Line, Lines, Plot};
use super::table::{Table, Value};
use crate::result::{Cell, Run};
use crate::scenario::{Point, Series, Work};

/// Mean latencies at which rates are reported, in milliseconds.
const MEANS_MS: [f64; 2] = [1.0, 2.0];

/// The cells of a case that differ only in their calls in flight.
type Curve<'a> = (&'a str, Vec<&'a Cell>);

/// Merges the runs of several cases of one scenario into one report. `None` if the runs are not of that kind.
pub fn cases(runs: &[Run]) -> Option<Report> {
    let first = runs.first()?;
    let is_case = |run: &Run| run.target.case.is_some() && run.scenario == first.scenario;
    if runs.len() < 2 || !runs.iter().all(is_case) {
        return None;
    }
    let mut report = Report::of(first);
    let sections: Vec<Section> =
        (0..first.scenario.series.len()).flat_map(|index| section(runs, index)).collect();
    report.title = format!("{}: {} cases side by side", report.title, runs.len());
    report.highlights = sections.iter().flat_map(highlight).collect();
    report.facts = runs.iter().map(case_fact).collect();
    report.stamps = stamps(runs);
    report.caveats = runs.iter().flat_map(caveats).collect();
    report.plots.clear();
    report.details.clear();
    report.cells = Table::default();
    report.lead = Lead {
        result: report.highlights.first().map_or_else(String::new, |(name, text)| format!("{name}: {text}.")),
        limit: String::new(),
        plot: sections.first().and_then(|section| section.plots.first().cloned()),
    };
    report.sections = sections;
    Some(report)
}

fn stamps(runs: &[Run]) -> Vec<String> {
    let mut stamps = Vec::new();
    for stamp in runs.iter().flat_map(super::facts::stamps) {
        if !stamps.contains(&stamp) {
            stamps.push(stamp);
        }
    }
    stamps
}

/// Doubtful points appear only as a number: the case's own report has their caveats.
fn caveats(run: &Run) -> Vec<String> {
    let doubtful = run.cells.iter().filter(|cell| !cell.caveats.is_empty()).count();
    let of_points = match doubtful {
        0 => None,
        1 => Some("1 point is doubtful, see its own report".to_owned()),
        many => Some(format!("{many} points are doubtful, see its own report")),
    };
    let of_run = run.caveats.iter().map(super::words::caveat_text);
    of_run.chain(of_points).map(|caveat| format!("{}: {caveat}", name(run))).collect()
}

fn name(run: &Run) -> &str {
    run.target.case.as_deref().unwrap_or_default()
}

fn case_fact(run: &Run) -> Fact {
    let mount = run.target.mount.as_ref();
    let text =
        mount.map(|mount| format!("{} {} at {} ({})", mount.kind, mount.source, mount.at, mount.options));
    (format!("Case {}", name(run)), text.unwrap_or_else(|| run.target.target.clone()))
}

fn section(runs: &[Run], index: usize) -> Option<Section> {
    let series = &runs[0].scenario.series[index];
    let mut loads: Vec<Point> = Vec::new();
    for cell in runs.iter().flat_map(|run| run.cells_of(index)) {
        let load = Point { depth: 0, ..cell.point.clone() };
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    let curves = |load: &Point| {
        let of_load = |cell: &&Cell| Point { depth: 0, ..cell.point.clone() } == *load && cell.has_result();
        let curve = |run| (name(run), Run::cells_of(run, index).filter(of_load).collect());
        runs.iter().map(curve).collect::<Vec<Curve<'_>>>()
    };
    let shown: Vec<(Table, Plot)> = loads
        .iter()
        .map(|load| (load, curves(load)))
        .filter(|(_, curves)| curves.iter().any(|(_, cells)| !cells.is_empty()))
        .map(|(load, curves)| table_and_plot(series, load, &curves))
        .collect();
    let (tables, plots): (Vec<Table>, Vec<Plot>) = shown.into_iter().unzip();
    (!tables.is_empty()).then(|| Section { title: series.name.clone(), tables, plots, ..Section::default() })
}

fn table_and_plot(series: &Series, load: &Point, curves: &[Curve<'_>]) -> (Table, Plot) {
    let form = Form::of(series, load);
    let rate = |cell: &Cell| form.rate(cell, Direction::Total);
    let mean = |cell: &Cell| cell.summary.latency.mean_ms;
    let title = if series.work == Work::OpenRead { String::new() } else { Axis::Mix.words(load) };
    let mut table = Table::new(title.clone(), &["Case"]);
    table.head.extend(MEANS_MS.map(|ms| format!("{} within {ms} ms", form.unit())));
    table.head.extend([format!("most {}", form.unit()), "at, ms".to_owned(), "least ms".to_owned()]);
    let largest = |cells: &mut dyn Iterator<Item = &&Cell>| {
        cells.max_by(|a, b| rate(a).total_cmp(&rate(b))).map(|cell| (rate(cell), mean(cell)))
    };
    let figure = |value: Option<f64>| value.map_or(Value::Nothing, Value::figure);
    for (name, cells) in curves {
        let within =
            |ms: f64| largest(&mut cells.iter().filter(|cell| mean(cell) <= ms)).map(|(rate, _)| rate);
        let mut row: Vec<Value> = MEANS_MS.iter().map(|ms| figure(within(*ms))).collect();
        let max = largest(&mut cells.iter());
        row.extend([figure(max.map(|(rate, _)| rate)), figure(max.map(|(_, mean)| mean))]);
        row.push(figure(cells.iter().map(|cell| mean(cell)).reduce(f64::min)));
        table.row(*name, row);
    }
    let line = |(index, (name, cells)): (usize, &Curve<'_>)| Line {
        name: (*name).to_owned(),
        color: index % COLORS,
        ideal: false,
        points: cells.iter().map(|cell| (rate(cell), mean(cell))).collect(),
    };
    let chart = Lines {
        x: plot::Axis::new(form.unit()),
        y: plot::Axis::logarithmic("ms"),
        levels: MEANS_MS.map(|ms| (ms, format!("{ms} ms"))).to_vec(),
        lines: curves.iter().enumerate().map(line).collect(),
        ..Lines::default()
    };
    let title = match title.is_empty() {
        true => "Mean latency over rate".to_owned(),
        false => format!("Mean latency over rate: {title}"),
    };
    let note = "From few calls in flight to many.".to_owned();
    (table, Plot { title, note, chart: Chart::Lines(chart) })
}

fn highlight(section: &Section) -> Vec<Fact> {
    let of_table = |table: &Table| {
        let each = table.rows.iter().map(|row| match &row.cells[0] {
            Value::Nothing => format!("{} nothing", row.label),
            value => format!("{} {value}", row.label),
        });
        let load = if table.title.is_empty() { String::new() } else { format!(", {}", table.title) };
        let name = format!("{}{load}: {}", section.title, table.head[1]);
        (name, each.collect::<Vec<_>>().join("; "))
    };
    section.tables.iter().map(of_table).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::super::{html, markdown};
    use super::*;
    use crate::scenario;

    /// The server has a latency of `call_ms` and a maximum of 10,000 calls per second.
    fn run(case: Option<&str>, call_ms: f64) -> Run {
        let model = move |series: &Series, point: &Point| {
            let in_flight = (series.jobs * point.depth) as f64;
            let rate = (in_flight / call_ms * 1e3).min(10_000.0);
            (rate, in_flight / rate * 1e3)
        };
        let scenario = scenario::by_name("client-tuning").unwrap();
        let mut run = Sample { noise: 0.0, ..Sample::default() }.run(scenario, &model);
        run.target.case = case.map(str::to_owned);
        run
    }

    #[test]
    fn cases_are_compared_at_latency_of_page() {
        let (slow, fast) = (run(Some("baseline"), 1.5), run(Some("all"), 0.4));
        let report = cases(&[slow.clone(), fast]).unwrap();
        assert_eq!(report.sections.len(), 3);
        let random = report.sections.iter().find(|section| section.title == "8 KiB random").unwrap();
        assert_eq!((random.tables.len(), random.plots.len()), (2, 2), "reads and writes");
        let cells = |row: usize| &random.tables[0].rows[row].cells;
        assert_eq!((random.tables[0].rows[0].label.as_str(), &cells(0)[0]), ("baseline", &Value::Nothing));
        let Value::Number(within, _) = cells(1)[0] else { panic!("{:?}", cells(1)) };
        assert!((9_900.0..=10_100.0).contains(&within), "4 jobs with 2 in flight at 0.8 ms: {within}");
        let text = markdown(std::slice::from_ref(&report));
        assert!(text.contains("baseline nothing; all 1"), "{text}");
        assert!(text.contains("Case baseline") && html(&[report]).contains("Mean latency over rate"));
        assert_eq!(cases(std::slice::from_ref(&slow)), None, "one alone");
        assert_eq!(cases(&[slow, run(None, 1.0)]), None, "no case");
    }
}
