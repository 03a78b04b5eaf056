//! Leases by their keys: of which file each is, for all sessions and connections of a client (MS-SMB2 §3.3.1.11, §3.3.1.12).

use super::breaks::{CacheUse, Secret};
use smb_wire::oplock::LeaseKey;
use smb_wire::{Guid, NtStatus};
use std::collections::HashMap;
use std::sync::Arc;
use vfs::claims::{self, Stream};
use vfs::sync::Mutex;
use vfs::{File, FileKey, VolumeId};

/// Whose leases those are with the same keys. `ClientGuid` alone would be anybody's who has seen it: it is sent in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lessee {
    pub(crate) client_guid: Guid,
    pub(crate) uid: u32,
}

/// `GlobalLeaseTableList`.
#[derive(Clone, Default)]
pub(crate) struct LeaseTables(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    last_client: u128,
    clients: HashMap<Lessee, LeaseTable>,
    /// Whose the leases of a user's clients are, by their keys: of one that several have, whoever had it last.
    keys: HashMap<(u32, LeaseKey), Lessee>,
}

/// `LeaseTable`.
struct LeaseTable {
    /// The client to the tables of claims.
    client: u128,
    leases: HashMap<LeaseKey, Lease>,
}

struct Lease {
    file: File,
    stream: Stream,
    /// Of the second version, which counts how often it has changed. It stays what it was first (MS-SMB2 §3.3.5.9.11).
    has_epoch: bool,
    secret: Secret,
    /// Opens that have it, and CREATEs that ask for it.
    uses: usize,
}

/// That somebody has a lease, or asks for it: as long as this is there, its key is that of one file.
pub(crate) struct LeaseUse {
    tables: LeaseTables,
    lessee: Lessee,
    key: LeaseKey,
    client: u128,
    has_epoch: bool,
    secret: Secret,
}

/// What an open's client may cache, as long as the open is there.
pub(crate) struct Cached {
    lease: Option<LeaseUse>,
    _told: CacheUse,
}

impl Cached {
    pub(crate) fn new(lease: Option<LeaseUse>, told: CacheUse) -> Self {
        Self { lease, _told: told }
    }

    /// Whether it is a lease, not an oplock.
    pub(crate) fn is_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// The lease, if it is one.
    pub(crate) fn lease(&self) -> Option<&LeaseUse> {
        self.lease.as_ref()
    }

    /// The same for another tree connect, whose client is told by `told`.
    pub(crate) fn moved(self, told: CacheUse) -> Self {
        Self { lease: self.lease, _told: told }
    }
}

impl LeaseTables {
    /// Makes use of a lease on a stream of `file`. A key that is another file's is refused (MS-SMB2 §3.3.5.9.8).
    pub(crate) fn take(
        &self,
        lessee: Lessee,
        (key, has_epoch): (LeaseKey, bool),
        file: &File,
        stream: Stream,
    ) -> Result<LeaseUse, NtStatus> {
        let mut tables = self.0.lock();
        let Tables { last_client, clients, keys } = &mut *tables;
        let table = clients.entry(lessee).or_insert_with(|| {
            *last_client += 1;
            LeaseTable { client: *last_client, leases: HashMap::new() }
        });
        let new = || Lease { file: file.clone(), stream, has_epoch, secret: Secret::default(), uses: 0 };
        let lease = table.leases.entry(key).or_insert_with(new);
        if place(&lease.file) != place(file) || lease.stream != stream {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        lease.uses += 1;
        keys.insert((lessee.uid, key), lessee);
        let (has_epoch, secret) = (lease.has_epoch, lease.secret.clone());
        Ok(LeaseUse { tables: self.clone(), lessee, key, client: table.client, has_epoch, secret })
    }

    /// Whether a lease has this key.
    pub(crate) fn is_used(&self, lessee: Lessee, key: LeaseKey) -> bool {
        let tables = self.0.lock();
        tables.clients.get(&lessee).is_some_and(|table| table.leases.contains_key(&key))
    }

    /// What the table of claims knows a client's lease by; `None` of who has none. One of another client of the same user is as good:
    /// keys alone are compared (MS-FSA §2.1.4.12.2), but those of other users are nobody's business.
    pub(crate) fn key_of(&self, lessee: Lessee, key: LeaseKey) -> Option<claims::LeaseKey> {
        let tables = self.0.lock();
        let has_it =
            |lessee: &Lessee| tables.clients.get(lessee).is_some_and(|table| table.leases.contains_key(&key));
        let other = || tables.keys.get(&(lessee.uid, key)).copied();
        let holder = if has_it(&lessee) { lessee } else { other().unwrap_or(lessee) };
        let client = tables.clients.get(&holder)?.client;
        Some(claims::LeaseKey::Shared { client, key: u128::from_le_bytes(key.0) })
    }

    /// Which file a lease is of, and what the table of claims knows it by.
    pub(crate) fn find(&self, lessee: Lessee, key: LeaseKey) -> Option<(File, Stream, claims::LeaseKey)> {
        let tables = self.0.lock();
        let table = tables.clients.get(&lessee)?;
        let lease = table.leases.get(&key)?;
        let shared = claims::LeaseKey::Shared { client: table.client, key: u128::from_le_bytes(key.0) };
        Some((lease.file.clone(), lease.stream, shared))
    }
}

impl LeaseUse {
    /// Its key.
    pub(crate) fn key(&self) -> LeaseKey {
        self.key
    }

    /// Whether it is of the second version, whichever is asked for.
    pub(crate) fn has_epoch(&self) -> bool {
        self.has_epoch
    }

    /// Whether it was asked for in secret, through whatever share.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// What the table of claims knows the lease by.
    pub(crate) fn kind(&self) -> claims::LeaseKind {
        claims::LeaseKind::Shared { client: self.client, key: u128::from_le_bytes(self.key.0) }
    }

    /// The same, as the name of the lease.
    pub(crate) fn shared(&self) -> claims::LeaseKey {
        claims::LeaseKey::Shared { client: self.client, key: u128::from_le_bytes(self.key.0) }
    }
}

impl Drop for LeaseUse {
    fn drop(&mut self) {
        let mut tables = self.tables.0.lock();
        let Tables { clients, keys, .. } = &mut *tables;
        let Some(table) = clients.get_mut(&self.lessee) else { return };
        let Some(lease) = table.leases.get_mut(&self.key) else { return };
        lease.uses -= 1;
        let gone = if lease.uses == 0 { table.leases.remove(&self.key) } else { None };
        let name = (self.lessee.uid, self.key);
        if gone.is_some() && keys.get(&name) == Some(&self.lessee) {
            keys.remove(&name);
        }
        if table.leases.is_empty() {
            clients.remove(&self.lessee);
        }
        drop(tables);
        drop(gone);
    }
}

fn place(file: &File) -> (VolumeId, FileKey) {
    (file.volume().id(), file.key())
}
