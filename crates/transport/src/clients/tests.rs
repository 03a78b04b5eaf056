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

fn connect_many(clients: &Arc<Clients>, address: IpAddr, now: Instant, count: usize) -> Vec<Connected> {
    (0..count).map(|_| connect(clients, address, now).unwrap()).collect()
}

fn assert_empty(clients: &Clients) {
    let known = clients.lock();
    assert_eq!((known.connections, known.unproven.len(), known.evicted.len()), (0, 0, 0));
    assert!(known.clients.is_empty() && known.addresses.is_empty());
    assert_eq!(clients.proven.used(), 0);
}

#[test]
fn connections_of_one_address_are_bounded_in_both_notations() {
    let (clients, now) = (clients(), Instant::now());
    let mapped = Ipv4Addr::from_bits(0x0a00_0001).to_ipv6_mapped().into();
    let mut connected = connect_many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX - 1);
    connected.push(connect(&clients, mapped, now).unwrap());
    assert_eq!(connect(&clients, v4(1), now).err(), Some(Refusal::Client));
    assert!(connect(&clients, v4(2), now).is_ok());
    connected.pop();
    assert!(connect(&clients, v4(1), now).is_ok());
    drop(connected);
    assert_empty(&clients);
}

#[test]
fn the_oldest_unproven_connection_of_a_client_is_evicted_after_the_minimum_age() {
    let (clients, now) = (clients(), Instant::now());
    let connected = connect_many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX);
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
fn a_network_full_of_silent_connections_does_not_exclude_others() {
    let (clients, now) = (clients(), Instant::now());
    let hosts = 0..u16::try_from(CONNECTIONS_MAX).unwrap();
    let greedy: Vec<Connected> = hosts.map(|host| connect(&clients, v6(1, host), now).unwrap()).collect();
    assert_eq!(connect(&clients, v6(1, 1), now).err(), Some(Refusal::All), "it has them all");
    let others: Vec<Connected> = (0..20).map(|host| connect(&clients, v4(host), now).unwrap()).collect();
    assert!(greedy[..20].iter().all(Connected::is_evicted), "the oldest gave way");
    assert!(!greedy[20..].iter().chain(&others).any(Connected::is_evicted));
    assert_eq!(clients.lock().evicted.len(), 20);
    drop((greedy, others));
    assert_empty(&clients);
}

#[test]
fn proven_connections_are_never_evicted_and_leave_room_for_new_ones() {
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
    assert_empty(&clients);
}

#[test]
fn a_refused_connection_evicts_no_other() {
    let (clients, now) = (clients(), Instant::now());
    let connected = connect_many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX);
    let proven = connected.iter().filter(|connected| connected.guard.prove()).count();
    assert!(proven < connected.len());
    assert_eq!(connect(&clients, v4(1), now + EVICTION_AGE_MIN).err(), Some(Refusal::Network));
    assert!(!connected.iter().any(Connected::is_evicted));
    drop(connected);
    assert_empty(&clients);
}

/// All connections are proven at the same time: each had room when it connected.
#[test]
fn a_network_proves_only_its_share_of_concurrent_connections() {
    let (clients, now) = (clients(), Instant::now());
    let connected = connect_many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX);
    let proven = connected.iter().filter(|connected| connected.guard.prove()).count();
    assert!((CONNECTIONS_MAX / 4..CONNECTIONS_MAX / 2).contains(&proven), "{proven}");
}

#[test]
fn an_eviction_before_registration_ends_the_connection_at_registration() {
    let (clients, now) = (clients(), Instant::now());
    let waiting = clients.connect(v4(1), now).unwrap();
    let _greedy = connect_many(&clients, v4(1), now, CLIENT_CONNECTIONS_MAX - 1);
    let _others = connect_many(&clients, v4(2), now, CONNECTIONS_MAX - CLIENT_CONNECTIONS_MAX);
    let _newcomer = connect(&clients, v4(3), now).unwrap();
    let evictions = Arc::<Evictions>::default();
    let weak: Weak<Evictions> = Arc::downgrade(&evictions);
    assert!(!waiting.attach(weak), "it was the oldest");
}

#[test]
fn addresses_of_a_network_share_one_client_past_the_bound() {
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
    assert_empty(&clients);
}
