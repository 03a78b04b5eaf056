//! The quotas of a volume, as its backend offers them.

use super::store::Store;
use super::tree::{self, reopen};
use crate::capacity::limit::Limit;
use crate::error::refused;
use std::sync::Arc;
use storage::Tally;
use vfs::{FsError, FsResult, QuotaCheck, QuotaOwner, QuotaReport, QuotaRule, QuotaUse, Quotas};

impl Store {
    fn limit(&self) -> FsResult<&Arc<Limit>> {
        self.mount.limit.as_ref().ok_or(FsError::NotSupported)
    }

    /// Counts all files by owner.
    fn recount_owners(&self, limit: &Limit) -> FsResult<Tally> {
        let mut tally = Tally::new();
        let owners = tree::OwnerTally { of: &mut tally, has_attribute: self.mount.owner_attribute };
        let root = reopen(limit.root()).map_err(refused)?;
        tree::count(root, false, Some(owners), &mut |_, _| Ok(())).map_err(refused)?;
        Ok(tally)
    }
}

impl Quotas for Store {
    fn set_rules(&self, rules: &[QuotaRule]) -> FsResult<()> {
        let limit = self.limit()?;
        limit.owners().set_rules(rules)?;
        limit.start_owners()
    }

    fn rules(&self) -> Vec<QuotaRule> {
        self.limit().map(|limit| limit.owners().rules()).unwrap_or_default()
    }

    fn has_rules(&self) -> bool {
        self.limit().is_ok_and(|limit| limit.owners().has_rules())
    }

    fn report(&self) -> FsResult<QuotaReport> {
        let limit = self.limit()?;
        limit.start_owners()?;
        limit.owners().report()
    }

    fn usage(&self, owner: QuotaOwner) -> FsResult<QuotaUse> {
        self.limit()?.owners().usage(owner)
    }

    fn check(&self) -> FsResult<QuotaCheck> {
        let limit = self.limit()?;
        limit.owners().check(&|| self.recount_owners(limit))
    }
}
