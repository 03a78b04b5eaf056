//! Making and removing the storage of volumes.

use super::Backend;
pub use super::charge::Usage;
use super::snapshots::Pace;
use crate::error::{FsError, FsResult};
use crate::file_key::ViewId;
use crate::model::attrs::{FsStat, SetAttrs};
use crate::model::volume_id::VolumeId;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of storage in use, at most. The backend decides which contents count as in use, but a written block of 4
    /// KiB always does; [`super::charge`] has the charges of objects, names and attributes. The root directory of a new
    /// volume is free.
    pub bytes: u64,
    /// Files, directories and all other objects, with the root directory, at most. A file with several names is one.
    pub files: u64,
}

impl Capacity {
    /// Returns the capacity and free space that clients see of a volume with this size and this usage.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Mode bits (`0o7777`).
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl Root {
    pub fn as_set(&self) -> SetAttrs {
        let Self { mode, uid, gid } = *self;
        SetAttrs { mode: Some(mode), uid: Some(uid), gid: Some(gid), ..SetAttrs::default() }
    }
}

/// The progress of recounts that some volumes need after a crash before they can be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// Volumes that needed a recount since the process began.
    pub volumes: usize,
    pub counted: usize,
    /// Files counted so far.
    pub files: u64,
    pub failed: Vec<(VolumeId, FsError)>,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} volumes, {} files so far", self.counted, self.volumes, grouped(self.files))?;
        if self.failed.is_empty() { Ok(()) } else { write!(f, ", {} failed", self.failed.len()) }
    }
}

/// Formats a number with commas.
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

/// Space from the reserve for writes of the management, until drop.
pub type ReserveGuard = Option<Box<dyn Any + Send>>;

/// Storage in which volumes are made. Every verb can be repeated after a crash in its middle, with the same result.
pub trait Provisioner: Send + Sync {
    /// Makes the storage of a volume, durably. An existing volume keeps its files; root and capacity are updated.
    fn make(&self, id: VolumeId, root: &Root, capacity: Capacity) -> FsResult<()>;

    /// Opens the storage of a volume and enforces its capacity: a change that would exceed it fails whole with
    /// [`crate::FsError::NoSpace`]. [`crate::FsError::NotFound`] if the volume does not exist. It closes when the last
    /// reference to the backend or a node is dropped; until then, opening it again returns the same backend. After a
    /// crash its files may have to be counted. Reads work meanwhile; a change of names or sizes is
    /// `FsError::Wait(Wait::Recall)` ([`FsError::Io`] if they cannot be counted).
    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>>;

    /// Changes the capacity of an open or closed volume, durably. Existing files stay, even above the new capacity.
    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()>;

    /// Reserves bytes of an open volume for its snapshots, until it closes; nothing of a closed one. A change that would leave less for them and the
    /// snapshots together fails with [`crate::FsError::NoSpace`]. Bytes that snapshots hold are part of the reserve; what they
    /// hold beyond it is taken from the rest of the volume. Existing files stay, even in the reserve. [`FsError::NotSupported`]
    /// if the storage cannot tell them apart. A storage that does not count snapshots in the volume's capacity withholds the
    /// whole reserve from files.
    fn set_snapshot_reserve(&self, id: VolumeId, bytes: u64) -> FsResult<()>;

    fn set_root(&self, id: VolumeId, root: &Root) -> FsResult<()>;

    /// The usage of a volume, without a listing. For a volume that is closed after a crash: the last known usage.
    fn usage(&self, id: VolumeId) -> FsResult<Usage>;

    /// Releases the reserve for a full disk, if the disk is full, until the guard is dropped.
    fn lend_room(&self) -> ReserveGuard {
        None
    }

    fn counting(&self) -> Counting {
        Counting::default()
    }

    /// Removes a volume's storage and its snapshots: invisible immediately, its space released as fast as files can be deleted. Succeeds
    /// if the volume does not exist. Open files of the volume disappear.
    fn remove(&self, id: VolumeId) -> FsResult<()>;

    fn list(&self) -> FsResult<Vec<VolumeId>>;

    /// Replaces the live files of a volume with those of a snapshot, durably. File keys stay valid, change numbers rise,
    /// the capacity and all snapshots stay. [`FsError::Locked`] while the volume is open, [`FsError::NotFound`] without volume or snapshot.
    /// Calls `pace` before the first change and between steps, and returns false if that ended it: at the first call without a
    /// change; later, another revert goes on, and so does the next opening of the volume.
    fn revert(&self, _id: VolumeId, _view: ViewId, _pace: &mut Pace<'_>) -> FsResult<bool> {
        Err(FsError::NotSupported)
    }

    /// Makes a volume with the files of a snapshot of `source`, durably. The two share storage until one changes; each is
    /// charged for all its files. An existing volume keeps its files; root and capacity are updated.
    /// [`FsError::NotFound`] without source or snapshot. Calls `pace` between steps, and returns false if that ended it: then
    /// there is no volume, and [`Self::remove`] releases what was made.
    fn clone_volume(
        &self,
        _source: VolumeId,
        _view: ViewId,
        _id: VolumeId,
        _root: &Root,
        _capacity: Capacity,
        _pace: &mut Pace<'_>,
    ) -> FsResult<bool> {
        Err(FsError::NotSupported)
    }

    /// The bytes that the snapshots of a volume hold beside its live files; `None` if the storage does not know.
    fn snapshot_bytes(&self, _id: VolumeId) -> FsResult<Option<u64>> {
        Ok(None)
    }

    /// The capacity and the free space of the underlying storage, in bytes.
    fn room(&self) -> FsResult<FsStat>;
}
