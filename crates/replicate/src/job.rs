//! The source of a backup, and the means that a caller gives it.

use crate::format::names::BackupId;
use std::ops::ControlFlow;
use std::path::Path;
use vfs::{Backend, ChangedRanges, Time};

/// The source of a backup: files that do not change meanwhile.
pub struct Source<'a> {
    pub backend: &'a dyn Backend,
    /// The volume's name, for lists.
    pub volume: &'a str,
    /// The snapshot's name. A backup that was interrupted goes on from the same one only.
    pub snapshot: &'a str,
    /// The time of the snapshot, by the clock that stamps its files.
    pub taken: Time,
    /// The last backup of the same volume.
    pub previous: Option<BackupId>,
    /// The changes since the snapshot of the last backup, if they are known.
    pub changes: Option<&'a dyn ChangedRanges>,
    pub locked_until: Option<Time>,
}

/// The means that a caller gives a backup.
pub struct Job<'a> {
    /// A directory for temporary files: about a hundred bytes for each file of the source.
    pub scratch: &'a Path,
    pub random: &'a mut dyn FnMut(&mut [u8]),
    pub now: &'a dyn Fn() -> Time,
    /// Called with the size of each piece before it is sent; waits as long as a limit of the bandwidth demands. `Break`
    /// stops the backup.
    pub pace: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    /// Called often. `Break` stops the backup with [`Error::Stopped`]; a later call goes on.
    pub progress: &'a mut dyn FnMut(&Progress) -> ControlFlow<()>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub files_done: u64,
    /// `None` while files are counted.
    pub files_total: Option<u64>,
    pub bytes_done: u64,
    pub bytes_total: Option<u64>,
    /// Bytes read from the source, because they may have changed.
    pub bytes_read: u64,
    pub bytes_sent: u64,
    /// Bytes of the source in a pack that is not sent yet. `bytes_done` contains them once their file is done.
    pub bytes_waiting: u64,
}

impl Progress {
    /// Bytes of files that are not done yet; `None` while files are counted.
    pub fn bytes_left(&self) -> Option<u64> {
        self.bytes_total.map(|total| total.saturating_sub(self.bytes_done))
    }
}
