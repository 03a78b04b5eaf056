//! The disk space of a volume is bounded by its capacity, whatever it is filled with through the verbs of the
//! protocols. Also: the next start knows the usage at the end of a process.

mod fixture;

use fixture::{Ground, Tree, name, new_inode, run};
use posix::{Options, Volumes};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use vfs::acl::{Acl, AclEntry, Inherit, Principal, Rights};
use vfs::backend::KEEP_SET_ID;
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES};
use vfs::file::SetSecurity;
use vfs::{
    Access, Blocking, Caller, Capacity, Disposition, Durability, Export, ExportRule, File, FileType, FsError,
    FsResult, PendingSync, Provisioner, Root, SecurityStyle, SetAttrs, SetXattr, Special, Stability, Usage,
    Volume, VolumeId, Wait,
};
use vfs_testing::UncheckedNode;

const ID: VolumeId = VolumeId(5);
const MIB: u64 = 1 << 20;
const SIZE: u64 = 2 * MIB;
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes by which a directory may exceed the capacity before the next change is refused.
const LAST_BYTES: u64 = 64 << 10;
const FILE: u64 = INODE_BYTES + NAME_BYTES;

fn root_attrs() -> Root {
    let own = new_inode(0);
    Root { mode: 0o755, uid: own.uid, gid: own.gid }
}

fn caller() -> Caller {
    let own = new_inode(0);
    Caller::new(own.uid, own.gid, [])
}

/// A volume of this size and style, as protocols use it.
fn open_root(volumes: &Volumes, bytes: u64, style: SecurityStyle) -> File {
    volumes.make(ID, &root_attrs(), Capacity { bytes, files: 1 << 40 }).unwrap();
    let backend = volumes.open(ID).unwrap();
    let volume = Volume::new(ID, "v", backend, Durability::Relaxed, 1).with_security_style(style);
    Arc::new(Export::new(
        "/v",
        Arc::new(volume.unwrap_or_else(|_| panic!("{style:?}"))),
        vec![ExportRule::everybody()],
    ))
    .root()
}

/// Adds one more object to a volume. Names have the maximum length, which takes most space.
type Add = fn(&File, u32) -> FsResult<()>;

fn long(number: u32) -> Vec<u8> {
    format!("{number:x>255}").into_bytes()
}

fn make(root: &File, text: &[u8]) -> FsResult<File> {
    let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
    let made = root.create(&caller(), text, Disposition::CreateNew, &set, &mut PendingSync::default());
    made.map(|made| made.file)
}

fn find(root: &File, text: &[u8]) -> FsResult<File> {
    let caller = caller();
    Ok(root.open_dir(&caller, Blocking::Allowed)?.lookup(text, Blocking::Allowed)?.file)
}

fn special(root: &File, number: u32, special: Special<'_>) -> FsResult<()> {
    let (set, mut pending) = (SetAttrs::default(), PendingSync::default());
    root.make_special(&caller(), &long(number), special, &set, &mut pending).map(drop)
}

fn files(root: &File, number: u32) -> FsResult<()> {
    make(root, &long(number)).map(drop)
}

fn bytes(root: &File, number: u32) -> FsResult<()> {
    let (caller, mut pending, file) = (caller(), PendingSync::default(), make(root, &long(number))?);
    let (opened, _) = file.open(&caller, Access::WRITE, Blocking::Allowed)?;
    opened.write(0, b"x", Stability::Unstable, &mut pending).map(drop)
}

fn names(root: &File, number: u32) -> FsResult<()> {
    // A file has a limited number of links on some file systems: use a hundred for each.
    let of = format!("linked {}", number / 100).into_bytes();
    let file = if number.is_multiple_of(100) { make(root, &of)? } else { find(root, &of)? };
    root.link(&caller(), &file, &long(number), &mut PendingSync::default()).map(drop)
}

fn short_links(root: &File, number: u32) -> FsResult<()> {
    special(root, number, Special::Symlink(&[b'x'; 59]))
}

