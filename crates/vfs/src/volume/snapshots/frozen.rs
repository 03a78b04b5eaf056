//! A file of a snapshot: a node of the storage that refuses every change.

use super::table::Frozen;
use crate::acl::posix_acl::PosixAcl;
use crate::backend::acls::Acls;
use crate::backend::ranges::{Ranges, Seek, Span};
use crate::backend::xattrs::{AuthorizeXattr, SetXattr, XattrName, XattrSink, Xattrs};
use crate::backend::{
    AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr, AuthorizeWrite,
    Blocking, CreatedEntry, Entry, EntrySink, Lookup, NameFilter, Node, NodeRef, Special, SyncScope,
};
use crate::error::{FsError, FsResult};
use crate::file_key::{FileKey, ViewId};
use crate::model::attrs::{Attrs, Change};
use crate::model::name::Name;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Implements the methods of [`Node`] that change something: each is [`FsError::ReadOnly`].
macro_rules! refuse_changes {
    () => {
        fn change_attrs(&self, _: AuthorizeSetattr<'_>) -> FsResult<Change> {
            Err(FsError::ReadOnly)
        }

        fn write(&self, _: u64, _: &[u8], _: AuthorizeWrite<'_>) -> FsResult<Change> {
            Err(FsError::ReadOnly)
        }

        fn write_from_pipe(
            &self,
            _: u64,
            _: BorrowedFd<'_>,
            _: usize,
            _: AuthorizeWrite<'_>,
        ) -> FsResult<Change> {
            Err(FsError::ReadOnly)
        }

        fn reserve(&self, _: u64, _: usize, _: AuthorizeWrite<'_>) -> FsResult<()> {
            Err(FsError::ReadOnly)
        }

        fn create(&self, _: Name<'_>, _: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
            Err(FsError::ReadOnly)
        }

        fn make_dir(&self, _: Name<'_>, _: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
            Err(FsError::ReadOnly)
        }

        fn make_special(
            &self,
            _: Name<'_>,
            _: Special<'_>,
            _: AuthorizeCreate<'_>,
        ) -> FsResult<CreatedEntry> {
            Err(FsError::ReadOnly)
        }

        fn link(&self, _: Name<'_>, _: &NodeRef, _: AuthorizeLink<'_>) -> FsResult<CreatedEntry> {
            Err(FsError::ReadOnly)
        }

        fn remove(&self, _: Name<'_>, _: AuthorizeRemove<'_>) -> FsResult<Change> {
            Err(FsError::ReadOnly)
        }

        fn remove_dir(&self, _: Name<'_>, _: AuthorizeRemove<'_>) -> FsResult<Change> {
            Err(FsError::ReadOnly)
        }

        fn rename(
            &self,
            _: Name<'_>,
            _: &NodeRef,
            _: Name<'_>,
            _: AuthorizeRename<'_>,
        ) -> FsResult<(Change, Change)> {
            Err(FsError::ReadOnly)
        }
    };
}
pub(super) use refuse_changes;

pub(super) struct FrozenNode {
    snapshot: Arc<Frozen>,
    inner: NodeRef,
    /// The view of the key: of the snapshot, or of an entry of a directory of snapshots.
    view: ViewId,
}

impl FrozenNode {
    pub(super) fn node_ref(snapshot: &Arc<Frozen>, inner: NodeRef, view: ViewId) -> NodeRef {
        Arc::new(Self { snapshot: Arc::clone(snapshot), inner, view })
    }

    /// The node of the storage; [`FsError::Stale`] once the snapshot is deleted.
    fn inner(&self) -> FsResult<&NodeRef> {
        self.snapshot.check()?;
        Ok(&self.inner)
    }

    fn seen(&self, attrs: Attrs) -> Attrs {
        Attrs { view: self.snapshot.view, ..attrs }
    }

    fn seen_lookup(&self, found: Lookup) -> Lookup {
        let node = Self::node_ref(&self.snapshot, found.node, self.snapshot.view);
        Lookup { node, attrs: self.seen(found.attrs) }
    }

