//! Room for those who use it: receive buffers are for bytes on their way, not for clients to leave half a message in.
//!
//! A buffer stays with a connection between two receives as long as there are enough of them, so that nothing is copied.
//! When they run out, what lies in resting buffers is spilled into memory of its own size and goes back into a buffer
//! with the next bytes. What is spilled is bounded over all connections: past the bound, those go whose message has been
//! unfinished for longest. The same holds of long messages that a protocol looks at as a whole, which have memory of their own.

use super::EventLoop;
use crate::inbound::Inbound;
use crate::limits::{LONG_TAILS_BYTES_MAX, SPILLED_BYTES_MAX, UNFINISHED_MESSAGE_S};
use crate::mailbox::Message;
use crate::protocol::Protocol;
use crate::resources::Resources;
use std::sync::atomic::Ordering;

impl<P: Protocol> EventLoop<P> {
    /// Waits for a receive buffer, and asks every loop for those that rest.
    pub(super) fn wait_for_buffer(&mut self, token: u64) {
        if let Some(entry) = self.connections.get(&token) {
            entry.connection.set_paused(true);
            if self.without_buffer.is_empty() {
                self.shared.loops.iter().for_each(|mailbox| mailbox.post(Message::BuffersScarce));
            }
            self.without_buffer.push(token);
        }
    }

    /// Gives back the buffers that wait for their clients.
    pub(super) fn spill(&mut self) {
        for entry in self.connections.values_mut() {
            let rests = entry.waits_for_client() || !entry.connection.queue.is_empty();
            if let Some(inbound) = entry.inbound.as_mut().filter(|_| rests) {
                inbound.spill(entry.connection.queue.has_reserved());
            }
        }
        self.shed();
    }

    /// Whether more of unfinished messages is held than may be at any time.
    pub(super) fn is_crowded(&self) -> bool {
        let resources = &self.shared.resources;
        resources.spilled.load(Ordering::Relaxed) > 2 * SPILLED_BYTES_MAX
            || resources.tails.bytes() > 2 * LONG_TAILS_BYTES_MAX
    }

    /// Ends the connections whose messages have been unfinished for longest while too much is held of such: old ones past a
    /// bound, any past twice the bound.
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
            self.end(token, Some("half a message while too many are unfinished"));
        }
    }
}
