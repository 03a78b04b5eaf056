//! Capacity of volumes on every file system, with and without privileges, and after a crash at any step.
//!
//! Processes without privileges and processes that are killed are this test program started again. See the test
//! `inner`.

mod fixture;

use fixture::crash::{die_at, run_until_killed};
use fixture::{AS_NOBODY, DIR, Ground, MODE, NOBODY, Tree, name, new_inode, run_again, run_inner};
use posix::{Options, Volumes};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use vfs::backend::KEEP_SET_ID;
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES};
use vfs::sync::Mutex;
use vfs::{
    Backend, Blocking, Capacity, Counting, FsError, NodeRef, Provisioner, Root, SetAttrs, Special, Usage,
    VolumeId, Wait,
};
use vfs_testing::UncheckedNode;
use vfs_testing::conformance::capacity::{self, Charging, End, Fixture};

const GROUNDS: [Ground; 6] =
    [Ground::Tmpfs, Ground::Disk, Ground::Xfs, Ground::Btrfs, Ground::XfsProjects, Ground::Ext4Projects];
const ID: VolumeId = VolumeId(0xfeed_f00d_dead_beef);
const FILE: u64 = INODE_BYTES + NAME_BYTES;
const CAPACITY: Capacity = Capacity { bytes: 64 << 20, files: 1000 };
/// Only a hang takes this long: a machine may stop a process for minutes while the clock runs on.
const WAIT_MAX: Duration = Duration::from_secs(600);

fn open(data: &Path) -> Arc<Volumes> {
    Volumes::open(data, Options { copy_snapshots: true, ..Options::default() }).expect("volumes")
}

fn root() -> Root {
    let own = new_inode(0o750);
    Root { mode: own.mode, uid: own.uid, gid: own.gid }
}

fn records(data: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let list = |dir| fs::read_dir(data.join(dir)).expect("a directory");
    let paths = list("usage").chain(list("quotas")).map(|entry| entry.expect("an entry").path());
    paths.map(|path| (path.clone(), fs::read(&path).expect("a record"))).collect()
}

fn run_in(path: &Path, charging: Charging) {
    let next = AtomicU32::new(0);
    capacity::run(&|| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if let Some(earlier) = number.checked_sub(1) {
            // A small image has no room for the reserves of all cases.
            let _removed = fs::remove_dir_all(path.join(format!("data-{earlier}")));
        }
        let data = path.join(format!("data-{number}"));
        fs::create_dir(&data).expect("a directory");
        let provisioner = open(&data);
        let last = Arc::new(Mutex::new(Arc::downgrade(&provisioner)));
        let sweeping = Arc::clone(&last);
        let sweep = Arc::new(move || sweeping.lock().upgrade().into_iter().for_each(|all| all.sweep(4)));
        let own = new_inode(0);
        let again = move |provisioner: Arc<dyn Provisioner>, volume: Arc<dyn Backend>, end| {
            let saved = records(&data);
            drop((volume, provisioner));
            if end == End::Killed {
                // A killed process leaves the files that it passed to the kernel, and a usage file that is not clean.
                saved.into_iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("a record"));
            }
            let provisioner = open(&data);
            *last.lock() = Arc::downgrade(&provisioner);
            provisioner as Arc<dyn Provisioner>
        };
        Fixture { provisioner, charging, ids: (own.uid, own.gid), again: Arc::new(again), sweep }
    });
}

#[test]
fn volume_stays_within_capacity() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        eprintln!("on {ground:?}");
        let by_kernel = ground == Ground::XfsProjects;
        {
            let volumes = open(&tree.path);
            volumes.make(ID, &root(), CAPACITY).unwrap();
            assert_eq!(volumes.is_counted_by_kernel(ID), Ok(by_kernel));
        }
        run_in(&tree.path, if by_kernel { Charging::Kernel } else { Charging::Sizes });
    }
}

#[test]
fn ordinary_user_has_volumes() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        tree.give_to(NOBODY);
        run_again(&tree, "suite", &AS_NOBODY);
        run_again(&tree, "read-only", &AS_NOBODY);
    }
}

