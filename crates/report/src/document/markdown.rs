//! Reports as Markdown, without plots.

use std::fmt::Write as _;

use super::content::{Report, Section};
use super::facts::Fact;
use super::table::Table;

pub fn markdown(reports: &[Report]) -> String {
    reports.iter().map(report_markdown).collect::<Vec<_>>().join("\n")
}

fn report_markdown(report: &Report) -> String {
    let mut text = format!("# {}\n", escape_markdown(&report.heading()));
    for stamp in &report.stamps {
        // Writing to a string does not fail.
        let _ = write!(text, "\n**{}**\n", escape_markdown(stamp));
    }
    if let Some(verdict) = &report.verdict {
        let _ = write!(text, "\n**{}**\n", escape_markdown(&verdict.summary));
        text.push_str(&list("Asked and delivered", &verdict.points));
    }
    if !report.highlights.is_empty() {
        let _ = write!(text, "\nIn short:\n{}", facts(&report.highlights));
    }
    text.push_str(&list("Doubts", &report.caveats));
    text.push_str(&list("Reduced from the scenario or the method", &report.scaled));
    if !report.about.is_empty() {
        let _ = write!(text, "\n{}\n", escape_markdown(&report.about));
    }
    text.push_str(&facts(&report.facts));
    report.sections.iter().for_each(|one| text.push_str(&section(one)));
    for details in &report.details {
        text.push_str(&titled_table(details));
    }
    text
}

fn section(section: &Section) -> String {
    let mut text = format!("\n## {}\n", escape_markdown(&section.title));
    text.push_str(&facts(&section.facts));
    section.tables.iter().for_each(|table| text.push_str(&titled_table(table)));
    text.push_str(&list("Doubts", &section.caveats));
    text.push_str(&list("Published", &section.citations));
    section.details.iter().for_each(|table| text.push_str(&titled_table(table)));
    text
}

fn facts(facts: &[Fact]) -> String {
    let line = |(name, value): &Fact| format!("- {}: {}\n", escape_markdown(name), escape_markdown(value));
    let lines: String = facts.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn list(title: &str, lines: &[String]) -> String {
    let all: String = lines.iter().map(|line| format!("- {}\n", escape_markdown(line))).collect();
    if all.is_empty() { all } else { format!("\n{title}:\n\n{all}") }
}

fn titled_table(one: &Table) -> String {
    let title =
        if one.title.is_empty() { String::new() } else { format!("\n### {}\n", escape_markdown(&one.title)) };
    format!("{title}\n{}", table(one))
}

/// Aligns columns, so that the table is readable as plain text too.
pub(crate) fn table(table: &Table) -> String {
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            let cells = row.cells.iter().map(|cell| escape_markdown(&cell.to_string()));
            std::iter::once(escape_markdown(&row.label)).chain(cells).collect()
        })
        .collect();
    let head: Vec<String> = table.head.iter().map(|one| escape_markdown(one)).collect();
    let width = |column: usize| {
        let cells = std::iter::once(&head).chain(&rows).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!(" {cell:<width$} ") } else { format!(" {cell:>width$} ") }
        });
        format!("|{}|\n", padded.collect::<Vec<_>>().join("|"))
    };
    let rule = widths.iter().enumerate().map(|(column, &width)| {
        if column == 0 { "-".repeat(width + 2) } else { format!("{}:", "-".repeat(width + 1)) }
    });
    let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    line(&head) + &rule + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// One line without markup: names come from files and servers.
fn escape_markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '`' | '[' | ']' | '<' | '\\' => safe.extend(['\\', c]),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
