//! A managed service: volumes from the store, over NFS and SMB, within their limits.

use crate::config::SmbConfig;
use crate::descriptors::Part;
use crate::endpoints::EndpointListeners;
use crate::nfs_frontend::{Listen, NfsFrontend, PATIENCE, TICK};
use crate::nodename::nodename;
use crate::periodic::Task;
use crate::plane::{Connections, MountedVolumes, Served};
use crate::smb_frontend::{Serving, SmbFrontend};
use crate::volume_storage::{StorageSettings, VolumeStorage};
use crate::{background_tasks, state};
use anyhow::Context;
use api::EndpointPlacement;
use control::{Dependencies, Protocols, Resolver, Service, StoreLog, TlsDialer};
use stable::{Replica, ReplicaPairs};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use transport::ReplyDeadline;
use vfs::qos::Pacer;
use vfs::{Namespace, ReserveGuard, SharedNamespace};

/// Volumes that are served and managed.
pub(crate) struct Host {
    /// The served volumes, and changes of them.
    pub(crate) control: Arc<Service>,
    /// NFS.
    pub(crate) frontend: NfsFrontend,
    /// SMB, if it is served.
    smb: Option<SmbFrontend>,
    endpoints: Arc<EndpointListeners>,
    storage: VolumeStorage,
    arrival: Option<Arc<dyn Arrival>>,
    placement: Option<EndpointPlacement>,
    is_stopping: Arc<AtomicBool>,
}

/// The parts of a service that moves between machines.
pub(crate) struct Moving {
    /// The endpoint, whose name is that of the server for clients, and its gateway.
    pub(crate) placement: EndpointPlacement,
    /// The name that all endpoints of a cluster share (RFC 8881 §2.10.4).
    pub(crate) scope: String,
    /// The durable state, which the data directory is a copy of.
    pub(crate) state: Arc<dyn Replica>,
    /// The state at the start.
    pub(crate) stored: ReplicaPairs,
    /// The time until which it may answer.
    pub(crate) deadline: ReplyDeadline,
    pub(crate) arrival: Arc<dyn Arrival>,
}

/// The way of clients to a service that moves.
pub(crate) trait Arrival: Send + Sync {
    /// Brings clients here. Everything but the listeners is ready for them.
    fn open(&self) -> anyhow::Result<()>;

    /// Has earlier clients connect again. The service listens.
    fn wake(&self, connections: Connections);

    /// Stores for the next gateway which connections there are. The service is about to end them one by one.
    fn begin_close(&self);

    /// Ends the way. Calls in flight are answered; connections are open.
    fn close(&self);
}

impl Moving {
    fn store_log(&self, data: &Path) -> anyhow::Result<StoreLog> {
        Ok(StoreLog::restore(data, &self.stored, Arc::clone(&self.state))?)
    }
}

/// After this the hosts that rules name are looked up again.
const REFRESH: Duration = Duration::from_secs(60);

/// After this, policies and replications look again for what is due.
const POLICIES: Duration = Duration::from_secs(5);

/// The system's own look-up of hosts.
struct SystemResolver;

