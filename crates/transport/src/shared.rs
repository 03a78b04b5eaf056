//! State that all threads of a server share.

use crate::clients::Clients;
use crate::connection::{Connection, LoopHandle, Work};
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

pub(crate) struct Shared<P: Protocol> {
    pub(crate) protocol: Arc<P>,
    pub(crate) pool: Arc<Pool<Job<P>>>,
    pub(crate) resources: Arc<Resources>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) registry: Registry<P>,
    pub(crate) settings: Settings,
    pub(crate) loops: Vec<Arc<Mailbox<P>>>,
}

/// An event loop and the storage threads behind it, as its connections use them.
pub(crate) struct EventLoopHandle<P: Protocol> {
    pub(crate) mailbox: Arc<Mailbox<P>>,
    pub(crate) pool: Arc<Pool<Job<P>>>,
}

impl<P: Protocol> Shared<P> {
    pub(crate) fn memory(&self) -> P::Memory {
        self.protocol.memory(Role::EventLoop, self.settings.cached_files)
    }
}

impl<P: Protocol> LoopHandle<P> for EventLoopHandle<P> {
    fn resume(&self, token: u64) {
        self.mailbox.post(Message::Resume(token));
    }

    fn admit(&self, token: u64, number: u64, permit: Permit) {
        self.mailbox.post(Message::Admitted(token, number, permit));
    }

    fn submit(&self, connection: &Arc<Connection<P>>, work: Work<P>) {
        self.pool.submit(Job::work(connection, work));
    }
}
