//! Agreements on a transform that are under way: how many there may be, and for how long.

use crate::clients::ClientUse;
use crate::clock;
use crate::limits::{CLIENT_HANDSHAKES_MAX, HANDSHAKE_S, HANDSHAKES_MAX};
use crate::resources::Resources;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A handshake under way, counted until it is dropped.
pub(crate) struct Handshake {
    resources: Arc<Resources>,
    client: Arc<ClientUse>,
    /// When it began ([`clock::coarse_ms`]).
    since_ms: u64,
}

impl Handshake {
    /// Begins one, unless there are too many of this client or of all.
    pub(crate) fn begin(resources: &Arc<Resources>, client: &Arc<ClientUse>) -> Option<Self> {
        if !take(&client.handshakes, CLIENT_HANDSHAKES_MAX) {
            return None;
        }
        if !take(&resources.handshakes, HANDSHAKES_MAX) {
            client.handshakes.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (resources, client) = (Arc::clone(resources), Arc::clone(client));
        Some(Self { resources, client, since_ms: clock::coarse_ms() })
    }

    /// Whether it takes too long.
    pub(crate) fn is_overdue(&self) -> bool {
        clock::coarse_ms() - self.since_ms > u64::from(HANDSHAKE_S) * 1000
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.resources.handshakes.fetch_sub(1, Ordering::Relaxed);
        self.client.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts one more, unless there are `most` already.
fn take(count: &AtomicUsize, most: usize) -> bool {
    let more = |now| (now < most).then_some(now + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferPool;

    #[test]
    fn one_client_cannot_take_what_others_need() {
        let resources = Resources::new(BufferPool::new(|| ()));
        let clients: Vec<Arc<ClientUse>> = (0..20).map(|_| Arc::default()).collect();
        let begun: Vec<Handshake> =
            (0..1000).filter_map(|_| Handshake::begin(&resources, &clients[0])).collect();
        assert_eq!(begun.len(), CLIENT_HANDSHAKES_MAX);
        let others = clients[1..].iter().flat_map(|client| [client; CLIENT_HANDSHAKES_MAX]);
        let others: Vec<Handshake> =
            others.filter_map(|client| Handshake::begin(&resources, client)).collect();
        assert_eq!(begun.len() + others.len(), HANDSHAKES_MAX);
        drop(others);
        assert!(Handshake::begin(&resources, &clients[19]).is_some());
        assert!(Handshake::begin(&resources, &clients[0]).is_none());
        drop(begun);
        assert!(Handshake::begin(&resources, &clients[0]).is_some());
        assert_eq!(resources.handshakes.load(Ordering::Relaxed), 0);
    }
}