fn long_links(root: &File, number: u32) -> FsResult<()> {
    special(root, number, Special::Symlink(&[b'x'; 1000]))
}

fn fifos(root: &File, number: u32) -> FsResult<()> {
    special(root, number, Special::Fifo)
}

fn dirs(root: &File, number: u32) -> FsResult<()> {
    let (set, mut pending) = (SetAttrs::default(), PendingSync::default());
    root.make_dir(&caller(), &long(number), &set, &mut pending).map(drop)
}

/// A unique value: ext4 stores equal ones once.
fn value(number: u32, len: usize) -> Vec<u8> {
    number.to_be_bytes().into_iter().cycle().take(len).collect()
}

fn with_xattr(root: &File, number: u32, len: usize) -> FsResult<()> {
    let (file, mut pending) = (make(root, &long(number))?, PendingSync::default());
    file.set_xattr(&caller(), b"a", &value(number, len), SetXattr::Either, &mut pending).map(drop)
}

fn small_xattrs(root: &File, number: u32) -> FsResult<()> {
    with_xattr(root, number, 200)
}

fn large_xattrs(root: &File, number: u32) -> FsResult<()> {
    with_xattr(root, number, 3500)
}

fn many_xattrs(root: &File, number: u32) -> FsResult<()> {
    let (file, mut pending) = (make(root, &long(number))?, PendingSync::default());
    for attribute in 0..10 {
        let name = format!("{attribute:x>100}").into_bytes();
        file.set_xattr(&caller(), &name, &value(number, 200), SetXattr::Either, &mut pending)?;
    }
    Ok(())
}

fn extra_attrs(root: &File, number: u32) -> FsResult<()> {
    let file = make(root, &long(number))?;
    file.update_extra_attrs(&caller(), |attrs| attrs.flags = Some(0x22), &mut PendingSync::default())
        .map(drop)
}

fn streams(root: &File, number: u32) -> FsResult<()> {
    let (caller, mut pending) = (caller(), PendingSync::default());
    let stream = make(root, &long(number))?.make_stream(&caller, &long(number)[..200], &mut pending)?;
    let (opened, _) = stream.open(&caller, Access::WRITE, Blocking::Allowed)?;
    opened.write(0, b"x", Stability::Unstable, &mut pending).map(drop)
}

fn lists(root: &File, number: u32) -> FsResult<()> {
    let file = make(root, &long(number))?;
    let entry = |uid| AclEntry::allow(Principal::User(number * 100 + uid), Rights::READ, Inherit::NONE);
    let acl = Acl { entries: Some((0..60).map(entry).collect()), ..Acl::default() };
    let set = SetSecurity { acl: Some(acl), ..SetSecurity::default() };
    file.set_security(&caller(), Rights::default(), &set, &mut PendingSync::default()).map(drop)
}

const KINDS: [(&str, Add); 14] = [
    ("files", files),
    ("bytes", bytes),
    ("names", names),
    ("short links", short_links),
    ("long links", long_links),
    ("FIFOs", fifos),
    ("directories", dirs),
    ("small attributes", small_xattrs),
    ("large attributes", large_xattrs),
    ("many attributes", many_xattrs),
    ("records of SMB", extra_attrs),
    ("streams", streams),
    ("lists", lists),
    ("files again", files),
];

