//! The listener for peers, which replicate volumes of this service.

use anyhow::Context;
use control::{PublicKey, Service};
use replicate::link::{Connection, Listener, Peers};
use std::net::SocketAddr;
use std::sync::Arc;

struct Known(Arc<Service>);

impl Peers for Known {
    fn is_peer(&self, key: &PublicKey) -> bool {
        self.0.is_peer(key)
    }

    fn serve(&self, mut connection: Connection) {
        let peer = connection.peer();
        if let Err(error) = self.0.serve_peer(&peer, &mut connection) {
            tracing::info!(%peer, %error, "a replication to a peer has ended early");
        }
    }
}

/// Listens at this address.
pub(crate) fn start(control: &Arc<Service>, listen: SocketAddr) -> anyhow::Result<Listener> {
    let identity = control.identity()?;
    Listener::start(listen, &identity, Arc::new(Known(Arc::clone(control))))
        .with_context(|| format!("cannot listen on {listen} for replications"))
}
