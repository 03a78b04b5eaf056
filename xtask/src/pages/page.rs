//! The files of `conformance/pages`: the statements of a published page, with the commands that show them.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    pub(super) title: String,
    statements: usize,
    /// Commands that run before all rows: the service and the measurements that the rows read.
    #[serde(default)]
    pub(super) setup: String,
    #[serde(rename = "row")]
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) says: String,
    #[serde(default, rename = "run")]
    pub(super) runs: Vec<Run>,
    /// A manual measurement that showed the statement, because it takes long.
    pub(super) long: Option<ManualRun>,
    /// A missing feature without which the statement cannot be shown completely.
    pub(super) waiting: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) command: String,
    #[serde(default)]
    pub(super) shows: Vec<String>,
    #[serde(default)]
    pub(super) lacks: Vec<String>,
    #[serde(default)]
    pub(super) status: i32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManualRun {
    pub(super) date: toml::value::Date,
    pub(super) command: String,
    pub(super) result: String,
}

impl Page {
    /// The file's name is the first part of its rows' names.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).context("path is not UTF-8")?;
        let text = std::fs::read_to_string(path)?;
        Self::parse(stem, &text).with_context(|| format!("{}", path.display()))
    }

    fn parse(stem: &str, text: &str) -> anyhow::Result<Self> {
        let page: Self = toml::from_str(text)?;
        for (number, row) in (1..).zip(&page.rows) {
            let wanted = format!("{stem}-{number:02}");
            ensure!(row.id == wanted, "row {} is followed by {}; expected {wanted}", number - 1, row.id);
            row.check().with_context(|| row.id.clone())?;
        }
        let count = page.rows.len();
        ensure!(count == page.statements, "{count} rows for {} statements", page.statements);
        Ok(page)
    }
}

impl Row {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.says.trim().is_empty(), "`says` is empty");
        let shown = !self.runs.is_empty() || self.long.is_some();
        ensure!(shown || self.waiting.is_some(), "it has neither `run`, `long` nor `waiting`");
        for run in &self.runs {
            let asserts = !run.shows.is_empty() || !run.lacks.is_empty();
            ensure!(asserts, "`{}` has no expected result", run.command);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(rows: &str) -> Result<Page, String> {
        Page::parse("p", &format!("title = \"t\"\nstatements = 2\n{rows}")).map_err(|why| format!("{why:#}"))
    }

    const FIRST: &str = "[[row]]\nid = \"p-01\"\nsays = \"s\"\nwaiting = \"w\"\n";

    #[test]
    fn rows_are_complete_and_in_order() {
        let with = |second: &str| parsed(&format!("{FIRST}[[row]]\nsays = \"s\"\n{second}"));
        let page =
            with("id = \"p-02\"\nlong = {date = 2026-01-02, command = \"c\", result = \"r\"}").unwrap();
        assert_eq!(page.rows[1].long.as_ref().unwrap().date.to_string(), "2026-01-02");
        assert!(
            with("id = \"p-03\"\nwaiting = \"w\"").unwrap_err().contains("followed by p-03; expected p-02")
        );
        assert!(parsed(FIRST).unwrap_err().contains("1 rows for 2 statements"));
    }

    #[test]
    fn a_row_without_commands_is_refused() {
        let with = |second: &str| parsed(&format!("{FIRST}[[row]]\nid = \"p-02\"\n{second}")).unwrap_err();
        assert!(with("says = \"s\"").contains("neither `run`"));
        assert!(with("says = \" \"\nwaiting = \"w\"").contains("`says` is empty"));
        assert!(with("says = \"s\"\n[[row.run]]\ncommand = \"c\"").contains("`c` has no expected result"));
        assert!(with("says = \"s\"\nmore = 1").contains("unknown field"));
    }
}
