//! Listings of directories of snapshots, and of directories in them.

use crate::metadata::identity;
use crate::state::open::Open;
use std::sync::Arc;
use vfs::{Attrs, Blocking, Entry, FileKey, FsResult, SnapshotList, ViewId};

/// A directory that is not live.
pub(super) struct FrozenDir {
    key: FileKey,
    attrs: Attrs,
    /// The number that clients see.
    number: u64,
    /// In a directory of snapshots, its entries.
    snapshots: Option<Arc<SnapshotList>>,
}

impl FrozenDir {
    /// `None` for a live directory.
    pub(super) fn of(open: &Open) -> FsResult<Option<Self>> {
        let key = open.file.key();
        if key.view() == ViewId::LIVE {
            return Ok(None);
        }
        let attrs = open.file.attrs(Blocking::Allowed)?;
        let lists_snapshots = key.view() == ViewId::DIRECTORY;
        Ok(Some(Self {
            key,
            attrs,
            number: identity::file_id(&open.file, &attrs),
            snapshots: lists_snapshots.then(|| open.file.volume().snapshots()),
        }))
    }

    /// Key and attributes of an entry of a directory of snapshots: those of the directory, with the time of the snapshot.
    /// No snapshot is opened for them.
    pub(super) fn version(&self, name: &[u8]) -> Option<(FileKey, Attrs)> {
        let snapshots = self.snapshots.as_ref()?;
        if name == b"." {
            return Some((self.key, self.attrs));
        }
        let snapshot = snapshots.by_name(name)?;
        let time = snapshot.created;
        let attrs = Attrs { born: Some(time), accessed: time, modified: time, changed: time, ..self.attrs };
        Some((self.key.in_view(snapshot.view.entry()), attrs))
    }

    /// The number of an entry for clients. `object`: its key and attributes.
    pub(super) fn file_id_of(&self, entry: &Entry<'_>, object: Option<(&FileKey, &Attrs)>) -> u64 {
        match (entry.name, object) {
            (b".", _) => self.number,
            (_, Some((key, attrs))) => identity::id_of_key(key, attrs.file_id),
            _ => self.attrs.view.number(entry.file_id),
        }
    }
}
