//! Changes of a cluster by administrators, and their refusals.

mod support;

use cluster::{
    Cluster, ClusterKey, EndpointRecord, Formats, GatewayRecord, Holding, Invitation, LeaseHolder, Name,
    Observer, Step, Times,
};
use std::time::Duration;
use support::{Memory, entropy};

const LEASE: Duration = Duration::from_secs(3);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn init() -> (Memory, Cluster<Memory>) {
    let store = Memory::default();
    let cluster = Cluster::init(store.clone(), &name("a"), LEASE, &entropy).unwrap();
    (store, cluster)
}

fn endpoint(last: u8) -> EndpointRecord {
    EndpointRecord { address: [10, 0, 0, last].into(), prefix: 24, gateway: None, created_ms: 0 }
}

fn refusal<T>(refused: Result<T, cluster::Error>) -> String {
    refused.err().expect("a refusal").to_string()
}

/// Has the gateway take the endpoint.
fn take(store: &Memory, cluster: &Cluster<Memory>, endpoint: &str, gateway: &str) -> Holding<Memory> {
    let seen = cluster.view().unwrap().endpoints[&name(endpoint)].stored.clone();
    let holder = LeaseHolder { gateway: gateway.to_owned(), instance: 1 };
    let (key, times) = (cluster.key(), Times::of_lease(LEASE));
    Holding::take(store.clone(), key, &name(endpoint), &seen, holder, times, Duration::ZERO).unwrap().unwrap()
}

/// The formats of a program of this version, which reads the one before.
fn version(newest: u32) -> Formats {
    Formats { oldest: newest.saturating_sub(1).max(1), newest }
}

/// A cluster of the format 1 with gateways that run programs of these versions, and a handle of each.
fn mixed(versions: &[(&str, u32)]) -> (Memory, Vec<Cluster<Memory>>) {
    let store = Memory::default();
    let first = Cluster::init_as(version(1), store.clone(), &name(versions[0].0), LEASE, &entropy).unwrap();
    for (gateway, _) in &versions[1..] {
        let invitation = first.invite(0, 60_000, &entropy).unwrap();
        Cluster::join_as(version(1), store.clone(), &invitation, &name(gateway), 0).unwrap();
    }
    let run = |&(gateway, newest): &(&str, u32)| run(&store, &first, gateway, newest);
    let gateways = versions.iter().map(run).collect();
    (store, gateways)
}

/// Starts a program of this version at a gateway.
fn run(store: &Memory, of: &Cluster<Memory>, gateway: &str, newest: u32) -> Cluster<Memory> {
    let key = ClusterKey::new(*of.key().as_bytes());
    let cluster = Cluster::open_as(version(newest), store.clone(), key).unwrap();
    beat(&cluster, gateway, newest).unwrap();
    cluster
}

fn beat(cluster: &Cluster<Memory>, gateway: &str, newest: u32) -> cluster::Result<()> {
    let own = cluster.view()?.gateways[&name(gateway)].clone();
    let record = GatewayRecord {
        instance: u64::from(newest),
        has_stopped: false,
        format: newest,
        state_format: newest,
        ..own.record.clone()
    };
    cluster.beat(&name(gateway), &own, record).map(drop)
}

#[test]
fn format_rises_when_all_gateways_read_the_next_one() {
    let (store, gateways) = mixed(&[("a", 2), ("b", 2), ("c", 1)]);
    let [a, b, c] = &gateways[..] else { unreachable!() };
    assert!(!a.raise_format(&a.view().unwrap()).unwrap(), "c reads the format 1 alone");
    assert!(!c.raise_format(&c.view().unwrap()).unwrap());
    let c = run(&store, c, "c", 2);
    let (seen_by_b, seen_by_c) = (b.view().unwrap(), c.view().unwrap());
    assert!(c.raise_format(&seen_by_c).unwrap());
    assert!(!b.raise_format(&seen_by_b).unwrap(), "c has raised it");
    assert!(!b.raise_format(&b.view().unwrap()).unwrap());
    for cluster in [a, b, &c] {
        assert_eq!(cluster.view().unwrap().format, 2);
    }
    // Administrators and gateways that read the format before the rise go on.
    a.create_endpoint(&name("x"), &endpoint(1)).unwrap();
    beat(b, "b", 2).unwrap();
}

