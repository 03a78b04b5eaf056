//! The volume and the undo store that a snapshot is seen through.

use super::pages::Pages;
use crate::node::mount::Mount;
use crate::undo::{Label, Undo};
use std::sync::Arc;
use vfs::{Capabilities, FsError, FsLimits, FsResult, RangeLimits, ViewId};

/// The files of a volume at the time of a snapshot.
pub(crate) struct SnapshotView {
    pub(super) mount: Arc<Mount>,
    pub(super) undo: Arc<Undo>,
    pub(super) label: Label,
    pub(super) limits: FsLimits,
    pub(super) capabilities: Capabilities,
    pub(super) pages: Pages,
}

impl SnapshotView {
    /// [`FsError::NotFound`] if there is no such snapshot. `limits` and `capabilities` are those of the volume.
    pub(crate) fn open(
        mount: &Arc<Mount>,
        undo: &Arc<Undo>,
        view: ViewId,
        limits: FsLimits,
        capabilities: Capabilities,
    ) -> FsResult<Arc<Self>> {
        let label = undo.find(view).ok_or(FsError::NotFound)?;
        let ranges = capabilities.ranges.map(|_| RangeLimits { clone_bytes: None });
        let capabilities = Capabilities { ranges, ..capabilities };
        let (mount, undo) = (Arc::clone(mount), Arc::clone(undo));
        Ok(Arc::new(Self { mount, undo, label, limits, capabilities, pages: Pages::default() }))
    }
}
