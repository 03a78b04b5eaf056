//! A service whose whole environment the test controls.

use super::network::FakeNetwork;
use super::store_log;
use crate::store::{Store, StoreLog};
use crate::{
    Actor, ChangeContext, Dependencies, Difference, Listeners, NewPool, NewSnapshot, NewVolume, PoolName,
    Protocols, Resolver, Result, Service, SnapshotName, Volume, VolumeClients, VolumeName, Warning,
};
use envelope::{Bytes, Level};
use stable::MemoryReplica;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use vfs::qos::{Gate, Pacer};
use vfs::sync::{Condvar, Mutex};
use vfs::{
    Backend, Blocking, Capabilities, Capacity, ChangedRanges, FileKey, FsError, FsLimits, FsResult, FsStat,
    Name, NodeRef, Pace, Progress, Provisioner, Root, SharedNamespace, SnapshotUsage, Snapshots, Time, Usage,
    ViewId, VolumeId, unpaced,
};
use vfs_testing::{MemProvisioner, UncheckedNode};

/// Bytes of the disk that the rig claims to have.
pub(super) const DISK: u64 = 100 << 40;

pub(super) struct Rig {
    pub(super) dir: tempfile::TempDir,
    pub(super) disk: Arc<MemProvisioner>,
    pub(super) fuse: Arc<Fuse>,
    pub(super) namespace: SharedNamespace,
    pub(super) clients: Arc<AtomicUsize>,
    pub(super) heard: Arc<FakeListeners>,
    pub(super) names: Arc<FakeResolver>,
    pub(super) now_ms: Arc<AtomicU64>,
    pub(super) slow: Arc<Slow>,
    /// Removals of storage wait while it is locked.
    pub(super) removals: Arc<Mutex<()>>,
    /// Snapshots are made, reverted to and cloned, and steps of deletions taken, while it is not locked.
    pub(super) snapshots: Arc<Mutex<()>>,
    /// Whether the storage has no snapshots.
    pub(super) lacks_snapshots: Arc<AtomicBool>,
    /// The steps of the deletion of a snapshot.
    pub(super) deletion_steps: Arc<AtomicU64>,
    /// The snapshots that the storage was asked to compare.
    pub(super) compared: Arc<Mutex<Vec<[ViewId; 2]>>>,
    /// The volumes in the order of opening.
    pub(super) opened: Arc<Mutex<Vec<VolumeId>>>,
    pub(super) network: Arc<FakeNetwork>,
    /// The log of the store, from which each start makes the file anew.
    pub(super) replica: Option<Arc<MemoryReplica>>,
    /// Differences between the file and its log.
    differences: Arc<Mutex<Vec<String>>>,
    drawn: Arc<AtomicU64>,
    served: Protocols,
    protection: vfs::Protection,
}

#[derive(Default)]
pub(super) struct Fuse {
    taken: AtomicUsize,
    /// Counted from 1; 0 disables the fuse.
    at: AtomicUsize,
    blows: Mutex<FailureMode>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FailureMode {
    /// The process is killed: nothing happens after the step.
    #[default]
    Dead,
    /// The storage refuses this one step.
    Refused,
    /// The storage refuses this step and all later ones.
    Broken,
}

pub(super) struct Killed;

#[derive(Default)]
pub(super) struct FakeResolver(pub(super) Mutex<BTreeMap<String, Vec<IpAddr>>>);

/// Addresses that the service wants, and addresses that this machine lacks.
#[derive(Default)]
pub(super) struct FakeListeners {
    pub(super) wanted: Mutex<BTreeSet<IpAddr>>,
    pub(super) missing: Mutex<BTreeSet<IpAddr>>,
}

struct FakeClients(Arc<AtomicUsize>);

struct FusedProvisioner {
    disk: Arc<MemProvisioner>,
    fuse: Arc<Fuse>,
    slow: Arc<Slow>,
    removals: Arc<Mutex<()>>,
    snapshots: FusedSnapshots,
    opened: Arc<Mutex<Vec<VolumeId>>>,
}

/// The part of the rig that snapshots use.
#[derive(Clone)]
struct FusedSnapshots {
    fuse: Arc<Fuse>,
    gate: Arc<Mutex<()>>,
    lacks: Arc<AtomicBool>,
    steps: Arc<AtomicU64>,
    compared: Arc<Mutex<Vec<[ViewId; 2]>>>,
}

/// A volume in memory whose snapshots are made with steps that can fail.
struct FusedBackend {
    disk: Arc<dyn Backend>,
    with: FusedSnapshots,
}

/// Storage that blocks on a volume of one size.
#[derive(Default)]
pub(super) struct Slow {
    state: Mutex<SlowState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlowState {
    bytes: Option<u64>,
    waiting: usize,
}

impl Slow {
    /// Blocks the creation of a volume of this size, and changes to this size.
    pub(super) fn block(&self, size: Bytes) {
        self.state.lock().bytes = Some(size.0);
    }

