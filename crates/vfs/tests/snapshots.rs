//! Snapshots as clients see them: below `.snapshot`, read-only, with the keys and numbers of the live files.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use vfs::claims::Rights;
use vfs::{
    Access, Backend, Blocking, Caller, Disposition, Durability, Export, File, FsError, PendingSync, Resolved,
    SetAttrs, SetXattr, Snapshot, SnapshotDirectory, Stability, Time, ViewId, Volume, VolumeId,
};
use vfs_testing::MemFs;

const ALLOWED: Blocking = Blocking::Allowed;

struct Rig {
    fs: MemFs,
    export: Arc<Export>,
    root: File,
    user: Caller,
}

fn rig() -> Rig {
    let seconds = AtomicI64::new(0);
    let clock = move || Time { seconds: seconds.fetch_add(1, Ordering::Relaxed), nanos: 0 };
    let fs = MemFs::new(Arc::new(clock));
    let volume = Volume::new(VolumeId(1), "v", Arc::new(fs.clone()), Durability::Sync, 1);
    let export = Arc::new(Export::new("/v", Arc::new(volume), Vec::new()));
    Rig { fs, root: export.root(), export, user: Caller::new(0, 0, []) }
}

impl Rig {
    /// Makes a snapshot and adds it to the list.
    fn snapshot(&self, view: u32, name: &str) {
        self.fs.snapshots().unwrap().create(ViewId(view)).unwrap();
        let created = Time { seconds: 1_000_000 + i64::from(view), nanos: 0 };
        let mut all: Vec<_> = self.export.volume.snapshots().iter().cloned().collect();
        all.push(Snapshot { view: ViewId(view), name: name.to_owned(), created });
        self.export.volume.set_snapshots(all);
    }

    fn lookup(&self, path: &str) -> Result<Resolved, FsError> {
        let start = Resolved { file: self.root.clone(), attrs: self.root.attrs(ALLOWED).unwrap() };
        path.split('/')
            .try_fold(start, |at, name| at.open_dir(&self.user, ALLOWED)?.lookup(name.as_bytes(), ALLOWED))
    }

    fn make(&self, dir: &File, name: &str, data: &[u8]) -> File {
        let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
        let mut pending = PendingSync::default();
        let made =
            dir.create(&self.user, name.as_bytes(), Disposition::CreateNew, &set, &mut pending).unwrap();
        self.write(&made.file, data);
        made.file
    }

    fn write(&self, file: &File, data: &[u8]) {
        let (opened, _) = file.open(&self.user, Access::WRITE, ALLOWED).unwrap();
        opened.write(0, data, Stability::File, &mut PendingSync::default()).unwrap();
    }

    fn read(&self, file: &File) -> Vec<u8> {
        let (opened, attrs) = file.authorize_read(&self.user, ALLOWED).unwrap();
        let mut data = Vec::new();
        opened.read(0, usize::try_from(attrs.size).unwrap(), &mut data, ALLOWED).unwrap();
        data
    }

    fn make_dir(&self, dir: &File, name: &str) -> File {
        let set = SetAttrs { mode: Some(0o755), ..SetAttrs::default() };
        dir.make_dir(&self.user, name.as_bytes(), &set, &mut PendingSync::default()).unwrap().file
    }
}

fn names(rig: &Rig, dir: &File) -> Vec<String> {
    let mut names = Vec::new();
    let mut cookie = 0;
    // An entry a call, so that every cookie is used.
    loop {
        let mut next = None;
        let listing = dir.read_dir(&rig.user, cookie, true, &mut |entry| match next {
            Some(_) => ControlFlow::Break(()),
            None => {
                next = Some(entry.cookie);
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                ControlFlow::Continue(())
            }
        });
        match next {
            Some(next) if !listing.unwrap().at_end => cookie = next,
            _ => return names,
        }
    }
}

