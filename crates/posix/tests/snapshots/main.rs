//! Snapshots of volumes on Btrfs: the conformance suite on a volume that is a subvolume, and every verb around it.

#[path = "../fixture/mod.rs"]
mod fixture;
mod power;

use fixture::crash::{die_at, run_until_killed};
use fixture::{AS_NOBODY, DIR, Ground, MODE, NOBODY, Tree, name, new_inode, run, run_again, set_acl};
use posix::{Options, Store, Volumes};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Backend, Blocking, Capacity, FsError, NodeRef, Provisioner, Root, Snapshots, Span, ViewId, VolumeId,
    unpaced,
};
use vfs_testing::UncheckedNode;
use vfs_testing::conformance::{Fixture, Lack};

const ID: VolumeId = VolumeId(0xbeef);
const CAPACITY: Capacity = Capacity { bytes: 1 << 40, files: 1 << 20 };
/// Only a hang takes this long.
const WAIT_MAX: Duration = Duration::from_secs(600);

fn open(data: &Path) -> Arc<Volumes> {
    Volumes::open(data, Options::default()).expect("volumes")
}

fn root() -> Root {
    let own = new_inode(0o755);
    Root { mode: own.mode, uid: own.uid, gid: own.gid }
}

fn snapshot(source: &Path, target: &Path, read_only: &[&str]) {
    let mut command = Command::new("btrfs");
    command.args(["-q", "subvolume", "snapshot"]).args(read_only).args([source, target]);
    assert!(run(&mut command), "{target:?}");
}

/// Copies a data directory, as after a move to another path: no key may change.
fn copy(from: &Path, to: &Path) {
    let id = format!("{:016x}", ID.0);
    fs::create_dir_all(to.join("volumes")).unwrap();
    fs::create_dir_all(to.join("snapshots").join(&id)).unwrap();
    snapshot(&from.join("volumes").join(&id), &to.join("volumes").join(&id), &[]);
    for entry in fs::read_dir(from.join("snapshots").join(&id)).unwrap() {
        let entry = entry.unwrap();
        snapshot(&entry.path(), &to.join("snapshots").join(&id).join(entry.file_name()), &["-r"]);
    }
}

fn opened(volumes: &Volumes) -> Arc<dyn Backend> {
    volumes.make(ID, &root(), CAPACITY).expect("a volume");
    let volume = volumes.open(ID).expect("a volume");
    assert!(volumes.wait_for_counts(WAIT_MAX));
    volume
}

/// The conformance suite on volumes below `path`.
fn run_suite(path: &Path, lacks: &[(Lack, &'static str)]) {
    let next = AtomicU32::new(0);
    vfs_testing::conformance::run(&|| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let data = path.join(format!("data-{number}"));
        fs::create_dir(&data).unwrap();
        let volumes = open(&data);
        let volume = opened(&volumes);
        assert!(volume.snapshots().is_some());
        let live = live_path(&data);
        let again = path.join(format!("again-{number}"));
        let reopen = move || {
            copy(&data, &again);
            opened(&open(&again))
        };
        let fixture = Fixture::new(volume)
            .reopened_by(Box::new(reopen))
            .with_acls_set_by(Box::new(move |file, kind, acl| set_acl(&live.join(file), kind, acl)))
            .without(Lack::DirectoryLinks, "a directory of btrfs has one link")
            .without(Lack::LargeXattrs, "btrfs keeps an attribute in one node of its tree")
            .keeping(volumes);
        lacks.iter().fold(fixture, |fixture, &(lack, reason)| fixture.without(lack, reason))
    });
}

#[test]
fn suite_on_subvolume() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    run_suite(&tree.path, &[]);
}

/// An ordinary user may not delete a subvolume in one step: snapshots are deleted file by file.
#[test]
fn suite_as_ordinary_user() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    tree.give_to(NOBODY);
    run_again(&tree, "suite", &AS_NOBODY);
}

fn live_path(data: &Path) -> PathBuf {
    data.join(format!("volumes/{:016x}", ID.0))
}

