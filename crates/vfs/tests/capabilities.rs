//! Permissions for extended attributes and ranges.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use vfs::backend::xattrs::XATTR_VALUE_BYTES_MAX;
use vfs::{
    Backend, Blocking, Caller, Change, Durability, Export, File, FsError, FsResult, Name, NewInode,
    PendingSync, Seek, SetXattr, Span, Special, Stability, Time, Volume, VolumeId,
};
use vfs_testing::{Faulty, MemFs, UncheckedNode};

const OWNER: u32 = 1000;
const GROUP: u32 = 100;

fn owner() -> Caller {
    Caller::new(OWNER, 1, [])
}

fn member() -> Caller {
    Caller::new(1001, GROUP, [])
}

fn other() -> Caller {
    Caller::new(1002, 2, [])
}

fn root() -> Caller {
    Caller::new(0, 0, [])
}

fn read_only(mut caller: Caller) -> Caller {
    caller.read_only = true;
    caller
}

/// A volume with files of one owner: `rw` (0660), `ro` (0440), `wo` (0220), `marked` (06777), a directory and a sticky one.
struct World {
    export: Arc<Export>,
    pending: PendingSync,
}

fn new_inode(mode: u32) -> NewInode {
    NewInode { mode, uid: OWNER, gid: GROUP, times: None, size: 0 }
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

fn world_of(wrap: impl FnOnce(MemFs) -> Arc<dyn Backend>) -> World {
    let seconds = AtomicI64::new(1_000);
    let clock = move || Time { seconds: seconds.fetch_add(1, Ordering::SeqCst), nanos: 0 };
    let backend = wrap(MemFs::new(Arc::new(clock)));
    let top = backend.root();
    for (text, mode) in [("rw", 0o660), ("ro", 0o440), ("wo", 0o220), ("marked", 0o6777)] {
        let file = top.create_unchecked(name(text), &new_inode(mode)).unwrap().found.node;
        file.write(0, &[7; 10_000], vfs::backend::KEEP_SET_ID).unwrap();
    }
    top.make_dir_unchecked(name("dir"), &new_inode(0o777)).unwrap();
    top.make_dir_unchecked(name("sticky"), &new_inode(0o1777)).unwrap();
    top.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode(0o666)).unwrap();
    let volume = Volume::new(VolumeId(1), "vol", backend, Durability::Sync, 7);
    let export = Arc::new(Export::new("/vol", Arc::new(volume), vec![]));
    World { export, pending: PendingSync::default() }
}

fn world() -> World {
    world_of(|fs| Arc::new(fs))
}

impl World {
    fn file(&self, text: &str) -> File {
        let (top, root) = (self.export.root(), root());
        let dir = top.open_dir(&root, Blocking::Allowed).unwrap();
        dir.lookup(text.as_bytes(), Blocking::Allowed).unwrap().file
    }

    fn get(&self, caller: Caller, file: &str) -> FsResult<Vec<u8>> {
        self.file(file).get_xattr(&caller, b"key")
    }