    fn list(
        &self,
        cookie: u64,
        plus: bool,
        wanted: Option<NameFilter<'_>>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<bool> {
        let mut seen = |entry: &Entry<'_>| match entry.object {
            None => sink(entry),
            Some((key, attrs)) => {
                let (key, attrs) = (key.in_view(self.snapshot.view), self.seen(*attrs));
                sink(&Entry { object: Some((&key, &attrs)), ..*entry })
            }
        };
        match wanted {
            Some(wanted) => self.inner()?.read_dir_of(cookie, plus, wanted, &mut seen),
            None => self.inner()?.read_dir(cookie, plus, &mut seen),
        }
    }
}

impl Node for FrozenNode {
    fn key(&self) -> FileKey {
        self.inner.key().in_view(self.view)
    }

    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs> {
        Ok(self.seen(self.inner()?.attrs(blocking)?))
    }

    fn size(&self, blocking: Blocking) -> FsResult<u64> {
        self.inner()?.size(blocking)
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        self.inner()?.read(offset, len, into, blocking)
    }

    fn descriptor(&self, offset: u64, len: usize, blocking: Blocking) -> Option<Arc<OwnedFd>> {
        self.inner().ok()?.descriptor(offset, len, blocking)
    }

    fn release(&self, _: u64, _: usize) {}

    fn pin(&self) {
        self.inner.pin();
    }

    fn unpin(&self) {
        self.inner.unpin();
    }

    /// A snapshot is durable from the start.
    fn sync(&self, _: SyncScope) -> FsResult<()> {
        self.inner().map(drop)
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        self.inner()?.read_link()
    }

    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup> {
        Ok(self.seen_lookup(self.inner()?.lookup(name, blocking)?))
    }

    /// The parent in the snapshot. That of its root, and of a directory that was reached through a directory of
    /// snapshots, is the directory of snapshots.
    fn parent(&self) -> FsResult<Lookup> {
        let inner = self.inner()?;
        let key = inner.key();
        if !self.view.is_entry() && key != self.snapshot.root {
            return Ok(self.seen_lookup(inner.parent()?));
        }
        let table = self.snapshot.table.upgrade().ok_or(FsError::Stale)?;
        let node = table.node(&key.in_view(ViewId::DIRECTORY), Blocking::Allowed)?;
        Ok(Lookup { attrs: node.attrs(Blocking::Allowed)?, node })
    }

    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        self.list(cookie, plus, None, sink)
    }

    fn read_dir_of(
        &self,
        cookie: u64,
        plus: bool,
        wanted: NameFilter<'_>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<bool> {
        self.list(cookie, plus, Some(wanted), sink)
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

    refuse_changes!();
}

impl FrozenNode {
    fn inner_xattrs(&self) -> FsResult<&dyn Xattrs> {
        self.inner()?.xattrs().ok_or(FsError::NotSupported)
    }

    fn inner_acls(&self) -> FsResult<&dyn Acls> {
        self.inner()?.acls().ok_or(FsError::NotSupported)
    }

    fn inner_ranges(&self) -> FsResult<&dyn Ranges> {
        self.inner()?.ranges().ok_or(FsError::NotSupported)
    }
}

impl Acls for FrozenNode {
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        self.inner_acls()?.access_acl(attrs, blocking)
    }

    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>> {
        self.inner_acls()?.default_acl()
    }

    fn set_access_acl(&self, _: &PosixAcl) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }

    fn set_default_acl(&self, _: Option<&PosixAcl>) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }
}

impl Xattrs for FrozenNode {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        self.inner_xattrs()?.get(name)
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        self.inner_xattrs()?.list(cookie, sink)
    }

    fn set(&self, _: XattrName<'_>, _: &[u8], _: SetXattr, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn remove(&self, _: XattrName<'_>, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }
}

impl Ranges for FrozenNode {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        self.inner_ranges()?.seek(offset, what)
    }

    fn allocate(&self, _: u64, _: u64, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn preallocate(&self, _: u64, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn punch(&self, _: u64, _: u64, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn zero(&self, _: u64, _: u64, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn shares_storage(&self, target: &NodeRef) -> bool {
        self.inner.ranges().is_some_and(|ranges| ranges.shares_storage(target))
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        self.inner_ranges()?.copy_to(target, span, authorize)
    }

    fn clone_to(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.inner_ranges()?.clone_to(target, span, authorize)
    }
}