#[test]
fn removed_gateway_does_not_hold_the_format_back() {
    let (_, gateways) = mixed(&[("a", 2), ("b", 1)]);
    let a = &gateways[0];
    assert!(!a.raise_format(&a.view().unwrap()).unwrap());
    a.remove_gateway(&name("b")).unwrap();
    assert!(a.raise_format(&a.view().unwrap()).unwrap());
    assert_eq!(a.view().unwrap().format, 2);
}

#[test]
fn gateway_that_goes_back_to_an_earlier_program_or_joins_meanwhile_stops_the_rise() {
    let (store, gateways) = mixed(&[("a", 2), ("b", 2)]);
    let [a, b] = &gateways[..] else { unreachable!() };
    let seen = a.view().unwrap();
    let b = run(&store, b, "b", 1);
    assert!(!a.raise_format(&seen).unwrap(), "b runs the earlier program again");
    assert!(!a.raise_format(&a.view().unwrap()).unwrap());
    let b = run(&store, &b, "b", 2);
    let invitation = a.invite(0, 60_000, &entropy).unwrap();
    let seen = b.view().unwrap();
    Cluster::join_as(version(1), store, &invitation, &name("c"), 0).unwrap();
    assert!(!b.raise_format(&seen).unwrap(), "c has joined");
    assert_eq!(b.view().unwrap().format, 1);
}

#[test]
fn program_that_does_not_read_the_format_is_refused_with_a_way_out() {
    let (store, gateways) = mixed(&[("a", 2)]);
    let a = &gateways[0];
    assert!(a.raise_format(&a.view().unwrap()).unwrap());
    let key = || ClusterKey::new(*a.key().as_bytes());
    let old = refusal(Cluster::open_as(version(1), store.clone(), key()));
    assert!(old.contains("has format 2") && old.contains("upgrade plimsoll on this machine"), "{old}");
    let invitation = a.invite(0, 60_000, &entropy).unwrap();
    let joining = refusal(Cluster::join_as(version(1), store.clone(), &invitation, &name("b"), 0));
    assert!(joining.contains("upgrade plimsoll on this machine"), "{joining}");
    let far = refusal(Cluster::open_as(version(4), store.clone(), key()));
    assert!(far.contains("reads formats 3 to 4") && far.contains("to a version before this one"), "{far}");
    // The refusal did not use the invitation up.
    Cluster::join_as(version(3), store, &invitation, &name("b"), 0).unwrap();
}

#[test]
fn gateway_that_starts_while_the_format_rises_is_not_taken_for_another_one() {
    let (store, gateways) = mixed(&[("a", 2), ("b", 2)]);
    let [a, b] = &gateways[..] else { unreachable!() };
    let own = b.view().unwrap().gateways[&name("b")].clone();
    assert!(a.raise_format(&a.view().unwrap()).unwrap());
    let record = GatewayRecord { instance: 77, ..own.record.clone() };
    assert_eq!(b.beat(&name("b"), &own, record).unwrap().record.instance, 77);
    // A process of the earlier program that read its record before cannot start.
    let key = ClusterKey::new(*a.key().as_bytes());
    assert!(Cluster::open_as(version(1), store, key).is_err());
}