impl Resolver for SystemResolver {
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

impl Host {
    /// Opens the data directory, finishes what an earlier run left unfinished, listens, and starts to serve.
    pub(crate) fn start(
        data: &Path,
        listen: &Listen,
        smb: &SmbConfig,
        storage: &StorageSettings<'_>,
        moving: Option<Moving>,
    ) -> anyhow::Result<Self> {
        state::make_dir(data)?;
        let deadline = moving.as_ref().map_or(listen.deadline, |moving| moving.deadline);
        let listen = &Listen { deadline, keeps_connections: moving.is_some(), ..listen.clone() };
        let storage = VolumeStorage::open(data, storage)?;
        let namespace: SharedNamespace = Arc::new(Arc::new(Namespace::default()).into());
        let mounted = Arc::new(MountedVolumes::default());
        let endpoints = Arc::new(EndpointListeners::default());
        let pacer = Pacer::start().context("cannot start the limiter's timer")?;
        let replica = moving.as_ref().map(|moving| Arc::clone(&moving.state));
        let mut stable = state::stable(data, pacer.now(), &listen.lease, replica.clone())?;
        let arrival = moving.as_ref().map(|moving| Arc::clone(&moving.arrival));
        let placement = moving.as_ref().map(|moving| moving.placement.clone());
        let host = moving.as_ref().map_or_else(nodename, |moving| moving.placement.endpoint.clone());
        let store_log = moving.as_ref().map(|moving| moving.store_log(data)).transpose()?;
        let dependencies = Dependencies {
            dir: data.to_owned(),
            provisioner: storage.provisioner(),
            namespace: Arc::clone(&namespace),
            pacer: Arc::clone(&pacer),
            grace: stable.grace.clone(),
            mounts: Arc::clone(&mounted) as _,
            listeners: Arc::clone(&endpoints) as _,
            resolver: Arc::new(SystemResolver),
            dialer: Arc::new(TlsDialer),
            host: host.clone(),
            clock: Box::new(now_ms),
            entropy: Box::new(state::must_random),
            served: if smb.listen.is_some() { Protocols::ALL } else { Protocols::NFS },
            protection: listen.tls.protection(),
            instance: state::instance()?,
            store_log,
        };
        let _lent = storage.provisioner().lend_room();
        // Before anybody may ask: a handle of a volume that is not yet open would be stale for good.
        let control = Arc::new(Service::open(dependencies)?);
        control.start_jobs().context("cannot start the threads of long operations")?;
        let signer = state::handle_signer(data, replica.as_ref())?;
        let opens = stable.opens.take();
        if let Some(moving) = moving {
            stable.scope = Some(moving.scope);
            moving.arrival.open()?;
        }
        let start_smb = |address| {
            let serving =
                Serving { address, host, logins: smb.logins(), opens, multichannel: smb.multichannel };
            let part = Part::of_smb(true);
            SmbFrontend::start(Arc::clone(&namespace), control.accounts(), serving, listen, part)
        };
        let smb = smb.listen.map(start_smb).transpose()?;
        let part = Part::of_nfs(smb.is_some());
        let frontend = NfsFrontend::start(namespace, signer, &pacer, stable, listen, part)?;
        mounted.set(Connections { nfs: frontend.view(), smb: smb.as_ref().map(SmbFrontend::view) });
        endpoints.start(frontend.endpoints(), frontend.address());
        let host = Self {
            control,
            frontend,
            smb,
            endpoints,
            storage,
            arrival,
            placement,
            is_stopping: Arc::default(),
        };
        if let Some(arrival) = &host.arrival {
            arrival.wake(host.connections());
        }
        Ok(host)
    }

    /// Gives up what is kept aside for a full disk, if it is full, until the answer is dropped.
    pub(crate) fn lend_room(&self) -> ReserveGuard {
        self.storage.provisioner().lend_room()
    }

    /// The dependencies of the API, with the same volumes.
    pub(crate) fn api_dependencies(&self) -> api::Dependencies {
        let plane = Arc::new(Served {
            connections: self.connections(),
            mounting: self.frontend.mounting().clone(),
            smb: self.smb_address(),
            is_stopping: Arc::clone(&self.is_stopping),
            placement: self.placement.clone(),
        });
        let namespace = self.frontend.shared_namespace();
        api::Dependencies { service: Arc::clone(&self.control), plane, namespace }
    }

    fn connections(&self) -> Connections {
        Connections { nfs: self.frontend.view(), smb: self.smb.as_ref().map(SmbFrontend::view) }
    }

    /// The address of SMB, if it is served.
    pub(crate) fn smb_address(&self) -> Option<SocketAddr> {
        self.smb.as_ref().map(SmbFrontend::address)
    }

    /// Ends the service: no new calls, answers to those in flight, everything on disk.
    pub(crate) fn stop(self) {
        self.control.stop_jobs();
        self.arrival.iter().for_each(|arrival| arrival.begin_close());
        let now = Instant::now();
        self.smb.into_iter().for_each(|smb| smb.stop(now + PATIENCE / 2));
        self.frontend.stop(now + PATIENCE);
        self.arrival.iter().for_each(|arrival| arrival.close());
        // Last: no call changes a volume any more.
        self.storage.close();
    }

