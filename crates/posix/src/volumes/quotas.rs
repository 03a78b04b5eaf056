//! The quotas of a volume, as its backend offers them.

use super::store::Store;
use super::tree::{self, reopen};
use crate::capacity::limit::Limit;
use crate::capacity::owners::accounts::{self, Tally};
use crate::error::refused;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use vfs::{
    FsError, FsResult, QuotaCheck, QuotaDrift, QuotaOwner, QuotaReport, QuotaRule, QuotaUse, Quotas, Usage,
    Wait,
};

/// Recounts of one check. Each compares the owners whose files did not change during its walk.
const ROUNDS_MAX: usize = 3;

type Snapshot = HashMap<QuotaOwner, (Usage, u64)>;

impl Store {
    fn limit(&self) -> FsResult<&Arc<Limit>> {
        self.mount.limit.as_ref().ok_or(FsError::NotSupported)
    }

    /// Counts all files by owner, with the open ones that have no name.
    fn recount_owners(&self, limit: &Limit) -> FsResult<Tally> {
        let mut tally = tree::OwnerTally { of: Tally::new(), has_attribute: self.mount.owner_attribute };
        let root = reopen(limit.root()).map_err(refused)?;
        tree::count(root, false, Some(&mut tally), &mut |_, _| Ok(())).map_err(refused)?;
        if let Some(live) = limit.owners().live() {
            live.nameless(&mut |ids, amount| accounts::add(&mut tally.of, ids, amount));
        }
        Ok(tally.of)
    }
}

impl Quotas for Store {
    fn set_rules(&self, rules: &[QuotaRule]) -> FsResult<()> {
        let limit = self.limit()?;
        limit.owners().set_rules(rules)?;
        limit.start_owners()
    }

    fn rules(&self) -> Vec<QuotaRule> {
        self.limit().map(|limit| limit.owners().accounts().rules()).unwrap_or_default()
    }

    fn has_rules(&self) -> bool {
        self.limit().is_ok_and(|limit| limit.owners().has_rules())
    }

    fn report(&self) -> FsResult<QuotaReport> {
        let limit = self.limit()?;
        limit.start_owners()?;
        let owners = limit.owners();
        match (owners.is_known(), owners.is_counting()) {
            (true, _) => Ok(QuotaReport { is_counting: false, uses: owners.accounts().report() }),
            (false, true) => Ok(QuotaReport { is_counting: true, uses: Vec::new() }),
            (false, false) => Err(FsError::Io),
        }
    }

    fn usage(&self, owner: QuotaOwner) -> FsResult<QuotaUse> {
        let owners = self.limit()?.owners();
        match owners.if_on() {
            Some(ledger) if !ledger.is_known() => {
                Err(if ledger.is_counting() { FsError::Wait(Wait::Recall) } else { FsError::Io })
            }
            Some(_) | None => Ok(owners.accounts().usage(owner)),
        }
    }

    fn check(&self) -> FsResult<QuotaCheck> {
        let limit = self.limit()?;
        let accounts = limit.owners().accounts();
        if !limit.owners().is_known() {
            return Err(FsError::Wait(Wait::Recall));
        }
        let (mut settled, mut drifts) = (BTreeSet::new(), BTreeMap::new());
        let mut unsettled = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let before = accounts.snapshot();
            let tally = self.recount_owners(limit)?;
            compare(&before, &accounts.snapshot(), &tally, &mut |owner, drift| match drift {
                Drift::Unsettled => _ = unsettled.insert(owner),
                Drift::None => _ = settled.insert(owner),
                Drift::Found(drift) => _ = drifts.insert(owner, drift),
            });
            // A rename during the walk may hide a file or show it twice.
            drifts.retain(|owner, _| !settled.contains(owner));
            unsettled.retain(|owner| !settled.contains(owner) && !drifts.contains_key(owner));
            if drifts.is_empty() && unsettled.is_empty() {
                break;
            }
        }
        Ok(QuotaCheck { drifts: drifts.into_values().collect(), unsettled: unsettled.into_iter().collect() })
    }
}

enum Drift {
    None,
    Unsettled,
    Found(QuotaDrift),
}

/// Compares a recount with the running count before and after it.
fn compare(before: &Snapshot, after: &Snapshot, tally: &Tally, found: &mut dyn FnMut(QuotaOwner, Drift)) {
    let owners: BTreeSet<_> = before.keys().chain(after.keys()).chain(tally.keys()).copied().collect();
    for owner in owners {
        let used = before.get(&owner).map_or_else(Usage::default, |&(used, _)| used);
        let recounted = tally.get(&owner).copied().unwrap_or_default();
        found(
            owner,
            if before.get(&owner) != after.get(&owner) {
                Drift::Unsettled
            } else if used == recounted {
                Drift::None
            } else {
                Drift::Found(QuotaDrift { owner, used, recounted })
            },
        );
    }
}
