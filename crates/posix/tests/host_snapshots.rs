//! Snapshots that other programs make of a served subvolume of Btrfs.

mod fixture;

use fixture::{AS_NOBODY, DIR, Ground, MODE, NOBODY, Tree, name, new_inode, run, run_again};
use posix::{Options, SnapshotDirError, Store};
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, Blocking, FsError, NodeRef, Snapshot, Snapshots, Span, ViewId, unpaced};
use vfs_testing::UncheckedNode;

/// More snapshots than any test makes.
const COUNT_MAX: usize = 255;
/// Only a hang takes this long.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// A subvolume `data`, and a directory `snaps` for its snapshots.
struct Host {
    data: PathBuf,
    snaps: PathBuf,
}

impl Host {
    fn new(tree: &Tree) -> Self {
        let host = Self { data: tree.path.join("data"), snaps: tree.path.join("snaps") };
        btrfs(&["create"], &[&host.data]);
        fs::create_dir(&host.snaps).unwrap();
        host
    }

    fn snapshot(&self, path: impl AsRef<Path>) {
        btrfs(&["snapshot", "-r"], &[&self.data, &self.snaps.join(path)]);
    }

    /// Makes one in the form of snapper.
    fn numbered(&self, number: u32) {
        let dir = self.snaps.join(number.to_string());
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("info.xml"), "<snapshot/>").unwrap();
        self.snapshot(dir.join("snapshot"));
    }

    fn open(&self) -> Arc<Store> {
        self.open_with(&Options::default(), COUNT_MAX)
    }

    fn open_with(&self, options: &Options, count_max: usize) -> Arc<Store> {
        let store = Store::open(&self.data, options.clone()).unwrap();
        store.show_snapshots(options, vec![self.snaps.clone()], count_max).unwrap();
        store
    }
}

fn btrfs(verb: &[&str], paths: &[&Path]) {
    assert!(
        run(Command::new("btrfs").args(["-q", "subvolume"]).args(verb).args(paths)),
        "{verb:?} {paths:?}"
    );
}

/// The list after a scan that changes it.
#[track_caller]
fn scanned(store: &Store) -> Vec<Snapshot> {
    store.scan_snapshots().expect("another list")
}

fn names(list: &[Snapshot]) -> Vec<&str> {
    list.iter().map(|snapshot| &*snapshot.name).collect()
}

fn of(store: &Store) -> &dyn Snapshots {
    store.snapshots().expect("snapshots")
}

fn contents(backend: &dyn Backend, path: &str) -> Result<Vec<u8>, FsError> {
    let look = |dir: NodeRef, part: &str| dir.lookup(name(part), Blocking::Allowed).map(|found| found.node);
    path.split('/').try_fold(backend.root(), look)?.read_vec(0, 100, Blocking::Allowed)
}