fn snapshots_path(data: &Path) -> PathBuf {
    data.join(format!("snapshots/{:016x}", ID.0))
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn of(volume: &Arc<dyn Backend>) -> &dyn Snapshots {
    volume.snapshots().expect("snapshots")
}

fn delete(volume: &Arc<dyn Backend>, view: u32) {
    assert_eq!(of(volume).delete(ViewId(view), &mut |_| ControlFlow::Continue(())), Ok(true));
}

fn file(volume: &Arc<dyn Backend>, text: &str, contents: &[u8]) -> NodeRef {
    let node = volume.root().create_unchecked(name(text), &new_inode(0o644)).unwrap().found.node;
    node.write(0, contents, KEEP_SET_ID).unwrap();
    node
}

fn contents(volume: &Arc<dyn Backend>, text: &str) -> Result<Vec<u8>, FsError> {
    let node = volume.root().lookup(name(text), Blocking::Allowed)?.node;
    node.read_vec(0, 100, Blocking::Allowed)
}

/// Makes the kernel free the space of deleted subvolumes each second.
fn free_often(tree: &Tree) {
    assert!(run(Command::new("mount").args(["-o", "remount,commit=1"]).arg(&tree.path)));
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + WAIT_MAX;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn deleted_snapshot_is_stale_and_holds_no_space() {
    const BYTES: u64 = 64 << 20;
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    free_often(&tree);
    let volumes = open(&tree.path);
    let volume = opened(&volumes);
    let free = || {
        volume.sync().unwrap();
        volumes.room().unwrap().bytes_free
    };
    let before = free();
    let big = file(&volume, "big", &[]);
    for offset in (0..BYTES).step_by(1 << 20) {
        big.write(offset, &[7; 1 << 20], KEEP_SET_ID).unwrap();
    }
    of(&volume).create(ViewId(1)).unwrap();
    let snapshot = of(&volume).open(ViewId(1)).unwrap();
    let (seen, root) = (snapshot.node(&big.key(), Blocking::Allowed).unwrap(), snapshot.root());
    assert_eq!(seen.read_vec(0, 1, Blocking::Allowed), Ok(vec![7]));
    volume.root().remove_unchecked(name("big")).unwrap();
    assert!(free() < before - BYTES / 2, "the snapshot holds the space");
    assert_eq!(volumes.usage(ID).unwrap().files, 1, "the live files do not count it");
    delete(&volume, 1);
    assert_eq!(seen.read_vec(0, 1, Blocking::Allowed), Err(FsError::Stale));
    assert_eq!(seen.attrs(Blocking::Allowed), Err(FsError::Stale));
    assert_eq!(snapshot.node(&big.key(), Blocking::Allowed).err(), Some(FsError::Stale));
    assert_eq!(root.lookup(name("big"), Blocking::Allowed).err(), Some(FsError::Stale));
    wait_until("the space of a deleted snapshot is not free", || free() > before - BYTES / 8);
}

#[test]
fn removed_volume_holds_no_space() {
    const BYTES: u64 = 64 << 20;
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    free_often(&tree);
    let volumes = open(&tree.path);
    let free = || {
        rustix::fs::syncfs(fs::File::open(&tree.path).unwrap()).unwrap();
        volumes.room().unwrap().bytes_free
    };
    let before = free();
    let volume = opened(&volumes);
    let big = file(&volume, "big", &[]);
    for offset in (0..BYTES).step_by(1 << 20) {
        big.write(offset, &[7; 1 << 20], KEEP_SET_ID).unwrap();
    }
    of(&volume).create(ViewId(1)).unwrap();
    let snapshot = of(&volume).open(ViewId(1)).unwrap();
    let seen = snapshot.node(&big.key(), Blocking::Allowed).unwrap();
    assert!(free() < before - BYTES / 2);
    volumes.remove(ID).unwrap();
    assert!(volumes.wait_for_trash(WAIT_MAX));
    for node in [&big, &seen] {
        assert_eq!(node.read_vec(0, 1, Blocking::Allowed), Err(FsError::Stale));
    }
    wait_until("the space of a removed volume is not free", || free() > before - BYTES / 8);
    assert_eq!(names_in(&tree.path.join("trash")), [""; 0]);
    assert_eq!(names_in(&tree.path.join("snapshots")), [""; 0]);
}

#[test]
fn file_of_snapshot_is_copied_and_cloned_back() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let volumes = open(&tree.path);
    let volume = opened(&volumes);
    let lost = file(&volume, "file", &[7; 100_000]);
    of(&volume).create(ViewId(1)).unwrap();
    lost.write(0, &[8; 100_000], KEEP_SET_ID).unwrap();
    let snapshot = of(&volume).open(ViewId(1)).unwrap();
    let source = snapshot.node(&lost.key(), Blocking::Allowed).unwrap();
    let ranges = source.ranges().unwrap();
    let [copied, cloned] = ["copied", "cloned"].map(|text| file(&volume, text, b""));
    let span = Span { source: 0, target: 0, len: 100_000 };
    assert_eq!(ranges.copy_to(&copied, &span, KEEP_SET_ID).unwrap().0, 100_000);
    assert!(ranges.shares_storage(&cloned) && ranges.shares_storage(&lost));
    ranges.clone_to(&cloned, &span, KEEP_SET_ID).unwrap();
    ranges.clone_to(&lost, &span, KEEP_SET_ID).unwrap();
    for node in [&copied, &cloned, &lost] {
        assert!(node.read_vec(0, 200_000, Blocking::Allowed).unwrap() == [7; 100_000]);
    }
    // Changes of the snapshot are refused even here.
    assert_eq!(source.write(0, b"x", KEEP_SET_ID).err(), Some(FsError::ReadOnly));
    assert_eq!(snapshot.root().remove_unchecked(name("file")).err(), Some(FsError::ReadOnly));
}

/// Reading a snapshot changes nothing in it, not even a time of access.
#[test]
fn reads_leave_no_mark_in_snapshot() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    assert!(run(Command::new("mount").args(["-o", "remount,strictatime"]).arg(&tree.path)));
    let volumes = open(&tree.path);
    let volume = opened(&volumes);
    let live = file(&volume, "file", b"contents");
    let times = vfs::SetAttrs {
        accessed: Some(vfs::SetTime::To(vfs::Time { seconds: 77, nanos: 0 })),
        ..vfs::SetAttrs::default()
    };
    live.set_attrs(&times).unwrap();
    of(&volume).create(ViewId(1)).unwrap();
    let snapshot = of(&volume).open(ViewId(1)).unwrap();
    let seen = snapshot.node(&live.key(), Blocking::Allowed).unwrap();
    let before = seen.attrs(Blocking::Allowed).unwrap();
    assert_eq!(before.accessed.seconds, 77);
    assert_eq!(seen.read_vec(0, 9, Blocking::Allowed), Ok(b"contents".to_vec()));
    snapshot.root().read_dir(0, true, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(seen.attrs(Blocking::Allowed), Ok(before));
    // Changes of the live file do not raise the counter of the one in the snapshot.
    live.write(0, b"other", KEEP_SET_ID).unwrap();
    live.write(0, b"again", KEEP_SET_ID).unwrap();
    assert_eq!(seen.attrs(Blocking::Allowed), Ok(before));
    drop((seen, snapshot));
    let snapshot = of(&volume).open(ViewId(1)).unwrap();
    let seen = snapshot.node(&live.key(), Blocking::Allowed).unwrap();
    assert_eq!(seen.attrs(Blocking::Allowed), Ok(before));
}

/// Names that look like those of snapshots, and other programs' files, stay.
#[test]
fn start_deletes_only_remainders() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    prepare(&tree.path);
    let dir = snapshots_path(&tree.path);
    fs::create_dir(dir.join("precious.deleted")).unwrap();
    // Not a subvolume, but a name of ours.
    fs::create_dir(dir.join("0000000000000009.revert")).unwrap();
    fs::create_dir(dir.join("0000000000000008")).unwrap();
    fs::create_dir(tree.path.join("snapshots/0000000000000077")).unwrap();
    let volumes = open(&tree.path);
    assert!(volumes.wait_for_trash(WAIT_MAX));
    let left = [SNAPSHOT[0], SNAPSHOT[1], "0000000000000008", "precious.deleted"];
    assert_eq!(names_in(&dir), left);
    assert_eq!(names_in(&tree.path.join("snapshots")), ["000000000000beef"]);
    let volume = opened(&volumes);
    assert_eq!(of(&volume).open(ViewId(8)).err(), Some(FsError::NotFound));
    assert_eq!(of(&volume).list(), Ok([1, 2].map(ViewId).to_vec()));
    volumes.remove(ID).unwrap();
    assert!(volumes.wait_for_trash(WAIT_MAX));
    assert_eq!(names_in(&tree.path.join("trash")), [""; 0]);
}

