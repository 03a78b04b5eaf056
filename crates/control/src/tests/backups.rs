//! Vaults, backups and restores, over volumes in memory and a vault in a directory.

use super::rig::{Rig, context, furnished, new_snapshot, new_volume, properties, snapshot, volume};
use crate::{
    BackupFileRestore, BackupName, BackupState, Error, NewBackup, NewVault, Outcome, Result, Service,
    SnapshotKind, VaultChange, VaultName, VaultPlace,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{Backend, Blocking, FileType, Name, NodeRef, Provisioner};
use vfs_testing::UncheckedNode;

const DAY_MS: u64 = 86_400_000;

pub(super) fn vault_name() -> VaultName {
    VaultName::stored("off".to_owned())
}

pub(super) fn backup_name(name: &str) -> BackupName {
    BackupName::stored(name.to_owned())
}

pub(super) fn new_vault(path: &Path) -> NewVault {
    NewVault {
        name: vault_name(),
        place: VaultPlace::Directory { path: path.to_owned() },
        key_file: None,
        lock_days: 0,
        bytes_per_s: None,
        takes_over: false,
    }
}

pub(super) fn new_backup(name: &str) -> NewBackup {
    NewBackup { volume: volume("v"), name: Some(backup_name(name)), snapshot: None, locked_until_ms: None }
}

/// A service with a pool, a volume `v`, and a vault `off` in a directory of its own.
fn with_vault(rig: &Rig) -> (Service, tempfile::TempDir) {
    let (service, place) = (furnished(rig), tempfile::tempdir().unwrap());
    service.create_vault(&context(), &new_vault(place.path())).unwrap();
    (service, place)
}

pub(super) fn write(dir: &NodeRef, name: &str, content: &[u8]) {
    let new = vfs::NewInode { mode: 0o640, uid: 7, gid: 8, times: None, size: 0 };
    let name = Name::new(name.as_bytes()).unwrap();
    let node = match dir.lookup(name, Blocking::Allowed) {
        Ok(found) => found.node,
        Err(_) => dir.create_unchecked(name, &new).unwrap().found.node,
    };
    node.write(0, content, vfs::backend::KEEP_SET_ID).unwrap();
}

pub(super) fn make_dir(dir: &NodeRef, name: &str) -> NodeRef {
    let new = vfs::NewInode { mode: 0o750, uid: 7, gid: 8, times: None, size: 0 };
    dir.make_dir(Name::new(name.as_bytes()).unwrap(), &|_| Ok(new)).unwrap().found.node
}

/// The files below a directory, by path, with their content.
pub(super) fn tree(backend: &dyn Backend) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &NodeRef, at: &str, into: &mut BTreeMap<String, Vec<u8>>) {
        let mut names = Vec::new();
        dir.read_dir(0, false, &mut |entry| {
            names.push(entry.name.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        for name in names.into_iter().filter(|name| !matches!(name.as_slice(), b"." | b"..")) {
            let found = dir.lookup(Name::new(&name).unwrap(), Blocking::Allowed).unwrap();
            let path = format!("{at}/{}", String::from_utf8_lossy(&name));
            if found.attrs.file_type == FileType::Directory {
                walk(&found.node, &path, into);
                into.insert(path + "/", Vec::new());
            } else {
                let (mut content, size) = (Vec::new(), usize::try_from(found.attrs.size).unwrap());
                found.node.read(0, size, &mut content, Blocking::Allowed).unwrap();
                into.insert(path, content);
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(&backend.root(), "", &mut all);
    all
}

fn backend(rig: &Rig, service: &Service, name: &str) -> Arc<dyn Backend> {
    rig.disk.open(service.volume(&volume(name)).unwrap().id).unwrap()
}

fn fill(rig: &Rig, service: &Service) {
    let root = backend(rig, service, "v").root();
    write(&root, "plan.txt", b"the first plan");
    let dir = make_dir(&root, "projects");
    write(&dir, "a.bin", &vec![5; 300_000]);
    write(&make_dir(&dir, "deep"), "b", b"deep");
}

fn done(service: &Service, begun: &crate::Operation) -> Outcome {
    service.run_waiting_jobs();
    service.operation(begun.id).unwrap().outcome
}

fn back_up(service: &Service, name: &str) -> crate::Backup {
    let begun = service.create_backup(&context(), &vault_name(), &new_backup(name)).unwrap();
    assert_eq!(done(service, &begun.operation), Outcome::Succeeded);
    service.run_waiting_jobs();
    service.backup(&vault_name(), &backup_name(name)).unwrap()
}

fn reason(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed(reason) => reason,
        other => panic!("{other:?}"),
    }
}

fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

/// The volume `v` has the snapshot of its last backup, with which the next one is compared, and no other one.
pub(super) fn check_own_snapshots(service: &Service, when: &str) {
    let backups = service.backups(&vault_name(), None, 100).unwrap().items;
    let ready = backups.into_iter().filter(|one| one.state == BackupState::Ready);
    let last = ready.max_by_key(|one| (one.taken_ms, one.created_ms)).and_then(|one| one.made_from);
    let snapshots = service.snapshots(&volume("v"), None, 10).unwrap().items;
    let own: Vec<_> = snapshots.iter().map(|one| (one.kind, Some(one.view))).collect();
    assert_eq!(own, last.map(|_| (SnapshotKind::Backup, last)).into_iter().collect::<Vec<_>>(), "{when}");
}

#[test]
fn backup_is_compared_with_the_snapshot_of_the_last_one() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    fill(&rig, &service);
    let mut last = None;
    for name in ["b1", "b2", "b3", "b4", "b5"] {
        if name == "b4" {
            // The storage does not know it then.
            let own = service.snapshots(&volume("v"), None, 10).unwrap().items.remove(0);
            let deleted = service.delete_snapshot(&context(), &volume("v"), &own.name).unwrap();
            assert_eq!(done(&service, &deleted), Outcome::Succeeded);
        }
        write(&backend(&rig, &service, "v").root(), "plan.txt", format!("the plan of {name}").as_bytes());
        let now = back_up(&service, name).made_from.unwrap();
        check_own_snapshots(&service, name);
        let compared = std::mem::take(&mut *rig.compared.lock());
        assert_eq!(compared, last.map(|last| [last, now]).into_iter().collect::<Vec<_>>(), "{name}");
        last = Some(now);
    }
    service.delete_vault(&context().forced(), &vault_name()).unwrap();
    service.run_waiting_jobs();
    assert!(service.snapshots(&volume("v"), None, 10).unwrap().items.is_empty());
}

#[test]
fn volume_is_restored_from_a_backup_and_goes_with_the_snapshot_of_it() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    fill(&rig, &service);
    let before = tree(&*backend(&rig, &service, "v"));
    let made = back_up(&service, "b1");
    assert_eq!((made.state, made.kind), (BackupState::Ready, SnapshotKind::Manual));
    assert_eq!(made.totals.bytes, 14 + 300_000 + 4);
    check_own_snapshots(&service, "after a backup");
    service.delete_volume(&context(), &volume("v")).unwrap();
    let begun =
        service.restore_volume(&context(), &vault_name(), &made.name, &new_volume("w", "p", 1024)).unwrap();
    assert!(service.served(&volume("w")).is_none(), "it is served before it is whole");
    let changing = service.delete_volume(&context(), &volume("w"));
    assert!(matches!(changing, Err(Error::Changing { .. })), "{changing:?}");
    assert_eq!(done(&service, &begun.operation), Outcome::Succeeded);
    assert_eq!(tree(&*backend(&rig, &service, "w")), before);
    rig.check_agreement(&service);
    // The backup of the volume that is gone stays.
    assert_eq!(service.backups(&vault_name(), None, 10).unwrap().items.len(), 1);
}

#[test]
fn second_backup_is_complete_alone_and_adds_little() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    fill(&rig, &service);
    let first = back_up(&service, "b1");
    write(&backend(&rig, &service, "v").root(), "plan.txt", b"the other plan");
    let second = back_up(&service, "b2");
    assert!(second.totals.sent_bytes < first.totals.sent_bytes + 4_096, "{second:?}");
    let deleted = service.delete_backup(&context(), &vault_name(), &first.name).unwrap();
    assert_eq!(done(&service, &deleted), Outcome::Succeeded);
    let before = tree(&*backend(&rig, &service, "v"));
    let begun =
        service.restore_volume(&context(), &vault_name(), &second.name, &new_volume("w", "p", 1024)).unwrap();
    assert_eq!(done(&service, &begun.operation), Outcome::Succeeded);
    assert_eq!(tree(&*backend(&rig, &service, "w")), before);
    rig.check_agreement(&service);
}

fn files(paths: &[&str], directory: &str) -> BackupFileRestore {
    let paths = paths.iter().map(|&path| path.to_owned()).collect();
    BackupFileRestore { volume: "v".to_owned(), paths, directory: directory.to_owned() }
}

#[test]
fn files_are_restored_to_a_directory_and_replace_nothing() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    fill(&rig, &service);
    let made = back_up(&service, "b1");
    let root = backend(&rig, &service, "v").root();
    write(&root, "plan.txt", b"overwritten!!!");
    make_dir(&root, "back");
    let restore = |request: &BackupFileRestore| {
        let begun = service.restore_backup_files(&context(), &vault_name(), &made.name, request)?;
        Ok::<_, Error>(done(&service, &begun))
    };
    assert_eq!(restore(&files(&["/plan.txt", "projects/deep"], "/back")).unwrap(), Outcome::Succeeded);
    let now = tree(&*backend(&rig, &service, "v"));
    assert_eq!(now["/back/plan.txt"], b"the first plan");
    assert_eq!(now["/back/projects/deep/b"], b"deep");
    assert_eq!(now["/plan.txt"], b"overwritten!!!");
    let said = reason(restore(&files(&["plan.txt"], "")).unwrap());
    assert!(said.contains("plan.txt") && said.contains("exists"), "{said}");
    let said = reason(restore(&files(&["plan.txt"], "/nowhere")).unwrap());
    assert!(said.contains("nowhere"), "{said}");
    let said = reason(restore(&files(&["no.txt"], "/back")).unwrap());
    assert!(said.contains("the backup has no file \"no.txt\""), "{said}");
    let eleven: Vec<&str> = vec!["a"; 11];
    assert!(text(restore(&files(&eleven, "/"))).contains("allowed: 1 to 10"));
    assert!(text(restore(&files(&[], "/"))).contains("allowed: 1 to 10"));
    for path in ["../v", "a/../../b", "./a", "a\0b"] {
        assert!(text(restore(&files(&[path], "/"))).contains("allowed: a path from the root"), "{path:?}");
    }
    assert!(text(restore(&files(&["a"], "/a/.."))).contains("allowed: a path from the root"));
    assert!(text(restore(&files(&[&"a".repeat(1_025)], "/"))).contains("at most 1024 characters"));
    rig.check_agreement(&service);
}

