//! A report as values, shared by all formats.

use super::facts::Fact;
use super::plot::Plot;
use super::table::Table;

#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub title: String,
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

#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    pub title: String,
    pub facts: Vec<Fact>,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    pub caveats: Vec<String>,
    pub citations: Vec<String>,
    pub details: Vec<Table>,
    pub detail_plots: Vec<Plot>,
}
