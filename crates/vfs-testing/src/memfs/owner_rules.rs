//! Rules of a [`super::MemFs`] for users and groups.

use std::collections::HashMap;
use vfs::backend::quotas::{QuotaOwner, QuotaRules, SoftExcess};

#[derive(Clone, Default)]
pub(super) struct OwnerRules {
    pub(super) rules: QuotaRules,
    pub(super) excess: HashMap<QuotaOwner, SoftExcess>,
}
