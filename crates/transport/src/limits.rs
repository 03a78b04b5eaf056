//! Every bound of this crate.

use std::time::Duration;

/// Bytes of a receive buffer: seven whole calls of 64 KiB fit.
pub const BUFFER_BYTES: usize = 512 << 10;
/// Longer messages that have not arrived completely are streamed. Behind shorter ones a buffer has room for a
/// transform's overhead.
pub const WHOLE_MESSAGE_BYTES_MAX: usize = 192 << 10;
/// Receive buffers in use at one time, over all connections: 48 MiB. When they are used up, sockets are not read until
/// one returns; TCP carries the back-pressure to the clients.
pub const BUFFERS_MAX: usize = 96;
/// Bytes of unfinished messages outside of receive buffers, over all connections. Past it, connections end whose
/// message has been unfinished for [`UNFINISHED_MESSAGE_S`]; past twice as many, any.
pub const SPILLED_BYTES_MAX: usize = 64 << 20;
/// Bytes of long messages in memory of their own, over all connections. Each counts with its final length. The same
/// rules apply as to [`SPILLED_BYTES_MAX`].
pub const LONG_TAILS_BYTES_MAX: usize = 256 << 20;
/// Seconds that a message may take to arrive while too many others are unfinished.
pub const UNFINISHED_MESSAGE_S: u32 = 10;
/// Parts of one message. Clients send one part; the bound stops those that send empty parts forever.
pub const PARTS_MAX: u32 = 4096;
/// Bytes after the body of a message longer than a receive buffer, unless the protocol sets another limit.
pub const TAIL_BYTES_MAX: usize = 4096;
/// Calls of one connection in progress on storage threads. Linux clients have at most 128 in flight. A long reply
/// counts as one call per [`LONG_REPLY_BYTES`].
pub const CALLS_IN_PROGRESS_MAX: u32 = 128;
pub const LONG_REPLY_BYTES: u32 = 128 << 10;
/// Calls of one connection that wait for the limits of volumes, and their bytes. Clients have fewer in flight, so a
/// volume at its limit delays no call to another volume on the same connection.
pub const QUEUED_CONNECTION_CALLS_MAX: usize = 1024;
pub const QUEUED_CONNECTION_BYTES_MAX: usize = 128 << 20;
/// Bytes of queued calls of one client, past which each of its connections may have one. Past twice as many, a further
/// call is answered with "try again later".
pub const QUEUED_CLIENT_BYTES_MAX: usize = 128 << 20;
/// Bytes of queued calls of all clients. The same rules apply as to [`QUEUED_CLIENT_BYTES_MAX`].
pub const QUEUED_BYTES_MAX: usize = 256 << 20;
/// Bytes received at one time from a connection while [`QUEUED_BYTES_MAX`] is exceeded.
pub const SCARCE_RECEIVE_BYTES: usize = 16 << 10;
/// Bytes of unread replies of one connection, past which its calls are no longer taken.
pub const UNREAD_REPLY_BYTES_MAX: usize = 2 << 20;
/// Bytes of unread replies of all connections, past which each client must first read all of its replies.
pub const UNREAD_TOTAL_BYTES_MAX: usize = 64 << 20;
/// Past this total, which includes long replies being produced, a long reply is deferred while its connection has
/// unread replies, or has [`UNREAD_REPLY_BYTES_MAX`] being produced.
pub const UNREAD_TOTAL_BYTES_FULL: usize = 2 * UNREAD_TOTAL_BYTES_MAX;
/// Past this total, connections end whose unread replies have not moved for longest.
pub const UNREAD_TOTAL_BYTES_SHED: usize = 2 * UNREAD_TOTAL_BYTES_FULL;
/// Past this total, which includes long replies being produced, no long reply is produced until connections have ended.
pub const UNREAD_TOTAL_BYTES_MOST: usize = UNREAD_TOTAL_BYTES_SHED + UNREAD_TOTAL_BYTES_MAX;
/// The first and the longest pause of a deferred long reply. Each pause is as long as all earlier ones together.
pub const LONG_REPLY_PAUSE_MIN: Duration = Duration::from_millis(2);
pub const LONG_REPLY_PAUSE_MAX: Duration = Duration::from_millis(256);
/// A call whose reply was deferred for this long is answered with "try again later": clients give up after a minute.
pub const LONG_REPLY_DEFER_MAX: Duration = Duration::from_secs(30);
/// Calls deferred for their long replies, and their bytes. Past that, further ones are refused immediately.
pub const LONG_REPLIES_DEFERRED_MAX: usize = 16_384;
pub const LONG_REPLIES_DEFERRED_BYTES_MAX: usize = 64 << 20;
/// Longer replies count as long. All calls in progress of one connection together, with shorter replies, stay below
/// [`UNREAD_REPLY_BYTES_MAX`].
pub const SHORT_REPLY_BYTES_MAX: usize = 8 << 10;
/// Calls of one connection, and bytes of their replies, before the next connection has its turn.
pub const TURN_CALLS_MAX: u32 = 128;
pub const TURN_BYTES_MAX: usize = 1 << 20;
/// Pipes between files and sockets, over all connections, if there are enough descriptors ([`crate::limit_pipes`]).
/// Each takes two. Past that, data is copied.
pub const PIPES_MAX: usize = 1024;
pub const STORAGE_THREADS_MAX: usize = 64;
/// Milliseconds that a storage thread waits for more calls of a leased connection.
pub const LEASE_MS: i64 = 2;
/// Consecutive receives without a call for a storage thread, after which the lease ends.
pub const LEASE_IDLE_TURNS: u32 = 4;
/// Seconds after which an idle storage thread ends.
pub const IDLE_THREAD_S: u64 = 10;
/// Seconds in which a message must arrive completely, and in which a long body or unread replies must make progress.
/// Then the connection ends.
pub const STALLED_S: u32 = 60;
pub const HANDSHAKE_S: u32 = 30;
/// Bytes that a client may send for its handshake: a certificate chain has a few thousand.
pub const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// TLS handshakes in progress, over all connections. A further one evicts the oldest of the network with most.
pub const HANDSHAKES_MAX: usize = 1024;
/// Seconds in which a new client must prove itself: by a user's login, or by a call of a host that may mount. A user
/// who types a password has half of it.
pub const UNPROVEN_S: u32 = 60;
/// The age below which an unproven connection or a handshake is evicted only for a network with fewer.
pub const EVICTION_AGE_MIN: Duration = Duration::from_secs(5);
/// Open evicted connections, past which the server pauses accepting.
pub const EVICTED_MAX: usize = 64;
/// Client addresses of one IPv6 network, for limits and fairness. All further addresses share one of them.
pub const ADDRESSES_OF_NETWORK_MAX: usize = 64;
/// Seconds without a call after which a connection ends. Clients with a mount call more often, or reconnect with their
/// next call.
pub const IDLE_S: u32 = 900;
/// Volumes that a connection remembers as used; past that, the least recent ones are forgotten.
pub const CONNECTION_VOLUMES_MAX: usize = 1024;
pub const CLIENT_CONNECTIONS_MAX: usize = 1024;
/// Connections over all listeners, if there are enough descriptors.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Connections over all listeners, however few descriptors there are.
pub const CONNECTIONS_MIN: usize = 64;
/// Descriptors for listeners, event loops, records and evicted connections.
pub const OTHER_DESCRIPTORS_MAX: usize = 256;
/// Open files in the caches of one event loop, if there are enough descriptors.
pub const CACHED_FILES_MAX: usize = 16_384;
/// Open files in the caches of one event loop, however few descriptors there are.
pub const CACHED_FILES_MIN: usize = 64;

const _: () = assert!(CACHED_FILES_MAX.is_power_of_two());
const _: () = assert!(CALLS_IN_PROGRESS_MAX as usize * SHORT_REPLY_BYTES_MAX <= UNREAD_REPLY_BYTES_MAX);
const _: () = assert!(WHOLE_MESSAGE_BYTES_MAX + (64 << 10) <= BUFFER_BYTES);
