//! A bound on sessions whose clients have proven nothing. When it is reached, the oldest session of the network with
//! the most gives way.

use crate::limits::{SETUP_TIME_MIN, SETUPS_MAX};
use std::sync::Arc;
use std::time::Instant;
use transport::Yielding;
use vfs::bounds::Network;
use vfs::sync::Mutex;

/// The sessions by network.
#[derive(Clone)]
pub(crate) struct PendingSessions(Arc<Mutex<Yielding<u64>>>);

/// The place of a session. Dropping it frees the place.
pub(crate) struct PendingSession {
    pending_sessions: PendingSessions,
    number: u64,
}

impl Default for PendingSessions {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Yielding::new(SETUP_TIME_MIN))))
    }
}

impl PendingSessions {
    /// Adds a session of a client in this network. Returns the id of the session that must end for it. None if all
    /// places are in use, and none gives way.
    pub(crate) fn try_add(
        &self,
        session_id: u64,
        network: Network,
        now: Instant,
    ) -> Option<(PendingSession, Option<u64>)> {
        let mut places = self.0.lock();
        let ended = if places.len() >= SETUPS_MAX { Some(places.give_way(network, now)?.1) } else { None };
        let number = places.add(network, now, session_id);
        Some((PendingSession { pending_sessions: self.clone(), number }, ended))
    }
}

impl Drop for PendingSession {
    fn drop(&mut self) {
        self.pending_sessions.0.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use vfs::bounds::Networks;

    fn network(host: u32) -> Network {
        Networks::default().of(IpAddr::V4(Ipv4Addr::from_bits(host)))
    }

    #[test]
    fn pending_session_of_greedy_network_gives_way() {
        let (pending_sessions, now) = (PendingSessions::default(), Instant::now());
        let hosts = (0..).map(|id| network(u32::try_from(id % 5).unwrap()));
        let flood: Vec<PendingSession> = (0..SETUPS_MAX as u64)
            .zip(hosts)
            .map(|(id, host)| pending_sessions.try_add(id, host, now).unwrap().0)
            .collect();
        assert!(pending_sessions.try_add(7, network(0), now).is_none(), "they have it all");
        let others: Vec<(PendingSession, Option<u64>)> =
            (10..110).map(|host| pending_sessions.try_add(1 << 20, network(host), now).unwrap()).collect();
        let lost: Vec<u64> = others.iter().filter_map(|(_, ended)| *ended).collect();
        assert_eq!(lost.len(), 100);
        assert!(lost.iter().all(|&id| id < 110), "the oldest of the five: {lost:?}");
        assert!(
            pending_sessions
                .try_add(7, network(0), now + SETUP_TIME_MIN)
                .is_some_and(|(_, ended)| ended.is_some())
        );
        drop((flood, others));
        assert!(pending_sessions.0.lock().is_empty(), "all were given back");
    }
}
