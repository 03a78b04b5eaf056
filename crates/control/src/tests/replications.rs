//! Replications between two volumes of a service: states, refusals, schedules.

use super::rig::{Rig, context, furnished, new_snapshot, new_volume, snapshot, volume};
use crate::{
    ChangeContext, Error, MirrorState, NewReplication, Outcome, Replication, ReplicationError,
    ReplicationSchedule, Result, Service, VolumeChange,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, Caller, FsError, Name, NewInode, NodeRef, Provisioner, SetAttrs, VolumeId};
use vfs_testing::UncheckedNode;

const ALLOWED: Blocking = Blocking::Allowed;
const MINUTE: u64 = 60_000;

/// Names in a root, each with its content.
pub(super) type Files = BTreeMap<String, String>;

fn name(name: &str) -> Name<'_> {
    Name::new(name.as_bytes()).unwrap()
}

/// The files of a directory, below all rules.
pub(super) fn files_of(root: &NodeRef) -> Files {
    let mut names = Vec::new();
    root.read_dir(0, false, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    let is_file = |name: &String| !matches!(name.as_str(), "." | ".." | ".plimsoll-streams");
    let read = |file: &String| {
        let node = root.lookup(name(file), ALLOWED).unwrap().node;
        String::from_utf8(node.read_vec(0, 100, ALLOWED).unwrap()).unwrap()
    };
    names.iter().filter(|name| is_file(name)).map(|name| (name.clone(), read(name))).collect()
}

pub(super) fn id_of(service: &Service, name: &str) -> VolumeId {
    service.volume(&volume(name)).unwrap().id
}

/// The live files of a volume in the storage.
pub(super) fn live(rig: &Rig, service: &Service, name: &str) -> Files {
    files_of(&rig.disk.open(id_of(service, name)).unwrap().root())
}

/// The files that clients see; `None` if the volume is not exported, or clients wait.
pub(super) fn seen(rig: &Rig, service: &Service, name: &str) -> Option<Files> {
    let namespace = rig.namespace.load();
    let export =
        namespace.volume(id_of(service, name)).filter(|export| export.volume.check_open().is_ok())?;
    let (root, caller) = (export.root(), Caller::new(0, 0, []));
    let dir = root.open_dir(&caller, ALLOWED).unwrap();
    let mut names = Vec::new();
    root.read_dir(&caller, 0, false, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    let read = |file: &String| {
        let file = dir.lookup(file.as_bytes(), ALLOWED).unwrap().file;
        let (opened, _) = file.open(&caller, vfs::Access::READ, ALLOWED).unwrap();
        let mut data = Vec::new();
        opened.read(0, 100, &mut data, ALLOWED).unwrap();
        String::from_utf8(data).unwrap()
    };
    Some(names.iter().filter(|name| !name.starts_with('.')).map(|name| (name.clone(), read(name))).collect())
}

/// Whether clients may change the files of a volume.
pub(super) fn is_writable(rig: &Rig, service: &Service, name: &str) -> bool {
    let namespace = rig.namespace.load();
    namespace.volume(id_of(service, name)).is_some_and(|export| !export.volume.is_read_only())
}

/// Writes a file whose size differs from that of all others: the clock of the storage stands still.
pub(super) fn put(rig: &Rig, service: &Service, of: &str, file: &str, len: usize) {
    let root = rig.disk.open(id_of(service, of)).unwrap().root();
    let new = NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 };
    let node = match root.lookup(name(file), ALLOWED) {
        Ok(found) => found.node,
        Err(_) => root.create_unchecked(name(file), &new).unwrap().found.node,
    };
    node.set_attrs(&SetAttrs { size: Some(0), ..SetAttrs::default() }).unwrap();
    node.write(0, file.repeat(len).as_bytes(), KEEP_SET_ID).unwrap();
}

pub(super) fn new(schedule: Option<ReplicationSchedule>) -> NewReplication {
    NewReplication { volume: volume("copy"), source: volume("v"), peer: None, schedule }
}

/// A service with the volume `v`, which has a file, and `copy`, which has none.
pub(super) fn two_volumes(rig: &Rig) -> Service {
    let service = furnished(rig);
    service.create_volume(&context(), &new_volume("copy", "p", 1024)).unwrap();
    put(rig, &service, "v", "a", 1);
    service
}

/// A service with a replication whose first transfer has ended.
pub(super) fn replicated(rig: &Rig) -> Service {
    let service = two_volumes(rig);
    service.create_replication(&context(), &new(None)).unwrap();
    service.run_waiting_jobs();
    service
}

pub(super) fn found(service: &Service) -> Replication {
    service.replication(&volume("copy")).unwrap()
}

pub(super) fn state(service: &Service) -> MirrorState {
    service.replication_status(&found(service)).unwrap().state
}

pub(super) fn sync(service: &Service) {
    let begun = service.sync_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    assert_eq!(service.operation(begun.id).unwrap().outcome, Outcome::Succeeded);
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> ReplicationError {
    match result {
        Err(Error::Replication(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Without force, then with it.
fn forced<T: std::fmt::Debug>(change: impl Fn(&ChangeContext) -> Result<T>) -> ReplicationError {
    let error = refusal(change(&context()));
    assert!(Error::from(error.clone()).may_be_forced(), "{error}");
    change(&context().forced()).unwrap();
    error
}

#[test]
fn states_follow_the_table() {
    let rig = Rig::new();
    let service = two_volumes(&rig);
    service.create_replication(&context(), &new(None)).unwrap();
    // The first transfer waits for a thread.
    assert_eq!(state(&service), MirrorState::BaselineTransferring);
    assert_eq!(seen(&rig, &service, "copy"), None);
    service.run_waiting_jobs();
    assert_eq!(state(&service), MirrorState::Mirrored);
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));
    assert!(!is_writable(&rig, &service, "copy"));

    put(&rig, &service, "v", "b", 2);
    let before = seen(&rig, &service, "copy");
    service.sync_replication(&context(), &volume("copy")).unwrap();
    assert_eq!(state(&service), MirrorState::Transferring);
    assert_eq!(seen(&rig, &service, "copy"), before, "the previous point");
    service.run_waiting_jobs();
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));

    service.break_replication(&context(), &volume("copy")).unwrap();
    assert_eq!(state(&service), MirrorState::Stopped);
    assert!(is_writable(&rig, &service, "copy"));
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));
    let refused = refusal(service.sync_replication(&context(), &volume("copy")));
    assert!(matches!(refused, ReplicationError::State { state: MirrorState::Stopped, .. }), "{refused}");

    service.resume_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    assert_eq!(state(&service), MirrorState::Mirrored);
    let refused = refusal(service.delete_replication(&context(), &volume("copy")));
    assert!(matches!(refused, ReplicationError::State { state: MirrorState::Mirrored, .. }), "{refused}");
    service.break_replication(&context(), &volume("copy")).unwrap();
    service.delete_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    assert!(matches!(service.replication(&volume("copy")), Err(Error::NotFound { .. })));
    assert!(is_writable(&rig, &service, "copy"));
    for name in ["v", "copy"] {
        assert_eq!(service.snapshots(&volume(name), None, 10).unwrap().items, []);
    }
    rig.check_agreement(&service);
}

