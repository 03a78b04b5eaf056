//! The output of `bench run`: the results, and the tables of the page. The report has everything else.

use std::path::Path;

use report::document::table::{RowKind, Table as Figures};
use report::document::{Fact, Report, Section};
use report::result::Run;

use super::screen::{cells, empty, fact, lines, list, verdict};
use crate::manage::Table;
use crate::terminal::Tone;

/// The facts of a series that describe the load.
const SET_UP: [&str; 5] = ["Clients", "Clients at", "Jobs", "Calls", "Working set"];

/// A run in short, on a terminal of so many columns; `path` is the file that has all of it.
pub(super) fn of(run: &Run, path: &Path, columns: Option<usize>) -> String {
    let report = Report::of(run);
    let mut text = format!("{}\n", Tone::Head.paint(&report.title));
    for stamp in &report.stamps {
        text.push_str(&lines(&Tone::Warning, stamp, "", columns));
    }
    text.push('\n');
    let endpoints = report.facts.iter().filter(|(name, _)| name == "Clients at");
    for (name, value) in report.highlights.iter().chain(endpoints) {
        text.push_str(&fact(name, value, columns));
    }
    text.push_str(&lines(&Tone::Plain, &report.lead.limit, "", columns));
    for section in &report.sections {
        text.push_str(&section_text(section, columns));
    }
    text.push_str(&list("Doubts", &Tone::Warning, &report.caveats, columns));
    text.push_str(&list("Made smaller or shorter", &Tone::Plain, &report.scaled, columns));
    let page = path.with_extension("html");
    let (path, page) = (path.display(), page.display());
    text.push_str(&format!(
        "\nResult: {path}\nAll tables, doubts and sources: plimsoll bench report {path}\n\
         A page with plots: plimsoll bench report {path} --format html --output {page}\n"
    ));
    text + &verdict(&report, columns)
}

fn section_text(section: &Section, columns: Option<usize>) -> String {
    if section.tables.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", Tone::Head.paint(&section.title));
    let of_load = |fact: &&Fact| SET_UP.contains(&fact.0.as_str());
    let set_up: Vec<String> = section.facts.iter().filter(of_load).map(in_words).collect();
    if !set_up.is_empty() {
        text.push_str(&lines(&Tone::Plain, &set_up.join("; "), "", columns));
    }
    for table in &section.tables {
        if !table.title.is_empty() {
            text.push_str(&format!("{}\n", table.title));
        }
        text.push_str(&shown(table).fit(columns));
    }
    // The tables have the kinds of the doubts alone.
    text + &list("Doubts", &Tone::Warning, &section.caveats, columns)
}

fn in_words(fact: &Fact) -> String {
    let (name, value) = fact;
    match name.as_str() {
        "Clients" => value.clone(),
        _ => format!("{}: {value}", name.to_lowercase()),
    }
}

/// The rows that the page has, if the table is in the form of one; all of them if not.
fn shown(figures: &Figures) -> Table {
    let is_page = figures.rows.iter().any(|row| row.kind == RowKind::Page);
    let mut table = empty(figures);
    let mut before = "";
    for row in &figures.rows {
        let is_shown = !is_page || row.kind != RowKind::Measured || row.label == "Doubts";
        // What is read and written is what the page has; their sum is ours.
        let is_sum =
            row.kind == RowKind::Published && row.label.starts_with("Total ") && before.starts_with("Write ");
        if is_shown && !is_sum {
            table.row(cells(row));
        }
        before = &row.label;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::unpainted;
    use report::document::sample;

    fn summary(run: &Run, columns: Option<usize>) -> String {
        unpainted(&of(run, Path::new("run.json"), columns))
    }

    #[test]
    fn a_summary_is_short_and_has_the_page_s_tables() {
        for columns in [None, Some(80)] {
            let text = summary(&sample::gcnv(), columns);
            assert!(text.lines().count() < 120, "{} lines:\n{text}", text.lines().count());
            assert!(!text.contains("\\[") && !text.contains("p95"), "{text}");
            let rows = |label: &str| text.lines().filter(|line| line.starts_with(label)).count();
            assert_eq!((rows("Read MiB/s"), rows("Read IOPS"), rows("  Read MiB/s")), (2, 2, 2), "{text}");
            assert!(text.contains("GCNV Extreme, 75 TiB: published, an estimate of the maximum\n"), "{text}");
            assert!(
                text.contains("Clients") || text.contains("6 clients with 16 connections each"),
                "{text}"
            );
            assert!(text.ends_with("bench report run.json --format html --output run.html\n"), "{text}");
        }
    }

    #[test]
    fn doubt_in_a_table_is_explained_below_it() {
        let text = summary(&sample::gcnv(), None);
        let report = Report::of(&sample::gcnv());
        let doubts: Vec<&String> = report.sections.iter().flat_map(|section| &section.caveats).collect();
        assert!(doubts.len() > 1 && text.contains("Doubts  "), "{text}");
        for doubt in doubts {
            assert!(text.contains(&format!("- {doubt}\n")), "{doubt}: {text}");
        }
    }

    #[test]
    fn a_summary_fits_the_terminal() {
        for run in [sample::gcnv(), sample::connections(), sample::depths(), sample::eda()] {
            let text = summary(&run, Some(80));
            let commands = |line: &str| line.contains("plimsoll bench report");
            for line in text.lines().filter(|line| !commands(line)) {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn gains_and_rows_of_points_are_the_page_s_too() {
        let text = summary(&sample::connections(), None);
        assert!(
            text.contains("Gain over 1 connection") && text.contains("Published gain of nconnect"),
            "{text}"
        );
        let text = summary(&sample::depths(), None);
        assert!(text.contains("32 in flight a job"), "{text}");
    }
}