    pub(super) fn release(&self) {
        self.state.lock().bytes = None;
        self.changed.notify_all();
    }

    /// Waits until storage blocks on `count` volumes.
    pub(super) fn await_blocked(&self, count: usize) {
        let state = self.state.lock();
        drop(self.changed.wait_while(state, |state| state.waiting < count));
    }

    pub(super) fn blocked(&self) -> usize {
        self.state.lock().waiting
    }

    fn pass(&self, capacity: Capacity) {
        let mut state = self.state.lock();
        if state.bytes != Some(capacity.bytes) {
            return;
        }
        state.waiting += 1;
        self.changed.notify_all();
        state = self.changed.wait_while(state, |state| state.bytes == Some(capacity.bytes));
        state.waiting -= 1;
    }
}

impl Fuse {
    /// Counts from here on, and blows at step `at`.
    pub(super) fn arm(&self, at: usize, blows: FailureMode) {
        self.taken.store(0, Ordering::SeqCst);
        self.at.store(at, Ordering::SeqCst);
        *self.blows.lock() = blows;
    }

    pub(super) fn disarm(&self) -> usize {
        self.at.store(0, Ordering::SeqCst);
        self.taken.load(Ordering::SeqCst)
    }

    fn next_failure(&self) -> Option<FailureMode> {
        let step = self.taken.fetch_add(1, Ordering::SeqCst) + 1;
        let at = self.at.load(Ordering::SeqCst);
        let blows = *self.blows.lock();
        let is_now = at > 0 && (step == at || (step > at && blows == FailureMode::Broken));
        is_now.then_some(blows)
    }

    fn storage(&self) -> FsResult<()> {
        match self.next_failure() {
            None => Ok(()),
            Some(FailureMode::Dead) => std::panic::resume_unwind(Box::new(Killed)),
            Some(FailureMode::Refused | FailureMode::Broken) => Err(FsError::Io),
        }
    }

    /// Counts a step of the store of a vault.
    pub(super) fn object(&self) -> std::io::Result<()> {
        self.storage().map_err(|_| std::io::Error::other("the fuse has blown"))
    }

    /// Counts a step of the store. It does not count where a test lets the storage refuse.
    pub(super) fn store(&self) {
        if *self.blows.lock() == FailureMode::Dead && self.next_failure().is_some() {
            std::panic::resume_unwind(Box::new(Killed));
        }
    }
}

impl FusedProvisioner {
    /// A change of the storage; the process can end before or after it.
    fn change<T>(&self, change: impl FnOnce(&MemProvisioner) -> FsResult<T>) -> FsResult<T> {
        self.fuse.storage()?;
        let value = change(&self.disk)?;
        self.fuse.storage().map(|()| value)
    }
}

impl Provisioner for FusedProvisioner {
    fn make(&self, id: VolumeId, root: &Root, capacity: Capacity) -> FsResult<()> {
        self.slow.pass(capacity);
        self.change(|disk| disk.make(id, root, capacity))
    }

    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>> {
        self.fuse.storage()?;
        self.opened.lock().push(id);
        Ok(Arc::new(FusedBackend { disk: self.disk.open(id)?, with: self.snapshots.clone() }))
    }

    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()> {
        self.slow.pass(capacity);
        self.change(|disk| disk.set_capacity(id, capacity))
    }

