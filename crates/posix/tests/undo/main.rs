//! Snapshots of volumes, against whole copies of the tree from the time of each.

#[path = "../fixture/mod.rs"]
mod fixture;
mod power;
mod streams;
mod trees;

use fixture::{DIR, Ground, MODE, Tree, name, new_inode, set_acl};
use posix::{Options, Volumes};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use trees::{Seen, anew, assert_same, tree};
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Attrs, Backend, Blocking, Capacity, FileType, FsError, FsResult, NodeRef, Provisioner, Root, SetAttrs,
    SetTime, SetXattr, Snapshots, Span, Special, Time, ViewId, VolumeId, XattrName, unpaced,
};
use vfs_testing::UncheckedNode;
use vfs_testing::conformance::{Case, Fixture, Lack, cases};

const GROUNDS: [Ground; 3] = [Ground::Tmpfs, Ground::Ext4, Ground::Xfs];
const ID: VolumeId = VolumeId(7);
const CLONE: VolumeId = VolumeId(8);
const CAPACITY: Capacity = Capacity { bytes: 200 << 20, files: 100_000 };
const ALLOWED: Blocking = Blocking::Allowed;
/// Only a hang takes this long.
const WAIT_MAX: Duration = Duration::from_secs(600);
const ANY: vfs::AuthorizeRemove<'static> = &|_| Ok(());

fn open(data: &Path) -> Arc<Volumes> {
    Volumes::open(data, Options { copy_snapshots: true, ..Options::default() }).expect("volumes")
}

/// A volume, and its volumes, which must live as long.
struct Rig {
    data: std::path::PathBuf,
    volumes: Arc<Volumes>,
    volume: Arc<dyn Backend>,
    root: Root,
}

impl Rig {
    fn new(data: &Path) -> Self {
        let volumes = open(data);
        let own = new_inode(0o755);
        let root = Root { mode: own.mode, uid: own.uid, gid: own.gid };
        volumes.make(ID, &root, CAPACITY).unwrap();
        let volume = volumes.open(ID).unwrap();
        Self { data: data.to_owned(), volumes, volume, root }
    }

    /// The volume as after a restart.
    fn reopened(self) -> Self {
        let Self { data, volumes, volume, root } = self;
        drop(volume);
        volumes.close();
        drop(volumes);
        let volumes = open(&data);
        let volume = volumes.open(ID).unwrap();
        Self { data, volumes, volume, root }
    }

    /// The volume after a revert.
    fn reverted(self, view: u32) -> Self {
        let Self { data, volumes, volume, root } = self;
        drop(volume);
        volumes.revert(ID, ViewId(view), &mut unpaced).unwrap();
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        Self { data, volumes, volume, root }
    }

    fn snapshots(&self) -> &dyn Snapshots {
        self.volume.snapshots().expect("snapshots")
    }

    fn view(&self, view: u32) -> Arc<dyn Backend> {
        self.snapshots().open(ViewId(view)).unwrap()
    }
}

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A random change of the tree below `root`. Refusals are as good as changes.
struct RandomChange<'r> {
    root: &'r NodeRef,
    dir: NodeRef,
    file_name: String,
    dir_name: String,
    other_file: String,
    random: &'r mut Random,
}

impl<'r> RandomChange<'r> {
    fn new(root: &'r NodeRef, random: &'r mut Random) -> Self {
        let mut dir = NodeRef::clone(root);
        for _ in 0..random.below(3) {
            match dir.lookup(name(&format!("d{}", random.below(3))), ALLOWED) {
                Ok(found) if found.attrs.file_type == FileType::Directory => dir = found.node,
                _ => break,
            }
        }
        let [file_name, other_file] = [random.below(6), random.below(6)].map(|number| format!("f{number}"));
        let dir_name = format!("d{}", random.below(3));
        Self { root, dir, file_name, dir_name, other_file, random }
    }