#[test]
fn snapshot_shows_files_as_they_were() {
    let rig = rig();
    let dir = rig.make_dir(&rig.root, "d");
    let file = rig.make(&dir, "f", b"old");
    let gone = rig.make(&dir, "gone", b"removed later");
    let before = (file.attrs(ALLOWED).unwrap(), gone.attrs(ALLOWED).unwrap());
    rig.snapshot(1, "one");
    rig.write(&file, b"new");
    dir.remove(&rig.user, b"gone", &mut PendingSync::default()).unwrap();
    rig.make(&dir, "young", b"");
    for path in [".snapshot/one/d", "d/.snapshot/one"] {
        let frozen = rig.lookup(path).unwrap().file;
        assert_eq!(names(&rig, &frozen), [".", "..", "f", "gone"], "{path}");
        let seen = rig.lookup(&format!("{path}/f")).unwrap();
        assert_eq!(rig.read(&seen.file), b"old");
        assert_eq!(seen.attrs.file_id, before.0.file_id);
        assert_eq!(seen.attrs, vfs::Attrs { view: ViewId(1), ..before.0 });
        assert_eq!(rig.read(&rig.lookup(&format!("{path}/gone")).unwrap().file), b"removed later");
    }
    assert_eq!(rig.read(&rig.lookup("d/f").unwrap().file), b"new");
    assert_eq!(rig.lookup("d/.snapshot/two").err(), Some(FsError::NotFound));
    let young = rig.make_dir(&rig.root, "young");
    assert_eq!(rig.lookup("young/.snapshot/one").err(), Some(FsError::NotFound), "it is newer");
    assert!(rig.lookup("young/.snapshot").is_ok());
    drop(young);
}

#[test]
fn keys_of_a_snapshot_lead_back_to_its_files() {
    let rig = rig();
    let file = rig.make(&rig.root, "f", b"old");
    rig.snapshot(1, "one");
    rig.write(&file, b"new");
    let seen = rig.lookup(".snapshot/one/f").unwrap().file;
    let key = seen.key();
    assert_eq!(key, file.key().in_view(ViewId(1)));
    assert_eq!(rig.read(&rig.export.file(&key, ALLOWED).unwrap()), b"old");
    let top = rig.lookup(".snapshot").unwrap().file;
    assert_eq!(rig.export.file(&top.key(), ALLOWED).unwrap().key(), top.key());
    let entry = rig.lookup(".snapshot/one").unwrap().file;
    assert!(entry.key().view().is_entry());
    let listed = entry.entry_id(&entry.attrs(ALLOWED).unwrap());
    assert!(listed.is_some() && listed != Some(rig.root.attrs(ALLOWED).unwrap().file_id));
    assert_eq!(top.entry_id(&top.attrs(ALLOWED).unwrap()), None);
    assert_eq!(rig.export.file(&entry.key(), ALLOWED).unwrap().key(), entry.key());
    for missing in [ViewId(2), ViewId::MAX, ViewId(2).entry()] {
        assert_eq!(rig.export.file(&file.key().in_view(missing), ALLOWED).err(), Some(FsError::Stale));
    }
}

#[test]
fn parents_lead_from_a_snapshot_back_to_the_live_directory() {
    let rig = rig();
    let dir = rig.make_dir(&rig.root, "d");
    rig.make_dir(&dir, "e");
    rig.snapshot(1, "one");
    let same = |path: &str, other: &str| {
        assert_eq!(rig.lookup(path).unwrap().file.key(), rig.lookup(other).unwrap().file.key(), "{path}");
    };
    same("d/.snapshot/..", "d");
    same("d/.snapshot/one/..", "d/.snapshot");
    same("d/.snapshot/one/e/..", ".snapshot/one/d");
    let root = rig.export.root_in(ViewId(1)).unwrap();
    assert_eq!(rig.lookup(".snapshot/one/d/..").unwrap().file.key(), root.key());
    same(".snapshot/one/..", ".snapshot");
}

