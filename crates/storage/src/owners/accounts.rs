//! Usage and limits of each user and group, in shards: exact, with one lock each for the user and the group of a change.

use std::collections::{BTreeMap, HashMap};
use std::sync::MutexGuard;
use vfs::backend::quotas::now_s;
use vfs::sync::Mutex;
use vfs::{
    FsError, FsResult, QuotaBinding, QuotaKind, QuotaOwner, QuotaRule, QuotaRules, QuotaUse, SoftExcess,
    Usage,
};

const SHARDS: usize = 64;

/// The user and the group that a change is charged to; `None` if it is charged to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerIds {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

impl OwnerIds {
    pub const fn both(uid: u32, gid: u32) -> Self {
        Self { user: Some(uid), group: Some(gid) }
    }

    pub fn of(owner: QuotaOwner) -> Self {
        match owner.kind {
            QuotaKind::User => Self { user: Some(owner.id), group: None },
            QuotaKind::Group => Self { user: None, group: Some(owner.id) },
        }
    }

    /// The ids that `self` has and `other` has not.
    pub fn other_than(self, other: Self) -> Self {
        Self {
            user: self.user.filter(|_| self.user != other.user),
            group: self.group.filter(|_| self.group != other.group),
        }
    }

    /// Whether `other` has the same ids wherever this has one.
    pub fn is_within(self, other: Self) -> bool {
        self.other_than(other).is_none()
    }

    pub fn is_none(self) -> bool {
        self.user.is_none() && self.group.is_none()
    }

    pub fn each(self) -> impl Iterator<Item = QuotaOwner> {
        self.user.map(QuotaOwner::user).into_iter().chain(self.group.map(QuotaOwner::group))
    }
}

/// Usage by owner, as a walk finds it.
pub type Tally = HashMap<QuotaOwner, Usage>;

pub fn add_to_tally(tally: &mut Tally, ids: OwnerIds, more: Usage) {
    ids.each().for_each(|owner| add(tally, owner, more));
}

/// Adds a tally of other files.
pub fn merge_tally(tally: &mut Tally, others: &Tally) {
    others.iter().for_each(|(&owner, &more)| add(tally, owner, more));
}

fn add(tally: &mut Tally, owner: QuotaOwner, more: Usage) {
    let used = tally.entry(owner).or_default();
    used.bytes += more.bytes;
    used.files += more.files;
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    used: Usage,
    binding: Option<QuotaBinding>,
    excess: SoftExcess,
    /// The shard's number of its last change.
    changed: u64,
}

#[derive(Default)]
struct Shard {
    accounts: HashMap<u32, Account>,
    changes: u64,
}

pub(super) struct Accounts {
    users: Vec<Mutex<Shard>>,
    groups: Vec<Mutex<Shard>>,
    rules: Mutex<QuotaRules>,
}

impl Account {
    fn admits(&self, more: Usage) -> bool {
        self.binding.is_none_or(|binding| binding.limits.admit(self.used, more, self.excess, now_s))
    }

    fn note_excess(&mut self) {
        self.excess = match self.binding {
            Some(binding) => self.excess.after(&binding.limits, self.used, now_s),
            None => SoftExcess::default(),
        };
    }
}

/// A shard, locked, and the id in it.
struct Locked<'s> {
    shard: MutexGuard<'s, Shard>,
    owner: QuotaOwner,
}

impl Locked<'_> {
    fn account(&mut self, rules: &Mutex<QuotaRules>) -> &mut Account {
        let owner = self.owner;
        self.shard
            .accounts
            .entry(owner.id)
            .or_insert_with(|| Account { binding: rules.lock().binding(owner), ..Account::default() })
    }

    /// Changes the usage with `act`; returns its result.
    fn change<T>(&mut self, rules: &Mutex<QuotaRules>, act: impl FnOnce(&mut Usage) -> T) -> T {
        self.shard.changes += 1;
        let changed = self.shard.changes;
        let account = self.account(rules);
        let done = act(&mut account.used);
        account.changed = changed;
        account.note_excess();
        self.drop_empty();
        done
    }

    fn drop_empty(&mut self) {
        let id = self.owner.id;
        if self.shard.accounts.get(&id).is_some_and(|account| account.used == Usage::default()) {
            self.shard.accounts.remove(&id);
        }
    }
}

