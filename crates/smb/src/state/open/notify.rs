//! Deletion of an open file, and notifications of its changes.

use super::Open;
use super::watch::DirectoryWatch;
use smb_wire::classes::file::Mode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::claims::{Request, Verdict};
use vfs::volume::change_notify::{ChangeMask, WatchFilter};
use vfs::{Change, FsResult};

impl Open {
    pub(crate) fn watched(&self) -> Option<&DirectoryWatch> {
        self.cursors.watch.get().map(|watching| &**watching)
    }

    /// The watch of the directory. The first request begins it, and sets its filter.
    pub(crate) fn watch(&self, wish: impl FnOnce() -> WatchFilter) -> FsResult<Arc<DirectoryWatch>> {
        if let Some(watching) = self.cursors.watch.get() {
            return Ok(Arc::clone(watching));
        }
        let watching = Arc::new(DirectoryWatch::start(&self.file, wish())?);
        Ok(Arc::clone(self.cursors.watch.get_or_init(|| watching)))
    }

    /// Notifies holders of the directory's listing that the file's entry has changed.
    pub(crate) fn notify_listing_changed(&self) {
        if let Some((dir, _)) = &self.entry_path().entry {
            dir.notify_listing_changed(self.caching.parent_lease);
        }
    }

    /// Notifies watchers of the directory, and holders of its listing, of a change of the file.
    pub(crate) fn notify_modified(&self, what: ChangeMask) {
        self.notify_listing_changed();
        self.notify_watchers(what);
    }

    /// Notifies watchers of the directory of a write. Listings show it when the file is closed, as on Windows, and stay valid until
    /// then.
    pub(crate) fn notify_written(&self, change: &Change) {
        let is_resized = change.before.size != change.after.size;
        self.closing.has_written.store(true, Ordering::Relaxed);
        self.notify_watchers(if is_resized {
            ChangeMask::MODIFIED | ChangeMask::SIZE
        } else {
            ChangeMask::MODIFIED
        });
    }

    fn notify_watchers(&self, what: ChangeMask) {
        if !self.file.volume().is_watched() {
            return;
        }
        let entry = self.entry_path().entry.clone();
        if let Some((dir, name)) = entry {
            dir.notify_modified(&name, what);
        }
    }

    /// Notifies watchers of a stream that was removed with its last open.
    pub(super) fn notify_stream_removed(&self) {
        if self.file.is_stream() {
            self.disk.delete_closed();
            if self.file.has_lost_stream() {
                self.notify_modified(ChangeMask::MODIFIED);
            }
        }
    }

    /// Notifies watchers of the directory that it is being deleted, if it is.
    pub(super) fn notify_deleting(&self) {
        // Without delete-on-close in place, closing an open that no client has received deletes nothing.
        let is_deleted = || self.closing.deletes_on_close.load(Ordering::Relaxed) || self.file.is_deleted();
        if self.is_dir() && is_deleted() {
            self.file.notify_deleting();
        }
    }

    /// Whether the file is deleted with its last open, or when this one is closed.
    pub(crate) fn deletes(&self) -> bool {
        self.mode().contains(Mode::DELETE_ON_CLOSE) || self.file.is_deleted()
    }

    /// Whether the file is deleted with its last open, and whether its name is: a deleted stream leaves the name.
    pub(crate) fn pending_deletion(&self) -> (bool, bool) {
        let is_deleted = self.file.is_deleted();
        (is_deleted, is_deleted && (!self.file.is_stream() || self.file.of_stream().is_deleted()))
    }

    /// Sets or clears the deletion of the file with its last open.
    pub(crate) fn set_delete(&self, deletes: bool) -> Verdict {
        let entry_path = self.entry_path();
        let link = if deletes { entry_path.deletion(&self.file, self.caching.parent_lease) } else { None };
        let verdict = self.file.claim(&Request::SetDelete { open: self.claim, link, waits: false });
        drop(entry_path);
        if deletes && matches!(verdict, Verdict::Granted(_)) {
            self.notify_deleting();
        }
        verdict
    }

    /// Deletes the file when this open is closed, as its CREATE asked.
    pub(crate) fn delete_on_close(&self) {
        let entry_path = self.entry_path();
        let Some(link) = entry_path.deletion(&self.file, self.caching.parent_lease) else { return };
        let verdict = self.file.claim(&Request::DeleteOnClose { open: self.claim, link });
        self.closing.deletes_on_close.store(matches!(verdict, Verdict::Granted(_)), Ordering::Relaxed);
    }
}
