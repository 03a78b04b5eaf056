//! The number of nodes that the storages of a process hold together.
//!
//! Nothing is divided beforehand: one busy storage among many idle ones may use nearly everything. At the limit, the
//! table with the most nodes evicts one, so a busy storage cannot starve the others.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;

/// Maximum number of cached nodes, however many descriptors the process may open.
const NODES_MAX: usize = 262_144;

pub struct NodeBudget {
    nodes: AtomicUsize,
    nodes_max: AtomicUsize,
    tables: Mutex<Vec<Weak<dyn Evict>>>,
}

pub(crate) type Evicted = Arc<dyn Any + Send + Sync>;

pub(crate) trait Evict: Send + Sync {
    fn count(&self) -> usize;

    fn evict(&self) -> Option<Evicted>;
}

impl NodeBudget {
    /// A budget of `nodes_max` nodes, in use or cached. Their number exceeds it only while more are in use.
    pub fn new(nodes_max: usize) -> Arc<Self> {
        let nodes_max = AtomicUsize::new(nodes_max.clamp(1, NODES_MAX));
        Arc::new(Self { nodes: AtomicUsize::new(0), nodes_max, tables: Mutex::default() })
    }

    pub fn set_nodes_max(&self, nodes_max: usize) {
        let nodes_max = nodes_max.clamp(1, NODES_MAX);
        self.nodes_max.store(nodes_max, Ordering::Relaxed);
        while self.nodes.load(Ordering::Relaxed) > nodes_max && self.make_room().is_some() {}
    }

    pub(crate) fn join(&self, table: Weak<dyn Evict>) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(table);
    }

    /// Evicts a node if the budget is used up, from the largest table if it has an idle node. Drop the result without
    /// holding a lock.
    pub(crate) fn make_room(&self) -> Option<Evicted> {
        if self.nodes.load(Ordering::Relaxed) < self.nodes_max.load(Ordering::Relaxed) {
            return None;
        }
        let tables: Vec<Arc<dyn Evict>> = {
            let tables = self.tables.lock();
            tables.iter().filter_map(Weak::upgrade).collect()
        };
        let largest = tables.iter().max_by_key(|table| table.count())?;
        largest.evict().or_else(|| tables.iter().find_map(|table| table.evict()))
    }

    pub(crate) fn count_in(&self) {
        self.nodes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_out(&self, nodes: usize) {
        self.nodes.fetch_sub(nodes, Ordering::Relaxed);
    }
}
