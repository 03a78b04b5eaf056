//! The users of holders. They bound the claims of one user on a file, so that others can have some too.

use super::HolderId;
use super::entries::CLAIMS_MAX;
use crate::sync::RwLock;
use std::collections::{HashMap, HashSet};

/// The users of holders, where one user may have several.
#[derive(Debug, Default)]
pub struct HolderUsers(RwLock<UserTable>);

#[derive(Debug, Default)]
struct UserTable {
    of: HashMap<HolderId, u32>,
    holders: HashMap<u32, HashSet<HolderId>>,
}

impl HolderUsers {
    pub fn add(&self, holder: HolderId, user: u32) {
        let mut table = self.0.write();
        table.of.insert(holder, user);
        table.holders.entry(user).or_default().insert(holder);
    }

    pub(super) fn remove(&self, holder: HolderId) {
        let mut table = self.0.write();
        let Some(user) = table.of.remove(&holder) else { return };
        let Some(holders) = table.holders.get_mut(&user) else { return };
        holders.remove(&holder);
        if holders.is_empty() {
            table.holders.remove(&user);
        }
    }

    /// Whether a holder may have one more claim of a kind on a file with `count` claims of that kind.
    /// A user may have at most as many claims as the remaining room, so one user has at most half.
    pub(super) fn has_room<I: Iterator<Item = HolderId>>(
        &self,
        holder: HolderId,
        count: usize,
        having: impl FnOnce() -> I,
    ) -> bool {
        let room = CLAIMS_MAX.saturating_sub(count);
        // Nobody has more than all.
        count < room || self.count(holder, having()) < room
    }

    /// Counts the holders that belong to the same user.
    fn count(&self, holder: HolderId, having: impl Iterator<Item = HolderId>) -> usize {
        let table = self.0.read();
        let holders = table.of.get(&holder).and_then(|user| table.holders.get(user));
        match holders.filter(|holders| holders.len() > 1) {
            Some(holders) => having.filter(|other| holders.contains(other)).count(),
            None => having.filter(|other| *other == holder).count(),
        }
    }
}