    fn run(mut self) -> FsResult<()> {
        match self.random.below(22) {
            0..5 => self.make(),
            5..10 => self.write(),
            10..15 => self.set(),
            15..20 => self.name(),
            _ => self.range(),
        }
    }

    fn file(&self) -> FsResult<NodeRef> {
        self.dir.lookup(name(&self.file_name), ALLOWED).map(|found| found.node)
    }

    fn make(&mut self) -> FsResult<()> {
        let (dir, file_name, new) = (&self.dir, name(&self.file_name), new_inode(0o644));
        match self.random.below(5) {
            0 | 1 => dir.create_unchecked(file_name, &new).map(drop),
            2 => dir.make_dir_unchecked(name(&self.dir_name), &new_inode(0o755)).map(drop),
            3 => dir.make_special(file_name, Special::Symlink(b"target"), &|_| Ok(new)).map(drop),
            _ => dir.make_special(file_name, Special::Fifo, &|_| Ok(new)).map(drop),
        }
    }

    fn write(&mut self) -> FsResult<()> {
        let offset_max = [200_000, 2 << 20][usize::from(self.random.below(5) == 0)];
        let (offset, len) = (self.random.below(offset_max), 1 + self.random.below(40_000));
        let byte = u8::try_from(self.random.below(255) + 1).unwrap();
        let data = vec![byte; usize::try_from(len).unwrap()];
        self.file()?.write(offset, &data, KEEP_SET_ID).map(drop)
    }

    fn set(&mut self) -> FsResult<()> {
        let file = self.file()?;
        let set = match self.random.below(5) {
            0 => SetAttrs { size: Some(self.random.below(250_000)), ..SetAttrs::default() },
            // Large, and mostly holes.
            1 => SetAttrs { size: Some(self.random.below(3 << 20)), ..SetAttrs::default() },
            2 => {
                let mode = u32::try_from(self.random.below(0o777)).unwrap() | 0o600;
                let seconds = i64::try_from(self.random.below(1 << 30)).unwrap();
                let modified = Some(SetTime::To(Time { seconds, nanos: 0 }));
                SetAttrs { mode: Some(mode), modified, ..SetAttrs::default() }
            }
            3 => {
                let value = vec![7; usize::try_from(self.random.below(300)).unwrap()];
                let attribute = format!("x{}", self.random.below(3));
                let attribute = XattrName::new(attribute.as_bytes())?;
                let xattrs = file.xattrs().ok_or(FsError::NotSupported)?;
                return xattrs.set(attribute, &value, SetXattr::Either, &|_| Ok(())).map(drop);
            }
            _ => {
                let xattrs = file.xattrs().ok_or(FsError::NotSupported)?;
                return xattrs.remove(XattrName::new(b"x1")?, &|_| Ok(())).map(drop);
            }
        };
        file.set_attrs(&set).map(drop)
    }

    fn name(&mut self) -> FsResult<()> {
        let (dir, file_name, dir_name) = (&self.dir, name(&self.file_name), name(&self.dir_name));
        match self.random.below(5) {
            0 | 1 => dir.remove(file_name, ANY).map(drop),
            2 => dir.remove_dir(dir_name, ANY).map(drop),
            3 => {
                let to = self.root.lookup(dir_name, ALLOWED).map_or(dir.clone(), |to| to.node);
                let from = if self.random.below(4) == 0 { dir_name } else { file_name };
                let target = if self.random.below(4) == 0 { &self.dir_name } else { &self.other_file };
                dir.rename(from, &to, name(target), &|_, _| Ok(())).map(drop)
            }
            _ => self.root.link(name(&self.other_file), &self.file()?, &|_| Ok(())).map(drop),
        }
    }

