//! Whether a file goes with its last open (MS-FSA §2.1.5.15.3), as the records of its opens say it. That is decided by whichever open
//! may delete the file, and is the file's: the table of claims knows it.

use super::record::{self, Record};
use super::{DECISIONS, PersistentOpens, Slot, id_of, status_of};
use crate::state::open::Open;
use smb_wire::NtStatus;
use std::sync::{Arc, MutexGuard};
use vfs::File;
use vfs::claims::{Request, Verdict};
use xdr::Encode;

impl PersistentOpens {
    /// Has a file go with its last open, or stay after all. It is on record when this returns: that it goes, of one of its opens, if
    /// not of the one that decides it; that it stays, of all. What cannot be written down is not decided.
    pub(crate) fn decide(&self, open: &Open, deletes: bool) -> Result<Verdict, NtStatus> {
        // One after the other: what is taken back is what nobody else has decided as well.
        let _deciding = self.lock_deciding(&open.file);
        let before = open.file.deletion();
        let verdict = open.set_delete(deletes);
        if !matches!(verdict, Verdict::Granted(_)) {
            return Ok(verdict);
        }
        let written = if deletes { record::save(open) } else { self.write_or_forget(&open.file) };
        if let Err(status) = written {
            open.file.claim(&Request::SetDelete { open: open.claim(), link: before, waits: false });
            // Part of it may be on disk.
            _ = self.write_or_forget(&open.file);
            return Err(status);
        }
        if deletes {
            self.say_deleted(&open.file, None);
        }
        Ok(verdict)
    }

    /// Has the record of an open of a file say that it goes with the last of them, if it does. Where that cannot be written, the file
    /// stays after a restart.
    pub(crate) fn note_deletion(&self, file: &File) {
        let _deciding = self.lock_deciding(file);
        self.say_deleted(file, None);
    }

    pub(super) fn lock_deciding(&self, file: &File) -> MutexGuard<'_, ()> {
        self.deciding[file.key().shard::<DECISIONS>()].lock()
    }

    /// Has a record say it, but that of an open that is ending. One is enough, however many there are: before its open ends, another
    /// one says it.
    pub(super) fn say_deleted(&self, file: &File, ended: Option<&Arc<Slot>>) {
        let is_other = |slot: &&Arc<Slot>| ended.is_none_or(|ended| !Arc::ptr_eq(ended, slot));
        let slots = self.slots(file);
        let says = |slot: &&Arc<Slot>| slot.state.lock().says_deleted;
        let (saying, silent): (Vec<_>, Vec<_>) = slots.iter().filter(is_other).partition(says);
        let mut says_so = false;
        for slot in saying {
            says_so |= self.write_deletion(slot, file).is_ok_and(|says| says);
            // Where something is decided, those that say so may mean another name of the file.
            if says_so && ended.is_some() {
                break;
            }
        }
        if !says_so && file.deletion().is_some() {
            _ = silent.into_iter().any(|slot| self.write_deletion(slot, file).is_ok_and(|says| says));
        }
    }

    /// Has the records of a file's opens that say that it goes say whether it does. One that goes on saying otherwise would have it
    /// deleted after a restart: it is removed, and its open lost then.
    fn write_or_forget(&self, file: &File) -> Result<(), NtStatus> {
        for slot in self.slots(file) {
            if slot.state.lock().says_deleted && self.write_deletion(&slot, file).is_err() {
                self.forget(&slot)?;
            }
        }
        Ok(())
    }

    fn forget(&self, slot: &Slot) -> Result<(), NtStatus> {
        let mut state = slot.state.lock();
        if !state.is_over {
            self.entries.remove_durably(slot.number).map_err(|error| status_of(&error))?;
            state.says_deleted = false;
        }
        Ok(())
    }

    fn slots(&self, file: &File) -> Vec<Arc<Slot>> {
        self.of_files.lock().get(&id_of(file)).cloned().unwrap_or_default()
    }

    /// Has a record say whether the file goes, and whether it says so then.
    fn write_deletion(&self, slot: &Slot, file: &File) -> Result<bool, NtStatus> {
        let mut state = slot.state.lock();
        if state.is_over {
            return Ok(false);
        }
        // One that is not there yet will say what is then, and one that is damaged says nothing.
        let content = self.entries.get(slot.number).map_err(|error| status_of(&error))?;
        let Some(mut record) = content.as_deref().and_then(|content| Record::read(content).ok()) else {
            return Ok(false);
        };
        let is_deleted = record.goes_by(file.deletion().as_ref());
        if record.is_deleted != is_deleted {
            record.is_deleted = is_deleted;
            self.put(slot, &mut state, (&record.to_bytes(), is_deleted))?;
        }
        state.says_deleted = is_deleted;
        Ok(is_deleted)
    }
}
