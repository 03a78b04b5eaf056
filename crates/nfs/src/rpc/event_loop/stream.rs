//! Long WRITEs: what is longer than a receive buffer is written as it comes in.

use super::{End, EventLoop, malformed};
use crate::rpc::buffer::Buffer;
use crate::rpc::connection::Connection;
use crate::rpc::dispatch::route;
use crate::rpc::job::{Job, Source};
use crate::rpc::pipe::Pipe;
use crate::rpc::record::{Front, front};
use crate::rpc::wire::RecordMark;
use crate::v3::large::{Beginning, HEAD_BYTES_MAX, LargeWrite};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// What must be there of a long call before it is looked at.
pub(super) const STREAM_HEAD: usize = RecordMark::SIZE + HEAD_BYTES_MAX;
/// Parts of one WRITE that may be on their way to the file at one time.
const PARTS_MAX: u32 = 4;
/// Bytes of a part that comes through a pipe: enough that the hop to a storage thread is cheap against the copy.
const PART_BYTES: usize = 256 << 10;
/// With less than this to come, a buffer serves better than a pipe.
const PIPED_BYTES_MIN: usize = 64 << 10;

/// A WRITE whose data is handed on as it comes.
pub(super) struct Stream {
    write: Arc<LargeWrite>,
    /// Data on its way through a pipe, until there is enough to be worth a hop.
    pipe: Option<Pipe>,
    /// Bytes of data taken.
    at: usize,
    /// Bytes of data in all, and of the record's end with the padding.
    data: usize,
    padded: usize,
}

impl Stream {
    /// Whether a pipe is the better way for what is to come: one is being filled, or there is much to come.
    pub(super) fn wants_pipe(&self) -> bool {
        self.pipe.is_some() || self.data.saturating_sub(self.at) >= PIPED_BYTES_MIN
    }

    /// Moves data from the socket into the pipe: whether the pipe shall go on its way. `None` if there is no pipe.
    fn fill_pipe(&mut self, socket: BorrowedFd<'_>) -> Option<Result<bool, End>> {
        if self.pipe.is_none() {
            self.pipe = Some(Pipe::take().ok()?);
        }
        let pipe = self.pipe.as_mut()?;
        let left = self.data - self.at;
        Some(match pipe.fill_from_socket(socket, left) {
            Ok(0) => Err(End::Closed),
            Ok(taken) => {
                self.at += taken;
                Ok(taken == left || pipe.held() >= PART_BYTES)
            }
            // The event said that there are bytes, so it is the pipe that has no room: it counts pages, not bytes.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(pipe.held() > 0),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(End::Error(error.to_string())),
        })
    }
}

impl EventLoop {
    /// Takes data of a long WRITE from the socket without looking at it; `None` if there is no pipe to be had.
    pub(super) fn receive_piped(&mut self, token: u64) -> Option<Result<(), End>> {
        let inbound = self.connections.get_mut(&token)?;
        let stream = inbound.stream.as_mut()?;
        let connection = &inbound.connection;
        let is_full = match stream.fill_pipe(connection.socket.as_fd())? {
            Ok(is_full) => is_full,
            Err(end) => return Some(Err(end)),
        };
        if is_full && let Some(pipe) = stream.pipe.take() {
            let begins = stream.at - pipe.held();
            let ended = stream.at == stream.padded;
            let (write, connection) = (Arc::clone(&stream.write), Arc::clone(connection));
            if ended {
                inbound.stream = None;
            }
            self.hand_on(&connection, &write, begins, Source::Piped(pipe), ended);
        }
        Some(Ok(()))
    }

    /// Hands a part of a long WRITE to a storage thread; with enough of them on their way, the connection pauses.
    fn hand_on(
        &self,
        connection: &Arc<Connection>,
        write: &Arc<LargeWrite>,
        at: usize,
        source: Source,
        ended: bool,
    ) {
        if write.hand_on() >= PARTS_MAX && !ended {
            connection.set_paused(true);
        }
        self.shared.pool.submit(Job::part(connection, write, at, source));
        if connection.is_paused() && write.parts() < PARTS_MAX && !ended {
            connection.set_paused(false);
        }
    }

    /// Hands on what has come of a long WRITE; what follows it in the buffer comes back.
    pub(super) fn stream(&mut self, token: u64, mut buffer: Buffer) -> Option<Buffer> {
        let inbound = self.connections.get_mut(&token)?;
        let stream = inbound.stream.as_mut()?;
        let have = buffer.filled - buffer.start;
        let data = have.min(stream.data.saturating_sub(stream.at));
        let range = buffer.start..buffer.start + data;
        let at = stream.at;
        let taken = have.min(stream.padded - at);
        buffer.start += taken;
        stream.at += taken;
        let (write, ended) = (Arc::clone(&stream.write), stream.at == stream.padded);
        let connection = Arc::clone(&inbound.connection);
        if ended {
            inbound.stream = None;
        }
        if data == 0 {
            return (!buffer.is_done()).then_some(buffer);
        }
        let rest = (!buffer.is_done()).then(|| self.shared.buffers.take_always(buffer.bytes()));
        self.hand_on(&connection, &write, at, Source::Received(buffer, range), ended);
        rest
    }

    /// Begins a call that is longer than a buffer: a WRITE, or it is refused.
    pub(super) fn begin_stream(&mut self, token: u64, mut buffer: Buffer) -> Result<(), End> {
        let Some(inbound) = self.connections.get_mut(&token) else { return Ok(()) };
        let Front::Incomplete(length) = front(buffer.bytes(), false).map_err(malformed)? else {
            return Ok(());
        };
        let head = &buffer.bytes()[RecordMark::SIZE..];
        let routed = route(inbound.connection.programs, head, &mut self.replies).map_err(malformed)?;
        let Some(routed) = routed else {
            return Err(End::Error("a long call that is refused".into()));
        };
        let Beginning { write, data_start } =
            LargeWrite::begin(&routed, head, length - RecordMark::SIZE).map_err(malformed)?;
        let data = write.len();
        inbound.connection.defer(1);
        inbound.stream = Some(Stream {
            write: Arc::new(write),
            pipe: None,
            at: 0,
            data,
            padded: length - RecordMark::SIZE - data_start,
        });
        buffer.start += RecordMark::SIZE + data_start;
        // The record is longer than the buffer, so nothing follows it there.
        self.stream(token, buffer);
        Ok(())
    }
}
