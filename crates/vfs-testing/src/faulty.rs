//! A backend that fails at planned calls, to test the layers above.

use crate::delegate_node;
use std::any::Any;
use std::sync::{Arc, MutexGuard};
use vfs::sync::Mutex;
use vfs::{
    Acls, Attrs, AuthorizeWrite, AuthorizeXattr, Backend, Blocking, Capabilities, Change, FileKey, FsError,
    FsLimits, FsResult, FsStat, Lookup, Node, NodeRef, PosixAcl, Ranges, Seek, SetXattr, Span, SyncScope,
    XattrName, XattrSink, Xattrs,
};

/// Counts the storage calls to a backend and refuses some. A refused call does nothing.
///
/// [`Backend::root`], [`Backend::limits`], [`Node::key`] and [`Node::descriptor`] cannot fail and do not count.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Backend>,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan(Mutex<Schedule>);

#[derive(Default)]
struct Schedule {
    calls: u64,
    fault: Option<Fault>,
    refused: u64,
    flushes_refused: u64,
}

struct Fault {
    at: u64,
    lasts: bool,
    error: FsError,
}

impl Faulty {
    /// Wraps `inner` without any fault.
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, plan: Arc::default() }
    }

    /// The `nth` call from now (1: the next) fails with `error`; those after it succeed.
    pub fn fail_at(&self, nth: u64, error: FsError) {
        self.plan.set(nth, false, error);
    }

    /// The `nth` call from now (1: the next) and all after it fail with `error`.
    pub fn fail_from(&self, nth: u64, error: FsError) {
        self.plan.set(nth, true, error);
    }

    pub fn heal(&self) {
        self.plan.lock().fault = None;
    }

    /// Calls so far, with those refused.
    pub fn calls(&self) -> u64 {
        self.plan.lock().calls
    }

    /// Calls refused so far. A test that plans a fault should see that it came.
    pub fn refused(&self) -> u64 {
        self.plan.lock().refused
    }
}

