//! Clients that are not heard of any more.

use super::*;
use crate::limits::{LOCK_HOST_ASK_S, LOCK_HOST_GONE_S, LOCK_HOST_LAPSE_S, LOCK_HOST_SILENT_S};
use std::time::Instant;

/// A loopback address with nobody behind it.
const GONE: &str = "127.0.0.77:700";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Office {
    /// Lets time pass from when a client was heard last, and waits until it was asked as often as that takes.
    fn pass(&self, from: Instant, until: u64) {
        self.locks().0.tend_silent(from);
        let step = usize::try_from(LOCK_HOST_ASK_S).unwrap();
        for second in (LOCK_HOST_SILENT_S..=until.min(LOCK_HOST_LAPSE_S)).step_by(step) {
            self.locks().0.tend_silent(from + seconds(second));
            let deadline = Instant::now() + LONG;
            while !self.locks().0.askers.is_idle() {
                assert!(Instant::now() < deadline, "a client is asked for ever");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.locks().0.tend_silent(from + seconds(until));
    }

    fn holding() -> Self {
        let mut office = Self::with(Grace::default(), Locks::new(None, 9), rule(&[]));
        office.at(GONE);
        assert_eq!(office.lock(bytes(0, 9)), Status::GRANTED);
        assert_eq!(office.share(Procedure::SHARE, ShareMode::DENY_BOTH, ShareAccess::READ), Status::GRANTED);
        office.at(BEN);
        office
    }

    fn takes_it(&self) -> [Status; 2] {
        [self.lock(bytes(0, 9)), self.share(Procedure::SHARE, ShareMode::DENY_NONE, ShareAccess::READ)]
    }
}

#[test]
fn client_that_does_not_answer_yields_what_it_holds() {
    let office = Office::holding();
    let start = Instant::now();
    office.pass(start, LOCK_HOST_LAPSE_S - 1);
    assert_eq!(office.takes_it(), [Status::DENIED; 2], "it may come back");
    office.pass(start, LOCK_HOST_LAPSE_S);
    assert_eq!(office.takes_it(), [Status::GRANTED; 2]);
}

#[test]
fn client_that_comes_back_has_what_nobody_wanted() {
    let mut office = Office::holding();
    let start = Instant::now();
    office.pass(start, LOCK_HOST_LAPSE_S);
    office.at(GONE);
    assert_eq!(office.test(bytes(0, 9)), None, "its own");
    office.at(BEN);
    assert_eq!(office.takes_it(), [Status::DENIED; 2]);
}

#[test]
fn client_with_a_connection_or_a_port_mapper_keeps_what_it_holds() {
    let office = Office::holding();
    let start = Instant::now();
    let present = office.locks().arrive("127.0.0.77".parse().unwrap());
    office.pass(start, LOCK_HOST_LAPSE_S);
    office.pass(start + seconds(LOCK_HOST_LAPSE_S), LOCK_HOST_GONE_S);
    assert_eq!(office.takes_it(), [Status::DENIED; 2]);
    drop(present);
    office.pass(start + seconds(2 * LOCK_HOST_GONE_S), LOCK_HOST_LAPSE_S);
    assert_eq!(office.takes_it(), [Status::GRANTED; 2]);

    let host = Host::start(78, 0, |_, _| None);
    let mut office = Office::with(Grace::default(), Locks::new(None, host.port), rule(&[]));
    assert_eq!(office.at("127.0.0.78:700").lock(bytes(0, 9)), Status::GRANTED);
    office.pass(start, LOCK_HOST_LAPSE_S);
    assert_eq!(office.at(BEN).lock(bytes(0, 9)), Status::DENIED);
}

#[test]
fn client_that_stays_away_for_a_day_is_forgotten() {
    let office = Office::holding();
    office.pass(Instant::now(), LOCK_HOST_GONE_S);
    office.assert_empty();
}