    fn range(&mut self) -> FsResult<()> {
        let file = self.file()?;
        let ranges = file.ranges().ok_or(FsError::NotSupported)?;
        let len_max = [60_000, 2 << 20][usize::from(self.random.below(3) == 0)];
        let (offset, len) = (self.random.below(200_000), 1 + self.random.below(len_max));
        match self.random.below(4) {
            0 => ranges.punch(offset, len, KEEP_SET_ID).map(drop),
            1 => ranges.zero(offset, len, KEEP_SET_ID).map(drop),
            _ => {
                let to = self.root.lookup(name(&self.other_file), ALLOWED)?.node;
                let [source, target, len] = [20, 20, 9].map(|blocks| 4096 * self.random.below(blocks));
                let span = Span { source, target, len: len + 4096 };
                // ext4 and tmpfs share no blocks.
                let cloned = ranges.clone_to(&to, &span, KEEP_SET_ID).map(drop);
                ranges.copy_to(&to, &span, KEEP_SET_ID).map(drop).or(cloned)
            }
        }
    }
}

/// Bytes of a file in a view: at its start, within, and at its end.
fn samples(root: &NodeRef, file: &str, size: u64) -> Vec<u8> {
    let node = root.lookup(name(file), ALLOWED).unwrap().node;
    assert_eq!(node.attrs(ALLOWED).unwrap().size, size);
    [0, 9 << 20, size / 2, size - 8].iter().flat_map(|at| node.read_vec(*at, 8, ALLOWED).unwrap()).collect()
}

#[test]
fn sparse_file_of_any_size_is_truncated_and_comes_back_sparse() {
    const SIZE: u64 = 4 << 40;
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let rig = Rig::new(&tree.path);
        rig.volumes.set_capacity(ID, Capacity { bytes: 64 << 40, files: 1000 }).unwrap();
        let root = rig.volume.root();
        let file = root.create_unchecked(name("sparse"), &new_inode(0o644)).unwrap().found.node;
        let size = |size| SetAttrs { size: Some(size), ..SetAttrs::default() };
        file.set_attrs(&size(SIZE)).unwrap();
        file.write(SIZE / 2, b"in it, ", KEEP_SET_ID).unwrap();
        file.write(SIZE - 4, b"end.", KEEP_SET_ID).unwrap();
        rig.snapshots().create(ViewId(1)).unwrap();
        let before = samples(&root, "sparse", SIZE);
        file.write(9 << 20, b"a change", KEEP_SET_ID).unwrap();
        rig.snapshots().create(ViewId(2)).unwrap();
        let changed = samples(&root, "sparse", SIZE);
        let used = rig.volumes.usage(ID).unwrap().bytes;
        file.ranges().unwrap().punch(1 << 30, SIZE - (2 << 30), KEEP_SET_ID).unwrap();
        file.set_attrs(&size(10)).unwrap();
        file.set_attrs(&size(SIZE)).unwrap();
        // Only what had data is held.
        assert!(rig.volumes.usage(ID).unwrap().bytes < used + (1 << 20));
        assert_eq!(samples(&rig.view(1).root(), "sparse", SIZE), before);
        assert_eq!(samples(&rig.view(2).root(), "sparse", SIZE), changed);
        let old = rig.view(2).root().lookup(name("sparse"), ALLOWED).unwrap().node;
        assert_eq!(old.ranges().unwrap().seek(1 << 30, vfs::Seek::Data).unwrap(), Some(SIZE / 2));
        assert!(old.ranges().unwrap().seek(0, vfs::Seek::Hole).unwrap().is_some_and(|hole| hole < 9 << 20));
        check_count(&rig);
        drop((root, file, old));
        // The records of the later one move to the earlier one.
        let rig = rig.reopened();
        assert!(rig.snapshots().delete(ViewId(2), &mut |_| ControlFlow::Continue(())).unwrap());
        rig.snapshots().create(ViewId(3)).unwrap();
        assert!(rig.snapshots().delete(ViewId(3), &mut |_| ControlFlow::Continue(())).unwrap());
        assert_eq!(samples(&rig.view(1).root(), "sparse", SIZE), before);
        check_count(&rig);
        let rig = rig.reverted(1);
        assert_eq!(samples(&rig.volume.root(), "sparse", SIZE), before);
        let back = rig.volume.root().lookup(name("sparse"), ALLOWED).unwrap();
        assert!(back.attrs.used < 1 << 20, "{}", back.attrs.used);
        check_count(&rig);
    }
}

