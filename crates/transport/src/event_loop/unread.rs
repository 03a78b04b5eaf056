//! The bound on unread replies over all connections.

use super::EventLoop;
use crate::limits::UNREAD_TOTAL_BYTES_SHED;
use crate::protocol::Protocol;
use std::sync::atomic::Ordering;

impl<P: Protocol> EventLoop<P> {
    #[inline]
    pub(super) fn has_too_much_unread(&self) -> bool {
        self.shared.resources.unread.load(Ordering::Relaxed) > UNREAD_TOTAL_BYTES_SHED
    }

    /// Ends the connections whose unread replies have not moved for longest, until the total is below the bound.
    pub(super) fn shed_unread(&mut self) {
        if !self.has_too_much_unread() {
            return;
        }
        let holders = self.connections.iter().filter(|(_, entry)| entry.connection.has_unread());
        let mut holders: Vec<(u32, u64)> =
            holders.map(|(&token, entry)| (entry.last_progress, token)).collect();
        holders.sort_unstable();
        for (_, token) in holders {
            if !self.has_too_much_unread() {
                break;
            }
            self.end(token, Some("too many unread replies"));
        }
    }
}
