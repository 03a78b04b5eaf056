//! The callback side of a connection: it sends records, and matches replies to callbacks.

use super::callbacks::Callbacks;
use nfs_wire::rpc::{MsgType, ReplyBody, ReplyHeader};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use vfs::sync::Mutex;
use xdr::{Decode, Reader};

/// Sends records to a client without blocking.
pub(crate) trait Sender: Send + Sync {
    /// Sends a record, or queues it.
    fn send_record(&self, record: &[u8]);
}

#[derive(Default)]
pub(crate) struct Wire {
    sender: OnceLock<Weak<dyn Sender>>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    last_xid: u32,
    waiting: HashMap<u32, Weak<Callbacks>>,
}

/// Calls over one connection that have no reply yet, at most.
const WIRE_CALLS_MAX: usize = 256;

impl Wire {
    /// Sends through this from now on, if it is the first.
    pub(crate) fn attach<S: Sender + 'static>(&self, sender: &Arc<S>) {
        self.sender.get_or_init(|| {
            let sender: Weak<S> = Arc::downgrade(sender);
            sender
        });
    }

    pub(crate) fn is_up(&self) -> bool {
        self.sender.get().is_some_and(|sender| sender.strong_count() > 0)
    }

    /// The number of a new call for a client; `None` if too many have no reply.
    pub(super) fn begin(&self, caller: &Weak<Callbacks>) -> Option<u32> {
        let mut calls = self.calls();
        if calls.waiting.len() >= WIRE_CALLS_MAX {
            return None;
        }
        calls.last_xid = calls.last_xid.wrapping_add(1);
        let xid = calls.last_xid;
        calls.waiting.insert(xid, Weak::clone(caller));
        Some(xid)
    }

    pub(super) fn forget(&self, xid: u32) {
        self.calls().waiting.remove(&xid);
    }

    pub(super) fn send(&self, record: &[u8]) {
        if let Some(sender) = self.sender.get().and_then(Weak::upgrade) {
            sender.send_record(record);
        }
    }

    /// Handles a record that is a reply; `false` if it is a call. Unexpected replies are dropped.
    pub(crate) fn take_reply(&self, record: &[u8]) -> bool {
        let Some((_, [a, b, c, d, ..])) = record.split_at_checked(4) else { return false };
        if u32::from_be_bytes([*a, *b, *c, *d]) != MsgType::REPLY.0 {
            return false;
        }
        let mut reader = Reader::new(record);
        let Ok(header) = ReplyHeader::decode(&mut reader) else { return true };
        let caller = self.calls().waiting.remove(&header.xid).and_then(|caller| caller.upgrade());
        if let Some(caller) = caller {
            let is_done = matches!(header.body, ReplyBody::Accepted(_, nfs_wire::rpc::Accepted::Success));
            caller.handle_reply(self, header.xid, is_done.then(|| reader.rest()));
        }
        true
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock()
    }
}
