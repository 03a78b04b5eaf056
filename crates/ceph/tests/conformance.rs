//! The suites of backends and provisioners over a Ceph cluster that `cargo xtask ceph` starts.

use ceph::{Options, Volumes};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::NodeBudget;
use vfs::backend::KEEP_SET_ID;
use vfs::sync::Mutex;
use vfs::{Backend, Blocking, Capacity, Name, NewInode, Provisioner, Root, SyncScope, VolumeId};
use vfs_testing::UncheckedNode;
use vfs_testing::conformance::capacity::{self, Charging, End};
use vfs_testing::conformance::{self, Lack};

const ROOT: Root = Root { mode: 0o755, uid: 0, gid: 0 };
const NEW: NewInode = NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 };
/// The directory in which [`service_that_crashes`] crashes.
const CRASH_IN: &str = "PLIMSOLL_CEPH_CRASH_IN";
const CAPACITY: Capacity = Capacity { bytes: 1 << 40, files: 1 << 20 };
const LACKS: &[(Lack, &str)] = &[
    (Lack::Clones, "CephFS shares no data between files"),
    (Lack::Holes, "CephFS does not tell holes"),
    (Lack::LargeXattrs, "CephFS keeps 64 KiB of attributes with a file"),
];

/// Cases at a time: most of their time goes to waiting for the cluster.
const AT_A_TIME: usize = 6;

/// A directory that no other test uses.
fn directory() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    format!("/tests-{process}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).expect("a valid name")
}

fn open(directory: &str, name: &str) -> Arc<Volumes> {
    Volumes::open(&options(directory, name), NodeBudget::new(10_000)).expect("the cluster answers")
}

fn options(directory: &str, name: &str) -> Options {
    let conf = std::env::var_os("CEPH_CONF").expect("CEPH_CONF names the configuration of a cluster");
    Options {
        conf: conf.into(),
        user: "admin".into(),
        file_system: None,
        directory: directory.into(),
        is_exclusive: false,
        name: name.into(),
    }
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn backend_suite() {
    let directory = directory();
    let (volumes, next) = (open(&directory, "first"), AtomicU64::new(1));
    let again = open(&directory, "again");
    conformance::run_beside(AT_A_TIME, &|| {
        let id = VolumeId(next.fetch_add(1, Ordering::Relaxed));
        volumes.make(id, &ROOT, CAPACITY).expect("a volume");
        let again = Arc::clone(&again);
        let reopen = move || again.open(id).expect("the volume") as Arc<dyn Backend>;
        let fixture = conformance::Fixture::new(volumes.open(id).expect("the volume"));
        let fixture = fixture.reopened_by(Box::new(reopen));
        LACKS.iter().fold(fixture, |fixture, &(lack, reason)| fixture.without(lack, reason))
    });
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn directory_has_one_service() {
    let directory = directory();
    let alone = |name| Options { is_exclusive: true, ..options(&directory, name) };
    let first = Volumes::open(&alone("one"), NodeBudget::new(100)).expect("the cluster answers");
    let second = Volumes::open(&alone("two"), NodeBudget::new(100)).map(drop);
    let error = second.expect_err("the first one is there").to_string();
    assert!(error.contains("another service uses") && error.contains(&directory), "{error}");
    drop(first);
    // In a process of its own: otherwise its threads would live on, and connect again.
    let crashing = std::env::current_exe().expect("the path of this program");
    let arguments = ["--ignored", "--exact", "service_that_crashes"];
    let status = std::process::Command::new(crashing).args(arguments).env(CRASH_IN, &directory).status();
    let aborted = status.expect("this program starts").signal();
    assert_eq!(aborted, Some(6), "it crashes with its session");
    // A process of the same name ends the session of the one before.
    drop(Volumes::open(&alone("one"), NodeBudget::new(100)).expect("the first one has ended"));
    assert!(Volumes::open(&alone("two"), NodeBudget::new(100)).is_ok(), "an orderly end releases it");
}

#[test]
#[ignore = "run by other tests in a process of its own"]
fn service_that_crashes() {
    let Ok(directory) = std::env::var(CRASH_IN) else { return };
    let alone = Options { is_exclusive: true, ..options(&directory, "one") };
    let _service = Volumes::open(&alone, NodeBudget::new(100)).expect("the cluster answers");
    std::process::abort();
}

/// The change number of a file rises with every write, whichever of two services makes it.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn change_numbers_rise_over_two_services() {
    let rounds = if std::env::var_os("PLIMSOLL_TESTS_LONG").is_some() { 10_000 } else { 300 };
    let directory = directory();
    let services = ["one", "two"].map(|name| open(&directory, name));
    services[0].make(VolumeId(1), &ROOT, CAPACITY).expect("a volume");
    let volumes = services.each_ref().map(|service| service.open(VolumeId(1)).expect("the volume"));
    let made = volumes[0].root().create_unchecked(name("file"), &NEW).expect("a file");
    made.found.node.sync(SyncScope::All).expect("a flush");
    let files = volumes.each_ref().map(|volume| volume.root().lookup(name("file"), Blocking::Allowed));
    let files = files.map(|found| found.expect("the file").node);
    let mut last = 0;
    for round in 0..rounds {
        for file in &files {
            let after = file.write(round % 100, b"x", KEEP_SET_ID).expect("a write").after;
            assert!(after.change > last, "{} after {last} in round {round}", after.change);
            assert_eq!(file.attrs(Blocking::Allowed).map(|attrs| attrs.change), Ok(after.change));
            last = after.change;
        }
    }
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn provisioner_suite() {
    capacity::run(&|| {
        let directory = directory();
        let provisioner = open(&directory, "one");
        let last = Arc::new(Mutex::new(Arc::downgrade(&provisioner)));
        let sweeping = Arc::clone(&last);
        let sweep = Arc::new(move || sweeping.lock().upgrade().into_iter().for_each(|all| all.sweep(4)));
        let again = move |provisioner: Arc<dyn Provisioner>, volume: Arc<dyn Backend>, end| {
            if end == End::Killed {
                // A killed process loses what it has not made durable, and saves no usage. The next one ends its session.
                volume.sync().expect("a flush");
                last.lock().upgrade().into_iter().for_each(|volumes| volumes.stop_watch());
                std::mem::forget((volume, provisioner));
            } else {
                drop((volume, provisioner));
            }
            let provisioner = open(&directory, "one");
            *last.lock() = Arc::downgrade(&provisioner);
            provisioner as Arc<dyn Provisioner>
        };
        capacity::Fixture {
            provisioner,
            charging: Charging::Sizes,
            ids: (1234, 5678),
            again: Arc::new(again),
            sweep,
        }
    });
}
