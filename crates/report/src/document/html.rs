//! Reports as one self-contained HTML file: no network, no scripts.

use std::fmt::Write as _;

use super::content::{Lead, Report, Section};
use super::facts::Fact;
use super::plot::Plot;
use super::plot::svg::{COLOR_STYLE, HATCHES, PLOT_STYLE, escape};
use super::table::{RowKind, Table, Value};
use crate::result::Outcome;

pub fn html(reports: &[Report]) -> String {
    let title = reports.iter().map(Report::heading).collect::<Vec<_>>().join("; ");
    let bodies = reports.iter().enumerate().map(|(index, report)| report_html(report, &format!("r{index}")));
    page(&title, &(runs(reports) + &bodies.collect::<String>()))
}

/// Links to each of several reports.
fn runs(reports: &[Report]) -> String {
    if reports.len() < 2 {
        return String::new();
    }
    let link = |(index, report): (usize, &Report)| {
        format!("<li><a href=\"#r{index}\">{}</a></li>\n", escape(&report.heading()))
    };
    let links: String = reports.iter().enumerate().map(link).collect();
    format!("<nav class=\"runs\" aria-label=\"Runs\">\n<ul>\n{links}</ul>\n</nav>\n")
}

pub(super) fn page(title: &str, bodies: &str) -> String {
    // The policy forbids loading and scripts, in case a name ever escapes as markup.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{COLOR_STYLE}{STYLE}{PLOT_STYLE}</style>\n{HATCHES}\n{bodies}</html>\n",
        escape(title)
    )
}

const STYLE: &str = include_str!("style.css");

const SENTENCE: usize = 20;

/// Anchors start with `prefix`, so that several reports fit into one page.
fn report_html(report: &Report, prefix: &str) -> String {
    let mut text = format!(
        "<main class=\"report\">\n<h1 id=\"{prefix}\">{}</h1>\n{}<div class=\"body\">\n",
        escape(&report.heading()),
        contents(report, prefix)
    );
    text.push_str(&lead(report));
    text.push_str(&folded_list("doubts", "Doubts", &report.caveats));
    text.push_str(&folded_list("", "Made smaller or shorter", &report.scaled));
    if report.highlights.len() > 1 {
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "<div class=\"short\">\n<h3>All series</h3>\n{}</div>", facts(&report.highlights));
    }
    let about =
        if report.about.is_empty() { String::new() } else { format!("<p>{}</p>\n", escape(&report.about)) };
    let setup = format!("{about}<div class=\"setup\">{}</div>", facts(&report.facts));
    text.push_str(&details("Set-up: scenario, target, volume, clients", setup));
    text.push_str(&figures(&report.plots));
    let is_short = report.sections.len() < 3;
    for (index, one) in report.sections.iter().enumerate() {
        let is_lead = report.sections.len() == 1;
        text.push_str(&section(one, &format!("{prefix}s{index}"), is_short, is_lead));
    }
    text.push_str(&details("Environment", report.details.iter().map(table).collect()));
    if !report.scenario.is_empty() {
        let file = format!("<pre>{}</pre>\n", escape(&report.scenario));
        text.push_str(&details("The scenario as a file, to be run again", file));
    }
    text.push_str("</div>\n</main>\n");
    text
}

/// The first screen: result, limit, doubts in one line each, and a plot.
fn lead(report: &Report) -> String {
    let Some(verdict) = &report.verdict else { return in_short("", &report.lead, &report.stamps) };
    let class = match verdict.outcome {
        Outcome::Met => "pass",
        Outcome::Missed => "fail",
        Outcome::Undecided => "undecided",
    };
    let mut text = format!("<p class=\"verdict {class}\">{}</p>\n", escape(&verdict.summary));
    let points: String = verdict.points.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    text.push_str(&folded("Asked and delivered", verdict.points.len() < 6, format!("<ul>\n{points}</ul>\n")));
    in_short(&text, &report.lead, &report.stamps)
}

