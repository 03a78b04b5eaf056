//! A client and its state: opens and byte-range locks, each with a stateid (RFC 8881 §8.2).

use super::callbacks::Callbacks;
use super::client_name::without_admission;
use super::clients::Introduction;
use super::records::Identity;
use super::revoked::RevokedClaims;
use super::state_table::{State, StateTable, VolumeHolder, WithdrawnClaim};
use super::v40::owners::OpenOwners;
use nfs_wire::rpc::AuthFlavor;
use nfs_wire::v4::{ClientId, SequenceStatus, Stateid, Status, Verifier};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use vfs::Namespace;
use vfs::bounds::Party;
use vfs::claims::{Request, RevokedClaim};
use vfs::sync::Mutex;

/// A client, RFC 8881 §2.4.
pub(crate) struct Client {
    pub(crate) id: ClientId,
    /// `co_ownerid`.
    pub(crate) owner: Box<[u8]>,
    pub(crate) verifier: Verifier,
    pub(crate) principal: Principal,
    /// The party that its table entries count for.
    pub(crate) party: Party,
    pub(crate) identity: Identity,
    /// Addresses from which it sent an introduction, if there are several.
    addresses: Mutex<Vec<IpAddr>>,
    sessions: AtomicU32,
    /// The second of its last request.
    last_seen: AtomicU64,
    has_reclaimed: AtomicBool,
    /// Whether it was recorded for a restart, as far as that could be written.
    was_recorded: AtomicBool,
    creation: Mutex<CreateSessionSlot>,
    states: Mutex<StateTable>,
    /// The open owners of a client of 4.0.
    open_owners: Option<Mutex<OpenOwners>>,
    has_ended: AtomicBool,
    pub(crate) callbacks: Arc<Callbacks>,
    pub(super) revoked: Arc<RevokedClaims>,
    /// Whether it has revoked states that it has not freed, as of its last request.
    has_revoked: AtomicBool,
    pub(crate) delegations: Arc<AtomicUsize>,
}

const ADDRESSES_MAX: usize = 16;

/// The identity of a caller, as far as clients can be told apart by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Principal {
    pub(crate) flavor: AuthFlavor,
    pub(crate) uid: u32,
    pub(crate) address: IpAddr,
}

impl Principal {
    /// The identity without the address.
    pub(crate) fn user(&self) -> (AuthFlavor, u32) {
        (self.flavor, self.uid)
    }
}

/// The slot of CREATE_SESSION, RFC 8881 §18.36.4: the last sequence number, and the reply to it.
#[derive(Default)]
struct CreateSessionSlot {
    sequence: u32,
    /// Whether the next request is running.
    is_begun: bool,
    reply: Option<Box<[u8]>>,
}

/// A CREATE_SESSION that is being done. Dropped before its end, it may come again.
pub(crate) struct CreateSessionGuard<'c> {
    client: &'c Client,
    sequence: u32,
}

impl Drop for CreateSessionGuard<'_> {
    fn drop(&mut self) {
        let mut creation = self.client.creation();
        // After completion, the next CREATE_SESSION may have begun.
        if creation.sequence != self.sequence {
            creation.is_begun = false;
        }
    }
}

pub(crate) enum CreateSessionVerdict<'c> {
    New(CreateSessionGuard<'c>),
    Replay(Box<[u8]>),
}

impl Client {
    /// A client that has introduced itself and has no session.
    pub(crate) fn new(id: ClientId, who: &Introduction<'_>) -> Self {
        Self {
            id,
            owner: who.owner.into(),
            verifier: who.verifier,
            principal: who.principal,
            party: who.party,
            identity: Identity::new(without_admission(who.owner).as_ref(), who.verifier, who.principal),
            addresses: Mutex::default(),
            sessions: AtomicU32::new(0),
            last_seen: AtomicU64::new(0),
            has_reclaimed: AtomicBool::new(false),
            was_recorded: AtomicBool::new(false),
            creation: Mutex::default(),
            states: Mutex::new(StateTable::new(id)),
            open_owners: None,
            has_ended: AtomicBool::new(false),
            callbacks: Arc::default(),
            revoked: Arc::default(),
            has_revoked: AtomicBool::new(false),
            delegations: Arc::default(),
        }
    }

    /// A client of 4.0, which has confirmed its introduction.
    pub(crate) fn of_40(id: ClientId, who: &Introduction<'_>) -> Self {
        Self { open_owners: Some(Mutex::default()), ..Self::new(id, who) }
    }

