//! Compares sides that differ in one property over the same loads: a plot with a line for each side, and a
//! table of the differences.

use envelope::{Direction, Unit};

use super::axes::{self, Axis, Form};
use super::content::Section;
use super::facts::Fact;
use super::plot::{self, COLORS, Chart, Line, Lines, Plot};
use super::table::{Row, RowKind, Table, Value};
use super::{ceilings, curve_pairs, plots, published};
use crate::result::{Cell, Run};
use crate::scenario::{Cache, Compared, Pair, Point, Series, Work};

pub(super) type SeriesCell<'a> = (&'a Series, &'a Cell);

pub(super) struct Side<'a> {
    pub(super) name: String,
    pub(super) cells: Vec<SeriesCell<'a>>,
}

/// `varying` are the axes along which the cells of a side differ.
struct PairSides<'a> {
    sides: Vec<Side<'a>>,
    varying: Vec<Axis>,
}

pub(super) fn sections(run: &Run) -> Vec<Section> {
    run.scenario.pairs.iter().filter_map(|pair| section(run, pair)).collect()
}

pub(super) fn highlights(run: &Run) -> Vec<Fact> {
    run.scenario.pairs.iter().filter_map(|pair| highlight(run, pair)).collect()
}

fn highlight(run: &Run, pair: &Pair) -> Option<Fact> {
    let all = sides(run, pair)?;
    let sides_found = if is_curve(&all.sides) {
        curve_pairs::highlight(&all.sides)
    } else {
        let groups = groups(&all);
        let ratios = groups.iter().flat_map(|group| group.ratios(group.sides.len() - 1));
        range(&all.sides, &ratios.collect::<Vec<_>>())
    };
    sides_found.map(|text| (pair.name.clone(), text))
}

fn range(sides: &[Side<'_>], ratios: &[f64]) -> Option<String> {
    let min = ratios.iter().copied().reduce(f64::min)?;
    let max = ratios.iter().copied().reduce(f64::max)?;
    let (first, last) = (&sides.first()?.name, &sides.last()?.name);
    Some(format!("{last}: {min:.2} to {max:.2} times {first}"))
}

fn section(run: &Run, pair: &Pair) -> Option<Section> {
    let all = sides(run, pair)?;
    let note = Some(pair.note.trim().to_owned()).filter(|note| !note.is_empty());
    let mut section = Section {
        title: pair.name.clone(),
        result: highlight(run, pair).map_or_else(String::new, |(_, text)| text),
        facts: note.map(|note| ("Note".to_owned(), note)).into_iter().collect(),
        tables: Vec::new(),
        plots: Vec::new(),
        caveats: Vec::new(),
        citations: Vec::new(),
        details: Vec::new(),
        detail_plots: Vec::new(),
    };
    if is_curve(&all.sides) {
        section.tables.push(curve_pairs::table(&all.sides));
        section.plots.extend(curve_pairs::plot(&all.sides));
    } else {
        for group in groups(&all).iter().filter(|group| !group.columns().is_empty()) {
            section.facts.extend(group.crossings());
            section.tables.push(group.table(pair));
            section.plots.extend(group.plots(run));
        }
    }
    Some(section)
}

fn is_curve(sides: &[Side<'_>]) -> bool {
    sides.iter().flat_map(|side| &side.cells).any(|(series, _)| series.work == Work::EdaBlend)
}

/// `None` if fewer than two sides have results.
fn sides<'a>(run: &'a Run, pair: &Pair) -> Option<PairSides<'a>> {
    let mut sides_found: Vec<(Vec<u64>, Side<'a>)> = Vec::new();
    let named =
        run.scenario.series.iter().enumerate().filter(|(_, series)| pair.series.contains(&series.name));
    for (series, cell) in
        named.flat_map(|(index, series)| run.cells_of(index).map(move |cell| (series, cell)))
    {
        // The point that ends a curve is part of it.
        if !cell.has_result() && series.work != Work::EdaBlend {
            continue;
        }
        let key = pair.side(series, &cell.point);
        match sides_found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, side)) => side.cells.push((series, cell)),
            None => {
                let name = name(pair, series, &cell.point);
                sides_found.push((key, Side { name, cells: vec![(series, cell)] }));
            }
        }
    }
    let sides: Vec<Side<'a>> = sides_found.into_iter().map(|(_, side)| side).collect();
    let cells: Vec<&Cell> = sides.iter().flat_map(|side| &side.cells).map(|(_, cell)| *cell).collect();
    let first = sides.get(1).and(sides.first())?.cells.first()?.0;
    let mut varying = Axis::varying(first, &cells);
    varying.retain(|axis| !pair.compares.iter().any(|compared| axis_of(*compared) == Some(*axis)));
    Some(PairSides { sides, varying })
}

