//! Long replies being produced. They are counted in advance: many at one time would exceed the bound on unread replies.

use crate::connection::Connection;
use crate::limits::{
    SHORT_REPLY_BYTES_MAX, UNREAD_REPLY_BYTES_MAX, UNREAD_TOTAL_BYTES_FULL, UNREAD_TOTAL_BYTES_MOST,
};
use crate::protocol::Protocol;
use crate::resources::Resources;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A long reply being produced, counted until it is sent or counts as unread.
pub(crate) struct LongReply<'a> {
    making: &'a AtomicUsize,
    resources: &'a Resources,
    bytes: usize,
}

impl<'a> LongReply<'a> {
    /// Counts a reply of at most `bytes`. `None`: it must not be produced now. Past [`UNREAD_TOTAL_BYTES_FULL`], a
    /// connection may produce as much as it may leave unread, and nothing while it has unread replies. Past
    /// [`UNREAD_TOTAL_BYTES_MOST`], nothing is produced.
    pub(crate) fn begin<P: Protocol>(connection: &'a Connection<P>, bytes: usize) -> Option<Self> {
        let (making, resources) = (&connection.long_reply_bytes, &*connection.resources);
        if bytes <= SHORT_REPLY_BYTES_MAX {
            return Some(Self { making, resources, bytes: 0 });
        }
        let before = making.fetch_add(bytes, Ordering::SeqCst);
        let total = resources.long_reply_bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let reply = Self { making, resources, bytes };
        let total = total + resources.unread.load(Ordering::SeqCst);
        let has_enough = before > 0 && before + bytes > UNREAD_REPLY_BYTES_MAX || connection.has_unread();
        let is_refused = total > UNREAD_TOTAL_BYTES_FULL && has_enough || total > UNREAD_TOTAL_BYTES_MOST;
        (!is_refused).then_some(reply)
    }
}

impl Drop for LongReply<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.making.fetch_sub(self.bytes, Ordering::SeqCst);
            self.resources.long_reply_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        }
    }
}
