//! Plots as values, and drawing them as SVG.
//!
//! Colors come from the page's style sheet (`c0` …), so that a plot fits a light and a dark page. For readers who
//! cannot distinguish colors, lines also differ in marks and bars in hatching.

mod bars;
mod chart;
mod heatmap;
mod lines;
mod scale;
pub(super) mod svg;

pub use chart::{Area, Axis, Bars, COLORS, Chart, Heatmap, Line, Lines, Mark, Part, Plot, Spot, Stack};

impl Plot {
    /// A standalone file: fixed size, own background.
    pub fn picture(&self) -> String {
        // A picture has a fixed size and its own background.
        let ground = "svg { background: var(--paper); }";
        let open = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" ", svg::WIDTH);
        let svg = self.svg().replacen("<svg ", &open, 1);
        let style = format!("><style>{}{ground}</style>", svg::STYLE);
        svg.replacen('>', &style, 1) + "\n"
    }

    pub fn svg(&self) -> String {
        let svg = match &self.chart {
            Chart::Bars(bars) => bars::draw(bars),
            Chart::Lines(lines) => lines::draw(lines),
            Chart::Heatmap(heat) => heatmap::draw(heat),
        };
        svg.finish(&self.title)
    }
}
