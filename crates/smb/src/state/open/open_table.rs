//! Opens that outlive their connections, and CREATEs that come twice (MS-SMB2 §3.3.1.4, §3.3.1.10, §3.3.7.1).
//!
//! An open without a session stays here until its client comes back, until something conflicts with it, or until its time is over:
//! the last two are for the table of claims to say, which keeps it as disconnected. What it has given away is looked for once a
//! second.

use super::Open;
use crate::limits::{DISCONNECTED_MAX, DISCONNECTED_OF_USER_MAX, most_of_user};
use crate::state::caching::leases::LeaseOwner;
use crate::state::counters::decrement;
use smb_wire::create::CreateAction;
use smb_wire::{Guid, NtStatus};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;

/// Opens without a session, and CREATEs by the names that clients give them.
#[derive(Default)]
pub(crate) struct OpenTable(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By the persistent half of their ids.
    disconnected: HashMap<u64, Arc<Open>>,
    /// How many of them each user has.
    of_users: HashMap<u32, usize>,
    creates: HashMap<CreationKey, CreateEntry>,
    last_create: u64,
}

type CreationKey = (LeaseOwner, Guid);

/// What became of a CREATE with a `CreateGuid`.
struct CreateEntry {
    /// Tells it from another one by the same name.
    number: u64,
    /// The open, once there is one.
    open: Option<Weak<Open>>,
}

/// A CREATE with a `CreateGuid`, and the open that came of it: known as long as this is there.
pub(crate) struct CreateRegistration {
    /// Where it is known, which has the open as well.
    open_table: Weak<OpenTable>,
    key: CreationKey,
    number: u64,
}

/// A CREATE with a `CreateGuid` that was made known.
pub(crate) enum CreateReplay {
    /// It is the first.
    New(CreateRegistration),
    /// It was done before, and this is what came of it.
    Existing(Arc<Open>),
}

/// What an open keeps of the CREATE it came of.
pub(crate) struct CreateIdentity {
    pub(crate) action: CreateAction,
    registration: CreateRegistration,
}

impl OpenTable {
    /// Makes a CREATE known. One that is known already must say that it is sent again (MS-SMB2 §3.3.5.9.10), and is not to be while
    /// the first is under way.
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
            // Otherwise it is being closed.
            if is_pending || open.is_some() {
                // Who is the last to have it closes it, for which the table has to be free.
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

    /// Keeps an open that has lost its session or tree connect. It comes back if it does not outlive that, or there is no room.
    pub(crate) fn add_disconnected(&self, open: Arc<Open>) -> Result<(), Arc<Open>> {
        let Some(durable) = open.durable().filter(|durable| open.disconnect(*durable)) else {
            return Err(open);
        };
        let mut table = self.0.lock();
        let Table { disconnected, of_users, .. } = &mut *table;
        let of_user = of_users.get(&durable.owner.uid).copied().unwrap_or_default();
        let others = disconnected.len().saturating_sub(of_user);
        let of_user_max = most_of_user(DISCONNECTED_OF_USER_MAX, DISCONNECTED_MAX, others);
        let is_full = disconnected.len() >= DISCONNECTED_MAX || of_user >= of_user_max;
        // How many of the others there are is bounded where they are made.
        if is_full && !durable.is_persistent {
            return Err(open);
        }
        let Entry::Vacant(entry) = disconnected.entry(open.id.persistent) else { return Err(open) };
        entry.insert(open);
        of_users.insert(durable.owner.uid, of_user + 1);
        Ok(())
    }

    /// Has an open from before a restart wait for its client.
    pub(crate) fn add_restored(&self, open: Arc<Open>) {
        let mut table = self.0.lock();
        if let Some(durable) = open.durable() {
            *table.of_users.entry(durable.owner.uid).or_default() += 1;
            table.disconnected.insert(open.id.persistent, open);
        }
    }

    /// Whether an open waits for its client.
    pub(crate) fn is_disconnected(&self, persistent: u64) -> bool {
        self.0.lock().disconnected.contains_key(&persistent)
    }

    /// The persistent half of the id of an open, by the name that its client gave the CREATE.
    pub(crate) fn find_by_guid(&self, owner: LeaseOwner, create_guid: Guid) -> Option<u64> {
        let table = self.0.lock();
        let open = table.creates.get(&(owner, create_guid))?.open.as_ref()?.upgrade();
        // Who is the last to have it closes it, for which the table has to be free.
        drop(table);
        open.map(|open| open.id.persistent)
    }

    /// Takes an open without a session out, for its client that is back and passes `check`.
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
        // Until it is another value, what its CREATE has made is not known: a repetition of that is put off.
        if let Some(CreateIdentity { registration: creation, .. }) = open.create_identity()
            && let Some(created) = table.creates.get_mut(&creation.key)
            && created.number == creation.number
        {
            created.open = None;
        }
        Ok(open)
    }

    /// Lets those go that are lost, or are like this.
    pub(crate) fn close_expired(&self, is_over: impl Fn(&Open) -> bool) {
        let mut table = self.0.lock();
        let over = |_: &u64, open: &mut Arc<Open>| open.is_lost() || is_over(open);
        let expired: Vec<Arc<Open>> = table.disconnected.extract_if(over).map(|(_, open)| open).collect();
        expired.iter().for_each(|open| table.uncount(open));
        drop(table);
        expired.iter().for_each(|open| open.close());
    }
}

/// Why an open could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeError {
    Refused(NtStatus),
    /// Requests of the connection that is gone are still being done.
    Busy,
}

impl Table {
    fn uncount(&mut self, open: &Open) {
        let Some(durable) = open.durable() else { return };
        decrement(&mut self.of_users, durable.owner.uid);
    }
}

impl CreateRegistration {
    /// Notes what came of it.
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
    /// The open is another value by now.
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