#[test]
fn named_snapshot_is_pinned_while_its_backup_is_made_and_stays_afterwards() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s1")).unwrap();
    let new = NewBackup { snapshot: Some(snapshot("s1")), ..new_backup("b1") };
    let begun = service.create_backup(&context(), &vault_name(), &new).unwrap();
    let said = text(service.delete_snapshot(&context(), &volume("v"), &snapshot("s1")));
    assert!(said.contains("the backup off/b1 is made from the snapshot v/s1"), "{said}");
    let again = service.create_backup(&context(), &vault_name(), &new).unwrap();
    assert_eq!(again.operation.id, begun.operation.id);
    let said = text(service.create_backup(&context(), &vault_name(), &new_backup("b2")));
    assert!(said.contains(&format!("the operation {} uses the backup off/b1", begun.operation.id)), "{said}");
    assert_eq!(done(&service, &begun.operation), Outcome::Succeeded);
    assert_eq!(service.snapshots(&volume("v"), None, 10).unwrap().items.len(), 1);
    service.delete_snapshot(&context(), &volume("v"), &snapshot("s1")).unwrap();
    let other = NewBackup { snapshot: Some(snapshot("s2")), ..new_backup("b1") };
    match service.create_backup(&context(), &vault_name(), &other) {
        Err(Error::Conflict { differs, .. }) => assert_eq!(properties(&differs), ["snapshot"]),
        other => panic!("{other:?}"),
    }
    // The refused second backup has left no snapshot of its own.
    service.run_waiting_jobs();
    assert!(service.snapshots(&volume("v"), None, 10).unwrap().items.is_empty());
}

