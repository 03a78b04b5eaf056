//! Every bound of this crate, in one place.

/// The most bytes of one READ or WRITE (FSINFO's `rtmax` and `wtmax`).
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// A READ of at least this many bytes goes from file to socket without a copy; below, copying is cheaper (measured:
/// 4 KiB 3.1 µs copied against 6.4 µs spliced; 64 KiB 24 against 12).
pub const SPLICE_BYTES_MIN: usize = 32 << 10;
/// The most bytes of one directory listing; larger wishes are cut, as RFC 1813 §3.3.17 allows.
pub const LISTING_BYTES_MAX: u32 = 1 << 20;
/// Bytes of a receive buffer: some whole calls of 64 KiB fit.
pub const BUFFER_BYTES: usize = 256 << 10;
/// Receive buffers in use at one time, over all connections: 48 MiB. When they are used up, sockets are not read until
/// one comes back; TCP carries the back-pressure to the clients.
pub const BUFFERS_MAX: usize = 192;
/// Bytes of unfinished calls that all connections together may keep outside of receive buffers. Past it, connections end
/// whose call has been unfinished for [`UNFINISHED_S`]; past twice as many, any.
pub const SPILLED_BYTES_MAX: usize = 64 << 20;
/// Seconds that a call may take to come in while too many others are unfinished.
pub const UNFINISHED_S: u32 = 10;
/// The longest record: a WRITE of [`TRANSFER_BYTES_MAX`] with all that may precede its data.
pub const RECORD_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + 4096;
/// The most fragments of one record. Clients send one; the bound is against those that send empty ones for ever.
pub const FRAGMENTS_MAX: u32 = 4096;
/// Calls of one connection that may wait for storage at one time. Linux clients have at most 128 in flight. A call
/// with a long reply counts as several, one for each [`STORAGE_CALL_REPLY_BYTES`] of it.
pub const STORAGE_CALLS_MAX: u32 = 128;
/// See [`STORAGE_CALLS_MAX`].
pub const STORAGE_CALL_REPLY_BYTES: u32 = 128 << 10;
/// Calls of one connection that may wait for the limits of volumes, and bytes of them: more than clients have in flight, so
/// that a volume at its limit holds up no call to another one on the same connection.
pub const QUEUED_CONNECTION_CALLS_MAX: usize = 1024;
/// See [`QUEUED_CONNECTION_CALLS_MAX`].
pub const QUEUED_CONNECTION_BYTES_MAX: usize = 128 << 20;
/// Bytes of such calls of one client, past which each of its connections may have but one. Past twice as many, a further one
/// is answered with "try again later".
pub const QUEUED_CLIENT_BYTES_MAX: usize = 128 << 20;
/// The same over all clients.
pub const QUEUED_BYTES_MAX: usize = 256 << 20;
/// Bytes that are received at one time from a connection while so much waits.
pub const SCARCE_RECEIVE_BYTES: usize = 16 << 10;
/// Bytes of replies that one connection may leave unread before its calls are no longer taken.
pub const UNREAD_REPLY_BYTES_MAX: usize = 2 << 20;
/// Bytes of replies that all connections together may leave unread before each must read what it has first.
pub const UNREAD_TOTAL_BYTES_MAX: usize = 64 << 20;
/// Past this, calls that were taken before and have long replies are answered with "try again later".
pub const UNREAD_TOTAL_BYTES_FULL: usize = 2 * UNREAD_TOTAL_BYTES_MAX;
/// Calls of one connection, and bytes of their replies, that are answered before the next connection has its turn.
pub const TURN_CALLS_MAX: u32 = 128;
/// See [`TURN_CALLS_MAX`].
pub const TURN_BYTES_MAX: usize = 1 << 20;
/// Pipes between files and sockets, over all connections; each takes two descriptors. Past that, data is copied.
pub const PIPES_MAX: usize = 1024;
/// Queued calls with less than this many bytes are copied, so that a large buffer is not held for a small
/// call.
pub const COPIED_BYTES_MAX: usize = 16 << 10;
/// Threads that do storage work at one time.
pub const STORAGE_THREADS_MAX: usize = 64;
/// Milliseconds that a storage thread waits for more calls of a connection that it has leased.
pub const LEASE_IDLE_MS: i64 = 2;
/// Receives in a row without a call for a storage thread after which it releases the connection.
pub const LEASE_IDLE_TURNS: u32 = 4;
/// Handles, and as many names, that it remembers while it does.
pub const LEASE_CACHE_ENTRIES: usize = 32;
/// Seconds that a storage thread without work stays.
pub const IDLE_THREAD_S: u64 = 10;
/// Seconds in which a call must have come in, and in which something must move of a long WRITE or of replies that the
/// client has not read; then the connection is closed.
pub const STALLED_S: u32 = 60;
/// Seconds without a call after which a connection is ended. Clients that mount stay connected by asking more often, or
/// connect again with their next call.
pub const IDLE_S: u32 = 900;
/// Volumes of which a connection remembers that it has used them; of more, those used longest ago are forgotten.
pub const CONNECTION_VOLUMES_MAX: usize = 1024;
/// Connections from one address.
pub const CLIENT_CONNECTIONS_MAX: usize = 1024;
/// COMMITs a second of one client, whatever it has mounted: each may cost a flush, and no volume's limits count them.
pub const CLIENT_COMMITS_PER_S: u64 = 4000;
/// MNTs a second of one client.
pub const CLIENT_MOUNTS_PER_S: u64 = 200;
/// Connections over all listeners, if there are descriptors for them.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Connections over all listeners, however few descriptors there are.
pub const CONNECTIONS_MIN: usize = 64;
/// Descriptors for other things than connections and files: pipes, listeners, event loops.
pub const DESCRIPTORS_RESERVED: usize = 2 * PIPES_MAX + 256;
/// Names that one event loop remembers, and handles, if there are descriptors for them.
pub const CACHED_NAMES: usize = 16_384;
/// Handles that it remembers, however few descriptors there are.
pub const CACHED_HANDLES_MIN: usize = 64;

/// The longest datagram that is read; calls of the port mapper are far shorter.
pub const DATAGRAM_BYTES_MAX: usize = 2048;
/// Lines in the table of mounts; the longest reply to DUMP is then about 1.3 MiB.
pub const MOUNTS_MAX: usize = 1024;

const _: () = assert!(COPIED_BYTES_MAX < BUFFER_BYTES);
const _: () = assert!(CACHED_NAMES.is_power_of_two());
