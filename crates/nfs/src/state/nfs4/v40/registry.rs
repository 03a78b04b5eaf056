//! The registry of clients of 4.0: SETCLIENTID and SETCLIENTID_CONFIRM (RFC 7530 §16.33.5, §16.34.5). Pure.

use crate::state::nfs4::client::Principal;
use nfs_wire::v4::{ClientId, Status, Verifier};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use vfs::bounds::{Bounds, Oldest, Party, Slot};

/// A client as it has introduced itself: the RFC's `{v, x, c, k, s}` without the callback, which is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) verifier: Verifier,
    pub(crate) client: ClientId,
    pub(crate) confirm: Verifier,
    pub(crate) principal: Principal,
    pub(crate) party: Party,
    /// The second of the service in which it came.
    since: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct ClientIdRequest<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) verifier: Verifier,
    pub(crate) principal: Principal,
    pub(crate) party: Party,
}

#[derive(Clone, Copy)]
pub(crate) struct NewClientIds {
    pub(crate) client: ClientId,
    pub(crate) confirm: Verifier,
    pub(crate) now: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SetClientIdError {
    /// Another client at this address uses the identifier.
    InUse(IpAddr),
    /// Too many introductions; retry later.
    Later,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConfirmOutcome {
    /// A known client changed its callback, and perhaps its address.
    Updated(Record),
    /// A repetition.
    Repeated,
    /// The client is new. `before` is its earlier instance, which ends.
    New { record: Record, id: Box<[u8]>, before: Option<ClientId> },
}

type ClaimedId = (Box<[u8]>, Principal);

/// A record that is not confirmed.
struct Unconfirmed {
    record: Record,
    /// The client that was confirmed for the identifier at the introduction.
    replaces: Option<ClientId>,
    age: u64,
    _slot: Slot,
}

pub(crate) struct Registry {
    confirmed: HashMap<Box<[u8]>, Record>,
    by_client: HashMap<ClientId, Box<[u8]>>,
    /// Unconfirmed records by identifier and principal, so that a host cannot replace the record of another.
    unconfirmed: HashMap<ClaimedId, Unconfirmed>,
    by_confirm: HashMap<Verifier, ClaimedId>,
    waiting: Oldest<ClaimedId>,
    introductions: Arc<Bounds>,
}

impl Registry {
    /// No clients; `introductions` bounds those that are not confirmed.
    pub(crate) fn new(introductions: &Arc<Bounds>) -> Self {
        Self {
            confirmed: HashMap::new(),
            by_client: HashMap::new(),
            unconfirmed: HashMap::new(),
            by_confirm: HashMap::new(),
            waiting: Oldest::default(),
            introductions: Arc::clone(introductions),
        }
    }

    /// Handles SETCLIENTID, and returns the record to confirm. `is_in_use` returns whether a client has state and an
    /// active lease. The comments give the cases of RFC 7530 §16.33.5 in their order.
    pub(crate) fn introduce(
        &mut self,
        request: &ClientIdRequest<'_>,
        new_ids: NewClientIds,
        is_in_use: impl FnOnce(ClientId) -> bool,
    ) -> Result<Record, SetClientIdError> {
        let confirmed = self.confirmed.get(request.id).copied();
        if let Some(confirmed) = confirmed
            && !request.is_by(&confirmed)
            && is_in_use(confirmed.client)
        {
            // 1
            return Err(SetClientIdError::InUse(confirmed.principal.address));
        }
        let client = match confirmed {
            // 2: the same instance of the client changes its callback.
            Some(existing) if existing.verifier == request.verifier && request.is_by(&existing) => {
                existing.client
            }
            // 3 and 5: the client restarted. 4: it is new.
            Some(_) | None => new_ids.client,
        };
        let ClientIdRequest { verifier, principal, party, .. } = *request;
        let record =
            Record { verifier, client, confirm: new_ids.confirm, principal, party, since: new_ids.now };
        self.add((request.id.into(), principal), record, confirmed.map(|existing| existing.client))?;
        Ok(record)
    }

    /// Adds a record that is not confirmed. Where there are too many, older ones give way.
    fn add(
        &mut self,
        claimed: ClaimedId,
        record: Record,
        replaces: Option<ClientId>,
    ) -> Result<(), SetClientIdError> {
        self.drop_unconfirmed(&claimed);
        let slot = loop {
            match self.introductions.take(&record.party, 1) {
                Ok(slot) => break slot,
                Err(full) => {
                    let oldest = self.waiting.first(&record.party, full).cloned();
                    self.drop_unconfirmed(&oldest.ok_or(SetClientIdError::Later)?);
                }
            }
        };
        let age = self.waiting.add(&record.party, claimed.clone());
        self.by_confirm.insert(record.confirm, claimed.clone());
        self.unconfirmed.insert(claimed, Unconfirmed { record, replaces, age, _slot: slot });
        Ok(())
    }

    fn drop_unconfirmed(&mut self, claimed: &ClaimedId) {
        let Some(unconfirmed) = self.unconfirmed.remove(claimed) else { return };
        self.waiting.remove(&unconfirmed.record.party, unconfirmed.age);
        self.by_confirm.remove(&unconfirmed.record.confirm);
    }

    /// The client with this identifier, if this can be of it.
    pub(crate) fn confirmed(&self, request: &ClientIdRequest<'_>) -> Option<ClientId> {
        let existing = self.confirmed.get(request.id).filter(|existing| request.is_by(existing));
        existing.map(|record| record.client)
    }

    /// The party of an introduction that would make a client where there is none.
    pub(crate) fn is_first(&self, client: ClientId, confirm: Verifier) -> Option<Party> {
        let claimed = self.by_confirm.get(&confirm)?;
        let record = self.unconfirmed.get(claimed)?.record;
        (record.client == client && !self.confirmed.contains_key(&claimed.0)).then_some(record.party)
    }

    /// Handles SETCLIENTID_CONFIRM. `has_room` is whether there is room for another client. The comments give the cases
    /// of RFC 7530 §16.34.5 in their order.
    pub(crate) fn confirm(
        &mut self,
        client: ClientId,
        confirm: Verifier,
        caller: &Principal,
        has_room: bool,
    ) -> Result<ConfirmOutcome, Status> {
        let matches = |record: &Record| record.client == client && record.confirm == confirm;
        let claimed = self.by_confirm.get(&confirm).cloned();
        let unconfirmed = claimed.as_ref().and_then(|claimed| self.unconfirmed.get(claimed));
        if let Some((claimed, unconfirmed)) = claimed.as_ref().zip(unconfirmed)
            && matches(&unconfirmed.record)
        {
            let (record, replaces) = (unconfirmed.record, unconfirmed.replaces);
            if record.principal != *caller {
                return Err(Status::CLID_INUSE);
            }
            let before = self.confirmed.get(&claimed.0).map(|existing| existing.client);
            if before.is_some() && before != replaces {
                // Another client confirmed the identifier meanwhile.
                self.drop_unconfirmed(claimed);
                return Err(Status::STALE_CLIENTID);
            }
            if before.is_none() && !has_room {
                return Err(Status::DELAY);
            }
            self.drop_unconfirmed(claimed);
            let id = &claimed.0;
            self.confirmed.insert(id.clone(), record);
            // 1: the same client with another callback.
            if before == Some(client) {
                return Ok(ConfirmOutcome::Updated(record));
            }
            // 3: the client restarted; 4: it is new.
            if let Some(before) = before {
                self.by_client.remove(&before);
            }
            self.by_client.insert(client, id.clone());
            return Ok(ConfirmOutcome::New { record, id: id.clone(), before });
        }
        let existing = self.by_client.get(&client).and_then(|id| self.confirmed.get(id));
        match existing.filter(|existing| matches(existing)) {
            // 2: the reply was lost.
            Some(record) if record.principal.user() == caller.user() => Ok(ConfirmOutcome::Repeated),
            Some(_) => Err(Status::CLID_INUSE),
            // 5
            None => Err(Status::STALE_CLIENTID),
        }
    }

    pub(crate) fn forget(&mut self, client: ClientId) {
        let Some(id) = self.by_client.remove(&client) else { return };
        if self.confirmed.get(&id).is_some_and(|record| record.client == client) {
            self.confirmed.remove(&id);
        }
        self.drop_where(|record| record.client == client);
    }

    /// Drops introductions that were not confirmed within a lease.
    pub(crate) fn sweep(&mut self, now: u64, lease_s: u64) {
        self.drop_where(|record| now.saturating_sub(record.since) > lease_s);
    }

    fn drop_where(&mut self, is_over: impl Fn(&Record) -> bool) {
        let over = self.unconfirmed.iter().filter(|(_, existing)| is_over(&existing.record));
        let over: Vec<ClaimedId> = over.map(|(claimed, _)| claimed.clone()).collect();
        over.iter().for_each(|claimed| self.drop_unconfirmed(claimed));
    }
}

impl ClientIdRequest<'_> {
    /// Whether the request can come from a known client: the same user at the same address, or the same user with the
    /// same verifier, which is secret.
    fn is_by(&self, existing: &Record) -> bool {
        self.principal == existing.principal
            || self.verifier == existing.verifier && self.principal.user() == existing.principal.user()
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
