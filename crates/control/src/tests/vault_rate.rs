//! The limit of a vault binds all kinds of jobs together: at a byte in a second, each waits for days.

use super::backups::{backup_name, make_dir, new_backup, new_vault, vault_name, write};
use super::rig::{Rig, context, furnished, new_volume, volume};
use crate::{BackupFileRestore, Operation, Outcome, Service, VaultChange};
use std::time::Duration;
use vfs::Provisioner;

const BYTES: usize = 3 << 20;
/// A job that nothing holds up ends meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..BYTES).map(|_| next()).collect()
}

/// Runs a job until it has asked for its first piece, and cancels it. Returns whether it had not ended by itself.
fn is_held_up(service: &Service, begin: impl FnOnce(&Service) -> Operation) -> bool {
    let vault = service.vault(&vault_name()).unwrap();
    let before = service.vault_pace(&vault).0;
    let begun = begin(service);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| service.run_waiting_jobs());
        while service.vault_pace(&vault).0 == before && !run.is_finished() {
            std::thread::yield_now();
        }
        std::thread::sleep(PATIENCE);
        let is_running = service.operation(begun.id).unwrap().outcome == Outcome::Running;
        _ = service.cancel_operation(begun.id);
        run.join().unwrap();
        is_running && service.operation(begun.id).unwrap().outcome == Outcome::Cancelled
    })
}

#[test]
fn backups_restores_and_checks_share_the_rate_of_their_vault() {
    let (rig, place) = (Rig::new(), tempfile::tempdir().unwrap());
    let service = furnished(&rig);
    service.create_vault(&context(), &new_vault(place.path())).unwrap();
    let root = rig.disk.open(service.volume(&volume("v")).unwrap().id).unwrap().root();
    write(&root, "a.bin", &noise(1));
    make_dir(&root, "back");
    let (vault, one) = (vault_name(), backup_name("b1"));
    let create = |name: &str| service.create_backup(&context(), &vault, &new_backup(name)).unwrap().operation;
    let first = create("b1");
    service.run_waiting_jobs();
    assert_eq!(service.operation(first.id).unwrap().outcome, Outcome::Succeeded, "without a limit");
    let change = VaultChange { bytes_per_s: Some(Some(1)), ..VaultChange::default() };
    service.update_vault(&context(), &vault, &change).unwrap();
    write(&root, "a.bin", &noise(2));
    // The first piece of all waits for nothing, the second one for the first.
    assert!(is_held_up(&service, |_| create("b2")), "a backup");
    let check = |service: &Service| service.verify_backup(&context(), &vault, &one, true).unwrap();
    assert!(is_held_up(&service, check), "a check");
    let restore = |service: &Service| {
        let new = new_volume("w", "p", 1024);
        service.restore_volume(&context(), &vault, &one, &new).unwrap().operation
    };
    assert!(is_held_up(&service, restore), "a restore of a volume");
    let files = |service: &Service| {
        let (paths, directory) = (vec!["a.bin".to_owned()], "back".to_owned());
        let of = BackupFileRestore { volume: "v".to_owned(), paths, directory };
        service.restore_backup_files(&context(), &vault, &one, &of).unwrap()
    };
    assert!(is_held_up(&service, files), "a restore of files");
    let change = VaultChange { bytes_per_s: Some(None), ..VaultChange::default() };
    service.update_vault(&context(), &vault, &change).unwrap();
    let last = check(&service);
    service.run_waiting_jobs();
    assert_eq!(service.operation(last.id).unwrap().outcome, Outcome::Succeeded, "without a limit again");
}
