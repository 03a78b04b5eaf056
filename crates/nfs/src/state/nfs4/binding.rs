//! The NFSv4 binding of a connection: its last session or client of 4.0, and the path for callbacks.

use super::client::Client;
use super::session::Session;
use super::wire::Wire;
use nfs_wire::v4::{ClientId, SessionId};
use std::sync::{Arc, MutexGuard};
use vfs::sync::Mutex;

/// The session that a connection was used for last, or the client of 4.0, and how a client is called over it.
#[derive(Default)]
pub(crate) struct Binding {
    session: Mutex<Option<Arc<Session>>>,
    client: Mutex<Option<Arc<Client>>>,
    /// The only strong reference: it ends with the connection.
    pub(crate) wire: Arc<Wire>,
}

impl Binding {
    /// The session with this number, if it is the last one and lives.
    pub(crate) fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.lock().as_ref().filter(|session| session.id == *id && !session.has_ended()).cloned()
    }

    /// Notes a session used over this connection.
    pub(crate) fn bind(&self, session: &Arc<Session>) {
        *self.lock() = Some(Arc::clone(session));
    }

    /// Forgets an ended session.
    pub(crate) fn unbind(&self, id: &SessionId) {
        self.lock().take_if(|session| session.id == *id);
    }

    /// The client of 4.0 with this number, if requests of it came last.
    pub(crate) fn client(&self, id: ClientId) -> Option<Arc<Client>> {
        self.last_client().filter(|client| client.id == id)
    }

    /// The client of 4.0 with the last request, unless it has ended.
    pub(crate) fn last_client(&self) -> Option<Arc<Client>> {
        self.lock_client().as_ref().filter(|client| !client.has_ended()).cloned()
    }

    /// Requests of a client of 4.0 come over this connection.
    pub(crate) fn bind_client(&self, client: &Arc<Client>) {
        *self.lock_client() = Some(Arc::clone(client));
    }

    fn lock_client(&self) -> MutexGuard<'_, Option<Arc<Client>>> {
        self.client.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock()
    }
}