#[test]
fn latest_backup_of_a_volume_and_a_vault_with_backups_need_force() {
    let rig = Rig::new();
    let (service, place) = with_vault(&rig);
    fill(&rig, &service);
    let (first, second) = (back_up(&service, "b1"), back_up(&service, "b2"));
    let delete = |of: &crate::Backup, force: bool| {
        let context = crate::ChangeContext { force, ..context() };
        service.delete_backup(&context, &vault_name(), &of.name)
    };
    let refused = delete(&second, false).unwrap_err();
    assert!(refused.may_be_forced(), "{refused}");
    assert!(refused.to_string().contains("off/b2 is the latest backup of the volume v"), "{refused}");
    assert_eq!(done(&service, &delete(&first, false).unwrap()), Outcome::Succeeded);
    let refused = service.delete_vault(&context(), &vault_name()).unwrap_err();
    assert!(refused.may_be_forced() && refused.to_string().contains("has 1 backup:"), "{refused}");
    service.delete_vault(&context().forced(), &vault_name()).unwrap();
    assert!(matches!(service.vault(&vault_name()), Err(Error::NotFound { .. })));
    let again = service.create_vault(&context(), &new_vault(place.path())).unwrap();
    assert!(again.operation.detail.contains("with 1 backups"), "{:?}", again.operation);
    let found = service.backup(&vault_name(), &second.name).unwrap();
    assert_eq!((found.totals, found.taken_ms, found.kind), (second.totals, second.taken_ms, second.kind));
    // It is the base of the next one, because the volume is the same.
    let third = back_up(&service, "b3");
    assert!(third.totals.sent_bytes < 4_096, "{third:?}");
    assert_eq!(done(&service, &delete(&third, true).unwrap()), Outcome::Succeeded);
}

