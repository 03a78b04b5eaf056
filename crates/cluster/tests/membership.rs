//! Changes of a cluster by administrators, and their refusals.

mod support;

use cluster::{
    Cluster, ClusterKey, EndpointRecord, Holding, Invitation, LeaseHolder, Name, Observer, Step, Times,
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
