//! Statistics of a running server.

use super::Smb;
use crate::state::service::Service;
use std::sync::Arc;
use std::time::Duration;
use transport::{Client, Stats, Users};

/// A look at a running server.
#[derive(Clone)]
pub struct View {
    pub(super) transport: transport::View<Smb>,
    pub(super) service: Arc<Service>,
}

/// What clients have over SMB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections now.
    pub connections: usize,
    /// Sessions: users who are logged in.
    pub sessions: usize,
    /// Files and pipes that they have open.
    pub opens: usize,
    /// Logins that were refused since the start.
    pub refused_logins: u64,
    /// Bytes that READs took from files to the network without a copy, since the start.
    pub spliced_bytes: u64,
}

impl View {
    /// Connections now, and those whose sessions are being ended.
    pub fn connections(&self) -> usize {
        self.service.counters.connections()
    }

    /// What clients have.
    pub fn usage(&self) -> Usage {
        Usage {
            connections: self.connections(),
            sessions: self.service.sessions(),
            opens: self.service.counters.opens(),
            refused_logins: self.service.counters.refused_logins(),
            spliced_bytes: self.service.counters.spliced_bytes(),
        }
    }

    /// Everybody who is connected.
    pub fn clients(&self) -> Vec<Client> {
        self.transport.clients()
    }

    /// The connections that a call to a volume was answered on within this time.
    pub fn users(&self, within: Duration) -> Users {
        self.transport.users(within)
    }

    /// How it does.
    pub fn stats(&self) -> Stats {
        self.transport.stats()
    }
}
