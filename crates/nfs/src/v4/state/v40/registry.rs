//! Who the clients of 4.0 are: SETCLIENTID and SETCLIENTID_CONFIRM as RFC 7530 §16.33.5 and §16.34.5 have them. Pure.

use crate::limits::INTRODUCTIONS_MAX;
use crate::v4::state::client::Principal;
use nfs_wire::v4::{ClientId, Status, Verifier};
use std::collections::HashMap;
use std::net::IpAddr;

/// What is known of one `nfs_client_id4.id`.
#[derive(Debug, Default)]
struct Known {
    confirmed: Option<Record>,
    unconfirmed: Option<Record>,
}

/// A client as it has introduced itself: the RFC's `{v, x, c, k, s}` without the callback, which is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) verifier: Verifier,
    pub(crate) client: ClientId,
    /// What the client confirms it with.
    pub(crate) confirm: Verifier,
    pub(crate) principal: Principal,
    /// The second of the service in which it came.
    since: u64,
}

/// A SETCLIENTID.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) verifier: Verifier,
    pub(crate) principal: Principal,
}

/// What a SETCLIENTID is given besides: numbers that nobody has had, and the time.
#[derive(Clone, Copy)]
pub(crate) struct Fresh {
    pub(crate) client: ClientId,
    pub(crate) confirm: Verifier,
    pub(crate) now: u64,
}

/// What a SETCLIENTID_CONFIRM has done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Confirmed {
    /// A client that was known has said where it takes callbacks; perhaps it has another address.
    Updated(Record),
    /// It was done before.
    Repeated,
    /// The client is there. What it was before its restart ends.
    New { record: Record, id: Box<[u8]>, before: Option<ClientId> },
}

/// The clients by identifier.
#[derive(Default)]
pub(crate) struct Registry {
    ids: HashMap<Box<[u8]>, Known>,
    /// The identifiers of clients, confirmed or not.
    by_client: HashMap<ClientId, Box<[u8]>>,
}

impl Registry {
    /// Somebody introduces itself: the record that it has to confirm. An error is the address of somebody else who uses the
    /// identifier. `is_in_use` says whether a client has something and is heard. The comments give the cases of RFC 7530
    /// §16.33.5 in their order.
    pub(crate) fn introduce(
        &mut self,
        asked: &Asked<'_>,
        fresh: Fresh,
        is_in_use: impl FnOnce(ClientId) -> bool,
    ) -> Result<Record, IpAddr> {
        let confirmed = self.ids.get(asked.id).and_then(|known| known.confirmed);
        if let Some(confirmed) = confirmed
            && !asked.is_by(&confirmed)
            && is_in_use(confirmed.client)
        {
            // 1
            return Err(confirmed.principal.address);
        }
        let client = match confirmed {
            // 2: the same instance of the client tells of another callback.
            Some(known) if known.verifier == asked.verifier && asked.is_by(&known) => known.client,
            // 3 and 5: it has restarted. 4: nobody is known.
            Some(_) | None => fresh.client,
        };
        let record = Record {
            verifier: asked.verifier,
            client,
            confirm: fresh.confirm,
            principal: asked.principal,
            since: fresh.now,
        };
        self.make_room();
        let known = self.ids.entry(asked.id.into()).or_default();
        if let Some(before) = known.unconfirmed.replace(record)
            && confirmed.is_none_or(|known| known.client != before.client)
        {
            self.by_client.remove(&before.client);
        }
        self.by_client.insert(client, asked.id.into());
        Ok(record)
    }

    /// The client with this identifier.
    pub(crate) fn confirmed(&self, id: &[u8]) -> Option<ClientId> {
        self.ids.get(id)?.confirmed.map(|record| record.client)
    }

