//! Which clients there are: EXCHANGE_ID and CREATE_SESSION as RFC 8881 §18.35.4 and §18.36.4 have them. Pure.

use super::client::{Client, Principal};
use super::share::Totals;
use crate::limits::CLIENTS_MAX;
use nfs_wire::v4::{ClientId, Status, Verifier};
use std::collections::HashMap;
use std::net::IpAddr;
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

impl Introduction<'_> {
    /// Whether it can be of a client that is known: the same user at the same address, or at another one with the verifier that
    /// nobody else knows.
    fn is_by(&self, known: &Client) -> bool {
        self.principal == known.principal
            || self.verifier == known.verifier && self.principal.user() == known.principal.user()
    }
}

impl Clients {
    /// The client of an introduction: found, or made with a number whose upper half is `boot`; and one whose place it takes,
    /// to be ended. The comments give the cases of RFC 8881 §18.35.4.
    pub(crate) fn introduce(
        &mut self,
        boot: u32,
        who: &Introduction<'_>,
        totals: &Arc<Totals>,
        is_heard: impl FnOnce(&Client) -> bool,
    ) -> Result<(Arc<Client>, Option<Arc<Client>>), Status> {
        let add = |clients: &mut Self| clients.add(boot, who, totals);
        let confirmed = self.owners.get(who.owner).and_then(|owner| owner.confirmed.clone());
        match (confirmed, who.updates) {
            // 7
            (None, true) => Err(Status::NOENT),
            // 1 and 4
            (None, false) => Ok((add(self)?, None)),
            // 8
            (Some(known), true) if known.verifier != who.verifier => Err(Status::NOT_SAME),
            // 9
            (Some(known), true) if !who.is_by(&known) => Err(Status::PERM),
            // 6
            (Some(known), true) => Ok((known, None)),
            // 3
            (Some(known), false) if !who.is_by(&known) => {
                if known.has_state() && is_heard(&known) {
                    return Err(Status::CLID_INUSE);
                }
                self.remove(&known);
                Ok((add(self)?, Some(known)))
            }
            // 2
            (Some(known), false) if known.verifier == who.verifier => Ok((known, None)),
            // 5: the client has restarted.
            (Some(_), false) => Ok((add(self)?, None)),
        }
    }

    fn add(
        &mut self,
        boot: u32,
        who: &Introduction<'_>,
        totals: &Arc<Totals>,
    ) -> Result<Arc<Client>, Status> {
        if !self.has_room(who.principal.address) {
            return Err(Status::DELAY);
        }
        let id = self.take_number(boot);
        let client = Arc::new(Client::new(id, who, totals));
        self.by_id.insert(id, Arc::clone(&client));
        let owner = self.owners.entry(who.owner.into()).or_default();
        if let Some(old) = owner.unconfirmed.replace(Arc::clone(&client)) {
            self.by_id.remove(&old.id);
        }
        Ok(client)
    }

    /// Whether there may be another client at this address.
    pub(crate) fn has_room(&self, address: IpAddr) -> bool {
        let near = self.by_id.values().filter(|other| other.principal.address == address).count();
        self.by_id.len() < CLIENTS_MAX && near < CLIENTS_MAX / 4
    }

