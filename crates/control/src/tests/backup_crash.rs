//! The process ends at every step of the store, the storage and the vault, or the vault refuses a step.

use super::backups::{backup_name, check_own_snapshots, new_backup, new_vault, tree, vault_name, write};
use super::rig::{FailureMode, Fuse, Killed, Rig, context, furnished, new_volume, volume};
use crate::backup_error::BackupError;
use crate::{BackupFileRestore, BackupState, Error, Outcome, Result, Service, VaultPlace};
use replicate::store::{Directory, ObjectSink, ObjectStore, Pace};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{Provisioner, Time};

/// A directory whose changes are steps.
struct Fused {
    store: Directory,
    fuse: Arc<Fuse>,
}

impl Fused {
    fn change<T>(&self, change: impl FnOnce(&Directory) -> io::Result<T>) -> io::Result<T> {
        self.fuse.object()?;
        let done = change(&self.store)?;
        self.fuse.object()?;
        Ok(done)
    }
}

impl ObjectStore for Fused {
    fn put_new(&self, name: &str, content: &[u8], pace: &mut Pace<'_>) -> io::Result<bool> {
        self.change(|store| store.put_new(name, content, pace))
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.store.read(name, offset, len)
    }

    fn size(&self, name: &str) -> io::Result<Option<u64>> {
        self.store.size(name)
    }

    fn list(&self, prefix: &str, sink: &mut ObjectSink<'_>) -> io::Result<()> {
        self.store.list(prefix, sink)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.change(|store| store.delete(name))
    }

    fn retain(&self, name: &str, until: Time) -> io::Result<bool> {
        self.store.retain(name, until)
    }
}

fn fused(rig: &Rig, mut service: Service) -> Service {
    let fuse = Arc::clone(&rig.fuse);
    service.open_stores_with(Box::new(move |place: &VaultPlace, _| {
        let VaultPlace::Directory { path } = place else { return Err(io::ErrorKind::Unsupported.into()) };
        Ok(Arc::new(Fused { store: Directory::open(path)?, fuse: Arc::clone(&fuse) }))
    }));
    service
}

/// A service with a volume `v`, and a backup `b1` of it in the vault.
fn prepared(rig: &Rig, place: &Path) -> Service {
    let service = fused(rig, furnished(rig));
    service.create_vault(&context(), &new_vault(place)).unwrap();
    let id = service.volume(&volume("v")).unwrap().id;
    write(&rig.disk.open(id).unwrap().root(), "one", b"one");
    create(&service, "b1").unwrap();
    write(&rig.disk.open(id).unwrap().root(), "two", &vec![2; 100_000]);
    service
}

type Change = fn(&Service) -> Result<()>;

fn create(service: &Service, name: &str) -> Result<()> {
    let begun = service.create_backup(&context(), &vault_name(), &new_backup(name))?;
    finished(service, begun.operation.id)
}

fn finished(service: &Service, operation: crate::OperationId) -> Result<()> {
    service.run_waiting_jobs();
    match service.operation(operation)?.outcome {
        Outcome::Succeeded => Ok(()),
        Outcome::Failed(reason) => Err(BackupError::Vault { vault: "off".to_owned(), reason }.into()),
        other => panic!("{other:?}"),
    }
}

const CHANGES: [(&str, Change); 4] = [
    ("create", |service| create(service, "b2")),
    ("delete", |service| {
        match service.delete_backup(&context().forced(), &vault_name(), &backup_name("b1")) {
            Err(Error::NotFound { .. }) => Ok(()),
            begun => finished(service, begun?.id),
        }
    }),
    ("restore", |service| {
        let new = new_volume("w", "p", 1024);
        if service.volume(&volume("w")).is_ok_and(|found| found.state == crate::State::Ready) {
            return Ok(());
        }
        let begun = service.restore_volume(&context(), &vault_name(), &backup_name("b1"), &new)?;
        finished(service, begun.operation.id)
    }),
    ("vault", |service| {
        let dir = service.dependencies.dir.with_extension("second");
        let new = crate::NewVault { name: "second".parse().unwrap(), ..new_vault(&dir) };
        service.create_vault(&context(), &new).map(drop)
    }),
];

/// The lease of a sweep that was killed ends after ten minutes.
fn restarted(rig: &Rig) -> Service {
    rig.now_ms.fetch_add(3_600_000, Ordering::SeqCst);
    let service = fused(rig, rig.open());
    service.run_waiting_jobs();
    service
}

