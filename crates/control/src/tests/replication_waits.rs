//! Clients of a volume wait, and stay mounted, while its replication has the storage closed.

use super::replications::{id_of, is_writable, live, new, put, replicated, seen, sync};
use super::rig::{Rig, context, new_snapshot, snapshot, volume};
use crate::{MirrorState, Outcome, Service};
use std::sync::atomic::Ordering;
use std::thread;
use vfs::{Capacity, FsError, Provisioner, Wait};

/// Whether clients of the destination have to wait. They never miss the volume.
fn waits(rig: &Rig, service: &Service) -> bool {
    let namespace = rig.namespace.load();
    let export = namespace.volume(id_of(service, "copy")).expect("the volume stays exported");
    export.volume.check_open() == Err(FsError::Wait(Wait::Recall))
}

fn until_waits(rig: &Rig, service: &Service) {
    while !waits(rig, service) {
        thread::yield_now();
    }
}

/// A replication that is broken, with changes on both sides.
fn broken(rig: &Rig) -> Service {
    let service = replicated(rig);
    rig.deletion_steps.store(1, Ordering::SeqCst);
    put(rig, &service, "v", "b", 2);
    sync(&service);
    service.break_replication(&context(), &volume("copy")).unwrap();
    put(rig, &service, "copy", "own", 3);
    put(rig, &service, "v", "late", 4);
    service
}

#[test]
fn clients_wait_while_a_resumed_destination_goes_back() {
    let rig = Rig::new();
    let service = broken(&rig);
    service.resume_replication(&context().forced(), &volume("copy")).unwrap();
    // At once they see the last common point; the files go back with the transfer.
    assert!(!is_writable(&rig, &service, "copy"));
    assert!(!seen(&rig, &service, "copy").unwrap().contains_key("own"));
    assert!(live(&rig, &service, "copy").contains_key("own"));
    let held = rig.snapshots.lock();
    thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        until_waits(&rig, &service);
        drop(held);
    });
    assert!(!waits(&rig, &service));
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));
    assert_eq!(live(&rig, &service, "copy"), live(&rig, &service, "v"));
}

#[test]
fn clients_wait_while_a_break_drops_half_a_transfer() {
    let rig = Rig::new();
    let service = replicated(&rig);
    rig.deletion_steps.store(1, Ordering::SeqCst);
    put(&rig, &service, "v", "b", 90_000);
    let id = id_of(&service, "copy");
    let used = rig.disk.usage(id).unwrap().bytes;
    rig.disk.set_capacity(id, Capacity { bytes: used + 8192, files: 1 << 20 }).unwrap();
    let begun = service.sync_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    assert!(matches!(service.operation(begun.id).unwrap().outcome, Outcome::Failed(_)));
    let before = seen(&rig, &service, "copy");
    let held = rig.snapshots.lock();
    thread::scope(|scope| {
        let begun = service.break_replication(&context(), &volume("copy")).unwrap().operation;
        assert_eq!(begun.outcome, Outcome::Running);
        assert!(waits(&rig, &service));
        scope.spawn(|| service.run_waiting_jobs());
        while service.operation(begun.id).unwrap().progress.is_none() {
            thread::yield_now();
        }
        // Asked again, it is the same job; nothing else begins meanwhile.
        let again = service.break_replication(&context().forced(), &volume("copy")).unwrap().operation;
        assert_eq!(again.id, begun.id);
        assert!(service.sync_replication(&context(), &volume("copy")).is_err());
        assert!(service.resume_replication(&context().forced(), &volume("copy")).is_err());
        assert!(service.create_snapshot(&context(), &volume("copy"), &new_snapshot("s")).is_err());
        assert!(waits(&rig, &service));
        drop(held);
    });
    let found = service.replication(&volume("copy")).unwrap();
    assert_eq!(service.replication_status(&found).unwrap().state, MirrorState::Stopped);
    rig.check_agreement(&service);
    assert!(is_writable(&rig, &service, "copy"));
    assert_eq!(seen(&rig, &service, "copy"), before);
}

#[test]
fn reversed_source_stays_exported_and_its_clients_see_the_common_point() {
    let rig = Rig::new();
    let service = broken(&rig);
    service.reverse_replication(&context().forced(), &volume("copy")).unwrap();
    assert!(!is_writable(&rig, &service, "v") && is_writable(&rig, &service, "copy"));
    let names: Vec<String> = seen(&rig, &service, "v").unwrap().into_keys().collect();
    assert_eq!(names, ["a", "b"]);
    service.run_waiting_jobs();
    assert_eq!(seen(&rig, &service, "v"), Some(live(&rig, &service, "copy")));
}

#[test]
fn destination_without_files_has_no_placeholder() {
    let rig = Rig::new();
    let service = super::replications::two_volumes(&rig);
    service.create_replication(&context(), &new(None)).unwrap();
    let id = id_of(&service, "copy");
    assert!(rig.namespace.load().volume(id).is_none());
    service.break_replication(&context().forced(), &volume("copy")).unwrap();
    service.resume_replication(&context(), &volume("copy")).unwrap();
    assert!(rig.namespace.load().volume(id).is_none());
    service.run_waiting_jobs();
    let found = service.replication(&volume("copy")).unwrap();
    assert_eq!(service.replication_status(&found).unwrap().state, MirrorState::Mirrored);
    assert!(!waits(&rig, &service));
}

#[test]
fn deletion_of_a_snapshot_waits_for_the_storage_and_is_done() {
    let rig = Rig::new();
    let service = broken(&rig);
    service.create_snapshot(&context(), &volume("copy"), &new_snapshot("own")).unwrap();
    let view = service.snapshot(&volume("copy"), &snapshot("own")).unwrap().view;
    service.resume_replication(&context().forced(), &volume("copy")).unwrap();
    let deletion = service.delete_snapshot(&context(), &volume("copy"), &snapshot("own")).unwrap();
    let held = rig.snapshots.lock();
    thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        until_waits(&rig, &service);
        scope.spawn(|| service.run_waiting_jobs());
        while service.operation(deletion.id).unwrap().progress.is_none() {
            thread::yield_now();
        }
        assert_eq!(service.operation(deletion.id).unwrap().outcome, Outcome::Running);
        drop(held);
    });
    assert_eq!(service.operation(deletion.id).unwrap().outcome, Outcome::Succeeded);
    let storage = rig.disk.open(id_of(&service, "copy")).unwrap();
    assert!(!storage.snapshots().unwrap().list().unwrap().contains(&view));
    drop(storage);
    rig.check_agreement(&service);
}

#[test]
fn deletion_that_runs_makes_way_and_goes_on() {
    let rig = Rig::new();
    let service = broken(&rig);
    service.create_snapshot(&context(), &volume("copy"), &new_snapshot("own")).unwrap();
    rig.deletion_steps.store(1 << 40, Ordering::SeqCst);
    let deletion = service.delete_snapshot(&context(), &volume("copy"), &snapshot("own")).unwrap();
    let done = || service.operation(deletion.id).unwrap().progress.map_or(0, |progress| progress.done);
    thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        while done() == 0 {
            thread::yield_now();
        }
        // Only the deletion that runs has so many steps.
        rig.deletion_steps.store(1, Ordering::SeqCst);
        service.resume_replication(&context().forced(), &volume("copy")).unwrap();
        service.run_waiting_jobs();
    });
    assert_eq!(service.operation(deletion.id).unwrap().outcome, Outcome::Succeeded);
    assert_eq!(live(&rig, &service, "copy"), live(&rig, &service, "v"));
    rig.check_agreement(&service);
}
