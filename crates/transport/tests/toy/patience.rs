//! Messages that the client's machine must acknowledge soon.

use super::{Client, Echo, Running, flood, push, wait_until};
use std::sync::Arc;
use std::time::Duration;
use transport::limits::UNREAD_REPLY_BYTES_MAX;
use transport::{Connection, Outbox};

/// A client with a small receive window, and its connection on the server.
fn listening(running: &Running) -> (Client, Arc<Connection<Echo>>) {
    let mut client = running.connect();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 << 10).unwrap();
    assert_eq!(client.ask(b"h\x01"), b"h\x01");
    let connection = running.echo.listeners.lock().pop().unwrap();
    (client, connection.upgrade().unwrap())
}

fn send_surely(connection: &Connection<Echo>) {
    let mut out = Outbox::default();
    push(&mut out, b"!\x01");
    connection.send_within(&mut out, Duration::from_millis(200));
}

#[test]
fn a_client_without_acknowledgment_is_ended_and_an_acknowledging_one_may_be_slow_again() {
    let running = Running::new(Echo::default());
    let [(_deaf, to_deaf), (mut slow, to_slow)] = [(); 2].map(|()| listening(&running));
    flood(&to_deaf);
    send_surely(&to_deaf);
    send_surely(&to_slow);
    assert_eq!(slow.receive(), b"!\x01");
    wait_until("the end", || to_deaf.is_ended());
    std::thread::sleep(Duration::from_millis(2500));
    flood(&to_slow);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!to_slow.is_ended());
    assert_eq!(slow.receive().len(), 4 * UNREAD_REPLY_BYTES_MAX);
}

/// The kernel checks the timeout only when it retransmits, at doubling intervals. The transport must end the connection
/// before that.
#[test]
fn a_client_that_stalled_before_the_timeout_was_set_is_ended() {
    let running = Running::new(Echo::default());
    let (_deaf, to_deaf) = listening(&running);
    flood(&to_deaf);
    std::thread::sleep(Duration::from_millis(3600));
    send_surely(&to_deaf);
    wait_until("the end", || to_deaf.is_ended());
}
