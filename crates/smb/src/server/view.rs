//! Statistics of a running server.

use super::Smb;
use crate::state::service::Service;
use std::sync::Arc;
use std::time::Duration;
use transport::{Client, ConnectionEnds, Stats, VolumeConnections};

/// A handle on a running server, for its statistics.
#[derive(Clone)]
pub struct View {
    pub(super) transport: transport::View<Smb>,
    pub(super) service: Arc<Service>,
}

/// Objects of clients over SMB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub connections: usize,
    /// Sessions of logged-in users.
    pub sessions: usize,
    /// Open files and pipes.
    pub opens: usize,
    /// Refused logins since the start.
    pub refused_logins: u64,
    /// Bytes that READs have moved from files to the network without a copy, since the start.
    pub spliced_bytes: u64,
}

impl View {
    /// Connections, including those whose sessions are still being ended.
    pub fn connections(&self) -> usize {
        self.service.counters.connections()
    }

    pub fn usage(&self) -> Usage {
        Usage {
            connections: self.connections(),
            sessions: self.service.sessions(),
            opens: self.service.counters.opens(),
            refused_logins: self.service.counters.refused_logins(),
            spliced_bytes: self.service.counters.spliced_bytes(),
        }
    }

    pub fn clients(&self) -> Vec<Client> {
        self.transport.clients()
    }

    /// The ends of current connections, at most this many, the newest first.
    pub fn connection_ends(&self, most: usize) -> Vec<ConnectionEnds> {
        self.transport.connection_ends(most)
    }

    /// The connections that have answered a call to a volume within this time.
    pub fn users(&self, within: Duration) -> VolumeConnections {
        self.transport.volume_connections(within)
    }

    pub fn stats(&self) -> Stats {
        self.transport.stats()
    }
}