fn soak(data: &Path, seed: u64, steps: u32) {
    let mut rig = Rig::new(data);
    let mut random = Random(seed);
    let mut copies: BTreeMap<u32, BTreeMap<String, Seen>> = BTreeMap::new();
    let (mut next, mut done) = (1, 0);
    let mut was_left = false;
    for step in 0..steps {
        done += u32::from(RandomChange::new(&rig.volume.root(), &mut random).run().is_ok());
        if random.below(25) == 0 {
            rig.snapshots().create(ViewId(next)).unwrap();
            copies.insert(next, tree(&rig.volume.root()));
            next += 1;
        }
        if copies.len() > 4 || (!copies.is_empty() && random.below(60) == 0) {
            let place = usize::try_from(random.below(copies.len() as u64)).unwrap();
            let view = *copies.keys().nth(place).unwrap();
            // Some deletions are stopped, and go on with the next one.
            let mut left = random.below(40);
            let stops = random.below(3) == 0;
            let (used, own) =
                (rig.volumes.usage(ID).unwrap().bytes, rig.snapshots().usage(ViewId(view)).unwrap());
            rig.snapshots()
                .delete(ViewId(view), &mut |_| {
                    left = left.saturating_sub(1);
                    if stops && left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
                .unwrap();
            copies.remove(&view);
            // The records of the latest snapshot stay while an earlier one needs them: the next deletion frees more.
            let is_left = stops || !copies.contains_key(&(next - 1));
            if !std::mem::replace(&mut was_left, is_left) && !stops {
                let freed = used - rig.volumes.usage(ID).unwrap().bytes;
                assert_eq!(own.own_bytes, Some(freed), "seed {seed}, step {step}, snapshot {view}");
            }
        }
        if random.below(150) == 0 {
            rig = rig.reopened();
        }
        if random.below(70) == 0
            && let Some((&view, copy)) = copies.iter().nth(usize::try_from(random.below(4)).unwrap())
        {
            rig = rig.reverted(view);
            let what = format!("seed {seed}, step {step}, back at {view}");
            assert_same(&what, &anew(&tree(&rig.volume.root()), true), &anew(copy, true));
            check_count(&rig);
        }
        if random.below(70) == 0
            && let Some((&view, copy)) = copies.iter().nth(usize::try_from(random.below(4)).unwrap())
        {
            let root = Root { mode: 0o755, ..rig.root };
            rig.volumes.clone_volume(ID, ViewId(view), CLONE, &root, CAPACITY, &mut unpaced).unwrap();
            let what = format!("seed {seed}, step {step}, clone of {view}");
            let clone = rig.volumes.open(CLONE).unwrap();
            assert_same(&what, &anew(&tree(&clone.root()), false), &anew(copy, false));
            rig.volumes.remove(CLONE).unwrap();
        }
        if step.is_multiple_of(20) {
            check_count(&rig);
        }
        let listed: Vec<u32> = rig.snapshots().list().unwrap().into_iter().map(|view| view.0).collect();
        assert_eq!(listed, copies.keys().copied().collect::<Vec<_>>());
        if step.is_multiple_of(5) {
            for (view, copy) in &copies {
                let what = format!("seed {seed}, step {step}, snapshot {view}");
                assert_same(&what, &tree(&rig.view(*view).root()), copy);
            }
        }
    }
    assert!(done > steps / 10, "{done} of {steps} changes happened");
    check_space(&rig, copies.keys().copied().collect());
}

/// Without snapshots, all their space is free again.
fn check_space(rig: &Rig, views: Vec<u32>) {
    // What a stopped deletion has left goes on with the next one, even of a snapshot that is gone.
    for view in [1].into_iter().chain(views) {
        assert_eq!(rig.snapshots().delete(ViewId(view), &mut |_| ControlFlow::Continue(())), Ok(true));
    }
    let records: Vec<_> = std::fs::read_dir(rig.data.join("snapshots/0000000000000007/records"))
        .unwrap()
        .flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(records.is_empty(), "{records:?}");
    check_count(rig);
}

/// The running count is that of the live files and of what the snapshots hold.
#[track_caller]
fn check_count(rig: &Rig) {
    let counted = rig.volumes.usage(ID).unwrap();
    let live = Volumes::recount(&rig.data.join("volumes/0000000000000007")).unwrap();
    let held = rig.volumes.recount_held(ID).unwrap();
    assert_eq!(counted, vfs::Usage { bytes: live.bytes + held, ..live }, "of these are {held} held");
}

/// The lacks of a file system in the conformance suite.
fn lacks_of(ground: Ground) -> &'static [(Lack, &'static str)] {
    match ground {
        Ground::Tmpfs => &[(Lack::Clones, "tmpfs shares no blocks")],
        Ground::Ext4 => &[
            (Lack::Clones, "ext4 shares no blocks"),
            (Lack::LargeXattrs, "ext4 keeps the attributes of a file in its inode and one block"),
        ],
        _ => &[
            (Lack::LargeDevices, "XFS refuses them with EINVAL"),
            (Lack::LongTargets, "XFS keeps 1,023 bytes (XFS_SYMLINK_MAXLEN)"),
        ],
    }
}

