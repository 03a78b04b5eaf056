//! Builds the report of a run.

use super::axes::{self, Axis, Group};
use super::content::{Report, Section};
use super::plot::Plot;
use super::table::Table;
use super::{
    cells, columns, details, eda, facts, highlights, judged, lead, maps, metadata, pairs, plots, points,
    published, words,
};
use crate::curve::Curve;
use crate::result::{CaveatKind, Cell, Run};
use crate::scenario::{Scenario, Series, Work};

impl Report {
    pub fn of(run: &Run) -> Self {
        let numbered = run.scenario.series.iter().enumerate();
        let sections = numbered
            .map(|(index, series)| Section::of(run, series, &run.cells_of(index).collect::<Vec<_>>()));
        let sections: Vec<Section> = sections.collect();
        Self {
            title: title(&run.scenario),
            name: String::new(),
            lead: lead::of_run(run, &sections),
            verdict: judged::of_run(run),
            about: run.scenario.about.trim().to_owned(),
            stamps: facts::stamps(run),
            highlights: highlights::of_run(run),
            facts: facts::of_run(run),
            caveats: run.caveats.iter().map(words::caveat_text).collect(),
            scaled: run.scaled.clone(),
            plots: maps::blocks_and_mixes(&run.scenario, &run.cells),
            sections: sections.into_iter().chain(pairs::sections(run)).collect(),
            details: details::machines(run).into_iter().collect(),
            scenario: toml::to_string(&run.scenario).unwrap_or_default(),
            cells: cells::table(run),
        }
    }

    /// A run among several.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }
}

fn title(scenario: &Scenario) -> String {
    if scenario.title.is_empty() { scenario.name.clone() } else { scenario.title.clone() }
}

impl Section {
    fn of(run: &Run, series: &Series, cells: &[&Cell]) -> Self {
        let curves = if series.work == Work::EdaBlend { eda::curves(series, cells) } else { Vec::new() };
        let varying = Axis::varying(series, cells);
        let column = axes::columns(series, &varying);
        let (plots, more_plots) = plots_of(run, series, cells, &varying, column, &curves);
        let mut facts = facts::of_series(run, series);
        let mut tables = tables_of(run, series, cells, &varying, column, &curves);
        let mut citations = published::citations(series, cells);
        for (group, curve) in &curves {
            facts.extend(eda::facts(&group.name, curve));
            tables.extend(eda::compare_published(&group.name, series, &group.cells, curve));
        }
        citations.extend(curves.first().map(|_| eda::NOTE.to_owned()));
        let details = [
            details::server(run.target.volume.as_ref(), cells, &varying),
            details::searches(cells, &varying),
            details::wire(cells, &varying),
            details::cost(run, cells, &varying),
            details::errors(cells, &varying),
        ];
        Self {
            title: series.name.clone(),
            result: highlights::of_series(run, series, cells),
            facts,
            tables,
            plots,
            caveats: caveats_of(cells, &varying),
            citations,
            details: details.into_iter().flatten().collect(),
            detail_plots: more_plots,
        }
    }
}

pub(super) fn without(varying: &[Axis], these: &[Axis]) -> Vec<Axis> {
    varying.iter().filter(|axis| !these.contains(axis)).copied().collect()
}

/// One table for each combination of values that neither columns nor rows show.
fn tables_of(
    run: &Run,
    series: &Series,
    cells: &[&Cell],
    varying: &[Axis],
    column: Option<Axis>,
    curves: &[(Group<'_>, Curve)],
) -> Vec<Table> {
    if series.work == Work::EdaBlend {
        let table =
            |(group, curve): &(Group<'_>, Curve)| points::of_job_sets(&group.name, &group.cells, curve);
        return curves.iter().map(table).collect();
    }
    if series.work == Work::Metadata {
        return metadata::table(cells, varying).into_iter().collect();
    }
    let mut tables = Vec::new();
    if let Some(axis) = column {
        let groups = axes::groups(cells, &without(varying, &[axis, Axis::Depth]));
        tables.extend(
            groups.iter().map(|group| {
                columns::table(run, &group.name, series, axis, &peaks(series, &group.cells, axis))
            }),
        );
    }
    if column.is_none() || varying.contains(&Axis::Depth) {
        let rows = column.map_or_else(|| varying.to_vec(), |_| vec![Axis::Depth]);
        let groups = axes::groups(cells, &without(varying, &rows));
        tables
            .extend(groups.iter().map(|group| points::table(run, &group.name, series, &rows, &group.cells)));
    }
    tables
}

pub(super) fn peaks<'a>(series: &Series, cells: &[&'a Cell], axis: Axis) -> Vec<&'a Cell> {
    let rate = |cell: &Cell| {
        let form = axes::Form::of(series, &cell.point);
        if cell.has_result() { form.rate(cell, envelope::Direction::Total) } else { -1.0 }
    };
    let fastest = |group: Group<'a>| group.cells.into_iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    axes::groups(cells, &[axis]).into_iter().filter_map(fastest).collect()
}

