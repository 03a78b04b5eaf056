//! Which clients there are: EXCHANGE_ID and CREATE_SESSION as RFC 8881 §18.35.4 and §18.36.4 have them. Pure.

use super::client::{Client, Principal};
use super::client_ids::ClientIdGenerator;
use nfs_wire::v4::{ClientId, Status, Verifier};
use std::collections::HashMap;
use std::sync::Arc;
use vfs::bounds::{Bounds, Oldest, Party, Slot};

pub(crate) struct Clients {
    /// Clients with a session.
    confirmed: HashMap<Box<[u8]>, Arc<Client>>,
    /// Unconfirmed clients by owner and principal, so that a host cannot replace the record of another.
    unconfirmed: HashMap<ClaimedOwner, Unconfirmed>,
    waiting: Oldest<ClaimedOwner>,
    introductions: Arc<Bounds>,
    by_id: HashMap<ClientId, Arc<Client>>,
    /// The room of those that are confirmed, also of 4.0.
    slots: HashMap<ClientId, Slot>,
    ids: ClientIdGenerator,
}

type ClaimedOwner = (Box<[u8]>, Principal);

struct Unconfirmed {
    client: Arc<Client>,
    /// The client that was confirmed for the owner at the introduction.
    replaces: Option<ClientId>,
    age: u64,
    _slot: Slot,
}

#[derive(Clone, Copy)]
pub(crate) struct Introduction<'a> {
    pub(crate) owner: &'a [u8],
    pub(crate) verifier: Verifier,
    pub(crate) principal: Principal,
    pub(crate) party: Party,
    /// Whether the client sent UPD_CONFIRMED_REC_A.
    pub(crate) updates: bool,
}

impl Introduction<'_> {
    /// Whether the introduction can come from a known client: the same user at the same address, or the same user with
    /// the same verifier, which is secret.
    fn is_by(&self, existing: &Client) -> bool {
        self.principal == existing.principal
            || self.verifier == existing.verifier && self.principal.user() == existing.principal.user()
    }
}

impl Clients {
    /// No clients; `introductions` bounds those that are not confirmed.
    pub(crate) fn new(introductions: &Arc<Bounds>) -> Self {
        Self {
            confirmed: HashMap::new(),
            unconfirmed: HashMap::new(),
            waiting: Oldest::default(),
            introductions: Arc::clone(introductions),
            by_id: HashMap::new(),
            slots: HashMap::new(),
            ids: ClientIdGenerator::default(),
        }
    }

    /// The client of an introduction, found or created in the `boot`th start, and a client to end. The comments give
    /// the cases of RFC 8881 §18.35.4.
    pub(crate) fn introduce(
        &mut self,
        boot: u32,
        who: &Introduction<'_>,
        is_heard: impl FnOnce(&Client) -> bool,
    ) -> Result<(Arc<Client>, Option<Arc<Client>>), Status> {
        match (self.confirmed.get(who.owner).cloned(), who.updates) {
            // 7
            (None, true) => Err(Status::NOENT),
            // 1 and 4
            (None, false) => Ok((self.add(boot, who)?, None)),
            // 8
            (Some(existing), true) if existing.verifier != who.verifier => Err(Status::NOT_SAME),
            // 9
            (Some(existing), true) if !who.is_by(&existing) => Err(Status::PERM),
            // 6
            (Some(existing), true) => Ok((existing, None)),
            // 3
            (Some(existing), false) if !who.is_by(&existing) => {
                if existing.has_state() && is_heard(&existing) {
                    return Err(Status::CLID_INUSE);
                }
                self.remove(&existing);
                Ok((self.add(boot, who)?, Some(existing)))
            }
            // 2
            (Some(existing), false) if existing.verifier == who.verifier => Ok((existing, None)),
            // 5: the client restarted.
            (Some(_), false) => Ok((self.add(boot, who)?, None)),
        }
    }

