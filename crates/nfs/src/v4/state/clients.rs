//! Which clients there are: EXCHANGE_ID and CREATE_SESSION as RFC 8881 §18.35.4 and §18.36.4 have them. Pure.

use super::client::{Client, Principal};
use nfs_wire::v4::{ClientId, Status, Verifier};
use std::collections::HashMap;
use std::sync::Arc;

/// The clients, by owner and by number.
#[derive(Default)]
pub(crate) struct Clients {
    owners: HashMap<Box<[u8]>, Owner>,
    by_id: HashMap<ClientId, Arc<Client>>,
    next: u32,
}

/// What is known of a client owner: one that has made a session, and one that has not.
#[derive(Default)]
struct Owner {
    confirmed: Option<Arc<Client>>,
    unconfirmed: Option<Arc<Client>>,
}

/// Who asks for a client's number.
#[derive(Clone, Copy)]
pub(crate) struct Introduction<'a> {
    pub(crate) owner: &'a [u8],
    pub(crate) verifier: Verifier,
    pub(crate) principal: Principal,
    /// The client believes that it is known.
    pub(crate) updates: bool,
}

/// Clients that have no session, at most.
const UNCONFIRMED_MAX: usize = 1024;

impl Clients {
    /// The client of an introduction: found, or made with a number whose upper half is `boot`. The comments give the cases of
    /// RFC 8881 §18.35.4.
    pub(crate) fn introduce(&mut self, boot: u32, who: &Introduction<'_>) -> Result<Arc<Client>, Status> {
        let confirmed = self.owners.get(who.owner).and_then(|owner| owner.confirmed.clone());
        match (confirmed, who.updates) {
            // 7
            (None, true) => Err(Status::NOENT),
            // 1 and 4
            (None, false) => self.add(boot, who),
            // 8
            (Some(known), true) if known.verifier != who.verifier => Err(Status::NOT_SAME),
            // 9
            (Some(known), true) if known.principal != who.principal => Err(Status::PERM),
            // 6
            (Some(known), true) => Ok(known),
            // 3
            (Some(known), false) if known.principal != who.principal => {
                if known.has_state() {
                    return Err(Status::CLID_INUSE);
                }
                self.remove(&known);
                self.add(boot, who)
            }
            // 2
            (Some(known), false) if known.verifier == who.verifier => Ok(known),
            // 5: the client has restarted.
            (Some(_), false) => self.add(boot, who),
        }
    }

    fn add(&mut self, boot: u32, who: &Introduction<'_>) -> Result<Arc<Client>, Status> {
        let unconfirmed = self.owners.values().filter(|owner| owner.unconfirmed.is_some()).count();
        if unconfirmed >= UNCONFIRMED_MAX {
            return Err(Status::DELAY);
        }
        self.next = self.next.wrapping_add(1);
        let id = u64::from(boot) << 32 | u64::from(self.next);
        let client = Arc::new(Client::new(id, who));
        self.by_id.insert(id, Arc::clone(&client));
        let owner = self.owners.entry(who.owner.into()).or_default();
        if let Some(old) = owner.unconfirmed.replace(Arc::clone(&client)) {
            self.by_id.remove(&old.id);
        }
        Ok(client)
    }

    /// The client with this number.
    pub(crate) fn get(&self, id: ClientId) -> Option<&Arc<Client>> {
        self.by_id.get(&id)
    }