#[test]
fn snapshots_of_both_forms_appear_and_vanish_with_numbers_that_last() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let host = Host::new(&tree);
    fs::write(host.data.join("file"), "one").unwrap();
    host.snapshot("first");
    fs::write(host.data.join("file"), "two").unwrap();
    host.numbered(7);
    fs::write(host.data.join("file"), "three").unwrap();
    let before = Store::open(&host.data, Options::default()).unwrap();
    let key = before.root().lookup(name("file"), Blocking::Allowed).unwrap().node.key();
    drop(before);
    let store = host.open();
    assert_eq!(of(&store).list(), Ok(vec![]), "no scan yet");
    let list = scanned(&store);
    assert_eq!(names(&list), ["first", "7"]);
    assert!(list[0].created.seconds > 1_700_000_000 && list[0].created.nanos == 0);
    assert_eq!(store.scan_snapshots(), None, "nothing has changed");
    let [one, two] = [0, 1].map(|at| of(&store).open(list[at].view).unwrap());
    // The keys of the live files are as without snapshots, and lead to the same files in each.
    let live = store.node(&key, Blocking::Allowed).unwrap();
    for (backend, text) in [(&one, "one"), (&two, "two")] {
        assert_eq!(contents(&**backend, "file"), Ok(text.as_bytes().to_vec()));
        let node = backend.node(&key, Blocking::Allowed).unwrap();
        assert_eq!((node.key(), node.read_vec(0, 9, Blocking::Allowed)), (key, Ok(text.into())));
        assert_eq!(backend.root().key(), store.root().key());
        assert_eq!(node.write(0, b"x", KEEP_SET_ID).err(), Some(FsError::ReadOnly));
        assert_eq!(backend.root().remove_unchecked(name("file")).err(), Some(FsError::ReadOnly));
    }
    assert_eq!(live.read_vec(0, 9, Blocking::Allowed), Ok(b"three".to_vec()));
    // A rename on the host changes the name alone.
    fs::rename(host.snaps.join("first"), host.snaps.join("renamed")).unwrap();
    let renamed = scanned(&store);
    assert_eq!((renamed[0].view, &*renamed[0].name), (list[0].view, "renamed"));
    assert_eq!(contents(&*one, "file"), Ok(b"one".to_vec()));
    btrfs(&["delete"], &[&host.snaps.join("renamed")]);
    assert_eq!(names(&scanned(&store)), ["7"]);
    assert_eq!(contents(&*one, "file"), Err(FsError::Stale));
    assert_eq!(of(&store).open(list[0].view).err(), Some(FsError::NotFound));
    // After a restart, and with another one that has come meanwhile.
    host.snapshot("third");
    drop((store, one, two, live));
    let store = host.open();
    let again = scanned(&store);
    assert_eq!((again[0].view, names(&again)), (list[1].view, vec!["7", "third"]));
    assert!(again[1].view > again[0].view);
    let two = of(&store).open(again[0].view).unwrap();
    assert_eq!(
        two.node(&key, Blocking::Allowed).unwrap().read_vec(0, 9, Blocking::Allowed),
        Ok(b"two".to_vec())
    );
    assert_eq!(of(&store).create(ViewId(5)), Err(FsError::NotSupported));
    assert_eq!(of(&store).delete(again[0].view, &mut unpaced), Err(FsError::NotSupported));
    assert!(host.snaps.join("7/snapshot/file").exists());
}

#[test]
fn only_read_only_snapshots_of_the_subvolume_are_served() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let host = Host::new(&tree);
    fs::write(host.data.join("file"), "good").unwrap();
    let (snaps, other) = (&host.snaps, tree.path.join("other"));
    btrfs(&["create"], &[&other]);
    fs::write(other.join("file"), "a secret").unwrap();
    host.snapshot("good");
    btrfs(&["snapshot", "-r"], &[&other, &snaps.join("of-another")]);
    btrfs(&["snapshot"], &[&host.data, &snaps.join("writable")]);
    // Not of the live subvolume, which may have become another one since.
    btrfs(&["snapshot", "-r"], &[&snaps.join("writable"), &snaps.join("of-a-snapshot")]);
    btrfs(&["create"], &[&snaps.join("empty")]);
    symlink("good", snaps.join("link")).unwrap();
    symlink(&other, snaps.join("outside")).unwrap();
    for (dir, target) in [("1", "../good"), ("2", "../of-another"), ("3", "/etc")] {
        fs::create_dir(snaps.join(dir)).unwrap();
        symlink(target, snaps.join(dir).join("snapshot")).unwrap();
    }
    // Neither another name inside nor another depth counts.
    for dir in ["4/other", "5/snapshot/snapshot"] {
        fs::create_dir_all(snaps.join(dir).parent().unwrap()).unwrap();
        host.snapshot(dir);
    }
    fs::create_dir_all(snaps.join("plain/snapshot")).unwrap();
    fs::write(snaps.join("file"), "").unwrap();
    let store = host.open();
    assert_eq!(names(&scanned(&store)), ["good"]);
    let good = of(&store).list().unwrap()[0];
    // Something else takes its place after the scan.
    fs::rename(snaps.join("good"), snaps.join("kept")).unwrap();
    symlink("kept", snaps.join("good")).unwrap();
    assert_eq!(of(&store).open(good).err(), Some(FsError::NotFound));
    fs::remove_file(snaps.join("good")).unwrap();
    host.snapshot("good");
    assert_eq!(of(&store).open(good).err(), Some(FsError::NotFound), "another snapshot");
    assert_eq!(names(&scanned(&store)), ["kept", "good"]);
    let kept = of(&store).open(good).unwrap();
    // It stops being one while it is open.
    assert!(run(Command::new("btrfs")
        .args(["property", "set"])
        .arg(snaps.join("kept"))
        .args(["ro", "false"])));
    assert_eq!(names(&scanned(&store)), ["good"]);
    assert_eq!(contents(&*kept, "file"), Err(FsError::Stale));
    fs::remove_dir_all(snaps).unwrap_err();
    fs::rename(snaps, tree.path.join("moved")).unwrap();
    assert_eq!(names(&scanned(&store)), [""; 0], "the directory is gone");
    fs::rename(tree.path.join("moved"), snaps).unwrap();
    assert_eq!(names(&scanned(&store)), ["good"]);
}

