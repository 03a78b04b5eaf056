//! What is told of a file that a client may have written to without saying so: its client is asked (RFC 8881 §10.4.3).

use super::super::ops::{Ops, Stop};
use crate::call::File;
use crate::state::nfs4::writers::Look;
use crate::v4::filehandle::Place;
use nfs_wire::v4::{Bitmap, attr};
use vfs::Blocking;
use vfs::claims::Requester;

/// Attributes that a client may have changed that has the file delegated for writing.
const CHANGING: Bitmap =
    Bitmap::of(&[attr::CHANGE, attr::SIZE, attr::TIME_ACCESS, attr::TIME_METADATA, attr::TIME_MODIFY]);

impl Ops<'_, '_> {
    /// The size of the current file as a client has it that writes without saying so, before some of these attributes are told.
    /// `None`: all is as the storage has it.
    #[inline]
    pub(in crate::v4) fn ask_writer(&self, attributes: &Bitmap) -> Result<Option<u64>, Stop> {
        if (*attributes & CHANGING).is_empty() {
            return Ok(None);
        }
        match self.place()? {
            Place::File(file) if self.call.service.v4.writers.is_empty() => {
                file.recall_writers_for_eof(self.by(file))?;
                Ok(None)
            }
            Place::File(file) => ask(self, file),
            Place::Pseudo(_) => Ok(None),
        }
    }
}

fn ask(ops: &Ops<'_, '_>, file: &File) -> Result<Option<u64>, Stop> {
    let (by, holder) = (ops.by(file), file.delegated_writer());
    if holder.is_some_and(|holder| by == Requester::Holder(holder)) {
        return Ok(None);
    }
    let known = ops.call.service.v4.writers.of(&(file.volume_id(), file.key()));
    let Some(writer) = known.filter(|writer| Some(writer.holder) == holder) else {
        // Nobody, or somebody who is to give the file back, or who caches it otherwise.
        file.recall_writers_for_eof(by)?;
        return Ok(None);
    };
    ops.may_wait()?;
    match writer.look(file.volume().now()) {
        Look::Known(written) => {
            let stored = file.attrs(Blocking::Allowed)?.size;
            if let Some(is_changed) = writer.note(&written, stored) {
                let is_told = match written.times {
                    Some((accessed, modified)) => {
                        file.adopt_times(Some(accessed), Some(modified), ops.call.now, None)?
                    }
                    None => false,
                };
                if is_changed && !is_told {
                    file.touch_modified()?;
                }
            }
            Ok(Some(written.size))
        }
        Look::Wait => Err(Stop::Held),
        Look::Recall => {
            file.recall_writers_for_eof(by)?;
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests;
