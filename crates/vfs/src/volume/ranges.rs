//! Ranges of the data of files: holes, storage, copies.

use super::file::authorize_write;
use super::{Stability, Volume, check_writable};
use crate::{Attrs, Blocking, Caller, Change, FsError, FsResult, NodeRef, PendingSync, Ranges, Seek, Span};

impl Volume {
    /// Where data or a hole begins in a file that `caller` may read: its attributes, and what [`Ranges::seek`] says.
    pub fn seek(
        &self,
        caller: &Caller,
        file: &NodeRef,
        offset: u64,
        what: Seek,
    ) -> FsResult<(Attrs, Option<u64>)> {
        let attrs = self.open_read(caller, file, Blocking::Allowed)?;
        Ok((attrs, ranges(file)?.seek(offset, what)?))
    }

    /// Takes storage for `len` bytes at `offset`, as [`Ranges::allocate`] says.
    pub fn allocate(
        &self,
        caller: &Caller,
        file: &NodeRef,
        (offset, len): (u64, u64),
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        check_writable(caller)?;
        let change = ranges(file)?.allocate(offset, len, &|attrs| authorize_write(caller, attrs))?;
        self.stabilize(file, stability, pending);
        Ok(change)
    }

    /// Gives the storage of `len` bytes at `offset` back, which read as zeros then, as [`Ranges::punch`] says.
    pub fn deallocate(
        &self,
        caller: &Caller,
        file: &NodeRef,
        (offset, len): (u64, u64),
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        check_writable(caller)?;
        let change = ranges(file)?.punch(offset, len, &|attrs| authorize_write(caller, attrs))?;
        self.stabilize(file, stability, pending);
        Ok(change)
    }

    /// Makes `len` bytes at `offset` read as zeros, as [`Ranges::zero`] says.
    pub fn zero(
        &self,
        caller: &Caller,
        file: &NodeRef,
        (offset, len): (u64, u64),
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        check_writable(caller)?;
        let change = ranges(file)?.zero(offset, len, &|attrs| authorize_write(caller, attrs))?;
        self.stabilize(file, stability, pending);
        Ok(change)
    }

    /// Copies a range of `source` to `target`, perhaps only its beginning, as [`Ranges::copy_to`] says: how many bytes, and
    /// what that did to `target`, which is of this volume. `caller` may read the one and write the other.
    pub fn copy(
        &self,
        caller: &Caller,
        (source, target): (&NodeRef, &NodeRef),
        span: &Span,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<(u64, Change)> {
        check_writable(caller)?;
        self.open_read(caller, source, Blocking::Allowed)?;
        let done = ranges(source)?.copy_to(target, span, &|attrs| authorize_write(caller, attrs))?;
        self.stabilize(target, stability, pending);
        Ok(done)
    }

    /// Lets a range of `target`, which is of this volume, share the storage of `source`, as [`Ranges::clone_to`] says.
    /// `caller` may read the one and write the other.
    pub fn clone_range(
        &self,
        caller: &Caller,
        (source, target): (&NodeRef, &NodeRef),
        span: &Span,
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        check_writable(caller)?;
        self.open_read(caller, source, Blocking::Allowed)?;
        let change = ranges(source)?.clone_to(target, span, &|attrs| authorize_write(caller, attrs))?;
        self.stabilize(target, stability, pending);
        Ok(change)
    }
}

fn ranges(node: &NodeRef) -> FsResult<&dyn Ranges> {
    node.ranges().ok_or(FsError::NotSupported)
}