#[test]
fn names_of_any_kind_are_served_or_left_out_and_never_stop_the_others() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let host = Host::new(&tree);
    let longest = "x".repeat(255);
    for name in ["with blank", "\u{1b}[31m;\n", "snowman \u{2603}", "a:b*?\"<>|\\", &*longest] {
        host.snapshot(name);
    }
    host.snapshot(OsStr::from_bytes(b"latin \xe9"));
    let store = host.open();
    let list = scanned(&store);
    assert_eq!(
        names(&list),
        ["with blank", "\u{1b}[31m;\n", "snowman \u{2603}", "a:b*?\"<>|\\", &*longest],
        "all but the one that is not UTF-8"
    );
    assert!(list.iter().all(|snapshot| of(&store).open(snapshot.view).is_ok()));
    // The same names twice: each subvolume once, each name once.
    let second = tree.path.join("second");
    fs::create_dir(&second).unwrap();
    btrfs(&["snapshot", "-r"], &[&host.data, &second.join("with blank")]);
    btrfs(&["snapshot", "-r"], &[&host.data, &second.join("unlike")]);
    let store = Store::open(&host.data, Options::default()).unwrap();
    let dirs = vec![host.snaps.clone(), second, host.snaps.clone()];
    store.show_snapshots(&Options::default(), dirs, COUNT_MAX).unwrap();
    let both = scanned(&store);
    assert_eq!((&both[..5], &*both[5].name, both.len()), (&list[..], "unlike", 6));
}

#[test]
fn newest_snapshots_are_served_if_there_are_too_many() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let host = Host::new(&tree);
    ["d", "a", "c", "b"].iter().for_each(|name| host.snapshot(name));
    let store = host.open_with(&Options::default(), 3);
    assert_eq!(names(&scanned(&store)), ["a", "c", "b"], "all of one second: in the order of their numbers");
    let oldest = of(&store).open(of(&store).list().unwrap()[0]).unwrap();
    host.snapshot("e");
    assert_eq!(names(&scanned(&store)), ["c", "b", "e"]);
    assert_eq!(oldest.root().lookup(name("file"), Blocking::Allowed).err(), Some(FsError::Stale));
    btrfs(&["delete"], &[&host.snaps.join("c")]);
    assert_eq!(names(&scanned(&store)), ["a", "b", "e"]);
}

