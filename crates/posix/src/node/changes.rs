//! How often files have changed through this process: what tells whether something remembered of a file still holds.
//!
//! One count serves all files whose numbers fall together; a change of one of them then voids what is remembered of the
//! others, which costs a system call and nothing else. The counts are the process's, because two exports may show the
//! same files.

use std::sync::atomic::{AtomicU32, Ordering};

const COUNTS: usize = 4096;
static CHANGES: [AtomicU32; COUNTS] = [const { AtomicU32::new(0) }; COUNTS];

/// The count of a file, by device and inode number. What is learnt of the file after this holds while the count stays.
pub(crate) fn count(device: u64, inode: u64) -> u32 {
    place(device, inode).load(Ordering::SeqCst)
}

/// Notes that a file has changed: after the change, before anybody is told that it is done.
pub(crate) fn note(device: u64, inode: u64) {
    place(device, inode).fetch_add(1, Ordering::SeqCst);
}

fn place(device: u64, inode: u64) -> &'static AtomicU32 {
    let mixed = (inode ^ device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The top bits depend on all others.
    let place = usize::try_from(mixed >> (u64::BITS - COUNTS.ilog2())).unwrap_or(0);
    &CHANGES[place]
}
