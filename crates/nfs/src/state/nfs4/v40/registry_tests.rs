use super::*;
use crate::limits::INTRODUCTIONS_MAX;
use nfs_wire::rpc::AuthFlavor;
use vfs::bounds::Networks;

const HOST: Principal =
    Principal { flavor: AuthFlavor::SYS, uid: 0, address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) };

fn request() -> ClientIdRequest<'static> {
    by(HOST)
}

fn by(principal: Principal) -> ClientIdRequest<'static> {
    let party = Party::of(Networks::default().of(principal.address));
    ClientIdRequest { id: b"x", verifier: [1; 8], principal, party }
}

fn restarted() -> ClientIdRequest<'static> {
    ClientIdRequest { verifier: [2; 8], ..request() }
}

/// A registry that gives the clients 1, 2, 3, and confirms them with the same numbers.
struct Rig {
    registry: Registry,
    issued: u64,
    in_use: bool,
}

impl Default for Rig {
    fn default() -> Self {
        let registry = Registry::new(&Bounds::new(INTRODUCTIONS_MAX, 0));
        Self { registry, issued: 0, in_use: false }
    }
}

impl Rig {
    fn introduce(&mut self, asked: ClientIdRequest<'_>) -> Result<(u64, u64), SetClientIdError> {
        self.issued += 1;
        let fresh = NewClientIds { client: self.issued, confirm: self.issued.to_be_bytes(), now: 0 };
        let in_use = self.in_use;
        let record = self.registry.introduce(&asked, fresh, |_| in_use)?;
        Ok((record.client, u64::from_be_bytes(record.confirm)))
    }

    fn confirm(&mut self, client: u64, confirm: u64) -> Result<ConfirmOutcome, Status> {
        self.registry.confirm(client, confirm.to_be_bytes(), &HOST, true)
    }

    /// A confirmed client with number 1.
    fn confirmed() -> Self {
        let mut rig = Self::default();
        let ids = rig.introduce(request()).unwrap();
        assert!(matches!(rig.confirm(ids.0, ids.1), Ok(ConfirmOutcome::New { before: None, .. })), "case 4");
        rig
    }
}

#[test]
fn a_client_in_use_is_not_taken_by_another_principal() {
    let mut rig = Rig::confirmed();
    rig.in_use = true;
    let stranger = by(Principal { uid: 5, ..HOST });
    assert_eq!(rig.introduce(stranger), Err(SetClientIdError::InUse(HOST.address)), "case 1");
    let elsewhere = Principal { address: "192.0.2.9".parse().unwrap(), ..HOST };
    let twin = ClientIdRequest { verifier: [2; 8], ..by(elsewhere) };
    assert_eq!(rig.introduce(twin), Err(SetClientIdError::InUse(HOST.address)), "nor by another host");
    rig.in_use = false;
    assert_eq!(rig.introduce(stranger), Ok((4, 4)), "one without anything is");
}

#[test]
fn repeated_introduction_keeps_the_client_id() {
    let mut rig = Rig::confirmed();
    rig.in_use = true;
    assert_eq!(rig.introduce(request()), Ok((1, 2)), "case 2");
    assert_eq!(rig.confirm(1, 1), Ok(ConfirmOutcome::Repeated), "what was confirmed holds until then");
    let updated = rig.confirm(1, 2);
    assert!(matches!(updated, Ok(ConfirmOutcome::Updated(Record { client: 1, .. }))), "{updated:?}");
    let elsewhere = Principal { address: "192.0.2.9".parse().unwrap(), ..HOST };
    let moved = by(elsewhere);
    assert_eq!(rig.introduce(moved), Ok((1, 3)), "it proves itself by its verifier");
    let moved = rig.registry.confirm(1, 3u64.to_be_bytes(), &elsewhere, true);
    assert!(matches!(moved, Ok(ConfirmOutcome::Updated(record)) if record.principal == elsewhere));
}

#[test]
fn a_restarted_client_gets_another_number_and_ends_what_was() {
    let mut rig = Rig::confirmed();
    assert_eq!(rig.introduce(restarted()), Ok((2, 2)), "case 3");
    assert_eq!(rig.introduce(restarted()), Ok((3, 3)), "case 5");
    assert_eq!(rig.confirm(2, 2), Err(Status::STALE_CLIENTID), "it was replaced");
    let confirmed = rig.confirm(3, 3);
    assert!(matches!(confirmed, Ok(ConfirmOutcome::New { before: Some(1), .. })), "{confirmed:?}");
    assert_eq!(rig.confirm(1, 1), Err(Status::STALE_CLIENTID));
    assert_eq!(rig.registry.unconfirmed.len() + rig.registry.by_client.len(), 1);
}