fn fill(volumes: &Volumes) -> Arc<dyn Backend> {
    volumes.make(ID, &root(), CAPACITY).unwrap();
    let volume = volumes.open(ID).unwrap();
    let file = volume.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap().found.node;
    file.write(0, b"contents", KEEP_SET_ID).unwrap();
    volume
}

/// Checks the usage of a volume. For some milliseconds, the kernel still counts the files by which an open has examined the
/// file system.
#[track_caller]
fn check_usage(volumes: &Volumes, usage: Usage, what: &str) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let is_early = || {
        volumes.is_counted_by_kernel(ID) == Ok(true)
            && volumes.usage(ID) != Ok(usage)
            && std::time::Instant::now() < until
    };
    while is_early() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(volumes.usage(ID), Ok(usage), "{what}");
}

fn holds_the_file(volumes: &Volumes) {
    let file = volumes.open(ID).unwrap().root().lookup(name("file"), Blocking::Allowed).unwrap().node;
    assert_eq!(file.read_vec(0, 20, Blocking::Allowed), Ok(b"contents".to_vec()));
    let bytes = volumes.usage(ID).unwrap().bytes;
    check_usage(volumes, Usage { bytes, files: 2 }, "the file");
}

#[test]
fn unlinked_file_is_charged_until_closed() {
    for ground in [Ground::Disk, Ground::XfsProjects] {
        let Some(tree) = Tree::new(ground) else { continue };
        let volumes = open(&tree.path);
        let volume = fill(&volumes);
        let used = || volumes.usage(ID).unwrap();
        let file = volume.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
        file.write(0, &[7; 1 << 20], KEEP_SET_ID).unwrap();
        let before = used();
        assert!(before.files == 2 && before.bytes >= 1 << 20, "{ground:?}: {before:?}");
        file.pin();
        volume.root().remove_unchecked(name("file")).unwrap();
        volumes.sweep(4);
        file.write(0, b"still there", KEEP_SET_ID).unwrap();
        let name = if ground == Ground::Disk { NAME_BYTES } else { 0 };
        let nameless = Usage { bytes: before.bytes - name, ..before };
        assert_eq!(used(), nameless, "{ground:?}: somebody has it open");
        file.unpin();
        volumes.sweep(4);
        assert_eq!(file.write(0, b"gone", KEEP_SET_ID).err(), Some(FsError::Stale));
        assert_eq!(used(), Usage { bytes: 0, files: 1 }, "{ground:?}: nobody has");
        // A second sweep refunds nothing.
        volumes.sweep(4);
        assert_eq!(used(), Usage { bytes: 0, files: 1 }, "{ground:?}");
    }
}

const STEPS_OF_MAKE: [(&str, i64); 6] = [
    ("mkdirat", libc::SYS_mkdirat),
    ("fchmod", libc::SYS_fchmod),
    ("fsync", libc::SYS_fsync),
    ("flock", libc::SYS_flock),
    ("pwrite64", libc::SYS_pwrite64),
    ("fdatasync", libc::SYS_fdatasync),
];
const STEPS_OF_A_PROJECT: [(&str, i64); 2] = [("ioctl", libc::SYS_ioctl), ("quotactl_fd", 443)];
const STEPS_OF_REMOVE: [(&str, i64); 3] =
    [("renameat", libc::SYS_renameat), ("fsync", libc::SYS_fsync), ("unlinkat", libc::SYS_unlinkat)];

