//! A storage whose clients see one of its snapshots in place of the live files, read-only.
//!
//! This is the destination of a replication: its live files change during a transfer, and the snapshot of the last complete
//! one is what clients see, under the keys of the live files. So handles stay valid from point to point, and files that
//! are open show the next point as soon as it is there.

use super::frozen::{ReadOnlyNode, ReadOnlyView, seen_lookup};
use crate::backend::capabilities::Capabilities;
use crate::backend::snapshots::{ChangedRanges, Pace, SnapshotUsage, Snapshots};
use crate::backend::{Backend, Blocking, Lookup, NodeRef};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::{FileKey, ViewId};
use crate::model::attrs::{FsLimits, FsStat};
use crate::sync::Mutex;
use arc_swap::ArcSwapOption;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shows a snapshot of a storage. The snapshots of the storage are those of this one.
pub struct PointBackend {
    /// `None` once it is closed.
    storage: Mutex<Option<Arc<dyn Backend>>>,
    root: FileKey,
    limits: FsLimits,
    capabilities: Capabilities,
    has_snapshots: bool,
    shown: Arc<Shown>,
}

/// The point that clients see.
#[derive(Default)]
struct Shown {
    point: ArcSwapOption<Point>,
    is_closed: AtomicBool,
}

struct Point {
    view: ViewId,
    files: Arc<dyn Backend>,
}

impl Shown {
    /// The answer where there is no point. Once the storage is closed, clients wait: the volume is about to be opened again,
    /// and an event loop may still have this opening of it.
    fn refusal(&self) -> FsError {
        match self.is_closed.load(Ordering::Acquire) {
            true => FsError::Wait(Wait::Recall),
            false => FsError::Stale,
        }
    }
}

impl PointBackend {
    /// Shows no files until [`PointBackend::show`].
    pub fn new(storage: Arc<dyn Backend>) -> Self {
        Self {
            root: storage.root().key(),
            limits: storage.limits(),
            capabilities: storage.capabilities(),
            has_snapshots: storage.snapshots().is_some(),
            storage: Mutex::new(Some(storage)),
            shown: Arc::default(),
        }
    }

    /// Shows another snapshot from now on. Files that it does not have are [`FsError::Stale`].
    /// [`FsError::NotFound`] if there is no such snapshot.
    pub fn show(&self, view: ViewId) -> FsResult<()> {
        let files = self.of_snapshots(|snapshots| snapshots.open(view))?;
        self.shown.point.store(Some(Arc::new(Point { view, files })));
        Ok(())
    }

    /// The snapshot that clients see.
    pub fn view(&self) -> Option<ViewId> {
        self.shown.point.load().as_ref().map(|point| point.view)
    }

    /// Releases the storage even if clients have files of it open: all that they ask has to wait from now on
    /// ([`Wait::Recall`]), until they find another opening of the volume.
    pub fn close(&self) {
        self.shown.is_closed.store(true, Ordering::Release);
        self.shown.point.store(None);
        *self.storage.lock() = None;
    }

    fn storage(&self) -> FsResult<Arc<dyn Backend>> {
        self.storage.lock().clone().ok_or_else(|| self.shown.refusal())
    }

    fn of_snapshots<T>(&self, ask: impl FnOnce(&dyn Snapshots) -> FsResult<T>) -> FsResult<T> {
        ask(self.storage()?.snapshots().ok_or(FsError::NotSupported)?)
    }
}

impl Backend for PointBackend {
    fn root(&self) -> NodeRef {
        let seen = ArcSwapOption::empty();
        Arc::new(ReadOnlyNode(PointView { shown: Arc::clone(&self.shown), key: self.root, seen }))
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        let point = self.shown.point.load_full().ok_or_else(|| self.shown.refusal())?;
        let inner = point.files.node(key, blocking)?;
        Ok(PointView::node_ref(&self.shown, &point, inner))
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.storage()?.stat()
    }

    fn limits(&self) -> FsLimits {
        self.limits
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn sync(&self) -> FsResult<()> {
        Ok(())
    }

    fn flush_failures(&self) -> u64 {
        0
    }

    /// A file that is not in this point may be in the next.
    fn is_removed(&self, _: &FileKey) -> bool {
        false
    }

    fn knows_memory(&self) -> bool {
        self.storage().is_ok_and(|storage| storage.knows_memory())
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn has_files(&self) -> bool {
        self.shown.point.load().is_some()
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.has_snapshots.then_some(self)
    }
}

impl Snapshots for PointBackend {
    fn create(&self, view: ViewId) -> FsResult<()> {
        self.of_snapshots(|snapshots| snapshots.create(view))
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        self.of_snapshots(|snapshots| snapshots.list())
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        self.of_snapshots(|snapshots| snapshots.open(view))
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        self.of_snapshots(|snapshots| snapshots.delete(view, pace))
    }

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        self.of_snapshots(|snapshots| snapshots.usage(view))
    }

    fn changes(&self, from: ViewId, to: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        self.of_snapshots(|snapshots| snapshots.changes(from, to))
    }
}

struct PointView {
    shown: Arc<Shown>,
    key: FileKey,
    /// The node in the point that was last seen.
    seen: ArcSwapOption<Seen>,
}

struct Seen {
    view: ViewId,
    node: NodeRef,
}

/// A node for as long as it is in use.
struct Owned(NodeRef);

impl Deref for Owned {
    type Target = NodeRef;

    fn deref(&self) -> &NodeRef {
        &self.0
    }
}

impl PointView {
    fn node_ref(shown: &Arc<Shown>, point: &Point, inner: NodeRef) -> NodeRef {
        let key = inner.key().in_view(ViewId::LIVE);
        let seen = ArcSwapOption::from_pointee(Seen { view: point.view, node: inner });
        Arc::new(ReadOnlyNode(Self { shown: Arc::clone(shown), key, seen }))
    }
}

impl ReadOnlyView for PointView {
    type Inner<'v> = Owned;

    /// The file in the present point, found once a point.
    fn inner(&self) -> FsResult<Owned> {
        let point = self.shown.point.load();
        let point = point.as_ref().ok_or_else(|| self.shown.refusal())?;
        if let Some(seen) = self.seen.load().as_ref().filter(|seen| seen.view == point.view) {
            return Ok(Owned(NodeRef::clone(&seen.node)));
        }
        let node = point.files.node(&self.key, Blocking::Allowed)?;
        self.seen.store(Some(Arc::new(Seen { view: point.view, node: NodeRef::clone(&node) })));
        Ok(Owned(node))
    }

    fn any(&self) -> Option<Owned> {
        self.inner().ok().or_else(|| self.seen.load().as_ref().map(|seen| Owned(NodeRef::clone(&seen.node))))
    }

    fn key(&self) -> FileKey {
        self.key
    }

    fn view(&self) -> ViewId {
        ViewId::LIVE
    }

    fn beside(&self, inner: NodeRef) -> NodeRef {
        match self.shown.point.load().as_ref() {
            Some(point) => Self::node_ref(&self.shown, point, inner),
            None => inner,
        }
    }

    fn parent(&self) -> FsResult<Lookup> {
        Ok(seen_lookup(self, self.inner()?.parent()?))
    }

    /// A file that is open does not outlive its point.
    fn pin(&self) {}

    fn unpin(&self) {}
}