#[test]
fn first_transfer_that_is_stopped_by_force_is_aborted_and_resumes() {
    let rig = Rig::new();
    let service = two_volumes(&rig);
    service.create_replication(&context(), &new(None)).unwrap();
    let error = forced(|context| service.break_replication(context, &volume("copy")));
    assert!(matches!(error, ReplicationError::Transferring { .. }), "{error}");
    assert_eq!(state(&service), MirrorState::Aborted);
    assert_eq!(seen(&rig, &service, "copy"), None);
    service.resume_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    assert_eq!(state(&service), MirrorState::Mirrored);
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));
}

#[test]
fn aborted_replication_that_is_deleted_leaves_an_empty_volume() {
    let rig = Rig::new();
    let service = two_volumes(&rig);
    service.create_replication(&context(), &new(None)).unwrap();
    service.break_replication(&context().forced(), &volume("copy")).unwrap();
    service.delete_replication(&context(), &volume("copy")).unwrap();
    assert_eq!(seen(&rig, &service, "copy"), Some(Files::new()));
    assert!(is_writable(&rig, &service, "copy"));
}

#[test]
fn resume_says_what_is_lost_and_both_sides_are_never_merged() {
    let rig = Rig::new();
    let service = replicated(&rig);
    service.break_replication(&context(), &volume("copy")).unwrap();
    put(&rig, &service, "copy", "own", 3);
    put(&rig, &service, "v", "b", 2);
    let error = forced(|context| service.resume_replication(context, &volume("copy")));
    let ReplicationError::WouldLose { files, bytes, point, .. } = &error else { panic!("{error}") };
    // The new file, and the root.
    assert_eq!((*files, *bytes), (2, 9));
    assert!(point.starts_with("replication."), "{point}");
    service.run_waiting_jobs();
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));
    assert_eq!(live(&rig, &service, "copy"), live(&rig, &service, "v"));
}

