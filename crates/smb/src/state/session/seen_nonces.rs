//! Which encrypted messages a session has had, so that none of them is taken twice.
//!
//! All channels of a session encrypt with the same key, and nothing in an encrypted message says which of them it was sent over:
//! message ids are each connection's own (MS-SMB2 §3.3.1.1, §3.3.1.8). What was captured on one channel could be played again on
//! another that has its id unused. No nonce is used for two messages of a session (MS-SMB2 §2.2.41), so a nonce tells.

use crate::limits::NONCES_MAX;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use vfs::sync::Mutex;

/// Nonces of the last messages: at least [`NONCES_MAX`] of them, and less than twice as many.
#[derive(Default)]
pub(crate) struct SeenNonces {
    hasher: RandomState,
    sets: Mutex<NonceSets>,
}

/// Hashes: 8 bytes of each nonce are enough to tell messages apart, as clients cannot choose what they hash to.
#[derive(Default)]
struct NonceSets {
    current: HashSet<u64>,
    previous: HashSet<u64>,
}

impl SeenNonces {
    /// Whether a nonce was not used before; it is now. To be asked of messages that are not forged.
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
    fn the_last_nonces_are_known_and_no_more_kept() {
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
