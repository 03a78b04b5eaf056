//! The reserve for snapshots, and the space of volumes.

use super::rig::{Rig, context, furnished, new_pool, new_snapshot, new_volume, volume};
use crate::{Error, NewClone, NewVolume, Result, Service, VolumeChange, Warning};
use envelope::{Bytes, Level};
use std::sync::atomic::Ordering;
use vfs::Provisioner;

const GIB: u64 = 1 << 30;

fn reserve(service: &Service, percent: u8) -> Result<crate::Volume> {
    let change = VolumeChange { snap_reserve: Some(percent), ..VolumeChange::default() };
    Ok(service.update_volume(&context(), &volume("v"), &change)?.value)
}

fn available(service: &Service) -> u64 {
    service.space(&volume("v")).unwrap().available_bytes
}

#[test]
fn reserve_takes_effect_at_once_and_after_restarts() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let id = service.volume(&volume("v")).unwrap().id;
    let used = |service: &Service| service.space(&volume("v")).unwrap().used.bytes;
    assert_eq!(available(&service), 1024 * GIB - used(&service));
    assert_eq!(reserve(&service, 25).unwrap().snap_reserve, 25);
    assert_eq!(available(&service), 768 * GIB - used(&service));
    rig.fill(id, 8192);
    let space = service.space(&volume("v")).unwrap();
    assert_eq!((space.reserve_bytes, space.snapshot_bytes), (256 * GIB, Some(0)));
    assert_eq!(space.live_bytes(), Some(space.used.bytes));
    assert_eq!(space.available_bytes, 768 * GIB - space.used.bytes);
    // It follows the size, in whole blocks.
    let size = Bytes::gib(2048);
    let change = VolumeChange { size: Some(size), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    assert_eq!(available(&service), 1536 * GIB - used(&service));
    rig.check_agreement(&service);
    drop(service);
    let service = rig.open();
    assert_eq!(available(&service), 1536 * GIB - used(&service));
    assert_eq!(reserve(&service, 7).unwrap().snap_reserve, 7);
    assert_eq!(service.space(&volume("v")).unwrap().reserve_bytes, (2048 * GIB * 7 / 100) & !4095);
    assert_eq!(reserve(&service, 0).unwrap().snap_reserve, 0);
    assert_eq!(available(&service), 2048 * GIB - used(&service));
    rig.check_agreement(&service);
}

#[test]
fn reserve_is_as_the_provider_has_it() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let said = reserve(&service, 91).unwrap_err().to_string();
    assert!(said.contains("a reserve of 91 % for snapshots; allowed: 0 to 90 %"), "{said}");
    assert_eq!(reserve(&service, 90).unwrap().snap_reserve, 90);
    for (level, tib) in [(Level::AnfUltra, 4), (Level::FilestoreZonal, 1)] {
        let name = if level == Level::AnfUltra { "a" } else { "f" };
        service.create_pool(&context(), &new_pool(name, level, tib)).unwrap();
        let of = |percent| NewVolume { snap_reserve: Some(percent), ..new_volume(name, name, 1024) };
        let said = service.create_volume(&context(), &of(1)).unwrap_err().to_string();
        assert!(said.contains("allowed: 0 %: snapshots use the space of the volume"), "{said}");
        service.create_volume(&context(), &of(0)).unwrap();
    }
    // A volume of an own level keeps it only at levels that have it.
    service.create_pool(&context(), &new_pool("own", Level::Unlimited, 8)).unwrap();
    let protocols = Some(crate::Protocols::NFS_V3);
    let of = |level| NewVolume { snap_reserve: Some(10), level, protocols, ..new_volume("o", "own", 1024) };
    assert!(service.create_volume(&context(), &of(Some(Level::AnfUltra))).is_err());
    service.create_volume(&context(), &of(None)).unwrap();
    let change = VolumeChange { level: Some(Some(Level::AnfUltra)), ..VolumeChange::default() };
    let said = service.update_volume(&context(), &volume("o"), &change).unwrap_err().to_string();
    assert!(said.contains("allowed: 0 %"), "{said}");
    let both = VolumeChange { snap_reserve: Some(0), ..change };
    service.update_volume(&context(), &volume("o"), &both).unwrap();
    rig.check_agreement(&service);
}