/// The conformance suite on volumes with undo stores. With `snapshot`, each volume has a snapshot that nobody looks at,
/// so that every change preserves something first.
fn run_suite(ground: Ground, snapshot: bool) {
    let Some(tree) = Tree::new(ground) else { return };
    let make = |has_snapshots: bool| {
        let dir = tempfile::tempdir_in(&tree.path).unwrap();
        let volumes = open(dir.path());
        let own = new_inode(0o755);
        let root = Root { mode: own.mode, uid: own.uid, gid: own.gid };
        volumes.make(ID, &root, Capacity { bytes: 1 << 40, files: 1 << 20 }).unwrap();
        let volume = volumes.open(ID).unwrap();
        let live = dir.path().join("volumes/0000000000000007");
        let fixture = Fixture::new(Arc::clone(&volume)).keeping((volumes, dir));
        let fixture =
            lacks_of(ground).iter().fold(fixture, |fixture, &(lack, reason)| fixture.without(lack, reason));
        if has_snapshots {
            // An undo store does not see the changes of other programs.
            return fixture;
        }
        if snapshot {
            volume.snapshots().expect("snapshots").create(ViewId(1)).unwrap();
        }
        fixture.with_acls_set_by(Box::new(move |file, kind, acl| set_acl(&live.join(file), kind, acl)))
    };
    let failure = |case: Case| {
        let has_snapshots = case.name.starts_with("snapshots/");
        // Those cases make their own snapshots.
        if snapshot && has_snapshots {
            None
        } else {
            case.failure(&|| make(has_snapshots)).map(|failure| (case, failure))
        }
    };
    let failed: Vec<_> = cases()
        .into_iter()
        .filter_map(failure)
        .map(|(case, failure)| format!("{}: {failure}", case.name))
        .collect();
    assert!(failed.is_empty(), "on {ground:?}: {failed:#?}");
}

#[test]
fn suite_with_undo_store() {
    GROUNDS.into_iter().for_each(|ground| run_suite(ground, false));
}

#[test]
fn suite_with_an_unseen_snapshot() {
    GROUNDS.into_iter().for_each(|ground| run_suite(ground, true));
}