/// A service that has moved to another machine has its store and its volumes, but not this directory.
#[test]
fn destination_without_its_directory_transfers_nothing_and_breaks_to_its_last_point() {
    let rig = Rig::new();
    let service = replicated(&rig);
    let point = live(&rig, &service, "copy");
    put(&rig, &service, "v", "b", 2);
    // The live files are no point any more, as in the middle of a transfer.
    put(&rig, &service, "copy", "half", 3);
    drop(service);
    std::fs::remove_dir_all(rig.dir.path().join("replication")).unwrap();
    let service = rig.open();
    for _ in 0..2 {
        let begun = service.sync_replication(&context(), &volume("copy")).unwrap();
        service.run_waiting_jobs();
        let Outcome::Failed(why) = service.operation(begun.id).unwrap().outcome else { panic!("it goes on") };
        assert!(why.contains("create both again"), "{why}");
        assert_eq!(seen(&rig, &service, "copy").as_ref(), Some(&point));
    }
    service.break_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    assert_eq!(state(&service), MirrorState::Stopped);
    assert_eq!((seen(&rig, &service, "copy"), live(&rig, &service, "copy")), (Some(point.clone()), point));
}

#[test]
fn reverse_turns_the_replication_round_and_back() {
    let rig = Rig::new();
    let service = replicated(&rig);
    sync(&service);
    let refused = refusal(service.reverse_replication(&context(), &volume("copy")));
    assert!(matches!(refused, ReplicationError::State { .. }), "{refused}");
    service.break_replication(&context(), &volume("copy")).unwrap();
    put(&rig, &service, "copy", "own", 3);
    put(&rig, &service, "v", "late", 4);
    let error = forced(|context| service.reverse_replication(context, &volume("copy")));
    assert!(matches!(&error, ReplicationError::WouldLose { volume, .. } if volume == "v"), "{error}");
    service.run_waiting_jobs();
    assert!(is_writable(&rig, &service, "copy") && !is_writable(&rig, &service, "v"));
    assert_eq!(seen(&rig, &service, "v"), Some(live(&rig, &service, "copy")));
    assert!(live(&rig, &service, "v").contains_key("own"));

    // Handles of the files that both have are as they were; then back again.
    service.break_replication(&context(), &volume("v")).unwrap();
    put(&rig, &service, "v", "back", 5);
    service.reverse_replication(&context().forced(), &volume("v")).unwrap();
    service.run_waiting_jobs();
    assert_eq!(state(&service), MirrorState::Mirrored);
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));
    assert!(seen(&rig, &service, "copy").unwrap().contains_key("back"));
    rig.check_agreement(&service);
}

