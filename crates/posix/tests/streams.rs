//! Named streams on real file systems: as files, over a restart, as an ordinary user, and under interference by local
//! programs.

mod fixture;

use fixture::{AS_NOBODY, DIR, GROUNDS, Ground, MODE, Tree, new_inode, run, run_again};
use posix::{Options, Store, Volumes};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use vfs::{
    Access, Backend, Blocking, Caller, Capacity, Disposition, Durability, Export, ExportRule, File, FileKey,
    FsError, PendingSync, Provisioner, Root, SetAttrs, Snapshot, Stability, Time, ViewId, Volume, VolumeId,
    unpaced,
};

const HIDDEN: &str = ".plimsoll-streams";

fn caller() -> Caller {
    let own = new_inode(0);
    Caller::new(own.uid, own.gid, [])
}

fn start(path: &Path) -> File {
    export(Store::open(path, Options::default()).expect("a store"))
}

fn serve(volumes: &Volumes, id: VolumeId) -> File {
    let store = volumes.open(id).expect("a volume");
    assert!(volumes.wait_for_counts(Duration::from_secs(600)));
    export(store)
}

fn export(store: Arc<dyn Backend>) -> File {
    let volume = Arc::new(Volume::new(VolumeId(1), "v", store, Durability::Sync, 1));
    Arc::new(Export::new("/v", volume, vec![ExportRule::everybody()])).root()
}

fn make(root: &File, name: &[u8]) -> File {
    let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
    let made = root.create(&caller(), name, Disposition::CreateNew, &set, &mut PendingSync::default());
    made.unwrap().file
}

fn find(root: &File, name: &[u8]) -> File {
    root.open_dir(&caller(), Blocking::Allowed).unwrap().lookup(name, Blocking::Allowed).unwrap().file
}

fn put(file: &File, name: &[u8], data: &[u8]) -> Result<(), FsError> {
    let mut pending = PendingSync::default();
    let stream = match file.make_stream(&caller(), name, &mut pending) {
        Err(FsError::Exists) => file.find_stream(name)?,
        made => made?,
    };
    let caller = caller();
    let (opened, _) = stream.open(&caller, Access::WRITE, Blocking::Allowed)?;
    opened.write(0, data, Stability::File, &mut pending)?;
    pending.sync_all()
}

fn get(file: &File, name: &[u8]) -> Vec<u8> {
    let (stream, caller, mut data) = (file.find_stream(name).unwrap(), caller(), Vec::new());
    let (opened, _) = stream.open(&caller, Access::READ, Blocking::Allowed).unwrap();
    opened.read(0, 1 << 20, &mut data, Blocking::Allowed).unwrap();
    data
}

fn hidden(path: &Path) -> usize {
    let Ok(entries) = fs::read_dir(path.join(HIDDEN)) else { return 0 };
    let names = entries.map(|entry| entry.unwrap().file_name().into_encoded_bytes());
    names.filter(|name| !name.starts_with(b"of-")).count()
}

fn live_and_go(path: &Path) {
    let root = start(path);
    let file = make(&root, b"file");
    put(&file, b"small", b"small").unwrap();
    put(&file, b"large", &vec![7; 300_000]).unwrap();
    put(&root, b"of the root", b"root").unwrap();
    let mode = fs::metadata(path.join(HIDDEN)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else enters");
    fs::rename(path.join("file"), path.join("moved")).unwrap();
    drop((root, file));
    let root = start(path);
    let file = find(&root, b"moved");
    assert_eq!((get(&file, b"small"), get(&file, b"large").len()), (b"small".to_vec(), 300_000));
    root.remove(&caller(), b"moved", &mut PendingSync::default()).unwrap();
    assert_eq!((hidden(path), get(&root, b"of the root")), (1, b"root".to_vec()));
}

#[test]
fn streams_are_renamed_and_removed_with_file() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        live_and_go(&tree.path);
    }
}

#[test]
fn ordinary_user_has_streams() {
    if !rustix::process::geteuid().is_root() {
        // The other test covers this case.
        return;
    }
    let Some(tree) = Tree::new(Ground::Tmpfs) else { return };
    std::os::unix::fs::chown(&tree.path, Some(fixture::NOBODY), Some(fixture::NOBODY)).unwrap();
    run_again(&tree, "streams", &AS_NOBODY);
}

#[test]
#[ignore = "started by others with fewer rights"]
fn inner() {
    assert_eq!(std::env::var(MODE).as_deref(), Ok("streams"));
    live_and_go(&PathBuf::from(std::env::var_os(DIR).unwrap()));
}

#[test]
fn orphaned_streams_are_swept_after_start() {
    let Some(tree) = Tree::new(Ground::Disk) else { return };
    let root = start(&tree.path);
    for name in [&b"goes"[..], b"stays"] {
        put(&make(&root, name), b"s", b"stream").unwrap();
    }
    fs::create_dir(tree.path.join(HIDDEN).join("no key")).unwrap();
    fs::remove_file(tree.path.join("goes")).unwrap();
    drop(root);
    let root = start(&tree.path);
    while !root.volume().sweep_streams().unwrap() {}
    let swept = if rustix::process::geteuid().is_root() { 2 } else { 3 };
    assert_eq!(hidden(&tree.path), swept, "what is no key is left alone");
    assert_eq!(get(&find(&root, b"stays"), b"s"), b"stream");
}

