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
pub(crate) struct Nonces {
    hasher: RandomState,
    seen: Mutex<Seen>,
}

/// Hashes: 8 bytes of each nonce are enough to tell messages apart, as clients cannot choose what they hash to.
#[derive(Default)]
struct Seen {
    new: HashSet<u64>,
    old: HashSet<u64>,
}

impl Nonces {
    /// Whether a nonce was not used before; it is now. To be asked of messages that are not forged.
    pub(crate) fn is_first(&self, nonce: &[u8; 16]) -> bool {
        let hash = self.hasher.hash_one(nonce);
        let mut seen = self.seen.lock();
        if seen.old.contains(&hash) || !seen.new.insert(hash) {
            return false;
        }
        if seen.new.len() >= NONCES_MAX {
            seen.old = std::mem::take(&mut seen.new);
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
        let nonces = Nonces::default();
        for number in 0..3 * NONCES_MAX + NONCES_MAX / 2 {
            assert!(nonces.is_first(&nonce(number)));
            assert!(!nonces.is_first(&nonce(number)));
            assert!(!nonces.is_first(&nonce(number.saturating_sub(NONCES_MAX - 1))));
            let seen = nonces.seen.lock();
            assert!(seen.new.len() + seen.old.len() < 2 * NONCES_MAX);
        }
    }
}
