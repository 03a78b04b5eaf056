//! The claims on one file, as data; the rules are in the module of each kind of claim.

use super::{Access, Caching, Durable, HolderId, LeaseKey, Link, LockOwner, OpenId, Span, Stream};
use crate::qos::Nanos;

/// The limit of opens, ranges and waiting requests of one file, each. One user has half of them at most
/// ([`HolderUsers`](super::HolderUsers)).
pub(super) const CLAIMS_MAX: usize = 16_384;

/// The operations that claims on a file can stop; others need no look at the claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocked {
    pub read: bool,
    pub getattr: bool,
    /// Taking the end of the file from its attributes.
    pub eof: bool,
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

/// A file or stream to delete with its last open.
#[derive(Debug)]
pub(super) struct Deletion {
    pub stream: Stream,
    pub link: Link,
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
    /// The end of a reservation: the range is not locked yet, and its owner must ask for it.
    pub reserved_until: Option<Nanos>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub key: LeaseKey,
    pub holder: HolderId,
    pub stream: Stream,
    /// The rights that the holder may still use.
    pub have: Caching,
    /// The rights after the holder's answer; equal to `have` without a recall.
    pub target: Caching,
    pub deadline: Option<Nanos>,
    /// A longer or shorter time limit for this holder's answers.
    pub answers_within: Option<Nanos>,
    pub epoch: u16,
}
