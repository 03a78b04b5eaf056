//! The identity of a caller.

use crate::claims::{LeaseKey, Requester};
use std::ops::Deref;
use std::sync::Arc;

/// The id of no user or group: chown(2), setfsuid(2) and similar calls leave the id unchanged.
pub const INVALID_ID: u32 = u32::MAX;

/// The strength of a client's authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The client names no user.
    None,
    /// The client names a user without proof. The export's rules say which clients to believe.
    Claimed,
    /// The client has proven the user with a secret that it shares with the service.
    Proven,
}

/// The identity that a client presents, shared by all its calls with the same identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// User; [`INVALID_ID`] if there is none.
    pub uid: u32,
    /// Primary group; [`INVALID_ID`] if there is none.
    pub gid: u32,
    pub proof: Proof,
    /// The supplementary groups, each once, in ascending order.
    groups: Box<[u32]>,
}

impl Credential {
    /// The credential of a client that names no user.
    pub fn none() -> Arc<Self> {
        Arc::new(Self { uid: INVALID_ID, gid: INVALID_ID, proof: Proof::None, groups: Box::default() })
    }

    /// Makes a credential with any number of supplementary groups, without [`INVALID_ID`]. User and primary group are
    /// stored as they are: [`crate::ExportRule::caller`] replaces invalid ones.
    pub fn new(proof: Proof, uid: u32, gid: u32, supplementary: impl IntoIterator<Item = u32>) -> Arc<Self> {
        let mut groups: Vec<u32> = supplementary.into_iter().filter(|&group| group != INVALID_ID).collect();
        groups.sort_unstable();
        groups.dedup();
        Arc::new(Self { uid, gid, proof, groups: groups.into() })
    }

    /// The supplementary groups, in ascending order.
    #[inline]
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    #[inline]
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.binary_search(&gid).is_ok()
    }

    /// This credential with `new` for every group in `old`, shared if it has none of them.
    pub(crate) fn with_groups_replaced(self: &Arc<Self>, old: &[u32], new: u32) -> Arc<Self> {
        if !old.iter().any(|&group| self.is_in(group)) {
            return Arc::clone(self);
        }
        let replaced = |group| if old.contains(&group) { new } else { group };
        let groups = self.groups.iter().copied().map(replaced);
        Self::new(self.proof, self.uid, replaced(self.gid), groups)
    }
}

/// The identity that a call acts with: a credential as the rule of an export takes it ([`crate::ExportRule::caller`]).
/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    identity: Arc<Credential>,
    /// Whether the export is read-only for this caller.
    pub read_only: bool,
    /// The requester in the table of claims: its own claims do not conflict with it.
    pub by: Requester,
    /// The lease whose cached listings are current already when this caller changes names.
    pub listing: Option<LeaseKey>,
}

impl Caller {
    /// Makes a caller with this user, group and supplementary groups that may change files.
    pub fn new(uid: u32, gid: u32, supplementary: impl IntoIterator<Item = u32>) -> Self {
        Self::of(Credential::new(Proof::Claimed, uid, gid, supplementary), false)
    }

    pub(crate) fn of(identity: Arc<Credential>, read_only: bool) -> Self {
        Self { identity, read_only, by: Requester::Anonymous, listing: None }
    }

    /// Whether mode bits do not bind this caller.
    #[inline]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }
}

impl Deref for Caller {
    type Target = Credential;

    #[inline]
    fn deref(&self) -> &Credential {
        &self.identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_group_is_dropped() {
        let caller = Caller::new(1, 1, (2..10_002).rev().chain([INVALID_ID, 7]));
        assert_eq!(caller.groups(), (2..10_002).collect::<Vec<_>>());
        assert!((1..10_002).all(|group| caller.is_in(group)));
        assert!([0, 10_002, INVALID_ID].into_iter().all(|group| !caller.is_in(group)));
    }

    #[test]
    fn unchanged_credential_is_shared() {
        let credential = Credential::new(Proof::Claimed, 7, 8, [9, 10]);
        assert!(Arc::ptr_eq(&credential, &credential.with_groups_replaced(&[0, INVALID_ID], 5)));
        let replaced = credential.with_groups_replaced(&[10, 8], 5);
        assert_eq!((replaced.gid, replaced.groups()), (5, &[5, 9][..]));
    }
}