fn fill(root: &File, what: &str, add: Add) -> u32 {
    for number in 0..100_000 {
        match add(root, number) {
            Ok(()) => {}
            // Ext4 stores at most one block of attributes with a file.
            Err(FsError::NoSpace) => return number,
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
    panic!("a volume of {SIZE} bytes is not full of {what}");
}

fn empty(root: &File) {
    let (caller, mut pending) = (caller(), PendingSync::default());
    let mut listed = Vec::new();
    let dir = root.open_dir(&caller, Blocking::Allowed).unwrap();
    let read = root.read_dir(&caller, 0, true, &mut |entry| {
        listed.push(entry.name.to_vec());
        std::ops::ControlFlow::Continue(())
    });
    read.unwrap();
    for text in listed.iter().filter(|text| !matches!(&text[..], b"." | b"..")) {
        let is_dir = dir.lookup(text, Blocking::Allowed).unwrap().attrs.file_type == FileType::Directory;
        match is_dir {
            true => root.remove_dir(&caller, text, &mut pending).map(drop).unwrap(),
            false => root.remove(&caller, text, &mut pending).map(drop).unwrap(),
        }
    }
}

/// Bytes in use on the file system after a sync.
fn on_disk(path: &Path) -> u64 {
    assert!(run(Command::new("sync").arg("-f").arg(path)));
    let stat = rustix::fs::statvfs(path).unwrap();
    (stat.f_blocks - stat.f_bfree) * stat.f_frsize
}

/// Fills volumes with every kind of object, again and again, and compares with the disk. The disk space may be at most
/// `factor` percent of the capacity.
fn is_bounded(ground: Ground, factor: u64) {
    let Some(tree) = Tree::new(ground) else { return };
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    for style in [SecurityStyle::Unix, SecurityStyle::Ntfs] {
        let root = open_root(&volumes, SIZE, style);
        let before = on_disk(&tree.path);
        for (what, add) in KINDS.iter().filter(|(what, _)| *what != "lists" || style == SecurityStyle::Ntfs) {
            let count = fill(&root, what, *add);
            let (used, disk) = (volumes.usage(ID).unwrap().bytes, on_disk(&tree.path).saturating_sub(before));
            eprintln!("{ground:?} {style:?}: {count} {what}: {used} bytes charged, {disk} on disk");
            assert!(used <= SIZE + LAST_BYTES && used > SIZE / 2, "{what}: {used}");
            assert!(disk * 100 <= SIZE * factor, "{ground:?}: {what} take {disk} bytes of the disk");
            empty(&root);
        }
        counts_the_same(&tree.path, &volumes);
        drop(root);
        volumes.remove(ID).unwrap();
        assert!(volumes.wait_for_trash(PATIENCE));
    }
}

/// On some file systems directories keep the blocks of removed names: filling one after another must not add up.
fn directories_do_not_add_up(ground: Ground) {
    let Some(tree) = Tree::new(ground) else { return };
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    let root = open_root(&volumes, SIZE, SecurityStyle::Unix);
    let before = on_disk(&tree.path);
    let (set, mut pending) = (SetAttrs::default(), PendingSync::default());
    for round in 0..20u32 {
        let Ok(made) = root.make_dir(&caller(), format!("d{round}").as_bytes(), &set, &mut pending) else {
            break;
        };
        fill(&made.file, "files", files);
        empty(&made.file);
    }
    let disk = on_disk(&tree.path).saturating_sub(before);
    assert!(disk <= SIZE * 2, "{ground:?}: {disk} bytes of the disk");
    counts_the_same(&tree.path, &volumes);
}

fn counts_the_same(data: &Path, volumes: &Volumes) {
    let counted = volumes.usage(ID).unwrap();
    let path = data.join(format!("volumes/{:016x}", ID.0));
    assert_eq!(Volumes::recount(&path).unwrap(), counted);
}

#[test]
fn full_volume_stays_within_published_overhead() {
    for (ground, factor) in [(Ground::Ext4, 125), (Ground::Xfs, 150), (Ground::Btrfs, 400)] {
        is_bounded(ground, factor);
    }
}

#[test]
fn emptied_directory_is_charged_for_its_blocks() {
    [Ground::Ext4, Ground::Xfs].into_iter().for_each(directories_do_not_add_up);
}

fn next_start(path: &Path) -> (bool, Usage) {
    let record = fs::read(path.join(format!("usage/{:016x}", ID.0))).unwrap();
    let counts = record[..2] != [3, 1];
    let volumes = Volumes::open(path, Options::default()).unwrap();
    let volume = volumes.open(ID).unwrap();
    assert!(volumes.wait_for_counts(PATIENCE));
    drop(volume);
    (counts, volumes.usage(ID).unwrap())
}

/// A copy of the data directory as it would be after the end of the process.
fn copy_after_end(path: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    assert!(run(Command::new("cp").arg("-a").arg(path.join(".")).arg(copy.path())));
    copy
}

#[test]
fn closed_volume_with_open_files_is_not_recounted() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    let root = open_root(&volumes, SIZE, SecurityStyle::Unix);
    let file = make(&root, b"file").unwrap();
    let backend = volumes.open(ID).unwrap();
    let node = backend.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
    node.write(0, &[7; 10_000], KEEP_SET_ID).unwrap();
    // This file disappears with the process.
    make(&root, b"nameless").unwrap();
    let nameless = backend.root().lookup(name("nameless"), Blocking::Allowed).unwrap().node;
    nameless.write(0, &[7; 10_000], KEEP_SET_ID).unwrap();
    nameless.pin();
    backend.root().remove_unchecked(name("nameless")).unwrap();
    volumes.close();
    let usage = Usage { bytes: FILE + 12_288, files: 2 };
    assert_eq!(next_start(copy_after_end(&tree.path).path()), (false, usage));
    assert_eq!(
        node.write(10_000, &[7; 10_000], KEEP_SET_ID).err(),
        Some(FsError::Wait(Wait::Recall)),
        "too late"
    );
    assert_eq!(
        backend.root().remove_unchecked(name("file")).err(),
        Some(FsError::Wait(Wait::Recall)),
        "too late"
    );
    assert_eq!(next_start(copy_after_end(&tree.path).path()), (false, usage));
    // A change past the service.
    fs::write(tree.path.join(format!("volumes/{:016x}/file", ID.0)), "").unwrap();
    drop((file, node, nameless, backend, root, volumes));
}

#[test]
fn change_pending_at_close_forces_recount() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    let root = open_root(&volumes, SIZE, SecurityStyle::Unix);
    make(&root, b"file").unwrap();
    let node = volumes.open(ID).unwrap().root().lookup(name("file"), Blocking::Allowed).unwrap().node;
    node.reserve(0, 1 << 20, KEEP_SET_ID).unwrap();
    node.write(0, &[7; 5000], KEEP_SET_ID).unwrap();
    volumes.close();
    let usage = Usage { bytes: FILE + 8192, files: 2 };
    assert_eq!(next_start(copy_after_end(&tree.path).path()), (true, usage));
    node.release(0, 1 << 20);
    drop((node, root, volumes));
    // The write has ended by now, and the volume is closed.
    assert_eq!(next_start(&tree.path), (false, usage));
}