    /// Reports the service as not ready, so that load balancers send clients elsewhere.
    pub(crate) fn begin_drain(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// The periodic tasks. The lookup of hosts may block on a name server.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = Task> + use<> {
        let (storage, connections) = (self.storage.clone(), self.connections());
        let tick = move || storage.sweep(connections.count());
        let control = Arc::clone(&self.control);
        let look_up = move || {
            if let Err(error) = control.refresh() {
                tracing::warn!(%error, "cannot look up the hosts that export rules name");
            }
        };
        let control = Arc::clone(&self.control);
        let run_policies = move || {
            if let Err(error) = control.run_policies() {
                tracing::warn!(%error, "cannot make the snapshots of policies");
            }
        };
        let policies = Task::new("policies", POLICIES, run_policies);
        let control = Arc::clone(&self.control);
        let run_replications = move || {
            if let Err(error) = control.run_replications() {
                tracing::warn!(%error, "cannot start the transfers of replications");
            }
        };
        let replications = Task::new("replications", POLICIES, run_replications);
        let [tick, look_up] = [Task::new("tick", TICK, tick), Task::new("look-ups", REFRESH, look_up)];
        let volume_tasks = background_tasks::tasks(
            &self.frontend.shared_namespace(),
            Some(&self.frontend),
            self.smb.as_ref(),
        );
        [tick, look_up, policies, replications, self.endpoints.task()].into_iter().chain(volume_tasks)
    }

    /// Says what an operator should know.
    pub(crate) fn log_warnings(&self) {
        match self.control.warnings() {
            Ok(warnings) => warnings.iter().for_each(|warning| tracing::warn!("{warning}")),
            Err(error) => tracing::warn!(%error, "cannot look for what an operator should know"),
        }
    }
}

/// The time of day in milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::periodic::Tasks;
    use clap::Parser;
    use control::{Actor, ChangeContext, ExportRule, NewPool, NewVolume};
    use std::sync::mpsc::{Sender, channel};
    use vfs::claims::{
        Access, Durable, Effect, Holder, OpenRequest, Request, RevokedClaim, Rights, Stream, Verdict,
    };

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        listen: Listen,
    }

    struct Told(Sender<Effect>);

    impl Holder for Told {
        fn deliver(&self, effect: Effect) {
            _ = self.0.send(effect);
        }
    }

    #[test]
    fn claims_end_when_their_time_is_over_though_nobody_calls() {
        let data = crate::testing::private_dir();
        let Arguments { listen } =
            Arguments::parse_from(["serve", "--listen", "127.0.0.1:0", "--no-portmap"]);
        let host =
            Host::start(data.path(), &listen, &SmbConfig::default(), &Config::default().storage(), None)
                .unwrap();
        let (terms, size) = (ChangeContext::by(Actor::new("test")), envelope::Bytes::gib(100));
        let pool = NewPool::new("p".parse().unwrap(), "plimsoll/unlimited".parse().unwrap(), size);
        host.control.create_pool(&terms, &pool).unwrap();
        let rules = Some(vec![ExportRule::for_clients("127.0.0.1".parse().unwrap())]);
        let volume = NewVolume { rules, ..NewVolume::new("v".parse().unwrap(), pool.name, size) };
        host.control.create_volume(&terms, &volume).unwrap();
        let namespace = host.frontend.namespace();
        let [export] = namespace.exports() else { panic!("one export") };
        let (root, claims, now) = (export.root().key(), export.volume.claims(), export.volume.now());
        let (told, effects) = channel();
        let request = OpenRequest {
            holder: claims.attach(Arc::new(Told(told))),
            stream: Stream::default(),
            access: Access { rights: Rights::READ, deny: Rights::NONE },
            truncates: false,
            is_mandatory: false,
            is_advisory: false,
            lease: None,
            reclaims: false,
            waits: false,
        };
        let (Verdict::Granted(granted), _) = claims.apply(now, &root, &Request::Open(request)) else {
            panic!("nobody else has anything open");
        };
        let (open, until) = (granted.open.unwrap(), vfs::qos::Nanos(now.0 + 50_000_000));
        let disconnect = Request::Disconnect { open, durable: Durable { until, is_persistent: true } };
        assert!(matches!(claims.apply(now, &root, &disconnect), (Verdict::Granted(_), _)));
        let tasks = Tasks::start(host.tasks());
        let effect = effects.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(
            matches!(effect, Effect::Revoked { what: RevokedClaim::Open(gone), .. } if gone == open),
            "{effect:?}"
        );
        assert!(claims.is_empty());
        tasks.stop(Duration::from_secs(20));
        host.stop();
    }
}
