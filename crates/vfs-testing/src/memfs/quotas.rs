//! Quotas of a [`super::MemFs`]: every question is answered by a walk over all files.

use super::MemFs;
use super::store::{Body, Inode, Store};
use std::collections::{BTreeMap, HashMap};
use vfs::backend::provisioner::Usage;
use vfs::backend::quotas::{
    QuotaCheck, QuotaOwner, QuotaReport, QuotaRule, QuotaRules, QuotaUse, Quotas, charge,
};
use vfs::error::{FsError, FsResult};
use vfs::model::attrs::{SetAttrs, Time};

fn seconds(now: Time) -> u64 {
    u64::try_from(now.seconds).unwrap_or(0)
}

fn owners(uid: u32, gid: u32) -> [QuotaOwner; 2] {
    [QuotaOwner::user(uid), QuotaOwner::group(gid)]
}

fn growth(from: Usage, to: Usage) -> Usage {
    Usage { bytes: to.bytes.saturating_sub(from.bytes), files: to.files.saturating_sub(from.files) }
}

impl Store {
    /// The charge of a file that reaches at least to `end`.
    fn owner_charge(&self, id: u64, inode: &Inode, size: u64) -> Usage {
        let reserved = self.reserved.iter().filter(|range| range.id == id && range.len > 0);
        let ends = reserved.map(|range| range.offset + range.len as u64);
        let size = if matches!(inode.body, Body::Regular(_)) { ends.fold(size, u64::max) } else { size };
        charge(inode.attrs.file_type, size)
    }

    fn usage_by_owner(&self) -> BTreeMap<QuotaOwner, Usage> {
        let mut usage: BTreeMap<_, Usage> = BTreeMap::new();
        for (&id, inode) in &self.inodes {
            let charged = self.owner_charge(id, inode, inode.attrs().size);
            for owner in owners(inode.attrs.uid, inode.attrs.gid) {
                let used = usage.entry(owner).or_default();
                used.bytes += charged.bytes;
                used.files += charged.files;
            }
        }
        usage.retain(|_, used| *used != Usage::default());
        usage
    }

    fn owner_use(&self, owner: QuotaOwner) -> QuotaUse {
        QuotaUse {
            owner,
            used: self.usage_by_owner().get(&owner).copied().unwrap_or_default(),
            binding: self.quotas.rules.binding(owner),
            excess: self.quotas.excess.get(&owner).copied().unwrap_or_default(),
        }
    }

    fn check_owner(&self, owner: QuotaOwner, more: Usage, now: Time) -> FsResult<()> {
        if self.quotas.rules.is_empty() || more == Usage::default() {
            return Ok(());
        }
        let QuotaUse { used, binding, excess, .. } = self.owner_use(owner);
        match binding {
            Some(binding) if !binding.limits.admit(used, more, excess, || seconds(now)) => {
                Err(FsError::Quota)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks whether the owners of a new file may have it.
    pub(super) fn check_new_file(&self, inode: &Inode, now: Time) -> FsResult<()> {
        let (uid, gid) = (inode.attrs.uid, inode.attrs.gid);
        let charged = charge(inode.attrs.file_type, inode.attrs().size);
        owners(uid, gid).into_iter().try_for_each(|owner| self.check_owner(owner, charged, now))
    }

    /// Checks whether the owners of a file may let it grow to `size`.
    pub(super) fn check_size(&self, id: u64, size: u64, now: Time) -> FsResult<()> {
        self.check_set(id, &SetAttrs { size: Some(size), ..SetAttrs::default() }, now)
    }

    /// Checks whether the owners that a file has afterwards may have it with its new size.
    pub(super) fn check_set(&self, id: u64, set: &SetAttrs, now: Time) -> FsResult<()> {
        let inode = self.inode(id)?;
        let (old, size) = (inode.attrs(), set.size.unwrap_or(inode.attrs().size));
        let (before, after) = (self.owner_charge(id, inode, old.size), self.owner_charge(id, inode, size));
        let old_owners = owners(old.uid, old.gid);
        let new_owners = owners(set.uid.unwrap_or(old.uid), set.gid.unwrap_or(old.gid));
        for (old, new) in old_owners.into_iter().zip(new_owners) {
            let more = if old == new { growth(before, after) } else { after };
            self.check_owner(new, more, now)?;
        }
        Ok(())
    }

    /// Notes which owners are above their soft limits.
    pub(super) fn note_excess(&mut self, now: Time) {
        if self.quotas.rules.is_empty() {
            return;
        }
        let mut excess = HashMap::new();
        for (owner, used) in self.usage_by_owner() {
            let Some(binding) = self.quotas.rules.binding(owner) else { continue };
            let old = self.quotas.excess.get(&owner).copied().unwrap_or_default();
            excess.insert(owner, old.after(&binding.limits, used, || seconds(now)));
        }
        self.quotas.excess = excess;
    }
}

impl Quotas for MemFs {
    fn set_rules(&self, rules: &[QuotaRule]) -> FsResult<()> {
        let rules = QuotaRules::new(rules)?;
        let mut store = self.0.lock();
        store.quotas.rules = rules;
        let now = (self.0.clock)();
        store.note_excess(now);
        Ok(())
    }

    fn rules(&self) -> Vec<QuotaRule> {
        self.0.lock().quotas.rules.list()
    }

    fn has_rules(&self) -> bool {
        !self.0.lock().quotas.rules.is_empty()
    }

    fn report(&self) -> FsResult<QuotaReport> {
        let store = self.0.lock();
        let mut owners = store.usage_by_owner();
        for owner in store.quotas.rules.owners() {
            owners.entry(owner).or_default();
        }
        let uses = owners.into_keys().map(|owner| store.owner_use(owner)).collect();
        Ok(QuotaReport { is_counting: false, uses })
    }

    fn usage(&self, owner: QuotaOwner) -> FsResult<QuotaUse> {
        Ok(self.0.lock().owner_use(owner))
    }

    fn check(&self) -> FsResult<QuotaCheck> {
        Ok(QuotaCheck::default())
    }
}
