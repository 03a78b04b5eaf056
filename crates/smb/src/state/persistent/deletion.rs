//! Deletion of a file with its last open (MS-FSA §2.1.5.15.3), in the records of its opens. Any open with the right to
//! delete may set it; the table of claims keeps it per file.

use super::record::{self, Record};
use super::{DELETION_LOCKS, PersistentOpens, RecordSlot, id_of, status_of};
use crate::state::open::Open;
use smb_wire::NtStatus;
use std::sync::{Arc, MutexGuard};
use vfs::File;
use vfs::claims::{Request, Verdict};
use xdr::Encode;

impl PersistentOpens {
    /// Sets or clears the deletion of a file with its last open. The decision is on disk when this returns: a deletion
    /// in the record of one open, its absence in the records of all. A decision that cannot be written is undone.
    pub(crate) fn set_deletion(&self, open: &Open, deletes: bool) -> Result<Verdict, NtStatus> {
        // Decisions are serialized, so that only this decision is undone.
        let _deciding = self.lock_deletion(&open.file);
        let previous = open.file.deletion();
        let verdict = open.set_delete(deletes);
        if !matches!(verdict, Verdict::Granted(_)) {
            return Ok(verdict);
        }
        let written = if deletes { record::save(open) } else { self.write_or_forget(&open.file) };
        if let Err(status) = written {
            open.file.claim(&Request::SetDelete { open: open.claim(), link: previous, waits: false });
            // The record may be written in part.
            _ = self.write_or_forget(&open.file);
            return Err(status);
        }
        if deletes {
            self.write_deleted(&open.file, None);
        }
        Ok(verdict)
    }

    /// Records in one open that the file is deleted with the last one. If no record can be written, the file survives
    /// a restart.
    pub(crate) fn record_deletion(&self, file: &File) {
        let _deciding = self.lock_deletion(file);
        self.write_deleted(file, None);
    }

    pub(super) fn lock_deletion(&self, file: &File) -> MutexGuard<'_, ()> {
        self.deletion_locks[file.key().shard::<DELETION_LOCKS>()].lock()
    }

    /// Writes the deletion to a record, but for that of an open that is ending. One record suffices: before its open
    /// ends, another one receives the deletion.
    pub(super) fn write_deleted(&self, file: &File, ended: Option<&Arc<RecordSlot>>) {
        let is_other = |slot: &&Arc<RecordSlot>| ended.is_none_or(|ended| !Arc::ptr_eq(ended, slot));
        let slots = self.slots(file);
        let says = |slot: &&Arc<RecordSlot>| slot.state.lock().says_deleted;
        let (saying, silent): (Vec<_>, Vec<_>) = slots.iter().filter(is_other).partition(says);
        let mut says_so = false;
        for slot in saying {
            says_so |= self.write_deletion(slot, file).is_ok_and(|says| says);
            // While a decision is being written, these records may refer to another name of the file.
            if says_so && ended.is_some() {
                break;
            }
        }
        if !says_so && file.deletion().is_some() {
            _ = silent.into_iter().any(|slot| self.write_deletion(slot, file).is_ok_and(|says| says));
        }
    }

    /// Updates the records that contain the deletion. One that cannot be updated would delete the file after a
    /// restart: the record is removed, and a restart loses its open.
    fn write_or_forget(&self, file: &File) -> Result<(), NtStatus> {
        for slot in self.slots(file) {
            if slot.state.lock().says_deleted && self.write_deletion(&slot, file).is_err() {
                self.remove_record(&slot)?;
            }
        }
        Ok(())
    }

    fn remove_record(&self, slot: &RecordSlot) -> Result<(), NtStatus> {
        let mut state = slot.state.lock();
        if !state.is_removed {
            self.entries.remove_durably(slot.number).map_err(|error| status_of(&error))?;
            state.says_deleted = false;
        }
        Ok(())
    }

    fn slots(&self, file: &File) -> Vec<Arc<RecordSlot>> {
        self.of_files.lock().get(&id_of(file)).cloned().unwrap_or_default()
    }

    fn write_deletion(&self, slot: &RecordSlot, file: &File) -> Result<bool, NtStatus> {
        let mut state = slot.state.lock();
        if state.is_removed {
            return Ok(false);
        }
        // A record that is not written yet will be correct, and a damaged one is ignored.
        let content = self.entries.get(slot.number).map_err(|error| status_of(&error))?;
        let Some(mut record) = content.as_deref().and_then(|content| Record::read(content).ok()) else {
            return Ok(false);
        };
        let is_deleted = record.is_deleted_by(file.deletion().as_ref());
        if record.is_deleted != is_deleted {
            record.is_deleted = is_deleted;
            self.put(slot, &mut state, &record.to_bytes(), is_deleted)?;
        }
        state.says_deleted = is_deleted;
        Ok(is_deleted)
    }
}
