//! Quotas over HTTP: set, list, report, check, delete.

use crate::rig::Rig;
use api_client::ChangeOptions;
use api_client::model::{NewPool, NewVolume, OwnerKind, QuotaLimits, QuotaRule};
use envelope::Level;

#[test]
fn quotas_are_set_listed_and_deleted() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::GcnvFlex, 2 << 40)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", 1 << 40)).unwrap();
    assert_eq!(client.quotas("v").unwrap().quotas, []);
    let limits = QuotaLimits { limit_bytes: Some(1 << 30), limit_files: Some(9), ..QuotaLimits::default() };
    let rule = QuotaRule { target: "user:1001".into(), limits };
    assert_eq!(client.set_quota("v", "user:1001", &limits).unwrap(), rule);
    client.set_quota("v", "user:default", &limits).unwrap();
    let targets: Vec<_> = client.quotas("v").unwrap().quotas.into_iter().map(|rule| rule.target).collect();
    assert_eq!(targets, ["user:default", "user:1001"]);
    let report = client.quota_report("v").unwrap();
    let of = report.owners.iter().find(|of| of.id == 1001).unwrap();
    assert_eq!((of.kind, of.limits, of.derived, report.counting), (OwnerKind::User, limits, false, false));
    let check = client.quota_check("v").unwrap();
    assert_eq!((check.drifts, check.unsettled), (vec![], vec![]));
    client.delete_quota("v", "user:1001").unwrap();
    assert_eq!(client.quotas("v").unwrap().quotas.len(), 1);
}

#[test]
fn wrong_quotas_are_refused() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::GcnvFlex, 2 << 40)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", 1 << 40)).unwrap();
    let limits = QuotaLimits { limit_bytes: Some(1 << 30), ..QuotaLimits::default() };
    let refused = |volume: &str, target: &str, limits: &QuotaLimits| {
        client.set_quota(volume, target, limits).unwrap_err().to_string()
    };
    assert!(refused("w", "user:1", &limits).contains("there is no volume w"));
    assert!(refused("v", "user:x", &limits).contains("user:ID, group:ID, user:default, group:default"));
    assert!(refused("v", "user:1", &QuotaLimits::default()).contains("a rule without a limit"));
    let gone = client.delete_quota("v", "user:1").unwrap_err().to_string();
    assert!(gone.contains("there is no quota v/user:1"), "{gone}");
}
