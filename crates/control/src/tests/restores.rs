//! Restores of files from snapshots as jobs: what they refuse, what they keep, and a process that ends at any step.

use super::rig::{FailureMode, Killed, Rig, context, furnished, new_snapshot, snapshot, volume};
use crate::{Error, Outcome, Result, Service, State};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::claims::{self, Effect, Holder, OpenRequest, Request, Rights, Stream, Verdict};
use vfs::{Access, Blocking, Caller, Disposition, Export, File, PendingSync, SetAttrs, Stability};

const ALLOWED: Blocking = Blocking::Allowed;

/// The files `a` and `d/b`, the snapshot `s1` with `old` in each, and then `new` in them.
fn prepared(rig: &Rig) -> Service {
    let service = furnished(rig);
    let root = root(&service);
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let set = SetAttrs { mode: Some(0o755), ..SetAttrs::default() };
    let dir = root.make_dir(&caller, b"d", &set, &mut pending).unwrap().file;
    for (dir, name) in [(&root, b"a"), (&dir, b"b")] {
        let file = dir.create(&caller, name, Disposition::CreateNew, &set, &mut pending).unwrap().file;
        write(&file, b"old");
    }
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s1")).unwrap();
    for path in ["a", "d/b"] {
        write(&file(&service, path).unwrap(), b"new");
    }
    service
}

fn root(service: &Service) -> File {
    Arc::new(Export::new("/", service.served(&volume("v")).unwrap(), Vec::new())).root()
}

fn file(service: &Service, path: &str) -> vfs::FsResult<File> {
    path.split('/').try_fold(root(service), |dir, name| {
        Ok(dir.open_dir(&Caller::new(0, 0, []), ALLOWED)?.lookup(name.as_bytes(), ALLOWED)?.file)
    })
}

fn write(file: &File, data: &[u8]) {
    let caller = Caller::new(0, 0, []);
    let (opened, _) = file.open(&caller, Access::WRITE, ALLOWED).unwrap();
    opened.write(0, data, Stability::File, &mut PendingSync::default()).unwrap();
}

fn read(service: &Service, path: &str) -> Vec<u8> {
    let (file, caller) = (file(service, path).unwrap(), Caller::new(0, 0, []));
    let (opened, attrs) = file.authorize_read(&caller, ALLOWED).unwrap();
    let mut data = Vec::new();
    opened.read(0, usize::try_from(attrs.size).unwrap(), &mut data, ALLOWED).unwrap();
    data
}

fn begin(service: &Service, paths: &[&str], to: Option<&str>) -> Result<crate::Operation> {
    let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
    service.restore_files(&context(), &volume("v"), &snapshot("s1"), &paths, to)
}

fn restore(service: &Service) -> Result<()> {
    begin(service, &["/a", "d/b"], None)?;
    service.run_waiting_jobs();
    Ok(())
}

#[test]
fn files_go_to_their_places_or_into_a_directory() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let begun = begin(&service, &["/a", "d/b"], None).unwrap();
    assert_eq!(
        (begun.kind.as_str(), begun.verb.as_str(), begun.detail.as_str()),
        ("snapshot", "restore", "2 files")
    );
    assert_eq!(begun.name, "v/s1");
    service.run_waiting_jobs();
    let ended = service.operation(begun.id).unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    let progress = ended.progress.unwrap();
    assert_eq!((progress.done, progress.total, progress.unit), (6, Some(6), "bytes"));
    assert_eq!((read(&service, "a"), read(&service, "d/b")), (b"old".to_vec(), b"old".to_vec()));
    let begun = begin(&service, &["a"], Some("/d/")).unwrap();
    assert_eq!(begun.detail, "a, to /d/");
    service.run_waiting_jobs();
    assert_eq!(read(&service, "d/a"), b"old");
    assert_eq!(rig.files(service.volume(&volume("v")).unwrap().id), ["d", "a"], "nothing else is there");
    rig.check_agreement(&service);
}

