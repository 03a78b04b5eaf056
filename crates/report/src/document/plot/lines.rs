//! Lines over a common axis.

use super::chart::{Area, Line, Lines, Mark};
use super::scale::Scale;
use super::svg::{Anchor, LETTER_WIDTH, Svg, WIDTH, letters_in, wrapped};
use crate::document::table::Value;

pub(super) const HEIGHT: f64 = 310.0;
pub(super) const LEFT: f64 = 88.0;
pub(super) const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 48.0;
const LEGEND_LINE: f64 = 20.0;
/// From the sign of a legend's entry to its name.
const SIGN: f64 = 28.0;
/// More marks would hide the line.
const MARKS_MAX: usize = 40;

/// The sign before a name in a legend, with its class. Marks also have a color.
pub(super) enum Sign {
    Line(String),
    MarkedLine(String, usize),
    Mark(String, usize),
    Box(String),
}

pub(super) fn draw(chart: &Lines) -> Svg {
    let mut svg = Svg::new(HEIGHT);
    let top = legend(&mut svg, &legend_names(chart)) + 8.0;
    let (x, y) = scales(chart, top);
    vertical_axis(&mut svg, &y, &chart.y.label);
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
    chart.areas.iter().for_each(|one| area(&mut svg, one, &x, &y));
    for line in &chart.lines {
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|&(right, up)| (x.place(right), y.place(up))).collect();
        svg.polyline(&class(line), &places);
        if !line.ideal && !chart.smooth && places.len() <= MARKS_MAX {
            for (place, at) in places.iter().zip(&line.points) {
                svg.mark(&format!("f{}", line.color), line.color, *place, &tip(&line.name, *at));
            }
        }
    }
    chart.marks.iter().for_each(|one| mark(&mut svg, one, &x, &y));
    svg
}

fn legend_names(chart: &Lines) -> Vec<(Sign, &str)> {
    let of_line = |line: &Line| match line.ideal || chart.smooth {
        true => Sign::Line(class(line)),
        false => Sign::MarkedLine(class(line), line.color),
    };
    let lines = chart.lines.iter().map(|line| (of_line(line), line.name.as_str()));
    let areas = chart.areas.iter().map(|one| (Sign::Box(class_of_area(one)), one.name.as_str()));
    let mut names: Vec<(Sign, &str)> = lines.chain(areas).collect();
    names.extend(legend_entries("level", &chart.levels));
    names.extend(legend_entries("level upright", &chart.uprights));
    for one in &chart.marks {
        if names.iter().all(|(_, name)| *name != one.name) {
            names.push((Sign::Mark(class_of_mark(one), one.color), &one.name));
        }
    }
    names
}

fn scales(chart: &Lines, top: f64) -> (Scale, Scale) {
    let named = |ticks: &[(f64, String)]| ticks.iter().map(|(value, _)| *value).collect::<Vec<_>>();
    let lines = chart.lines.iter().flat_map(|line| line.points.iter().copied());
    let areas = chart.areas.iter().flat_map(|one| one.points.iter().map(|(x, _, high)| (*x, *high)));
    let marks = chart.marks.iter().map(|one| (one.at.0, one.up_to.map_or(one.at.1, |up| up.max(one.at.1))));
    let points: Vec<(f64, f64)> = lines.chain(areas).chain(marks).collect();
    let x_values = points.iter().map(|(x, _)| *x).chain(named(&chart.x.ticks)).chain(named(&chart.uprights));
    let y_values = points.iter().map(|(_, y)| *y).chain(named(&chart.levels));
    let x = Scale::new(&chart.x, x_values, (LEFT, WIDTH - RIGHT));
    (x, Scale::new(&chart.y, y_values, (HEIGHT - BOTTOM, top)))
}

fn class(line: &Line) -> String {
    format!("s{}{}", line.color, if line.ideal { " ideal" } else { "" })
}

fn class_of_area(area: &Area) -> String {
    format!("f{} area", area.color)
}

fn class_of_mark(mark: &Mark) -> String {
    if mark.hollow { format!("hollow s{}", mark.color) } else { format!("f{}", mark.color) }
}

fn tip(name: &str, at: (f64, f64)) -> String {
    let (right, up) = at;
    format!("{name}: {} at {}", Value::figure(up), Value::figure(right))
}

fn area(svg: &mut Svg, area: &Area, x: &Scale, y: &Scale) {
    let highs = area.points.iter().map(|&(right, _, high)| (x.place(right), y.place(high)));
    let lows = area.points.iter().rev().map(|&(right, low, _)| (x.place(right), y.place(low)));
    svg.polygon(&class_of_area(area), &highs.chain(lows).collect::<Vec<_>>());
}

fn mark(svg: &mut Svg, mark: &Mark, x: &Scale, y: &Scale) {
    const CAP: f64 = 5.0;
    let at = (x.place(mark.at.0), y.place(mark.at.1));
    if let Some(up) = mark.up_to {
        let (class, up) = (format!("s{}", mark.color), y.place(up));
        svg.line(&class, at, (at.0, up));
        svg.line(&class, (at.0 - CAP, up), (at.0 + CAP, up));
    }
    svg.mark(&class_of_mark(mark), mark.color, at, &tip(&mark.name, mark.at));
}

