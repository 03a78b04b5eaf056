//! Hosts that exhaust tables or do not respond, beside a well-behaved host.

use super::*;
use crate::limits::{LOCK_HOST_COURTESY_S, LOCK_HOST_SILENT_S, LOCK_HOST_UNRESPONSIVE_S};
use crate::state::nlm::table::Table;
use std::time::Instant;

const ALL: usize = 528;

impl LockTest {
    fn bounded(table: Table) -> Self {
        let test = Self::with(Grace::default(), Locks::default(), rule(&[]));
        test.locks().0.state().bound(table, ALL);
        test
    }

    /// Locks single bytes from `first` on until one is refused. Returns the number of locks.
    fn lock_all(&mut self, peer: &str, first: u64) -> usize {
        self.at(peer);
        let granted = (0..).take_while(|number| self.lock(bytes(first + 2 * number, 1)) == Status::GRANTED);
        granted.count()
    }

    /// Makes a host unresponsive for long enough that its locks yield.
    fn is_gone(&self, peer: &str) {
        let client = peer.parse::<std::net::SocketAddr>().unwrap().ip();
        let mut state = self.locks().0.state();
        let host = state.hosts.get_mut(&client).unwrap();
        host.silent_since = Instant::now().checked_sub(Duration::from_secs(LOCK_HOST_UNRESPONSIVE_S));
    }
}

#[test]
fn addresses_of_one_network_leave_room_for_other_hosts() {
    let mut test = LockTest::bounded(Table::Hosts);
    let of_network = |test: &mut LockTest, number: u64| {
        test.at(&format!("[2001:db8::{number:x}]:700")).lock(bytes(number, 1))
    };
    let granted = (1..=ALL as u64).filter(|&number| of_network(&mut test, number) == Status::GRANTED).count();
    assert!((ALL / 8..ALL / 2).contains(&granted), "{granted}");
    for number in 1..=10_u64 {
        let other = format!("[2001:db8:0:{number:x}::1]:700");
        assert_eq!(test.at(&other).lock(bytes(10_000 + number, 1)), Status::GRANTED, "another network");
    }
    assert_eq!(test.at(ANN).lock(bytes(20_000, 1)), Status::GRANTED);
}

#[test]
fn hosts_that_hold_nothing_or_are_gone_give_way_and_no_others() {
    let mut test = LockTest::bounded(Table::Hosts);
    let peer = |number: usize| format!("10.3.{}.{}:700", number / 250, number % 250);
    for number in 0..ALL {
        assert_eq!(test.at(&peer(number)).lock(bytes(number as u64, 1)), Status::GRANTED);
    }
    assert_eq!(test.at(ANN).lock(bytes(5000, 1)), Status::DENIED_NOLOCKS, "they all hold something");
    test.is_gone(&peer(7));
    assert_eq!(test.at(ANN).lock(bytes(5000, 1)), Status::GRANTED, "one of them is gone");
    assert_eq!(test.at(ANN).lock(bytes(7, 1)), Status::GRANTED, "with what it had");
    assert_eq!(test.at(BEN).lock(bytes(6000, 1)), Status::DENIED_NOLOCKS);
    assert_eq!(test.at(&peer(9)).unlock(WHOLE), Status::GRANTED);
    assert_eq!(test.at(BEN).lock(bytes(6000, 1)), Status::GRANTED, "one of them holds nothing");
    assert_eq!(test.at(&peer(8)).test(bytes(8, 1)), None, "the others have what they had");
    assert!(test.at(ANN).test(bytes(8, 1)).is_some());
}

#[test]
fn ranges_of_one_host_leave_room_for_others_and_those_of_one_that_is_gone_give_way() {
    let mut test = LockTest::bounded(Table::Locks);
    let greedy = test.lock_all(ANN, 0);
    assert!((ALL / 8..ALL / 2).contains(&greedy), "{greedy}");
    let second = test.lock_all("10.1.0.11:700", 10_000);
    let first = test.lock_all(BEN, 20_000);
    assert!(first >= 2, "{first} beside {greedy} and {second}");
    assert_eq!(
        test.at(ANN).lock(bytes(0, 1)),
        Status::DENIED_NOLOCKS,
        "it is the greedy one that is refused"
    );
    test.is_gone(ANN);
    let more = test.lock_all(BEN, 30_000);
    assert!(first + more > greedy / 2, "{more}");
    assert_eq!(test.at(BEN).lock(bytes(0, 1)), Status::DENIED_NOLOCKS);
    assert!(test.at("10.1.0.11:700").test(bytes(20_000, 1)).is_some());
    assert_eq!(test.test(bytes(0, 1)), None, "it has lost all");
}

