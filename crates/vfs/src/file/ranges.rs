//! Ranges of the data of files: holes, storage, copies.

use super::open_file::{OpenFile, Stability};
use crate::acl::access::Access;
use crate::backend::AuthorizeWrite;
use crate::backend::durability::PendingSync;
use crate::backend::ranges::{Ranges, Seek, Span};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, Change};

impl OpenFile<'_> {
    /// Finds data or a hole, as [`Ranges::seek`] does. No content is revealed, so byte-range locks do not apply.
    pub fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        self.check_read(offset, 0)?;
        self.ranges()?.seek(offset, what)
    }

    pub fn allocate(
        &self,
        offset: u64,
        len: u64,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let allocate = |authorize: AuthorizeWrite<'_>| self.ranges()?.allocate(offset, len, authorize);
        self.file().data_changed(self.change(offset, len, stability, pending, allocate)?)
    }

    pub fn preallocate(&self, len: u64, stability: Stability, pending: &mut PendingSync) -> FsResult<Change> {
        self.check(Access::WRITE)?;
        let authorize =
            |attrs: &Attrs| self.authorize_change(attrs, attrs.size, len.saturating_sub(attrs.size));
        let change = self.ranges()?.preallocate(len, &authorize)?;
        self.schedule_sync(stability, pending);
        self.file().data_changed(change)
    }

    /// Deallocates `len` bytes at `offset`, which read as zeros afterwards, like [`Ranges::punch`].
    pub fn deallocate(
        &self,
        offset: u64,
        len: u64,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let punch = |authorize: AuthorizeWrite<'_>| self.ranges()?.punch(offset, len, authorize);
        self.file().data_changed(self.change(offset, len, stability, pending, punch)?)
    }

    pub fn zero(
        &self,
        offset: u64,
        len: u64,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let zero = |authorize: AuthorizeWrite<'_>| self.ranges()?.zero(offset, len, authorize);
        self.file().data_changed(self.change(offset, len, stability, pending, zero)?)
    }

    /// [`FsError::CrossVolume`] unless this file can be copied and cloned to `target`.
    /// Both must be in one volume or in one file system. [`FsError::ReadOnly`] if `target` is not live.
    pub fn reaches(&self, target: &OpenFile<'_>) -> FsResult<()> {
        let (source, target) = (self.file(), target.file());
        if !target.is_live() {
            return Err(FsError::ReadOnly);
        }
        let is_near =
            std::ptr::eq(source.volume(), target.volume()) || self.ranges()?.shares_storage(target.data());
        if is_near { Ok(()) } else { Err(FsError::CrossVolume) }
    }

    /// Copies a range of this file to `target`, perhaps only its beginning, like [`Ranges::copy_to`]. Returns the
    /// number of bytes and the change of `target`, which must be in reach ([`OpenFile::reaches`]).
    pub fn copy_to(
        &self,
        target: &OpenFile<'_>,
        span: &Span,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<(u64, Change)> {
        let copy = |authorize: AuthorizeWrite<'_>| {
            self.check_source(target, span)?.copy_to(target.file().data(), span, authorize)
        };
        let (bytes, change) = target.change(span.target, span.len, stability, pending, copy)?;
        Ok((bytes, target.file().data_changed(change)?))
    }

    /// Lets a range of `target` share the storage of this file, as [`Ranges::clone_to`] says, if it is in reach
    /// ([`OpenFile::reaches`]).
    pub fn clone_to(
        &self,
        target: &OpenFile<'_>,
        span: &Span,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let clone = |authorize: AuthorizeWrite<'_>| {
            self.check_source(target, span)?.clone_to(target.file().data(), span, authorize)
        };
        target.file().data_changed(target.change(span.target, span.len, stability, pending, clone)?)
    }

    /// Runs `act`, a change of `len` bytes at `offset`, on the data's node. `act` calls its argument under the
    /// backend's lock.
    fn change<R>(
        &self,
        offset: u64,
        len: u64,
        stability: Stability,
        pending: &mut PendingSync,
        act: impl FnOnce(AuthorizeWrite<'_>) -> FsResult<R>,
    ) -> FsResult<R> {
        self.check(Access::WRITE)?;
        let done = act(&|attrs| self.authorize_change(attrs, offset, len))?;
        self.schedule_sync(stability, pending);
        Ok(done)
    }

    /// Returns the source of a copy to `target`. Each of the two carries the rights of its own export.
    fn check_source(&self, target: &OpenFile<'_>, span: &Span) -> FsResult<&dyn Ranges> {
        self.reaches(target)?;
        self.check_read(span.source, span.len)?;
        self.ranges()
    }

    fn ranges(&self) -> FsResult<&dyn Ranges> {
        self.file().data().ranges().ok_or(FsError::NotSupported)
    }
}
