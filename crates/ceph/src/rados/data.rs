//! Large values as the data of objects.

use super::error::out_of_bounds;
use super::{Rados, object_name};
use crate::ffi::rados::{WriteOperation, read_data};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;

/// Data is moved in such pieces, as those of CephFS and block devices.
const PIECE_BYTES: usize = 4 << 20;
/// `osd_max_object_size`.
const BLOB_BYTES_MAX: usize = 128 << 20;

impl Rados {
    /// Makes `bytes`, at most 128 MiB, the data of an object, and returns when they are durable. The pairs of the object
    /// stay.
    ///
    /// More than 4 MiB are written in several steps: a reader may see some of them, also after a crash of the writer. Write
    /// to a new object, and name it in a change afterwards.
    pub fn write_blob(&self, object: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > BLOB_BYTES_MAX {
            let count = bytes.len();
            return Err(out_of_bounds(format!("a blob has up to {BLOB_BYTES_MAX} bytes, not {count}")));
        }
        let name = object_name(object)?;
        self.write_pieces(&name, bytes).map_err(|errno| self.failed("write", object, errno))
    }

    fn write_pieces(&self, name: &CStr, bytes: &[u8]) -> Result<(), Errno> {
        let (first, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES));
        let mut operation = WriteOperation::new(&self.pool)?;
        operation.replace_data(first);
        operation.run(&self.pool, name)?;
        let mut offset = PIECE_BYTES as u64;
        for piece in rest.chunks(PIECE_BYTES) {
            let mut operation = WriteOperation::new(&self.pool)?;
            operation.write_data(piece, offset);
            operation.run(&self.pool, name)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// The data of an object; `None` if the object does not exist.
    pub fn read_blob(&self, object: &str) -> io::Result<Option<Vec<u8>>> {
        let name = object_name(object)?;
        self.unless_missing("read", object, self.read_pieces(&name))
    }

    fn read_pieces(&self, name: &CStr) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        loop {
            let start = bytes.len();
            bytes.resize(start + PIECE_BYTES, 0);
            let read = read_data(&self.pool, name, &mut bytes[start..], start as u64)?;
            bytes.truncate(start + read);
            if read < PIECE_BYTES {
                return Ok(bytes);
            }
        }
    }

    /// Removes an object with its pairs. Whether it existed.
    pub fn remove(&self, object: &str) -> io::Result<bool> {
        let name = object_name(object)?;
        let run = || {
            let mut operation = WriteOperation::new(&self.pool)?;
            operation.remove_object();
            operation.run(&self.pool, &name)
        };
        Ok(self.unless_missing("remove", object, run())?.is_some())
    }
}
