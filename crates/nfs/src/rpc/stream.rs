//! Long WRITEs: what is longer than a receive buffer is written as it comes in, by whoever receives.

use super::admission::Charge;
use super::buffer::Buffer;
use super::dispatch::{Programs, route};
use super::pipe::Pipe;
use super::record::{Frame, parse_frame};
use super::reply::Replies;
use crate::limits::BUFFER_BYTES;
use crate::v3::large::{Beginning, HEAD_BYTES_MAX, LargeWrite};
use nfs_wire::rpc::RecordMark;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use vfs::FsError;
use xdr::Malformed;

/// What must be there of a long call before it is looked at.
pub const HEAD_BYTES: usize = RecordMark::SIZE + HEAD_BYTES_MAX;
/// Bytes of a part that comes through a pipe: enough that what happens once for each part is cheap against the copy.
const PART_BYTES: usize = 256 << 10;
/// With less than this to come, a buffer serves better than a pipe.
const PIPED_BYTES_MIN: usize = 64 << 10;

/// A WRITE whose data is handed on as it comes.
pub struct Stream {
    write: Arc<LargeWrite>,
    /// Data on its way through a pipe, until there is enough of it.
    pipe: Option<Pipe>,
    /// Bytes of data taken.
    at: usize,
    /// Bytes of data in all, and of the record's end with the padding.
    data: usize,
    padded: usize,
}

/// A part of the data: where it begins, and where it is.
pub struct Part<S> {
    /// Where it begins in the data of the WRITE.
    pub at: usize,
    /// Where it is.
    pub source: S,
}

/// What became of data that was to come through the pipe.
pub enum Piped {
    /// It goes on its way.
    Part(Part<Pipe>),
    /// More is to come first.
    Waits,
    /// The client has closed the connection.
    Closed,
}

/// Whether a call of `length` bytes, mark included, is received as a stream, `have` of them being there.
pub fn is_long(length: usize, have: usize) -> bool {
    length > BUFFER_BYTES && have >= HEAD_BYTES
}

impl Stream {
    /// The long WRITE at the front of `buffer`, which begins with its data afterwards. Nothing else may be so long.
    pub fn begin(
        programs: Programs,
        buffer: &mut Buffer,
        admission: Result<Option<Charge>, FsError>,
    ) -> Result<Self, Malformed> {
        let Frame::Incomplete(length) = parse_frame(buffer.bytes(), false)? else {
            return Err(Malformed("a long call that is not long"));
        };
        let head = &buffer.bytes()[RecordMark::SIZE..];
        let Some(routed) = route(programs, head, &mut Replies::default())? else {
            return Err(Malformed("a long call that is refused"));
        };
        let record = length - RecordMark::SIZE;
        let Beginning { write, data_start } = LargeWrite::begin(&routed, head, record, admission)?;
        buffer.start += RecordMark::SIZE + data_start;
        let data = write.len();
        Ok(Self { write: Arc::new(write), pipe: None, at: 0, data, padded: record - data_start })
    }

    /// The call.
    pub fn write(&self) -> &Arc<LargeWrite> {
        &self.write
    }

    /// Whether all data has been taken, so that who deals with the last part answers.
    pub fn is_whole(&self) -> bool {
        self.at >= self.data
    }

    /// Whether everything, padding included, has been taken.
    pub fn is_done(&self) -> bool {
        self.at == self.padded
    }

    /// Whether a pipe is the better way for what is to come: one is being filled, or there is much to come.
    pub fn wants_pipe(&self) -> bool {
        self.pipe.is_some() || self.data.saturating_sub(self.at) >= PIPED_BYTES_MIN
    }

    /// Takes what lies in `buffer`: the range there that is data, unless it is padding only.
    pub fn take(&mut self, buffer: &mut Buffer) -> Option<Part<std::ops::Range<usize>>> {
        let have = buffer.filled - buffer.start;
        let data = have.min(self.data.saturating_sub(self.at));
        let part = Part { at: self.at, source: buffer.start..buffer.start + data };
        let taken = have.min(self.padded - self.at);
        buffer.start += taken;
        self.at += taken;
        (data > 0).then_some(part)
    }

    /// Moves data from the socket, which has some, into a pipe. `None` if there is no pipe to be had.
    pub fn pipe(&mut self, socket: BorrowedFd<'_>) -> Option<io::Result<Piped>> {
        if self.pipe.is_none() {
            self.pipe = Some(Pipe::take().ok()?);
        }
        let pipe = self.pipe.as_mut()?;
        let left = self.data - self.at;
        let is_full = match pipe.fill_from_socket(socket, left) {
            Ok(0) => return Some(Ok(Piped::Closed)),
            Ok(taken) => {
                self.at += taken;
                taken == left || pipe.held() >= PART_BYTES
            }
            // There are bytes, so it is the pipe that has no room: it counts pages, not bytes.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => pipe.held() > 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(error) => return Some(Err(error)),
        };
        let part = if is_full { self.pipe.take() } else { None };
        Some(Ok(
            part.map_or(Piped::Waits, |pipe| Piped::Part(Part { at: self.at - pipe.held(), source: pipe }))
        ))
    }
}
