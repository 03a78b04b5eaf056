//! The data of files: read, write, commit.

use super::{Volume, check_writable};
use crate::access::{self, Access};
use crate::{
    Attrs, Blocking, Caller, Change, Durability, FileType, FsError, FsResult, NodeRef, PendingSync, SyncScope,
};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// Before it is durable; the client commits later.
    Unstable,
    /// When the data are durable.
    Data,
    /// When data and attributes are durable.
    File,
}

/// What was taken for a write in several parts. Given back, as far as it was not used, when this is dropped.
pub struct Reserved {
    file: NodeRef,
    offset: u64,
    len: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.file.release(self.offset, self.len);
    }
}

impl Volume {
    /// Checks that `caller` may read `file`; its attributes from *before* any data is read, so that they are never
    /// newer than the data: a client that caches both asks again instead of trusting old data.
    #[inline]
    pub fn open_read(&self, caller: &Caller, file: &NodeRef, blocking: Blocking) -> FsResult<Attrs> {
        let attrs = file.attrs(blocking)?;
        check_regular(&attrs)?;
        access::check_data(&attrs, caller, Access::READ)?;
        Ok(attrs)
    }

    /// A descriptor to splice `len` bytes at `offset` from, for a caller that passed [`Volume::open_read`]; `None`
    /// where a plain read serves better.
    pub fn read_descriptor(
        &self,
        file: &NodeRef,
        offset: u64,
        len: usize,
        blocking: Blocking,
    ) -> Option<Arc<OwnedFd>> {
        file.descriptor(offset, len, blocking)
    }

    /// Writes all of `data` at `offset`. Set-id bits go unless root writes.
    pub fn write(
        &self,
        caller: &Caller,
        file: &NodeRef,
        offset: u64,
        data: &[u8],
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_write(caller, offset, data.len())?;
        let change = file.write(offset, data, &|attrs| admit_write(caller, attrs))?;
        self.stabilize(file, stability, pending);
        Ok(change)
    }

    /// Takes what a write of `len` bytes at `offset` in several parts needs before the first of them, so that it is done
    /// whole or refused whole.
    pub fn reserve(&self, caller: &Caller, file: &NodeRef, offset: u64, len: usize) -> FsResult<Reserved> {
        self.check_write(caller, offset, len)?;
        file.reserve(offset, len, &|attrs| admit_write(caller, attrs))?;
        Ok(Reserved { file: NodeRef::clone(file), offset, len })
    }

    /// As [`Volume::write`], unstable, for the `len` bytes that `pipe` holds.
    pub fn write_from_pipe(
        &self,
        caller: &Caller,
        file: &NodeRef,
        offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> FsResult<Change> {
        self.check_write(caller, offset, len)?;
        file.write_from_pipe(offset, pipe, len, &|attrs| admit_write(caller, attrs))
    }

    fn check_write(&self, caller: &Caller, offset: u64, len: usize) -> FsResult<()> {
        check_writable(caller)?;
        let end = offset.checked_add(len as u64).ok_or(FsError::FileTooBig)?;
        if end > self.limits().file_bytes_max { Err(FsError::FileTooBig) } else { Ok(()) }
    }

    /// Adds the flush that makes earlier writes of `file` as stable as `stability` says.
    pub fn stabilize(&self, file: &NodeRef, stability: Stability, pending: &mut PendingSync) {
        match stability {
            Stability::Unstable => {}
            Stability::Data => self.require_sync(pending, file, SyncScope::Data),
            Stability::File => self.require_sync(pending, file, SyncScope::All),
        }
    }

    /// Makes all unstable writes to `file` durable: what that did, and the verifier that tells whether all of them were
    /// still there. RFC 1813 §3.3.21 lets whoever holds the handle commit; the caller must be one who may write, so that
    /// readers cannot load the disk.
    pub fn commit(&self, caller: &Caller, file: &NodeRef) -> FsResult<(Change, u64)> {
        check_writable(caller)?;
        let attrs = file.attrs(Blocking::Allowed)?;
        check_data_write(caller, &attrs)?;
        if self.durability == Durability::Sync {
            file.sync(SyncScope::All)?;
        }
        // Only now: a flush that failed before this one has been counted.
        Ok((Change { before: attrs, after: attrs }, self.write_verifier()))
    }
}

/// Whether `caller` may write a file with these attributes, and if so, whether that takes its set-id bits away.
fn admit_write(caller: &Caller, attrs: &Attrs) -> FsResult<bool> {
    check_data_write(caller, attrs)?;
    Ok(access::write_clears_set_id(attrs, caller))
}

fn check_data_write(caller: &Caller, attrs: &Attrs) -> FsResult<()> {
    check_regular(attrs)?;
    access::check_data(attrs, caller, Access::WRITE)
}

/// Data is read and written in regular files only.
fn check_regular(attrs: &Attrs) -> FsResult<()> {
    match attrs.file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid),
    }
}