#[test]
fn make_can_be_repeated_after_crash() {
    for ground in [Ground::Disk, Ground::Btrfs, Ground::XfsProjects] {
        let Some(tree) = Tree::new(ground) else { continue };
        let (first, more): (_, &[_]) = match ground {
            Ground::XfsProjects => (0, &STEPS_OF_A_PROJECT),
            // A subvolume in place of a directory.
            Ground::Btrfs => (1, &STEPS_OF_A_PROJECT[..1]),
            _ => (0, &[]),
        };
        for &step in STEPS_OF_MAKE[first..].iter().chain(more) {
            run_until_killed(&tree.path, "make", step);
            let volumes = open(&tree.path);
            volumes.make(ID, &root(), CAPACITY).unwrap();
            let volume = volumes.open(ID).unwrap();
            let attrs = volume.root().attrs(Blocking::Allowed).unwrap();
            assert_eq!((attrs.mode, attrs.uid), (0o750, root().uid), "{step:?}");
            let stat = volume.stat().unwrap();
            assert_eq!((stat.bytes_total, stat.files_total), (CAPACITY.bytes, CAPACITY.files), "{step:?}");
            check_usage(&volumes, Usage { bytes: 0, files: 1 }, &format!("{step:?}"));
            assert_eq!(volumes.is_counted_by_kernel(ID), Ok(ground == Ground::XfsProjects), "{step:?}");
            drop(volume);
            volumes.remove(ID).unwrap();
            assert!(volumes.wait_for_trash(WAIT_MAX));
        }
    }
}

#[test]
fn remove_can_be_repeated_after_crash() {
    for ground in [Ground::Disk, Ground::Btrfs, Ground::XfsProjects] {
        let Some(tree) = Tree::new(ground) else { continue };
        for step in STEPS_OF_REMOVE {
            drop(fill(&open(&tree.path)));
            run_until_killed(&tree.path, "remove", step);
            let volumes = open(&tree.path);
            // All or nothing.
            if volumes.list().unwrap() == [ID] {
                holds_the_file(&volumes);
            }
            volumes.remove(ID).unwrap();
            assert_eq!(volumes.list(), Ok(Vec::new()));
            assert_eq!(volumes.usage(ID), Err(FsError::NotFound));
            assert!(volumes.wait_for_trash(WAIT_MAX), "{step:?}");
            drop(volumes);
            assert_eq!(records(&tree.path), [], "{step:?}");
            assert_eq!(fs::read_dir(tree.path.join("trash")).unwrap().count(), 0, "{step:?}");
        }
    }
}

#[test]
#[ignore = "run by other tests in a process of its own"]
fn inner() {
    let data = std::env::var_os(DIR).expect("started by another test");
    let data = Path::new(&data);
    let mode = std::env::var(MODE).expect("a mode");
    match mode.split_once(' ') {
        Some((what, call)) => {
            let volumes = open(data);
            die_at(call.parse().expect("a call"));
            match what {
                "make" => volumes.make(ID, &root(), CAPACITY).unwrap(),
                "remove" => volumes.remove(ID).unwrap(),
                "open" => {
                    let _volume = volumes.open(ID).unwrap();
                    assert!(volumes.wait_for_counts(WAIT_MAX));
                }
                _ => panic!("no such mode: {mode}"),
            }
        }
        None if mode == "suite" => run_in(data, Charging::Sizes),
        None if mode == "read-only" => read_only_trees_are_deleted(data),
        None if mode == "write" => {
            let volume = fill(&open(data));
            let file = volume.root().create_unchecked(name("growing"), &new_inode(0o644)).unwrap().found.node;
            let mut offset = 0;
            loop {
                file.write(offset, &[1; 4096], KEEP_SET_ID).unwrap();
                offset = (offset + 4096) % (32 << 20);
            }
        }
        None => panic!("no such mode: {mode}"),
    }
}

#[test]
fn killed_writer_leaves_countable_volume() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["inner", "--exact", "--ignored"])
        .env(DIR, &tree.path)
        .env(MODE, "write")
        .spawn()
        .unwrap();
    let growing = tree.path.join(format!("volumes/{:016x}/growing", ID.0));
    while fs::metadata(&growing).map_or(0, |found| found.len()) < 1 << 20 {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let volumes = open(&tree.path);
    let volume = volumes.open(ID).unwrap();
    assert!(volumes.wait_for_counts(WAIT_MAX));
    let size = fs::metadata(&growing).unwrap().len();
    assert_eq!(
        volumes.usage(ID),
        Ok(Usage { bytes: size.div_ceil(4096) * 4096 + 4096 + 2 * FILE, files: 3 })
    );
    drop(volume);
}

#[test]
fn orderly_end_avoids_recount() {
    // On a stalled machine the count may end before the first query: try again.
    assert!((0..10).any(|_| counts_only_after_kill()), "it is counted too soon");
}

