//! Quotas of users and groups.

use super::{FromBody, ToBody};
use api_client::model;
use control::{Error, quota_target_name};
use vfs::{QuotaKind, QuotaOwner, QuotaTarget};

impl ToBody for vfs::QuotaLimits {
    type Body = model::QuotaLimits;

    fn to_body(&self) -> model::QuotaLimits {
        model::QuotaLimits {
            limit_bytes: self.bytes,
            limit_files: self.files,
            soft_limit_bytes: self.soft_bytes,
            soft_limit_files: self.soft_files,
            grace_seconds: self.grace_s,
        }
    }
}

impl FromBody<model::QuotaLimits> for vfs::QuotaLimits {
    fn from_body(of: model::QuotaLimits) -> Result<Self, Error> {
        Ok(Self {
            bytes: of.limit_bytes,
            files: of.limit_files,
            soft_bytes: of.soft_limit_bytes,
            soft_files: of.soft_limit_files,
            grace_s: of.grace_seconds,
        })
    }
}

impl ToBody for vfs::QuotaRule {
    type Body = model::QuotaRule;

    fn to_body(&self) -> model::QuotaRule {
        model::QuotaRule { target: quota_target_name(self.target), limits: self.limits.to_body() }
    }
}

fn kind(kind: QuotaKind) -> model::OwnerKind {
    match kind {
        QuotaKind::User => model::OwnerKind::User,
        QuotaKind::Group => model::OwnerKind::Group,
    }
}

impl ToBody for vfs::QuotaUse {
    type Body = model::QuotaUse;

    fn to_body(&self) -> model::QuotaUse {
        model::QuotaUse {
            kind: kind(self.owner.kind),
            id: self.owner.id,
            used_bytes: self.used.bytes,
            used_files: self.used.files,
            limits: self.binding.map(|binding| binding.limits.to_body()).unwrap_or_default(),
            derived: self.binding.is_some_and(|binding| binding.is_derived),
            soft_bytes_exceeded_at: self.excess.bytes_since,
            soft_files_exceeded_at: self.excess.files_since,
        }
    }
}

impl ToBody for vfs::QuotaReport {
    type Body = model::QuotaReport;

    fn to_body(&self) -> model::QuotaReport {
        model::QuotaReport {
            counting: self.is_counting,
            owners: self.uses.iter().map(ToBody::to_body).collect(),
        }
    }
}

impl ToBody for vfs::QuotaCheck {
    type Body = model::QuotaCheck;

    fn to_body(&self) -> model::QuotaCheck {
        let drift = |drift: &vfs::QuotaDrift| model::QuotaDrift {
            kind: kind(drift.owner.kind),
            id: drift.owner.id,
            used_bytes: drift.used.bytes,
            used_files: drift.used.files,
            recounted_bytes: drift.recounted.bytes,
            recounted_files: drift.recounted.files,
        };
        let name =
            |owner: &QuotaOwner| quota_target_name(QuotaTarget { kind: owner.kind, id: Some(owner.id) });
        model::QuotaCheck {
            drifts: self.drifts.iter().map(drift).collect(),
            unsettled: self.unsettled.iter().map(name).collect(),
        }
    }
}
