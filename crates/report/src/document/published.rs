//! Published figures beside measured ones, only at exactly the published points.

use envelope::{Bytes, Direction, Figure, Mix, Published, Unit};

use super::axes::Form;
use super::table::{Row, RowKind, Value};
use super::words;
use crate::result::{Caveat, CaveatKind, Cell, Run};
use crate::scenario::{Pattern, Point, Series};
use crate::units::show_size;

pub(super) fn named_records(series: &Series) -> impl Iterator<Item = Published> {
    series.published.iter().filter_map(|name| name.parse().ok())
}

/// Short names are unique and leave out the words that all names have in common.
pub(super) fn short_names(series: &Series) -> Vec<(Published, String)> {
    let all: Vec<Published> = named_records(series).collect();
    let short: Vec<String> = all.iter().map(|one| short(*one)).collect();
    let is_own = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let name = |(one, name): (&Published, &String)| {
        (*one, if is_own(name) { name.clone() } else { format!("{name} ({})", one.name()) })
    };
    all.iter().zip(&short).map(name).collect()
}

fn short(published: Published) -> String {
    let (volume, load) = published.title().split_once(": ").unwrap_or((published.title(), ""));
    let protocol = if load.starts_with("SMB") { ", SMB" } else { "" };
    let text = match volume.split_once(" (") {
        Some((before, rest)) => format!("{before}{}", rest.split_once(')').map_or("", |(_, after)| after)),
        None => volume.to_owned(),
    };
    format!("{text}{protocol}")
}

/// If the page measured over several connections and the point has one, returns the figures that the
/// published gain implies.
pub(super) fn at(published: Published, series: &Series, point: &Point) -> Vec<Figure> {
    let figures = published.at(mix(series, point));
    if !is_implied(published, point) {
        return figures.collect();
    }
    let gains = gains_at(series, point);
    figures.filter_map(|figure| gains.iter().find_map(|gain| figure.without_nconnect(*gain))).collect()
}

fn is_implied(published: Published, point: &Point) -> bool {
    point.connections == 1 && published.is_over_several_connections()
}

pub(super) fn gains_at(series: &Series, point: &Point) -> Vec<Figure> {
    let figures = named_records(series).flat_map(|one| one.at(mix(series, point)));
    figures.filter(|figure| figure.unit == Unit::Times).collect()
}

fn mix(series: &Series, point: &Point) -> Mix {
    let pattern = match series.pattern {
        Pattern::Sequential => envelope::Pattern::Sequential,
        Pattern::Random | Pattern::Shuffled => envelope::Pattern::Random,
    };
    Mix { block: Bytes(point.block), pattern, read_thousandths: u32::from(point.read_percent) * 10 }
}

/// Gains of nconnect, as a row below the measured ones. No page gives the number of connections, so the row
/// applies to every number but one.
pub(super) fn gains(series: &Series, cells: &[&Cell]) -> Option<Row> {
    let gain = |cell: &&Cell| match cell.point.connections {
        1 => Value::Nothing,
        _ => gains_at(series, &cell.point).first().map_or(Value::Nothing, value),
    };
    let gains: Vec<Value> = cells.iter().map(gain).collect();
    let is_any = gains.iter().any(|gain| *gain != Value::Nothing);
    let label = "Published gain of nconnect".to_owned();
    is_any.then_some(Row { kind: RowKind::Published, label, cells: gains })
}

/// One block for each record: its source, its figures, and the ratio of the measured ones. If the volume
/// follows this curve with a scale, also the ratio to the scaled curve.
pub(super) fn rows(run: &Run, series: &Series, cells: &[&Cell]) -> Vec<Row> {
    let rows = |(one, name): (Published, String)| rows_of(one, &name, run, series, cells);
    short_names(series).into_iter().flat_map(rows).collect()
}

