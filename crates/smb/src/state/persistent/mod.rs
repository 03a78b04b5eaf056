//! Persistent opens: opens of continuously available shares, which survive a restart (MS-SMB2 §3.3.1.10,
//! `Open.IsPersistent`). Each has a record in the state directory, written before its client learns of the open
//! (docs/formats/persistent-opens.md).

mod deletion;
pub(crate) mod record;
mod restore;

use super::counters::decrement;
use crate::limits::{PERSISTENT_MAX, PERSISTENT_OF_USER_MAX, user_share_max};
use smb_wire::create::{CreateAction, ShareAccess};
use smb_wire::{Guid, NtStatus};
use stable::{Entries, StableDir};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use vfs::claims::Caching;
use vfs::sync::Mutex;
use vfs::{File, FileKey, VolumeId};

/// The directory of the records, in the state directory.
const DIRECTORY: &str = "persistent-opens";
/// The head of each record: a magic number and a version.
const KIND: &[u8; 12] = b"PLMOPENS\0\0\0\x01";

/// Locks for decisions on deletions, shared by files.
const DELETION_LOCKS: usize = 64;

/// The records of persistent opens.
pub struct PersistentOpens {
    entries: Entries,
    /// The number of records by uid.
    of_users: Mutex<HashMap<u32, usize>>,
    /// The records of each file's opens.
    of_files: Mutex<HashMap<VolumeFile, Vec<Arc<RecordSlot>>>>,
    /// Locked while a deletion is decided and written, and while an open ends.
    deletion_locks: [Mutex<()>; DELETION_LOCKS],
}

type VolumeFile = (VolumeId, FileKey);

struct RecordSlot {
    number: u64,
    /// Locked while the record is written, so that the last state is the one on disk.
    state: Mutex<RecordState>,
}

#[derive(Clone, Copy, Debug)]
struct RecordState {
    is_removed: bool,
    /// Whether the record contains the deletion of the file, or may contain it.
    says_deleted: bool,
}

/// Parameters of a CREATE that its open does not keep itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateParams {
    /// The user who logged in.
    pub(crate) uid: u32,
    pub(crate) client_guid: Guid,
    pub(crate) create_guid: Guid,
    pub(crate) timeout_ms: u32,
    pub(crate) share_access: ShareAccess,
    pub(crate) action: CreateAction,
    /// The caching that was requested.
    pub(crate) want: Caching,
}

pub(crate) struct OpenRecord {
    opens: Arc<PersistentOpens>,
    pub(crate) params: CreateParams,
    file: VolumeFile,
    slot: Arc<RecordSlot>,
}

impl PersistentOpens {
    /// Opens the records in a state directory.
    pub fn open(dir: &Arc<StableDir>) -> io::Result<Self> {
        let (of_users, of_files) = (Mutex::default(), Mutex::default());
        let deciding = std::array::from_fn(|_| Mutex::default());
        Ok(Self {
            entries: Entries::open(dir, DIRECTORY, KIND)?,
            of_users,
            of_files,
            deletion_locks: deciding,
        })
    }

    /// Adds a record within the user's bound. The record of this number may contain the deletion of the file already.
    pub(crate) fn add(
        self: &Arc<Self>,
        created: CreateParams,
        file: &File,
        number: u64,
        says_deleted: bool,
    ) -> Option<OpenRecord> {
        let uid = created.uid;
        let mut of_users = self.of_users.lock();
        let (all, of_user) =
            (of_users.values().sum::<usize>(), of_users.get(&uid).copied().unwrap_or_default());
        let of_user_max = user_share_max(PERSISTENT_OF_USER_MAX, PERSISTENT_MAX, all - of_user);
        if all >= PERSISTENT_MAX || of_user >= of_user_max {
            return None;
        }
        of_users.insert(uid, of_user + 1);
        drop(of_users);
        let (opens, file) = (Arc::clone(self), id_of(file));
        let state = Mutex::new(RecordState { is_removed: false, says_deleted });
        let slot = Arc::new(RecordSlot { number, state });
        self.of_files.lock().entry(file).or_default().push(Arc::clone(&slot));
        Some(OpenRecord { opens, params: created, file, slot })
    }

    /// Writes a record, which may contain the deletion. After an error the record may be written in part.
    fn put(
        &self,
        slot: &RecordSlot,
        state: &mut RecordState,
        record: &[u8],
        says_deleted: bool,
    ) -> Result<(), NtStatus> {
        state.says_deleted |= says_deleted;
        self.entries.store(slot.number, record).map_err(|error| {
            tracing::warn!(%error, "an open of a continuously available share cannot be kept for a restart");
            status_of(&error)
        })?;
        state.says_deleted = says_deleted;
        Ok(())
    }

    /// Removes a record; durably if it `must_sync`. A record that remains restores an open that no client returns for.
    fn remove(&self, number: u64, must_sync: bool) {
        let removed =
            if must_sync { self.entries.remove_durably(number) } else { self.entries.remove(number) };
        if let Err(error) = removed {
            tracing::warn!(%error, "the record of an open that was closed is still there");
        }
    }
}

fn id_of(file: &File) -> VolumeFile {
    (file.volume().id(), file.key())
}

fn status_of(error: &io::Error) -> NtStatus {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => NtStatus::DISK_FULL,
        _ => NtStatus::IO_DEVICE_ERROR,
    }
}

impl OpenRecord {
    /// Writes the current state of the open, and whether the file is deleted. The record is on disk when this returns.
    pub(crate) fn write(
        &self,
        record: impl FnOnce(&CreateParams) -> Result<(Vec<u8>, bool), NtStatus>,
    ) -> Result<(), NtStatus> {
        let mut state = self.slot.state.lock();
        if state.is_removed {
            return Ok(());
        }
        let (record, says_deleted) = record(&self.params)?;
        self.opens.put(&self.slot, &mut state, &record, says_deleted)
    }

    /// Removes the record of a closed open. If no other record contains the deletion of the file, another one receives
    /// it. The removal is durable if the file is deleted, by the record or by delete-on-close (`deletes`): other opens
    /// may still cancel the deletion.
    pub(crate) fn end(&self, file: &File, deletes: bool) {
        // Opens end one after the other, so that two of them do not leave the deletion to each other.
        let _deciding = self.opens.lock_deletion(file);
        if self.slot.state.lock().says_deleted {
            self.opens.write_deleted(file, Some(&self.slot));
        }
        let mut state = self.slot.state.lock();
        if !std::mem::replace(&mut state.is_removed, true) {
            self.opens.remove(self.slot.number, deletes || state.says_deleted);
        }
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        decrement(&mut self.opens.of_users.lock(), self.params.uid);
        let mut of_files = self.opens.of_files.lock();
        if let Some(slots) = of_files.get_mut(&self.file) {
            slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
            if slots.is_empty() {
                of_files.remove(&self.file);
            }
        }
    }
}