#[test]
fn second_service_is_refused_until_it_takes_the_vault_over() {
    let (rig, other) = (Rig::new(), Rig::new());
    let (service, place) = with_vault(&rig);
    fill(&rig, &service);
    back_up(&service, "b1");
    let second = furnished(&other);
    // Random numbers of the rig repeat.
    let mut bytes = [0; 8];
    (second.dependencies.entropy)(&mut bytes);
    let said = text(second.create_vault(&context(), &new_vault(place.path())));
    assert!(said.contains("belongs to the service \"files-1.example.org\""), "{said}");
    let new = NewVault { takes_over: true, ..new_vault(place.path()) };
    second.create_vault(&context(), &new).unwrap();
    let begun = second
        .restore_volume(&context(), &vault_name(), &backup_name("b1"), &new_volume("w", "p", 1024))
        .unwrap();
    assert_eq!(done(&second, &begun.operation), Outcome::Succeeded);
    let begun = service.create_backup(&context(), &vault_name(), &new_backup("b2")).unwrap();
    let said = reason(done(&service, &begun.operation));
    assert!(said.contains("only one service may write it"), "{said}");
}

#[test]
fn key_must_be_there_and_for_its_owner_alone() {
    let rig = Rig::new();
    let (service, place) = (furnished(&rig), tempfile::tempdir().unwrap());
    let key = place.path().join("key");
    let vault = place.path().join("vault");
    let new = NewVault { key_file: Some(key.clone()), ..new_vault(&vault) };
    let write_key = |digit: &str| {
        let draft = place.path().join("draft");
        stable::files::replace(&key, &draft, stable::files::PRIVATE, &[digit.repeat(64).as_bytes()]).unwrap();
    };
    assert!(text(service.create_vault(&context(), &new)).contains("64 hexadecimal digits"));
    write_key("a");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    assert!(text(service.create_vault(&context(), &new)).contains("mode 600"));
    write_key("a");
    service.create_vault(&context(), &new).unwrap();
    fill(&rig, &service);
    back_up(&service, "b1");
    write_key("b");
    let begun = service.create_backup(&context(), &vault_name(), &new_backup("b2")).unwrap();
    let said = reason(done(&service, &begun.operation));
    assert!(said.contains("If that key is lost, so are its backups"), "{said}");
    let without = NewVault { name: VaultName::stored("x".to_owned()), ..new_vault(&vault) };
    assert!(
        text(service.create_vault(&context(), &without)).contains("If that key is lost, so are its backups")
    );
    write_key("a");
    // The same request goes on with the backup that failed.
    back_up(&service, "b2");
}