/// Whether a volume of many files is counted after a kill and not after an orderly end. False if the count ended before
/// the refusals could be observed.
fn counts_only_after_kill() -> bool {
    let tree = Tree::new(Ground::Tmpfs).unwrap();
    let volumes = open(&tree.path);
    volumes.make(ID, &root(), Capacity { bytes: 1 << 30, files: 1 << 20 }).unwrap();
    let volume = volumes.open(ID).unwrap();
    for sub in 0..100 {
        let dir =
            volume.root().make_dir_unchecked(name(&format!("d{sub}")), &new_inode(0o755)).unwrap().found.node;
        for file in 0..1000 {
            dir.create_unchecked(name(&format!("f{file}")), &new_inode(0o644)).unwrap();
        }
    }
    let dir = tree.path.join(format!("volumes/{:016x}/d0", ID.0));
    let entries = fs::metadata(dir).unwrap().len().div_ceil(4096) * 4096;
    assert!(entries > 4096, "a large directory takes more than a block");
    let usage = Usage { bytes: 100_100 * FILE + 100 * entries, files: 100_101 };
    assert_eq!(volumes.usage(ID), Ok(usage));
    let in_use = records(&tree.path);
    drop((volume, volumes));
    // A walk would have to list a directory.
    let output = run_inner(&tree.path, &format!("open {}", libc::SYS_getdents64), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    in_use.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    run_until_killed(&tree.path, "open", ("getdents64", libc::SYS_getdents64));
    serves_while_counting(&tree.path, usage)
}

/// Whether a volume that is being counted can be read while its changes must wait. False if the count ended before that
/// could be observed.
fn serves_while_counting(data: &Path, usage: Usage) -> bool {
    let volumes = open(data);
    let started = std::time::Instant::now();
    let volume = volumes.open(ID).unwrap();
    let top = volume.root();
    let sub = top.lookup(name("d7"), Blocking::Allowed).unwrap().node;
    let file = sub.lookup(name("f7"), Blocking::Allowed).unwrap().node;
    let cut = SetAttrs { size: Some(0), ..SetAttrs::default() };
    let grown = SetAttrs { size: Some(1), ..SetAttrs::default() };
    let change = || {
        [
            top.create_unchecked(name("new"), &new_inode(0o644)).err(),
            top.make_dir_unchecked(name("new"), &new_inode(0o755)).err(),
            top.make_special_unchecked(name("new"), Special::Fifo, &new_inode(0o644)).err(),
            top.link_unchecked(name("new"), &file).err(),
            sub.rename_unchecked(name("f7"), &top, name("new")).err(),
            sub.rename_unchecked(name("f7"), &sub, name("f8")).err(),
            sub.remove_unchecked(name("f7")).err(),
            top.remove_dir_unchecked(name("d7")).err(),
            file.write(0, b"new", KEEP_SET_ID).err(),
            file.reserve(0, 1 << 20, KEEP_SET_ID).err(),
            file.set_attrs(&grown).err(),
        ]
    };
    let refusals = change();
    let (progress, opened) = (volumes.counting(), started.elapsed());
    let saved_files = volumes.usage(ID).unwrap().files;
    // The checkpoint may miss the last change: one file.
    if saved_files + 1 >= usage.files {
        return false;
    }
    assert_eq!(refusals, [Some(FsError::Wait(Wait::Recall)); 11]);
    assert_eq!((progress.volumes, progress.counted, progress.failed.len()), (1, 0, 0));
    assert_eq!(saved_files, 1, "what was last known");
    // A change that moves no count need not wait.
    file.set_attrs(&SetAttrs { mode: Some(0o600), ..cut }).unwrap();
    // An interrupted count is left to the next start.
    drop((top, sub, file, volume, volumes));
    let volumes = open(data);
    let _volume = volumes.open(ID).unwrap();
    assert!(volumes.wait_for_counts(WAIT_MAX));
    eprintln!("opened and asked in {opened:?}, counted in {:?}", started.elapsed());
    assert_eq!((volumes.usage(ID), volumes.counting()), (Ok(usage), Counting::default()));
    _volume.root().create_unchecked(name("new"), &new_inode(0o644)).unwrap();
    assert_eq!(volumes.usage(ID).unwrap().files, usage.files + 1);
    true
}

#[test]
fn failed_count_is_reported_and_retried() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let other = VolumeId(7);
    {
        let volumes = open(&tree.path);
        drop(fill(&volumes));
        volumes.make(other, &root(), CAPACITY).unwrap();
        let volume = volumes.open(other).unwrap();
        volume.root().make_dir_unchecked(name("mounted"), &new_inode(0o755)).unwrap();
    }
    for (path, mut bytes) in records(&tree.path) {
        // A usage file after a crash, with a wrong count.
        (bytes[1], bytes[39]) = (0, 99);
        fs::write(path, bytes).unwrap();
    }
    let inner = tree.path.join(format!("volumes/{:016x}/mounted", other.0));
    let mount = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&inner).status();
    assert!(mount.unwrap().success());
    let volumes = open(&tree.path);
    let (broken, volume) = (volumes.open(other).unwrap(), volumes.open(ID).unwrap());
    let counted = volumes.wait_for_counts(WAIT_MAX);
    let progress = volumes.counting();
    let refusal = broken.root().create_unchecked(name("file"), &new_inode(0o644)).err();
    let unmounted = Command::new("umount").arg(&inner).status().unwrap().success();
    assert!(!counted && unmounted);
    assert_eq!((progress.volumes, progress.counted), (2, 1));
    assert_eq!(progress.failed, [(other, FsError::CrossVolume)]);
    assert_eq!(refusal, Some(FsError::Io));
    assert!(broken.root().lookup(name("mounted"), Blocking::Allowed).is_ok(), "it can be read");
    assert_eq!(volumes.usage(ID), Ok(Usage { bytes: 4096 + FILE, files: 2 }));
    volume.root().create_unchecked(name("more"), &new_inode(0o644)).unwrap();
    (0..60).for_each(|_| volumes.sweep(1));
    assert!(volumes.wait_for_counts(WAIT_MAX));
    broken.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap();
    assert_eq!(volumes.usage(other), Ok(Usage { bytes: 2 * FILE + 4096, files: 3 }));
}