/// The lead of a page, after `before`.
pub(super) fn in_short(before: &str, lead: &Lead, stamps: &[String]) -> String {
    let mut text = format!("<div class=\"lead\">\n{before}");
    let lines = [("result", &lead.result), ("limit", &lead.limit)].into_iter();
    let lines = lines.chain(stamps.iter().map(|stamp| ("stamp", stamp)));
    for (class, line) in lines.filter(|(_, line)| !line.is_empty()) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "<p class=\"{class}\">{}</p>", escape(line));
    }
    text.push_str(&lead.plot.as_ref().map_or_else(String::new, plot));
    text.push_str("</div>\n");
    text
}

fn contents(report: &Report, prefix: &str) -> String {
    if report.sections.len() < 2 {
        return String::new();
    }
    let link = |(index, section): (usize, &Section)| {
        format!("<li><a href=\"#{prefix}s{index}\">{}</a></li>\n", escape(&section.title))
    };
    let links: String = report.sections.iter().enumerate().map(link).collect();
    format!(
        "<nav aria-label=\"Contents\">\n<ul>\n<li><a href=\"#{prefix}\">In short</a></li>\n{links}</ul>\n</nav>\n"
    )
}

fn figures(plots: &[Plot]) -> String {
    if plots.is_empty() {
        return String::new();
    }
    format!("<div class=\"figures\">\n{}</div>\n", plots.iter().map(plot).collect::<String>())
}

/// A result and a plot, all else folded. `is_open` leaves the tables unfolded, `is_lead` leaves out the plot that the
/// report begins with.
fn section(section: &Section, id: &str, is_open: bool, is_lead: bool) -> String {
    let mut text = format!("<section>\n<h2 id=\"{id}\">{}</h2>\n", escape(&section.title));
    if !section.result.is_empty() {
        let _ = writeln!(text, "<p class=\"reached\">{}.</p>", escape(&capitalized(&section.result)));
    }
    let (first, others) = section.plots.split_at(section.plots.len().min(1));
    if !is_lead {
        text.push_str(&figures(first));
    }
    let tables: String = section.tables.iter().map(table).collect();
    text.push_str(&folded("Figures", is_open, tables));
    let mut more = figures(others);
    if !section.facts.is_empty() {
        let _ = writeln!(more, "<div class=\"setup\"><h3>Set-up</h3>{}</div>", facts(&section.facts));
    }
    more.push_str(&list("doubts", "Doubts", &section.caveats));
    more.push_str(&list("cited", "Published", &section.citations));
    section.details.iter().for_each(|one| more.push_str(&table(one)));
    more.push_str(&figures(&section.detail_plots));
    text.push_str(&details(&summary(section), more));
    text.push_str("</section>\n");
    text
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn summary(section: &Section) -> String {
    let doubts = match section.caveats.len() {
        0 => String::new(),
        1 => ", 1 doubt".to_owned(),
        several => format!(", {several} doubts"),
    };
    format!("Latencies, set-up{doubts}, sources, server, each second")
}

pub(super) fn folded_list(class: &str, title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let all: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    let summary = format!("{title} ({})", lines.len());
    details(&summary, format!("<ul class=\"{class}\">\n{all}</ul>\n"))
}

fn folded(summary: &str, is_open: bool, content: String) -> String {
    let folded = details(summary, content);
    if is_open { folded.replacen("<details>", "<details open>", 1) } else { folded }
}

pub(super) fn details(summary: &str, content: String) -> String {
    if content.is_empty() {
        return content;
    }
    format!("<details>\n<summary>{}</summary>\n{content}</details>\n", escape(summary))
}

pub(super) fn facts(facts: &[Fact]) -> String {
    let one = |(name, value): &Fact| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), breakable(value));
    format!("<dl>\n{}</dl>\n", facts.iter().map(one).collect::<String>())
}

pub(super) fn list(class: &str, title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<div class=\"{class}\">\n<h3>{}</h3>\n<ul>\n{lines}</ul>\n</div>\n", escape(title))
}

