//! Disconnected opens, and replays of CREATE (MS-SMB2 §3.3.1.4, §3.3.1.10, §3.3.7.1).
//!
//! A disconnected open stays here until its client returns, until a claim conflicts with it, or until it times out.
//! The table of claims decides on the last two; a sweep once a second closes opens whose claims are lost.

use super::Open;
use crate::limits::{DISCONNECTED_MAX, DISCONNECTED_OF_USER_MAX, user_share_max};
use crate::state::caching::leases::LeaseOwner;
use crate::state::counters::decrement;
use smb_wire::create::CreateAction;
use smb_wire::{Guid, NtStatus};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;

/// Disconnected opens, and CREATEs by `CreateGuid`.
#[derive(Default)]
pub(crate) struct OpenTable(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// Opens by the persistent half of their ids.
    disconnected: HashMap<u64, Arc<Open>>,
    /// The number of opens by uid.
    of_users: HashMap<u32, usize>,
    creates: HashMap<CreationKey, CreateEntry>,
    last_create: u64,
}

type CreationKey = (LeaseOwner, Guid);

/// A CREATE with a `CreateGuid`.
struct CreateEntry {
    /// Distinguishes CREATEs that reuse a `CreateGuid`.
    number: u64,
    /// The open; none while the CREATE is in progress.
    open: Option<Weak<Open>>,
}

/// A registered CREATE. Dropping it removes the CREATE from the table.
pub(crate) struct CreateRegistration {
    /// The table, which owns the open as well.
    open_table: Weak<OpenTable>,
    key: CreationKey,
    number: u64,
}

/// The result of a registration.
pub(crate) enum CreateReplay {
    /// The first CREATE with this `CreateGuid`.
    New(CreateRegistration),
    /// A replay, whose CREATE has made this open.
    Existing(Arc<Open>),
}

pub(crate) struct CreateIdentity {
    pub(crate) action: CreateAction,
    registration: CreateRegistration,
}

impl OpenTable {
    /// Registers a CREATE. A repeated one must be marked as a replay (MS-SMB2 §3.3.5.9.10), and fails while the first
    /// is in progress.
    pub(crate) fn register_create(
        self: &Arc<Self>,
        owner: LeaseOwner,
        create_guid: Guid,
        is_replay: bool,
    ) -> Result<CreateReplay, NtStatus> {
        let key = (owner, create_guid);
        let mut table = self.0.lock();
        if let Some(created) = table.creates.get(&key) {
            let is_pending = created.open.is_none();
            let open = created.open.as_ref().and_then(Weak::upgrade);
            // Otherwise the open is being closed.
            if is_pending || open.is_some() {
                // Dropping the last reference closes the open, which locks this table.
                drop(table);
                return match open {
                    _ if !is_replay => Err(NtStatus::DUPLICATE_OBJECTID),
                    Some(open) => Ok(CreateReplay::Existing(open)),
                    None => Err(NtStatus::FILE_NOT_AVAILABLE),
                };
            }
        }
        table.last_create += 1;
        let number = table.last_create;
        table.creates.insert(key, CreateEntry { number, open: None });
        Ok(CreateReplay::New(CreateRegistration { open_table: Arc::downgrade(self), key, number }))
    }

    /// Adds an open that has lost its session or tree connect. Returns the open if it is not durable, or there is no
    /// room.
    pub(crate) fn add_disconnected(&self, open: Arc<Open>) -> Result<(), Arc<Open>> {
        let Some(durable) = open.durable().filter(|durable| open.disconnect(*durable)) else {
            return Err(open);
        };
        let mut table = self.0.lock();
        let Table { disconnected, of_users, .. } = &mut *table;
        let of_user = of_users.get(&durable.owner.uid).copied().unwrap_or_default();
        let others = disconnected.len().saturating_sub(of_user);
        let of_user_max = user_share_max(DISCONNECTED_OF_USER_MAX, DISCONNECTED_MAX, others);
        let is_full = disconnected.len() >= DISCONNECTED_MAX || of_user >= of_user_max;
        // Persistent opens are bounded when they are created.
        if is_full && !durable.is_persistent {
            return Err(open);
        }
        let Entry::Vacant(entry) = disconnected.entry(open.id.persistent) else { return Err(open) };
        entry.insert(open);
        of_users.insert(durable.owner.uid, of_user + 1);
        Ok(())
    }

