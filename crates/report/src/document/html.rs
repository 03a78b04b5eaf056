//! Reports as one self-contained HTML file: no network, no scripts.

use std::fmt::Write as _;

use super::content::{Report, Section};
use super::facts::Fact;
use super::plot::Plot;
use super::plot::svg::{STYLE, escape};
use super::table::{RowKind, Table, Value};

pub fn html(reports: &[Report]) -> String {
    let title = reports.iter().map(|report| report.title.as_str()).collect::<Vec<_>>().join("; ");
    let bodies = reports.iter().enumerate().map(|(index, report)| report_html(report, &format!("r{index}")));
    page(&title, &bodies.collect::<String>())
}

pub(super) fn page(title: &str, bodies: &str) -> String {
    // The policy forbids loading and scripts, in case a name ever escapes as markup.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n{HATCHES}\n{bodies}</html>\n",
        escape(title)
    )
}

/// Fill patterns of hollow bars, one for each color.
const HATCHES: &str = include_str!("hatches.svg");

const SENTENCE: usize = 20;

/// Anchors start with `prefix`, so that several reports fit into one page.
fn report_html(report: &Report, prefix: &str) -> String {
    let mut text = format!(
        "<main class=\"report\">\n<h1 id=\"{prefix}\">{}</h1>\n{}<div class=\"body\">\n",
        escape(&report.title),
        contents(report, prefix)
    );
    for stamp in &report.stamps {
        // Writing to a string does not fail.
        let _ = writeln!(text, "<p class=\"stamp\">{}</p>", escape(stamp));
    }
    if !report.highlights.is_empty() {
        let _ =
            writeln!(text, "<div class=\"short\">\n<h3>In short</h3>\n{}</div>", facts(&report.highlights));
    }
    text.push_str(&list("doubts", "Doubts", &report.caveats));
    text.push_str(&list("doubts", "Reduced from the scenario or the method", &report.scaled));
    if !report.about.is_empty() {
        let _ = writeln!(text, "<p>{}</p>", escape(&report.about));
    }
    let _ = writeln!(
        text,
        "<details open class=\"setup\">\n<summary>Set-up: target, volume, clients</summary>\n{}</details>",
        facts(&report.facts)
    );
    text.push_str(&figures(&report.plots));
    for (index, one) in report.sections.iter().enumerate() {
        text.push_str(&section(one, &format!("{prefix}s{index}")));
    }
    text.push_str(&details("Environment", report.details.iter().map(table).collect()));
    if !report.scenario.is_empty() {
        let file = format!("<pre>{}</pre>\n", escape(&report.scenario));
        text.push_str(&details("The scenario as a file, to be run again", file));
    }
    text.push_str("</div>\n</main>\n");
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

fn section(section: &Section, id: &str) -> String {
    let mut text = format!("<section>\n<h2 id=\"{id}\">{}</h2>\n", escape(&section.title));
    let _ = writeln!(text, "<div class=\"setup\">{}</div>", facts(&section.facts));
    section.tables.iter().for_each(|one| text.push_str(&table(one)));
    text.push_str(&list("doubts", "Doubts", &section.caveats));
    text.push_str(&figures(&section.plots));
    text.push_str(&list("cited", "Published", &section.citations));
    let tables = section.details.iter().map(table);
    let plots = figures(&section.detail_plots);
    text.push_str(&details(
        "Details: the server, the search, the load, each second",
        tables.chain([plots]).collect(),
    ));
    text.push_str("</section>\n");
    text
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
    use super::breakable;

    #[test]
    fn options_break_and_numbers_do_not() {
        assert_eq!(breakable("rw,hard,_netdev"), "rw,<wbr>hard,<wbr>_netdev");
        assert_eq!(breakable("1,234 IOPS, <b>"), "1,234 IOPS, &lt;b&gt;");
    }
}
