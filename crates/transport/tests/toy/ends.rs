//! The list of current connections.

use super::{Client, Echo, PATIENCE, Running, settings, wait_until};
use std::io::{ErrorKind, Read};
use transport::{ConnectionEnds, Settings};

#[test]
fn ends_of_connections_are_listed_newest_first_while_they_exist() {
    let running = Running::new(Echo::default());
    let view = running.server.view();
    let mut clients = [(); 3].map(|()| running.connect());
    for client in &mut clients {
        assert_eq!(client.ask(b"e\x01"), b"e\x01");
    }
    let ends = |client: &Client| {
        let (local, peer) = (client.stream.peer_addr().unwrap(), client.stream.local_addr().unwrap());
        ConnectionEnds { local, peer }
    };
    let [first, second, third] = clients.each_ref().map(ends);
    assert_eq!(view.connection_ends(2).len(), 2);
    let mut listed = view.connection_ends(10);
    listed.sort();
    let mut expected = [first, second, third];
    expected.sort();
    assert_eq!(listed, expected);
    let [_, gone, _] = clients;
    drop(gone);
    wait_until("the end", || view.connection_ends(10).len() < 3);
    assert!(!view.connection_ends(10).contains(&second));
}

#[test]
fn connections_that_are_kept_stay_open_after_the_server_has_ended() {
    for keeps_connections in [false, true] {
        let running = Running::with(Echo::default(), Settings { keeps_connections, ..settings() });
        let mut client = running.connect();
        assert_eq!(client.ask(b"e\x01"), b"e\x01");
        running.server.stop(PATIENCE);
        // The end would have arrived: both sides are on this machine.
        client.stream.set_nonblocking(true).unwrap();
        let read = client.stream.read(&mut [0; 8]).map_err(|error| error.kind());
        assert_eq!(read, if keeps_connections { Err(ErrorKind::WouldBlock) } else { Ok(0) });
    }
}
