//! What watchers are told of what is done through the door.

use super::*;
use crate::backend::durability::{Durability, PendingSync};
use crate::file::{Disposition, File};
use crate::memfs::MemFs;
use crate::model::attrs::{SetAttrs, Time};
use crate::model::caller::Caller;
use crate::model::volume_id::VolumeId;
use crate::namespace::Export;
use crate::volume::Volume;

const NAMES: ChangeMask = ChangeMask(ChangeMask::FILE_NAMES.0 | ChangeMask::DIR_NAMES.0);

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

/// A watch, and how often it was told.
fn watch(dir: &File, what: ChangeMask, is_tree: bool, bytes_max: usize) -> (Watch, Arc<AtomicUsize>) {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let tell = Box::new(move || _ = count.fetch_add(1, Ordering::SeqCst));
    (dir.watch(WatchFilter { caller: caller(), user: 0, what, is_tree, bytes_max }, tell).unwrap(), told)
}

/// What it is told, a line each.
fn said(watch: &Watch) -> Vec<String> {
    let Some(WatchEvents::Changes(changes)) = watch.take() else { return Vec::new() };
    let line =
        |change: ChangeRecord| format!("{:?} {}", change.action, String::from_utf8(change.path).unwrap());
    changes.into_iter().map(line).collect()
}

#[test]
fn names_are_told_to_those_who_want_them() {
    let root = root();
    let (all, told) = watch(&root, NAMES, false, 1000);
    let (dirs, _) = watch(&root, ChangeMask::DIR_NAMES, false, 1000);
    let sub = make_dir(&root, "sub");
    make(&root, "file");
    make(&sub, "below");
    rename(&root, "file", &root, "other");
    rename(&root, "other", &sub, "moved");
    assert_eq!(told.load(Ordering::SeqCst), 4);
    let expected = ["Added sub", "Added file", "OldName file", "NewName other", "Removed other"];
    assert_eq!(said(&all), expected);
    assert_eq!((said(&all), said(&dirs)), (vec![], vec!["Added sub".to_owned()]));
    let mut pending = PendingSync::default();
    sub.remove(&caller(), b"moved", &mut pending).unwrap();
    make(&root, "kept");
    root.link(&caller(), &look_up(&root, "kept"), b"again", &mut pending).unwrap();
    rename(&root, "kept", &root, "again");
    assert_eq!(said(&all), ["Added kept", "Added again"], "two names of one file stay");
}

fn look_up(dir: &File, name: &str) -> File {
    dir.open_dir(&caller(), Blocking::Allowed)
        .unwrap()
        .lookup(name.as_bytes(), Blocking::Allowed)
        .unwrap()
        .file
}

#[test]
fn a_tree_is_told_of_with_paths() {
    let root = root();
    let (a, b) = (make_dir(&root, "a"), make_dir(&root, "b"));
    let deep = make_dir(&a, "deep");
    let (tree, _) = watch(&root, NAMES, true, 1000);
    let (beside, _) = watch(&b, NAMES, true, 1000);
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
    assert_eq!(said(&tree), expected);
    let expected = ["Added new", "Added new/deep/again", "Removed new/deep/file", "Modified new/deep/again"];
    assert_eq!(said(&beside), expected);
}

#[test]
fn nobody_learns_names_that_they_may_not_list() {
    let root = root();
    let mode = |dir: &File, mode| {
        let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
        dir.set_attrs(&caller(), &set, None, &mut PendingSync::default()).unwrap();
    };
    let (open, closed) = (make_dir(&root, "open"), make_dir(&root, "closed"));
    let (below, blind) = (make_dir(&closed, "below"), make_dir(&open, "blind"));
    let modes = [(&root, 0o755), (&open, 0o755), (&closed, 0o700), (&below, 0o755), (&blind, 0o711)];
    modes.into_iter().for_each(|(dir, bits)| mode(dir, bits));
    let wish = |caller| WatchFilter { caller, user: 0, what: NAMES, is_tree: true, bytes_max: 1000 };
    let other = root.watch(wish(Caller::new(1000, 1000, [])), Box::new(|| {})).unwrap();
    let owner = root.watch(wish(caller()), Box::new(|| {})).unwrap();
    for dir in [&closed, &below, &blind, &open, &root] {
        make(dir, "file");
    }
    assert_eq!(said(&other), ["Added open/file", "Added file"]);
    assert_eq!(said(&owner).len(), 5);
}

#[test]
fn what_is_replaced_goes() {
    let root = root();
    make(&root, "old");
    make(&root, "new");
    let (all, _) = watch(&root, NAMES, false, 1000);
    rename(&root, "new", &root, "old");
    assert_eq!(said(&all), ["Removed old", "OldName new", "NewName old"]);
}

