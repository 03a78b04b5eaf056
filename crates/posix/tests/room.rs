//! Space is charged before a change begins, and a removal frees space at once.

mod fixture;

use fixture::{AS_NOBODY, DIR, Ground, MODE, NOBODY, Tree, name, new_inode, run, run_again};
use posix::{Options, Volumes};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Backend, Blocking, Caller, Capacity, Disposition, Durability, Export, FsError, NodeRef, PendingSync,
    Provisioner, Root, SetAttrs, Span, Usage, ViewId, Volume, VolumeId,
};
use vfs_testing::UncheckedNode;

const ID: VolumeId = VolumeId(0xc0ffee);
const MIB: u64 = 1 << 20;

/// A small file system in memory, unmounted on drop.
struct Small<'t>(&'t Tree);

impl<'t> Small<'t> {
    fn mount(tree: &'t Tree, options: &str) -> Self {
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&tree.path).status();
        assert!(mount.unwrap().success());
        Self(tree)
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        // Lazily, because a failed test may still have files open.
        assert!(Command::new("umount").arg("-l").arg(&self.0.path).status().unwrap().success());
    }
}

fn root() -> Root {
    let own = new_inode(0o750);
    Root { mode: own.mode, uid: own.uid, gid: own.gid }
}

fn volume(data: &Path, mib: u64) -> (Arc<Volumes>, Arc<dyn Backend>) {
    volume_for(data, mib, 100)
}

fn volume_for(data: &Path, mib: u64, files: u64) -> (Arc<Volumes>, Arc<dyn Backend>) {
    let volumes = Volumes::open(data, Options::default()).unwrap();
    volumes.make(ID, &root(), Capacity { bytes: mib * MIB, files }).unwrap();
    let backend = volumes.open(ID).unwrap();
    (volumes, backend)
}

fn caller() -> Caller {
    let own = new_inode(0);
    Caller::new(own.uid, own.gid, [])
}

#[test]
fn file_of_impossible_size_is_not_created() {
    for ground in [Ground::Tmpfs, Ground::Disk] {
        let tree = Tree::new(ground).unwrap();
        let (volumes, backend) = volume(&tree.path, 9);
        let volume = Arc::new(Volume::new(ID, "v", backend, Durability::Relaxed, 1));
        let (top, mut pending) = (Arc::new(Export::new("/v", volume, vec![])).root(), PendingSync::default());
        let mut create = |text: &str, size| {
            let set = SetAttrs { size: Some(size), mode: Some(0o444), ..SetAttrs::default() };
            top.create(&caller(), text.as_bytes(), Disposition::CreateNew, &set, &mut pending)
        };
        for size in [9 * MIB, 1 << 50, i64::MAX.unsigned_abs(), u64::MAX] {
            let refusal = create("big", size).err();
            assert!(matches!(refusal, Some(FsError::NoSpace | FsError::FileTooBig)), "{size}: {refusal:?}");
            let found = top.open_dir(&caller(), Blocking::Allowed).unwrap().lookup(b"big", Blocking::Allowed);
            assert_eq!(found.err(), Some(FsError::NotFound), "{size} on {ground:?}");
            assert_eq!(volumes.usage(ID), Ok(Usage { bytes: 0, files: 1 }), "{size} on {ground:?}");
        }
        let made = create("whole", 8 * MIB).unwrap();
        assert_eq!((made.attrs.size, made.attrs.mode), (8 * MIB, 0o444));
        assert_eq!(volumes.usage(ID), Ok(Usage { bytes: 8 * MIB + 1024, files: 2 }));
        top.remove(&caller(), b"whole", &mut pending).unwrap();
        assert_eq!(volumes.usage(ID), Ok(Usage { bytes: 0, files: 1 }));
    }
}

/// Applies even while a protocol's cache still references the node.
#[test]
fn removed_file_frees_space_at_once() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let _small = Small::mount(&tree, "size=12m,nr_inodes=60");
    let (volumes, volume) = volume(&tree.path, 64);
    let (top, data) = (volume.root(), vec![7; 6 << 20]);
    let mut nodes: Vec<NodeRef> = Vec::new();
    for round in 0..4 {
        let made = top.create_unchecked(name("file"), &new_inode(0o644)).unwrap();
        made.found.node.write(0, &data, KEEP_SET_ID).unwrap_or_else(|error| panic!("round {round}: {error}"));
        // Also open for reading.
        assert_eq!(made.found.node.read_vec(0, 10, Blocking::Allowed), Ok(vec![7; 10]));
        nodes.push(made.found.node);
        top.remove_unchecked(name("file")).unwrap();
    }
    for _ in 0..100 {
        let (dir, link) = (new_inode(0o755), vfs::Special::Symlink(b"target"));
        nodes.push(top.make_dir_unchecked(name("dir"), &dir).unwrap().found.node);
        top.remove_dir_unchecked(name("dir")).unwrap();
        nodes.push(top.make_special_unchecked(name("link"), link, &dir).unwrap().found.node);
        top.remove_unchecked(name("link")).unwrap();
        nodes.push(top.create_unchecked(name("old"), &dir).unwrap().found.node);
        nodes.push(top.create_unchecked(name("new"), &dir).unwrap().found.node);
        top.rename_unchecked(name("new"), &top, name("old")).unwrap();
        top.remove_unchecked(name("old")).unwrap();
    }
    for node in &nodes {
        assert_eq!(node.attrs(Blocking::Allowed).err(), Some(FsError::Stale));
        assert_eq!(node.sync(vfs::SyncScope::All), Ok(()), "what is gone needs no flush");
        assert!(node.lookup(name("any"), Blocking::Allowed).is_err() && node.read_link().is_err());
        assert!(node.read_dir(0, true, &mut |_| std::ops::ControlFlow::Continue(())).is_err());
        assert!(node.create_unchecked(name("more"), &new_inode(0o644)).is_err());
        assert!(
            node.read_vec(0, 10, Blocking::Allowed).is_err(),
            "no empty contents in place of what was there"
        );
        assert!(node.write(0, b"more", KEEP_SET_ID).is_err());
    }
    assert_eq!(volumes.usage(ID), Ok(Usage { bytes: 0, files: 1 }));
}

