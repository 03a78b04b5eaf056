//! A volume that shows a point of its storage, as the destination of a replication does.

use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Access, Backend, Blocking, Caller, Disposition, Durability, Export, ExportRule, File, FsError, Name,
    NewInode, NodeRef, Origin, PendingSync, PointBackend, SetAttrs, SnapshotDirectory, Squash, Time, ViewId,
    Volume, VolumeId, Wait,
};
use vfs_testing::{MemFs, UncheckedNode};

const ALLOWED: Blocking = Blocking::Allowed;

struct Rig {
    fs: MemFs,
    points: Arc<PointBackend>,
    export: Arc<Export>,
    caller: Caller,
}

fn name(name: &str) -> Name<'_> {
    Name::new(name.as_bytes()).unwrap()
}

fn make(dir: &NodeRef, file: &str, data: &[u8]) -> NodeRef {
    let new = NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 };
    let node = dir.create_unchecked(name(file), &new).unwrap().found.node;
    node.write(0, data, KEEP_SET_ID).unwrap();
    node
}

/// A volume that shows point 1 of a storage with two files.
fn rig() -> Rig {
    let fs = MemFs::new(Arc::new(Time::default));
    make(&fs.root(), "stays", b"one");
    make(&fs.root(), "goes", b"one");
    fs.snapshots().unwrap().create(ViewId(1)).unwrap();
    let points = Arc::new(PointBackend::new(Arc::new(fs.clone())));
    points.show(ViewId(1)).unwrap();
    let volume = Volume::new(VolumeId(1), "v", points.clone(), Durability::Sync, 1);
    volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    let rules = vec![ExportRule { squash: Squash::None, ..ExportRule::everybody() }];
    let export = Arc::new(Export::new("/v", Arc::new(volume), rules));
    let rule = export.rule(Origin::of("127.0.0.1".parse().unwrap())).unwrap();
    let caller = rule.caller(&vfs::Credential::new(vfs::Proof::None, 0, 0, []));
    Rig { fs, points, export, caller }
}

impl Rig {
    fn look_up(&self, file: &str) -> Result<File, FsError> {
        let root = self.export.root();
        Ok(root.open_dir(&self.caller, ALLOWED)?.lookup(file.as_bytes(), ALLOWED)?.file)
    }

    fn read(&self, file: &File) -> Result<Vec<u8>, FsError> {
        let (opened, _) = file.open(&self.caller, Access::READ, ALLOWED)?;
        let mut data = Vec::new();
        opened.read(0, 100, &mut data, ALLOWED)?;
        Ok(data)
    }
}

#[test]
fn clients_see_the_point_until_the_next_is_shown() {
    let rig = rig();
    let (stays, goes) = (rig.look_up("stays").unwrap(), rig.look_up("goes").unwrap());
    let (opened, _) = stays.open(&rig.caller, Access::READ, ALLOWED).unwrap();
    let root = rig.fs.root();
    root.lookup(name("stays"), ALLOWED).unwrap().node.write(0, b"two", KEEP_SET_ID).unwrap();
    root.remove_unchecked(name("goes")).unwrap();
    make(&root, "new", b"two");
    // Half of a transfer is not seen.
    assert_eq!(rig.read(&stays).unwrap(), b"one");
    assert_eq!(rig.read(&goes).unwrap(), b"one");
    assert_eq!(rig.look_up("new").err(), Some(FsError::NotFound));

    rig.fs.snapshots().unwrap().create(ViewId(2)).unwrap();
    rig.points.show(ViewId(2)).unwrap();
    assert_eq!(rig.read(&stays).unwrap(), b"two");
    assert_eq!(rig.read(&goes), Err(FsError::Stale));
    assert_eq!(rig.read(&rig.look_up("new").unwrap()).unwrap(), b"two");
    // An open file shows the next point, too, and so does a handle.
    let mut data = Vec::new();
    opened.read(0, 100, &mut data, ALLOWED).unwrap();
    assert_eq!(data, b"two");
    let again = rig.export.file(&stays.key(), ALLOWED).unwrap();
    assert_eq!(rig.read(&again).unwrap(), b"two");
    assert_eq!(stays.key().view(), ViewId::LIVE);
    assert_eq!(rig.points.view(), Some(ViewId(2)));
    assert_eq!(rig.points.show(ViewId(3)), Err(FsError::NotFound));
}

#[test]
fn every_change_is_refused_as_read_only() {
    let rig = rig();
    assert!(rig.caller.read_only && rig.export.volume.is_read_only());
    let (root, file) = (rig.export.root(), rig.look_up("stays").unwrap());
    let pending = &mut PendingSync::default();
    let set = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
    let made = root.create(&rig.caller, b"new", Disposition::CreateNew, &set, pending);
    assert_eq!(made.err(), Some(FsError::ReadOnly));
    assert_eq!(root.remove(&rig.caller, b"goes", pending).err(), Some(FsError::ReadOnly));
    assert_eq!(file.open(&rig.caller, Access::WRITE, ALLOWED).err(), Some(FsError::ReadOnly));
    // Even for a caller that may change everything elsewhere: the storage refuses.
    let points: &dyn Backend = &*rig.points;
    let (root, node) = (points.root(), points.node(&file.key(), ALLOWED).unwrap());
    assert_eq!(node.write(0, b"x", KEEP_SET_ID).err(), Some(FsError::ReadOnly));
    assert_eq!(node.set_attrs(&set).err(), Some(FsError::ReadOnly));
    assert_eq!(root.remove_unchecked(name("goes")).err(), Some(FsError::ReadOnly));
    assert_eq!(rig.fs.root().lookup(name("stays"), ALLOWED).unwrap().attrs.mode, 0o644);
}

#[test]
fn upkeep_of_the_volume_changes_nothing() {
    let rig = rig();
    let root = rig.fs.root();
    let gone = make(&root, "gone", b"");
    vfs::volume::streams::restore_stream(
        &root,
        &gone.key(),
        b"stream",
        &gone.attrs(Blocking::Allowed).unwrap(),
    )
    .unwrap();
    root.remove_unchecked(name("gone")).unwrap();
    drop(gone);
    rig.fs.snapshots().unwrap().create(ViewId(2)).unwrap();
    rig.points.show(ViewId(2)).unwrap();
    while !rig.export.volume.sweep_streams().unwrap() {}
    rig.export.volume.sync().unwrap();
}

#[test]
fn nothing_is_seen_before_the_first_point_and_all_waits_after_the_close() {
    let fs = MemFs::new(Arc::new(Time::default));
    make(&fs.root(), "file", b"one");
    let points = Arc::new(PointBackend::new(Arc::new(fs.clone())));
    let volume = Volume::new(VolumeId(1), "v", points.clone(), Durability::Sync, 1);
    assert!(!volume.has_files());
    let export = Arc::new(Export::new("/v", Arc::new(volume), Vec::new()));
    let root = export.root();
    assert_eq!(root.attrs(ALLOWED).err(), Some(FsError::Stale));
    points.snapshots().unwrap().create(ViewId(1)).unwrap();
    points.show(ViewId(1)).unwrap();
    assert!(export.volume.has_files() && root.attrs(ALLOWED).is_ok());
    points.close();
    assert!(!export.volume.has_files());
    // Another opening of the volume has the files.
    let waits = FsError::Wait(Wait::Recall);
    assert_eq!(root.attrs(ALLOWED).err(), Some(waits));
    assert_eq!(export.file(&root.key(), ALLOWED).and_then(|root| root.attrs(ALLOWED).map(drop)), Err(waits));
    assert_eq!(points.show(ViewId(1)), Err(waits));
}
