//! Progress of the files that a load needs.

use serde::{Deserialize, Serialize};

/// The files that are made or checked before a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutProgress {
    /// The share done.
    pub done: f64,
    /// Whole files, of `files`.
    #[serde(default)]
    pub whole: u64,
    /// 0 if files are not counted.
    #[serde(default)]
    pub files: u64,
    /// Bytes written; 0 as long as files of earlier runs are checked.
    #[serde(default)]
    pub written: u64,
}

impl LayoutProgress {
    /// Without a count of files.
    pub(crate) fn share(done: f64) -> Self {
        Self { done, ..Self::default() }
    }
}
