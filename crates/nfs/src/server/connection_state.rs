//! State of a connection: the programs and exports it can reach, and its last session.

use super::tls::TlsPolicy;
use crate::programs::Programs;
use crate::state::nfs4::binding::Binding;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vfs::{Namespace, Origin};

pub(crate) struct ConnectionState {
    pub(crate) programs: Programs,
    /// The endpoint whose exports the connection can reach; `None` for all exports.
    pub(crate) endpoint: Option<IpAddr>,
    /// TLS, if the listener has it.
    pub(crate) tls: Option<TlsPolicy>,
    /// The last session of version 4 on this connection.
    pub(crate) binding: Binding,
    pub(crate) deferred_calls: Arc<AtomicU32>,
    /// The last namespace that had no export for this client ([`ConnectionState::may_mount`]).
    pub(crate) denied: AtomicU64,
}

impl ConnectionState {
    /// Whether an export admits a client of this origin. A negative result is cached until the namespace changes.
    pub(crate) fn may_mount(&self, namespace: &Arc<Namespace>, origin: Origin) -> bool {
        // The address identifies the namespace. A reused address could only repeat a negative result
        // until the namespace changes again.
        let namespace_id = Arc::as_ptr(namespace).addr() as u64;
        // A protocol is below 8, and a protection below 4.
        let key = namespace_id << 5 | u64::from(origin.protocol.0) << 2 | origin.protection as u64;
        if self.denied.load(Ordering::Relaxed) == key {
            return false;
        }
        let may = namespace.exports().iter().any(|export| export.rule(origin).is_some());
        if !may {
            self.denied.store(key, Ordering::Relaxed);
        }
        may
    }
}
