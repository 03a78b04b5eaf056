//! Reports on a terminal: what Markdown has of them, in the tables of the other commands.

use report::document::table::{Row, RowKind, Table as Figures, Value};
use report::document::{Fact, Report, Section};
use report::result::Outcome;

use crate::manage::table::{Cell, Table};
use crate::terminal::{Tone, fold};

/// All these reports, one after another, on a terminal of so many columns.
pub(super) fn of(reports: &[Report], columns: Option<usize>) -> String {
    let all: Vec<String> = reports.iter().map(|report| one(report, columns)).collect();
    all.join("\n\n")
}

fn one(report: &Report, columns: Option<usize>) -> String {
    let mut text = format!("{}\n", Tone::Head.paint(&report.heading()));
    for stamp in &report.stamps {
        text.push_str(&lines(&Tone::Warning, stamp, "", columns));
    }
    text.push_str(&verdict(report, columns));
    text.push_str(&facts(&report.highlights, columns));
    text.push_str(&list("Doubts", &Tone::Warning, &report.caveats, columns));
    let scaled = "Reduced from the scenario or the method";
    text.push_str(&list(scaled, &Tone::Plain, &report.scaled, columns));
    if !report.about.is_empty() {
        let about: Vec<&str> = report.about.split_whitespace().collect();
        text.push_str(&format!("\n{}", lines(&Tone::Plain, &about.join(" "), "", columns)));
    }
    text.push_str(&facts(&report.facts, columns));
    report.sections.iter().for_each(|section| text.push_str(&section_text(section, columns)));
    report.details.iter().for_each(|details| text.push_str(&titled(details, columns)));
    text
}

/// The overall verdict, then each point.
pub(super) fn verdict(report: &Report, columns: Option<usize>) -> String {
    let Some(verdict) = &report.verdict else { return String::new() };
    let tone = match verdict.outcome {
        Outcome::Met => Tone::Good,
        Outcome::Missed => Tone::Bad,
        Outcome::Undecided => Tone::Warning,
    };
    let points = verdict.points.iter().map(|point| lines(&Tone::Plain, point, "  ", columns));
    format!("\n{}{}", lines(&tone, &verdict.summary, "", columns), points.collect::<String>())
}

fn section_text(section: &Section, columns: Option<usize>) -> String {
    let mut text = format!("\n{}\n", Tone::Head.paint(&section.title));
    section.facts.iter().for_each(|(name, value)| text.push_str(&fact(name, value, columns)));
    section.tables.iter().for_each(|table| text.push_str(&titled(table, columns)));
    text.push_str(&list("Doubts", &Tone::Warning, &section.caveats, columns));
    text.push_str(&list("Published", &Tone::Plain, &section.citations, columns));
    section.details.iter().for_each(|table| text.push_str(&titled(table, columns)));
    text
}

/// All rows of a table, below its title.
fn titled(figures: &Figures, columns: Option<usize>) -> String {
    let mut table = empty(figures);
    figures.rows.iter().for_each(|row| table.row(cells(row)));
    let title = lines(&Tone::Head, &figures.title, "", columns);
    format!("\n{}{}", if figures.title.is_empty() { "" } else { &title }, table.fit(columns))
}

fn facts(facts: &[Fact], columns: Option<usize>) -> String {
    let all: String = facts.iter().map(|(name, value)| fact(name, value, columns)).collect();
    if all.is_empty() { all } else { format!("\n{all}") }
}

/// A table with these heads: what is behind the first column are figures.
pub(super) fn empty(figures: &Figures) -> Table {
    let heads = figures.head.iter().enumerate();
    let heads: Vec<String> =
        heads.map(|(at, head)| if at == 0 { head.clone() } else { format!(">{head}") }).collect();
    Table::new(&heads)
}

/// A row, what is doubtful of it painted.
pub(super) fn cells(row: &Row) -> Vec<Cell> {
    let label: Cell = match row.kind {
        RowKind::Heading => return vec![Cell::from(row.label.as_str()).tone(Tone::Head)],
        RowKind::Published => format!("  {}", row.label).into(),
        RowKind::Page | RowKind::Measured => row.label.as_str().into(),
    };
    let tone = |value: &Value| match value {
        Value::Text(text) if text == "void" => Tone::Bad,
        Value::Text(_) if row.label == "Doubts" => Tone::Warning,
        _ => Tone::Plain,
    };
    let figures = row.cells.iter().map(|value| Cell::from(value.to_string()).tone(tone(value)));
    std::iter::once(label).chain(figures).collect()
}

/// A name and what is to be said of it.
pub(super) fn fact(name: &str, value: &str, columns: Option<usize>) -> String {
    let mut text = lines(&Tone::Plain, &format!("{name}: {value}"), "  ", columns);
    // The name is in the first line, which folding does not change.
    if text.starts_with(name) {
        text.replace_range(..=name.len(), &Tone::Head.paint(&format!("{name}:")));
    }
    text
}

/// Lines below a title; nothing without any.
pub(super) fn list(title: &str, tone: &Tone, all: &[String], columns: Option<usize>) -> String {
    if all.is_empty() {
        return String::new();
    }
    let all: String = all.iter().map(|one| lines(tone, &format!("- {one}"), "  ", columns)).collect();
    format!("\n{}\n{all}", Tone::Head.paint(title))
}

/// A text in lines that fit, all but the first behind `indent`.
pub(super) fn lines(tone: &Tone, text: &str, indent: &str, columns: Option<usize>) -> String {
    let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent.len()));
    let folded = fold(text, room);
    let line =
        |(at, line): (usize, &String)| format!("{}{}\n", if at == 0 { "" } else { indent }, tone.paint(line));
    folded.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::{printable_lines, unpainted};
    use report::document::sample;

    #[test]
    fn a_report_fits_the_terminal_and_is_no_markdown() {
        for run in [sample::gcnv(), sample::connections(), sample::depths(), sample::eda()] {
            let text = unpainted(&printable_lines(&of(&[Report::of(&run)], Some(80))));
            for line in text.lines() {
                // A word may be longer than the line, and a table's widest column too.
                let is_long = line.chars().count() > 80 && line.trim().contains("  ");
                assert!(!is_long, "{line}");
                assert!(!line.starts_with(['|', '#']) && !line.contains("**"), "{line}");
            }
        }
    }

    #[test]
    fn a_report_has_all_that_markdown_has() {
        let report = Report::of(&sample::gcnv());
        let text = unpainted(&of(std::slice::from_ref(&report), None));
        assert!(!report.sections.is_empty() && !report.details.is_empty());
        for section in &report.sections {
            assert!(text.contains(&format!("\n{}\n", section.title)), "{}", section.title);
            for table in section.tables.iter().chain(&section.details) {
                assert!(text.contains(&table.title), "{}", table.title);
                for row in table.rows.iter().filter(|row| row.kind != RowKind::Heading) {
                    let figures = row.cells.iter().map(ToString::to_string);
                    let line = |line: &str| {
                        line.trim_start().starts_with(&row.label)
                            && figures.clone().all(|figure| line.contains(&figure))
                    };
                    assert!(text.lines().any(line), "{row:?}");
                }
            }
        }
        for doubt in report.caveats.iter().chain(&report.scaled) {
            assert!(text.contains(doubt), "{doubt}");
        }
    }
}
