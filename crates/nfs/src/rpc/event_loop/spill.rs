//! Spilling of half received calls: receive buffers are for bytes on their way, not for clients to leave half
//! a call in.
//!
//! A buffer stays with a connection between two receives as long as there are enough of them, so that nothing
//! is copied. When they run out, what lies in resting buffers is spilled to memory of its own size and goes
//! back into a buffer with the next bytes. What is spilled is bounded over all connections: past the bound,
//! those go whose call has been unfinished for longest.

use super::{End, EventLoop, Inbound, Message, Shared};
use crate::limits::{SPILLED_BYTES_MAX, UNFINISHED_S};
use crate::rpc::buffer::Buffer;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Spilled bytes: what one connection has, and a share of all.
#[derive(Default)]
pub(super) struct Spilled {
    bytes: Vec<u8>,
    /// As much of it, and of fragments being put together, as is counted in the sum over all connections.
    counted: usize,
}

impl Inbound {
    /// Whether a call has begun to come and is not complete, as far as is known.
    pub(super) fn is_partial(&self) -> bool {
        self.buffer.is_some() || !self.spilled.bytes.is_empty() || self.assembly.is_partial()
    }

    /// Whether it is the client that keeps this connection from going on.
    fn waits_for_client(&self) -> bool {
        !self.connection.is_paused() || self.connection.has_unread()
    }

    /// Counts what is held outside of receive buffers.
    pub(super) fn count_spilled(&mut self, total: &AtomicUsize) {
        // What waits for limits is counted by another bound.
        let assembled = if self.connection.limit_queue.has_reserved() { 0 } else { self.assembly.held() };
        let now = self.spilled.bytes.len() + assembled;
        total.fetch_add(now, Ordering::Relaxed);
        total.fetch_sub(std::mem::replace(&mut self.spilled.counted, now), Ordering::Relaxed);
    }

    /// Gives up the count of a connection that ends.
    pub(super) fn uncount_spilled(&self, total: &AtomicUsize) {
        total.fetch_sub(self.spilled.counted, Ordering::Relaxed);
    }

    /// The buffer with what was received and not dealt with; an empty one if there is nothing. `None` if there are too
    /// many in use.
    pub(super) fn take_buffer(&mut self, shared: &Shared) -> Option<Buffer> {
        if let Some(buffer) = self.buffer.take() {
            return Some(buffer);
        }
        let mut buffer = shared.buffers.take()?;
        if !self.spilled.bytes.is_empty() {
            buffer.put(&std::mem::take(&mut self.spilled.bytes));
            self.count_spilled(&shared.spilled);
        }
        Some(buffer)
    }

    /// Whether something was spilled.
    pub(super) fn has_spilled(&self) -> bool {
        !self.spilled.bytes.is_empty()
    }
}

impl EventLoop {
    /// Waits for a receive buffer, and asks every loop for those that rest.
    pub(super) fn pause_for_buffer(&mut self, token: u64) {
        if let Some(inbound) = self.connections.get(&token) {
            inbound.connection.set_paused(true);
            if self.paused_for_buffer.is_empty() {
                self.shared.loops.iter().for_each(|mailbox| mailbox.post(Message::BuffersScarce));
            }
            self.paused_for_buffer.push(token);
        }
    }

    /// Gives back the buffers that wait for their clients.
    pub(super) fn spill(&mut self) {
        let rests =
            |inbound: &&mut Inbound| inbound.waits_for_client() || !inbound.connection.limit_queue.is_empty();
        for inbound in self.connections.values_mut().filter(rests) {
            if let Some(buffer) = inbound.buffer.take() {
                inbound.spilled.bytes = buffer.bytes().to_vec();
                inbound.count_spilled(&self.shared.spilled);
            }
        }
        self.shed();
    }

    /// Whether more is spilled than may be at any time.
    pub(super) fn is_crowded(&self) -> bool {
        self.shared.spilled.load(Ordering::Relaxed) > 2 * SPILLED_BYTES_MAX
    }

    /// Ends the connections whose calls have been unfinished for longest while too much is spilled: old ones
    /// past the bound, any past twice the bound.
    pub(super) fn shed(&mut self) {
        let is_full = |shared: &Shared| shared.spilled.load(Ordering::Relaxed) > SPILLED_BYTES_MAX;
        if !is_full(&self.shared) {
            return;
        }
        let holds = |inbound: &Inbound| inbound.spilled.counted > 0 && inbound.waits_for_client();
        let mut holders: Vec<(u32, u64)> = self
            .connections
            .iter()
            .filter(|(_, inbound)| holds(inbound))
            .map(|(&token, inbound)| (inbound.began, token))
            .collect();
        holders.sort_unstable();
        for (began, token) in holders {
            let is_old = self.ticks - began >= UNFINISHED_S;
            if self.shared.spilled.load(Ordering::Relaxed) <= SPILLED_BYTES_MAX
                || !(is_old || self.is_crowded())
            {
                break;
            }
            self.end(token, &End::Error("half a call while too many are unfinished".into()));
        }
    }
}
