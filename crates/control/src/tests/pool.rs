//! Pools: what their levels allow, and what reaches their volumes.

use super::rig::{DISK, Rig, context, furnished, new_pool, new_volume, pool, properties, volume};
use crate::{Error, Labels, NewPool, Outcome, PoolChange, Verb, Warning};
use envelope::{Bytes, BytesPerSecond, Level, PoolSettings, Qos, VolumeSettings};
use std::num::NonZeroU64;

fn sized(tib: u64) -> PoolChange {
    PoolChange { size: Some(Bytes::tib(tib)), ..PoolChange::default() }
}

fn rate(mib: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(mib << 20)
}

#[test]
fn a_pool_is_made_once_and_found_again() {
    let rig = Rig::new();
    let service = rig.open();
    let labels = Labels::from([("team".to_owned(), "chips".to_owned())]);
    let new = NewPool { labels, ..new_pool("p", Level::AnfUltra, 4) };
    let made = service.create_pool(&context(), &new).unwrap();
    assert_eq!((made.value.version, made.operation.outcome), (1, Outcome::Succeeded));
    let again = service.create_pool(&context(), &new).unwrap();
    assert_eq!(again.value, made.value);
    assert_eq!(again.operation.detail, "nothing to change");
    let other = NewPool { size: Bytes::tib(5), labels: Labels::new(), ..new };
    let error = service.create_pool(&context(), &other).unwrap_err();
    assert!(
        matches!(&error, Error::Conflict { differs, .. } if properties(differs) == ["size", "labels"]),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "the pool p exists with other properties, size (4 TiB, not 5 TiB), labels (team=chips, not none): change it, \
         or choose another name"
    );
    drop(service);
    let service = rig.open();
    assert_eq!(service.pool(&pool("p")).unwrap(), made.value, "after a restart");
    let operations = service.operations(None, 9).unwrap().items;
    assert_eq!(operations.len(), 2);
    assert_eq!((operations[1].actor.as_str(), operations[1].verb), ("ada", Verb::Create));
    assert_eq!((operations[1].name.as_str(), operations[1].detail.as_str()), ("p", "4 TiB of anf/ultra"));
    assert_eq!(service.operation(operations[1].id).unwrap(), operations[1]);
}

#[test]
fn its_level_says_what_it_may_be() {
    let rig = Rig::new();
    let service = rig.open();
    let error = service.create_pool(&context(), &new_pool("p", Level::GcnvPremium, 1)).unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error}");
    assert!(error.to_string().contains("allowed: 2 TiB to"), "{error}");
    let new = NewPool { size: Bytes(1 << 63), ..new_pool("p", Level::Unlimited, 1) };
    let error = service.create_pool(&context(), &new).unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "more than the store can keep: {error}");
    let settings = PoolSettings { throughput: Some(BytesPerSecond::mib(200)), ..PoolSettings::default() };
    let new = NewPool { settings, ..new_pool("p", Level::AnfPremium, 4) };
    assert!(service.create_pool(&context(), &new).unwrap_err().to_string().contains("anf/premium"));
    assert!(
        service.pools(None, 9).unwrap().items.is_empty()
            && service.operations(None, 9).unwrap().items.is_empty()
    );
    service.create_pool(&context(), &new_pool("p", Level::AnfPremium, 4)).unwrap();
    let change = PoolChange { level: Some(Level::AnfUltra), ..PoolChange::default() };
    let error = service.update_pool(&context(), &pool("p"), &change).unwrap_err();
    assert!(error.to_string().contains("make another pool and move the volumes there"), "{error}");
    service.create_pool(&context(), &new_pool("own", Level::Unlimited, 4)).unwrap();
    let change = PoolChange { level: Some(Level::Custom), ..PoolChange::default() };
    assert_eq!(service.update_pool(&context(), &pool("own"), &change).unwrap().value.level, Level::Custom);
}

#[test]
fn a_pool_shrinks_to_what_its_volumes_have_or_by_force() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service.create_volume(&context(), &new_volume("w", "p", 2048)).unwrap();
    assert_eq!(service.update_pool(&context(), &pool("p"), &sized(3)).unwrap().value.version, 2);
    let error = service.update_pool(&context(), &pool("p"), &sized(2)).unwrap_err();
    assert!(matches!(error, Error::PoolFull { .. }) && error.may_be_forced(), "{error}");
    assert!(error.to_string().contains("would have 3 TiB together, but it has 2 TiB"), "{error}");
    service.update_pool(&context().forced(), &pool("p"), &sized(2)).unwrap();
    let over = Warning::OverPool { pool: pool("p"), size: Bytes::tib(2), taken: Bytes::tib(3) };
    assert!(service.warnings().unwrap().contains(&over));
}