/// Returns plots of the main part, then those of the details.
fn plots_of(
    run: &Run,
    series: &Series,
    cells: &[&Cell],
    varying: &[Axis],
    column: Option<Axis>,
    curves: &[(Group<'_>, Curve)],
) -> (Vec<Plot>, Vec<Plot>) {
    let mut plots = Vec::new();
    if cells.is_empty() {
        return (plots, Vec::new());
    }
    plots.extend(curves.iter().filter_map(|(group, curve)| plots::response(run, series, group, curve)));
    let axis = column.or(varying.first().copied()).unwrap_or_else(|| axes::alone(&cells[0].point));
    let mut groups = axes::groups(cells, &without(varying, &[axis, Axis::Depth]));
    groups.iter_mut().for_each(|group| group.cells = peaks(series, &group.cells, axis));
    if curves.is_empty() && axis != Axis::Depth {
        // A single point beside a published figure is easier to read in the table.
        let several = groups.iter().filter(|group| group.cells.len() > 1);
        plots.extend(several.flat_map(|group| plots::rates(run, series, group, axis)));
    }
    if column == Some(Axis::Connections) {
        plots.extend(plots::gains(series, Axis::Connections, &groups));
    }
    if varying.contains(&Axis::Clients) {
        let by_clients = axes::groups(cells, &without(varying, &[Axis::Clients]));
        plots.extend(plots::gains(series, Axis::Clients, &by_clients));
    }
    if varying.contains(&Axis::Depth) {
        let by_depth = axes::groups(cells, &without(varying, &[Axis::Depth]));
        plots.extend(by_depth.iter().filter_map(|group| plots::depths(run, series, group)));
    }
    let mut seconds = plots::seconds(run, series, cells, varying);
    if plots.is_empty() && !seconds.is_empty() {
        plots.push(seconds.remove(0));
    }
    plots.extend(groups.iter().filter_map(|group| plots::percentiles(group, axis)));
    plots.extend(groups.iter().filter_map(|group| plots::clients(run, series, group, axis)));
    let mut more = plots::searches(run, series, cells, varying);
    more.extend(seconds);
    (plots, more)
}

/// Points vary by different amounts, so this note replaces the texts of single points.
const VARIATION: &str = "variation: repetitions differ, standard deviation above 5 % of the mean";

fn caveats_of(cells: &[&Cell], varying: &[Axis]) -> Vec<String> {
    let mut caveats: Vec<(String, Vec<String>)> = Vec::new();
    let varies =
        |cell: &&&Cell| words::caveats(cell).iter().any(|caveat| caveat.kind == CaveatKind::Variation);
    // The tables show how much each varies.
    let several_vary = cells.iter().filter(varies).count() > 1;
    for cell in cells {
        for caveat in words::caveats(cell) {
            let text = match caveat.kind {
                CaveatKind::Variation if several_vary => VARIATION.to_owned(),
                _ => words::caveat_text(caveat),
            };
            let name = axes::label(&cell.point, varying);
            match caveats.iter_mut().find(|(listed, _)| *listed == text) {
                Some((_, names)) => names.push(name),
                None => caveats.push((text, vec![name])),
            }
        }
    }
    let line = |(text, names): (String, Vec<String>)| match names.len() {
        all if all == cells.len() => text,
        _ => format!("{} ({})", text, names.join("; ")),
    };
    caveats.into_iter().map(line).collect()
}
