//! The state of one client, by stateid.
//!
//! A stateid's `other` contains the client id, the index in this table, and the generation of that entry. So a stateid
//! of another client or of an earlier use finds nothing.

use super::copies::{CopyProgress, CopyState};
use super::delegations::{DelegationState, VolumeFile};
use super::v40::sequence::Sequence;
use super::waiting::WaitingLock;
use crate::limits::{CLIENT_COPIES_MAX, CLIENT_RANGES_MAX, CLIENT_STATES_MAX};
use nfs_wire::v4::{ClientId, Stateid, Status};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use vfs::bounds::Slot;
use vfs::claims::{Access, HolderId, LockOwner, OpenId, Rights};
use vfs::{Export, ExportAccess, ExportId, FileKey, Namespace, OpenFile, Origin, Volume, VolumeId};

/// A file as reached through an export.
pub(crate) type FileId = (ExportId, FileKey);

pub(crate) struct StateTable {
    /// The first eight bytes of every stateid.
    pub(super) prefix: u64,
    entries: Vec<TableEntry>,
    free: Vec<u32>,
    opens: HashMap<(Box<[u8]>, FileId), u32>,
    /// The lock owners that have a state: their numbers, as claims know them, and how many states by number.
    lock_owners: HashMap<Box<[u8]>, u64>,
    lock_owner_uses: HashMap<u64, LockOwnerUse>,
    lock_owners_seen: u64,
    states: usize,
    ranges: usize,
    holders: HashMap<VolumeId, VolumeHolder>,
    pub(super) delegations: HashMap<VolumeFile, u32>,
    pub(super) revoked: usize,
    /// Numbers of other revoked states: after the lease, and by export rules.
    expired: usize,
    withdrawn: usize,
    copies: Vec<u32>,
    pub(super) waiting: Vec<WaitingLock>,
    /// Set when the client has ended: no state is accepted.
    has_ended: bool,
}

struct LockOwnerUse {
    name: Box<[u8]>,
    states: u32,
    /// The sequence of its requests in 4.0.
    sequence: Sequence,
}

/// The holder of a client in the claims of a volume.
pub(crate) struct VolumeHolder {
    pub(crate) id: HolderId,
    /// An export of the volume, which keeps it alive.
    pub(crate) export: Arc<Export>,
}

#[derive(Default)]
struct TableEntry {
    generation: u8,
    sequence: u32,
    state: Option<State>,
    slot: Option<Slot>,
}

pub(crate) enum State {
    Open(OpenState),
    /// The byte ranges of an owner in an open file.
    Lock(LockState),
    Delegation(DelegationState),
    Copy(CopyState),
    /// Revoked after the lease ended. The client has to free it (RFC 8881 §8.4.2.4).
    Expired,
    /// Revoked by export rules.
    Withdrawn,
}

pub(crate) struct OpenState {
    pub(crate) owner: Box<[u8]>,
    pub(crate) file: FileId,
    pub(crate) opened: Arc<OpenFile<'static>>,
    pub(crate) claim: OpenId,
    pub(crate) access: Access,
    /// Address from which the client has opened it.
    pub(crate) origin: Origin,
    pub(crate) locks: Vec<u32>,
    /// The pairs of access and deny that were opened, a bit each: only to these a downgrade leads (RFC 8881 §18.18.3).
    pub(crate) pairs: u16,
}