#[test]
fn nothing_in_a_snapshot_changes() {
    let rig = rig();
    let dir = rig.make_dir(&rig.root, "d");
    let file = rig.make(&dir, "f", b"old");
    file.make_stream(&rig.user, b"s", &mut PendingSync::default()).unwrap();
    rig.snapshot(1, "one");
    let frozen = rig.lookup(".snapshot/one/d").unwrap().file;
    let seen = rig.lookup(".snapshot/one/d/f").unwrap().file;
    let (user, mut pending) = (&rig.user, PendingSync::default());
    let read_only = FsError::ReadOnly;
    let set = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
    for dir in [&frozen, &rig.lookup("d/.snapshot").unwrap().file] {
        let make = Disposition::CreateNew;
        assert_eq!(dir.create(user, b"x", make, &set, &mut pending).err(), Some(read_only));
        assert_eq!(dir.make_dir(user, b"x", &set, &mut pending).err(), Some(read_only));
        assert_eq!(dir.remove(user, b"f", &mut pending).err(), Some(read_only));
        assert_eq!(dir.remove_dir(user, b"one", &mut pending).err(), Some(read_only));
        assert_eq!(dir.rename(user, b"f", dir, b"g", &mut pending).err(), Some(read_only));
        assert_eq!(dir.set_attrs(user, &set, None, &mut pending).err(), Some(read_only));
        assert_eq!(dir.link(user, dir, b"x", &mut pending).err(), Some(read_only));
        let rights = dir.access(user, ALLOWED).unwrap();
        assert!(
            rights.read
                && rights.lookup
                && !rights.modify
                && !rights.extend
                && !rights.delete
                && !rights.owns
        );
    }
    // Neither out of it nor into it.
    assert_eq!(rig.root.rename(user, b"d", &frozen, b"x", &mut pending).err(), Some(FsError::CrossVolume));
    assert_eq!(frozen.rename(user, b"f", &rig.root, b"x", &mut pending).err(), Some(read_only));
    assert!(rig.root.link(user, &seen, b"x", &mut pending).is_err());
    assert_eq!(seen.open(user, Access::WRITE, ALLOWED).err(), Some(read_only));
    let written =
        seen.authorize_write(user).and_then(|opened| opened.write(0, b"x", Stability::File, &mut pending));
    assert_eq!(written.err(), Some(read_only));
    let resized = SetAttrs { size: Some(0), ..SetAttrs::default() };
    assert_eq!(seen.set_attrs(user, &resized, None, &mut pending).err(), Some(read_only));
    assert_eq!(seen.set_xattr(user, b"x", b"", SetXattr::Either, &mut pending).err(), Some(read_only));
    assert_eq!(seen.make_stream(user, b"t", &mut pending).err(), Some(read_only));
    assert_eq!(seen.remove_streams(user, &mut pending).err(), Some(read_only));
    assert_eq!(seen.authorize_deny(user, Rights::WRITE, ALLOWED).err(), Some(read_only));
    let committed = seen.authorize_write(user).and_then(|opened| opened.commit());
    assert_eq!(committed.err(), Some(read_only));
    let (source, _) = file.authorize_read(user, ALLOWED).unwrap();
    assert_eq!(source.reaches(&seen.authorize_write(user).unwrap()).err(), Some(read_only));
    assert_eq!(seen.pass_changes(), seen.attrs(ALLOWED), "no change to wait for");
    assert_eq!(rig.read(&seen), b"old");
}

#[test]
fn streams_of_a_snapshot_are_those_of_its_time() {
    let rig = rig();
    let file = rig.make(&rig.root, "f", b"");
    let put = |name: &[u8], data| {
        let stream = file.make_stream(&rig.user, name, &mut PendingSync::default()).unwrap();
        rig.write(&stream, data);
    };
    put(b"s", b"old");
    rig.snapshot(1, "one");
    rig.write(&file.find_stream(b"s").unwrap(), b"new");
    put(b"t", b"later");
    let seen = rig.lookup(".snapshot/one/f").unwrap().file;
    let mut listed = Vec::new();
    seen.list_streams(&mut |name, size, _| listed.push((name.to_vec(), size))).unwrap();
    assert_eq!(listed, [(b"s".to_vec(), 3)]);
    assert_eq!(rig.read(&seen.find_stream(b"s").unwrap()), b"old");
    assert_eq!(seen.find_stream(b"t").err(), Some(FsError::NotFound));
    let open = seen.find_stream(b"s").unwrap().open(&rig.user, Access::WRITE, ALLOWED).err();
    assert_eq!(open, Some(FsError::ReadOnly));
}