impl Accounts {
    pub(super) fn new(rules: QuotaRules) -> Self {
        let shards = || (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { users: shards(), groups: shards(), rules: Mutex::new(rules) }
    }

    fn shard(&self, owner: QuotaOwner) -> &Mutex<Shard> {
        let shards = match owner.kind {
            QuotaKind::User => &self.users,
            QuotaKind::Group => &self.groups,
        };
        &shards[owner.id as usize % SHARDS]
    }

    /// Locks the accounts, the user's first: in the same order everywhere.
    fn lock(&self, ids: OwnerIds) -> [Option<Locked<'_>>; 2] {
        let lock = |owner: QuotaOwner| Locked { shard: self.shard(owner).lock(), owner };
        let user = ids.user.map(QuotaOwner::user).map(lock);
        [user, ids.group.map(QuotaOwner::group).map(lock)]
    }

    /// Charges user and group, all or nothing; [`FsError::Quota`] if a limit refuses it.
    pub(super) fn charge(&self, ids: OwnerIds, more: Usage) -> FsResult<()> {
        let mut locked = self.lock(ids);
        let is_over = |account: &mut Locked<'_>| !account.account(&self.rules).admits(more);
        if locked.iter_mut().flatten().any(is_over) {
            // Those that were made to ask for their limits.
            locked.iter_mut().flatten().for_each(Locked::drop_empty);
            return Err(FsError::Quota);
        }
        add_to(&mut locked, &self.rules, more);
        Ok(())
    }

    /// Charges what is there already, even past the limits.
    pub(super) fn force(&self, ids: OwnerIds, more: Usage) {
        add_to(&mut self.lock(ids), &self.rules, more);
    }

    /// Returns whether that much was charged.
    pub(super) fn refund(&self, ids: OwnerIds, less: Usage) -> bool {
        let mut is_exact = true;
        for account in self.lock(ids).iter_mut().flatten() {
            account.change(&self.rules, |used| {
                is_exact &= used.bytes >= less.bytes && used.files >= less.files;
                used.bytes = used.bytes.saturating_sub(less.bytes);
                used.files = used.files.saturating_sub(less.files);
            });
        }
        is_exact
    }

    pub(super) fn rules(&self) -> Vec<QuotaRule> {
        self.rules.lock().list()
    }

    pub(super) fn set_rules(&self, rules: QuotaRules) {
        *self.rules.lock() = rules;
        // An account that is made meanwhile has the new rules or is updated here.
        for (kind, shards) in [(QuotaKind::User, &self.users), (QuotaKind::Group, &self.groups)] {
            for shard in shards {
                for (&id, account) in &mut shard.lock().accounts {
                    account.binding = self.rules.lock().binding(QuotaOwner { kind, id });
                    account.note_excess();
                }
            }
        }
    }

    /// Restores the times at which soft limits were exceeded.
    pub(super) fn set_excess(&self, owner: QuotaOwner, excess: SoftExcess) {
        if let Some(account) = self.shard(owner).lock().accounts.get_mut(&owner.id) {
            account.excess = excess;
            account.note_excess();
        }
    }

    pub(super) fn usage(&self, owner: QuotaOwner) -> QuotaUse {
        let found = self.shard(owner).lock().accounts.get(&owner.id).copied();
        let account = found
            .unwrap_or_else(|| Account { binding: self.rules.lock().binding(owner), ..Account::default() });
        QuotaUse { owner, used: account.used, binding: account.binding, excess: account.excess }
    }

    /// All owners with files, and those with rules of their own.
    pub(super) fn report(&self) -> Vec<QuotaUse> {
        let mut owners: BTreeMap<_, ()> = self.rules.lock().owners().map(|owner| (owner, ())).collect();
        owners.extend(self.snapshot().into_keys().map(|owner| (owner, ())));
        owners.into_keys().map(|owner| self.usage(owner)).collect()
    }

    /// The usage of each owner, with a number that differs after each change.
    pub(super) fn snapshot(&self) -> HashMap<QuotaOwner, (Usage, u64)> {
        let mut snapshot = HashMap::new();
        for (kind, shards) in [(QuotaKind::User, &self.users), (QuotaKind::Group, &self.groups)] {
            for shard in shards {
                let shard = shard.lock();
                let used = shard.accounts.iter().filter(|(_, account)| account.used != Usage::default());
                snapshot.extend(
                    used.map(|(&id, account)| (QuotaOwner { kind, id }, (account.used, account.changed))),
                );
            }
        }
        snapshot
    }
}

fn add_to(locked: &mut [Option<Locked<'_>>; 2], rules: &Mutex<QuotaRules>, more: Usage) {
    for account in locked.iter_mut().flatten() {
        account.change(rules, |used| {
            used.bytes += more.bytes;
            used.files += more.files;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{QuotaLimits, QuotaTarget};

    fn bytes(bytes: u64) -> Usage {
        Usage { bytes, files: 0 }
    }

    fn accounts() -> Accounts {
        let rule = |kind, bytes| QuotaRule {
            target: QuotaTarget { kind, id: None },
            limits: QuotaLimits { bytes: Some(bytes), ..QuotaLimits::default() },
        };
        let rules = [rule(QuotaKind::User, 10), rule(QuotaKind::Group, 15)];
        Accounts::new(QuotaRules::new(&rules).unwrap())
    }

    #[test]
    fn refused_charge_changes_neither_user_nor_group() {
        let accounts = accounts();
        accounts.charge(OwnerIds::both(1, 1), bytes(8)).unwrap();
        assert_eq!(accounts.charge(OwnerIds::both(2, 1), bytes(8)), Err(FsError::Quota));
        assert_eq!(accounts.usage(QuotaOwner::user(2)).used, bytes(0));
        assert_eq!(accounts.usage(QuotaOwner::group(1)).used, bytes(8));
        accounts.charge(OwnerIds::both(0, 0), bytes(1000)).unwrap();
    }

    #[test]
    fn account_without_files_takes_no_memory() {
        let accounts = accounts();
        for more in [11, 16] {
            assert_eq!(accounts.charge(OwnerIds::both(7, 7), bytes(more)), Err(FsError::Quota));
        }
        accounts.charge(OwnerIds::both(7, 7), bytes(5)).unwrap();
        assert!(accounts.refund(OwnerIds::both(7, 7), bytes(5)));
        assert!(!accounts.refund(OwnerIds::both(7, 7), bytes(1)), "more than was charged");
        let count = |shards: &[Mutex<Shard>]| -> usize {
            shards.iter().map(|shard| shard.lock().accounts.len()).sum()
        };
        assert_eq!([count(&accounts.users), count(&accounts.groups)], [0, 0]);
    }
}
