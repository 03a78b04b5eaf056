//! A managed service: volumes from the store, over NFS, within their limits.

use crate::endpoints::EndpointListeners;
use crate::mounting::Mounting;
use crate::nfs_frontend::{IDLE_TICKS, Listen, NfsFrontend, TICK, share_descriptors};
use crate::periodic::Task;
use crate::state;
use anyhow::Context;
use api::{Connected, MountTarget, Nfs4State, NfsCalls, NfsService, Plane, PlaneStats, Users};
use control::{Dependencies, Mounts, Resolve, Service};
use envelope::Protocol;
use nfs::counts::VersionCounts;
use nfs::rpc::server::{Client, View};
use nfs::v4::state::shown::ShownClient;
use posix::{Options, ResourceBudget, Volumes};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::qos::Pacer;
use vfs::{LentRoom, Namespace, Protection, Provisioner, SharedNamespace, VolumeId};

/// Volumes that are served and managed.
pub(crate) struct Host {
    /// What is served, and how it changes.
    pub(crate) control: Arc<Service>,
    /// NFS.
    pub(crate) frontend: NfsFrontend,
    endpoints: Arc<EndpointListeners>,
    volumes: Arc<Volumes>,
    budget: Arc<ResourceBudget>,
    is_stopping: Arc<AtomicBool>,
}

/// After this the hosts that rules name are looked up again.
const REFRESH: Duration = Duration::from_secs(60);

/// Who uses volumes, once there is a server that can be asked.
#[derive(Default)]
struct MountedVolumes(OnceLock<View>);

impl Mounts for MountedVolumes {
    fn clients_of(&self, volume: VolumeId) -> usize {
        let clients = self.0.get().map(View::clients).unwrap_or_default();
        clients.iter().filter(|client| client.volumes.contains_key(&volume)).count()
    }
}

/// NFS, as the API tells of it.
struct Nfs {
    view: View,
    mounting: Mounting,
    is_stopping: Arc<AtomicBool>,
}

impl Plane for Nfs {
    fn clients(&self) -> Vec<Connected> {
        let mut nfs4: BTreeMap<IpAddr, Vec<Nfs4State>> = BTreeMap::new();
        for client in self.view.nfs4_clients() {
            // Where it was last.
            if let Some(&address) = client.addresses.last() {
                nfs4.entry(address.to_canonical()).or_default().push(nfs4_state(client));
            }
        }
        let connected = |client: Client| Connected {
            nfs4: nfs4.remove(&client.address.to_canonical()).unwrap_or_default(),
            address: client.address,
            connections: client.connections,
            connected: client.connected,
            encrypted: client.encrypted,
            verified: client.verified,
            waiting: client.waiting,
            endpoints: client.endpoints,
            volumes: client.volumes,
        };
        let mut all: Vec<Connected> = self.view.clients().into_iter().map(connected).collect();
        all.extend(nfs4.into_iter().map(|(address, nfs4)| Connected { nfs4, ..Connected::away(address) }));
        all
    }

    fn users(&self, within: Duration) -> Users {
        self.view.users(within)
    }

    fn stats(&self) -> PlaneStats {
        let stats = self.view.stats();
        PlaneStats {
            connections: stats.transport.connections,
            connections_max: stats.transport.connections_max,
            queued_bytes: stats.transport.queued_bytes,
            unread_bytes: stats.transport.unread_bytes,
            spilled_bytes: stats.transport.spilled_bytes,
            handle_hits: stats.handle_hits,
            handle_misses: stats.handle_misses,
            panics: vfs::panics::caught(),
        }
    }

    fn nfs_calls(&self) -> Vec<NfsCalls> {
        let calls = |VersionCounts { minor, calls, operations }| NfsCalls {
            protocol: minor.map_or(Protocol::NfsV3, protocol),
            calls,
            operations,
        };
        self.view.counts().into_iter().map(calls).collect()
    }

    fn nfs(&self) -> NfsService {
        self.mounting.service()
    }

    fn mount_target(
        &self,
        protocol: Protocol,
        endpoint: Option<IpAddr>,
        least: Protection,
    ) -> Option<MountTarget> {
        self.mounting.target(protocol, endpoint, least)
    }

    fn is_ready(&self) -> bool {
        !self.is_stopping.load(Ordering::Relaxed)
    }
}

/// A minor version of 4.
fn protocol(minor: u32) -> Protocol {
    match minor {
        0 => Protocol::NfsV40,
        1 => Protocol::NfsV41,
        _ => Protocol::NfsV42,
    }
}

fn nfs4_state(client: ShownClient) -> Nfs4State {
    Nfs4State {
        owner: String::from_utf8_lossy(&client.owner).into_owned(),
        protocols: client.minors.iter().copied().map(protocol).collect(),
        sessions: client.sessions,
        slots: client.slots,
        opens: client.opens,
        ranges: client.ranges,
        delegations: client.delegations,
        silent: client.silent,
    }
}

/// The system's own look-up of hosts.
struct SystemResolver;

