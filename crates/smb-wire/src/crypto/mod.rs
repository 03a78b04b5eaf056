//! Cryptography: keys, signatures and encryption of messages, MS-SMB2 §3.1.4 and §3.3.5.5.3. Key schedules are made once,
//! with the key's type; nothing here asks for the time or for random bytes.

mod cmac;
mod gcm;
pub mod kdf;
mod preauth;
pub mod sealing;
pub mod signing;

pub use preauth::Preauth;

use std::fmt;

/// A key of 128 bits.
pub type Key128 = [u8; 16];

/// A signature that does not match its message, or bytes that were never encrypted with this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged;

impl fmt::Display for Forged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message does not match its signature")
    }
}

impl std::error::Error for Forged {}

#[cfg(test)]
pub(crate) mod tests;
