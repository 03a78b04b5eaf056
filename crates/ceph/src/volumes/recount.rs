//! The walk over the files of a volume after a crash.

use super::{RECONNECT_PAUSE, ROOT};
use crate::error::refused;
use crate::space::{Limit, Space};
use crate::walk;
use std::sync::{Arc, Weak};
use storage::{Tally, Walk};
use vfs::{FsError, FsResult, Usage, VolumeId};

pub(super) struct VolumeWalk;

impl Walk<Space> for VolumeWalk {
    fn count(
        &self,
        _: VolumeId,
        limit: &Weak<Limit>,
        mut tally: Option<&mut Tally>,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> FsResult<(Usage, u64)> {
        loop {
            let dir = limit.upgrade().ok_or(FsError::Stale)?.dir.inode();
            let root = dir.and_then(|dir| Ok(dir.lookup(ROOT).map_err(refused)?.0));
            match root.and_then(|root| walk::count(Arc::new(root), tally.as_deref_mut(), go_on)) {
                // The session with the cluster ended.
                Err(FsError::Wait(_)) if go_on(0, 0) => std::thread::sleep(RECONNECT_PAUSE),
                counted => return Ok((counted?, 0)),
            }
        }
    }
}
