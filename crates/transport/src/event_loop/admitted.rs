//! Queued calls that the limits of their volumes have admitted.

use super::EventLoop;
use crate::limits::TURN_BYTES_MAX;
use crate::protocol::Protocol;
use crate::queue::Queued;
use std::sync::Arc;
use vfs::qos::Permit;

impl<P: Protocol> EventLoop<P> {
    /// Records an admitted call. A call of a closed connection gets no reply.
    pub(super) fn note_admitted(&mut self, token: u64, number: u64, permit: Permit) {
        if let Some(entry) = self.connections.get_mut(&token) {
            if entry.admitted.is_empty() {
                self.with_admitted.push(token);
            }
            entry.admitted.push_back((number, permit));
        }
    }

    /// Runs the admitted calls of a connection, as long as its client reads the replies, which leave together.
    pub(super) fn do_admitted(&mut self, token: u64) {
        let Some(entry) = self.connections.get(&token) else { return };
        let (connection, mut is_last) = (Arc::clone(&entry.connection), false);
        while let Some(entry) = self.connections.get_mut(&token)
            && connection.reads_replies()
            && let Some((number, permit)) = entry.admitted.pop_front()
        {
            is_last = entry.admitted.is_empty();
            if let Some(Queued::Call { call, message, since, .. }) = connection.queue.take(number) {
                self.runner.run_queued(&connection, call, &message, since, permit);
            }
            if self.runner.pending_bytes() >= TURN_BYTES_MAX {
                self.runner.send(&connection);
            }
        }
        // The runner serves another connection next, so no reply may stay in it.
        self.runner.send(&connection);
        if is_last {
            connection.resume_if_paused();
            self.end_if_answered(token);
        }
    }
}
