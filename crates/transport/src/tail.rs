//! The tail of a long message: the bytes after its body. It stays in memory until it is complete.
//!
//! For a protocol that processes messages as a whole, the tail is the whole message. Such a long tail is received
//! directly into reused memory: no byte is moved, and no memory is filled with zeros first.

use crate::limits::TAIL_BYTES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs::sync::Mutex;

/// Memory of long tails, for reuse.
#[derive(Default)]
pub(crate) struct TailPool {
    spare: Mutex<Vec<Vec<u8>>>,
    /// The final lengths of all long tails.
    bytes: AtomicUsize,
}

/// Pieces of memory that the pool retains.
const SPARE_MAX: usize = 8;
/// The first allocation of new memory. It grows with the received bytes, so that a client which sends little occupies
/// little.
const FIRST_BYTES: usize = 64 << 10;

impl TailPool {
    /// The memory of long tails that are incomplete or in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn take(&self, capacity: usize) -> Vec<u8> {
        let spare = self.spare.lock().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    fn put_back(&self, memory: Vec<u8>) {
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_MAX {
            spare.push(memory);
        }
    }
}

pub(crate) struct Tail {
    /// Initialized memory, of this tail or an earlier one.
    memory: Vec<u8>,
    filled: usize,
    len: usize,
    pool: Option<Arc<TailPool>>,
}

impl Tail {
    /// A tail of `len` bytes. The protocol allows at most `len_max`.
    pub(crate) fn new(len: usize, len_max: usize, pool: &Arc<TailPool>) -> Self {
        let pool = (len > TAIL_BYTES_MAX).then(|| Arc::clone(pool));
        let memory = pool.as_ref().map_or_else(|| Vec::with_capacity(len), |pool| pool.take(len_max));
        if let Some(pool) = &pool {
            pool.bytes.fetch_add(len, Ordering::Relaxed);
        }
        Self { memory, filled: 0, len, pool }
    }

    pub(crate) fn is_long(&self) -> bool {
        self.pool.is_some()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.filled == self.len
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.filled]
    }

    /// Appends bytes of the tail from the front of `received`. Returns their number.
    pub(crate) fn append(&mut self, received: &[u8]) -> usize {
        let taken = received.len().min(self.len - self.filled);
        let until = self.filled + taken;
        self.grow(until);
        self.memory[self.filled..until].copy_from_slice(&received[..taken]);
        self.filled = until;
        taken
    }

    /// Memory for receiving more of a long tail; `None` if a receive buffer is better, because it also takes the bytes
    /// that follow.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if self.pool.is_none() || self.is_whole() {
            return None;
        }
        self.grow((self.filled + self.filled.max(FIRST_BYTES)).min(self.len));
        let end = self.memory.len().min(self.len);
        Some(&mut self.memory[self.filled..end])
    }

    pub(crate) fn fill(&mut self, count: usize) {
        self.filled += count;
    }

    fn grow(&mut self, until: usize) {
        if self.memory.len() < until {
            self.memory.resize(until, 0);
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.bytes.fetch_sub(self.len, Ordering::Relaxed);
            pool.put_back(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN_MAX: usize = 1 << 20;

    /// Receives a tail of bytes `byte`, the first `before` of them through a buffer. Returns the number of later
    /// receives.
    fn receive(pool: &Arc<TailPool>, len: usize, before: usize, byte: u8) -> usize {
        let mut tail = Tail::new(len, LEN_MAX, pool);
        assert_eq!(tail.append(&vec![byte; before]), before);
        let mut pieces = 0;
        while let Some(room) = tail.room() {
            assert!(!room.is_empty());
            room.fill(byte);
            let count = room.len();
            tail.fill(count);
            pieces += 1;
        }
        assert!(tail.is_whole() && tail.bytes().len() == len);
        assert!(tail.bytes().iter().all(|&found| found == byte), "nothing of another one is among it");
        pieces
    }

    #[test]
    fn memory_is_reused_and_grows_with_the_received_bytes() {
        let pool = Arc::default();
        assert_eq!(receive(&pool, 200 << 10, 100, 1), 3, "64 KiB, as much again, and the rest");
        assert_eq!(receive(&pool, 100 << 10, 100, 2), 1, "what was used is there at once");
        assert_eq!(receive(&pool, LEN_MAX, 100, 3), 4);
        assert_eq!(receive(&pool, LEN_MAX, 100, 4), 1);
        let spare = pool.spare.lock();
        assert_eq!((spare.len(), spare[0].capacity()), (1, LEN_MAX), "it was never moved");
    }

    #[test]
    fn the_pool_retains_a_bounded_number_of_pieces() {
        let pool = Arc::default();
        drop((0..2 * SPARE_MAX).map(|_| Tail::new(LEN_MAX, LEN_MAX, &pool)).collect::<Vec<_>>());
        assert_eq!((pool.spare.lock().len(), pool.bytes()), (SPARE_MAX, 0));
    }

    #[test]
    fn a_short_tail_comes_through_a_buffer_and_following_bytes_remain() {
        let pool = Arc::default();
        let mut tail = Tail::new(5, LEN_MAX, &pool);
        assert!(tail.room().is_none());
        assert_eq!((tail.is_long(), pool.bytes()), (false, 0));
        assert_eq!((tail.append(b"abc"), tail.is_whole()), (3, false));
        assert_eq!((tail.append(b"defg"), tail.is_whole()), (2, true));
        assert_eq!(tail.bytes(), b"abcde");
        drop(tail);
        assert!(pool.spare.lock().is_empty());
    }
}
