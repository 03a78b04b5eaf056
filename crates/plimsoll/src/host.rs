//! A managed service: volumes from the store, over NFS, within their limits.

use crate::front::{Front, IDLE_TICKS, Listen, share_descriptors};
use crate::state;
use anyhow::Context;
use control::{Mounts, Parts, Resolve, Service};
use nfs::rpc::server::View;
use posix::{Options, Share, Volumes};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::qos::Pacer;
use vfs::{Namespace, SharedNamespace, VolumeId};

/// Volumes that are served and managed.
pub(crate) struct Host {
    /// What is served, and how it changes.
    pub(crate) control: Arc<Service>,
    /// NFS.
    pub(crate) front: Front,
    volumes: Arc<Volumes>,
    share: Arc<Share>,
}

/// Seconds after which the hosts that rules name are looked up again.
const REFRESH_S: u64 = 60;

/// Who uses volumes, once there is a server that can be asked.
#[derive(Default)]
struct Users(OnceLock<View>);

impl Mounts for Users {
    fn clients_of(&self, volume: VolumeId) -> usize {
        let clients = self.0.get().map(View::clients).unwrap_or_default();
        clients.iter().filter(|client| client.volumes.contains_key(&volume)).count()
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
        let share = Share::of_process();
        let options = Options { share: Arc::clone(&share), ..Options::default() };
        let volumes = Volumes::open(data, options)
            .with_context(|| format!("cannot use the data directory {}", data.display()))?;
        let namespace: SharedNamespace = Arc::new(Arc::new(Namespace::default()).into());
        let users = Arc::new(Users::default());
        let parts = Parts {
            dir: data.to_owned(),
            provisioner: Arc::clone(&volumes) as _,
            namespace: Arc::clone(&namespace),
            pacer: Pacer::start().context("cannot start the limiter's timer")?,
            mounts: Arc::clone(&users) as _,
            resolver: Arc::new(SystemResolver),
            clock: Box::new(now_ms),
            entropy: Box::new(state::must_random),
            instance: state::instance()?,
        };
        // Before anybody may ask: a handle of a volume that is not yet open would be stale for good.
        let control = Arc::new(Service::open(parts)?);
        let front = Front::start(namespace, state::seal(data)?, listen)?;
        _ = users.0.set(front.view());
        Ok(Self { control, front, volumes, share })
    }

    /// What is to be done every second.
    pub(crate) fn ticker(&self) -> impl FnMut() + Send + 'static {
        let (control, volumes, share, view) = (
            Arc::clone(&self.control),
            Arc::clone(&self.volumes),
            Arc::clone(&self.share),
            self.front.view(),
        );
        let mut ticks = 0;
        move || {
            ticks += 1;
            volumes.sweep(IDLE_TICKS);
            share_descriptors(&share, &view);
            if ticks % REFRESH_S == 0
                && let Err(error) = control.refresh()
            {
                tracing::warn!(%error, "cannot look up the hosts that export rules name");
            }
        }
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
