//! Snapshots of a volume with an undo store: the live files, with its records in front.
//!
//! Reading live state and then looking for a record is safe, because a record is there before a change. So every read
//! looks for records again after it has read something live, and begins anew if there is one.

mod changes;
mod listing;
mod node;
mod pages;
mod read;
mod revert;
mod view;

use crate::node::mount::Mount;
use crate::undo::Undo;
use changes::RecordedChanges;
use node::SnapshotNode;
use rustix::fs::syncfs;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;
use vfs::{
    Backend, Blocking, Capabilities, ChangedRanges, FileKey, FsError, FsLimits, FsResult, FsStat, NodeRef,
    Pace, Progress, SnapshotUsage, Snapshots, Time, ViewId,
};
use view::SnapshotView;

/// A timer tick takes 10 ms at most.
const TICK: Duration = Duration::from_millis(1);
const TICKS_MAX: u32 = 20;

/// The snapshots of a volume with an undo store.
pub(crate) struct UndoSnapshots {
    mount: Arc<Mount>,
    limits: FsLimits,
    capabilities: Capabilities,
}

impl UndoSnapshots {
    /// `None` if the volume can have none.
    pub(crate) fn new(mount: &Arc<Mount>, limits: FsLimits, capabilities: Capabilities) -> Option<Self> {
        mount.can_have_undo().then(|| Self { mount: Arc::clone(mount), limits, capabilities })
    }

    /// Brings the files back to a snapshot. The volume must not be in use; after an error or a crash, this must be called
    /// again before it is.
    pub(crate) fn revert(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let undo = self.mount.undo().ok_or(FsError::NotFound)?;
        let opened = SnapshotView::open(&self.mount, undo, view, self.limits, self.capabilities)?;
        if pace(Progress::default()).is_break() {
            return Ok(false);
        }
        undo.begin_revert(view)?;
        if !revert::revert(&opened, pace)? {
            return Ok(false);
        }
        syncfs(&self.mount.root).map_err(crate::error::refused)?;
        undo.end_revert()?;
        Ok(true)
    }
}

impl Snapshots for UndoSnapshots {
    fn create(&self, view: ViewId) -> FsResult<()> {
        let undo = self.mount.make_undo()?.ok_or(FsError::NotSupported)?;
        create(&self.mount, undo, view)
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        Ok(self.mount.undo().map(|undo| undo.views()).unwrap_or_default())
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        let undo = self.mount.undo().ok_or(FsError::NotFound)?;
        let opened = SnapshotView::open(&self.mount, undo, view, self.limits, self.capabilities)?;
        Ok(Arc::new(OpenSnapshot(opened)))
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let Some(undo) = self.mount.undo() else { return Ok(true) };
        undo.mark_deleted(view)?;
        sweep(&self.mount, undo, pace)
    }

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        let undo = self.mount.undo().ok_or(FsError::NotFound)?;
        undo.find(view).ok_or(FsError::NotFound)?;
        Ok(SnapshotUsage { own_bytes: Some(undo.freed_by(view)?) })
    }

    fn changes(&self, from: ViewId, to: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        let undo = self.mount.undo().ok_or(FsError::NotFound)?;
        Ok(Some(Arc::new(RecordedChanges::new(undo, from, to)?)))
    }
}

/// The backend of a [`SnapshotView`]: nodes need its `Arc`.
struct OpenSnapshot(Arc<SnapshotView>);

impl Backend for OpenSnapshot {
    fn root(&self) -> NodeRef {
        SnapshotNode::node_ref(&self.0, self.0.mount.root_key)
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        let node = SnapshotNode::node_ref(&self.0, *key);
        // Also refuses keys of files that the snapshot does not have.
        node.attrs(blocking)?;
        Ok(node)
    }

    fn stat(&self) -> FsResult<FsStat> {
        crate::fs_type::file_system_stat(std::os::fd::AsFd::as_fd(&self.0.mount.root))
    }

    fn limits(&self) -> FsLimits {
        self.0.limits
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    fn sync(&self) -> FsResult<()> {
        Ok(())
    }

    fn flush_failures(&self) -> u64 {
        0
    }

    /// Data may be in the live file or in records.
    fn knows_memory(&self) -> bool {
        false
    }
}

/// Makes a snapshot of the present state of `mount`. It waits for the changes under way; changes of names wait for a
/// moment.
fn create(mount: &Mount, undo: &Undo, view: ViewId) -> FsResult<()> {
    // Most data is on disk before the label, so that the flush after it is short.
    syncfs(&mount.root).map_err(crate::error::refused)?;
    undo.begin(view)?;
    {
        // A change of names may have recorded nothing of a file that another change records now.
        let _stopped = mount.stop_changes();
        undo.publish(view);
    }
    wait_for_changes(mount);
    let born_until = undo.youngest(now(ClockId::Realtime));
    wait_until_past(born_until);
    let synced = syncfs(&mount.root).map_err(crate::error::refused);
    let done = synced.and_then(|()| undo.commit(view, born_until));
    if done.is_err() {
        undo.mark_deleted(view)?;
    }
    done
}

/// Waits for the changes that have read an earlier label: each holds the lock of a node, which was in the table before.
fn wait_for_changes(mount: &Mount) {
    mount.table.all().iter().for_each(|node| node.wait_for_change());
}

/// Releases what only deleted snapshots needed.
fn sweep(mount: &Mount, undo: &Undo, pace: &mut Pace<'_>) -> FsResult<bool> {
    // A change under way may still preserve something for a snapshot that was deleted just now.
    wait_for_changes(mount);
    let is_done = undo.sweep(mount.ledger(), pace)?;
    mount.limit.as_ref().map_or(Ok(()), |limit| limit.settle())?;
    if is_done {
        let _ends_anyway = pace(Progress { done: 1, total: Some(1) });
    }
    Ok(is_done)
}

fn now(clock: ClockId) -> Time {
    let now = clock_gettime(clock);
    Time { seconds: now.tv_sec, nanos: u32::try_from(now.tv_nsec).unwrap_or(0) }
}

/// Waits until files are born later than `born`: at least at the last timer tick, at most at the exact time. A clock that
/// was set back may not get there: files then count as older ones, which only takes space.
fn wait_until_past(born: Time) {
    for _ in 0..TICKS_MAX {
        if now(ClockId::RealtimeCoarse) > born {
            break;
        }
        std::thread::sleep(TICK);
    }
}
