//! Watches of a directory, and notifications from protocols.

use super::core::{File, check_is_dir};
use crate::backend::Blocking;
use crate::error::FsResult;
use crate::model::attrs::Change;
use crate::volume::case_index::NameChange;
use crate::volume::change_notify::{Action, ChangeMask, OnEvents, Watch, WatchFilter};

impl File {
    /// Watches this directory until the watch is dropped; `on_events` is called for each event. The protocol, which has the
    /// directory open, checks the right to list it.
    pub fn watch(&self, filter: WatchFilter, on_events: OnEvents) -> FsResult<Watch> {
        check_is_dir(&self.node.attrs(Blocking::Allowed)?)?;
        self.volume().watches().add(self.key(), filter, on_events)
    }

    /// Notifies watches that the object of a name in this directory was modified. The protocol supplies the name: a
    /// file alone has none.
    pub fn notify_modified(&self, name: &[u8], what: ChangeMask) {
        let volume = self.volume();
        volume.watches().changed(volume.root(), &self.node, &[(Action::Modified, name)], what);
    }

    /// Notifies watches that the last close deletes this directory.
    pub fn notify_deleting(&self) {
        self.volume().watches().directory_removed(&self.key());
    }

    /// Notifies watches of this directory, and its case index, of a new name.
    pub(super) fn notify_added(&self, name: &[u8], is_dir: bool, change: &Change) {
        let volume = self.volume();
        self.index_changed(change, || vec![NameChange::Added(name.into())]);
        volume.watches().names_changed(volume.root(), &self.node, &[(Action::Added, name)], is_dir);
    }
}
