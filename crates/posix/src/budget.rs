//! The resources that the stores of a process share: descriptors, and memory for listings.
//!
//! Nothing is divided beforehand: one busy store among many idle ones has nearly everything. When there is no more, the
//! store that has most gives up something, so a busy store cannot starve the others.

use crate::listing::cache::ListingCache;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;

/// The most nodes kept, however many descriptors there are.
const NODES_MAX: usize = 262_144;
/// The memory for listings, unless another is wished.
const LISTING_BYTES_MAX: usize = 16 << 20;

/// Descriptors and memory that stores share.
pub struct ResourceBudget {
    nodes: AtomicUsize,
    nodes_max: AtomicUsize,
    tables: Mutex<Vec<Weak<dyn Evict>>>,
    pub(crate) listings: ListingCache,
}

/// What was given up.
pub(crate) type Evicted = Arc<dyn Any + Send + Sync>;

/// What keeps nodes and can give one up.
pub(crate) trait Evict: Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// Takes out a node that nobody holds and that was not used lately, if there is one.
    fn evict(&self) -> Option<Evicted>;
}

impl ResourceBudget {
    /// For at most `nodes_max` open files in use or kept for reuse (more only while more are in use), and `listing_bytes_max`
    /// bytes of directory listings kept while their directories do not change.
    pub fn new(nodes_max: usize, listing_bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            nodes: AtomicUsize::new(0),
            nodes_max: AtomicUsize::new(nodes_max),
            tables: Mutex::default(),
            listings: ListingCache::new(listing_bytes_max),
        })
    }

    /// For a third of the descriptors that this process may have. Raises the soft limit of descriptors to the hard one.
    pub fn of_process() -> Arc<Self> {
        Self::new((raise_descriptor_limit() / 3).clamp(1, NODES_MAX), LISTING_BYTES_MAX)
    }

    /// Changes how many files may be kept open.
    pub fn set_nodes_max(&self, nodes_max: usize) {
        let nodes_max = nodes_max.clamp(1, NODES_MAX);
        self.nodes_max.store(nodes_max, Ordering::Relaxed);
        while self.nodes.load(Ordering::Relaxed) > nodes_max && self.make_room().is_some() {}
    }

    /// Shares with the nodes of `table`, too.
    pub(crate) fn join(&self, table: Weak<dyn Evict>) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(table);
    }

    /// Takes a node that nobody holds, from the store that has most if it has one, if there is no room for another. To be
    /// dropped where no lock is held.
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

/// Raises the soft limit as far as it goes; tells what it is then.
fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}
