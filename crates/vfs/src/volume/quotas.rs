//! Quotas of users and groups, as protocols ask for them.

use super::Volume;
use crate::backend::quotas::{QuotaRoom, Quotas};

impl Volume {
    /// The quotas of this volume; `None` if its storage does not count by owner.
    pub fn quotas(&self) -> Option<&dyn Quotas> {
        self.backend.quotas()
    }

    /// The quotas, if there are rules: one load where there are none.
    pub fn ruling_quotas(&self) -> Option<&dyn Quotas> {
        self.quotas().filter(|quotas| quotas.has_rules())
    }

    /// The space left to a user and a group; `None` if the volume has no rules, and while its files are counted.
    pub fn quota_room(&self, uid: u32, gid: u32) -> Option<QuotaRoom> {
        self.ruling_quotas()?.room(uid, gid).ok()
    }
}
