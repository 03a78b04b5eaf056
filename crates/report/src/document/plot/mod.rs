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

pub use chart::{
    Area, Axis, Bars, COLORS, Ceiling, Chart, Heatmap, Line, Lines, Mark, Part, Plot, Spot, Stack,
};

impl Plot {
    /// A standalone file: fixed size, own background, light colors. Many programs know no variables in styles.
    pub fn picture(&self) -> String {
        let open = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" ", svg::WIDTH);
        let drawn = self.svg().replacen("<svg ", &open, 1);
        let style = svg::PLOT_STYLE.to_owned() + "rect.ground { fill: var(--paper); }\n";
        let ground = "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>";
        let patterns = svg::HATCHES.split_once('>').and_then(|(_, rest)| rest.strip_suffix("</svg>"));
        let before = format!(
            "><style>{}</style><defs>{}</defs>{ground}",
            with_light_colors(&style),
            patterns.unwrap_or_default()
        );
        drawn.replacen('>', &before, 1) + "\n"
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

/// Replaces each `var(--name)` by the first value that the colors give it, which is that of light pages.
fn with_light_colors(style: &str) -> String {
    let mut parts = style.split("var(--");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(')').unwrap_or((part, ""));
        let value =
            svg::COLOR_STYLE.split_once(&format!("--{name}: ")).and_then(|(_, rest)| rest.split_once(';'));
        text.push_str(value.map_or("currentColor", |(value, _)| value));
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance of a color (WCAG 2.2).
    fn luminance(color: [f64; 3]) -> f64 {
        let linear = |part: f64| {
            let part = part / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2])
    }

    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn text_has_contrast_on_light_and_dark_pages() {
        for scheme in svg::COLOR_STYLE.split("@media") {
            let color = |name: &str| {
                let (_, hex) = scheme.split_once(&format!("--{name}: #")).unwrap_or_else(|| panic!("{name}"));
                [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()))
            };
            let pairs = ["ink", "soft", "warn", "pass", "c0"]
                .into_iter()
                .flat_map(|text| ["paper", "raised"].map(|ground| (text, ground)));
            for (text, ground) in pairs.chain([("warn", "warned"), ("ink", "warned"), ("soft", "warned")]) {
                let found = contrast(color(text), color(ground));
                assert!(found >= 4.5, "{text} on {ground}: {found:.2}");
            }
            let (full, paper) = (color("c0"), color("paper"));
            let darkest = [0, 1, 2].map(|at| paper[at] + (full[at] - paper[at]) * heatmap::SHADES.1);
            assert!(contrast(color("ink"), darkest) >= 4.5, "figures of heat maps");
        }
    }

    #[test]
    fn picture_needs_no_page() {
        let part = Part { name: "read".to_owned(), color: 1, values: vec![Some(5.0)] };
        let stacks = vec![Stack { published: true, parts: vec![part] }];
        let bars = Bars { groups: vec!["a".to_owned()], stacks, ..Bars::default() };
        let plot = Plot { title: "Rates".to_owned(), note: String::new(), chart: Chart::Bars(bars) };
        let picture = plot.picture();
        assert!(picture.contains(".h1 { fill: url(#hatch1); stroke: #d55e00;"), "{picture}");
        assert!(
            picture.contains("<pattern id=\"hatch1\"") && picture.contains("rect.ground { fill: #ffffff; }")
        );
        assert!(!picture.contains("var(") && picture.matches("<svg").count() == 1, "{picture}");
    }
}
