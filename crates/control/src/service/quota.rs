//! Quotas of users and groups. The storage keeps the rules, so that they bind without this service too; this is their one door.

use super::snapshot::check_settled;
use super::{Service, UNCHANGED};
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::name::VolumeName;
use crate::operation::{ChangeContext, ChangeResult, Operation, Verb};
use crate::quota::{check_count, check_limits, parse_target, target_name, text};
use crate::volume::Volume;
use std::sync::Arc;
use vfs::{FsError, QuotaCheck, QuotaReport, QuotaRule, QuotaTarget};

impl Service {
    /// Parses the name of a rule's target: `user:1001`, `group:default`, `user:S-1-5-21-1-2-3-3002`.
    pub fn quota_target(&self, name: &str) -> Result<QuotaTarget> {
        parse_target(name, &self.accounts)
    }

    pub fn quotas(&self, name: &VolumeName) -> Result<Vec<QuotaRule>> {
        let (_, served) = self.with_quotas(name)?;
        Ok(served.quotas().map(vfs::Quotas::rules).unwrap_or_default())
    }

    /// Adds a rule, or replaces the one for the same target.
    pub fn set_quota(
        &self,
        context: &ChangeContext,
        name: &VolumeName,
        rule: &QuotaRule,
    ) -> Result<ChangeResult<QuotaRule>> {
        check_limits(&rule.limits)?;
        let operation = self.change_quotas(context, name, &text(rule), |volume, rules| {
            let before = rules.iter().position(|other| other.target == rule.target);
            if before.is_some_and(|at| rules[at] == *rule) {
                return Ok(false);
            }
            match before {
                Some(at) => rules[at] = *rule,
                None => rules.push(*rule),
            }
            check_count(self.level_of(volume)?, rules.len())?;
            Ok(true)
        })?;
        Ok(ChangeResult { value: *rule, operation })
    }

    /// Deletes a rule. Its user or group keeps a default rule's limits, if there is one.
    pub fn delete_quota(
        &self,
        context: &ChangeContext,
        name: &VolumeName,
        target: QuotaTarget,
    ) -> Result<Operation> {
        let detail = format!("without the quota of {}", target_name(target));
        self.change_quotas(context, name, &detail, |_, rules| {
            let before = rules.len();
            rules.retain(|rule| rule.target != target);
            if rules.len() == before {
                return Err(Error::not_found(Kind::Quota, format!("{name}/{}", target_name(target))));
            }
            Ok(true)
        })
    }

    /// Returns the usage of users and groups. The first report of a volume begins to count its files.
    pub fn quota_report(&self, name: &VolumeName) -> Result<QuotaReport> {
        let (_, served) = self.with_quotas(name)?;
        let report = served.quotas().map(vfs::Quotas::report).unwrap_or_else(|| Ok(QuotaReport::default()));
        report.map_err(Error::storage(format!("count the files of the volume {name} by owner")))
    }

    /// Counts all files of a volume again and compares. Corrects nothing.
    pub fn quota_check(&self, name: &VolumeName) -> Result<QuotaCheck> {
        let (_, served) = self.with_quotas(name)?;
        if self.quota_report(name)?.is_counting {
            return Err(Error::invalid(
                format!("a check while the files of the volume {name} are being counted"),
                "a check after the count; a report says whether it has ended",
            ));
        }
        let check = served.quotas().map(vfs::Quotas::check).unwrap_or_else(|| Ok(QuotaCheck::default()));
        check.map_err(Error::storage(format!("count the files of the volume {name} again")))
    }

    fn level_of(&self, volume: &Volume) -> Result<envelope::Level> {
        Ok(match volume.level {
            Some(level) => level,
            None => self.find_pool(&volume.pool)?.level,
        })
    }

    /// The volume, open, on storage with quotas.
    fn with_quotas(&self, name: &VolumeName) -> Result<(Volume, Arc<vfs::Volume>)> {
        let volume = self.find_volume(name)?;
        check_settled(&volume)?;
        let is_closed = || Error::storage(format!("open the volume {name}"))(FsError::Io);
        let served = self.served(name).filter(|served| served.check_open().is_ok()).ok_or_else(is_closed)?;
        if served.quotas().is_none() {
            return Err(Error::invalid(
                format!("quotas of the volume {name}"),
                "volumes on storage that counts by owner",
            ));
        }
        Ok((volume, served))
    }

    /// Changes the rules with `change`, which returns whether it changed any, and records the operation. The storage
    /// replaces all rules at once, durably, so there is nothing to finish after a crash.
    fn change_quotas(
        &self,
        context: &ChangeContext,
        name: &VolumeName,
        detail: &str,
        change: impl FnOnce(&Volume, &mut Vec<QuotaRule>) -> Result<bool>,
    ) -> Result<Operation> {
        let _locked = self.lock_volume(name, None)?;
        let (volume, served) = self.with_quotas(name)?;
        let Some(quotas) = served.quotas() else { return Err(Error::not_found(Kind::Volume, name)) };
        let mut rules = quotas.rules();
        let is_changed = change(&volume, &mut rules)?;
        if is_changed {
            let _lent = self.dependencies.provisioner.lend_room();
            quotas
                .set_rules(&rules)
                .map_err(Error::storage(format!("set the quotas of the volume {name}")))?;
        }
        let detail = if is_changed { detail } else { UNCHANGED };
        let thing = (Kind::Volume, name.as_str());
        self.change(|store| self.record(store, context, Verb::Update, thing, detail))
    }
}