#[test]
fn locked_backup_stays_until_its_time_by_a_clock_that_never_runs_back() {
    let rig = Rig::new();
    let (service, place) = (furnished(&rig), tempfile::tempdir().unwrap());
    rig.now_ms.store(100 * DAY_MS, Ordering::SeqCst);
    drop(service);
    let service = rig.open();
    let new = NewVault { lock_days: 7, ..new_vault(place.path()) };
    service.create_vault(&context(), &new).unwrap();
    let made = back_up(&service, "b1");
    let until = made.locked_until_ms.unwrap();
    assert!((106 * DAY_MS..=108 * DAY_MS).contains(&until), "{until}");
    let long = NewBackup { locked_until_ms: Some(until + DAY_MS), ..new_backup("b2") };
    let begun = service.create_backup(&context(), &vault_name(), &long).unwrap();
    assert_eq!(done(&service, &begun.operation), Outcome::Succeeded);
    let second = service.backup(&vault_name(), &backup_name("b2")).unwrap();
    assert_eq!(second.locked_until_ms, Some(until + DAY_MS));
    let forced = context().forced();
    let said = text(service.delete_backup(&forced, &vault_name(), &made.name));
    assert!(said.contains("off/b1 is locked until"), "{said}");
    // The clock of the day is set forward, also with a restart: locks count the time that the service runs.
    let past = NewBackup { locked_until_ms: Some(1), ..new_backup("b3") };
    assert!(text(service.create_backup(&context(), &vault_name(), &past)).contains("a time after"));
    rig.now_ms.store(until + 1, Ordering::SeqCst);
    let said = text(service.delete_backup(&forced, &vault_name(), &made.name));
    assert!(said.contains("locked until"), "{said}");
    drop(service);
    let service = rig.open();
    let said = text(service.delete_backup(&forced, &vault_name(), &made.name));
    assert!(said.contains("by the clock of locks"), "{said}");
    service.lock_clock.pass(until - service.lock_now_ms());
    let begun = service.delete_backup(&forced, &vault_name(), &made.name).unwrap();
    assert_eq!(done(&service, &begun), Outcome::Succeeded);
    assert!(text(service.delete_backup(&forced, &vault_name(), &second.name)).contains("locked until"));
}

