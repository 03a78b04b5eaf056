//! The door to files: what an authorization is good for, and what it costs.

use std::sync::Arc;
use vfs::acl::access::Access;
use vfs::{
    Blocking, Caller, Durability, Export, ExportId, ExportRule, File, FsError, PendingSync, SetAttrs,
    Stability, Time, Volume, VolumeId,
};
use vfs_testing::{Faulty, MemFs};

const ALLOWED: Blocking = Blocking::Allowed;

fn root() -> Caller {
    Caller::new(0, 0, [])
}

fn alice() -> Caller {
    Caller::new(1000, 100, [])
}

fn bob() -> Caller {
    Caller::new(1001, 101, [])
}

/// A file of Alice's with these mode bits, and the backend it lies in.
fn file(mode: u32) -> (Faulty, File) {
    let faulty = Faulty::new(Arc::new(MemFs::new(Arc::new(Time::default))));
    let volume = Arc::new(Volume::new(VolumeId(1), "v", Arc::new(faulty.clone()), Durability::Sync, 1));
    let top = Arc::new(Export::new("/v", volume, vec![ExportRule::everybody()])).root();
    let set = SetAttrs { mode: Some(mode), uid: Some(1000), gid: Some(100), ..SetAttrs::default() };
    let (how, mut pending) = (vfs::Disposition::CreateNew, PendingSync::default());
    let file = top.create(&root(), b"file", how, &set, &mut pending).unwrap().file;
    (faulty, file)
}

fn chmod(file: &File, mode: u32) {
    let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
    file.set_attrs(&root(), &set, None, &mut PendingSync::default()).unwrap();
}

fn mode_of(file: &File) -> u32 {
    file.attrs(ALLOWED).unwrap().mode
}

#[test]
fn an_open_file_stays_open_whatever_becomes_of_its_mode() {
    let (_, file) = file(0o666);
    let (bob, mut pending) = (bob(), PendingSync::default());
    let (opened, attrs) = file.open(&bob, Access::READ.and(Access::WRITE), ALLOWED).unwrap();
    assert_eq!(attrs.mode, 0o666);
    let opened = opened.into_owned();
    chmod(&file, 0o4000);
    drop(file);
    let file = opened.file();
    opened.write(0, b"hello", Stability::Data, &mut pending).unwrap();
    assert_eq!((mode_of(file), pending.added()), (0, 1), "nobody asks again, but set-id bits go");
    opened.reserve(5, 5).unwrap();
    opened.commit().unwrap();
    let mut read = b"> ".to_vec();
    assert_eq!(opened.read(0, 10, &mut read, ALLOWED), Ok(5));
    assert_eq!(read, b"> hello");
    // Each call by itself is checked.
    assert_eq!(file.authorize_read(&bob, ALLOWED).err(), Some(FsError::Access));
    let each = file.authorize_write(&bob).unwrap();
    assert_eq!(each.write(0, b"x", Stability::Unstable, &mut pending), Err(FsError::Access));
    assert_eq!(each.reserve(0, 1).err(), Some(FsError::Access));
    assert_eq!(each.commit().err(), Some(FsError::Access));
    assert_eq!(file.open(&bob, Access::READ, ALLOWED).err(), Some(FsError::Access));
    // The owner of a file reads and writes where there are no opens, but opens as mode bits say.
    let alice = alice();
    assert!(file.authorize_read(&alice, ALLOWED).is_ok());
    assert_eq!(file.open(&alice, Access::READ, ALLOWED).err(), Some(FsError::Access));
    let kept = file.authorize_write(&alice).unwrap().into_owned();
    assert!(kept.write(0, b"h", Stability::Unstable, &mut pending).is_ok());
}

#[test]
fn a_file_is_good_for_what_it_was_opened_for() {
    let (_, file) = file(0o666);
    let (bob, mut pending) = (bob(), PendingSync::default());
    let (reads, _) = file.open(&bob, Access::READ, ALLOWED).unwrap();
    let (writes, _) = file.open(&bob, Access::WRITE, ALLOWED).unwrap();
    let (calls, _) = file.authorize_read(&bob, ALLOWED).unwrap();
    for opened in [reads, calls] {
        assert_eq!(opened.write(0, b"x", Stability::File, &mut pending), Err(FsError::Access));
        assert_eq!(opened.reserve(0, 1).err(), Some(FsError::Access));
        assert_eq!(opened.commit().err(), Some(FsError::Access));
    }
    let mut read = Vec::new();
    for opened in [writes, file.authorize_write(&bob).unwrap()] {
        assert_eq!(opened.read(0, 1, &mut read, ALLOWED), Err(FsError::Access));
        assert!(opened.pages(0, 1, ALLOWED).is_none());
    }
    assert_eq!((read.len(), pending.added()), (0, 0));
    let top = file.export().root();
    assert_eq!(top.open(&root(), Access::READ, ALLOWED).err(), Some(FsError::IsDirectory));
    assert_eq!(top.authorize_read(&root(), ALLOWED).err(), Some(FsError::IsDirectory));
}

#[test]
fn an_authorization_costs_no_call_of_its_own() {
    let (backend, file) = file(0o666);
    let (bob, mut pending) = (bob(), PendingSync::default());
    let calls = |act: &mut dyn FnMut()| {
        let before = backend.calls();
        act();
        backend.calls() - before
    };
    let read = calls(&mut || {
        let (opened, _) = file.authorize_read(&bob, ALLOWED).unwrap();
        opened.read(0, 10, &mut Vec::new(), ALLOWED).unwrap();
    });
    assert_eq!(read, 2, "attributes, and data");
    let write = calls(&mut || {
        let opened = file.authorize_write(&bob).unwrap();
        opened.write(0, b"x", Stability::Unstable, &mut pending).unwrap();
    });
    assert_eq!(write, 1, "checked as it is made");
    let (opened, _) = file.open(&bob, Access::READ.and(Access::WRITE), ALLOWED).unwrap();
    let kept = calls(&mut || {
        opened.read(0, 10, &mut Vec::new(), ALLOWED).unwrap();
        opened.write(0, b"x", Stability::Unstable, &mut pending).unwrap();
    });
    assert_eq!(kept, 2);
}

#[test]
fn two_exports_of_a_volume_are_two_places() {
    let (_, file) = file(0o666);
    let one = file.export();
    let other = Export { id: ExportId(2), ..Export::new("/w", Arc::clone(&one.volume), vec![]) };
    let far = Arc::new(other).root();
    let near = one.root();
    let (who, mut pending) = (root(), PendingSync::default());
    assert_eq!(near.rename(&who, b"file", &far, b"x", &mut pending), Err(FsError::CrossVolume));
    assert_eq!(far.link(&who, &file, b"x", &mut pending).err(), Some(FsError::CrossVolume));
    let found = far.open_dir(&who, ALLOWED).unwrap().lookup(b"file", ALLOWED).unwrap().file;
    assert_eq!((found.key(), found.export().id, found.is(&file)), (file.key(), ExportId(2), false));
    assert_eq!(pending.added(), 0);
}

#[test]
fn a_member_of_many_groups_has_the_rights_of_each() {
    let (_, file) = file(0o060);
    for groups in [100..10_100, 10..10_010, 101..10_101] {
        let is_member = groups.contains(&100);
        let caller = Caller::new(5, 6, groups);
        assert_eq!(file.open(&caller, Access::READ, ALLOWED).is_ok(), is_member);
    }
}
