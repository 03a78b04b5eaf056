//! A running service: volumes over directories, listeners, and an orderly end.

use crate::ports::{NFS_PROGRAMS, Ports};
use crate::state;
use anyhow::Context;
use clap::Args;
use nfs::limits::DESCRIPTORS_ASIDE;
use nfs::portmap::udp::Responder;
use nfs::rpc::server::{Server, Settings};
use nfs::service::Service;
use posix::{Options, Share, Store};
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfs::{Durability, Export, ExportRule, Namespace, Volume, VolumeId};

/// Where to listen.
#[derive(Clone, Debug, Args)]
pub(crate) struct Listen {
    /// Address and port for NFS and MOUNT; 0.0.0.0 is every IPv4 address of this machine, port 0 any free one
    #[arg(long, default_value = "127.0.0.1:2049", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// A second port for MOUNT, besides the NFS port; 0 for none [default: 635, if NFS is on 2049 and it can be had]
    #[arg(long, value_name = "PORT")]
    pub(crate) mount_port: Option<u16>,
    /// Port for the port mapper, TCP and UDP; 0 for none [default: 111, if NFS is on 2049 and it can be had]
    #[arg(long, value_name = "PORT")]
    pub(crate) portmap_port: Option<u16>,
    /// Serve no port mapper: clients then mount with the options port= and mountport=
    #[arg(long, conflicts_with = "portmap_port")]
    pub(crate) no_portmap: bool,
    /// Threads that receive and answer calls [default: one for each core]
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
    /// Whether clients find the port by themselves.
    is_announced: bool,
    portmap: Option<Responder>,
    namespace: Arc<Namespace>,
    stores: Vec<Arc<Store>>,
    share: Arc<Share>,
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
        let share = Share::of_process();
        let mut stores = Vec::new();
        let mut exports = Vec::new();
        for one in served {
            let options = Options { share: Arc::clone(&share), ..Options::default() };
            let store = Store::open(&one.dir, options)
                .with_context(|| format!("cannot serve {}", one.dir.display()))?;
            say_what_is_different(&one.name, &store);
            let id = VolumeId(seal.number(&one.name));
            let volume = Volume::new(id, &one.name, Arc::clone(&store) as _, one.durability, instance);
            let path = format!("/{}", one.name);
            exports.push(Export { path, volume: Arc::new(volume), rules: vec![one.rule.clone()] });
            stores.push(store);
        }
        let namespace = Arc::new(Namespace::new(exports));
        let listener = bind(listen.listen)?;
        let address = listener.local_addr()?;
        let ports = Ports::open(listen, address)?;
        let is_announced = ports.has_standard_portmap();
        let service = Arc::new(Service {
            namespace: Arc::new(Arc::clone(&namespace).into()),
            seal,
            replay: Some(Default::default()),
            mounts: Default::default(),
            registered: ports.registrations(address)?,
        });
        let threads =
            listen.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
        let (mut listeners, datagrams) = ports.into_sockets();
        listeners.push((listener, NFS_PROGRAMS));
        let settings = Settings::for_descriptors(threads, descriptors());
        let server = Server::start(Arc::clone(&service), listeners, settings)?;
        let portmap = datagrams.map(|socket| Responder::start(service, socket)).transpose()?;
        Ok(Self { server, address, is_announced, portmap, namespace, stores, share })
    }

    /// Where NFS is served.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn print_mount_hints(&self) {
        for export in self.namespace.exports() {
            let (path, port) = (&export.path, self.address.port());
            let ports =
                if self.is_announced { String::new() } else { format!(",port={port},mountport={port}") };
            let host = match self.address.ip() {
                ip if ip.is_unspecified() => "HOST".into(),
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            };
            let relaxed = note(export.volume.durability());
            println!("mount -t nfs -o vers=3,proto=tcp{ports},nolock {host}:{path} /mnt{relaxed}");
        }
    }

    /// What is to be said of the durability; nothing where it is as everybody expects.
    pub(crate) fn durability_note(&self) -> &'static str {
        let relaxed = |export: &Arc<Export>| export.volume.durability() == Durability::Relaxed;
        note(if self.namespace.exports().iter().any(relaxed) {
            Durability::Relaxed
        } else {
            Durability::Sync
        })
    }

    /// Tells how to mount each export, and serves until SIGINT or SIGTERM; then it ends: no new calls, answers to those in
    /// flight, everything on disk.
    pub(crate) fn announce_and_run(self) {
        // First of all: whoever has read the announcement may end the service properly.
        let signals = Signals::new([SIGINT, SIGTERM]);
        self.print_mount_hints();
        let (stores, share, view) = (self.stores.clone(), self.share.clone(), self.server.view());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                stores.iter().for_each(|store| store.sweep(IDLE_TICKS));
                share.set_nodes_max(files_max(descriptors(), view.connections()));
            }
        });
        match signals {
            Ok(mut signals) => _ = signals.forever().next(),
            Err(error) => tracing::error!(%error, "cannot wait for signals"),
        }
        self.stop();
    }

    /// Ends the service.
    pub(crate) fn stop(self) {
        tracing::info!("stopping: finishing the calls in flight");
        drop(self.portmap);
        self.server.stop(PATIENCE);
        for export in self.namespace.exports() {
            if let Err(error) = export.volume.sync() {
                tracing::error!(volume = export.volume.name(), %error, "the last flush failed");
            }
        }
    }
}

/// How many descriptors this process may have. [`Share::of_process`] has raised the limit as far as it goes.
fn descriptors() -> usize {
    let most = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
    most.unwrap_or(usize::MAX)
}

/// How many of them files may have: a third always, and what connections do not use but for an eighth, so that there is room
/// for those that come before the next look.
fn files_max(descriptors: usize, connections: usize) -> usize {
    let taken = connections + DESCRIPTORS_ASIDE + descriptors / 8;
    descriptors.saturating_sub(taken).max(descriptors / 3)
}

/// Says at the start what an operator would otherwise find out by surprise.
fn say_what_is_different(name: &str, store: &Store) {
    if store.uses_owner_attribute() {
        tracing::info!(
            volume = name,
            "this process may not change owners: owner, group and mode are kept in the extended attribute \
             user.plimsoll.owner, and the files themselves belong to the user who runs it"
        );
    }
    if store.uses_index() {
        tracing::info!(
            volume = name,
            "this process may not open files by handle (CAP_DAC_READ_SEARCH): an index finds them, which after a \
             restart is rebuilt by listing the tree when it is needed"
        );
    }
}

fn note(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "",
        Durability::Relaxed => "   (durability: relaxed: a power cut loses the last seconds)",
    }
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| {
        format!(
            "cannot listen on {address}; is another NFS server running? Choose another port with --listen"
        )
    })
}

/// A number that differs at every start, so that clients see that unstable writes may be lost.
fn instance() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}
