//! How far a directory was listed.

use crate::metadata::names::Pattern;

/// How far a directory was listed through an open.
#[derive(Default)]
pub(crate) struct DirectoryCursor {
    /// What the client looks for; nothing before the first request.
    pub(crate) filter: Option<NameFilter>,
    pub(crate) cookie: u64,
    pub(crate) at_end: bool,
}

/// Which names a client looks for.
#[derive(Clone)]
pub(crate) enum NameFilter {
    /// This one, in whatever case.
    Name(Vec<u8>),
    Pattern(Pattern),
}
