//! The position in a directory's listing.

use crate::metadata::names::Pattern;

#[derive(Default)]
pub(crate) struct DirectoryCursor {
    /// None before the first request.
    pub(crate) filter: Option<NameFilter>,
    pub(crate) cookie: u64,
    pub(crate) at_end: bool,
}

/// The names that a client lists.
#[derive(Clone)]
pub(crate) enum NameFilter {
    /// One name, in any case.
    Name(Vec<u8>),
    Pattern(Pattern),
}