impl Plan {
    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.0.lock()
    }

    fn set(&self, nth: u64, lasts: bool, error: FsError) {
        let mut schedule = self.lock();
        let at = schedule.calls + nth;
        schedule.fault = Some(Fault { at, lasts, error });
    }

    fn call(&self) -> FsResult<()> {
        let mut schedule = self.lock();
        schedule.calls += 1;
        let now = schedule.calls;
        match &schedule.fault {
            Some(fault) if now == fault.at || fault.lasts && now > fault.at => {
                let error = fault.error;
                schedule.refused += 1;
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

impl Backend for Faulty {
    fn flush_failures(&self) -> u64 {
        self.inner.flush_failures() + self.plan.lock().flushes_refused
    }

    fn root(&self) -> NodeRef {
        FaultyNode::wrap(self.inner.root(), &self.plan)
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        self.plan.call()?;
        Ok(FaultyNode::wrap(self.inner.node(key, blocking)?, &self.plan))
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.plan.call()?;
        self.inner.stat()
    }

    fn limits(&self) -> FsLimits {
        self.inner.limits()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn sync(&self) -> FsResult<()> {
        self.plan.call()?;
        self.inner.sync()
    }
}

struct FaultyNode {
    inner: NodeRef,
    plan: Arc<Plan>,
}

impl FaultyNode {
    fn wrap(inner: NodeRef, plan: &Arc<Plan>) -> NodeRef {
        Arc::new(Self { inner, plan: plan.clone() })
    }

    fn wrap_found(&self, found: Lookup) -> Lookup {
        Lookup { node: Self::wrap(found.node, &self.plan), ..found }
    }

    /// Returns the node of the wrapped backend: a backend knows only its own nodes.
    fn unwrapped(node: &NodeRef) -> &NodeRef {
        let any: &dyn Any = &**node;
        any.downcast_ref::<Self>().map_or(node, |wrapped| &wrapped.inner)
    }

    fn counted(&self) -> FsResult<&NodeRef> {
        self.plan.call()?;
        Ok(&self.inner)
    }

    /// Counts a call to a capability of the wrapped node.
    fn call<'n, T: ?Sized>(&'n self, capability: Option<&'n T>) -> FsResult<&'n T> {
        self.plan.call()?;
        capability.ok_or(FsError::NotSupported)
    }
}

impl Node for FaultyNode {
    delegate_node!(self => self.inner; key, descriptor, release, pin, unpin);
    delegate_node!(
        self => self.counted()?;
        attrs, size, change_attrs, read, write, write_from_pipe, reserve, read_link, read_dir, read_dir_of, remove, remove_dir,
    );
    delegate_node!(self => self.counted()?, wrap; lookup, parent, create, make_dir, make_special, link, rename);

    fn sync(&self, scope: SyncScope) -> FsResult<()> {
        self.plan.call().inspect_err(|_| self.plan.lock().flushes_refused += 1)?;
        self.inner.sync(scope)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.inner.xattrs().map(|_| self as &dyn Xattrs)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        self.inner.ranges().map(|_| self as &dyn Ranges)
    }

    fn acls(&self) -> Option<&dyn Acls> {
        self.inner.acls().map(|_| self as &dyn Acls)
    }
}

impl Xattrs for FaultyNode {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        self.call(self.inner.xattrs())?.get(name)
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        self.call(self.inner.xattrs())?.list(cookie, sink)
    }

    fn set(
        &self,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
        authorize: AuthorizeXattr<'_>,
    ) -> FsResult<Change> {
        self.call(self.inner.xattrs())?.set(name, value, how, authorize)
    }

    fn remove(&self, name: XattrName<'_>, authorize: AuthorizeXattr<'_>) -> FsResult<Change> {
        self.call(self.inner.xattrs())?.remove(name, authorize)
    }
}

/// Reads of POSIX ACLs do not count: authorizing closures make them, and backends answer from memory.
impl Acls for FaultyNode {
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        self.inner.acls().ok_or(FsError::NotSupported)?.access_acl(attrs, blocking)
    }

    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>> {
        self.inner.acls().ok_or(FsError::NotSupported)?.default_acl()
    }

    fn set_access_acl(&self, acl: &PosixAcl) -> FsResult<()> {
        self.call(self.inner.acls())?.set_access_acl(acl)
    }

    fn set_default_acl(&self, acl: Option<&PosixAcl>) -> FsResult<()> {
        self.call(self.inner.acls())?.set_default_acl(acl)
    }
}

impl Ranges for FaultyNode {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        self.call(self.inner.ranges())?.seek(offset, what)
    }

    fn allocate(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.call(self.inner.ranges())?.allocate(offset, len, authorize)
    }

    fn preallocate(&self, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.call(self.inner.ranges())?.preallocate(len, authorize)
    }

    fn punch(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.call(self.inner.ranges())?.punch(offset, len, authorize)
    }

    fn zero(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.call(self.inner.ranges())?.zero(offset, len, authorize)
    }

    fn shares_storage(&self, target: &NodeRef) -> bool {
        self.inner.ranges().is_some_and(|ranges| ranges.shares_storage(Self::unwrapped(target)))
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        self.call(self.inner.ranges())?.copy_to(Self::unwrapped(target), span, authorize)
    }

    fn clone_to(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.call(self.inner.ranges())?.clone_to(Self::unwrapped(target), span, authorize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemFs;
    use crate::UncheckedNode;
    use vfs::Name;
    use vfs::{NewInode, Time};

    #[test]
    fn the_planned_call_fails_and_does_nothing() {
        let backend = Faulty::new(Arc::new(MemFs::new(Arc::new(Time::default))));
        let root = backend.root();
        let new_inode = NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 };
        let [a, b] = [b"a", b"b"].map(|bytes| Name::new(bytes).unwrap());
        backend.fail_at(2, FsError::Io);
        let file = root.create_unchecked(a, &new_inode).unwrap().found.node;
        assert_eq!(file.write(0, b"lost", vfs::backend::KEEP_SET_ID), Err(FsError::Io));
        assert_eq!(file.attrs(Blocking::Never).map(|attrs| attrs.size), Ok(0));
        assert_eq!((backend.calls(), backend.refused()), (3, 1));

        backend.fail_from(2, FsError::NoSpace);
        root.link_unchecked(b, &file).unwrap();
        assert_eq!(root.rename_unchecked(a, &root, b), Err(FsError::NoSpace));
        assert_eq!(backend.sync(), Err(FsError::NoSpace));
        backend.heal();
        assert_eq!(root.lookup(b, Blocking::Never).map(|found| found.attrs.links), Ok(2));
        assert_eq!(backend.refused(), 3);

        backend.fail_from(1, FsError::Io);
        let key = XattrName::new(b"key").unwrap();
        let set = file.xattrs().unwrap().set(key, b"value", SetXattr::Either, &|_| Ok(()));
        let span = Span { source: 0, target: 0, len: 1 };
        let copied = file.ranges().unwrap().copy_to(&file, &span, vfs::backend::KEEP_SET_ID);
        assert_eq!((set, copied), (Err(FsError::Io), Err(FsError::Io)));
        backend.heal();
        assert_eq!(file.xattrs().unwrap().get(key), Err(FsError::NotFound));
        assert_eq!(backend.refused(), 5);
    }
}
