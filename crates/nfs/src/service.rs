//! What all connections share.

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

/// The NFS service: what is served, and what must be the same on every connection.
pub struct Service {
    /// What is served.
    pub namespace: SharedNamespace,
    /// Signs and verifies handles.
    pub signer: HandleSigner,
    /// Replies to calls that must not be done twice; `None` switches the cache off.
    pub replay: Option<Arc<ReplayCache>>,
    /// Clients of version 4, their sessions and what they hold.
    pub v4: crate::state::nfs4::ServiceState,
    /// Who has mounted what.
    pub mounts: MountTable,
    /// How often one client may call what no volume limits.
    pub rates: CallRates,
    /// What clients of the lock manager hold.
    pub locks: Locks,
    /// What is one network of clients, for the bounds of what they may make the service remember.
    pub networks: Networks,
    /// What the port mapper answers; empty if it is off.
    pub registered: Vec<Registration>,
}

impl Service {
    /// Calls clients that wait for locks, and ends leases and what rules of exports admit no longer. To be called about once a
    /// second. `connected` tells which addresses have connections.
    pub fn tick(&self, connected: impl FnOnce() -> HashSet<IpAddr>) {
        self.locks.tick(connected);
        self.v4.tick();
        self.locks.apply_namespace(&self.namespace);
        self.v4.apply_namespace(&self.namespace);
    }
}
