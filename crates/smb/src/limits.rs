//! The limits of this crate.

use std::time::Duration;
use vfs::bounds::share;

/// Bytes of one READ or WRITE.
pub const IO_BYTES_MAX: u32 = 1 << 20;
/// Shorter READs are copied, since splicing pages costs more.
pub const SPLICE_BYTES_MIN: usize = 32 << 10;
/// Bytes of a listing, an attribute query or another result.
pub const TRANSACT_BYTES_MAX: u32 = 1 << 20;
/// Bytes of a WRITE besides its data: the transform header, the SMB2 header, and the client's padding.
pub const MESSAGE_EXTRA_BYTES: usize = 4096;
pub const MESSAGE_BYTES_MAX: usize = IO_BYTES_MAX as usize + MESSAGE_EXTRA_BYTES;
/// Shorter replies are not compressed: most of them would take as many packets.
pub const COMPRESSED_BYTES_MIN: usize = 4096;
/// Bytes that one credit covers (MS-SMB2 §3.1.5.2).
pub const CREDIT_BYTES: u32 = 64 << 10;
/// Message ids of a connection that are granted but unused, as in Windows.
pub const CREDITS_MAX: u32 = 8192;
/// The limit of credits while calls wait for a limit of the client's volume: no credits are granted above it.
pub const CREDITS_PRESSED_MAX: u32 = 128;
/// Message ids from the lowest unused one to the highest granted one; 2 KiB of bits.
pub const WINDOW_IDS_MAX: usize = 2 * CREDITS_MAX as usize;
pub const COMPOUND_COMMANDS_MAX: usize = 64;
/// Bytes of the reply to a compound; further commands are refused.
pub const COMPOUND_REPLY_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
pub const DIALECTS_MAX: usize = 64;
pub const NEGOTIATE_CONTEXTS_MAX: usize = 16;
pub const CONNECTION_SESSIONS_MAX: usize = 1024;
/// Connections of one session, as in Windows.
pub const SESSION_CHANNELS_MAX: usize = 32;
/// Nonces of encrypted messages that a session with several connections remembers: at least the last 4096, at most
/// twice as many, in up to 150 KiB.
pub const NONCES_MAX: usize = 4096;
/// Unfinished or anonymous sessions of one connection.
pub const CONNECTION_SETUPS_MAX: usize = 16;
/// Sessions of all connections.
pub const SESSIONS_MAX: usize = 65_536;
/// Unfinished or anonymous sessions of all connections, which any client can create. Beyond the limit, the server ends
/// the oldest session of the network with the most.
pub const SETUPS_MAX: usize = 4096;
/// The time limit of a session's setup.
pub const SETUP_TIME_MAX: Duration = Duration::from_secs(60);
/// The minimum time of an unfinished or anonymous session while no other network has fewer.
pub const SETUP_TIME_MIN: Duration = Duration::from_secs(5);
/// Refused logins of a network before throttling.
pub const REFUSED_AT_ONCE_MAX: u32 = 20;
/// The interval at which a throttled network regains a login attempt.
pub const REFUSED_EVERY: Duration = Duration::from_secs(1);
/// Networks with recorded refused logins. A new network takes over the entry, and the count, of the one with the
/// fewest.
pub const NETWORKS_MAX: usize = 4096;
/// The prefix length of a site's IPv6 networks. Providers assign at most this to a customer.
pub const SITE_PREFIX_BITS: u8 = 48;
/// Networks of one site with their own record; further ones share one.
pub const SITE_NETWORKS_MAX: usize = 64;
/// Tree connects of one session.
pub const SESSION_TREES_MAX: usize = 1024;
/// Tree connects of all sessions.
pub const TREES_MAX: usize = 131_072;
pub const SESSION_OPENS_MAX: usize = 16_384;
/// Pipes of one session, which count as opens as well.
pub const SESSION_PIPES_MAX: usize = 2048;
/// Pipes of all sessions.
pub const PIPES_MAX: usize = 32_768;
/// Bytes in transit over the pipes of one session: incomplete calls and unread replies. Beyond the limit clients must
/// read before they write. The last write may exceed it by the buffers of one pipe, up to 1.3 MiB.
pub const SESSION_PIPE_BYTES_MAX: usize = 16 << 20;
/// Bytes in transit over the pipes of all sessions.
pub const PIPE_BYTES_MAX: usize = 256 << 20;
/// Context handles of one pipe: open users, groups and domains, 24 bytes each.
pub const PIPE_HANDLES_MAX: usize = 256;
/// Approximate bytes of a part of a list of users or groups; clients request the rest.
pub const ACCOUNT_LIST_BYTES_MAX: usize = 64 << 10;
/// Tree connects of one anonymous session. The limits of anonymous sessions together leave half of each total to users.
pub const ANONYMOUS_TREES_MAX: usize = 16;
/// Pipes of one anonymous session.
pub const ANONYMOUS_PIPES_MAX: usize = 4;
/// Bytes in transit over the pipes of all anonymous sessions.
pub const ANONYMOUS_PIPE_BYTES_MAX: usize = 16 << 20;
/// Opens of all sessions.
pub const OPENS_MAX: usize = 262_144;
/// Default time that a disconnected durable open waits for its client, in milliseconds.
pub const DURABLE_MS_DEFAULT: u32 = 60_000;
/// Maximum time that a disconnected durable open waits for its client, in milliseconds.
pub const DURABLE_MS_MAX: u32 = 300_000;
/// Disconnected opens of one user.
pub const DISCONNECTED_OF_USER_MAX: usize = 4096;
/// Disconnected opens of all users.
pub const DISCONNECTED_MAX: usize = 16_384;
/// Default time that a persistent open waits for its client, in milliseconds, counted from the restart.
pub const PERSISTENT_MS_DEFAULT: u32 = 120_000;
/// Persistent opens of one user. Each has a file in the state directory.
pub const PERSISTENT_OF_USER_MAX: usize = 4096;
/// Persistent opens of all users.
pub const PERSISTENT_MAX: usize = 16_384;
/// Byte ranges of one persistent open: each lock rewrites all of them.
pub const PERSISTENT_RANGES_MAX: usize = 4096;
/// Extended attributes that one request sets or names: more than a file can have.
pub const EAS_MAX: usize = 1024;
/// Byte ranges of one LOCK (implementation-specific, MS-SMB2 §3.3.5.14).
pub const LOCKS_MAX: usize = 64;
/// Chunks of one SRV_COPYCHUNK, as in Windows (MS-SMB2 §3.3.3).
pub const COPY_CHUNKS_MAX: u32 = 256;
/// Bytes of one chunk, as in Windows.
pub const COPY_CHUNK_BYTES_MAX: u32 = 1 << 20;
/// Bytes of all chunks of a request, as in Windows.
pub const COPY_BYTES_MAX: u32 = 16 << 20;
/// Bytes that a SRV_COPYCHUNK copies per charge, so that it takes no more of a limit at once than a READ and a WRITE.
/// No chunk is longer, so that an overlapping one is read before it is written.
pub const COPY_PAID_BYTES_MAX: u32 = COPY_CHUNK_BYTES_MAX;
/// Bytes that the commands of one message are charged for together.
pub const PAID_BYTES_MAX: u32 = 4 * IO_BYTES_MAX;
/// Bytes of create contexts without a memory charge: leases, durable opens and the like need less.
pub const CREATE_CONTEXTS_BYTES_FREE: u32 = 512;
/// Ranges of one FILE_LEVEL_TRIM that are processed; the response has their number.
pub const TRIM_RANGES_MAX: usize = 1024;
/// Operations that FSCTL_SRV_ENUMERATE_SNAPSHOTS costs at a limit. It looks a path up in each of up to 255 snapshots.
pub const ENUMERATION_OPERATIONS: u32 = 16;
/// Locks of names in creation, for all directories together: bounds concurrent creations, with few collisions.
pub const NAME_LOCKS: usize = 1024;
pub const PATH_NAMES_MAX: usize = 256;
/// Bytes of changes queued for one open.
pub const NOTIFY_BYTES_MAX: usize = 64 << 10;
/// UTF-16 units of a search pattern.
pub const PATTERN_UNITS_MAX: usize = 255;
/// UTF-16 units of a stream's name (MS-FSCC §2.1.5.3).
pub const STREAM_UNITS_MAX: usize = 255;
/// Attempts of a CREATE whose name others create and remove concurrently.
pub const CREATE_TRIES: u32 = 8;
/// Milliseconds between two attempts of a call that conflicts with another.
pub const RETRY_MS: u64 = 20;
/// Milliseconds after which a conflicting call fails; clients wait longer.
pub const RETRY_MS_MAX: u64 = 15_000;
/// Deferred calls.
pub const PARKED_CALLS_MAX: usize = 16_384;
/// Bytes of deferred calls.
pub const PARKED_BYTES_MAX: usize = 16 << 20;
/// Pending requests of one connection, as in Windows (MS-SMB2 §3.3.4.2). Orphaned CREATEs count toward another
/// connection.
pub const CONNECTION_WAITING_MAX: usize = 511;
/// Bytes of pending requests of one connection.
pub const CONNECTION_WAITING_BYTES_MAX: usize = 4 << 20;
/// Pending requests of all connections.
pub const WAITING_MAX: usize = 65_536;
/// Bytes of pending requests of all connections.
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// The share of one user in the total, which leaves the rest to others ([`user_share_max`]). All anonymous sessions
/// count as one user.
pub const SESSIONS_OF_USER_MAX: usize = SESSIONS_MAX / 4;
pub const TREES_OF_USER_MAX: usize = TREES_MAX / 4;
pub const OPENS_OF_USER_MAX: usize = OPENS_MAX / 4;
pub const PIPES_OF_USER_MAX: usize = PIPES_MAX / 4;
pub const PIPE_BYTES_OF_USER_MAX: usize = PIPE_BYTES_MAX / 4;
pub const WAITING_OF_USER_MAX: usize = WAITING_MAX / 4;
pub const WAITING_BYTES_OF_USER_MAX: usize = WAITING_BYTES_MAX / 4;
/// The time in which the client's machine must confirm a break. After that the connection ends and the break moves to
/// another channel.
pub const DELIVERY: Duration = Duration::from_secs(5);
/// The time in which a session's only connection must confirm a break: its opens end with it. Requests that wait for
/// the acknowledgment wait longer.
pub const DELIVERY_ALONE: Duration = Duration::from_secs(30);
/// Seconds of idle time until a connection is closed. Its opens end with it, so this is long; clients that monitor
/// their connections send an ECHO each minute.
pub const IDLE_S: u32 = 4 * 3600;

/// The share of one user in `all_max` while other users have `others`: `of_user_max`, or less if little is left.
pub(crate) fn user_share_max(of_user_max: usize, all_max: usize, others: usize) -> usize {
    of_user_max.min(share(all_max, others))
}

const _: () = assert!(SETUPS_MAX * ANONYMOUS_TREES_MAX <= TREES_MAX / 2, "users have tree connects left");
const _: () = assert!(SETUPS_MAX * ANONYMOUS_PIPES_MAX <= PIPES_MAX / 2, "users have pipes left");
const _: () = assert!(MESSAGE_BYTES_MAX < 1 << 24, "the length on the wire has three bytes");
