//! Power cuts: the image of the file system at a moment is mounted elsewhere.

use crate::fixture::random_change::{Random, RandomChange};
use crate::fixture::trees::{Seen, assert_same, tree};
use crate::fixture::{Ground, Tree, is_long, name, new_inode};
use crate::{
    CAPACITY, ID, WAIT_MAX, contents, delete, file, live_path, names_in, of, open, opened, prepare, root,
};
use posix::Volumes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::Duration;
use vfs::backend::{KEEP_SET_ID, SyncScope};
use vfs::sync::Mutex;
use vfs::{Backend, Blocking, FsError, Provisioner, ViewId, VolumeId, unpaced};
use vfs_testing::UncheckedNode;

const CLONE: VolumeId = VolumeId(0xc1);

/// The state of the disk just after the answer, without a flush of what followed it.
#[test]
fn snapshot_survives_power_cut() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let volumes = open(&tree.path);
    let volume = opened(&volumes);
    let mut last = 0u32;
    for number in 1..=20u32 {
        file(&volume, &format!("file-{number}"), &number.to_be_bytes());
        of(&volume).create(ViewId(number)).unwrap();
        last = number;
    }
    file(&volume, "later", b"later");
    let copied = Tree::copy_of(&tree);
    let volumes = open(&copied.path);
    let volume = opened(&volumes);
    assert_eq!(of(&volume).list().unwrap().len(), 20);
    for view in 1..=last {
        let snapshot = of(&volume).open(ViewId(view)).unwrap();
        for number in 1..=last {
            let want =
                if number <= view { Ok(number.to_be_bytes().to_vec()) } else { Err(FsError::NotFound) };
            assert_eq!(contents(&snapshot, &format!("file-{number}")), want, "{number} in {view}");
        }
    }
}

/// After each verb the state of the disk at its answer.
#[test]
fn verbs_survive_power_cut() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let after_cut = |check: &dyn Fn(&Arc<Volumes>)| {
        let copied = Tree::copy_of(&tree);
        let volumes = open(&copied.path);
        check(&volumes);
        assert!(volumes.wait_for_trash(WAIT_MAX));
        assert_eq!(names_in(&copied.path.join("trash")), [""; 0]);
    };
    prepare(&tree.path);
    let volumes = open(&tree.path);
    volumes.revert(ID, ViewId(1), &mut unpaced).unwrap();
    after_cut(&|volumes| {
        let volume = opened(volumes);
        assert_eq!(contents(&volume, "file"), Ok(b"one".to_vec()));
        assert_eq!(of(&volume).list(), Ok([1, 2].map(ViewId).to_vec()));
        assert_eq!(volumes.usage(ID).unwrap().files, 2);
    });
    volumes.clone_volume(ID, ViewId(2), CLONE, &root(), CAPACITY, &mut unpaced).unwrap();
    after_cut(&|volumes| {
        let clone = volumes.open(CLONE).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        assert_eq!(contents(&clone, "file"), Ok(b"two".to_vec()));
        assert_eq!(clone.stat().unwrap().bytes_total, CAPACITY.bytes);
    });
    let volume = opened(&volumes);
    delete(&volume, 1);
    after_cut(&|volumes| assert_eq!(of(&opened(volumes)).list(), Ok(vec![ViewId(2)])));
    drop(volume);
    volumes.remove(ID).unwrap();
    after_cut(&|volumes| {
        assert_eq!(volumes.list(), Ok(vec![CLONE]));
        assert_eq!(volumes.revert(ID, ViewId(2), &mut unpaced), Err(FsError::NotFound));
        let clone = volumes.open(CLONE).unwrap();
        assert_eq!(contents(&clone, "file"), Ok(b"two".to_vec()));
    });
}

/// State that the writer knows to be on disk.
#[derive(Clone, Default)]
struct Acknowledged {
    /// The files of each snapshot.
    snapshots: BTreeMap<u32, Arc<BTreeMap<String, Seen>>>,
    /// The number in the file that is flushed each time; 0 without one.
    synced: u64,
    /// The file may have an earlier number after each.
    reverts: u64,
}

const SYNCED: &str = "synced";
const SYNCED_BYTES: usize = 40 << 10;
const SNAPSHOTS_MAX: usize = 6;

struct Writer<'w> {
    volumes: &'w Arc<Volumes>,
    volume: Arc<dyn Backend>,
    random: Random,
    known: &'w Mutex<Acknowledged>,
    next: u32,
    /// No number is flushed twice: a revert brings an earlier one back.
    next_synced: u64,
}

