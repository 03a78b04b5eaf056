//! Every bound of the interface.

/// Connections at once. For a further one the oldest that has no request ends; if all have one, it waits.
pub const CONNECTIONS_MAX: usize = 128;
/// Connections of one network at once, an IPv4 address or a /64 of IPv6. For a further one its oldest that has no request ends.
pub const CLIENT_CONNECTIONS_MAX: usize = 96;
/// Requests at once, over all connections; further ones are refused.
pub const REQUESTS_MAX: usize = 64;
/// Concurrent changes. Each may wait long for storage, so other requests have threads of their own.
pub const CHANGES_MAX: usize = 8;
/// Threads for what may wait.
pub const THREADS_MAX: usize = CHANGES_MAX + 3;
/// The time that a change waits for its turn.
pub const CHANGE_PATIENCE_S: u64 = 60;
/// Bytes of a body.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// The time for a body to come.
pub const BODY_S_MAX: u64 = 10;
/// The time for a request's head to come, and for the next request on a connection.
pub const HEAD_S_MAX: u64 = 10;
/// Bytes of a request's head.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Header lines of a request.
pub const HEADERS_MAX: usize = 64;
/// The time for a TLS handshake.
pub const HANDSHAKE_S_MAX: u64 = 10;
/// The time after which a connection with an unread reply ends.
pub const UNREAD_MS_MAX: u32 = 60_000;

const _: () = assert!(CHANGES_MAX < THREADS_MAX && REQUESTS_MAX <= CONNECTIONS_MAX);
const _: () = assert!(REQUESTS_MAX < CLIENT_CONNECTIONS_MAX && CLIENT_CONNECTIONS_MAX < CONNECTIONS_MAX);