/// A loss of a client, as the claims of the volume know it.
pub(super) enum WithdrawnClaim {
    Open(Arc<OpenFile<'static>>, OpenId),
    Delegation(Arc<Export>, FileKey, HolderId),
}

impl OpenState {
    /// Whether the export still lets the client have it open so.
    fn is_admitted(&self, namespace: &Namespace) -> bool {
        let changes = self.access.rights.contains(Rights::WRITE) || !self.access.deny.is_none();
        let incarnation = self.opened.file().volume().incarnation();
        namespace.admits(&ExportAccess { export: self.file.0, incarnation, origin: self.origin, changes })
    }
}

/// The byte ranges of a lock owner in an open file.
pub(crate) struct LockState {
    pub(crate) open: u32,
    pub(crate) owner: LockOwner,
    /// The room that its ranges take: for each of them.
    pub(crate) ranges: Slot,
}

/// A stateid has 24 bits for the index.
const _: () = assert!(CLIENT_STATES_MAX < 1 << 24);

impl StateTable {
    /// A table of the client with this number, which begins every stateid.
    pub(crate) fn new(client: ClientId) -> Self {
        Self {
            prefix: client,
            entries: Vec::new(),
            free: Vec::new(),
            opens: HashMap::new(),
            lock_owners: HashMap::new(),
            lock_owner_uses: HashMap::new(),
            lock_owners_seen: 0,
            states: 0,
            ranges: 0,
            holders: HashMap::new(),
            delegations: HashMap::new(),
            revoked: 0,
            expired: 0,
            withdrawn: 0,
            waiting: Vec::new(),
            has_ended: false,
            copies: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() + self.ended_copies() + self.expired + self.withdrawn == self.entries.len()
    }

    /// Keeps a state in the room that was taken for it: its place.
    pub(crate) fn insert(&mut self, state: State, slot: Slot) -> Result<u32, Status> {
        if self.has_ended {
            return Err(Status::DELAY);
        }
        self.count_state()?;
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(TableEntry::default());
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        if let State::Open(open) = &state {
            self.opens.insert((open.owner.clone(), open.file), index);
        }
        if let State::Lock(lock) = &state
            && let Ok(open) = self.open_mut(lock.open)
        {
            open.locks.push(index);
        }
        if let State::Delegation(delegation) = &state {
            self.delegations.insert((delegation.volume, delegation.file.1), index);
        }
        let entry = &mut self.entries[index as usize];
        (entry.sequence, entry.state, entry.slot) = (1, Some(state), Some(slot));
        Ok(index)
    }

    /// Counts a state, if the client may have another one.
    pub(super) fn count_state(&mut self) -> Result<(), Status> {
        if self.states >= CLIENT_STATES_MAX {
            return Err(Status::DELAY);
        }
        self.states += 1;
        Ok(())
    }

    pub(super) fn discount_states(&mut self, count: usize) {
        self.states -= count;
    }

    /// The place of a stateid that is current, RFC 8881 §8.2.4. A sequence number of 0 means the newest.
    pub(crate) fn find(&self, stateid: &Stateid) -> Result<u32, Status> {
        let index = self.index_of(stateid).ok_or(Status::BAD_STATEID)?;
        let entry = &self.entries[index as usize];
        if matches!(&entry.state, Some(State::Delegation(delegation)) if delegation.is_revoked) {
            return Err(Status::DELEG_REVOKED);
        }
        if matches!(&entry.state, Some(State::Expired)) {
            return Err(Status::EXPIRED);
        }
        if matches!(&entry.state, Some(State::Withdrawn)) {
            return Err(Status::ADMIN_REVOKED);
        }
        match stateid.seqid {
            0 => Ok(index),
            sequence if sequence == entry.sequence => Ok(index),
            sequence if sequence.wrapping_sub(entry.sequence) < u32::MAX / 2 => Err(Status::BAD_STATEID),
            _ => Err(Status::OLD_STATEID),
        }
    }

    /// The index of a stateid, ignoring its sequence number.
    pub(crate) fn index_of(&self, stateid: &Stateid) -> Option<u32> {
        let (prefix, index, generation) = parts(stateid);
        let entry = self.entries.get(index as usize)?;
        let is_it = entry.state.is_some() && entry.generation == generation && prefix == self.prefix;
        is_it.then_some(index)
    }

    pub(crate) fn client_of(stateid: &Stateid) -> ClientId {
        parts(stateid).0
    }

    pub(super) fn state(&self, index: u32) -> Option<&State> {
        self.entries.get(index as usize)?.state.as_ref()
    }

    pub(super) fn state_mut(&mut self, index: u32) -> Option<&mut State> {
        self.entries.get_mut(index as usize)?.state.as_mut()
    }

    pub(crate) fn open(&self, index: u32) -> Result<&OpenState, Status> {
        match self.state(index) {
            Some(State::Open(open)) => Ok(open),
            _ => Err(Status::BAD_STATEID),
        }
    }

    pub(crate) fn open_mut(&mut self, index: u32) -> Result<&mut OpenState, Status> {
        match self.state_mut(index) {
            Some(State::Open(open)) => Ok(open),
            _ => Err(Status::BAD_STATEID),
        }
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.opens.len(), self.ranges)
    }

