//! Real files, and a vault in a directory.

use crate::everything;
use crate::rig::{name, new_id, noise, owner, plain, random, source_of};
use posix::{Options, Store};
use replicate::store::{Directory, ObjectStore};
use replicate::{
    BackupId, Depth, Error, Job, Key, Manifest, Progress, Restore, Selection, Source, Vault, VaultOptions,
    Verify, backup, compare, restore, verify,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, SetXattr, Snapshots, Time, ViewId, XattrName};
use vfs_testing::UncheckedNode;

pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time { seconds: i64::try_from(since.as_secs()).unwrap(), nanos: since.subsec_nanos() }
}

pub(crate) struct Place {
    path: PathBuf,
    pub(crate) vault: Vault,
    _dir: Option<tempfile::TempDir>,
}

const KEY: Key = Key([4; 32]);

impl Place {
    /// In memory, because the kernel keeps everything there that a test may set.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            crate::skip::skip("only root makes devices and files of others");
            return None;
        }
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Directory::open(&dir.path().join("vault")).unwrap();
        let options = VaultOptions { key: Some(KEY), owner: owner(1), created: now() };
        let vault = Vault::create(Arc::new(store), &options, &mut random).unwrap();
        Some(Self { path: dir.path().to_owned(), vault, _dir: Some(dir) })
    }

    /// The place of another process.
    pub(crate) fn again(path: &Path, store: Arc<dyn ObjectStore>) -> Self {
        let vault = Vault::open(store, Some(&KEY), Some(&owner(1)), &mut random).unwrap();
        Self { path: path.to_owned(), vault, _dir: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn open(&self, name: &str) -> Arc<Store> {
        let path = self.path.join(name);
        let _ = std::fs::create_dir(&path);
        Store::open(&path, Options::default()).unwrap()
    }

    pub(crate) fn back_up(
        &self,
        backend: &dyn Backend,
        previous: Option<&Manifest>,
        taken: Time,
    ) -> (Manifest, Progress) {
        self.back_up_as(new_id(), backend, previous, taken).unwrap()
    }

    /// Backs up the second one of two snapshots, after the first one.
    pub(crate) fn back_up_changes(
        &self,
        snapshots: &dyn Snapshots,
        [from, to]: [ViewId; 2],
        previous: &Manifest,
        taken: Time,
    ) -> (Manifest, Progress) {
        let view = snapshots.open(to).unwrap();
        let changes = snapshots.changes(from, to).unwrap();
        assert!(changes.is_some());
        let source = Source { changes: changes.as_deref(), ..source_of(&*view, Some(previous.id), taken) };
        self.run(new_id(), &source).unwrap()
    }

    pub(crate) fn back_up_as(
        &self,
        id: BackupId,
        backend: &dyn Backend,
        previous: Option<&Manifest>,
        taken: Time,
    ) -> Result<(Manifest, Progress), Error> {
        let previous = previous.map(|previous| previous.id);
        self.run(id, &source_of(backend, previous, taken))
    }

    fn run(&self, id: BackupId, source: &Source<'_>) -> Result<(Manifest, Progress), Error> {
        let mut last = Progress::default();
        let mut job = Job {
            scratch: &self.path,
            random: &mut random,
            now: &now,
            pace: &mut |_| ControlFlow::Continue(()),
            progress: &mut |progress| {
                last = *progress;
                ControlFlow::Continue(())
            },
        };
        let manifest = backup(&self.vault, id, source, &mut job)?;
        Ok((manifest, last))
    }

    pub(crate) fn compare(&self, manifest: &Manifest, backend: &dyn Backend) -> Vec<replicate::Difference> {
        compare(&self.vault, manifest, backend, 20, &mut || ControlFlow::Continue(())).unwrap()
    }
}

#[test]
fn real_files_are_restored_with_everything() {
    let Some(place) = Place::new() else { return };
    let volume = place.open("volume");
    everything::fill_tree(&volume.root(), &|| ());
    let (first, _) = place.back_up(&*volume, None, now());
    assert_eq!(place.compare(&first, &*volume), []);
    let target = place.open("target");
    let mut job = Restore {
        selection: Selection::Whole,
        pace: &mut |_| ControlFlow::Continue(()),
        progress: &mut |_| ControlFlow::Continue(()),
    };
    restore(&place.vault, &first, &*target, &mut job).unwrap();
    assert_eq!(place.compare(&first, &*target), []);
    // Again with all that a restart forgets.
    drop(target);
    assert_eq!(place.compare(&first, &*place.open("target")), []);
    let progress = &mut |_, _| ControlFlow::Continue(());
    let mut job = Verify { depth: Depth::Data, pace: &mut |_| ControlFlow::Continue(()), progress };
    assert_eq!(verify(&place.vault, &first, &mut job).unwrap(), []);
}

#[test]
fn change_of_a_real_file_is_found_by_its_change_time() {
    let Some(place) = Place::new() else { return };
    let volume = place.open("volume");
    everything::fill_tree(&volume.root(), &|| ());
    let (root, mut later) = (volume.root(), now());
    let file = root.create_unchecked(name(b"file"), &plain()).unwrap().found.node;
    file.write(0, &noise(1, 3 << 20), KEEP_SET_ID).unwrap();
    // As if the snapshot were old enough to trust times.
    later.seconds += 3600;
    let (first, _) = place.back_up(&*volume, None, later);
    std::thread::sleep(Duration::from_millis(30));
    let (_, unchanged) = place.back_up(&*volume, Some(&first), later);
    assert_eq!(unchanged.bytes_read, 0);
    let xattr = XattrName::new(b"new").unwrap();
    file.xattrs().unwrap().set(xattr, b"value", SetXattr::Either, &|_| Ok(())).unwrap();
    let (second, changed) = place.back_up(&*volume, Some(&first), later);
    assert_eq!(changed.bytes_read, 3 << 20);
    // Its leaf may have the file with the large attribute, too.
    assert!(second.totals.sent_bytes < 100_000, "its data is there: {}", second.totals.sent_bytes);
    assert_eq!(place.compare(&second, &*volume), []);
}
