//! Snapshots as a capability of a backend: read-only states of a whole volume.

use super::Backend;
use crate::error::FsResult;
use crate::file_key::{FileKey, ViewId};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The space of a snapshot, in bytes. `None`: the storage does not know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotUsage {
    /// Bytes that deleting this snapshot alone would free.
    pub own_bytes: Option<u64>,
}

/// The progress of a long operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    /// `None`: unknown.
    pub total: Option<u64>,
}

/// Called between the steps of a long operation. `Break` ends it early; a later call goes on.
pub type Pace<'p> = dyn FnMut(Progress) -> ControlFlow<()> + 'p;

/// The [`Pace`] of a caller that waits for the end.
pub fn unpaced(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The data that changed between two snapshots, where the storage knows it.
pub trait ChangedRanges: Send + Sync {
    /// Whether a range of a file that both snapshots have may have other data in the later one. True if it is not known, as
    /// after a snapshot was deleted.
    fn may_differ(&self, key: &FileKey, range: Range<u64>) -> bool;
}

/// The snapshots of a volume, each under a number that the caller chooses: above those of all earlier ones, at most
/// [`ViewId::MAX`].
pub trait Snapshots: Send + Sync {
    /// Makes a snapshot of the present state, durably. It has every change that was acknowledged before this call; a
    /// change under way is in it whole or not at all. [`crate::FsError::Exists`] if the number is in use,
    /// [`crate::FsError::Invalid`] if it cannot be the next. After an error or a crash, the snapshot exists whole or not at all.
    fn create(&self, view: ViewId) -> FsResult<()>;

    /// The numbers of the complete snapshots, in ascending order.
    fn list(&self) -> FsResult<Vec<ViewId>>;

    /// Opens the files of a snapshot; [`crate::FsError::NotFound`] if it does not exist. Its keys and file numbers are
    /// those of the live files, without the view. Callers change nothing in it.
    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>>;

    /// Deletes a snapshot. From the first step on it cannot be opened, and its open files may be
    /// [`crate::FsError::Stale`]. Returns whether it is gone; false if `pace` ended it early. Succeeds if it does not
    /// exist.
    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool>;

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage>;

    /// The changes from a snapshot to a later one; `None` if the storage does not know it.
    /// [`crate::FsError::NotFound`] if one of them does not exist.
    fn changes(&self, from: ViewId, to: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>>;
}
