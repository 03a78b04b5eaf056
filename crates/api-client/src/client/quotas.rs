//! Quotas of users and groups.

use super::{Client, Result, path, to_json};
use crate::JSON;
use crate::client::transport::Request;
use crate::model::{Operation, QuotaCheck, QuotaLimits, QuotaReport, QuotaRule, Quotas};
use crate::path::encoded;

impl Client {
    /// The rules of a volume.
    pub fn quotas(&self, volume: &str) -> Result<Quotas> {
        self.value(&Request::get(format!("{}/quotas", path("volumes", volume))))
    }

    /// Adds a rule for a target, as `user:1001`, or replaces it.
    pub fn set_quota(&self, volume: &str, target: &str, limits: &QuotaLimits) -> Result<QuotaRule> {
        self.value(&Request::put(quota(volume, target)).body(JSON, &to_json(limits)?))
    }

    pub fn delete_quota(&self, volume: &str, target: &str) -> Result<Operation> {
        self.value(&Request::delete(quota(volume, target)))
    }

    pub fn quota_report(&self, volume: &str) -> Result<QuotaReport> {
        self.value(&Request::get(format!("{}/quota-report", path("volumes", volume))))
    }

    /// Counts all files again, which takes as long as listing them.
    pub fn quota_check(&self, volume: &str) -> Result<QuotaCheck> {
        self.value(&Request::get(format!("{}/quota-check", path("volumes", volume))))
    }
}

fn quota(volume: &str, target: &str) -> String {
    format!("{}/quotas/{}", path("volumes", volume), encoded(target))
}