    fn list(&self, caller: Caller, file: &str) -> FsResult<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        self.file(file).list_xattrs(&caller, 0, &mut |name, _| {
            names.push(name.bytes().to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    fn set(&mut self, caller: Caller, file: &str, key: &[u8], value: &[u8]) -> FsResult<Change> {
        let file = self.file(file);
        file.set_xattr(&caller, key, value, SetXattr::Either, &mut self.pending)
    }

    fn remove(&mut self, caller: Caller, file: &str, key: &[u8]) -> FsResult<Change> {
        self.file(file).remove_xattr(&caller, key, &mut self.pending)
    }

    /// Every verb that changes a range of `file`.
    fn change(&mut self, caller: &Caller, file: &str, len: u64) -> [FsResult<Change>; 3] {
        let (file, pending) = (self.file(file), &mut self.pending);
        let opened = match file.authorize_write(caller) {
            Ok(opened) => opened,
            Err(error) => return [Err(error); 3],
        };
        [
            opened.allocate(0, len, Stability::Data, pending),
            opened.deallocate(0, len, Stability::Data, pending),
            opened.zero(0, len, Stability::Data, pending),
        ]
    }

    /// Copies and clones a block of one file to another.
    fn copy(&mut self, caller: &Caller, source: &str, target: &str) -> [FsResult<Change>; 2] {
        let (source, target) = (self.file(source), self.file(target));
        let target = target.authorize_write(caller);
        let opened =
            target.and_then(|target| Ok((source.authorize_read(caller, Blocking::Allowed)?.0, target)));
        let (source, target) = match opened {
            Ok(opened) => opened,
            Err(error) => return [Err(error); 2],
        };
        let (span, pending) = (Span { source: 0, target: 0, len: 4096 }, &mut self.pending);
        [
            source.copy_to(&target, &span, Stability::Data, pending).map(|(_, change)| change),
            source.clone_to(&target, &span, Stability::Data, pending),
        ]
    }
}

#[test]
fn reader_gets_xattrs_and_writer_sets_them() {
    let mut w = world();
    for file in ["rw", "ro", "wo", "dir"] {
        w.set(root(), file, b"key", b"value").unwrap();
    }
    for caller in [member(), owner(), root()] {
        assert_eq!(w.get(caller.clone(), "rw"), Ok(b"value".to_vec()));
        assert_eq!(w.list(caller.clone(), "rw"), Ok(vec![b"key".to_vec()]));
    }
    assert!(w.set(member(), "rw", b"key", b"new").is_ok() && w.remove(owner(), "rw", b"key").is_ok());
    assert_eq!(w.get(member(), "rw"), Err(FsError::NotFound));
    for (caller, file) in [(member(), "wo"), (owner(), "wo"), (other(), "rw")] {
        assert_eq!(w.get(caller.clone(), file), Err(FsError::Access), "{file}");
        assert_eq!(w.list(caller.clone(), file), Err(FsError::Access), "{file}");
    }
    for (caller, file) in [(member(), "ro"), (owner(), "ro"), (other(), "rw")] {
        assert_eq!(w.set(caller.clone(), file, b"key", b"x"), Err(FsError::Access), "{file}");
        assert_eq!(w.remove(caller.clone(), file, b"key"), Err(FsError::Access), "{file}");
    }
    assert!(w.set(other(), "dir", b"key", b"x").is_ok(), "anybody may write it");
}

#[test]
fn attributes_of_a_sticky_directory_are_its_owners() {
    let mut w = world();
    assert_eq!(w.set(other(), "sticky", b"key", b"x"), Err(FsError::NotOwner));
    assert!(w.set(owner(), "sticky", b"key", b"x").is_ok());
    assert_eq!(w.remove(other(), "sticky", b"key"), Err(FsError::NotOwner));
    assert!(w.remove(root(), "sticky", b"key").is_ok());
}

#[test]
fn nobody_reaches_what_the_service_keeps() {
    let mut w = world();
    for (own, refusal) in [
        (&b"plimsoll.owner"[..], FsError::Access),
        (b"plimsoll.", FsError::Access),
        (b"plimsoll.owner\0x", FsError::Invalid),
        (b"", FsError::Invalid),
        (&[b'n'; 256], FsError::NameTooLong),
    ] {
        let what = own.escape_ascii().to_string();
        assert_eq!(w.set(root(), "rw", own, b"x"), Err(refusal), "{what}");
        assert_eq!(w.remove(root(), "rw", own), Err(refusal), "{what}");
        assert_eq!(w.file("rw").get_xattr(&root(), own), Err(refusal), "{what}");
    }
    assert_eq!(w.list(root(), "rw"), Ok(vec![]));
    assert_eq!(w.set(root(), "rw", b"key", &vec![0; XATTR_VALUE_BYTES_MAX + 1]), Err(FsError::FileTooBig));
    assert_eq!(w.set(root(), "fifo", b"key", b"x"), Err(FsError::NotSupported));
}

#[test]
fn read_only_exports_change_no_attribute_and_no_range() {
    let mut w = world();
    w.set(owner(), "rw", b"key", b"value").unwrap();
    let caller = read_only(root());
    assert_eq!(w.set(caller.clone(), "rw", b"key", b"x"), Err(FsError::ReadOnly));
    assert_eq!(w.remove(caller.clone(), "rw", b"key"), Err(FsError::ReadOnly));
    assert_eq!(w.get(caller.clone(), "rw"), Ok(b"value".to_vec()));
    assert_eq!(w.change(&caller, "rw", 4096), [Err(FsError::ReadOnly); 3]);
    assert_eq!(w.copy(&caller, "rw", "marked"), [Err(FsError::ReadOnly); 2]);
    let file = w.file("rw");
    let (opened, _) = file.authorize_read(&caller, Blocking::Allowed).unwrap();
    assert_eq!(opened.seek(0, Seek::Data), Ok(Some(0)));
    assert_eq!(
        file.authorize_write(&root()).unwrap().seek(0, Seek::Data),
        Err(FsError::Access),
        "not to read"
    );
}

#[test]
fn ranges_are_changed_by_who_may_write_and_copied_by_who_may_read() {
    let mut w = world();
    for (caller, file) in [(other(), "rw"), (member(), "ro"), (other(), "ro")] {
        assert_eq!(w.change(&caller, file, 4096), [Err(FsError::Access); 3], "{file}");
        assert_eq!(w.copy(&caller, "marked", file), [Err(FsError::Access); 2], "to {file}");
    }
    assert_eq!(w.copy(&member(), "wo", "rw"), [Err(FsError::Access); 2], "what may not be read");
    let refused = w.file("rw").authorize_read(&other(), Blocking::Allowed).err();
    assert_eq!(refused, Some(FsError::Access));
    assert!(w.change(&member(), "rw", 4096).iter().all(Result::is_ok));
    assert!(w.copy(&member(), "ro", "rw").iter().all(Result::is_ok));
    // As for data: the owner of a file that is open goes on, whatever its mode becomes.
    assert!(w.change(&owner(), "ro", 4096).iter().all(Result::is_ok));
    assert_eq!(w.change(&root(), "dir", 4096), [Err(FsError::IsDirectory); 3]);
    assert_eq!(w.copy(&root(), "rw", "fifo"), [Err(FsError::Invalid); 2]);
    assert_eq!(w.copy(&root(), "dir", "rw"), [Err(FsError::IsDirectory); 2]);
}

#[test]
fn a_changed_range_takes_set_id_bits_away_unless_root_changes_it() {
    let mode = |w: &World| w.file("marked").attrs(Blocking::Allowed).unwrap().mode;
    for verb in 0..5 {
        for (caller, len, left) in [(root(), 4096, 0o6777), (other(), 0, 0o6777), (other(), 4096, 0o777)] {
            let mut w = world();
            let file = w.file("marked");
            let opened = file.authorize_write(&caller).unwrap();
            let (source, _) = file.authorize_read(&caller, Blocking::Allowed).unwrap();
            let span = Span { source: 4096, target: 0, len };
            let pending = &mut w.pending;
            let done = match verb {
                0 => opened.allocate(0, len, Stability::File, pending),
                1 => opened.deallocate(0, len, Stability::File, pending),
                2 => opened.zero(0, len, Stability::File, pending),
                3 => source.copy_to(&opened, &span, Stability::File, pending).map(|(_, change)| change),
                _ => source.clone_to(&opened, &span, Stability::File, pending),
            };
            done.unwrap();
            assert_eq!(mode(&w), left, "verb {verb}, {len} bytes by {}", caller.uid);
        }
    }
}

#[test]
fn changes_are_flushed_as_they_ask() {
    let mut w = world();
    let syncs = |w: &World| w.pending.added();
    w.set(owner(), "rw", b"key", b"x").unwrap();
    w.remove(owner(), "rw", b"key").unwrap();
    assert_eq!(syncs(&w), 2);
    assert!(w.change(&owner(), "rw", 10).iter().all(Result::is_ok));
    assert_eq!(syncs(&w), 5);
    let (file, owner) = (w.file("rw"), owner());
    file.authorize_write(&owner).unwrap().zero(0, 1, Stability::Unstable, &mut w.pending).unwrap();
    assert_eq!(syncs(&w), 5, "an unstable change");
    assert_eq!(w.change(&other(), "rw", 10), [Err(FsError::Access); 3]);
    assert_eq!(syncs(&w), 5, "a refused one");
    w.pending.sync_all().unwrap();
}

#[test]
fn a_failure_of_the_storage_is_told() {
    let mut faulty = None;
    let mut w = world_of(|fs| Arc::new(faulty.insert(Faulty::new(Arc::new(fs))).clone()));
    let faulty = faulty.unwrap();
    let file = w.file("rw");
    faulty.fail_from(1, FsError::NoSpace);
    let set = file.set_xattr(&root(), b"key", b"x", SetXattr::Either, &mut w.pending);
    assert_eq!(set, Err(FsError::NoSpace));
    let range = file.authorize_write(&root()).unwrap().allocate(0, 10, Stability::File, &mut w.pending);
    assert_eq!(range, Err(FsError::NoSpace));
    assert_eq!(w.pending.added(), 0, "nothing to flush");
    assert_eq!(faulty.refused(), 2);
}
