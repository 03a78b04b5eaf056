use super::*;
use crate::limits::INTRODUCTIONS_MAX;
use std::net::{IpAddr, Ipv4Addr};
use vfs::bounds::Networks;

const HOST: Principal =
    Principal { flavor: nfs_wire::rpc::AuthFlavor::SYS, uid: 0, address: IpAddr::V4(Ipv4Addr::LOCALHOST) };

fn first() -> Introduction<'static> {
    Introduction {
        owner: b"host",
        verifier: [1; 8],
        principal: HOST,
        party: Party::of(Networks::default().of(HOST.address)),
        updates: false,
    }
}

/// An introduction from another address.
fn at(address: IpAddr, who: Introduction<'_>) -> Introduction<'_> {
    let party = Party::of(Networks::default().of(address));
    Introduction { principal: Principal { address, ..who.principal }, party, ..who }
}

fn clients() -> Clients {
    Clients::new(&Bounds::new(INTRODUCTIONS_MAX, 0))
}

fn introduce(clients: &mut Clients, who: Introduction<'_>) -> Result<u64, Status> {
    clients.introduce(9, &who, |_| true).map(|(client, _)| client.id)
}

fn introduced(clients: &mut Clients, who: &Introduction<'_>) -> Arc<Client> {
    clients.introduce(9, who, |_| true).unwrap().0
}

fn confirmed(clients: &mut Clients) -> Arc<Client> {
    let client = introduced(clients, &first());
    assert!(clients.confirm(&client, None).unwrap().is_none());
    client
}

#[test]
fn a_new_client_gets_a_number_and_an_unconfirmed_one_another() {
    let mut clients = clients();
    let first_id = introduce(&mut clients, first()).unwrap();
    assert_ne!(introduce(&mut clients, first()), Ok(first_id), "case 4");
    assert!(clients.get(first_id).is_none(), "the first is forgotten");
    let updates = Introduction { updates: true, ..first() };
    assert_eq!(introduce(&mut clients, updates), Err(Status::NOENT), "case 7");
}

#[test]
fn a_confirmed_client_is_found_again() {
    let mut clients = clients();
    let client = confirmed(&mut clients);
    assert_eq!(introduce(&mut clients, first()), Ok(client.id), "case 2");
    let updates = Introduction { updates: true, ..first() };
    assert_eq!(introduce(&mut clients, updates), Ok(client.id), "case 6");
    let restarted = Introduction { verifier: [2; 8], ..updates };
    assert_eq!(introduce(&mut clients, restarted), Err(Status::NOT_SAME), "case 8");
    let stranger = Principal { uid: 5, ..first().principal };
    let other = Introduction { principal: stranger, ..updates };
    assert_eq!(introduce(&mut clients, other), Err(Status::PERM), "case 9");
}

#[test]
fn a_restart_ends_what_was_before_once_there_is_a_session() {
    let mut clients = clients();
    let before = confirmed(&mut clients);
    let restarted = Introduction { verifier: [2; 8], ..first() };
    let client = introduced(&mut clients, &restarted);
    assert_ne!(client.id, before.id, "case 5");
    assert!(clients.get(before.id).is_some(), "not yet");
    let ended = clients.confirm(&client, None).unwrap();
    assert_eq!(ended.map(|ended| ended.id), Some(before.id));
    assert!(clients.confirm(&before, None).is_err(), "it has ended");
    assert!(clients.get(before.id).is_none());
}

#[test]
fn a_stranger_takes_no_client_that_has_state() {
    let mut clients = clients();
    let client = confirmed(&mut clients);
    client.count_session(true);
    let stranger = Introduction { principal: Principal { uid: 5, ..first().principal }, ..first() };
    assert_eq!(introduce(&mut clients, stranger), Err(Status::CLID_INUSE), "case 3");
    let lapsed = clients.introduce(9, &stranger, |_| false).unwrap();
    assert_eq!(lapsed.1.map(|ended| ended.id), Some(client.id), "one that is not heard gives way");
}

#[test]
fn another_host_with_the_same_name_ends_nobody() {
    let mut clients = clients();
    let client = confirmed(&mut clients);
    client.count_session(true);
    let elsewhere = "192.0.2.9".parse().unwrap();
    let twin = at(elsewhere, Introduction { verifier: [2; 8], ..first() });
    assert_eq!(introduce(&mut clients, twin), Err(Status::CLID_INUSE));
    let other_way = at(elsewhere, first());
    assert_eq!(introduce(&mut clients, other_way), Ok(client.id), "it proves itself by its verifier");
}

#[test]
fn a_flood_of_introductions_costs_no_other_network_its_own() {
    let mut clients = clients();
    let honest = introduced(&mut clients, &first());
    for host in 1..4 {
        for number in 0..INTRODUCTIONS_MAX {
            let owner = [&[host][..], &number.to_be_bytes()].concat();
            let who = at(IpAddr::from([10, 0, 0, host]), Introduction { owner: &owner, ..first() });
            introduce(&mut clients, who).unwrap();
        }
    }
    assert!(clients.by_id.len() <= INTRODUCTIONS_MAX);
    assert_eq!(
        (clients.unconfirmed.len(), clients.waiting.len()),
        (clients.by_id.len(), clients.by_id.len())
    );
    assert!(clients.confirm(&honest, None).is_ok());
}

#[test]
fn another_host_that_says_to_be_the_same_client_drops_no_introduction() {
    let mut clients = clients();
    let honest = introduced(&mut clients, &first());
    let twin = at("192.0.2.9".parse().unwrap(), Introduction { verifier: [2; 8], ..first() });
    let twin = introduced(&mut clients, &twin);
    let other_user = Principal { uid: 5, ..HOST };
    introduce(&mut clients, Introduction { principal: other_user, ..first() }).unwrap();
    assert!(clients.confirm(&honest, None).unwrap().is_none());
    assert_eq!(clients.confirm(&twin, None).err(), Some(Status::STALE_CLIENTID), "the name has its client");
    assert!(clients.get(honest.id).is_some());
}

#[test]
fn numbers_that_come_round_pass_by_those_in_use() {
    let mut clients = clients();
    let client = confirmed(&mut clients);
    clients.ids.issued = u32::MAX;
    let numbers = [clients.next_id(9), clients.next_id(9)];
    assert!(!numbers.contains(&client.id), "the number of the first start is in use");
    clients.ids.issued = 0;
    assert!(clients.has_issued(9, client.id));
}
