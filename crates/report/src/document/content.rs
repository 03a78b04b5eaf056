//! A report as values, shared by all formats.

use super::facts::Fact;
use super::plot::Plot;
use super::table::Table;
use crate::result::Outcome;

#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub title: String,
    /// The name of the run among several; empty for one alone.
    pub name: String,
    pub lead: Lead,
    /// One line for each point with targets.
    pub verdict: Option<Judged>,
    pub about: String,
    /// Shown at the top.
    pub stamps: Vec<String>,
    /// One line for each series.
    pub highlights: Vec<Fact>,
    /// Target, level, limits, machines.
    pub facts: Vec<Fact>,
    pub caveats: Vec<String>,
    /// Parameters reduced from those of the scenario.
    pub scaled: Vec<String>,
    pub plots: Vec<Plot>,
    pub sections: Vec<Section>,
    pub details: Vec<Table>,
    /// A file that you can run again.
    pub scenario: String,
    /// Every figure of every cell, one cell in each row.
    pub cells: Table,
}

impl Report {
    /// The title, with the name of the run among several.
    pub fn heading(&self) -> String {
        match self.name.as_str() {
            "" => self.title.clone(),
            name => format!("{name}: {}", self.title),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub outcome: Outcome,
    /// The overall verdict.
    pub summary: String,
    pub points: Vec<String>,
}

/// The answer in short: the series that came closest to a limit, or the first one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lead {
    pub result: String,
    /// The limit that was reached, or the reason why none is known.
    pub limit: String,
    pub plot: Option<Plot>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    pub title: String,
    /// One line. May be empty.
    pub result: String,
    pub facts: Vec<Fact>,
    pub tables: Vec<Table>,
    /// The plot of rates is the first one.
    pub plots: Vec<Plot>,
    pub caveats: Vec<String>,
    pub citations: Vec<String>,
    pub details: Vec<Table>,
    pub detail_plots: Vec<Plot>,
}
