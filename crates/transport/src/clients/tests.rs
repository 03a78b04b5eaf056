use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CONNECTIONS_MAX: usize = 64;
const CLIENT_CONNECTIONS_MAX: usize = 48;

fn clients() -> Arc<Clients> {
    Clients::new(&Settings {
        connections_max: CONNECTIONS_MAX,
        client_connections_max: CLIENT_CONNECTIONS_MAX,
        ..Settings::for_descriptors(1, 1000)
    })
}

fn v4(host: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + host).into()
}

/// A host in one of the networks 2001:db8:0:N::/64.
fn v6(network: u16, host: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, host).into()
}

#[derive(Default)]
struct Evictions(AtomicBool);

impl Evictable for Evictions {
    fn evict(&self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "evicted twice");
    }
}

/// A connection as its event loop has it.
struct Connected {
    guard: ConnectionGuard,
    evictions: Arc<Evictions>,
}

impl Connected {
    fn is_evicted(&self) -> bool {
        self.evictions.0.load(Ordering::SeqCst)
    }
}

fn connect(clients: &Arc<Clients>, address: IpAddr, now: Instant) -> Result<Connected, Refusal> {
    let counted = clients.connect(address, now)?;
    let evictions = Arc::<Evictions>::default();
    let weak: Weak<Evictions> = Arc::downgrade(&evictions);
    assert!(counted.attach(weak));
    Ok(Connected { guard: counted, evictions })
}

fn many(clients: &Arc<Clients>, address: IpAddr, now: Instant, count: usize) -> Vec<Connected> {
    (0..count).map(|_| connect(clients, address, now).unwrap()).collect()
}

fn assert_nothing_is_left(clients: &Clients) {
    let known = clients.lock();
    assert_eq!((known.connections, known.unproven.len(), known.evicted.len()), (0, 0, 0));
    assert!(known.clients.is_empty() && known.addresses.is_empty());
    assert_eq!(clients.proven.used(), 0);
}

#[test]
fn connections_of_one_address_are_bounded_however_it_is_written() {
    let (clients, now) = (clients(), Instant::now());
    let mapped = Ipv4Addr::from_bits(0x0a00_0001).to_ipv6_mapped().into();
    let mut connected = many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX - 1);
    connected.push(connect(&clients, mapped, now).unwrap());
    assert_eq!(connect(&clients, v4(1), now).err(), Some(Refusal::Client));
    assert!(connect(&clients, v4(2), now).is_ok());
    connected.pop();
    assert!(connect(&clients, v4(1), now).is_ok());
    drop(connected);
    assert_nothing_is_left(&clients);
}

#[test]
fn the_oldest_without_proof_gives_way_within_a_client_after_its_time() {
    let (clients, now) = (clients(), Instant::now());
    let connected = many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX);
    for proven in &connected[..7] {
        assert!(proven.guard.prove());
    }
    let soon = now + EVICTION_AGE_MIN - Duration::from_millis(1);
    assert_eq!(connect(&clients, v4(1), soon).err(), Some(Refusal::Client));
    let _more = connect(&clients, v4(1), now + EVICTION_AGE_MIN).unwrap();
    let evictions: Vec<usize> = (0..connected.len()).filter(|&at| connected[at].is_evicted()).collect();
    assert_eq!(evictions, [7]);
}

#[test]
fn a_network_full_of_silent_connections_keeps_no_other_out() {
    let (clients, now) = (clients(), Instant::now());
    let hosts = 0..u16::try_from(CONNECTIONS_MAX).unwrap();
    let greedy: Vec<Connected> = hosts.map(|host| connect(&clients, v6(1, host), now).unwrap()).collect();
    assert_eq!(connect(&clients, v6(1, 1), now).err(), Some(Refusal::All), "it has them all");
    let others: Vec<Connected> = (0..20).map(|host| connect(&clients, v4(host), now).unwrap()).collect();
    assert!(greedy[..20].iter().all(Connected::is_evicted), "the oldest gave way");
    assert!(!greedy[20..].iter().chain(&others).any(Connected::is_evicted));
    assert_eq!(clients.lock().evicted.len(), 20);
    drop((greedy, others));
    assert_nothing_is_left(&clients);
}

