//! Calls that were queued for the limits of their volumes and may go on.

use super::EventLoop;
use crate::limits::TURN_BYTES_MAX;
use crate::protocol::Protocol;
use crate::queue::Queued;
use std::sync::Arc;
use vfs::qos::Permit;

impl<P: Protocol> EventLoop<P> {
    /// Notes that a queued call may go on. A connection that has ended gets no answer.
    pub(super) fn note_admitted(&mut self, token: u64, number: u64, charge: Permit) {
        if let Some(entry) = self.connections.get_mut(&token) {
            if entry.admitted.is_empty() {
                self.with_admitted.push(token);
            }
            entry.admitted.push_back((number, charge));
        }
    }

    /// Does such calls of a connection, as far as its client reads the replies, which leave together.
    pub(super) fn do_admitted(&mut self, token: u64) {
        let Some(entry) = self.connections.get(&token) else { return };
        let (connection, mut is_last) = (Arc::clone(&entry.connection), false);
        while let Some(entry) = self.connections.get_mut(&token)
            && connection.takes_replies()
            && let Some((number, charge)) = entry.admitted.pop_front()
        {
            is_last = entry.admitted.is_empty();
            if let Some(Queued::Call { call, message, since, .. }) = connection.queue.take(number) {
                self.runner.run_queued(&connection, call, &message, since, charge);
            }
            if self.runner.pending_bytes() >= TURN_BYTES_MAX {
                self.runner.send(&connection);
            }
        }
        // Whatever ended the loop: the runner is for another connection next.
        self.runner.send(&connection);
        if is_last {
            connection.resume_if_paused();
            self.end_if_answered(token);
        }
    }
}
