//! The count of the files of a volume after a crash.
//!
//! Changes wait for it only if the volume counts by owner, or if the crash left no bound of its usage.

use super::{RECONNECT_PAUSE, ROOT};
use crate::error::refused;
use crate::ffi::Inode;
use crate::node::live_count::LiveCount;
use crate::node::tree::Tree;
use crate::snapshot::held::HELD;
use crate::space::{Limit, Space};
use crate::walk;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use storage::{Tally, Walk};
use vfs::sync::Mutex;
use vfs::{FsError, FsResult, Usage, VolumeId};

/// The trees through which clients change a volume, and its count. There are two while files of a closed volume are in use
/// and it was opened again.
#[derive(Default)]
struct OpenTrees {
    trees: Vec<Weak<Tree>>,
    count: Option<Arc<LiveCount>>,
}

/// The open volumes.
#[derive(Default)]
pub(super) struct TreeList(Mutex<HashMap<VolumeId, OpenTrees>>);

impl TreeList {
    pub(super) fn add(&self, id: VolumeId, tree: &Arc<Tree>) {
        let mut volumes = self.0.lock();
        volumes.retain(|_, open| open.trees.iter().any(|tree| tree.strong_count() > 0));
        let open = volumes.entry(id).or_default();
        open.trees.retain(|tree| tree.strong_count() > 0);
        open.trees.push(Arc::downgrade(tree));
        tree.set_count(open.count.clone());
    }

    /// Begins a count of the files as they are now, and returns the trees.
    fn begin(&self, id: VolumeId, limit: &Weak<Limit>, count: &Arc<LiveCount>) -> FsResult<Vec<Weak<Tree>>> {
        let mut volumes = self.0.lock();
        let open = volumes.entry(id).or_default();
        let trees: Vec<_> = open.trees.iter().filter_map(Weak::upgrade).collect();
        let closed: Vec<_> = trees.iter().map(|tree| tree.gate.close()).collect();
        open.count = Some(Arc::clone(count));
        let begun = trees.iter().try_for_each(|tree| tree.begin_count(count));
        let limit = limit.upgrade().ok_or(FsError::Stale);
        let begun = begun.and(limit.map(|limit| limit.ledger.begin_count()));
        drop(closed);
        begun.map(|()| open.trees.clone())
    }

    fn end(&self, id: VolumeId) {
        if let Some(open) = self.0.lock().get_mut(&id) {
            open.count = None;
            open.trees.iter().filter_map(Weak::upgrade).for_each(|tree| tree.set_count(None));
        }
    }
}

pub(super) struct VolumeWalk {
    pub(super) trees: Arc<TreeList>,
}

impl Walk<Space> for VolumeWalk {
    fn count(
        &self,
        id: VolumeId,
        limit: &Weak<Limit>,
        mut tally: Option<&mut Tally>,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> FsResult<(Usage, u64)> {
        loop {
            match self.count_once(id, limit, tally.as_deref_mut(), go_on) {
                // The session with the cluster ended.
                Err(FsError::Wait(_)) if go_on(0, 0) => std::thread::sleep(RECONNECT_PAUSE),
                counted => return Ok((counted?, 0)),
            }
        }
    }

    fn end(&self, id: VolumeId) {
        self.trees.end(id);
    }
}

impl VolumeWalk {
    fn count_once(
        &self,
        id: VolumeId,
        limit: &Weak<Limit>,
        tally: Option<&mut Tally>,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> FsResult<Usage> {
        let (dir, changes) = {
            let limit = limit.upgrade().ok_or(FsError::Stale)?;
            if tally.is_none() {
                limit.ledger.serve_while_counting();
            }
            (limit.dir.inode()?, limit.ledger.is_bounded())
        };
        let (root, _) = dir.lookup(ROOT).map_err(refused)?;
        let root = Arc::new(root);
        if !changes {
            return walk::count(root, held_dir(&dir)?, tally, go_on);
        }
        let count = Arc::new(LiveCount::new(Arc::clone(&root), held_dir(&dir)?)?);
        let trees = self.trees.begin(id, limit, &count)?;
        let usage = walk::count_live(&count, &trees, go_on)?;
        if tally.is_some() {
            // Quotas began meanwhile. The walk did not see the owners of the files that changes counted.
            walk::count(root, held_dir(&dir)?, tally, go_on)?;
        }
        Ok(usage)
    }
}

/// The directory of files that a revert has taken out of a volume.
fn held_dir(volume: &Inode) -> FsResult<Option<Inode>> {
    match volume.lookup(HELD) {
        Ok((held, _)) => Ok(Some(held)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(refused(errno)),
    }
}