    fn set_snapshot_reserve(&self, id: VolumeId, bytes: u64) -> FsResult<()> {
        self.disk.set_snapshot_reserve(id, bytes)
    }

    fn snapshot_bytes(&self, id: VolumeId) -> FsResult<Option<u64>> {
        self.disk.snapshot_bytes(id)
    }

    fn set_root(&self, id: VolumeId, root: &Root) -> FsResult<()> {
        self.change(|disk| disk.set_root(id, root))
    }

    fn usage(&self, id: VolumeId) -> FsResult<Usage> {
        self.disk.usage(id)
    }

    fn remove(&self, id: VolumeId) -> FsResult<()> {
        drop(self.removals.lock());
        self.change(|disk| disk.remove(id))
    }

    fn revert(&self, id: VolumeId, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        // No step of a volume that is open.
        self.disk.revert(id, view, &mut |_| ControlFlow::Break(()))?;
        if self.snapshots.take_steps(pace).is_break() {
            return Ok(false);
        }
        self.change(|disk| disk.revert(id, view, &mut unpaced))
    }

    fn clone_volume(
        &self,
        source: VolumeId,
        view: ViewId,
        id: VolumeId,
        root: &Root,
        capacity: Capacity,
        pace: &mut Pace<'_>,
    ) -> FsResult<bool> {
        if self.snapshots.take_steps(pace).is_break() {
            return Ok(false);
        }
        self.change(|disk| disk.clone_volume(source, view, id, root, capacity, &mut unpaced))
    }

    fn list(&self) -> FsResult<Vec<VolumeId>> {
        self.disk.list()
    }

    fn room(&self) -> FsResult<FsStat> {
        self.disk.room()
    }
}

impl Backend for FusedBackend {
    fn root(&self) -> NodeRef {
        self.disk.root()
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        self.disk.node(key, blocking)
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.disk.stat()
    }

    fn limits(&self) -> FsLimits {
        self.disk.limits()
    }

    fn capabilities(&self) -> Capabilities {
        self.disk.capabilities()
    }

    fn sync(&self) -> FsResult<()> {
        self.disk.sync()
    }

    fn flush_failures(&self) -> u64 {
        self.disk.flush_failures()
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        (!self.with.lacks.load(Ordering::SeqCst)).then_some(self as _)
    }

    fn quotas(&self) -> Option<&dyn vfs::Quotas> {
        self.disk.quotas()
    }
}

impl FusedSnapshots {
    /// The steps of a revert or clone, while the gate is open.
    fn take_steps(&self, pace: &mut Pace<'_>) -> ControlFlow<()> {
        let steps = self.steps.load(Ordering::SeqCst);
        for done in 0..steps {
            drop(self.gate.lock());
            pace(Progress { done, total: Some(steps) })?;
        }
        ControlFlow::Continue(())
    }
}

impl FusedBackend {
    fn stored(&self) -> FsResult<&dyn Snapshots> {
        self.disk.snapshots().ok_or(FsError::NotSupported)
    }
}

impl Snapshots for FusedBackend {
    fn create(&self, view: ViewId) -> FsResult<()> {
        drop(self.with.gate.lock());
        self.with.fuse.storage()?;
        self.stored()?.create(view)?;
        self.with.fuse.storage()
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        self.stored()?.list()
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        self.stored()?.open(view)
    }

