//! A server over volumes in memory, and its clients.

mod caching;
mod client;
mod files;

pub(crate) use caching::{granted, key, lease, lease_v2, state, unsolicited};
pub(crate) use client::{Client, INVALID_SIGNATURE, Offer, Reply, chained, message};
pub(crate) use files::{Opening, ioctl, name, output, query, read, write};

use identity::{Accounts, Group, NtHash, ServerNames, SharedAccounts, Sid, User};
use smb::persistent::PersistentOpens;
use smb::server::{Server, Settings};
use smb::service::Service;
use stable::StableDir;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfs::{
    Caller, Durability, Export, ExportRule, Namespace, PendingSync, SetAttrs, ShareSettings, SharedNamespace,
    Time, Volume, VolumeId,
};
use vfs_testing::MemFs;

/// User and password.
pub(crate) const ALICE: (&str, &str) = ("alice", "secret");
pub(crate) const BOB: (&str, &str) = ("bob", "other");
/// The share of most tests.
pub(crate) const SHARE: &str = "docs";
/// A second share.
pub(crate) const OTHER: &str = "spare";
/// The time of the volumes' clock: 2001-09-09 01:46:40.
pub(crate) const NOW: Time = Time { seconds: 1_000_000_000, nanos: 0 };

/// The storage of the volumes, which survives a server.
pub(crate) struct Disks([Arc<MemFs>; 2]);

impl Default for Disks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::new(MemFs::new(Arc::new(|| NOW)))))
    }
}

impl Disks {
    /// The storage of [`SHARE`].
    pub(crate) fn docs(&self) -> &MemFs {
        &self.0[0]
    }

    pub(crate) fn volumes(&self) -> (Volume, Volume) {
        let volume = |id, name, fs: &Arc<MemFs>| {
            Volume::new(VolumeId(id), name, Arc::clone(fs) as _, Durability::Sync, 7)
        };
        (volume(0x0101, SHARE, &self.0[0]), volume(0x0202, OTHER, &self.0[1]))
    }
}

