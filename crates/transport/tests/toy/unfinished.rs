//! Long messages in memory of their own that do not become complete.

use super::{Client, Echo, FRAMING, PART, PATIENCE, Running, TAIL_BYTES_MAX, settings, wait_until};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use transport::Settings;
use transport::limits::{BUFFER_BYTES, LONG_TAILS_BYTES_MAX, SPILLED_BYTES_MAX};

/// Bytes of a message that arrive first.
const HEAD_BYTES: usize = 10 << 10;

/// The longest message in memory of its own, with its framing.
fn longest() -> Vec<u8> {
    let body = [b"k\x01", &[7; TAIL_BYTES_MAX - 2][..]].concat();
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
}

#[test]
fn an_incomplete_long_message_ends_its_connection_despite_trickling_bytes() {
    const STALLED_S: u32 = 6;
    let settings = Settings { stalled_s: STALLED_S, ..settings() };
    let running = Running::with(Echo::default(), settings);
    let (mut slow, mut trickling) = (running.connect(), running.connect());
    let message = longest();
    let start = Instant::now();
    trickling.stream.write_all(&message[..HEAD_BYTES]).unwrap();
    let view = running.server.view();
    wait_until("the memory of a message", || view.stats().spilled_bytes == TAIL_BYTES_MAX);
    // One that needs only a part of the time.
    for piece in message.chunks(message.len().div_ceil(10)) {
        slow.stream.write_all(piece).unwrap();
        trickling.stream.write_all(b"more").unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(slow.receive() == message[FRAMING..]);
    while trickling.stream.write_all(b"more").is_ok() {
        assert!(start.elapsed() < PATIENCE, "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(start.elapsed() >= Duration::from_secs(STALLED_S.into()));
    wait_until("the end of the count", || view.stats().spilled_bytes == 0);
    assert_eq!(slow.ask(b"e\x01"), b"e\x01");
}

#[test]
fn past_the_bound_the_oldest_long_messages_are_ended() {
    let running = Running::new(Echo::default());
    let view = running.server.view();
    let message = longest();
    let (head, rest) = message.split_at(HEAD_BYTES);
    let most = 2 * LONG_TAILS_BYTES_MAX / TAIL_BYTES_MAX;
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..most + 4 {
        let mut client = running.connect();
        client.stream.write_all(head).unwrap();
        clients.push(client);
    }
    wait_until("the end of some", || (1..=most).contains(&view.stats().connections));
    let last = clients.last_mut().unwrap();
    last.stream.write_all(rest).unwrap();
    assert!(last.receive() == message[FRAMING..], "it came last");
    // Both event loops may end one connection too many.
    assert!(view.stats().connections + 6 >= clients.len(), "{:?}", view.stats());
    drop(clients);
    wait_until("the end of the count", || view.stats().spilled_bytes == 0);
}

/// Loops that were held up receive from many connections in one turn.
#[test]
fn unfinished_messages_that_arrive_at_one_time_stay_within_the_bound() {
    const PART_BYTES: usize = 1 << 20;
    let running = Running::new(Echo::default());
    let view = running.server.view();
    let part =
        [&(PART | u32::try_from(PART_BYTES).unwrap()).to_be_bytes()[..], &vec![7; PART_BYTES]].concat();
    let mut clients: Vec<Client> = (0..340).map(|_| running.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.ask(b"e\x01")));
    // One call for each of the two loops, which take connections in turns.
    clients[..2].iter_mut().for_each(|client| client.send(&[b"f\x01"]));
    for client in &clients[2..] {
        // As much as the socket takes now: nothing is received yet.
        client.stream.set_nonblocking(true).unwrap();
        assert!((&client.stream).write(&part).unwrap() > 0);
    }
    assert_eq!(view.stats().spilled_bytes, 0, "the loops are held up");
    running.echo.is_released.store(true, Ordering::SeqCst);
    let mut peak = 0;
    let (start, mut shed_at) = (Instant::now(), None);
    while shed_at.is_none_or(|at: Instant| at.elapsed() < Duration::from_millis(500)) {
        assert!(start.elapsed() < PATIENCE, "no connection was ended");
        peak = peak.max(view.stats().spilled_bytes);
        if shed_at.is_none() && view.stats().connections < clients.len() {
            shed_at = Some(Instant::now());
        }
    }
    assert!(peak > SPILLED_BYTES_MAX, "{peak}");
    // Each loop may receive one message's bytes before it ends another connection.
    assert!(peak <= 2 * SPILLED_BYTES_MAX + 2 * BUFFER_BYTES, "{peak}");
}
