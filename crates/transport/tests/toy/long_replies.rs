//! Long replies while clients leave too many replies unread.

use super::{Client, Echo, LONG_REPLY_BYTES, Running, count, settings, wait_until};
use transport::Settings;
use transport::limits::{CALLS_IN_PROGRESS_MAX, UNREAD_TOTAL_BYTES_FULL};

/// A client that asks for more long replies than kernels buffer, and reads none of them.
fn greedy_client(running: &Running) -> Client {
    let mut client = running.connect();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 << 10).unwrap();
    client.send(&[&b"g\x01"[..]; 12]);
    client
}

fn greedy_clients(running: &Running) -> Vec<Client> {
    let view = running.server.view();
    let mut all = Vec::new();
    while view.stats().unread_bytes <= UNREAD_TOTAL_BYTES_FULL {
        let before = view.stats().unread_bytes;
        all.push(greedy_client(running));
        wait_until("what one leaves", || view.stats().unread_bytes > before);
    }
    all
}

#[test]
fn a_client_that_reads_gets_every_long_reply_while_others_read_none() {
    let running = Running::new(Echo::default());
    let _others = greedy_clients(&running);
    let mut client = running.connect();
    let asked = CALLS_IN_PROGRESS_MAX as usize;
    client.send(&vec![&b"g\x02"[..]; asked]);
    for _ in 0..asked {
        let reply = client.receive();
        assert!(reply.len() == LONG_REPLY_BYTES, "{}", String::from_utf8_lossy(&reply));
    }
}

#[test]
fn deferred_calls_of_an_ended_connection_release_their_memory() {
    // No client is ended before all are connected.
    let settings = Settings { stalled_s: 8, ..settings() };
    let running = Running::with(Echo::default(), settings);
    // Their calls are deferred until they read.
    let _others = greedy_clients(&running);
    let view = running.server.view();
    wait_until("the end of what they left", || view.stats().unread_bytes == 0 && view.connections() == 0);
}

#[test]
fn deferred_calls_past_the_memory_bound_are_refused() {
    let running = Running::new(Echo::default());
    let _others = greedy_clients(&running);
    let _clients: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = running.connect();
            rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 << 10).unwrap();
            client.send(&[&b"G\x01"[..]; 9]);
            client
        })
        .collect();
    wait_until("the end of room", || count(&running.echo.failed) > 0);
}
