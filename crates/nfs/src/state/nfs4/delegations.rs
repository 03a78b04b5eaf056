//! Delegations of clients, and their bounds (RFC 8881 §10.4).

use super::state_table::{FileId, State, StateTable};
use super::write_delegations::WriteDelegationGuard;
use crate::limits::{CLIENT_DELEGATIONS_MAX, DELEGATIONS_MAX};
use nfs_wire::v4::{Stateid, Status};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use vfs::bounds::{Bounds, Slot};
use vfs::{ExportAccess, FileKey, Namespace, Origin, VolumeId};

/// A file of a volume, independent of the export.
pub(crate) type VolumeFile = (VolumeId, FileKey);

pub(crate) struct DelegationState {
    pub(crate) volume: VolumeId,
    pub(crate) incarnation: u64,
    pub(crate) file: FileId,
    /// The filehandle that the client knows the file by.
    pub(crate) handle: Box<[u8]>,
    /// Address from which the client has opened it.
    pub(crate) origin: Origin,
    /// If the client may write without saying so.
    pub(crate) writing: Option<WriteDelegationGuard>,
    /// Revoked, and not yet freed by the client.
    pub(crate) is_revoked: bool,
    pub(crate) _guard: DelegationGuard,
}

impl DelegationState {
    /// Whether the export's rules still admit the delegation.
    pub(super) fn is_admitted(&self, namespace: &Namespace) -> bool {
        let (origin, changes) = (self.origin, self.writing.is_some());
        let (export, incarnation) = (self.file.0, self.incarnation);
        self.is_revoked || namespace.admits(&ExportAccess { export, incarnation, origin, changes })
    }
}

/// Counts a delegation, until it is dropped.
pub(crate) struct DelegationGuard {
    of_client: Arc<AtomicUsize>,
    _slot: Slot,
}

impl DelegationGuard {
    /// Counts a delegation for which there is room, if the client may have another one.
    pub(crate) fn new(of_client: &Arc<AtomicUsize>, slot: Slot) -> Option<Self> {
        let own = of_client.fetch_add(1, Ordering::Relaxed);
        let guard = Self { of_client: Arc::clone(of_client), _slot: slot };
        (own < CLIENT_DELEGATIONS_MAX).then_some(guard)
    }

    /// Whether the client has come to a number at which it is asked to give some of them back.
    pub(crate) fn is_near_limit(&self, all: &Bounds) -> bool {
        let step = CLIENT_DELEGATIONS_MAX / 4;
        let own = self.of_client.load(Ordering::Relaxed);
        let is_full = all.used() > DELEGATIONS_MAX / 4 * 3;
        own >= 3 * step && own.is_multiple_of(step / 4) || is_full && own.is_multiple_of(64)
    }
}

