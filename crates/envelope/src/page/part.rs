//! Types that describe a page.

use crate::Source;

/// A published page, restated.
#[derive(Debug)]
pub struct Page {
    /// Our name of the page.
    pub name: &'static str,
    /// The subject, in a line.
    pub title: &'static str,
    pub source: Source,
    /// Notes that apply to all its figures.
    pub about: &'static [&'static str],
    /// Measurements or promises, in the page's order.
    pub parts: &'static [Part],
    /// The scenarios that repeat its measurements.
    pub scenarios: &'static [&'static str],
}

/// Figures of a page that were measured in one setup, or promised together.
#[derive(Debug)]
pub struct Part {
    pub title: &'static str,
    /// The workloads that it represents, where the page names them.
    pub stands_for: &'static str,
    /// Setup of the measurement.
    pub setup: &'static [(&'static str, &'static str)],
    /// The figures, by the names in [`Published`](crate::Published).
    pub published: &'static [&'static str],
    /// Other notes of the page.
    pub notes: &'static [&'static str],
}