#[test]
fn volume_made_as_directory_keeps_its_keys() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    fs::create_dir_all(live_path(&tree.path)).unwrap();
    // Keys as versions without snapshots made them: the kernel's whole handle.
    let key = {
        let before = Store::open(&live_path(&tree.path), Options::default()).unwrap();
        let node = before.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap().found.node;
        node.write(0, b"old", KEEP_SET_ID).unwrap();
        node.key()
    };
    assert_eq!((key.bytes()[0], key.bytes().len()), (1, 22));
    let volumes = open(&tree.path);
    let volume = opened(&volumes);
    assert!(volume.snapshots().is_none());
    let found = volume.node(&key, Blocking::Allowed).unwrap();
    assert_eq!((found.key(), found.read_vec(0, 9, Blocking::Allowed)), (key, Ok(b"old".to_vec())));
    assert_eq!(names_in(&tree.path.join("snapshots")), [""; 0]);
    drop((volume, found));
    assert_eq!(volumes.revert(ID, ViewId(1), &mut unpaced), Err(FsError::NotSupported));
    let clone = volumes.clone_volume(ID, ViewId(1), VolumeId(1), &root(), CAPACITY, &mut unpaced);
    assert_eq!(clone, Err(FsError::NotSupported));
    // A volume made now has the other form, and a key of one form is not a key of the other.
    volumes.make(VolumeId(2), &root(), CAPACITY).unwrap();
    let other = volumes.open(VolumeId(2)).unwrap();
    assert_eq!((other.root().key().bytes()[0], other.root().key().bytes().len()), (3, 13));
    assert_eq!(other.node(&key, Blocking::Allowed).err(), Some(FsError::Stale));
    assert_eq!(opened(&volumes).node(&other.root().key(), Blocking::Allowed).err(), Some(FsError::Stale));
}

