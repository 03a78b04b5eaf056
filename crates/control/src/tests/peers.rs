//! Replications between two services: peers, authorizations, states, failures.

use super::replications::{Files, is_writable, live, put, seen};
use super::rig::{FailureMode, Killed, Rig, context, furnished, new_volume, volume};
use crate::{
    Error, MirrorState, NewPeer, NewReplication, Outcome, PeerChange, PeerName, PublicKey, Replication,
    ReplicationError, ReplicationSchedule, Result, Service, VolumeName,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::Provisioner;

/// A service at an address.
struct Site {
    rig: Rig,
    service: Option<Arc<Service>>,
}

impl Site {
    fn service(&self) -> &Arc<Service> {
        self.service.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.service = None;
        self.service = Some(Arc::new(self.rig.open()));
    }
}

/// The site `a` with the volume `v`, which has a file, and the site `b` with the volume `copy`, which has none. They are peers.
struct Sites {
    a: Site,
    b: Site,
}

fn name(text: &str) -> PeerName {
    text.parse().unwrap()
}

fn key(service: &Service) -> PublicKey {
    service.identity().unwrap().public()
}

fn site(number: u64, of: &str) -> Site {
    let rig = Rig::new();
    rig.draw_from(number << 32);
    let service = furnished(&rig);
    if of != "v" {
        service.create_volume(&context(), &new_volume(of, "p", 1024)).unwrap();
    }
    Site { rig, service: Some(Arc::new(service)) }
}

impl Sites {
    fn new() -> Self {
        let sites = Self { a: site(1, "v"), b: site(2, "copy") };
        put(&sites.a.rig, sites.a.service(), "v", "a", 1);
        sites.connect();
        let peer = |of: &str, key, address: Option<&str>| NewPeer {
            name: name(of),
            key,
            address: address.map(str::to_owned),
        };
        let (a, b) = (sites.a.service(), sites.b.service());
        a.create_peer(&context(), &peer("b", key(b), None)).unwrap();
        b.create_peer(&context(), &peer("a", key(a), Some("a:1"))).unwrap();
        sites
    }

    /// Shows both services to the network.
    fn connect(&self) {
        for from in [&self.a, &self.b] {
            let mut services = from.rig.network.services.lock();
            services.insert("a:1".to_owned(), Arc::downgrade(self.a.service()));
            services.insert("b:1".to_owned(), Arc::downgrade(self.b.service()));
        }
    }

    fn authorized() -> Self {
        let sites = Self::new();
        sites.a.service().authorize(&context(), &volume("v"), &name("b")).unwrap();
        sites
    }

    /// With a replication whose first transfer has ended.
    fn replicated() -> Self {
        let sites = Self::authorized();
        sites.create();
        sites.run();
        assert_eq!(sites.state(), MirrorState::Mirrored);
        sites
    }

    fn create(&self) {
        self.b.service().create_replication(&context(), &new(None)).unwrap();
    }

    fn run(&self) {
        self.b.service().run_waiting_jobs();
        self.b.rig.network.settle();
    }

    fn sync(&self) -> Outcome {
        let begun = self.b.service().sync_replication(&context(), &volume("copy")).unwrap();
        self.run();
        self.b.service().operation(begun.id).unwrap().outcome
    }

    fn found(&self) -> Replication {
        self.b.service().replication(&volume("copy")).unwrap()
    }

    fn state(&self) -> MirrorState {
        self.b.service().replication_status(&self.found()).unwrap().state
    }

    fn seen(&self) -> Option<Files> {
        seen(&self.b.rig, self.b.service(), "copy")
    }

    fn live(&self) -> Files {
        live(&self.a.rig, self.a.service(), "v")
    }

    fn put(&self, file: &str, len: usize) {
        put(&self.a.rig, self.a.service(), "v", file, len);
    }

    fn reopen_a(&mut self) {
        self.a.reopen();
        self.connect();
    }

    fn points(&self, site: &Site, of: &str) -> usize {
        site.service().run_waiting_jobs();
        site.service().snapshots(&volume(of), None, 100).unwrap().items.len()
    }
}

fn new(schedule: Option<ReplicationSchedule>) -> NewReplication {
    NewReplication { volume: volume("copy"), source: volume("v"), peer: Some(name("a")), schedule }
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[track_caller]
fn failed(outcome: &Outcome, with: &str) {
    match outcome {
        Outcome::Failed(reason) => assert!(reason.contains(with), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn states_follow_the_table_over_two_services() {
    let sites = Sites::new();
    let b = sites.b.service();
    sites.create();
    assert_eq!(sites.state(), MirrorState::BaselineTransferring);
    sites.run();
    // The source has not authorized it.
    assert_eq!(sites.state(), MirrorState::PendingPeering);
    assert!(sites.found().last_error.contains("authorize it there"), "{}", sites.found().last_error);
    assert_eq!(sites.seen(), None);
    sites.a.service().authorize(&context(), &volume("v"), &name("b")).unwrap();
    assert_eq!(sites.sync(), Outcome::Succeeded);
    assert_eq!(sites.state(), MirrorState::Mirrored);
    assert_eq!(sites.seen(), Some(sites.live()));
    assert!(!is_writable(&sites.b.rig, b, "copy") && is_writable(&sites.a.rig, sites.a.service(), "v"));
    let status = b.replication_status(&sites.found()).unwrap();
    assert!(status.lag_ms.is_some() && sites.found().total_bytes > 0);

    sites.put("b", 2);
    let before = sites.seen();
    b.sync_replication(&context(), &volume("copy")).unwrap();
    assert_eq!((sites.state(), sites.seen()), (MirrorState::Transferring, before));
    sites.run();
    assert_eq!(sites.seen(), Some(sites.live()));

    b.break_replication(&context(), &volume("copy")).unwrap();
    assert_eq!(sites.state(), MirrorState::Stopped);
    assert!(is_writable(&sites.b.rig, b, "copy"));
    put(&sites.b.rig, b, "copy", "own", 3);
    sites.put("c", 4);
    let refused = refusal(b.resume_replication(&context(), &volume("copy")));
    assert!(refused.contains("would go back to replication."), "{refused}");
    b.resume_replication(&context().forced(), &volume("copy")).unwrap();
    sites.run();
    assert_eq!((sites.state(), sites.seen()), (MirrorState::Mirrored, Some(sites.live())));

    b.break_replication(&context(), &volume("copy")).unwrap();
    b.delete_replication(&context(), &volume("copy")).unwrap();
    assert_eq!(sites.points(&sites.b, "copy"), 0);
    assert!(is_writable(&sites.b.rig, b, "copy"));
    assert_eq!(
        sites.points(&sites.a, "v"),
        2,
        "the source keeps its points until the authorization is revoked"
    );
    sites.a.service().revoke(&context(), &volume("v"), &name("b")).unwrap();
    assert_eq!(sites.points(&sites.a, "v"), 0);
    sites.a.rig.check_agreement(sites.a.service());
    sites.b.rig.check_agreement(b);
}

/// A replication that is stopped, with changes at the destination.
fn failed_over() -> Sites {
    let sites = Sites::replicated();
    sites.put("b", 2);
    assert_eq!(sites.sync(), Outcome::Succeeded);
    let (a, b) = (sites.a.service(), sites.b.service());
    a.update_peer(&context(), &name("b"), &PeerChange { address: Some(Some("b:1".to_owned())), key: None })
        .unwrap();
    b.break_replication(&context(), &volume("copy")).unwrap();
    put(&sites.b.rig, b, "copy", "own", 3);
    sites
}

/// The replication in the other direction.
fn back() -> NewReplication {
    NewReplication { volume: volume("v"), source: volume("copy"), peer: Some(name("b")), schedule: None }
}

fn run_at_a(sites: &Sites) {
    sites.a.service().run_waiting_jobs();
    sites.a.rig.network.settle();
}

#[test]
fn both_sides_written_after_a_partition_are_never_merged_and_both_last_points_are_named() {
    let sites = Sites::replicated();
    let b = sites.b.service();
    let number = |name: &str| name.rsplit_once('.').unwrap().1.parse::<u64>().unwrap();
    let common = b.replication_status(&sites.found()).unwrap().last_point.unwrap().to_string();
    // The connection ends amid the transfer of a point that the source has made.
    sites.put("b", 400);
    sites.b.rig.network.cut.store(400, Ordering::SeqCst);
    assert!(matches!(sites.sync(), Outcome::Failed(_)));
    sites.b.rig.network.cut.store(0, Ordering::SeqCst);
    b.break_replication(&context(), &volume("copy")).unwrap();
    sites.run();
    put(&sites.b.rig, b, "copy", "own", 3);
    sites.put("late", 4);
    let refused = refusal(b.resume_replication(&context(), &volume("copy")));
    let at_source = sites.a.service().snapshots(&volume("v"), None, 100).unwrap().items;
    let at_source = at_source.iter().map(|one| one.name.to_string()).max_by_key(|name| number(name)).unwrap();
    assert!(number(&at_source) > number(&common), "{at_source}, {common}");
    assert!(refused.contains(&format!("would go back to {common}")), "{refused}");
    let last = format!("the last point of copy is {common}, that of v of a is {at_source}");
    assert!(refused.contains(&last), "{refused}");
    // Nothing has changed.
    assert!(live(&sites.b.rig, b, "copy").contains_key("own") && sites.live().contains_key("late"));
    b.resume_replication(&context().forced(), &volume("copy")).unwrap();
    sites.run();
    assert_eq!(sites.seen(), Some(sites.live()));
}

#[test]
fn source_follows_its_destination_and_back_again() {
    let sites = failed_over();
    let (a, b) = (sites.a.service(), sites.b.service());
    let refused = refusal(a.create_replication(&context(), &back()));
    assert!(refused.contains("authorize it there"), "{refused}");
    b.authorize(&context(), &volume("copy"), &name("a")).unwrap();
    sites.put("late", 4);
    let before = sites.live();
    let refused = refusal(a.create_replication(&context(), &back()));
    assert!(refused.contains("would go back to replication."), "{refused}");
    assert_eq!((sites.live(), is_writable(&sites.a.rig, a, "v")), (before, true));
    let dialed = sites.a.rig.network.dialed.load(Ordering::SeqCst);
    a.create_replication(&context().forced(), &back()).unwrap();
    run_at_a(&sites);
    let state = |service: &Service, of: &str| {
        let found = service.replication(&volume(of)).unwrap();
        service.replication_status(&found).unwrap().state
    };
    assert_eq!(state(a, "v"), MirrorState::Mirrored);
    assert_eq!(sites.a.rig.network.dialed.load(Ordering::SeqCst), dialed + 2);
    let seen_at_a = || seen(&sites.a.rig, a, "v");
    let live_at_b = || live(&sites.b.rig, b, "copy");
    assert_eq!(seen_at_a(), Some(live_at_b()));
    assert!(live_at_b().contains_key("own") && !live_at_b().contains_key("late"));
    assert!(!is_writable(&sites.a.rig, a, "v") && is_writable(&sites.b.rig, b, "copy"));
    assert!(matches!(b.replication(&volume("copy")), Err(Error::NotFound { .. })));
    let sent = a.replication(&volume("v")).unwrap().total_bytes;
    assert!(sent < 2_000, "not a full copy: {sent}");
    put(&sites.b.rig, b, "copy", "more", 5);
    a.sync_replication(&context(), &volume("v")).unwrap();
    run_at_a(&sites);
    assert_eq!(seen_at_a(), Some(live_at_b()));

    // The first site is whole again and takes over; the other one follows as before.
    a.break_replication(&context(), &volume("v")).unwrap();
    a.authorize(&context(), &volume("v"), &name("b")).unwrap();
    sites.put("back", 6);
    b.create_replication(&context(), &new(None)).unwrap();
    sites.run();
    assert_eq!(sites.state(), MirrorState::Mirrored);
    assert_eq!(sites.seen(), Some(sites.live()));
    assert!(sites.live().contains_key("back") && sites.live().contains_key("more"));
    assert!(sites.points(&sites.a, "v") <= 2 && sites.points(&sites.b, "copy") <= 2);
    sites.a.rig.check_agreement(a);
    sites.b.rig.check_agreement(b);
}

#[test]
fn only_a_destination_that_is_stopped_turns_round() {
    let sites = Sites::replicated();
    let (a, b) = (sites.a.service(), sites.b.service());
    a.update_peer(&context(), &name("b"), &PeerChange { address: Some(Some("b:1".to_owned())), key: None })
        .unwrap();
    b.authorize(&context(), &volume("copy"), &name("a")).unwrap();
    let refused = refusal(a.create_replication(&context().forced(), &back()));
    assert!(refused.contains("break it there first"), "{refused}");
    let other = NewReplication { source: volume("other"), ..back() };
    let refused = refusal(a.create_replication(&context().forced(), &other));
    assert!(refused.contains("authorize it there"), "{refused}");
    // Nothing has changed on either side.
    sites.put("b", 2);
    assert_eq!(sites.sync(), Outcome::Succeeded);
    assert_eq!(sites.seen(), Some(sites.live()));
}

#[test]
fn reversal_that_is_killed_at_any_step_is_one_point_and_goes_on() {
    for step in 1.. {
        let mut sites = failed_over();
        sites.b.service().authorize(&context(), &volume("copy"), &name("a")).unwrap();
        let reverse = |sites: &Sites| {
            let done = sites.a.service().create_replication(&context().forced(), &back());
            run_at_a(sites);
            done.map(drop)
        };
        sites.a.rig.fuse.arm(step, FailureMode::Dead);
        let died = catch_unwind(AssertUnwindSafe(|| reverse(&sites)));
        let is_over = !died.is_err_and(|payload| payload.is::<Killed>());
        sites.a.rig.fuse.disarm();
        sites.a.rig.network.settle();
        sites.reopen_a();
        run_at_a(&sites);
        // The operator asks again.
        match reverse(&sites) {
            Ok(()) => {}
            Err(error) => panic!("step {step}: {error}"),
        }
        let a = sites.a.service();
        a.sync_replication(&context(), &volume("v")).unwrap();
        run_at_a(&sites);
        let expected = Some(live(&sites.b.rig, sites.b.service(), "copy"));
        assert_eq!(seen(&sites.a.rig, a, "v"), expected, "step {step}");
        assert!(!is_writable(&sites.a.rig, a, "v"), "step {step}");
        sites.a.rig.check_agreement(a);
        if is_over {
            assert!(step > 5);
            break;
        }
    }
}

#[test]
fn peers_and_authorizations_are_pinned_while_they_are_used() {
    let sites = Sites::replicated();
    let (a, b) = (sites.a.service(), sites.b.service());
    let refused = refusal(a.delete_peer(&context(), &name("b")));
    assert!(refused.contains("used by the authorization for the volume v"), "{refused}");
    let refused = refusal(b.delete_peer(&context(), &name("a")));
    assert!(refused.contains("used by the replication to copy"), "{refused}");
    let refused = refusal(a.delete_volume(&context().forced(), &volume("v")));
    assert!(refused.contains("a volume of b"), "{refused}");
    let point = a.snapshots(&volume("v"), None, 10).unwrap().items.remove(0);
    let refused = refusal(a.delete_snapshot(&context(), &volume("v"), &point.name));
    assert!(refused.contains("needs the snapshot"), "{refused}");
    let listed = a.authorizations().unwrap();
    assert!(listed.len() == 1 && listed[0].confirmed_ms.is_some());
    assert!(a.last_offered(&listed[0]).unwrap().is_some());
    let refused = refusal(b.reverse_replication(&context(), &volume("copy")));
    assert!(refused.contains("authorize a for copy here"), "{refused}");
}

#[test]
fn keys_of_peers_are_checked() {
    let sites = Sites::new();
    let (a, b) = (sites.a.service(), sites.b.service());
    let peer = |text: &str, key, address: Option<&str>| NewPeer {
        name: name(text),
        key,
        address: address.map(str::to_owned),
    };
    let refused = refusal(a.create_peer(&context(), &peer("c", key(a), None)));
    assert!(refused.contains("the key is that of this service"), "{refused}");
    let refused = refusal(a.create_peer(&context(), &peer("c", key(b), None)));
    assert!(refused.contains("the key is that of the peer b"), "{refused}");
    for address in ["", "b", "b:", ":1", "b:0", "b:70000", "b c:1", "b:1/x", "b:+1"] {
        let refused = refusal(a.create_peer(&context(), &peer("c", PublicKey([1; 32]), Some(address))));
        assert!(refused.contains("HOST:PORT"), "{address}: {refused}");
    }
    let made = a.create_peer(&context(), &peer("b", key(b), None)).unwrap();
    assert!(!made.operation.has_changed());
    let other = a.create_peer(&context(), &peer("b", PublicKey([1; 32]), None));
    assert!(matches!(other, Err(Error::Conflict { .. })));
    assert!(a.is_peer(&key(b)) && !a.is_peer(&PublicKey([1; 32])));
    let change =
        PeerChange { key: Some(PublicKey([1; 32])), address: Some(Some("b.example.org:1".to_owned())) };
    let changed = a.update_peer(&context(), &name("b"), &change).unwrap().value;
    assert_eq!((changed.version, changed.address.as_deref()), (2, Some("b.example.org:1")));
    assert!(!a.is_peer(&key(b)) && a.is_peer(&PublicKey([1; 32])));
    a.delete_peer(&context(), &name("b")).unwrap();
    assert!(!a.is_peer(&PublicKey([1; 32])));
}

#[test]
fn changed_key_stops_transfers_until_it_is_pinned_anew() {
    let sites = Sites::replicated();
    let (a, b) = (sites.a.service(), sites.b.service());
    sites.put("b", 2);
    let before = sites.seen();
    // The source does not know this service any more.
    let other = PeerChange { key: Some(PublicKey([1; 32])), ..PeerChange::default() };
    a.update_peer(&context(), &name("b"), &other).unwrap();
    assert!(matches!(sites.sync(), Outcome::Failed(_)));
    a.update_peer(&context(), &name("b"), &PeerChange { key: Some(key(b)), ..PeerChange::default() })
        .unwrap();
    // This service does not know the source any more.
    b.update_peer(&context(), &name("a"), &other).unwrap();
    failed(&sites.sync(), "does not have the key");
    assert_eq!((sites.seen(), sites.state()), (before, MirrorState::Mirrored));
    assert!(!sites.found().is_healthy);
    b.update_peer(&context(), &name("a"), &PeerChange { key: Some(key(a)), ..PeerChange::default() })
        .unwrap();
    assert_eq!(sites.sync(), Outcome::Succeeded);
    assert!(sites.found().is_healthy);
    assert_eq!(sites.seen(), Some(sites.live()));
}

#[test]
fn connection_cut_at_any_place_leaves_one_point_and_goes_on() {
    let sites = Sites::replicated();
    let cut = &sites.b.rig.network.cut;
    let (mut cuts, mut last) = (0, sites.live());
    for number in 0.. {
        sites.put(&format!("file-{}", number % 7), 10 + number);
        let states = [last.clone(), sites.live()];
        cut.store(1 + number * 53 % 1_200, Ordering::SeqCst);
        match sites.sync() {
            Outcome::Succeeded => last = sites.seen().unwrap(),
            Outcome::Failed(_) => cuts += 1,
            other => panic!("{other:?}"),
        }
        let seen = sites.seen().unwrap();
        // A transfer that goes on ends with the state of when it began, which was seen before.
        assert!(seen == last || states.contains(&seen), "{number}");
        assert!(!is_writable(&sites.b.rig, sites.b.service(), "copy"));
        if cuts == 100 {
            break;
        }
    }
    cut.store(0, Ordering::SeqCst);
    // The rest of the one that was cut, and then the present.
    assert_eq!(sites.sync(), Outcome::Succeeded);
    assert_eq!(sites.sync(), Outcome::Succeeded);
    assert_eq!(sites.seen(), Some(sites.live()));
    assert!(sites.points(&sites.a, "v") <= 2 && sites.points(&sites.b, "copy") <= 2);
}

#[test]
fn cut_transfer_goes_on_before_the_next_one_is_due() {
    let sites = Sites::authorized();
    sites.b.service().create_replication(&context(), &new(Some(ReplicationSchedule::Daily))).unwrap();
    sites.run();
    sites.put("b", 400);
    sites.b.rig.network.cut.store(300, Ordering::SeqCst);
    assert!(matches!(sites.sync(), Outcome::Failed(_)));
    sites.b.rig.network.cut.store(0, Ordering::SeqCst);
    sites.b.service().run_replications().unwrap();
    sites.run();
    assert_ne!(sites.seen(), Some(sites.live()), "too soon");
    sites.b.rig.now_ms.fetch_add(60_000, Ordering::SeqCst);
    sites.b.service().run_replications().unwrap();
    sites.run();
    assert_eq!(sites.seen(), Some(sites.live()));
}

#[test]
fn killed_destination_goes_on_at_any_step() {
    for step in 1.. {
        let mut sites = Sites::replicated();
        sites.put("b", 50);
        sites.put("a", 7);
        let before = sites.seen();
        sites.b.rig.fuse.arm(step, FailureMode::Dead);
        let died = catch_unwind(AssertUnwindSafe(|| sites.sync()));
        let is_over = !died.is_err_and(|payload| payload.is::<Killed>());
        sites.b.rig.fuse.disarm();
        sites.b.rig.network.settle();
        sites.b.reopen();
        sites.connect();
        let seen = sites.seen();
        assert!(seen == before || seen == Some(sites.live()), "step {step}");
        sites.run();
        assert_eq!(sites.sync(), Outcome::Succeeded, "step {step}");
        assert_eq!(sites.seen(), Some(sites.live()), "step {step}");
        sites.b.rig.check_agreement(sites.b.service());
        if is_over {
            assert!(step > 5);
            break;
        }
    }
}

#[test]
fn killed_source_goes_on_at_any_step() {
    for is_first in [true, false] {
        for step in 1.. {
            let mut sites = if is_first { Sites::authorized() } else { Sites::replicated() };
            sites.put("b", 50);
            sites.put("a", 7);
            let before = if is_first { None } else { sites.seen() };
            sites.a.rig.fuse.arm(step, FailureMode::Dead);
            if is_first {
                sites.create();
            } else {
                sites.b.service().sync_replication(&context(), &volume("copy")).unwrap();
            }
            sites.b.service().run_waiting_jobs();
            let is_killed = sites.b.rig.network.settle();
            sites.a.rig.fuse.disarm();
            let seen = sites.seen();
            assert!(seen == before || seen == Some(sites.live()), "step {step}: {seen:?}, {before:?}");
            sites.reopen_a();
            assert_eq!(sites.sync(), Outcome::Succeeded, "step {step}");
            sites.put("c", 9);
            assert_eq!(sites.sync(), Outcome::Succeeded, "step {step}");
            assert_eq!(sites.seen(), Some(sites.live()), "step {step}");
            assert!(sites.points(&sites.a, "v") <= 2, "step {step}");
            sites.a.rig.check_agreement(sites.a.service());
            if !is_killed {
                assert!(step > 5, "{step}");
                break;
            }
        }
    }
}

#[test]
fn clocks_hours_apart_and_set_back_change_no_point() {
    const HOUR: u64 = 3_600_000;
    for (of_a, of_b) in [(100, 107), (107, 100)] {
        let sites = Sites::authorized();
        let (a, b) = (sites.a.service(), sites.b.service());
        sites.a.rig.now_ms.store(of_a * HOUR, Ordering::SeqCst);
        sites.b.rig.now_ms.store(of_b * HOUR, Ordering::SeqCst);
        sites.create();
        sites.run();
        let mut numbers = Vec::new();
        for len in 2..6 {
            sites.put("b", len);
            assert_eq!(sites.sync(), Outcome::Succeeded);
            assert_eq!(sites.seen(), Some(sites.live()));
            let status = b.replication_status(&sites.found()).unwrap();
            // The lag is by the clock of the source, and never less than nothing.
            let [at_a, at_b] = [&sites.a, &sites.b].map(|site| site.rig.now_ms.load(Ordering::SeqCst) / HOUR);
            assert_eq!(status.lag_ms.unwrap() / HOUR, at_b.saturating_sub(at_a));
            numbers.push(status.last_point.unwrap().to_string());
            // The next point is made earlier, by the clock.
            sites.a.rig.now_ms.fetch_sub(HOUR, Ordering::SeqCst);
        }
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        // Both sides have the same two points, by their numbers.
        let names = |service: &Service, of: &str| -> Vec<String> {
            service.run_waiting_jobs();
            let all = service.snapshots(&volume(of), None, 100).unwrap().items;
            all.into_iter().map(|one| one.name.to_string()).collect()
        };
        assert_eq!(names(a, "v"), numbers[2..]);
        assert_eq!(names(b, "copy"), numbers[2..]);
        b.break_replication(&context(), &volume("copy")).unwrap();
        put(&sites.b.rig, b, "copy", "own", 3);
        b.resume_replication(&context().forced(), &volume("copy")).unwrap();
        sites.run();
        assert_eq!((sites.state(), sites.seen()), (MirrorState::Mirrored, Some(sites.live())));
    }
}

#[test]
fn source_that_refuses_at_any_step_loses_no_point() {
    for step in 1..20 {
        let mut sites = Sites::replicated();
        sites.put("b", 50);
        let before = sites.seen();
        sites.a.rig.fuse.arm(step, FailureMode::Broken);
        let outcome = sites.sync();
        sites.a.rig.fuse.disarm();
        assert!(sites.seen() == before || sites.seen() == Some(sites.live()), "step {step}: {outcome:?}");
        // As if it had been killed then.
        sites.reopen_a();
        assert_eq!(sites.sync(), Outcome::Succeeded, "step {step}");
        assert_eq!(sites.seen(), Some(sites.live()), "step {step}");
    }
}

#[test]
fn source_with_no_common_point_needs_a_full_copy_that_is_asked_for() {
    let sites = Sites::replicated();
    // The operator gave up the points at the source.
    sites.a.service().revoke(&context(), &volume("v"), &name("b")).unwrap();
    sites.a.service().run_waiting_jobs();
    sites.a.service().authorize(&context(), &volume("v"), &name("b")).unwrap();
    sites.put("late", 9);
    let before = sites.seen();
    failed(&sites.sync(), "only a full copy is possible");
    assert_eq!((sites.seen(), sites.state()), (before, MirrorState::Mirrored));
    let b = Arc::clone(sites.b.service());
    b.break_replication(&context(), &volume("copy")).unwrap();
    let refused = refusal(b.resume_replication(&context(), &volume("copy")));
    assert!(refused.contains("no point in common"), "{refused}");
    b.resume_replication(&context().forced(), &volume("copy")).unwrap();
    sites.run();
    assert_eq!((sites.seen(), sites.state()), (Some(sites.live()), MirrorState::Mirrored));
}

#[test]
fn source_cannot_go_back_behind_the_common_point() {
    let sites = Sites::replicated();
    let a = sites.a.service();
    let early = crate::NewSnapshot { name: Some("early".parse().unwrap()), ..crate::NewSnapshot::default() };
    a.create_snapshot(&context(), &volume("v"), &early).unwrap();
    sites.sync();
    let refused = refusal(a.revert_volume(&context().forced(), &volume("v"), &"early".parse().unwrap()));
    assert!(refused.contains("needs the snapshot"), "{refused}");
    let refused = refusal(sites.b.service().revert_volume(
        &context().forced(),
        &volume("copy"),
        &sites.b.service().snapshots(&volume("copy"), None, 1).unwrap().items[0].name,
    ));
    assert!(refused.contains("belongs to the replication"), "{refused}");
}

#[test]
fn full_destination_keeps_its_point_and_goes_on_with_more_room() {
    let sites = Sites::replicated();
    let before = sites.seen();
    let id = super::replications::id_of(sites.b.service(), "copy");
    sites.put("big", 200_000);
    let used = sites.b.rig.disk.usage(id).unwrap().bytes;
    let room = |bytes| sites.b.rig.disk.set_capacity(id, vfs::Capacity { bytes, files: 1 << 20 }).unwrap();
    room(used + 10_000);
    failed(&sites.sync(), "space");
    assert_eq!((sites.seen(), sites.state()), (before, MirrorState::Mirrored));
    room(1 << 40);
    assert_eq!(sites.sync(), Outcome::Succeeded);
    assert_eq!(sites.seen(), Some(sites.live()));
}

#[test]
fn break_while_a_transfer_waits_drops_it() {
    let sites = Sites::replicated();
    let b = sites.b.service();
    sites.put("b", 2);
    let before = sites.seen();
    b.sync_replication(&context(), &volume("copy")).unwrap();
    assert!(refusal(b.break_replication(&context(), &volume("copy"))).contains("a transfer to copy runs"));
    b.break_replication(&context().forced(), &volume("copy")).unwrap();
    assert_eq!((sites.state(), sites.seen()), (MirrorState::Stopped, before));
    assert!(is_writable(&sites.b.rig, b, "copy"));
}

#[test]
fn destination_has_one_source_and_a_volume_one_destination_at_each_peer() {
    let sites = Sites::replicated();
    let b = sites.b.service();
    let second = NewReplication { source: volume("other"), ..new(None) };
    assert!(matches!(b.create_replication(&context(), &second), Err(Error::Conflict { .. })));
    b.create_volume(&context(), &new_volume("copy2", "p", 1024)).unwrap();
    let twice = NewReplication { volume: volume("copy2"), ..new(None) };
    let begun = b.create_replication(&context(), &twice).unwrap().operation;
    sites.run();
    failed(&b.operation(begun.id).unwrap().outcome, "another destination at this service already");
    // A destination is no source, whether for a peer or here.
    b.create_peer(
        &context(),
        &NewPeer { name: name("c"), key: PublicKey([7; 32]), address: Some("c:1".to_owned()) },
    )
    .unwrap();
    b.authorize(&context(), &volume("copy"), &name("c")).unwrap();
    assert_eq!(sites.sync(), Outcome::Succeeded);
}

#[test]
fn peer_gets_no_volume_of_another_one() {
    let sites = Sites::authorized();
    let a = sites.a.service();
    a.create_volume(&context(), &new_volume("secret", "p", 1024)).unwrap();
    let messages: Vec<String> = ["secret", "none", "../v", "v/..", "", "\u{202e}v"]
        .into_iter()
        .map(|of: &str| {
            let request = replicate::replication::Request {
                relation: replicate::replication::RelationId([9; 8]),
                volume: of.to_owned(),
            };
            let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let (key, a) = (key(sites.b.service()), Arc::clone(a));
            let served = std::thread::spawn(move || a.serve_peer(&key, &mut theirs).is_err());
            let asked = replicate::replication::ask(&mut ours, &request).unwrap_err().to_string();
            assert!(served.join().unwrap());
            asked.replace(&format!("{of:?}"), "NAME")
        })
        .collect();
    // A volume that is there and one that is not look the same.
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    assert!(messages[0].contains("has no volume NAME that this service may replicate"), "{}", messages[0]);
    assert_eq!(sites.points(&sites.a, "secret"), 0);
}

#[test]
fn peer_gets_nothing_by_the_number_of_another_replication() {
    let sites = Sites::replicated();
    let a = sites.a.service();
    let thief = PublicKey([8; 32]);
    a.create_peer(&context(), &NewPeer { name: name("thief"), key: thief, address: None }).unwrap();
    let ask = |volume: &str| {
        let relation = replicate::replication::RelationId(sites.found().relation.to_be_bytes());
        let request = replicate::replication::Request { relation, volume: volume.to_owned() };
        let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let a = Arc::clone(a);
        let served = std::thread::spawn(move || a.serve_peer(&thief, &mut theirs).is_err());
        let asked = replicate::replication::ask(&mut ours, &request);
        served.join().unwrap();
        asked
    };
    assert!(ask("v").unwrap_err().to_string().contains("has no volume"));
    // Also with an authorization of its own for another volume.
    a.create_volume(&context(), &new_volume("own", "p", 1024)).unwrap();
    a.authorize(&context(), &volume("own"), &name("thief")).unwrap();
    assert!(ask("own").unwrap_err().to_string().contains("has no volume"));
    assert_eq!(sites.sync(), Outcome::Succeeded);
}

#[test]
fn revoked_authorization_ends_the_replication_and_says_so() {
    let sites = Sites::replicated();
    let v: VolumeName = volume("v");
    sites.a.service().revoke(&context(), &v, &name("b")).unwrap();
    let refused = refusal(sites.a.service().revoke(&context(), &v, &name("b")));
    assert!(refused.contains("may not replicate the volume v"), "{refused}");
    failed(&sites.sync(), "authorize it there");
    assert_eq!((sites.state(), sites.seen()), (MirrorState::Mirrored, Some(sites.live())));
    assert!(matches!(
        sites.b.service().break_replication(&context(), &volume("copy")).map(|done| done.value.volume),
        Ok(of) if of == volume("copy")
    ));
    assert!(matches!(
        sites.b.service().resume_replication(&context(), &volume("copy")),
        Err(Error::Replication(ReplicationError::Failed { .. }))
    ));
}