    /// The snapshot is gone after the last step.
    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let steps = self.with.steps.load(Ordering::SeqCst);
        for done in 1..=steps {
            self.with.fuse.storage()?;
            drop(self.with.gate.lock());
            if pace(Progress { done, total: Some(steps) }).is_break() {
                return Ok(false);
            }
        }
        self.stored()?.delete(view, &mut |_| ControlFlow::Continue(()))?;
        self.with.fuse.storage()?;
        Ok(true)
    }

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        self.stored()?.usage(view)
    }

    fn changes(&self, from: ViewId, to: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        self.with.compared.lock().push([from, to]);
        self.stored()?.changes(from, to)
    }
}

impl VolumeClients for FakeClients {
    fn clients_of(&self, _: VolumeId) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Listeners for FakeListeners {
    fn listen_at(&self, addresses: BTreeSet<IpAddr>) {
        *self.wanted.lock() = addresses;
    }

    fn failures(&self) -> BTreeMap<IpAddr, String> {
        let missing = self.missing.lock();
        missing.iter().map(|address| (*address, "it is not there".to_owned())).collect()
    }
}

impl Resolver for FakeResolver {
    fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let known = self.0.lock().get(host).cloned();
        known.ok_or_else(|| std::io::Error::other("the name server rests"))
    }
}

impl Rig {
    pub(super) fn new() -> Self {
        let time = Arc::new(|| Time { seconds: 1, nanos: 0 });
        let disk = MemProvisioner::new(time, Capacity { bytes: DISK, files: 1 << 30 });
        Self {
            dir: tempfile::tempdir().unwrap(),
            disk: Arc::new(disk),
            fuse: Arc::default(),
            namespace: SharedNamespace::default(),
            clients: Arc::default(),
            heard: Arc::default(),
            names: Arc::default(),
            now_ms: Arc::new(AtomicU64::new(1_000)),
            slow: Arc::default(),
            removals: Arc::default(),
            snapshots: Arc::default(),
            lacks_snapshots: Arc::default(),
            deletion_steps: Arc::new(AtomicU64::new(1)),
            compared: Arc::default(),
            opened: Arc::default(),
            network: Arc::default(),
            replica: Some(Arc::default()),
            differences: Arc::default(),
            drawn: Arc::default(),
            served: Protocols::NFS,
            protection: vfs::Protection::Verified,
        }
    }

    pub(super) fn serving(mut self, served: Protocols) -> Self {
        self.served = served;
        self
    }

    /// Keeps the store in its file alone.
    pub(super) fn without_replica(mut self) -> Self {
        self.replica = None;
        self
    }

    /// Limits the protection of NFS connections in the next run.
    pub(super) fn protecting(mut self, protection: vfs::Protection) -> Self {
        self.protection = protection;
        self
    }

    pub(super) fn try_open(&self) -> Result<Service> {
        let (drawn, now_ms) = (Arc::clone(&self.drawn), Arc::clone(&self.now_ms));
        let dependencies = Dependencies {
            dir: self.dir.path().to_owned(),
            provisioner: Arc::new(FusedProvisioner {
                disk: Arc::clone(&self.disk),
                fuse: Arc::clone(&self.fuse),
                slow: Arc::clone(&self.slow),
                removals: Arc::clone(&self.removals),
                snapshots: FusedSnapshots {
                    fuse: Arc::clone(&self.fuse),
                    gate: Arc::clone(&self.snapshots),
                    lacks: Arc::clone(&self.lacks_snapshots),
                    steps: Arc::clone(&self.deletion_steps),
                    compared: Arc::clone(&self.compared),
                },
                opened: Arc::clone(&self.opened),
            }),
            namespace: Arc::clone(&self.namespace),
            pacer: Pacer::still(),
            grace: Default::default(),
            mounts: Arc::new(FakeClients(Arc::clone(&self.clients))),
            listeners: Arc::clone(&self.heard) as _,
            resolver: Arc::clone(&self.names) as _,
            dialer: Arc::clone(&self.network) as _,
            host: "files-1.example.org".to_owned(),
            clock: Box::new(move || now_ms.fetch_add(1, Ordering::SeqCst)),
            // The first number has the highest bit, which the store's integers keep for the sign.
            entropy: Box::new(move |bytes| {
                let drawn = u64::MAX - drawn.fetch_add(1, Ordering::SeqCst);
                bytes.iter_mut().zip(drawn.to_be_bytes().iter().cycle()).for_each(|(to, from)| *to = *from);
            }),
            served: self.served,
            protection: self.protection,
            instance: 1,
            store_log: None,
        };
        let restored = self
            .replica
            .as_ref()
            .map(|replica| StoreLog::restore(self.dir.path(), &replica.pairs(), Arc::clone(replica) as _));
        let mut store = Store::open(self.dir.path(), restored.transpose()?)?;
        if let Some(replica) = self.replica.clone() {
            let differences = Arc::clone(&self.differences);
            store.set_check(Box::new(move |store| {
                differences.lock().extend(store_log::difference(store, &replica.pairs()));
            }));
        }
        let fuse = Arc::clone(&self.fuse);
        store.set_hook(Box::new(move || fuse.store()));
        Service::with_store(dependencies, store)
    }