pub(super) fn table(table: &Table) -> String {
    let caption = if table.title.is_empty() {
        String::new()
    } else {
        format!("<caption>{}</caption>\n", escape(&table.title))
    };
    let of_words: Vec<bool> =
        (0..table.head.len().saturating_sub(1)).map(|column| is_of_words(table, column)).collect();
    let head = |(index, one): (usize, &String)| {
        let is_of_words = index.checked_sub(1).is_some_and(|column| of_words[column]);
        format!("<th scope=\"col\"{}>{}</th>", if is_of_words { " class=\"left\"" } else { "" }, escape(one))
    };
    let heads: String = table.head.iter().enumerate().map(head).collect();
    let mut rows = String::new();
    for row in &table.rows {
        let class = match row.kind {
            RowKind::Page => " class=\"page\"",
            RowKind::Measured => "",
            RowKind::Published => " class=\"published\"",
            RowKind::Heading => {
                let (columns, label) = (table.head.len(), escape(&row.label));
                let _ = writeln!(
                    rows,
                    "<tr class=\"heading\"><th colspan=\"{columns}\" scope=\"rowgroup\"><span>{label}</span></th></tr>"
                );
                continue;
            }
        };
        let cells: String = row.cells.iter().zip(&of_words).map(|(value, left)| cell(value, *left)).collect();
        let _ = writeln!(rows, "<tr{class}><th scope=\"row\">{}</th>{cells}</tr>", breakable(&row.label));
    }
    format!(
        "<div class=\"wide\"><table>\n{caption}<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// A column of words contains only text, with sentences among it. Such columns are left-aligned.
fn is_of_words(table: &Table, column: usize) -> bool {
    let cells = || table.rows.iter().filter_map(|row| row.cells.get(column));
    let is_text = |cell: &Value| matches!(cell, Value::Nothing | Value::Text(_));
    cells().all(is_text) && cells().any(|cell| matches!(cell, Value::Text(text) if text.len() > SENTENCE))
}

fn cell(value: &Value, left: bool) -> String {
    match value {
        Value::Nothing => "<td></td>".to_owned(),
        Value::Text(text) => {
            // Sentences get more width.
            let class = if text.len() > SENTENCE { "text words" } else { "text" };
            let left = if left { " left" } else { "" };
            format!("<td class=\"{class}{left}\">{}</td>", breakable(text))
        }
        Value::Number(..) => format!("<td>{value}</td>"),
        Value::Share(share, text) => {
            let class = if *share > 1.0 { "share over" } else { "share" };
            let percent = (share * 100.0).clamp(0.0, 100.0);
            format!("<td class=\"{class}\" style=\"--share: {percent:.1}%\">{}</td>", escape(text))
        }
    }
}

/// Lists of options have no blanks after their commas, so the text gets break opportunities.
fn breakable(text: &str) -> String {
    let escaped = escape(text);
    let mut parts = escaped.split(',');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Grouped digits must not be separated.
        let is_option = part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        text.push_str(if is_option { ",<wbr>" } else { "," });
        text.push_str(part);
    }
    text
}

pub(super) fn plot(plot: &Plot) -> String {
    let note =
        if plot.note.is_empty() { String::new() } else { format!("<br><span>{}</span>", escape(&plot.note)) };
    format!("<figure>\n<figcaption>{}{note}</figcaption>\n{}\n</figure>\n", escape(&plot.title), plot.svg())
}

#[cfg(test)]
mod tests {
    use super::{STYLE, breakable, page, table};
    use crate::document::table::Table;

    #[test]
    fn page_never_scrolls_sideways_as_a_whole() {
        let rule = |selector: &str, property: &str| {
            let lines =
                STYLE.lines().map(str::trim).filter(|line| line.starts_with(&format!("{selector} {{")));
            assert!(lines.into_iter().any(|line| line.contains(property)), "{selector}: {property}");
        };
        rule("body", "overflow-wrap: break-word");
        rule("nav a", "max-width: 100%");
        rule(".wide", "overflow-x: auto");
        rule("figure", "overflow-x: auto");
        rule("pre", "overflow-x: auto");
        rule(".verdict.pass", "color: var(--pass)");
        let page = page("", &table(&Table::new("", &["", "a"])));
        assert_eq!(page.matches("<table").count(), page.matches("<div class=\"wide\"><table").count());
    }

    #[test]
    fn options_break_and_numbers_do_not() {
        assert_eq!(breakable("rw,hard,_netdev"), "rw,<wbr>hard,<wbr>_netdev");
        assert_eq!(breakable("1,234 IOPS, <b>"), "1,234 IOPS, &lt;b&gt;");
    }
}
