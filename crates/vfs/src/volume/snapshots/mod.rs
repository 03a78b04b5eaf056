//! The snapshots of a volume, as clients see them: below `.snapshot` in every directory, read-only.
//!
//! The management says which snapshots there are ([`Volume::set_snapshots`]). Each opens with the first access to it.

mod directory;
mod frozen;
mod point;
pub(super) mod table;

pub use point::PointBackend;
pub use table::{Snapshot, SnapshotDirectory, SnapshotList};

use super::{Volume, streams};
use crate::backend::snapshots::Snapshots;
use crate::backend::{Blocking, Lookup, NodeRef};
use crate::error::{FsError, FsResult};
use crate::file_key::{FileKey, ViewId};
use crate::model::name::Name;
use frozen::FrozenNode;
use std::sync::Arc;

impl Volume {
    /// Replaces the list of snapshots. Files of a snapshot that is no longer in it are [`FsError::Stale`].
    pub fn set_snapshots(&self, snapshots: Vec<Snapshot>) {
        self.snapshots.set(snapshots);
    }

    /// The snapshots in the storage, for the management; `None` if the storage can make none.
    pub fn snapshot_storage(&self) -> Option<&dyn Snapshots> {
        self.snapshots.backend.snapshots()
    }

    pub fn snapshots(&self) -> Arc<SnapshotList> {
        self.snapshots.list.load_full()
    }

    pub fn set_snapshot_directory(&self, directory: SnapshotDirectory) {
        self.snapshots.set_directory(directory);
    }

    /// Whether the listing of the root contains the directory of snapshots.
    pub(crate) fn lists_snapshots(&self) -> bool {
        self.snapshots.directory() == SnapshotDirectory::Listed && self.snapshots.is_reachable()
    }

    /// Whether clients may reach the directories of snapshots.
    pub fn has_snapshot_directories(&self) -> bool {
        self.snapshots.is_reachable()
    }

    /// Closes the snapshots that nobody has used for a while. Call this about once a second.
    pub fn sweep_snapshots(&self) {
        self.snapshots.sweep();
    }

    /// The directory of snapshots in `dir`, a live directory. A file of the same name comes first.
    pub(crate) fn lookup_snapshots(&self, dir: &NodeRef, blocking: Blocking) -> FsResult<Lookup> {
        match dir.lookup(Name::SNAPSHOTS, blocking) {
            Err(FsError::NotFound) if self.snapshots.is_reachable() => {
                let node = self.snapshots.directory_of(NodeRef::clone(dir))?;
                Ok(Lookup { attrs: node.attrs(blocking)?, node })
            }
            found => found,
        }
    }

    #[cold]
    pub(super) fn node_in_view(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        self.snapshots.node(key, blocking)
    }

    /// The root directory in a snapshot, for the service itself: clients may be kept from snapshots.
    pub(crate) fn root_for_service(&self, snapshot: ViewId) -> FsResult<NodeRef> {
        let frozen = self.snapshots.frozen_for_service(snapshot)?;
        Ok(FrozenNode::node_ref(&frozen, frozen.backend.root(), snapshot))
    }

    /// The root of the hidden tree of streams in a snapshot, if it exists.
    pub(super) fn stream_tree_of_view(&self, view: ViewId) -> FsResult<Option<NodeRef>> {
        let frozen = self.snapshots.frozen_for_service(view.snapshot())?;
        let tree = streams::tree_below(&frozen.backend.root())?;
        Ok(tree.map(|tree| FrozenNode::node_ref(&frozen, tree, frozen.view)))
    }
}
