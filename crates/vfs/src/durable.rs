//! What was acknowledged must survive: flushes owed before a reply may leave.

use crate::{FsResult, NodeRef, SyncScope};
use std::sync::Arc;

/// How a volume treats calls that ask for stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Stable means stable: acknowledged after the flush.
    #[default]
    Sync,
    /// Acknowledged before the flush: fast, and a crash of the machine may lose the last seconds.
    Relaxed,
}

/// The flushes that a batch of calls owes before its replies may leave: each file once, however many calls touched it.
#[derive(Default)]
pub struct Owed {
    items: Vec<(NodeRef, SyncScope)>,
    debts: usize,
}

impl Owed {
    /// Adds a flush of `node`; the wider scope wins.
    pub fn add(&mut self, node: &NodeRef, scope: SyncScope) {
        self.debts += 1;
        match self.items.iter_mut().find(|(held, _)| Arc::ptr_eq(held, node)) {
            Some((_, held)) => *held = (*held).max(scope),
            None => self.items.push((Arc::clone(node), scope)),
        }
    }

    /// How often something was added, so that a call can be seen to owe a flush that others owe too.
    pub fn debts(&self) -> usize {
        self.debts
    }

    /// Performs all that is owed. After an error nothing of the batch may be acknowledged as stable.
    pub fn settle(&mut self) -> FsResult<()> {
        let mut result = Ok(());
        for (node, scope) in self.items.drain(..) {
            result = result.and(node.sync(scope));
        }
        result
    }
}
