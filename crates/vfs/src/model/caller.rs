//! Who is asking.

use crate::claims::{LeaseKey, Requester};
use std::ops::Deref;
use std::sync::Arc;

/// The number that is no user and no group: chown(2), setfsuid(2) and their like take it as "leave it as it is".
pub const INVALID_ID: u32 = u32::MAX;

/// How a client has shown that it is who it says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It says nothing of who is calling.
    None,
    /// It says so. The export's rules say which clients are believed.
    Claimed,
    /// It has proven it, with a secret that it shares with the service.
    Proven,
}

/// Who a call comes from, as the client says: shared by all calls that say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// User; [`INVALID_ID`] if there is none.
    pub uid: u32,
    /// Primary group; [`INVALID_ID`] if there is none.
    pub gid: u32,
    /// How the client has shown it.
    pub proof: Proof,
    /// The supplementary groups, each once, in ascending order.
    groups: Box<[u32]>,
}

impl Credential {
    /// Of a client that says nothing.
    pub fn none() -> Arc<Self> {
        Arc::new(Self { uid: INVALID_ID, gid: INVALID_ID, proof: Proof::None, groups: Box::default() })
    }

    /// A credential with any number of supplementary groups. [`INVALID_ID`] among them is no group and is left out; user and
    /// primary group are taken as they are: [`crate::ExportRule::caller`] replaces those.
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

    /// Whether `gid` is one of the groups.
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
    /// Whether the export refuses this caller every change.
    pub read_only: bool,
    /// Who it is to those who hold claims on files: its own do not stand in its way.
    pub by: Requester,
    /// Whose listings of the directories in which it changes names are right already.
    pub listing: Option<LeaseKey>,
}

impl Caller {
    /// A caller with this user, group and supplementary groups, who may change things.
    pub fn new(uid: u32, gid: u32, supplementary: impl IntoIterator<Item = u32>) -> Self {
        Self::of(Credential::new(Proof::Claimed, uid, gid, supplementary), false)
    }

    /// A caller with the rights of `identity`.
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
    fn what_needs_no_change_is_shared() {
        let credential = Credential::new(Proof::Claimed, 7, 8, [9, 10]);
        assert!(Arc::ptr_eq(&credential, &credential.with_groups_replaced(&[0, INVALID_ID], 5)));
        let replaced = credential.with_groups_replaced(&[10, 8], 5);
        assert_eq!((replaced.gid, replaced.groups()), (5, &[5, 9][..]));
    }
}
