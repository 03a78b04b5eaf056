//! User and group quotas as a capability of a backend.
//!
//! A file is charged to its user and to its group: one file, and its size in whole blocks of 4 KiB ([`charge`]). A file
//! with several names is charged once, an open file without a name until its last close. A reservation
//! ([`super::Node::reserve`]) is charged as if the file reached its end. Directories and extended attributes are free.
//!
//! A change that would exceed a limit fails whole with [`FsError::Quota`]. The volume's capacity is checked first
//! ([`FsError::NoSpace`]), then the user's limits, then the group's. A change that takes nothing more succeeds even above
//! a limit. User 0 and group 0 are counted, but no limit binds them.

use super::charge::{Usage, blocks};
use crate::error::{FsError, FsResult};
use crate::model::attrs::FileType;
use crate::model::caller::INVALID_ID;
use std::collections::HashMap;

/// Rules of one volume. The levels of clouds allow fewer.
pub const QUOTA_RULES_MAX: usize = 4096;

/// Returns the charge of a file to its user and to its group.
pub fn charge(file_type: FileType, size: u64) -> Usage {
    match file_type {
        FileType::Directory => Usage::default(),
        FileType::Regular => Usage { bytes: blocks(size), files: 1 },
        FileType::Symlink | FileType::Fifo | FileType::Socket | FileType::Block | FileType::Character => {
            Usage { bytes: 0, files: 1 }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKind {
    User,
    Group,
}

/// A user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuotaOwner {
    pub kind: QuotaKind,
    pub id: u32,
}

impl QuotaOwner {
    pub const fn user(id: u32) -> Self {
        Self { kind: QuotaKind::User, id }
    }

    pub const fn group(id: u32) -> Self {
        Self { kind: QuotaKind::Group, id }
    }
}

/// The subject of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuotaTarget {
    pub kind: QuotaKind,
    /// `None`: every user or group without a rule of its own.
    pub id: Option<u32>,
}

/// Limits of one user or group; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    pub bytes: Option<u64>,
    pub files: Option<u64>,
    /// A soft limit may be exceeded for [`QuotaLimits::grace_s`].
    pub soft_bytes: Option<u64>,
    pub soft_files: Option<u64>,
    /// Seconds above a soft limit after which growth is refused; `None`: it never is.
    pub grace_s: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaRule {
    pub target: QuotaTarget,
    pub limits: QuotaLimits,
}

/// The rule that binds a user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaBinding {
    pub limits: QuotaLimits,
    /// Whether it follows from a default rule.
    pub is_derived: bool,
}

/// The times at which the soft limits were exceeded, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftExcess {
    pub bytes_since: Option<u64>,
    pub files_since: Option<u64>,
}

/// The usage of one user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    pub owner: QuotaOwner,
    pub used: Usage,
    /// `None`: no limit applies.
    pub binding: Option<QuotaBinding>,
    pub excess: SoftExcess,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaReport {
    /// The files are being counted: the usage is not known yet, and changes of sizes and names wait.
    pub is_counting: bool,
    /// Users and groups that have files or a rule of their own, users first, in ascending order.
    pub uses: Vec<QuotaUse>,
}

/// A difference between the running count and a recount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaDrift {
    pub owner: QuotaOwner,
    pub used: Usage,
    pub recounted: Usage,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaCheck {
    pub drifts: Vec<QuotaDrift>,
    /// Users and groups whose files changed during every recount: they could not be compared.
    pub unsettled: Vec<QuotaOwner>,
}

/// The space left to the owners of a file, by the strictest of the rules that bind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaRoom {
    /// The limit in bytes of the rule that leaves the fewest; `None`: no limit.
    pub bytes_max: Option<u64>,
    pub bytes: Option<u64>,
    /// Bytes until the first soft limit.
    pub soft_bytes: Option<u64>,
    pub files: Option<u64>,
    /// Bytes in use by the user or group with the fewest left.
    pub bytes_used: u64,
}

/// The quotas of a volume.
pub trait Quotas: Send + Sync {
    /// Replaces all rules, durably. They bind present files immediately. Begins to count by owner, if nothing did before;
    /// until the count ends, changes of sizes, names and owners are `FsError::Wait(Wait::Recall)`. [`FsError::Invalid`]
    /// if [`QuotaRules::new`] refuses them.
    fn set_rules(&self, rules: &[QuotaRule]) -> FsResult<()>;

    /// The rules, in ascending order of their targets.
    fn rules(&self) -> Vec<QuotaRule>;

    /// Whether there are rules. Costs one load.
    fn has_rules(&self) -> bool;

    /// The usage of all owners. Begins to count by owner, if nothing did before.
    fn report(&self) -> FsResult<QuotaReport>;