#[test]
fn streams_copied_by_others_are_not_swept() {
    for ground in GROUNDS {
        let (Some(from), Some(to)) = (Tree::new(ground), Tree::new(Ground::Disk)) else { continue };
        let root = start(&from.path);
        put(&make(&root, b"file"), b"s", b"stream").unwrap();
        drop(root);
        let copy = to.path.join("copy");
        assert!(Command::new("cp").arg("-a").args([&from.path, &copy]).status().unwrap().success());
        let root = start(&copy);
        while !root.volume().sweep_streams().unwrap() {}
        assert_eq!(hidden(&copy), 1, "{ground:?}");
        assert!(find(&root, b"file").find_stream(b"s").is_err(), "the file is another one");
    }
}

#[test]
fn streams_of_restored_snapshot_are_not_swept() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let [volume, snapshot, before] = ["volume", "snapshot", "before"].map(|name| tree.path.join(name));
    let subvolume = |args: &[&Path]| run(Command::new("btrfs").args(["-q", "subvolume"]).args(args));
    assert!(subvolume(&[Path::new("create"), &volume]));
    let root = start(&volume);
    let file = make(&root, b"file");
    put(&file, b"s", b"stream").unwrap();
    let key = file.key();
    drop((root, file));
    assert!(subvolume(&[Path::new("snapshot"), &volume, &snapshot]));
    fs::rename(&volume, before).unwrap();
    fs::rename(&snapshot, &volume).unwrap();
    let store = Store::open(&volume, Options::default()).unwrap();
    assert_eq!(store.node(&key, Blocking::Allowed).err(), Some(FsError::Stale));
    assert!(!store.is_removed(&key), "it is in another subvolume");
    drop(store);
    let root = start(&volume);
    while !root.volume().sweep_streams().unwrap() {}
    assert_eq!(hidden(&volume), 1);
}

/// A file has the same key in a snapshot, after a revert and in a clone, so its streams are found there.
#[test]
fn streams_go_with_snapshot_revert_and_clone() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let (id, clone, view) = (VolumeId(1), VolumeId(2), ViewId(1));
    let own = new_inode(0o755);
    let (owner, capacity) =
        (Root { mode: own.mode, uid: own.uid, gid: own.gid }, Capacity { bytes: 1 << 40, files: 1000 });
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    volumes.make(id, &owner, capacity).unwrap();
    let root = serve(&volumes, id);
    let file = make(&root, b"file");
    put(&file, b"s", b"one").unwrap();
    volumes.open(id).unwrap().snapshots().unwrap().create(view).unwrap();
    let created = Time { seconds: 1, nanos: 0 };
    root.volume().set_snapshots(vec![Snapshot { view, name: "first".into(), created }]);
    put(&file, b"s", b"two").unwrap();
    put(&file, b"later", b"later").unwrap();
    let key = file.key();
    assert_eq!(get(&find(&find(&find(&root, b".snapshot"), b"first"), b"file"), b"s"), b"one");
    drop((root, file));
    volumes.revert(id, view, &mut unpaced).unwrap();
    volumes.clone_volume(id, view, clone, &owner, capacity, &mut unpaced).unwrap();
    for volume in [id, clone] {
        let root = serve(&volumes, volume);
        while !root.volume().sweep_streams().unwrap() {}
        let file = find(&root, b"file");
        assert_eq!((file.key(), get(&file, b"s")), (key, b"one".to_vec()));
        assert!(file.find_stream(b"later").is_err());
        put(&file, b"s", b"other").unwrap();
        root.remove(&caller(), b"file", &mut PendingSync::default()).unwrap();
        assert_eq!(hidden(&tree.path.join(format!("volumes/{:016x}", volume.0))), 0);
    }
    drop(volumes);
    // Nothing holds the snapshot, and with it the data directory.
    Volumes::open(&tree.path, Options::default()).unwrap();
}

#[test]
fn streams_of_foreign_key_are_not_swept() {
    let Some(tree) = Tree::new(Ground::Disk) else { return };
    let served = tree.open();
    let (root, file) = (served.root(), FileKey::new(&[2; 21]).unwrap());
    assert!(served.node(&file, Blocking::Allowed).is_err() && !served.is_removed(&file));
    let key = served.file(&root, "file").key();
    assert!(!served.is_removed(&key));
    fs::remove_file(tree.path.join("file")).unwrap();
    drop(served);
    assert_eq!(tree.open().is_removed(&key), rustix::process::geteuid().is_root());
}

#[test]
fn planted_stream_tree_is_not_used() {
    let Some(tree) = Tree::new(Ground::Disk) else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let root = start(&tree.path);
    let file = make(&root, b"file");
    symlink(elsewhere.path(), tree.path.join(HIDDEN)).unwrap();
    assert_eq!(put(&file, b"s", b"stream"), Err(FsError::NotSupported));
    fs::remove_file(tree.path.join(HIDDEN)).unwrap();
    fs::create_dir(tree.path.join(HIDDEN)).unwrap();
    fs::set_permissions(tree.path.join(HIDDEN), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(put(&file, b"s", b"stream"), Err(FsError::NotSupported), "others enter");
    fs::remove_dir(tree.path.join(HIDDEN)).unwrap();
    assert_eq!(put(&file, b"s", b"stream"), Ok(()));
    // A link in place of a file's directory is not followed.
    let mut own = fs::read_dir(tree.path.join(HIDDEN)).unwrap().map(|entry| entry.unwrap().path());
    let own = own.find(|path| path.is_dir()).unwrap();
    fs::rename(&own, elsewhere.path().join("away")).unwrap_or_else(|_| fs::remove_dir_all(&own).unwrap());
    symlink(elsewhere.path(), &own).unwrap();
    assert!(put(&file, b"t", b"stream").is_err());
    assert!(file.find_stream(b"s").is_err());
    assert!(fs::read_dir(elsewhere.path()).unwrap().all(|entry| entry.unwrap().file_name() != ":t"));
    assert_eq!(fs::metadata(tree.path.join("file")).unwrap().nlink(), 1);
}