fn rows_of(published: Published, name: &str, run: &Run, series: &Series, cells: &[&Cell]) -> Vec<Row> {
    let unlike = unlike_page(run, series);
    let figures: Vec<Vec<Figure>> = cells.iter().map(|cell| at(published, series, &cell.point)).collect();
    let mut kinds: Vec<(Direction, Unit)> = Vec::new();
    // A gain is not a figure of a column and has its own row.
    for figure in figures.iter().flatten().filter(|figure| figure.unit != Unit::Times) {
        if !kinds.contains(&(figure.direction, figure.unit)) {
            kinds.push((figure.direction, figure.unit));
        }
    }
    let row = |label: String, cells| Row { kind: RowKind::Published, label, cells };
    let mut rows = Vec::new();
    for (direction, unit) in &kinds {
        let of_kind = |(cell, figures): (&&Cell, &Vec<Figure>)| {
            let mut matching = figures.iter().filter(|one| (one.direction, one.unit) == (*direction, *unit));
            let is_implied = is_implied(published, &cell.point);
            matching.next().map_or(Value::Nothing, |figure| figure_value(figure, is_implied))
        };
        let label = format!("{} {}", capitalized(*direction), unit.symbol());
        rows.push(row(label, cells.iter().zip(&figures).map(of_kind).collect()));
    }
    drop_repeated(&mut rows);
    let mut ratios = |label: String, scale: f64| {
        let ratio = |(cell, figures): (&&Cell, &Vec<Figure>)| scaled_ratio(cell, figures, scale);
        let ratios: Vec<Value> = cells.iter().zip(&figures).map(ratio).collect();
        if ratios.iter().any(|ratio| *ratio != Value::Nothing) {
            rows.push(row(label, ratios));
        }
    };
    ratios(format!("Measured ÷ published{unlike}"), 1.0);
    let own = run.target.volume.as_ref().filter(|volume| volume.shape.as_deref() == Some(published.name()));
    if let Some(scale) = own.and_then(words::scale) {
        ratios(format!("Measured ÷ published × {scale}{unlike}"), scale);
    }
    if !rows.is_empty() {
        let estimate = published.source().estimate().map_or("", |_| ", an estimate of the maximum");
        let informational = if published.is_informational() { ", informational" } else { "" };
        let label = format!("{name}: published{estimate}{informational}");
        rows.insert(0, Row { kind: RowKind::Heading, label, cells: vec![Value::Nothing; cells.len()] });
    }
    rows
}

/// A note for ratios if the load or the volume differs from that of the page; empty otherwise.
pub(super) fn unlike_page(run: &Run, series: &Series) -> &'static str {
    let names_other = |text: &str| {
        let others = run.scenario.series.iter().filter(|one| one.name != series.name);
        let names = |one: &Series| {
            text.contains(&format!("({}", one.name)) || text.contains(&format!("; {}", one.name))
        };
        others.into_iter().any(names) && !text.contains(&series.name)
    };
    let differs = |caveat: &Caveat| caveat.kind == CaveatKind::UnlikePage && !names_other(&caveat.text);
    if run.caveats.iter().any(differs) { ", unlike the page" } else { "" }
}

/// Removes rows of zeros, and totals that equal the reads or writes alone.
fn drop_repeated(rows: &mut Vec<Row>) {
    let zero =
        |row: &Row| row.cells.iter().all(|cell| matches!(cell, Value::Nothing | Value::Number(0.0, _)));
    rows.retain(|row| !zero(row));
    let mut seen_rows: Vec<Vec<Value>> = Vec::new();
    rows.retain(|row| {
        let is_new = !seen_rows.contains(&row.cells);
        seen_rows.push(row.cells.clone());
        is_new
    });
}

pub(super) fn ratio(cell: &Cell, figures: &[Figure]) -> Value {
    scaled_ratio(cell, figures, 1.0)
}

