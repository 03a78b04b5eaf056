//! The NFSv4 binding of a connection: its last session or client of 4.0, and the path for callbacks.

use super::client::Client;
use super::session::Session;
use super::wire::Wire;
use nfs_wire::v4::{ClientId, SessionId};
use std::sync::{Arc, MutexGuard};
use vfs::sync::Mutex;

/// The last session or 4.0 client of a connection, and the connection's path for callbacks.
#[derive(Default)]
pub(crate) struct Binding {
    session: Mutex<Option<Arc<Session>>>,
    client: Mutex<Option<Arc<Client>>>,
    /// The only strong reference: the wire ends with the connection.
    pub(crate) wire: Arc<Wire>,
}

impl Binding {
    /// The session with this number, if it was used last and lives.
    pub(crate) fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.lock().as_ref().filter(|session| session.id == *id && !session.has_ended()).cloned()
    }

    pub(crate) fn bind(&self, session: &Arc<Session>) {
        *self.lock() = Some(Arc::clone(session));
    }

    pub(crate) fn unbind(&self, id: &SessionId) {
        self.lock().take_if(|session| session.id == *id);
    }

    /// The client of 4.0 with this number, if it sent the last request.
    pub(crate) fn client(&self, id: ClientId) -> Option<Arc<Client>> {
        self.last_client().filter(|client| client.id == id)
    }

    /// The client of 4.0 with the last request, unless it has ended.
    pub(crate) fn last_client(&self) -> Option<Arc<Client>> {
        self.lock_client().as_ref().filter(|client| !client.has_ended()).cloned()
    }

    /// Notes that a client of 4.0 uses this connection.
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
