//! Claims on a volume's files, and the conflicts between them.
//!
//! A claim is an open with its share mode, a byte range, or a lease: the right to cache, in one vocabulary of reading,
//! writing and handles ([`Caching`]) for all protocols. [`Table`] has all rules as a pure state machine: a [`Request`]
//! at a time gives a [`Verdict`] and [`Effect`]s, which are values. [`Claims`] shares tables among threads.
//!
//! No thread waits here. A request that must wait gets a [`Ticket`]; an [`Effect::Resume`] reports later that it may be
//! applied again. Effects are delivered without the lock, by the [`Holder`] of each client.
//!
//! Sources: MS-FSA 2.1.4.10 (ranges), 2.1.4.12 (lease breaks), 2.1.5.1.2.2 (share modes); MS-SMB2 3.3.4.7 (lease
//! breaks); RFC 8881 §9 (share reservations, byte ranges), §10.4 (delegations).

mod bits;
mod delivery;
mod effect;
mod entries;
mod file;
mod grace;
mod io;
mod lease;
mod leases;
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
mod wait_queue;

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

/// A client of a stateful protocol, or a session of one: the recipient of effects, whose claims end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u64);

/// An open, unique in its volume while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(pub u64);

/// The identifier of a waiting request, unique in its volume while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);
