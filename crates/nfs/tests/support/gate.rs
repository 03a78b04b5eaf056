//! A backend that is slow or broken on demand.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use vfs::sync::{Condvar, Mutex};
use vfs::{
    Attrs, AuthorizeCreate, Backend, Blocking, CreatedEntry, FileKey, FsError, FsLimits, FsResult, FsStat,
    Lookup, Name, Node, NodeRef, SyncScope, Wait,
};
use vfs_testing::{MemFs, delegate_node};

/// The faults of a [`Gate`].
#[derive(Default)]
pub struct Control {
    closed: Mutex<bool>,
    opens: Condvar,
    /// Calls that have reached the gate.
    pub arrived: AtomicUsize,
    /// Whether the next call that passes panics.
    pub panics: AtomicBool,
    /// Whether the next read of attributes panics.
    pub attrs_panic: AtomicBool,
    /// Created files.
    pub created: AtomicUsize,
    /// Whether every flush fails.
    pub sync_fails: AtomicBool,
    pub flush_failures: AtomicU64,
    /// Whether nonblocking reads have to wait for storage.
    pub cold_reads: AtomicBool,
    /// Whether nonblocking lookups of handles have to wait for storage.
    pub cold_handles: AtomicBool,
    /// Whether reads return half of the file's size, as if another process had truncated the file.
    pub short_reads: AtomicBool,
}

impl Control {
    /// Makes CREATEs and READs wait at the gate.
    pub fn close(&self) {
        *self.closed.lock() = true;
    }

    /// Releases the waiting calls.
    pub fn open(&self) {
        *self.closed.lock() = false;
        self.opens.notify_all();
    }

    fn pass(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        drop(self.opens.wait_while(self.closed.lock(), |closed| *closed));
        assert!(!self.panics.swap(false, Ordering::SeqCst), "the panic that a test wants");
    }
}

/// A volume in memory behind a gate.
pub struct Gate {
    fs: MemFs,
    control: Arc<Control>,
}

struct GateNode {
    inner: NodeRef,
    control: Arc<Control>,
}

impl Gate {
    pub fn new(fs: MemFs) -> (Arc<Self>, Arc<Control>) {
        let control = Arc::new(Control::default());
        (Arc::new(Self { fs, control: Arc::clone(&control) }), control)
    }
}

impl GateNode {
    fn wrap(inner: NodeRef, control: &Arc<Control>) -> NodeRef {
        Arc::new(Self { inner, control: Arc::clone(control) })
    }

    fn wrap_found(&self, found: Lookup) -> Lookup {
        Lookup { node: Self::wrap(found.node, &self.control), attrs: found.attrs }
    }

    fn unwrapped(node: &NodeRef) -> &NodeRef {
        let any: &dyn Any = &**node;
        any.downcast_ref::<Self>().map_or(node, |gate| &gate.inner)
    }
}

impl Backend for Gate {
    fn flush_failures(&self) -> u64 {
        self.control.flush_failures.load(Ordering::SeqCst)
    }

    fn root(&self) -> NodeRef {
        GateNode::wrap(self.fs.root(), &self.control)
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        if blocking == Blocking::Never && self.control.cold_handles.load(Ordering::SeqCst) {
            return Err(FsError::Wait(Wait::Storage));
        }
        Ok(GateNode::wrap(self.fs.node(key, blocking)?, &self.control))
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.fs.stat()
    }

    fn limits(&self) -> FsLimits {
        self.fs.limits()
    }

    fn sync(&self) -> FsResult<()> {
        self.fs.sync()
    }
}

impl Node for GateNode {
    delegate_node!(
        self => self.inner;
        key, change_attrs, write, reserve, release, pin, unpin, read_link, read_dir, remove, remove_dir,
    );
    delegate_node!(self => self.inner, wrap; lookup, parent, make_dir, make_special, link, rename);

    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs> {
        let panics = &self.control.attrs_panic;
        assert!(!panics.swap(false, Ordering::SeqCst), "the panic that a test wants");
        self.inner.attrs(blocking)
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        match blocking {
            Blocking::Never if self.control.cold_reads.load(Ordering::SeqCst) => {
                return Err(FsError::Wait(Wait::Storage));
            }
            Blocking::Never => {}
            Blocking::Allowed => self.control.pass(),
        }
        let half = self.control.short_reads.load(Ordering::SeqCst);
        self.inner.read(offset, if half { len / 2 } else { len }, into, blocking)
    }

    fn descriptor(&self, _offset: u64, _len: usize, _blocking: Blocking) -> Option<Arc<OwnedFd>> {
        None
    }

    fn sync(&self, scope: SyncScope) -> FsResult<()> {
        if self.control.sync_fails.load(Ordering::SeqCst) {
            self.control.flush_failures.fetch_add(1, Ordering::SeqCst);
            return Err(FsError::Io);
        }
        self.inner.sync(scope)
    }

    fn create(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.control.pass();
        let made = self.inner.create(name, authorize)?;
        self.control.created.fetch_add(1, Ordering::SeqCst);
        Ok(CreatedEntry { found: self.wrap_found(made.found), ..made })
    }
}