    pub(crate) fn has_room_for_range(&self) -> bool {
        self.ranges < CLIENT_RANGES_MAX
    }

    /// Sets the number of byte ranges of a lock state.
    pub(crate) fn count_ranges(&mut self, index: u32, now: usize) {
        let entry = self.entries.get_mut(index as usize);
        if let Some(State::Lock(lock)) = entry.and_then(|entry| entry.state.as_mut()) {
            self.ranges = self.ranges + now - lock.ranges.weight();
            lock.ranges.set(now);
        }
    }

    pub(crate) fn lock(&self, index: u32) -> Result<&LockState, Status> {
        match self.state(index) {
            Some(State::Lock(lock)) => Ok(lock),
            _ => Err(Status::BAD_STATEID),
        }
    }

    /// The open file that a stateid of either kind is of.
    pub(crate) fn open_of(&self, index: u32) -> Result<&OpenState, Status> {
        match self.state(index) {
            Some(State::Open(open)) => Ok(open),
            Some(State::Lock(lock)) => self.open(lock.open),
            Some(State::Delegation(_) | State::Copy(_) | State::Expired | State::Withdrawn) | None => {
                Err(Status::BAD_STATEID)
            }
        }
    }

    pub(crate) fn open_by(&self, owner: &[u8], file: FileId) -> Option<u32> {
        self.opens.get(&(Box::from(owner), file)).copied()
    }

    pub(crate) fn file(&self, id: FileId) -> Option<vfs::File> {
        let (_, &index) = self.opens.iter().find(|((_, file), _)| *file == id)?;
        self.open(index).ok().map(|open| open.opened.file().clone())
    }

    pub(crate) fn lock_by(&self, open: u32, owner: LockOwner) -> Option<u32> {
        self.locks_of(open).find(|(_, lock)| lock.owner == owner).map(|(index, _)| index)
    }

    pub(crate) fn locks_of(&self, open: u32) -> impl Iterator<Item = (u32, &LockState)> {
        let locks = self.open(open).map_or(&[][..], |open| &open.locks);
        locks.iter().filter_map(|&index| self.lock(index).ok().map(|lock| (index, lock)))
    }

    pub(crate) fn locks_by(&self, owner: u64) -> impl Iterator<Item = (u32, &LockState)> {
        (0..).zip(&self.entries).filter_map(move |(index, entry)| match &entry.state {
            Some(State::Lock(lock)) if lock.owner.owner == owner => Some((index, lock)),
            _ => None,
        })
    }

    /// The current stateid at an index.
    pub(crate) fn stateid(&self, index: u32) -> Stateid {
        let entry = &self.entries[index as usize];
        let mut other = [0; 12];
        other[..8].copy_from_slice(&self.prefix.to_be_bytes());
        other[8..].copy_from_slice(&(index << 8 | u32::from(entry.generation)).to_be_bytes());
        Stateid { seqid: entry.sequence, other }
    }

