//! A map of cells: higher values are darker.

use super::chart::{Heatmap, Spot};
use super::svg::{Anchor, LETTER_WIDTH, Svg, WIDTH, letters_in, truncated};
use crate::document::table::Value;

const LEFT: (f64, f64) = (90.0, 260.0);
const TOP: f64 = 26.0;
const ROW: f64 = 38.0;
/// Minimum and maximum opacity, which keep letters readable on a light and on a dark page.
pub(super) const SHADES: (f64, f64) = (0.06, 0.5);

pub(super) fn draw(chart: &Heatmap) -> Svg {
    let mut svg = Svg::new(TOP + ROW * chart.rows.len() as f64 + 6.0);
    let longest = chart.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let left = (20.0 + LETTER_WIDTH * longest as f64).clamp(LEFT.0, LEFT.1);
    let letters = letters_in(left - 20.0);
    let width = (WIDTH - left) / chart.columns.len().max(1) as f64;
    for (index, column) in chart.columns.iter().enumerate() {
        let middle = left + width * (index as f64 + 0.5);
        svg.text("tick", (middle, TOP - 9.0), Anchor::Middle, column);
    }
    let values = chart.rows.iter().flat_map(|(_, spots)| spots);
    let max = values.map(|spot| if let Spot::Value(value) = spot { *value } else { 0.0 }).fold(0.0, f64::max);
    for (row, (name, spots)) in chart.rows.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        svg.text("", (left - 10.0, y + ROW / 2.0 + 4.0), Anchor::End, &truncated(name, letters));
        for (index, spot) in spots.iter().enumerate() {
            let x = left + width * index as f64;
            let middle = (x + width / 2.0, y + ROW / 2.0 + 4.0);
            match spot {
                Spot::NotMeasured => {}
                Spot::NoResult => svg.text("tick", middle, Anchor::Middle, "–"),
                Spot::Value(value) => {
                    let share = if max > 0.0 { value / max } else { 0.0 };
                    let shade = SHADES.0 + (SHADES.1 - SHADES.0) * share;
                    svg.shade(shade, (x + 1.0, y + 1.0), (width - 2.0, ROW - 2.0));
                    svg.text("", middle, Anchor::Middle, &Value::figure(*value).to_string());
                }
            }
        }
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heatmap_leaves_unmeasured_spots_free_and_truncates_names() {
        let spots = vec![Spot::Value(50.0), Spot::NoResult, Spot::NotMeasured];
        let columns = ["a", "b", "c"].map(str::to_owned).to_vec();
        let drawn = draw(&Heatmap { columns, rows: vec![("x".repeat(80), spots)] }).finish("");
        assert_eq!(drawn.matches("<rect").count(), 1);
        assert!(drawn.contains(">50.0</text>") && drawn.matches(">–</text>").count() == 1, "{drawn}");
        assert!(drawn.contains("x…</text>") && !drawn.contains(&"x".repeat(40)), "{drawn}");
    }
}