impl Drop for DelegationGuard {
    fn drop(&mut self) {
        self.of_client.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Files with a recent recall, which get no new delegation for a while.
///
/// Stores only the second, in a slot chosen by a secret hash of the file. So the table is never full. Files that share
/// a slot share the delay, which costs little.
pub(crate) struct RecentRecalls {
    seconds: Box<[AtomicU64]>,
    hasher: RandomState,
}

/// Seconds for which no delegation of a file is given after one was recalled.
const CONTENDED_S: u64 = 30;
/// Slots for contended files.
const CONTENDED_PLACES: usize = 1 << 16;

impl Default for RecentRecalls {
    fn default() -> Self {
        let seconds = (0..CONTENDED_PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { seconds, hasher: RandomState::new() }
    }
}

impl RecentRecalls {
    pub(crate) fn note(&self, file: VolumeFile, second: u64) {
        self.slot(&file).store(second + CONTENDED_S, Ordering::Relaxed);
    }

    /// Whether one was recalled a short while before this second.
    pub(crate) fn has(&self, file: &VolumeFile, second: u64) -> bool {
        second < self.slot(file).load(Ordering::Relaxed)
    }

    fn slot(&self, file: &VolumeFile) -> &AtomicU64 {
        let slot = usize::try_from(self.hasher.hash_one(file) % CONTENDED_PLACES as u64).unwrap_or(0);
        &self.seconds[slot]
    }
}

impl StateTable {
    pub(crate) fn delegation(&self, index: u32) -> Result<&DelegationState, Status> {
        match self.state(index) {
            Some(State::Delegation(delegation)) => Ok(delegation),
            _ => Err(Status::BAD_STATEID),
        }
    }

    /// The index of the delegation of a file.
    pub(crate) fn delegation_of(&self, file: &VolumeFile) -> Option<u32> {
        self.delegations.get(file).copied()
    }

    /// Revokes the delegation of a file. The stateid reports this until the client frees it.
    pub(crate) fn revoke(&mut self, file: &VolumeFile) {
        let Some(index) = self.delegation_of(file) else { return };
        if let Some(State::Delegation(delegation)) = self.state_mut(index)
            && !std::mem::replace(&mut delegation.is_revoked, true)
        {
            self.delegations.remove(file);
            self.revoked += 1;
        }
    }

    /// Whether there are revoked delegations that the client has not freed.
    pub(crate) fn has_revoked(&self) -> bool {
        self.revoked > 0
    }

    /// Frees a revoked state; false if the stateid is of another.
    pub(crate) fn free_revoked(&mut self, stateid: &Stateid) -> bool {
        let is_revoked = |&index: &u32| match self.state(index) {
            Some(State::Delegation(delegation)) => delegation.is_revoked,
            Some(State::Expired | State::Withdrawn) => true,
            _ => false,
        };
        let index = self.index_of(stateid).filter(is_revoked);
        index.and_then(|index| self.remove(index)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::ExportId;
    use vfs::bounds::{Networks, Party};

    fn slot(bounds: &Arc<Bounds>) -> Slot {
        bounds.take(&Party::of(Networks::default().of([10, 1, 0, 9].into())), 1).unwrap()
    }

    fn delegation(file: u8, of_client: &Arc<AtomicUsize>, bounds: &Arc<Bounds>) -> Option<State> {
        let key = FileKey::new(&[file]).unwrap();
        Some(State::Delegation(DelegationState {
            volume: VolumeId(1),
            incarnation: 1,
            file: (ExportId(1), key),
            handle: Box::default(),
            origin: Origin::of([127, 0, 0, 1].into()),
            writing: None,
            is_revoked: false,
            _guard: DelegationGuard::new(of_client, slot(bounds))?,
        }))
    }

    #[test]
    fn one_that_was_taken_away_says_so_until_it_is_freed() {
        let (own, bounds) = (Arc::default(), Bounds::new(100, 0));
        let mut states = StateTable::new(7);
        let file = (VolumeId(1), FileKey::new(&[1]).unwrap());
        let state_bounds = Bounds::new(100, 0);
        let index = states.insert(delegation(1, &own, &bounds).unwrap(), slot(&state_bounds)).unwrap();
        let stateid = states.stateid(index);
        assert_eq!(states.find(&stateid), Ok(index));
        assert!(!states.free_revoked(&stateid), "it is held");
        states.revoke(&file);
        states.revoke(&file);
        assert_eq!(states.find(&stateid), Err(Status::DELEG_REVOKED));
        assert!(states.has_revoked() && !states.is_empty());
        let again = states.insert(delegation(1, &own, &bounds).unwrap(), slot(&state_bounds)).unwrap();
        assert_eq!(states.delegation_of(&file), Some(again), "the file may be delegated again");
        assert!(states.free_revoked(&stateid));
        assert!(!states.has_revoked());
        assert_eq!(states.find(&stateid), Err(Status::BAD_STATEID));
        assert_eq!(states.delegation_of(&file), Some(again));
        assert_eq!((own.load(Ordering::Relaxed), state_bounds.used()), (1, 1));
        states.end();
        assert_eq!((own.load(Ordering::Relaxed), bounds.used(), state_bounds.used()), (0, 0, 0));
    }

    #[test]
    fn delegations_of_a_client_are_bounded() {
        let (own, bounds) = (Arc::default(), Bounds::new(4 * CLIENT_DELEGATIONS_MAX, 0));
        let mut states: Vec<State> = std::iter::from_fn(|| delegation(1, &own, &bounds)).collect();
        assert_eq!(states.len(), CLIENT_DELEGATIONS_MAX);
        states.pop();
        assert!(delegation(1, &own, &bounds).is_some());
        assert_eq!(bounds.used(), CLIENT_DELEGATIONS_MAX - 1, "what is not given is not counted");
    }

    #[test]
    fn a_file_is_contended_for_a_while_however_many_others_are() {
        let recent_recalls = RecentRecalls::default();
        let file = |number: u32| (VolumeId(2), FileKey::new(&number.to_be_bytes()).unwrap());
        recent_recalls.note(file(1), 5);
        assert!(recent_recalls.has(&file(1), 5) && recent_recalls.has(&file(1), 34));
        assert!(!recent_recalls.has(&file(1), 35));
        (0..10_000).for_each(|number| recent_recalls.note(file(number), 40));
        assert!((0..10_000).all(|number| recent_recalls.has(&file(number), 41)));
        let others = (10_000..20_000).filter(|&number| recent_recalls.has(&file(number), 41)).count();
        assert!(others < 2500, "{others} of others share a place");
    }
}