    /// The open owners of a client of 4.0; `None` for later versions.
    pub(crate) fn open_owners(&self) -> Option<MutexGuard<'_, OpenOwners>> {
        self.open_owners.as_ref().map(|owners| owners.lock())
    }

    /// The party of one of its users, which an export rule admitted.
    pub(crate) fn user(&self, uid: u32) -> Party {
        self.party.user(uid).admitted(true)
    }

    /// Adds an address from which it sent an introduction.
    pub(crate) fn add_address(&self, address: IpAddr) {
        let mut addresses = self.addresses.lock();
        if addresses.contains(&address) {
            return;
        }
        // The oldest address gives way.
        if addresses.len() == ADDRESSES_MAX {
            addresses.remove(0);
        }
        addresses.push(address);
    }

    /// Whether sessions may be made for it by this caller: from where it has introduced itself, the first one by the user that
    /// has (RFC 8881 §18.36.4).
    pub(crate) fn may_create_session(&self, caller: &Principal) -> bool {
        let is_user = self.next_creation() > 1 || caller.user() == self.principal.user();
        is_user && self.has_address(caller.address)
    }

    /// Whether this caller may end it: the user that has introduced it, from where it is.
    pub(crate) fn may_destroy(&self, caller: &Principal) -> bool {
        caller.user() == self.principal.user() && self.has_address(caller.address)
    }

    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.lock().contains(&address)
    }

    /// Addresses from which it sent an introduction.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let more = self.addresses.lock();
        if more.is_empty() { vec![self.principal.address] } else { more.clone() }
    }

    pub(crate) fn states(&self) -> MutexGuard<'_, StateTable> {
        self.states.lock()
    }

    /// Drops the states of revoked claims. Returns their flags for SEQUENCE.
    pub(crate) fn process_revoked_claims(&self) -> SequenceStatus {
        let mut status = SequenceStatus::default();
        let revoked = self.revoked.take();
        if revoked.is_empty() && !self.has_revoked.load(Ordering::Relaxed) {
            return status;
        }
        let mut states = self.states();
        let mut opens = HashSet::new();
        for (file, what) in revoked {
            match what {
                RevokedClaim::Lease(_) => states.revoke(&file),
                RevokedClaim::Open(open) => _ = opens.insert((file.0, open)),
                // Every range belongs to an open.
                RevokedClaim::Range(..) => {}
            }
        }
        if !opens.is_empty() {
            states.expire(&opens);
        }
        for (has, flag) in [
            (states.has_revoked(), SequenceStatus::RECALLABLE_STATE_REVOKED),
            (states.has_expired(), SequenceStatus::EXPIRED_SOME_STATE_REVOKED),
            (states.has_withdrawn(), SequenceStatus::ADMIN_STATE_REVOKED),
        ] {
            if has {
                status = status | flag;
            }
        }
        self.has_revoked.store(status != SequenceStatus::default(), Ordering::Relaxed);
        status
    }

    /// Ends the states that the namespace's rules no longer admit. Returns the claims to end.
    pub(super) fn withdraw(&self, namespace: &Namespace) -> Vec<WithdrawnClaim> {
        // 4.0 has no FREE_STATEID.
        let ended = self.states().withdraw(namespace, self.open_owners.is_none());
        if !ended.is_empty() {
            self.has_revoked.store(true, Ordering::Relaxed);
        }
        ended
    }

    #[cfg(test)]
    pub(crate) fn holder_count(&self) -> usize {
        Arc::strong_count(&self.revoked) - 1
    }

    pub(crate) fn has_delegations(&self) -> bool {
        self.delegations.load(Ordering::Relaxed) > 0
    }

    /// Ends an open that is of no use to it.
    pub(crate) fn close(&self, stateid: &Stateid) {
        let mut states = self.states();
        let Some(index) = states.index_of(stateid) else { return };
        if let Some(State::Open(open)) = states.remove(index) {
            drop(states);
            open.opened.file().claim(&Request::Close(open.claim));
        }
    }

    /// Whether anything was taken from it that it does not know of.
    pub(crate) fn has_revoked_claims(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// Ends the client and returns its holders, whose claims the caller ends.
    pub(crate) fn end(&self) -> Vec<VolumeHolder> {
        self.has_ended.store(true, Ordering::SeqCst);
        self.states().end()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Whether it has a session or holds anything.
    pub(crate) fn has_state(&self) -> bool {
        self.sessions.load(Ordering::SeqCst) > 0 || !self.states().is_empty()
    }

    pub(crate) fn has_sessions(&self) -> bool {
        self.sessions.load(Ordering::SeqCst) > 0
    }

    /// Counts a session that begins or ends.
    pub(crate) fn count_session(&self, begins: bool) {
        if begins {
            self.sessions.fetch_add(1, Ordering::SeqCst);
        } else {
            self.sessions.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Notes that the client was seen in this second of the service.
    pub(crate) fn mark_seen(&self, second: u64) {
        self.last_seen.store(second, Ordering::Relaxed);
    }

    /// The second of its last request.
    pub(crate) fn last_seen(&self) -> u64 {
        self.last_seen.load(Ordering::Relaxed)
    }

    /// Handles RECLAIM_COMPLETE; false if it is a repetition.
    pub(crate) fn complete_reclaim(&self) -> bool {
        !self.has_reclaimed.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn note_record(&self) {
        self.was_recorded.store(true, Ordering::SeqCst);
    }

    /// Whether it was recorded for a restart, be it that it was forgotten since.
    pub(crate) fn was_recorded(&self) -> bool {
        self.was_recorded.load(Ordering::Relaxed)
    }

    /// Whether RECLAIM_COMPLETE was done.
    pub(crate) fn has_reclaimed(&self) -> bool {
        self.has_reclaimed.load(Ordering::SeqCst)
    }

    pub(crate) fn next_creation(&self) -> u32 {
        self.creation().sequence.wrapping_add(1)
    }

    /// Checks the sequence number of a CREATE_SESSION.
    pub(crate) fn begin_creation(&self, sequence: u32) -> Result<CreateSessionVerdict<'_>, Status> {
        let mut creation = self.creation();
        if sequence == creation.sequence.wrapping_add(1) {
            // The second of two concurrent requests is a repetition of the first.
            let is_begun = std::mem::replace(&mut creation.is_begun, true);
            return if is_begun {
                Err(Status::DELAY)
            } else {
                Ok(CreateSessionVerdict::New(CreateSessionGuard { client: self, sequence }))
            };
        }
        match &creation.reply {
            Some(reply) if sequence == creation.sequence => Ok(CreateSessionVerdict::Replay(reply.clone())),
            _ => Err(Status::SEQ_MISORDERED),
        }
    }

    /// Stores the result of a CREATE_SESSION.
    pub(crate) fn end_creation(&self, sequence: u32, reply: &[u8]) {
        *self.creation() = CreateSessionSlot { sequence, is_begun: false, reply: Some(reply.into()) };
    }

    fn creation(&self) -> MutexGuard<'_, CreateSessionSlot> {
        self.creation.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_made_from_where_the_client_is() {
        let host = Principal { flavor: AuthFlavor::SYS, uid: 0, address: "192.0.2.1".parse().unwrap() };
        let party = Party::of(vfs::bounds::Networks::default().of(host.address));
        let who = Introduction { owner: b"host", verifier: [1; 8], principal: host, party, updates: false };
        let client = Client::new(1, &who);
        assert!(!client.may_create_session(&host), "it has not said so yet");
        client.add_address(host.address);
        let (user, elsewhere) =
            (Principal { uid: 7, ..host }, Principal { address: "192.0.2.2".parse().unwrap(), ..host });
        assert_eq!(
            [host, user, elsewhere].map(|caller| client.may_create_session(&caller)),
            [true, false, false]
        );
        let creating = client.begin_creation(1);
        assert!(matches!(creating, Ok(CreateSessionVerdict::New(_))));
        assert!(matches!(client.begin_creation(1), Err(Status::DELAY)), "one at a time");
        drop(creating);
        let creating = client.begin_creation(1);
        assert!(matches!(creating, Ok(CreateSessionVerdict::New(_))), "what was not done may come again");
        client.end_creation(1, b"");
        let next = client.begin_creation(2);
        drop(creating);
        assert!(matches!(client.begin_creation(2), Err(Status::DELAY)), "the next one has begun");
        drop(next);
        assert!(matches!(client.begin_creation(1), Ok(CreateSessionVerdict::Replay(_))));
        assert_eq!(
            [host, user, elsewhere].map(|caller| client.may_create_session(&caller)),
            [true, true, false]
        );
        assert_eq!([host, user, elsewhere].map(|caller| client.may_destroy(&caller)), [true, false, false]);
    }
}
