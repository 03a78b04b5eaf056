//! The walk over the files of a volume after a crash.

use super::name;
use super::tree::{self, OwnerTally, reopen};
use crate::capacity::limit::{Limit, Space};
use crate::error::refused;
use crate::sys;
use crate::undo;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Weak;
use storage::{Tally, Walk};
use vfs::{FsError, FsResult, Usage, VolumeId};

pub(super) struct VolumeWalk {
    /// The directory of the undo stores, which are counted, too.
    pub(super) undo_stores: OwnedFd,
    /// Whether the owners are in an extended attribute.
    pub(super) has_owner_attribute: bool,
}

impl Walk<Space> for VolumeWalk {
    fn count(
        &self,
        id: VolumeId,
        limit: &Weak<Limit>,
        tally: Option<&mut Tally>,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> FsResult<(Usage, u64)> {
        let limit = limit.upgrade().ok_or(FsError::Stale)?;
        let root = reopen(limit.root()).map_err(refused)?;
        // The walk must not keep a closed volume from being saved.
        drop(limit);
        let tally = tally.map(|of| OwnerTally { of, has_attribute: self.has_owner_attribute });
        let mut progress = |new, files| if go_on(new, files) { Ok(()) } else { Err(Errno::CANCELED) };
        let usage = tree::count(root, sys::own_working_dir(), tally, &mut progress).map_err(refused)?;
        Ok((usage, undo::count(self.undo_stores.as_fd(), &name(id))?))
    }
}
