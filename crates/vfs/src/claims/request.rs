//! Requests to a table of claims.

use super::{Caching, HolderId, OpenId, Rights, Ticket};
use crate::FileKey;
use crate::qos::Nanos;

/// A request about one file.
#[derive(Clone, Debug)]
pub enum Request {
    /// A new open.
    Open(OpenRequest),
    /// More access or more denied with the same open (RFC 8881 §18.16: OPEN of a file that the owner has open).
    Upgrade {
        /// The open.
        open: OpenId,
        access: Access,
        /// Whether it was held before a restart of the service.
        reclaims: bool,
        /// Whether the request can be resumed.
        waits: bool,
    },
    /// Reduces access and denial; the result is at most those of the open (RFC 8881 §18.18).
    Downgrade {
        /// The open.
        open: OpenId,
        access: Access,
    },
    /// The end of an open, of the ranges that belong to it, and with the last one of its lease.
    Close(OpenId),
    /// [`Request::Close`] by a client that may know already which name goes with it.
    CloseListed {
        /// The open.
        open: OpenId,
        /// The lease whose cached listing of the directory includes the removal. Honored only if the deletion and the
        /// last close name the same lease.
        listing: Option<LeaseKey>,
    },
    /// The connection of this open is gone; the open stays until the client comes back.
    Disconnect {
        /// The open.
        open: OpenId,
        durable: Durable,
    },
    /// The client is back, perhaps as another holder; the lease and the ranges of the open move with it.
    Reconnect {
        /// The open.
        open: OpenId,
        /// The new holder.
        holder: HolderId,
    },
    /// Restores an open from before a restart of the service, which waits for its client. Never conflicts: restored
    /// claims existed together before.
    Restore(RestoreRequest),
    /// The lease of a restored open, once all opens are restored: as much of its former rights as conflicts with no
    /// other cache.
    Recache {
        /// The open.
        open: OpenId,
        lease: LeaseRequest,
    },
    /// The file goes when its last open does, or, with `None`, it does not. Needs [`Rights::DELETE`].
    SetDelete {
        /// The open that decides it.
        open: OpenId,
        /// The name to remove.
        link: Option<Link>,
        /// Whether the request can be resumed.
        waits: bool,
    },
    /// The file goes when this open and all others are closed; nothing of that shows before this one is. Needs [`Rights::DELETE`].
    DeleteOnClose {
        /// The open.
        open: OpenId,
        /// The name to remove.
        link: Link,
    },
    /// A byte range.
    Lock(LockRequest),
    /// Whether [`Request::Lock`] would be granted; no range changes. Recalls write caches first: then the answer is to
    /// ask again.
    TestLock(LockRequest),
    /// The end of a byte range.
    Unlock {
        owner: LockOwner,
        /// On which stream.
        stream: Stream,
        /// Which bytes.
        span: Span,
        /// `true`: exactly one enforced range of these bounds. `false`: these bytes of any ranges of the owner, even if
        /// there are none.
        enforced: bool,
        /// Which of several of these bounds, where that is known; otherwise one that the owner has alone before one that it shares.
        is_exclusive: Option<bool>,
    },
    /// The holder of a lease acknowledges a recall with the requested rights or fewer; a delegation may be returned at
    /// any time.
    Acknowledge {
        /// Which lease.
        key: LeaseKey,
        /// On which stream.
        stream: Stream,
        keeps: Caching,
    },
    /// Data or attributes are about to be read or changed.
    Io(Io),
    /// A name of this file is about to be removed, replaced, changed or added: holders that keep it open let it go.
    Unlink {
        by: Requester,
        /// Whether the request can be resumed.
        waits: bool,
    },
    /// The file or a stream of it was renamed: pending deletions follow to the new name. Never waits.
    Relink {
        /// The name that it had.
        from: Link,
        /// The name that it has now.
        to: Link,
    },
    /// Names in this directory have changed: cached listings end. Never waits.
    ListingChanged {
        /// The lease whose cached listing is current already.
        except: Option<LeaseKey>,
    },
    /// Cancels a ticket. Refused if the ticket was resumed already: then the grant is in force.
    Cancel(Ticket),
}

/// Access and share mode of an open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Access to the data; none for an open of the attributes alone.
    pub rights: Rights,
    /// Access denied to others.
    pub deny: Rights,
}

/// Which of a file's streams; 0 is the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u32);

