//! The results of a table of claims.

use super::{Caching, HolderId, LeaseKey, Link, LockOwner, OpenId, Span, Stream, Ticket};
use crate::FileKey;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Granted(Granted),
    Refused(Conflict),
    /// Not yet: an [`Effect::Resume`] or [`Effect::Notify`] with this ticket follows, exactly one, unless the ticket is
    /// canceled before.
    Wait(Ticket),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    pub open: Option<OpenId>,
    pub lease: Option<LeaseKey>,
    pub caching: Caching,
    /// The number of changes of the lease (MS-SMB2 2.2.13.2.10).
    pub epoch: u16,
    /// Whether a recall is under way.
    pub is_breaking: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another open denies this access, or has access that this one denies.
    Share,
    /// A conflict with an open whose client is disconnected and may reconnect.
    Absent,
    /// The file is to be deleted with its last open.
    DeletePending,
    /// Another owner has locked these bytes.
    Range {
        owner: LockOwner,
        span: Span,
        is_exclusive: bool,
    },
    /// A recall is under way; ask again later.
    Recalling,
    /// A reclaim outside a grace period, or of a claim that was not recorded.
    Grace,
    /// There is no grace period, or the claim was not recorded.
    NoGrace,
    /// No such open, range, lease or ticket.
    NotHeld,
    /// The open lacks the right.
    Denied,
    TooMany,
}

/// A message to another holder, or work for the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A lease must be reduced or returned.
    Recall {
        holder: HolderId,
        file: FileKey,
        stream: Stream,
        key: LeaseKey,
        from: Caching,
        to: Caching,
        epoch: u16,
        /// Whether an acknowledgment is expected in time. Otherwise the change has taken effect already.
        acknowledge: bool,
    },
    Revoked {
        holder: HolderId,
        file: FileKey,
        what: RevokedClaim,
    },
    Resume {
        holder: HolderId,
        file: FileKey,
        ticket: Ticket,
        outcome: Outcome,
    },
    /// Ends a ticket: the byte range is reserved for its owner for a limited time.
    Notify {
        holder: HolderId,
        file: FileKey,
        ticket: Ticket,
        owner: LockOwner,
    },
    /// The last open of a file or stream to delete has closed. The volume removes the name and reports that
    /// ([`crate::claims::Claims::removed`]). Opens are refused until then.
    Remove {
        file: FileKey,
        /// Which stream; 0 for the file.
        stream: Stream,
        link: Link,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokedClaim {
    /// An open with its ranges; the lease too if this was its last open.
    Open(OpenId),
    Lease(LeaseKey),
    Range(LockOwner, Span),
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request should be applied again.
    Again,
    Granted,
    TimedOut,
    /// The holder of the request is gone.
    Canceled,
}

impl Effect {
    /// The recipient; `None` for work of the volume.
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

/// A client of a stateful protocol, as a recipient of effects.
pub trait Holder: Send + Sync {
    /// Receives an effect on this holder's claims and tickets. No lock of the table is held, but perhaps the backend's
    /// lock of the file: the call must not wait, and must not call the backend.
    fn deliver(&self, effect: Effect);
}
