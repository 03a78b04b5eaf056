//! Every bound of this crate, in one place.

use std::time::Duration;
use vfs::bounds::share;

/// The most bytes that one READ or WRITE moves.
pub const IO_BYTES_MAX: u32 = 1 << 20;
/// READs of fewer bytes are copied: moving pages costs more than that.
pub const SPLICE_BYTES_MIN: usize = 32 << 10;
/// The most bytes of a listing, of attributes or of another result.
pub const TRANSACT_BYTES_MAX: u32 = 1 << 20;
/// What a WRITE may take besides its data: the headers of a sealed message, its own, and what a client puts between.
pub const MESSAGE_EXTRA_BYTES: usize = 4096;
/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = IO_BYTES_MAX as usize + MESSAGE_EXTRA_BYTES;
/// Replies of fewer bytes are not compressed: most of them would leave in as many packets.
pub const COMPRESSED_BYTES_MIN: usize = 4096;
/// Bytes that one credit pays for (MS-SMB2 §3.1.5.2).
pub const CREDIT_BYTES: u32 = 64 << 10;
/// Message ids that one connection may have granted and unused, as of Windows.
pub const CREDITS_MAX: u32 = 8192;
/// The same while calls wait for a limit of the volume that a client uses: it is granted nothing until it has less.
pub const CREDITS_PRESSED_MAX: u32 = 128;
/// Message ids from the lowest unused one to the highest granted one; 2 KiB of bits.
pub const WINDOW_IDS_MAX: usize = 2 * CREDITS_MAX as usize;
/// Commands of one compound.
pub const COMPOUND_COMMANDS_MAX: usize = 64;
/// Bytes of the reply to a compound, past which its further commands are refused.
pub const COMPOUND_REPLY_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// Dialects of one NEGOTIATE, and its contexts.
pub const DIALECTS_MAX: usize = 64;
/// See [`DIALECTS_MAX`].
pub const NEGOTIATE_CONTEXTS_MAX: usize = 16;
/// Sessions of one connection.
pub const CONNECTION_SESSIONS_MAX: usize = 1024;
/// Connections of one session, as many as of Windows.
pub const SESSION_CHANNELS_MAX: usize = 32;
/// Nonces of encrypted messages that a session with several connections remembers: of the last so many, and of twice as many at
/// most, in up to 150 KiB.
pub const NONCES_MAX: usize = 4096;
/// Sessions of one connection that are being set up, or anonymous.
pub const CONNECTION_SETUPS_MAX: usize = 16;
/// Sessions of all connections.
pub const SESSIONS_MAX: usize = 65_536;
/// Those among them that are being set up or anonymous, and how long the first may take: nobody has proven anything who has one. For a
/// further one, the oldest of the network that has most gives way.
pub const SETUPS_MAX: usize = 4096;
/// See [`SETUPS_MAX`].
pub const SETUP_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a session that is being set up, or anonymous, is left alone at least while no other network has fewer.
pub const SETUP_TIME_MIN: Duration = Duration::from_secs(5);
/// Refused logins that one network has at once, and how long it is until there is another.
pub const REFUSED_AT_ONCE_MAX: u32 = 20;
/// See [`REFUSED_AT_ONCE_MAX`].
pub const REFUSED_EVERY: Duration = Duration::from_secs(1);
/// Networks whose refused logins are known. A further one takes the place of the one that has fewest, and has as many.
pub const NETWORKS_MAX: usize = 4096;
/// Leading bits that IPv6 networks of one site have in common: a provider gives that many, or more, to a customer.
pub const SITE_PREFIX_BITS: u8 = 48;
/// Networks of one site whose refused logins are known; those beyond share theirs.
pub const SITE_NETWORKS_MAX: usize = 64;
/// Tree connects of one session.
pub const SESSION_TREES_MAX: usize = 1024;
/// Tree connects of all sessions.
pub const TREES_MAX: usize = 131_072;
/// Opens of one session.
pub const SESSION_OPENS_MAX: usize = 16_384;
/// Pipes of one session, which count as opens as well.
pub const SESSION_PIPES_MAX: usize = 2048;
/// Pipes of all sessions.
pub const PIPES_MAX: usize = 32_768;
/// Bytes that are on their way over the pipes of one session, past which its clients have to read before they write: calls that are not
/// whole, and answers. The last write may go past it by what one pipe keeps, up to 1.3 MiB.
pub const SESSION_PIPE_BYTES_MAX: usize = 16 << 20;
/// The same of all sessions.
pub const PIPE_BYTES_MAX: usize = 256 << 20;
/// Context handles of one pipe: what a client has open of users and groups at a time, each of 24 bytes.
pub const PIPE_HANDLES_MAX: usize = 256;
/// Bytes of a part of a list of users or groups, about: clients ask for the rest.
pub const ACCOUNT_LIST_BYTES_MAX: usize = 64 << 10;
/// Tree connects of one anonymous session, its pipes, and the bytes on their way over those of all such sessions: with as many of these
/// as there may be, half of what there is of all is left to users.
pub const ANONYMOUS_TREES_MAX: usize = 16;
/// See [`ANONYMOUS_TREES_MAX`].
pub const ANONYMOUS_PIPES_MAX: usize = 4;
/// See [`ANONYMOUS_TREES_MAX`].
pub const ANONYMOUS_PIPE_BYTES_MAX: usize = 16 << 20;
/// Opens of all sessions.
pub const OPENS_MAX: usize = 262_144;
/// How long an open waits for its client that was lost, in milliseconds: where the client leaves it to us, and at most.
pub const DURABLE_MS_DEFAULT: u32 = 60_000;
/// See [`DURABLE_MS_DEFAULT`].
pub const DURABLE_MS_MAX: u32 = 300_000;
/// Opens that wait for clients that were lost: of one user, and of all.
pub const DISCONNECTED_OF_USER_MAX: usize = 4096;
/// See [`DISCONNECTED_OF_USER_MAX`].
pub const DISCONNECTED_MAX: usize = 16_384;
/// The same of continuously available shares, where the client leaves it to us: they are waited for from the restart on.
pub const PERSISTENT_MS_DEFAULT: u32 = 120_000;
/// Opens of those shares: of one user, and of all. Each has a file in the state directory.
pub const PERSISTENT_OF_USER_MAX: usize = 4096;
/// See [`PERSISTENT_OF_USER_MAX`].
pub const PERSISTENT_MAX: usize = 16_384;
/// Byte ranges of each: all of them are written down when one is locked.
pub const PERSISTENT_RANGES_MAX: usize = 4096;
/// Extended attributes that one request sets or asks for by name: more than a file can have.
pub const EAS_MAX: usize = 1024;
/// Byte ranges of one LOCK (MS-SMB2 §3.3.5.14 lets a server choose).
pub const LOCKS_MAX: usize = 64;
/// Chunks of one SRV_COPYCHUNK, bytes of each, and of all of them, as of Windows (MS-SMB2 §3.3.3).
pub const COPY_CHUNKS_MAX: u32 = 256;
/// See [`COPY_CHUNKS_MAX`].
pub const COPY_CHUNK_BYTES_MAX: u32 = 1 << 20;
/// See [`COPY_CHUNKS_MAX`].
pub const COPY_BYTES_MAX: u32 = 16 << 20;
/// Bytes that a SRV_COPYCHUNK copies at once where a limit has to be paid for it, so that it takes no more of a limit at once than a READ
/// and a WRITE may. No chunk is longer, so that one that overlaps itself is read before it is written.
pub const COPY_PAID_BYTES_MAX: u32 = COPY_CHUNK_BYTES_MAX;
/// Bytes that the commands of one message pay for together at the limits of a volume.
pub const PAID_BYTES_MAX: u32 = 4 * IO_BYTES_MAX;
/// Bytes of create contexts that a CREATE has free: those of leases, durable opens and the like have less.
pub const CREATE_CONTEXTS_BYTES_FREE: u32 = 512;
/// Ranges of one FILE_LEVEL_TRIM that are processed; the client is told how many that were.
pub const TRIM_RANGES_MAX: usize = 1024;
/// Locks of names that are being made, for all directories together: so many are made at one time, and few wait for others.
pub const NAME_LOCKS: usize = 1024;
/// Names on the way to a file.
pub const PATH_NAMES_MAX: usize = 256;
/// Bytes of changes that an open keeps until its client asks for them.
pub const NOTIFY_BYTES_MAX: usize = 64 << 10;
/// UTF-16 units of a pattern that names are compared with.
pub const PATTERN_UNITS_MAX: usize = 255;
/// UTF-16 units of a stream's name (MS-FSCC §2.1.5.3).
pub const STREAM_UNITS_MAX: usize = 255;
/// Times that a CREATE looks again for a name that others make and remove meanwhile.
pub const CREATE_TRIES: u32 = 8;
/// Milliseconds between two tries of a call that something stands in the way of, and in which it has to succeed: clients wait
/// longer.
pub const RETRY_MS: u64 = 20;
/// See [`RETRY_MS`].
pub const RETRY_MS_MAX: u64 = 15_000;
/// Calls that are put off, and the memory they take.
pub const PARKED_CALLS_MAX: usize = 16_384;
/// See [`PARKED_CALLS_MAX`].
pub const PARKED_BYTES_MAX: usize = 16 << 20;
/// Requests of one connection that are answered later (Windows has as many, MS-SMB2 §3.3.4.2), and the memory they take. CREATEs
/// whose connection is gone count among those of another one.
pub const CONNECTION_WAITING_MAX: usize = 511;
/// See [`CONNECTION_WAITING_MAX`].
pub const CONNECTION_WAITING_BYTES_MAX: usize = 4 << 20;
/// The same of all connections.
pub const WAITING_MAX: usize = 65_536;
/// See [`WAITING_MAX`].
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// The most that one user may have of what there is for all, so that others have the rest ([`user_share_max`]): sessions, tree connects,
/// opens, pipes, bytes on their way over pipes, requests that wait and their bytes. Who is anonymous is one user.
pub const SESSIONS_OF_USER_MAX: usize = SESSIONS_MAX / 4;
/// See [`SESSIONS_OF_USER_MAX`].
pub const TREES_OF_USER_MAX: usize = TREES_MAX / 4;
/// See [`SESSIONS_OF_USER_MAX`].
pub const OPENS_OF_USER_MAX: usize = OPENS_MAX / 4;
/// See [`SESSIONS_OF_USER_MAX`].
pub const PIPES_OF_USER_MAX: usize = PIPES_MAX / 4;
/// See [`SESSIONS_OF_USER_MAX`].
pub const PIPE_BYTES_OF_USER_MAX: usize = PIPE_BYTES_MAX / 4;
/// See [`SESSIONS_OF_USER_MAX`].
pub const WAITING_OF_USER_MAX: usize = WAITING_MAX / 4;
/// See [`SESSIONS_OF_USER_MAX`].
pub const WAITING_BYTES_OF_USER_MAX: usize = WAITING_BYTES_MAX / 4;
/// In which time the client's machine must confirm a break, or the connection ends and another of the session is tried.
pub const DELIVERY: Duration = Duration::from_secs(5);
/// The same of a session that has no other connection: what it has open goes with it. Who waits for the answer waits longer.
pub const DELIVERY_ALONE: Duration = Duration::from_secs(30);
/// Seconds without a call after which a connection is ended. What it holds open goes with it, so this is long; clients that
/// watch their connections send an ECHO each minute.
pub const IDLE_S: u32 = 4 * 3600;

/// How many of `all_max` one user may have while others have so many: `of_user_max`, and less where the others leave less.
pub(crate) fn user_share_max(of_user_max: usize, all_max: usize, others: usize) -> usize {
    of_user_max.min(share(all_max, others))
}

const _: () = assert!(SETUPS_MAX * ANONYMOUS_TREES_MAX <= TREES_MAX / 2, "users have tree connects left");
const _: () = assert!(SETUPS_MAX * ANONYMOUS_PIPES_MAX <= PIPES_MAX / 2, "users have pipes left");
const _: () = assert!(MESSAGE_BYTES_MAX < 1 << 24, "the length on the wire has three bytes");
