//! Opens that outlive the service: those of continuously available shares (MS-SMB2 §3.3.1.10, `Open.IsPersistent`). Each has a record
//! in the state directory, on disk before its client hears of the open (docs/formats/persistent-opens.md).

mod deletion;
pub(crate) mod record;
mod restore;

use super::counters::count_down;
use crate::limits::{PERSISTENT_MAX, PERSISTENT_OF_USER_MAX, most_of_user};
use smb_wire::create::{CreateAction, ShareAccess};
use smb_wire::{Guid, NtStatus};
use stable::{Entries, StableDir};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use vfs::claims::Caching;
use vfs::sync::Mutex;
use vfs::{File, FileKey, VolumeId};

/// The directory of the records in the state directory.
const DIRECTORY: &str = "persistent-opens";
/// What each begins with: a magic number and a version.
const KIND: &[u8; 12] = b"PLMOPENS\0\0\0\x01";

/// Locks for what is decided of files, each for some of them.
const DECISIONS: usize = 64;

/// The records of opens that outlive the service.
pub struct PersistentOpens {
    entries: Entries,
    /// How many each user has.
    of_users: Mutex<HashMap<u32, usize>>,
    /// Where the records of each file's opens are, whoever has them now.
    of_files: Mutex<HashMap<FileId, Vec<Arc<Slot>>>>,
    /// Held from when it is decided whether a file goes with its last open, or when an open ends, until that is on record.
    deciding: [Mutex<()>; DECISIONS],
}

/// A file of any volume.
type FileId = (VolumeId, FileKey);

/// Where the record of an open is.
struct Slot {
    number: u64,
    /// Held while the record is written: that comes from one moment, and the last one is what stays.
    state: Mutex<SlotState>,
}

#[derive(Clone, Copy, Debug)]
struct SlotState {
    /// Whether there is no record any longer.
    is_over: bool,
    /// Whether the record says that the file goes with its last open, or may say so.
    says_deleted: bool,
}

/// How an open was created, as far as it does not know that itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsCreated {
    /// Who logged in.
    pub(crate) uid: u32,
    pub(crate) client_guid: Guid,
    pub(crate) create_guid: Guid,
    pub(crate) timeout_ms: u32,
    pub(crate) share_access: ShareAccess,
    pub(crate) action: CreateAction,
    /// What it may cache, as far as others allow.
    pub(crate) want: Caching,
}

/// That an open is on record.
pub(crate) struct Kept {
    opens: Arc<PersistentOpens>,
    pub(crate) created: AsCreated,
    file: FileId,
    slot: Arc<Slot>,
}

impl PersistentOpens {
    /// Those in a state directory.
    pub fn open(dir: &Arc<StableDir>) -> io::Result<Self> {
        let (of_users, of_files) = (Mutex::default(), Mutex::default());
        let deciding = std::array::from_fn(|_| Mutex::default());
        Ok(Self { entries: Entries::open(dir, DIRECTORY, KIND)?, of_users, of_files, deciding })
    }

    /// One more of a user's opens that are to be on record, if there may be one: that of a file, by this number, under which a record may
    /// say already that the file goes.
    pub(crate) fn add(
        self: &Arc<Self>,
        created: AsCreated,
        file: &File,
        (number, says_deleted): (u64, bool),
    ) -> Option<Kept> {
        let uid = created.uid;
        let mut of_users = self.of_users.lock();
        let (all, of_user) =
            (of_users.values().sum::<usize>(), of_users.get(&uid).copied().unwrap_or_default());
        let of_user_max = most_of_user(PERSISTENT_OF_USER_MAX, PERSISTENT_MAX, all - of_user);
        if all >= PERSISTENT_MAX || of_user >= of_user_max {
            return None;
        }
        of_users.insert(uid, of_user + 1);
        drop(of_users);
        let (opens, file) = (Arc::clone(self), id_of(file));
        let state = Mutex::new(SlotState { is_over: false, says_deleted });
        let slot = Arc::new(Slot { number, state });
        self.of_files.lock().entry(file).or_default().push(Arc::clone(&slot));
        Some(Kept { opens, created, file, slot })
    }

    /// Writes a record, and notes whether it says that the file goes. Part of one that cannot be written may be on disk.
    fn put(
        &self,
        slot: &Slot,
        state: &mut SlotState,
        (record, says_deleted): (&[u8], bool),
    ) -> Result<(), NtStatus> {
        state.says_deleted |= says_deleted;
        self.entries.store(slot.number, record).map_err(|error| {
            tracing::warn!(%error, "an open of a continuously available share cannot be kept for a restart");
            status_of(&error)
        })?;
        state.says_deleted = says_deleted;
        Ok(())
    }

    /// Has no record any longer, after a crash either if that `matters`. One that stays is an open that nobody comes back for after the
    /// next start.
    fn remove(&self, number: u64, matters: bool) {
        let removed = if matters { self.entries.remove_durably(number) } else { self.entries.remove(number) };
        if let Err(error) = removed {
            tracing::warn!(%error, "the record of an open that was closed is still there");
        }
    }
}

fn id_of(file: &File) -> FileId {
    (file.volume().id(), file.key())
}

fn status_of(error: &io::Error) -> NtStatus {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => NtStatus::DISK_FULL,
        _ => NtStatus::IO_DEVICE_ERROR,
    }
}

impl Kept {
    /// Writes down what the open is now, and whether that says that the file goes. It is on disk when this returns.
    pub(crate) fn write(
        &self,
        record: impl FnOnce(&AsCreated) -> Result<(Vec<u8>, bool), NtStatus>,
    ) -> Result<(), NtStatus> {
        let mut state = self.slot.state.lock();
        if state.is_over {
            return Ok(());
        }
        let (record, says_deleted) = record(&self.created)?;
        self.opens.put(&self.slot, &mut state, (&record, says_deleted))
    }

    /// The open of a file is closed. What its record alone says of the file, that of another open says from now on. One by which the file
    /// goes, as it says or as the open was created for (`deletes`), comes back after no crash: who has the file open meanwhile may keep it.
    pub(crate) fn end(&self, file: &File, deletes: bool) {
        // One after the other: two of them do not leave it to each other.
        let _deciding = self.opens.lock_deciding(file);
        if self.slot.state.lock().says_deleted {
            self.opens.say_deleted(file, Some(&self.slot));
        }
        let mut state = self.slot.state.lock();
        if !std::mem::replace(&mut state.is_over, true) {
            self.opens.remove(self.slot.number, deletes || state.says_deleted);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        count_down(&mut self.opens.of_users.lock(), self.created.uid);
        let mut of_files = self.opens.of_files.lock();
        if let Some(slots) = of_files.get_mut(&self.file) {
            slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
            if slots.is_empty() {
                of_files.remove(&self.file);
            }
        }
    }
}
