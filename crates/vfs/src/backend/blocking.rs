//! Whether calls wait.

/// Whether a call may wait for storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// Answer from memory or say `crate::FsError::Wait(Wait::Storage)`; no side effect before that.
    Never,
    Allowed,
}
