//! Opens that outlive the service: those of continuously available shares (MS-SMB2 §3.3.1.10, `Open.IsPersistent`). Each has a record
//! in the state directory, on disk before its client hears of the open (docs/formats/persistent-opens.md).

mod record;
mod restore;

use crate::counts::lock;
use crate::durable::Durable;
use crate::limits::{PERSISTENT_MAX, PERSISTENT_OF_USER_MAX, PERSISTENT_RANGES_MAX};
use crate::open::Open;
use record::{Record, Sources};
use smb_wire::NtStatus;
use smb_wire::create::{CreateAction, ShareAccess};
use stable::{Entries, StableDir};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use vfs::claims::Caching;
use xdr::Encode;

/// The directory of the records in the state directory.
const DIRECTORY: &str = "persistent-opens";
/// What each begins with: a magic number and a version.
const KIND: &[u8; 12] = b"PLMOPENS\0\0\0\x01";

/// The records of opens that outlive the service.
pub struct PersistentOpens {
    entries: Entries,
    /// How many each user has.
    of_users: Mutex<HashMap<u32, usize>>,
}

/// That an open is on record.
pub(crate) struct Kept {
    opens: Arc<PersistentOpens>,
    uid: u32,
    pub(crate) share_access: ShareAccess,
    pub(crate) action: CreateAction,
    /// What it may cache, as far as others allow.
    pub(crate) want: Caching,
    /// Whether it is so no longer. Held while the record is written: that comes from one moment, and the last one is what stays.
    is_over: Mutex<bool>,
}

impl PersistentOpens {
    /// Those in a state directory.
    pub fn open(dir: &Arc<StableDir>) -> io::Result<Self> {
        Ok(Self { entries: Entries::open(dir, DIRECTORY, KIND)?, of_users: Mutex::default() })
    }

    /// One more of a user's opens that are to be on record, if there may be one.
    pub(crate) fn add(
        self: &Arc<Self>,
        uid: u32,
        (share_access, action, want): (ShareAccess, CreateAction, Caching),
    ) -> Option<Kept> {
        let mut of_users = lock(&self.of_users);
        let (all, of_user) =
            (of_users.values().sum::<usize>(), of_users.get(&uid).copied().unwrap_or_default());
        if all >= PERSISTENT_MAX || of_user >= PERSISTENT_OF_USER_MAX {
            return None;
        }
        of_users.insert(uid, of_user + 1);
        let (opens, is_over) = (Arc::clone(self), Mutex::new(false));
        Some(Kept { opens, uid, share_access, action, want, is_over })
    }

    /// Has no record any longer. One that stays is an open that nobody comes back for after the next start.
    fn remove(&self, number: u64) {
        if let Err(error) = self.entries.remove(number) {
            tracing::warn!(%error, "the record of an open that was closed is still there");
        }
    }
}

impl Kept {
    /// Writes the open down as it is now. It is on disk when this returns.
    pub(crate) fn save(&self, open: &Open, durable: &Durable) -> Result<(), NtStatus> {
        let is_over = lock(&self.is_over);
        if *is_over {
            return Ok(());
        }
        let sources = Sources::of(open).ok_or(NtStatus::NOT_SUPPORTED)?;
        let record = Record::of((open, durable), self, &sources).ok_or(NtStatus::NOT_SUPPORTED)?;
        if record.ranges.len() > PERSISTENT_RANGES_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        let saved = self.opens.entries.put(open.id.persistent, &record.to_bytes());
        drop(is_over);
        saved.map_err(|error| {
            tracing::warn!(%error, "an open of a continuously available share cannot be kept for a restart");
            match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => NtStatus::DISK_FULL,
                _ => NtStatus::IO_DEVICE_ERROR,
            }
        })
    }

    /// The open is closed.
    pub(crate) fn end(&self, open: &Open) {
        let mut is_over = lock(&self.is_over);
        if !std::mem::replace(&mut *is_over, true) {
            self.opens.remove(open.id.persistent);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Entry::Occupied(mut of_user) = lock(&self.opens.of_users).entry(self.uid) {
            *of_user.get_mut() -= 1;
            if *of_user.get() == 0 {
                of_user.remove();
            }
        }
    }
}
