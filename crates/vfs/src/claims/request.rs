//! What can be asked of a table of claims.

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
        /// What is added.
        access: Access,
        /// Whether it was held before a restart of the service.
        reclaims: bool,
        /// Whether the request can be resumed.
        waits: bool,
    },
    /// Less access, less denied; at most what the open has (RFC 8881 §18.18).
    Downgrade {
        /// The open.
        open: OpenId,
        /// What remains.
        access: Access,
    },
    /// The end of an open, of the ranges that belong to it, and with the last one of its lease.
    Close(OpenId),
    /// The same of one whose client may know already what goes with it.
    CloseListed {
        /// The open.
        open: OpenId,
        /// Whose listing of its directory it keeps right. The name goes with nobody's listing right unless who deletes the file and
        /// who closes it last agree.
        listing: Option<LeaseKey>,
    },
    /// The connection of this open is gone; the open stays until the client comes back.
    Disconnect {
        /// The open.
        open: OpenId,
        /// How long, and how firmly.
        durable: Durable,
    },
    /// The client is back, perhaps as another holder; the lease and the ranges of the open move with it.
    Reconnect {
        /// The open.
        open: OpenId,
        /// Whose it is from now on.
        holder: HolderId,
    },
    /// An open from before a restart of the service, which waits for its client. Nothing stands against it: what was held then went
    /// together.
    Restore(RestoreRequest),
    /// What an open that was restored may cache: of what it could before as much as breaks nobody's cache, once all opens are there.
    Recache {
        /// The open.
        open: OpenId,
        /// What it could cache.
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
    /// Whether [`Request::Lock`] would be granted; no range changes. Who keeps ranges to itself is asked for them first, and
    /// the answer is to ask again.
    TestLock(LockRequest),
    /// The end of a byte range.
    Unlock {
        /// Whose it is.
        owner: LockOwner,
        /// On which stream.
        stream: Stream,
        /// Which bytes.
        span: Span,
        /// `true`: exactly one range of these bounds, held as enforced. `false`: these bytes out of whatever the owner
        /// holds, also if that is nothing.
        enforced: bool,
        /// Which of several of these bounds, where that is known; otherwise one that the owner has alone before one that it shares.
        is_exclusive: Option<bool>,
    },
    /// The holder of a lease has given up what it was asked for, or more; a delegation may be returned at any time.
    Acknowledge {
        /// Which lease.
        key: LeaseKey,
        /// On which stream.
        stream: Stream,
        /// What it keeps.
        keeps: Caching,
    },
    /// Data or attributes are about to be read or changed.
    Io(Io),
    /// A name of this file is about to be removed, replaced, changed or added: holders that keep it open let it go.
    Unlink {
        /// Who does it.
        by: Requester,
        /// Whether the request can be resumed.
        waits: bool,
    },
    /// The file has another name, or a stream of it has: what goes by the old one goes by the new one. Never waits.
    Relink {
        /// The name that it had.
        from: Link,
        /// The name that it has now.
        to: Link,
    },
    /// Names in this directory have changed: cached listings end. Never waits.
    ListingChanged {
        /// Whose listing is right already.
        except: Option<LeaseKey>,
    },
    /// Nobody waits for this ticket any longer. Refused if it was resumed already: then what it was granted is held.
    Cancel(Ticket),
}

/// What an open may do and what others may not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// What it may do; nothing for an open of the attributes alone.
    pub rights: Rights,
    /// What others may not do meanwhile.
    pub deny: Rights,
}

/// Which of a file's streams; 0 is the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u32);

/// A new open.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// Whose it is.
    pub holder: HolderId,
    /// Of which stream.
    pub stream: Stream,
    /// Access and share mode.
    pub access: Access,
    /// The data go with the open: a truncation, as far as other people's caches are concerned.
    pub truncates: bool,
    /// Its input and output obey all ranges of others, also those that are only advisory.
    pub is_mandatory: bool,
    /// What it denies binds opens alone, not reads and writes of callers without state.
    pub is_advisory: bool,
    /// What to cache, if others allow it.
    pub lease: Option<LeaseRequest>,
    /// The open was held before a restart.
    pub reclaims: bool,
    /// Whether the request can be resumed.
    pub waits: bool,
}