/// A new open.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    pub holder: HolderId,
    pub stream: Stream,
    /// Access and share mode.
    pub access: Access,
    /// The data go with the open: a truncation, as far as other people's caches are concerned.
    pub truncates: bool,
    /// Whether I/O of the open obeys all ranges of others, also advisory ones.
    pub is_mandatory: bool,
    /// Whether the denial affects opens only, not reads and writes of callers without state.
    pub is_advisory: bool,
    /// The wanted lease.
    pub lease: Option<LeaseRequest>,
    /// The open was held before a restart.
    pub reclaims: bool,
    /// Whether the request can be resumed.
    pub waits: bool,
}

/// An open as it was before a restart.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// The holder until the client reconnects.
    pub holder: HolderId,
    pub stream: Stream,
    /// Access and share mode.
    pub access: Access,
    /// The durability of the wait for the client.
    pub durable: Durable,
    /// The enforced byte ranges of the open, and whether each is exclusive. Their owner has the number of the open.
    pub ranges: Vec<(Span, bool)>,
    /// The name to remove once this open and all others are closed.
    pub delete_on_close: Option<Link>,
    /// The name to delete, if that was decided: new opens are refused.
    pub deletion: Option<Link>,
}

/// A request to cache.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest {
    /// Under which rules.
    pub kind: LeaseKind,
    /// The wanted rights; fewer may be granted.
    pub want: Caching,
    /// The time limit of the holder's answers; `None`: as in [`super::Timeouts`].
    pub answers_within: Option<Nanos>,
    /// The change count of a new lease to start from (MS-SMB2 2.2.13.2.10).
    pub epoch: u16,
}

/// The rules of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// Belongs to one open, and other opens of the same client end it (MS-FSA 2.1.5.18).
    Oplock,
    /// Belongs to all opens with the same key of the same client (MS-SMB2 3.3.5.9.8); of a directory, without writing.
    Shared {
        /// The client.
        client: u128,
        /// The key it has chosen.
        key: u128,
    },
    /// Belongs to the client as a whole and outlives its opens (RFC 8881 §10.4).
    Delegation,
}

/// The identifier of a lease on a stream of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseKey {
    /// [`LeaseKind::Oplock`].
    Oplock(OpenId),
    /// [`LeaseKind::Shared`].
    Shared {
        /// The client.
        client: u128,
        /// The key it has chosen.
        key: u128,
    },
    /// [`LeaseKind::Delegation`].
    Delegation(HolderId),
}

/// The wait of a durable open for its client (MS-SMB2 3.3.4.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// When it ends.
    pub until: Nanos,
    /// Whether the open outlasts conflicts until then. Otherwise any conflict ends it.
    pub is_persistent: bool,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The directory.
    pub parent: FileKey,
    /// The name.
    pub name: Box<[u8]>,
    /// The lease whose cached listing of the directory includes the removal of the name.
    pub listing: Option<LeaseKey>,
}

/// The owner of a byte range: a number that the protocol assigns within a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner {
    /// The client or session.
    pub holder: HolderId,
    /// The owner in it.
    pub owner: u64,
}

/// The bytes from `start` up to but without `end`. Empty ranges exist (MS-FSA 2.1.4.10): they overlap spans with bytes
/// on both sides of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    start: u64,
    end: u128,
}

/// A byte range that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct LockRequest {
    pub owner: LockOwner,
    /// With which open the range ends, if with any.
    pub open: Option<OpenId>,
    /// On which stream.
    pub stream: Stream,
    /// Which bytes.
    pub span: Span,
    pub is_exclusive: bool,
    /// `true`: ranges stack, nothing is converted, and input and output of others obey it (MS-FSA 2.1.5.8). `false`:
    /// the owner's ranges are one set of bytes, converted in place (RFC 8881 §18.10).
    pub is_enforced: bool,
    /// The range was held before a restart.
    pub reclaims: bool,
    pub queueing: Queueing,
}

/// The treatment of a lock request that conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    Never,
    /// Waits until the deadline, and is granted in turn.
    Until(Nanos),
    /// Waits in turn, then reserves the range for the owner, which asks again within a time limit (RFC 8881 §20.11,
    /// CB_NOTIFY_LOCK).
    Reserved {
        /// When waiting ends.
        until: Nanos,
        /// The time limit of the reservation.
        kept: Nanos,
    },
}

/// Data or attributes are read or changed.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    pub by: Requester,
    pub stream: Stream,
    pub kind: IoKind,
    /// Which bytes; of no concern to attributes.
    pub span: Span,
    /// Whether the request can be resumed.
    pub waits: bool,
}

