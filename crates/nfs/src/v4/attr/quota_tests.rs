//! Quotas: the attributes that tell what is left, and the refusals.

use crate::testing::v4::{Client, at};
use crate::testing::{TestEnv, export, rule, words};
use nfs_wire::v4::attr;
use nfs_wire::v4::{Argument, Bitmap, Fattr, SetattrArgs, Stateid, Status};
use std::sync::Arc;
use vfs::{
    Caller, Disposition, PendingSync, QuotaKind, QuotaLimits, QuotaRule, QuotaTarget, SetAttrs, Stability,
    Volume,
};

const F: &[&[u8]] = &[b"e", b"f"];
const QUOTA: [u32; 3] = [attr::QUOTA_AVAIL_HARD, attr::QUOTA_AVAIL_SOFT, attr::QUOTA_USED];

/// `/e` with a file `f` of user 7 and group 100, with two blocks.
fn client() -> (Client, Arc<Volume>) {
    let env = TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]);
    let served = Arc::clone(&env.service.namespace.load().exports()[0]);
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let set = SetAttrs { mode: Some(0o640), uid: Some(7), gid: Some(100), ..SetAttrs::default() };
    let made = served.root().create(&caller, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
    let opened = made.file.authorize_write(&caller).unwrap();
    opened.write(0, &[1; 8192], Stability::Unstable, &mut pending).unwrap();
    (Client::new(env, 1), Arc::clone(&served.volume))
}

fn limit(volume: &Volume, user: u64, group: u64) {
    let rule = |kind, id, bytes, soft_bytes| QuotaRule {
        target: QuotaTarget { kind, id: Some(id) },
        limits: QuotaLimits { bytes: Some(bytes), soft_bytes, ..QuotaLimits::default() },
    };
    let rules = [rule(QuotaKind::User, 7, user, Some(12_288)), rule(QuotaKind::Group, 100, group, None)];
    volume.quotas().unwrap().set_rules(&rules).unwrap();
}

fn set(client: &Client, number: u32, value: &[u8]) -> Status {
    let obj_attributes = Fattr { attrmask: Bitmap::of(&[number]), attr_vals: value };
    client.status(&at(F, [Argument::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, obj_attributes })]))
}

#[test]
fn quota_attributes_are_what_the_strictest_rule_leaves() {
    let (client, volume) = client();
    let supported = |client: &Client| {
        let (_, bytes) = client.attrs(F, &[attr::SUPPORTED_ATTRS]);
        let all = <Bitmap as xdr::Decode>::decode(&mut xdr::Reader::new(&bytes)).unwrap();
        QUOTA.map(|number| all.contains(number))
    };
    assert_eq!(client.attrs(F, &QUOTA), (Bitmap::EMPTY, vec![]), "no rules");
    assert_eq!(supported(&client), [false; 3]);
    limit(&volume, 40_960, 32_768);
    assert_eq!(supported(&client), [true; 3]);
    assert_eq!(client.attrs(F, &QUOTA), (Bitmap::of(&QUOTA), words(&[0, 24_576, 0, 4096, 0, 8192])));
    limit(&volume, 20_480, 32_768);
    assert_eq!(client.attrs(F, &QUOTA).1, words(&[0, 12_288, 0, 4096, 0, 8192]));
    let (_, of_root) = client.attrs(&F[..1], &QUOTA[..2]);
    assert_eq!(of_root, words(&[u32::MAX; 4]), "no rule for the owners of the root");
}

#[test]
fn growth_past_a_quota_is_dquot() {
    let (client, volume) = client();
    limit(&volume, 12_288, 32_768);
    assert_eq!(set(&client, attr::SIZE, &words(&[0, 12_288])), Status::OK);
    assert_eq!(set(&client, attr::SIZE, &words(&[0, 12_289])), Status::DQUOT);
    assert_eq!(set(&client, attr::SIZE, &words(&[1, 0])), Status::DQUOT);
    assert_eq!(set(&client, attr::OWNER, &[words(&[1]), b"8\0\0\0".to_vec()].concat()), Status::OK);
    assert_eq!(set(&client, attr::SIZE, &words(&[0, 12_289])), Status::OK, "another user");
    let back = [words(&[1]), b"7\0\0\0".to_vec()].concat();
    assert_eq!(set(&client, attr::OWNER, &back), Status::DQUOT);
}
