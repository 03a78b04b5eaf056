//! A storage whose clients see one of its snapshots in place of the live files, read-only.
//!
//! This is the destination of a replication: its live files change during a transfer, and the snapshot of the last complete
//! one is what clients see, under the keys of the live files. So handles stay valid from point to point, and files that
//! are open show the next point as soon as it is there.

use super::frozen::{ReadOnlyNode, ReadOnlyView, seen_lookup};
use crate::backend::capabilities::Capabilities;
use crate::backend::snapshots::Snapshots;
use crate::backend::{Backend, Blocking, Lookup, NodeRef};
use crate::error::{FsError, FsResult};
use crate::file_key::{FileKey, ViewId};
use crate::model::attrs::{FsLimits, FsStat};
use arc_swap::ArcSwap;
use std::ops::Deref;
use std::sync::Arc;

/// Shows a snapshot of a storage. The snapshots of the storage are those of this one.
pub struct PointBackend {
    storage: Arc<dyn Backend>,
    point: SharedPoint,
}

type SharedPoint = Arc<ArcSwap<Point>>;

struct Point {
    view: ViewId,
    files: Arc<dyn Backend>,
}

impl PointBackend {
    /// [`FsError::NotFound`] if there is no such snapshot.
    pub fn new(storage: Arc<dyn Backend>, view: ViewId) -> FsResult<Self> {
        let point = Arc::new(ArcSwap::new(open(&*storage, view)?));
        Ok(Self { storage, point })
    }

    /// Shows another snapshot from now on. Files that it does not have are [`FsError::Stale`].
    pub fn show(&self, view: ViewId) -> FsResult<()> {
        self.point.store(open(&*self.storage, view)?);
        Ok(())
    }

    /// The snapshot that clients see.
    pub fn view(&self) -> ViewId {
        self.point.load().view
    }
}

fn open(storage: &dyn Backend, view: ViewId) -> FsResult<Arc<Point>> {
    let files = storage.snapshots().ok_or(FsError::NotSupported)?.open(view)?;
    Ok(Arc::new(Point { view, files }))
}

impl Backend for PointBackend {
    fn root(&self) -> NodeRef {
        let point = self.point.load_full();
        PointView::node_ref(&self.point, &point, point.files.root())
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        let point = self.point.load_full();
        let inner = point.files.node(key, blocking)?;
        Ok(PointView::node_ref(&self.point, &point, inner))
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.storage.stat()
    }

    fn limits(&self) -> FsLimits {
        self.storage.limits()
    }

    fn capabilities(&self) -> Capabilities {
        self.storage.capabilities()
    }

    fn sync(&self) -> FsResult<()> {
        Ok(())
    }

    fn flush_failures(&self) -> u64 {
        self.storage.flush_failures()
    }

    /// A file that is not in this point may be in the next.
    fn is_removed(&self, _: &FileKey) -> bool {
        false
    }

    fn knows_memory(&self) -> bool {
        self.storage.knows_memory()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.storage.snapshots()
    }
}

struct PointView {
    point: SharedPoint,
    key: FileKey,
    /// The node in the point that was last seen.
    seen: ArcSwap<Seen>,
}

struct Seen {
    view: ViewId,
    node: NodeRef,
}

struct Owned(NodeRef);

impl Deref for Owned {
    type Target = NodeRef;

    fn deref(&self) -> &NodeRef {
        &self.0
    }
}

impl PointView {
    fn node_ref(shared: &SharedPoint, point: &Point, inner: NodeRef) -> NodeRef {
        let key = inner.key().in_view(ViewId::LIVE);
        let seen = ArcSwap::from_pointee(Seen { view: point.view, node: inner });
        Arc::new(ReadOnlyNode(Self { point: Arc::clone(shared), key, seen }))
    }
}

impl ReadOnlyView for PointView {
    type Inner<'v> = Owned;

    /// The file in the present point. It is looked for once a point.
    fn inner(&self) -> FsResult<Owned> {
        let (point, seen) = (self.point.load(), self.seen.load());
        if seen.view == point.view {
            return Ok(Owned(NodeRef::clone(&seen.node)));
        }
        let node = point.files.node(&self.key, Blocking::Allowed)?;
        self.seen.store(Arc::new(Seen { view: point.view, node: NodeRef::clone(&node) }));
        Ok(Owned(node))
    }

    fn any(&self) -> Owned {
        Owned(NodeRef::clone(&self.seen.load().node))
    }

    fn key(&self) -> FileKey {
        self.key
    }

    fn view(&self) -> ViewId {
        ViewId::LIVE
    }

    fn beside(&self, inner: NodeRef) -> NodeRef {
        Self::node_ref(&self.point, &self.point.load(), inner)
    }

    fn parent(&self) -> FsResult<Lookup> {
        Ok(seen_lookup(self, self.inner()?.parent()?))
    }

    /// A file that is open does not outlive its point.
    fn pin(&self) {}

    fn unpin(&self) {}
}