#[test]
fn vault_that_is_gone_fails_the_job_and_the_same_request_goes_on() {
    let rig = Rig::new();
    let (service, place) = with_vault(&rig);
    fill(&rig, &service);
    let away = tempfile::tempdir().unwrap();
    let moved = away.path().join("moved");
    std::fs::rename(place.path(), &moved).unwrap();
    let begun = service.create_backup(&context(), &vault_name(), &new_backup("b1")).unwrap();
    let said = reason(done(&service, &begun.operation));
    assert!(said.contains("is its disk mounted?"), "{said}");
    assert!(!place.path().exists(), "an empty directory takes the place of a disk that is not mounted");
    let found = service.backup(&vault_name(), &backup_name("b1")).unwrap();
    assert_eq!((found.state, &found.reason), (BackupState::Error, &said));
    // Its snapshot waits for it.
    assert_eq!(service.snapshots(&volume("v"), None, 10).unwrap().items.len(), 1);
    std::fs::rename(&moved, place.path()).unwrap();
    back_up(&service, "b1");
    check_own_snapshots(&service, "after the same request");
}

#[test]
fn vault_can_move_and_another_one_does_not_pass_for_it() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    let other = tempfile::tempdir().unwrap();
    let new = NewVault { name: VaultName::stored("second".to_owned()), ..new_vault(other.path()) };
    service.create_vault(&context(), &new).unwrap();
    let to_other = VaultChange {
        place: Some(VaultPlace::Directory { path: other.path().to_owned() }),
        ..VaultChange::default()
    };
    let said = text(service.update_vault(&context(), &vault_name(), &to_other));
    assert!(said.contains("another vault is in"), "{said}");
    let third = NewVault { name: VaultName::stored("third".to_owned()), ..new_vault(other.path()) };
    assert!(text(service.create_vault(&context(), &third)).contains("which is that of the vault second"));
}

#[test]
fn places_that_would_mix_with_other_files_are_refused() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let dir = tempfile::tempdir().unwrap();
    let (full, file) = (dir.path().join("full"), dir.path().join("file"));
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("x"), "").unwrap();
    std::fs::write(&file, "").unwrap();
    let inside = rig.dir.path().join("volumes");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(rig.dir.path(), &link).unwrap();
    let dangling = dir.path().join("dangling");
    std::os::unix::fs::symlink("/nonexistent/vault", &dangling).unwrap();
    let cases = [
        (full.as_path(), "it has other files, such as \"x\""),
        (&file, "it is no directory"),
        (&inside, "are one in the other"),
        (&link, "are one in the other"),
        (Path::new("/"), "are one in the other"),
        (&dangling, "a directory that exists"),
        (Path::new("/nonexistent/parent/vault"), "a directory that exists"),
        (Path::new("relative"), "an absolute path"),
        (Path::new("/tmp/../tmp/x"), "without .."),
    ];
    for (path, expected) in cases {
        let said = text(service.create_vault(&context(), &new_vault(path)));
        assert!(said.contains(expected), "{}: {said}", path.display());
    }
    // A link is followed once: what it points to later does not matter.
    let (target, good) = (dir.path().join("target"), dir.path().join("good"));
    std::fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, &good).unwrap();
    let made = service.create_vault(&context(), &new_vault(&good)).unwrap();
    assert_eq!(made.value.place, VaultPlace::Directory { path: target.canonicalize().unwrap() });
}

