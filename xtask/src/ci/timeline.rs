//! The timeline of a run, as a table with bars.

use std::fmt::Write;
use std::time::Duration;

use super::step::Outcome;
use crate::part::Part;

/// Characters for the whole time.
const WIDTH: u32 = 50;

pub(super) struct Span {
    pub(super) name: &'static str,
    /// Since the beginning of the run.
    pub(super) start: Duration,
    pub(super) length: Duration,
    pub(super) outcome: Outcome,
    pub(super) parts: Vec<Part>,
}

/// The spans in the order in which they began, and their sum.
pub(super) fn timeline(spans: &[Span], whole: Duration) -> String {
    let mut spans: Vec<&Span> = spans.iter().collect();
    spans.sort_by_key(|span| span.start);
    let mut text = format!("{:<18}{:>7}{:>7}  {:50}  outcome\n", "step", "start", "s", "");
    for Span { name, start, length, outcome, .. } in &spans {
        // A character stands for its part of the time, even if the step occupies less of it.
        let within =
            |column: u32| whole * column / WIDTH < *start + *length && *start < whole * (column + 1) / WIDTH;
        let bar: String = (0..WIDTH).map(|column| if within(column) { '#' } else { ' ' }).collect();
        let (start, length) = (start.as_secs_f64(), length.as_secs_f64());
        _ = writeln!(text, "{name:<18}{start:>7.0}{length:>7.0}  {bar}  {outcome}");
    }
    let sum: f64 = spans.iter().map(|span| span.length.as_secs_f64()).sum();
    _ = writeln!(text, "{:<18}{:>7}{:>7.0}  in steps of {sum:.0} s together", "all", "", whole.as_secs_f64());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_in_order_and_drawn() {
        let span = |name, start, length, outcome| Span {
            name,
            start: Duration::from_secs(start),
            length: Duration::from_secs(length),
            outcome,
            parts: Vec::new(),
        };
        let spans = [span("b", 50, 50, Outcome::Failed("why".into())), span("a", 0, 60, Outcome::Passed)];
        let text = timeline(&spans, Duration::from_secs(100));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            format!("a                       0     60  {}{}  passed", "#".repeat(30), " ".repeat(20))
        );
        assert_eq!(
            lines[2],
            format!("b                      50     50  {}{}  FAILED: why", " ".repeat(25), "#".repeat(25))
        );
        assert_eq!(lines[3], "all                          100  in steps of 110 s together");
    }
}
