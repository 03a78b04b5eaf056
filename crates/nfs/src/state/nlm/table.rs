//! Clients of the lock manager, with the locks they hold and wait for. The locks themselves are claims of the volume.

use crate::limits::{
    CLIENT_LOCK_WAITS_MAX, CLIENT_LOCKS_MAX, LOCK_HOST_UNRESPONSIVE_S, LOCK_HOSTS_MAX, LOCK_WAITS_MAX,
    LOCKS_MAX,
};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vfs::bounds::{Bounds, Full, Party, Slot};
use vfs::claims::{Access, Claims, HolderId, LockOwner, LockRequest, OpenId, Ticket};
use vfs::{ExportAccess, FileKey, Namespace, Volume, VolumeId};

pub(crate) struct State {
    pub(crate) hosts: HashMap<IpAddr, Host>,
    /// Clients by their holders in volumes' claims.
    holders: HashMap<(VolumeId, HolderId), IpAddr>,
    bounds: [Arc<Bounds>; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Hosts,
    /// Ranges and shares.
    Locks,
    Waits,
}

pub(crate) struct Host {
    /// The state number of its status monitor when it last locked something; 0 if it has none.
    pub(crate) monitor_state: u32,
    /// Start of the idle time.
    pub(crate) idle_since: Option<Instant>,
    pub(crate) volumes: HashMap<VolumeId, VolumeHolder>,
    owners: HashMap<OwnerName, u64>,
    names: HashMap<u64, Owner>,
    next_owner: u64,
    ranges: HashMap<RangeKey, usize>,
    /// Permissions of owners that hold or wait for ranges at files.
    admissions: HashMap<RangeKey, ExportAccess>,
    shares: Vec<Share>,
    pub(crate) waiting: Vec<WaitingLock>,
    _room: Slot,
    /// The room of its ranges and shares: one for each.
    locks: Slot,
    waits: Slot,
    /// When it has called last, or answered.
    pub(crate) last_seen: Instant,
    /// When it was asked last whether it is there, and since when it has not answered.
    pub(crate) last_probed: Option<Instant>,
    pub(crate) silent_since: Option<Instant>,
    /// Set once its locks and shares yield to others.
    pub(crate) has_lapsed: bool,
    /// The address by which it knows us.
    pub(crate) local: Option<IpAddr>,
}

/// A client as a holder of claims of one volume.
pub(crate) struct VolumeHolder {
    pub(crate) volume: Weak<Volume>,
    pub(crate) holder: HolderId,
}

/// A lock owner as a client names it: a process, and opaque bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OwnerName {
    pub(crate) svid: u32,
    pub(crate) oh: Box<[u8]>,
}

struct Owner {
    name: OwnerName,
    /// Files of which it holds ranges, and ranges that it waits for.
    uses: usize,
}

/// An owner's ranges at a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RangeKey {
    pub(crate) volume: VolumeId,
    pub(crate) file: FileKey,
    pub(crate) owner: u64,
}

/// A lock that a client waits for, or has been given and does not yet know of.
pub(crate) struct WaitingLock {
    pub(crate) key: RangeKey,
    pub(crate) ticket: Ticket,
    pub(crate) request: LockRequest,
    /// The arguments of the GRANTED call.
    pub(crate) grant_args: GrantArgs,
    /// `None`: it waits.
    pub(crate) granted: Option<UnconfirmedGrant>,
}

