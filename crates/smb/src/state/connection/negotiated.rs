//! What the two ends of a connection have agreed on (MS-SMB2 §3.3.1.7).

use smb_wire::Guid;
use smb_wire::compression::Compression;
use smb_wire::negotiate::{Capabilities, Cipher, SecurityMode, SigningAlgorithm};
use smb_wire::types::Dialect;

/// What client and server have agreed on.
#[derive(Clone, Debug)]
pub(crate) struct Negotiated {
    pub(crate) dialect: Dialect,
    pub(crate) client_guid: Guid,
    pub(crate) client_capabilities: Capabilities,
    pub(crate) client_security_mode: SecurityMode,
    /// What we have answered of signing.
    pub(crate) security_mode: SecurityMode,
    /// What we have answered, for clients that ask whether it has arrived.
    pub(crate) capabilities: Capabilities,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) signing: SigningAlgorithm,
    /// Whether the client has the POSIX extensions.
    pub(crate) posix: bool,
    pub(crate) compression: Option<Compression>,
}
