//! Long WRITEs of connections that no storage thread has leased: their parts are handed on as they come.

use super::{End, EventLoop, malformed};
use crate::rpc::admission::{LongCall, admit_long};
use crate::rpc::buffer::Buffer;
use crate::rpc::connection::Connection;
use crate::rpc::job::{Job, Source};
use crate::rpc::record::{Frame, parse_frame};
use crate::rpc::stream::{Part, Piped, Stream};
use crate::v3::large::LargeWrite;
use nfs_wire::rpc::RecordMark;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Parts of one WRITE that may be on their way to the file at one time.
const PARTS_MAX: u32 = 4;

impl EventLoop {
    /// Takes data of a long WRITE from the socket without looking at it; `None` if there is no pipe to be had.
    pub(super) fn receive_piped(&mut self, token: u64) -> Option<Result<(), End>> {
        let inbound = self.connections.get_mut(&token)?;
        let stream = inbound.stream.as_mut()?;
        let part = match stream.pipe(inbound.connection.socket.as_fd())? {
            Ok(Piped::Part(part)) => part,
            Ok(Piped::Waits) => return Some(Ok(())),
            Ok(Piped::Closed) => return Some(Err(End::Closed)),
            Err(error) => return Some(Err(End::Error(error.to_string()))),
        };
        let (write, ended) = (Arc::clone(stream.write()), stream.is_done());
        let connection = Arc::clone(&inbound.connection);
        if ended {
            inbound.stream = None;
        }
        self.hand_on(&connection, &write, Part { at: part.at, source: Source::Piped(part.source) }, ended);
        Some(Ok(()))
    }

    /// Hands a part of a long WRITE to a storage thread; with enough of them on their way, the connection pauses.
    fn hand_on(
        &self,
        connection: &Arc<Connection>,
        write: &Arc<LargeWrite>,
        part: Part<Source>,
        ended: bool,
    ) {
        if write.hand_on() >= PARTS_MAX && !ended {
            connection.set_paused(true);
        }
        self.shared.pool.submit(Job::part(connection, write, part));
        if connection.is_paused() && write.parts() < PARTS_MAX && !ended {
            connection.set_paused(false);
        }
    }

    /// Hands on what has come of a long WRITE; what follows it in the buffer comes back.
    pub(super) fn stream(&mut self, token: u64, mut buffer: Buffer) -> Option<Buffer> {
        let inbound = self.connections.get_mut(&token)?;
        let stream = inbound.stream.as_mut()?;
        let part = stream.take(&mut buffer);
        let (write, ended) = (Arc::clone(stream.write()), stream.is_done());
        let connection = Arc::clone(&inbound.connection);
        if ended {
            inbound.stream = None;
        }
        let Some(Part { at, source }) = part else { return (!buffer.is_done()).then_some(buffer) };
        let rest = (!buffer.is_done()).then(|| self.shared.buffers.take_always(buffer.bytes()));
        self.hand_on(&connection, &write, Part { at, source: Source::Received(buffer, source) }, ended);
        rest
    }

    /// Begins a call that is longer than a buffer: a WRITE, or it is refused. One that has to wait for its volume's limits
    /// is put together in memory.
    pub(super) fn begin_long(&mut self, token: u64, mut buffer: Buffer) -> Result<(), End> {
        let Some(inbound) = self.connections.get_mut(&token) else { return Ok(()) };
        inbound.is_for_loop = false;
        let (connection, service) = (&inbound.connection, &self.shared.service);
        let admission = match admit_long(buffer.bytes(), connection, service, &self.namespace) {
            LongCall::Stream(charge) => Ok(charge),
            LongCall::Refuse(error) => Err(error),
            LongCall::Gather => {
                let Ok(Frame::Incomplete(length)) = parse_frame(buffer.bytes(), false) else { return Ok(()) };
                buffer.start += RecordMark::SIZE;
                inbound.assembly.begin(length - RecordMark::SIZE, true).map_err(malformed)?;
                // The record is longer than the buffer, so it does not end there.
                let (taken, _) = inbound.assembly.take(buffer.bytes());
                buffer.start += taken;
                return Ok(());
            }
        };
        let stream = Stream::begin(connection.programs, &mut buffer, admission).map_err(malformed)?;
        inbound.connection.count_queued(1);
        inbound.stream = Some(stream);
        // The record is longer than the buffer, so nothing follows it there.
        self.stream(token, buffer);
        Ok(())
    }
}
