//! Reports as CSV (RFC 4180): one row for each cell, all runs under one head.

use super::content::Report;
use super::table::Table;

/// One table alone.
pub(super) fn table(table: &Table) -> String {
    let head = line(table.head.iter().map(String::as_str));
    let filled = |row: Vec<String>| {
        let missing = table.head.len().saturating_sub(row.len());
        row.into_iter().chain(std::iter::repeat_n(String::new(), missing)).collect::<Vec<_>>()
    };
    rows(table).map(filled).fold(head, |text, row| text + &line(row.iter().map(String::as_str)))
}

/// Rates are medians over the repetitions. Latencies are of all repetitions merged.
pub fn csv(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let mut text = line(first.cells.head.iter().map(String::as_str));
    for row in reports.iter().flat_map(|report| rows(&report.cells)) {
        text.push_str(&line(row.iter().map(String::as_str)));
    }
    text
}

fn rows(table: &Table) -> impl Iterator<Item = Vec<String>> {
    table.rows.iter().map(|row| {
        let cells = row.cells.iter().map(super::table::Value::plain);
        std::iter::once(row.label.clone()).chain(cells).collect()
    })
}

fn line<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    fields.map(field).collect::<Vec<_>>().join(",") + "\r\n"
}

/// Quotes a field if necessary. A leading formula character gets a blank before it, because spreadsheets
/// would evaluate names from files and servers.
fn field(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok();
    let text = if !is_number && text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!(" {text}")
    } else {
        text.to_owned()
    };
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn csv_fields_are_quoted_and_never_formulas() {
        for (text, written) in [
            ("plain", "plain"),
            ("-1.5", "-1.5"),
            ("=1+1", " =1+1"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
        ] {
            assert_eq!(field(text), written);
        }
    }
}