    /// Adds an open that was restored after a restart.
    pub(crate) fn add_restored(&self, open: Arc<Open>) {
        let mut table = self.0.lock();
        if let Some(durable) = open.durable() {
            *table.of_users.entry(durable.owner.uid).or_default() += 1;
            table.disconnected.insert(open.id.persistent, open);
        }
    }

    pub(crate) fn is_disconnected(&self, persistent: u64) -> bool {
        self.0.lock().disconnected.contains_key(&persistent)
    }

    /// Returns the persistent half of the id of an open.
    pub(crate) fn find_by_guid(&self, owner: LeaseOwner, create_guid: Guid) -> Option<u64> {
        let table = self.0.lock();
        let open = table.creates.get(&(owner, create_guid))?.open.as_ref()?.upgrade();
        // Dropping the last reference closes the open, which locks this table.
        drop(table);
        open.map(|open| open.id.persistent)
    }

    /// Removes a disconnected open for its client, which has returned and passes `check`.
    pub(crate) fn take_disconnected(
        &self,
        persistent: u64,
        check: impl FnOnce(&Open) -> Result<(), NtStatus>,
    ) -> Result<Open, TakeError> {
        let mut table = self.0.lock();
        let Entry::Occupied(entry) = table.disconnected.entry(persistent) else {
            return Err(TakeError::Refused(NtStatus::OBJECT_NAME_NOT_FOUND));
        };
        check(entry.get()).map_err(TakeError::Refused)?;
        let open = match Arc::try_unwrap(entry.remove()) {
            Ok(open) => open,
            Err(open) => {
                table.disconnected.insert(persistent, open);
                return Err(TakeError::Busy);
            }
        };
        table.uncount(&open);
        // Until the open is wrapped again, its CREATE counts as in progress, and a replay of it fails.
        if let Some(CreateIdentity { registration: creation, .. }) = open.create_identity()
            && let Some(created) = table.creates.get_mut(&creation.key)
            && created.number == creation.number
        {
            created.open = None;
        }
        Ok(open)
    }

    /// Closes opens whose claims are lost, and opens for which `is_over` holds.
    pub(crate) fn close_expired(&self, is_over: impl Fn(&Open) -> bool) {
        let mut table = self.0.lock();
        let is_expired = |_: &u64, open: &mut Arc<Open>| open.is_lost() || is_over(open);
        let expired: Vec<Arc<Open>> =
            table.disconnected.extract_if(is_expired).map(|(_, open)| open).collect();
        expired.iter().for_each(|open| table.uncount(open));
        drop(table);
        expired.iter().for_each(|open| open.close());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeError {
    Refused(NtStatus),
    /// Requests of the lost connection are still in progress.
    Busy,
}

impl Table {
    fn uncount(&mut self, open: &Open) {
        let Some(durable) = open.durable() else { return };
        decrement(&mut self.of_users, durable.owner.uid);
    }
}

impl CreateRegistration {
    /// Records the open that the CREATE has made.
    pub(crate) fn complete(self, open: &Arc<Open>, action: CreateAction) {
        self.set_open(open);
        open.set_create_identity(CreateIdentity { action, registration: self });
    }

    fn set_open(&self, open: &Arc<Open>) {
        let Some(open_table) = self.open_table.upgrade() else { return };
        let mut table = open_table.0.lock();
        let created = table.creates.get_mut(&self.key).filter(|created| created.number == self.number);
        created.into_iter().for_each(|created| created.open = Some(Arc::downgrade(open)));
    }
}

impl CreateIdentity {
    /// Records the open again after it was moved to another value.
    pub(crate) fn set_open(&self, open: &Arc<Open>) {
        self.registration.set_open(open);
    }
}

impl Drop for CreateRegistration {
    fn drop(&mut self) {
        let Some(open_table) = self.open_table.upgrade() else { return };
        let mut table = open_table.0.lock();
        if table.creates.get(&self.key).is_some_and(|created| created.number == self.number) {
            table.creates.remove(&self.key);
        }
    }
}