#[test]
fn endpoint_with_a_later_state_stays_away_from_earlier_programs() {
    let (store, gateways) = mixed(&[("a", 1), ("b", 2)]);
    let [a, b] = &gateways[..] else { unreachable!() };
    a.create_endpoint(&name("x"), &endpoint(1)).unwrap();
    let steps = |cluster: &Cluster<Memory>, own: &str| {
        let view = cluster.view().unwrap();
        Observer::default().placement(&view, &name(own), &[].into(), Duration::ZERO).steps(&name(own))
    };
    assert_eq!(steps(a, "a"), [Step::Take(name("x"))]);
    let holding = take(&store, b, "x", "b");
    b.require_state_format(&name("x"), 2).unwrap();
    holding.release().unwrap();
    assert_eq!(steps(a, "a"), []);
    assert_eq!(steps(b, "b"), [Step::Take(name("x"))]);
    // Not even the administrator's choice moves it to a program that cannot serve it.
    a.prefer(&name("x"), Some(&name("a"))).unwrap();
    assert_eq!(steps(a, "a"), []);
    assert_eq!(steps(b, "b"), [Step::Take(name("x"))]);
    let refused = refusal(a.require_state_format(&name("x"), 1));
    assert!(refused.contains("upgrade plimsoll on this gateway"), "{refused}");
    b.require_state_format(&name("x"), 2).unwrap();
    a.remove_endpoint(&name("x")).unwrap();
    a.create_endpoint(&name("x"), &endpoint(1)).unwrap();
    assert_eq!(a.view().unwrap().endpoints[&name("x")].state_format, 1);
}

#[test]
fn invitation_lets_one_machine_in_and_no_second() {
    let (store, cluster) = init();
    let invitation = cluster.invite(1000, 60_000, &entropy).unwrap();
    let invitation = Invitation::parse(&invitation.to_string()).unwrap();
    let joined = Cluster::join(store.clone(), &invitation, &name("b"), 2000).unwrap();
    assert_eq!(joined.key().as_bytes(), cluster.key().as_bytes());
    assert_eq!(joined.view().unwrap().gateways.len(), 2);
    let again = refusal(Cluster::join(store, &invitation, &name("c"), 2000));
    assert!(again.contains("was used, has expired"), "{again}");
}

#[test]
fn expired_foreign_and_conflicting_invitations_are_refused() {
    let (store, cluster) = init();
    let expired = cluster.invite(0, 1000, &entropy).unwrap();
    assert!(refusal(Cluster::join(store.clone(), &expired, &name("b"), 1000)).contains("has expired"));
    let (_, other) = init();
    let foreign = other.invite(0, 60_000, &entropy).unwrap();
    assert!(refusal(Cluster::join(store.clone(), &foreign, &name("b"), 0)).contains("of another cluster"));
    let good = cluster.invite(2000, 60_000, &entropy).unwrap();
    assert!(refusal(Cluster::join(store.clone(), &expired, &name("b"), 0)).contains("has expired"));
    let taken = refusal(Cluster::join(store.clone(), &good, &name("a"), 2000));
    assert!(taken.contains("has a gateway a already"), "{taken}");
    // The refusal did not use it up.
    Cluster::join(store, &good, &name("b"), 2000).unwrap();
}

#[test]
fn second_cluster_in_a_pool_and_a_wrong_key_are_refused() {
    let (store, _) = init();
    let second = Cluster::init(store.clone(), &name("b"), LEASE, &entropy);
    assert!(refusal(second).contains("there is a cluster in this pool already"));
    let wrong = Cluster::open(store, ClusterKey::new([0; 32]));
    assert!(refusal(wrong).contains("another key signed it"));
    let empty = Cluster::open(Memory::default(), ClusterKey::new([0; 32]));
    assert!(refusal(empty).contains("plimsoll cluster init"));
}

#[test]
fn endpoints_have_names_and_addresses_of_their_own() {
    let (_, cluster) = init();
    cluster.create_endpoint(&name("x"), &endpoint(1)).unwrap();
    assert!(
        refusal(cluster.create_endpoint(&name("x"), &endpoint(2))).contains("there is an endpoint x already")
    );
    assert!(
        refusal(cluster.create_endpoint(&name("y"), &endpoint(1)))
            .contains("has the address 10.0.0.1 already")
    );
    let elsewhere = EndpointRecord { gateway: Some(name("z")), ..endpoint(2) };
    assert!(
        refusal(cluster.create_endpoint(&name("y"), &elsewhere)).contains("no gateway z; the gateways are a")
    );
    assert!(
        refusal(cluster.prefer(&name("y"), None)).contains("there is no endpoint y; the endpoints are x")
    );
    assert_eq!(cluster.view().unwrap().endpoints.len(), 1);
}

