//! Endpoints of volumes at the NFS port: listeners that come and go with the volumes that want them.

use crate::periodic::Task;
use crate::terminal::in_plain_words;
use nfs::server::Endpoints;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use vfs::sync::Mutex;

/// After this it is tried again to listen where it did not work.
const RETRY: Duration = Duration::from_secs(1);

/// The endpoints of all volumes.
#[derive(Default)]
pub(crate) struct EndpointListeners(Mutex<Listening>);

#[derive(Default)]
struct Listening {
    /// The NFS server, once it runs.
    nfs: Option<Nfs>,
    wanted: BTreeSet<IpAddr>,
    /// The addresses with a listener.
    open: BTreeSet<IpAddr>,
    /// The addresses that clients cannot reach, with the reasons.
    failures: BTreeMap<IpAddr, String>,
}

struct Nfs {
    endpoints: Endpoints,
    /// The service's own address.
    own: SocketAddr,
}

impl control::Listeners for EndpointListeners {
    fn listen_at(&self, addresses: BTreeSet<IpAddr>) {
        let mut listening = self.lock();
        if listening.wanted != addresses {
            listening.wanted = addresses;
            listening.update();
        }
    }

    fn failures(&self) -> BTreeMap<IpAddr, String> {
        self.lock().failures.clone()
    }
}

impl EndpointListeners {
    /// Begins to listen, beside the service's own address.
    pub(crate) fn start(&self, endpoints: Endpoints, own: SocketAddr) {
        let mut listening = self.lock();
        listening.nfs = Some(Nfs { endpoints, own });
        listening.update();
    }

    /// Tries again where it did not work: a machine may get an address later, or lose it.
    pub(crate) fn task(self: &Arc<Self>) -> Task {
        let listeners = Arc::clone(self);
        Task::new("endpoints", RETRY, move || listeners.lock().update())
    }

    fn lock(&self) -> MutexGuard<'_, Listening> {
        self.0.lock()
    }
}

impl Listening {
    /// Listens where it is wanted, and nowhere else.
    fn update(&mut self) {
        let Some(nfs) = &self.nfs else { return };
        for left in self.open.difference(&self.wanted) {
            nfs.endpoints.remove(SocketAddr::new(*left, nfs.own.port()));
        }
        self.open.retain(|address| self.wanted.contains(address));
        let mut failures = BTreeMap::new();
        for &address in self.wanted.difference(&self.open.clone()) {
            match nfs.listen(address) {
                Ok(true) => {
                    self.open.insert(address);
                    tracing::info!(%address, "listening at an endpoint");
                }
                Ok(false) => {}
                Err(error) => {
                    let reason = reason(&error, nfs.own.port());
                    if self.failures.get(&address) != Some(&reason) {
                        tracing::warn!(%address, "an endpoint is not served: {reason}");
                    }
                    failures.insert(address, reason);
                }
            }
        }
        self.failures = failures;
    }
}

impl Nfs {
    /// Listens at an address of this machine; `false` if the service's own listener is there already.
    fn listen(&self, address: IpAddr) -> io::Result<bool> {
        match TcpListener::bind((address, self.own.port())) {
            Ok(listener) => self.endpoints.add(listener).map(|()| true),
            // An address that the machine does not have is another error, also where all addresses are listened at.
            Err(error) if error.kind() == ErrorKind::AddrInUse && self.is_own(address) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the service's own listener is also at this address.
    fn is_own(&self, address: IpAddr) -> bool {
        let own = self.own.ip();
        own == address || (own.is_unspecified() && (own.is_ipv6() || address.is_ipv4()))
    }
}

fn reason(error: &io::Error, port: u16) -> String {
    match error.kind() {
        ErrorKind::AddrNotAvailable => "it is no address of this machine".to_owned(),
        ErrorKind::AddrInUse => format!("another program listens there on port {port}"),
        _ => in_plain_words(&error.to_string()),
    }
}