    /// Random numbers that no other rig has.
    pub(super) fn draw_from(&self, first: u64) {
        self.drawn.store(first, Ordering::SeqCst);
    }

    pub(super) fn open(&self) -> Service {
        self.try_open().unwrap()
    }

    pub(super) fn gate(&self, service: &Service, name: &VolumeName) -> Arc<Gate> {
        let served = service.served(name).unwrap();
        assert!(Arc::ptr_eq(&served, &self.namespace.load().volume(served.id()).unwrap().volume));
        Arc::clone(served.gate())
    }

    pub(super) fn fill(&self, id: VolumeId, bytes: usize) {
        let root = self.disk.open(id).unwrap().root();
        let new_inode = vfs::NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 };
        let made = root.create_unchecked(Name::new(b"data").unwrap(), &new_inode).unwrap();
        made.found.node.write(0, &vec![7; bytes], vfs::backend::KEEP_SET_ID).unwrap();
    }

    /// The names of the files in the root of a volume.
    pub(super) fn files(&self, id: VolumeId) -> Vec<String> {
        let mut names = Vec::new();
        self.disk
            .open(id)
            .unwrap()
            .root()
            .read_dir(0, false, &mut |entry| {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        names.retain(|name| name != "." && name != "..");
        names
    }

    /// Checks that store, storage, meters and namespace agree and no change is unfinished.
    pub(super) fn check_agreement(&self, service: &Service) {
        let volumes = service.volumes(None, 1000).unwrap().items;
        let rows: BTreeSet<VolumeId> = volumes.iter().map(|volume| volume.id).collect();
        assert_eq!(self.disk.list().unwrap().into_iter().collect::<BTreeSet<_>>(), rows, "storage");
        let namespace = self.namespace.load();
        let served: BTreeSet<&str> = namespace.exports().iter().map(|export| export.path.as_str()).collect();
        let paths: Vec<String> = volumes.iter().map(Volume::path).collect();
        assert_eq!(served, paths.iter().map(String::as_str).collect(), "namespace");
        for volume in &volumes {
            assert_eq!(volume.state, crate::State::Ready, "{}", volume.name);
            let backend = self.disk.open(volume.id).unwrap();
            assert_eq!(backend.stat().unwrap().bytes_total, volume.size.0, "capacity of {}", volume.name);
            let attrs = backend.root().attrs(Blocking::Allowed).unwrap();
            let root = Root { mode: attrs.mode, uid: attrs.uid, gid: attrs.gid };
            assert_eq!(root, volume.root, "root of {}", volume.name);
            let pool = service.pool(&volume.pool).unwrap();
            let promised = crate::levels::volume_limits(&pool, volume).unwrap();
            assert_eq!(self.gate(service, &volume.name).limits(), promised, "limits of {}", volume.name);
            let rules = namespace.volume(volume.id).unwrap().rules.len();
            assert_eq!(rules, volume.rules.len(), "rules of {}", volume.name);
            assert_eq!(namespace.volume(volume.id).unwrap().endpoints, volume.endpoints, "endpoints");
            self.check_snapshots(service, volume);
        }
        let wanted: BTreeSet<IpAddr> = volumes.iter().flat_map(|volume| &volume.endpoints).copied().collect();
        assert_eq!(*self.heard.wanted.lock(), wanted, "listeners");
        assert_eq!(
            service.state().totals,
            crate::pool_totals::PoolTotals::of(volumes.iter()),
            "what pools have given"
        );
        assert!(!service.has_locked_objects());
        let unfinished = service.operations(None, 1000).unwrap().items;
        let unfinished: Vec<_> = unfinished.iter().filter(|one| one.ended_ms.is_none()).collect();
        assert!(unfinished.is_empty(), "{unfinished:?}");
        let startup_warnings = service.warnings().unwrap();
        let is_of_users = |warning: &Warning| {
            matches!(
                warning,
                Warning::NoRules { .. } | Warning::HiddenRule { .. } | Warning::VolumeFull { .. }
            )
        };
        let only_said = startup_warnings.iter().all(is_of_users);
        assert!(only_said, "{startup_warnings:?}");
    }

    /// Checks that store, storage and data plane have the same snapshots.
    fn check_snapshots(&self, service: &Service, volume: &Volume) {
        let rows = service.snapshots(&volume.name, None, 1000).unwrap().items;
        let mut views: Vec<ViewId> = rows.iter().map(|row| row.view).collect();
        views.sort();
        assert_eq!(self.stored_snapshots(volume.id), views, "snapshots in the storage of {}", volume.name);
        assert!(rows.iter().all(|row| row.state == crate::SnapshotState::Ready), "{rows:?}");
        let served = service.served(&volume.name).unwrap().snapshots();
        let mut shown: Vec<_> = served.iter().map(|one| (one.view, one.name.clone())).collect();
        let mut named: Vec<_> = rows.iter().map(|row| (row.view, row.name.to_string())).collect();
        shown.sort();
        named.sort();
        assert_eq!(shown, named, "snapshots that clients of {} see", volume.name);
    }

    /// The numbers of the snapshots in the storage of a volume.
    pub(super) fn stored_snapshots(&self, id: VolumeId) -> Vec<ViewId> {
        self.disk.open(id).unwrap().snapshots().unwrap().list().unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(*self.differences.lock(), [""; 0], "between the store and its log");
        }
    }
}