    /// The stateid at an index after a change.
    pub(crate) fn advance(&mut self, index: u32) -> Stateid {
        let entry = &mut self.entries[index as usize];
        // The sequence number 0 is reserved (RFC 8881 §8.2.2).
        entry.sequence = entry.sequence.wrapping_add(1).max(1);
        self.stateid(index)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<State> {
        let state = self.detach(index)?;
        let entry = &mut self.entries[index as usize];
        // Makes earlier stateids of this entry invalid.
        entry.generation = entry.generation.wrapping_add(1);
        entry.slot = None;
        self.free.push(index);
        self.states -= 1;
        Some(state)
    }

    /// Takes a state out of its place, and all that leads to it.
    fn detach(&mut self, index: u32) -> Option<State> {
        let state = self.entries[index as usize].state.take()?;
        match &state {
            State::Open(open) => {
                self.opens.remove(&(open.owner.clone(), open.file));
                self.stop_waiting(|lock| lock.open == index);
            }
            State::Lock(lock) => {
                self.ranges -= lock.ranges.weight();
                if let Ok(open) = self.open_mut(lock.open) {
                    open.locks.retain(|&other| other != index);
                }
                self.release_lock_owner(lock.owner.owner);
            }
            State::Expired => self.expired -= 1,
            State::Withdrawn => self.withdrawn -= 1,
            State::Copy(_) => self.copies.retain(|&copy| copy != index),
            State::Delegation(delegation) if delegation.is_revoked => self.revoked -= 1,
            State::Delegation(delegation) => {
                self.delegations.remove(&(delegation.volume, delegation.file.1));
            }
        }
        Some(state)
    }

    /// Revokes opens and their locks. The stateids report this until the client frees them.
    pub(super) fn expire(&mut self, revoked: &HashSet<(VolumeId, OpenId)>) {
        let is_revoked = |entry: &TableEntry| match &entry.state {
            Some(State::Open(open)) => revoked.contains(&(open.opened.file().volume().id(), open.claim)),
            _ => false,
        };
        let opens: Vec<u32> =
            (0..).zip(&self.entries).filter(|(_, entry)| is_revoked(entry)).map(|(index, _)| index).collect();
        for index in self.with_locks(opens) {
            if self.detach(index).is_some() {
                self.entries[index as usize].state = Some(State::Expired);
                self.expired += 1;
            }
        }
    }

    /// These opens, each after its locks.
    fn with_locks(&self, opens: Vec<u32>) -> Vec<u32> {
        let locks_and_open =
            |open| self.locks_of(open).map(|(lock, _)| lock).chain([open]).collect::<Vec<_>>();
        opens.into_iter().flat_map(locks_and_open).collect()
    }

    /// Revokes the states that the namespace's rules no longer admit. Returns the claims to end. If the client `frees`
    /// states, the stateids report this until then.
    pub(super) fn withdraw(&mut self, namespace: &Namespace, frees: bool) -> Vec<WithdrawnClaim> {
        let opens =
            self.indices_of(|state| matches!(state, State::Open(open) if !open.is_admitted(namespace)));
        let delegations =
            self.indices_of(|state| matches!(state, State::Delegation(has) if !has.is_admitted(namespace)));
        let mut ended = Vec::new();
        for index in self.with_locks(opens) {
            if let Some(State::Open(open)) = self.withdraw_entry(index, frees) {
                ended.push(WithdrawnClaim::Open(open.opened, open.claim));
            }
        }
        for index in delegations {
            let Ok(DelegationState { volume, file, .. }) = self.delegation(index) else { continue };
            let file = (*volume, file.1);
            if frees {
                self.revoke(&file);
            } else {
                self.remove(index);
            }
            if let Some(holding) = self.holders.get(&file.0) {
                ended.push(WithdrawnClaim::Delegation(Arc::clone(&holding.export), file.1, holding.id));
            }
        }
        ended
    }

    /// Removes the holders of volumes that are no longer served, or were opened again since.
    pub(super) fn take_unserved(&mut self, namespace: &Namespace) -> Vec<VolumeHolder> {
        self.holders.extract_if(|_, holding| !namespace.serves(&holding.export)).map(|(_, one)| one).collect()
    }

    fn withdraw_entry(&mut self, index: u32, frees: bool) -> Option<State> {
        if !frees {
            return self.remove(index);
        }
        let state = self.detach(index)?;
        self.entries[index as usize].state = Some(State::Withdrawn);
        self.withdrawn += 1;
        Some(state)
    }

    fn indices_of(&self, is_it: impl Fn(&State) -> bool) -> Vec<u32> {
        let is_of = |entry: &TableEntry| entry.state.as_ref().is_some_and(&is_it);
        (0..).zip(&self.entries).filter(|(_, entry)| is_of(entry)).map(|(index, _)| index).collect()
    }

    /// Whether there are states revoked by export rules that the client has not freed.
    pub(super) fn has_withdrawn(&self) -> bool {
        self.withdrawn > 0
    }

    /// Whether there are expired states that the client has not freed.
    pub(super) fn has_expired(&self) -> bool {
        self.expired > 0
    }

    /// The number of a lock owner in claims: a new one if it has no state.
    pub(crate) fn lock_owner(&mut self, name: &[u8]) -> u64 {
        self.lock_owners.get(name).copied().unwrap_or_else(|| {
            self.lock_owners_seen += 1;
            self.lock_owners_seen
        })
    }

    /// Keeps the locks of an owner in an open file: their place.
    pub(crate) fn insert_lock(&mut self, lock: LockState, name: &[u8], slot: Slot) -> Result<u32, Status> {
        let number = lock.owner.owner;
        let ranges = lock.ranges.weight();
        let index = self.insert(State::Lock(lock), slot)?;
        self.ranges += ranges;
        self.use_lock_owner(number, name);
        Ok(index)
    }

    /// Adds a state of a lock owner.
    pub(super) fn use_lock_owner(&mut self, number: u64, name: &[u8]) {
        self.lock_owners.insert(name.into(), number);
        let new = || LockOwnerUse { name: name.into(), states: 0, sequence: Sequence::default() };
        self.lock_owner_uses.entry(number).or_insert_with(new).states += 1;
    }

    pub(super) fn release_lock_owner(&mut self, number: u64) {
        let Entry::Occupied(mut used) = self.lock_owner_uses.entry(number) else { return };
        used.get_mut().states -= 1;
        if used.get().states == 0 {
            self.lock_owners.remove(&used.remove().name);
        }
    }

    pub(crate) fn lock_owner_name(&self, number: u64) -> Option<&[u8]> {
        self.lock_owner_uses.get(&number).map(|owner| &*owner.name)
    }

    /// The number of a lock owner that has a state.
    pub(crate) fn known_lock_owner(&self, name: &[u8]) -> Option<u64> {
        self.lock_owners.get(name).copied()
    }

    /// The requests of a lock owner that has a state, in 4.0.
    pub(crate) fn lock_sequence(&mut self, number: u64) -> Option<&mut Sequence> {
        self.lock_owner_uses.get_mut(&number).map(|owner| &mut owner.sequence)
    }

    /// Keeps a copy: its stateid. Those that have ended make room for it.
    pub(crate) fn insert_copy(
        &mut self,
        progress: &Arc<CopyProgress>,
        slot: Slot,
    ) -> Result<Stateid, Status> {
        if self.copies.len() >= CLIENT_COPIES_MAX {
            let oldest = self.copies.iter().copied().find(|&index| self.copy_has_ended(index));
            self.remove(oldest.ok_or(Status::DELAY)?);
        }
        let index = self.insert(State::Copy(CopyState(Arc::clone(progress))), slot)?;
        self.copies.push(index);
        Ok(self.stateid(index))
    }

    pub(crate) fn copy(&self, stateid: &Stateid) -> Result<(u32, &CopyProgress), Status> {
        let index = self.find(stateid)?;
        match self.state(index) {
            Some(State::Copy(copy)) => Ok((index, &copy.0)),
            _ => Err(Status::BAD_STATEID),
        }
    }

    fn ended_copies(&self) -> usize {
        self.copies.iter().filter(|&&index| self.copy_has_ended(index)).count()
    }

    fn copy_has_ended(&self, index: u32) -> bool {
        matches!(self.state(index), Some(State::Copy(copy)) if copy.0.ended().is_some())
    }

    /// The client's holder in the claims of a volume. An earlier opening of the volume had other claims.
    pub(crate) fn holder(&self, volume: &Volume) -> Option<HolderId> {
        let holding = self.holders.get(&volume.id())?;
        (holding.export.volume.incarnation() == volume.incarnation()).then_some(holding.id)
    }

    pub(crate) fn add_holder(&mut self, volume: VolumeId, holding: VolumeHolder) {
        self.holders.insert(volume, holding);
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = &VolumeHolder> {
        self.holders.values()
    }

    /// Drops all states for good. Returns the holders.
    pub(crate) fn end(&mut self) -> Vec<VolumeHolder> {
        let empty = Self { has_ended: true, ..Self::new(self.prefix) };
        std::mem::replace(self, empty).holders.into_values().collect()
    }
}

fn parts(stateid: &Stateid) -> (u64, u32, u8) {
    let [a, b, c, d, e, f, g, h, i, j, k, generation] = stateid.other;
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes([0, i, j, k]), generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::bounds::{Bounds, Networks, Party};

    fn table(client: ClientId) -> StateTable {
        StateTable::new(client)
    }

    fn slot() -> Slot {
        let party = Party::of(Networks::default().of([10, 1, 0, 9].into()));
        Bounds::new(1, 0).take(&party, 1).unwrap()
    }

    fn no_ranges() -> Slot {
        let mut slot = slot();
        slot.set(0);
        slot
    }

    fn lock(open: u32) -> State {
        let owner = LockOwner { holder: HolderId(1), owner: 1 };
        State::Lock(LockState { open, owner, ranges: no_ranges() })
    }

    #[test]
    fn a_stateid_is_good_for_its_client_as_long_as_its_state_is() {
        let mut states = self::table(7 << 32 | 1);
        let index = states.insert(lock(9), slot()).unwrap();
        let stateid = states.stateid(index);
        assert_eq!(states.find(&stateid), Ok(index));
        assert_eq!(self::table(7 << 32 | 2).find(&stateid), Err(Status::BAD_STATEID), "another client's");
        let mut other = self::table(7 << 32 | 2);
        other.insert(lock(9), slot()).unwrap();
        assert_eq!(other.find(&stateid), Err(Status::BAD_STATEID), "of the same place");
        states.remove(index);
        assert_eq!(states.find(&stateid), Err(Status::BAD_STATEID), "ended");
        assert_eq!(states.insert(lock(9), slot()), Ok(index), "the place is given away again");
        assert_eq!(states.find(&stateid), Err(Status::BAD_STATEID), "and that is another state");
    }

    #[test]
    fn a_stateid_of_another_moment_is_told() {
        let mut states = self::table(1);
        let index = states.insert(lock(9), slot()).unwrap();
        let first = states.stateid(index);
        let second = states.advance(index);
        assert_eq!(states.find(&first), Err(Status::OLD_STATEID));
        assert_eq!(states.find(&second), Ok(index));
        assert_eq!(states.find(&Stateid { seqid: 0, ..first }), Ok(index), "0 is the newest");
        assert_eq!(states.find(&Stateid { seqid: 3, ..first }), Err(Status::BAD_STATEID), "never given");
        let forged = Stateid { other: [0xff; 12], ..first };
        assert_eq!(states.find(&forged), Err(Status::BAD_STATEID));
    }

    #[test]
    fn a_lock_owner_is_known_as_long_as_it_has_a_state() {
        let mut states = self::table(1);
        let owner = |owner| LockOwner { holder: HolderId(1), owner };
        let number = states.lock_owner(b"a");
        assert_ne!(states.lock_owner(b"a"), number, "asking keeps nothing");
        let first = states
            .insert_lock(LockState { open: 9, owner: owner(number), ranges: slot() }, b"a", slot())
            .unwrap();
        let second = states
            .insert_lock(LockState { open: 8, owner: owner(number), ranges: slot() }, b"a", slot())
            .unwrap();
        assert_eq!((states.lock_owner(b"a"), states.lock_owner_name(number)), (number, Some(&b"a"[..])));
        states.remove(first);
        assert_eq!(states.lock_owner(b"a"), number);
        states.remove(second);
        assert_eq!(states.lock_owner_name(number), None);
    }

    #[test]
    fn nothing_is_kept_of_a_client_that_has_ended() {
        let mut states = self::table(1);
        states.insert(lock(9), slot()).unwrap();
        states.end();
        assert_eq!(states.insert(lock(9), slot()), Err(Status::DELAY));
        assert!(states.is_empty());
    }
}
