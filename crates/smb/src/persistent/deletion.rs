//! Whether a file goes with its last open (MS-FSA §2.1.5.15.3), as the records of its opens say it. That is decided by whichever open
//! may delete the file, and is the file's: the table of claims knows it.

use super::record::{self, Record};
use super::{DECISIONS, PersistentOpens, Slot, id_of, status_of};
use crate::counts::lock;
use crate::open::Open;
use smb_wire::NtStatus;
use std::sync::Arc;
use vfs::File;
use vfs::claims::{Request, Verdict};
use xdr::Encode;

impl PersistentOpens {
    /// Has a file go with its last open, or stay after all. It is on record when this returns: that it goes, of the open that decides
    /// it; that it stays, of all. What cannot be written down is not decided.
    pub(crate) fn decide(&self, open: &Open, deletes: bool) -> Result<Verdict, NtStatus> {
        // One after the other: what is taken back is what nobody else has decided as well.
        let _deciding = lock(&self.deciding[open.file.key().shard::<DECISIONS>()]);
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
            self.note_deletion(&open.file);
        }
        Ok(verdict)
    }

    /// Has the records of a file's opens say that it goes with the last of them, if it does. Where that cannot be written, the file stays
    /// after a restart.
    pub(crate) fn note_deletion(&self, file: &File) {
        for slot in self.slots(file) {
            let is_over = lock(&slot.is_over);
            if !*is_over {
                _ = self.write_deletion(slot.number, file);
            }
        }
    }

    /// Has the records of a file's opens say whether it goes. One that goes on saying otherwise would have it deleted after a restart:
    /// it is removed, and its open lost then.
    fn write_or_forget(&self, file: &File) -> Result<(), NtStatus> {
        for slot in self.slots(file) {
            let is_over = lock(&slot.is_over);
            if !*is_over && self.write_deletion(slot.number, file).is_err() {
                self.entries.forget(slot.number).map_err(|error| status_of(&error))?;
            }
        }
        Ok(())
    }

    fn slots(&self, file: &File) -> Vec<Arc<Slot>> {
        lock(&self.of_files).get(&id_of(file)).cloned().unwrap_or_default()
    }

    /// Has a record say whether the file goes. Its slot is locked.
    fn write_deletion(&self, number: u64, file: &File) -> Result<(), NtStatus> {
        // One that is not there yet will say what is then, and one that is damaged says nothing.
        let content = self.entries.get(number).map_err(|error| status_of(&error))?;
        let Some(mut record) = content.as_deref().and_then(|content| Record::read(content).ok()) else {
            return Ok(());
        };
        let is_deleted = record.goes_by(file.deletion().as_ref());
        if record.is_deleted == is_deleted {
            return Ok(());
        }
        record.is_deleted = is_deleted;
        self.put(number, &record.to_bytes())
    }
}
