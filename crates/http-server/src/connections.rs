//! The list of connections, and the choice of the one that ends when there are too many.

use crate::limits::{CLIENT_CONNECTIONS_MAX, CONNECTIONS_MAX};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};
use tokio::sync::oneshot;
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;

/// All connections.
#[derive(Default)]
pub(crate) struct Connections(Mutex<ConnectionList>);

#[derive(Default)]
struct ConnectionList {
    /// The number of the next connection.
    next: u64,
    each: BTreeMap<u64, Connection>,
}

struct Connection {
    from: Network,
    /// Requests that are being served.
    requests: usize,
    /// Ends the connection; `None` when it was used.
    end: Option<oneshot::Sender<()>>,
}

/// A connection in the list; leaves it when dropped.
pub(crate) struct ListedConnection {
    all: Arc<Connections>,
    number: u64,
}

/// A request that is being served, until it is dropped.
pub(crate) struct ActiveRequest(Arc<ListedConnection>);

impl Connections {
    /// Lists a new connection, with a channel that ends it. If its network, or all clients together, have too
    /// many, the oldest without a request ends now. `None` if the network has too many and all of them have requests.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<(ListedConnection, oneshot::Receiver<()>)> {
        let from = Networks::default().of(from);
        let mut open = self.open();
        let counts = open.counts();
        if counts.get(&from).is_some_and(|&count| count >= CLIENT_CONNECTIONS_MAX) {
            open.end_oldest_idle(|connection| connection.from == from).then_some(())?;
        } else if counts.values().sum::<usize>() >= CONNECTIONS_MAX {
            // A network that floods ends its own connections. If all have requests, the new one waits until one ends.
            let most = counts.values().copied().max().unwrap_or(0);
            let has_most = |connection: &Connection| counts.get(&connection.from) == Some(&most);
            _ = open.end_oldest_idle(has_most) || open.end_oldest_idle(|_| true);
        }
        let (end, ending) = oneshot::channel();
        let number = open.next;
        open.next += 1;
        open.each.insert(number, Connection { from, requests: 0, end: Some(end) });
        Some((ListedConnection { all: Arc::clone(self), number }, ending))
    }

    fn open(&self) -> MutexGuard<'_, ConnectionList> {
        self.0.lock()
    }
}

impl ConnectionList {
    /// Counts the connections of each network that are not ending.
    fn counts(&self) -> HashMap<Network, usize> {
        let mut counts = HashMap::new();
        for connection in self.each.values().filter(|connection| connection.end.is_some()) {
            *counts.entry(connection.from).or_default() += 1;
        }
        counts
    }

    /// Ends the oldest of these connections that has no request. Whether there is one.
    fn end_oldest_idle(&mut self, is_one: impl Fn(&Connection) -> bool) -> bool {
        let is_quiet = |connection: &&mut Connection| connection.requests == 0 && connection.end.is_some();
        let found = self.each.values_mut().filter(is_quiet).find(|connection| is_one(connection));
        let Some(end) = found.and_then(|connection| connection.end.take()) else { return false };
        // An error means that it has ended by itself.
        _ = end.send(());
        true
    }
}

impl ListedConnection {
    /// A request has come: the connection does not give way before it is served.
    pub(crate) fn request(self: &Arc<Self>) -> ActiveRequest {
        self.count(|requests| requests + 1);
        ActiveRequest(Arc::clone(self))
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        if let Some(connection) = self.all.open().each.get_mut(&self.number) {
            connection.requests = change(connection.requests);
        }
    }
}

impl Drop for ListedConnection {
    fn drop(&mut self) {
        self.all.open().each.remove(&self.number);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.count(|requests| requests - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn is_told(ending: &mut oneshot::Receiver<()>) -> bool {
        ending.try_recv().is_ok()
    }

    #[test]
    fn the_oldest_without_a_request_gives_way() {
        let all = Arc::new(Connections::default());
        let mut entered: Vec<_> = (0..CLIENT_CONNECTIONS_MAX)
            .map(|_| all.enter(ONE).unwrap())
            .map(|(listed, ending)| (Arc::new(listed), ending))
            .collect();
        let (_other, mut other) = all.enter(TWO).unwrap();
        let request = entered[0].0.request();
        let (_new, _) = all.enter(ONE).unwrap();
        assert!(!is_told(&mut entered[0].1) && is_told(&mut entered[1].1) && !is_told(&mut other));
        let requests: Vec<_> = entered.iter().map(|(listed, _)| listed.request()).collect();
        let (_newer, _) = all.enter(ONE).unwrap();
        drop((request, requests));
        assert!(all.enter(ONE).is_some() && !is_told(&mut other));
    }

    /// Each address has one connection.
    #[test]
    fn addresses_of_one_network_give_way_to_others() {
        let all = Arc::new(Connections::default());
        let (_kept, mut kept) = all.enter(ONE).unwrap();
        let address = |host: u16| IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host));
        let mut greedy: Vec<_> = (1..1000).filter_map(|host| all.enter(address(host))).collect();
        let (_new, mut new) = all.enter(TWO).unwrap();
        assert!(is_told(&mut greedy[0].1) && !is_told(&mut kept) && !is_told(&mut new));
        let staying =
            greedy.iter_mut().skip(1).filter_map(|(_, ending)| ending.try_recv().is_err().then_some(()));
        assert!(staying.count() <= CLIENT_CONNECTIONS_MAX);
    }

    #[test]
    fn a_client_whose_requests_are_all_served_gets_no_more_connections() {
        let all = Arc::new(Connections::default());
        let entered: Vec<_> =
            (0..CLIENT_CONNECTIONS_MAX).map(|_| Arc::new(all.enter(ONE).unwrap().0)).collect();
        let requests: Vec<_> = entered.iter().map(ListedConnection::request).collect();
        assert!(all.enter(ONE).is_none() && all.enter(TWO).is_some());
        drop(requests);
        assert!(all.enter(ONE).is_some());
        drop(entered);
        assert_eq!(all.open().each.len(), 0);
    }
}
