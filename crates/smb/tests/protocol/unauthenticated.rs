//! Unauthenticated connections and logins, and users beside them.

use crate::rig::{ALICE, BOB, Client, Offer, Rig, SHARE, wait_until};
use smb::limits::{CONNECTION_SETUPS_MAX, REFUSED_AT_ONCE_MAX, SETUPS_MAX};
use smb::server::Settings;
use smb_wire::NtStatus;
use smb_wire::header::Command;
use smb_wire::session::Empty;
use std::time::{Duration, Instant};

/// A connection after NEGOTIATE.
fn negotiated(rig: &Rig, source: [u8; 4]) -> Client {
    let mut client = rig.connect_as(source);
    client.negotiate(&Offer::default());
    client
}

/// A user at [`SHARE`].
fn user(rig: &Rig, source: [u8; 4]) -> Client {
    let mut client = negotiated(rig, source);
    client.log_on(ALICE);
    client.mount(SHARE);
    client
}

#[test]
fn unauthenticated_connections_yield_to_users() {
    let rig = Rig::bounded(Settings { connections_max: 40, ..Rig::settings() }, false);
    let mut first = user(&rig, [127, 0, 0, 9]);
    let mut idle: Vec<Client> = (0..20).map(|_| rig.connect_as([127, 0, 0, 2])).collect();
    let _negotiated: Vec<Client> = (0..10).map(|_| negotiated(&rig, [127, 0, 0, 3])).collect();
    let begun = |_| {
        let mut client = negotiated(&rig, [127, 0, 0, 3]);
        assert_eq!(client.start_log_on(), NtStatus::MORE_PROCESSING_REQUIRED);
        client
    };
    let _begun: Vec<Client> = (0..9).map(begun).collect();
    let mut users: Vec<Client> = (10..20).map(|host| user(&rig, [127, 0, 0, host])).collect();
    idle[0].assert_ended();
    users.iter_mut().chain([&mut first]).for_each(|user| user.put("file", b"theirs"));
}

/// Also connections that have negotiated, that send requests, or that have begun a login.
#[test]
fn unauthenticated_connection_times_out() {
    let rig = Rig::bounded(Settings { unproven_s: 2, ..Rig::settings() }, true);
    let (mut idle, mut agreed) = (rig.connect(), negotiated(&rig, [127, 0, 0, 1]));
    let (mut speaks, mut begun) = (negotiated(&rig, [127, 0, 0, 1]), negotiated(&rig, [127, 0, 0, 1]));
    assert_eq!(begun.start_log_on(), NtStatus::MORE_PROCESSING_REQUIRED);
    let (mut nobody, mut alice) = (negotiated(&rig, [127, 0, 0, 1]), rig.alice());
    nobody.try_log_on_as_nobody().unwrap();
    let start = Instant::now();
    while rig.connections() > 2 {
        let echo = speaks.request(Command::ECHO, &Empty);
        speaks.send(&echo);
        std::thread::sleep(Duration::from_millis(100));
        assert!(start.elapsed() < Duration::from_secs(20), "nothing ends");
    }
    assert!(start.elapsed() >= Duration::from_secs(1));
    idle.assert_ended();
    agreed.assert_ended();
    begun.assert_ended();
    alice.put("file", b"as before");
    assert_eq!(nobody.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
}

/// Five addresses begin logins over many connections and never finish; their oldest connections are closed.
#[test]
fn unfinished_logins_do_not_block_other_addresses() {
    let rig = Rig::bounded(Settings { connections_max: 600, ..Rig::settings() }, false);
    let mut alice = rig.alice();
    let mut begun = 0;
    let connections = SETUPS_MAX / CONNECTION_SETUPS_MAX + 10;
    let greedy = |number: usize| {
        let mut client = negotiated(&rig, [127, 0, 0, 20 + u8::try_from(number % 5).unwrap()]);
        for _ in 0..CONNECTION_SETUPS_MAX {
            client.session_id = 0;
            match client.start_log_on() {
                NtStatus::MORE_PROCESSING_REQUIRED => begun += 1,
                refused => assert_eq!(refused, NtStatus::INSUFFICIENT_RESOURCES),
            }
        }
        client
    };
    let greedy: Vec<Client> = (0..connections).map(greedy).collect();
    assert!(begun >= SETUPS_MAX, "{begun}");
    for number in 0..50 {
        let mut client = negotiated(&rig, [127, 0, 0, 100 + number]);
        assert_eq!(client.try_log_on(BOB, 0), Ok(()), "login {number}");
    }
    alice.put("file", b"as before");
    drop(greedy);
    wait_until(|| rig.connections() == 1);
}

#[test]
fn wrong_passwords_throttle_only_their_address() {
    let rig = Rig::new();
    let mut guesses = negotiated(&rig, [127, 0, 0, 2]);
    let mut guess = || {
        guesses.forget_session();
        guesses.try_log_on((ALICE.0, "guess"), 0).unwrap_err()
    };
    while guess() != NtStatus::REQUEST_NOT_ACCEPTED {}
    let mut other = negotiated(&rig, [127, 0, 0, 3]);
    for _ in 1..REFUSED_AT_ONCE_MAX {
        other.forget_session();
        assert_eq!(other.try_log_on((ALICE.0, "typo"), 0), Err(NtStatus::LOGON_FAILURE));
    }
    other.forget_session();
    other.log_on(ALICE);
}
