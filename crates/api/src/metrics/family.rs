//! The text format: families of samples.

use super::families::Declaration;
use std::fmt::{Display, Write};

/// The media type of the format.
pub(crate) const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The document so far.
#[derive(Default)]
pub(crate) struct Document(String);

/// A family: samples of one name.
pub(crate) struct Family<'d> {
    text: &'d mut String,
    of: &'static Declaration,
}

/// Nanoseconds that are written as seconds, without rounding.
pub(crate) struct Seconds(pub(crate) u64);

impl Document {
    pub(crate) fn family(&mut self, of: &'static Declaration) -> Family<'_> {
        let Declaration { name, kind, help, .. } = of;
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        Family { text: &mut self.0, of }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        _ = writeln!(self.0, "{line}");
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// A sample with these labels.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.suffixed("", labels, value);
    }

    /// A sample of a part of the family, as `_bucket` is of a histogram.
    pub(crate) fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        debug_assert!(
            labels.iter().map(|(name, _)| *name).filter(|name| *name != "le").eq(self
                .of
                .labels
                .iter()
                .copied()),
            "{}: {labels:?}",
            self.of.name
        );
        self.text.push_str(self.of.name);
        self.text.push_str(suffix);
        for (place, (label, value)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            _ = write!(self.text, "{before}{label}=\"");
            escape(self.text, value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        _ = writeln!(self.text, " {value}");
    }
}

fn escape(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(letter),
        }
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api_client::{Sample, Samples};

    const OPERATIONS: &Declaration = &Declaration {
        name: "a_total",
        kind: "counter",
        labels: &["volume", "direction"],
        unit: "",
        help: "Things.",
    };
    const TOTAL: &Declaration = &Declaration {
        name: "c_total",
        kind: "counter",
        labels: &[],
        unit: "",
        help: "Things, {like=\"these\"} 5.",
    };
    const TIMES: &Declaration =
        &Declaration { name: "b", kind: "histogram", labels: &[], unit: "", help: "More." };
    const GAUGE: &Declaration =
        &Declaration { name: "d", kind: "gauge", labels: &["volume", "direction"], unit: "", help: "More." };

    #[test]
    fn samples_are_written_as_the_format_wants_them() {
        let mut document = Document::default();
        let mut family = document.family(OPERATIONS);
        family.sample(&[("volume", "a\"b\\c\nd"), ("direction", "read")], Seconds(1_500_000_001));
        document.family(TIMES).suffixed("_bucket", &[("le", "+Inf")], 0);
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\n\
                        a_total{volume=\"a\\\"b\\\\c\\nd\",direction=\"read\"} 1.500000001\n\
                        # HELP b More.\n# TYPE b histogram\nb_bucket{le=\"+Inf\"} 0\n";
        assert_eq!(document.finish(), expected);
    }

    #[test]
    fn written_samples_are_read_back() {
        let strange = "a\"b\\c\nd},e=\"ü";
        let mut document = Document::default();
        document.family(TOTAL).sample(&[], u64::MAX >> 11);
        let mut family = document.family(GAUGE);
        family.sample(&[("volume", strange), ("direction", "read")], Seconds(1_500_000_001));
        family.sample(&[("volume", "v"), ("direction", "read")], 2);
        family.sample(&[("volume", "v"), ("direction", "write")], 3);
        document.family(TIMES).suffixed("_bucket", &[("le", "+Inf")], "+Inf");
        let samples: Samples = document.finish().parse().unwrap();
        let own = |name: &str| name.to_owned();
        let labels = vec![(own("volume"), own(strange)), (own("direction"), own("read"))];
        assert_eq!(
            *samples.of("d", &[]).next().unwrap(),
            Sample { name: own("d"), labels, value: 1.500_000_001 }
        );
        assert_eq!(samples.sum("c_total", &[]), Some(9_007_199_254_740_991.0));
        assert_eq!(samples.sum("d", &[("volume", "v")]), Some(5.0));
        assert_eq!(samples.sum("d", &[("direction", "write"), ("volume", "v")]), Some(3.0));
        assert_eq!(samples.sum("b_bucket", &[]), Some(f64::INFINITY));
        assert_eq!((samples.sum("d", &[("pool", "v")]), samples.sum("b", &[])), (None, None));
    }
}