#[test]
fn directory_of_snapshots_is_where_the_setting_says() {
    let rig = rig();
    let dir = rig.make_dir(&rig.root, "d");
    rig.snapshot(1, "one");
    let volume = &rig.export.volume;
    let open = rig.lookup("d/.snapshot").unwrap().file;
    let entry = rig.lookup("d/.snapshot/one").unwrap().file;
    let handle = open.key();
    assert_eq!(names(&rig, &rig.root), [".", "..", "d"]);
    volume.set_snapshot_directory(SnapshotDirectory::Listed);
    let mut listed = names(&rig, &rig.root);
    listed.sort();
    assert_eq!(listed, [".", "..", ".snapshot", "d"]);
    assert_eq!(names(&rig, &dir), [".", ".."], "the root's alone");
    volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    assert_eq!(names(&rig, &rig.root), [".", "..", "d"]);
    assert_eq!(rig.lookup(".snapshot").err(), Some(FsError::NotFound));
    assert_eq!(rig.export.file(&handle, ALLOWED).err(), Some(FsError::Stale));
    for open in [&open, &entry] {
        assert_eq!(open.attrs(ALLOWED).err(), Some(FsError::Stale), "it was reached before");
    }
    assert_eq!(rig.export.file(&dir.key().in_view(ViewId(1)), ALLOWED).err(), Some(FsError::Stale));
    assert_eq!(rig.export.root_in(ViewId(1)).err(), Some(FsError::Stale));
}

#[test]
fn own_file_of_that_name_comes_first_but_none_is_made() {
    let rig = rig();
    rig.export.volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    let own = rig.make(&rig.root, ".snapshot", b"mine");
    rig.export.volume.set_snapshot_directory(SnapshotDirectory::Listed);
    rig.snapshot(1, "one");
    assert_eq!(rig.read(&rig.lookup(".snapshot").unwrap().file), b"mine");
    assert_eq!(names(&rig, &rig.root), [".", "..", ".snapshot"]);
    let dir = rig.make_dir(&rig.root, "d");
    let (user, mut pending, set) = (&rig.user, PendingSync::default(), SetAttrs::default());
    let (name, exists) = (b".snapshot", Some(FsError::Exists));
    assert_eq!(dir.create(user, name, Disposition::CreateNew, &set, &mut pending).err(), exists);
    assert_eq!(dir.make_dir(user, name, &set, &mut pending).err(), exists);
    assert_eq!(dir.link(user, &own, name, &mut pending).err(), exists);
    assert_eq!(rig.root.rename(user, b".snapshot", &dir, name, &mut pending).err(), exists);
    rig.root.rename(user, name, &dir, b"mine", &mut pending).unwrap();
    assert_eq!(names(&rig, &rig.lookup(".snapshot").unwrap().file), [".", "..", "one"]);
}

#[test]
fn first_snapshot_of_a_second_is_found_by_it() {
    let rig = rig();
    let at = |view: u32, seconds| Snapshot {
        view: ViewId(view),
        name: format!("s{view}"),
        created: Time { seconds, nanos: 0 },
    };
    // As many on either side: a search that meets any of them would be right by chance.
    let all = [at(9, 5), at(8, 5), at(7, 5), at(6, 5), at(5, 4), at(10, 6), at(11, 6)];
    rig.export.volume.set_snapshots(all.to_vec());
    let list = rig.export.volume.snapshots();
    let found = |seconds| list.by_second(seconds).map(|snapshot| snapshot.view.0);
    assert_eq!([3, 4, 5, 6, 7].map(found), [None, Some(5), Some(6), Some(10), None]);
}

#[test]
fn deleted_snapshot_is_stale_and_others_stay() {
    let rig = rig();
    rig.make(&rig.root, "f", b"old");
    rig.snapshot(1, "one");
    rig.snapshot(2, "two");
    let (one, two) =
        (rig.lookup(".snapshot/one/f").unwrap().file, rig.lookup(".snapshot/two/f").unwrap().file);
    let top = rig.lookup(".snapshot").unwrap();
    let rest: Vec<_> = rig.export.volume.snapshots().iter().skip(1).cloned().collect();
    rig.export.volume.set_snapshots(rest);
    assert_eq!(one.attrs(ALLOWED).err(), Some(FsError::Stale));
    assert_eq!(rig.export.file(&one.key(), ALLOWED).err(), Some(FsError::Stale));
    assert_eq!(rig.lookup(".snapshot/one").err(), Some(FsError::NotFound));
    assert_eq!(rig.read(&two), b"old");
    assert_eq!(names(&rig, &top.file), [".", "..", "two"]);
    let now = top.file.attrs(ALLOWED).unwrap();
    assert_ne!((now.change, now.changed), (top.attrs.change, top.attrs.changed), "clients ask again");
}
