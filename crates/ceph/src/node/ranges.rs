//! Ranges of a regular file. The engine does not tell holes, allocates nothing beforehand and shares no data.
//!
//! A volume is charged by the sizes of its files, holes too. So an allocation is its charge: no later write within the
//! file can exceed the capacity of the volume.

use super::Node;
use super::data::write_fully;
use super::setattr::set_size;
use crate::cluster::Cluster;
use crate::error::refused;
use crate::ffi::Handle;
use std::any::Any;
use std::sync::Arc;
use vfs::backend::ranges::COPY_BYTES_MAX;
use vfs::{AuthorizeWrite, Change, FsError, FsResult, NodeRef, Ranges, Seek, Span};

/// Bytes that one step of a copy reads and writes.
const STEP_BYTES: usize = 1 << 20;

impl Ranges for Node {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        self.check_regular()?;
        let size = self.stat()?.stat.size;
        match what {
            _ if offset >= size => Err(FsError::NoDevice),
            Seek::Data => Ok(Some(offset)),
            Seek::Hole => Ok(Some(size)),
        }
    }

    fn allocate(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.check_regular()?;
        let end = self.check_end(offset, len)?;
        let change = self.alter((len > 0).then_some(end), authorize, |_, before| {
            if end <= before.size {
                return Ok(());
            }
            set_size(&*self.inode()?, end).map_err(refused)
        })?;
        Ok(change.1)
    }

    fn preallocate(&self, _: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.check_regular()?;
        let _locked = self.lock_change();
        authorize(&self.attrs_now()?)?;
        Err(FsError::NotSupported)
    }

    fn punch(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.zero(offset, len, authorize)
    }

    fn zero(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.check_regular()?;
        let change = self.alter((len > 0).then_some(0), authorize, |handle, before| {
            let end = offset.saturating_add(len).min(before.size);
            if offset >= end {
                return Ok(());
            }
            handle.punch(offset, end - offset).map_err(refused)
        })?;
        Ok(change.1)
    }

    fn shares_storage(&self, target: &NodeRef) -> bool {
        let target: &dyn Any = &**target;
        target.downcast_ref::<Self>().is_some_and(|target| target.is_in(&self.tree.cluster))
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        self.check_regular()?;
        let target = as_live(target)?;
        let len = span.len.min(self.stat()?.stat.size.saturating_sub(span.source));
        target.copy_here(&Span { len, ..*span }, authorize, || {
            let overlaps = self.key == target.key && (Span { len, ..*span }).overlaps();
            if overlaps { Err(FsError::Invalid) } else { self.reader() }
        })
    }

    fn clone_to(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.check_regular()?;
        let target: &dyn Any = &**target;
        let target: &Self = target.downcast_ref().ok_or(FsError::CrossVolume)?;
        target.check_regular()?;
        target.check_end(span.target, span.len)?;
        let any = (span.len > 0).then_some(0);
        let refused = target.alter(any, authorize, |_, _| Err::<(), _>(FsError::NotSupported))?;
        Ok(refused.1)
    }
}

/// `target` as a file that data of this storage can be copied to.
pub(crate) fn as_live(target: &NodeRef) -> FsResult<&Node> {
    let target: &dyn Any = &**target;
    target.downcast_ref().ok_or(FsError::CrossVolume)
}

impl Node {
    pub(crate) fn is_in(&self, cluster: &Arc<Cluster>) -> bool {
        Arc::ptr_eq(&self.tree.cluster, cluster)
    }

    /// Copies data to this file, as much of `span` as one call may. `source` opens the file that has it.
    pub(crate) fn copy_here(
        &self,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
        source: impl Fn() -> FsResult<Arc<Handle>>,
    ) -> FsResult<(u64, Change)> {
        self.check_regular()?;
        let count = span.len.min(COPY_BYTES_MAX);
        let end = self.check_end(span.target, count)?;
        let copied = self.alter((count > 0).then_some(end), authorize, |handle, _| {
            let (source, mut copied, mut buffer) = (source()?, 0, Vec::new());
            while copied < count {
                let room = usize::try_from(count - copied).map_or(STEP_BYTES, |rest| rest.min(STEP_BYTES));
                buffer.clear();
                let read = source.read(span.source + copied, room, &mut buffer).map_err(refused)?;
                if read == 0 {
                    break;
                }
                match write_fully(handle, span.target + copied, &buffer) {
                    Ok(()) => copied += read as u64,
                    // A partial copy is a valid result.
                    Err(_) if copied > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(copied)
        });
        copied.map(|(copied, change)| (copied.unwrap_or(0), change))
    }
}
