//! Ranges of the files of a [`super::MemFs`].

use super::node::MemNode;
use super::pages::{PAGE_BYTES, Pages};
use super::store::{Body, Inode, Store};
use std::any::Any;
use std::sync::Arc;
use vfs::backend::ranges::COPY_BYTES_MAX;
use vfs::{AuthorizeWrite, Change, FsError, FsResult, NodeRef, Ranges, Seek, Span};

impl Ranges for MemNode {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        self.contents()?.seek(offset, what)
    }

    fn allocate(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.alter(offset, len, authorize, |pages, room| pages.allocate(offset, len, room))
    }

    fn preallocate(&self, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.alter(0, len, authorize, |pages, room| pages.preallocate(len, room))
    }

    fn punch(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.alter(0, u64::from(len > 0), authorize, |pages, _| {
            pages.punch(offset, len);
            Ok(())
        })
    }

    fn zero(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.punch(offset, len, authorize)
    }

    fn shares_storage(&self, target: &NodeRef) -> bool {
        of_this_kind(target).is_ok_and(|target| Arc::ptr_eq(&self.fs, &target.fs))
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        let target = of_this_kind(target)?;
        let pages = self.contents()?;
        let span = Span { len: span.len.min(pages.size().saturating_sub(span.source)), ..*span };
        let count = span.len.min(COPY_BYTES_MAX);
        let change = target.alter(span.target, count, authorize, |copy, _| {
            self.check_overlap(target, &span)?;
            let mut data = Vec::new();
            pages.read(span.source, usize::try_from(count).map_err(|_| FsError::Resource)?, &mut data);
            copy.write(span.target, &data);
            Ok(())
        })?;
        Ok((count, change))
    }

    fn clone_to(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        let target = of_this_kind(target)?;
        let pages = self.contents()?;
        target.alter(span.target, span.len, authorize, |copy, _| {
            self.check_overlap(target, span)?;
            span.check_clone(PAGE_BYTES as u64, pages.size(), copy.size())?;
            copy.share(&pages, span);
            Ok(())
        })
    }
}

impl MemNode {
    /// The contents as they are now: pages are shared until one of the two is written.
    fn contents(&self) -> FsResult<Pages> {
        regular(self.fs.lock().inode(self.id)?).cloned()
    }

    /// Changes the contents with `act`, which receives the free space, if `authorize` allows it. Afterwards `len` bytes
    /// at `offset` are in the file. Does nothing if `len` is 0.
    fn alter(
        &self,
        offset: u64,
        len: u64,
        authorize: AuthorizeWrite<'_>,
        act: impl FnOnce(&mut Pages, u64) -> FsResult<()>,
    ) -> FsResult<Change> {
        let alter = |store: &mut Store, before: &_, now| {
            let mut pages = regular(store.inode(self.id)?)?.clone();
            let clears = authorize(before)?;
            if len == 0 {
                return Ok(());
            }
            let end = offset.checked_add(len);
            if end.is_none_or(|end| end > self.fs.limits.file_bytes_max) {
                return Err(FsError::FileTooBig);
            }
            act(&mut pages, store.room())?;
            store.replace_contents(self.id, pages, clears, now)
        };
        Ok(self.change(alter)?.1)
    }

    fn check_overlap(&self, target: &Self, span: &Span) -> FsResult<()> {
        let same = Arc::ptr_eq(&self.fs, &target.fs) && self.id == target.id;
        if same && span.overlaps() { Err(FsError::Invalid) } else { Ok(()) }
    }
}

fn of_this_kind(node: &NodeRef) -> FsResult<&MemNode> {
    let node: &dyn Any = &**node;
    node.downcast_ref().ok_or(FsError::CrossVolume)
}

fn regular(inode: &Inode) -> FsResult<&Pages> {
    match &inode.body {
        Body::Regular(pages) => Ok(pages),
        Body::Directory(_) => Err(FsError::IsDirectory),
        Body::Symlink(_) | Body::Special => Err(FsError::Invalid),
    }
}
