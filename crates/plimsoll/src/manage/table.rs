//! Tables and property lists as text.

use crate::terminal::{Tone, fold, printable, words};
use std::fmt;
use std::iter::once;

/// Rows of cells under heads, each column as wide as its widest cell.
///
/// [`fit`](Self::fit) keeps to the width of a terminal: it folds words in [`folding`](Self::folding) columns, then omits the
/// columns of [`leaving_out`](Self::leaving_out), then splits the columns into parts that each begin with the first column.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

struct Column {
    head: String,
    is_number: bool,
    is_folding: bool,
    /// The priority of omission: the greatest is omitted first; 0 stays.
    omission: usize,
}

/// A cell: text, and the tone that paints it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

/// Properties of one object, a line each.
#[derive(Default)]
pub(crate) struct Facts(Vec<Fact>);

struct Fact {
    name: &'static str,
    value: Cell,
    /// Whether the value stays in one line, to be copied.
    is_verbatim: bool,
}

/// Blanks between columns.
const GAP: usize = 2;
/// The least width of a folded column.
const FOLDED_MIN: usize = 20;

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: printable(&text.into()), tone: Tone::Plain }
    }
}

impl Cell {
    pub(crate) fn tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl Table {
    /// A table with these heads. A head with `>` in front is of numbers, which are aligned on the right.
    pub(crate) fn new<T: AsRef<str>>(heads: &[T]) -> Self {
        let column = |head: &T| {
            let (head, is_number) = match head.as_ref().strip_prefix('>') {
                Some(head) => (head, true),
                None => (head.as_ref(), false),
            };
            Column { head: head.to_owned(), is_number, is_folding: false, omission: 0 }
        };
        Self { columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Allows `fit` to fold the words of these columns.
    pub(crate) fn folding(mut self, heads: &[&str]) -> Self {
        let folding = self.columns.iter_mut().filter(|column| heads.contains(&column.head.as_str()));
        folding.for_each(|column| column.is_folding = true);
        self
    }

    /// Allows `fit` to omit these columns, one after another, if the terminal is too narrow.
    pub(crate) fn leaving_out(mut self, heads: &[&str]) -> Self {
        for (place, head) in heads.iter().rev().enumerate() {
            let found = self.columns.iter_mut().find(|column| column.head == *head);
            found.into_iter().for_each(|column| column.omission = place + 1);
        }
        self
    }

    /// Adds a row. A single cell is a heading over all columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item: Into<Cell>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table, fit to the columns of a terminal, or `nothing` if it has no rows.
    pub(crate) fn or(&self, nothing: &str, columns: Option<usize>) -> String {
        if self.rows.is_empty() { format!("{nothing}\n") } else { self.fit(columns) }
    }

    /// The table, painted and fit to the columns of a terminal; with `None`, of any width.
    pub(crate) fn fit(&self, columns: Option<usize>) -> String {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let Some(most) = columns else { return self.lines(&shown, &self.widths(&shown), true) };
        let mut left_out: Vec<usize> =
            shown.iter().copied().filter(|&at| self.columns[at].omission > 0).collect();
        left_out.sort_unstable_by_key(|&at| self.columns[at].omission);
        let mut without = Vec::new();
        loop {
            if let Some(widths) = self.folded(&shown, most) {
                return self.lines(&shown, &widths, true) + &self.without(&without);
            }
            let Some(next) = left_out.pop() else { break };
            shown.retain(|&at| at != next);
            without.push(next);
        }
        let parts = self.parts(&shown, most);
        let parts: Vec<String> =
            parts.iter().map(|part| self.lines(part, &self.widths(part), true)).collect();
        parts.join("\n") + &self.without(&without)
    }

    /// A note about the omitted columns.
    fn without(&self, columns: &[usize]) -> String {
        let heads: Vec<&str> = columns.iter().map(|&at| self.columns[at].head.as_str()).collect();
        if heads.is_empty() { String::new() } else { format!("(--wide adds {})\n", heads.join(", ")) }
    }

    fn is_heading(&self, row: &[Cell]) -> bool {
        row.len() == 1 && self.columns.len() > 1
    }

    /// The widths of these columns without folding.
    fn widths(&self, shown: &[usize]) -> Vec<usize> {
        let cells = |at: usize| {
            self.rows.iter().filter(|row| !self.is_heading(row)).filter_map(move |row| row.get(at))
        };
        let width = |&at: &usize| {
            let head = self.columns[at].head.chars().count();
            cells(at).map(Cell::width).chain(once(head)).max().unwrap_or(0)
        };
        shown.iter().map(width).collect()
    }

    /// The widths of these columns with words folded; `None` if they still do not fit.
    fn folded(&self, shown: &[usize], most: usize) -> Option<Vec<usize>> {
        let mut widths = self.widths(shown);
        let least: Vec<usize> = shown.iter().map(|&at| self.folded_min(at)).collect();
        while total(&widths) > most {
            let can_fold = |at: &usize| self.columns[shown[*at]].is_folding && widths[*at] > least[*at];
            let widest = (0..shown.len()).filter(can_fold).max_by_key(|&at| widths[at])?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    /// The least width of a column with words folded: words are not broken.
    fn folded_min(&self, at: usize) -> usize {
        let rows = self.rows.iter().filter(|row| !self.is_heading(row));
        let cells = rows.filter_map(|row| row.get(at)).map(|cell| cell.text.as_str());
        let words = cells.flat_map(words).chain(once(self.columns[at].head.clone()));
        words.map(|word| word.chars().count()).max().unwrap_or(0).max(FOLDED_MIN)
    }

    /// The columns split into parts that fit, each with the first column.
    fn parts(&self, shown: &[usize], most: usize) -> Vec<Vec<usize>> {
        let Some((&first, others)) = shown.split_first() else { return Vec::new() };
        let mut parts = vec![vec![first]];
        for &at in others {
            let Some(last) = parts.last_mut() else { break };
            last.push(at);
            if last.len() > 2 && total(&self.widths(last)) > most {
                last.pop();
                parts.push(vec![first, at]);
            }
        }
        parts
    }

    fn lines(&self, shown: &[usize], widths: &[usize], is_painted: bool) -> String {
        let heads = |column: &Column| Cell { text: column.head.clone(), tone: Tone::Head };
        let heads: Vec<Cell> = self.columns.iter().map(heads).collect();
        let mut text = String::new();
        for row in once(&heads).chain(&self.rows) {
            if self.is_heading(row) {
                for line in fold(&row[0].text, total(widths)) {
                    text.push_str(&if is_painted { row[0].tone.paint(&line) } else { line });
                    text.push('\n');
                }
                continue;
            }
            let cells: Vec<&Cell> = shown.iter().filter_map(|&at| row.get(at)).collect();
            let folded: Vec<Vec<String>> =
                cells.iter().zip(widths).map(|(cell, &width)| fold_cell(cell, width)).collect();
            for line in 0..folded.iter().map(Vec::len).max().unwrap_or(0) {
                let words = folded.iter().map(|lines| lines.get(line).map_or("", String::as_str));
                let columns = shown.iter().map(|&at| &self.columns[at]);
                let parts: Vec<_> = cells.iter().zip(words).zip(columns).zip(widths).collect();
                // No blanks at the end of a line.
                let last =
                    parts.iter().rposition(|(((_, word), _), _)| !word.is_empty()).map_or(0, |at| at + 1);
                for (at, (((cell, word), column), &width)) in parts.into_iter().take(last).enumerate() {
                    let blanks = " ".repeat(width.saturating_sub(word.chars().count()));
                    let word = if is_painted { cell.tone.paint(word) } else { word.to_owned() };
                    let gap = if at + 1 < last { GAP } else { 0 };
                    match column.is_number {
                        true => text.push_str(&format!("{blanks}{word}{:gap$}", "")),
                        false if gap == 0 => text.push_str(&word),
                        false => text.push_str(&format!("{word}{blanks}{:gap$}", "")),
                    }
                }
                text.push('\n');
            }
        }
        text
    }
}

fn fold_cell(cell: &Cell, width: usize) -> Vec<String> {
    if cell.width() <= width { vec![cell.text.clone()] } else { fold(&cell.text, width) }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

impl fmt::Display for Table {
    /// Writes the table without folding or paint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        f.write_str(&self.lines(&all, &self.widths(&all), false))
    }
}

impl From<&report::document::table::Table> for Table {
    /// Converts all but the title: labels on the left, figures on the right.
    fn from(of: &report::document::table::Table) -> Self {
        let heads = of.head.iter().enumerate();
        let heads: Vec<String> =
            heads.map(|(at, head)| if at == 0 { head.clone() } else { format!(">{head}") }).collect();
        let mut table = Self::new(&heads);
        for row in &of.rows {
            table.row(once(row.label.clone()).chain(row.cells.iter().map(ToString::to_string)));
        }
        table
    }
}

impl Facts {
    pub(crate) fn add(&mut self, name: &'static str, value: impl ToString) {
        self.add_cell(name, value.to_string().into());
    }

    /// Adds a property with a tone.
    pub(crate) fn add_cell(&mut self, name: &'static str, value: Cell) {
        self.0.push(Fact { name, value, is_verbatim: false });
    }

    /// Adds a property that stays in one line, to be copied.
    pub(crate) fn verbatim(&mut self, name: &'static str, value: impl ToString) {
        self.0.push(Fact { name, value: value.to_string().into(), is_verbatim: true });
    }

    /// Adds a property if it has a value.
    pub(crate) fn maybe(&mut self, name: &'static str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// The properties, painted and fit to the columns of a terminal; with `None`, of any width.
    pub(crate) fn fit(&self, columns: Option<usize>) -> String {
        self.lines(columns, true)
    }

    fn lines(&self, columns: Option<usize>, is_painted: bool) -> String {
        let width = self.0.iter().map(|fact| fact.name.chars().count() + 1).max().unwrap_or(0);
        let room = columns.map(|columns| columns.saturating_sub(width + GAP));
        let mut text = String::new();
        for Fact { name, value, is_verbatim } in &self.0 {
            let name = if name.is_empty() { String::new() } else { format!("{name}:") };
            let lines = match room {
                Some(room) if !is_verbatim => fold(&value.text, room),
                _ => vec![value.text.clone()],
            };
            for (name, line) in once(name).chain(std::iter::repeat(String::new())).zip(lines) {
                let blanks = " ".repeat(width - name.chars().count() + GAP);
                let (name, line) = match is_painted {
                    true => (Tone::Head.paint(&name), value.tone.paint(&line)),
                    false => (name, line),
                };
                text.push_str(&format!("{name}{blanks}{line}\n"));
            }
        }
        text
    }
}

impl fmt::Display for Facts {
    /// Writes the properties without folding or paint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines(None, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::unpainted;

    fn fitted(table: &Table, columns: usize) -> String {
        unpainted(&table.fit(Some(columns)))
    }

    fn table() -> Table {
        let mut table = Table::new(&["NAME", ">SIZE", "PATH", "WHY"]);
        table.row(["v1", "1 TiB", "/v1", "because it was asked for by who owns it"]);
        table.row(["longer", "10 GiB", "/longer", "no"]);
        table
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let mut table = Table::new(&["NAME", ">SIZE", "PATH"]);
        table.row(["é", "1 TiB", "/é"]);
        table.row(["longer", "10 GiB", ""]);
        let expected = "NAME      SIZE  PATH\né        1 TiB  /é\nlonger  10 GiB\n";
        assert_eq!((table.to_string(), unpainted(&table.fit(None))), (expected.into(), expected.into()));
        assert_eq!(fitted(&table, 20), expected, "it fits exactly");
        assert_eq!(Table::new(&["NAME"]).or("No pools.", None), "No pools.\n");
    }

    #[test]
    fn heading_spans_all_columns_and_widens_none() {
        let mut table = Table::new(&["NAME", ">SIZE"]);
        table.row(["v1", "1 TiB"]);
        table.row(["of others that are many"]);
        table.row(["v2", "2 TiB"]);
        let expected = "NAME   SIZE\nv1    1 TiB\nof others\nthat are\nmany\nv2    2 TiB\n";
        assert_eq!((table.to_string(), fitted(&table, 11)), (expected.into(), expected.into()));
    }

    #[test]
    fn words_are_folded_before_columns_are_omitted() {
        let table = table().folding(&["WHY"]).leaving_out(&["PATH", "SIZE"]);
        assert_eq!(
            fitted(&table, 50),
            "NAME      SIZE  PATH     WHY\n\
             v1       1 TiB  /v1      because it was asked for\n\
             \u{20}                        by who owns it\n\
             longer  10 GiB  /longer  no\n"
        );
        assert_eq!(
            fitted(&table, 44),
            "NAME      SIZE  WHY\n\
             v1       1 TiB  because it was asked for by\n\
             \u{20}               who owns it\n\
             longer  10 GiB  no\n\
             (--wide adds PATH)\n"
        );
        assert!(fitted(&table, 30).ends_with("(--wide adds PATH, SIZE)\n"));
    }

    #[test]
    fn columns_that_cannot_be_omitted_are_split_with_the_first_column() {
        let text = fitted(&table(), 26);
        assert_eq!(
            text,
            "NAME      SIZE  PATH\n\
             v1       1 TiB  /v1\n\
             longer  10 GiB  /longer\n\
             \n\
             NAME    WHY\n\
             v1      because it was asked for by who owns it\n\
             longer  no\n"
        );
        assert_eq!(fitted(&table(), 80), table().to_string());
    }

    #[test]
    fn cells_are_painted_without_moving_others() {
        let mut table = Table::new(&["NAME", "STATE", "PATH"]);
        table.row([Cell::from("v1"), Cell::from("full").tone(Tone::Warning), "/v1".into()]);
        let painted = table.fit(None);
        assert!(painted.contains(&Tone::Warning.paint("full")), "{painted:?}");
        assert_eq!(unpainted(&painted), "NAME  STATE  PATH\nv1    full   /v1\n");
        assert_eq!(table.to_string(), unpainted(&painted));
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

    #[test]
    fn properties_are_folded_except_verbatim_ones() {
        let mut facts = Facts::default();
        facts.add("Limits", "reads 260 MiB/s, writes 88 MiB/s");
        facts.verbatim("Mount", "mount -t nfs host:/v1 /mnt");
        assert_eq!(
            unpainted(&facts.fit(Some(26))),
            "Limits:  reads 260 MiB/s,\n         writes 88 MiB/s\nMount:   mount -t nfs host:/v1 /mnt\n"
        );
    }
}