fn check(rig: &Rig, service: &Service, what: &str) {
    service.run_waiting_jobs();
    rig.check_agreement(service);
    for backup in service.backups(&vault_name(), None, 100).unwrap().items {
        assert_eq!(backup.state, BackupState::Ready, "{what}: {backup:?}");
        let begun = service.verify_backup(&context(), &vault_name(), &backup.name, true).unwrap();
        finished(service, begun.id).unwrap();
    }
    check_own_snapshots(service, what);
    if let Ok(restored) = service.volume(&volume("w")) {
        let files = tree(&*rig.disk.open(restored.id).unwrap());
        assert_eq!(files.keys().collect::<Vec<_>>(), ["/one"], "{what}");
    }
}

fn steps(change: Change) -> usize {
    let (rig, place) = (Rig::new(), tempfile::tempdir().unwrap());
    let service = prepared(&rig, place.path());
    rig.fuse.arm(0, FailureMode::Dead);
    change(&service).unwrap();
    let steps = rig.fuse.disarm();
    remove_second(&rig);
    steps
}

fn remove_second(rig: &Rig) {
    _ = std::fs::remove_dir_all(rig.dir.path().with_extension("second"));
}

#[test]
fn killed_at_any_step_the_next_start_goes_on() {
    for (name, change) in CHANGES {
        let steps = steps(change);
        assert!(steps >= 4, "{name}: {steps}");
        for step in 1..=steps {
            let what = format!("{name}, step {step} of {steps}");
            let (rig, place) = (Rig::new(), tempfile::tempdir().unwrap());
            let service = prepared(&rig, place.path());
            rig.fuse.arm(step, FailureMode::Dead);
            let died = catch_unwind(AssertUnwindSafe(|| change(&service)));
            assert!(died.err().is_some_and(|payload| payload.is::<Killed>()), "{what}");
            rig.fuse.disarm();
            drop(service);
            let service = restarted(&rig);
            check(&rig, &service, &what);
            // The client, which got no answer, asks again.
            change(&service).unwrap_or_else(|error| panic!("{what}: {error}"));
            check(&rig, &service, &what);
            remove_second(&rig);
        }
    }
}

#[test]
fn step_that_the_vault_or_the_storage_refuses_is_repeated_by_the_same_request() {
    for (name, change) in CHANGES {
        for step in 1..=steps(change) {
            let what = format!("{name}, step {step}");
            let (rig, place) = (Rig::new(), tempfile::tempdir().unwrap());
            let service = prepared(&rig, place.path());
            rig.fuse.arm(step, FailureMode::Refused);
            _ = change(&service);
            rig.fuse.disarm();
            rig.now_ms.fetch_add(3_600_000, Ordering::SeqCst);
            drop(service);
            let service = fused(&rig, rig.open());
            service.run_waiting_jobs();
            change(&service).unwrap_or_else(|error| panic!("{what}: {error}"));
            check(&rig, &service, &what);
            remove_second(&rig);
        }
    }
}

#[test]
fn restore_of_files_goes_on_after_a_kill_or_says_what_exists() {
    let request = BackupFileRestore {
        volume: "v".to_owned(),
        paths: vec!["one".to_owned()],
        directory: "/back".to_owned(),
    };
    for step in 1..=8 {
        let (rig, place) = (Rig::new(), tempfile::tempdir().unwrap());
        let service = prepared(&rig, place.path());
        let id = service.volume(&volume("v")).unwrap().id;
        super::backups::make_dir(&rig.disk.open(id).unwrap().root(), "back");
        rig.fuse.arm(step, FailureMode::Dead);
        let died = catch_unwind(AssertUnwindSafe(|| {
            let begun =
                service.restore_backup_files(&context(), &vault_name(), &backup_name("b1"), &request)?;
            finished(&service, begun.id)
        }));
        rig.fuse.disarm();
        drop(service);
        let service = restarted(&rig);
        let unfinished = service.operations(None, 1000).unwrap().items;
        assert!(unfinished.iter().all(|one| one.ended_ms.is_some()), "step {step}");
        if died.is_ok() {
            assert_eq!(tree(&*rig.disk.open(id).unwrap())["/back/one"], b"one");
        }
    }
}
