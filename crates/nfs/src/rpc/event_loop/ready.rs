//! Calls that had to wait for the limits of their volumes and may go on.

use super::EventLoop;
use crate::clock;
use crate::limits::TURN_BYTES_MAX;
use crate::rpc::connection::Connection;
use crate::rpc::dispatch::route;
use crate::rpc::limit_queue::QueuedCall;
use std::sync::Arc;

impl EventLoop {
    /// Notes that a queued call may go on. A connection that has ended gets no answer.
    pub(super) fn note_ready(&mut self, token: u64, number: u64) {
        if let Some(inbound) = self.connections.get_mut(&token) {
            if inbound.ready.is_empty() {
                self.with_ready.push(token);
            }
            inbound.ready.push_back(number);
        }
    }

    /// Does such calls of a connection, as far as its client reads the replies, which leave together.
    pub(super) fn do_ready(&mut self, token: u64) {
        self.refresh_namespace();
        while let Some(inbound) = self.connections.get_mut(&token)
            && inbound.connection.takes_replies()
            && let Some(number) = inbound.ready.pop_front()
        {
            let (connection, is_last) = (Arc::clone(&inbound.connection), inbound.ready.is_empty());
            if let Some(queued) = connection.limit_queue.dequeue(number) {
                self.do_ready_call(&connection, &queued);
            }
            if is_last || self.replies.pending() >= TURN_BYTES_MAX {
                connection.send(&mut self.replies);
            }
            if is_last {
                connection.resume_if_paused();
                self.end_if_answered(token);
            }
        }
    }

    fn do_ready_call(&mut self, connection: &Arc<Connection>, queued: &QueuedCall) {
        // It was understood before.
        let Ok(Some(routed)) = route(connection.programs, &queued.record, &mut self.replies) else { return };
        if let Err(read_from) = self.perform(connection, &routed, clock::now()) {
            self.offload(connection, &queued.record, routed.reply_bytes_max(), read_from);
        }
        self.counters.count(queued.since.elapsed(), |volume| connection.note_volume(volume));
    }
}
