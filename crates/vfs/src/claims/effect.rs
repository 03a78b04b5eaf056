//! What comes out of a table of claims.

use super::{Caching, HolderId, LeaseKey, Link, LockOwner, OpenId, Span, Stream, Ticket};
use crate::FileKey;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Granted(Granted),
    /// No.
    Refused(Conflict),
    /// Not yet: an [`Effect::Resume`] or [`Effect::Notify`] with this ticket follows, exactly one, unless the ticket is
    /// canceled before.
    Wait(Ticket),
}

/// What a request has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// The new open.
    pub open: Option<OpenId>,
    /// The lease of that open, as it is now.
    pub lease: Option<LeaseKey>,
    /// What the lease allows.
    pub caching: Caching,
    /// How often the lease has changed (MS-SMB2 2.2.13.2.10).
    pub epoch: u16,
    /// Its holder has been asked for some of it.
    pub is_breaking: bool,
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another open denies it, or has what this one would deny.
    Share,
    /// The same, and the client of that open, which was lost, may come back.
    Absent,
    /// The file goes when its last open does.
    DeletePending,
    /// Somebody has these bytes.
    Range {
        /// Who.
        owner: LockOwner,
        /// Which bytes.
        span: Span,
        /// Alone?
        is_exclusive: bool,
    },
    /// A lease is being given up; ask again later.
    Recalling,
    /// After a restart only what was held before can be claimed.
    Grace,
    /// Nothing can be reclaimed any more, or this was not held.
    NoGrace,
    /// There is no such open, range, lease or ticket.
    NotHeld,
    /// The open has not the right to this.
    Denied,
    /// The file has as many claims as it may have.
    TooMany,
}

/// What somebody else has to be told or to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A lease must be given up, in part or as a whole.
    Recall {
        /// Whose it is.
        holder: HolderId,
        /// Of which file.
        file: FileKey,
        /// On which stream.
        stream: Stream,
        /// Which lease.
        key: LeaseKey,
        /// What it allowed.
        from: Caching,
        /// What it may still allow.
        to: Caching,
        /// How often it has changed.
        epoch: u16,
        /// An acknowledgment is expected, in time. Otherwise the change is made already.
        acknowledge: bool,
    },
    /// A claim was taken away.
    Revoked {
        /// Whose it was.
        holder: HolderId,
        /// Of which file.
        file: FileKey,
        /// What.
        what: RevokedClaim,
    },
    /// A ticket is over.
    Resume {
        /// Who waits.
        holder: HolderId,
        /// Of which file.
        file: FileKey,
        /// Which ticket.
        ticket: Ticket,
        /// What now.
        outcome: Outcome,
    },
    /// A ticket is over: the byte range it waited for is kept for its owner for a while.
    Notify {
        /// Who waits.
        holder: HolderId,
        /// Of which file.
        file: FileKey,
        /// Which ticket.
        ticket: Ticket,
        /// Whose range.
        owner: LockOwner,
    },
    /// The last open of a file, or stream, that is to be deleted has gone: the volume removes the name, and says so
    /// ([`crate::claims::Claims::removed`]). Nobody opens it before that.
    Remove {
        /// Which file.
        file: FileKey,
        /// Which stream; 0 for the file.
        stream: Stream,
        /// The name.
        link: Link,
    },
}

/// What was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokedClaim {
    /// An open, its ranges, and its lease if it was the last one of it.
    Open(OpenId),
    /// A lease.
    Lease(LeaseKey),
    /// A byte range.
    Range(LockOwner, Span),
}

/// What became of a request that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It should be applied again.
    Again,
    /// Its byte range is held.
    Granted,
    /// Its time is over.
    TimedOut,
    /// Its holder is gone.
    Canceled,
}

impl Effect {
    /// Who is to be told; nobody for what the volume has to do.
    pub fn holder(&self) -> Option<HolderId> {
        match self {
            Self::Recall { holder, .. }
            | Self::Revoked { holder, .. }
            | Self::Resume { holder, .. }
            | Self::Notify { holder, .. } => Some(*holder),
            Self::Remove { .. } => None,
        }
    }
}

/// A client of a stateful protocol, as the table of claims reaches it.
pub trait Holder: Send + Sync {
    /// Takes what happened to this holder's claims and tickets. No lock of the table is held, but perhaps the backend's of the
    /// file: the call must not wait, and must not call the backend.
    fn deliver(&self, effect: Effect);
}
