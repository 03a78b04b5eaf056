//! The list of current connections.

use super::{Client, Echo, Running, wait_until};
use transport::ConnectionEnds;

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