#[test]
fn requests_that_lead_away_or_ask_too_much_are_refused_at_once() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let eleven: Vec<String> = (0..11).map(|number| format!("f{number}")).collect();
    let eleven: Vec<&str> = eleven.iter().map(String::as_str).collect();
    let long = "x".repeat(1_025);
    for (paths, to, said) in [
        (&[][..], None, "a restore of 0 files; allowed: 1 to 10"),
        (&eleven, None, "a restore of 11 files; allowed: 1 to 10"),
        (&[&*long], None, "a path of 1025 characters; allowed: at most 1024"),
        (&["a"], Some(&*long), "a path of 1025 characters"),
        (&["d/../a"], None, "allowed: names below the root of the volume"),
        (&["d//b"], None, "allowed: names below the root"),
        (&[".snapshot/s1/a"], None, "allowed: names below the root"),
        (&["a"], Some("d/.."), "allowed: names below the root"),
        (&["/"], None, "allowed: paths of files"),
        (&["a", "/a"], None, "two files that would both be"),
        (&["a", "d/a"], Some("d"), "two files that would both be d/a"),
        (&["none"], None, "none in the snapshot v/s1: no such file or directory; allowed: regular files"),
        (&["d"], None, "d in the snapshot v/s1: is a directory"),
        (&["a/b"], None, "a/b in the snapshot v/s1: not a directory"),
        (&["a"], Some("e"), "the directory /e: no such file or directory; allowed: directories that exist"),
        (&["d/b"], Some("a"), "the directory /a: not a directory"),
    ] {
        let refused = begin(&service, paths, to).unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{paths:?} {to:?}: {refused}");
        assert!(refused.to_string().contains(said), "{refused}");
    }
    let none = service.restore_files(&context(), &volume("v"), &snapshot("s9"), &["a".to_owned()], None);
    assert!(matches!(none, Err(Error::NotFound { .. })));
    rig.check_agreement(&service);
}

#[test]
fn snapshot_stays_and_no_second_restore_begins_until_it_ends() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let begun = begin(&service, &["a"], None).unwrap().id;
    let refusals = [
        service.delete_snapshot(&context(), &volume("v"), &snapshot("s1")).map(drop),
        begin(&service, &["a"], None).map(drop),
        service.revert_volume(&context(), &volume("v"), &snapshot("s1")).map(drop),
    ];
    for refused in refusals {
        let said = refused.unwrap_err().to_string();
        let reason = format!("is in use: the operation {begun} restores files from a snapshot; wait for it");
        assert!(said.contains(&reason), "{said}");
    }
    // A change of its description does not end it.
    let change = crate::SnapshotChange { description: Some("x".to_owned()), ..Default::default() };
    service.update_snapshot(&context(), &volume("v"), &snapshot("s1"), &change).unwrap();
    service.run_waiting_jobs();
    assert_eq!(service.operation(begun).unwrap().outcome, Outcome::Succeeded);
    assert_eq!(service.volume(&volume("v")).unwrap().state, State::Ready);
    service.delete_snapshot(&context(), &volume("v"), &snapshot("s1")).unwrap();
    service.run_waiting_jobs();
    rig.check_agreement(&service);
}

#[test]
fn cancelled_before_it_begins_it_changes_nothing() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let begun = begin(&service, &["a"], None).unwrap().id;
    service.cancel_operation(begun).unwrap();
    service.run_waiting_jobs();
    assert_eq!(service.operation(begun).unwrap().outcome, Outcome::Cancelled);
    assert_eq!(read(&service, "a"), b"new");
    restore(&service).unwrap();
    rig.check_agreement(&service);
}

struct Silent;

impl Holder for Silent {
    fn deliver(&self, _: Effect) {}
}

