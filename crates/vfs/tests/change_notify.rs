//! Notices of changes that are made through files.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs::sync::Mutex;
use vfs::volume::change_notify::{ChangeMask, ChangeRecord, Watch, WatchEvents, WatchFilter};
use vfs::{
    Blocking, Caller, Disposition, Durability, Export, File, PendingSync, SetAttrs, Time, Volume, VolumeId,
};
use vfs_testing::MemFs;

fn names() -> ChangeMask {
    ChangeMask::FILE_NAMES | ChangeMask::DIR_NAMES
}

fn root() -> File {
    let fs = Arc::new(MemFs::new(Arc::new(Time::default)));
    let volume = Arc::new(Volume::new(VolumeId(1), "v", fs, Durability::Sync, 1));
    Arc::new(Export::new("/v", volume, Vec::new())).root()
}

fn caller() -> Caller {
    Caller::new(0, 0, [])
}

fn make_dir(dir: &File, name: &str) -> File {
    let mut pending = PendingSync::default();
    dir.make_dir(&caller(), name.as_bytes(), &SetAttrs::default(), &mut pending).unwrap().file
}

fn make(dir: &File, name: &str) {
    let mut pending = PendingSync::default();
    let set = SetAttrs::default();
    dir.create(&caller(), name.as_bytes(), Disposition::CreateNew, &set, &mut pending).unwrap();
}

fn rename(from_dir: &File, from: &str, to_dir: &File, to: &str) {
    let mut pending = PendingSync::default();
    from_dir.rename(&caller(), from.as_bytes(), to_dir, to.as_bytes(), &mut pending).unwrap();
}

/// A watch, and the number of its notifications.
fn watch(dir: &File, what: ChangeMask, is_tree: bool, bytes_max: usize) -> (Watch, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let on_events = Box::new(move || _ = count.fetch_add(1, Ordering::SeqCst));
    (
        dir.watch(WatchFilter { caller: caller(), user: 0, what, is_tree, bytes_max }, on_events).unwrap(),
        calls,
    )
}

fn lines(watch: &Watch) -> Vec<String> {
    let Some(WatchEvents::Changes(changes)) = watch.take() else { return Vec::new() };
    let line =
        |change: ChangeRecord| format!("{:?} {}", change.action, String::from_utf8(change.path).unwrap());
    changes.into_iter().map(line).collect()
}

#[test]
fn name_changes_are_reported_to_matching_watches() {
    let root = root();
    let (all, calls) = watch(&root, names(), false, 1000);
    let (dirs, _) = watch(&root, ChangeMask::DIR_NAMES, false, 1000);
    let sub = make_dir(&root, "sub");
    make(&root, "file");
    make(&sub, "below");
    rename(&root, "file", &root, "other");
    rename(&root, "other", &sub, "moved");
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    let expected = ["Added sub", "Added file", "OldName file", "NewName other", "Removed other"];
    assert_eq!(lines(&all), expected);
    assert_eq!((lines(&all), lines(&dirs)), (vec![], vec!["Added sub".to_owned()]));
    let mut pending = PendingSync::default();
    sub.remove(&caller(), b"moved", &mut pending).unwrap();
    make(&root, "kept");
    root.link(&caller(), &look_up(&root, "kept"), b"again", &mut pending).unwrap();
    rename(&root, "kept", &root, "again");
    assert_eq!(lines(&all), ["Added kept", "Added again"], "two names of one file stay");
}

fn look_up(dir: &File, name: &str) -> File {
    dir.open_dir(&caller(), Blocking::Allowed)
        .unwrap()
        .lookup(name.as_bytes(), Blocking::Allowed)
        .unwrap()
        .file
}