#[test]
fn data_directory_has_one_process() {
    let tree = Tree::new(Ground::Tmpfs).unwrap();
    let volumes = open(&tree.path);
    let busy = || Volumes::open(&tree.path, Options::default()).err().map(|error| error.kind());
    assert_eq!(busy(), Some(std::io::ErrorKind::ResourceBusy));
    let volume = fill(&volumes);
    drop(volumes);
    assert_eq!(busy(), Some(std::io::ErrorKind::ResourceBusy), "a volume is still open");
    drop(volume);
    holds_the_file(&open(&tree.path));
}

fn dir_in(dir: &NodeRef, text: &str, mode: u32) -> NodeRef {
    dir.make_dir_unchecked(name(text), &new_inode(mode)).unwrap().found.node
}

/// Deeper than PATH_MAX allows.
#[test]
fn deep_tree_is_counted_and_deleted() {
    const LEVELS: u64 = 3000;
    for ground in [Ground::Tmpfs, Ground::Disk] {
        let tree = Tree::new(ground).unwrap();
        let volumes = open(&tree.path);
        volumes.make(ID, &root(), Capacity { files: LEVELS + 1, ..CAPACITY }).unwrap();
        let volume = volumes.open(ID).unwrap();
        let mut dir = volume.root();
        for _ in 0..LEVELS {
            dir = dir_in(&dir, "a-directory-with-a-name", 0o755);
        }
        assert!(matches!(dir.make_dir_unchecked(name("more"), &new_inode(0o755)), Err(FsError::NoSpace)));
        let in_use = records(&tree.path);
        drop((dir, volume, volumes));
        in_use.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        let volumes = open(&tree.path);
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        drop(volume);
        assert_eq!(volumes.usage(ID), Ok(Usage { bytes: LEVELS * (FILE + 4096), files: LEVELS + 1 }));
        volumes.remove(ID).unwrap();
        assert!(volumes.wait_for_trash(WAIT_MAX));
        assert_eq!(fs::read_dir(tree.path.join("trash")).unwrap().count(), 0);
    }
}