#[test]
fn endpoint_that_is_served_is_not_removed_and_a_new_one_has_no_old_state() {
    let (store, cluster) = init();
    cluster.create_endpoint(&name("x"), &endpoint(1)).unwrap();
    let holding = take(&store, &cluster, "x", "a");
    let state = holding.state();
    assert!(state.change([("whole/key", &b"secret"[..])], [], &entropy).unwrap());
    assert!(refusal(cluster.remove_endpoint(&name("x"))).contains("the gateway a serves the endpoint x"));
    assert!(refusal(cluster.remove_gateway(&name("a"))).contains("plimsoll cluster drain a"));
    holding.release().unwrap();
    cluster.remove_endpoint(&name("x")).unwrap();
    // A process of the removed endpoint changes nothing, also not in a new one of its name.
    assert!(!state.change([("whole/key", &b"late"[..])], [], &entropy).unwrap());
    cluster.create_endpoint(&name("x"), &EndpointRecord { created_ms: 1, ..endpoint(1) }).unwrap();
    let holding = take(&store, &cluster, "x", "a");
    assert!(!state.change([("whole/key", &b"late"[..])], [], &entropy).unwrap());
    assert!(holding.state().load().unwrap().is_empty());
}

#[test]
fn endpoint_whose_process_has_ended_is_taken_again_by_its_gateway() {
    let (store, cluster) = init();
    let invitation = cluster.invite(0, 60_000, &entropy).unwrap();
    Cluster::join(store.clone(), &invitation, &name("b"), 0).unwrap();
    for (endpoint_name, last) in [("x", 1), ("y", 2)] {
        cluster.create_endpoint(&name(endpoint_name), &endpoint(last)).unwrap();
        take(&store, &cluster, endpoint_name, "b");
    }
    let mut view = cluster.view().unwrap();
    view.gateways.values_mut().for_each(|gateway| gateway.record.has_stopped = false);
    let steps = |own: &str, ended: &[&str]| {
        let ended = ended.iter().map(|endpoint| name(endpoint)).collect();
        Observer::default().placement(&view, &name(own), &ended, Duration::ZERO).steps(&name(own))
    };
    assert_eq!(steps("b", &["x"]), [Step::Take(name("x"))], "although the gateway a serves nothing");
    assert_eq!(steps("b", &[]), []);
    assert_eq!(steps("a", &[]), []);
}

#[test]
fn state_is_of_the_current_holder_alone() {
    let (store, cluster) = init();
    cluster.create_endpoint(&name("x"), &endpoint(1)).unwrap();
    let first = take(&store, &cluster, "x", "a");
    let early = first.state();
    assert!(early.change([("k", &b"1"[..]), ("l", &b"1"[..])], [], &entropy).unwrap());
    let second = take(&store, &cluster, "x", "b");
    assert!(!early.change([("k", &b"2"[..])], ["l"], &entropy).unwrap());
    let found = second.state().load().unwrap();
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        [("k".to_owned(), b"1".to_vec()), ("l".to_owned(), b"1".to_vec())]
    );
    assert!(matches!(
        {
            let mut first = first;
            first.renew(LEASE)
        },
        Err(cluster::RenewError::Lost)
    ));
}

#[test]
fn value_of_another_key_or_endpoint_is_not_accepted() {
    let (store, cluster) = init();
    cluster.create_endpoint(&name("x"), &endpoint(1)).unwrap();
    let holding = take(&store, &cluster, "x", "a");
    holding.state().change([("k", &b"1"[..])], [], &entropy).unwrap();
    store.swap("endpoint.x", "state/k", "state/l");
    assert!(refusal(holding.state().load()).contains("state/l"));
}

#[test]
fn administrators_at_once_both_succeed_or_one_is_refused() {
    let (_, cluster) = init();
    let created: Vec<bool> = std::thread::scope(|scope| {
        let create = |number: usize| {
            let cluster = cluster.clone();
            scope.spawn(move || cluster.create_endpoint(&name(&format!("e{number}")), &endpoint(1)).is_ok())
        };
        let threads: Vec<_> = (0..8).map(create).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // All want one address.
    assert_eq!(created.iter().filter(|created| **created).count(), 1);
    assert_eq!(cluster.view().unwrap().endpoints.len(), 1);
}