/// The kind of an I/O request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Data are read.
    Read,
    /// Data are written, allocated, punched out or cut off.
    Write,
    /// An open that replaces the file makes it empty: byte ranges do not stand against that (MS-FSA 2.1.5.1.2.1).
    Replace,
    /// Attributes other than the size are changed.
    SetAttrs,
    /// Returns size, times or change counter.
    ReadAttrs,
    /// Returns attributes to a requester that takes the end of the file from them and reads no further.
    ReadEnd,
}

/// The requester of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A caller without state: it is refused instead of waiting, and nothing of it is stored.
    Anonymous,
    /// A holder, but with none of its opens.
    Holder(HolderId),
    Open(OpenId),
}

impl Link {
    /// Whether both are one name.
    pub(super) fn names(&self, other: &Self) -> bool {
        (self.parent, &self.name) == (other.parent, &other.name)
    }
}

impl Span {
    /// No bytes, before all others.
    pub(super) const NONE: Self = Self { start: 0, end: 0 };

    /// All bytes of any file.
    pub const ALL: Self = Self { start: 0, end: 1 << 64 };

    /// `len` bytes from `start`; `None` past the last byte that a file can have.
    pub fn new(start: u64, len: u64) -> Option<Self> {
        let end = u128::from(start) + u128::from(len);
        (end <= Self::ALL.end).then_some(Self { start, end })
    }

    /// All bytes from `start` on.
    pub fn to_end(start: u64) -> Self {
        Self { start, ..Self::ALL }
    }

    /// `len` bytes from `start`, or as many as a file can have, and always to the end with `u64::MAX`
    /// (RFC 8881 §18.10).
    pub fn clamped(start: u64, len: u64) -> Self {
        if len == u64::MAX {
            Self::to_end(start)
        } else {
            Self::new(start, len).unwrap_or(Self::to_end(start))
        }
    }

    /// The first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The number of bytes; `u64::MAX` also for all 2^64.
    pub fn len(&self) -> u64 {
        u64::try_from(self.end - u128::from(self.start)).unwrap_or(u64::MAX)
    }

    /// The first byte after it.
    pub(super) fn end(&self) -> u128 {
        self.end
    }

    /// The first byte, and the first after it if that has a number of 64 bits: for places where memory counts.
    pub(super) fn to_bounds(self) -> (u64, Option<u64>) {
        (self.start, u64::try_from(self.end).ok())
    }

    /// The span with these bounds.
    pub(super) fn from_bounds(start: u64, end: Option<u64>) -> Self {
        Self { start, end: end.map_or(Self::ALL.end, u128::from) }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.end == u128::from(self.start)
    }

    /// Whether two spans share a byte. An empty one overlaps a span that surrounds it.
    #[inline]
    pub fn overlaps(&self, other: &Self) -> bool {
        u128::from(self.start) < other.end && u128::from(other.start) < self.end
    }

    /// Whether they overlap or one begins where the other ends.
    #[cfg(test)]
    pub(super) fn touches(&self, other: &Self) -> bool {
        u128::from(self.start) <= other.end && u128::from(other.start) <= self.end
    }

    /// The smallest span with both in it.
    pub(super) fn hull(&self, other: &Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Returns the parts before and after `hole`.
    pub(super) fn without(&self, hole: &Self) -> [Option<Self>; 2] {
        let before = (self.start < hole.start)
            .then_some(Self { start: self.start, end: self.end.min(u128::from(hole.start)) });
        let after = u64::try_from(hole.end)
            .ok()
            .filter(|&end| u128::from(end) < self.end)
            .map(|end| Self { start: self.start.max(end), end: self.end });
        [before, after]
    }
}

/// The origin of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimOrigin {
    New,
    /// The client claims to have held it before a restart.
    Reclaimed,
    /// The service itself knows that.
    Restored,
}

impl Request {
    /// Returns the origin of the claim that the request makes, if it makes one.
    pub(super) fn claim_origin(&self) -> Option<ClaimOrigin> {
        let reclaims = match self {
            Self::Open(request) => request.reclaims,
            Self::Upgrade { reclaims, .. } => *reclaims,
            Self::Lock(request) => request.reclaims,
            Self::Restore(_) => return Some(ClaimOrigin::Restored),
            _ => return None,
        };
        Some(if reclaims { ClaimOrigin::Reclaimed } else { ClaimOrigin::New })
    }
}