/// Directories whose mode locks out even their owner, if not root.
fn read_only_trees_are_deleted(data: &Path) {
    let volumes = open(data);
    let volume = fill(&volumes);
    let dir = dir_in(&volume.root(), "dir", 0o755);
    dir_in(&dir, "sub", 0o755).create_unchecked(name("file"), &new_inode(0o444)).unwrap();
    let path = data.join(format!("volumes/{:016x}/dir", ID.0));
    fs::set_permissions(path.join("sub"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).unwrap();
    drop((dir, volume));
    volumes.remove(ID).unwrap();
    assert!(volumes.wait_for_trash(WAIT_MAX));
    assert_eq!(fs::read_dir(data.join("trash")).unwrap().count(), 0);
}

#[test]
fn delete_stays_in_volume() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let data = tree.path.join("data");
    let outside = tree.path.join("outside");
    for dir in [&data, &outside] {
        fs::create_dir(dir).unwrap();
    }
    fs::write(outside.join("precious"), "kept").unwrap();
    let volumes = open(&data);
    let volume = fill(&volumes);
    let path = data.join(format!("volumes/{:016x}", ID.0));
    symlink(&outside, path.join("link")).unwrap();
    fs::create_dir(path.join("mounted")).unwrap();
    let mount = |args: &[&Path]| Command::new("mount").arg("--bind").args(args).status().unwrap().success();
    assert!(mount(&[&outside, &path.join("mounted")]));
    drop(volume);
    volumes.remove(ID).unwrap();
    let done = volumes.wait_for_trash(WAIT_MAX);
    drop(volumes);
    let mounted = data.join(format!("trash/{:016x}/mounted", ID.0));
    assert!(Command::new("umount").arg(&mounted).status().unwrap().success());
    assert!(!done, "what is mounted on cannot be removed");
    assert_eq!(fs::read(outside.join("precious")).unwrap(), b"kept");
    assert!(open(&data).wait_for_trash(WAIT_MAX), "the next process goes on");
    assert_eq!(fs::read_dir(data.join("trash")).unwrap().count(), 0);
    assert_eq!(fs::metadata(outside.join("precious")).unwrap().nlink(), 1);
}

/// The file system may be full before the volume is: a partial write is undone.
#[test]
fn write_on_full_disk_leaves_file_and_count() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(&tree.path).status();
    assert!(mount.unwrap().success());
    let volumes = open(&tree.path);
    let volume = fill(&volumes);
    let stat = volume.stat().unwrap();
    assert!(stat.bytes_available < 6 << 20 && stat.bytes_free > 63 << 20, "{stat:?}");
    let file = volume.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
    let mib = vec![1; 1 << 20];
    file.write(8, &mib[8..], KEEP_SET_ID).unwrap();
    assert_eq!(file.write(1 << 20, &vec![2; 8 << 20], KEEP_SET_ID), Err(FsError::NoSpace));
    assert_eq!(file.attrs(Blocking::Allowed).unwrap().size, 1 << 20);
    assert_eq!(volumes.usage(ID), Ok(Usage { bytes: (1 << 20) + FILE, files: 2 }));
    file.write(1 << 20, &mib, KEEP_SET_ID).unwrap();
    assert_eq!(volumes.usage(ID), Ok(Usage { bytes: (2 << 20) + FILE, files: 2 }));
    drop((file, volume, volumes));
    assert!(Command::new("umount").arg(&tree.path).status().unwrap().success());
}

