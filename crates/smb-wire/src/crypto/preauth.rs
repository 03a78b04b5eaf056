//! Preauthentication integrity: a hash over what is said before there are keys.

use std::fmt;

use ring::digest::{Context, SHA512};

/// `PreauthIntegrityHashValue`, MS-SMB2 §3.3.1.7 and §3.3.1.8, by SHA-512, the only algorithm there is: a value that
/// starts as zeros, and becomes the hash of itself and the next message.
#[derive(Clone, PartialEq, Eq)]
pub struct Preauth(pub(super) [u8; 64]);

impl Default for Preauth {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl Preauth {
    /// Takes a message in, from its header on (MS-SMB2 §3.3.5.4 and §3.3.5.5).
    pub fn update(&mut self, message: &[u8]) {
        let mut hash = Context::new(&SHA512);
        hash.update(&self.0);
        hash.update(message);
        self.0.copy_from_slice(hash.finish().as_ref());
    }

    /// The value, which the keys of 3.1.1 are derived with.
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
