//! Room for those who use it: receive buffers are for bytes on their way, not for clients to leave half a message in.
//!
//! A buffer stays with a connection between two receives as long as there are enough of them, so that nothing is copied.
//! When they run out, what lies in resting buffers is spilled into memory of its own size and goes back into a buffer
//! with the next bytes. What is spilled is bounded over all connections: past the bound, those go whose message has been
//! unfinished for longest.
//!
//! A long message that a protocol looks at as a whole has memory of its own. It counts like what is spilled, and none is begun
//! past the bound or a client's share of it: its connection waits until others have their messages whole.

use super::EventLoop;
use crate::limits::{SPILLED_BYTES_MAX, UNFINISHED_S};
use crate::mailbox::Message;
use crate::protocol::Protocol;
use crate::upload::keeps_long;
use std::sync::atomic::Ordering;

/// Connections at one time that look whether there is memory for their messages by now.
const ROOM_LOOKS: usize = 8;

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

    /// Waits for memory to keep a long message in.
    pub(super) fn wait_for_room(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        entry.connection.set_paused(true);
        if let Some(inbound) = &mut entry.inbound {
            inbound.spill(entry.connection.queue.has_reserved());
        }
        if !std::mem::replace(&mut entry.waits_for_room, true) {
            self.without_room.push_back(token);
        }
    }

    /// Lets connections that wait for such memory look for it, a few at a time.
    pub(super) fn look_for_room(&mut self) {
        for _ in 0..self.without_room.len().min(ROOM_LOOKS) {
            let Some(token) = self.without_room.pop_front() else { return };
            if let Some(entry) = self.connections.get_mut(&token) {
                entry.waits_for_room = false;
                self.guard(token, |own| own.resume(token));
            }
        }
    }

    /// Whether more is spilled than may be at any time.
    pub(super) fn is_crowded(&self) -> bool {
        self.shared.resources.spilled.load(Ordering::Relaxed) > 2 * SPILLED_BYTES_MAX
    }

    /// Ends the connections whose messages have been unfinished for longest while too much is spilled: old ones past the
    /// bound, any past twice the bound.
    pub(super) fn shed(&mut self) {
        let is_full = |own: &Self| {
            let resources = &own.shared.resources;
            let lacks_room = keeps_long::<P>() && resources.tails.is_full(P::TAIL_BYTES_MAX);
            lacks_room || resources.spilled.load(Ordering::Relaxed) > SPILLED_BYTES_MAX
        };
        if !is_full(self) {
            return;
        }
        let mut holders: Vec<(u32, u64)> = self
            .connections
            .iter()
            .filter(|(_, entry)| entry.waits_for_client())
            .filter(|(_, entry)| entry.inbound.as_ref().is_some_and(|inbound| inbound.counted() > 0))
            .map(|(&token, entry)| (entry.began, token))
            .collect();
        holders.sort_unstable();
        for (began, token) in holders {
            let is_old = self.ticks - began >= UNFINISHED_S;
            if !is_full(self) || !(is_old || self.is_crowded()) {
                break;
            }
            self.end(token, Some("half a message while too many are unfinished"));
        }
    }
}