#[test]
fn points_and_volumes_of_a_replication_are_pinned_with_a_reason() {
    let rig = Rig::new();
    let service = replicated(&rig);
    for name in ["v", "copy"] {
        for point in service.snapshots(&volume(name), None, 10).unwrap().items {
            let error = refusal(service.delete_snapshot(&context(), &volume(name), &point.name));
            assert!(error.to_string().contains("the replication to copy needs the snapshot"), "{error}");
        }
        let error = refusal(service.delete_volume(&context().forced(), &volume(name)));
        assert!(matches!(error, ReplicationError::Member { .. }), "{error}");
    }
    let error = refusal(service.create_snapshot(&context(), &volume("copy"), &new_snapshot("own")));
    assert!(matches!(error, ReplicationError::Member { .. }), "{error}");
    let point = service.snapshots(&volume("copy"), None, 1).unwrap().items.remove(0).name;
    let error = refusal(service.revert_volume(&context(), &volume("copy"), &point));
    assert!(matches!(error, ReplicationError::Member { .. }), "{error}");
    let paths = ["own".to_owned()];
    let error = refusal(service.restore_files(&context(), &volume("copy"), &point, &paths, None));
    assert!(matches!(error, ReplicationError::Member { .. }), "{error}");
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("own")).unwrap();
    sync(&service);
    let error = refusal(service.revert_volume(&context(), &volume("v"), &snapshot("own")));
    assert!(matches!(error, ReplicationError::Pinned { .. }), "{error}");
    service.delete_snapshot(&context(), &volume("v"), &snapshot("own")).unwrap();
    // A chain would replicate a transfer that has not ended.
    service.create_volume(&context(), &new_volume("third", "p", 1024)).unwrap();
    let chain =
        NewReplication { volume: volume("third"), source: volume("copy"), peer: None, schedule: None };
    let error = refusal(service.create_replication(&context(), &chain));
    assert!(matches!(error, ReplicationError::Member { .. }), "{error}");
}

#[test]
fn destination_with_files_snapshots_or_itself_is_refused() {
    let rig = Rig::new();
    let service = two_volumes(&rig);
    put(&rig, &service, "copy", "own", 1);
    let error = refusal(service.create_replication(&context(), &new(None)));
    assert!(matches!(error, ReplicationError::NotEmpty { .. }), "{error}");
    assert!(is_writable(&rig, &service, "copy"));
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "copy")));
    let itself = NewReplication { volume: volume("v"), source: volume("v"), peer: None, schedule: None };
    assert!(matches!(service.create_replication(&context(), &itself), Err(Error::Invalid { .. })));
    let nothing = NewReplication { source: volume("none"), ..new(None) };
    assert!(matches!(service.create_replication(&context(), &nothing), Err(Error::NotFound { .. })));
    rig.check_agreement(&service);
}

#[test]
fn lost_common_points_are_a_full_copy_that_is_said_beforehand() {
    let rig = Rig::new();
    let service = replicated(&rig);
    // The storage of the source loses all points.
    let source = rig.disk.open(id_of(&service, "v")).unwrap();
    let snapshots = source.snapshots().unwrap();
    for view in snapshots.list().unwrap() {
        snapshots.delete(view, &mut |_| ControlFlow::Continue(())).unwrap();
    }
    drop(source);
    drop(service);
    let service = rig.open();
    put(&rig, &service, "v", "b", 2);
    let begun = service.sync_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    let Outcome::Failed(reason) = service.operation(begun.id).unwrap().outcome else { panic!() };
    assert!(reason.contains("only a full copy is possible"), "{reason}");
    let after = found(&service);
    assert!(!after.is_healthy && after.last_error == reason);
    // Clients still see the last point.
    assert_eq!(seen(&rig, &service, "copy").unwrap().len(), 1);
    service.break_replication(&context(), &volume("copy")).unwrap();
    let error = forced(|context| service.resume_replication(context, &volume("copy")));
    assert!(matches!(error, ReplicationError::FullCopy { .. }), "{error}");
    service.run_waiting_jobs();
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));
    assert!(found(&service).is_healthy);
}

