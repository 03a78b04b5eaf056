//! A report as values, shared by all formats.

use super::facts::Fact;
use super::plot::Plot;
use super::table::Table;

/// The contents of a report about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The subject, in a line.
    pub title: String,
    /// Description of the measurement.
    pub about: String,
    /// Warnings shown at the top.
    pub stamps: Vec<String>,
    /// The results, a line a series.
    pub highlights: Vec<Fact>,
    /// Target, level, limits, machines.
    pub facts: Vec<Fact>,
    /// Caveats about the whole run.
    pub caveats: Vec<String>,
    /// Parameters that were reduced from those of the scenario.
    pub scaled: Vec<String>,
    /// Plots over all series.
    pub plots: Vec<Plot>,
    pub sections: Vec<Section>,
    /// The environment.
    pub details: Vec<Table>,
    /// The scenario as a file that can be run again.
    pub scenario: String,
    /// Every figure of every cell, one a row.
    pub cells: Table,
}

/// The results of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    pub title: String,
    /// The setup, and a summary of the results.
    pub facts: Vec<Fact>,
    /// Tables in the page's form.
    pub tables: Vec<Table>,
    /// Plots of the main part.
    pub plots: Vec<Plot>,
    /// Caveats about points.
    pub caveats: Vec<String>,
    /// The published figures with their sources.
    pub citations: Vec<String>,
    pub details: Vec<Table>,
    pub detail_plots: Vec<Plot>,
}
