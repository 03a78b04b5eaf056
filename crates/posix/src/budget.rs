//! Resources that the stores of a process share: descriptors, and memory for listings.

use crate::listing::cache::ListingCache;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::sync::Arc;
use storage::NodeBudget;

const LISTING_BYTES_MAX: usize = 16 << 20;

pub struct ResourceBudget {
    pub(crate) nodes: Arc<NodeBudget>,
    pub(crate) listings: ListingCache,
}

impl ResourceBudget {
    /// A budget of `nodes_max` open files, in use or cached, and `listing_bytes_max` bytes of directory listings. The
    /// number of nodes exceeds `nodes_max` only while more are in use.
    pub fn new(nodes_max: usize, listing_bytes_max: usize) -> Arc<Self> {
        let (nodes, listings) = (NodeBudget::new(nodes_max), ListingCache::new(listing_bytes_max));
        Arc::new(Self { nodes, listings })
    }

    /// A budget of a third of the process's descriptors. Raises the soft limit of descriptors to the hard one.
    pub fn of_process() -> Arc<Self> {
        Self::new(raise_descriptor_limit() / 3, LISTING_BYTES_MAX)
    }

    pub fn set_nodes_max(&self, nodes_max: usize) {
        self.nodes.set_nodes_max(nodes_max);
    }
}

impl fmt::Debug for ResourceBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceBudget").finish_non_exhaustive()
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