#[test]
fn a_version_that_has_passed_is_refused() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service.update_pool(&context().at(1), &pool("p"), &sized(5)).unwrap();
    let error = service.update_pool(&context().at(1), &pool("p"), &sized(6)).unwrap_err();
    assert!(matches!(error, Error::Version { wanted: 1, found: 2, .. }), "{error}");
    assert_eq!(service.pool(&pool("p")).unwrap().size, Bytes::tib(5));
    service.update_pool(&context().at(2), &pool("p"), &sized(6)).unwrap();
    let same = service.update_pool(&context(), &pool("p"), &sized(6)).unwrap();
    assert_eq!((same.value.version, same.operation.detail.as_str()), (3, "nothing to change"));
}

#[test]
fn pool_change_reaches_its_volumes_immediately() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::AnfPremium, 4)).unwrap();
    service.create_volume(&context(), &new_volume("v", "p", 2048)).unwrap();
    let gate = rig.gate(&service, &volume("v"));
    assert_eq!(gate.limits().all.bytes, rate(128));
    // To manual QoS every volume takes along what it had.
    let manual = PoolSettings { qos: Some(Qos::Manual), ..PoolSettings::default() };
    let change = PoolChange { settings: Some(manual.clone()), ..PoolChange::default() };
    service.update_pool(&context(), &pool("p"), &change).unwrap();
    let kept = service.volume(&volume("v")).unwrap();
    assert_eq!((kept.settings.throughput, kept.version), (Some(BytesPerSecond::mib(128)), 2));
    let settings = VolumeSettings { throughput: Some(BytesPerSecond::mib(200)), ..VolumeSettings::default() };
    let change = crate::VolumeChange { settings: Some(settings), ..crate::VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    assert_eq!(gate.limits().all.bytes, rate(200));
    // Cool access lowers what there is to share out: 4 × 36 MiB/s.
    let cool = PoolSettings { tiering: true, ..manual.clone() };
    let change = PoolChange { settings: Some(cool.clone()), ..PoolChange::default() };
    assert!(matches!(service.update_pool(&context(), &pool("p"), &change), Err(Error::Refused(_))));
    let change = PoolChange { size: Some(Bytes::tib(8)), settings: Some(cool), ..PoolChange::default() };
    service.update_pool(&context(), &pool("p"), &change).unwrap();
    let change = PoolChange { settings: Some(manual), ..PoolChange::default() };
    let error = service.update_pool(&context(), &pool("p"), &change).unwrap_err();
    assert!(error.to_string().contains("cannot be undone"), "{error}");
}

#[test]
fn cool_access_lowers_what_volumes_have() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::AnfPremium, 4)).unwrap();
    service.create_volume(&context(), &new_volume("v", "p", 2048)).unwrap();
    let gate = rig.gate(&service, &volume("v"));
    let settings = PoolSettings { tiering: true, ..PoolSettings::default() };
    let change = PoolChange { settings: Some(settings), ..PoolChange::default() };
    service.update_pool(&context(), &pool("p"), &change).unwrap();
    assert_eq!(gate.limits().all.bytes, rate(72));
    assert_eq!(service.volume(&volume("v")).unwrap().version, 1, "the volume is what it was");
}

#[test]
fn a_pool_with_volumes_stays() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let error = service.delete_pool(&context().forced(), &pool("p")).unwrap_err();
    assert!(matches!(error, Error::InUse { volumes: 1, .. }) && !error.may_be_forced(), "{error}");
    service.delete_volume(&context(), &volume("v")).unwrap();
    assert!(matches!(service.delete_pool(&context().at(9), &pool("p")), Err(Error::Version { .. })));
    service.delete_pool(&context(), &pool("p")).unwrap();
    let error = service.pool(&pool("p")).unwrap_err();
    assert_eq!(error.to_string(), "there is no pool p");
}

#[test]
fn promises_may_exceed_the_disk_with_a_warning() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::AnfPremium, 100)).unwrap();
    assert_eq!(service.warnings().unwrap(), []);
    service.create_pool(&context(), &new_pool("q", Level::AnfPremium, 1)).unwrap();
    let over = Warning::OverDisk { promised: Bytes::tib(101), disk: Bytes(DISK) };
    assert_eq!(service.warnings().unwrap(), [over]);
}

#[test]
fn lists_come_in_pages() {
    let rig = Rig::new();
    let service = rig.open();
    for name in ["b", "d", "a", "c", "e"] {
        service.create_pool(&context(), &new_pool(name, Level::Unlimited, 1)).unwrap();
    }
    let mut names = Vec::new();
    let mut after = None;
    let mut pages = 0;
    loop {
        let page = service.pools(after.as_deref(), 2).unwrap();
        names.extend(page.items.into_iter().map(|pool| pool.name.to_string()));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((names.join(""), pages), ("abcde".to_owned(), 3));
    assert_eq!(service.pools(None, 5).unwrap().next, None, "no empty page follows");
    let newest = service.operations(None, 2).unwrap();
    let before = newest.items.last().unwrap().id;
    assert_eq!(newest.next.unwrap().parse::<crate::OperationId>().unwrap(), before);
    assert_eq!(service.operations(Some(before), 9).unwrap().items.len(), 3);
}