    /// Where there are too many introductions, the oldest one gives way of the address that has most: a flood from one
    /// address drives out nobody else.
    fn make_room(&mut self) {
        let unconfirmed = || self.ids.values().filter_map(|known| known.unconfirmed);
        if unconfirmed().count() < INTRODUCTIONS_MAX {
            return;
        }
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        unconfirmed().for_each(|record| *counts.entry(record.principal.address).or_default() += 1);
        let most = counts.into_iter().max_by_key(|&(_, count)| count).map(|(address, _)| address);
        let of_most = unconfirmed().filter(|record| Some(record.principal.address) == most);
        if let Some(oldest) = of_most.min_by_key(|record| (record.since, record.client)) {
            self.drop_unconfirmed(&oldest);
        }
    }

    fn drop_unconfirmed(&mut self, record: &Record) {
        let Some(id) = self.by_client.get(&record.client).cloned() else { return };
        let Some(known) = self.ids.get_mut(&id) else { return };
        known.unconfirmed.take_if(|other| other.confirm == record.confirm);
        if known.confirmed.is_none_or(|confirmed| confirmed.client != record.client) {
            self.by_client.remove(&record.client);
        }
        if known.is_empty() {
            self.ids.remove(&id);
        }
    }

    /// A client confirms its introduction. `has_room` says whether there may be another one at its address. The comments give
    /// the cases of RFC 7530 §16.34.5 in their order.
    pub(crate) fn confirm(
        &mut self,
        client: ClientId,
        confirm: Verifier,
        caller: &Principal,
        has_room: impl FnOnce(IpAddr) -> bool,
    ) -> Result<Confirmed, Status> {
        let id = self.by_client.get(&client).ok_or(Status::STALE_CLIENTID)?;
        let known = self.ids.get_mut(id).ok_or(Status::STALE_CLIENTID)?;
        let matches = |record: &&Record| record.client == client && record.confirm == confirm;
        if let Some(record) = known.unconfirmed.as_ref().filter(matches).copied() {
            if record.principal != *caller {
                return Err(Status::CLID_INUSE);
            }
            if known.confirmed.is_none() && !has_room(caller.address) {
                return Err(Status::DELAY);
            }
            known.unconfirmed = None;
            let before = known.confirmed.replace(record);
            return Ok(match before {
                // 1: the same client with another callback.
                Some(before) if before.client == client => Confirmed::Updated(record),
                // 3: it has restarted; 4: nobody was known.
                before => {
                    let before = before.map(|before| before.client);
                    let id = id.clone();
                    if let Some(before) = before {
                        self.by_client.remove(&before);
                    }
                    Confirmed::New { record, id, before }
                }
            });
        }
        match known.confirmed.as_ref().filter(matches) {
            // 2: the reply was lost.
            Some(record) if record.principal.user() == caller.user() => Ok(Confirmed::Repeated),
            Some(_) => Err(Status::CLID_INUSE),
            // 5
            None => Err(Status::STALE_CLIENTID),
        }
    }

    /// A client has ended.
    pub(crate) fn forget(&mut self, client: ClientId) {
        let Some(id) = self.by_client.remove(&client) else { return };
        let Some(known) = self.ids.get_mut(&id) else { return };
        known.confirmed.take_if(|record| record.client == client);
        known.unconfirmed.take_if(|record| record.client == client);
        if known.is_empty() {
            self.ids.remove(&id);
        }
    }

    /// Forgets introductions that nobody has confirmed within a lease.
    pub(crate) fn sweep(&mut self, now: u64, lease_s: u64) {
        let is_over = |record: &Record| now.saturating_sub(record.since) > lease_s;
        let unconfirmed = self.ids.values().filter_map(|known| known.unconfirmed);
        let over: Vec<Record> = unconfirmed.filter(is_over).collect();
        over.iter().for_each(|record| self.drop_unconfirmed(record));
    }
}

impl Known {
    fn is_empty(&self) -> bool {
        self.confirmed.is_none() && self.unconfirmed.is_none()
    }
}