pub(super) fn vertical_axis(svg: &mut Svg, scale: &Scale, label: &str) {
    for (value, tick) in &scale.ticks {
        let place = scale.place(*value);
        svg.line("grid", (LEFT, place), (WIDTH - RIGHT, place));
        svg.text("tick", (LEFT - 7.0, place + 4.0), Anchor::End, tick);
    }
    let ends = scale.ticks.first().zip(scale.ticks.last());
    let middle = ends.map_or(0.0, |(first, last)| (scale.place(first.0) + scale.place(last.0)) / 2.0);
    // As far left as it fits: ticks of a million end near it.
    svg.upright("", (12.5, middle), Anchor::Middle, label);
}

/// The names are in the legend, which has free space.
pub(super) fn levels(svg: &mut Svg, scale: &Scale, levels: &[(f64, String)]) {
    for (value, _) in levels {
        let place = scale.place(*value);
        svg.line("level", (LEFT, place), (WIDTH - RIGHT, place));
    }
}

pub(super) fn legend_entries<'a>(
    class: &'a str,
    marked: &'a [(f64, String)],
) -> impl Iterator<Item = (Sign, &'a str)> {
    marked.iter().map(move |(_, name)| (Sign::Line(class.to_owned()), name.as_str()))
}

/// Draws names with their signs, in rows at the top. Returns the lower edge of the legend.
pub(super) fn legend(svg: &mut Svg, names: &[(Sign, &str)]) -> f64 {
    let (mut x, mut y) = (LEFT, 14.0);
    let letters = letters_in(WIDTH - LEFT - SIGN - 2.0);
    for (sign, name) in names.iter().filter(|(_, name)| !name.is_empty()) {
        let lines = wrapped(name, letters);
        let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let width = 14.0 + SIGN + LETTER_WIDTH * longest as f64;
        if x > LEFT && x + width > WIDTH {
            (x, y) = (LEFT, y + LEGEND_LINE);
        }
        let middle = (x + 11.0, y - 4.0);
        match sign {
            Sign::Line(class) => svg.line(class, (x, y - 4.0), (x + 22.0, y - 4.0)),
            Sign::MarkedLine(class, color) => {
                svg.line(class, (x, y - 4.0), (x + 22.0, y - 4.0));
                svg.mark(&format!("f{color}"), *color, middle, "");
            }
            Sign::Mark(class, color) => svg.mark(class, *color, middle, ""),
            Sign::Box(class) => svg.rect(class, (x, y - 10.0), (22.0, 11.0), ""),
        }
        for (index, line) in lines.iter().enumerate() {
            y += if index > 0 { LEGEND_LINE } else { 0.0 };
            svg.text("tick", (x + SIGN, y), Anchor::Start, line);
        }
        x += width;
    }
    y + 6.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::plot::Axis;

    #[test]
    fn long_name_of_a_legend_is_wrapped_within_the_plot() {
        let name = "before.json: limit 1,952 IOPS (15.2 MiB/s in blocks of 8 KiB): volume projects, level anf/premium";
        let mut svg = Svg::new(HEIGHT);
        let names = [name.repeat(2), "short".to_owned()];
        let entries = names.each_ref().map(|name| (Sign::Line("level".to_owned()), name.as_str()));
        let bottom = legend(&mut svg, &entries);
        let drawn = svg.finish("");
        let texts: Vec<&str> =
            drawn.split("</text>").filter_map(|part| Some(part.rsplit_once('>')?.1)).collect();
        let letters = (WIDTH - LEFT - SIGN) / LETTER_WIDTH;
        assert!(texts.iter().all(|text| text.chars().count() as f64 <= letters), "{texts:?}");
        assert_eq!((texts[..2].join(" "), bottom), (names[0].clone(), 14.0 + 2.0 * LEGEND_LINE + 6.0));
    }

    #[test]
    fn points_have_bars_and_areas_lie_between_their_lines() {
        let mark = |name: &str, hollow, up_to| Mark {
            name: name.to_owned(),
            color: 1,
            hollow,
            at: (50.0, 40.0),
            up_to,
        };
        let chart = Lines {
            y: Axis { ticks: vec![(100.0, "100".to_owned())], ..Axis::default() },
            areas: vec![Area {
                name: "band".to_owned(),
                color: 0,
                points: vec![(0.0, 0.0, 50.0), (100.0, 0.0, 100.0)],
            }],
            marks: vec![
                mark("peak", false, Some(80.0)),
                mark("average", true, None),
                mark("peak", false, None),
            ],
            ..Lines::default()
        };
        let drawn = draw(&chart).finish("");
        let (top, bottom) = (28.0, HEIGHT - BOTTOM);
        let up = |share: f64| bottom - share * (bottom - top);
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        let bar = format!(
            "<line class=\"s1\" x1=\"{middle:.1}\" y1=\"{:.1}\" x2=\"{middle:.1}\" y2=\"{:.1}\"/>",
            up(0.4),
            up(0.8)
        );
        assert_eq!(drawn.matches(&bar).count(), 1, "{bar} in {drawn}");
        let area = format!(
            "{LEFT:.1},{:.1} {:.1},{top:.1} {:.1},{bottom:.1} {LEFT:.1},{bottom:.1}",
            up(0.5),
            WIDTH - RIGHT,
            WIDTH - RIGHT
        );
        assert!(
            drawn.contains(&format!("<polygon class=\"f0 area\" points=\"{area}\"/>")),
            "{area} in {drawn}"
        );
        assert_eq!(drawn.matches(">peak</text>").count(), 1, "once in the legend");
        assert_eq!(drawn.matches("<path class=\"hollow s1\"").count(), 2, "in the legend and where it is");
        assert!(drawn.contains("<title>average: 40.0 at 50.0</title>"));
    }
}
