//! [`ClientIdGenerator`]: unpredictable, unique client ids.

use nfs_wire::v4::ClientId;
use std::hash::{BuildHasher, RandomState};

/// Gives numbers: the count of starts and of clients since, permuted with a secret. Stateids begin with them, so none is 0 or all ones.
#[derive(Default)]
pub(crate) struct ClientIdGenerator {
    secret: RandomState,
    pub(super) issued: u32,
}

/// Four rounds of Luby–Rackoff give a strong pseudorandom permutation.
const ROUNDS: u32 = 4;

impl ClientIdGenerator {
    /// A number of this start that was not given since four billion ago.
    pub(crate) fn next(&mut self, boot: u32) -> ClientId {
        loop {
            self.issued = self.issued.wrapping_add(1);
            let id = self.permute(boot, self.issued);
            if id != 0 && id != u64::MAX {
                return id;
            }
        }
    }

    /// Whether an id was issued in this start.
    pub(crate) fn has_issued(&self, boot: u32, id: ClientId) -> bool {
        let (high, count) = self.invert(id);
        high == boot && (1..=self.issued).contains(&count)
    }

    fn permute(&self, mut high: u32, mut low: u32) -> u64 {
        for round in 0..ROUNDS {
            (high, low) = (low, high ^ self.mix(round, low));
        }
        u64::from(high) << 32 | u64::from(low)
    }

    fn invert(&self, id: u64) -> (u32, u32) {
        let [a, b, c, d, e, f, g, h] = id.to_be_bytes();
        let (mut high, mut low) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        for round in (0..ROUNDS).rev() {
            (high, low) = (low ^ self.mix(round, high), high);
        }
        (high, low)
    }

    fn mix(&self, round: u32, half: u32) -> u32 {
        let [a, b, c, d, ..] = self.secret.hash_one((round, half)).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_are_given_once_and_known_again() {
        let mut numbers = ClientIdGenerator::default();
        let ids: HashSet<u64> = (0..10_000).map(|_| numbers.next(9)).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|&id| numbers.has_issued(9, id) && !numbers.has_issued(8, id)));
        let next = numbers.permute(9, 10_001);
        assert!(!numbers.has_issued(9, next), "not yet");
    }

    #[test]
    fn a_number_tells_nothing_of_the_next_one() {
        let mut numbers = ClientIdGenerator::default();
        let ids: Vec<u64> = (0..1000).map(|_| numbers.next(9)).collect();
        let near = ids.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 1 << 32).count();
        assert!(near <= 2, "{near} of a thousand are near to the one before");
        assert!(ids.iter().filter(|&&id| id >> 32 == 9).count() <= 2);
        let mut others = ClientIdGenerator::default();
        assert!((0..1000).all(|_| !ids.contains(&others.next(9))), "another run gives others");
    }
}
