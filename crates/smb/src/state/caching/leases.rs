//! The lease tables of all clients (MS-SMB2 §3.3.1.11, §3.3.1.12).

use super::breaks::{CacheGuard, Confidentiality};
use smb_wire::oplock::LeaseKey;
use smb_wire::{Guid, NtStatus};
use std::collections::HashMap;
use std::sync::Arc;
use vfs::claims::{self, Stream};
use vfs::sync::Mutex;
use vfs::{File, FileKey, VolumeId};

/// The owner of lease keys. The user is part of it, because `ClientGuid` is sent in the clear and can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseOwner {
    pub(crate) client_guid: Guid,
    pub(crate) uid: u32,
}

#[derive(Clone, Default)]
pub(crate) struct LeaseTables(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    last_client: u128,
    clients: HashMap<LeaseOwner, LeaseTable>,
    /// The last client that used a key, for each user.
    keys: HashMap<(u32, LeaseKey), LeaseOwner>,
}

struct LeaseTable {
    /// The client's number in the tables of claims.
    client: u128,
    leases: HashMap<LeaseKey, Lease>,
}

struct Lease {
    file: File,
    stream: Stream,
    /// Whether the lease is of version 2, which has an epoch. The first request decides (MS-SMB2 §3.3.5.9.11).
    has_epoch: bool,
    confidentiality: Confidentiality,
    /// Opens that have the lease, and CREATEs that request it.
    uses: usize,
}

/// A use of a lease, by an open or a CREATE. Until it is dropped, the key belongs to one file.
pub(crate) struct LeaseGuard {
    tables: LeaseTables,
    owner: LeaseOwner,
    key: LeaseKey,
    client: u128,
    has_epoch: bool,
    confidentiality: Confidentiality,
}

/// The lease or oplock of an open.
pub(crate) struct OpenCaching {
    lease: Option<LeaseGuard>,
    _guard: CacheGuard,
}

impl OpenCaching {
    pub(crate) fn new(lease: Option<LeaseGuard>, guard: CacheGuard) -> Self {
        Self { lease, _guard: guard }
    }

    pub(crate) fn is_lease(&self) -> bool {
        self.lease.is_some()
    }

    pub(crate) fn lease(&self) -> Option<&LeaseGuard> {
        self.lease.as_ref()
    }

    /// Moves the caching to another tree connect.
    pub(crate) fn with_guard(self, guard: CacheGuard) -> Self {
        Self { lease: self.lease, _guard: guard }
    }
}

impl LeaseTables {
    /// Adds a use of a lease on a stream of `file`. Fails for a key that belongs to another file (MS-SMB2 §3.3.5.9.8).
    pub(crate) fn acquire(
        &self,
        owner: LeaseOwner,
        key: LeaseKey,
        has_epoch: bool,
        file: &File,
        stream: Stream,
    ) -> Result<LeaseGuard, NtStatus> {
        let mut tables = self.0.lock();
        let Tables { last_client, clients, keys } = &mut *tables;
        let table = clients.entry(owner).or_insert_with(|| {
            *last_client += 1;
            LeaseTable { client: *last_client, leases: HashMap::new() }
        });
        let new = || Lease {
            file: file.clone(),
            stream,
            has_epoch,
            confidentiality: Confidentiality::default(),
            uses: 0,
        };
        let lease = table.leases.entry(key).or_insert_with(new);
        if file_id(&lease.file) != file_id(file) || lease.stream != stream {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        lease.uses += 1;
        keys.insert((owner.uid, key), owner);
        let (has_epoch, confidentiality) = (lease.has_epoch, lease.confidentiality.clone());
        Ok(LeaseGuard { tables: self.clone(), owner, key, client: table.client, has_epoch, confidentiality })
    }

    pub(crate) fn is_used(&self, owner: LeaseOwner, key: LeaseKey) -> bool {
        let tables = self.0.lock();
        tables.clients.get(&owner).is_some_and(|table| table.leases.contains_key(&key))
    }

    /// The claims' key of a client's lease. A lease of another client of the same user serves as well: keys alone are
    /// compared (MS-FSA §2.1.4.12.2), but not across users.
    pub(crate) fn claim_key_of(&self, owner: LeaseOwner, key: LeaseKey) -> Option<claims::LeaseKey> {
        let tables = self.0.lock();
        let has_it = |owner: &LeaseOwner| {
            tables.clients.get(owner).is_some_and(|table| table.leases.contains_key(&key))
        };
        let other = || tables.keys.get(&(owner.uid, key)).copied();
        let holder = if has_it(&owner) { owner } else { other().unwrap_or(owner) };
        let client = tables.clients.get(&holder)?.client;
        Some(claims::LeaseKey::Shared { client, key: u128::from_le_bytes(key.0) })
    }

    pub(crate) fn find(&self, owner: LeaseOwner, key: LeaseKey) -> Option<(File, Stream, claims::LeaseKey)> {
        let tables = self.0.lock();
        let table = tables.clients.get(&owner)?;
        let lease = table.leases.get(&key)?;
        let shared = claims::LeaseKey::Shared { client: table.client, key: u128::from_le_bytes(key.0) };
        Some((lease.file.clone(), lease.stream, shared))
    }
}

impl LeaseGuard {
    pub(crate) fn key(&self) -> LeaseKey {
        self.key
    }

    /// Whether the lease is of version 2, whichever version a later request has.
    pub(crate) fn has_epoch(&self) -> bool {
        self.has_epoch
    }

    pub(crate) fn confidentiality(&self) -> &Confidentiality {
        &self.confidentiality
    }

    pub(crate) fn claim_kind(&self) -> claims::LeaseKind {
        claims::LeaseKind::Shared { client: self.client, key: u128::from_le_bytes(self.key.0) }
    }

    pub(crate) fn claim_key(&self) -> claims::LeaseKey {
        claims::LeaseKey::Shared { client: self.client, key: u128::from_le_bytes(self.key.0) }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let mut tables = self.tables.0.lock();
        let Tables { clients, keys, .. } = &mut *tables;
        let Some(table) = clients.get_mut(&self.owner) else { return };
        let Some(lease) = table.leases.get_mut(&self.key) else { return };
        lease.uses -= 1;
        let ended = if lease.uses == 0 { table.leases.remove(&self.key) } else { None };
        let name = (self.owner.uid, self.key);
        if ended.is_some() && keys.get(&name) == Some(&self.owner) {
            keys.remove(&name);
        }
        if table.leases.is_empty() {
            clients.remove(&self.owner);
        }
        drop(tables);
        drop(ended);
    }
}

fn file_id(file: &File) -> (VolumeId, FileKey) {
    (file.volume().id(), file.key())
}