#[test]
fn snapshots_stay_as_they_were_under_random_changes() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        // More seeds by hand: PLIMSOLL_SEEDS=100
        let seeds = std::env::var("PLIMSOLL_SEEDS").map_or(2, |seeds| seeds.parse().unwrap());
        for seed in 1..=seeds {
            eprintln!("on {ground:?}, seed {seed}");
            let data = tree.path.join(format!("data-{seed}"));
            std::fs::create_dir(&data).unwrap();
            soak(&data, seed, 400);
        }
    }
}

/// Writes of one thread: to its first file, then the same number to its second, and a new name each time.
struct Writer {
    files: [NodeRef; 2],
    dir: NodeRef,
    /// The last number that both files have.
    done: Arc<AtomicU64>,
}

const WRITE_BYTES: usize = 24 << 10;
/// Names that a writer leaves.
const NAMES: u64 = 3;

impl Writer {
    fn new(root: &NodeRef, number: usize) -> Self {
        let dir = root.make_dir_unchecked(name(&format!("w{number}")), &new_inode(0o755)).unwrap().found.node;
        let files = ["a", "b"].map(|file| {
            let file = dir.create_unchecked(name(file), &new_inode(0o644)).unwrap().found.node;
            file.write(0, &[0; WRITE_BYTES], KEEP_SET_ID).unwrap();
            file
        });
        Self { files, dir, done: Arc::default() }
    }

    fn run(&self, stop: &AtomicBool) {
        let mut number = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            for file in &self.files {
                let data = number.to_be_bytes().repeat(WRITE_BYTES / 8);
                file.write(0, &data, KEEP_SET_ID).unwrap();
            }
            self.dir.create_unchecked(name(&format!("n{number}")), &new_inode(0o644)).unwrap();
            if number > NAMES {
                self.dir.remove(name(&format!("n{}", number - NAMES)), ANY).unwrap();
            }
            // A second name of the second file.
            self.dir.link(name(&format!("l{number}")), &self.files[1], &|_| Ok(())).unwrap();
            if number > 1 {
                self.dir.remove(name(&format!("l{}", number - 1)), ANY).unwrap();
            }
            self.done.store(number, Ordering::SeqCst);
        }
    }
}

/// The numbers in the two files of a writer, and those of its names.
fn seen_of(root: &NodeRef, number: usize) -> ([u64; 2], Vec<u64>) {
    let dir = root.lookup(name(&format!("w{number}")), ALLOWED).unwrap().node;
    let files = ["a", "b"].map(|file| {
        let file = dir.lookup(name(file), ALLOWED).unwrap().node;
        let mut data = Vec::new();
        file.read(0, WRITE_BYTES, &mut data, ALLOWED).unwrap();
        let (words, rest) = data.as_chunks::<8>();
        assert!(rest.is_empty() && words.len() == WRITE_BYTES / 8);
        assert!(words.iter().all(|word| *word == words[0]), "a write is in a snapshot whole or not at all");
        u64::from_be_bytes(words[0])
    });
    let (mut names, mut links) = (Vec::new(), 1);
    dir.read_dir(0, false, &mut |entry| {
        links += u32::from(entry.name.starts_with(b"l"));
        names.extend(
            std::str::from_utf8(entry.name).unwrap().strip_prefix('n').map(|n| n.parse::<u64>().unwrap()),
        );
        ControlFlow::Continue(())
    })
    .unwrap();
    names.sort_unstable();
    let second = dir.lookup(name("b"), ALLOWED).unwrap();
    assert_eq!(second.attrs.links, links, "a link is in a snapshot with its count");
    (files, names)
}

