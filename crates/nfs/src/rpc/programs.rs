//! Which programs are served where.

use super::tls::TlsPolicy;
use crate::nlm::silence::Presence;
use crate::v4::state::binding::Binding;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

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
    /// A sign of life for the lock manager.
    pub(crate) _presence: Presence,
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
