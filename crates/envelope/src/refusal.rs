//! The answer no, with what would have been allowed and who says so.

use crate::Source;
use crate::source::OWN;

/// What was asked for is outside the documented range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was asked for, as in `anf/premium: a pool of 1.5 TiB`.
    pub what: String,
    /// What is allowed, as in `1 TiB to 2 PiB in steps of 1 TiB`.
    pub allowed: String,
    /// Who says so.
    pub source: Source,
}

impl Refusal {
    pub(crate) fn new(what: impl Into<String>, allowed: impl Into<String>, source: Source) -> Self {
        Self { what: what.into(), allowed: allowed.into(), source }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; allowed: {}", self.what, self.allowed)?;
        // What we decided ourselves has no page that could be looked up.
        if self.source == OWN { Ok(()) } else { write!(f, " [{}]", self.source) }
    }
}

impl std::error::Error for Refusal {}
