//! Change counters that rise with every change, over a number of the storage that may not.
//!
//! The counter is that number, such as the change time, plus an *offset*. A change through this process that leaves the
//! number as it was raises the offset by one. The offset outlives the node, but not the process. The counter of an idle
//! file may rise with that of another file that shares its floor.
//!
//! Read the offset *before* the state. So attributes may come with the counter of an earlier state, which costs a client
//! one more request, but never with that of a later one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::FileKey;

/// Largest offset of the files whose keys collide. A new node starts from it.
static FLOORS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
const COUNT: usize = 4096;
/// Offset of a file's counter from the number that the storage has for its state. It only rises.
pub struct CounterOffset {
    base: u64,
    offset: AtomicU64,
    floor: &'static AtomicU64,
}

impl CounterOffset {
    pub fn new(key: &FileKey, base: u64) -> Self {
        let floor = floor(key);
        Self { base, offset: AtomicU64::new(floor.load(Ordering::SeqCst)), floor }
    }

    /// The offset of a file that nobody changes.
    pub fn fixed() -> Self {
        static FLOOR: AtomicU64 = AtomicU64::new(0);
        Self { base: 0, offset: AtomicU64::new(0), floor: &FLOOR }
    }

    pub fn load(&self) -> u64 {
        self.base.wrapping_add(self.offset.load(Ordering::SeqCst))
    }

    /// The counter of a file that has changed since `before` and has this number now.
    pub fn raise_above(&self, before: u64, number: u64) -> u64 {
        let unraised = number.wrapping_add(self.base);
        // A counter that wraps around is still later than the one before.
        let needed = before.wrapping_add(1).wrapping_sub(unraised).cast_signed().max(0).cast_unsigned();
        let offset = self.offset.fetch_max(needed, Ordering::SeqCst).max(needed);
        self.floor.fetch_max(offset, Ordering::SeqCst);
        unraised.wrapping_add(offset)
    }

    pub fn advance(&self) {
        let offset = self.offset.fetch_add(1, Ordering::SeqCst) + 1;
        self.floor.fetch_max(offset, Ordering::SeqCst);
    }
}

/// The offset of a file without a node.
pub fn offset_of(key: &FileKey) -> u64 {
    floor(key).load(Ordering::SeqCst)
}

fn floor(key: &FileKey) -> &'static AtomicU64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let index = usize::try_from(hasher.finish() % COUNT as u64).unwrap_or(0);
    &FLOORS[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_counter_rises_when_clock_jumps() {
        let key = FileKey::new(b"a file whose clock jumps").unwrap();
        let offset = CounterOffset::new(&key, 0);
        let mut last = 100 + offset.load();
        for changed in [100, 100, 104, 102, 103, 90, 200, 200] {
            let now = offset.raise_above(last, changed);
            assert!(now > last, "{now} after {last} at {changed}");
            assert_eq!(now, changed + offset.load(), "what a look tells");
            last = now;
        }
        offset.advance();
        assert_eq!(CounterOffset::new(&key, 0).load(), offset.load(), "a new node goes on");
        assert_eq!(offset_of(&key), offset.load());
    }

    #[test]
    fn change_counter_rises_past_largest_number() {
        let key = FileKey::new(b"a file of a volume with a high base").unwrap();
        let offset = CounterOffset::new(&key, u64::MAX - 150);
        let mut last = 100u64.wrapping_add(offset.load());
        for changed in [100, 140, 130, 170, 170] {
            let now = offset.raise_above(last, changed);
            assert!(now.wrapping_sub(last).cast_signed() > 0, "{now} after {last} at {changed}");
            assert!(now.wrapping_sub(last) < 100, "{now} after {last} at {changed}");
            assert_eq!(now, changed.wrapping_add(offset.load()), "what a look tells");
            last = now;
        }
    }
}
