//! Quotas: rules, their bounds, reports, and what the record says.

use super::rig::{Rig, context, furnished, volume};
use crate::Error;
use crate::quota::parse_target;
use identity::{Accounts, SharedAccounts, Sid};
use vfs::{QuotaLimits, QuotaRule};

fn rule(target: &str, bytes: u64) -> QuotaRule {
    let limits = QuotaLimits { bytes: Some(bytes), ..QuotaLimits::default() };
    let nobody = SharedAccounts::new(Accounts::empty(Sid::everyone(), ""));
    QuotaRule { target: parse_target(target, &nobody).unwrap(), limits }
}

#[test]
fn rules_are_set_replaced_and_deleted() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let name = service.volumes(None, 1).unwrap().items[0].name.clone();
    assert_eq!(service.quotas(&name).unwrap(), []);
    let done = service.set_quota(&context(), &name, &rule("user:1001", 1 << 30)).unwrap();
    assert_eq!((done.value, &*done.operation.detail), (rule("user:1001", 1 << 30), "user:1001: 1 GiB"));
    assert!(!service.set_quota(&context(), &name, &done.value).unwrap().operation.has_changed());
    service.set_quota(&context(), &name, &rule("group:default", 5)).unwrap();
    service.set_quota(&context(), &name, &rule("user:1001", 2 << 30)).unwrap();
    let rules = [rule("user:1001", 2 << 30), rule("group:default", 5)];
    assert_eq!(service.quotas(&name).unwrap(), rules);
    drop(service);
    let service = rig.open();
    assert_eq!(service.quotas(&name).unwrap(), rules, "after a restart");
    let report = service.quota_report(&name).unwrap();
    assert!(report.uses.iter().any(|of| of.owner.id == 1001 && of.binding.is_some()), "{report:?}");
    assert_eq!(service.quota_check(&name).unwrap().drifts, []);
    let target = rules[0].target;
    let done = service.delete_quota(&context(), &name, target).unwrap();
    assert_eq!(done.detail, "without the quota of user:1001");
    let gone = service.delete_quota(&context(), &name, target).unwrap_err();
    assert_eq!(gone.to_string(), format!("there is no quota {name}/user:1001"));
}

#[test]
fn impossible_rules_are_refused_with_the_reason() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let name = service.volumes(None, 1).unwrap().items[0].name.clone();
    let missing = volume("missing");
    assert!(matches!(service.quotas(&missing), Err(Error::NotFound { .. })));
    let none = QuotaRule { limits: QuotaLimits::default(), ..rule("user:1", 0) };
    let text = service.set_quota(&context(), &name, &none).unwrap_err().to_string();
    assert_eq!(text, "a rule without a limit; allowed: a limit of bytes, files, soft bytes or soft files");
    let limits = QuotaLimits { soft_bytes: Some(9), ..rule("user:1", 8).limits };
    let above = service.set_quota(&context(), &name, &QuotaRule { limits, ..none });
    assert!(matches!(above, Err(Error::Invalid { .. })));
    assert_eq!(service.quotas(&name).unwrap(), []);
}
