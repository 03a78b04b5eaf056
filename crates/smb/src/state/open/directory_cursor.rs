//! How far a directory was listed.

use crate::metadata::names::Pattern;

/// How far a directory was listed through an open.
#[derive(Default)]
pub(crate) struct Scan {
    /// What the client looks for; nothing before the first request.
    pub(crate) pattern: Option<Wanted>,
    pub(crate) cookie: u64,
    pub(crate) is_over: bool,
}

/// Which names a client looks for.
#[derive(Clone)]
pub(crate) enum Wanted {
    /// This one, in whatever case.
    Name(Vec<u8>),
    Pattern(Pattern),
}
