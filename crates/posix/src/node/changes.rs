//! Change counts of files through this process. An unchanged count means that cached data of the file is valid.
//!
//! Files whose numbers collide share a count. A change of one then invalidates the cached data of the others, which
//! costs only a system call. The counts are global, because two exports may show the same files.

use std::sync::atomic::{AtomicU32, Ordering};

const COUNTS: usize = 4096;
static CHANGES: [AtomicU32; COUNTS] = [const { AtomicU32::new(0) }; COUNTS];

/// The count of a file, by device and inode number. Data read after this call is valid while the count stays.
pub(crate) fn count(device: u64, inode: u64) -> u32 {
    place(device, inode).load(Ordering::SeqCst)
}

/// Counts a change of a file. Call after the change and before it is reported.
pub(crate) fn note(device: u64, inode: u64) {
    place(device, inode).fetch_add(1, Ordering::SeqCst);
}

fn place(device: u64, inode: u64) -> &'static AtomicU32 {
    let mixed = (inode ^ device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The top bits depend on all others.
    let place = usize::try_from(mixed >> (u64::BITS - COUNTS.ilog2())).unwrap_or(0);
    &CHANGES[place]
}