/// A running server with two shares.
pub(crate) struct Rig {
    pub(crate) volume: Arc<Volume>,
    pub(crate) namespace: SharedNamespace,
    service: Arc<Service>,
    address: SocketAddr,
    server: Option<Server>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(ExportRule::everybody(), |volume| volume)
    }

    pub(crate) fn with_rule(rule: ExportRule) -> Self {
        Self::with(rule, |volume| volume)
    }

    /// A server with these target names.
    pub(crate) fn called(names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Self::serving(ExportRule::everybody(), |volume| volume, |service| service.with_target_names(names))
    }

    /// A server that accepts anonymous logins.
    pub(crate) fn anonymous() -> Self {
        Self::serving(ExportRule::everybody(), |volume| volume, |service| service.with_anonymous_logins(true))
    }

    /// A server without multichannel.
    pub(crate) fn single() -> Self {
        Self::serving(ExportRule::everybody(), |volume| volume, |service| service.with_multichannel(false))
    }

    /// A server with these groups, and `others` users besides alice and bob.
    pub(crate) fn with_accounts(groups: Vec<Group>, others: u32) -> Self {
        let (docs, spare) = Disks::default().volumes();
        let exports = [("/docs", docs), ("/spare", spare)]
            .map(|(path, volume)| Export::new(path, Arc::new(volume), vec![ExportRule::everybody()]));
        Self::for_users(exports, accounts(groups, others), |service| service)
    }

    /// A server with this rule for [`SHARE`], on a volume built by `make`.
    pub(crate) fn with(rule: ExportRule, make: impl FnOnce(Volume) -> Volume) -> Self {
        Self::serving(rule, make, |service| service)
    }

    /// A server over existing storage.
    pub(crate) fn over(disks: &Disks) -> Self {
        let (docs, spare) = disks.volumes();
        let exports = [("/docs", docs), ("/spare", spare)]
            .map(|(path, volume)| Export::new(path, Arc::new(volume), vec![ExportRule::everybody()]));
        Self::of(exports, |service| service)
    }

    fn serving(
        rule: ExportRule,
        make: impl FnOnce(Volume) -> Volume,
        set: impl FnOnce(Service) -> Service,
    ) -> Self {
        let disks = Disks::default();
        let (docs, spare) = disks.volumes();
        Self::of(
            [
                Export::new("/docs", Arc::new(make(docs)), vec![rule]),
                Export::new("/spare", Arc::new(spare), vec![ExportRule::everybody()]),
            ],
            set,
        )
    }

    /// A server over existing storage and state, with an optionally continuously available [`SHARE`].
    pub(crate) fn restarted(disks: &Disks, dir: &Arc<StableDir>, continuously_available: bool) -> Self {
        let (docs, spare) = disks.volumes();
        let settings = ShareSettings { continuously_available, ..ShareSettings::default() };
        let everybody = || vec![ExportRule::everybody()];
        let exports = [
            Export::new("/docs", Arc::new(docs), everybody()).shared(settings),
            Export::new("/spare", Arc::new(spare), everybody()),
        ];
        Self::of(exports, |service| {
            let service = service.with_persistent_opens(PersistentOpens::open(dir).unwrap());
            service.restore().unwrap();
            service
        })
    }

    fn of(exports: [Export; 2], set: impl FnOnce(Service) -> Service) -> Self {
        Self::for_users(exports, accounts(vec![], 0), set)
    }

    /// A server with these settings, with or without anonymous logins.
    pub(crate) fn bounded(settings: Settings, null_sessions: bool) -> Self {
        let (docs, spare) = Disks::default().volumes();
        let exports = [("/docs", docs), ("/spare", spare)]
            .map(|(path, volume)| Export::new(path, Arc::new(volume), vec![ExportRule::everybody()]));
        Self::run(
            exports,
            accounts(vec![], 0),
            |service| service.with_anonymous_logins(null_sessions),
            settings,
        )
    }

    /// The settings of most tests.
    pub(crate) fn settings() -> Settings {
        Settings { connections_max: 128, ..Settings::for_descriptors(1, 1000) }
    }

    fn for_users(exports: [Export; 2], accounts: Accounts, set: impl FnOnce(Service) -> Service) -> Self {
        Self::run(exports, accounts, set, Self::settings())
    }

    fn run(
        exports: [Export; 2],
        accounts: Accounts,
        set: impl FnOnce(Service) -> Service,
        settings: Settings,
    ) -> Self {
        let docs = Arc::clone(&exports[0].volume);
        let namespace = Arc::new(Namespace::new(exports));
        open_to_all(&namespace);
        let namespace: SharedNamespace = Arc::new(namespace.into());
        let service = Service::new(
            Arc::clone(&namespace),
            ServerNames::for_host("files.example.org"),
            SharedAccounts::new(accounts),
            Box::new(random),
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let service = Arc::new(set(service));
        let server = Server::start(Arc::clone(&service), vec![listener], settings).unwrap();
        Self { volume: docs, namespace, service, address, server: Some(server) }
    }

    /// A connection before NEGOTIATE.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// A connection from another client address, before NEGOTIATE.
    pub(crate) fn connect_as(&self, source: [u8; 4]) -> Client {
        Client::connect_as(source, self.address)
    }

    /// Alice with 3.1.1, at [`SHARE`].
    pub(crate) fn alice(&self) -> Client {
        self.alice_with(&Offer::default())
    }

    /// Alice with another offer, at [`SHARE`].
    pub(crate) fn alice_with(&self, offer: &Offer) -> Client {
        let mut client = self.connect();
        client.negotiate(offer);
        client.log_on(ALICE);
        client.mount(SHARE);
        client
    }

    /// Runs the service's once-a-second work.
    pub(crate) fn tick(&self) {
        self.service.expire();
    }

    /// The number of the server's connections.
    pub(crate) fn connections(&self) -> usize {
        self.server.as_ref().unwrap().view().connections()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_millis(200));
        }
    }
}

/// Makes the root directories writable by all.
fn open_to_all(namespace: &Namespace) {
    let set = SetAttrs { mode: Some(0o777), ..SetAttrs::default() };
    for export in namespace.exports() {
        let mut pending = PendingSync::default();
        export.root().set_attrs(&Caller::new(0, 0, []), &set, None, &mut pending).unwrap();
    }
}

fn accounts(groups: Vec<Group>, others: u32) -> Accounts {
    let user = |(name, password): (&str, &str), uid| User {
        name: name.parse().unwrap(),
        uid,
        gid: 100,
        nt_hash: Some(NtHash::from_password(password)),
    };
    let other = |number: u32| User {
        name: format!("user{number:05}").parse().unwrap(),
        uid: 2000 + number,
        gid: 200,
        nt_hash: None,
    };
    let users = [user(ALICE, 1000), user(BOB, 1001)].into_iter().chain((0..others).map(other)).collect();
    Accounts::empty(Sid::machine([1, 2, 3]), "FILES").with_entries(users, groups, vec![], None).unwrap()
}

/// Bytes that differ at each call, which suffices for tests.
fn random(bytes: &mut [u8]) {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    for chunk in bytes.chunks_mut(8) {
        let drawn = DRAWN.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chunk.copy_from_slice(&drawn.to_be_bytes()[..chunk.len()]);
    }
}

/// Waits until a condition holds, with a timeout.
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < client::PATIENCE, "it does not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}