/// The words in which a client asked, which are those of the answer.
#[derive(Clone)]
pub(crate) struct GrantArgs {
    pub(crate) version: u32,
    pub(crate) local: IpAddr,
    pub(crate) caller_name: Box<[u8]>,
    pub(crate) handle: Box<[u8]>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A lock that is held and not yet confirmed.
pub(crate) struct UnconfirmedGrant {
    pub(crate) since: Instant,
    /// When the client is called again; `None` while it is being called.
    pub(crate) next_try: Option<Instant>,
    pub(crate) tries: u32,
}

pub(crate) struct Share {
    pub(crate) volume: VolumeId,
    pub(crate) file: FileKey,
    pub(crate) owner: Box<[u8]>,
    pub(crate) open: OpenId,
    pub(crate) access: Access,
    pub(crate) admission: ExportAccess,
}

impl State {
    /// The client, if it is known or there is room for another.
    pub(crate) fn admit(&mut self, client: IpAddr, party: &Party) -> Option<&mut Host> {
        if !self.hosts.contains_key(&client) {
            let room = self.bounds(Table::Hosts).take(party, 1).ok()?;
            let none = |table| self.bounds(table).force(party, 0);
            let host = Host::new(room, none(Table::Locks), none(Table::Waits));
            self.hosts.insert(client, host);
        }
        let host = self.hosts.get_mut(&client)?;
        host.mark_seen();
        Some(host)
    }

    /// A client has called, if it is known.
    pub(crate) fn mark_seen(&mut self, client: IpAddr) {
        if let Some(host) = self.hosts.get_mut(&client) {
            host.mark_seen();
        }
    }

    fn bounds(&self, table: Table) -> &Arc<Bounds> {
        &self.bounds[table as usize]
    }

    /// Whether a client may have another entry in a table.
    pub(crate) fn check_room(&self, client: IpAddr, party: &Party, table: Table) -> Result<(), Full> {
        let host = self.hosts.get(&client);
        let (own, most) = match table {
            Table::Hosts if host.is_some() => return Ok(()),
            Table::Hosts => (0, LOCK_HOSTS_MAX),
            Table::Locks => (host.map_or(0, |host| host.locks.weight()), CLIENT_LOCKS_MAX),
            Table::Waits => (host.map_or(0, |host| host.waiting.len()), CLIENT_LOCK_WAITS_MAX),
        };
        if own >= most { Err(Full::Principal) } else { self.bounds(table).take(party, 1).map(drop) }
    }

    /// Whether a client may hold another range or share.
    pub(crate) fn has_room_to_hold(&self, client: IpAddr, party: &Party) -> bool {
        self.check_room(client, party, Table::Locks).is_ok()
    }

    pub(crate) fn has_room_to_wait(&self, client: IpAddr, party: &Party) -> bool {
        self.check_room(client, party, Table::Waits).is_ok()
    }

    /// The client that has to go so that another one, of this party, may have an entry in a table which is full: one that holds
    /// nothing, or else the one that has been gone for longest. One that has much costs those nothing that have little.
    pub(crate) fn eviction_candidate(
        &self,
        client: IpAddr,
        party: &Party,
        table: Table,
        full: Full,
    ) -> Option<IpAddr> {
        let bounds = self.bounds(table);
        let is_in_the_way = |host: &Host| {
            let of = host.locks.party();
            let has_any = match table {
                Table::Hosts => true,
                Table::Locks => host.locks.weight() > 0,
                Table::Waits => !host.waiting.is_empty(),
            };
            has_any && (full == Full::All || of.network == party.network || bounds.is_large(of))
        };
        let others = self.hosts.iter().filter(|(other, _)| **other != client);
        let may_go = others.filter(|(_, host)| host.may_be_evicted() && is_in_the_way(host));
        // Idle clients first, then those silent for longest.
        may_go.min_by_key(|(_, host)| (!host.is_idle(), host.last_seen)).map(|(other, _)| *other)
    }

    /// The client as a holder in `volume`, attached by `attach` if it is none.
    pub(crate) fn holder(
        &mut self,
        client: IpAddr,
        party: &Party,
        volume: &Arc<Volume>,
        attach: impl FnOnce() -> HolderId,
    ) -> Option<HolderId> {
        if let Some(existing) = self.holder_in(client, volume) {
            return Some(existing);
        }
        // An earlier volume of this number is gone, with all its locks.
        self.forget_volume(client, volume.id());
        let holder = attach();
        let host = self.admit(client, party)?;
        host.volumes.insert(volume.id(), VolumeHolder { volume: Arc::downgrade(volume), holder });
        self.holders.insert((volume.id(), holder), client);
        Some(holder)
    }