#[test]
fn snapshot_is_one_moment_of_concurrent_changes() {
    const WRITERS: usize = 4;
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let rig = Rig::new(&tree.path);
        let writers: Vec<_> = (0..WRITERS).map(|number| Writer::new(&rig.volume.root(), number)).collect();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            writers.iter().for_each(|writer| drop(scope.spawn(|| writer.run(&stop))));
            let mut first = BTreeMap::new();
            for view in 1..=20 {
                let before: Vec<_> =
                    writers.iter().map(|writer| writer.done.load(Ordering::SeqCst)).collect();
                rig.snapshots().create(ViewId(view)).unwrap();
                let root = rig.view(view).root();
                for (number, before) in before.into_iter().enumerate() {
                    let seen = seen_of(&root, number);
                    let ([a, b], names) = &seen;
                    assert!(*a == *b || *a == b + 1, "{ground:?}: {a} before {b}");
                    assert!(*b >= before, "{ground:?}: {b} has lost {before}");
                    assert!(names.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ground:?}: {names:?}");
                    assert!(names.last().is_none_or(|last| (b - 1..=*b).contains(last)), "{b}: {names:?}");
                    first.insert((view, number), seen);
                }
            }
            stop.store(true, Ordering::Relaxed);
            for ((view, number), seen) in &first {
                assert_eq!(seen_of(&rig.view(*view).root(), *number), *seen, "{ground:?}: snapshot {view}");
            }
        });
        check_count(&rig);
    }
}

/// A line for each path of a tree, to compare with what another process has seen.
fn lines(tree: &BTreeMap<String, Seen>) -> String {
    let line = |(path, seen): (&String, &Seen)| {
        let Seen { attrs, key, content, xattrs } = seen;
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        // The number of an unchanged file may be another one in another process.
        let attrs = Attrs { change: 0, ..*attrs };
        format!("{path:?} {key:?} {attrs:?} {xattrs:?} {:x}\n", hasher.finish())
    };
    tree.iter().map(line).collect()
}

/// The file that names the snapshot to which a volume goes back.
const BACK: &str = "back";

/// The file that has the number of the next snapshot.
const NEXT: &str = "next";

/// Changes a volume for ever, with snapshots and reverts, and writes down what each shows. `more` changes it between, and is
/// called without it before each revert.
fn change_for_ever(data: &Path, copies: &Path, seed: u64, more: &mut dyn FnMut(Option<&NodeRef>)) {
    let mut rig = Rig::new(data);
    assert!(rig.volumes.wait_for_counts(WAIT_MAX));
    let write = |name: &str, text: &str| {
        std::fs::write(copies.join("draft"), text).unwrap();
        std::fs::rename(copies.join("draft"), copies.join(name)).unwrap();
    };
    let mut random = Random(seed);
    // No number is used again, even of a snapshot that was never ready.
    let mut next = std::fs::read_to_string(copies.join(NEXT)).map_or(1, |next| next.parse().unwrap());
    loop {
        let _refused = RandomChange::new(&rig.volume.root(), &mut random).run();
        more(Some(&rig.volume.root()));
        match random.below(60) {
            0 => {
                write(NEXT, &(next + 1).to_string());
                rig.snapshots().create(ViewId(next)).unwrap();
                let copy = tree(&rig.volume.root());
                write(&format!("anew-{next}"), &lines(&anew(&copy, true)));
                write(&next.to_string(), &lines(&copy));
                next += 1;
            }
            2 => {
                let views = rig.snapshots().list().unwrap();
                let place = random.below(views.len().max(1) as u64);
                let view = views.get(usize::try_from(place).unwrap());
                if let Some(view) = view.filter(|view| copies.join(view.0.to_string()).exists()) {
                    more(None);
                    write(BACK, &view.0.to_string());
                    rig = rig.reverted(view.0);
                    std::fs::remove_file(copies.join(BACK)).unwrap();
                }
            }
            1 => {
                let views = rig.snapshots().list().unwrap();
                if views.len() > 3 {
                    let view = views[usize::try_from(random.below(views.len() as u64)).unwrap()];
                    let _may_have_none = std::fs::remove_file(copies.join(view.0.to_string()));
                    rig.snapshots().delete(view, &mut |_| ControlFlow::Continue(())).unwrap();
                }
            }
            _ => {}
        }
    }
}

