//! Preauthentication integrity: a hash over the messages before the session has keys.

use std::fmt;

use ring::digest::{Context, SHA512};

/// `PreauthIntegrityHashValue`, MS-SMB2 §3.3.1.7 and §3.3.1.8, with SHA-512, the only algorithm. It starts as zeros;
/// each message replaces it with the hash of itself and the message.
#[derive(Clone, PartialEq, Eq)]
pub struct Preauth(pub(super) [u8; 64]);

impl Default for Preauth {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl Preauth {
    /// Absorbs a message, from its header on (MS-SMB2 §3.3.5.4 and §3.3.5.5).
    pub fn update(&mut self, message: &[u8]) {
        let mut hash = Context::new(&SHA512);
        hash.update(&self.0);
        hash.update(message);
        self.0.copy_from_slice(hash.finish().as_ref());
    }

    /// The value, an input to the key derivation of 3.1.1.
    pub fn value(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Debug for Preauth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Preauth(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
