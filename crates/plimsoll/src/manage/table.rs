//! Tables and lists for people.

use std::fmt;

/// Lines of cells under heads, each column as wide as its widest cell.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

struct Column {
    head: &'static str,
    is_number: bool,
}

/// Properties of one thing, a line each.
#[derive(Default)]
pub(crate) struct Facts(Vec<(&'static str, String)>);

/// Blanks between columns.
const GAP: usize = 2;

impl Table {
    /// A table with these heads; a head that begins with `>` is that of numbers, which stand on the right.
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        let column = |head: &&'static str| match head.strip_prefix('>') {
            Some(head) => Column { head, is_number: true },
            None => Column { head, is_number: false },
        };
        Self { columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a line.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// The table, or what there is to say if it has no lines.
    pub(crate) fn or(&self, nothing: &str) -> String {
        if self.rows.is_empty() { format!("{nothing}\n") } else { self.to_string() }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.to_owned()).collect();
        let lines = || std::iter::once(&heads).chain(&self.rows);
        let width = |column: usize| lines().filter_map(|line| Some(line.get(column)?.chars().count())).max();
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
        for line in lines() {
            let mut text = String::new();
            for ((cell, &width), column) in line.iter().zip(&widths).zip(&self.columns) {
                let padded =
                    if column.is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
                text.push_str(&padded);
                text.push_str(&" ".repeat(GAP));
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

impl Facts {
    /// Adds a property.
    pub(crate) fn add(&mut self, name: &'static str, value: impl ToString) {
        self.0.push((name, printable(&value.to_string())));
    }

    /// Adds a property if it is there.
    pub(crate) fn maybe(&mut self, name: &'static str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|(name, _)| name.chars().count() + 1).max().unwrap_or(0);
        for (name, value) in &self.0 {
            let name = if name.is_empty() { String::new() } else { format!("{name}:") };
            writeln!(f, "{name:<width$}  {value}")?;
        }
        Ok(())
    }
}

/// What comes from elsewhere does not steer the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if control::steers_terminal(c) { '\u{fffd}' } else { c }).collect()
}

/// As [`printable`], of several lines.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let mut table = Table::new(&["NAME", ">SIZE", "PATH"]);
        table.row(["é".into(), "1 TiB".into(), "/é".into()]);
        table.row(["longer".into(), "10 GiB".into(), String::new()]);
        assert_eq!(table.to_string(), "NAME      SIZE  PATH\né        1 TiB  /é\nlonger  10 GiB\n");
        assert_eq!(Table::new(&["NAME"]).or("No pools."), "No pools.\n");
    }

    #[test]
    fn properties_are_aligned_and_cannot_steer_the_terminal() {
        let mut facts = Facts::default();
        facts.add("Name", "v\u{1b}[31m1");
        facts.maybe("Level", Some("anf/ultra"));
        facts.maybe("Profile", None::<&str>);
        facts.add("", "more");
        assert_eq!(facts.to_string(), "Name:   v\u{fffd}[31m1\nLevel:  anf/ultra\n        more\n");
    }
}
