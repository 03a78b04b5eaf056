//! The arithmetic of MS-NLMP §3.3.2 and §3.4: proofs, keys and signatures.

use crate::names::{folded, utf16};
use crate::secret::NtHash;
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use rc4::{Rc4, StreamCipher};

/// `NTLMSSP_MESSAGE_SIGNATURE`, MS-NLMP §2.2.2.9.2.
pub(crate) type Signature = [u8; 16];

/// The first field of a signature.
const SIGNATURE_VERSION: [u8; 4] = 1_u32.to_le_bytes();
/// The sequence number of the first message in a direction, the last field of a signature.
const FIRST: [u8; 4] = 0_u32.to_le_bytes();

#[derive(Clone, Copy)]
pub(crate) enum Direction {
    ClientToServer,
    ServerToClient,
}

/// `NTOWFv2`, MS-NLMP §3.3.2: the key that proves one user's password in one domain.
pub(crate) struct ResponseKey(Hmac<Md5>);

impl ResponseKey {
    /// `domain` is UTF-16 as on the wire: its case matters.
    pub(crate) fn new(hash: &NtHash, user: &str, domain: &[u8]) -> Self {
        let mac = hmac_md5(hash.as_bytes()).chain_update(utf16(&folded(user))).chain_update(domain);
        Self(hmac_md5(&finalize(mac)))
    }

    /// `NTProofStr`: the response to a challenge, which also covers `temp`.
    pub(crate) fn proof(&self, challenge: &[u8; 8], temp: &[u8]) -> [u8; 16] {
        finalize(self.0.clone().chain_update(challenge).chain_update(temp))
    }

    /// Verifies a proof in constant time.
    pub(crate) fn verify(&self, challenge: &[u8; 8], temp: &[u8], proof: &[u8; 16]) -> bool {
        self.0.clone().chain_update(challenge).chain_update(temp).verify_slice(proof).is_ok()
    }

    /// `SessionBaseKey`, which with NTLMv2 is the `KeyExchangeKey` as well (MS-NLMP §3.4.5.1).
    pub(crate) fn session_base_key(&self, proof: &[u8; 16]) -> [u8; 16] {
        finalize(self.0.clone().chain_update(proof))
    }
}

/// `RC4K` of 16 bytes, its own inverse.
pub(crate) fn rc4k(key: &[u8; 16], mut bytes: [u8; 16]) -> [u8; 16] {
    rc4(key).apply_keystream(&mut bytes);
    bytes
}

/// The MIC over the three messages of an exchange, the last with zeros in place of the MIC (MS-NLMP §3.1.5.1.2).
pub(crate) fn mic(exported: &[u8; 16], messages: [&[u8]; 3]) -> [u8; 16] {
    finalize(mic_state(exported, messages))
}

pub(crate) fn verify_mic(exported: &[u8; 16], messages: [&[u8]; 3], mic: &[u8; 16]) -> bool {
    mic_state(exported, messages).verify_slice(mic).is_ok()
}

fn mic_state(exported: &[u8; 16], messages: [&[u8]; 3]) -> Hmac<Md5> {
    messages.into_iter().fold(hmac_md5(exported), |mac, message| mac.chain_update(message))
}

/// The first signature in a direction (MS-NLMP §3.4.4.2). Its checksum is sealed if a key was exchanged.
pub(crate) fn sign(exported: &[u8; 16], direction: Direction, is_sealed: bool, message: &[u8]) -> Signature {
    let mut checksum = [0; 8];
    checksum.copy_from_slice(&finalize(checksum_state(exported, direction, message))[..8]);
    seal(exported, direction, is_sealed, &mut checksum);
    let mut signature = [0; 16];
    signature[..4].copy_from_slice(&SIGNATURE_VERSION);
    signature[4..12].copy_from_slice(&checksum);
    signature[12..].copy_from_slice(&FIRST);
    signature
}

/// Verifies the first signature in a direction.
pub(crate) fn verify(
    exported: &[u8; 16],
    direction: Direction,
    is_sealed: bool,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let Ok(signature) = Signature::try_from(signature) else { return false };
    let mut checksum = [0; 8];
    checksum.copy_from_slice(&signature[4..12]);
    seal(exported, direction, is_sealed, &mut checksum);
    signature[..4] == SIGNATURE_VERSION
        && signature[12..] == FIRST
        && checksum_state(exported, direction, message).verify_truncated_left(&checksum).is_ok()
}