/// `scale` applies to the published figure.
fn scaled_ratio(cell: &Cell, figures: &[Figure], scale: f64) -> Value {
    let total = figures.iter().find(|figure| figure.direction == Direction::Total);
    let Some(figure) = total.or(figures.first()) else { return Value::Nothing };
    let own = measured(cell, figure);
    own.filter(|_| cell.has_result()).map_or(Value::Nothing, |own| Value::ratio(own, number(figure) * scale))
}

/// In the unit of `figure`. `None` for units other than rates.
pub(super) fn measured(cell: &Cell, figure: &Figure) -> Option<f64> {
    match figure.unit {
        Unit::Iops => Some(Form::Iops.rate(cell, figure.direction)),
        Unit::MibPerSecond => Some(Form::Mib.rate(cell, figure.direction)),
        Unit::MbPerSecond => Some(Form::Mib.rate(cell, figure.direction) * f64::from(1 << 20) / 1e6),
        Unit::Times | Unit::JobSets | Unit::Milliseconds => None,
    }
}

pub(super) fn number(figure: &Figure) -> f64 {
    figure.hundredths as f64 / 100.0
}

/// `≈` marks an implied figure.
fn figure_value(figure: &Figure, is_implied: bool) -> Value {
    if is_implied { format!("≈ {}", Value::figure(number(figure))).into() } else { value(figure) }
}

pub(super) fn value(figure: &Figure) -> Value {
    let exact = Value::Number(number(figure), if figure.hundredths.is_multiple_of(100) { 0 } else { 2 });
    if figure.is_exceeded { Value::Text(format!("> {exact}")) } else { exact }
}

pub(super) fn capitalized(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "Read",
        Direction::Write => "Write",
        Direction::Total => "Total",
    }
}

pub(super) fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
        Direction::Total => "total",
    }
}

/// Sources and conflicts. Figures appear only if no column can show them.
pub(super) fn citations(series: &Series, cells: &[&Cell]) -> Vec<String> {
    let unknown = series.published.iter().filter(|name| name.parse::<Published>().is_err());
    let unknown = unknown.map(|name| format!("{name}: not among the published figures of this version"));
    let cite = |(published, name): (Published, String)| {
        let title = published.title().strip_prefix(&name).unwrap_or(published.title());
        let title = title.trim_start_matches([':', ',', ' ']);
        let mut text = if title.is_empty() { name } else { format!("{name}: {title}") };
        let shown = cells
            .iter()
            .any(|cell| at(published, series, &cell.point).iter().any(|figure| figure.unit != Unit::Times));
        if !shown {
            let figures: Vec<String> = published.figures().iter().map(plain_text).collect();
            text = format!("{text}: {}", figures.join(", "));
        }
        text = format!("{text} ({}). Source: {:#}.", published.name(), published.source());
        if cells.iter().any(|cell| is_implied(published, &cell.point)) {
            text.push_str(
                " Measured with nconnect; figures under one connection (≈) are implied by the published gain.",
            );
        }
        published.conflicts().fold(text, |text, conflict| format!("{text} {conflict}"))
    };
    let mut caveats: Vec<String> = Vec::new();
    for caveat in named_records(series).filter_map(Published::caveat) {
        if !caveats.iter().any(|listed| listed == caveat) {
            caveats.push(caveat.to_owned());
        }
    }
    short_names(series).into_iter().map(cite).chain(caveats).chain(unknown).collect()
}

pub(super) fn plain_text(figure: &Figure) -> String {
    let direction = if figure.direction == Direction::Total { "" } else { word(figure.direction) };
    let figures = format!("{direction} {} {}", value(figure), figure.unit.symbol());
    let of = figure.mix.filter(|_| figure.unit == Unit::Times).map_or(String::new(), |mix| {
        let pattern = if mix.pattern == envelope::Pattern::Random { "random" } else { "sequential" };
        format!(" ({} {pattern})", show_size(mix.block.0))
    });
    format!("{figures}{of}").trim_start().to_owned()
}

pub(super) fn full_text(published: Published, figure: &Figure) -> String {
    format!("{} {} {figure}", published.name(), word(figure.direction))
}
