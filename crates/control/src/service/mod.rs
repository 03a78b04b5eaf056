//! The one door to what is served. Sibling files are its families: [`pool`], [`volume`] and its [`change`],
//! [`snapshot`] with [`revert`], [`clone`](self::clone) and [`restore`], [`policy`], [`quota`], [`replication`], [`vault`], [`backup`] and [`backup_restore`], [`user`] and [`group`] with what they share ([`account`]), [`token`], [`job`].
//!
//! Locks, in the order of their acquisition:
//!
//! 1. `objects`: a change locks the objects that it is about, volumes before pools and each by name ([`crate::object_locks`]),
//!    in one call and for its whole length. Changes of one object come one after the other, others side by side. A change of a
//!    volume shares the volume's pool, so that the pool stays as it is; a change of a pool has the pool alone. A change of
//!    snapshots locks their volume alone.
//! 2. `accounts_state`: one change of users and groups at a time.
//! 3. `state`: for a check together with the transaction that relies on it (totals of pools, names of shares,
//!    snapshots that policies keep), and for what
//!    the data plane sees. It is never held while storage works, which can take long.
//! 4. `store`: for a transaction or a look.
//! 5. `jobs`: for a look at the queue. A removal of a volume waits for its jobs without any other lock.
//!
//! The removal of a volume's storage and jobs run without any lock: the state of the volume or snapshot keeps other changes
//! away, which fail at once. No request of a client waits for these locks, so the storage may take its time for a snapshot.

mod account;
mod backup;
mod backup_job;
mod backup_policy;
mod backup_restore;
mod change;
mod clone;
mod group;
mod job;
mod policy;
mod pool;
mod quota;
mod replication;
mod restore;
mod revert;
mod snapshot;
mod snapshot_figures;
mod snapshot_rules;
mod space;
mod token;
mod user;
mod vault;
mod volume;

pub(crate) use change::PoolAndVolume;
pub use replication::ReplicationStatus;
pub use snapshot_figures::SnapshotFigures;
pub use space::VolumeSpace;

use crate::endpoint::Listeners;
use crate::error::{Error, Result};
use crate::hosts::{Hosts, LookupResults, Resolver, look_up};
use crate::job::Jobs;
use crate::kind::Kind;
use crate::lock_clock::LockClock;
use crate::meters::Meters;
use crate::name::{PoolName, VolumeName};
use crate::object_locks::{Locked, Mode, Object, ObjectLocks, Objects};
use crate::operation::{ChangeContext, Operation, OperationId, UNCHANGED, Verb};
use crate::peer::{Dialer, PublicKey, Serving};
use crate::pool::Pool;
use crate::pool_totals::PoolTotals;
use crate::protocol::Protocols;
use crate::rule::ExportRule;
use crate::seal::{Seal, key_file};
use crate::store::{self, Store, StoreLog, operation::NewOperation};
use crate::volume::Volume;
use crate::warning::{VOLUME_FULL_PERCENT, Warning};
use crate::{levels, namespace};
use envelope::Bytes;
use identity::{Accounts, SharedAccounts, Sid};
use rusqlite::Connection;
use stable::Replica;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use vfs::claims::Grace;
use vfs::qos::Pacer;
use vfs::sync::{Mutex, RwLock};
use vfs::{
    Counting, Export, Namespace, PointBackend, Protection, Provisioner, SharedNamespace, SnapshotDirectory,
    VolumeId,
};

/// Milliseconds since 1970.
pub type Clock = Box<dyn Fn() -> u64 + Send + Sync>;
/// Fills a buffer with unpredictable random bytes.
pub type Entropy = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// Entries of a page, at most.
pub const PAGE_MAX: usize = 1000;

pub trait VolumeClients: Send + Sync {
    fn clients_of(&self, volume: VolumeId) -> usize;
}