#[test]
fn flipped_bit_is_found_and_shown() {
    let rig = Rig::new();
    let (service, place) = with_vault(&rig);
    fill(&rig, &service);
    let made = back_up(&service, "b1");
    let verify = |reads_data| {
        let begun = service.verify_backup(&context(), &vault_name(), &made.name, reads_data).unwrap();
        done(&service, &begun)
    };
    assert_eq!(verify(false), Outcome::Succeeded);
    assert_eq!(service.backup(&vault_name(), &made.name).unwrap().verified_ms, None);
    assert_eq!(verify(true), Outcome::Succeeded);
    assert!(service.backup(&vault_name(), &made.name).unwrap().verified_ms.is_some());
    let pack = std::fs::read_dir(place.path().join("packs")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&pack).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    assert_eq!(verify(false), Outcome::Succeeded);
    let said = reason(verify(true));
    assert!(said.contains("damaged: packs/") && said.contains("its hash is another one"), "{said}");
    assert!(service.backup(&vault_name(), &made.name).unwrap().damage.contains("packs/"));
    std::fs::remove_file(&pack).unwrap();
    assert!(reason(verify(false)).contains("it is missing"));
    // A backup whose manifest is damaged can be deleted, and the sweep passes it.
    let backups = std::fs::read_dir(place.path().join("backups")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(backups.join("manifest"), "x").unwrap();
    assert!(reason(verify(true)).contains("manifest"));
    let begun = service.delete_backup(&context().forced(), &vault_name(), &made.name).unwrap();
    assert_eq!(done(&service, &begun), Outcome::Succeeded);
    back_up(&service, "b2");
}

#[test]
fn cancelled_backup_and_restore_leave_nothing() {
    let rig = Rig::new();
    let (service, place) = with_vault(&rig);
    fill(&rig, &service);
    let waiting = service.create_backup(&context(), &vault_name(), &new_backup("b1")).unwrap();
    assert_eq!(service.cancel_operation(waiting.operation.id).unwrap().outcome, Outcome::Cancelled);
    service.run_waiting_jobs();
    assert!(service.backups(&vault_name(), None, 10).unwrap().items.is_empty());
    assert!(service.snapshots(&volume("v"), None, 10).unwrap().items.is_empty());
    assert!(!place.path().join("packs").exists());
    let made = back_up(&service, "b1");
    let begun =
        service.restore_volume(&context(), &vault_name(), &made.name, &new_volume("w", "p", 1024)).unwrap();
    service.cancel_operation(begun.operation.id).unwrap();
    assert!(matches!(service.volume(&volume("w")), Err(Error::NotFound { .. })));
    let request = files(&["plan.txt"], "/");
    let begun = service.restore_backup_files(&context(), &vault_name(), &made.name, &request).unwrap();
    service.cancel_operation(begun.id).unwrap();
    rig.check_agreement(&service);
}

#[test]
fn volume_that_is_deleted_ends_its_jobs_and_keeps_its_backups() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    fill(&rig, &service);
    let made = back_up(&service, "b1");
    let begun = service.create_backup(&context(), &vault_name(), &new_backup("b2")).unwrap();
    let restored = service
        .restore_backup_files(&context(), &vault_name(), &made.name, &files(&["plan.txt"], "/"))
        .unwrap();
    let refused = service.delete_volume(&context(), &volume("v"));
    assert!(matches!(refused, Err(Error::HasSnapshots { .. })), "{refused:?}");
    service.delete_volume(&context().forced(), &volume("v")).unwrap();
    service.run_waiting_jobs();
    for operation in [begun.operation.id, restored.id] {
        assert_eq!(service.operation(operation).unwrap().outcome, Outcome::Cancelled);
    }
    let found = service.backup(&vault_name(), &backup_name("b2")).unwrap();
    assert_eq!(found.state, BackupState::Error);
    assert!(found.reason.contains("its volume was deleted"), "{}", found.reason);
    let begun = service.delete_backup(&context(), &vault_name(), &found.name).unwrap();
    assert_eq!(done(&service, &begun), Outcome::Succeeded);
    assert_eq!(service.backup(&vault_name(), &made.name).unwrap().state, BackupState::Ready);
    // A new volume of the name is another one.
    service.create_volume(&context(), &new_volume("v", "p", 1024)).unwrap();
    fill(&rig, &service);
    let again = back_up(&service, "b3");
    assert!(again.totals.sent_bytes > 0);
    rig.check_agreement(&service);
}

#[test]
fn restore_needs_room_and_a_new_name() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    fill(&rig, &service);
    let made = back_up(&service, "b1");
    let restore = |new| service.restore_volume(&context(), &vault_name(), &made.name, &new);
    assert!(text(restore(new_volume("v", "p", 1024))).contains("allowed: the name of a new volume"));
    let small = crate::NewVolume { size: envelope::Bytes(1_000), ..new_volume("w", "p", 1) };
    assert!(text(restore(small)).contains("or more"));
    assert!(matches!(restore(new_volume("w", "p", 9_000)), Err(Error::PoolFull { .. } | Error::Refused(_))));
    assert!(matches!(restore(new_volume("w", "q", 1024)), Err(Error::NotFound { .. })));
    rig.check_agreement(&service);
}

