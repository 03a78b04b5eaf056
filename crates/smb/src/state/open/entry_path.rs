//! The path of an open file in its share.

use vfs::File;
use vfs::claims::{LeaseKey, Link};
use vfs::volume::change_notify::ChangeMask;

#[derive(Clone)]
pub(crate) struct EntryPath {
    /// The directory and the name there; none for the root of a share.
    pub(crate) entry: Option<(File, Vec<u8>)>,
    /// Stored names from the root of the share on.
    pub(crate) path: Vec<Vec<u8>>,
    /// The name of the stream, if the open is one of a named stream.
    pub(crate) stream: Option<Vec<u8>>,
}

impl EntryPath {
    /// The file's name in the table of claims.
    pub(crate) fn link(&self, listing: Option<LeaseKey>) -> Option<Link> {
        let (dir, name) = self.entry.as_ref()?;
        Some(Link { parent: dir.key(), name: name.clone().into(), listing })
    }

    /// The name that a deletion of `file` removes: that of the file, or of the stream.
    pub(crate) fn deletion(&self, file: &File, listing: Option<LeaseKey>) -> Option<Link> {
        match &self.stream {
            Some(stream) => Some(Link { parent: file.key(), name: stream.clone().into(), listing: None }),
            None => self.link(listing),
        }
    }

    /// Notifies watchers of the directory and holders of its listing, but for the holder of `except`, of a change of the file.
    pub(crate) fn notify_modified(&self, what: ChangeMask, except: Option<LeaseKey>) {
        if let Some((dir, name)) = &self.entry {
            dir.notify_listing_changed(except);
            dir.notify_modified(name, what);
        }
    }
}
