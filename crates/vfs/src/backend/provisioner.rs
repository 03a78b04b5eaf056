//! Making and removing the storage of volumes.

use super::Backend;
use crate::error::{FsError, FsResult};
use crate::model::attrs::{FsStat, SetAttrs};
use crate::model::volume_id::VolumeId;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// How much a volume may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of storage in use, at most. Which contents count as in use is the backend's to say, but a block of 4 KiB that was
    /// written is in use; [`super::charge`] says what objects, names and attributes take. The root directory of a new volume takes
    /// nothing.
    pub bytes: u64,
    /// Files, directories and all other objects, with the root directory, at most. A file with several names is one.
    pub files: u64,
}

impl Capacity {
    /// What is told of a volume that may hold this and holds `usage`.
    pub fn stat(self, usage: Usage) -> FsStat {
        let bytes_free = self.bytes.saturating_sub(usage.bytes);
        let files_free = self.files.saturating_sub(usage.files);
        FsStat {
            bytes_total: self.bytes,
            bytes_free,
            bytes_available: bytes_free,
            files_total: self.files,
            files_free,
            files_available: files_free,
        }
    }
}

/// How much a volume holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of storage in use.
    pub bytes: u64,
    /// Files, directories and all other objects, with the root directory.
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

impl Root {
    /// The attributes to set of the directory.
    pub fn as_set(&self) -> SetAttrs {
        let Self { mode, uid, gid } = *self;
        SetAttrs { mode: Some(mode), uid: Some(uid), gid: Some(gid), ..SetAttrs::default() }
    }
}

/// How far the counts are that some volumes need after a crash before they can be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// Volumes that had to be counted since the process began: none if all are counted.
    pub volumes: usize,
    /// Those that are counted.
    pub counted: usize,
    /// Files looked at so far.
    pub files: u64,
    /// Those that could not be counted, and why.
    pub failed: Vec<(VolumeId, FsError)>,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} volumes, {} files so far", self.counted, self.volumes, grouped(self.files))?;
        if self.failed.is_empty() { Ok(()) } else { write!(f, ", {} failed", self.failed.len()) }
    }
}

/// A number with a comma after each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Room that is lent to whoever writes what management must, until it is dropped.
pub type ReserveGuard = Option<Box<dyn Any + Send>>;

/// Storage in which volumes are made. Every verb can be repeated after a crash in its middle, with the same result.
pub trait Provisioner: Send + Sync {
    /// Makes the storage of a volume, durably. One that is there already keeps its files and gets root and capacity.
    fn make(&self, id: VolumeId, root: &Root, capacity: Capacity) -> FsResult<()>;

    /// The storage of a volume, which keeps to its capacity from now on: a change that would take more is refused with
    /// [`crate::FsError::NoSpace`] and done not even in part. [`crate::FsError::NotFound`] if there is none.
    /// It is closed when nobody holds the backend or a node of it any more; as long as it is open, opening it again
    /// yields the same. After a crash its files may have to be counted: it can be read meanwhile, and a change of names or
    /// sizes is [`FsError::Wait(Wait::Recall)`] ([`FsError::Io`] if they cannot be counted).
    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>>;

    /// Changes what an open or closed volume may hold, durably. What is already there stays, even if it is more.
    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()>;

    /// Changes mode and owner of a volume's root directory.
    fn set_root(&self, id: VolumeId, root: &Root) -> FsResult<()>;

    /// What a volume holds, without listing it. Of a volume that is closed after a crash: what was last known.
    fn usage(&self, id: VolumeId) -> FsResult<Usage>;

    /// Gives up what is kept aside for a full disk, if it is full, until the answer is dropped.
    fn lend_room(&self) -> ReserveGuard {
        None
    }

    /// How far the counts of open volumes are.
    fn counting(&self) -> Counting {
        Counting::default()
    }

    /// Removes a volume's storage: at once out of sight, its space given back as fast as files can be deleted. Nothing
    /// happens if there is none. Whoever still has it open sees its files go.
    fn remove(&self, id: VolumeId) -> FsResult<()>;

    /// The volumes that have storage here.
    fn list(&self) -> FsResult<Vec<VolumeId>>;

    /// Bytes that the storage underneath has in all, and how many of them are free.
    fn room(&self) -> FsResult<FsStat>;
}
