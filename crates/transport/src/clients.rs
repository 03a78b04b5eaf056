//! What each client, an address, takes of the server: connections, and memory for calls that wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// All clients that are connected.
#[derive(Default)]
pub(crate) struct Clients {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    uses: HashMap<IpAddr, Arc<ClientUse>>,
    /// With so many, those are dropped that are not connected any more.
    sweep_at: usize,
}

/// What a client takes.
#[derive(Default)]
pub(crate) struct ClientUse {
    connections: AtomicUsize,
    /// Bytes of calls that are queued for the limits of volumes.
    pub(crate) queued_bytes: AtomicUsize,
    /// TLS handshakes under way.
    pub(crate) handshakes: AtomicUsize,
}

/// A connection of a client, counted until it is dropped.
pub(crate) struct Counted(Arc<ClientUse>);

/// Clients that are remembered at least before those are dropped that have gone.
const SWEEP_MIN: usize = 256;

impl Clients {
    /// Counts a connection, unless the client has `connections_max` already.
    pub(crate) fn connect(&self, address: IpAddr, connections_max: usize) -> Option<Counted> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.uses.len() >= known.sweep_at {
            known.uses.retain(|_, client| client.connections.load(Ordering::SeqCst) > 0);
            known.sweep_at = (2 * known.uses.len()).max(SWEEP_MIN);
        }
        let client = known.uses.entry(address.to_canonical()).or_default();
        // Only here it grows, and that under the lock.
        if client.connections.load(Ordering::SeqCst) >= connections_max {
            return None;
        }
        client.connections.fetch_add(1, Ordering::SeqCst);
        Some(Counted(Arc::clone(client)))
    }
}

impl Counted {
    /// What the client takes in all.
    pub(crate) fn client(&self) -> &Arc<ClientUse> {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn each_address_has_its_own_bound_and_those_that_left_are_forgotten() {
        let clients = Clients::default();
        let address = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number));
        let mapped = Ipv4Addr::from_bits(0x0a00_0000).to_ipv6_mapped().into();
        let first = clients.connect(address(0), 2);
        let second = clients.connect(mapped, 2);
        assert!(first.is_some() && second.is_some() && clients.connect(address(0), 2).is_none());
        assert!(clients.connect(address(1), 2).is_some());
        drop(first);
        assert!(clients.connect(address(0), 2).is_some());
        for number in 2..10 * u32::try_from(SWEEP_MIN).unwrap() {
            clients.connect(address(number), 2);
        }
        assert!(clients.known.lock().unwrap().uses.len() <= 2 * SWEEP_MIN);
        assert!(second.is_some_and(|second| second.client().connections.load(Ordering::SeqCst) == 1));
    }
}
