//! Counts of volumes after a crash, over a Ceph cluster that `cargo xtask ceph` starts, while clients change the files.

use ceph::{Options, Volumes};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use storage::NodeBudget;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Backend, Blocking, Capacity, FsError, FsResult, Name, NewInode, NodeRef, Provisioner, QuotaKind,
    QuotaLimits, QuotaRule, QuotaTarget, Root, SetAttrs, SetXattr, Special, Usage, VolumeId, XattrName,
};
use vfs_testing::UncheckedNode;

const ID: VolumeId = VolumeId(1);
const ROOT: Root = Root { mode: 0o755, uid: 0, gid: 0 };
const NEW: NewInode = NewInode { mode: 0o644, uid: 12, gid: 34, times: None, size: 0 };
const DIR: NewInode = NewInode { mode: 0o755, ..NEW };
const CAPACITY: Capacity = Capacity { bytes: 1 << 40, files: 1 << 24 };
const DIRS: u64 = 60;
const FILES: u64 = 30;
const CLIENTS: u64 = 4;
const COUNT_MAX: Duration = Duration::from_secs(300);

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).expect("a valid name")
}

fn directory() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("/recount-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn open(directory: &str) -> Arc<Volumes> {
    let conf = std::env::var_os("CEPH_CONF").expect("CEPH_CONF names the configuration of a cluster");
    let options = Options {
        conf: conf.into(),
        user: "admin".into(),
        file_system: None,
        directory: directory.into(),
        is_exclusive: false,
        name: "one".into(),
    };
    Volumes::open(&options, NodeBudget::new(100_000)).expect("the cluster answers")
}

/// Ends as a kill does: no usage is saved, and the next service of the name ends the session.
fn crash(volumes: Arc<Volumes>, volume: Arc<dyn Backend>) {
    volume.sync().expect("a flush");
    volumes.stop_watch();
    std::mem::forget((volumes, volume));
}