    /// A number that no client has, and none has had of the last four billion since the service was started for the `boot`th
    /// time.
    pub(crate) fn take_number(&mut self, boot: u32) -> ClientId {
        loop {
            self.next = self.next.wrapping_add(1);
            let id = u64::from(boot) << 32 | u64::from(self.next);
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Whether a number was given to a client since then.
    pub(crate) fn has_given(&self, boot: u32, id: ClientId) -> bool {
        let first = u64::from(boot) << 32 | 1;
        self.by_id.contains_key(&id) || (first..first + u64::from(self.next)).contains(&id)
    }

    /// Adds a client that others have checked.
    pub(crate) fn adopt(&mut self, client: &Arc<Client>) {
        self.by_id.insert(client.id, Arc::clone(client));
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
    /// An error if another one has taken its own place meanwhile.
    pub(crate) fn confirm(&mut self, client: &Arc<Client>) -> Result<Option<Arc<Client>>, Status> {
        let owner = self.owners.get_mut(&client.owner).ok_or(Status::STALE_CLIENTID)?;
        if owner.confirmed.as_ref().is_some_and(|known| known.id == client.id) {
            return Ok(None);
        }
        owner.unconfirmed.take_if(|known| known.id == client.id).ok_or(Status::STALE_CLIENTID)?;
        let before = owner.confirmed.replace(Arc::clone(client));
        if let Some(before) = &before {
            self.by_id.remove(&before.id);
        }
        Ok(before)
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
    use std::net::Ipv4Addr;

    const HOST: Principal = Principal {
        flavor: nfs_wire::rpc::AuthFlavor::SYS,
        uid: 0,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    const FIRST: Introduction<'_> =
        Introduction { owner: b"host", verifier: [1; 8], principal: HOST, updates: false };

    fn introduce(clients: &mut Clients, who: Introduction<'_>) -> Result<u64, Status> {
        clients.introduce(9, &who, &Arc::default(), |_| true).map(|(client, _)| client.id)
    }

    fn introduced(clients: &mut Clients, who: &Introduction<'_>) -> Arc<Client> {
        clients.introduce(9, who, &Arc::default(), |_| true).unwrap().0
    }

    fn confirmed(clients: &mut Clients) -> Arc<Client> {
        let client = introduced(clients, &FIRST);
        assert!(clients.confirm(&client).unwrap().is_none());
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
        let client = introduced(&mut clients, &restarted);
        assert_ne!(client.id, before.id, "case 5");
        assert!(clients.get(before.id).is_some(), "not yet");
        let ended = clients.confirm(&client).unwrap();
        assert_eq!(ended.map(|ended| ended.id), Some(before.id));
        assert!(clients.confirm(&before).is_err(), "it has ended");
        assert!(clients.get(before.id).is_none());
    }

    #[test]
    fn a_stranger_takes_no_client_that_has_state() {
        let mut clients = Clients::default();
        let client = confirmed(&mut clients);
        client.count_session(true);
        let stranger = Introduction { principal: Principal { uid: 5, ..FIRST.principal }, ..FIRST };
        assert_eq!(introduce(&mut clients, stranger), Err(Status::CLID_INUSE), "case 3");
        let lapsed = clients.introduce(9, &stranger, &Arc::default(), |_| false).unwrap();
        assert_eq!(lapsed.1.map(|ended| ended.id), Some(client.id), "one that is not heard gives way");
    }

    #[test]
    fn another_host_with_the_same_name_ends_nobody() {
        let mut clients = Clients::default();
        let client = confirmed(&mut clients);
        client.count_session(true);
        let elsewhere = Principal { address: "192.0.2.9".parse().unwrap(), ..HOST };
        let twin = Introduction { verifier: [2; 8], principal: elsewhere, ..FIRST };
        assert_eq!(introduce(&mut clients, twin), Err(Status::CLID_INUSE));
        let other_way = Introduction { principal: elsewhere, ..FIRST };
        assert_eq!(introduce(&mut clients, other_way), Ok(client.id), "it proves itself by its verifier");
    }

    #[test]
    fn clients_are_bounded_and_no_address_takes_all() {
        let mut clients = Clients::default();
        let mut add = |host: u8, number: usize| {
            let owner = [&[host], &number.to_be_bytes()[..]].concat();
            let principal = Principal { address: IpAddr::from([10, 0, 0, host]), ..HOST };
            introduce(&mut clients, Introduction { owner: &owner, principal, ..FIRST }).map(drop)
        };
        for host in 0..4 {
            (0..CLIENTS_MAX / 4).for_each(|number| add(host, number).unwrap());
            assert_eq!(add(host, CLIENTS_MAX), Err(Status::DELAY));
        }
        assert_eq!(add(9, 0), Err(Status::DELAY));
    }

    #[test]
    fn numbers_that_come_round_pass_by_those_in_use() {
        let mut clients = Clients::default();
        let client = confirmed(&mut clients);
        clients.next = u32::MAX;
        assert_eq!(clients.take_number(9), 9 << 32);
        assert_eq!(clients.take_number(9), client.id + 1);
        clients.next = 0;
        assert!(clients.has_given(9, client.id));
    }
}
