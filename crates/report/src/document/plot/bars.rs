//! Groups of bars.

use super::chart::{Axis, Bars, Ceiling, Part, Stack};
use super::lines::{self, HEIGHT, LEFT, RIGHT, Sign};
use super::scale::Scale;
use super::svg::{Anchor, Svg, WIDTH};
use crate::document::table::Value;

const BOTTOM: f64 = 34.0;
const BAR_MAX: f64 = 42.0;
/// Narrower bars have no figure above them.
const BAR_WITH_TOTAL: f64 = 26.0;

pub(super) fn draw(chart: &Bars) -> Svg {
    let mut svg = Svg::new(HEIGHT);
    let top = lines::legend(&mut svg, &legend_names(chart)) + 14.0;
    let totals =
        (0..chart.groups.len()).flat_map(|group| chart.stacks.iter().map(move |stack| total(stack, group)));
    let ceilings = chart.ceilings.iter().flat_map(|one| one.values.iter().flatten().copied());
    let scale = Scale::new(&Axis::new(""), totals.flatten().chain(ceilings), (HEIGHT - BOTTOM, top));
    lines::vertical_axis(&mut svg, &scale, &chart.unit);
    let room = (WIDTH - RIGHT - LEFT) / chart.groups.len().max(1) as f64;
    let bar = (room * 0.84 / chart.stacks.len().max(1) as f64).min(BAR_MAX);
    let mut figures = Vec::new();
    for (group, name) in chart.groups.iter().enumerate() {
        let middle = LEFT + room * (group as f64 + 0.5);
        let first = middle - bar * chart.stacks.len() as f64 / 2.0;
        for (index, stack) in chart.stacks.iter().enumerate() {
            let x = first + bar * index as f64;
            stacked_bar(&mut svg, stack, group, (x, bar), &scale, name);
            let figure = total(stack, group).filter(|_| chart.totals && bar >= BAR_WITH_TOTAL);
            figures.extend(figure.map(|figure| (x + bar / 2.0, figure)));
        }
        svg.text("tick", (middle, HEIGHT - BOTTOM + 17.0), Anchor::Middle, name);
    }
    svg.line("axis", (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM));
    chart.ceilings.iter().for_each(|one| ceiling(&mut svg, one, room, &scale));
    // Above the lines, which would strike them out.
    for (middle, figure) in figures {
        let above = (middle, scale.place(figure) - 5.0);
        svg.text("figure", above, Anchor::Middle, &short_figure(figure));
    }
    svg
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
