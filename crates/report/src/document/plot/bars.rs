//! Groups of bars.

use super::chart::{Axis, Bars, Ceiling, Part, Stack};
use super::lines::{self, HEIGHT, LEFT, RIGHT, Sign};
use super::scale::Scale;
use super::svg::{Anchor, LETTER_WIDTH, Svg, WIDTH, truncated};
use crate::document::table::Value;

const BOTTOM: f64 = 34.0;
const BAR_MAX: f64 = 42.0;
const FIGURE_HEIGHT: f64 = 10.0;
/// Narrower bars have no figure above them.
const BAR_WITH_TOTAL: f64 = 26.0;

/// Letters of a name that stands upright.
const UPRIGHT_LETTERS: usize = 24;

pub(super) fn draw(chart: &Bars) -> Svg {
    let room = (WIDTH - RIGHT - LEFT) / chart.groups.len().max(1) as f64;
    let longest = chart.groups.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let is_upright = LETTER_WIDTH * (longest + 1) as f64 > room;
    let below = if is_upright { LETTER_WIDTH * longest.min(UPRIGHT_LETTERS) as f64 } else { 0.0 };
    let mut svg = Svg::new(HEIGHT + below);
    let top = lines::legend(&mut svg, &legend_names(chart)) + 14.0;
    let totals =
        (0..chart.groups.len()).flat_map(|group| chart.stacks.iter().map(move |stack| total(stack, group)));
    let ceilings = chart.ceilings.iter().flat_map(|one| one.values.iter().flatten().copied());
    let scale = Scale::new(&Axis::new(""), totals.flatten().chain(ceilings), (HEIGHT - BOTTOM, top));
    lines::vertical_axis(&mut svg, &scale, &chart.unit);
    let bar = (room * 0.84 / chart.stacks.len().max(1) as f64).min(BAR_MAX);
    let mut figures = Vec::new();
    for (group, name) in chart.groups.iter().enumerate() {
        let middle = LEFT + room * (group as f64 + 0.5);
        let first = middle - bar * chart.stacks.len() as f64 / 2.0;
        for (index, stack) in chart.stacks.iter().enumerate() {
            let x = first + bar * index as f64;
            stacked_bar(&mut svg, stack, group, (x, bar), &scale, name);
            let figure = total(stack, group).filter(|_| chart.totals && bar >= BAR_WITH_TOTAL);
            let above =
                figure.map(|figure| (x + bar / 2.0, place_above(chart, group, figure, &scale), figure));
            figures.extend(above);
        }
        group_name(&mut svg, name, middle, is_upright);
    }
    svg.line("axis", (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM));
    chart.ceilings.iter().for_each(|one| ceiling(&mut svg, one, room, &scale));
    for (middle, above, figure) in figures {
        svg.text("figure", (middle, above), Anchor::Middle, &short_figure(figure));
    }
    svg
}

fn group_name(svg: &mut Svg, name: &str, middle: f64, is_upright: bool) {
    let edge = HEIGHT - BOTTOM;
    if is_upright {
        svg.upright("tick", (middle + 4.0, edge + 8.0), Anchor::End, &truncated(name, UPRIGHT_LETTERS));
    } else {
        svg.text("tick", (middle, edge + 17.0), Anchor::Middle, name);
    }
}

/// The place of a figure above its bar, or above a limit that would strike it out.
fn place_above(chart: &Bars, group: usize, figure: f64, scale: &Scale) -> f64 {
    let above = scale.place(figure) - 5.0;
    let limits = chart.ceilings.iter().filter_map(|one| one.values.get(group).copied().flatten());
    let struck =
        limits.map(|limit| scale.place(limit)).filter(|y| (above - FIGURE_HEIGHT..above + 3.0).contains(y));
    struck.fold(above, |above, y| above.min(y - 4.0))
}

/// A line over each run of groups with the same limit.
fn ceiling(svg: &mut Svg, ceiling: &Ceiling, room: f64, scale: &Scale) {
    let mut from = 0;
    for run in ceiling.values.chunk_by(|a, b| a == b) {
        let to = from + run.len();
        if let Some(value) = run[0] {
            let (y, [x, end]) = (scale.place(value), [from, to].map(|group| LEFT + room * group as f64));
            svg.line("level limit", (x, y), (end, y));
        }
        from = to;
    }
}

fn stacked_bar(svg: &mut Svg, stack: &Stack, group: usize, span: (f64, f64), scale: &Scale, name: &str) {
    let (x, width) = span;
    let mut below = 0.0;
    for part in &stack.parts {
        let Some(value) = part.values.get(group).copied().flatten() else { continue };
        let (low, high) = (scale.place(below), scale.place(below + value));
        let tip = format!("{name} {}: {}", part.name, Value::figure(value));
        svg.rect(&class(stack, part), (x + 1.0, high), (width - 2.0, low - high), &tip);
        below += value;
    }
}

