//! Temporary.
use ceph::{Options, Volumes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::NodeBudget;
use vfs::{Backend, Capacity, Provisioner, Root, VolumeId};
use vfs_testing::conformance::{self, Lack};
const LACKS: &[(Lack, &str)] = &[(Lack::Clones, ""), (Lack::Holes, ""), (Lack::LargeXattrs, "")];
fn open(directory: &str, name: &str) -> Arc<Volumes> {
    let conf = std::env::var_os("CEPH_CONF").expect("CEPH_CONF");
    Volumes::open(&Options { conf: conf.into(), user: "admin".into(), file_system: None, directory: directory.into(), is_exclusive: false, name: name.into() }, NodeBudget::new(10_000)).expect("open")
}
#[test]
#[ignore = "x"]
fn family() {
    let directory = format!("/fam-{}", std::process::id());
    let (volumes, next) = (open(&directory, "first"), AtomicU64::new(1));
    let again = open(&directory, "again");
    let wanted = std::env::var("CASE").unwrap();
    for case in conformance::cases().iter().filter(|case| case.name.contains(&wanted)) {
        let begun = std::time::Instant::now();
        let failure = case.failure(&|| {
            let id = VolumeId(next.fetch_add(1, Ordering::Relaxed));
            volumes.make(id, &Root { mode: 0o755, uid: 0, gid: 0 }, Capacity { bytes: 1 << 40, files: 1 << 20 }).expect("a volume");
            let again = Arc::clone(&again);
            let reopen = move || again.open(id).expect("the volume") as Arc<dyn Backend>;
            let fixture = conformance::Fixture::new(volumes.open(id).expect("the volume")).reopened_by(Box::new(reopen));
            LACKS.iter().fold(fixture, |fixture, &(lack, reason)| fixture.without(lack, reason))
        });
        println!("{} {:?}: {}", case.name, begun.elapsed(), failure.map_or("ok".into(), |f| f.to_string()));
    }
}
