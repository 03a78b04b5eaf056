//! Attributes of a file with a write delegation: its client is asked for them (RFC 8881 §10.4.3).

use super::super::compound_state::{CompoundState, OpError};
use crate::call::File;
use crate::state::nfs4::write_delegations::WriterAnswer;
use crate::v4::filehandle::Filehandle;
use nfs_wire::v4::{Bitmap, attr};
use vfs::claims::Requester;
use vfs::{Blocking, Wait};

/// Attributes that a client may have changed that has the file delegated for writing.
const CHANGING: Bitmap =
    Bitmap::of(&[attr::CHANGE, attr::SIZE, attr::TIME_ACCESS, attr::TIME_METADATA, attr::TIME_MODIFY]);

impl CompoundState<'_, '_> {
    /// The size that a client with a write delegation reports, before these attributes are returned; `None` if the
    /// storage is up to date.
    #[inline]
    pub(in crate::v4) fn query_writer(&self, attributes: &Bitmap) -> Result<Option<u64>, OpError> {
        if (*attributes & CHANGING).is_empty() {
            return Ok(None);
        }
        match self.current_filehandle()? {
            Filehandle::File(file) if self.call.service.v4.writers.is_empty() => {
                file.recall_writers_for_eof(self.requester(file))?;
                Ok(None)
            }
            Filehandle::File(file) => query_file(self, file),
            Filehandle::Pseudo(_) => Ok(None),
        }
    }
}

fn query_file(cx: &CompoundState<'_, '_>, file: &File) -> Result<Option<u64>, OpError> {
    let (by, holder) = (cx.requester(file), file.delegated_writer());
    if holder.is_some_and(|holder| by == Requester::Holder(holder)) {
        return Ok(None);
    }
    let writer = cx.call.service.v4.writers.of(&(file.volume_id(), file.key()));
    let Some(writer) = writer.filter(|writer| Some(writer.holder) == holder) else {
        // No write delegation, one that is being recalled, or a lease of another protocol.
        file.recall_writers_for_eof(by)?;
        return Ok(None);
    };
    cx.may_wait()?;
    match writer.query(file.volume().now()) {
        WriterAnswer::Known(written) => {
            let stored = file.attrs(Blocking::Allowed)?.size;
            if let Some(is_changed) = writer.mark_applied(&written, stored) {
                let is_told = match written.times {
                    Some((accessed, modified)) => {
                        file.adopt_times(Some(accessed), Some(modified), cx.call.now, None)?
                    }
                    None => false,
                };
                if is_changed && !is_told {
                    file.touch_modified()?;
                }
            }
            Ok(Some(written.size))
        }
        WriterAnswer::Wait => Err(OpError::Wait(Wait::Recall)),
        WriterAnswer::Recall => {
            file.recall_writers_for_eof(by)?;
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests;
