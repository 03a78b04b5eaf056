//! Durability of acknowledged changes: the flushes that precede a reply.

use super::{NodeRef, SyncScope};
use crate::error::FsResult;
use std::sync::Arc;

/// The treatment of calls that ask for stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledges stable calls after the flush.
    #[default]
    Sync,
    /// Acknowledged before the flush: fast, and a crash of the machine may lose the last seconds.
    Relaxed,
}

/// The flushes that a batch of calls needs before its replies may leave: each file once, however many calls
/// touched it.
#[derive(Default)]
pub struct PendingSync {
    items: Vec<(NodeRef, SyncScope)>,
    added: usize,
}

impl PendingSync {
    /// Adds a flush of `node`; the wider scope wins.
    pub(crate) fn add(&mut self, node: &NodeRef, scope: SyncScope) {
        self.added += 1;
        match self.items.iter_mut().find(|(held, _)| Arc::ptr_eq(held, node)) {
            Some((_, held)) => *held = (*held).max(scope),
            None => self.items.push((Arc::clone(node), scope)),
        }
    }

    /// The number of flushes added, with repeats. It shows whether a call needs a flush that another call needs too.
    pub fn added(&self) -> usize {
        self.added
    }

    /// Performs all pending flushes. After an error nothing of the batch may be acknowledged as stable.
    pub fn sync_all(&mut self) -> FsResult<()> {
        let mut result = Ok(());
        for (node, scope) in self.items.drain(..) {
            result = result.and(node.sync(scope));
        }
        result
    }
}
