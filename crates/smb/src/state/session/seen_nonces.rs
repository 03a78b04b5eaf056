//! Protection of encrypted messages against replay.
//!
//! All channels of a session share the encryption key, and an encrypted message does not name its channel: message ids
//! belong to a connection (MS-SMB2 §3.3.1.1, §3.3.1.8). A message captured on one channel could be replayed on another
//! whose id is unused. A nonce is unique in a session (MS-SMB2 §2.2.41), so a repeated one reveals the replay.

use crate::limits::NONCES_MAX;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use vfs::sync::Mutex;

/// Nonces of the last messages: at least [`NONCES_MAX`], and less than twice as many.
#[derive(Default)]
pub(crate) struct SeenNonces {
    hasher: RandomState,
    sets: Mutex<NonceSets>,
}

/// Hashes of nonces: 8 bytes distinguish messages, because clients cannot choose the hash.
#[derive(Default)]
struct NonceSets {
    current: HashSet<u64>,
    previous: HashSet<u64>,
}

impl SeenNonces {
    /// Adds the nonce of an authentic message. Whether it is new.
    pub(crate) fn insert(&self, nonce: &[u8; 16]) -> bool {
        let hash = self.hasher.hash_one(nonce);
        let mut seen = self.sets.lock();
        if seen.previous.contains(&hash) || !seen.current.insert(hash) {
            return false;
        }
        if seen.current.len() >= NONCES_MAX {
            seen.previous = std::mem::take(&mut seen.current);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(number: usize) -> [u8; 16] {
        u128::try_from(number).unwrap().to_le_bytes()
    }

    #[test]
    fn seen_nonces_keep_the_last_ones_only() {
        let nonces = SeenNonces::default();
        for number in 0..3 * NONCES_MAX + NONCES_MAX / 2 {
            assert!(nonces.insert(&nonce(number)));
            assert!(!nonces.insert(&nonce(number)));
            assert!(!nonces.insert(&nonce(number.saturating_sub(NONCES_MAX - 1))));
            let seen = nonces.sets.lock();
            assert!(seen.current.len() + seen.previous.len() < 2 * NONCES_MAX);
        }
    }
}