    /// The client as a holder in `volume`, if it is one.
    pub(crate) fn holder_in(&self, client: IpAddr, volume: &Arc<Volume>) -> Option<HolderId> {
        let attached = self.hosts.get(&client)?.volumes.get(&volume.id())?;
        std::ptr::eq(attached.volume.as_ptr(), Arc::as_ptr(volume)).then_some(attached.holder)
    }

    /// The client's name for an owner; empty for owners of other protocols.
    pub(crate) fn owner_name(&self, volume: VolumeId, owner: LockOwner) -> OwnerName {
        let host = self.holders.get(&(volume, owner.holder)).and_then(|client| self.hosts.get(client));
        let existing = host.and_then(|host| host.names.get(&owner.owner));
        existing.map(|owner| owner.name.clone()).unwrap_or_default()
    }

    /// Notes how many ranges an owner has at a file by now, and forgets it if it has no use.
    pub(crate) fn settle(&mut self, client: IpAddr, claims: &Claims, holder: HolderId, key: RangeKey) {
        let owner = LockOwner { holder, owner: key.owner };
        let count = claims.ranges_of(&key.file, owner);
        let Some(host) = self.hosts.get_mut(&client) else { return };
        let before = match count {
            0 => host.ranges.remove(&key),
            _ => host.ranges.insert(key, count),
        };
        match (before, count) {
            (None, 1..) => host.add_uses(key.owner, 1),
            (Some(_), 0) => host.add_uses(key.owner, -1),
            _ => host.add_uses(key.owner, 0),
        }
        host.forget_admission(key);
        let before = before.unwrap_or(0);
        host.locks.set(host.locks.weight() + count - before);
    }

    /// Places of ranges and locks waited for that the exports of a namespace do not admit any longer, and shares. The client has
    /// neither from now on, as far as is known here.
    pub(crate) fn withdraw(&mut self, client: IpAddr, namespace: &Namespace) -> (Vec<RangeKey>, Vec<Share>) {
        let Some(host) = self.hosts.get_mut(&client) else { return Default::default() };
        let is_gone = |_: &RangeKey, admission: &mut ExportAccess| !namespace.admits(admission);
        let places = host.admissions.extract_if(is_gone).map(|(key, _)| key).collect();
        let is_gone = |share: &Share| !namespace.admits(&share.admission);
        let shares = std::iter::from_fn(|| self.remove_share(client, is_gone)).collect();
        (places, shares)
    }

    pub(crate) fn add_waiting(&mut self, client: IpAddr, waiting: WaitingLock) {
        let Some(host) = self.hosts.get_mut(&client) else { return };
        host.add_uses(waiting.key.owner, 1);
        host.waiting.push(waiting);
        host.waits.set(host.waiting.len());
    }

    /// Takes out the first lock that a client waits for, or has not confirmed, of which this is true.
    pub(crate) fn remove_waiting(
        &mut self,
        client: IpAddr,
        is_it: impl FnMut(&WaitingLock) -> bool,
    ) -> Option<WaitingLock> {
        let host = self.hosts.get_mut(&client)?;
        let at = host.waiting.iter().position(is_it)?;
        let removed = host.waiting.swap_remove(at);
        host.waits.set(host.waiting.len());
        host.add_uses(removed.key.owner, -1);
        Some(removed)
    }

    /// Removes a client. The caller ends its claims.
    pub(crate) fn remove(&mut self, client: IpAddr) -> Vec<(Arc<Volume>, HolderId)> {
        let Some(host) = self.hosts.remove(&client) else { return Vec::new() };
        for (volume, attached) in &host.volumes {
            self.holders.remove(&(*volume, attached.holder));
        }
        let holders = host.volumes.into_values();
        holders.filter_map(|attached| Some((attached.volume.upgrade()?, attached.holder))).collect()
    }