    /// The usage of one owner; nothing if this volume does not count by owner. `FsError::Wait(Wait::Recall)` while it is
    /// counted.
    fn usage(&self, owner: QuotaOwner) -> FsResult<QuotaUse>;

    /// Counts all files again, and compares. Corrects nothing.
    fn check(&self) -> FsResult<QuotaCheck>;

    /// The space left to a user and a group.
    fn room(&self, uid: u32, gid: u32) -> FsResult<QuotaRoom> {
        let uses = [self.usage(QuotaOwner::user(uid))?, self.usage(QuotaOwner::group(gid))?];
        Ok(QuotaRoom::of(uses, now_s()))
    }
}

/// The present time, in seconds since 1970.
pub fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Rules, checked, and found by their targets.
#[derive(Clone, Debug, Default)]
pub struct QuotaRules(HashMap<QuotaTarget, QuotaLimits>);

impl QuotaRules {
    /// [`FsError::Invalid`] for more than [`QUOTA_RULES_MAX`] rules, two rules for one target, the id 4294967295, a soft
    /// limit above its hard limit, and a grace period without a soft limit.
    pub fn new(rules: &[QuotaRule]) -> FsResult<Self> {
        if rules.len() > QUOTA_RULES_MAX {
            return Err(FsError::Invalid);
        }
        let mut checked = HashMap::new();
        for QuotaRule { target, limits } in rules {
            limits.check()?;
            if target.id == Some(INVALID_ID) || checked.insert(*target, *limits).is_some() {
                return Err(FsError::Invalid);
            }
        }
        Ok(Self(checked))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In ascending order of the targets.
    pub fn list(&self) -> Vec<QuotaRule> {
        let mut rules: Vec<_> =
            self.0.iter().map(|(&target, &limits)| QuotaRule { target, limits }).collect();
        rules.sort_unstable_by_key(|rule| rule.target);
        rules
    }

    /// The owners with rules of their own.
    pub fn owners(&self) -> impl Iterator<Item = QuotaOwner> {
        self.0.keys().filter_map(|target| Some(QuotaOwner { kind: target.kind, id: target.id? }))
    }

    /// The rule for `owner`: its own, else the default. None binds user 0 and group 0.
    pub fn binding(&self, owner: QuotaOwner) -> Option<QuotaBinding> {
        if owner.id == 0 {
            return None;
        }
        let find = |id| self.0.get(&QuotaTarget { kind: owner.kind, id }).copied();
        let derived = || Some(QuotaBinding { limits: find(None)?, is_derived: true });
        find(Some(owner.id)).map(|limits| QuotaBinding { limits, is_derived: false }).or_else(derived)
    }
}

impl QuotaLimits {
    fn check(&self) -> FsResult<()> {
        let exceeds =
            |soft: Option<u64>, hard: Option<u64>| soft.zip(hard).is_some_and(|(soft, hard)| soft > hard);
        let has_soft = self.soft_bytes.is_some() || self.soft_files.is_some();
        let is_wrong = exceeds(self.soft_bytes, self.bytes)
            || exceeds(self.soft_files, self.files)
            || self.grace_s.is_some() && !has_soft;
        if is_wrong { Err(FsError::Invalid) } else { Ok(()) }
    }

    fn has_expired(&self, since: Option<u64>, now: u64) -> bool {
        self.grace_s.zip(since).is_some_and(|(grace, since)| now >= since.saturating_add(grace))
    }