#[test]
fn snapshot_that_the_host_deletes_is_stale_and_holds_no_space() {
    const BYTES: u64 = 64 << 20;
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    assert!(run(Command::new("mount").args(["-o", "remount,commit=1"]).arg(&tree.path)));
    let host = Host::new(&tree);
    let store = host.open();
    let free = || {
        store.sync().unwrap();
        store.stat().unwrap().bytes_free
    };
    let before = free();
    fs::write(host.data.join("big"), vec![7; usize::try_from(BYTES).unwrap()]).unwrap();
    host.numbered(1);
    let view = scanned(&store)[0].view;
    let snapshot = of(&store).open(view).unwrap();
    let (big, root) = (snapshot.root().lookup(name("big"), Blocking::Allowed).unwrap().node, snapshot.root());
    big.pin();
    root.read_dir(0, true, &mut |_| ControlFlow::Continue(())).unwrap();
    fs::remove_file(host.data.join("big")).unwrap();
    btrfs(&["delete"], &[&host.snaps.join("1/snapshot")]);
    // Until the next scan, an open file is as it was.
    assert_eq!(big.read_vec(BYTES - 1, 1, Blocking::Allowed), Ok(vec![7]));
    assert!(free() < before - BYTES / 2, "an open file holds the space");
    assert_eq!(names(&scanned(&store)), [""; 0]);
    assert_eq!(big.read_vec(0, 1, Blocking::Allowed), Err(FsError::Stale));
    assert_eq!(big.attrs(Blocking::Allowed), Err(FsError::Stale));
    assert_eq!(root.lookup(name("big"), Blocking::Allowed).err(), Some(FsError::Stale));
    assert_eq!(snapshot.node(&big.key(), Blocking::Allowed).err(), Some(FsError::Stale));
    let end = Instant::now() + WAIT_MAX;
    while free() < before - BYTES / 8 {
        assert!(Instant::now() < end, "the space of a deleted snapshot is not free");
        std::thread::sleep(Duration::from_millis(20));
    }
    big.unpin();
}

#[test]
fn file_of_a_snapshot_is_copied_and_cloned_to_the_live_subvolume() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let host = Host::new(&tree);
    fs::write(host.data.join("lost"), [7; 100_000]).unwrap();
    host.snapshot("one");
    fs::remove_file(host.data.join("lost")).unwrap();
    let store = host.open();
    let snapshot = of(&store).open(scanned(&store)[0].view).unwrap();
    let source = snapshot.root().lookup(name("lost"), Blocking::Allowed).unwrap().node;
    let make = |text| store.root().create_unchecked(name(text), &new_inode(0o644)).unwrap().found.node;
    let [copied, cloned] = ["copied", "cloned"].map(make);
    let (ranges, span) = (source.ranges().unwrap(), Span { source: 0, target: 0, len: 100_000 });
    assert_eq!(ranges.copy_to(&copied, &span, KEEP_SET_ID).unwrap().0, 100_000);
    assert!(ranges.shares_storage(&cloned));
    ranges.clone_to(&cloned, &span, KEEP_SET_ID).unwrap();
    for node in [&copied, &cloned] {
        assert!(node.read_vec(0, 200_000, Blocking::Allowed).unwrap() == [7; 100_000]);
    }
}

/// The descriptors of a process of its own run out.
#[test]
fn snapshots_stay_while_the_storage_cannot_be_read() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let host = Host::new(&tree);
    fs::write(host.data.join("file"), "old").unwrap();
    host.snapshot("one");
    host.numbered(2);
    run_again(&tree, "no_descriptors", &[]);
}

fn no_descriptors(path: &Path) {
    let host = Host { data: path.join("data"), snaps: path.join("snaps") };
    let store = host.open();
    let list = scanned(&store);
    let one = of(&store).open(list[0].view).unwrap();
    assert_eq!(contents(&*one, "file"), Ok(b"old".to_vec()));
    let mut held: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    for left in 0..3 {
        assert_eq!(store.scan_snapshots(), None, "{left} descriptors are left");
        held.pop();
    }
    assert_eq!(of(&store).list().unwrap().len(), 2);
    drop(held);
    assert_eq!(contents(&*one, "file"), Ok(b"old".to_vec()));
    btrfs(&["delete"], &[&host.snaps.join("one")]);
    assert_eq!(names(&scanned(&store)), ["2"]);
}