/// The kernel or this process counts, depending on the mount options. A volume may switch between the two.
#[test]
fn volume_switches_between_kernel_and_own_count() {
    let Some(tree) = Tree::new(Ground::XfsProjects) else { return };
    let remount = |options: &str| {
        let image = tree.path.parent().unwrap().join("image");
        assert!(Command::new("umount").arg(&tree.path).status().unwrap().success());
        let mount = Command::new("mount").args(["-o", options]).arg(&image).arg(&tree.path).status();
        assert!(mount.unwrap().success());
    };
    drop(fill(&open(&tree.path)));
    for (round, options) in (1..).zip(["loop", "loop,prjquota", "loop", "loop,prjquota"]) {
        remount(options);
        let volumes = open(&tree.path);
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        assert_eq!(volumes.is_counted_by_kernel(ID), Ok(options != "loop"));
        let overhead = if options == "loop" { round * FILE } else { 0 };
        let usage = Usage { bytes: 4096 * round + overhead, files: 1 + round };
        check_usage(&volumes, usage, options);
        assert_eq!(volume.stat().unwrap().bytes_total, CAPACITY.bytes);
        let file = volume
            .root()
            .create_unchecked(name(&format!("more-{round}")), &new_inode(0o644))
            .unwrap()
            .found
            .node;
        file.write(0, &[1; 4096], KEEP_SET_ID).unwrap();
        file.sync(vfs::SyncScope::All).unwrap();
    }
}

/// A volume of the kernel's count with a file of 4 MiB, in snapshot 1.
fn by_kernel(volumes: &Volumes) -> (Arc<dyn Backend>, NodeRef) {
    volumes.make(ID, &root(), Capacity { bytes: 16 << 20, files: 100 }).unwrap();
    assert_eq!(volumes.is_counted_by_kernel(ID), Ok(true));
    let volume = volumes.open(ID).unwrap();
    let file = volume.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap().found.node;
    file.write(0, &vec![1; 4 << 20], KEEP_SET_ID).unwrap();
    file.sync(vfs::SyncScope::All).unwrap();
    volume.snapshots().expect("XFS shares blocks").create(vfs::ViewId(1)).unwrap();
    (volume, file)
}

