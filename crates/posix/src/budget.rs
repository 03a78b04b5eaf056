//! Resources that the stores of a process share: descriptors, and memory for listings.
//!
//! Nothing is divided beforehand: one busy store among many idle ones may use nearly everything. At the limit, the
//! store with the most nodes evicts one, so a busy store cannot starve the others.

use crate::listing::cache::ListingCache;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;

/// Maximum number of cached nodes, however many descriptors the process may open.
const NODES_MAX: usize = 262_144;
const LISTING_BYTES_MAX: usize = 16 << 20;

pub struct ResourceBudget {
    nodes: AtomicUsize,
    nodes_max: AtomicUsize,
    tables: Mutex<Vec<Weak<dyn Evict>>>,
    pub(crate) listings: ListingCache,
}

pub(crate) type Evicted = Arc<dyn Any + Send + Sync>;

pub(crate) trait Evict: Send + Sync {
    fn count(&self) -> usize;

    fn evict(&self) -> Option<Evicted>;
}

impl ResourceBudget {
    /// A budget of `nodes_max` open files, in use or cached, and `listing_bytes_max` bytes of directory listings. The
    /// number of nodes exceeds `nodes_max` only while more are in use.
    pub fn new(nodes_max: usize, listing_bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            nodes: AtomicUsize::new(0),
            nodes_max: AtomicUsize::new(nodes_max),
            tables: Mutex::default(),
            listings: ListingCache::new(listing_bytes_max),
        })
    }

    /// A budget of a third of the process's descriptors. Raises the soft limit of descriptors to the hard one.
    pub fn of_process() -> Arc<Self> {
        Self::new((raise_descriptor_limit() / 3).clamp(1, NODES_MAX), LISTING_BYTES_MAX)
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

impl fmt::Debug for ResourceBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceBudget")
            .field("nodes", &self.nodes)
            .field("nodes_max", &self.nodes_max)
            .finish_non_exhaustive()
    }
}

/// Raises the soft limit to the hard one and returns the new soft limit.
fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX))
}
