//! Which holders are of one user: a file has only so many claims, and no user has those that the others need.

use super::HolderId;
use super::held::CLAIMS_MAX;
use crate::sync::RwLock;
use std::collections::{HashMap, HashSet};

/// The users of holders that are several to one user.
#[derive(Debug, Default)]
pub struct HolderUsers(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    of: HashMap<HolderId, u32>,
    holders: HashMap<u32, HashSet<HolderId>>,
}

impl HolderUsers {
    /// A holder is this user's.
    pub fn add(&self, holder: HolderId, user: u32) {
        let mut known = self.0.write();
        known.of.insert(holder, user);
        known.holders.entry(user).or_default().insert(holder);
    }

    /// A holder is gone.
    pub(super) fn remove(&self, holder: HolderId) {
        let mut known = self.0.write();
        let Some(user) = known.of.remove(&holder) else { return };
        let Some(holders) = known.holders.get_mut(&user) else { return };
        holders.remove(&holder);
        if holders.is_empty() {
            known.holders.remove(&user);
        }
    }

    /// Whether a holder may have one more claim of a kind on a file, where these `count` have one each: not if its user has as many as there is
    /// room left for. So one user has half at most, and several leave some to the next.
    pub(super) fn has_room<I: Iterator<Item = HolderId>>(
        &self,
        holder: HolderId,
        count: usize,
        having: impl FnOnce() -> I,
    ) -> bool {
        let left = CLAIMS_MAX.saturating_sub(count);
        // Nobody has more than all.
        count < left || self.count(holder, having()) < left
    }

    /// How many of these are of a holder's user.
    fn count(&self, holder: HolderId, having: impl Iterator<Item = HolderId>) -> usize {
        let known = self.0.read();
        let holders = known.of.get(&holder).and_then(|user| known.holders.get(user));
        match holders.filter(|holders| holders.len() > 1) {
            Some(holders) => having.filter(|other| holders.contains(other)).count(),
            None => having.filter(|other| *other == holder).count(),
        }
    }
}
