//! The blocks of a file that are preserved already, under one label.

use super::BlockSet;
use std::collections::HashMap;
use std::ops::Range;
use vfs::ViewId;

/// Blocks of a window, one bit each.
const WORDS: usize = 64;
const WINDOW_BLOCKS: u64 = 64 * WORDS as u64;

/// The preserved blocks of a file, as far as they are known. A node forgets them when it is dropped, so windows are read
/// again from the record. Guarded by the file's lock.
#[derive(Default)]
pub(crate) struct PreservedBlocks {
    label: ViewId,
    /// The record was made by this node, so that windows that are not here have no preserved block.
    is_complete: bool,
    windows: HashMap<u64, [u64; WORDS]>,
    /// The number of blocks that the file had.
    end: u64,
    /// Blocks that were preserved many at once. They have no bits in the windows.
    many: BlockSet,
}

impl PreservedBlocks {
    /// Whether the blocks of this label are known here.
    pub(crate) fn is_of(&self, label: ViewId) -> bool {
        self.label == label
    }

    /// Begins with a record of a file that had `end` blocks. It has `whole` with their holes.
    pub(crate) fn start(&mut self, label: ViewId, is_new: bool, end: u64, whole: &BlockSet) {
        *self = Self { label, is_complete: is_new, windows: HashMap::new(), end, many: whole.clone() };
    }

    /// The part of a range that the snapshot has.
    pub(crate) fn needed(&self, blocks: Range<u64>) -> Range<u64> {
        blocks.start.min(self.end)..blocks.end.min(self.end)
    }

    /// Whether all of these blocks were preserved many at once.
    pub(crate) fn has_many(&self, wanted: &Range<u64>) -> bool {
        self.many.missing(wanted).is_empty()
    }

    pub(crate) fn add_many(&mut self, blocks: Range<u64>) {
        self.many.add(blocks);
    }

    /// The blocks of `wanted` that are not preserved, as ranges. `read` returns the preserved ranges within a range of
    /// blocks, from the record.
    pub(crate) fn missing<E>(
        &mut self,
        wanted: Range<u64>,
        mut read: impl FnMut(Range<u64>) -> Result<Vec<Range<u64>>, E>,
    ) -> Result<Vec<Range<u64>>, E> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for part in self.many.missing(&wanted) {
            self.missing_in_windows(part, &mut read, &mut missing)?;
        }
        Ok(missing)
    }

    fn missing_in_windows<E>(
        &mut self,
        wanted: Range<u64>,
        read: &mut impl FnMut(Range<u64>) -> Result<Vec<Range<u64>>, E>,
        missing: &mut Vec<Range<u64>>,
    ) -> Result<(), E> {
        let mut at = wanted.start;
        while at < wanted.end {
            let window = at / WINDOW_BLOCKS;
            let end = wanted.end.min((window + 1) * WINDOW_BLOCKS);
            if !self.is_complete && !self.windows.contains_key(&window) {
                let blocks = window * WINDOW_BLOCKS..(window + 1) * WINDOW_BLOCKS;
                let preserved = read(blocks)?;
                self.windows.insert(window, [0; WORDS]);
                preserved.into_iter().for_each(|range| self.add(range));
            }
            let bits = self.windows.get(&window);
            for block in at..end {
                if bits.is_some_and(|bits| has(bits, block % WINDOW_BLOCKS)) {
                    continue;
                }
                match missing.last_mut() {
                    Some(last) if last.end == block => last.end += 1,
                    _ => missing.push(block..block + 1),
                }
            }
            at = end;
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, blocks: Range<u64>) {
        for block in blocks {
            let bits = self.windows.entry(block / WINDOW_BLOCKS).or_insert([0; WORDS]);
            let place = block % WINDOW_BLOCKS;
            bits[usize::try_from(place / 64).unwrap_or(0)] |= 1 << (place % 64);
        }
    }
}

fn has(bits: &[u64; WORDS], place: u64) -> bool {
    bits[usize::try_from(place / 64).unwrap_or(0)] & 1 << (place % 64) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(blocks: &mut PreservedBlocks, wanted: Range<u64>) -> Vec<Range<u64>> {
        blocks.missing(wanted, |_| Ok::<_, ()>(Vec::new())).unwrap()
    }

    #[test]
    fn missing_blocks_are_those_not_added() {
        let mut blocks = PreservedBlocks::default();
        blocks.start(ViewId(1), true, u64::MAX, &BlockSet::default());
        blocks.add(3..5);
        blocks.add(WINDOW_BLOCKS - 1..WINDOW_BLOCKS + 2);
        assert_eq!(missing(&mut blocks, 0..10), [0..3, 5..10]);
        assert_eq!(missing(&mut blocks, 3..5), []);
        assert_eq!(
            missing(&mut blocks, WINDOW_BLOCKS - 2..WINDOW_BLOCKS + 3),
            [WINDOW_BLOCKS - 2..WINDOW_BLOCKS - 1, WINDOW_BLOCKS + 2..WINDOW_BLOCKS + 3]
        );
    }

    #[test]
    fn blocks_that_were_preserved_at_once_are_not_missing() {
        let mut blocks = PreservedBlocks::default();
        blocks.start(ViewId(1), true, u64::MAX, &[2..3, 3..4].into_iter().collect());
        blocks.add(6..7);
        blocks.add_many(10..1 << 40);
        assert_eq!(missing(&mut blocks, 0..12), [0..2, 4..6, 7..10]);
        assert!(blocks.has_many(&(100..1 << 39)) && !blocks.has_many(&(9..11)));
    }

    #[test]
    fn unknown_windows_are_read_once() {
        let mut blocks = PreservedBlocks::default();
        blocks.start(ViewId(1), false, u64::MAX, &BlockSet::default());
        let mut reads = Vec::new();
        for _ in 0..2 {
            let missing = blocks.missing(5..WINDOW_BLOCKS + 1, |window| {
                reads.push(window.clone());
                Ok::<_, ()>(
                    [4..6, 6..7].map(|part| window.start + part.start..window.start + part.end).to_vec(),
                )
            });
            // 4 to 6 of the first window, and only its own first block of the second.
            assert_eq!(missing.unwrap().first(), Some(&(7..WINDOW_BLOCKS + 1)));
        }
        assert_eq!(reads, [0..WINDOW_BLOCKS, WINDOW_BLOCKS..2 * WINDOW_BLOCKS]);
    }
}
