//! Restores of files from snapshots: everything that a file has, in one step, or nothing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use vfs::claims::{
    self, Caching, Effect, Holder, LeaseKey, LeaseKind, LeaseRequest, OpenRequest, Request, Rights, Stream,
    Verdict,
};
use vfs::{
    Access, Backend, Blocking, Caller, Capacity, Disposition, Durability, Export, File, FileRestore, FsError,
    PendingSync, RestoreError, SetAttrs, SetTime, SetXattr, Snapshot, SnapshotDirectory, Special, Stability,
    Time, ViewId, Volume, VolumeId,
};
use vfs_testing::MemFs;

const ALLOWED: Blocking = Blocking::Allowed;
const TEMPORARY: &str = ".temporary";

struct Rig {
    fs: MemFs,
    export: Arc<Export>,
    root: File,
    user: Caller,
}

fn rig() -> Rig {
    let seconds = AtomicI64::new(1_000);
    let clock = move || Time { seconds: seconds.fetch_add(1, Ordering::Relaxed), nanos: 0 };
    let fs = MemFs::new(Arc::new(clock));
    let volume = Volume::new(VolumeId(1), "v", Arc::new(fs.clone()), Durability::Sync, 1);
    let export = Arc::new(Export::new("/v", Arc::new(volume), Vec::new()));
    Rig { fs, root: export.root(), export, user: Caller::new(0, 0, []) }
}

fn names(path: &str) -> Vec<&[u8]> {
    path.split('/').filter(|name| !name.is_empty()).map(str::as_bytes).collect()
}

impl Rig {
    fn snapshot(&self) {
        self.fs.snapshots().unwrap().create(ViewId(1)).unwrap();
        let created = Time { seconds: 1_000_000, nanos: 0 };
        self.export.volume.set_snapshots(vec![Snapshot { view: ViewId(1), name: "s".to_owned(), created }]);
    }

    fn make(&self, dir: &File, name: &str, data: &[u8]) -> File {
        let set = SetAttrs { mode: Some(0o640), uid: Some(7), gid: Some(8), ..SetAttrs::default() };
        let mut pending = PendingSync::default();
        let made = dir.create(&self.user, name.as_bytes(), Disposition::CreateNew, &set, &mut pending);
        let made = made.unwrap().file;
        self.write(&made, data);
        made
    }

