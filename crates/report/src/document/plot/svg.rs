//! Writes SVG.

use std::fmt::Write as _;

/// Values of the colors, for light and dark pages.
pub(in crate::document) const COLOR_STYLE: &str = include_str!("colors.css");
pub(in crate::document) const PLOT_STYLE: &str = include_str!("plot.css");
/// Fill patterns of hollow bars, one for each color.
pub(in crate::document) const HATCHES: &str = include_str!("hatches.svg");
/// All plots have this width. The page scales them to its column.
pub(super) const WIDTH: f64 = 840.0;

pub(super) const LETTER_WIDTH: f64 = 6.6;

/// Coordinates go right and down.
pub(super) struct Svg {
    body: String,
    height: f64,
}

#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl Svg {
    pub(super) fn new(height: f64) -> Self {
        Self { body: String::new(), height }
    }

    pub(super) fn finish(self, title: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {:.0}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            self.height,
            escape(title),
            self.body
        )
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tip: &str) {
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">{}</rect>",
            at.0,
            at.1,
            size.0.max(0.0),
            size.1.max(0.0),
            tip_element(tip)
        ));
    }

    pub(super) fn shade(&mut self, share: f64, at: (f64, f64), size: (f64, f64)) {
        self.add(format_args!(
            "<rect class=\"f0\" fill-opacity=\"{share:.2}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            at.0, at.1, size.0, size.1
        ));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = anchor.name();
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            at.0,
            at.1,
            escape(text)
        ));
    }

    /// Reads upward.
    pub(super) fn upright(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = anchor.name();
        self.add(format_args!(
            "<text class=\"{class}\" text-anchor=\"{anchor}\" transform=\"translate({:.1} {:.1}) rotate(-90)\">{}</text>",
            at.0,
            at.1,
            escape(text)
        ));
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        self.add(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", joined(points)));
    }

    pub(super) fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        self.add(format_args!("<polygon class=\"{class}\" points=\"{}\"/>", joined(points)));
    }

    /// `color` selects the form too. The class may be `f`, `s` or more.
    pub(super) fn mark(&mut self, class: &str, color: usize, at: (f64, f64), tip: &str) {
        let (x, y) = at;
        const FORMS: [&str; 4] =
            ["M0-4a4 4 0 1 0 .01 0z", "M-3.5-3.5h7v7h-7z", "M0-4.5L4.5 3.5h-9z", "M0-5L5 0L0 5L-5 0z"];
        self.add(format_args!(
            "<path class=\"{class}\" transform=\"translate({x:.1} {y:.1})\" d=\"{}\">{}</path>",
            FORMS[color % FORMS.len()],
            tip_element(tip)
        ));
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.body.write_fmt(element);
    }
}

fn joined(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn tip_element(tip: &str) -> String {
    if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape(tip)) }
}

/// The number of letters that fit into a width.
pub(super) fn letters_in(width: f64) -> usize {
    (1..).take_while(|&letters: &i32| f64::from(letters) * LETTER_WIDTH <= width).count()
}

/// At most this many letters of a name.
pub(super) fn truncated(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    name.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}

/// Words in lines of at most this many letters.
pub(super) fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = truncated(word, letters);
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Makes text safe in HTML and SVG, in attributes too.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // No character that could hide or reverse adjacent text.
            c if c.is_control() && c != '\n' => safe.push('\u{fffd}'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_truncated_and_lines_are_wrapped_at_words() {
        assert_eq!([letters_in(0.0), letters_in(2.5 * LETTER_WIDTH)], [0, 2]);
        assert_eq!(truncated("short", 5), "short");
        assert_eq!(truncated("shorter", 5), "shor…");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a-very-long-name of it", 6), ["a-ver…", "of it"]);
    }

    #[test]
    fn escaped_text_is_never_markup() {
        assert_eq!(escape("<b a='\"'>&\u{7}\u{202e}x"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}\u{fffd}x");
        let mut svg = Svg::new(10.0);
        svg.text("", (0.0, 0.0), Anchor::Start, "</svg><script>");
        svg.rect("f0", (0.0, 0.0), (1.0, -1.0), "<i>");
        let drawn = svg.finish("\"><script>");
        assert!(!drawn.contains("<script") && !drawn.contains("<i>"), "{drawn}");
        assert_eq!(drawn.matches("</svg>").count(), 1);
    }
}
