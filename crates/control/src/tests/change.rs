//! Changes of volumes: live, in bounds, and none by accident.

use super::rig::{Rig, context, furnished, new_pool, new_volume, pool, volume};
use crate::{Error, VolumeChange};
use envelope::{Bytes, Level, Shape, Shaping, VolumeSettings};
use std::num::NonZeroU64;
use std::sync::Arc;
use vfs::{Blocking, Provisioner, Root, SetAttrs};

fn sized(gib: u64) -> VolumeChange {
    VolumeChange { size: Some(Bytes::gib(gib)), ..VolumeChange::default() }
}

#[test]
fn a_size_changes_what_it_holds_and_what_it_may_do() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let (gate, namespace) = (rig.gate(&service, &volume("v")), rig.namespace.load_full());
    assert_eq!(gate.limits().all.bytes, NonZeroU64::new(64 << 20));
    let changed = service.update_volume(&context().at(1), &volume("v"), &sized(2048)).unwrap();
    assert_eq!(changed.operation.detail, "size 1 TiB → 2 TiB");
    assert_eq!((changed.value.version, changed.value.size), (2, Bytes::tib(2)));
    assert_eq!(gate.limits().all.bytes, NonZeroU64::new(128 << 20), "the gate that clients pass already");
    assert!(Arc::ptr_eq(&namespace, &rig.namespace.load_full()), "nothing that mounts look at changed");
    rig.check_agreement(&service);
    assert!(matches!(
        service.update_volume(&context().at(1), &volume("v"), &sized(200)),
        Err(Error::Version { wanted: 1, found: 2, .. })
    ));
    assert!(matches!(service.update_volume(&context(), &volume("v"), &sized(4097)), Err(Error::Refused(_))));
    assert!(matches!(service.update_volume(&context(), &volume("v"), &sized(50)), Err(Error::Refused(_))));
    let forced = service.update_volume(&context().forced(), &volume("v"), &sized(50));
    assert!(matches!(forced, Err(Error::Refused(_))), "a level's bounds are not an operator's to move");
    rig.check_agreement(&service);
}

#[test]
fn no_smaller_than_what_it_holds_but_by_force() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::Unlimited, 1)).unwrap();
    let made = service.create_volume(&context(), &new_volume("v", "p", 1)).unwrap().value;
    rig.fill(made.id, 3 << 20);
    let small = VolumeChange { size: Some(Bytes(2 << 20)), ..VolumeChange::default() };
    let error = service.update_volume(&context(), &volume("v"), &small).unwrap_err();
    assert!(matches!(error, Error::BelowUse { .. }) && error.may_be_forced(), "{error}");
    assert!(error.to_string().contains("contains 3073 KiB, more than 2 MiB"), "{error}");
    rig.check_agreement(&service);
    service.update_volume(&context().forced(), &volume("v"), &small).unwrap();
    assert_eq!(service.usage(&volume("v")).unwrap().bytes, (3 << 20) + 1024, "nothing is lost");
    assert_eq!(rig.disk.open(made.id).unwrap().stat().unwrap().bytes_free, 0, "and it is full");
    rig.check_agreement(&service);
}

#[test]
fn moving_to_another_pool_moves_the_gate() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service.create_pool(&context(), &new_pool("fast", Level::GcnvExtreme, 2)).unwrap();
    service.create_pool(&context(), &new_pool("slow", Level::GcnvStandard, 2)).unwrap();
    service.create_pool(&context(), &new_pool("anf", Level::AnfUltra, 2)).unwrap();
    let gate = rig.gate(&service, &volume("v"));
    let to = |name: &str| VolumeChange { pool: Some(pool(name)), ..VolumeChange::default() };
    let moved = service.update_volume(&context(), &volume("v"), &to("fast")).unwrap();
    assert_eq!((moved.value.pool, moved.operation.detail.as_str()), (pool("fast"), "pool p → fast"));
    assert_eq!(gate.limits().all.bytes, NonZeroU64::new(128 << 20));
    assert!(Arc::ptr_eq(&gate, &rig.gate(&service, &volume("v"))));
    rig.check_agreement(&service);
    for (name, part) in [
        ("slow", "between gcnv/premium and gcnv/extreme"),
        ("anf", "a pool of the same provider"),
        ("none", "there is no pool none"),
    ] {
        let error = service.update_volume(&context(), &volume("v"), &to(name)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    service.delete_pool(&context(), &pool("p")).unwrap();
    service.create_volume(&context(), &new_volume("w", "fast", 1000)).unwrap();
    service.update_volume(&context(), &volume("v"), &sized(1024)).unwrap();
    let error = service.update_volume(&context(), &volume("v"), &sized(1100)).unwrap_err();
    assert!(matches!(error, Error::PoolFull { .. }), "{error}");
}

#[test]
fn a_volume_that_moves_waits_in_its_new_pools_line() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("free", Level::Custom, 4)).unwrap();
    let mut narrow = new_pool("narrow", Level::Custom, 4);
    narrow.settings.declared.total.combined = Some(envelope::BytesPerSecond::mib(10));
    service.create_pool(&context(), &narrow).unwrap();
    service.create_volume(&context(), &new_volume("v", "free", 100)).unwrap();
    let gate = rig.gate(&service, &volume("v"));
    for (name, is_limited) in [("narrow", true), ("free", false)] {
        let change = VolumeChange { pool: Some(pool(name)), ..VolumeChange::default() };
        service.update_volume(&context(), &volume("v"), &change).unwrap();
        assert_eq!(gate.is_limited(), is_limited, "{name}");
    }
}

