//! Handshakes of transforms: their number and their duration.

use crate::clients::Evictable;
use crate::clock;
use crate::eviction_queue::EvictionQueue;
use crate::limits::{EVICTION_AGE_MIN, HANDSHAKE_S, HANDSHAKES_MAX};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;
use vfs::bounds::Network;
use vfs::sync::Mutex;

pub(crate) struct Handshakes(Mutex<EvictionQueue<Weak<dyn Evictable>>>);

/// A handshake in progress, counted until it is dropped.
pub(crate) struct Handshake {
    all: Arc<Handshakes>,
    number: u64,
    /// The start of the handshake ([`clock::coarse_ms`]).
    since_ms: u64,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self(Mutex::new(EvictionQueue::new(EVICTION_AGE_MIN)))
    }
}

impl Handshakes {
    /// Begins a handshake for a client in this network. At the limit, another handshake's connection is evicted; `None`
    /// if none may be.
    pub(crate) fn begin(
        self: &Arc<Self>,
        network: Network,
        connection: Weak<dyn Evictable>,
        now: Instant,
    ) -> Option<Handshake> {
        let mut all = self.lock();
        let ended = if all.len() >= HANDSHAKES_MAX { Some(all.evict_for(network, now)?.1) } else { None };
        let number = all.add(network, now, connection);
        drop(all);
        ended.and_then(|connection| connection.upgrade()).inspect(|connection| connection.evict());
        Some(Handshake { all: Arc::clone(self), number, since_ms: clock::coarse_ms() })
    }

    fn lock(&self) -> MutexGuard<'_, EvictionQueue<Weak<dyn Evictable>>> {
        self.0.lock()
    }
}

impl Handshake {
    pub(crate) fn is_overdue(&self) -> bool {
        clock::coarse_ms() - self.since_ms > u64::from(HANDSHAKE_S) * 1000
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv6Addr};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use vfs::bounds::Networks;

    #[derive(Default)]
    struct Evictions(AtomicUsize);

    impl Evictable for Evictions {
        fn evict(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The network of a host in 2001:db8:0:N::/64.
    fn network(number: u16, host: usize) -> Network {
        let host = u16::try_from(host).unwrap();
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, host);
        Networks::default().of(IpAddr::V6(address))
    }

    #[test]
    fn handshakes_of_one_network_do_not_exclude_others() {
        let (all, now) = (Arc::new(Handshakes::default()), Instant::now());
        let begin = |network, evictions: &Arc<Evictions>| {
            let weak: Weak<Evictions> = Arc::downgrade(evictions);
            all.begin(network, weak, now)
        };
        let greedy: Vec<Arc<Evictions>> = (0..HANDSHAKES_MAX).map(|_| Arc::default()).collect();
        let begun: Vec<Handshake> =
            (0..).zip(&greedy).map(|(host, evictions)| begin(network(1, host), evictions).unwrap()).collect();
        let other = Arc::<Evictions>::default();
        assert!(begin(network(1, HANDSHAKES_MAX), &other).is_none(), "all are of its network");
        let others: Vec<Handshake> =
            (2..12).map(|number| begin(network(number, 1), &other).unwrap()).collect();
        let evictions: Vec<usize> =
            greedy.iter().map(|evictions| evictions.0.load(Ordering::SeqCst)).collect();
        assert!(
            evictions[..10].iter().all(|&times| times == 1)
                && evictions[10..].iter().all(|&times| times == 0)
        );
        assert_eq!((other.0.load(Ordering::SeqCst), all.lock().len()), (0, HANDSHAKES_MAX));
        drop((begun, others));
        assert!(all.lock().is_empty());
    }
}