/// A directory on Btrfs that is served alone has no snapshots and the keys that it had, even if it is a subvolume.
#[test]
fn exported_subvolume_keeps_its_keys() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    drop(opened(&open(&tree.path)));
    let store = Store::open(&live_path(&tree.path), Options::default()).unwrap();
    assert!(store.snapshots().is_none());
    assert_eq!((store.root().key().bytes()[0], store.root().key().bytes().len()), (1, 22));
}

/// A volume with `file`: snapshot 1 has "one", snapshot 2 "two", the live one "three".
fn prepare(data: &Path) {
    let volumes = open(data);
    let volume = opened(&volumes);
    let node = file(&volume, "file", b"one");
    of(&volume).create(ViewId(1)).unwrap();
    node.write(0, b"two", KEEP_SET_ID).unwrap();
    file(&volume, "second", b"");
    of(&volume).create(ViewId(2)).unwrap();
    node.write(0, b"three", KEEP_SET_ID).unwrap();
    volume.sync().unwrap();
}

const SNAPSHOT: [&str; 2] = ["0000000000000001", "0000000000000002"];

#[test]
fn create_can_be_repeated_after_crash() {
    for step in [("syncfs", libc::SYS_syncfs), ("ioctl", libc::SYS_ioctl), ("fsync", libc::SYS_fsync)] {
        let Some(tree) = Tree::new(Ground::Btrfs) else { return };
        prepare(&tree.path);
        run_until_killed(&tree.path, "create", step);
        let volumes = open(&tree.path);
        let volume = opened(&volumes);
        let is_made = of(&volume).list().unwrap() == [1, 2, 3].map(ViewId);
        assert_eq!(is_made, step.0 == "fsync", "{step:?}");
        let again = of(&volume).create(ViewId(3));
        assert_eq!(again, if is_made { Err(FsError::Exists) } else { Ok(()) }, "{step:?}");
        let made = of(&volume).open(ViewId(3)).unwrap();
        assert_eq!(contents(&made, "file"), Ok(b"three".to_vec()), "{step:?}");
    }
}

