//! What is held of one file, as data; the rules are with each kind of claim.

use super::{Access, Caching, Durable, HolderId, LeaseKey, Link, LockOwner, OpenId, Span, Stream};
use crate::qos::Nanos;

/// How many opens, ranges and waiting requests one file may have, each. One user has half of them at most ([`Users`](super::Users)).
pub(super) const CLAIMS_MAX: usize = 16_384;

/// The operations that claims on a file can stop; others need no look at the claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocked {
    pub read: bool,
    pub getattr: bool,
    /// Taking the end of the file from its attributes.
    pub eof: bool,
    /// Changes of data, attributes or names.
    pub change: bool,
    /// Whether the file or one of its streams goes with an open.
    pub deletes: bool,
}

#[derive(Debug)]
pub(super) struct Open {
    pub id: OpenId,
    pub holder: HolderId,
    pub stream: Stream,
    pub access: Access,
    pub lease: Option<LeaseKey>,
    pub is_mandatory: bool,
    pub is_advisory: bool,
    pub disconnected: Option<Durable>,
    pub delete_on_close: Option<Link>,
}

/// What goes when the last open of it does.
#[derive(Debug)]
pub(super) struct Deletion {
    pub stream: Stream,
    pub link: Link,
    /// That it has gone, and the volume is removing the name.
    pub is_begun: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// The number of its ticket, if its request had to wait.
    pub id: u64,
    pub owner: LockOwner,
    pub open: Option<OpenId>,
    pub stream: Stream,
    pub span: Span,
    pub is_exclusive: bool,
    pub is_enforced: bool,
    /// It is only kept for the owner, who has to ask for it.
    pub kept_until: Option<Nanos>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub key: LeaseKey,
    pub holder: HolderId,
    pub stream: Stream,
    /// What the holder may still make use of.
    pub have: Caching,
    /// What will be left once the holder has answered; `have` if nothing was asked.
    pub target: Caching,
    /// When the answer must be there.
    pub deadline: Option<Nanos>,
    /// How long the holder may take, if that is its own.
    pub answers_within: Option<Nanos>,
    pub epoch: u16,
}