/// An open as it was before a restart.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// Whose it is until its client comes back.
    pub holder: HolderId,
    /// Of which stream.
    pub stream: Stream,
    /// Access and share mode.
    pub access: Access,
    /// How long it waits for its client, and how firmly.
    pub durable: Durable,
    /// Its byte ranges, which are enforced, and whether each is for it alone. Their owner has the number of the open.
    pub ranges: Vec<(Span, bool)>,
    /// The name to remove once this open and all others are closed.
    pub delete_on_close: Option<Link>,
    /// The name to remove, if that was decided: nobody opens it any more.
    pub deletion: Option<Link>,
}

/// What to cache.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest {
    /// Under which rules.
    pub kind: LeaseKind,
    /// What is wanted; less may be granted.
    pub want: Caching,
    /// How long its holder may take for an answer when it is asked back; `None`: as [`super::Timeouts`] say.
    pub answers_within: Option<Nanos>,
    /// How often it has changed before, if it is new (MS-SMB2 2.2.13.2.10).
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

/// What names a lease on a stream of a file.
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

/// How a durable open waits for its client (MS-SMB2 3.3.4.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// When it ends.
    pub until: Nanos,
    /// It yields to nobody before. Otherwise it ends as soon as anything conflicts with it.
    pub is_persistent: bool,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The directory.
    pub parent: FileKey,
    /// The name.
    pub name: Box<[u8]>,
    /// Whose listing of the directory is right when the name has gone.
    pub listing: Option<LeaseKey>,
}

/// Who holds a byte range: within its holder, an owner that the protocol numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner {
    /// The client or session.
    pub holder: HolderId,
    /// The owner in it.
    pub owner: u64,
}

/// The bytes from `start` up to and without `end`. Ranges without bytes exist (MS-FSA 2.1.4.10): they overlap what has
/// bytes on both sides of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    start: u64,
    end: u128,
}

/// A byte range that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct LockRequest {
    /// Who.
    pub owner: LockOwner,
    /// With which open the range ends, if with any.
    pub open: Option<OpenId>,
    /// On which stream.
    pub stream: Stream,
    /// Which bytes.
    pub span: Span,
    /// Alone, or with others who are not.
    pub is_exclusive: bool,
    /// `true`: ranges stack, nothing is converted, and input and output of others obey it (MS-FSA 2.1.5.8). `false`:
    /// the owner's ranges are one set of bytes, converted in place (RFC 8881 §18.10).
    pub is_enforced: bool,
    /// The range was held before a restart.
    pub reclaims: bool,
    /// What happens if it is taken.
    pub queueing: Queueing,
}

/// What happens to a byte range that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// It is refused.
    Never,
    /// It waits for its turn, and is held when that comes.
    Until(Nanos),
    /// It waits for its turn and is kept for the owner then, who asks again within this time
    /// (RFC 8881 §20.11, CB_NOTIFY_LOCK).
    Reserved {
        /// When waiting ends.
        until: Nanos,
        /// How long it is kept.
        kept: Nanos,
    },
}

/// Data or attributes are read or changed.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// By whom.
    pub by: Requester,
    /// Of which stream.
    pub stream: Stream,
    /// What is done.
    pub kind: IoKind,
    /// Which bytes; of no concern to attributes.
    pub span: Span,
    /// Whether the request can be resumed.
    pub waits: bool,
}

/// What is done to a file.
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
    /// The size, the times or the change counter are told to somebody.
    ReadAttrs,
    /// The same to somebody who takes the end of the file from that, and reads no further.
    ReadEnd,
}

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A caller without state: it is refused instead of waiting, and nothing of it is stored.
    Anonymous,
    /// A holder, but with none of its opens.
    Holder(HolderId),
    /// Somebody's open.
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

    /// Whether any byte is in both. One without bytes overlaps what surrounds it.
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

    /// What lies before and after `hole`.
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

/// How a request makes a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Making {
    New,
    /// Its client says that it was held before a restart.
    Reclaimed,
    /// The service itself knows that.
    Restored,
}

impl Request {
    /// How it makes a claim, if it does.
    pub(super) fn makes(&self) -> Option<Making> {
        let reclaims = match self {
            Self::Open(request) => request.reclaims,
            Self::Upgrade { reclaims, .. } => *reclaims,
            Self::Lock(request) => request.reclaims,
            Self::Restore(_) => return Some(Making::Restored),
            _ => return None,
        };
        Some(if reclaims { Making::Reclaimed } else { Making::New })
    }
}