pub(super) fn context() -> ChangeContext {
    ChangeContext::by(Actor::new("ada"))
}

pub(super) fn pool(name: &str) -> PoolName {
    PoolName::stored(name.to_owned())
}

pub(super) fn volume(name: &str) -> VolumeName {
    VolumeName::stored(name.to_owned())
}

pub(super) fn snapshot(name: &str) -> SnapshotName {
    SnapshotName::stored(name.to_owned())
}

pub(super) fn new_snapshot(name: &str) -> NewSnapshot {
    NewSnapshot { name: Some(snapshot(name)), ..NewSnapshot::default() }
}

pub(super) fn new_pool(name: &str, level: Level, tib: u64) -> NewPool {
    NewPool::new(pool(name), level, Bytes::tib(tib))
}

pub(super) fn new_volume(name: &str, of: &str, gib: u64) -> NewVolume {
    NewVolume::new(volume(name), pool(of), Bytes::gib(gib))
}

/// A service with a pool `p` of GCNV Premium, 4 TiB, and a volume `v` of 1 TiB in it.
pub(super) fn furnished(rig: &Rig) -> Service {
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::GcnvPremium, 4)).unwrap();
    service.create_volume(&context(), &new_volume("v", "p", 1024)).unwrap();
    service
}

pub(crate) fn properties(differences: &[Difference]) -> Vec<&'static str> {
    differences.iter().map(|difference| difference.property).collect()
}
