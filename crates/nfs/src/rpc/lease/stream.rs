//! Long WRITEs of a leased connection: received and written by one thread, part by part.

use super::ConnectionLease;
use crate::cache::HandleCache;
use crate::rpc::admission::{LongCall, admit_long};
use crate::rpc::job::{call, finish_write};
use crate::rpc::pipe::Pipe;
use crate::rpc::stream::{Part, Piped, Stream};
use crate::service::Service;
use crate::v3::large::PartData;
use std::os::fd::AsFd;
use std::sync::Arc;
use vfs::{Namespace, PendingSync};

impl ConnectionLease {
    /// Does the long WRITE at the front of the buffer. False: the event loop goes on with it, queues it until
    /// its turn comes, or finds out what is wrong with it.
    pub(super) fn stream(
        &mut self,
        service: &Service,
        namespace: &Namespace,
        cache: &mut HandleCache,
    ) -> bool {
        let admission = match admit_long(self.buffer.bytes(), &self.connection, service, namespace) {
            LongCall::Stream(charge) => Ok(charge),
            LongCall::Refuse(error) => Err(error),
            LongCall::Gather => {
                self.connection.limit_queue.unreserve();
                self.is_refused = true;
                return false;
            }
        };
        let Ok(mut stream) = Stream::begin(self.connection.programs, &mut self.buffer, admission) else {
            self.is_refused = true;
            return false;
        };
        self.connection.count_queued(1);
        let write = Arc::clone(stream.write());
        let mut pending = PendingSync::default();
        let mut call = call(service, namespace, &self.connection, write.claim(), &mut pending);
        call.cache = Some(cache);
        let mut is_last = false;
        if let Some(Part { at, source }) = stream.take(&mut self.buffer) {
            write.hand_on();
            is_last = write.write_part(&mut call, at, PartData::Bytes(&self.buffer.all()[source]));
        }
        while !is_last {
            let Some(Part { at, source }) = self.receive_part(&mut stream) else {
                self.stream = Some(stream);
                return false;
            };
            write.hand_on();
            is_last = write.write_part(&mut call, at, PartData::Pipe(source));
        }
        finish_write(&self.connection, &write, call);
        if stream.is_done() {
            return true;
        }
        // Only padding is to come.
        self.stream = Some(stream);
        false
    }

    /// The next part of a long WRITE; `None` if the client or other work makes it wait.
    fn receive_part(&self, stream: &mut Stream) -> Option<Part<Pipe>> {
        while self.may_stay() && self.is_readable() {
            match stream.pipe(self.connection.socket.as_fd()) {
                Some(Ok(Piped::Part(part))) => return Some(part),
                Some(Ok(Piped::Waits)) => {}
                Some(Ok(Piped::Closed) | Err(_)) | None => break,
            }
        }
        None
    }
}
