//! A map of cells: the more, the darker.

use super::chart::Heatmap;
use super::svg::{Anchor, Svg, WIDTH};
use crate::document::table::Value;

const LEFT: f64 = 150.0;
const TOP: f64 = 26.0;
const ROW: f64 = 38.0;
/// Between the least and the most opaque, letters can be read on a light and on a dark page.
const SHADES: (f64, f64) = (0.06, 0.62);

pub(super) fn draw(chart: &Heatmap) -> Svg {
    let mut svg = Svg::new(TOP + ROW * chart.rows.len() as f64 + 6.0);
    let width = (WIDTH - LEFT) / chart.columns.len().max(1) as f64;
    for (index, column) in chart.columns.iter().enumerate() {
        let middle = LEFT + width * (index as f64 + 0.5);
        svg.text("tick", (middle, TOP - 9.0), Anchor::Middle, column);
    }
    let most = chart.rows.iter().flat_map(|(_, values)| values).flatten().copied().fold(0.0, f64::max);
    for (row, (name, values)) in chart.rows.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        svg.text("", (LEFT - 10.0, y + ROW / 2.0 + 4.0), Anchor::End, name);
        for (index, value) in values.iter().enumerate() {
            let x = LEFT + width * index as f64;
            let middle = (x + width / 2.0, y + ROW / 2.0 + 4.0);
            let Some(value) = *value else {
                svg.text("tick", middle, Anchor::Middle, "no result");
                continue;
            };
            let share = SHADES.0 + (SHADES.1 - SHADES.0) * if most > 0.0 { value / most } else { 0.0 };
            svg.shade(share, (x + 1.0, y + 1.0), (width - 2.0, ROW - 2.0));
            svg.text("", middle, Anchor::Middle, &Value::figure(value).to_string());
        }
    }
    svg
}
