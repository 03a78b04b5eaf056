//! Lines over a common axis.

use crate::report::table::Value;

use super::scale::Scale;
use super::svg::{Anchor, Svg, WIDTH};
use super::{Line, Lines};

pub(super) const HEIGHT: f64 = 330.0;
pub(super) const LEFT: f64 = 74.0;
pub(super) const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 48.0;
/// Between two entries of a legend's line.
const LEGEND_LINE: f64 = 20.0;
/// More points than this have no marks: they would hide the line.
const MARKS_MAX: usize = 40;

pub(super) fn draw(chart: &Lines) -> Svg {
    let mut svg = Svg::new(HEIGHT);
    let mut names: Vec<(String, &str)> =
        chart.lines.iter().map(|line| (class(line), line.name.as_str())).collect();
    names.extend(of_marked("level", &chart.levels));
    names.extend(of_marked("level upright", &chart.uprights));
    let top = legend(&mut svg, &names) + 8.0;
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let named = |ticks: &[(f64, String)]| ticks.iter().map(|(value, _)| *value).collect::<Vec<_>>();
    let x_values = points().map(|(x, _)| *x).chain(named(&chart.x.ticks));
    let y_values = points().map(|(_, y)| *y).chain(named(&chart.levels));
    let x = Scale::new(&chart.x, x_values, (LEFT, WIDTH - RIGHT));
    let y = Scale::new(&chart.y, y_values, (HEIGHT - BOTTOM, top));
    up(&mut svg, &y, &chart.y.label);
    for (value, label) in &x.ticks {
        let place = x.place(*value);
        svg.line("grid", (place, top), (place, HEIGHT - BOTTOM));
        svg.text("tick", (place, HEIGHT - BOTTOM + 17.0), Anchor::Middle, label);
    }
    svg.text("", ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0), Anchor::Middle, &chart.x.label);
    svg.line("axis", (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM));
    levels(&mut svg, &y, &chart.levels);
    for (value, _) in &chart.uprights {
        svg.line("level upright", (x.place(*value), top), (x.place(*value), HEIGHT - BOTTOM));
    }
    for line in &chart.lines {
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|&(right, up)| (x.place(right), y.place(up))).collect();
        svg.polyline(&class(line), &places);
        if !line.ideal && places.len() <= MARKS_MAX {
            for (place, (right, up)) in places.iter().zip(&line.points) {
                let tip = format!("{}: {} at {}", line.name, Value::figure(*up), Value::figure(*right));
                svg.mark(line.color, *place, &tip);
            }
        }
    }
    svg
}

fn class(line: &Line) -> String {
    format!("s{}{}", line.color, if line.ideal { " ideal" } else { "" })
}

/// The vertical axis with its grid.
pub(super) fn up(svg: &mut Svg, scale: &Scale, label: &str) {
    for (value, tick) in &scale.ticks {
        let place = scale.place(*value);
        svg.line("grid", (LEFT, place), (WIDTH - RIGHT, place));
        svg.text("tick", (LEFT - 7.0, place + 4.0), Anchor::End, tick);
    }
    let ends = scale.ticks.first().zip(scale.ticks.last());
    let middle = ends.map_or(0.0, |(first, last)| (scale.place(first.0) + scale.place(last.0)) / 2.0);
    svg.upright((14.0, middle), label);
}

/// Values that matter, as lines across; their names are in the legend, where nothing is in the way.
pub(super) fn levels(svg: &mut Svg, scale: &Scale, levels: &[(f64, String)]) {
    for (value, _) in levels {
        let place = scale.place(*value);
        svg.line("level", (LEFT, place), (WIDTH - RIGHT, place));
    }
}

/// Entries of a legend for values that matter.
pub(super) fn of_marked<'a>(
    class: &'a str,
    marked: &'a [(f64, String)],
) -> impl Iterator<Item = (String, &'a str)> {
    marked.iter().map(move |(_, name)| (class.to_owned(), name.as_str()))
}

/// Names of lines or bars by their classes, in rows at the top; where they end.
pub(super) fn legend(svg: &mut Svg, names: &[(String, &str)]) -> f64 {
    let (mut x, mut y) = (LEFT, 14.0);
    for (class, name) in names.iter().filter(|(_, name)| !name.is_empty()) {
        // Letters are about 6.6 wide.
        let width = 42.0 + 6.6 * name.chars().count() as f64;
        if x > LEFT && x + width > WIDTH {
            (x, y) = (LEFT, y + LEGEND_LINE);
        }
        if let Some(color) = class.strip_prefix('s') {
            svg.line(class, (x, y - 4.0), (x + 22.0, y - 4.0));
            // Ideal lines have a second word, and no marks.
            if let Ok(color) = color.parse() {
                svg.mark(color, (x + 11.0, y - 4.0), "");
            }
        } else if class.starts_with("level") {
            svg.line(class, (x, y - 4.0), (x + 22.0, y - 4.0));
        } else {
            svg.rect(class, (x, y - 10.0), (22.0, 11.0), "");
        }
        svg.text("tick", (x + 28.0, y), Anchor::Start, name);
        x += width;
    }
    y + 6.0
}