    /// Adds a client that is not confirmed. Where there are too many, older ones give way.
    fn add(&mut self, boot: u32, who: &Introduction<'_>) -> Result<Arc<Client>, Status> {
        let claimed: ClaimedOwner = (who.owner.into(), who.principal);
        self.drop_unconfirmed(&claimed);
        let slot = loop {
            match self.introductions.take(&who.party, 1) {
                Ok(slot) => break slot,
                Err(full) => {
                    let oldest = self.waiting.first(&who.party, full).cloned().ok_or(Status::DELAY)?;
                    self.drop_unconfirmed(&oldest);
                }
            }
        };
        let client = Arc::new(Client::new(self.next_id(boot), who));
        self.by_id.insert(client.id, Arc::clone(&client));
        let replaces = self.confirmed.get(who.owner).map(|existing| existing.id);
        let age = self.waiting.add(&who.party, claimed.clone());
        let unconfirmed = Unconfirmed { client: Arc::clone(&client), replaces, age, _slot: slot };
        self.unconfirmed.insert(claimed, unconfirmed);
        Ok(client)
    }

    fn drop_unconfirmed(&mut self, claimed: &ClaimedOwner) -> Option<Unconfirmed> {
        let unconfirmed = self.unconfirmed.remove(claimed)?;
        self.waiting.remove(&unconfirmed.client.party, unconfirmed.age);
        self.by_id.remove(&unconfirmed.client.id);
        Some(unconfirmed)
    }

    /// A client id that is unused in this start, and unpredictable.
    pub(crate) fn next_id(&mut self, boot: u32) -> ClientId {
        loop {
            let id = self.ids.next(boot);
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Whether a number was given to a client since then.
    pub(crate) fn has_issued(&self, boot: u32, id: ClientId) -> bool {
        self.by_id.contains_key(&id) || self.ids.has_issued(boot, id)
    }

    /// Adds a client that was checked before. `slot` is its room; `None` reuses that of the client it replaces.
    pub(crate) fn adopt(&mut self, client: &Arc<Client>, slot: Option<Slot>, before: Option<ClientId>) {
        self.by_id.insert(client.id, Arc::clone(client));
        let slot = slot.or_else(|| self.slots.remove(&before?));
        self.slots.extend(slot.map(|slot| (client.id, slot)));
    }

    pub(crate) fn get(&self, id: ClientId) -> Option<&Arc<Client>> {
        self.by_id.get(&id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.by_id.values()
    }

    /// The client that one which is not confirmed would take the place of: `None` in it if there is none. An error if another one
    /// has taken that place meanwhile.
    pub(crate) fn unconfirmed(&self, client: &Client) -> Result<Option<ClientId>, Status> {
        let claimed: ClaimedOwner = (client.owner.clone(), client.principal);
        let unconfirmed = self.unconfirmed.get(&claimed).filter(|existing| existing.client.id == client.id);
        let unconfirmed = unconfirmed.ok_or(Status::STALE_CLIENTID)?;
        let now = self.confirmed.get(&client.owner).map(|existing| existing.id);
        if now.is_none() || now == unconfirmed.replaces { Ok(now) } else { Err(Status::STALE_CLIENTID) }
    }

    pub(crate) fn is_confirmed(&self, client: &Client) -> bool {
        self.confirmed.get(&client.owner).is_some_and(|existing| existing.id == client.id)
    }

    /// Confirms a client at its first session. `slot` is its room; `None` reuses that of its earlier instance, which is
    /// returned to be ended. An error if another client confirmed the owner meanwhile.
    pub(crate) fn confirm(
        &mut self,
        client: &Arc<Client>,
        slot: Option<Slot>,
    ) -> Result<Option<Arc<Client>>, Status> {
        if self.is_confirmed(client) {
            return Ok(None);
        }
        let before = self.unconfirmed(client)?;
        self.drop_unconfirmed(&(client.owner.clone(), client.principal));
        self.adopt(client, slot, before);
        let before = self.confirmed.insert(client.owner.clone(), Arc::clone(client));
        if let Some(before) = &before {
            self.by_id.remove(&before.id);
            self.slots.remove(&before.id);
        }
        Ok(before)
    }

    pub(crate) fn remove(&mut self, client: &Client) {
        self.by_id.remove(&client.id);
        self.slots.remove(&client.id);
        if self.is_confirmed(client) {
            self.confirmed.remove(&client.owner);
        }
        let claimed: ClaimedOwner = (client.owner.clone(), client.principal);
        if self.unconfirmed.get(&claimed).is_some_and(|existing| existing.client.id == client.id) {
            self.drop_unconfirmed(&claimed);
        }
    }
}

#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