/// The usage after an orderly count without changes.
fn recounted(directory: &str, volumes: Arc<Volumes>, volume: Arc<dyn Backend>) -> Usage {
    crash(volumes, volume);
    let volumes = open(directory);
    let _volume = volumes.open(ID).expect("the volume");
    assert!(volumes.wait_for_counts(COUNT_MAX), "the count ends");
    volumes.usage(ID).expect("the usage")
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

/// Directories in directories, with files that have several names, attributes, and targets.
fn populate(root: &NodeRef) -> Vec<NodeRef> {
    let mut dirs = vec![Arc::clone(root)];
    for number in 0..DIRS {
        let parent = &dirs[usize::try_from(number / 3).expect("a small number")];
        let made = parent.make_dir_unchecked(name(&format!("d{number}")), &DIR).expect("a directory");
        let dir = made.found.node;
        for file in 0..FILES {
            let text = format!("f{number}-{file}");
            let node = dir.create_unchecked(name(&text), &NEW).expect("a file").found.node;
            node.write(0, &vec![7; usize::try_from(file * 700).expect("a small number")], KEEP_SET_ID)
                .expect("a write");
            match file % 10 {
                0 => drop(dir.link_unchecked(name(&format!("l{number}-{file}")), &node).expect("a link")),
                1 => set_xattr(&node, 300).expect("an attribute"),
                2 => {
                    let target = Special::Symlink(
                        b"a target that is longer than what an inode of most file systems has",
                    );
                    dir.make_special_unchecked(name(&format!("s{number}-{file}")), target, &NEW)
                        .expect("a link");
                }
                _ => {}
            }
        }
        dirs.push(dir);
    }
    dirs
}

fn set_xattr(node: &NodeRef, bytes: usize) -> FsResult<()> {
    let xattrs = node.xattrs().expect("attributes");
    xattrs.set(XattrName::new(b"a")?, &vec![b'x'; bytes], SetXattr::Either, &|_| Ok(())).map(drop)
}

/// Makes random changes until `is_done`, and returns their number and the files that it still has open. Changes may have to
/// wait if there are quotas.
fn change(dirs: &[NodeRef], client: u64, has_quotas: bool, is_done: &AtomicBool) -> (u64, Vec<NodeRef>) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (client + 1));
    let (mut changes, mut open) = (0, Vec::new());
    while !is_done.load(Ordering::SeqCst) {
        let number = random.below(DIRS);
        let file = random.below(FILES);
        let mut any = || &dirs[usize::try_from(random.below(DIRS + 1)).expect("a small number")];
        let (dir, other) = (any(), any());
        let named = format!("f{number}-{file}");
        let found = any_of(dirs, number).lookup(name(&named), Blocking::Allowed).map(|found| found.node);
        let fresh = format!("n{client}-{changes}");
        let done = match (random.below(12), found) {
            (0, _) => dir.create_unchecked(name(&fresh), &NEW).map(|made| {
                let _written = made.found.node.write(0, &[1; 9000], KEEP_SET_ID);
            }),
            (1, _) => dir.make_dir_unchecked(name(&fresh), &DIR).map(drop),
            (2, Ok(node)) => node.write(random.below(100_000), &[2; 5000], KEEP_SET_ID).map(drop),
            (3, Ok(node)) => {
                let size = SetAttrs { size: Some(random.below(30_000)), ..SetAttrs::default() };
                node.set_attrs(&size).map(drop)
            }
            (4, Ok(node)) => {
                // Open beyond its last name, in some cases for a while.
                node.pin();
                let removed = any_of(dirs, number).remove_unchecked(name(&named)).map(drop);
                if random.below(3) == 0 {
                    open.push(node)
                } else {
                    node.unpin()
                }
                removed
            }
            (5, Ok(_)) => any_of(dirs, number).rename_unchecked(name(&named), dir, name(&fresh)).map(drop),
            (6, Ok(node)) => dir.link_unchecked(name(&fresh), &node).map(drop),
            (7, Ok(node)) => set_xattr(&node, usize::try_from(random.below(2000)).expect("a small number")),
            (8, _) => {
                let moved = random.below(DIRS);
                let from = any_of(dirs, moved / 3).rename_unchecked(
                    name(&format!("d{moved}")),
                    other,
                    name(&format!("d{moved}")),
                );
                from.map(drop)
            }
            (9, Ok(_)) => {
                // Over another file.
                let victim = format!("f{number}-{}", random.below(FILES));
                any_of(dirs, number)
                    .rename_unchecked(name(&named), any_of(dirs, number), name(&victim))
                    .map(drop)
            }
            (10, Ok(node)) => {
                let offset = random.below(200_000);
                node.reserve(offset, 4096, KEEP_SET_ID).map(|()| node.release(offset, 4096))
            }
            (11, _) if !open.is_empty() => {
                open.swap_remove(0).unpin();
                Ok(())
            }
            _ => Ok(()),
        };
        assert!(done.is_ok() || done.is_err_and(|error| is_usual(error, has_quotas)), "{done:?}");
        changes += 1;
    }
    (changes, open)
}

/// Whether a client may see this error when other clients change the same files.
fn is_usual(error: FsError, has_quotas: bool) -> bool {
    use FsError::{Exists, Invalid, NotEmpty, NotFound, Stale, Wait};
    matches!(error, Exists | Invalid | NotEmpty | NotFound | Stale)
        || (has_quotas && matches!(error, Wait(_)))
}

/// The directory that was made as `dNUMBER`.
fn any_of(dirs: &[NodeRef], number: u64) -> &NodeRef {
    &dirs[usize::try_from(number + 1).expect("a small number").min(dirs.len() - 1)]
}

/// A volume that a service that crashed left behind, in use again, with its directories.
struct Crashed {
    directory: String,
    before: Usage,
    volumes: Arc<Volumes>,
    volume: Arc<dyn Backend>,
    dirs: Vec<NodeRef>,
}

impl Crashed {
    fn new() -> Self {
        let directory = directory();
        let volumes = open(&directory);
        volumes.make(ID, &ROOT, CAPACITY).expect("a volume");
        let volume = volumes.open(ID).expect("the volume");
        let made = populate(&volume.root());
        let before = volumes.usage(ID).expect("the usage");
        let keys: Vec<_> = made.iter().map(|dir| dir.key()).collect();
        drop(made);
        crash(volumes, volume);
        let volumes = open(&directory);
        let volume = volumes.open(ID).expect("the volume");
        let dir = |key| volume.node(key, Blocking::Allowed).expect("a directory");
        let dirs = keys.iter().map(dir).collect();
        Self { directory, before, volumes, volume, dirs }
    }

