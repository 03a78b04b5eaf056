//! Several runs side by side: a plot for each common series, with a bar or a line for each run.

use envelope::Direction;

use super::axes::{self, Axis, Form, Group};
use super::build;
use super::ceilings;
use super::content::{Lead, Report, Section};
use super::plot::{self, Bars, COLORS, Ceiling, Chart, Line, Lines, Part, Plot, Stack};
use super::plots::titled;
use super::table::{Table, Value};
use super::{eda, highlights, words};
use crate::curve::{Curve, CurvePoint, MEAN_MAX_MS};
use crate::result::{Cell, Run};
use crate::scenario::{Series, Work};

/// A run with its name.
pub type NamedRun<'a> = (&'a str, &'a Run);

/// The cells of one series in one run.
struct Side<'a> {
    name: &'a str,
    run: &'a Run,
    cells: Vec<&'a Cell>,
}

/// `None` for fewer than two runs, or for runs without a common series.
pub fn side_by_side(runs: &[NamedRun<'_>]) -> Option<Report> {
    let (_, first) = runs.first().filter(|_| runs.len() > 1)?;
    let sections: Vec<Section> =
        first.scenario.series.iter().filter_map(|series| section(runs, series)).collect();
    let lead = sections.first()?;
    let names: Vec<&str> = runs.iter().map(|(name, _)| *name).collect();
    let fact = |(name, run): &NamedRun<'_>| {
        let text = format!("{}; {}", highlights::target(run), words::time(run.started));
        ((*name).to_owned(), text)
    };
    Some(Report {
        title: if names.len() > 4 { format!("{} runs", names.len()) } else { names.join(", ") },
        name: "Side by side".to_owned(),
        lead: Lead {
            result: format!("{}: {}.", lead.title, lead.result),
            limit: String::new(),
            plot: lead.plots.first().cloned(),
        },
        about: String::new(),
        verdict: None,
        stamps: Vec::new(),
        highlights: sections.iter().map(|one| (one.title.clone(), one.result.clone())).collect(),
        facts: runs.iter().map(fact).collect(),
        caveats: Vec::new(),
        scaled: Vec::new(),
        plots: Vec::new(),
        sections,
        details: Vec::new(),
        scenario: String::new(),
        cells: Table::default(),
    })
}

fn section<'a>(runs: &[NamedRun<'a>], series: &Series) -> Option<Section> {
    let side = |&(name, run): &NamedRun<'a>| {
        let is_it = |other: &Series| other.name == series.name && other.work == series.work;
        let index = run.scenario.series.iter().position(is_it)?;
        let cells: Vec<&Cell> = run.cells_of(index).filter(|cell| cell.has_result()).collect();
        (!cells.is_empty()).then_some(Side { name, run, cells })
    };
    let sides: Vec<Side<'a>> = runs.iter().filter_map(side).collect();
    if sides.len() < 2 {
        return None;
    }
    let (tables, plots, result) = match series.work {
        Work::EdaBlend => of_curves(&sides),
        Work::Transfers | Work::OpenRead | Work::Metadata => of_points(series, &sides),
    };
    Some(Section { title: series.name.clone(), result, tables, plots, ..Section::default() })
}

