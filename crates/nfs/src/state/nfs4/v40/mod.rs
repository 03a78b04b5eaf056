//! State of 4.0 (RFC 7530 §9): clients without sessions, and owners with sequence numbers.

pub(crate) mod owners;
pub(crate) mod registry;
pub(crate) mod sequence;

use super::ServiceState;
use super::client::{Client, Principal};
use super::client_name::protection_of;
use super::clients::Introduction;
use super::state_table::StateTable;
use super::tables::Table;
use nfs_wire::v4::{ClientId, Stateid, Status, Verifier};
use registry::{ClientIdRequest, ConfirmOutcome, NewClientIds, Record, Registry, SetClientIdError};
use sequence::{Reply, Sequence};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};
use vfs::Protection;
use vfs::bounds::Bounds;
use vfs::sync::Mutex;

/// State shared by all clients of 4.0.
pub(crate) struct Shared {
    registry: Mutex<Registry>,
}

impl Shared {
    /// No clients; `introductions` bounds those that are not confirmed.
    pub(crate) fn new(introductions: &Arc<Bounds>) -> Self {
        Self { registry: Mutex::new(Registry::new(introductions)) }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum OwnerId {
    Open(Box<[u8]>),
    /// A lock owner by its number among those of its client.
    Lock(u64),
}

impl ServiceState {
    /// Handles SETCLIENTID.
    pub(crate) fn set_client_id(&self, request: &ClientIdRequest<'_>) -> Result<Record, SetClientIdError> {
        self.check_record(request.id, request.verifier, request.principal)
            .map_err(|_| SetClientIdError::Later)?;
        // A client with revoked claims starts over.
        let existing = self.registry().confirmed(request);
        let existing = existing.and_then(|existing| self.clients().get(existing).cloned());
        if let Some(existing) = existing.filter(|existing| existing.has_revoked_claims()) {
            self.clients().remove(&existing);
            self.end(&existing);
        }
        let client = self.clients().next_id(self.records.boot());
        let new_ids = NewClientIds { client, confirm: self.confirmation(client), now: self.second() };
        self.registry().introduce(request, new_ids, |id| self.is_in_use(id))
    }

    /// The verifier that confirms an introduction. It is unpredictable.
    fn confirmation(&self, number: ClientId) -> Verifier {
        self.secret.hash_one((number, "confirmation")).to_be_bytes()
    }

    fn is_in_use(&self, id: ClientId) -> bool {
        let Some(client) = self.clients().get(id).cloned() else { return false };
        let is_heard = self.second().saturating_sub(client.last_seen()) <= u64::from(self.lease_s);
        is_heard && client.has_state()
    }

    /// Handles SETCLIENTID_CONFIRM.
    pub(crate) fn confirm_client_id(
        &self,
        id: ClientId,
        confirm: Verifier,
        caller: &Principal,
    ) -> Result<(), Status> {
        let first = self.registry().is_first(id, confirm);
        let mut slot = first.map(|party| self.reserve_for(Table::Clients, &party, id)).transpose()?;
        // Locked until the client is added: it can be found as soon as the registry has it.
        let mut registry = self.registry();
        match registry.confirm(id, confirm, caller, slot.is_some())? {
            ConfirmOutcome::Repeated => {}
            ConfirmOutcome::Updated(record) => {
                let client = self.clients().get(id).cloned().ok_or(Status::STALE_CLIENTID)?;
                client.add_address(record.principal.address);
                self.renew_lease(&client);
            }
            ConfirmOutcome::New { record, id: owner, before } => {
                let Record { verifier, principal, party, .. } = record;
                let who = Introduction { owner: &owner, verifier, principal, party, updates: false };
                let client = Arc::new(Client::of_40(id, &who));
                client.mark_seen(self.second());
                client.add_address(principal.address);
                let existing = before.and_then(|before| self.clients().get(before).cloned());
                self.clients().adopt(&client, slot.take(), before);
                drop(registry);
                if let Some(before) = existing {
                    self.clients().remove(&before);
                    self.end(&before);
                }
            }
        }
        Ok(())
    }

    /// The client of 4.0 with this id, for a caller at this address; renews its lease. A client with any revoked claim
    /// has lost all: 4.0 cannot report less (RFC 7530 §9.6.3).
    pub(crate) fn client_40(
        &self,
        id: ClientId,
        caller: IpAddr,
        protection: Protection,
    ) -> Result<Arc<Client>, Status> {
        let (client, was_given) = {
            let clients = self.clients();
            (clients.get(id).cloned(), clients.has_issued(self.records.boot(), id))
        };
        if !was_given {
            return Err(Status::STALE_CLIENTID);
        }
        // The id is guessable: it is valid only from the client's address and with its protection.
        let is_it = |client: &Arc<Client>| {
            client.open_owners().is_some()
                && client.has_address(caller)
                && protection_of(&client.owner) == protection
        };
        let client = client.filter(is_it).ok_or(Status::EXPIRED)?;
        self.renew_lease_40(&client)?;
        Ok(client)
    }

    /// Renews the lease of a client of 4.0. Fails if it has ended or has revoked claims.
    pub(crate) fn renew_lease_40(&self, client: &Client) -> Result<(), Status> {
        if client.has_ended() {
            return Err(Status::EXPIRED);
        }
        if client.has_revoked_claims() {
            self.clients().remove(client);
            self.end(client);
            return Err(Status::EXPIRED);
        }
        self.renew_lease(client);
        Ok(())
    }

    /// The number of the client that a stateid of 4.0 is of.
    pub(crate) fn client_of_stateid(&self, stateid: &Stateid) -> Result<ClientId, Status> {
        if stateid.other == Stateid::ANONYMOUS.other || stateid.other == Stateid::READ_BYPASS.other {
            return Err(Status::BAD_STATEID);
        }
        let id = StateTable::client_of(stateid);
        if self.clients().has_issued(self.records.boot(), id) { Ok(id) } else { Err(Status::STALE_STATEID) }
    }

    /// Records a client of 4.0 before its first open. 4.0 has no RECLAIM_COMPLETE: a new open ends reclaiming.
    pub(crate) fn record_40(&self, client: &Client) {
        // A stranger cannot open files. It is recorded once it does.
        if !self.grace.is_active() && client.complete_reclaim() && !client.party.is_stranger {
            self.write_record(client);
        }
    }

    /// Ends the owners of a client, and frees its identifier.
    pub(super) fn end_40(&self, client: &Client) {
        if let Some(mut owners) = client.open_owners() {
            owners.clear();
            drop(owners);
            self.registry().forget(client.id);
        }
    }

    /// Runs once a second: drops unused introductions and owners, those of each client once per lease.
    pub(super) fn tick_40(&self, second: u64, clients: &[Arc<Client>]) {
        let lease = u64::from(self.lease_s);
        self.registry().sweep(second, lease);
        for client in clients.iter().filter(|client| client.id % lease.max(1) == second % lease.max(1)) {
            let Some(mut owners) = client.open_owners() else { continue };
            let unconfirmed = owners.sweep(second, lease);
            drop(owners);
            unconfirmed.iter().for_each(|stateid| client.close(stateid));
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.v40.registry.lock()
    }
}

/// A request of an owner that is being done. Unless it is completed, it is as if it had not come.
pub(crate) struct SequencedRequest {
    client: Arc<Client>,
    owner: OwnerId,
    is_complete: bool,
}

/// A request whose changes are not durable. Dropping it without a failure marks them durable.
pub(crate) struct UnsyncedRequest {
    client: Arc<Client>,
    owner: OwnerId,
    number: u32,
    failure: Option<Status>,
}

impl SequencedRequest {
    pub(crate) fn new(client: &Arc<Client>, owner: OwnerId) -> Self {
        Self { client: Arc::clone(client), owner, is_complete: false }
    }

    /// Completes the request with this reply. Its changes may still need a flush.
    pub(crate) fn complete(mut self, reply: Reply, is_unsynced: bool) -> Option<UnsyncedRequest> {
        self.is_complete = true;
        let number = self.client.with_sequence(&self.owner, |sequence| {
            sequence.complete(reply);
            if is_unsynced {
                sequence.mark_unsynced();
            }
            sequence.last()
        })?;
        let (client, owner) = (Arc::clone(&self.client), self.owner.clone());
        is_unsynced.then_some(UnsyncedRequest { client, owner, number, failure: None })
    }
}

impl Drop for SequencedRequest {
    fn drop(&mut self) {
        if !self.is_complete {
            self.client.with_sequence(&self.owner, Sequence::abandon);
        }
    }
}

impl UnsyncedRequest {
    /// Sets the status of a request whose changes were lost.
    pub(crate) fn fail(mut self, status: Status) {
        self.failure = Some(status);
    }
}

impl Drop for UnsyncedRequest {
    fn drop(&mut self) {
        self.client.with_sequence(&self.owner, |sequence| sequence.mark_synced(self.number, self.failure));
    }
}

impl Client {
    fn with_sequence<R>(&self, owner: &OwnerId, act: impl FnOnce(&mut Sequence) -> R) -> Option<R> {
        match owner {
            OwnerId::Open(name) => self.open_owners()?.sequence(name).map(act),
            OwnerId::Lock(number) => self.states().lock_sequence(*number).map(act),
        }
    }
}