pub struct Dependencies {
    /// The data directory, for the store and the key of passwords.
    pub dir: PathBuf,
    pub provisioner: Arc<dyn Provisioner>,
    /// The exports that the data plane reads; only the service replaces them.
    pub namespace: SharedNamespace,
    /// The clock and timer of all meters, and the clock of claims.
    pub pacer: Arc<Pacer>,
    /// The grace period of existing volumes.
    pub grace: Grace,
    pub mounts: Arc<dyn VolumeClients>,
    pub listeners: Arc<dyn Listeners>,
    pub resolver: Arc<dyn Resolver>,
    /// Connects to other services, for replications.
    pub dialer: Arc<dyn Dialer>,
    pub host: String,
    /// The time of records.
    pub clock: Clock,
    /// Random bytes for volume ids, tokens and the sealing of passwords.
    pub entropy: Entropy,
    pub served: Protocols,
    /// The maximum protection of NFS connections.
    pub protection: Protection,
    /// Differs at every start of the process.
    pub instance: u64,
    /// The log of the store, if the data directory is a copy of a replica.
    pub store_log: Option<StoreLog>,
}

pub struct Service {
    pub(crate) dependencies: Dependencies,
    objects: ObjectLocks,
    accounts_state: Mutex<AccountsState>,
    pub(crate) jobs: Arc<Jobs>,
    job_threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) lock_clock: LockClock,
    vaults: vault::VaultStores,
    state: Mutex<ServiceState>,
    store: Mutex<Store>,
    replica: Option<Arc<dyn Replica>>,
    accounts: SharedAccounts,
    failed_runs: snapshot_figures::FailedRuns,
    /// The destinations of replications, as clients see them.
    replicas: Mutex<HashMap<VolumeId, Arc<PointBackend>>>,
    /// The keys of peers, for handshakes.
    peer_keys: RwLock<HashSet<PublicKey>>,
    /// The connections of peers.
    serving: Mutex<Vec<Serving>>,
}

/// The part of the state that is not in the store.
pub(crate) struct ServiceState {
    pub(crate) open: BTreeMap<VolumeName, OpenVolume>,
    pub(crate) meters: Meters,
    pub(crate) hosts: Hosts,
    pub(crate) totals: PoolTotals,
    /// Volumes whose storage is being removed.
    removing: HashSet<VolumeId>,
    pub(crate) startup_warnings: Vec<Warning>,
}

/// The part of the state of users and groups that is not in the store.
#[derive(Default)]
pub(crate) struct AccountsState {
    seal: Option<Seal>,
    unreadable_passwords: usize,
}

pub(crate) struct OpenVolume {
    pub(crate) row: Volume,
    pub(crate) served: Arc<vfs::Volume>,
    /// `None` if it is not exported. The value stays the same while nothing changes, so that thread caches stay valid.
    export: Option<Arc<Export>>,
}

impl OpenVolume {
    pub(crate) fn new(row: Volume, served: Arc<vfs::Volume>, hosts: &Hosts, over: Protocols) -> Self {
        let mut open = Self { row, served, export: None };
        open.renew(hosts, over);
        open
    }

