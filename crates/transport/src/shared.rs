//! What all threads of a server share.

use crate::clients::Clients;
use crate::connection::{Connection, Home, Work};
use crate::job::Job;
use crate::mailbox::{Mailbox, Message};
use crate::message::Role;
use crate::pool::Pool;
use crate::protocol::Protocol;
use crate::registry::Registry;
use crate::resources::Resources;
use crate::settings::Settings;
use std::sync::Arc;
use vfs::qos::Permit;

/// What all event loops of a server share.
pub(crate) struct Shared<P: Protocol> {
    /// What is spoken.
    pub(crate) protocol: Arc<P>,
    /// Where calls go that wait for storage.
    pub(crate) pool: Arc<Pool<Job<P>>>,
    /// Buffers, and counts over all connections.
    pub(crate) resources: Arc<Resources>,
    /// The clients that are connected.
    pub(crate) clients: Arc<Clients>,
    /// Who is connected.
    pub(crate) registry: Registry<P>,
    /// How the server runs.
    pub(crate) settings: Settings,
    /// All event loops.
    pub(crate) loops: Vec<Arc<Mailbox<P>>>,
}

/// An event loop and the storage threads behind it, as its connections see them.
pub(crate) struct LoopHome<P: Protocol> {
    /// The loop.
    pub(crate) mailbox: Arc<Mailbox<P>>,
    /// The storage threads.
    pub(crate) pool: Arc<Pool<Job<P>>>,
}

impl<P: Protocol> Shared<P> {
    /// The memory of an event loop.
    pub(crate) fn memory(&self) -> P::Memory {
        self.protocol.memory(Role::EventLoop, self.settings.cached_files)
    }
}

impl<P: Protocol> Home<P> for LoopHome<P> {
    fn resume(&self, token: u64) {
        self.mailbox.post(Message::Resume(token));
    }

    fn admit(&self, token: u64, number: u64, charge: Permit) {
        self.mailbox.post(Message::Admitted(token, number, charge));
    }

    fn submit(&self, connection: &Arc<Connection<P>>, work: Work<P>) {
        self.pool.submit(Job::work(connection, work));
    }
}
