//! Which programs are served where.

use super::tls::TlsPolicy;
use crate::v4::state::binding::Binding;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vfs::{Namespace, Origin};

/// What a connection may reach.
pub(crate) struct Reach {
    /// The programs that it may call.
    pub(crate) programs: Programs,
    /// The endpoint whose exports it sees; `None`: all exports.
    pub(crate) endpoint: Option<IpAddr>,
    /// TLS, where the listener has it.
    pub(crate) tls: Option<TlsPolicy>,
    /// The session of version 4 that it was used for last.
    pub(crate) binding: Binding,
    /// Its calls of version 3 that are put off.
    pub(crate) put_off: Arc<AtomicU32>,
    /// The namespace that was last found to have nothing for its client ([`Reach::may_mount`]).
    pub(crate) denied: AtomicU64,
}

impl Reach {
    /// Whether an export admits a client that calls from there. Where none does, all its calls until the namespace is another one
    /// are told so without a look at the exports.
    pub(crate) fn may_mount(&self, namespace: &Arc<Namespace>, origin: Origin) -> bool {
        let place = Arc::as_ptr(namespace).addr() as u64;
        // The protocol is below 8, and the protection below 4.
        let asked = place << 5 | u64::from(origin.protocol.0) << 2 | origin.protection as u64;
        if self.denied.load(Ordering::Relaxed) == asked {
            return false;
        }
        let may = namespace.exports().iter().any(|export| export.rule(origin).is_some());
        if !may {
            self.denied.store(asked, Ordering::Relaxed);
        }
        may
    }
}

/// The programs served on a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// NFS versions 3 and 4.
    pub nfs: bool,
    /// MOUNT versions 1 and 3.
    pub mount: bool,
    /// Port mapper version 2 and rpcbind versions 3 and 4.
    pub portmap: bool,
    /// NLM versions 1, 3 and 4, and NSM version 1.
    pub locks: bool,
}
