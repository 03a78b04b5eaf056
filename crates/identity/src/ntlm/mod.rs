//! NTLMv2 (MS-NLMP): NEGOTIATE, CHALLENGE and AUTHENTICATE. Older versions are refused.

pub(crate) mod acceptor;
mod av_pairs;
mod flags;
pub(crate) mod initiator;
mod keys;
mod message;
mod response;
#[cfg(test)]
mod tests;

pub(crate) use keys::{Direction, Signature};

use flags::Flags;

/// The first bytes of every message.
pub(crate) const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";

/// The minimum that a client must offer. Every current client offers more; less is a downgrade attack.
const REQUIRED: Flags = Flags::UNICODE.union(Flags::EXTENDED_SESSIONSECURITY).union(Flags::NEGOTIATE_128);

#[derive(Clone)]
pub(crate) struct Keys {
    /// `ExportedSessionKey`, MS-NLMP §3.1.5.1.2.
    pub(crate) exported: [u8; 16],
    flags: Flags,
}

impl Keys {
    /// Signs `message` as the first in its direction (MS-NLMP §3.4.4.2).
    pub(crate) fn sign(&self, direction: Direction, message: &[u8]) -> Signature {
        keys::sign(&self.exported, direction, self.flags.contains(Flags::KEY_EXCH), message)
    }

    pub(crate) fn verify(&self, direction: Direction, message: &[u8], signature: &[u8]) -> bool {
        keys::verify(&self.exported, direction, self.flags.contains(Flags::KEY_EXCH), message, signature)
    }
}