fn name(pair: &Pair, series: &Series, point: &Point) -> String {
    let words = |compared: &Compared| match (axis_of(*compared), series.cache) {
        (Some(axis), _) => axis.words(point),
        (None, Cache::Any) => "as found".to_owned(),
        (None, Cache::Warm) => "cached".to_owned(),
        (None, Cache::Cold) => "uncached".to_owned(),
    };
    pair.compares.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// `None` for the cache, which is a property of the series.
fn axis_of(compared: Compared) -> Option<Axis> {
    match compared {
        Compared::Cache => None,
        Compared::Clients => Some(Axis::Clients),
        Compared::Connections => Some(Axis::Connections),
        Compared::Transfers => Some(Axis::Transfer),
        Compared::AttributeCache => Some(Axis::AttributeCache),
        Compared::Places => Some(Axis::Places),
        Compared::Directories => Some(Axis::Directories),
        Compared::Protocol => Some(Axis::Protocol),
    }
}

struct Group<'a> {
    name: String,
    across: Axis,
    sides: Vec<Side<'a>>,
}

/// One group for each combination of values along the remaining axes.
fn groups<'a>(all: &PairSides<'a>) -> Vec<Group<'a>> {
    let across = [Axis::Depth, Axis::Mix].into_iter().find(|axis| all.varying.contains(axis));
    let across = across.or(all.varying.first().copied()).unwrap_or(Axis::Mix);
    let rest: Vec<Axis> = all.varying.iter().filter(|axis| **axis != across).copied().collect();
    let cells: Vec<&Cell> = all.sides.iter().flat_map(|side| &side.cells).map(|(_, cell)| *cell).collect();
    let group = |group: axes::Group<'_>| {
        let is_in = |(_, cell): &SeriesCell<'_>| {
            rest.iter().all(|axis| axis.key(&cell.point) == axis.key(&group.cells[0].point))
        };
        let of = |side: &Side<'a>| Side {
            name: side.name.clone(),
            cells: side.cells.iter().filter(|of| is_in(of)).copied().collect(),
        };
        Group { name: group.name.clone(), across, sides: all.sides.iter().map(of).collect() }
    };
    axes::groups(&cells, &rest).into_iter().map(group).collect()
}

impl<'a> Group<'a> {
    fn key(&self, of: &SeriesCell<'_>) -> u64 {
        self.across.key(&of.1.point)
    }