#[test]
fn changes_in_a_tree_are_reported_with_paths() {
    let root = root();
    let (a, b) = (make_dir(&root, "a"), make_dir(&root, "b"));
    let deep = make_dir(&a, "deep");
    let (tree, _) = watch(&root, names(), true, 1000);
    let (beside, _) = watch(&b, names(), true, 1000);
    make(&deep, "file");
    rename(&root, "a", &b, "new");
    make(&deep, "again");
    rename(&deep, "file", &root, "file");
    deep.notify_modified(b"again", ChangeMask::FILE_NAMES);
    let expected = [
        "Added a/deep/file",
        "Removed a",
        "Added b/new",
        "Added b/new/deep/again",
        "Removed b/new/deep/file",
        "Added file",
        "Modified b/new/deep/again",
    ];
    assert_eq!(lines(&tree), expected);
    let expected = ["Added new", "Added new/deep/again", "Removed new/deep/file", "Modified new/deep/again"];
    assert_eq!(lines(&beside), expected);
}

#[test]
fn names_in_unlistable_directories_are_not_reported() {
    let root = root();
    let mode = |dir: &File, mode| {
        let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
        dir.set_attrs(&caller(), &set, None, &mut PendingSync::default()).unwrap();
    };
    let (open, closed) = (make_dir(&root, "open"), make_dir(&root, "closed"));
    let (below, blind) = (make_dir(&closed, "below"), make_dir(&open, "blind"));
    let modes = [(&root, 0o755), (&open, 0o755), (&closed, 0o700), (&below, 0o755), (&blind, 0o711)];
    modes.into_iter().for_each(|(dir, bits)| mode(dir, bits));
    let filter = |caller| WatchFilter { caller, user: 0, what: names(), is_tree: true, bytes_max: 1000 };
    let other = root.watch(filter(Caller::new(1000, 1000, [])), Box::new(|| {})).unwrap();
    let owner = root.watch(filter(caller()), Box::new(|| {})).unwrap();
    for dir in [&closed, &below, &blind, &open, &root] {
        make(dir, "file");
    }
    assert_eq!(lines(&other), ["Added open/file", "Added file"]);
    assert_eq!(lines(&owner).len(), 5);
}

#[test]
fn replaced_name_is_reported_as_removed() {
    let root = root();
    make(&root, "old");
    make(&root, "new");
    let (all, _) = watch(&root, names(), false, 1000);
    rename(&root, "new", &root, "old");
    assert_eq!(lines(&all), ["Removed old", "OldName new", "NewName old"]);
}

#[test]
fn removed_directory_ends_its_watches() {
    let root = root();
    let (dir, going) = (make_dir(&root, "dir"), make_dir(&root, "going"));
    let (gone, calls) = watch(&dir, names(), false, 1000);
    let (deleting, _) = watch(&going, names(), false, 1000);
    make(&going, "file");
    going.notify_deleting();
    let mut pending = PendingSync::default();
    root.remove_dir(&caller(), b"dir", &mut pending).unwrap();
    for watch in [&gone, &deleting, &gone] {
        assert_eq!(watch.take(), Some(WatchEvents::DirectoryRemoved));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn callback_may_add_and_drop_watches() {
    let root = root();
    let others = Arc::new(Mutex::new(vec![watch(&root, names(), true, 1000).0]));
    let (dir, kept) = (root.clone(), Arc::clone(&others));
    let on_events = move || *kept.lock() = vec![watch(&dir, names(), true, 1000).0];
    let own = root
        .watch(
            WatchFilter { caller: caller(), user: 0, what: names(), is_tree: false, bytes_max: 1000 },
            Box::new(on_events),
        )
        .unwrap();
    make(&root, "first");
    assert_eq!((lines(&own), lines(&others.lock()[0])), (vec!["Added first".to_owned()], vec![]));
    make(&root, "second");
    assert_eq!(lines(&own), ["Added second"]);
    drop((own, others));
    assert!(!root.volume().is_watched());
}

#[test]
fn a_file_cannot_be_watched() {
    let root = root();
    make(&root, "file");
    let filter = WatchFilter { caller: caller(), user: 0, what: names(), is_tree: false, bytes_max: 1 };
    assert!(look_up(&root, "file").watch(filter, Box::new(|| {})).is_err());
}
