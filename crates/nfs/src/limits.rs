//! Every bound of this crate, in one place; those of connections are in [`transport::limits`].

use transport::limits::CALLS_IN_PROGRESS_MAX;

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
/// Clients of NFSv4 a second that are recorded for a restart, of one address: each costs a flush, and no volume's limits count them.
pub const CLIENT_RECORDS_PER_S: u64 = 50;
/// MNTs a second of one client.
pub const CLIENT_MOUNTS_PER_S: u64 = 200;
/// Cached credentials per event loop, and as many cached callers.
pub const CACHED_CREDENTIALS: usize = 256;
/// Names that one event loop remembers, and handles, if there are descriptors for them.
pub const CACHED_NAMES: usize = 16_384;
/// The longest datagram that is read; calls of the port mapper and the lock manager are shorter.
pub const DATAGRAM_BYTES_MAX: usize = 2048;
/// Datagrams that wait for their turn at limits, of all senders.
pub const WAITING_DATAGRAMS_MAX: usize = 256;
/// Lines in the table of mounts; the longest reply to DUMP is then about 1.3 MiB.
pub const MOUNTS_MAX: usize = 1024;
/// Clients of the lock manager.
pub const LOCK_HOSTS_MAX: usize = 4096;
/// Clients of NFSv4 that are remembered over a restart.
pub const CLIENT_RECORDS_MAX: usize = 16_384;
/// Byte ranges and shares that one client may hold.
pub const CLIENT_LOCKS_MAX: usize = 16_384;
/// Byte ranges and shares of all clients.
pub const LOCKS_MAX: usize = 131_072;
/// Locks that one client may wait for.
pub const CLIENT_LOCK_WAITS_MAX: usize = 256;
/// Locks that all clients may wait for.
pub const LOCK_WAITS_MAX: usize = 8192;
/// The longest owner of a lock (`oh`), and the longest name by which a client calls itself; clients send a
/// process and their host's name.
pub const LOCK_OWNER_BYTES_MAX: usize = 256;
/// Seconds that a lock request waits before the client has to repeat it. Clients repeat it every 30 seconds.
pub const LOCK_WAIT_S: u64 = 3600;
/// Seconds for a client to confirm a lock that was granted after a wait; the call is repeated. A client that cannot be
/// called gets the lock by asking again within this time.
pub const LOCK_OFFER_S: u64 = 35;
/// Seconds after which a client that holds no lock is forgotten.
pub const LOCK_HOST_IDLE_S: u64 = 300;
/// Seconds without contact or connection after which a client with locks is probed.
pub const LOCK_HOST_SILENT_S: u64 = 300;
/// Seconds between two such questions.
pub const LOCK_HOST_PROBE_S: u64 = 60;
/// Seconds without an answer after which a client's locks yield to others.
pub const LOCK_HOST_UNRESPONSIVE_S: u64 = 180;
/// Seconds without an answer after which a client's locks end.
pub const LOCK_HOST_COURTESY_S: u64 = 24 * 3600;
/// Threads that call clients. Each unresponsive host can block one for some seconds.
pub const CALLBACK_THREADS_MAX: usize = 128;
/// Calls to clients that wait for such a thread.
pub const CALLBACKS_QUEUED_MAX: usize = 4096;
/// Hosts of which it is known whether they answer.
pub const CALLBACK_HOSTS_KNOWN_MAX: usize = 4096;

const _: () = assert!(CACHED_NAMES.is_power_of_two());
/// Slots per session, the number of its concurrent requests.
pub const SESSION_SLOTS_MAX: u32 = 256;
/// Open files, and lock owners in them, of one client of version 4 at most.
pub const CLIENT_STATES_MAX: usize = 1 << 17;
/// Open files and lock owners of all clients. With the longest owner names, half a GiB.
pub const STATES_MAX: usize = 1 << 18;
/// Byte ranges of one client of version 4 at most.
pub const CLIENT_RANGES_MAX: usize = 1 << 17;
/// Byte ranges of all clients of version 4, about 128 MiB.
pub const RANGES_MAX: usize = 1 << 20;
/// The share of each table for hosts that no export rule admits: one entry in this many.
pub const STRANGERS: usize = 32;
/// Clients of version 4 at most that have confirmed themselves.
pub const CLIENTS_MAX: usize = 8192;
/// Clients of version 4 at most that have not.
pub const INTRODUCTIONS_MAX: usize = 4096;
/// Open owners of one client of 4.0 at most.
pub const CLIENT_OPEN_OWNERS_MAX: usize = 16_384;
/// Open owners of all clients of 4.0. With the longest names and replies, 160 MiB.
pub const OPEN_OWNERS_MAX: usize = 65_536;
/// Sessions of all clients at most. Clients that come back while they are still known have a second one for a time.
pub const SESSIONS_MAX: usize = CLIENTS_MAX / 2 * 3;
/// Operations in one COMPOUND at most.
pub const COMPOUND_OPERATIONS_MAX: u32 = 64;
/// A reply of a session that is longer is not kept for a repetition.
pub const SESSION_REPLY_CACHED_BYTES_MAX: u32 = 4096;
/// Bytes of replies that all sessions keep, and of the room that requests being done have reserved for theirs.
pub const CACHED_REPLY_BYTES_MAX: usize = 64 << 20;
/// Ranges of data and holes in one reply to READ_PLUS. The client reads the rest with another request.
pub const READ_PLUS_CONTENTS_MAX: u32 = 16;
/// Retries of a compound that conflicts with another client, after 2, 4, 8 and 16 ms: 30 ms in all. Clients of NFSv4
/// retry soon after NFS4ERR_DELAY.
pub const RETRIES_MAX_V4: u32 = 4;
/// Retries of a call of NFSv3 that conflicts with another client, 2 s in all. Its clients wait for seconds before they
/// retry.
pub const RETRIES_MAX_V3: u32 = 10;
/// Deferred calls of NFSv3 per connection. Its other calls proceed meanwhile.
pub const DEFERRED_CALLS_MAX: u32 = CALLS_IN_PROGRESS_MAX / 2;
/// Deferred calls of each version, and the memory that they take.
pub const PARKED_CALLS_MAX: usize = 1024;
/// See [`PARKED_CALLS_MAX`].
pub const PARKED_BYTES_MAX: usize = 16 << 20;
/// Slots per back channel, the number of concurrent callbacks.
pub const CALLBACK_SLOTS_MAX: u32 = 16;
/// Background copies of all clients and of one, and the threads that run them.
pub const COPIES_MAX: usize = 256;
/// See [`COPIES_MAX`].
pub const CLIENT_COPIES_MAX: usize = 16;
/// See [`COPIES_MAX`].
pub const COPY_THREADS_MAX: usize = 2;
/// Locks that one client can wait for with a notification. It polls for more.
pub const CLIENT_WAITING_LOCKS_MAX: usize = 256;
/// Delegations of all clients. With their state, about 30 MiB.
pub const DELEGATIONS_MAX: usize = 1 << 16;
/// Delegations of one client at most. Before it has as many, it is asked to give some back.
pub const CLIENT_DELEGATIONS_MAX: usize = 1 << 14;
/// Bytes that one COPY copies at once where a limit has to be paid for it, so that it takes no more of a limit than a READ or WRITE may:
/// the client asks again for the rest, and others have their turn between.
pub const COPY_PAID_BYTES_MAX: u64 = 512 << 10;
