//! Every bound of this crate. Bounds of connections are in [`transport::limits`].

use transport::limits::CALLS_IN_PROGRESS_MAX;

/// Maximum bytes of one READ or WRITE (FSINFO's `rtmax` and `wtmax`).
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// A READ of at least this many bytes goes from file to socket without a copy. Below, copying is cheaper.
/// Measured: 4 KiB 3.1 µs copied, 6.4 µs spliced; 64 KiB 24 µs copied, 12 µs spliced.
pub const SPLICE_BYTES_MIN: usize = 32 << 10;
/// Maximum bytes of one directory listing. A larger request is cut, as RFC 1813 §3.3.17 allows.
pub const LISTING_BYTES_MAX: u32 = 1 << 20;
/// The longest record: a WRITE of [`TRANSFER_BYTES_MAX`] and its headers.
pub const RECORD_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + 4096;
/// Cached handles, names and credentials of a lease thread: one bound for each.
pub const LEASE_CACHE_ENTRIES: usize = 32;
/// COMMITs a second of one client, over all its mounts. Each may cost a flush, and no volume's limits count it.
pub const CLIENT_COMMITS_PER_S: u64 = 4000;
/// New NFSv4 clients a second recorded for a restart, per address.
/// Each costs a flush, and no volume's limits count it.
pub const CLIENT_RECORDS_PER_S: u64 = 50;
pub const CLIENT_MOUNTS_PER_S: u64 = 200;
/// Questions for remote quotas a second of one client: each looks names up.
pub const CLIENT_QUOTAS_PER_S: u64 = 200;
/// Cached credentials per event loop, and as many cached callers.
pub const CACHED_CREDENTIALS: usize = 256;
/// Cached names per event loop, and cached handles if descriptors suffice.
pub const CACHED_NAMES: usize = 16_384;
/// The longest datagram read. Calls of the port mapper, the lock manager and remote quotas are shorter.
pub const DATAGRAM_BYTES_MAX: usize = 2048;
/// Datagrams of all senders that wait at limits.
pub const WAITING_DATAGRAMS_MAX: usize = 256;
/// Entries of the table of mounts. The longest reply to DUMP is then about 1.3 MiB.
pub const MOUNTS_MAX: usize = 1024;
pub const LOCK_HOSTS_MAX: usize = 4096;
/// NFSv4 clients recorded for a restart.
pub const CLIENT_RECORDS_MAX: usize = 16_384;
/// Byte ranges and shares of one client.
pub const CLIENT_LOCKS_MAX: usize = 16_384;
/// Byte ranges and shares of all clients.
pub const LOCKS_MAX: usize = 131_072;
pub const CLIENT_LOCK_WAITS_MAX: usize = 256;
pub const LOCK_WAITS_MAX: usize = 8192;
/// The longest lock owner (`oh`) and client name. Clients send a process and their host's name.
pub const LOCK_OWNER_BYTES_MAX: usize = 256;
/// Seconds that a lock request waits before the client has to repeat it. Clients repeat it every 30 seconds.
pub const LOCK_WAIT_S: u64 = 3600;
/// Seconds for a client to confirm a lock granted after a wait; the call is repeated.
/// A client that cannot be called gets the lock if it asks again within this time.
pub const LOCK_OFFER_S: u64 = 35;
/// Seconds before a client without locks is forgotten.
pub const LOCK_HOST_IDLE_S: u64 = 300;
/// Seconds without contact or connection after which a client with locks is probed.
pub const LOCK_HOST_SILENT_S: u64 = 300;
/// Seconds between two probes of a silent client.
pub const LOCK_HOST_PROBE_S: u64 = 60;
/// Seconds without an answer after which a client's locks yield to others.
pub const LOCK_HOST_UNRESPONSIVE_S: u64 = 180;
/// Seconds without an answer after which a client's locks end.
pub const LOCK_HOST_COURTESY_S: u64 = 24 * 3600;
/// Threads that call clients. Each unresponsive host can block one for some seconds.
pub const CALLBACK_THREADS_MAX: usize = 128;
/// Queued calls to clients.
pub const CALLBACKS_QUEUED_MAX: usize = 4096;
/// Hosts whose responsiveness is known.
pub const CALLBACK_HOSTS_KNOWN_MAX: usize = 4096;