#[test]
fn usage_file_of_old_version_forces_one_recount() {
    let tree = Tree::new(Ground::Disk).unwrap();
    {
        let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
        make(&open_root(&volumes, SIZE, SecurityStyle::Unix), b"file").unwrap();
    }
    let record = tree.path.join(format!("usage/{:016x}", ID.0));
    let mut bytes = fs::read(&record).unwrap();
    assert_eq!(bytes[..2], [3, 1]);
    bytes.truncate(40);
    // The sum of the file sizes alone.
    bytes[0] = 1;
    bytes[24..32].fill(0);
    fs::write(&record, bytes).unwrap();
    let usage = Usage { bytes: FILE, files: 2 };
    assert_eq!(next_start(&tree.path), (true, usage));
    assert_eq!(next_start(&tree.path), (false, usage));
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    assert_eq!(volumes.open(ID).unwrap().stat().unwrap().bytes_total, SIZE);
}

#[test]
fn unwritable_usage_file_forces_recount() {
    let tree = Tree::new(Ground::Disk).unwrap();
    let record = tree.path.join(format!("usage/{:016x}", ID.0));
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    let root = open_root(&volumes, SIZE, SecurityStyle::Unix);
    make(&root, b"file").unwrap();
    // Simulates a failing disk: writes from now on do not reach the file that the next start reads.
    let in_use = fs::read(&record).unwrap();
    volumes.close();
    drop((root, volumes));
    fs::write(&record, in_use).unwrap();
    assert_eq!(next_start(&tree.path), (true, Usage { bytes: FILE, files: 2 }));
}