#[test]
fn interrupted_delete_goes_on() {
    let steps = [("renameat", libc::SYS_renameat), ("fsync", libc::SYS_fsync), ("ioctl", libc::SYS_ioctl)];
    for (step, is_repeated) in steps.into_iter().flat_map(|step| [(step, true), (step, false)]) {
        let Some(tree) = Tree::new(Ground::Btrfs) else { return };
        prepare(&tree.path);
        run_until_killed(&tree.path, "delete", step);
        let volumes = open(&tree.path);
        let volume = opened(&volumes);
        let has_begun = step.0 != "renameat";
        let left = if has_begun { &SNAPSHOT[1..] } else { &SNAPSHOT[..] };
        assert_eq!(names_in(&snapshots_path(&tree.path)), left, "{step:?}");
        if is_repeated || !has_begun {
            delete(&volume, 1);
        }
        assert!(volumes.wait_for_trash(WAIT_MAX));
        assert_eq!(of(&volume).list(), Ok(vec![ViewId(2)]), "{step:?}");
        assert_eq!(names_in(&snapshots_path(&tree.path)), SNAPSHOT[1..], "{step:?}");
        assert_eq!(names_in(&tree.path.join("trash")), [""; 0], "{step:?}");
        let second = of(&volume).open(ViewId(2)).unwrap();
        assert_eq!(contents(&second, "file"), Ok(b"two".to_vec()), "{step:?}");
    }
}

#[test]
fn revert_can_be_repeated_after_crash() {
    let steps = [
        ("flock", libc::SYS_flock),
        ("fdatasync", libc::SYS_fdatasync),
        ("ioctl", libc::SYS_ioctl),
        ("renameat2", libc::SYS_renameat2),
        ("fsync", libc::SYS_fsync),
        ("renameat", libc::SYS_renameat),
    ];
    for step in steps {
        let Some(tree) = Tree::new(Ground::Btrfs) else { return };
        prepare(&tree.path);
        let key = {
            let volumes = open(&tree.path);
            let volume = opened(&volumes);
            volume.root().lookup(name("file"), Blocking::Allowed).unwrap().node.key()
        };
        run_until_killed(&tree.path, "revert", step);
        let volumes = open(&tree.path);
        assert!(volumes.wait_for_trash(WAIT_MAX));
        assert_eq!(names_in(&snapshots_path(&tree.path)), SNAPSHOT, "{step:?}");
        let is_done = step.0 == "renameat";
        let now = |volume: &Arc<dyn Backend>| {
            let node = volume.node(&key, Blocking::Allowed).unwrap();
            assert_eq!(volume.root().lookup(name("file"), Blocking::Allowed).unwrap().node.key(), key);
            (node.read_vec(0, 9, Blocking::Allowed).unwrap(), contents(volume, "second").is_ok())
        };
        let [old, new] = [(b"three".to_vec(), true), (b"one".to_vec(), false)];
        assert_eq!(now(&opened(&volumes)), if is_done { new.clone() } else { old }, "{step:?}");
        volumes.revert(ID, ViewId(1), &mut unpaced).unwrap();
        let volume = opened(&volumes);
        assert_eq!(now(&volume), new, "{step:?}");
        assert_eq!(volumes.usage(ID).unwrap().files, 2, "{step:?}");
        assert_eq!(Volumes::recount(&live_path(&tree.path)).unwrap(), volumes.usage(ID).unwrap());
        assert!(volumes.wait_for_trash(WAIT_MAX));
        assert_eq!(names_in(&snapshots_path(&tree.path)), SNAPSHOT, "{step:?}");
        assert_eq!(names_in(&tree.path.join("trash")), [""; 0], "{step:?}");
        let second = of(&volume).open(ViewId(2)).unwrap();
        assert_eq!(contents(&second, "file"), Ok(b"two".to_vec()), "{step:?}");
    }
}

