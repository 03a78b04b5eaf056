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
use vfs::bounds::Networks;
use vfs::{Export, Origin, Refusals, SharedNamespace};

pub struct Service {
    pub namespace: SharedNamespace,
    pub signer: HandleSigner,
    /// Replies to calls that must not run twice; `None` disables the cache.
    pub replay: Option<Arc<ReplayCache>>,
    pub v4: crate::state::nfs4::ServiceState,
    pub mounts: MountTable,
    pub refusals: Refusals,
    pub rates: CallRates,
    pub locks: Locks,
    /// The size of one network of clients, for the bounds on tables.
    pub networks: Networks,
    /// The port mapper's entries; empty if it is off.
    pub registered: Vec<Registration>,
}

impl Service {
    /// Logs that a client may not mount a path, where `export` is if there is one.
    pub(crate) fn log_refusal(&self, origin: Origin, version: &str, path: &str, export: Option<&Export>) {
        if let Some(why) = self.refusals.add(origin, export) {
            tracing::info!(client = %origin.client, path, "a mount over NFS {version} is refused: {why}");
        }
    }

    /// Runs periodic work, about once a second: retries callbacks, ends leases, and ends state that export rules
    /// no longer admit. `connected` returns the addresses with connections.
    pub fn tick(&self, connected: impl FnOnce() -> HashSet<IpAddr>) {
        self.locks.tick(connected);
        self.v4.tick();
        self.locks.apply_namespace(&self.namespace);
        self.v4.apply_namespace(&self.namespace);
    }
}
