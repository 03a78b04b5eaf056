//! How a store is opened.

use crate::budget::ResourceBudget;
use std::sync::Arc;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it shares with other stores of the process.
    pub budget: Arc<ResourceBudget>,
    /// Find files by an index of names even if the kernel would open them by handle.
    pub index: bool,
    /// Keep owner, group and mode in an extended attribute even if the process may set the real ones.
    pub owner_attribute: bool,
}

impl Default for Options {
    /// Shares with nobody, and takes what the process has.
    fn default() -> Self {
        Self { budget: ResourceBudget::of_process(), index: false, owner_attribute: false }
    }
}