/// Run by the test below in a process of its own, which it kills.
#[test]
#[ignore = "run by another test in a process of its own"]
fn inner() {
    let (Some(dir), Ok(seed)) = (std::env::var_os(DIR), std::env::var(MODE)) else { return };
    let data = Path::new(&dir);
    match seed.parse() {
        Ok(seed) => change_for_ever(data, &data.join("copies"), seed, &mut |_| ()),
        Err(_) => power::change_until_cut(data, &seed),
    }
}

#[test]
fn snapshots_survive_kills_at_any_moment() {
    let rounds = std::env::var("PLIMSOLL_KILLS").map_or(6, |rounds| rounds.parse().unwrap());
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let copies = tree.path.join("copies");
        std::fs::create_dir(&copies).unwrap();
        for round in 1..=rounds {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["inner", "--exact", "--ignored"])
                .env(DIR, &tree.path)
                .env(MODE, round.to_string())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // Until it has made something, and some time more.
            while std::fs::read_dir(&copies).unwrap().next().is_none() {
                assert_eq!(child.try_wait().unwrap(), None, "{ground:?}");
                thread::sleep(Duration::from_millis(10));
            }
            thread::sleep(Duration::from_millis(500 + round * 77 % 400));
            child.kill().unwrap();
            child.wait().unwrap();
            check_after_kill(ground, &tree.path, &copies);
        }
    }
}

fn check_after_kill(ground: Ground, data: &Path, copies: &Path) {
    let mut rig = Rig::new(data);
    assert!(rig.volumes.wait_for_counts(WAIT_MAX));
    if let Ok(view) = std::fs::read_to_string(copies.join(BACK)) {
        eprintln!("{ground:?}: killed on the way back to {view}");
        // The caller does not know how far it came.
        rig = rig.reverted(view.parse().unwrap());
        let want = std::fs::read_to_string(copies.join(format!("anew-{view}"))).unwrap();
        let got = lines(&anew(&tree(&rig.volume.root()), true));
        let differs = want.lines().zip(got.lines()).find(|(want, got)| want != got);
        assert!(want == got, "{ground:?}: back at {view}: {differs:#?}");
        std::fs::remove_file(copies.join(BACK)).unwrap();
    }
    let listed = rig.snapshots().list().unwrap();
    for entry in std::fs::read_dir(copies).unwrap() {
        let path = entry.unwrap().path();
        let Ok(view) = path.file_name().unwrap().to_str().unwrap().parse() else { continue };
        assert!(listed.contains(&ViewId(view)), "{ground:?}: snapshot {view} is lost");
        let (want, got) = (std::fs::read_to_string(&path).unwrap(), lines(&tree(&rig.view(view).root())));
        let differs = want.lines().zip(got.lines()).find(|(want, got)| want != got);
        assert!(want == got, "{ground:?}: snapshot {view}: {differs:#?}");
    }
    check_count(&rig);
    let _refused = RandomChange::new(&rig.volume.root(), &mut Random(5)).run();
}

#[test]
fn clone_of_a_volume_in_use_is_one_moment() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let rig = Rig::new(&tree.path);
        let writers: Vec<_> = (0..2).map(|number| Writer::new(&rig.volume.root(), number)).collect();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            writers.iter().for_each(|writer| drop(scope.spawn(|| writer.run(&stop))));
            for view in 1..=5 {
                rig.snapshots().create(ViewId(view)).unwrap();
                rig.volumes.clone_volume(ID, ViewId(view), CLONE, &rig.root, CAPACITY, &mut unpaced).unwrap();
                let (root, clone) = (rig.view(view).root(), rig.volumes.open(CLONE).unwrap().root());
                for number in 0..2 {
                    assert_eq!(seen_of(&clone, number), seen_of(&root, number), "{ground:?}");
                }
                drop(clone);
                rig.volumes.remove(CLONE).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