/// Waits until live files and snapshots have about these bytes: the kernel's figures are a little late.
#[track_caller]
fn settles(volumes: &Volumes, live: u64, held: u64) {
    const MIB: u64 = 1 << 20;
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        volumes.sweep(4);
        let snapshots = volumes.snapshot_bytes(ID).unwrap().expect("the kernel counts them");
        let files = volumes.usage(ID).unwrap().bytes - snapshots;
        if (live..live + MIB).contains(&files) && (held..held + MIB / 4).contains(&snapshots) {
            return;
        }
        assert!(std::time::Instant::now() < until, "{files} and {snapshots}, not {live} and {held}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The kernel counts files and snapshots, each by their blocks, through removal, restart, revert and deletion.
#[test]
fn kernel_counts_files_and_snapshots_apart() {
    const MIB: u64 = 1 << 20;
    let Some(tree) = Tree::new(Ground::XfsProjects) else { return };
    let volumes = open(&tree.path);
    let (volume, file) = by_kernel(&volumes);
    settles(&volumes, 4 * MIB, 0);
    for block in 0..256 {
        file.write(block * 4096, &[2; 4096], KEEP_SET_ID).unwrap();
    }
    settles(&volumes, 4 * MIB, MIB);
    assert_eq!(volumes.usage(ID).unwrap().files, 2, "records are no files of the volume");
    // A file with a hole of 1 TiB.
    let sparse = volume.root().create_unchecked(name("sparse"), &new_inode(0o644)).unwrap().found.node;
    sparse.write(1 << 40, &[3; 4096], KEEP_SET_ID).unwrap();
    volume.snapshots().unwrap().create(vfs::ViewId(2)).unwrap();
    drop((file, sparse));
    volume.root().remove_unchecked(name("file")).unwrap();
    volume.root().remove_unchecked(name("sparse")).unwrap();
    settles(&volumes, 0, 5 * MIB);
    assert_eq!(volumes.usage(ID).unwrap().files, 1);
    let own = volume.snapshots().unwrap().usage(vfs::ViewId(2)).unwrap().own_bytes;
    assert!(own.is_some_and(|own| own < 6 * MIB), "{own:?} without holes");
    // The end of a process without a close, and the next one.
    drop((volume, volumes));
    let volumes = open(&tree.path);
    settles(&volumes, 0, 5 * MIB);
    let volume = volumes.open(ID).unwrap();
    settles(&volumes, 0, 5 * MIB);
    assert_eq!(volume.stat().unwrap().bytes_total, 16 * MIB);
    drop(volume);
    assert_eq!(volumes.revert(ID, vfs::ViewId(1), &mut vfs::unpaced), Ok(true));
    let volume = volumes.open(ID).unwrap();
    let file = volume.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
    assert_eq!(file.read_vec(0, 4096, Blocking::Allowed), Ok(vec![1; 4096]));
    // Each snapshot has its first MiB, of which one is also live.
    settles(&volumes, 4 * MIB, 2 * MIB);
    for view in [2, 1] {
        volume.snapshots().unwrap().delete(vfs::ViewId(view), &mut vfs::unpaced).unwrap();
    }
    settles(&volumes, 4 * MIB, 0);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while volumes.snapshot_bytes(ID) != Ok(Some(0)) {
        assert!(std::time::Instant::now() < until, "{:?} without snapshots", volumes.snapshot_bytes(ID));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// On a full volume that the kernel counts, changes of what snapshots have are refused, and removal works.
#[test]
fn full_volume_of_the_kernel_lets_files_be_removed() {
    const MIB: u64 = 1 << 20;
    let Some(tree) = Tree::new(Ground::XfsProjects) else { return };
    let volumes = open(&tree.path);
    let (volume, file) = by_kernel(&volumes);
    let full = volume.root().create_unchecked(name("full"), &new_inode(0o644)).unwrap().found.node;
    let mut at = 0;
    while full.write(at, &[5; 4096], KEEP_SET_ID).is_ok() {
        at += 4096;
    }
    let used = volumes.usage(ID).unwrap().bytes;
    assert!((15 * MIB..=16 * MIB).contains(&used), "{used}");
    let refused = (0..1024).find_map(|block| file.write(block * 4096, &[2; 4096], KEEP_SET_ID).err());
    assert_eq!(refused, Some(FsError::NoSpace));
    drop((file, full));
    volume.root().remove_unchecked(name("file")).unwrap();
    // The snapshot has it, so there is no more room for files than before.
    let more = volume.root().create_unchecked(name("more"), &new_inode(0o644)).unwrap().found.node;
    let grown =
        (0..1024).take_while(|block| more.write(block * 4096, &[6; 4096], KEEP_SET_ID).is_ok()).count();
    assert!(grown < 256, "{grown} blocks");
    assert!(volumes.usage(ID).unwrap().bytes <= 16 * MIB + 64 * 1024, "{:?}", volumes.usage(ID));
    volume.root().remove_unchecked(name("full")).unwrap();
    drop(more);
    settles(&volumes, grown as u64 * 4096, 4 * MIB);
}

/// A record stays in its project: what this process has begun to count, it goes on to count.
#[test]
fn records_of_before_project_quotas_are_counted_by_this_process() {
    let Some(tree) = Tree::new(Ground::XfsProjects) else { return };
    let remount = |options: &str| {
        let image = tree.path.parent().unwrap().join("image");
        assert!(Command::new("umount").arg(&tree.path).status().unwrap().success());
        let mount = Command::new("mount").args(["-o", options]).arg(&image).arg(&tree.path).status();
        assert!(mount.unwrap().success());
    };
    drop(fill(&open(&tree.path)));
    remount("loop");
    {
        let volumes = open(&tree.path);
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        volume.snapshots().unwrap().create(vfs::ViewId(1)).unwrap();
        let file = volume.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
        file.write(0, b"C", KEEP_SET_ID).unwrap();
    }
    remount("loop,prjquota");
    let volumes = open(&tree.path);
    assert_eq!(volumes.is_counted_by_kernel(ID), Ok(false));
    let volume = volumes.open(ID).unwrap();
    assert!(volumes.wait_for_counts(WAIT_MAX));
    let file = volume.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
    file.write(0, b"CONTENTS", KEEP_SET_ID).unwrap();
    file.set_attrs(&SetAttrs { mode: Some(0o600), ..SetAttrs::default() }).unwrap();
    assert_eq!(volumes.snapshot_bytes(ID), Ok(Some(4096 + INODE_BYTES)));
    assert_eq!(volumes.recount_held(ID), Ok(4096 + INODE_BYTES));
}