#[test]
fn reserve_below_the_files_is_refused_unless_forced() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service.create_pool(&context(), &new_pool("own", Level::Unlimited, 8)).unwrap();
    let new = NewVolume::new(volume("s"), super::rig::pool("own"), Bytes(1 << 20));
    let id = service.create_volume(&context(), &new).unwrap().value.id;
    rig.fill(id, 700 << 10);
    let change = |percent, size: Option<u64>| VolumeChange {
        snap_reserve: percent,
        size: size.map(Bytes),
        ..VolumeChange::default()
    };
    let update = |force, change: &VolumeChange| {
        let context = crate::ChangeContext { force, ..context() };
        service.update_volume(&context, &volume("s"), change)
    };
    assert!(matches!(update(false, &change(Some(40), None)), Err(Error::BelowUse { .. })));
    assert_eq!(service.volume(&volume("s")).unwrap().snap_reserve, 0);
    update(false, &change(Some(20), None)).unwrap();
    // A smaller volume leaves less to files, too.
    assert!(matches!(update(false, &change(None, Some(800 << 10))), Err(Error::BelowUse { .. })));
    let is_full = || service.warnings().unwrap().iter().any(|one| matches!(one, Warning::VolumeFull { .. }));
    assert!(!is_full());
    update(true, &change(Some(40), None)).unwrap();
    assert!(is_full(), "files and the reserve are more than the volume");
    assert_eq!(service.space(&volume("s")).unwrap().available_bytes, 0);
    update(false, &change(Some(10), None)).unwrap();
    assert!(!is_full());
    // Half of a small part for files is not full.
    let new = NewVolume { name: volume("t"), snap_reserve: Some(90), ..new };
    let id = service.create_volume(&context(), &new).unwrap().value.id;
    rig.fill(id, 50 << 10);
    assert!(!is_full());
    let root = rig.disk.open(id).unwrap().root();
    let data = root.lookup(vfs::Name::new(b"data").unwrap(), vfs::Blocking::Allowed).unwrap().node;
    data.write(0, &[7; 98 << 10], vfs::backend::KEEP_SET_ID).unwrap();
    assert!(is_full());
    rig.check_agreement(&service);
}

#[test]
fn clone_has_the_reserve_where_its_level_has_one() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let change = VolumeChange { protocols: Some(crate::Protocols::NFS_V3), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    reserve(&service, 15).unwrap();
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s1")).unwrap();
    service.create_pool(&context(), &new_pool("a", Level::AnfUltra, 4)).unwrap();
    for (name, pool, percent) in [("c1", "p", 15), ("c2", "a", 0)] {
        let new = NewClone {
            pool: Some(super::rig::pool(pool)),
            ..NewClone::new(volume("v"), super::rig::snapshot("s1"), volume(name))
        };
        service.clone_volume(&context(), &new).unwrap();
        service.run_waiting_jobs();
        assert_eq!(service.volume(&volume(name)).unwrap().snap_reserve, percent);
    }
    let clone = service.space(&volume("c1")).unwrap();
    assert_eq!(clone.available_bytes, 1024 * GIB - clone.reserve_bytes - clone.used.bytes);
    rig.check_agreement(&service);
}

#[test]
fn reserve_survives_a_revert() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s1")).unwrap();
    reserve(&service, 15).unwrap();
    rig.now_ms.fetch_add(1_000, Ordering::SeqCst);
    service.revert_volume(&context(), &volume("v"), &super::rig::snapshot("s1")).unwrap();
    service.run_waiting_jobs();
    let space = service.space(&volume("v")).unwrap();
    assert_eq!(space.available_bytes, 1024 * GIB - space.reserve_bytes - space.used.bytes);
    rig.check_agreement(&service);
}
