//! What there is to say of a page.

use crate::Source;

/// A published page, restated.
#[derive(Debug)]
pub struct Page {
    /// Its name here.
    pub name: &'static str,
    /// What it is about, in a line.
    pub title: &'static str,
    /// Where it is.
    pub source: Source,
    /// What holds of all its figures.
    pub about: &'static [&'static str],
    /// What it measured or promises, in its order.
    pub parts: &'static [Part],
    /// The scenarios that measure what it measured.
    pub scenarios: &'static [&'static str],
}

/// Figures of a page that were measured in one setup, or promised together.
#[derive(Debug)]
pub struct Part {
    /// What it is.
    pub title: &'static str,
    /// What loads it stands for, where the page says.
    pub stands_for: &'static str,
    /// How it was measured.
    pub setup: &'static [(&'static str, &'static str)],
    /// Its figures, by the names of what is [published](crate::Published).
    pub published: &'static [&'static str],
    /// What the page says besides.
    pub notes: &'static [&'static str],
}
