//! A bounded set of connections that have not yet authenticated. A new connection displaces the oldest one.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};

const UNAUTHENTICATED_MAX: usize = 16;
/// Includes threads of displaced connections, which may run a while longer.
const THREADS_MAX: usize = 4 * UNAUTHENTICATED_MAX;

/// Ordered by age, the oldest first.
#[derive(Default)]
pub(super) struct Unauthenticated {
    next: u64,
    each: BTreeMap<u64, Pending>,
}

struct Pending {
    from: IpAddr,
    /// `None` after the connection was closed.
    stream: Option<TcpStream>,
}

impl Unauthenticated {
    /// Adds a connection, and returns its number. A full set closes the oldest connection from the address
    /// with the most connections. `None` if too many threads run.
    pub(super) fn add(&mut self, stream: &TcpStream, from: SocketAddr) -> Option<u64> {
        let mut counts = HashMap::<IpAddr, usize>::new();
        for pending in self.each.values().filter(|pending| pending.stream.is_some()) {
            *counts.entry(pending.from).or_default() += 1;
        }
        if self.each.len() >= THREADS_MAX {
            return None;
        }
        if counts.values().sum::<usize>() >= UNAUTHENTICATED_MAX {
            let most = counts.values().copied().max();
            let has_most = |pending: &&mut Pending| {
                pending.stream.is_some() && counts.get(&pending.from).copied() == most
            };
            let oldest = self.each.values_mut().find(has_most).and_then(|pending| pending.stream.take());
            // The connection may already be closed.
            _ = oldest?.shutdown(Shutdown::Both);
        }
        let stream = Some(stream.try_clone().ok()?);
        let number = self.next;
        self.next += 1;
        self.each.insert(number, Pending { from: from.ip(), stream });
        Some(number)
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.each.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn oldest_of_the_address_with_most_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair =
            || (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0);
        let mut unauthenticated = Unauthenticated::default();
        let [one, many] = ["10.0.0.1:1", "10.0.0.2:1"].map(|address| address.parse().unwrap());
        let (mut alone, near) = pair();
        let first = unauthenticated.add(&near, one).unwrap();
        let mut crowd: Vec<_> = (0..UNAUTHENTICATED_MAX).map(|_| pair()).collect();
        for (_, near) in &crowd {
            unauthenticated.add(near, many).unwrap();
        }
        assert_eq!(crowd[0].0.read(&mut [0]).unwrap(), 0, "ended");
        for far in [&mut alone, &mut crowd[1].0] {
            far.set_nonblocking(true).unwrap();
            assert!(far.read(&mut [0]).is_err(), "goes on");
        }
        unauthenticated.remove(first);
        assert!(unauthenticated.add(&near, one).is_some());
        let rest = (0..).take_while(|_| unauthenticated.add(&near, many).is_some()).count();
        assert!(rest < THREADS_MAX, "threads that have not yet ended are bounded");
    }
}
