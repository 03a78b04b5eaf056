//! Attributes that a volume stores beside those of its storage: permissions, and the validity of the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use vfs::{
    Backend, Blocking, Caller, Disposition, Durability, Export, ExportId, ExtraAttrs, File, FsError, Name,
    PendingSync, SetAttrs, SetXattr, ShareSettings, Time, Volume, VolumeId, Wait, XattrName,
};
use vfs_testing::MemFs;

const HIDDEN: u32 = 2;

/// A file of user 1, mode 0644.
fn rig() -> (File, File) {
    let (_, root, file) = rig_at(Arc::default());
    (root, file)
}

/// The storage, its root, and a file of user 1 with mode 0644. The clock counts seconds.
fn rig_at(clock: Arc<AtomicI64>) -> (MemFs, File, File) {
    let now = move || Time { seconds: clock.load(Ordering::Relaxed), nanos: 0 };
    let fs = MemFs::new(Arc::new(now));
    let volume = Volume::new(VolumeId(1), "one", Arc::new(fs.clone()), Durability::Sync, 1);
    let export = Arc::new(Export {
        id: ExportId(1),
        path: "/one".into(),
        volume: Arc::new(volume),
        rules: Vec::new(),
        endpoints: Vec::new(),
        share: ShareSettings::default(),
    });
    let (root, user) = (export.root(), Caller::new(1, 1, []));
    let mode = SetAttrs { mode: Some(0o777), ..SetAttrs::default() };
    root.set_attrs(&Caller::new(0, 0, []), &mode, None, &mut PendingSync::default()).unwrap();
    let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
    let made =
        root.create(&user, b"file", Disposition::CreateNew, &set, &mut PendingSync::default()).unwrap();
    (fs, root, made.file)
}

fn extra(file: &File) -> ExtraAttrs {
    let attrs = file.attrs(Blocking::Allowed).unwrap();
    file.extra_attrs(&attrs, Blocking::Allowed).unwrap()
}

#[test]
fn extra_attrs_are_found_by_every_name_and_key() {
    let (root, file) = rig();
    let (user, born) = (Caller::new(1, 1, []), Time { seconds: -5, nanos: 7 });
    assert_eq!(extra(&file), ExtraAttrs::default());
    let mut pending = PendingSync::default();
    let change = file
        .update_extra_attrs(
            &user,
            |extra| (extra.flags, extra.born) = (Some(HIDDEN), Some(born)),
            &mut pending,
        )
        .unwrap();
    assert!(change.after.change > change.before.change && pending.added() == 1);
    root.link(&user, &file, b"link", &mut pending).unwrap();
    root.rename(&user, b"file", &root, b"moved", &mut pending).unwrap();
    for name in [b"link".as_slice(), b"moved"] {
        let dir = root.open_dir(&user, Blocking::Allowed).unwrap();
        let found = dir.lookup(name, Blocking::Allowed).unwrap();
        let by_key = root.export().extra_attrs(&found.file.key(), &found.attrs).unwrap();
        assert_eq!((by_key.flags, by_key.born), (Some(HIDDEN), Some(born)));
    }
}

#[test]
fn memory_answers_for_as_long_as_the_file_does_not_change() {
    let (_root, file) = rig();
    let user = Caller::new(1, 1, []);
    let now = || file.attrs(Blocking::Allowed).unwrap();
    assert_eq!(file.extra_attrs(&now(), Blocking::Never), Err(FsError::Wait(Wait::Storage)));
    assert_eq!(extra(&file), ExtraAttrs::default());
    assert_eq!(file.extra_attrs(&now(), Blocking::Never), Ok(ExtraAttrs::default()));
    file.update_extra_attrs(&user, |extra| extra.flags = Some(HIDDEN), &mut PendingSync::default()).unwrap();
    assert_eq!(file.extra_attrs(&now(), Blocking::Never).unwrap().flags, Some(HIDDEN));
    let mode = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
    file.set_attrs(&user, &mode, None, &mut PendingSync::default()).unwrap();
    assert_eq!(file.extra_attrs(&now(), Blocking::Never), Err(FsError::Wait(Wait::Storage)));
    assert_eq!(extra(&file).flags, Some(HIDDEN));
}

