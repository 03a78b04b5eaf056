//! Ranges of the data of files: holes, storage, copies.

use super::opened::{Opened, Stability};
use crate::access::Access;
use crate::attrs::Change;
use crate::durable::PendingSync;
use crate::error::{FsError, FsResult};
use crate::ranges::{Ranges, Seek, Span};

impl Opened<'_> {
    /// Where data or a hole begins, as [`Ranges::seek`] says.
    pub fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        self.check_read(offset, u64::MAX)?;
        self.ranges()?.seek(offset, what)
    }

    /// Takes storage for `len` bytes at `offset`, as [`Ranges::allocate`] says.
    pub fn allocate(
        &self,
        offset: u64,
        len: u64,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check(Access::WRITE)?;
        let change =
            self.ranges()?.allocate(offset, len, &|attrs| self.authorize_change(attrs, offset, len))?;
        self.stabilize(stability, pending);
        Ok(change)
    }

    /// Gives the storage of `len` bytes at `offset` back, which read as zeros then, as [`Ranges::punch`] says.
    pub fn deallocate(
        &self,
        offset: u64,
        len: u64,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check(Access::WRITE)?;
        let change = self.ranges()?.punch(offset, len, &|attrs| self.authorize_change(attrs, offset, len))?;
        self.stabilize(stability, pending);
        Ok(change)
    }

    /// Makes `len` bytes at `offset` read as zeros, as [`Ranges::zero`] says.
    pub fn zero(
        &self,
        offset: u64,
        len: u64,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check(Access::WRITE)?;
        let change = self.ranges()?.zero(offset, len, &|attrs| self.authorize_change(attrs, offset, len))?;
        self.stabilize(stability, pending);
        Ok(change)
    }

    /// Copies a range of this file to `target`, perhaps only its beginning, as [`Ranges::copy_to`] says: how many bytes, and
    /// what that did to `target`, which must be of the same volume ([`FsError::CrossVolume`]).
    pub fn copy_to(
        &self,
        target: &Opened<'_>,
        span: &Span,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<(u64, Change)> {
        self.check_pair(target, span)?;
        let node = &target.file().node;
        let done = self
            .ranges()?
            .copy_to(node, span, &|attrs| target.authorize_change(attrs, span.target, span.len))?;
        target.stabilize(stability, pending);
        Ok(done)
    }

    /// Lets a range of `target` share the storage of this file, as [`Ranges::clone_to`] says. Both must be of one volume
    /// ([`FsError::CrossVolume`]).
    pub fn clone_to(
        &self,
        target: &Opened<'_>,
        span: &Span,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_pair(target, span)?;
        let node = &target.file().node;
        let change = self
            .ranges()?
            .clone_to(node, span, &|attrs| target.authorize_change(attrs, span.target, span.len))?;
        target.stabilize(stability, pending);
        Ok(change)
    }

    /// Each of the two carries the rights that its own export gives.
    fn check_pair(&self, target: &Opened<'_>, span: &Span) -> FsResult<()> {
        self.check_read(span.source, span.len)?;
        target.check(Access::WRITE)?;
        let same = std::ptr::eq(self.file().volume(), target.file().volume());
        if same { Ok(()) } else { Err(FsError::CrossVolume) }
    }

    fn ranges(&self) -> FsResult<&dyn Ranges> {
        self.file().node.ranges().ok_or(FsError::NotSupported)
    }
}