impl Asked<'_> {
    /// Whether it can be of a client that is known: the same user at the same address, or at another one with the verifier
    /// that nobody else knows.
    fn is_by(&self, known: &Record) -> bool {
        self.principal == known.principal
            || self.verifier == known.verifier && self.principal.user() == known.principal.user()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_wire::rpc::AuthFlavor;

    const HOST: Principal =
        Principal { flavor: AuthFlavor::SYS, uid: 0, address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) };
    const ASKED: Asked<'_> = Asked { id: b"x", verifier: [1; 8], principal: HOST };
    const RESTARTED: Asked<'_> = Asked { verifier: [2; 8], ..ASKED };

    /// A registry that gives the clients 1, 2, 3, and confirms them with the same numbers.
    #[derive(Default)]
    struct Rig {
        registry: Registry,
        given: u64,
        in_use: bool,
    }

    impl Rig {
        fn introduce(&mut self, asked: Asked<'_>) -> Result<(u64, u64), IpAddr> {
            self.given += 1;
            let fresh = Fresh { client: self.given, confirm: self.given.to_be_bytes(), now: 0 };
            let in_use = self.in_use;
            let record = self.registry.introduce(&asked, fresh, |_| in_use)?;
            Ok((record.client, u64::from_be_bytes(record.confirm)))
        }

        fn confirm(&mut self, (client, confirm): (u64, u64)) -> Result<Confirmed, Status> {
            self.registry.confirm(client, confirm.to_be_bytes(), &HOST, |_| true)
        }

        /// A confirmed client with number 1.
        fn confirmed() -> Self {
            let mut rig = Self::default();
            let given = rig.introduce(ASKED).unwrap();
            assert!(matches!(rig.confirm(given), Ok(Confirmed::New { before: None, .. })), "case 4");
            rig
        }
    }

    #[test]
    fn a_client_in_use_is_not_taken_by_another_principal() {
        let mut rig = Rig::confirmed();
        rig.in_use = true;
        let stranger = Asked { principal: Principal { uid: 5, ..HOST }, ..ASKED };
        assert_eq!(rig.introduce(stranger), Err(HOST.address), "case 1");
        let elsewhere = Principal { address: "192.0.2.9".parse().unwrap(), ..HOST };
        let twin = Asked { principal: elsewhere, ..RESTARTED };
        assert_eq!(rig.introduce(twin), Err(HOST.address), "nor by another host");
        rig.in_use = false;
        assert_eq!(rig.introduce(stranger), Ok((4, 4)), "one without anything is");
    }

    #[test]
    fn the_same_instance_keeps_its_number() {
        let mut rig = Rig::confirmed();
        rig.in_use = true;
        assert_eq!(rig.introduce(ASKED), Ok((1, 2)), "case 2");
        assert_eq!(rig.confirm((1, 1)), Ok(Confirmed::Repeated), "what was confirmed holds until then");
        let updated = rig.confirm((1, 2));
        assert!(matches!(updated, Ok(Confirmed::Updated(Record { client: 1, .. }))), "{updated:?}");
        let elsewhere = Principal { address: "192.0.2.9".parse().unwrap(), ..HOST };
        let moved = Asked { principal: elsewhere, ..ASKED };
        assert_eq!(rig.introduce(moved), Ok((1, 3)), "it proves itself by its verifier");
        let moved = rig.registry.confirm(1, 3u64.to_be_bytes(), &elsewhere, |_| true);
        assert!(matches!(moved, Ok(Confirmed::Updated(record)) if record.principal == elsewhere));
    }

    #[test]
    fn a_restarted_client_gets_another_number_and_ends_what_was() {
        let mut rig = Rig::confirmed();
        assert_eq!(rig.introduce(RESTARTED), Ok((2, 2)), "case 3");
        assert_eq!(rig.introduce(RESTARTED), Ok((3, 3)), "case 5");
        assert_eq!(rig.confirm((2, 2)), Err(Status::STALE_CLIENTID), "it was replaced");
        let confirmed = rig.confirm((3, 3));
        assert!(matches!(confirmed, Ok(Confirmed::New { before: Some(1), .. })), "{confirmed:?}");
        assert_eq!(rig.confirm((1, 1)), Err(Status::STALE_CLIENTID));
        assert_eq!(rig.registry.by_client.len(), 1);
    }

    #[test]
    fn an_unconfirmed_one_is_replaced() {
        let mut rig = Rig::default();
        assert_eq!(rig.introduce(ASKED), Ok((1, 1)), "case 4");
        assert_eq!(rig.introduce(ASKED), Ok((2, 2)), "case 4 with one that is not confirmed");
        assert_eq!(rig.confirm((1, 1)), Err(Status::STALE_CLIENTID));
        assert_eq!(rig.registry.by_client.len(), 1);
    }

    #[test]
    fn a_confirmation_is_of_its_introduction() {
        let mut rig = Rig::confirmed();
        let given = rig.introduce(RESTARTED).unwrap();
        assert_eq!(rig.confirm((9, given.1)), Err(Status::STALE_CLIENTID), "case 5");
        assert_eq!(rig.confirm((given.0, 9)), Err(Status::STALE_CLIENTID), "another verifier");
        for (address, uid) in [("127.0.0.1", 5), ("192.0.2.9", 0)] {
            let caller = Principal { uid, address: address.parse().unwrap(), ..HOST };
            let refused = rig.registry.confirm(given.0, given.1.to_be_bytes(), &caller, |_| true);
            assert_eq!(refused, Err(Status::CLID_INUSE), "another caller");
        }
        assert!(matches!(rig.confirm(given), Ok(Confirmed::New { before: Some(1), .. })), "case 3");
        assert_eq!(rig.confirm(given), Ok(Confirmed::Repeated), "case 2");
    }

    fn at(address: &str) -> Principal {
        Principal { address: address.parse().unwrap(), ..HOST }
    }

    #[test]
    fn a_flood_from_one_address_drives_out_nobody_else() {
        let mut rig = Rig::default();
        let honest = rig.introduce(Asked { id: b"honest", principal: HOST, ..ASKED }).unwrap();
        for number in 0..2 * INTRODUCTIONS_MAX {
            let id = number.to_be_bytes();
            rig.introduce(Asked { id: &id, principal: at("192.0.2.9"), ..ASKED }).unwrap();
        }
        assert_eq!(rig.registry.ids.len(), INTRODUCTIONS_MAX);
        assert_eq!(rig.registry.by_client.len(), INTRODUCTIONS_MAX);
        assert!(rig.confirm(honest).is_ok());
    }

    #[test]
    fn a_client_that_is_known_needs_no_room() {
        let mut rig = Rig::confirmed();
        let mut confirm = |asked: Asked<'_>| {
            let (client, confirm) = rig.introduce(asked).unwrap();
            rig.registry.confirm(client, confirm.to_be_bytes(), &HOST, |_| false).map(drop)
        };
        assert_eq!(confirm(Asked { id: b"y", ..ASKED }), Err(Status::DELAY));
        assert_eq!(confirm(ASKED), Ok(()));
        assert_eq!(confirm(RESTARTED), Ok(()));
    }

    #[test]
    fn what_nobody_confirms_is_forgotten_after_a_lease() {
        let mut rig = Rig::confirmed();
        rig.introduce(RESTARTED).unwrap();
        rig.introduce(Asked { id: b"y", ..ASKED }).unwrap();
        rig.registry.sweep(30, 30);
        assert_eq!(rig.registry.by_client.len(), 3);
        rig.registry.sweep(31, 30);
        assert_eq!((rig.registry.by_client.len(), rig.registry.ids.len()), (1, 1));
        assert_eq!(rig.confirm((1, 1)), Ok(Confirmed::Repeated));
        rig.registry.forget(1);
        assert!(rig.registry.by_client.is_empty() && rig.registry.ids.is_empty());
    }
}