#[test]
fn clone_can_be_repeated_after_crash() {
    const CLONE: VolumeId = VolumeId(0xc1);
    let steps = [
        ("ioctl", libc::SYS_ioctl),
        ("fchmod", libc::SYS_fchmod),
        ("fsync", libc::SYS_fsync),
        ("flock", libc::SYS_flock),
        ("pwrite64", libc::SYS_pwrite64),
        ("fdatasync", libc::SYS_fdatasync),
    ];
    for step in steps {
        let Some(tree) = Tree::new(Ground::Btrfs) else { return };
        prepare(&tree.path);
        run_until_killed(&tree.path, "clone", step);
        let volumes = open(&tree.path);
        let root = Root { mode: 0o700, ..root() };
        volumes.clone_volume(ID, ViewId(2), CLONE, &root, CAPACITY, &mut unpaced).unwrap();
        let clone = volumes.open(CLONE).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        assert_eq!(contents(&clone, "file"), Ok(b"two".to_vec()), "{step:?}");
        assert_eq!(clone.root().attrs(Blocking::Allowed).unwrap().mode, 0o700, "{step:?}");
        assert_eq!(clone.stat().unwrap().bytes_total, CAPACITY.bytes, "{step:?}");
        assert_eq!(volumes.usage(CLONE).unwrap().files, 3, "{step:?}");
        file(&clone, "new", b"new");
        assert_eq!(contents(&opened(&volumes), "new"), Err(FsError::NotFound), "{step:?}");
    }
}

/// A deletion file by file that was ended early, or by the end of the process, is completed after a start.
#[test]
fn half_deleted_snapshot_goes_after_start() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    tree.give_to(NOBODY);
    run_again(&tree, "half", &AS_NOBODY);
}

fn delete_half(data: &Path) {
    const FILES: usize = 500;
    let volumes = open(data);
    let volume = opened(&volumes);
    for number in 0..FILES {
        file(&volume, &format!("file-{number}"), b"contents");
    }
    of(&volume).create(ViewId(1)).unwrap();
    of(&volume).create(ViewId(2)).unwrap();
    let mut reported = Vec::new();
    let done = of(&volume).delete(ViewId(1), &mut |progress| {
        reported.push(progress.done);
        if reported.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(done == Ok(false) && reported[0] < reported[1], "{done:?} {reported:?}");
    let half = snapshots_path(data).join("0000000000000001.deleted");
    let left = names_in(&half).len();
    assert!(left > 0 && left < FILES, "{left}");
    drop((volume, volumes));
    let volumes = open(data);
    assert!(volumes.wait_for_trash(WAIT_MAX));
    assert_eq!(
        (names_in(&data.join("trash")), names_in(&snapshots_path(data))),
        (vec![], vec![SNAPSHOT[1].to_owned()])
    );
    let volume = opened(&volumes);
    assert_eq!(of(&volume).list(), Ok(vec![ViewId(2)]));
    let second = of(&volume).open(ViewId(2)).unwrap();
    assert_eq!(contents(&second, "file-499"), Ok(b"contents".to_vec()));
    assert_eq!(contents(&volume, "file-0"), Ok(b"contents".to_vec()));
}

#[test]
#[ignore = "run by other tests in a process of its own"]
fn inner() {
    let data = std::env::var_os(DIR).expect("started by another test");
    let data = Path::new(&data);
    let mode = std::env::var(MODE).expect("a mode");
    if mode == "half" {
        return delete_half(data);
    }
    let Some((what, call)) = mode.split_once(' ') else {
        return run_suite(
            data,
            &[
                (Lack::Devices, "mknod(2) of a device needs CAP_MKNOD"),
                (Lack::SpecialOwners, "only regular files and directories carry the extended attribute"),
            ],
        );
    };
    let call = call.parse().expect("a call");
    let volumes = open(data);
    match what {
        "create" | "delete" => {
            let volume = opened(&volumes);
            die_at(call);
            match what {
                "create" => of(&volume).create(ViewId(3)).unwrap(),
                _ => delete(&volume, 1),
            }
        }
        "revert" => {
            die_at(call);
            volumes.revert(ID, ViewId(1), &mut unpaced).unwrap();
        }
        "clone" => {
            die_at(call);
            let root = Root { mode: 0o700, ..root() };
            volumes.clone_volume(ID, ViewId(2), VolumeId(0xc1), &root, CAPACITY, &mut unpaced).unwrap();
        }
        _ => panic!("no such mode: {mode}"),
    }
}
