//! NFS at its ports: listeners, the port mapper, and an orderly end.

use crate::client_networks::Ipv6Prefix;
use crate::descriptors::Part;
use crate::host_ids;
use crate::lease::LeaseArgs;
use crate::mounting::Mounting;
use crate::notify::Supervisor;
use crate::number::whole;
use crate::periodic::{Task, Tasks};
use crate::ports::{NFS_PROGRAMS, Ports};
use crate::signals::until_told;
use crate::state::Stable;
use crate::tls::{ServerTls, TlsSettings};
use crate::volumes;
use anyhow::{Context, anyhow};
use clap::Args;
use nfs::handle::HandleSigner;
use nfs::portmap::rpcbind::{HostRpcbind, SOCKET};
use nfs::server::udp::Responder;
use nfs::server::{Endpoints, Server, Settings, View};
use nfs::service::Service;
use nfs::state::call_rates::CallRates;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::ReplyDeadline;
use transport::limits::{CLIENT_CONNECTIONS_MAX, IDLE_S};
use vfs::qos::Pacer;
use vfs::{Namespace, SharedNamespace};

/// See [`Listen::connections_per_client`].
pub(crate) const CONNECTIONS_PER_CLIENT: NonZeroUsize = NonZeroUsize::new(CLIENT_CONNECTIONS_MAX).unwrap();
/// See [`Listen::idle_timeout`].
pub(crate) const IDLE_TIMEOUT: NonZeroU32 = NonZeroU32::new(IDLE_S).unwrap();

/// See [`Listen::threads`].
pub(crate) const THREADS: RangeInclusive<usize> = 1..=256;

/// The addresses to listen at.
#[derive(Clone, Debug, Args)]
pub(crate) struct Listen {
    /// Address and port for NFS and MOUNT; 0.0.0.0 is every IPv4 address of this machine, port 0 any free one
    #[arg(long, default_value = "127.0.0.1:2049", value_name = "ADDRESS:PORT", value_parser = crate::listen_address::parse)]
    pub(crate) listen: SocketAddr,
    /// A second port for MOUNT, besides the NFS port; 0 for none [default: 635, if NFS is on 2049 and it is free]
    #[arg(long, value_name = "PORT", hide_short_help = true, value_parser = whole::<u16>(0..=u16::MAX))]
    pub(crate) mount_port: Option<u16>,
    /// Port for the port mapper, TCP and UDP; 0 for none [default: 111, if NFS is on 2049 and it is free]
    #[arg(long, value_name = "PORT", hide_short_help = true, value_parser = whole::<u16>(0..=u16::MAX))]
    pub(crate) portmap_port: Option<u16>,
    /// Serve no port mapper: clients then mount with the options port= and mountport=
    #[arg(long, conflicts_with = "portmap_port", hide_short_help = true)]
    pub(crate) no_portmap: bool,
    /// Tell the rpcbind of this host, which has port 111, of NFS, MOUNT and the locks of version 3, rather than serve a port mapper
    #[arg(long, conflicts_with_all = ["portmap_port", "no_portmap"], hide_short_help = true)]
    pub(crate) register_rpcbind: bool,
    /// The port of remote quotas, of `plimsoll serve` alone: exported directories have no quotas.
    #[arg(skip)]
    pub(crate) rquota_port: Option<u16>,
    /// The time until which clients are answered.
    #[arg(skip)]
    pub(crate) deadline: ReplyDeadline,
    /// Whether connections outlive the servers.
    #[arg(skip)]
    pub(crate) keeps_connections: bool,
    /// Threads that receive and answer calls [default: one for each core]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = whole::<usize>(THREADS))]
    pub(crate) threads: Option<usize>,
    /// Connections that one client, an address, may have open
    #[arg(long, default_value_t = CONNECTIONS_PER_CLIENT, value_name = "N", hide_short_help = true, value_parser = whole::<NonZeroUsize>(NonZeroUsize::MIN..))]
    pub(crate) connections_per_client: NonZeroUsize,
    /// Seconds without a call after which a connection is closed; a client that still wants something connects again
    #[arg(long, default_value_t = IDLE_TIMEOUT, value_name = "SECONDS", hide_short_help = true, value_parser = whole::<NonZeroU32>(NonZeroU32::MIN..=NonZeroU32::MAX))]
    pub(crate) idle_timeout: NonZeroU32,
    /// Name users and groups to NFSv4 clients as this host does, with this domain: alice@example.org [default: their numbers]
    #[arg(long, value_name = "DOMAIN", hide_short_help = true)]
    pub(crate) id_domain: Option<String>,
    /// Leading bits that IPv6 addresses have in common which count as one network: what clients make the service remember is bounded for
    /// each network
    #[arg(long, default_value_t, value_name = "BITS", hide_short_help = true)]
    pub(crate) ipv6_prefix: Ipv6Prefix,
    #[command(flatten)]
    pub(crate) lease: LeaseArgs,
    /// Let NFSv4.1 and 4.2 clients cache writes to files that no other client has open, until another client opens the file
    #[arg(long, hide_short_help = true)]
    pub(crate) write_delegations: bool,
    #[command(flatten)]
    pub(crate) tls: TlsSettings,
}