    /// Updates the export to the row, over the served protocols. Returns whether it changed.
    fn renew(&mut self, hosts: &Hosts, over: Protocols) -> bool {
        let export = namespace::export(&self.row, &self.served, hosts, over);
        let is_same = match (&export, &self.export) {
            (Some(new), Some(old)) => {
                (&new.path, &new.rules, &new.endpoints, new.share)
                    == (&old.path, &old.rules, &old.endpoints, old.share)
            }
            (new, old) => new.is_none() && old.is_none(),
        };
        if !is_same {
            self.export = export.map(Arc::new);
        }
        // Snapshots of a destination are its points: clients see the last one.
        let is_replica = self.served.is_read_only();
        let directory = if is_replica { SnapshotDirectory::Hidden } else { self.row.snapshot_directory };
        self.served.set_snapshot_directory(directory);
        !is_same
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

impl Service {
    /// Opens the store, finishes the changes of an earlier run, and publishes the volumes.
    pub fn open(mut dependencies: Dependencies) -> Result<Self> {
        let _lent = dependencies.provisioner.lend_room();
        let store = Store::open(&dependencies.dir, dependencies.store_log.take())?;
        Self::with_store(dependencies, store)
    }

    pub(crate) fn with_store(dependencies: Dependencies, store: Store) -> Result<Self> {
        let state = ServiceState {
            open: BTreeMap::new(),
            meters: Meters::new(Arc::clone(&dependencies.pacer)),
            hosts: Hosts::default(),
            totals: PoolTotals::default(),
            removing: HashSet::new(),
            startup_warnings: Vec::new(),
        };
        let stored_ms = store::lock_clock::read(store.read())?;
        let has_locks = store::lock_clock::has_locks(store.read(), stored_ms)?;
        let day_ms = (dependencies.clock)();
        let lock_clock = LockClock::start(stored_ms, day_ms, has_locks, dependencies.pacer.now());
        let accounts = SharedAccounts::new(Accounts::empty(Sid::machine([0; 3]), ""));
        let service = Self {
            dependencies,
            objects: ObjectLocks::default(),
            accounts_state: Mutex::default(),
            jobs: Arc::default(),
            job_threads: Mutex::default(),
            lock_clock,
            vaults: vault::VaultStores::default(),
            state: Mutex::new(state),
            replica: store.replica().cloned(),
            store: Mutex::new(store),
            accounts,
            failed_runs: Default::default(),
            replicas: Mutex::default(),
            peer_keys: RwLock::default(),
            serving: Mutex::default(),
        };
        service.load_peer_keys()?;
        service.reconcile()?;
        Ok(service)
    }

    /// The replica that the data directory is a copy of.
    pub fn replica(&self) -> Option<&Arc<dyn Replica>> {
        self.replica.as_ref()
    }

    pub fn protocols(&self) -> Protocols {
        self.dependencies.served
    }

    /// Returns the progress of counts after a crash. A volume cannot change before its count ends.
    pub fn counting(&self) -> Counting {
        self.dependencies.provisioner.counting()
    }

    /// Lists operations before `before`, newest first.
    pub fn operations(&self, before: Option<OperationId>, most: usize) -> Result<Page<Operation>> {
        let before = before.unwrap_or(OperationId(i64::MAX.unsigned_abs()));
        let page = self.page(
            most,
            |store, most| store::operation::list(store, before, most),
            |one| one.id.to_string(),
        )?;
        Ok(Page { items: page.items.into_iter().map(|one| self.with_progress(one)).collect(), ..page })
    }

    pub fn operation(&self, id: OperationId) -> Result<Operation> {
        let found = self.read(|store| Ok(store::operation::find(store, id)?))?;
        found.map(|one| self.with_progress(one)).ok_or_else(|| Error::not_found(Kind::Operation, id))
    }

    /// An operation with the progress that is not yet in the store.
    fn with_progress(&self, operation: Operation) -> Operation {
        let progress = self.jobs.progress(operation.id).or(operation.progress);
        Operation { progress, ..operation }
    }

    pub fn warnings(&self) -> Result<Vec<Warning>> {
        let unreadable_passwords = self.accounts_state.lock().unreadable_passwords;
        let (mut warnings, hosts) = {
            let state = self.state();
            (state.startup_warnings.clone(), state.hosts.clone())
        };
        let (pools, volumes, lost) = self.read(|store| {
            let mut pools = Vec::new();
            for pool in store::pool::all(store)? {
                let usage = store::pool::usage(store, pool.row)?;
                pools.push((pool, usage));
            }
            Ok((pools, store::volume::all(store)?, store::snapshot::lost(store)?))
        })?;
        warnings.retain(|warning| match warning {
            Warning::NotOpened { volume, .. } | Warning::Unfinished { volume, .. } => {
                volumes.iter().any(|row| row.name == *volume)
            }
            _ => true,
        });
        if unreadable_passwords > 0 {
            let key = key_file(&self.dependencies.dir).path().to_owned();
            warnings.push(Warning::UnreadablePasswords { users: unreadable_passwords, key });
        }
        let promised = Bytes(pools.iter().fold(0_u64, |sum, (pool, _)| sum.saturating_add(pool.size.0)));
        let room = self.dependencies.provisioner.room().map_err(Error::storage("report its size"))?;
        if room.is_full() {
            warnings.push(Warning::DiskFull);
        }
        if promised.0 > room.bytes_total {
            warnings.push(Warning::OverDisk { promised, disk: Bytes(room.bytes_total) });
        }
        for (pool, taken) in pools.into_iter().filter(|(pool, taken)| taken.bytes > pool.size) {
            warnings.push(Warning::OverPool { pool: pool.name, size: pool.size, taken: taken.bytes });
        }
        let is_full = |volume: &&Volume| {
            self.space_of(volume).is_ok_and(|space| space.is_full(volume.size.0, VOLUME_FULL_PERCENT))
        };
        let full = volumes.iter().filter(is_full).map(|volume| volume.name.clone());
        warnings.extend(full.map(|volume| Warning::VolumeFull { volume }));
        warnings.extend(
            lost.into_iter().map(|lost| Warning::LostSnapshot { volume: lost.volume, snapshot: lost.name }),
        );
        let calls = vfs::panics::caught();
        warnings.extend((calls > 0).then_some(Warning::Defects { calls }));
        let serving = namespace::Serving {
            protocols: self.protocols(),
            protection: self.dependencies.protection,
            not_listening: self.not_listening(),
        };
        warnings.extend(volumes.iter().flat_map(|volume| namespace::warnings(volume, &hosts, &serving)));
        warnings.extend(self.counting().failed.into_iter().filter_map(|(id, error)| {
            let volume = volumes.iter().find(|volume| volume.id == id)?;
            Some(Warning::NotCounted { volume: volume.name.clone(), error })
        }));
        Ok(warnings)
    }

    /// Looks up the hosts of rules again, and stores the clock of locks. The caller repeats this about every minute.
    pub fn refresh(&self) -> Result<()> {
        self.store_lock_clock()?;
        let volumes = self.read(|store| Ok(store::volume::all(store)?))?;
        let answers = self.look_up(volumes.iter().flat_map(|volume| &volume.rules));
        let mut state = self.state();
        let before = state.hosts.clone();
        state.hosts.learn(answers);
        // The rules of an unfinished change are in the store, but not yet among those of the open volumes.
        let volumes = self.read(|store| Ok(store::volume::all(store)?))?;
        let rules =
            volumes.iter().chain(state.open.values().map(|open| &open.row)).flat_map(|row| &row.rules);
        let named: BTreeSet<String> =
            rules.flat_map(|rule| rule.clients.hosts()).map(str::to_owned).collect();
        state.hosts.keep_only(&named);
        if state.hosts != before {
            let ServiceState { open, hosts, .. } = &mut *state;
            let mut is_other = false;
            open.values_mut().for_each(|open| is_other |= open.renew(hosts, self.protocols()));
            if is_other {
                self.publish(&state);
            }
        }
        Ok(())
    }

    /// Returns `None` if the volume's storage is not open.
    pub fn served(&self, name: &VolumeName) -> Option<Arc<vfs::Volume>> {
        self.state().open.get(name).map(|open| Arc::clone(&open.served))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock()
    }

    fn lock_pool(&self, name: &PoolName) -> Locked<'_> {
        self.objects.lock(&Objects::from([(Object::Pool(name.clone()), Mode::Exclusive)]))
    }

    /// Locks a volume to change it, with its pool and its target pool.
    fn lock_volume(&self, name: &VolumeName, pool: Option<&PoolName>) -> Result<Locked<'_>> {
        loop {
            let objects = self.objects_of(name, pool)?;
            let locked = self.objects.lock(&objects);
            // Another change can have moved the volume or changed the pool before the lock.
            if self.objects_of(name, pool)? == objects {
                return Ok(locked);
            }
        }
    }