impl Resolve for SystemResolver {
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

impl Host {
    /// Opens the data directory, finishes what an earlier run left unfinished, listens, and starts to serve.
    pub(crate) fn start(data: &Path, listen: &Listen) -> anyhow::Result<Self> {
        state::make_dir(data)?;
        let budget = ResourceBudget::of_process();
        let options = Options { budget: Arc::clone(&budget), ..Options::default() };
        let volumes = Volumes::open(data, options)
            .with_context(|| format!("cannot use the data directory {}", data.display()))?;
        let namespace: SharedNamespace = Arc::new(Arc::new(Namespace::default()).into());
        let mounted = Arc::new(MountedVolumes::default());
        let endpoints = Arc::new(EndpointListeners::default());
        let pacer = Pacer::start().context("cannot start the limiter's timer")?;
        let stable = state::stable(data, pacer.now(), &listen.lease)?;
        let dependencies = Dependencies {
            dir: data.to_owned(),
            provisioner: Arc::clone(&volumes) as _,
            namespace: Arc::clone(&namespace),
            pacer: Arc::clone(&pacer),
            grace: stable.grace.clone(),
            mounts: Arc::clone(&mounted) as _,
            listeners: Arc::clone(&endpoints) as _,
            resolver: Arc::new(SystemResolver),
            clock: Box::new(now_ms),
            entropy: Box::new(state::must_random),
            instance: state::instance()?,
        };
        let _lent = volumes.lend_room();
        // Before anybody may ask: a handle of a volume that is not yet open would be stale for good.
        let control = Arc::new(Service::open(dependencies)?);
        let frontend = NfsFrontend::start(namespace, state::handle_signer(data)?, &pacer, stable, listen)?;
        _ = mounted.0.set(frontend.view());
        endpoints.start(frontend.endpoints(), frontend.address());
        Ok(Self { control, frontend, endpoints, volumes, budget, is_stopping: Arc::default() })
    }

    /// Gives up what is kept aside for a full disk, if it is full, until the answer is dropped.
    pub(crate) fn lend_room(&self) -> LentRoom {
        self.volumes.lend_room()
    }

    /// The same volumes for the API.
    pub(crate) fn api_dependencies(&self) -> api::Dependencies {
        let plane = Arc::new(Nfs {
            view: self.frontend.view(),
            mounting: self.frontend.mounting().clone(),
            is_stopping: Arc::clone(&self.is_stopping),
        });
        let namespace = self.frontend.shared_namespace();
        api::Dependencies { service: Arc::clone(&self.control), plane, namespace }
    }

    /// Tells whoever asks that clients should look elsewhere.
    pub(crate) fn say_goodbye(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// What is to be done again and again. Looking up hosts may wait long for a name server.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = Task> + use<> {
        let (volumes, budget, view) =
            (Arc::clone(&self.volumes), Arc::clone(&self.budget), self.frontend.view());
        let tick = move || {
            volumes.sweep(IDLE_TICKS);
            share_descriptors(&budget, &view);
        };
        let control = Arc::clone(&self.control);
        let look_up = move || {
            if let Err(error) = control.refresh() {
                tracing::warn!(%error, "cannot look up the hosts that export rules name");
            }
        };
        let [tick, look_up] = [Task::new("tick", TICK, tick), Task::new("look-ups", REFRESH, look_up)];
        let frontend = &self.frontend;
        let tasks = [tick, look_up, frontend.expire_claims(), frontend.tend_locks(), self.endpoints.task()];
        tasks.into_iter().chain(frontend.keep_registered()).chain(frontend.renew_certificate())
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
    use clap::Parser;
    use control::{Actor, ExportRule, NewPool, NewVolume, Terms};
    use std::sync::mpsc::{Sender, channel};
    use vfs::claims::{Access, Durable, Effect, Holder, Lost, OpenRequest, Request, Rights, Stream, Verdict};

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
        let data = tempfile::tempdir().unwrap();
        let Arguments { listen } =
            Arguments::parse_from(["serve", "--listen", "127.0.0.1:0", "--no-portmap"]);
        let host = Host::start(data.path(), &listen).unwrap();
        let (terms, size) = (Terms::by(Actor::new("test")), envelope::Bytes::gib(100));
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
            delete_on_close: None,
            reclaims: false,
            waits: false,
        };
        let (Verdict::Granted(granted), _) = claims.apply(now, &root, &Request::Open(request)) else {
            panic!("nobody else has anything open");
        };
        let (open, until) = (granted.open.unwrap(), vfs::qos::Nanos(now.0 + 50_000_000));
        let disconnect = Request::Disconnect { open, durable: Durable { until, is_persistent: true } };
        assert!(matches!(claims.apply(now, &root, &disconnect), (Verdict::Granted(_), _)));
        host.tasks().for_each(Task::start);
        let effect = effects.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(
            matches!(effect, Effect::Revoked { what: Lost::Open(gone), .. } if gone == open),
            "{effect:?}"
        );
        assert!(claims.is_empty());
        host.frontend.stop();
    }
}
