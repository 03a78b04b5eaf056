//! Replies and the deadline of their process: after it, no byte leaves, and connections are reset.

use super::{Client, Echo, PATIENCE, Running, flood, push, settings, wait_until};
use std::io::{ErrorKind, Read};
use std::sync::atomic::Ordering;
use std::time::Duration;
use transport::{Outbox, ReplyLease, Settings, clock};

const HOUR_NS: u64 = 3_600_000_000_000;

fn leased(lease: &ReplyLease) -> Running {
    Running::with(Echo::default(), Settings { deadline: lease.deadline(), ..settings() })
}

fn for_an_hour() -> ReplyLease {
    ReplyLease::new(clock::boot_ns() + HOUR_NS)
}

/// The bytes that arrive before the reset, which must come.
#[track_caller]
fn bytes_before_reset(client: &mut Client) -> usize {
    let mut bytes = vec![0; 64 << 10];
    let mut received = 0;
    loop {
        match client.stream.read(&mut bytes) {
            Ok(0) => panic!("an orderly end instead of a reset"),
            Ok(count) => received += count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return received,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn calls_of_every_dispatch_get_no_reply_after_the_deadline() {
    for kind in [b'e', b'b', b'o', b'w', b's', b'g', b'G', b'q'] {
        let lease = for_an_hour();
        let running = leased(&lease);
        let mut client = running.connect();
        assert_eq!(client.ask(b"e\x01"), b"e\x01");
        lease.end();
        client.send(&[&[kind, 2, 9, 9, 9]]);
        assert_eq!(bytes_before_reset(&mut client), 0, "{}", char::from(kind));
    }
}

#[test]
fn running_call_gets_no_reply_once_its_deadline_has_passed() {
    let lease = ReplyLease::new(clock::boot_ns() + 400_000_000);
    let running = leased(&lease);
    let mut client = running.connect();
    assert_eq!(client.ask(b"e\x01"), b"e\x01", "before the deadline");
    client.send(&[b"f\x02"]);
    wait_until("the call", || running.echo.runs.load(Ordering::SeqCst) == 2);
    wait_until("the deadline", || lease.deadline().is_over());
    running.echo.is_released.store(true, Ordering::SeqCst);
    assert_eq!(bytes_before_reset(&mut client), 0);
    // A later renewal does not revive the connection.
    lease.extend(clock::boot_ns() + HOUR_NS);
    wait_until("the end", || running.server.view().connections() == 0);
    assert_eq!(running.connect().ask(b"e\x03"), b"e\x03");
}

#[test]
fn deferred_replies_and_messages_of_the_server_do_not_leave_after_the_deadline() {
    let lease = for_an_hour();
    let running = leased(&lease);
    let [mut late, mut listening] = [(); 2].map(|()| running.connect());
    late.send(&[b"l\x01"]);
    assert_eq!(listening.ask(b"h\x01"), b"h\x01");
    let connection = running.echo.listeners.lock().pop().unwrap().upgrade().unwrap();
    wait_until("the deferred call", || running.echo.deferred.lock().len() == 1);
    lease.end();
    let (reply, body) = running.echo.deferred.lock().pop_back().unwrap();
    let mut out = Outbox::default();
    push(&mut out, &body);
    reply.send(&mut out);
    assert_eq!(bytes_before_reset(&mut late), 0);
    push(&mut out, b"!\x01");
    connection.send_within(&mut out, Duration::from_secs(1));
    assert_eq!(bytes_before_reset(&mut listening), 0);
}

/// The kernel drops the bytes that it has not sent either.
#[test]
fn unread_replies_are_dropped_at_the_deadline() {
    let lease = for_an_hour();
    let running = leased(&lease);
    let mut client = running.connect();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 << 10).unwrap();
    assert_eq!(client.ask(b"h\x01"), b"h\x01");
    let connection = running.echo.listeners.lock().pop().unwrap().upgrade().unwrap();
    for _ in 0..4 {
        flood(&connection);
    }
    let unread = || running.server.view().stats().unread_bytes;
    assert!(unread() > 0, "the socket takes all of it");
    let sent = unread();
    lease.end();
    assert!(bytes_before_reset(&mut client) < sent);
    wait_until("the end", || unread() == 0);
}

#[test]
fn transformed_connection_sends_neither_replies_nor_a_closing_message_after_the_deadline() {
    let lease = for_an_hour();
    let running = leased(&lease);
    let mut client = running.connect();
    assert_eq!(client.ask(b"t\x01"), b"t\x01");
    client.begin_cipher();
    assert_eq!(client.ask(b"e\x02"), b"e\x02");
    lease.end();
    client.send(&[b"e\x03"]);
    assert_eq!(bytes_before_reset(&mut client), 0);
    let idle = running.connect();
    idle.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    running.server.stop(Duration::from_secs(1));
    assert!(!matches!((&idle.stream).read(&mut [0; 16]), Ok(1..)));
}