fn of_points(series: &Series, sides: &[Side<'_>]) -> (Vec<Table>, Vec<Plot>, String) {
    let all: Vec<&Cell> = sides.iter().flat_map(|side| side.cells.iter().copied()).collect();
    let varying = Axis::varying(series, &all);
    let column = axes::columns(series, &varying);
    let axis = column.or(varying.first().copied()).unwrap_or_else(|| axes::alone(&all[0].point));
    let groups = axes::groups(&all, &build::without(&varying, &[axis, Axis::Depth]));
    let (mut tables, mut plots, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for group in &groups {
        if axis == Axis::Depth {
            plots.push(of_depths(series, sides, group));
            continue;
        }
        let columns = Columns::of(series, sides, group, axis);
        plots.push(columns.plot(series, axis));
        tables.push(columns.table(axis));
        ratios.extend(columns.ratios());
    }
    let range = ratios.iter().copied().reduce(f64::min).zip(ratios.iter().copied().reduce(f64::max));
    let last = sides.last().map_or("", |side| side.name);
    let result = range.map_or_else(String::new, |(min, max)| {
        let [min, max] = [min, max].map(|ratio| format!("{ratio:.2}"));
        let times = if min == max { min } else { format!("{min} to {max}") };
        format!("the rate of {last} is {times} times that of {}", sides[0].name)
    });
    (tables, plots, result)
}

/// The best cell of each side at each value of an axis.
struct Columns<'a> {
    name: String,
    form: Form,
    /// The point of each column.
    points: Vec<&'a Cell>,
    sides: Vec<(&'a str, &'a Run, Vec<Option<&'a Cell>>)>,
}

impl<'a> Columns<'a> {
    fn of(series: &Series, sides: &[Side<'a>], group: &Group<'a>, axis: Axis) -> Self {
        let mut points: Vec<&Cell> = Vec::new();
        for cell in &group.cells {
            if points.iter().all(|one| axis.key(&one.point) != axis.key(&cell.point)) {
                points.push(cell);
            }
        }
        let own = |side: &Side<'a>| {
            let in_group = |cell: &&&Cell| group.cells.iter().any(|one| std::ptr::eq(*one, **cell));
            let cells: Vec<&Cell> = side.cells.iter().filter(in_group).copied().collect();
            let peaks = build::peaks(series, &cells, axis);
            let at = |point: &&Cell| {
                peaks.iter().find(|cell| axis.key(&cell.point) == axis.key(&point.point)).copied()
            };
            (side.name, side.run, points.iter().map(at).collect())
        };
        let sides = sides.iter().map(own).collect();
        Self { name: group.name.clone(), form: Form::of(series, &points[0].point), points, sides }
    }

    fn rate(&self, cell: &Cell) -> f64 {
        self.form.rate(cell, Direction::Total)
    }

    /// Rates of the last side over those of the first one.
    fn ratios(&self) -> Vec<f64> {
        let (Some((_, _, first)), Some((_, _, last))) = (self.sides.first(), self.sides.last()) else {
            return Vec::new();
        };
        let both = first.iter().zip(last).filter_map(|(first, last)| Some(((*first)?, (*last)?)));
        let ratio = |(first, last): (&Cell, &Cell)| {
            let base = self.rate(first);
            (base > 0.0).then(|| self.rate(last) / base)
        };
        both.filter_map(ratio).collect()
    }

    fn plot(&self, series: &Series, axis: Axis) -> Plot {
        let stack = |(index, (name, _, cells)): (usize, &(&str, &Run, Vec<Option<&Cell>>))| {
            let values = cells.iter().map(|cell| cell.map(|cell| self.rate(cell))).collect();
            let part = Part { name: (*name).to_owned(), color: index % COLORS, values };
            Stack { published: false, parts: vec![part] }
        };
        let bars = Bars {
            unit: self.form.unit().to_owned(),
            groups: self.points.iter().map(|cell| axis.value(&cell.point)).collect(),
            stacks: self.sides.iter().enumerate().map(stack).collect(),
            totals: true,
            ceilings: self.ceilings(series),
        };
        let note = format!("{}. Reads and writes together.", axis.heading());
        Plot { title: titled("Rates of the runs", &self.name), note, chart: Chart::Bars(bars) }
    }

    /// One line where all runs have the same limits.
    fn ceilings(&self, series: &Series) -> Vec<Ceiling> {
        let of_side = |(name, run, cells): &(&str, &Run, Vec<Option<&Cell>>)| {
            let cells: Vec<&Cell> = cells.iter().copied().collect::<Option<_>>()?;
            let ceiling = ceilings::of_cells(run, series, &cells, self.form).ceiling?;
            Some(((*name).to_owned(), ceiling))
        };
        let found: Vec<(String, Ceiling)> = self.sides.iter().filter_map(of_side).collect();
        if found.len() == self.sides.len() && found.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            return found.into_iter().map(|(_, ceiling)| ceiling).take(1).collect();
        }
        let named = |(name, ceiling): (String, Ceiling)| Ceiling {
            name: format!("{name}: {}", ceiling.name),
            values: ceiling.values,
        };
        found.into_iter().map(named).collect()
    }

    fn table(&self, axis: Axis) -> Table {
        let mut table = Table::new(self.name.as_str(), &[axis.heading()]);
        table.head.extend(self.points.iter().map(|cell| axis.value(&cell.point)));
        let unit = self.form.unit();
        let mut add = |label: String, figure: &dyn Fn(&Cell) -> f64, cells: &[Option<&Cell>]| {
            let values =
                cells.iter().map(|cell| cell.map_or(Value::Nothing, |cell| Value::figure(figure(cell))));
            table.row(label, values.collect());
        };
        for (name, _, cells) in &self.sides {
            add(format!("{name}: {unit}"), &|cell| self.rate(cell), cells);
        }
        for (name, _, cells) in &self.sides {
            add(format!("{name}: p99 ms"), &|cell| cell.summary.latency.p99_ms, cells);
        }
        let (first, _, base) = &self.sides[0];
        for (name, _, cells) in &self.sides[1..] {
            let ratio = |(cell, base): (&Option<&Cell>, &Option<&Cell>)| {
                cell.zip(*base)
                    .map_or(Value::Nothing, |(cell, base)| Value::ratio(self.rate(cell), self.rate(base)))
            };
            table.row(format!("{name} ÷ {first}"), cells.iter().zip(base).map(ratio).collect());
        }
        table
    }
}

fn of_depths(series: &Series, sides: &[Side<'_>], group: &Group<'_>) -> Plot {
    let form = Form::of(series, &group.cells[0].point);
    let line = |(index, side): (usize, &Side<'_>)| {
        let own = side.cells.iter().filter(|cell| group.cells.iter().any(|one| std::ptr::eq(*one, **cell)));
        let points = own.map(|cell| (form.rate(cell, Direction::Total), cell.summary.latency.mean_ms));
        line_of(index, side, points.collect())
    };
    let lines = sides.iter().enumerate().map(line).collect();
    let chart =
        Lines { x: plot::Axis::new(form.unit()), y: plot::Axis::new("ms"), lines, ..Lines::default() };
    let note = "Means, from few calls in flight to many.".to_owned();
    Plot { title: titled("Latency against throughput", &group.name), note, chart: Chart::Lines(chart) }
}

fn of_curves(sides: &[Side<'_>]) -> (Vec<Table>, Vec<Plot>, String) {
    let curve = |side: &Side<'_>| Curve::of_cells(side.cells.iter().copied());
    let line = |(index, side): (usize, &Side<'_>)| {
        let point = |point: &CurvePoint| (point.achieved, point.response.mean_ms);
        line_of(index, side, curve(side).valid().iter().map(point).collect())
    };
    let chart = Lines {
        x: plot::Axis::new("operations reached a second"),
        y: plot::Axis::logarithmic("ms"),
        lines: sides.iter().enumerate().map(line).collect(),
        levels: vec![(MEAN_MAX_MS, format!("{MEAN_MAX_MS} ms"))],
        ..Lines::default()
    };
    let plot = Plot {
        title: "Mean response time over rate".to_owned(),
        note: "Valid points only.".to_owned(),
        chart: Chart::Lines(chart),
    };
    let headline = |side: &Side<'_>| format!("{}: {}", side.name, eda::headline(&curve(side)));
    let result: Vec<String> = sides.iter().map(headline).collect();
    (Vec::new(), vec![plot], result.join("; "))
}

fn line_of(index: usize, side: &Side<'_>, points: Vec<(f64, f64)>) -> Line {
    Line { name: side.name.to_owned(), color: index % COLORS, ideal: false, points }
}

#[cfg(test)]
mod tests {
    use super::super::{html, sample};
    use super::*;

    #[test]
    fn runs_of_one_scenario_share_a_plot_for_each_series() {
        let (first, mut second) = (sample::gcnv(), sample::gcnv());
        second.cells.iter_mut().for_each(|cell| cell.summary.mib_per_s.median *= 2.0);
        let report = side_by_side(&[("monday", &first), ("friday", &second)]).unwrap();
        assert_eq!(report.sections.len(), first.scenario.series.len());
        let Chart::Bars(bars) = &report.sections[0].plots[0].chart else { panic!("no bars") };
        let names: Vec<&str> = bars.stacks.iter().map(|stack| stack.parts[0].name.as_str()).collect();
        assert_eq!(names, ["monday", "friday"]);
        assert_eq!(report.sections[0].result, "the rate of friday is 2.00 times that of monday");
        let runs = [Report::of(&first).named("monday"), Report::of(&second).named("friday")];
        let page = html(&[vec![report], runs.to_vec()].concat());
        super::super::tests::check_page(&page);
        for name in ["monday", "friday"] {
            let title = format!("{name}: {}</h1>", first.scenario.title);
            assert_eq!(page.matches(&title).count(), 1, "{title}");
        }
        assert!(side_by_side(&[("monday", &first)]).is_none(), "one alone");
        let other = sample::eda();
        assert!(side_by_side(&[("monday", &first), ("other", &other)]).is_none(), "nothing in common");
    }
}