    /// Lets clients make random changes until the count ends, and a little longer. Returns their number.
    fn count_among_changes(&self, seed: u64, has_quotas: bool) -> u64 {
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (dirs, is_done) = (&self.dirs, &is_done);
                    scope.spawn(move || change(dirs, seed * CLIENTS + client, has_quotas, is_done))
                })
                .collect();
            if has_quotas {
                let target = QuotaTarget { kind: QuotaKind::User, id: None };
                let rule = QuotaRule { target, limits: QuotaLimits::default() };
                self.volume.quotas().expect("quotas").set_rules(&[rule]).expect("a rule");
            }
            assert!(self.volumes.wait_for_counts(COUNT_MAX), "the count ends");
            // Changes after the count are in the usage too.
            std::thread::sleep(Duration::from_millis(100));
            is_done.store(true, Ordering::SeqCst);
            let ended = clients.into_iter().map(|client| client.join().expect("no client panics"));
            ended.fold(0, |changes, (more, open)| {
                open.iter().for_each(|node| node.unpin());
                changes + more
            })
        })
    }

    /// The usage now, and after another crash.
    fn usage_and_recount(self) -> (Usage, Usage) {
        let Self { directory, volumes, volume, dirs, .. } = self;
        drop(dirs);
        volumes.sweep(0);
        let usage = volumes.usage(ID).expect("the usage");
        (usage, recounted(&directory, volumes, volume))
    }
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn count_is_exact_although_clients_change_files_meanwhile() {
    let rounds = if std::env::var_os("PLIMSOLL_TESTS_LONG").is_some() { 20 } else { 2 };
    let mut total = 0;
    for round in 0..rounds {
        let crashed = Crashed::new();
        let (before, changes) = (crashed.before, crashed.count_among_changes(round, false));
        let (after, recounted) = crashed.usage_and_recount();
        eprintln!("round {round}: {changes} changes, {before:?} before, {after:?} after");
        assert_eq!(after, recounted, "round {round}");
        total += changes;
    }
    assert!(total > 20 * rounds, "{total} changes in {rounds} rounds");
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn quotas_that_begin_during_the_count_are_exact() {
    let crashed = Crashed::new();
    let changes = crashed.count_among_changes(77, true);
    let check = crashed.volume.quotas().expect("quotas").check().expect("a check");
    assert!(check.drifts.is_empty() && check.unsettled.is_empty(), "{check:?} after {changes} changes");
    let (after, recounted) = crashed.usage_and_recount();
    assert_eq!(after, recounted);
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn volume_grows_at_once_after_a_crash_and_never_past_its_capacity() {
    let directory = directory();
    let volumes = open(&directory);
    let capacity = Capacity { bytes: 4 << 30, files: 100_000 };
    volumes.make(ID, &ROOT, capacity).expect("a volume");
    let volume = volumes.open(ID).expect("the volume");
    for number in 0..2000 {
        volume.root().create_unchecked(name(&format!("f{number}")), &NEW).expect("a file");
    }
    let before = volumes.usage(ID).expect("the usage");
    crash(volumes, volume);
    let volumes = open(&directory);
    let begun = Instant::now();
    let volume = volumes.open(ID).expect("the volume");
    let made = volume.root().create_unchecked(name("new"), &NEW).map(|made| made.found.node);
    let is_counting = volumes.counting().volumes > volumes.counting().counted;
    let waited = begun.elapsed();
    let node = made.unwrap_or_else(|error| panic!("{error} after {waited:?}"));
    assert!(is_counting, "the count was still under way after {waited:?}");
    // Growth past what is certainly free waits for the count instead of being refused.
    let refused = node.reserve(0, 3 << 30, KEEP_SET_ID).and_then(|()| node.reserve(0, 5 << 30, KEEP_SET_ID));
    assert!(matches!(refused, Err(FsError::Wait(_) | FsError::NoSpace)), "{refused:?}");
    assert!(volumes.wait_for_counts(COUNT_MAX), "the count ends");
    assert_eq!(node.reserve(0, 5 << 30, KEEP_SET_ID), Err(FsError::NoSpace));
    node.release(0, 3 << 30);
    let after = volumes.usage(ID).expect("the usage");
    assert_eq!(after.files, before.files + 1);
    drop(node);
    assert_eq!(after, recounted(&directory, volumes, volume));
}
