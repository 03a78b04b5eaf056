//! State that all connections share.

use crate::handle::HandleSigner;
use crate::programs::Registration;
use crate::state::call_rates::CallRates;
use crate::state::mounts::MountTable;
use crate::state::nlm::Locks;
use crate::state::replay_cache::ReplayCache;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use vfs::SharedNamespace;
use vfs::bounds::Networks;

pub struct Service {
    pub namespace: SharedNamespace,
    pub signer: HandleSigner,
    /// Replies to calls that must not run twice; `None` disables the cache.
    pub replay: Option<Arc<ReplayCache>>,
    pub v4: crate::state::nfs4::ServiceState,
    pub mounts: MountTable,
    pub rates: CallRates,
    pub locks: Locks,
    /// The size of one network of clients, for the bounds on tables.
    pub networks: Networks,
    /// The port mapper's entries; empty if it is off.
    pub registered: Vec<Registration>,
}

impl Service {
    /// Runs periodic work, about once a second: retries callbacks, ends leases, and ends state that export rules
    /// no longer admit. `connected` returns the addresses with connections.
    pub fn tick(&self, connected: impl FnOnce() -> HashSet<IpAddr>) {
        self.locks.tick(connected);
        self.v4.tick();
        self.locks.apply_namespace(&self.namespace);
        self.v4.apply_namespace(&self.namespace);
    }
}
