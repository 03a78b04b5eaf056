//! Claims: who holds what of a volume's files, and what must give way before somebody else may go on.
//!
//! A claim is an open with its share mode, a byte range, or a lease: the right to cache, in one vocabulary of reading,
//! writing and handles ([`Caching`]) for all protocols. [`Table`] is all of the rules as a pure state machine: a
//! [`Request`] at a moment gives a [`Verdict`] and [`Effect`]s, which are values. [`Claims`] puts tables between threads.
//!
//! Nothing waits in here. A request that has to wait gets a [`Ticket`], and an [`Effect::Resume`] says later that it may
//! be applied again. Effects are delivered after the lock is gone, by the [`Holder`] of each client.
//!
//! Sources: MS-FSA 2.1.4.10 (ranges), 2.1.4.12 (what breaks a lease), 2.1.5.1.2.2 (share modes); MS-SMB2 3.3.4.7 (lease
//! breaks); RFC 8881 §9 (share reservations, byte ranges), §10.4 (delegations).

mod bits;
mod delivery;
mod effect;
mod file;
mod grace;
mod held;
mod io;
mod lease;
mod leases;
mod line;
mod open;
mod opens;
mod range;
mod range_set;
mod request;
mod shards;
mod slab;
mod spans;
mod step;
mod table;
#[cfg(test)]
mod tests;
mod users;

pub use bits::{Caching, Rights};
pub use effect::{Conflict, Effect, Granted, Holder, Outcome, RevokedClaim, Verdict};
pub use grace::{Grace, RecordId};
pub use request::{
    Access, Durable, Io, IoKind, LeaseKey, LeaseKind, LeaseRequest, Link, LockOwner, LockRequest,
    OpenRequest, Queueing, Request, Requester, RestoreRequest, Span, Stream,
};
pub use shards::Claims;
pub use step::Timeouts;
pub use table::{ClaimCounts, Table};
pub use users::HolderUsers;

/// A client of a stateful protocol, or a session of one: what effects are delivered to, and what goes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u64);

/// An open, unique in its volume while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(pub u64);

/// What a waiting request is known by, unique in its volume while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);