/// An open of `a` that denies others to write, or has a delegation.
fn hold(service: &Service, deny: Rights, lease: Option<claims::LeaseRequest>) {
    let served = service.served(&volume("v")).unwrap();
    let holder = served.claims().attach(Arc::new(Silent));
    let verdict = file(service, "a").unwrap().claim(&Request::Open(OpenRequest {
        holder,
        stream: Stream::default(),
        access: claims::Access { rights: Rights::READ, deny },
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease,
        reclaims: false,
        waits: false,
    }));
    assert!(matches!(verdict, Verdict::Granted(_)));
}

#[test]
fn file_that_an_open_denies_is_refused() {
    let rig = Rig::new();
    let service = prepared(&rig);
    hold(&service, Rights::WRITE, None);
    let begun = begin(&service, &["a"], None).unwrap().id;
    service.run_waiting_jobs();
    let Outcome::Failed(reason) = service.operation(begun).unwrap().outcome else { panic!() };
    assert!(
        reason.contains("restore a to the directory /") && reason.contains("locked by another open"),
        "{reason}"
    );
    assert_eq!(read(&service, "a"), b"new");
    rig.check_agreement(&service);
}

#[test]
fn client_that_does_not_return_a_delegation_fails_it_after_a_minute() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let want = claims::Caching::READ | claims::Caching::HANDLE;
    let kind = claims::LeaseKind::Delegation;
    hold(&service, Rights::NONE, Some(claims::LeaseRequest { kind, want, answers_within: None, epoch: 0 }));
    let begun = begin(&service, &["a"], None).unwrap().id;
    std::thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        while service.operation(begun).unwrap().progress.is_none_or(|progress| progress.done < 3) {
            std::thread::yield_now();
        }
        // The job notes the time after the progress that was seen: one step may come too early for it.
        while service.operation(begun).unwrap().outcome == Outcome::Running {
            rig.now_ms.fetch_add(crate::limits::RESTORE_WAIT_MS, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    let Outcome::Failed(reason) = service.operation(begun).unwrap().outcome else { panic!() };
    assert!(reason.contains("a: clients did not return it for 60 seconds"), "{reason}");
    assert_eq!(rig.files(service.volume(&volume("v")).unwrap().id), ["d", "a"], "no half of it stays");
}

#[test]
fn killed_at_any_step_the_next_start_restores_what_is_left() {
    let rig = Rig::new();
    let service = prepared(&rig);
    rig.fuse.arm(0, FailureMode::Dead);
    restore(&service).unwrap();
    let steps = rig.fuse.disarm();
    assert!(steps >= 8, "{steps}");
    for step in 1..=steps {
        let rig = Rig::new();
        let service = prepared(&rig);
        rig.fuse.arm(step, FailureMode::Dead);
        let died = catch_unwind(AssertUnwindSafe(|| restore(&service)));
        assert!(died.err().is_some_and(|payload| payload.is::<Killed>()), "step {step}");
        rig.fuse.disarm();
        drop(service);
        let service = rig.open();
        // The first file is done if it is noted: a user may have changed it since.
        let operation = crate::OperationId(service.operations(None, 1).unwrap().items[0].id.0);
        let left = service.read(|store| Ok(crate::store::restored_file::of(store, operation)?)).unwrap();
        let is_first_done = left.len() == 1;
        if is_first_done {
            write(&file(&service, "a").unwrap(), b"mine");
        }
        service.run_waiting_jobs();
        rig.check_agreement(&service);
        let is_begun = service.operations(None, 1).unwrap().items[0].verb == crate::Verb::Restore;
        let wanted: &[u8] = if is_first_done {
            b"mine"
        } else if is_begun {
            b"old"
        } else {
            b"new"
        };
        assert_eq!(read(&service, "a"), wanted, "step {step}");
        restore(&service).unwrap();
        assert_eq!(
            (read(&service, "a"), read(&service, "d/b")),
            (b"old".to_vec(), b"old".to_vec()),
            "step {step}"
        );
        rig.check_agreement(&service);
    }
}
