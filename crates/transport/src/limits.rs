//! Every bound of this crate, in one place.

use std::time::Duration;

/// Bytes of a receive buffer: seven whole calls of 64 KiB fit.
pub const BUFFER_BYTES: usize = 512 << 10;
/// A longer message that is not there as a whole is taken as it comes. Behind a shorter one there is room for what a
/// transform adds at a time.
pub const WHOLE_MESSAGE_BYTES_MAX: usize = 192 << 10;
/// Receive buffers in use at one time, over all connections: 48 MiB. When they are used up, sockets are not read until
/// one comes back; TCP carries the back-pressure to the clients.
pub const BUFFERS_MAX: usize = 96;
/// Bytes of unfinished messages that all connections together may keep outside of receive buffers. Past it, connections end
/// whose message has been unfinished for [`UNFINISHED_S`]; past twice as many, any.
pub const SPILLED_BYTES_MAX: usize = 64 << 20;
/// The same of long messages that are kept until they are whole, each counted as long as it is to be.
pub const LONG_TAILS_BYTES_MAX: usize = 256 << 20;
/// Seconds that a message may take to come in while too many others are unfinished.
pub const UNFINISHED_MESSAGE_S: u32 = 10;
/// The most parts of one message. Clients send one; the bound is against those that send empty ones for ever.
pub const PARTS_MAX: u32 = 4096;
/// The most bytes that follow the body of a message which is longer than a receive buffer, unless the protocol says otherwise.
pub const TAIL_BYTES_MAX: usize = 4096;
/// Calls of one connection that may be in progress on storage threads at one time. Linux clients have at most 128 in flight. A
/// call with a long reply counts as several, one for each [`LONG_REPLY_BYTES`] of it.
pub const CALLS_IN_PROGRESS_MAX: u32 = 128;
/// See [`CALLS_IN_PROGRESS_MAX`].
pub const LONG_REPLY_BYTES: u32 = 128 << 10;
/// Calls of one connection that may be queued for the limits of volumes, and bytes of them: more than clients have in flight,
/// so that a volume at its limit holds up no call to another one on the same connection.
pub const QUEUED_CONNECTION_CALLS_MAX: usize = 1024;
/// See [`QUEUED_CONNECTION_CALLS_MAX`].
pub const QUEUED_CONNECTION_BYTES_MAX: usize = 128 << 20;
/// Bytes of such calls of one client, past which each of its connections may have but one. Past twice as many, a further one
/// is answered with "try again later".
pub const QUEUED_CLIENT_BYTES_MAX: usize = 128 << 20;
/// The same over all clients.
pub const QUEUED_BYTES_MAX: usize = 256 << 20;
/// Bytes that are received at one time from a connection while so much is queued.
pub const SCARCE_RECEIVE_BYTES: usize = 16 << 10;
/// Bytes of replies that one connection may leave unread before its calls are no longer taken.
pub const UNREAD_REPLY_BYTES_MAX: usize = 2 << 20;
/// Bytes of replies that all connections together may leave unread before each must read what it has first.
pub const UNREAD_TOTAL_BYTES_MAX: usize = 64 << 20;
/// Past this, with the long replies being made, calls that were taken before and have long replies are put off while their
/// connection has left anything unread, or has as much being made as it may leave unread.
pub const UNREAD_TOTAL_BYTES_FULL: usize = 2 * UNREAD_TOTAL_BYTES_MAX;
/// Past this, connections end whose unread replies have not moved for longest.
pub const UNREAD_TOTAL_BYTES_SHED: usize = 2 * UNREAD_TOTAL_BYTES_FULL;
/// Past this, with the long replies being made, no long reply is made until connections have ended.
pub const UNREAD_TOTAL_BYTES_MOST: usize = UNREAD_TOTAL_BYTES_SHED + UNREAD_TOTAL_BYTES_MAX;
/// How long a long reply is put off at first, and at most at a time: each time as long as in all before.
pub const LONG_REPLY_PAUSE_MIN: Duration = Duration::from_millis(2);
/// See [`LONG_REPLY_PAUSE_MIN`].
pub const LONG_REPLY_PAUSE_MAX: Duration = Duration::from_millis(256);
/// A call whose reply was put off for so long is answered with "try again later": clients give up after a minute.
pub const LONG_REPLY_DEFER_MAX: Duration = Duration::from_secs(30);
/// Calls that are put off for their long replies, and bytes of them; past that, further ones are answered at once.
pub const LONG_REPLIES_DEFERRED_MAX: usize = 16_384;
/// See [`LONG_REPLIES_PUT_OFF_MAX`].
pub const LONG_REPLIES_DEFERRED_BYTES_MAX: usize = 64 << 20;
/// Longer replies are long ones. Of shorter ones, those to all calls of one connection in progress are less than it may leave
/// unread.
pub const SHORT_REPLY_BYTES_MAX: usize = 8 << 10;
/// Calls of one connection, and bytes of their replies, that are answered before the next connection has its turn.
pub const TURN_CALLS_MAX: u32 = 128;
/// See [`TURN_CALLS_MAX`].
pub const TURN_BYTES_MAX: usize = 1 << 20;
/// Pipes between files and sockets, over all connections, if there are descriptors for them ([`crate::limit_pipes`]); each takes two.
/// Past that, data is copied.
pub const PIPES_MAX: usize = 1024;
/// Threads that do storage work at one time.
pub const STORAGE_THREADS_MAX: usize = 64;
/// Milliseconds that a storage thread waits for more calls of a connection that it has leased.
pub const LEASE_MS: i64 = 2;
/// Receives in a row without a call for a storage thread after which it releases the connection.
pub const LEASE_IDLE_TURNS: u32 = 4;
/// Seconds that a storage thread without work stays.
pub const IDLE_THREAD_S: u64 = 10;
/// Seconds in which a message must have come in, and in which something must move of a long body or of replies that the
/// client has not read; then the connection is closed.
pub const STALLED_S: u32 = 60;
/// Seconds in which a TLS handshake must be done.
pub const HANDSHAKE_S: u32 = 30;
/// Bytes that a client may send for its handshake: a chain of certificates has a few thousand.
pub const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// TLS handshakes under way at one time, over all connections. For a further one, the oldest of the network that has most ends.
pub const HANDSHAKES_MAX: usize = 1024;
/// Seconds in which a client must prove something, from when it connects: a user's login, or a call of a host that may mount. A user who
/// types a password has half of it.
pub const UNPROVEN_S: u32 = 60;
/// How long a connection that has proven nothing, or a handshake, is left alone at least while no other network has fewer.
pub const EVICTION_AGE_MIN: Duration = Duration::from_secs(5);
/// Evicted connections that are still open, past which no further ones are accepted for a moment.
pub const EVICTED_MAX: usize = 64;
/// Addresses of one IPv6 network that are clients, for limits and fairness; all others share one of these.
pub const ADDRESSES_OF_NETWORK_MAX: usize = 64;
/// Seconds without a call after which a connection is ended. Clients that mount stay connected by asking more often, or
/// connect again with their next call.
pub const IDLE_S: u32 = 900;
/// Volumes of which a connection remembers that it has used them; of more, those used longest ago are forgotten.
pub const CONNECTION_VOLUMES_MAX: usize = 1024;
/// Connections from one address.
pub const CLIENT_CONNECTIONS_MAX: usize = 1024;
/// Connections over all listeners, if there are descriptors for them.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Connections over all listeners, however few descriptors there are.
pub const CONNECTIONS_MIN: usize = 64;
/// Descriptors for other things than connections, files and pipes: listeners, event loops, records.
pub const OTHER_DESCRIPTORS_MAX: usize = 256;
/// Files that the memory of one event loop may hold open, if there are descriptors for them.
pub const CACHED_FILES_MAX: usize = 16_384;
/// Files that it may hold open, however few descriptors there are.
pub const CACHED_FILES_MIN: usize = 64;

const _: () = assert!(CACHED_FILES_MAX.is_power_of_two());
const _: () = assert!(CALLS_IN_PROGRESS_MAX as usize * SHORT_REPLY_BYTES_MAX <= UNREAD_REPLY_BYTES_MAX);
const _: () = assert!(WHOLE_MESSAGE_BYTES_MAX + (64 << 10) <= BUFFER_BYTES);
