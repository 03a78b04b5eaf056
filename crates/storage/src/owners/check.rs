//! The quotas of a volume as a backend offers them: reports, and the check of the running count.

use super::{OwnerLedger, Tally};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vfs::{
    FsError, FsResult, QuotaCheck, QuotaDrift, QuotaOwner, QuotaReport, QuotaRule, QuotaUse, Usage, Wait,
};

/// Recounts of one check. Each compares the owners whose files did not change during its walk.
const ROUNDS_MAX: usize = 3;

type Snapshot = HashMap<QuotaOwner, (Usage, u64)>;

impl OwnerLedger {
    pub fn rules(&self) -> Vec<QuotaRule> {
        self.accounts.rules()
    }

    /// [`vfs::Quotas::report`], once the count has started.
    pub fn report(&self) -> FsResult<QuotaReport> {
        match (self.is_known(), self.is_counting()) {
            (true, _) => Ok(QuotaReport { is_counting: false, uses: self.accounts.report() }),
            (false, true) => Ok(QuotaReport { is_counting: true, uses: Vec::new() }),
            (false, false) => Err(FsError::Io),
        }
    }

    /// [`vfs::Quotas::usage`].
    pub fn usage(&self, owner: QuotaOwner) -> FsResult<QuotaUse> {
        match self.if_on() {
            Some(ledger) if !ledger.is_known() => {
                Err(if ledger.is_counting() { FsError::Wait(Wait::Recall) } else { FsError::Io })
            }
            Some(_) | None => Ok(self.accounts.usage(owner)),
        }
    }

    /// [`vfs::Quotas::check`]. `walk` counts all files by owner; the open ones without a name are added.
    pub fn check(&self, walk: &dyn Fn() -> FsResult<Tally>) -> FsResult<QuotaCheck> {
        if !self.is_known() {
            return Err(FsError::Wait(Wait::Recall));
        }
        let (mut settled, mut drifts) = (BTreeSet::new(), BTreeMap::new());
        let mut unsettled = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let before = self.accounts.snapshot();
            let mut tally = walk()?;
            if let Some(live) = self.live() {
                live.nameless(&mut |ids, amount| super::add_to_tally(&mut tally, ids, amount));
            }
            compare(&before, &self.accounts.snapshot(), &tally, &mut |owner, drift| match drift {
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
