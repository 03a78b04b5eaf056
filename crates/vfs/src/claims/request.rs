//! Requests to a table of claims.

use super::{Caching, HolderId, OpenId, Rights, Ticket};
use crate::FileKey;
use crate::qos::Nanos;

#[derive(Clone, Debug)]
pub enum Request {
    Open(OpenRequest),
    /// More access or more denied with the same open (RFC 8881 §18.16: OPEN of a file that the owner has open).
    Upgrade {
        open: OpenId,
        access: Access,
        reclaims: bool,
        waits: bool,
    },
    /// Reduces access and denial; the result is at most those of the open (RFC 8881 §18.18).
    Downgrade {
        open: OpenId,
        access: Access,
    },
    /// Ends an open and its ranges. The last open of a lease ends the lease.
    Close(OpenId),
    /// [`Request::Close`] by a client that may know already which name is deleted with the open.
    CloseListed {
        open: OpenId,
        /// The lease whose cached listing of the directory includes the removal. Honored only if the deletion and the
        /// last close name the same lease.
        listing: Option<LeaseKey>,
    },
    /// The connection of this open is lost. The open waits for its client.
    Disconnect {
        open: OpenId,
        durable: Durable,
    },
    /// The client reconnects, perhaps as another holder. The lease and the ranges of the open move with it.
    Reconnect {
        open: OpenId,
        holder: HolderId,
    },
    /// Restores an open from before a restart of the service, which waits for its client. Never conflicts: restored
    /// claims existed together before.
    Restore(RestoreRequest),
    /// The lease of a restored open, once all opens are restored: as much of its former rights as conflicts with no
    /// other cache.
    Recache {
        open: OpenId,
        lease: LeaseRequest,
    },
    /// Decides that the last close deletes the file; `None` cancels that. Needs [`Rights::DELETE`].
    SetDelete {
        open: OpenId,
        link: Option<Link>,
        waits: bool,
    },
    /// Deletes the file once this and all other opens are closed. Other requests see no deletion before this close.
    /// Needs [`Rights::DELETE`].
    DeleteOnClose {
        open: OpenId,
        link: Link,
    },
    Lock(LockRequest),
    /// Whether [`Request::Lock`] would be granted; no range changes. Recalls write caches first: then the answer is to
    /// ask again.
    TestLock(LockRequest),
    Unlock {
        owner: LockOwner,
        stream: Stream,
        span: Span,
        /// `true`: exactly one enforced range of these bounds. `false`: these bytes of any ranges of the owner, even if
        /// there are none.
        enforced: bool,
        /// Selects one of several ranges with these bounds. `None` prefers an exclusive range over a shared one.
        is_exclusive: Option<bool>,
    },
    /// The holder of a lease acknowledges a recall with the requested rights or fewer; a delegation may be returned at
    /// any time.
    Acknowledge {
        key: LeaseKey,
        stream: Stream,
        keeps: Caching,
    },
    Io(Io),
    /// Removes, replaces, changes or adds a name of this file: recalls handle caches first.
    Unlink {
        by: Requester,
        waits: bool,
    },
    /// The file or a stream of it was renamed: pending deletions follow to the new name. Never waits.
    Relink {
        from: Link,
        to: Link,
    },
    /// Breaks cached listings of this directory. Never waits.
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
    pub deny: Rights,
}

/// The number of a file's stream; 0 is the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u32);

#[derive(Clone, Debug)]
pub struct OpenRequest {
    pub holder: HolderId,
    pub stream: Stream,
    pub access: Access,
    /// Whether the open truncates the data, which breaks caches of others.
    pub truncates: bool,
    /// Whether I/O of the open obeys all ranges of others, advisory ones included.
    pub is_mandatory: bool,
    /// Whether the denial affects opens only, not reads and writes of callers without state.
    pub is_advisory: bool,
    pub lease: Option<LeaseRequest>,
    /// Whether the client reclaims the open after a restart.
    pub reclaims: bool,
    pub waits: bool,
}

#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// The holder until the client reconnects.
    pub holder: HolderId,
    pub stream: Stream,
    pub access: Access,
    pub durable: Durable,
    /// The enforced byte ranges of the open, and whether each is exclusive. Their owner has the number of the open.
    pub ranges: Vec<(Span, bool)>,
    /// The name to remove once this open and all others are closed.
    pub delete_on_close: Option<Link>,
    /// The name to delete, if that was decided: new opens are refused.
    pub deletion: Option<Link>,
}