const _: () = assert!(CACHED_NAMES.is_power_of_two());
/// Slots per session, the number of its concurrent requests.
pub const SESSION_SLOTS_MAX: u32 = 256;
/// Open files and lock owners of one client of version 4.
pub const CLIENT_STATES_MAX: usize = 1 << 17;
/// Open files and lock owners of all clients. With the longest owner names, half a GiB.
pub const STATES_MAX: usize = 1 << 18;
/// Byte ranges of one client of version 4.
pub const CLIENT_RANGES_MAX: usize = 1 << 17;
/// Byte ranges of all clients of version 4, about 128 MiB.
pub const RANGES_MAX: usize = 1 << 20;
/// Hosts that no export rule admits share one entry in this many of each table.
pub const STRANGERS: usize = 32;
/// Confirmed clients of version 4.
pub const CLIENTS_MAX: usize = 8192;
/// Unconfirmed clients of version 4.
pub const INTRODUCTIONS_MAX: usize = 4096;
/// Open owners of one client of 4.0.
pub const CLIENT_OPEN_OWNERS_MAX: usize = 16_384;
/// Open owners of all clients of 4.0. With the longest names and replies, 160 MiB.
pub const OPEN_OWNERS_MAX: usize = 65_536;
/// Sessions of all clients. A returning client has two sessions for a time.
pub const SESSIONS_MAX: usize = CLIENTS_MAX / 2 * 3;
/// Operations in one COMPOUND.
pub const COMPOUND_OPERATIONS_MAX: u32 = 64;
/// The longest session reply that is cached for a retry.
pub const SESSION_REPLY_CACHED_BYTES_MAX: u32 = 4096;
/// Bytes of cached replies of all sessions, and of the space reserved by running requests.
pub const CACHED_REPLY_BYTES_MAX: usize = 64 << 20;
/// Ranges of data and holes in one READ_PLUS reply. The client reads the rest with another request.
pub const READ_PLUS_CONTENTS_MAX: u32 = 16;
/// Retries of a compound that conflicts with another client, after 2, 4, 8 and 16 ms: 30 ms in all.
/// Clients of NFSv4 retry soon after NFS4ERR_DELAY.
pub const RETRIES_MAX_V4: u32 = 4;
/// Retries of an NFSv3 call that conflicts with another client, 2 s in all.
/// NFSv3 clients wait for seconds before they retry.
pub const RETRIES_MAX_V3: u32 = 10;
/// Deferred calls of NFSv3 per connection. Its other calls proceed meanwhile.
pub const DEFERRED_CALLS_MAX: u32 = CALLS_IN_PROGRESS_MAX / 2;
/// Deferred calls of each version. [`PARKED_BYTES_MAX`] bounds their memory.
pub const PARKED_CALLS_MAX: usize = 1024;
pub const PARKED_BYTES_MAX: usize = 16 << 20;
/// Slots per back channel, the number of concurrent callbacks.
pub const CALLBACK_SLOTS_MAX: u32 = 16;
/// Background copies of all clients.
pub const COPIES_MAX: usize = 256;
pub const CLIENT_COPIES_MAX: usize = 16;
pub const COPY_THREADS_MAX: usize = 2;
/// Locks that one client can wait for with a notification. It polls for more.
pub const CLIENT_WAITING_LOCKS_MAX: usize = 256;
/// Delegations of all clients. With their state, about 30 MiB.
pub const DELEGATIONS_MAX: usize = 1 << 16;
/// Delegations of one client. The server recalls some before the client reaches this number.
pub const CLIENT_DELEGATIONS_MAX: usize = 1 << 14;
/// Bytes of one COPY step where a limit applies, so a step takes no more of it than a READ or WRITE.
/// The client requests the rest, and other clients run in between.
pub const COPY_PAID_BYTES_MAX: u64 = 512 << 10;