    fn forget_volume(&mut self, client: IpAddr, volume: VolumeId) {
        let Some(host) = self.hosts.get_mut(&client) else { return };
        let Some(attached) = host.volumes.remove(&volume) else { return };
        self.holders.remove(&(volume, attached.holder));
        host.admissions.retain(|key, _| key.volume != volume);
        let places: Vec<(RangeKey, usize)> = host.ranges.extract_if(|key, _| key.volume == volume).collect();
        for (key, count) in places {
            host.locks.set(host.locks.weight() - count);
            host.add_uses(key.owner, -1);
        }
        let waiting: Vec<WaitingLock> =
            host.waiting.extract_if(.., |waiting| waiting.key.volume == volume).collect();
        host.waits.set(host.waiting.len());
        waiting.iter().for_each(|waiting| host.add_uses(waiting.key.owner, -1));
        while self.remove_share(client, |share| share.volume == volume).is_some() {}
    }

    pub(crate) fn add_share(&mut self, client: IpAddr, share: Share) {
        let Some(host) = self.hosts.get_mut(&client) else { return };
        host.shares.push(share);
        host.locks.set(host.locks.weight() + 1);
    }

    /// Takes out the first share of a client of which this is true.
    pub(crate) fn remove_share(
        &mut self,
        client: IpAddr,
        is_it: impl FnMut(&Share) -> bool,
    ) -> Option<Share> {
        let host = self.hosts.get_mut(&client)?;
        let at = host.shares.iter().position(is_it)?;
        host.locks.set(host.locks.weight() - 1);
        Some(host.shares.swap_remove(at))
    }

    /// Drops the locks in volumes that are no longer served.
    pub(crate) fn forget_removed_volumes(&mut self) {
        let is_gone = |attached: &VolumeHolder| attached.volume.strong_count() == 0;
        let removed: Vec<(IpAddr, VolumeId)> = self
            .hosts
            .iter()
            .flat_map(|(client, host)| {
                let removed = host.volumes.iter().filter(|(_, attached)| is_gone(attached));
                removed.map(|(volume, _)| (*client, *volume))
            })
            .collect();
        removed.into_iter().for_each(|(client, volume)| self.forget_volume(client, volume));
    }

    /// The volume of a lock that a client waits for, and the client as a holder in it.
    pub(crate) fn volume_holder(&self, client: IpAddr, volume: VolumeId) -> Option<(Arc<Volume>, HolderId)> {
        let attached = self.hosts.get(&client)?.volumes.get(&volume)?;
        Some((attached.volume.upgrade()?, attached.holder))
    }
}

impl Default for State {
    fn default() -> Self {
        let bounds = [LOCK_HOSTS_MAX, LOCKS_MAX, LOCK_WAITS_MAX].map(|all| Bounds::new(all, 0));
        Self { hosts: HashMap::new(), holders: HashMap::new(), bounds }
    }
}

impl Host {
    fn new(room: Slot, locks: Slot, waits: Slot) -> Self {
        Self {
            monitor_state: 0,
            idle_since: None,
            volumes: HashMap::new(),
            owners: HashMap::new(),
            names: HashMap::new(),
            next_owner: 0,
            ranges: HashMap::new(),
            admissions: HashMap::new(),
            shares: Vec::new(),
            waiting: Vec::new(),
            _room: room,
            locks,
            waits,
            last_seen: Instant::now(),
            last_probed: None,
            silent_since: None,
            has_lapsed: false,
            local: None,
        }
    }

    /// Notes a call or an answer of the client.
    pub(crate) fn mark_seen(&mut self) {
        (self.last_seen, self.silent_since) = (Instant::now(), None);
        if std::mem::take(&mut self.has_lapsed) {
            self.holders().for_each(|(volume, holder)| volume.claims().renew(holder));
        }
    }