#[test]
fn schedules_run_once_a_due_time_and_a_missed_one_is_not_healthy() {
    let rig = Rig::new();
    let service = two_volumes(&rig);
    rig.now_ms.store(100 * MINUTE + 1, Ordering::SeqCst);
    service.create_replication(&context(), &new(Some(ReplicationSchedule::Every10Minutes))).unwrap();
    service.run_waiting_jobs();
    let transfers = |service: &Service| {
        let all = service.operations(None, 1000).unwrap().items;
        all.iter().filter(|one| one.kind == crate::Kind::Replication).count()
    };
    let at = |minute: u64| {
        rig.now_ms.store(minute * MINUTE + 5, Ordering::SeqCst);
        service.run_replications().unwrap();
    };
    at(105);
    assert_eq!(transfers(&service), 1);
    at(110);
    at(110);
    assert_eq!(transfers(&service), 2);
    assert!(found(&service).is_healthy);
    // It still runs at the next due time.
    at(120);
    assert_eq!(transfers(&service), 2);
    assert!(!found(&service).is_healthy);
    service.run_waiting_jobs();
    assert!(found(&service).is_healthy);
    // After downtime, one.
    at(400);
    service.run_waiting_jobs();
    assert_eq!(transfers(&service), 3);
    let status = service.replication_status(&found(&service)).unwrap();
    assert!(status.lag_ms.is_some_and(|lag| lag < MINUTE), "{status:?}");
    let last = found(&service).last_transfer.unwrap();
    assert!(last.bytes > 0 && found(&service).total_bytes > last.bytes);
    at(405);
    let status = service.replication_status(&found(&service)).unwrap();
    assert!(status.lag_ms.is_some_and(|lag| lag >= 5 * MINUTE), "{status:?}");
    service.update_replication(&context(), &volume("copy"), None).unwrap();
    let before = transfers(&service);
    at(500);
    assert_eq!(transfers(&service), before);
}

#[test]
fn failed_first_transfer_is_repeated() {
    let rig = Rig::new();
    let service = two_volumes(&rig);
    service.create_replication(&context(), &new(None)).unwrap();
    rig.lacks_snapshots.store(true, Ordering::SeqCst);
    service.run_waiting_jobs();
    assert!(!found(&service).last_error.is_empty());
    assert_eq!(state(&service), MirrorState::Preparing);
    rig.lacks_snapshots.store(false, Ordering::SeqCst);
    service.run_replications().unwrap();
    assert_eq!(state(&service), MirrorState::Preparing, "not at once");
    rig.now_ms.fetch_add(2 * MINUTE, Ordering::SeqCst);
    service.run_replications().unwrap();
    service.run_waiting_jobs();
    assert_eq!(state(&service), MirrorState::Mirrored);
}

#[test]
fn full_destination_keeps_its_point_and_says_why() {
    let rig = Rig::new();
    let service = replicated(&rig);
    put(&rig, &service, "v", "b", 90_000);
    let id = id_of(&service, "copy");
    let used = rig.disk.usage(id).unwrap().bytes;
    let room = vfs::Capacity { bytes: used + 8192, files: 1 << 20 };
    rig.disk.set_capacity(id, room).unwrap();
    let begun = service.sync_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    let Outcome::Failed(reason) = service.operation(begun.id).unwrap().outcome else { panic!() };
    assert!(reason.contains(&FsError::NoSpace.to_string()), "{reason}");
    assert_eq!(seen(&rig, &service, "copy").unwrap().len(), 1);
    // Broken off meanwhile, it has the last point and nothing of the transfer.
    service.break_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    assert_eq!(live(&rig, &service, "copy").keys().collect::<Vec<_>>(), ["a"]);
    rig.disk.set_capacity(id, vfs::Capacity { bytes: 1 << 40, ..room }).unwrap();
    service.resume_replication(&context(), &volume("copy")).unwrap();
    service.run_waiting_jobs();
    assert_eq!(seen(&rig, &service, "copy").unwrap().len(), 2);
}

#[test]
fn same_request_again_changes_nothing_and_another_conflicts() {
    let rig = Rig::new();
    let service = replicated(&rig);
    let again = service.create_replication(&context(), &new(None)).unwrap();
    assert!(!again.operation.has_changed());
    let other = new(Some(ReplicationSchedule::Daily));
    assert!(matches!(service.create_replication(&context(), &other), Err(Error::Conflict { .. })));
    let policy = VolumeChange { policy: Some(Some("p1".parse().unwrap())), ..VolumeChange::default() };
    assert!(service.update_volume(&context(), &volume("copy"), &policy).is_err());
    let page = service.replications(None, 10).unwrap();
    assert_eq!(page.items.len(), 1);
}
