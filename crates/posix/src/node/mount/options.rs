//! Options of a store.

use crate::budget::ResourceBudget;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Options {
    pub budget: Arc<ResourceBudget>,
    /// Find files with an index of names even if the kernel can open them by handle.
    pub index: bool,
    /// Store owner, group and mode in an extended attribute even if the process may set the real ones.
    pub owner_attribute: bool,
    /// Makes snapshots by copies where the file system cannot share blocks. Each first change of a block after a snapshot
    /// then copies it and waits for a flush.
    pub copy_snapshots: bool,
}

impl Default for Options {
    /// A budget for this store alone, sized for the process.
    fn default() -> Self {
        Self {
            budget: ResourceBudget::of_process(),
            index: false,
            owner_attribute: false,
            copy_snapshots: false,
        }
    }
}
