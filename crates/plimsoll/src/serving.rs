//! A running service: volumes over directories, listeners, and an orderly end.

use crate::state;
use anyhow::Context;
use clap::Args;
use nfs::rpc::dispatch::Programs;
use nfs::rpc::server::Server;
use nfs::service::Service;
use posix::{Options, Store};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfs::{Durability, Export, ExportRule, Namespace, Volume, VolumeId};

/// Where to listen.
#[derive(Clone, Debug, Args)]
pub(crate) struct Listen {
    /// Address and port for NFS and MOUNT
    #[arg(long, default_value = "127.0.0.1:2049", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// Event loops [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

/// A directory to serve.
pub(crate) struct Served {
    /// The directory.
    pub(crate) dir: PathBuf,
    /// The export's name, without a slash.
    pub(crate) name: String,
    /// Who may, and as whom.
    pub(crate) rule: ExportRule,
    /// What acknowledgements promise.
    pub(crate) durability: Durability,
}

/// A service that runs.
pub(crate) struct Serving {
    server: Server,
    address: SocketAddr,
    namespace: Arc<Namespace>,
    stores: Vec<Arc<Store>>,
}

/// How long the end waits for calls in flight.
const PATIENCE: Duration = Duration::from_secs(10);
/// Calls of [`Store::sweep`], one a second, after which an unused file is closed.
const IDLE_TICKS: u32 = 4;

impl Serving {
    /// Opens the directories, listens, and starts to serve.
    pub(crate) fn start(served: &[Served], listen: &Listen, state_dir: &Path) -> anyhow::Result<Self> {
        let seal = state::seal(state_dir)?;
        let instance = instance()?;
        let mut stores = Vec::new();
        let mut exports = Vec::new();
        for one in served {
            let store = Store::open(&one.dir, Options::default())
                .with_context(|| format!("cannot serve {}", one.dir.display()))?;
            let id = VolumeId(seal.number(&one.name));
            let volume = Volume::new(id, &one.name, Arc::clone(&store) as _, one.durability, instance);
            let path = format!("/{}", one.name);
            exports.push(Export { path, volume: Arc::new(volume), rules: vec![one.rule.clone()] });
            stores.push(store);
        }
        let namespace = Arc::new(Namespace::new(exports));
        let listener = bind(listen.listen)?;
        let address = listener.local_addr()?;
        let service = Service {
            namespace: Arc::new(Arc::clone(&namespace).into()),
            seal,
            replay: Some(Default::default()),
            mounts: Default::default(),
            registered: Vec::new(),
        };
        let threads = listen.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
        let programs = Programs { nfs: true, mount: true, portmap: false };
        let server = Server::start(Arc::new(service), vec![(listener, programs)], threads)?;
        Ok(Self { server, address, namespace, stores })
    }

    /// Where NFS is served.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells how to mount each export.
    pub(crate) fn print_mount_hints(&self) {
        for export in self.namespace.exports() {
            let (path, port) = (&export.path, self.address.port());
            let host = if self.address.ip().is_unspecified() { "HOST".into() } else { self.address.ip().to_string() };
            let relaxed = match export.volume.durability() {
                Durability::Sync => "",
                Durability::Relaxed => "   (durability: relaxed: a power cut loses the last seconds)",
            };
            println!(
                "mount -t nfs -o vers=3,proto=tcp,port={port},mountport={port},nolock {host}:{path} /mnt{relaxed}"
            );
        }
    }

    /// Serves until SIGINT or SIGTERM, then ends: no new calls, answers to those in flight, everything on disk.
    pub(crate) fn run_until_signal(self) {
        let sweeping = self.stores.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                sweeping.iter().for_each(|store| store.sweep(IDLE_TICKS));
            }
        });
        if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
            signals.forever().next();
        }
        self.stop();
    }

    /// Ends the service.
    pub(crate) fn stop(self) {
        tracing::info!("stopping: finishing the calls in flight");
        self.server.stop(PATIENCE);
        for export in self.namespace.exports() {
            if let Err(error) = export.volume.sync() {
                tracing::error!(volume = export.volume.name(), %error, "the last flush failed");
            }
        }
    }
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}; is another NFS server running? Choose another port with --listen")
    })
}

/// A number that differs at every start, so that clients see that unstable writes may be lost.
fn instance() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}
