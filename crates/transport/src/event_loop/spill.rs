//! Memory of unfinished messages.
//!
//! While receive buffers are plentiful, a connection keeps its buffer between two receives, so that nothing is copied.
//! When buffers run out, the bytes in idle ones are spilled into memory of their exact size; the next receive moves
//! them back. A bound applies to the spilled bytes of all connections. Past the bound, the connections with the oldest
//! unfinished messages end. The same applies to long messages that a protocol processes as a whole, which have memory
//! of their own.

use super::EventLoop;
use crate::inbound::Inbound;
use crate::limits::{LONG_TAILS_BYTES_MAX, SPILLED_BYTES_MAX, UNFINISHED_MESSAGE_S};
use crate::mailbox::Message;
use crate::protocol::Protocol;
use crate::resources::Resources;
use std::sync::atomic::Ordering;

impl<P: Protocol> EventLoop<P> {
    /// Waits for a receive buffer, and asks every loop to release idle ones.
    pub(super) fn wait_for_buffer(&mut self, token: u64) {
        if let Some(entry) = self.connections.get(&token) {
            entry.connection.set_paused(true);
            if self.without_buffer.is_empty() {
                self.shared.loops.iter().for_each(|mailbox| mailbox.post(Message::BuffersScarce));
            }
            self.without_buffer.push(token);
        }
    }

    pub(super) fn spill(&mut self) {
        for entry in self.connections.values_mut() {
            let rests = entry.waits_for_client() || !entry.connection.queue.is_empty();
            if let Some(inbound) = entry.inbound.as_mut().filter(|_| rests) {
                inbound.spill(entry.connection.queue.has_reserved());
            }
        }
        self.shed();
    }

    /// Sheds once unfinished messages exceed twice their bound.
    pub(super) fn shed_if_crowded(&mut self) {
        let resources = &self.shared.resources;
        if resources.spilled.load(Ordering::Relaxed) > 2 * SPILLED_BYTES_MAX
            || resources.tails.bytes() > 2 * LONG_TAILS_BYTES_MAX
        {
            self.shed();
        }
    }

    /// Ends the connections with the oldest unfinished messages: past the bound old ones, past twice the bound any.
    pub(super) fn shed(&mut self) {
        let spilled = |resources: &Resources| resources.spilled.load(Ordering::Relaxed);
        self.shed_past(SPILLED_BYTES_MAX, spilled, |inbound| inbound.counted() > 0);
        self.shed_past(
            LONG_TAILS_BYTES_MAX,
            |resources| resources.tails.bytes(),
            |inbound| inbound.long_tail_since().is_some(),
        );
    }

    fn shed_past(
        &mut self,
        bytes_max: usize,
        bytes: impl Fn(&Resources) -> usize,
        holds: impl Fn(&Inbound<P>) -> bool,
    ) {
        if bytes(&self.shared.resources) <= bytes_max {
            return;
        }
        let mut holders: Vec<(u32, u64)> = self
            .connections
            .iter()
            .filter(|(_, entry)| entry.waits_for_client() && entry.inbound.as_ref().is_some_and(&holds))
            .map(|(&token, entry)| (entry.message_began, token))
            .collect();
        holders.sort_unstable();
        for (began, token) in holders {
            let (is_old, held) = (self.ticks - began >= UNFINISHED_MESSAGE_S, bytes(&self.shared.resources));
            if held <= bytes_max || !is_old && held <= 2 * bytes_max {
                break;
            }
            self.end(token, Some("too many unfinished messages"));
        }
    }
}
