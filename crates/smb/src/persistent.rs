//! Opens that outlive the service: those of continuously available shares (MS-SMB2 §3.3.1.10, `Open.IsPersistent`). Each has a record
//! in the state directory, on disk before its client hears of the open (docs/formats/persistent-opens.md).

mod deletion;
pub(crate) mod record;
mod restore;

use crate::counts::{count_down, lock};
use crate::limits::{PERSISTENT_MAX, PERSISTENT_OF_USER_MAX};
use smb_wire::create::{CreateAction, ShareAccess};
use smb_wire::{Guid, NtStatus};
use stable::{Entries, StableDir};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use vfs::claims::Caching;
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
    /// Held from when it is decided whether a file goes with its last open until that is on record.
    deciding: [Mutex<()>; DECISIONS],
}

/// A file of any volume.
type FileId = (VolumeId, FileKey);

/// Where the record of an open is.
struct Slot {
    number: u64,
    /// Whether there is none any longer. Held while the record is written: that comes from one moment, and the last one is what stays.
    is_over: Mutex<bool>,
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

    /// One more of a user's opens that are to be on record, if there may be one: that of a file, by this number.
    pub(crate) fn add(self: &Arc<Self>, created: AsCreated, file: &File, number: u64) -> Option<Kept> {
        let uid = created.uid;
        let mut of_users = lock(&self.of_users);
        let (all, of_user) =
            (of_users.values().sum::<usize>(), of_users.get(&uid).copied().unwrap_or_default());
        if all >= PERSISTENT_MAX || of_user >= PERSISTENT_OF_USER_MAX {
            return None;
        }
        of_users.insert(uid, of_user + 1);
        drop(of_users);
        let (opens, file) = (Arc::clone(self), id_of(file));
        let slot = Arc::new(Slot { number, is_over: Mutex::new(false) });
        lock(&self.of_files).entry(file).or_default().push(Arc::clone(&slot));
        Some(Kept { opens, created, file, slot })
    }

    fn put(&self, number: u64, record: &[u8]) -> Result<(), NtStatus> {
        self.entries.put(number, record).map_err(|error| {
            tracing::warn!(%error, "an open of a continuously available share cannot be kept for a restart");
            status_of(&error)
        })
    }

    /// Has no record any longer. One that stays is an open that nobody comes back for after the next start.
    fn remove(&self, number: u64) {
        if let Err(error) = self.entries.remove(number) {
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
    /// Writes down what the open is now. It is on disk when this returns.
    pub(crate) fn write(
        &self,
        record: impl FnOnce(&AsCreated) -> Result<Vec<u8>, NtStatus>,
    ) -> Result<(), NtStatus> {
        let is_over = lock(&self.slot.is_over);
        if *is_over {
            return Ok(());
        }
        self.opens.put(self.slot.number, &record(&self.created)?)
    }

    /// The open is closed.
    pub(crate) fn end(&self) {
        let mut is_over = lock(&self.slot.is_over);
        if !std::mem::replace(&mut *is_over, true) {
            self.opens.remove(self.slot.number);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        count_down(&mut lock(&self.opens.of_users), self.created.uid);
        let mut of_files = lock(&self.opens.of_files);
        if let Some(slots) = of_files.get_mut(&self.file) {
            slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
            if slots.is_empty() {
                of_files.remove(&self.file);
            }
        }
    }
}