    fn columns(&self) -> Vec<Vec<SeriesCell<'a>>> {
        let Some(first) = self.sides.first() else { return Vec::new() };
        let at = |of: &SeriesCell<'a>| {
            let same =
                |side: &Side<'a>| side.cells.iter().find(|other| self.key(other) == self.key(of)).copied();
            self.sides.iter().map(same).collect::<Option<Vec<_>>>()
        };
        first.cells.iter().filter_map(at).collect()
    }

    fn form(&self) -> Form {
        let first = self.sides.iter().flat_map(|side| &side.cells).next();
        first.map_or(Form::Iops, |(series, cell)| Form::of(series, &cell.point))
    }

    fn rate(&self, of: &SeriesCell<'_>) -> f64 {
        self.form().rate(of.1, Direction::Total)
    }

    fn published(&self, of: &SeriesCell<'_>) -> Option<f64> {
        let (series, cell) = of;
        let unit = if self.form() == Form::Iops { Unit::Iops } else { Unit::MibPerSecond };
        let mut figures =
            published::named_records(series).flat_map(|one| published::at(one, series, &cell.point));
        let total = figures.find(|figure| figure.direction == Direction::Total && figure.unit == unit);
        total.map(|figure| published::number(&figure))
    }

    fn ratios(&self, side: usize) -> Vec<f64> {
        let columns = self.columns();
        let rates = columns.iter().map(|column| (self.rate(&column[side]), self.rate(&column[0])));
        rates.filter(|(_, first)| *first > 0.0).map(|(rate, first)| rate / first).collect()
    }

    fn table(&self, pair: &Pair) -> Table {
        let columns = self.columns();
        let mut table = Table::new(self.name.clone(), &[self.across.heading()]);
        table.head.extend(columns.iter().map(|column| self.across.value(&column[0].1.point)));
        let unit = self.form().unit();
        let mut add = |kind, label: String, figure: &dyn Fn(&[SeriesCell<'a>]) -> Value| {
            let cells: Vec<Value> = columns.iter().map(|column| figure(column)).collect();
            if cells.iter().any(|cell| *cell != Value::Nothing) {
                table.rows.push(Row { kind, label, cells });
            }
        };
        let is_of_memory = |compared: &Compared| matches!(compared, Compared::Cache | Compared::Places);
        let of_memory = pair.compares.iter().any(is_of_memory);
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        for (at, name) in names.iter().enumerate() {
            add(RowKind::Page, format!("{name}: {unit}"), &|of| Value::figure(self.rate(&of[at])));
        }
        for (at, name) in names.iter().enumerate().skip(1) {
            let label = format!("{name} over {}", names[0]);
            add(RowKind::Measured, label, &|of| Value::ratio(self.rate(&of[at]), self.rate(&of[0])));
            if of_memory {
                let label = format!("Change from {} to {name}, %", names[0]);
                add(RowKind::Measured, label, &|of| percent_change(self.rate(&of[at]), self.rate(&of[0])));
            }
        }
        let mean = |(_, cell): &SeriesCell<'_>| cell.summary.latency.mean_ms;
        for (at, name) in names.iter().enumerate() {
            add(RowKind::Measured, format!("{name}: mean ms"), &|of| Value::figure(mean(&of[at])));
        }
        for (at, name) in names.iter().enumerate().skip(1) {
            let label = format!("{name} over {}: mean ms", names[0]);
            add(RowKind::Measured, label, &|of| Value::ratio(mean(&of[at]), mean(&of[0])));
        }
        if of_memory {
            for (at, name) in names.iter().enumerate() {
                let label = format!("{name}: answered by the server's memory, %");
                add(RowKind::Measured, label, &|of| memory_hit_ratio(of[at].1));
            }
        }
        // Two sides of one series have the same published figures, which show no difference.
        if pair.series.len() > 1 {
            let value = |of: &SeriesCell<'_>| self.published(of).map_or(Value::Nothing, Value::figure);
            for (at, name) in names.iter().enumerate() {
                add(RowKind::Published, format!("Published, {name}: {unit}"), &|of| value(&of[at]));
            }
            let published = |of: &[SeriesCell<'a>]| {
                let both = self.published(&of[1]).zip(self.published(&of[0]));
                both.map_or(Value::Nothing, |(second, first)| percent_change(second, first))
            };
            add(RowKind::Published, "Published change, %".to_owned(), &published);
        }
        let claimed = |of: &[SeriesCell<'a>]| {
            let here = |reads: u8| reads == of[0].1.point.read_percent;
            let claim = pair.claims.iter().find(|claim| here(claim.reads));
            claim.map_or(Value::Nothing, |claim| Value::Number(claim.percent, 0))
        };
        add(RowKind::Published, "The page's text: change, %".to_owned(), &claimed);
        table
    }

    /// The volume's limit, if it is the same for all cells.
    fn limit(&self, run: &Run) -> Option<(f64, String)> {
        let series = self.sides.first()?.cells.first()?.0;
        let cells: Vec<&Cell> =
            self.sides.iter().flat_map(|side| &side.cells).map(|(_, cell)| *cell).collect();
        ceilings::of_all(run, series, &cells, self.form())
    }

    fn plots(&self, run: &Run) -> Vec<Plot> {
        let is_number = matches!(
            self.across,
            Axis::Mix | Axis::Depth | Axis::Clients | Axis::Connections | Axis::Block | Axis::Directories
        );
        if !is_number || self.sides.iter().all(|side| side.cells.len() < 2) {
            return Vec::new();
        }
        let mut rates = self.lines(false, &|of| Some(self.rate(of)));
        let published = self.lines(true, &|of| self.published(of));
        // One line for both would suggest that they are equal.
        let series = || self.sides.iter().flat_map(|side| &side.cells).map(|(series, _)| *series);
        let several = series().any(|other| series().next() != Some(other));
        rates.extend(published.into_iter().filter(|line| several && !line.points.is_empty()));
        let is_published = rates.iter().any(|line| line.ideal);
        let note = if is_published { "Dashed: straight lines between the page's figures." } else { "" };
        let limit = self.limit(run);
        let mut plots = vec![self.plot("Rate", note, self.form().unit(), rates, limit)];
        if self.across == Axis::Depth {
            let means = self.lines(false, &|of| Some(of.1.summary.latency.mean_ms));
            plots.push(self.plot("Latency", "Means.", "ms", means, None));
        }
        plots
    }

    fn lines(&self, ideal: bool, value: &dyn Fn(&SeriesCell<'a>) -> Option<f64>) -> Vec<Line> {
        let line = |(index, side): (usize, &Side<'a>)| {
            let point = |of: &SeriesCell<'a>| Some((self.key(of) as f64, value(of)?));
            let mut points: Vec<(f64, f64)> = side.cells.iter().filter_map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let name = if ideal { format!("{}, published", side.name) } else { side.name.clone() };
            Line { name, color: index % COLORS, ideal, points }
        };
        self.sides.iter().enumerate().map(line).collect()
    }

    fn plot(
        &self,
        title: &str,
        note: &str,
        unit: &str,
        lines: Vec<Line>,
        limit: Option<(f64, String)>,
    ) -> Plot {
        let x = if self.across == Axis::Mix {
            plot::Axis::new("reads, %")
        } else {
            let cells = self.sides.iter().flat_map(|side| &side.cells);
            let mut ticks: Vec<(f64, String)> = Vec::new();
            for of in cells {
                let tick = (self.key(of) as f64, self.across.value(&of.1.point));
                if !ticks.contains(&tick) {
                    ticks.push(tick);
                }
            }
            ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
            plot::Axis { ticks, ..plot::Axis::logarithmic(self.across.heading()) }
        };
        let levels = limit.into_iter().collect();
        let chart = Lines { x, y: plot::Axis::new(unit), lines, levels, ..Lines::default() };
        Plot { title: plots::titled(title, &self.name), note: note.to_owned(), chart: Chart::Lines(chart) }
    }

    /// The mix at which the lines of two sides cross, measured and published.
    fn crossings(&self) -> Vec<Fact> {
        if self.across != Axis::Mix || self.sides.len() != 2 {
            return Vec::new();
        }
        let columns = self.columns();
        let points = |value: &dyn Fn(&SeriesCell<'a>) -> Option<f64>| {
            let at = |column: &Vec<SeriesCell<'a>>| {
                Some((self.key(&column[0]) as f64, value(&column[1])? - value(&column[0])?))
            };
            columns.iter().filter_map(at).collect::<Vec<_>>()
        };
        let (own, page) = (points(&|of| Some(self.rate(of))), points(&|of| self.published(of)));
        let several = page.iter().any(|(_, difference)| *difference != 0.0);
        let fact = |what: &str, points: &[(f64, f64)]| (plots::titled(what, &self.name), crossing(points));
        let own = (own.len() > 1).then(|| fact("Measured lines", &own));
        let page = (several && page.len() > 1).then(|| fact("Published lines", &page));
        own.into_iter().chain(page).collect()
    }
}

