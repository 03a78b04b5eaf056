//! Types that describe a page.

use crate::Source;

#[derive(Debug)]
pub struct Page {
    pub name: &'static str,
    pub title: &'static str,
    pub source: Source,
    pub about: &'static [&'static str],
    /// Measurements or promises, in the page's order.
    pub parts: &'static [Part],
    pub scenarios: &'static [&'static str],
}

#[derive(Debug)]
pub struct Part {
    pub title: &'static str,
    pub stands_for: &'static str,
    pub setup: &'static [(&'static str, &'static str)],
    /// Names in [`Published`](crate::Published).
    pub published: &'static [&'static str],
    pub notes: &'static [&'static str],
}