#[test]
fn a_large_volume_grows_from_the_least_it_was() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::AnfUltra, 200)).unwrap();
    let mut new = new_volume("v", "p", 60 << 10);
    new.settings.large = true;
    service.create_volume(&context(), &new).unwrap();
    service.update_volume(&context(), &volume("v"), &sized(50 << 10)).unwrap();
    let error = service.update_volume(&context(), &volume("v"), &sized(66 << 10)).unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error}");
    service.update_volume(&context(), &volume("v"), &sized(65 << 10)).unwrap();
}

#[test]
fn a_pool_that_owns_the_limit_shares_it() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("flex", Level::GcnvFlex, 4)).unwrap();
    service.create_volume(&context(), &new_volume("v", "flex", 100)).unwrap();
    assert!(rig.gate(&service, &volume("v")).limits().is_none(), "the volume has none of its own");
    assert!(rig.gate(&service, &volume("v")).is_limited(), "but its pool has");
}

#[test]
fn an_instance_is_pool_and_volume_in_one() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::FilestoreZonal, 2)).unwrap();
    let made = service.create_volume(&context(), &new_volume("v", "p", 2048)).unwrap().value;
    assert_eq!(made.rules.len(), 1, "Filestore lets everybody mount");
    let error = service.create_volume(&context(), &new_volume("w", "p", 2048)).unwrap_err();
    assert!(matches!(error, Error::PoolFull { .. }), "{error}");
    let size = crate::PoolChange { size: Some(Bytes::tib(3)), ..crate::PoolChange::default() };
    assert!(matches!(service.update_pool(&context(), &pool("p"), &size), Err(Error::Refused(_))));
    service.update_volume(&context(), &volume("v"), &sized(3072)).unwrap();
    let found = service.pool(&pool("p")).unwrap();
    assert_eq!((found.size, found.version), (Bytes::tib(3), 2));
    let limits = rig.gate(&service, &volume("v")).limits().all;
    assert_eq!(limits.read_bytes, NonZeroU64::new((3 * 260) << 20));
    rig.check_agreement(&service);
}

#[test]
fn the_root_is_given_once_and_then_the_clients() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let id = service.volume(&volume("v")).unwrap().id;
    let chmod = SetAttrs { mode: Some(0o2775), uid: Some(1000), ..SetAttrs::default() };
    rig.disk.open(id).unwrap().root().set_attrs(&chmod).unwrap();
    let mode = || rig.disk.open(id).unwrap().root().attrs(Blocking::Allowed).unwrap().mode;
    service.update_volume(&context(), &volume("v"), &sized(2048)).unwrap();
    drop(service);
    let service = rig.open();
    assert_eq!(mode(), 0o2775, "neither another change nor a start takes it back");
    let root = Some(Root { mode: 0o755, uid: 0, gid: 0 });
    let change = VolumeChange { root, ..VolumeChange::default() };
    let done = service.update_volume(&context(), &volume("v"), &change).unwrap();
    assert_eq!((mode(), done.operation.detail.as_str()), (0o755, "root 755 0:0"));
    rig.check_agreement(&service);
}

#[test]
fn a_shape_limits_by_the_mix() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let shape = Shape::all().next().unwrap();
    let settings = VolumeSettings { shape: Some(Shaping::new(shape)), ..VolumeSettings::default() };
    let change = VolumeChange { settings: Some(settings), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    let mix = rig.gate(&service, &volume("v")).limits().mix.unwrap();
    assert_eq!(u64::from(mix.op_bytes_min), shape.block().0);
    drop(service);
    let service = rig.open();
    assert_eq!(rig.gate(&service, &volume("v")).limits().mix.unwrap(), mix, "after a restart");
    let settings = VolumeSettings { large: true, ..VolumeSettings::default() };
    let change = VolumeChange { settings: Some(settings), ..VolumeChange::default() };
    let error = service.update_volume(&context(), &volume("v"), &change).unwrap_err().to_string();
    assert!(error.contains("what it was made as"), "{error}");
}
