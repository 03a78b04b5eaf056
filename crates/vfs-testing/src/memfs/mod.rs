//! A volume in memory: the reference backend. Tests of everything above the seam run over it.
//!
//! Deterministic: time is an argument, numbers and cookies are counted. One lock guards it all, so every verb is atomic.

mod acls;
mod node;
mod owner_rules;
mod pages;
pub mod provisioner;
mod quotas;
mod ranges;
mod snapshots;
mod store;
#[cfg(test)]
mod tests;
mod xattrs;

use node::MemNode;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use store::{ROOT, Store};
use vfs::acl::posix_acl::PosixAcl;
use vfs::backend::capabilities::{Capabilities, RangeLimits, XattrLimits};
use vfs::backend::provisioner::{Capacity, Usage};
use vfs::backend::quotas::Quotas;
use vfs::backend::snapshots::Snapshots;
use vfs::backend::xattrs::XATTR_NAME_BYTES_MAX;
use vfs::backend::{Backend, Blocking, NodeRef};
use vfs::error::{FsError, FsResult, Wait};
use vfs::file_key::{FileKey, ViewId};
use vfs::model::attrs::{FsLimits, FsStat, Time};
use vfs::model::name::NAME_BYTES_MAX;
use vfs::sync::Mutex;

/// The source of times. Called while the volume is locked: it must not use the volume.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The limits it declares and enforces.
    pub limits: FsLimits,
    /// Capacity for contents, in bytes; holes take none.
    pub bytes_total: u64,
    /// Most files, with the root.
    pub files_total: u64,
}

impl Default for Options {
    /// 1 GiB, a million files, and the largest offsets Linux knows.
    fn default() -> Self {
        let limits = FsLimits {
            links_max: 65_000,
            name_bytes_max: u32::try_from(NAME_BYTES_MAX).expect("a small constant"),
            file_bytes_max: i64::MAX.unsigned_abs(),
            time_step_ns: 1,
        };
        Self { limits, bytes_total: 1 << 30, files_total: 1 << 20 }
    }
}

/// A volume in memory. A clone is the same volume.
#[derive(Clone)]
pub struct MemFs(Arc<Shared>);

/// The lists of POSIX of all files, by number: access and default.
type Lists = HashMap<u64, [Option<Arc<PosixAcl>>; 2]>;

struct Shared {
    clock: Clock,
    limits: FsLimits,
    cold: AtomicBool,
    bare: AtomicBool,
    store: Mutex<Store>,
    acls: Mutex<Lists>,
    snapshots: Mutex<BTreeMap<ViewId, MemFs>>,
}

impl MemFs {
    /// Makes an empty volume whose root belongs to root, mode 0755.
    pub fn new(clock: Clock) -> Self {
        Self::with_options(clock, Options::default())
    }

    pub fn with_options(clock: Clock, options: Options) -> Self {
        let store = Store::new(options, clock());
        Self::from_store(clock, options.limits, store, Lists::default())
    }

    /// With `cold`, each call with [`Blocking::Never`] returns `FsError::Wait(Wait::Storage)`, as with an empty cache.
    pub fn cold(&self, cold: bool) {
        self.0.cold.store(cold, Ordering::Relaxed);
    }

    /// Disables extended attributes.
    #[must_use]
    pub fn without_xattrs(self) -> Self {
        self.0.bare.store(true, Ordering::Relaxed);
        self
    }

    /// Returns a new volume with the durable state, as after a power cut. This volume continues unchanged.
    pub fn crash(&self) -> Self {
        let store = self.0.lock();
        let acls = self.0.acls.lock().clone();
        let crashed = Self::from_store(self.0.clock.clone(), self.0.limits, store.after_crash(), acls);
        crashed.0.snapshots.lock().clone_from(&self.0.snapshots.lock());
        crashed
    }

    /// Changes the capacity. Contents above the new capacity stay.
    pub fn set_capacity(&self, capacity: Capacity) {
        self.0.lock().set_capacity(capacity);
    }

    /// Withholds bytes from files. Snapshots are not counted in the capacity.
    pub fn set_reserve(&self, bytes: u64) {
        self.0.lock().set_reserve(bytes);
    }

    /// Returns the usage: written pages, every file with the root, and the charges of [`vfs::backend::charge`].
    pub fn usage(&self) -> Usage {
        self.0.lock().usage()
    }

    fn from_store(clock: Clock, limits: FsLimits, store: Store, acls: Lists) -> Self {
        let (cold, bare) = (AtomicBool::new(false), AtomicBool::new(false));
        let (store, acls) = (Mutex::new(store), Mutex::new(acls));
        Self(Arc::new(Shared { clock, limits, cold, bare, store, acls, snapshots: Mutex::default() }))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    fn check_pace(&self, blocking: Blocking) -> FsResult<()> {
        let waits = blocking == Blocking::Never && self.cold.load(Ordering::Relaxed);
        if waits { Err(FsError::Wait(Wait::Storage)) } else { Ok(()) }
    }
}

impl Backend for MemFs {
    /// Memory does not fail; [`crate::Faulty`] does.
    fn flush_failures(&self) -> u64 {
        0
    }

    fn root(&self) -> NodeRef {
        MemNode::node_ref(&self.0, ROOT)
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        let id = node::id_of(key)?;
        self.0.check_pace(blocking)?;
        self.0.lock().inode(id)?;
        Ok(MemNode::node_ref(&self.0, id))
    }

    fn stat(&self) -> FsResult<FsStat> {
        let store = self.0.lock();
        let stat = store.capacity().stat(store.usage());
        Ok(FsStat { bytes_available: store.unused(), ..stat })
    }

    fn limits(&self) -> FsLimits {
        self.0.limits
    }

    fn capabilities(&self) -> Capabilities {
        let xattrs = XattrLimits { name_bytes_max: XATTR_NAME_BYTES_MAX };
        Capabilities {
            xattrs: (!self.0.bare.load(Ordering::Relaxed)).then_some(xattrs),
            ranges: Some(RangeLimits { clone_bytes: Some(pages::PAGE_BYTES as u64) }),
            acls: true,
        }
    }

    fn sync(&self) -> FsResult<()> {
        self.0.lock().sync_all();
        Ok(())
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }

    fn quotas(&self) -> Option<&dyn Quotas> {
        Some(self)
    }
}