impl Listen {
    /// The number of threads that receive and answer calls.
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into))
    }
}

/// NFS for a namespace.
pub(crate) struct NfsFrontend {
    server: Server,
    mounting: Mounting,
    service: Arc<Service>,
    datagrams: Vec<Responder>,
    namespace: SharedNamespace,
    /// The host's rpcbind, if it tells clients the ports of the programs.
    rpcbind: Option<Arc<HostRpcbind>>,
    tls: Option<ServerTls>,
}

/// Patience for calls in flight and for sessions to end. With the API's requests, the end takes less than 10 seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(7);
/// Patience for periodic tasks at the end. Some wait for name servers.
const TASK_PATIENCE: Duration = Duration::from_secs(1);
/// The interval at which rpcbind is asked for the registrations: a restart loses them.
const REGISTER: Duration = Duration::from_secs(10);
/// The interval of checks of files and descriptors.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// Ticks after which an unused file is closed.
pub(crate) const IDLE_TICKS: u32 = 4;

impl NfsFrontend {
    /// Listens and starts to serve.
    pub(crate) fn start(
        namespace: SharedNamespace,
        signer: HandleSigner,
        pacer: &Arc<Pacer>,
        stable: Stable,
        listen: &Listen,
        part: Part,
    ) -> anyhow::Result<Self> {
        let tls = listen.tls.load()?;
        let names = host_ids::names(listen.id_domain.as_deref()).context("the domain of users and groups")?;
        let listener = bind(listen.listen)?;
        let address = listener.local_addr()?;
        let ports = Ports::open(listen, address)?;
        let mounting =
            Mounting { address, mapper: ports.mapper().clone(), requires_tls: listen.tls.is_required() };
        let settings = Settings {
            client_connections_max: listen.connections_per_client.get(),
            idle_s: listen.idle_timeout.get(),
            deadline: listen.deadline,
            keeps_connections: listen.keeps_connections,
            networks: listen.ipv6_prefix.networks(),
            ..part.settings(listen.threads())
        };
        let deadline = settings.deadline;
        let name = signer.number("NFS server owner").to_be_bytes();
        let served = ports.served(address)?;
        let scope = stable.scope.as_ref().map_or(&name[..], String::as_bytes);
        let service = Arc::new(Service {
            namespace: Arc::clone(&namespace),
            signer,
            v4: nfs::state::nfs4::ServiceState::new(0, &name, listen.lease.lease)
                .in_scope(scope)
                .restarted_with(stable.records, stable.grace)
                .delegating_writes(listen.write_delegations)
                .with_names(names)
                .at_port(address.port()),
            replay: Some(Default::default()),
            mounts: Default::default(),
            refusals: Default::default(),
            rates: CallRates::new(pacer),
            locks: stable.locks.among(listen.ipv6_prefix.networks()).calling_until(deadline),
            networks: listen.ipv6_prefix.networks(),
            registered: ports.mapped(&served)?,
        });
        let (mut listeners, datagrams) = ports.into_sockets();
        listeners.push((listener, NFS_PROGRAMS));
        let policy = tls.as_ref().map(|tls| tls.policy.clone());
        let server = Server::start(Arc::clone(&service), listeners, policy, settings)?;
        let answer = |(socket, programs)| Responder::start(Arc::clone(&service), socket, programs, deadline);
        let datagrams = datagrams.into_iter().map(answer).collect::<Result<_, _>>()?;
        let rpcbind = listen.register_rpcbind.then(|| Arc::new(HostRpcbind::new(Path::new(SOCKET), &served)));
        if let Some(rpcbind) = &rpcbind {
            rpcbind.register().context("--register-rpcbind")?;
        }
        Ok(Self { server, mounting, service, datagrams, namespace, rpcbind, tls })
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = Task> + use<> {
        [self.tend_locks()].into_iter().chain(self.keep_registered()).chain(self.renew_certificate())
    }

    /// Registers again when the host's rpcbind has restarted. None without registrations.
    fn keep_registered(&self) -> Option<Task> {
        let rpcbind = Arc::clone(self.rpcbind.as_ref()?);
        let register = move || {
            if let Err(error) = rpcbind.register() {
                tracing::warn!("clients may not find NFSv3 and its locks: {error}");
            }
        };
        Some(Task::new("rpcbind", REGISTER, register))
    }

    /// Reads the certificate again when its file changes. None without TLS.
    fn renew_certificate(&self) -> Option<Task> {
        self.tls.as_ref().map(ServerTls::renew)
    }

    /// Calls clients that wait for locks, ends leases, and forgets clients without state.
    fn tend_locks(&self) -> Task {
        let (service, view) = (Arc::clone(&self.service), self.view());
        let connected = move || view.clients().into_iter().map(|client| client.address).collect();
        Task::new("locks", TICK, move || service.tick(&connected))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.mounting.address
    }

    /// The current namespace.
    pub(crate) fn namespace(&self) -> Arc<Namespace> {
        self.namespace.load_full()
    }

    /// The namespace, for callers that read it more than once.
    pub(crate) fn shared_namespace(&self) -> SharedNamespace {
        Arc::clone(&self.namespace)
    }

    /// The endpoints at which it is served besides.
    pub(crate) fn endpoints(&self) -> Endpoints {
        self.server.endpoints()
    }

    /// A look at the server.
    pub(crate) fn view(&self) -> View {
        self.server.view()
    }

    pub(crate) fn mounting(&self) -> &Mounting {
        &self.mounting
    }

    /// Ends the service: no new calls, by the deadline answers to those in flight, everything on disk.
    pub(crate) fn stop(self, deadline: Instant) {
        tracing::info!("stopping: finishing the calls in flight");
        if let Some(Err(error)) = self.rpcbind.as_ref().map(|rpcbind| rpcbind.unregister()) {
            tracing::warn!("clients go on to be led here: {error}");
        }
        drop(self.datagrams);
        self.server.stop(deadline.saturating_duration_since(Instant::now()));
        volumes::sync_all(&self.namespace.load());
    }
}

/// Has `announce` tell how to use the service, and does the tasks, until SIGINT or SIGTERM. systemd receives `status`
/// with the message that the service is ready.
pub(crate) fn run_until_told(announce: impl FnOnce(), tasks: impl IntoIterator<Item = Task>, status: &str) {
    let supervisor = Supervisor::from_env();
    let mut running = None;
    until_told(|| {
        announce();
        running = Some(Tasks::start(tasks));
        supervisor.ready(status);
    });
    supervisor.stopping();
    running.into_iter().for_each(|tasks| tasks.stop(TASK_PATIENCE));
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "cannot listen on {address}: the port is in use. If the installed plimsoll service runs there, stop it (systemctl \
             stop plimsoll), or choose another port with --listen, like {} for any free one",
            SocketAddr::new(address.ip(), 0)
        ),
        ErrorKind::AddrNotAvailable => anyhow!(
            "cannot listen on {address}: this machine does not have the address; choose one of its own with --listen"
        ),
        _ => anyhow!("cannot listen on {address}: {error}; choose another address or port with --listen"),
    })
}
