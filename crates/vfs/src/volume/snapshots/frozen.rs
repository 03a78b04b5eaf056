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
use std::ops::Deref;
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

/// A read-only way to see a file of a storage.
pub(super) trait ReadOnlyView: Send + Sync + 'static {
    type Inner<'v>: Deref<Target = NodeRef>;

    /// The node of the storage; [`FsError::Stale`] once it can no longer be seen.
    fn inner(&self) -> FsResult<Self::Inner<'_>>;

    /// A node of the storage for its optional features, even after that.
    fn any(&self) -> Option<Self::Inner<'_>>;

    fn key(&self) -> FileKey;

    /// The view of attributes, and of the files that are reached from this one.
    fn view(&self) -> ViewId;

    fn beside(&self, inner: NodeRef) -> NodeRef;

    fn parent(&self) -> FsResult<Lookup>;

    fn pin(&self);

    fn unpin(&self);
}

/// A file that refuses every change.
pub(super) struct ReadOnlyNode<V>(pub(super) V);

pub(super) fn seen_lookup(view: &impl ReadOnlyView, found: Lookup) -> Lookup {
    Lookup { node: view.beside(found.node), attrs: Attrs { view: view.view(), ..found.attrs } }
}

/// A file of a snapshot in a snapshot's own view.
pub(super) struct FrozenView {
    snapshot: Arc<Frozen>,
    inner: NodeRef,
    /// The view of the key: of the snapshot, or of an entry of a directory of snapshots.
    view: ViewId,
}

pub(super) type FrozenNode = ReadOnlyNode<FrozenView>;

impl FrozenNode {
    pub(super) fn node_ref(snapshot: &Arc<Frozen>, inner: NodeRef, view: ViewId) -> NodeRef {
        Arc::new(ReadOnlyNode(FrozenView { snapshot: Arc::clone(snapshot), inner, view }))
    }
}

impl ReadOnlyView for FrozenView {
    type Inner<'v> = &'v NodeRef;

    fn inner(&self) -> FsResult<&NodeRef> {
        self.snapshot.check()?;
        Ok(&self.inner)
    }

    fn any(&self) -> Option<&NodeRef> {
        Some(&self.inner)
    }

    fn key(&self) -> FileKey {
        self.inner.key().in_view(self.view)
    }

    fn view(&self) -> ViewId {
        self.snapshot.view
    }

    fn beside(&self, inner: NodeRef) -> NodeRef {
        FrozenNode::node_ref(&self.snapshot, inner, self.snapshot.view)
    }

    /// The parent in the snapshot. That of its root, and of a directory that was reached through a directory of
    /// snapshots, is the directory of snapshots.
    fn parent(&self) -> FsResult<Lookup> {
        let inner = self.inner()?;
        let key = inner.key();
        if !self.view.is_entry() && key != self.snapshot.root {
            return Ok(seen_lookup(self, inner.parent()?));
        }
        let table = self.snapshot.table.upgrade().ok_or(FsError::Stale)?;
        let node = table.node(&key.in_view(ViewId::DIRECTORY), Blocking::Allowed)?;
        Ok(Lookup { attrs: node.attrs(Blocking::Allowed)?, node })
    }

    fn pin(&self) {
        self.inner.pin();
    }

    fn unpin(&self) {
        self.inner.unpin();
    }
}

impl<V: ReadOnlyView> ReadOnlyNode<V> {
    fn seen(&self, attrs: Attrs) -> Attrs {
        Attrs { view: self.0.view(), ..attrs }
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
                let (key, attrs) = (key.in_view(self.0.view()), self.seen(*attrs));
                sink(&Entry { object: Some((&key, &attrs)), ..*entry })
            }
        };
        match wanted {
            Some(wanted) => self.0.inner()?.read_dir_of(cookie, plus, wanted, &mut seen),
            None => self.0.inner()?.read_dir(cookie, plus, &mut seen),
        }
    }
}

impl<V: ReadOnlyView> Node for ReadOnlyNode<V> {
    fn key(&self) -> FileKey {
        self.0.key()
    }

    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs> {
        Ok(self.seen(self.0.inner()?.attrs(blocking)?))
    }

    fn size(&self, blocking: Blocking) -> FsResult<u64> {
        self.0.inner()?.size(blocking)
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        self.0.inner()?.read(offset, len, into, blocking)
    }

    fn descriptor(&self, offset: u64, len: usize, blocking: Blocking) -> Option<Arc<OwnedFd>> {
        self.0.inner().ok()?.descriptor(offset, len, blocking)
    }

    fn release(&self, _: u64, _: usize) {}

    fn pin(&self) {
        self.0.pin();
    }

    fn unpin(&self) {
        self.0.unpin();
    }

    /// A snapshot is durable from the start.
    fn sync(&self, _: SyncScope) -> FsResult<()> {
        self.0.inner().map(drop)
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        self.0.inner()?.read_link()
    }

    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup> {
        let found = self.0.inner()?.lookup(name, blocking)?;
        Ok(seen_lookup(&self.0, found))
    }

    fn parent(&self) -> FsResult<Lookup> {
        self.0.parent()
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
        self.0.any()?.xattrs().map(|_| self as &dyn Xattrs)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        self.0.any()?.ranges().map(|_| self as &dyn Ranges)
    }

    fn acls(&self) -> Option<&dyn Acls> {
        self.0.any()?.acls().map(|_| self as &dyn Acls)
    }

    refuse_changes!();
}

impl<V: ReadOnlyView> Acls for ReadOnlyNode<V> {
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        self.0.inner()?.acls().ok_or(FsError::NotSupported)?.access_acl(attrs, blocking)
    }

    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>> {
        self.0.inner()?.acls().ok_or(FsError::NotSupported)?.default_acl()
    }

    fn set_access_acl(&self, _: &PosixAcl) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }

    fn set_default_acl(&self, _: Option<&PosixAcl>) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }
}

impl<V: ReadOnlyView> Xattrs for ReadOnlyNode<V> {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        self.0.inner()?.xattrs().ok_or(FsError::NotSupported)?.get(name)
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        self.0.inner()?.xattrs().ok_or(FsError::NotSupported)?.list(cookie, sink)
    }

    fn set(&self, _: XattrName<'_>, _: &[u8], _: SetXattr, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn remove(&self, _: XattrName<'_>, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }
}

impl<V: ReadOnlyView> Ranges for ReadOnlyNode<V> {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        self.0.inner()?.ranges().ok_or(FsError::NotSupported)?.seek(offset, what)
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
        self.0.any().is_some_and(|node| node.ranges().is_some_and(|ranges| ranges.shares_storage(target)))
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        self.0.inner()?.ranges().ok_or(FsError::NotSupported)?.copy_to(target, span, authorize)
    }

    fn clone_to(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.0.inner()?.ranges().ok_or(FsError::NotSupported)?.clone_to(target, span, authorize)
    }
}