#[test]
fn what_has_proven_something_never_gives_way_and_a_newcomer_still_has_room() {
    let (clients, now) = (clients(), Instant::now());
    let mut proven = Vec::new();
    for network in 1..=6 {
        while let Ok(connected) = connect(&clients, v6(network, 1), now)
            && connected.guard.prove()
        {
            proven.push(connected);
        }
    }
    assert_eq!(connect(&clients, v6(1, 2), now).err(), Some(Refusal::Network), "its share is used up");
    assert!(proven.len() < CONNECTIONS_MAX, "there is a reserve");
    let newcomer = connect(&clients, v4(9), now).unwrap();
    assert!(newcomer.guard.prove() && !proven.iter().any(Connected::is_evicted));
    let of_first = proven.iter().filter(|connected| connected.guard.network() == proven[0].guard.network());
    assert!(of_first.count() < CONNECTIONS_MAX / 2);
    drop((proven, newcomer));
    assert_nothing_is_left(&clients);
}

#[test]
fn a_connection_that_is_refused_evicts_none() {
    let (clients, now) = (clients(), Instant::now());
    let connected = many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX);
    let proven = connected.iter().filter(|connected| connected.guard.prove()).count();
    assert!(proven < connected.len());
    assert_eq!(connect(&clients, v4(1), now + EVICTION_AGE_MIN).err(), Some(Refusal::Network));
    assert!(!connected.iter().any(Connected::is_evicted));
    drop(connected);
    assert_nothing_is_left(&clients);
}

/// All of them prove something at one time: each of them had room when it connected.
#[test]
fn a_network_proves_no_more_than_its_share_at_once() {
    let (clients, now) = (clients(), Instant::now());
    let connected = many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX);
    let proven = connected.iter().filter(|connected| connected.guard.prove()).count();
    assert!((CONNECTIONS_MAX / 4..CONNECTIONS_MAX / 2).contains(&proven), "{proven}");
}

#[test]
fn a_connection_that_no_event_loop_has_yet_is_evicted_to_end_when_one_does() {
    let (clients, now) = (clients(), Instant::now());
    let waiting = clients.connect(v4(1), now).unwrap();
    let _greedy = many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX - 1);
    let _others = many(&clients, v4(2), now, CONNECTIONS_MAX - CLIENT_CONNECTIONS_MAX);
    let _newcomer = connect(&clients, v4(3), now).unwrap();
    let evictions = Arc::<Evictions>::default();
    let weak: Weak<Evictions> = Arc::downgrade(&evictions);
    assert!(!waiting.attach(weak), "it was the oldest");
}

#[test]
fn addresses_of_a_network_are_clients_up_to_a_bound_and_share_one_beyond() {
    let (clients, now) = (Clients::new(&Settings::for_descriptors(1, 1000)), Instant::now());
    let bound = u16::try_from(ADDRESSES_OF_NETWORK_MAX).unwrap();
    let all: Vec<ConnectionGuard> =
        (1..=bound).map(|host| clients.connect(v6(1, host), now).unwrap()).collect();
    assert!((1..=bound).zip(&all).all(|(host, counted)| counted.client() == v6(1, host)));
    let again = clients.connect(v6(1, 3), now).unwrap();
    assert_eq!(again.client(), v6(1, 3));
    let beyond = [1000, 1001].map(|host| clients.connect(v6(1, host), now).unwrap());
    assert!(beyond.iter().all(|counted| counted.client() == v6(1, bound)));
    assert!(Arc::ptr_eq(beyond[0].usage(), all[usize::from(bound) - 1].usage()));
    let elsewhere = clients.connect(v6(2, 1000), now).unwrap();
    assert_eq!(elsewhere.client(), v6(2, 1000));
    drop(all);
    assert_eq!(clients.connect(v6(1, 1002), now).unwrap().client(), v6(1, 1002));
    drop((again, beyond, elsewhere));
    assert_nothing_is_left(&clients);
}