    fn objects_of(&self, name: &VolumeName, pool: Option<&PoolName>) -> Result<Objects> {
        self.read(|store| {
            let mut objects = Objects::from([(Object::Volume(name.clone()), Mode::Exclusive)]);
            let found = store::volume::find(store, name)?;
            for pool in found.iter().map(|volume| &volume.pool).chain(pool) {
                // An instance is a pool and a volume in one: both change.
                let found = store::pool::find(store, pool)?;
                let is_instance = found.is_some_and(|pool| levels::is_instance(pool.level));
                let mode = if is_instance { Mode::Exclusive } else { Mode::Shared };
                objects.insert(Object::Pool(pool.clone()), mode);
            }
            Ok(objects)
        })
    }

    #[cfg(test)]
    pub(crate) fn has_locked_objects(&self) -> bool {
        !self.objects.is_empty()
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.dependencies.clock)()
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        read(self.store().read())
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let _lent = self.dependencies.provisioner.lend_room();
        self.store().change(change)
    }

    pub(crate) fn look_up<'a>(&self, rules: impl Iterator<Item = &'a ExportRule>) -> LookupResults {
        look_up(&*self.dependencies.resolver, rules.flat_map(|rule| rule.clients.hosts()))
    }

    pub fn not_listening(&self) -> BTreeMap<IpAddr, String> {
        self.dependencies.listeners.failures()
    }

    /// Replaces the namespace by the exports of open volumes, and the listeners by their endpoints.
    pub(crate) fn publish(&self, state: &ServiceState) {
        let exports = state.open.values().filter_map(|open| open.export.clone());
        let namespace = Namespace::new(exports);
        let endpoints = namespace.exports().iter().flat_map(|export| &export.endpoints).copied().collect();
        self.dependencies.namespace.store(Arc::new(namespace));
        self.dependencies.listeners.listen_at(endpoints);
    }

    /// Applies `pool` and `volume` to meters and namespace.
    pub(crate) fn show(&self, state: &mut ServiceState, pool: &Pool, volume: &Volume) -> Result<()> {
        let Some(open) = state.open.get_mut(&volume.name) else { return Ok(()) };
        state.meters.apply(pool, volume)?;
        open.row = volume.clone();
        if open.renew(&state.hosts, self.dependencies.served) {
            self.publish(state);
        }
        Ok(())
    }

    fn find_pool(&self, name: &PoolName) -> Result<Pool> {
        let found = self.read(|store| Ok(store::pool::find(store, name)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Pool, name))
    }

    fn find_volume(&self, name: &VolumeName) -> Result<Volume> {
        let found = self.read(|store| Ok(store::volume::find(store, name)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Volume, name))
    }

    fn volumes_of(&self, pool: &Pool) -> Result<Vec<Volume>> {
        self.read(|store| Ok(store::volume::of_pool(store, pool.row)?))
    }

    /// Records an operation that finishes in this transaction.
    fn record(
        &self,
        store: &Connection,
        context: &ChangeContext,
        verb: Verb,
        thing: (Kind, &str),
        detail: &str,
    ) -> Result<Operation> {
        let operation = self.begin(store, context, verb, thing, detail)?;
        Ok(store::operation::end(store, operation, crate::Outcome::Succeeded, self.now_ms())?)
    }

    /// Records the start of an operation.
    fn begin(
        &self,
        store: &Connection,
        context: &ChangeContext,
        verb: Verb,
        thing: (Kind, &str),
        detail: &str,
    ) -> Result<Operation> {
        let (kind, name) = thing;
        let begun = NewOperation { actor: &context.actor, verb, kind, name, detail, spec: None };
        Ok(store::operation::begin(store, &begun, self.now_ms())?)
    }

    fn page<T>(
        &self,
        most: usize,
        list: impl FnOnce(&Connection, usize) -> rusqlite::Result<Vec<T>>,
        name: impl Fn(&T) -> String,
    ) -> Result<Page<T>> {
        let most = most.clamp(1, PAGE_MAX);
        let mut items = self.read(|store| Ok(list(store, most + 1)?))?;
        let is_whole = items.len() <= most;
        items.truncate(most);
        let next = if is_whole { None } else { items.last().map(name) };
        Ok(Page { items, next })
    }
}

/// Refuses a change that expects another version.
fn check_version(context: &ChangeContext, kind: Kind, name: &str, found: u64) -> Result<()> {
    match context.version {
        Some(wanted) if wanted != found => Err(Error::Version { kind, name: name.to_owned(), wanted, found }),
        _ => Ok(()),
    }
}

/// Ends the threads of jobs.
impl Drop for Service {
    fn drop(&mut self) {
        self.jobs.begin_close();
    }
}
