//! Message signatures, MS-SMB2 §3.1.4.1 and §3.1.5.1.

use std::fmt;

use gmac::Gmac;
use ring::hmac;

use super::cmac::Cmac;
use super::{InvalidSignature, Key128};
use crate::header::{Command, FLAGS_OFFSET, Flags, HEADER_SIZE, MESSAGE_ID_OFFSET, SIGNATURE_OFFSET};
use crate::negotiate::SigningAlgorithm;

const COMMAND_OFFSET: usize = 12;

pub struct Key(Algorithm);

enum Algorithm {
    HmacSha256(hmac::Key),
    AesCmac(Cmac),
    AesGmac(Gmac),
}

impl Key {
    /// Prepares a signing key. `None` if the algorithm is not supported.
    pub fn new(algorithm: SigningAlgorithm, key: &Key128) -> Option<Self> {
        let algorithm = match algorithm {
            SigningAlgorithm::HMAC_SHA256 => Algorithm::HmacSha256(hmac::Key::new(hmac::HMAC_SHA256, key)),
            SigningAlgorithm::AES_CMAC => Algorithm::AesCmac(Cmac::new(key)),
            SigningAlgorithm::AES_GMAC => Algorithm::AesGmac(Gmac::new(key)),
            _ => return None,
        };
        Some(Self(algorithm))
    }

    /// Signs one message, from its header to its end, including the padding before the next one of a compound. Sets
    /// `SIGNED` and the signature.
    ///
    /// # Panics
    /// If it is shorter than a header.
    pub fn sign(&self, message: &mut [u8]) {
        let (header, rest) = message.split_first_chunk_mut().expect(HEADER);
        set_signed_flag(header);
        let signature = self.signature(header, rest);
        header[SIGNATURE_OFFSET..].copy_from_slice(&signature);
    }

    /// Whether [`sign_all`] is faster for several messages than single calls.
    pub fn benefits_from_batching(&self) -> bool {
        matches!(self.0, Algorithm::AesCmac(_))
    }

    /// Verifies the signature of one message, from its header to its end, whether or not `SIGNED` is set.
    pub fn verify(&self, message: &[u8]) -> Result<(), InvalidSignature> {
        let (header, rest) = message.split_first_chunk().ok_or(InvalidSignature)?;
        let expected = u128::from_le_bytes(self.signature(header, rest));
        let found = *header.last_chunk().expect("a header is longer than its signature");
        // Compared as one number, so that the time does not depend on the first difference.
        if expected ^ u128::from_le_bytes(found) == 0 { Ok(()) } else { Err(InvalidSignature) }
    }

    /// Computes the signature; the signature field counts as zeros.
    fn signature(&self, header: &[u8; HEADER_SIZE], rest: &[u8]) -> [u8; 16] {
        let mut header = *header;
        header[SIGNATURE_OFFSET..].fill(0);
        let parts = [&header[..], rest];
        match &self.0 {
            Algorithm::HmacSha256(key) => {
                let mut hmac = hmac::Context::with_key(key);
                parts.iter().for_each(|part| hmac.update(part));
                *hmac.sign().as_ref().first_chunk().expect("HMAC-SHA256 gives 32 bytes")
            }
            Algorithm::AesCmac(key) => key.mac(parts),
            Algorithm::AesGmac(key) => key.mac(nonce(&header), parts),
        }
    }
}

const HEADER: &str = "a message starts with its header";

fn set_signed_flag(header: &mut [u8; HEADER_SIZE]) {
    // `SIGNED` is in the first byte.
    let [signed, ..] = Flags::SIGNED.0.to_le_bytes();
    header[FLAGS_OFFSET] |= signed;
}

/// Signs many messages as [`Key::sign`] does. Faster if neighbors share a key of AES-CMAC: these are signed in
/// lockstep.
///
/// # Panics
/// If one is shorter than a header.
pub fn sign_all(messages: &mut [(&Key, &mut [u8])]) {
    for run in messages.chunk_by_mut(|one, other| std::ptr::eq(one.0, other.0)) {
        match (&run[0].0.0, run.len()) {
            (Algorithm::AesCmac(key), 2..) => sign_in_lockstep(key, run),
            _ => run.iter_mut().for_each(|(key, message)| key.sign(message)),
        }
    }
}

fn sign_in_lockstep(key: &Cmac, run: &mut [(&Key, &mut [u8])]) {
    for (_, message) in &mut *run {
        let header = message.first_chunk_mut().expect(HEADER);
        set_signed_flag(header);
        header[SIGNATURE_OFFSET..].fill(0);
    }
    let signatures = key.macs(run.iter().map(|(_, message)| &**message));
    for ((_, message), signature) in run.iter_mut().zip(signatures) {
        message[SIGNATURE_OFFSET..HEADER_SIZE].copy_from_slice(&signature);
    }
}

/// The nonce of GMAC, MS-SMB2 §3.1.4.1: `MessageId`, the sender's role, and whether it is a CANCEL, which reuses the id
/// of the cancelled request.
fn nonce(header: &[u8; HEADER_SIZE]) -> [u8; 12] {
    let [response, ..] = Flags::SERVER_TO_REDIR.0.to_le_bytes();
    let is_cancel = header[COMMAND_OFFSET..][..2] == Command::CANCEL.0.to_le_bytes();
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&header[MESSAGE_ID_OFFSET..][..8]);
    nonce[8] = header[FLAGS_OFFSET] & response | u8::from(is_cancel) << 1;
    nonce
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Algorithm::HmacSha256(_) => "Key(HMAC_SHA256)",
            Algorithm::AesCmac(_) => "Key(AES_CMAC)",
            Algorithm::AesGmac(_) => "Key(AES_GMAC)",
        })
    }
}
