//! The table of nodes: one node per file, bounded in number ([`NodeBudget`]) because each holds something of the storage.

use crate::node_budget::{Evict, Evicted, NodeBudget};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use vfs::sync::Mutex;
use vfs::{FileKey, KeyHasher};

/// Shards, so that threads seldom contend for a lock.
const SHARDS: usize = 64;

/// A node that a table can hold.
pub trait TableNode: Send + Sync + 'static {
    fn key(&self) -> &FileKey;
    fn recency(&self) -> &Recency;
}

/// The last use of a node.
#[derive(Default)]
pub struct Recency {
    /// The table's tick when the node was last looked up.
    tick: AtomicU32,
    /// Looked up since the table last searched for a node to evict.
    referenced: AtomicBool,
}

pub struct Table<N> {
    shards: Vec<Mutex<Shard<N>>>,
    budget: Arc<NodeBudget>,
    count: AtomicUsize,
    /// The shard to evict from next.
    hand: AtomicUsize,
    tick: AtomicU32,
}

struct Shard<N> {
    slots: HashMap<FileKey, usize, BuildHasherDefault<KeyHasher>>,
    nodes: Vec<Arc<N>>,
    hand: usize,
    /// Nobody serves the tree any more: nodes are not kept.
    is_closed: bool,
}

impl<N> Default for Shard<N> {
    fn default() -> Self {
        Self { slots: HashMap::default(), nodes: Vec::new(), hand: 0, is_closed: false }
    }
}

impl<N: TableNode> Table<N> {
    pub fn new(budget: &Arc<NodeBudget>) -> Arc<Self> {
        let table = Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            budget: Arc::clone(budget),
            count: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            tick: AtomicU32::new(0),
        });
        let weak: Weak<Self> = Arc::downgrade(&table);
        budget.join(weak);
        table
    }

    pub fn find(&self, key: &FileKey) -> Option<Arc<N>> {
        let shard = self.shard(key);
        let node = &shard.nodes[*shard.slots.get(key)?];
        node.recency().tick.store(self.tick.load(Ordering::Relaxed), Ordering::Relaxed);
        node.recency().referenced.store(true, Ordering::Relaxed);
        Some(Arc::clone(node))
    }

    /// Calls `ask` with the node of `key`, if it is in the table. Does not count as a use. `ask` must not use the table.
    pub fn with_node<T>(&self, key: &FileKey, ask: impl FnOnce(&N) -> T) -> Option<T> {
        let shard = self.shard(key);
        let slot = *shard.slots.get(key)?;
        Some(ask(&shard.nodes[slot]))
    }

    /// Adds `node`, or returns the existing node of its file.
    pub fn insert(&self, node: N) -> Arc<N> {
        // Closing a descriptor may free a deleted file's blocks: not under the lock.
        drop(self.budget.make_room());
        let mut shard = self.shard(node.key());
        let tick = self.tick.load(Ordering::Relaxed);
        if let Some(&slot) = shard.slots.get(node.key()) {
            let existing = &shard.nodes[slot];
            existing.recency().tick.store(tick, Ordering::Relaxed);
            return Arc::clone(existing);
        }
        node.recency().tick.store(tick, Ordering::Relaxed);
        let node = Arc::new(node);
        if shard.is_closed {
            return node;
        }
        let slot = shard.nodes.len();
        shard.slots.insert(*node.key(), slot);
        shard.nodes.push(Arc::clone(&node));
        drop(shard);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.budget.count_in();
        node
    }

    fn count_out(&self, nodes: usize) {
        self.count.fetch_sub(nodes, Ordering::Relaxed);
        self.budget.count_out(nodes);
    }

    /// Removes `node`, whose file was removed. Other references stay valid.
    pub fn remove(&self, node: &N) {
        let mut shard = self.shard(node.key());
        let Some(&slot) = shard.slots.get(node.key()) else { return };
        if std::ptr::eq(&*shard.nodes[slot], node) {
            let removed = shard.swap_remove(slot);
            drop(shard);
            drop(removed);
            self.count_out(1);
        }
    }

    /// Starts a new tick. Drops the nodes without other references that were not looked up in the last `idle_ticks`.
    pub fn sweep(&self, idle_ticks: u32) {
        let now = self.tick.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        for shard in &self.shards {
            let mut shard = shard.lock();
            let mut dropped = Vec::new();
            let mut slot = 0;
            while slot < shard.nodes.len() {
                let node = &shard.nodes[slot];
                let age = now.wrapping_sub(node.recency().tick.load(Ordering::Relaxed));
                if age > idle_ticks && Arc::strong_count(node) == 1 {
                    dropped.push(shard.swap_remove(slot));
                } else {
                    slot += 1;
                }
            }
            drop(shard);
            self.count_out(dropped.len());
        }
    }

    pub fn all(&self) -> Vec<Arc<N>> {
        let nodes = |shard: &Mutex<Shard<N>>| shard.lock().nodes.clone();
        self.shards.iter().flat_map(nodes).collect()
    }

    /// Drops all nodes, and keeps none from now on: a node that is still in use may look up others.
    pub fn close(&self) {
        for shard in &self.shards {
            let closed = Shard { is_closed: true, ..Shard::default() };
            let removed = std::mem::replace(&mut *shard.lock(), closed);
            self.count_out(removed.nodes.len());
        }
    }

    pub fn node_count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, key: &FileKey) -> MutexGuard<'_, Shard<N>> {
        self.shards[key.shard::<SHARDS>()].lock()
    }
}

impl<N: TableNode> Evict for Table<N> {
    fn count(&self) -> usize {
        self.node_count()
    }

    fn evict(&self) -> Option<Evicted> {
        let first = self.hand.fetch_add(1, Ordering::Relaxed);
        let mut shards = (0..SHARDS).map(|step| &self.shards[(first + step) % SHARDS]);
        let evicted = shards.find_map(|shard| shard.lock().evict())?;
        self.count_out(1);
        Some(evicted)
    }
}

impl<N: TableNode> Shard<N> {
    /// Removes the next node that has no other reference and was not looked up since the hand last passed it.
    fn evict(&mut self) -> Option<Arc<N>> {
        // The first round clears the marks, so the second one finds any node without other references.
        for _ in 0..2 * self.nodes.len() {
            self.hand = if self.hand + 1 < self.nodes.len() { self.hand + 1 } else { 0 };
            let node = &self.nodes[self.hand];
            // Only the table can hand out further references, and its lock is held: a count of one stays one.
            if !node.recency().referenced.swap(false, Ordering::Relaxed) && Arc::strong_count(node) == 1 {
                return Some(self.swap_remove(self.hand));
            }
        }
        None
    }

    fn swap_remove(&mut self, slot: usize) -> Arc<N> {
        let node = self.nodes.swap_remove(slot);
        self.slots.remove(node.key());
        // The last node has moved to the slot of the removed one.
        if let Some(moved_node) = self.nodes.get(slot) {
            self.slots.insert(*moved_node.key(), slot);
        }
        node
    }
}