#[test]
fn a_directory_that_goes_ends_its_watches() {
    let root = root();
    let (dir, going) = (make_dir(&root, "dir"), make_dir(&root, "going"));
    let (gone, told) = watch(&dir, NAMES, false, 1000);
    let (deleting, _) = watch(&going, NAMES, false, 1000);
    make(&going, "file");
    going.notify_deleting();
    let mut pending = PendingSync::default();
    root.remove_dir(&caller(), b"dir", &mut pending).unwrap();
    for watch in [&gone, &deleting, &gone] {
        assert_eq!(watch.take(), Some(WatchEvents::DirectoryRemoved));
    }
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

#[test]
fn what_is_kept_is_bounded_and_repetitions_are_no_news() {
    let root = root();
    let (small, _) = watch(&root, NAMES | ChangeMask::SIZE, false, 2 * (CHANGE_BYTES + 1));
    let (none, _) = watch(&root, NAMES, false, 0);
    for _ in 0..100 {
        root.notify_modified(b"f", ChangeMask::SIZE);
    }
    assert_eq!(said(&small), ["Modified f"]);
    make(&root, "a");
    make(&root, "b");
    assert_eq!(said(&small), ["Added a", "Added b"]);
    for name in ["c", "d", "e", "f"] {
        make(&root, name);
    }
    assert_eq!((small.take(), small.take()), (Some(WatchEvents::Overflow), None));
    assert_eq!(none.take(), Some(WatchEvents::Overflow));
    make(&root, "g");
    assert_eq!(said(&small), ["Added g"]);
    let watches = root.volume().watches();
    make(&root, "h");
    assert_eq!(watches.bytes.load(Ordering::SeqCst), CHANGE_BYTES + 1);
    drop((small, none));
    assert_eq!((watches.bytes.load(Ordering::SeqCst), watches.is_any()), (0, false));
    let table = watches.table.lock();
    assert!(table.watched.is_empty() && table.names.is_empty() && table.trees.is_empty());
}

/// A wish of a user for whom so many bytes may be kept.
fn wish_of(user: u32, bytes_max: usize) -> WatchFilter {
    WatchFilter { caller: caller(), user, what: NAMES, is_tree: false, bytes_max }
}

/// As many watches as a user may have.
fn watches_of(dir: &File, user: u32) -> Vec<Watch> {
    let watch = || dir.watch(wish_of(user, usize::MAX), Box::new(|| {}));
    std::iter::repeat_with(watch).take(WATCHES_MAX).map_while(Result::ok).collect()
}

#[test]
fn watches_and_what_all_of_them_keep_are_bounded() {
    let root = root();
    let watches: Vec<Watch> = (0..4).flat_map(|user| watches_of(&root, user)).collect();
    assert_eq!(watches.len(), WATCHES_MAX);
    assert!(matches!(root.watch(wish_of(4, 1), Box::new(|| {})), Err(FsError::Wait(Wait::Recall))));
    for number in 0..20 {
        make(&root, &format!("{number:0100}"));
    }
    assert!(root.volume().watches().bytes.load(Ordering::SeqCst) <= KEPT_BYTES_MAX);
    let kinds = watches.iter().map(|watch| matches!(watch.take(), Some(WatchEvents::Overflow)));
    assert!(kinds.filter(|is_too_much| *is_too_much).count() > 0);
    assert_eq!(root.volume().watches().bytes.load(Ordering::SeqCst), 0);
    drop(watches);
    assert!(root.volume().watches().table.lock().users.is_empty());
    assert!(root.watch(wish_of(0, 1), Box::new(|| {})).is_ok());
    make(&root, "file");
    assert!(look_up(&root, "file").watch(wish_of(0, 1), Box::new(|| {})).is_err(), "files are not watched");
}

#[test]
fn one_user_leaves_watches_and_what_they_keep_to_others() {
    let root = root();
    let mut greedy = watches_of(&root, 1000);
    assert_eq!(greedy.len(), WATCHES_OF_USER_MAX);
    let modest = root.watch(wish_of(1001, usize::MAX), Box::new(|| {})).unwrap();
    let mut made = 0;
    while !greedy.iter().any(|watch| watch.watched.buffer.lock().is_too_much) {
        make(&root, &format!("{made:0250}"));
        made += 1;
    }
    assert_eq!(made, KEPT_BYTES_OF_USER_MAX / WATCHES_OF_USER_MAX / (CHANGE_BYTES + 250) + 1);
    assert!(root.volume().watches().bytes.load(Ordering::SeqCst) < KEPT_BYTES_MAX / 2);
    assert_eq!(said(&modest).len(), made);
    greedy.pop();
    assert_eq!(watches_of(&root, 1000).len(), 1);
}

#[test]
fn who_is_told_may_watch_and_stop() {
    let root = root();
    let others = Arc::new(Mutex::new(vec![watch(&root, NAMES, true, 1000).0]));
    let (dir, kept) = (root.clone(), Arc::clone(&others));
    let tell = move || *kept.lock() = vec![watch(&dir, NAMES, true, 1000).0];
    let own = root.watch(wish_of(0, 1000), Box::new(tell)).unwrap();
    make(&root, "first");
    assert_eq!((said(&own), said(&others.lock()[0])), (vec!["Added first".to_owned()], vec![]));
    make(&root, "second");
    assert_eq!(said(&own), ["Added second"]);
    assert_eq!(
        root.volume().watches().table.lock().watched.values().map(|here| here.len()).sum::<usize>(),
        2
    );
}