#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest {
    pub kind: LeaseKind,
    /// The wanted rights; fewer may be granted.
    pub want: Caching,
    /// The time limit of the holder's answers; `None`: as in [`super::Timeouts`].
    pub answers_within: Option<Nanos>,
    /// The change count of a new lease to start from (MS-SMB2 2.2.13.2.10).
    pub epoch: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// Belongs to one open, and other opens of the same client end it (MS-FSA 2.1.5.18).
    Oplock,
    /// Belongs to all opens with the same key of the same client (MS-SMB2 3.3.5.9.8); of a directory, without writing.
    Shared { client: u128, key: u128 },
    /// Belongs to the client as a whole and outlives its opens (RFC 8881 §10.4).
    Delegation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseKey {
    Oplock(OpenId),
    Shared { client: u128, key: u128 },
    Delegation(HolderId),
}

/// The wait of a durable open for its client (MS-SMB2 3.3.4.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    pub until: Nanos,
    /// Whether the open outlasts conflicts until then. Otherwise any conflict ends it.
    pub is_persistent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub parent: FileKey,
    pub name: Box<[u8]>,
    /// The lease whose cached listing of the directory includes the removal of the name.
    pub listing: Option<LeaseKey>,
}

/// The owner of a byte range: a number that the protocol assigns within a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner {
    pub holder: HolderId,
    pub owner: u64,
}

/// The bytes from `start` up to but without `end`. Empty ranges exist (MS-FSA 2.1.4.10): they overlap spans with bytes
/// on both sides of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    start: u64,
    end: u128,
}

#[derive(Clone, Copy, Debug)]
pub struct LockRequest {
    pub owner: LockOwner,
    /// The open with which the range ends.
    pub open: Option<OpenId>,
    pub stream: Stream,
    pub span: Span,
    pub is_exclusive: bool,
    /// `true`: ranges stack, nothing is converted, and input and output of others obey it (MS-FSA 2.1.5.8). `false`:
    /// the owner's ranges are one set of bytes, converted in place (RFC 8881 §18.10).
    pub is_enforced: bool,
    pub reclaims: bool,
    pub queueing: Queueing,
}

/// The treatment of a lock request that conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    Never,
    /// Waits until the deadline, and is granted in turn.
    Until(Nanos),
    Reserved {
        /// The deadline.
        until: Nanos,
        /// The time limit of the reservation.
        kept: Nanos,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Io {
    pub by: Requester,
    pub stream: Stream,
    pub kind: IoKind,
    /// The bytes; ignored for attributes.
    pub span: Span,
    pub waits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    Read,
    /// Writes, allocates, punches or truncates data.
    Write,
    /// A truncation by an open that replaces the file. Byte ranges do not conflict with it (MS-FSA 2.1.5.1.2.1).
    Replace,
    /// Changes attributes other than the size.
    SetAttrs,
    /// Returns size, times or change counter.
    ReadAttrs,
    /// Returns attributes to a requester that takes the end of the file from them and reads no further.
    ReadEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A caller without state: it is refused instead of waiting, and nothing of it is stored.
    Anonymous,
    Holder(HolderId),
    Open(OpenId),
}

impl Link {
    /// Whether two links are the same name.
    pub(super) fn names(&self, other: &Self) -> bool {
        (self.parent, &self.name) == (other.parent, &other.name)
    }
}

impl Span {
    /// An empty span before all others.
    pub(super) const NONE: Self = Self { start: 0, end: 0 };

    /// All bytes.
    pub const ALL: Self = Self { start: 0, end: 1 << 64 };

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

    pub fn start(&self) -> u64 {
        self.start
    }

    /// The number of bytes; `u64::MAX` also for all 2^64.
    pub fn len(&self) -> u64 {
        u64::try_from(self.end - u128::from(self.start)).unwrap_or(u64::MAX)
    }

    /// The first byte after the span.
    pub(super) fn end(&self) -> u128 {
        self.end
    }

    /// The first byte, and the first byte after the span if it fits 64 bits: a compact form.
    pub(super) fn to_bounds(self) -> (u64, Option<u64>) {
        (self.start, u64::try_from(self.end).ok())
    }

    /// The span with these bounds.
    pub(super) fn from_bounds(start: u64, end: Option<u64>) -> Self {
        Self { start, end: end.map_or(Self::ALL.end, u128::from) }
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimOrigin {
    New,
    /// The client claims to have held it before a restart.
    Reclaimed,
    /// The service restores it from its own records.
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
