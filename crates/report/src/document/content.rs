//! A report as values: what every format shows.

use super::facts::Fact;
use super::plot::Plot;
use super::table::Table;

/// What there is to show of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What was measured, in a line.
    pub title: String,
    /// What that is and how it is measured.
    pub about: String,
    /// What must not be overlooked.
    pub stamps: Vec<String>,
    /// What came out, a line a series.
    pub highlights: Vec<Fact>,
    /// Target, level, limits, machines.
    pub facts: Vec<Fact>,
    /// What makes the whole doubtful.
    pub doubts: Vec<String>,
    /// What was made smaller or shorter than the scenario says.
    pub scaled: Vec<String>,
    /// Over all series.
    pub plots: Vec<Plot>,
    /// Each series.
    pub sections: Vec<Section>,
    /// The environment.
    pub details: Vec<Table>,
    /// The scenario as a file that can be run again.
    pub scenario: String,
    /// Every figure of every cell, one a row.
    pub cells: Table,
}

/// A series.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its name.
    pub title: String,
    /// What ran, and what came out in short.
    pub facts: Vec<Fact>,
    /// In the page's form.
    pub tables: Vec<Table>,
    /// For everybody.
    pub plots: Vec<Plot>,
    /// What makes points doubtful.
    pub doubts: Vec<String>,
    /// What the published figures are, and whose.
    pub citations: Vec<String>,
    /// For whoever wants to know more.
    pub details: Vec<Table>,
    /// See `details`.
    pub more_plots: Vec<Plot>,
}
