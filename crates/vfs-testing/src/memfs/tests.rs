//! Promises of [`MemFs`] alone: the suite in `tests/memfs.rs` covers the rest.

use super::*;
use crate::UncheckedNode;
use vfs::backend::KEEP_SET_ID;
use vfs::{Name, NewInode, Node, SetAttrs, SyncScope};

const NEW_INODE: NewInode = NewInode { mode: 0o644, uid: 1, gid: 2, times: None, size: 0 };

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

fn volume(options: Options) -> MemFs {
    MemFs::with_options(Arc::new(|| Time { seconds: 5, nanos: 6 }), options)
}

fn contents(node: &dyn Node) -> Vec<u8> {
    let mut read = Vec::new();
    node.read(0, 64, &mut read, Blocking::Allowed).unwrap();
    read
}

#[test]
fn a_crash_keeps_what_was_synced() {
    let fs = volume(Options::default());
    let root = fs.root();
    let kept = root.create_unchecked(name("kept"), &NEW_INODE).unwrap().found.node;
    kept.write(0, b"old", KEEP_SET_ID).unwrap();
    assert_eq!(fs.crash().root().lookup(name("kept"), Blocking::Never).err(), Some(FsError::NotFound));

    root.sync(SyncScope::All).unwrap();
    let after = fs.crash().root().lookup(name("kept"), Blocking::Never).unwrap();
    assert_eq!((after.node.key(), after.attrs.size), (kept.key(), 0), "the entry, not the contents");

    kept.sync(SyncScope::Data).unwrap();
    kept.write(0, b"new", KEEP_SET_ID).unwrap();
    kept.set_attrs(&SetAttrs { mode: Some(0o600), ..SetAttrs::default() }).unwrap();
    root.remove_unchecked(name("kept")).unwrap();
    root.make_dir_unchecked(name("later"), &NEW_INODE).unwrap();
    let crashed = fs.crash();
    let after = crashed.root().lookup(name("kept"), Blocking::Never).unwrap();
    assert_eq!((contents(&*after.node), after.attrs.mode), (b"old".to_vec(), 0o644));
    assert_eq!(crashed.root().lookup(name("later"), Blocking::Never).err(), Some(FsError::NotFound));

    fs.sync().unwrap();
    let crashed = fs.crash();
    assert_eq!(crashed.root().lookup(name("kept"), Blocking::Never).err(), Some(FsError::NotFound));
    let root = crashed.root();
    assert_eq!(root.attrs(Blocking::Never).unwrap().links, 3);
    let fresh = root.create_unchecked(name("fresh"), &NEW_INODE).unwrap().found.node;
    assert_ne!(fresh.key(), kept.key(), "keys do not come back after a crash");
}

#[test]
fn a_half_synced_move_leaves_one_directory() {
    let fs = volume(Options::default());
    let root = fs.root();
    let [a, b] = ["a", "b"].map(|text| root.make_dir_unchecked(name(text), &NEW_INODE).unwrap().found.node);
    let moved = a.make_dir_unchecked(name("moved"), &NEW_INODE).unwrap().found.node;
    fs.sync().unwrap();
    a.rename_unchecked(name("moved"), &b, name("moved")).unwrap();
    b.sync(SyncScope::All).unwrap();
    let crashed = fs.crash();
    let places = ["a", "b"].map(|text| crashed.root().lookup(name(text), Blocking::Never).unwrap());
    let found: Vec<_> =
        places.iter().filter_map(|p| p.node.lookup(name("moved"), Blocking::Never).ok()).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].node.key(), moved.key());
    assert_eq!(places[0].attrs.links + places[1].attrs.links, 5);
}

#[test]
fn a_cold_volume_answers_only_who_waits() {
    let fs = volume(Options::default());
    let root = fs.root();
    fs.cold(true);
    assert_eq!(root.attrs(Blocking::Never), Err(FsError::Wait(Wait::Storage)));
    assert_eq!(root.lookup(name("x"), Blocking::Never).err(), Some(FsError::Wait(Wait::Storage)));
    assert_eq!(fs.node(&root.key(), Blocking::Never).err(), Some(FsError::Wait(Wait::Storage)));
    assert_eq!(root.lookup(name("x"), Blocking::Allowed).err(), Some(FsError::NotFound));
    fs.cold(false);
    assert!(root.attrs(Blocking::Never).is_ok());
}

#[test]
fn capacity_is_enforced_and_given_back() {
    let fs = volume(Options { bytes_total: 8192 + 2 * 1024, files_total: 3, ..Options::default() });
    let root = fs.root();
    let file = root.create_unchecked(name("file"), &NEW_INODE).unwrap().found.node;
    root.create_unchecked(name("other"), &NEW_INODE).unwrap();
    assert_eq!(root.create_unchecked(name("third"), &NEW_INODE).err(), Some(FsError::NoSpace));
    file.write(0, &[1; 8192], KEEP_SET_ID).unwrap();
    assert_eq!(file.write(8000, &[2; 200], KEEP_SET_ID), Err(FsError::NoSpace));
    assert_eq!(file.attrs(Blocking::Never).unwrap().size, 8192, "all or nothing");
    file.set_attrs(&SetAttrs { size: Some(4096), ..SetAttrs::default() }).unwrap();
    assert_eq!(fs.stat().unwrap().bytes_free, 4096);
    root.remove_unchecked(name("file")).unwrap();
    let stat = fs.stat().unwrap();
    assert_eq!((stat.bytes_free, stat.files_free), (8192 + 1024, 1), "the other file is there");
}

#[test]
fn links_are_counted_up_to_the_limit() {
    let mut options = Options::default();
    options.limits.links_max = 3;
    let fs = volume(options);
    let root = fs.root();
    let file = root.create_unchecked(name("1"), &NEW_INODE).unwrap().found.node;
    root.link_unchecked(name("2"), &file).unwrap();
    root.link_unchecked(name("3"), &file).unwrap();
    assert_eq!(root.link_unchecked(name("4"), &file).err(), Some(FsError::TooManyLinks));
    root.make_dir_unchecked(name("d"), &NEW_INODE).unwrap();
    assert_eq!(root.make_dir_unchecked(name("e"), &NEW_INODE).err(), Some(FsError::TooManyLinks));
    let foreign = volume(options).root();
    assert_eq!(root.rename_unchecked(name("1"), &foreign, name("1")).err(), Some(FsError::CrossVolume));
}
