//! The result of NEGOTIATE (MS-SMB2 §3.3.1.7).

use smb_wire::Guid;
use smb_wire::compression::Compression;
use smb_wire::negotiate::{Capabilities, Cipher, SecurityMode, SigningAlgorithm};
use smb_wire::types::Dialect;

#[derive(Clone, Debug)]
pub(crate) struct Negotiated {
    pub(crate) dialect: Dialect,
    pub(crate) client_guid: Guid,
    pub(crate) client_capabilities: Capabilities,
    pub(crate) client_security_mode: SecurityMode,
    /// The signing modes in the reply.
    pub(crate) security_mode: SecurityMode,
    /// The capabilities in the reply, for clients that validate them.
    pub(crate) capabilities: Capabilities,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) signing: SigningAlgorithm,
    /// Whether the POSIX extensions are in use.
    pub(crate) posix: bool,
    pub(crate) compression: Option<Compression>,
}