#[test]
fn an_unconfirmed_one_is_replaced() {
    let mut rig = Rig::default();
    assert_eq!(rig.introduce(request()), Ok((1, 1)), "case 4");
    assert_eq!(rig.introduce(request()), Ok((2, 2)), "case 4 with one that is not confirmed");
    assert_eq!(rig.confirm(1, 1), Err(Status::STALE_CLIENTID));
    assert_eq!(rig.registry.unconfirmed.len() + rig.registry.by_client.len(), 1);
}

#[test]
fn a_confirmation_is_of_its_introduction() {
    let mut rig = Rig::confirmed();
    let ids = rig.introduce(restarted()).unwrap();
    assert_eq!(rig.confirm(9, ids.1), Err(Status::STALE_CLIENTID), "case 5");
    assert_eq!(rig.confirm(ids.0, 9), Err(Status::STALE_CLIENTID), "another verifier");
    for (address, uid) in [("127.0.0.1", 5), ("192.0.2.9", 0)] {
        let caller = Principal { uid, address: address.parse().unwrap(), ..HOST };
        let refused = rig.registry.confirm(ids.0, ids.1.to_be_bytes(), &caller, true);
        assert_eq!(refused, Err(Status::CLID_INUSE), "another caller");
    }
    assert!(matches!(rig.confirm(ids.0, ids.1), Ok(ConfirmOutcome::New { before: Some(1), .. })), "case 3");
    assert_eq!(rig.confirm(ids.0, ids.1), Ok(ConfirmOutcome::Repeated), "case 2");
}

fn at(address: &str) -> Principal {
    Principal { address: address.parse().unwrap(), ..HOST }
}

#[test]
fn a_flood_from_one_address_drives_out_nobody_else() {
    let mut rig = Rig::default();
    let honest = rig.introduce(ClientIdRequest { id: b"honest", ..request() }).unwrap();
    for number in 0..2 * INTRODUCTIONS_MAX {
        let id = number.to_be_bytes();
        rig.introduce(ClientIdRequest { id: &id, ..by(at("192.0.2.9")) }).unwrap();
    }
    let count = rig.registry.unconfirmed.len();
    assert!(count < INTRODUCTIONS_MAX / 2, "{count}");
    assert_eq!((rig.registry.by_confirm.len(), rig.registry.waiting.len()), (count, count));
    assert!(rig.confirm(honest.0, honest.1).is_ok());
}

#[test]
fn somebody_else_with_the_same_identifier_drops_no_introduction() {
    let mut rig = Rig::default();
    let honest = rig.introduce(request()).unwrap();
    let twin = rig.introduce(ClientIdRequest { verifier: [2; 8], ..by(at("192.0.2.9")) }).unwrap();
    rig.introduce(by(Principal { uid: 5, ..HOST })).unwrap();
    assert!(matches!(rig.confirm(honest.0, honest.1), Ok(ConfirmOutcome::New { before: None, .. })));
    let late = rig.registry.confirm(twin.0, twin.1.to_be_bytes(), &at("192.0.2.9"), true);
    assert_eq!(late, Err(Status::STALE_CLIENTID), "the identifier has its client");
    assert_eq!(rig.confirm(honest.0, honest.1), Ok(ConfirmOutcome::Repeated));
}

#[test]
fn a_client_that_is_known_needs_no_room() {
    let mut rig = Rig::confirmed();
    let mut confirm = |asked: ClientIdRequest<'_>| {
        let (client, confirm) = rig.introduce(asked).unwrap();
        rig.registry.confirm(client, confirm.to_be_bytes(), &HOST, false).map(drop)
    };
    assert_eq!(confirm(ClientIdRequest { id: b"y", ..request() }), Err(Status::DELAY));
    assert_eq!(confirm(request()), Ok(()));
    assert_eq!(confirm(restarted()), Ok(()));
}

#[test]
fn unconfirmed_introductions_end_after_a_lease() {
    let mut rig = Rig::confirmed();
    rig.introduce(restarted()).unwrap();
    rig.introduce(ClientIdRequest { id: b"y", ..request() }).unwrap();
    rig.registry.sweep(30, 30);
    assert_eq!((rig.registry.by_client.len(), rig.registry.unconfirmed.len()), (1, 2));
    rig.registry.sweep(31, 30);
    assert_eq!((rig.registry.by_client.len(), rig.registry.unconfirmed.len()), (1, 0));
    assert_eq!(rig.confirm(1, 1), Ok(ConfirmOutcome::Repeated));
    rig.registry.forget(1);
    assert!(rig.registry.by_client.is_empty() && rig.registry.confirmed.is_empty());
}
