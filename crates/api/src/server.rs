//! Starts the interface.

use crate::auth::Tokens;
use crate::core::{Call, Core};
use crate::plane::DataPlane;
use crate::{openapi, routes};
use control::Service;
use http_server::{Operation, Server, Tls};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use vfs::SharedNamespace;

/// The address and protection of the interface.
#[derive(Clone)]
pub struct Settings {
    /// Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Without a certificate the interface speaks plain text.
    pub tls: Option<Tls>,
    /// Serves metrics to clients without a token.
    pub open_metrics: bool,
    /// Permits other addresses than loopback's without TLS or without any token.
    pub allow_insecure: bool,
}

/// The parts of the process that the interface shows and changes.
pub struct Dependencies {
    pub service: Arc<Service>,
    pub plane: Arc<dyn DataPlane>,
    /// The volumes that are open, for their traffic.
    pub namespace: SharedNamespace,
}

impl Settings {
    /// On this address, in plain text, with a token for everything.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, tls: None, open_metrics: false, allow_insecure: false }
    }
}

/// Starts to serve the interface, also over a local socket.
pub fn start(
    dependencies: Dependencies,
    settings: &Settings,
    local_socket: Option<UnixListener>,
) -> io::Result<Server> {
    let tokens =
        Tokens { service: Arc::clone(&dependencies.service), metrics_are_open: settings.open_metrics };
    let core = Arc::new(Core {
        service: dependencies.service,
        plane: dependencies.plane,
        namespace: dependencies.namespace,
        description: openapi::document(),
    });
    let operation = |endpoint: crate::endpoint::Endpoint| {
        let core = Arc::clone(&core);
        let serve = endpoint.serve;
        Operation {
            method: endpoint.method,
            path: endpoint.path,
            need: endpoint.needs,
            takes: endpoint.takes,
            serve: Box::new(move |request| serve(&Call { core: Arc::clone(&core), request })),
        }
    };
    let operations = routes::all().into_iter().map(operation).collect();
    let settings = http_server::Settings {
        listen: settings.listen,
        tls: settings.tls.clone(),
        allow_insecure: settings.allow_insecure,
    };
    Server::start(operations, Arc::new(tokens), &settings, local_socket)
}
