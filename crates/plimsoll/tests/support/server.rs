//! A server in the test's own process.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nfs::handle::HandleSigner;
use nfs::programs::Programs;
use nfs::server::{Server, Settings};
use nfs::service::Service;
use nfs::state::call_rates::CallRates;
use vfs::{Durability, Export, ExportRule, Namespace, Squash, Volume, VolumeId};

/// A server of NFS and MOUNT at a port of the system's choice; it stops when this is dropped.
pub struct Running {
    pub address: SocketAddr,
    server: Option<Server>,
}

impl Running {
    pub fn new(exports: Vec<impl Into<Arc<Export>>>, lease_s: u32) -> Self {
        let service = Arc::new(Service {
            namespace: Arc::new(Arc::new(Namespace::new(exports)).into()),
            signer: HandleSigner::new([7; 16]),
            replay: Some(Default::default()),
            v4: nfs::state::nfs4::ServiceState::new(1, b"tests", lease_s),
            mounts: Default::default(),
            refusals: Default::default(),
            rates: CallRates::unbounded(),
            locks: Default::default(),
            networks: Default::default(),
            registered: Vec::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let programs = Programs { nfs: true, mount: true, ..Programs::default() };
        let settings = Settings::for_descriptors(2, 1 << 16);
        let server = Server::start(service, vec![(listener, programs)], None, settings).unwrap();
        Self { address, server: Some(server) }
    }

    /// Stops the server, and waits this long for calls in progress.
    pub fn stop(&mut self, patience: Duration) {
        if let Some(server) = self.server.take() {
            server.stop(patience);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop(Duration::from_secs(1));
    }
}

/// A volume over a directory, whose writes need not survive.
pub fn volume(number: u64, directory: &Path) -> Volume {
    let store = posix::Store::open(directory, posix::Options::default()).unwrap();
    Volume::new(VolumeId(number), "v", store, Durability::Relaxed, 1)
}

/// An export of the volume to every client, without squashing.
pub fn export(path: impl Into<String>, volume: Volume) -> Export {
    let rules = vec![ExportRule { squash: Squash::None, ..ExportRule::everybody() }];
    Export::new(path, Arc::new(volume), rules)
}
