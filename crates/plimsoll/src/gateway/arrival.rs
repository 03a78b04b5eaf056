//! The way of clients to an endpoint: its address, and the wake-up of those that were connected elsewhere.

use super::network::{AddressMover, EndpointAddress, External, Interface, wake_clients};
use super::replica::EndpointState;
use crate::host::Arrival;
use crate::plane::Connections;
use stable::{Replica, ReplicaChange, ReplicaPairs};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use transport::{ConnectionEnds, ReplyDeadline};
use vfs::sync::Mutex;

/// Connections that the next gateway wakes, over each protocol.
const CONNECTIONS_MAX: usize = 2000;
/// The time to wait for an address that another program moves. Then another gateway tries.
const PATIENCE: Duration = Duration::from_secs(8);
/// The key of the current connections in the state of the endpoint.
const KEY: &str = "connections";

/// An address that comes and goes with the lease.
pub(crate) struct AddressArrival {
    state: Arc<EndpointState>,
    inner: Mutex<Inner>,
}

struct Inner {
    mover: Box<dyn AddressMover>,
    is_here: bool,
    connections: Option<Connections>,
    /// The connections as the store has them.
    stored: Vec<ConnectionEnds>,
}

impl AddressArrival {
    /// An address at an interface, or one that another program moves.
    pub(crate) fn new(
        interface: Option<&str>,
        address: EndpointAddress,
        deadline: ReplyDeadline,
        state: Arc<EndpointState>,
    ) -> anyhow::Result<Self> {
        let mover: Box<dyn AddressMover> = match interface {
            Some(name) => Box::new(Interface::new(name, address, deadline)?),
            None => Box::new(External { ip: address.ip }),
        };
        let inner = Inner { mover, is_here: false, connections: None, stored: Vec::new() };
        Ok(Self { state, inner: Mutex::new(inner) })
    }

    /// Notes the connections that the endpoint had at its last gateway.
    pub(crate) fn set_earlier(&self, pairs: &ReplicaPairs) {
        let text = pairs.get(KEY).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        self.inner.lock().stored = parse(text);
    }

    /// Keeps the address, and stores which connections there are. The lease was just renewed.
    pub(crate) fn renew(&self) {
        // While the address is being acquired, the lease must go on.
        let Some(mut inner) = self.inner.try_lock() else { return };
        if inner.is_here
            && let Err(error) = inner.mover.renew()
        {
            tracing::warn!("cannot keep the address of the endpoint: {error:#}");
        }
        let Some(mut ends) = inner.connections.as_ref().map(|connections| connections.ends(CONNECTIONS_MAX))
        else {
            return;
        };
        ends.sort_unstable();
        if ends == inner.stored {
            return;
        }
        let text = format(&ends);
        match self.state.apply(&[ReplicaChange::Set { key: KEY, value: text.as_bytes() }]) {
            Ok(()) => inner.stored = ends,
            Err(error) => tracing::warn!("cannot store the connections of clients: {error}"),
        }
    }
}

impl Arrival for AddressArrival {
    fn open(&self) -> anyhow::Result<()> {
        let mut inner = self.inner.lock();
        inner.mover.acquire(PATIENCE)?;
        inner.is_here = true;
        Ok(())
    }

    fn wake(&self, connections: Connections) {
        let mut inner = self.inner.lock();
        match wake_clients(&inner.stored) {
            Ok(0) => {}
            Ok(clients) => tracing::info!(clients, "clients of the last gateway are woken"),
            Err(error) => {
                tracing::warn!("clients of the last gateway notice late that it is gone: {error:#}")
            }
        }
        inner.connections = Some(connections);
    }

    fn close(&self) {
        let mut inner = self.inner.lock();
        inner.is_here = false;
        inner.connections = None;
        if let Err(error) = inner.mover.release() {
            tracing::warn!("cannot remove the address of the endpoint: {error:#}");
        }
    }
}

fn format(ends: &[ConnectionEnds]) -> String {
    ends.iter().fold(String::new(), |mut text, ends| {
        let _written = writeln!(text, "{} {}", ends.local, ends.peer);
        text
    })
}

fn parse(text: &str) -> Vec<ConnectionEnds> {
    let parse = |line: &str| {
        let (local, peer) = line.split_once(' ')?;
        Some(ConnectionEnds { local: local.parse().ok()?, peer: peer.parse().ok()? })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_read_as_they_were_written() {
        let ends = ["10.0.0.1:2049 10.0.0.9:700", "[fd00::1]:445 [fd00::9]:40000"];
        let ends: Vec<_> = ends.into_iter().flat_map(parse).collect();
        assert_eq!(ends.len(), 2);
        assert_eq!(parse(&format(&ends)), ends);
        assert_eq!(parse("10.0.0.1:2049\nx y\n\n"), []);
    }
}