fn policy(service: &Service, daily: u32) {
    let schedules = crate::Schedules {
        hourly: None,
        daily: Some(crate::Daily { keep: daily, hour: 0, minute: 0 }),
        weekly: None,
        monthly: None,
    };
    let new = crate::NewPolicy {
        name: "nightly".parse().unwrap(),
        vault: Some(vault_name()),
        is_enabled: true,
        zone: crate::Zone::utc(),
        schedules,
    };
    service.create_policy(&context(), &new).unwrap();
    let name = new.name;
    let snapshots =
        crate::VolumeChange { policy: Some(Some(name.clone())), ..crate::VolumeChange::default() };
    let said = text(service.update_volume(&context(), &volume("v"), &snapshots));
    assert!(said.contains("which makes backups; allowed: one without a vault"), "{said}");
    let change = crate::VolumeChange { backup_policy: Some(Some(name)), ..crate::VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
}

#[test]
fn policy_backs_up_once_after_downtime_and_keeps_the_latest() {
    let rig = Rig::new();
    let (service, _place) = with_vault(&rig);
    rig.now_ms.store(10 * DAY_MS + 1_000, Ordering::SeqCst);
    policy(&service, 2);
    let said = text(service.delete_vault(&context().forced(), &vault_name()));
    assert!(said.contains("the policy nightly makes backups in the vault off"), "{said}");
    let names = |service: &Service| {
        let all = service.backups(&vault_name(), None, 100).unwrap().items;
        all.into_iter().map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    service.run_policies().unwrap();
    service.run_waiting_jobs();
    assert!(names(&service).is_empty(), "a due time before the policy");
    // Five days are missed.
    for day in [15, 16, 17, 18] {
        rig.now_ms.store(day * DAY_MS + 5_000, Ordering::SeqCst);
        for _ in 0..3 {
            service.run_policies().unwrap();
            service.run_waiting_jobs();
        }
    }
    assert_eq!(names(&service), ["v.daily.1970-01-18_0000", "v.daily.1970-01-19_0000"]);
    let manual = back_up(&service, "mine");
    rig.now_ms.store(19 * DAY_MS + 5_000, Ordering::SeqCst);
    service.run_policies().unwrap();
    service.run_waiting_jobs();
    assert_eq!(names(&service), ["mine", "v.daily.1970-01-19_0000", "v.daily.1970-01-20_0000"]);
    assert_eq!(manual.kind, SnapshotKind::Manual);
    let who = service.operations(None, 1_000).unwrap().items;
    assert!(who.iter().any(|one| one.actor.as_str() == "policy nightly"));
}

#[test]
fn policy_that_fails_says_so_and_the_next_due_time_begins_anew() {
    let rig = Rig::new();
    let (service, place) = with_vault(&rig);
    rig.now_ms.store(10 * DAY_MS + 1_000, Ordering::SeqCst);
    policy(&service, 2);
    let away = tempfile::tempdir().unwrap();
    let moved = away.path().join("moved");
    std::fs::rename(place.path(), &moved).unwrap();
    let run = |day: u64| {
        rig.now_ms.store(day * DAY_MS + 5_000, Ordering::SeqCst);
        service.run_policies().unwrap();
        service.run_waiting_jobs();
    };
    run(11);
    let all = service.backups(&vault_name(), None, 100).unwrap().items;
    assert_eq!(all.iter().map(|one| one.state).collect::<Vec<_>>(), [BackupState::Error]);
    std::fs::rename(&moved, place.path()).unwrap();
    run(12);
    let all = service.backups(&vault_name(), None, 100).unwrap().items;
    assert_eq!(all.iter().map(|one| one.state).collect::<Vec<_>>(), [BackupState::Ready]);
    check_own_snapshots(&service, "after a run that failed and one that did not");
}
