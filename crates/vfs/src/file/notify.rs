//! Being told of what others change.

use super::core::{File, check_is_dir};
use crate::backend::Blocking;
use crate::error::FsResult;
use crate::model::attrs::Change;
use crate::volume::case_index::NameChange;
use crate::volume::change_notify::{Action, ChangeMask, OnEvents, Watch, WatchFilter};

impl File {
    /// Has `tell` called when there is news of this directory, until the watch is dropped. Whether whoever asks may list it is for the
    /// protocol to know, which has it open.
    pub fn watch(&self, wish: WatchFilter, tell: OnEvents) -> FsResult<Watch> {
        check_is_dir(&self.node.attrs(Blocking::Allowed)?)?;
        self.volume().watches().add(self.key(), wish, tell)
    }

    /// Tells those who watch that what has a name in this directory was changed by a protocol that knows the name: a file alone does
    /// not know it.
    pub fn notify_modified(&self, name: &[u8], what: ChangeMask) {
        let volume = self.volume();
        volume.watches().changed(volume.root(), &self.node, &[(Action::Modified, name)], what);
    }

    /// Tells those who watch this directory that it goes with its last open.
    pub fn notify_deleting(&self) {
        self.volume().watches().gone(&self.key());
    }

    /// Tells those who watch this directory, and who looks names up in it by other spellings, of a name that is new in it.
    pub(super) fn tell_added(&self, name: &[u8], is_dir: bool, change: &Change) {
        let volume = self.volume();
        self.index_changed(change, || vec![NameChange::Added(name.into())]);
        volume.watches().names_changed(volume.root(), &self.node, &[(Action::Added, name)], is_dir);
    }
}
