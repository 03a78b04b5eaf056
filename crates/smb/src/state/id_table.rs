//! Tables by ids that the service generates. Clients cannot choose the ids, so their hash needs no secret and takes a
//! tenth of the time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type IdTable<K, V> = HashMap<K, V, BuildHasherDefault<ProductHasher>>;

/// The hash of ids. Consecutive ids differ in the lowest bits, which select a slot, and in the highest, which
/// distinguish entries of a slot.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProductHasher(u64);

/// 2⁶⁴ divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for ProductHasher {
    fn finish(&self) -> u64 {
        // The lowest bits of a product depend on the lowest bits of its factors alone.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(FACTOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::FileId;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn hash_of_ids_in_steps_spreads_low_bits() {
        const COUNT: usize = 1 << 12;
        let hasher = BuildHasherDefault::<ProductHasher>::default();
        for step in [1, 2, 3, 8, 1000, 4096] {
            let numbers = || (1..=COUNT as u64).map(|number| number * step);
            let ids =
                numbers().map(|number| hasher.hash_one(FileId { persistent: number, volatile: number }));
            let alone = numbers().map(|number| hasher.hash_one(number));
            for hashes in [ids.collect::<Vec<_>>(), alone.collect()] {
                let different = |of: fn(&u64) -> u64| hashes.iter().map(of).collect::<HashSet<_>>().len();
                assert!(
                    different(|hash| hash % COUNT as u64) > COUNT / 2,
                    "the lowest bits of every {step}th"
                );
                assert_eq!(different(|hash| hash >> 57), 1 << 7, "the highest bits of every {step}th");
            }
        }
        assert_ne!(hasher.hash_one(1_u32), hasher.hash_one(2_u32));
    }
}
