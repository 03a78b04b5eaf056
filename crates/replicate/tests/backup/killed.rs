//! A process that dies in the middle of a backup into a directory, at every step of every object.

use crate::everything;
use crate::linux::Place;
use crate::rig::noise;
use replicate::BackupId;
use replicate::store::{Directory, ObjectSink, ObjectStore, Pace};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, Time};
use vfs_testing::UncheckedNode;

const DIR: &str = "PLIMSOLL_TEST_DIR";
const STEPS: &str = "PLIMSOLL_TEST_STEPS";
const ID: BackupId = BackupId([0xbb; 8]);
const TAKEN: Time = Time { seconds: 4_000_000_000, nanos: 0 };

/// Kills the process after some steps. Each change has three: before it, in the middle, after it.
struct Deadly {
    inner: Directory,
    left: AtomicU64,
}

impl Deadly {
    fn step(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            // No destructor runs.
            std::process::abort();
        }
    }
}

impl ObjectStore for Deadly {
    fn put_new(&self, name: &str, content: &[u8], pace: &mut Pace<'_>) -> io::Result<bool> {
        self.step();
        let mut pieces = 0;
        let mut paced = |bytes| {
            pieces += 1;
            if pieces == 1 {
                self.step();
            }
            pace(bytes)
        };
        let put = self.inner.put_new(name, content, &mut paced);
        self.step();
        put
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.inner.read(name, offset, len)
    }

    fn size(&self, name: &str) -> io::Result<Option<u64>> {
        self.inner.size(name)
    }

    fn list(&self, prefix: &str, sink: &mut ObjectSink<'_>) -> io::Result<()> {
        self.inner.list(prefix, sink)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.step();
        self.inner.delete(name)?;
        self.step();
        Ok(())
    }

    fn retain(&self, name: &str, until: Time) -> io::Result<bool> {
        self.inner.retain(name, until)
    }
}

#[test]
#[ignore = "the process that the test below kills"]
fn inner() {
    let (Some(dir), Ok(steps)) = (std::env::var_os(DIR), std::env::var(STEPS)) else { return };
    let dir = Path::new(&dir);
    let left = AtomicU64::new(steps.parse().unwrap());
    let store = Deadly { inner: Directory::open(&dir.join("vault")).unwrap(), left };
    let place = Place::again(dir, Arc::new(store));
    place.back_up_as(ID, &*place.open("volume"), None, TAKEN).unwrap();
}

#[test]
fn killed_backup_is_finished_by_the_next_process() {
    let Some(place) = Place::new() else { return };
    let volume = place.open("volume");
    everything::fill_tree(&volume.root(), &|| ());
    let large = volume.root().create_unchecked(crate::rig::name(b"large"), &crate::rig::plain()).unwrap();
    large.found.node.write(0, &noise(5, 4 << 20), KEEP_SET_ID).unwrap();
    drop(volume);
    for steps in 0.. {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["killed::inner", "--exact", "--ignored"]);
        let output = again.env(DIR, place.path()).env(STEPS, steps.to_string()).output().unwrap();
        let listed = place.vault.list().unwrap();
        assert_eq!(listed.damaged, []);
        for manifest in &listed.backups {
            assert_eq!(place.compare(manifest, &*place.open("volume")), []);
        }
        if output.status.success() {
            // Session, two parts and manifest: the packs are there by now.
            assert!(steps > 10, "{steps}");
            assert_eq!(listed.backups.len(), 1);
            break;
        }
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6), "{output:?}");
    }
    let drafts = std::fs::read_dir(place.path().join("vault/.drafts")).unwrap().count();
    assert_eq!(drafts, 0, "the last process removed what the others left");
    let mut packs = 0;
    let store = Directory::open(&place.path().join("vault")).unwrap();
    let count = &mut |_: &str, _| {
        packs += 1;
        ControlFlow::Continue(())
    };
    store.list("packs/", count).unwrap();
    assert_eq!(packs, 2, "each pack was sent once");
}