#[test]
fn locks_that_hosts_wait_for_leave_others_room_to_wait() {
    let mut test = LockTest::bounded(Table::Waits);
    assert_eq!(test.at(ANN).lock(WHOLE), Status::GRANTED);
    let waiting = |svid| LockSpec { block: true, svid, ..bytes(svid.into(), 1) };
    let mut counts = Vec::new();
    for host in 20..30 {
        test.at(&format!("10.1.0.{host}:700"));
        counts.push((1..).take_while(|&svid| test.lock(waiting(svid)) == Status::BLOCKED).count());
    }
    assert!(counts[0] < ALL / 2 && counts.iter().all(|&count| count > 0), "{counts:?}");
    assert_eq!(test.at(BEN).lock(waiting(1)), Status::BLOCKED);
}

#[test]
fn hosts_that_do_not_answer_hold_up_nobody_else() {
    let grants = |_, args: &[u8]| {
        let asked = TestArgs::<u64>::decode(&mut Reader::new(args)).ok()?;
        Some(Reply { cookie: asked.cookie, stat: Status::GRANTED }.to_bytes())
    };
    let good = Host::start(3, 0, grants);
    let unresponsive: Vec<Host> =
        (0..64).map(|number| Host::start(100 + number, good.port, |_, _| None)).collect();
    let mut test = LockTest::with(Grace::default(), Locks::new(None, good.port), rule(&["127.0.0.0/8"]));
    test.env.local = "127.0.0.1";
    assert_eq!(test.at(FIRST).lock(WHOLE), Status::GRANTED);
    for number in 0..64_u32 {
        let waiting = LockSpec { block: true, svid: number, ..bytes(number.into(), 1) };
        assert_eq!(test.at(&format!("127.0.0.{}:700", 100 + number)).lock(waiting), Status::BLOCKED);
    }
    assert_eq!(test.at(SECOND).lock(LockSpec { block: true, ..bytes(5000, 1) }), Status::BLOCKED);
    assert_eq!(test.at(FIRST).unlock(WHOLE), Status::GRANTED);
    // The order of calls must not matter.
    for host in unresponsive.iter().chain([&good]) {
        host.called.recv_timeout(LONG).unwrap();
    }
    let has_timed_out = |host: &&crate::state::nlm::table::Host| {
        host.waiting.iter().any(|waiting| waiting.granted.as_ref().is_none_or(|granted| granted.tries > 0))
    };
    let late = test.locks().0.state().hosts.values().filter(has_timed_out).count();
    assert!(late < 32, "{late} of 64 hosts were waited for before the last one was called");
    drop(unresponsive);
}

#[test]
fn a_host_is_asked_whether_it_is_there_and_ends_when_it_is_not() {
    let there = Host::start(2, 0, |_, _| Some(Vec::new()));
    let unresponsive = Host::start(3, there.port, |_, _| None);
    let mut test = LockTest::with(Grace::default(), Locks::new(None, there.port), rule(&["127.0.0.0/8"]));
    test.env.local = "127.0.0.1";
    for (number, peer) in [(0, FIRST), (2, SECOND), (4, "127.0.0.4:700")] {
        assert_eq!(test.at(peer).lock(bytes(number, 1)), Status::GRANTED);
    }
    let at = |seconds| Instant::now() + Duration::from_secs(seconds);
    test.locks().0.check_silent(at(LOCK_HOST_SILENT_S - 1), HashSet::new);
    assert!(there.called.try_recv().is_err(), "not yet");
    let connected = || HashSet::from([std::net::IpAddr::from([127, 0, 0, 4])]);
    test.locks().0.check_silent(at(LOCK_HOST_SILENT_S), connected);
    for host in [&there, &unresponsive] {
        let (program, version, procedure, args) = host.called.recv_timeout(LONG).unwrap();
        assert_eq!((program, version, procedure, args), (PROGRAM, VERSION_4, Procedure::NULL.0, Vec::new()));
    }
    let is_silent = |test: &LockTest, last| {
        let state = test.locks().0.state();
        state.hosts.get(&[127, 0, 0, last].into()).map(|host| host.silent_since.is_some())
    };
    wait_until(|| is_silent(&test, 3) == Some(true));
    assert_eq!([2, 4].map(|last| is_silent(&test, last)), [Some(false); 2], "those are there");
    test.locks().0.check_silent(at(LOCK_HOST_UNRESPONSIVE_S - 60), connected);
    assert!(test.at(FIRST).test(bytes(2, 1)).is_some(), "it may come back");
    test.locks().0.check_silent(at(LOCK_HOST_COURTESY_S - 60), connected);
    assert_eq!(test.at(FIRST).test(bytes(2, 1)), None, "what it has yields to who wants it");
    assert_eq!(is_silent(&test, 3), Some(true), "by courtesy");
    test.locks().0.check_silent(at(LOCK_HOST_COURTESY_S + 60), connected);
    assert_eq!(is_silent(&test, 3), None, "what it had has ended");
    assert!(test.at(FIRST).test(bytes(4, 1)).is_some());
}