/// The reserve is lent on a full disk, in bytes and files, and restored afterwards.
#[test]
fn full_disk_lends_reserve() {
    for (options, fills_bytes) in [("size=24m", true), ("size=24m,nr_inodes=60", false)] {
        let tree = Tree::new(Ground::Disk).unwrap();
        let _small = Small::mount(&tree, options);
        let (volumes, _volume) = volume(&tree.path, 64);
        let reserve_files = || std::fs::read_dir(tree.path.join("reserve")).unwrap().count();
        assert_eq!(reserve_files(), 16);
        drop(volumes.lend_room());
        assert_eq!(reserve_files(), 16, "with room there is no need");
        let can_make = |text: &str| std::fs::write(tree.path.join(text), [1; 4096]).is_ok();
        if fills_bytes {
            let mut file = std::fs::File::create(tree.path.join("filler")).unwrap();
            while std::io::Write::write(&mut file, &[1; 4096]).is_ok() {}
        } else {
            (0..).find(|n| std::fs::File::create(tree.path.join(format!("filler-{n}"))).is_err());
        }
        assert!(!can_make("more"));
        let (lease, again) = (volumes.lend_room(), volumes.lend_room());
        assert_eq!(reserve_files(), 0);
        (0..10).for_each(|n| assert!(can_make(&format!("more-{n}"))));
        drop(lease);
        assert_eq!(reserve_files(), 0, "somebody else needs it still");
        drop(again);
        assert!((1..16).contains(&reserve_files()), "what is left of it is kept aside");
        // Management operations borrow the reserve.
        volumes.make(VolumeId(8), &root(), Capacity { bytes: MIB, files: 10 }).unwrap();
        drop(volumes.open(VolumeId(8)).unwrap());
        volumes.remove(VolumeId(8)).unwrap();
        for entry in std::fs::read_dir(&tree.path).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        (0..60).for_each(|_| volumes.sweep(1));
        assert_eq!(reserve_files(), 16, "with room again all of it is");
    }
}

/// [`removed_file_frees_space_at_once`] for all files of a removed volume.
#[test]
fn removed_volume_frees_space_at_once() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let _small = Small::mount(&tree, "size=12m");
    let (volumes, volume) = volume(&tree.path, 64);
    let made = volume.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap();
    made.found.node.write(0, &vec![7; 8 << 20], KEEP_SET_ID).unwrap();
    let free = || volumes.room().unwrap().bytes_free;
    let before = free();
    volumes.remove(ID).unwrap();
    assert!(volumes.wait_for_trash(std::time::Duration::from_secs(20)));
    assert!(free() >= before + 8 * MIB, "{before} and now {}", free());
    assert_eq!(made.found.node.attrs(Blocking::Allowed).err(), Some(FsError::Stale));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharedWith {
    Snapshot,
    /// In a volume that an earlier version made.
    SnapshotOfOlderVolume,
    Clone,
}