fn checksum_state(exported: &[u8; 16], direction: Direction, message: &[u8]) -> Hmac<Md5> {
    let key = derive_key(exported, direction, "signing");
    hmac_md5(&key).chain_update(FIRST).chain_update(message)
}

fn seal(exported: &[u8; 16], direction: Direction, is_sealed: bool, checksum: &mut [u8; 8]) {
    if is_sealed {
        rc4(&derive_key(exported, direction, "sealing")).apply_keystream(checksum);
    }
}

/// `SIGNKEY` and `SEALKEY` with 128 bits, MS-NLMP §3.4.5.2 and §3.4.5.3.
fn derive_key(exported: &[u8; 16], direction: Direction, purpose: &str) -> [u8; 16] {
    let (from, to) = match direction {
        Direction::ClientToServer => ("client", "server"),
        Direction::ServerToClient => ("server", "client"),
    };
    let magic = format!("session key to {from}-to-{to} {purpose} key magic constant\0");
    Md5::new().chain_update(exported).chain_update(magic).finalize().into()
}

fn rc4(key: &[u8; 16]) -> Rc4 {
    // RC4 accepts keys of 1 to 256 bytes.
    Rc4::new_from_slice(key).unwrap_or_else(|_| unreachable!())
}

fn hmac_md5(key: &[u8]) -> Hmac<Md5> {
    // HMAC accepts keys of any length (RFC 2104 §2).
    Hmac::new_from_slice(key).unwrap_or_else(|_| unreachable!())
}

fn finalize(mac: Hmac<Md5>) -> [u8; 16] {
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// MS-NLMP §4.2.1 and §4.2.4.
    #[test]
    fn specification_example_matches() {
        let key = ResponseKey::new(&NtHash::from_password("Password"), "User", &utf16("Domain"));
        assert_eq!(
            finalize(key.0.clone())[..],
            finalize(hmac_md5(&hex("0c868a403bfd7a93a3001ef22ef02e3f")))[..]
        );
        let challenge = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        let temp = hex(concat!(
            "01010000000000000000000000000000aaaaaaaaaaaaaaaa00000000",
            "02000c0044006f006d00610069006e0001000c005300650072007600650072000000000000000000"
        ));
        let proof = key.proof(&challenge, &temp);
        assert_eq!(proof[..], hex("68cd0ab851e51c96aabc927bebef6a1c"));
        assert!(key.verify(&challenge, &temp, &proof));
        assert!(!key.verify(&[0; 8], &temp, &proof));
        let base = key.session_base_key(&proof);
        assert_eq!(base[..], hex("8de40ccadbc14a82f15cb0ad0de95ca3"));
        assert_eq!(rc4k(&base, [0x55; 16])[..], hex("c5dad2544fc9799094ce1ce90bc9d03e"));
        assert_eq!(
            derive_key(&[0x55; 16], Direction::ClientToServer, "signing")[..],
            hex("4788dc861b4782f35d43fd98fe1a2d39")
        );
        assert_eq!(
            derive_key(&[0x55; 16], Direction::ClientToServer, "sealing")[..],
            hex("59f600973cc4960a25480a7c196e4c58")
        );
    }

    #[test]
    fn signature_covers_message_and_direction() {
        let exported = [0x55; 16];
        for is_sealed in [false, true] {
            let signature = sign(&exported, Direction::ClientToServer, is_sealed, b"message");
            let verify = |direction, message: &[u8], signature: &[u8]| {
                super::verify(&exported, direction, is_sealed, message, signature)
            };
            assert!(verify(Direction::ClientToServer, b"message", &signature));
            assert!(!verify(Direction::ServerToClient, b"message", &signature));
            assert!(!verify(Direction::ClientToServer, b"massage", &signature));
            assert!(!verify(Direction::ClientToServer, b"message", &signature[..15]));
            for at in 0..16 {
                let mut other = signature;
                other[at] ^= 1;
                assert!(!verify(Direction::ClientToServer, b"message", &other), "{at}");
            }
        }
    }

    /// MS-NLMP §4.2.4.4; the checksum before sealing.
    #[test]
    fn specification_checksum_matches() {
        let checksum = finalize(checksum_state(&[0x55; 16], Direction::ClientToServer, &utf16("Plaintext")));
        assert_eq!(checksum[..8], hex("70352851f2564309"));
    }
}