    /// The volumes in which it is a holder of claims.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (Arc<Volume>, HolderId)> {
        let attached = self.volumes.values();
        attached.filter_map(|attached| Some((attached.volume.upgrade()?, attached.holder)))
    }

    /// Whether it has not answered for so long.
    pub(crate) fn is_unresponsive_for(&self, seconds: u64, now: Instant) -> bool {
        let is_past = |since| now.saturating_duration_since(since) >= Duration::from_secs(seconds);
        self.silent_since.is_some_and(is_past)
    }

    /// Whether the client may be evicted: it has no locks, or does not respond.
    pub(crate) fn may_be_evicted(&self) -> bool {
        self.is_idle() || self.is_unresponsive_for(LOCK_HOST_UNRESPONSIVE_S, Instant::now())
    }

    /// The number of an owner. A new one is forgotten when nothing is settled for it.
    pub(crate) fn owner_number(&mut self, name: OwnerName) -> u64 {
        if let Some(&existing) = self.owners.get(&name) {
            return existing;
        }
        let number = self.next_owner;
        self.next_owner += 1;
        self.owners.insert(name.clone(), number);
        self.names.insert(number, Owner { name, uses: 0 });
        number
    }

    /// The number of an owner that holds or waits for something.
    pub(crate) fn known_owner_number(&self, name: &OwnerName) -> Option<u64> {
        self.owners.get(name).copied()
    }

    /// The name of an owner that holds or waits for something.
    pub(crate) fn name_of(&self, number: u64) -> Option<&OwnerName> {
        self.names.get(&number).map(|owner| &owner.name)
    }

    /// Notes the rule that admits an owner's range. An earlier `changes` stays set.
    pub(crate) fn admit(&mut self, key: RangeKey, admission: ExportAccess) {
        let changes = self.admissions.get(&key).is_some_and(|before| before.changes);
        self.admissions.insert(key, ExportAccess { changes: changes || admission.changes, ..admission });
    }

    /// Drops the admission of an owner without a range or wait at the file.
    pub(crate) fn forget_admission(&mut self, key: RangeKey) {
        let is_used = self.ranges.contains_key(&key) || self.waiting.iter().any(|waiting| waiting.key == key);
        if !is_used {
            self.admissions.remove(&key);
        }
    }

    /// Whether the client has no ranges, waits or shares.
    pub(crate) fn is_idle(&self) -> bool {
        self.ranges.is_empty() && self.waiting.is_empty() && self.shares.is_empty()
    }

    /// Adds uses to an owner, and drops it at zero.
    fn add_uses(&mut self, number: u64, change: isize) {
        let Some(owner) = self.names.get_mut(&number) else { return };
        owner.uses = owner.uses.saturating_add_signed(change);
        if owner.uses == 0
            && let Some(owner) = self.names.remove(&number)
        {
            self.owners.remove(&owner.name);
        }
    }
}

#[cfg(test)]
impl State {
    /// Replaces the bound of an empty table.
    pub(crate) fn bound(&mut self, table: Table, all: usize) {
        self.bounds[table as usize] = Bounds::new(all, 0);
    }

    #[track_caller]
    pub(crate) fn assert_empty(&self) {
        assert!(self.hosts.values().all(|host| host.volumes.is_empty()));
        assert!(self.holders.is_empty());
        self.assert_none_used();
    }

    #[track_caller]
    fn assert_none_used(&self) {
        assert_eq!([Table::Locks, Table::Waits].map(|table| self.bounds(table).used()), [0, 0]);
    }

    #[track_caller]
    pub(crate) fn assert_idle(&self) {
        self.assert_none_used();
        for host in self.hosts.values() {
            assert!(host.is_idle() && host.owners.is_empty() && host.names.is_empty());
            assert!(host.admissions.is_empty());
        }
    }
}
