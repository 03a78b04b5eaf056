//! Keys, signatures and encryption of messages, MS-SMB2 §3.1.4 and §3.3.5.5.3. Key schedules are computed once, with
//! the key's type. Nothing here reads a clock or draws random bytes.

mod cmac;
mod gcm;
pub mod kdf;
mod preauth;
pub mod sealing;
pub mod signing;

pub use preauth::Preauth;

use std::fmt;

pub type Key128 = [u8; 16];

/// A signature does not match its message, or bytes were not encrypted with this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSignature;

impl fmt::Display for InvalidSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message does not match its signature")
    }
}

impl std::error::Error for InvalidSignature {}

#[cfg(test)]
pub(crate) mod tests;