/// By default XFS sets aside 128 KiB for each shared block that is overwritten.
#[test]
fn overwriting_many_small_shared_files_takes_only_their_blocks() {
    const FILES: u32 = 4000;
    const TAKEN_MAX: u64 = FILES as u64 * (8 << 10);
    for shared in [SharedWith::Snapshot, SharedWith::SnapshotOfOlderVolume, SharedWith::Clone] {
        let Some(tree) = Tree::new(Ground::Xfs) else { return };
        let (_volumes, volume) = volume_for(&tree.path, 1024, 100_000);
        if shared == SharedWith::SnapshotOfOlderVolume {
            let dir = tree.path.join("volumes").join(format!("{:016x}", ID.0));
            assert!(run(Command::new("xfs_io").args(["-c", "cowextsize 0"]).arg(dir)));
        }
        let file = |prefix: &str, number: u32| {
            let made = volume.root().create_unchecked(name(&format!("{prefix}{number}")), &new_inode(0o644));
            made.unwrap().found.node
        };
        let files: Vec<_> = (0..FILES).map(|number| file("f", number)).collect();
        for (number, file_of) in (0..FILES).zip(&files) {
            file_of.write(0, &[1; 4096], KEEP_SET_ID).unwrap();
            if shared == SharedWith::Clone {
                let whole = Span { source: 0, target: 0, len: 4096 };
                let ranges = file_of.ranges().unwrap();
                ranges.clone_to(&file("clone", number), &whole, KEEP_SET_ID).unwrap();
            }
        }
        if shared != SharedWith::Clone {
            volume.snapshots().unwrap().create(ViewId(1)).unwrap();
        }
        let room = || rustix::fs::statvfs(&tree.path).map(|room| room.f_bfree * room.f_frsize).unwrap();
        let before = room();
        for (number, file) in files.iter().enumerate() {
            let written = file.write(0, &[2; 4096], KEEP_SET_ID);
            assert!(written.is_ok(), "{written:?} at file {number} with {shared:?}");
        }
        // Until data is written, XFS sets some aside for its own index, too.
        volume.sync().unwrap();
        let taken = before.saturating_sub(room());
        assert!(taken <= TAKEN_MAX, "{taken} taken with {shared:?}");
    }
}

fn check_size_limit(node: &NodeRef, max: u64) {
    assert_eq!(node.write(max - 2, b"four", KEEP_SET_ID).err(), Some(FsError::FileTooBig));
    assert_eq!(node.write(max, b"x", KEEP_SET_ID).err(), Some(FsError::FileTooBig));
    assert_eq!(node.reserve(max - 2, 4, KEEP_SET_ID).err(), Some(FsError::FileTooBig));
    let size = SetAttrs { size: Some(max + 1), ..SetAttrs::default() };
    assert_eq!(node.set_attrs(&size).err(), Some(FsError::FileTooBig));
    assert_eq!(node.attrs(Blocking::Allowed).unwrap().size, 0, "nothing of it is written");
}

/// ext4 allows files of up to 16 TiB, tmpfs larger ones.
#[test]
fn file_size_limit_is_that_of_file_system() {
    use vfs::Backend;
    let memory = Tree::new(Ground::Tmpfs).unwrap();
    assert_eq!(memory.open().limits().file_bytes_max, i64::MAX.unsigned_abs());
    let Some(ext4) = Tree::new(Ground::Ext4) else { return };
    let served = ext4.open();
    let max = served.limits().file_bytes_max;
    assert!(max > 1 << 40 && max < 1 << 45, "{max}");
    check_size_limit(&served.file(&served.root(), "file"), max);
}

#[test]
fn process_file_size_limit_refuses_without_killing() {
    let tree = Tree::new(Ground::Disk).unwrap();
    tree.give_to(NOBODY);
    run_again(&tree, "fsize", &AS_NOBODY);
}

#[test]
#[ignore = "run by other tests in a process of its own"]
fn inner() {
    use vfs::Backend;
    let path = std::env::var_os(DIR).expect("started by another test");
    assert_eq!(std::env::var(MODE).as_deref(), Ok("fsize"));
    let limit = rustix::process::Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    let store = posix::Store::open(Path::new(&path), Options::default()).unwrap();
    assert_eq!(store.limits().file_bytes_max, 1 << 20);
    let node = store.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap().found.node;
    check_size_limit(&node, 1 << 20);
    node.write(0, &vec![1; 1 << 20], KEEP_SET_ID).unwrap();
}

/// The disk has less space than the volume: a write in parts is refused before its first part, and a granted one
/// succeeds.
#[test]
fn reservation_past_free_disk_space_is_refused() {
    for options in ["size=16m", "size=16m,huge=never"] {
        let tree = Tree::new(Ground::Disk).unwrap();
        let _small = Small::mount(&tree, options);
        let (volumes, volume) = volume(&tree.path, 64);
        let file = volume.root().create_unchecked(name("a"), &new_inode(0o644)).unwrap().found.node;
        let other = volume.root().create_unchecked(name("b"), &new_inode(0o644)).unwrap().found.node;
        let used = || volumes.usage(ID).unwrap().bytes;
        assert_eq!(file.reserve(0, 20 << 20, KEEP_SET_ID).err(), Some(FsError::NoSpace));
        assert_eq!((file.attrs(Blocking::Allowed).unwrap().size, used()), (0, 2 * 1024));
        file.reserve(0, 8 << 20, KEEP_SET_ID).unwrap();
        assert_eq!(other.write(0, &vec![2; 12 << 20], KEEP_SET_ID).err(), Some(FsError::NoSpace));
        for part in 0..8 {
            file.write(part * MIB, &vec![1; 1 << 20], KEEP_SET_ID).unwrap();
        }
        file.release(0, 8 << 20);
        assert_eq!(used(), 8 * MIB + 2 * 1024);
        file.reserve(8 * MIB, 3 << 20, KEEP_SET_ID).unwrap();
        file.release(8 * MIB, 3 << 20);
        assert_eq!(used(), 8 * MIB + 2 * 1024);
        other.write(0, &vec![2; 3 << 20], KEEP_SET_ID).unwrap();
    }
}
