//! Published figures beside measured ones: at exactly the published points only.

use envelope::{Bytes, Direction, Figure, Mix, Published, Unit};

use super::axes::Form;
use super::table::{Row, RowKind, Value};
use crate::result::Cell;
use crate::scenario::{Pattern, Point, Series};
use crate::units::show_size;

/// What a series names, as far as it is known.
pub(super) fn named(series: &Series) -> impl Iterator<Item = Published> {
    series.published.iter().filter_map(|name| name.parse().ok())
}

/// The published figures for a point.
pub(super) fn at(published: Published, series: &Series, point: &Point) -> Vec<Figure> {
    let pattern = match series.pattern {
        Pattern::Sequential => envelope::Pattern::Sequential,
        Pattern::Random | Pattern::Shuffled => envelope::Pattern::Random,
    };
    let read_thousandths = u32::from(point.read_percent) * 10;
    published.at(Mix { block: Bytes(point.block), pattern, read_thousandths }).collect()
}

/// For everything that a series names: a row of each figure, and one of how the measured ones compare.
pub(super) fn rows(series: &Series, cells: &[&Cell]) -> Vec<Row> {
    named(series).flat_map(|published| rows_of(published, series, cells)).collect()
}

fn rows_of(published: Published, series: &Series, cells: &[&Cell]) -> Vec<Row> {
    let figures: Vec<Vec<Figure>> = cells.iter().map(|cell| at(published, series, &cell.point)).collect();
    let mut kinds: Vec<(Direction, Unit)> = Vec::new();
    // How many times as much, no page says at which number of connections: that is no figure of a column.
    for figure in figures.iter().flatten().filter(|figure| figure.unit != Unit::Times) {
        if !kinds.contains(&(figure.direction, figure.unit)) {
            kinds.push((figure.direction, figure.unit));
        }
    }
    let row = |label: String, cells| Row { kind: RowKind::Published, label, cells };
    let mut rows = Vec::new();
    for (direction, unit) in &kinds {
        let of_kind = |figures: &Vec<Figure>| {
            let mut found = figures.iter().filter(|one| (one.direction, one.unit) == (*direction, *unit));
            found.next().map_or(Value::Nothing, value)
        };
        let label = format!("{}: {} {}", published.name(), word(*direction), unit.symbol());
        rows.push(row(label, figures.iter().map(of_kind).collect()));
    }
    drop_repeated(&mut rows);
    let ratios: Vec<Value> = cells.iter().zip(&figures).map(|(cell, figures)| ratio(cell, figures)).collect();
    if ratios.iter().any(|ratio| *ratio != Value::Nothing) {
        rows.push(row(format!("Measured over {}", published.name()), ratios));
    }
    rows
}

/// Leaves out rows of zeros, and totals that are those of the reads or writes alone.
fn drop_repeated(rows: &mut Vec<Row>) {
    let zero =
        |row: &Row| row.cells.iter().all(|cell| matches!(cell, Value::Nothing | Value::Number(0.0, _)));
    rows.retain(|row| !zero(row));
    let mut seen: Vec<Vec<Value>> = Vec::new();
    rows.retain(|row| {
        let is_new = !seen.contains(&row.cells);
        seen.push(row.cells.clone());
        is_new
    });
}

/// The measured figure over the published one: of everything together where that is published.
pub(super) fn ratio(cell: &Cell, figures: &[Figure]) -> Value {
    let total = figures.iter().find(|figure| figure.direction == Direction::Total);
    let Some(figure) = total.or(figures.first()) else { return Value::Nothing };
    let own = measured(cell, figure);
    own.filter(|_| cell.has_result()).map_or(Value::Nothing, |own| Value::ratio(own, number(figure)))
}

/// What was measured, in a figure's unit; nothing for units that are no rate.
fn measured(cell: &Cell, figure: &Figure) -> Option<f64> {
    match figure.unit {
        Unit::Iops => Some(Form::Iops.rate(cell, figure.direction)),
        Unit::MibPerSecond => Some(Form::Mib.rate(cell, figure.direction)),
        Unit::MbPerSecond => Some(Form::Mib.rate(cell, figure.direction) * f64::from(1 << 20) / 1e6),
        Unit::Times | Unit::JobSets | Unit::Milliseconds => None,
    }
}

/// A figure as a number of its unit.
pub(super) fn number(figure: &Figure) -> f64 {
    figure.hundredths as f64 / 100.0
}

pub(super) fn value(figure: &Figure) -> Value {
    let exact = Value::Number(number(figure), if figure.hundredths.is_multiple_of(100) { 0 } else { 2 });
    if figure.is_exceeded { Value::Text(format!("> {exact}")) } else { exact }
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
        Direction::Total => "total",
    }
}

/// What is published, where, and what is wrong with it; with its figures if no column can show them.
pub(super) fn citations(series: &Series, cells: &[&Cell]) -> Vec<String> {
    let unknown = series.published.iter().filter(|name| name.parse::<Published>().is_err());
    let unknown = unknown.map(|name| format!("{name}: not among the published figures of this version"));
    let cite = |published: Published| {
        let mut text = format!("{}: {}", published.name(), published.title());
        let shown = cells
            .iter()
            .any(|cell| at(published, series, &cell.point).iter().any(|figure| figure.unit != Unit::Times));
        if !shown {
            let figures: Vec<String> = published.figures().iter().map(plainly).collect();
            text = format!("{text}: {}", figures.join(", "));
        }
        text = format!("{text} [{:#}].", published.source());
        published.conflicts().fold(text, |text, conflict| format!("{text} {conflict}"))
    };
    named(series).map(cite).chain(unknown).collect()
}

/// A figure by itself.
pub(super) fn plainly(figure: &Figure) -> String {
    let direction = if figure.direction == Direction::Total { "" } else { word(figure.direction) };
    let figures = format!("{direction} {} {}", value(figure), figure.unit.symbol());
    let of = figure.mix.filter(|_| figure.unit == Unit::Times).map_or(String::new(), |mix| {
        let pattern = if mix.pattern == envelope::Pattern::Random { "random" } else { "sequential" };
        format!(" ({} {pattern})", show_size(mix.block.0))
    });
    format!("{figures}{of}").trim_start().to_owned()
}

/// A figure with all that it takes to find it again.
pub(super) fn described(published: Published, figure: &Figure) -> String {
    format!("{} {} {figure}", published.name(), word(figure.direction))
}