    /// All clients.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.by_id.values()
    }

    /// A client makes its first session. What it was before its restart is returned, to be ended.
    pub(crate) fn confirm(&mut self, client: &Arc<Client>) -> Option<Arc<Client>> {
        let owner = self.owners.get_mut(&client.owner)?;
        if owner.confirmed.as_ref().is_some_and(|known| known.id == client.id) {
            return None;
        }
        owner.unconfirmed.take_if(|known| known.id == client.id)?;
        let before = owner.confirmed.replace(Arc::clone(client));
        if let Some(before) = &before {
            self.by_id.remove(&before.id);
        }
        before
    }

    /// Forgets a client.
    pub(crate) fn remove(&mut self, client: &Client) {
        self.by_id.remove(&client.id);
        if let Some(owner) = self.owners.get_mut(&client.owner) {
            owner.confirmed.take_if(|known| known.id == client.id);
            owner.unconfirmed.take_if(|known| known.id == client.id);
            if owner.confirmed.is_none() && owner.unconfirmed.is_none() {
                self.owners.remove(&client.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Introduction<'_> = Introduction {
        owner: b"host",
        verifier: [1; 8],
        principal: Principal { flavor: nfs_wire::rpc::AuthFlavor::SYS, uid: 0 },
        updates: false,
    };

    fn introduce(clients: &mut Clients, who: Introduction<'_>) -> Result<u64, Status> {
        clients.introduce(9, &who).map(|client| client.id)
    }

    fn confirmed(clients: &mut Clients) -> Arc<Client> {
        let client = clients.introduce(9, &FIRST).unwrap();
        assert!(clients.confirm(&client).is_none());
        client
    }

    #[test]
    fn a_new_client_gets_a_number_and_an_unconfirmed_one_another() {
        let mut clients = Clients::default();
        assert_eq!(introduce(&mut clients, FIRST), Ok(9 << 32 | 1));
        assert_eq!(introduce(&mut clients, FIRST), Ok(9 << 32 | 2), "case 4");
        assert!(clients.get(9 << 32 | 1).is_none(), "the first is forgotten");
        let updates = Introduction { updates: true, ..FIRST };
        assert_eq!(introduce(&mut clients, updates), Err(Status::NOENT), "case 7");
    }

    #[test]
    fn a_confirmed_client_is_found_again() {
        let mut clients = Clients::default();
        let client = confirmed(&mut clients);
        assert_eq!(introduce(&mut clients, FIRST), Ok(client.id), "case 2");
        let updates = Introduction { updates: true, ..FIRST };
        assert_eq!(introduce(&mut clients, updates), Ok(client.id), "case 6");
        let restarted = Introduction { verifier: [2; 8], ..updates };
        assert_eq!(introduce(&mut clients, restarted), Err(Status::NOT_SAME), "case 8");
        let stranger = Principal { uid: 5, ..FIRST.principal };
        let other = Introduction { principal: stranger, ..updates };
        assert_eq!(introduce(&mut clients, other), Err(Status::PERM), "case 9");
    }

    #[test]
    fn a_restart_ends_what_was_before_once_there_is_a_session() {
        let mut clients = Clients::default();
        let before = confirmed(&mut clients);
        let restarted = Introduction { verifier: [2; 8], ..FIRST };
        let client = clients.introduce(9, &restarted).unwrap();
        assert_ne!(client.id, before.id, "case 5");
        assert!(clients.get(before.id).is_some(), "not yet");
        assert_eq!(clients.confirm(&client).map(|ended| ended.id), Some(before.id));
        assert!(clients.get(before.id).is_none());
    }

    #[test]
    fn a_stranger_takes_no_client_that_has_state() {
        let mut clients = Clients::default();
        let client = confirmed(&mut clients);
        client.count_session(true);
        let stranger = Introduction { principal: Principal { uid: 5, ..FIRST.principal }, ..FIRST };
        assert_eq!(introduce(&mut clients, stranger), Err(Status::CLID_INUSE), "case 3");
        client.count_session(false);
        assert!(introduce(&mut clients, stranger).is_ok());
    }

    #[test]
    fn clients_without_a_session_are_bounded() {
        let mut clients = Clients::default();
        for number in 0..UNCONFIRMED_MAX {
            let owner = number.to_be_bytes();
            introduce(&mut clients, Introduction { owner: &owner, ..FIRST }).unwrap();
        }
        assert_eq!(introduce(&mut clients, FIRST), Err(Status::DELAY));
    }
}
