//! Changes of levels of volumes with snapshots.

use super::rig::{Rig, context, new_pool, new_snapshot, new_volume, snapshot, volume};
use crate::{Daily, NewPolicy, NewVolume, PoolChange, PoolName, Protocols, Schedules, Service, VolumeChange};
use envelope::Level;

/// A service with a volume `v` of no level of its own in a pool `own`, over NFSv3.
fn service(rig: &Rig) -> Service {
    let service = rig.open();
    service.create_pool(&context(), &new_pool("own", Level::Unlimited, 8)).unwrap();
    let new = NewVolume { protocols: Some(Protocols::NFS_V3), ..new_volume("v", "own", 1024) };
    service.create_volume(&context(), &new).unwrap();
    service
}

fn set_level(service: &Service, level: Level) -> Result<(), String> {
    let change = VolumeChange { level: Some(Some(level)), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).map(drop).map_err(|error| error.to_string())
}

fn delete(service: &Service, name: &str) {
    service.delete_snapshot(&context(), &volume("v"), &snapshot(name)).unwrap();
    service.run_waiting_jobs();
}

#[test]
fn level_whose_names_snapshots_lack_is_refused() {
    let rig = Rig::new();
    let service = service(&rig);
    for name in ["fits", "a.b"] {
        service.create_snapshot(&context(), &volume("v"), &new_snapshot(name)).unwrap();
    }
    let said = set_level(&service, Level::GcnvPremium).unwrap_err();
    assert!(said.contains("gcnv/premium: the volume v with the snapshot a.b; allowed: "), "{said}");
    assert!(said.contains("[A-Za-z]") && said.contains("delete the others first"), "{said}");
    assert_eq!(service.volume(&volume("v")).unwrap().level, None);
    set_level(&service, Level::AnfUltra).unwrap();
    delete(&service, "a.b");
    set_level(&service, Level::GcnvPremium).unwrap();
    assert!(service.create_snapshot(&context(), &volume("v"), &new_snapshot("c.d")).is_err());
    rig.check_agreement(&service);
}

#[test]
fn names_of_schedules_fit_every_level() {
    let rig = Rig::new();
    let service = service(&rig);
    let schedules = Schedules { daily: Some(Daily { keep: 2, hour: 0, minute: 0 }), ..Schedules::default() };
    let name: crate::PolicyName = "nightly".parse().unwrap();
    let policy =
        NewPolicy { name: name.clone(), is_enabled: true, zone: crate::Zone::utc(), schedules, vault: None };
    service.create_policy(&context(), &policy).unwrap();
    let change = VolumeChange { policy: Some(Some(name)), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    rig.now_ms.store(86_400_000 * 3, std::sync::atomic::Ordering::SeqCst);
    service.run_policies().unwrap();
    assert_eq!(service.snapshot_count(&volume("v")).unwrap(), 1);
    set_level(&service, Level::GcnvPremium).unwrap();
    rig.check_agreement(&service);
}

#[test]
fn instance_keeps_room_for_the_names_of_its_snapshots() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("f", Level::FilestoreZonal, 1)).unwrap();
    let new = NewVolume {
        protocols: Some(Protocols::NFS_V3),
        share: Some("short".parse().unwrap()),
        ..new_volume("v", "f", 1024)
    };
    service.create_volume(&context(), &new).unwrap();
    let long = "s".repeat(62);
    service.create_snapshot(&context(), &volume("v"), &new_snapshot(&long)).unwrap();
    let share = |text: &str| VolumeChange { share: Some(text.parse().unwrap()), ..VolumeChange::default() };
    let said = service.update_volume(&context(), &volume("v"), &share("a_longer_share_name")).unwrap_err();
    assert!(said.to_string().contains("at most 77 characters together"), "{said}");
    delete(&service, &long);
    service.update_volume(&context(), &volume("v"), &share("a_longer_share")).unwrap();
}

#[test]
fn move_and_pool_change_check_snapshots_too() {
    let rig = Rig::new();
    let service = service(&rig);
    for name in ["fits", "a.b"] {
        service.create_snapshot(&context(), &volume("v"), &new_snapshot(name)).unwrap();
    }
    service.create_pool(&context(), &new_pool("other", Level::Custom, 8)).unwrap();
    let to = |level| VolumeChange {
        pool: Some(PoolName::stored("other".into())),
        level: Some(level),
        ..VolumeChange::default()
    };
    let refused = service.update_volume(&context(), &volume("v"), &to(Some(Level::GcnvPremium)));
    assert!(refused.unwrap_err().to_string().contains("with the snapshot a.b"));
    service.update_volume(&context(), &volume("v"), &to(None)).unwrap();
    let change = PoolChange { level: Some(Level::Unlimited), ..PoolChange::default() };
    service.update_pool(&context(), &PoolName::stored("other".into()), &change).unwrap();
    rig.check_agreement(&service);
}