/// snapper keeps them in a subvolume inside the one that it protects.
#[test]
fn snapshots_inside_the_subvolume_are_served_and_not_entered() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let mut host = Host::new(&tree);
    host.snaps = host.data.join(".snapshots");
    btrfs(&["create"], &[&host.snaps]);
    fs::write(host.data.join("file"), "one").unwrap();
    host.numbered(1);
    let store = host.open();
    let snapshot = of(&store).open(scanned(&store)[0].view).unwrap();
    assert_eq!(contents(&*snapshot, "file"), Ok(b"one".to_vec()));
    for backend in [&*store as &dyn Backend, &*snapshot] {
        let mut listed = Vec::new();
        let end = backend.root().read_dir(0, true, &mut |entry| {
            listed.push(String::from_utf8(entry.name.to_vec()).unwrap());
            ControlFlow::Continue(())
        });
        assert_eq!(end, Ok(true));
        assert!(listed.iter().any(|name| name == "file"), "{listed:?}");
        assert!(contents(backend, ".snapshots/1").is_err());
    }
}

#[test]
fn directory_that_can_have_no_snapshots_is_refused_with_the_reason() {
    let show = |data: &Path, snaps: &Path| {
        let store = Store::open(data, Options::default()).unwrap();
        let shown = store.show_snapshots(&Options::default(), vec![snaps.to_owned()], COUNT_MAX);
        assert_eq!(shown.is_err(), store.snapshots().is_none());
        shown
    };
    let plain = Tree::new(Ground::Disk).unwrap();
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let Some(other) = Tree::new(Ground::Btrfs) else { return };
    let host = Host::new(&tree);
    fs::create_dir(host.data.join("dir")).unwrap();
    use SnapshotDirError::{NoSubvolume, OtherFileSystem, Unreadable};
    assert!(matches!(show(&plain.path, &host.snaps), Err(NoSubvolume)));
    assert!(matches!(show(&host.data.join("dir"), &host.snaps), Err(NoSubvolume)));
    for elsewhere in [&plain.path, &other.path] {
        assert!(matches!(show(&host.data, elsewhere), Err(OtherFileSystem(dir)) if dir == *elsewhere));
    }
    assert!(matches!(show(&host.data, &host.snaps.join("none")), Err(Unreadable(..))));
    fs::write(host.snaps.join("file"), "").unwrap();
    assert!(matches!(show(&host.data, &host.snaps.join("file")), Err(Unreadable(..))));
    assert!(show(&host.data, &host.snaps).is_ok());
}

/// Such a process opens no file by its handle.
#[test]
fn ordinary_user_serves_the_snapshots_that_the_user_may_read() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let host = Host::new(&tree);
    tree.give_to(NOBODY);
    for path in [&host.data, &host.snaps] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::create_dir(host.data.join("dir")).unwrap();
    fs::write(host.data.join("dir/file"), "old").unwrap();
    host.snapshot("one");
    fs::write(host.data.join("dir/file"), "new").unwrap();
    run_again(&tree, "as_nobody", &AS_NOBODY);
}

fn as_nobody(path: &Path) {
    let host = Host { data: path.join("data"), snaps: path.join("snaps") };
    let store = host.open();
    assert!(store.uses_index());
    let view = scanned(&store)[0].view;
    let snapshot = of(&store).open(view).unwrap();
    assert_eq!(contents(&*snapshot, "dir/file"), Ok(b"old".to_vec()));
    let dir = store.root().lookup(name("dir"), Blocking::Allowed).unwrap().node;
    let key = dir.lookup(name("file"), Blocking::Allowed).unwrap().node.key();
    let found = snapshot.node(&key, Blocking::Allowed).unwrap();
    assert_eq!(found.read_vec(0, 9, Blocking::Allowed), Ok(b"old".to_vec()));
}

#[test]
#[ignore = "run by the other tests in a process of its own"]
fn inner() {
    let (Some(path), Ok(mode)) = (std::env::var_os(DIR), std::env::var(MODE)) else { return };
    match &*mode {
        "as_nobody" => as_nobody(Path::new(&path)),
        "no_descriptors" => no_descriptors(Path::new(&path)),
        other => panic!("{other}"),
    }
}