#[test]
fn a_change_time_is_shown_until_the_file_changes() {
    let clock = Arc::new(AtomicI64::new(1000));
    let (_, _root, file) = rig_at(Arc::clone(&clock));
    let (user, mut pending) = (Caller::new(1, 1, []), PendingSync::default());
    let set = Time { seconds: 5, nanos: 6 };
    let shown = || {
        let attrs = file.attrs(Blocking::Allowed).unwrap();
        file.extra_attrs(&attrs, Blocking::Allowed).unwrap().changed(&attrs)
    };
    file.update_extra_attrs(&user, |extra| extra.set_changed = Some(set), &mut pending).unwrap();
    assert_eq!(shown(), set);
    clock.store(2000, Ordering::Relaxed);
    assert_eq!(shown(), set);
    let mode = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
    file.set_attrs(&user, &mode, None, &mut pending).unwrap();
    assert_eq!(shown(), Time { seconds: 2000, nanos: 0 });
    file.update_extra_attrs(&user, |extra| extra.set_changed = Some(set), &mut pending).unwrap();
    file.update_extra_attrs(&user, |extra| extra.flags = Some(HIDDEN), &mut pending).unwrap();
    assert_eq!(shown(), Time { seconds: 2000, nanos: 0 });
}

#[test]
fn owner_or_writer_may_update_extra_attrs() {
    let (_root, file) = rig();
    let set = |caller: &Caller| {
        file.update_extra_attrs(caller, |extra| extra.flags = Some(HIDDEN), &mut PendingSync::default())
            .map(drop)
    };
    assert_eq!(set(&Caller::new(2, 2, [])), Err(FsError::Access));
    let mut reader = Caller::new(1, 1, []);
    reader.read_only = true;
    assert_eq!(set(&reader), Err(FsError::ReadOnly));
    assert_eq!(set(&Caller::new(1, 1, [])), Ok(()));
}

#[test]
fn a_client_that_names_attributes_reaches_no_record() {
    let (_root, file) = rig();
    let (user, mut pending) = (Caller::new(1, 1, []), PendingSync::default());
    file.update_extra_attrs(&user, |extra| extra.flags = Some(HIDDEN), &mut pending).unwrap();
    let name = XattrName::EXTRA_ATTRS.bytes();
    assert_eq!(file.get_xattr(&user, name), Err(FsError::Access));
    let planted = file.set_xattr(&user, name, b"planted", SetXattr::Either, &mut pending);
    assert_eq!(planted.map(drop), Err(FsError::Access));
    assert_eq!(file.remove_xattr(&user, name, &mut pending).map(drop), Err(FsError::Access));
    file.list_xattrs(&user, 0, &mut |name, _| panic!("{name:?} is listed")).unwrap();
    assert_eq!(extra(&file).flags, Some(HIDDEN));
}

#[test]
fn garbage_is_reported_and_replaced() {
    let (fs, _root, file) = rig_at(Arc::default());
    let plant = |bytes: &[u8]| {
        let node = fs.root().lookup(Name::new(b"file").unwrap(), Blocking::Allowed).unwrap().node;
        let xattrs = node.xattrs().unwrap();
        xattrs.set(XattrName::EXTRA_ATTRS, bytes, SetXattr::Either, &|_| Ok(())).unwrap();
    };
    let mut damaged = ExtraAttrs::default();
    damaged.is_damaged = true;
    for garbage in [&b""[..], &[9; 20], &[1; 64 << 10]] {
        plant(garbage);
        assert_eq!(extra(&file), damaged);
    }
    let user = Caller::new(1, 1, []);
    file.update_extra_attrs(&user, |_| {}, &mut PendingSync::default()).unwrap();
    assert_eq!(extra(&file), ExtraAttrs::default());
}