    /// Whether an owner with this usage may use `more`.
    pub fn admit(&self, used: Usage, more: Usage, excess: SoftExcess, now: impl Fn() -> u64) -> bool {
        let fits = |used: u64, more: u64, max: Option<u64>, since: Option<u64>| {
            more == 0
                || used.checked_add(more).is_some_and(|then| max.is_none_or(|max| then <= max))
                    && !(since.is_some() && self.has_expired(since, now()))
        };
        fits(used.bytes, more.bytes, self.bytes, excess.bytes_since)
            && fits(used.files, more.files, self.files, excess.files_since)
    }
}

impl SoftExcess {
    /// The excess after the usage has become `used`.
    #[must_use]
    pub fn after(self, limits: &QuotaLimits, used: Usage, now: impl Fn() -> u64) -> Self {
        let since = |used: u64, soft: Option<u64>, since: Option<u64>| {
            soft.filter(|&soft| used > soft).map(|_| since.unwrap_or_else(&now))
        };
        Self {
            bytes_since: since(used.bytes, limits.soft_bytes, self.bytes_since),
            files_since: since(used.files, limits.soft_files, self.files_since),
        }
    }
}

impl QuotaUse {
    /// Limit, bytes until the limit, bytes until the soft limit, and files until the limit.
    fn left(&self, now: u64) -> [Option<u64>; 4] {
        let Some(QuotaBinding { limits, .. }) = self.binding else { return [None; 4] };
        let until = |max: Option<u64>, used: u64| max.map(|max| max.saturating_sub(used));
        let expiring = |left: Option<u64>, since| {
            if limits.has_expired(since, now) { Some(0) } else { left }
        };
        [
            limits.bytes,
            expiring(until(limits.bytes, self.used.bytes), self.excess.bytes_since),
            until(limits.soft_bytes.or(limits.bytes), self.used.bytes),
            expiring(until(limits.files, self.used.files), self.excess.files_since),
        ]
    }
}

impl QuotaRoom {
    fn of(uses: [QuotaUse; 2], now: u64) -> Self {
        let [user, group] = uses.map(|of| (of.used.bytes, of.left(now)));
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let is_of_group = group.1[1].is_some_and(|left| user.1[1].is_none_or(|other| left < other));
        let strictest = if is_of_group { group } else { user };
        Self {
            bytes_max: strictest.1[0],
            bytes: strictest.1[1],
            soft_bytes: least(user.1[2], group.1[2]),
            files: least(user.1[3], group.1[3]),
            bytes_used: strictest.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: QuotaKind, id: Option<u32>, bytes: u64) -> QuotaRule {
        let limits = QuotaLimits { bytes: Some(bytes), ..QuotaLimits::default() };
        QuotaRule { target: QuotaTarget { kind, id }, limits }
    }

    #[test]
    fn individual_rule_replaces_default_and_root_has_none() {
        let rules = QuotaRules::new(&[rule(QuotaKind::User, None, 5), rule(QuotaKind::User, Some(7), 9)]);
        let rules = rules.unwrap();
        let found = |owner| rules.binding(owner).map(|found| (found.limits.bytes, found.is_derived));
        assert_eq!(found(QuotaOwner::user(7)), Some((Some(9), false)));
        assert_eq!(found(QuotaOwner::user(8)), Some((Some(5), true)));
        assert_eq!([found(QuotaOwner::group(7)), found(QuotaOwner::user(0))], [None, None]);
    }

    #[test]
    fn contradictory_rules_are_invalid() {
        let fine = rule(QuotaKind::Group, Some(7), 9);
        let with = |limits| QuotaRule { limits, ..fine };
        for bad in [
            vec![fine, fine],
            vec![rule(QuotaKind::User, Some(INVALID_ID), 9)],
            vec![with(QuotaLimits { soft_bytes: Some(10), ..fine.limits })],
            vec![with(QuotaLimits { grace_s: Some(10), ..fine.limits })],
            vec![with(QuotaLimits { files: Some(1), soft_files: Some(2), ..fine.limits })],
            (0..=4096).map(|id| rule(QuotaKind::User, Some(id), 1)).collect(),
        ] {
            assert_eq!(QuotaRules::new(&bad).err(), Some(FsError::Invalid));
        }
        assert!(QuotaRules::new(&[fine]).is_ok());
    }

    #[test]
    fn soft_limit_refuses_growth_after_grace() {
        let limits = QuotaLimits {
            bytes: Some(100),
            soft_bytes: Some(50),
            grace_s: Some(10),
            ..QuotaLimits::default()
        };
        let used = |bytes| Usage { bytes, files: 1 };
        let excess = SoftExcess::default().after(&limits, used(51), || 1000);
        assert_eq!(excess.bytes_since, Some(1000));
        assert_eq!(excess.after(&limits, used(60), || 1005), excess, "the first moment counts");
        assert!(limits.admit(used(51), used(9), excess, || 1009));
        assert!(!limits.admit(used(51), used(9), excess, || 1010));
        assert!(limits.admit(used(51), Usage::default(), excess, || 1010), "no growth");
        assert_eq!(excess.after(&limits, used(50), || 1020), SoftExcess::default());
    }

    #[test]
    fn room_is_of_the_strictest_rule() {
        let of = |owner, bytes, used| QuotaUse {
            owner,
            used: Usage { bytes: used, files: 1 },
            binding: Some(QuotaBinding {
                limits: QuotaLimits { bytes: Some(bytes), ..QuotaLimits::default() },
                is_derived: false,
            }),
            excess: SoftExcess::default(),
        };
        let (user, group) = (of(QuotaOwner::user(1), 100, 40), of(QuotaOwner::group(1), 90, 70));
        let room = QuotaRoom::of([user, group], 0);
        assert_eq!((room.bytes_max, room.bytes, room.bytes_used), (Some(90), Some(20), 70));
        let free = QuotaUse { binding: None, ..group };
        let room = QuotaRoom::of([user, free], 0);
        assert_eq!((room.bytes, room.soft_bytes, room.bytes_used), (Some(60), Some(60), 40));
        let room = QuotaRoom::of([QuotaUse { binding: None, ..user }, free], 0);
        assert_eq!((room.bytes, room.files, room.bytes_used), (None, None, 40));
    }
}
