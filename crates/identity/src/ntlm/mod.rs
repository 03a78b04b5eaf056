//! NTLM with NTLMv2 (MS-NLMP): three messages, NEGOTIATE, CHALLENGE and AUTHENTICATE. Nothing older is taken.

pub(crate) mod acceptor;
mod answer;
mod flags;
pub(crate) mod initiator;
mod keys;
mod message;
mod pairs;
#[cfg(test)]
mod tests;

pub(crate) use keys::{Direction, Signature};

use flags::Flags;

/// What every message begins with.
pub(crate) const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";

/// What a client must want: anything less can be had only from those who want to break in.
const REQUIRED: Flags = Flags::UNICODE.and(Flags::EXTENDED_SESSIONSECURITY).and(Flags::NEGOTIATE_128);

/// The keys of an exchange that has ended well.
#[derive(Clone)]
pub(crate) struct Keys {
    /// `ExportedSessionKey`, MS-NLMP §3.1.5.1.2.
    pub(crate) exported: [u8; 16],
    flags: Flags,
}

impl Keys {
    /// The signature over `message`, the first in its direction (MS-NLMP §3.4.4.2).
    pub(crate) fn sign(&self, direction: Direction, message: &[u8]) -> Signature {
        keys::sign(&self.exported, direction, self.flags.has(Flags::KEY_EXCH), message)
    }

    /// Whether `signature` is the one over `message`.
    pub(crate) fn verify(&self, direction: Direction, message: &[u8], signature: &[u8]) -> bool {
        keys::verify(&self.exported, direction, self.flags.has(Flags::KEY_EXCH), message, signature)
    }
}
