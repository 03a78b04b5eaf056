//! Every bound of this crate, in one place; those of connections are in [`transport::limits`].

/// The most bytes of one READ or WRITE (FSINFO's `rtmax` and `wtmax`).
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// A READ of at least this many bytes goes from file to socket without a copy; below, copying is cheaper (measured:
/// 4 KiB 3.1 µs copied against 6.4 µs spliced; 64 KiB 24 against 12).
pub const SPLICE_BYTES_MIN: usize = 32 << 10;
/// The most bytes of one directory listing; larger wishes are cut, as RFC 1813 §3.3.17 allows.
pub const LISTING_BYTES_MAX: u32 = 1 << 20;
/// The longest record: a WRITE of [`TRANSFER_BYTES_MAX`] with all that may precede its data.
pub const RECORD_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + 4096;
/// Handles, and as many names and credentials, that it remembers while it does.
pub const LEASE_CACHE_ENTRIES: usize = 32;
/// COMMITs a second of one client, whatever it has mounted: each may cost a flush, and no volume's limits count them.
pub const CLIENT_COMMITS_PER_S: u64 = 4000;
/// MNTs a second of one client.
pub const CLIENT_MOUNTS_PER_S: u64 = 200;
/// Credentials that one event loop remembers, and as many of what exports make of them.
pub const CACHED_CREDENTIALS: usize = 256;
/// Names that one event loop remembers, and handles, if there are descriptors for them.
pub const CACHED_NAMES: usize = 16_384;
/// The longest datagram that is read; calls of the port mapper are far shorter.
pub const DATAGRAM_BYTES_MAX: usize = 2048;
/// Lines in the table of mounts; the longest reply to DUMP is then about 1.3 MiB.
pub const MOUNTS_MAX: usize = 1024;

const _: () = assert!(CACHED_NAMES.is_power_of_two());
