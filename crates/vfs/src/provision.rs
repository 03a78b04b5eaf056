//! Making and removing the storage of volumes.

use crate::{Backend, FsResult, VolumeId};
use std::sync::Arc;

/// How much a volume may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of storage in use, at most.
    pub bytes: u64,
    /// Files, directories and all other objects, at most.
    pub files: u64,
}

/// How much a volume holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of storage in use.
    pub bytes: u64,
    /// Files, directories and all other objects.
    pub files: u64,
}

/// What the root directory of a new volume is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Mode bits (`0o7777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Storage in which volumes are made. Every verb can be repeated after a crash in its middle, with the same result.
pub trait Provisioner: Send + Sync {
    /// Makes the storage of a volume, durably. One that is there already keeps its files and gets root and capacity.
    fn make(&self, id: VolumeId, root: &Root, capacity: Capacity) -> FsResult<()>;

    /// The storage of a volume, which keeps to its capacity from now on: a change that would take more gets
    /// [`crate::FsError::NoSpace`] or [`crate::FsError::Quota`]. [`crate::FsError::NotFound`] if there is none.
    /// At most one is open at a time.
    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>>;

    /// Changes what an open or closed volume may hold. What is already there stays, even if it is more.
    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()>;

    /// Changes mode and owner of a volume's root directory.
    fn set_root(&self, id: VolumeId, root: &Root) -> FsResult<()>;

    /// What a volume holds, without listing it.
    fn usage(&self, id: VolumeId) -> FsResult<Usage>;

    /// Removes a volume's storage: at once out of sight, its space given back as fast as files can be deleted. Nothing
    /// happens if there is none.
    fn remove(&self, id: VolumeId) -> FsResult<()>;

    /// The volumes that have storage here.
    fn list(&self) -> FsResult<Vec<VolumeId>>;

    /// Bytes that the storage underneath has in all, and how many of them are free.
    fn room(&self) -> FsResult<crate::FsStat>;
}
