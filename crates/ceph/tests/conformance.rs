//! The suites of backends and provisioners over a Ceph cluster that `cargo xtask ceph` starts.

use ceph::{Options, Volumes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::NodeBudget;
use vfs::sync::Mutex;
use vfs::{Backend, Capacity, Provisioner, Root, VolumeId};
use vfs_testing::conformance::capacity::{self, Charging, End};
use vfs_testing::conformance::{self, Lack};

const ROOT: Root = Root { mode: 0o755, uid: 0, gid: 0 };
const CAPACITY: Capacity = Capacity { bytes: 1 << 40, files: 1 << 20 };
const LACKS: &[(Lack, &str)] = &[
    (Lack::Clones, "CephFS shares no data between files"),
    (Lack::Holes, "CephFS does not tell holes"),
    (Lack::LargeXattrs, "CephFS keeps 64 KiB of attributes with a file"),
];

const PROVISIONER_LACKS: &[(&str, &str)] = &[("quotas", "files on CephFS are not counted by owner yet")];

/// A directory that no other test uses.
fn directory() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    format!("/tests-{process}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn open(directory: &str, name: &str) -> Arc<Volumes> {
    let conf = std::env::var_os("CEPH_CONF").expect("CEPH_CONF names the configuration of a cluster");
    let options = Options {
        conf: conf.into(),
        user: "admin".into(),
        file_system: None,
        directory: directory.into(),
        name: name.into(),
    };
    Volumes::open(&options, NodeBudget::new(10_000)).expect("the cluster answers")
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn backend_suite() {
    let directory = directory();
    let (volumes, next) = (open(&directory, "first"), AtomicU64::new(1));
    let again = open(&directory, "again");
    conformance::run(&|| {
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
fn provisioner_suite() {
    capacity::run_without(PROVISIONER_LACKS, &|| {
        let directory = directory();
        let provisioner = open(&directory, "one");
        let last = Arc::new(Mutex::new(Arc::downgrade(&provisioner)));
        let sweeping = Arc::clone(&last);
        let sweep = Arc::new(move || sweeping.lock().upgrade().into_iter().for_each(|all| all.sweep(4)));
        let again = move |provisioner: Arc<dyn Provisioner>, volume: Arc<dyn Backend>, end| {
            if end == End::Killed {
                // A killed process loses what it has not made durable, and saves no usage. The next one ends its session.
                volume.sync().expect("a flush");
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
