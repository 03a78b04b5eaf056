//! The refusal: it names the allowed values and their source.

use crate::Source;
use crate::source::OWN;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The request, as in `anf/premium: a pool of 1.5 TiB`.
    pub what: String,
    /// The allowed values, as in `1 TiB to 2 PiB in steps of 1 TiB`.
    pub allowed: String,
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
        // Our own decisions have no page to cite.
        if self.source == OWN { Ok(()) } else { write!(f, " [{}]", self.source) }
    }
}

impl std::error::Error for Refusal {}
