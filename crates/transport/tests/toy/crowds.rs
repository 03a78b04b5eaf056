//! Unproven connections beside others.

use super::{Client, Echo, Running, settings, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::time::{Duration, Instant};
use transport::Settings;
use transport::limits::HANDSHAKES_MAX;

const CONNECTIONS_MAX: usize = 40;

fn few(unproven_s: u32) -> Settings {
    Settings { connections_max: CONNECTIONS_MAX, unproven_s, ..settings() }
}

fn proven(running: &Running, source: [u8; 4]) -> Client {
    let mut client = running.connect_as(source);
    assert_eq!(client.ask(b"v\x01"), b"v\x01");
    client
}

#[test]
fn silent_connections_are_evicted_and_proven_ones_stay() {
    let running = Running::with(Echo::default(), few(600));
    let mut kept = proven(&running, [127, 0, 0, 9]);
    let mut silent: Vec<Client> =
        (0..2 * CONNECTIONS_MAX).map(|_| running.connect_as([127, 0, 0, 2])).collect();
    let mut others: Vec<Client> = (10..20).map(|host| running.connect_as([127, 0, 0, host])).collect();
    for (number, other) in (0..).zip(&mut others) {
        assert_eq!(other.ask(&[b'e', number]), [b'e', number], "there is a place for others");
    }
    assert!(silent[..10].iter_mut().all(Client::is_ended), "the oldest gave way");
    assert_eq!(kept.ask(b"e\x02"), b"e\x02");
    drop(silent);
    wait_until("the end of the silent ones", || running.server.view().connections() == 1 + others.len());
}

#[test]
fn a_network_at_its_share_of_proven_connections_leaves_room_for_others() {
    let running = Running::with(Echo::default(), few(600));
    let mut greedy = Vec::new();
    loop {
        let mut client = running.connect_as([127, 0, 0, 2]);
        client.send(&[b"v\x01"]);
        if client.is_ended() {
            break;
        }
        greedy.push(client);
        assert!(greedy.len() < CONNECTIONS_MAX / 2, "it may have half at most");
    }
    let mut others: Vec<Client> = (10..14).map(|host| proven(&running, [127, 0, 0, host])).collect();
    assert!(others.iter_mut().chain(&mut greedy).all(|client| client.ask(b"e\x03") == b"e\x03"));
}

/// A login that continues without end proves nothing.
#[test]
fn an_unproven_connection_ends_at_the_deadline_and_others_stay() {
    let running = Running::with(Echo::default(), few(2));
    let (mut silent, mut talks) = (running.connect(), running.connect());
    let (mut tolerated, mut kept) = (running.connect(), proven(&running, [127, 0, 0, 1]));
    assert_eq!(tolerated.ask(b"y\x01"), b"y\x01");
    let start = Instant::now();
    while running.server.view().connections() > 2 {
        _ = talks.stream.write_all(&[0, 0, 0, 2, b'e', 1]);
        std::thread::sleep(Duration::from_millis(50));
        assert!(start.elapsed() < super::PATIENCE, "nothing ends");
    }
    assert!(start.elapsed() >= Duration::from_secs(1) && silent.is_ended());
    assert_eq!((tolerated.ask(b"e\x01"), kept.ask(b"e\x02")), (b"e\x01".to_vec(), b"e\x02".to_vec()));
}

/// The client sends nothing while the server works for it.
#[test]
fn an_unproven_client_with_a_call_in_progress_is_not_ended() {
    let running = Running::with(Echo::default(), few(1));
    let (mut waits, mut silent) = (running.connect(), running.connect());
    waits.send(&[b"l\x01"]);
    wait_until("the call", || !running.echo.deferred.lock().is_empty());
    assert!(silent.is_ended());
    let mut asks = running.connect();
    assert_eq!(asks.ask(b"a\x01"), b"a\x01");
    assert_eq!(waits.receive(), b"l\x01");
}

#[test]
fn unfinished_handshakes_are_evicted_for_other_addresses() {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    let running = Running::with(Echo::default(), Settings::for_descriptors(2, 8000));
    let begin = |host: u8| {
        let mut client = running.connect_as([127, 0, 0, host]);
        let reply = client.ask(b"j\x01");
        (client, reply)
    };
    let hosts = (2..10).cycle().take(HANDSHAKES_MAX);
    let mut greedy: Vec<Client> = hosts.map(|host| begin(host).0).collect();
    let others: Vec<(Client, Vec<u8>)> = (20..30).map(begin).collect();
    assert!(others.iter().all(|(_, reply)| reply == b"j\x01"), "all may begin one");
    assert!(greedy[..10].iter_mut().all(Client::is_ended), "the oldest gave way");
    drop(greedy);
    wait_until("the end of the others", || running.server.view().connections() == others.len());
}
