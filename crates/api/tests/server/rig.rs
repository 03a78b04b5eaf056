//! A server over volumes in memory, with everything around it in the test's hands.

use api::{
    ConnectedClient, DataPlane, DataPlaneStats, Dependencies, MountTarget, NfsCalls, NfsService, Server,
    Settings, SmbService, VolumeConnections,
};
use api_client::model::Operation;
use api_client::{Client, Error, Target};
use control::{Listeners, Resolver, Service, VolumeClients};
use envelope::Protocol;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::qos::Pacer;
use vfs::sync::Mutex;
use vfs::{Capacity, SharedNamespace, Time, VolumeId};
use vfs_testing::MemProvisioner;

/// A server and what it serves.
pub struct Rig {
    pub server: Server,
    pub service: Arc<Service>,
    pub namespace: SharedNamespace,
    pub plane: Arc<FakePlane>,
    pub token: String,
    pub dir: tempfile::TempDir,
}

/// A data plane that shows what a test sets.
#[derive(Default)]
pub struct FakePlane {
    pub clients: Mutex<Vec<ConnectedClient>>,
    pub active: Mutex<VolumeConnections>,
    pub failures: Mutex<BTreeMap<IpAddr, String>>,
    pub users: AtomicUsize,
    pub is_stopping: AtomicBool,
}

impl DataPlane for FakePlane {
    fn clients(&self) -> Vec<ConnectedClient> {
        self.clients.lock().clone()
    }

    fn volume_connections(&self, within: Duration) -> VolumeConnections {
        assert_eq!(within, Duration::from_secs(10));
        self.active.lock().clone()
    }

    fn stats(&self) -> DataPlaneStats {
        DataPlaneStats {
            connections: 3,
            connections_max: 16_384,
            handle_hits: 5,
            ..DataPlaneStats::default()
        }
    }

    fn nfs_calls(&self) -> Vec<NfsCalls> {
        let operations = vec![("read".to_owned(), 5), ("write".to_owned(), 2)];
        let nothing = |protocol| NfsCalls { protocol, calls: 0, operations: vec![] };
        vec![
            NfsCalls { protocol: Protocol::NfsV3, calls: 7, operations },
            nothing(Protocol::NfsV40),
            NfsCalls { protocol: Protocol::NfsV41, calls: 3, operations: vec![("sequence".to_owned(), 3)] },
            nothing(Protocol::NfsV42),
        ]
    }

    fn nfs(&self) -> NfsService {
        let why = "the service runs with --no-portmap".to_owned();
        NfsService { address: "127.0.0.1:2049".parse().unwrap(), v3_locks: Err(why) }
    }

    fn smb(&self) -> Option<SmbService> {
        let address = "127.0.0.1:445".parse().unwrap();
        Some(SmbService { address, connections: 4, sessions: 3, opens: 2, refused_logins: 1 })
    }

    fn mount_target(
        &self,
        protocol: Protocol,
        endpoint: Option<IpAddr>,
        _: vfs::Protection,
    ) -> Option<MountTarget> {
        let address = endpoint.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let (options, has_locks) = (format!("{protocol:?}"), protocol != Protocol::NfsV3);
        Some(MountTarget { protocol, address, options, has_locks })
    }

    fn is_ready(&self) -> bool {
        !self.is_stopping.load(Ordering::SeqCst)
    }
}

struct Clients(Arc<FakePlane>);

impl VolumeClients for Clients {
    fn clients_of(&self, _: VolumeId) -> usize {
        self.0.users.load(Ordering::SeqCst)
    }
}

impl Listeners for FakePlane {
    fn listen_at(&self, _: BTreeSet<IpAddr>) {}

    fn failures(&self) -> BTreeMap<IpAddr, String> {
        self.failures.lock().clone()
    }
}

struct EmptyResolver;

impl Resolver for EmptyResolver {
    fn addresses(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

pub fn service(dir: &Path, namespace: &SharedNamespace, plane: &Arc<FakePlane>) -> Arc<Service> {
    let time = Arc::new(|| Time { seconds: 1, nanos: 0 });
    let random = vfs::sync::Mutex::new(std::fs::File::open("/dev/urandom").unwrap());
    let dependencies = control::Dependencies {
        dir: dir.to_owned(),
        provisioner: Arc::new(MemProvisioner::new(time, Capacity { bytes: 1 << 50, files: 1 << 30 })),
        namespace: Arc::clone(namespace),
        pacer: Pacer::still(),
        grace: Default::default(),
        mounts: Arc::new(Clients(Arc::clone(plane))),
        listeners: Arc::clone(plane) as _,
        resolver: Arc::new(EmptyResolver),
        dialer: Arc::new(control::TlsDialer),
        host: "files".to_owned(),
        clock: Box::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            u64::try_from(since.as_millis()).unwrap()
        }),
        entropy: Box::new(move |bytes| {
            std::io::Read::read_exact(&mut *random.lock(), bytes).unwrap();
        }),
        served: control::Protocols::NFS,
        protection: vfs::Protection::Verified,
        instance: 1,
        store_log: None,
    };
    let service = Arc::new(Service::open(dependencies).unwrap());
    service.start_jobs().unwrap();
    service
}

impl Rig {
    /// On loopback, in plain text.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    /// With other settings.
    pub fn with(set: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (namespace, plane) = (SharedNamespace::default(), Arc::new(FakePlane::default()));
        let service = service(dir.path(), &namespace, &plane);
        let file = api::bootstrap(&service, dir.path()).unwrap().unwrap();
        let token = std::fs::read_to_string(file).unwrap().trim().to_owned();
        let mut settings = Settings::new("127.0.0.1:0".parse().unwrap());
        set(&mut settings);
        let dependencies = Dependencies {
            service: Arc::clone(&service),
            plane: Arc::clone(&plane) as Arc<dyn DataPlane>,
            namespace: Arc::clone(&namespace),
        };
        let server = api::start(dependencies, &settings, None).unwrap();
        Self { server, service, namespace, plane, token, dir }
    }

    pub fn client(&self) -> Client {
        self.client_with(&self.token)
    }

    pub fn client_with(&self, token: &str) -> Client {
        Client::new(&Target { url: self.server.url(), token: token.to_owned(), issuers: None, socket: None })
            .unwrap()
    }
}

/// The status and the kind of the problem.
pub fn refused<T>(result: Result<T, Error>) -> (u16, String) {
    match result {
        Err(Error::Refused(problem)) => {
            (problem.status, problem.kind.trim_start_matches("urn:plimsoll:problem:").to_owned())
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    }
}

/// The operation at its end.
pub fn ended(client: &Client, begun: &Operation) -> Operation {
    loop {
        let now = client.operation(begun.id).unwrap();
        if now.outcome != "running" {
            return now;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
