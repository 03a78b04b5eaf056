//! What a connection is to clients of version 4: the session that it was used for last, and a way to call them.

use super::session::Session;
use super::wire::Wire;
use nfs_wire::v4::SessionId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The session that a connection was used for last, and how its client is called over it.
#[derive(Default)]
pub(crate) struct Binding {
    session: Mutex<Option<Arc<Session>>>,
    /// Nobody else keeps it: it is gone when the connection is.
    pub(crate) wire: Arc<Wire>,
}

impl Binding {
    /// The session with this number, if it is the last one and lives.
    pub(crate) fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.lock().as_ref().filter(|session| session.id == *id && !session.has_ended()).cloned()
    }

    /// Requests in a session come over this connection.
    pub(crate) fn bind(&self, session: &Arc<Session>) {
        *self.lock() = Some(Arc::clone(session));
    }

    /// A session ends.
    pub(crate) fn unbind(&self, id: &SessionId) {
        self.lock().take_if(|session| session.id == *id);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