impl Writer<'_> {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let _refused = RandomChange::new(&self.volume.root(), &mut self.random).run();
            match self.random.below(300) {
                0 | 1 => self.create(),
                2 => self.delete(),
                3 => self = self.reverted(),
                4 => self.clone_one(),
                5..30 => self.sync(),
                _ => {}
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Acknowledged> {
        self.known.lock()
    }

    fn some_view(&mut self) -> Option<u32> {
        let views: Vec<u32> = self.known().snapshots.keys().copied().collect();
        let place = self.random.below(views.len().max(1) as u64);
        views.get(usize::try_from(place).unwrap()).copied()
    }

    fn create(&mut self) {
        if self.known().snapshots.len() == SNAPSHOTS_MAX {
            self.delete();
        }
        let view = self.next;
        self.next += 1;
        of(&self.volume).create(ViewId(view)).unwrap();
        let copy = Arc::new(tree(&of(&self.volume).open(ViewId(view)).unwrap().root()));
        self.known().snapshots.insert(view, copy);
    }

    fn delete(&mut self) {
        let Some(view) = self.some_view() else { return };
        self.known().snapshots.remove(&view);
        delete(&self.volume, view);
    }

    fn reverted(mut self) -> Self {
        let Some(view) = self.some_view() else { return self };
        {
            let mut known = self.known();
            known.synced = 0;
            known.reverts += 1;
        }
        let Self { volumes, volume, random, known, next, next_synced } = self;
        drop(volume);
        volumes.revert(ID, ViewId(view), &mut unpaced).unwrap();
        Self { volumes, volume: opened(volumes), random, known, next, next_synced }
    }

    fn clone_one(&mut self) {
        let Some(view) = self.some_view() else { return };
        self.volumes.clone_volume(ID, ViewId(view), CLONE, &root(), CAPACITY, &mut unpaced).unwrap();
        self.volumes.remove(CLONE).unwrap();
    }

    fn sync(&mut self) {
        let root = self.volume.root();
        let number = self.next_synced;
        self.next_synced += 1;
        let file = match root.lookup(name(SYNCED), Blocking::Allowed) {
            Ok(found) => found.node,
            Err(_) => root.create_unchecked(name(SYNCED), &new_inode(0o644)).unwrap().found.node,
        };
        file.write(0, &number.to_be_bytes().repeat(SYNCED_BYTES / 8), KEEP_SET_ID).unwrap();
        file.sync(SyncScope::All).unwrap();
        root.sync(SyncScope::All).unwrap();
        self.known().synced = number;
    }
}

/// Ends the writer even if a comparison fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Everything that was acknowledged both before and after a cut is there.
fn check_cut(what: &str, copied: &Tree, before: &Acknowledged, after: &Acknowledged) {
    let volumes = open(&copied.path);
    let volume = opened(&volumes);
    let listed = of(&volume).list().unwrap();
    for (view, copy) in &before.snapshots {
        if !after.snapshots.contains_key(view) {
            // Its deletion may have begun.
            continue;
        }
        assert!(listed.contains(&ViewId(*view)), "{what}: snapshot {view} is lost");
        let snapshot = of(&volume).open(ViewId(*view)).unwrap();
        assert_same(&format!("{what}, snapshot {view}"), &tree(&snapshot.root()), copy);
    }
    // A snapshot that was not acknowledged yet is whole, if it is there.
    listed.iter().for_each(|view| drop(tree(&of(&volume).open(*view).unwrap().root())));
    if before.synced > 0 && before.reverts == after.reverts {
        let found = volume.root().lookup(name(SYNCED), Blocking::Allowed).unwrap();
        let data = found.node.read_vec(0, 2 * SYNCED_BYTES, Blocking::Allowed).unwrap();
        let numbers: Vec<u64> =
            data.as_chunks::<8>().0.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect();
        assert_eq!(data.len(), SYNCED_BYTES, "{what}");
        assert!(numbers.iter().all(|number| *number >= before.synced), "{what}: a flush is lost");
    }
    assert_eq!(Volumes::recount(&live_path(&copied.path)).unwrap(), volumes.usage(ID).unwrap(), "{what}");
    drop(tree(&volume.root()));
    assert!(volumes.wait_for_trash(WAIT_MAX));
    assert_eq!(names_in(&copied.path.join("trash")), [""; 0], "{what}");
}

#[test]
fn snapshots_survive_power_cuts_beside_a_writer() {
    let cuts = if is_long() { 50 } else { 5 };
    // XFS copies an image in one moment.
    let Some(host) = Tree::new(Ground::XfsForImages) else { return };
    let Some(disk) = Tree::new_in(&host.path, Ground::Btrfs) else { return };
    let volumes = open(&disk.path);
    let known = Mutex::default();
    let stop = AtomicBool::new(false);
    let volume = opened(&volumes);
    let writer =
        Writer { volumes: &volumes, volume, random: Random(1), known: &known, next: 1, next_synced: 1 };
    let mut random = Random(77);
    thread::scope(|scope| {
        let stop = Stop(&stop);
        let writing = scope.spawn(|| writer.run(stop.0));
        let mut compared = 0;
        for cut in 1..=cuts {
            thread::sleep(Duration::from_millis(20 + random.below(600)));
            assert!(!writing.is_finished(), "the writer has failed");
            let before = known.lock().clone();
            let copied = disk.copy_at_once();
            let after = known.lock().clone();
            check_cut(&format!("cut {cut}"), &copied, &before, &after);
            compared += before.snapshots.len();
        }
        assert!(compared > 0, "there were snapshots");
    });
}
