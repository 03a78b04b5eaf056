//! The projects of a volume that the kernel counts (XFS with project quotas): its files, and the records of its undo
//! store.

use super::tree::{entries, reopen};
use super::{Volumes, name};
use crate::capacity::kernel::KernelCounts;
use crate::capacity::project::{Project, number_at};
use crate::error::refused;
use crate::undo::RECORDS;
use rustix::fs::{Mode, OFlags, openat, syncfs};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use vfs::{Capacity, FsResult, Usage, VolumeId};

pub(super) struct Projects {
    pub(super) live: Project,
    records: Records,
}

/// The records of an undo store, which may not exist yet.
struct Records {
    stores: OwnedFd,
    name: String,
    project: OnceLock<Project>,
}

impl Volumes {
    /// The projects of the volume with the root `dir`; `None` if this process counts it. It also does if the undo store was
    /// made while it did: a record stays in its project.
    pub(super) fn projects(&self, id: VolumeId, dir: OwnedFd) -> FsResult<Option<Projects>> {
        let Some(live) = Project::of(dir) else { return Ok(None) };
        let stores = reopen(&self.snapshots).map_err(refused)?;
        let records = Records { stores, name: name(id), project: OnceLock::new() };
        Ok(records.are_counted()?.then_some(Projects { live, records }))
    }
}

impl Records {
    fn dir(&self) -> FsResult<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.stores, format!("{}/{RECORDS}", self.name), flags, Mode::empty()) {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// Whether the kernel counts all that exist.
    fn are_counted(&self) -> FsResult<bool> {
        let Some(dir) = self.dir()? else { return Ok(true) };
        Ok(number_at(dir.as_fd()).is_some() || entries(&dir)?.is_empty())
    }

    fn project(&self) -> FsResult<Option<&Project>> {
        if self.project.get().is_none()
            && let Some(project) = self.dir()?.and_then(Project::of)
        {
            // Another thread may be first, with the same.
            let _first = self.project.set(project);
        }
        Ok(self.project.get())
    }
}

impl KernelCounts for Projects {
    fn live(&self) -> FsResult<Usage> {
        self.live.usage()
    }

    fn held(&self) -> FsResult<u64> {
        let usage = self.records.project()?.map(Project::usage).transpose()?;
        Ok(usage.map_or(0, |usage| usage.bytes))
    }

    fn has_records(&self) -> bool {
        matches!(self.records.project(), Ok(Some(_)))
    }

    fn limit(&self, capacity: Capacity) -> FsResult<()> {
        self.live.set_capacity(capacity)
    }

    fn free_ready(&self) {
        // The kernel does the same when a write of a file finds no space.
        let _synced = syncfs(&self.records.stores);
        self.live.free_preallocated();
    }
}