/// Interpolates between shares of reads with straight lines.
fn crossing(points: &[(f64, f64)]) -> String {
    let changes = |pair: &&[(f64, f64)]| pair[0].1 * pair[1].1 < 0.0;
    let Some(pair) = points.windows(2).find(changes) else { return "do not cross".to_owned() };
    let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
    let at = x + (next_x - x) * y / (y - next_y);
    format!("cross between {x:.0} and {next_x:.0} % reads, on a straight line at {at:.0} %")
}

fn percent_change(rate: f64, first: f64) -> Value {
    if first > 0.0 { Value::Number((rate / first - 1.0) * 100.0, 1) } else { Value::Nothing }
}

/// READs answered from the server's memory, over the repetitions that report them.
fn memory_hit_ratio(cell: &Cell) -> Value {
    let sides = cell.measurements.iter().filter(|one| one.is_valid()).filter_map(|one| one.server);
    let ratios: Vec<f64> = sides.filter_map(|server| server.cache_hit_ratio).collect();
    if ratios.is_empty() {
        return Value::Nothing;
    }
    Value::percent(ratios.iter().sum::<f64>() / ratios.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Report;
    use crate::document::markdown;
    use crate::document::sample::Sample;
    use crate::scenario::{self, Claim, Depth, Scenario};

    /// The simulated server reaches the page's figures.
    fn regular(expected: &str) -> Run {
        let mut scenario = scenario::by_name("anf-regular").unwrap();
        scenario.keep(|series| series.name.starts_with(expected));
        let model = |series: &Series, point: &Point| {
            let read = f64::from(point.read_percent) / 100.0;
            let (reads, writes) = match series.cache {
                Cache::Cold => (3_600.0, 2_400.0),
                _ => (4_500.0, 1_600.0),
            };
            ((writes + (reads - writes) * read) * f64::from(1 << 20) / point.block as f64, 1.0)
        };
        Sample { noise: 0.0, ..Sample::default() }.run(scenario, &model)
    }

    fn row<'a>(table: &'a Table, label: &str) -> &'a Row {
        table.rows.iter().find(|row| row.label == label).unwrap_or_else(|| panic!("{label}: {table:#?}"))
    }

    fn shown(row: &Row) -> Vec<String> {
        row.cells.iter().map(Value::to_string).collect()
    }

    fn near(row: &Row, expected: &[f64], by: f64) {
        let sides_found: Vec<f64> = row.cells.iter().map(|cell| cell.plain().parse().unwrap()).collect();
        assert_eq!(sides_found.len(), expected.len(), "{row:?}");
        assert!(
            sides_found
                .iter()
                .zip(expected)
                .all(|(sides_found, expected)| (sides_found - expected).abs() <= by),
            "{row:?}"
        );
    }

    #[test]
    fn sides_are_compared_at_common_places() {
        let sections = sections(&regular("64 KiB"));
        assert_eq!(sections.len(), 1);
        let table = &sections[0].tables[0];
        assert_eq!(table.head, ["Read/write %", "100/0", "50/50", "0/100"]);
        near(row(table, "cached: MiB/s"), &[4_500.0, 3_050.0, 1_600.0], 9.0);
        near(row(table, "uncached over cached"), &[0.80, 0.98, 1.50], 0.01);
        near(row(table, "Change from cached to uncached, %"), &[-20.0, -1.6, 50.0], 0.5);
        assert_eq!(shown(row(table, "Published change, %")), ["-20.0", "", "50.0"]);
        let [_, (own, measured), (page, published)] = &sections[0].facts[..] else { panic!("three facts") };
        assert_eq!((own.as_str(), page.as_str()), ("Measured lines", "Published lines"));
        assert!(
            measured.starts_with("cross between 50 and 0 % reads, on a straight line at 4"),
            "{measured}"
        );
        assert_eq!(published, "cross between 100 and 0 % reads, on a straight line at 47 %");
        let Chart::Lines(chart) = &sections[0].plots[0].chart else { panic!("no lines") };
        let names: Vec<&str> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["cached", "uncached", "cached, published", "uncached, published"]);
        assert_eq!(chart.lines[0].points.len(), 11, "also those that only one side has");
    }

    #[test]
    fn claims_of_page_are_beside_measured_change() {
        let run = regular("4 KiB");
        let table = &sections(&run)[0].tables[0];
        assert_eq!(shown(row(table, "The page's text: change, %")), ["-17", "", "-8"]);
        assert_eq!(shown(row(table, "Published change, %")), ["-15.7", "", "-7.7"]);
        let text = markdown(&[Report::of(&run)]);
        assert!(text.contains("- 4 KiB random, uncached against cached: uncached: 0."), "{text}");
    }

    #[test]
    fn connections_over_depth_plot_rate_and_latency() {
        let mut scenario = scenario::by_name("anf-nconnect").unwrap();
        scenario.keep(|series| series.name.starts_with("4 KiB"));
        let model = |_: &Series, point: &Point| {
            let rate = 1_000.0 * (point.connections * point.depth) as f64;
            (rate, (point.depth * 8) as f64 / rate * 1e3)
        };
        let run = Sample { noise: 0.0, ..Sample::default() }.run(scenario, &model);
        let sections = sections(&run);
        let titles: Vec<&str> = sections[0].plots.iter().map(|plot| plot.title.as_str()).collect();
        assert_eq!(titles[..2], ["Rate: 100/0 % read/write", "Latency: 100/0 % read/write"]);
        assert_eq!((titles.len(), sections[0].tables.len()), (4, 2));
        let table = &sections[0].tables[0];
        assert_eq!(table.head[1..], ["1", "2", "4", "8", "16", "32", "64", "128"]);
        near(row(table, "8 connections over 1 connection"), &[8.0; 8], 0.08);
        near(row(table, "8 connections over 1 connection: mean ms"), &[0.125; 8], 0.02);
    }

    #[test]
    fn curves_are_compared_by_rate_within_latency() {
        let mut scenario = scenario::by_name("eda-blend").unwrap();
        scenario.keep(|series| series.name.starts_with("cases"));
        scenario.series[0].job_sets = (1..=10).map(|step| step * 9).collect();
        let model = |_: &Series, point: &Point| {
            let rate = f64::from(point.job_sets.unwrap()) * 450.0;
            let absorbed = if point.attribute_cache == Some(true) { 0.5 } else { 1.0 };
            (rate, absorbed * 2.0 / (point.connections as f64) / (1.0 - rate / 43_000.0))
        };
        let run = Sample { noise: 0.0, ..Sample::default() }.run(scenario, &model);
        let report = Report::of(&run);
        let (curves, pair) = (&report.sections[0], &report.sections[1]);
        let titles: Vec<&str> = curves.tables.iter().map(|table| table.title.as_str()).collect();
        assert_eq!(titles[0], "1 connection, attributes not cached");
        assert_eq!(titles.len(), 4, "a table for each curve: {titles:?}");
        let table = &pair.tables[0];
        let labels: Vec<&str> = table.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels[0], "1 connection, attributes not cached");
        assert_eq!(labels[3], "16 connections, attributes cached");
        let within_1ms = |row: usize| table.rows[row].cells[0].plain().parse::<f64>().unwrap_or(0.0);
        assert!(within_1ms(0) < within_1ms(3), "{table:?}");
        let Chart::Lines(chart) = &pair.plots[0].chart else { panic!("no lines") };
        assert_eq!((chart.lines.len(), pair.plots.len()), (4, 1));
        let highlight = &report.highlights[2];
        assert!(highlight.1.starts_with("operations a second within 2 ms: 1 connection"), "{highlight:?}");
    }

    #[test]
    fn metadata_pairs_have_no_plot() {
        let mut scenario = scenario::by_name("metadata").unwrap();
        scenario.keep(|series| series.name == "Over connections");
        let model = |_: &Series, point: &Point| (1_000.0 * point.connections as f64, 1.0);
        let report = Report::of(&Sample { noise: 0.0, ..Sample::default() }.run(scenario, &model));
        let highlight = &report.highlights[1].1;
        assert!(
            highlight.starts_with("stat up to 8,0") || highlight.starts_with("stat up to 7,9"),
            "{highlight}"
        );
        assert!(highlight.contains("(8 connections), create and unlink up to "), "{highlight}");
        assert_eq!(report.sections[0].tables.len(), 1);
        let pair = &report.sections[1];
        assert_eq!(pair.tables[0].head[1..], ["stat", "create and unlink", "rename"]);
        assert!(pair.plots.is_empty());
    }

    #[test]
    fn pair_needs_two_sides() {
        let series = Series { name: "s".to_owned(), connections: vec![1, 8], ..Series::default() };
        let of = |change: fn(&mut Pair)| {
            let mut pair = Pair {
                name: "p".to_owned(),
                compares: vec![Compared::Connections],
                series: vec!["s".to_owned()],
                claims: vec![Claim { reads: 100, percent: 7.0 }],
                note: String::new(),
            };
            change(&mut pair);
            let mut scenario = Scenario { pairs: vec![pair], ..scenario::by_name("sizing").unwrap() };
            scenario.series = vec![series.clone()];
            scenario.check().err()
        };
        assert_eq!(of(|_| ()), None);
        for (wrong, said) in [
            (of(|pair| pair.compares = vec![Compared::Cache]), "do not differ in what it compares"),
            (of(|pair| pair.compares.clear()), "compares is empty"),
            (of(|pair| pair.series = vec!["t".to_owned()]), "there is no series \"t\""),
            (of(|pair| pair.claims[0].reads = 101), "a claim at 101 % reads"),
        ] {
            let wrong = wrong.unwrap();
            assert!(wrong.starts_with("pair \"p\": ") && wrong.contains(said), "{wrong}");
        }
        let alone = Depth::Fixed(vec![1]);
        assert!(
            sections(&Sample::default().run(
                Scenario {
                    series: vec![Series { depths: alone, ..series.clone() }],
                    ..scenario::by_name("sizing").unwrap()
                },
                &|_, _| (1.0, 1.0)
            ))
            .is_empty()
        );
    }
}