    fn make_dir(&self, dir: &File, name: &str) -> File {
        let set = SetAttrs::default();
        dir.make_dir(&self.user, name.as_bytes(), &set, &mut PendingSync::default()).unwrap().file
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

    fn lookup(&self, path: &str) -> Result<File, FsError> {
        names(path).into_iter().try_fold(self.root.clone(), |dir, name| {
            Ok(dir.open_dir(&self.user, ALLOWED)?.lookup(name, ALLOWED)?.file)
        })
    }

    fn restore(&self, path: &str, dir: &str) -> Result<bool, RestoreError> {
        self.restore_paced(path, dir, &mut |_| ControlFlow::Continue(()))
    }

    fn restore_paced(&self, path: &str, dir: &str, pace: &mut vfs::Pace<'_>) -> Result<bool, RestoreError> {
        let (path, dir) = (names(path), names(dir));
        let restore =
            FileRestore { snapshot: ViewId(1), path: &path, dir: &dir, temporary: TEMPORARY.as_bytes() };
        self.export.check_restore(&restore)?;
        let restored = self.export.restore_file(&restore, pace);
        let target =
            names("").into_iter().chain(dir.iter().copied()).try_fold(self.root.clone(), |at, name| {
                Ok::<_, FsError>(at.open_dir(&self.user, ALLOWED)?.lookup(name, ALLOWED)?.file)
            });
        let left =
            target.unwrap().open_dir(&self.user, ALLOWED).unwrap().lookup(TEMPORARY.as_bytes(), ALLOWED);
        assert_eq!(left.err(), Some(FsError::NotFound), "nothing half stays");
        restored
    }

    fn attach(&self, recalls: &Arc<AtomicUsize>) -> claims::HolderId {
        self.export.volume.claims().attach(Arc::new(Counting(Arc::clone(recalls))))
    }

    /// An open that denies this.
    fn open(
        &self,
        file: &File,
        holder: claims::HolderId,
        deny: Rights,
        lease: Option<LeaseRequest>,
    ) -> claims::OpenId {
        let granted = file.claim(&Request::Open(OpenRequest {
            holder,
            stream: Stream::default(),
            access: claims::Access { rights: Rights::READ, deny },
            truncates: false,
            is_mandatory: false,
            is_advisory: false,
            lease,
            reclaims: false,
            waits: false,
        }));
        let Verdict::Granted(granted) = granted else { panic!() };
        granted.open.unwrap()
    }
}

/// Counts the recalls of what it has.
struct Counting(Arc<AtomicUsize>);

impl Holder for Counting {
    fn deliver(&self, effect: Effect) {
        if matches!(effect, Effect::Recall { .. }) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn file_comes_back_with_all_that_it_had() {
    let rig = rig();
    let dir = rig.make_dir(&rig.root, "d");
    let file = rig.make(&dir, "f", b"old");
    let mut pending = PendingSync::default();
    file.set_xattr(&rig.user, b"user.a", b"1", SetXattr::Either, &mut pending).unwrap();
    file.set_born(&rig.user, Time { seconds: 5, nanos: 0 }, &mut pending).unwrap();
    let stream = file.make_stream(&rig.user, b"s", &mut pending).unwrap();
    rig.write(&stream, b"stream");
    // Data, a hole, and data.
    let (opened, _) = file.open(&rig.user, Access::WRITE, ALLOWED).unwrap();
    opened.write(3 << 20, b"end", Stability::File, &mut pending).unwrap();
    let times =
        SetAttrs { modified: Some(SetTime::To(Time { seconds: 9, nanos: 7 })), ..SetAttrs::default() };
    file.set_attrs(&rig.user, &times, None, &mut pending).unwrap();
    let (attrs, data) = (file.attrs(ALLOWED).unwrap(), rig.read(&file));
    rig.snapshot();
    for is_hidden in [false, true] {
        if is_hidden {
            rig.export.volume.set_snapshot_directory(SnapshotDirectory::Hidden);
            dir.remove(&rig.user, b"f", &mut pending).unwrap();
        } else {
            rig.write(&file, b"new data");
            file.remove_streams(&rig.user, &mut pending).unwrap();
            file.remove_xattr(&rig.user, b"user.a", &mut pending).unwrap();
        }
        assert_eq!(rig.restore("d/f", "d"), Ok(true));
        let back = rig.lookup("d/f").unwrap();
        let now = back.attrs(ALLOWED).unwrap();
        assert_eq!(
            (now.mode, now.uid, now.gid, now.size, now.modified, now.links),
            (attrs.mode, attrs.uid, attrs.gid, attrs.size, attrs.modified, 1)
        );
        assert_eq!(rig.read(&back), data);
        assert_eq!(rig.read(&back.find_stream(b"s").unwrap()), b"stream");
        assert_eq!(back.get_xattr(&rig.user, b"user.a").unwrap(), b"1");
        assert_eq!(back.extra_attrs(&now, ALLOWED).unwrap().born(&now).unwrap().seconds, 5);
    }
}

#[test]
fn file_goes_to_another_directory_and_replaces_its_name_alone() {
    let rig = rig();
    let file = rig.make(&rig.root, "f", b"old");
    rig.snapshot();
    rig.write(&file, b"new");
    let other = rig.make_dir(&rig.root, "other");
    let linked = rig.make(&other, "f", b"linked");
    other.link(&rig.user, &linked, b"second", &mut PendingSync::default()).unwrap();
    assert_eq!(rig.restore("f", "other"), Ok(true));
    assert_eq!(rig.read(&rig.lookup("other/f").unwrap()), b"old");
    assert_eq!(
        rig.read(&rig.lookup("other/second").unwrap()),
        b"linked",
        "the other name has the other file"
    );
    assert_eq!(rig.read(&rig.lookup("f").unwrap()), b"new");
}

#[test]
fn nothing_outside_and_nothing_but_regular_files() {
    let rig = rig();
    let dir = rig.make_dir(&rig.root, "d");
    rig.make(&dir, "f", b"");
    let mut pending = PendingSync::default();
    let link = Special::Symlink(b"d");
    rig.root.make_special(&rig.user, b"link", link, &SetAttrs::default(), &mut pending).unwrap();
    rig.snapshot();
    rig.make_dir(&dir, "sub");
    rig.make_dir(&rig.root, "taken");
    rig.make_dir(&rig.lookup("taken").unwrap(), "f");
    use RestoreError::{Dir, Source, Target};
    for (path, to, error) in [
        ("d", "d", Source(FsError::IsDirectory)),
        ("link", "d", Source(FsError::BadType)),
        ("link/f", "d", Source(FsError::NotDirectory)),
        ("d/../d/f", "d", Source(FsError::Invalid)),
        (".snapshot/s/d/f", "d", Source(FsError::Invalid)),
        ("d/gone", "d", Source(FsError::NotFound)),
        ("", "d", Source(FsError::Invalid)),
        ("d/f", "none", Dir(FsError::NotFound)),
        ("d/f", "link", Dir(FsError::NotDirectory)),
        ("d/f", "d/..", Dir(FsError::Invalid)),
        ("d/f", ".snapshot/s", Dir(FsError::Invalid)),
        ("d/f", "taken", Target(FsError::IsDirectory)),
    ] {
        let (path, to) = (names(path), names(to));
        let restore = FileRestore { snapshot: ViewId(1), path: &path, dir: &to, temporary: b"t" };
        assert_eq!(rig.export.check_restore(&restore).err(), Some(error), "{path:?} {to:?}");
        let restored = rig.export.restore_file(&restore, &mut |_| ControlFlow::Continue(()));
        assert_eq!(restored, Err(error), "{path:?} {to:?}");
    }
    let restore = FileRestore { snapshot: ViewId(2), path: &[b"f"], dir: &[], temporary: b"t" };
    assert_eq!(rig.export.check_restore(&restore), Err(Source(FsError::Stale)), "no such snapshot");
}

#[test]
fn ended_early_or_without_room_nothing_has_changed() {
    let rig = rig();
    let file = rig.make(&rig.root, "f", &vec![1; 5 << 20]);
    rig.snapshot();
    rig.write(&file, b"new");
    for steps in 0..3 {
        let mut left = steps;
        let ended = rig.restore_paced("f", "", &mut |_| {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if ended == Ok(true) {
            break;
        }
        assert_eq!(ended, Ok(false), "{steps}");
        assert!(rig.read(&file).starts_with(b"new"), "{steps}");
        rig.write(&file, b"new");
    }
    rig.write(&rig.lookup("f").unwrap(), b"new");
    rig.fs.set_capacity(Capacity { bytes: 6 << 20, files: 1 << 20 });
    assert_eq!(rig.restore("f", ""), Err(RestoreError::Target(FsError::NoSpace)));
    assert!(rig.read(&rig.lookup("f").unwrap()).starts_with(b"new"));
}

#[test]
fn open_that_denies_writing_forbids_it_and_others_keep_the_old_file() {
    let rig = rig();
    let file = rig.make(&rig.root, "f", b"old");
    rig.snapshot();
    rig.write(&file, b"new");
    let holder = rig.attach(&Arc::default());
    let denying = rig.open(&file, holder, Rights::WRITE, None);
    assert_eq!(rig.restore("f", ""), Err(RestoreError::Target(FsError::Locked)));
    assert_eq!(rig.read(&file), b"new");
    file.claim(&Request::Close(denying));
    rig.open(&file, holder, Rights::NONE, None);
    assert_eq!(rig.restore("f", ""), Ok(true));
    assert_eq!(rig.read(&rig.lookup("f").unwrap()), b"old");
}

#[test]
fn delegation_comes_back_before_its_file_is_replaced() {
    let rig = rig();
    let file = rig.make(&rig.root, "f", b"old");
    rig.snapshot();
    rig.write(&file, b"new");
    let recalls = Arc::default();
    let holder = rig.attach(&recalls);
    let want = Caching::READ | Caching::HANDLE;
    let lease = LeaseRequest { kind: LeaseKind::Delegation, want, answers_within: None, epoch: 0 };
    rig.open(&file, holder, Rights::NONE, Some(lease));
    let mut waits = 0;
    let restored = rig.restore_paced("f", "", &mut |_| {
        if recalls.load(Ordering::SeqCst) == 0 {
            return ControlFlow::Continue(());
        }
        waits += 1;
        if waits == 3 {
            assert_eq!(rig.read(&file), b"new", "not before");
            let (key, stream) = (LeaseKey::Delegation(holder), Stream::default());
            file.claim(&Request::Acknowledge { key, stream, keeps: Caching::NONE });
        }
        ControlFlow::Continue(())
    });
    assert_eq!((restored, waits), (Ok(true), 3));
    assert_eq!(rig.read(&rig.lookup("f").unwrap()), b"old");
}