fn total(stack: &Stack, group: usize) -> Option<f64> {
    let values = stack.parts.iter().filter_map(|part| part.values.get(group).copied().flatten());
    values.reduce(|sum, value| sum + value)
}

fn class(stack: &Stack, part: &Part) -> String {
    if stack.published { format!("h{}", part.color) } else { format!("f{}", part.color) }
}

fn legend_names(chart: &Bars) -> Vec<(Sign, &str)> {
    let mut names: Vec<(Sign, &str)> = Vec::new();
    for (stack, part) in
        chart.stacks.iter().flat_map(|stack| stack.parts.iter().map(move |part| (stack, part)))
    {
        if names.iter().all(|(_, name)| *name != part.name) {
            names.push((Sign::Box(class(stack, part)), &part.name));
        }
    }
    let limits = chart.ceilings.iter().map(|one| (Sign::Line("level limit".to_owned()), one.name.as_str()));
    names.extend(limits);
    names
}

/// `380k`, `5.2k`, `840`.
fn short_figure(value: f64) -> String {
    match value {
        large if large >= 999_500.0 => format!("{:.2}M", large / 1e6),
        large if large >= 99_950.0 => format!("{:.0}k", large / 1e3),
        large if large >= 9_995.0 => format!("{:.1}k", large / 1e3),
        large if large >= 1_000.0 => format!("{:.2}k", large / 1e3),
        small => Value::figure(small).plain(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_figures_are_short() {
        let shown = [1_350_000.0, 380_000.0, 12_761.0, 5_237.0, 840.0, 7.25].map(short_figure);
        assert_eq!(shown, ["1.35M", "380k", "12.8k", "5.24k", "840", "7.25"]);
    }

    #[test]
    fn names_without_room_stand_upright_below_the_plot() {
        let named = |groups: &[&str]| {
            let values = vec![Some(1.0); groups.len()];
            let part = Part { name: "peak".to_owned(), color: 1, values };
            let groups = groups.iter().map(|&name| name.to_owned()).collect();
            draw(&Bars {
                groups,
                stacks: vec![Stack { published: false, parts: vec![part] }],
                ..Bars::default()
            })
            .finish("")
        };
        assert!(!named(&["home", "db"]).contains("rotate(-90)\">home"));
        let crowded = named(&["a workload with a rather long name"; 12]);
        assert_eq!(crowded.matches("rotate(-90)\">a workload with a rathe…</text>").count(), 12, "{crowded}");
        let height: f64 =
            crowded.split("viewBox=\"0 0 840 ").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert!(height > HEIGHT + 24.0 * 6.0);
    }

    #[test]
    fn figure_stands_above_a_limit_that_would_strike_it() {
        let part = Part { name: "total".to_owned(), color: 0, values: vec![Some(96.0), Some(40.0)] };
        let ceiling = Ceiling { name: "limit".to_owned(), values: vec![Some(100.0), Some(100.0)] };
        let chart = Bars {
            groups: vec!["a".to_owned(), "b".to_owned()],
            stacks: vec![Stack { published: false, parts: vec![part] }],
            ceilings: vec![ceiling],
            ..Bars::default()
        };
        let scale = Scale::new(&Axis::new(""), [100.0].into_iter(), (200.0, 0.0));
        let limit = scale.place(100.0);
        assert!(place_above(&chart, 0, 96.0, &scale) < limit);
        assert_eq!(place_above(&chart, 1, 40.0, &scale), scale.place(40.0) - 5.0);
    }

    #[test]
    fn value_is_box_of_its_height() {
        let part = |values: &[f64], color| Part {
            name: format!("part {color}"),
            color,
            values: values.iter().copied().map(Some).collect(),
        };
        let stack = Stack { published: false, parts: vec![part(&[40.0, 0.0], 0), part(&[60.0, 50.0], 1)] };
        let chart = Bars {
            unit: "MiB/s".into(),
            groups: vec!["a".into(), "b".into()],
            stacks: vec![stack],
            totals: true,
            ceilings: Vec::new(),
        };
        let drawn = draw(&chart).finish("");
        // From 40 below the top to the axis, 100 units high: the parts are two and three fifths of it.
        let heights: Vec<f64> = drawn
            .split("<rect ")
            .skip(3)
            .filter_map(|rect| rect.split("height=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        let whole = heights[0] + heights[1];
        assert!((heights[0] / whole - 0.4).abs() < 0.01, "{heights:?}");
        assert!((heights[3] / whole - 0.5).abs() < 0.01 && heights[2] == 0.0, "{heights:?}");
        assert!(drawn.contains(">100</text>") && drawn.contains("<title>a part 0: 40.0</title>"));
    }
}
