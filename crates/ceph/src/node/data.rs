//! Reads and writes contents.

use super::Node;
use super::setattr::set_size;
use crate::error::refused;
use crate::ffi::{Handle, SetMask, Statx};
use vfs::acl::access::set_id_bits;
use vfs::{Attrs, AuthorizeWrite, Change, FsError, FsResult};

/// The largest offset that the library takes.
const OFFSET_MAX: u64 = i64::MAX.unsigned_abs();

impl Node {
    pub(super) fn read_data(&self, offset: u64, len: usize, into: &mut Vec<u8>) -> FsResult<usize> {
        self.check_regular()?;
        // No data can be past the largest offset.
        let room = usize::try_from(OFFSET_MAX.saturating_sub(offset)).unwrap_or(usize::MAX);
        let size = self.stat()?.stat.size;
        let rest = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = len.min(room).min(rest);
        if len == 0 {
            return Ok(0);
        }
        self.reader()?.read(offset, len, into).map_err(refused)
    }

    pub(super) fn write_data(
        &self,
        offset: u64,
        data: &[u8],
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<Change> {
        self.check_regular()?;
        let end = self.check_end(offset, data.len() as u64)?;
        let end = (!data.is_empty()).then_some(end);
        Ok(self.alter(end, authorize, |handle, _| write_fully(handle, offset, data))?.1)
    }

    /// Changes the contents of this regular file with `act`, if `authorize` allows it. The file then reaches at least to
    /// `end`. With `end` = `None` only the check is done.
    pub(super) fn alter<T>(
        &self,
        end: Option<u64>,
        authorize: AuthorizeWrite<'_>,
        act: impl FnOnce(&Handle, &Attrs) -> FsResult<T>,
    ) -> FsResult<(Option<T>, Change)> {
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        let clears = authorize(&before)?;
        let Some(end) = end else { return Ok((None, Change { before, after: before })) };
        let handle = self.writer()?;
        let resize = self.tree.charge_resize(&guard, &before, before.size.max(end))?;
        guard.begin();
        let set_id = if clears { set_id_bits(before.mode) } else { 0 };
        // First, so that nobody can run the new contents with the old set-id bits.
        if set_id != 0
            && let Err(error) = self.set_mode(before.mode & !set_id)
        {
            resize.end(before.size);
            return Err(error);
        }
        let done = match act(&handle, &before) {
            Ok(done) => done,
            Err(error) => {
                // These errors leave the contents unchanged.
                let is_refused =
                    matches!(error, FsError::Invalid | FsError::NotSupported | FsError::CrossVolume);
                if set_id != 0 && is_refused {
                    self.set_mode(before.mode)?;
                }
                // If the size cannot be read, the file stays charged for all of it.
                self.truncate_growth(&before, error).map(|size| resize.end(size))?;
                return Err(error);
            }
        };
        let after = guard.attrs_after(&before)?;
        resize.end(after.size);
        Ok((Some(done), Change { before, after }))
    }

    fn set_mode(&self, mode: u32) -> FsResult<()> {
        let stat = Statx { mode: u16::try_from(mode).map_err(|_| FsError::Invalid)?, ..Statx::default() };
        self.inode()?.set_attrs(SetMask::MODE, &stat).map_err(refused)
    }

    /// Truncates a file after a write that ran out of space, so that a write succeeds whole or not at all. Returns the
    /// size of the file.
    fn truncate_growth(&self, before: &Attrs, error: FsError) -> FsResult<u64> {
        let size = self.stat_any()?.stat.size;
        let is_full = matches!(error, FsError::NoSpace | FsError::FileTooBig);
        if !is_full || size <= before.size {
            return Ok(size);
        }
        set_size(&*self.inode()?, before.size).map_err(refused)?;
        Ok(before.size)
    }

    /// The end of a write: 0 for an empty write, [`FsError::FileTooBig`] past the largest size.
    pub(super) fn check_end(&self, offset: u64, len: u64) -> FsResult<u64> {
        let end = offset.checked_add(len).filter(|&end| end <= self.tree.file_bytes_max);
        let end = end.ok_or(FsError::FileTooBig)?;
        Ok(if len == 0 { 0 } else { end })
    }
}

pub(super) fn write_fully(handle: &Handle, offset: u64, data: &[u8]) -> FsResult<()> {
    handle.write_all(offset, data).map_err(refused)
}
