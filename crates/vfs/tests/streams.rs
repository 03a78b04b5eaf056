//! Named streams: data of their own, the rights of their file, and the hidden tree that holds them.

use std::any::Any;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use vfs::claims::{self, Effect, Holder, Link, OpenRequest, Request, Rights, Verdict};
use vfs::volume::streams::{STREAM_NAME_BYTES_MAX, STREAMS_MAX};
use vfs::{
    Access, Attrs, Backend, Blocking, Caller, Change, Disposition, Durability, Export, File, FileKey,
    FileType, FsError, FsLimits, FsResult, FsStat, Lookup, Name, NewInode, Node, NodeRef, OpenFile,
    PendingSync, SetAttrs, SetTime, Span, Special, Stability, Time, Volume, VolumeId, Wait,
};
use vfs_testing::{Faulty, MemFs, delegate_node};

fn new_storage() -> MemFs {
    MemFs::new(Arc::new(Time::default))
}

/// The root of a volume, and of the storage below it.
struct Root {
    file: File,
    node: NodeRef,
}

impl Deref for Root {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

fn served_by(backend: Arc<dyn Backend>) -> Root {
    let node = backend.root();
    let volume = Volume::new(VolumeId(1), "one", backend, Durability::Sync, 1);
    Root { file: Arc::new(Export::new("/one", Arc::new(volume), Vec::new())).root(), node }
}

fn served(fs: &MemFs) -> Root {
    served_by(Arc::new(fs.clone()))
}

/// A root that user 1 may write, and a file of user 1 in it.
fn rig() -> (Root, File, Caller) {
    let (root, user) = (served(&new_storage()), Caller::new(1, 1, []));
    let (mode, mut pending) = (SetAttrs { mode: Some(0o777), ..SetAttrs::default() }, PendingSync::default());
    root.set_attrs(&Caller::new(0, 0, []), &mode, None, &mut pending).unwrap();
    let file = make(&root, &user, b"file");
    (root, file, user)
}

fn make(root: &File, user: &Caller, name: &[u8]) -> File {
    let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
    root.create(user, name, Disposition::CreateNew, &set, &mut PendingSync::default()).unwrap().file
}

fn put(file: &File, user: &Caller, name: &[u8], data: &[u8]) -> File {
    let mut pending = PendingSync::default();
    let stream = file.make_stream(user, name, &mut pending).unwrap();
    let (opened, _) = stream.open(user, Access::WRITE, Blocking::Allowed).unwrap();
    opened.write(0, data, Stability::File, &mut pending).unwrap();
    stream
}

fn streams(file: &File) -> Vec<(Vec<u8>, u64)> {
    let mut all = Vec::new();
    file.list_streams(&mut |name, size, _| all.push((name.to_vec(), size))).unwrap();
    all.sort();
    all
}

/// Counts directories of files with streams in the hidden tree, without the marker.
fn hidden(root: &Root) -> usize {
    let Ok(tree) = root.node.lookup(Name::STREAMS, Blocking::Allowed) else { return 0 };
    let mut count = 0;
    let counted = tree.node.read_dir(0, false, &mut |entry| {
        count += usize::from(!entry.name.starts_with(b".") && !entry.name.starts_with(b"of-"));
        ControlFlow::Continue(())
    });
    assert_eq!(counted, Ok(true));
    count
}

#[test]
fn a_stream_has_data_of_its_own_and_all_else_of_its_file() {
    let (root, file, user) = rig();
    let stream = put(&file, &user, b"s", b"stream");
    let (own, whole) = (stream.attrs(Blocking::Allowed).unwrap(), file.attrs(Blocking::Allowed).unwrap());
    assert_eq!((own.size, whole.size), (6, 0));
    assert_eq!(Attrs { size: 0, used: 0, ..own }, Attrs { used: 0, ..whole });
    assert!(stream.stream() != file.stream() && stream.key() == file.key() && !stream.is(&file));
    let of_dir = put(&root, &user, b"s", b"of a directory");
    assert_eq!(of_dir.attrs(Blocking::Allowed).unwrap().file_type, FileType::Regular);
    let (opened, _) = of_dir.open(&user, Access::READ.and(Access::WRITE), Blocking::Allowed).unwrap();
    let mut data = Vec::new();
    opened.read(0, 100, &mut data, Blocking::Allowed).unwrap();
    assert_eq!(data, b"of a directory");
    let set = SetAttrs { size: Some(2), ..SetAttrs::default() };
    let cut = opened.set_attrs(&user, &set, &mut PendingSync::default()).unwrap();
    assert_eq!((cut.before.size, cut.after.size, streams(&root)), (14, 2, vec![(b"s".to_vec(), 2)]));
}

#[test]
fn changes_of_ranges_are_those_that_its_file_shows() {
    type Act = fn(&OpenFile<'_>, &OpenFile<'_>, &mut PendingSync) -> FsResult<Change>;
    let acts: [Act; 6] = [
        |to, _, pending| to.allocate(0, 10, Stability::Unstable, pending),
        |to, _, pending| to.preallocate(9000, Stability::Unstable, pending),
        |to, _, pending| to.deallocate(0, 10, Stability::Unstable, pending),
        |to, _, pending| to.zero(0, 10, Stability::Unstable, pending),
        |to, from, pending| {
            let span = Span { source: 0, target: 0, len: 6 };
            from.copy_to(to, &span, Stability::Unstable, pending).map(|(_, change)| change)
        },
        |to, from, pending| {
            let span = Span { source: 0, target: 0, len: 4096 };
            from.clone_to(to, &span, Stability::Unstable, pending)
        },
    ];
    let (_root, file, user) = rig();
    let [from, to] = [&b"from"[..], b"to"].map(|name| put(&file, &user, name, &[7; 4096]));
    let (from, _) = from.open(&user, Access::READ, Blocking::Allowed).unwrap();
    let (opened, _) = to.open(&user, Access::WRITE, Blocking::Allowed).unwrap();
    for (number, act) in acts.iter().enumerate() {
        let (then, mut pending) = (Time { seconds: 77, nanos: 0 }, PendingSync::default());
        let set = SetAttrs { modified: Some(SetTime::To(then)), ..SetAttrs::default() };
        file.set_attrs(&user, &set, None, &mut pending).unwrap();
        let before = to.attrs(Blocking::Allowed).unwrap();
        let change = act(&opened, &from, &mut pending).unwrap();
        assert_eq!((change.before, change.before.modified), (before, then), "{number}");
        assert_eq!(change.after, to.attrs(Blocking::Allowed).unwrap(), "{number}");
        assert_eq!(change.after.modified, Time::default(), "{number}");
    }
}

#[test]
fn streams_follow_their_file_and_go_with_its_last_name() {
    let (root, file, user) = rig();
    put(&file, &user, b"s", b"stream");
    let mut pending = PendingSync::default();
    root.link(&user, &file, b"link", &mut pending).unwrap();
    root.rename(&user, b"file", &root, b"moved", &mut pending).unwrap();
    root.remove(&user, b"moved", &mut pending).unwrap();
    assert_eq!((streams(&file), hidden(&root)), (vec![(b"s".to_vec(), 6)], 1));
    root.remove(&user, b"link", &mut pending).unwrap();
    assert_eq!(hidden(&root), 0);
    // What is replaced is removed, and so are directories.
    let other = make(&root, &user, b"other");
    put(&other, &user, b"s", b"stream");
    make(&root, &user, b"new");
    root.rename(&user, b"new", &root, b"other", &mut pending).unwrap();
    assert_eq!(hidden(&root), 0);
    let dir = root.make_dir(&user, b"dir", &SetAttrs::default(), &mut pending).unwrap().file;
    put(&dir, &user, b"s", b"stream");
    root.remove_dir(&user, b"dir", &mut pending).unwrap();
    assert_eq!(hidden(&root), 0);
}

/// Returns file number and link count of a name.
fn named(root: &Root, name: &[u8]) -> Option<(u64, u32)> {
    let found = root.node.lookup(Name::new(name).unwrap(), Blocking::Allowed).ok()?;
    Some((found.attrs.file_id, found.attrs.links))
}

#[test]
fn a_link_takes_the_name_of_another_file_in_one_step() {
    let (root, file, user) = rig();
    let other = make(&root, &user, b"other");
    put(&other, &user, b"s", b"stream");
    let [file_id, other_id] = [&file, &other].map(|file| file.attrs(Blocking::Allowed).unwrap().file_id);
    let mut pending = PendingSync::default();
    let mut link =
        |by: &Caller, replaced| root.link_over(by, &file, b"other", replaced, &mut pending).map(drop);
    assert_eq!(link(&user, file_id), Err(FsError::Wait(Wait::Recall)), "something else has the name");
    let mut reader = user.clone();
    reader.read_only = true;
    assert_eq!(link(&reader, other_id), Err(FsError::ReadOnly));
    assert_eq!((named(&root, b"other"), hidden(&root)), (Some((other_id, 1)), 1));
    assert_eq!(link(&user, other_id), Ok(()));
    for name in [&b"file"[..], b"other"] {
        assert_eq!(named(&root, name), Some((file_id, 2)));
    }
    assert_eq!(hidden(&root), 0, "the streams of what gave way have gone with it");
    root.remove(&user, b"other", &mut PendingSync::default()).unwrap();
    let gone = root.link_over(&user, &file, b"other", other_id, &mut PendingSync::default());
    assert_eq!(
        (gone.map(drop), named(&root, b"file")),
        (Err(FsError::Wait(Wait::Recall)), Some((file_id, 1)))
    );
}

#[test]
fn a_link_that_fails_replaces_nothing_and_leaves_nothing() {
    for lasts in [false, true] {
        let mut nth = 0;
        loop {
            nth += 1;
            let faulty = Faulty::new(Arc::new(new_storage()));
            let root = served_by(Arc::new(faulty.clone()));
            let (user, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
            let [file, other] = [&b"file"[..], b"other"].map(|name| make(&root, &user, name));
            let [file_id, other_id] =
                [&file, &other].map(|file| file.attrs(Blocking::Allowed).unwrap().file_id);
            let refused = faulty.refused();
            match lasts {
                false => faulty.fail_at(nth, FsError::Io),
                true => faulty.fail_from(nth, FsError::Io),
            }
            let linked = root.link_over(&user, &file, b"other", other_id, &mut pending);
            faulty.heal();
            let by_now = named(&root, b"other").unwrap().0;
            if linked.is_err() {
                assert!([file_id, other_id].contains(&by_now), "{nth}: something has the name");
            } else {
                assert_eq!(by_now, file_id, "{nth}");
            }
            // What is left where nothing could be removed goes after the next start.
            while !root.volume().sweep_streams().unwrap() {}
            let names = if by_now == file_id { 2 } else { 1 };
            assert_eq!(named(&root, b"file"), Some((file_id, names)), "{nth}");
            if faulty.refused() == refused {
                break;
            }
        }
        assert!(nth > 8, "some calls were refused");
    }
}

#[test]
fn no_name_leads_to_the_hidden_tree() {
    let (root, file, user) = rig();
    put(&file, &user, b"s", b"stream");
    let (name, mut pending) = (Name::STREAMS.bytes(), PendingSync::default());
    let admin = Caller::new(0, 0, []);
    let dir = root.open_dir(&admin, Blocking::Allowed).unwrap();
    assert_eq!(dir.lookup(name, Blocking::Allowed).err(), Some(FsError::Access));
    root.read_dir(&admin, 0, true, &mut |entry| {
        assert_ne!(entry.name, name);
        ControlFlow::Continue(())
    })
    .unwrap();
    let set = SetAttrs::default();
    let refused = [
        root.make_dir(&admin, name, &set, &mut pending).err(),
        root.create(&admin, name, Disposition::OpenOrCreate, &set, &mut pending).err(),
        root.link(&admin, &file, name, &mut pending).err(),
        root.remove_dir(&admin, name, &mut pending).err(),
        root.rename(&admin, name, &root, b"mine", &mut pending).err(),
        root.rename(&admin, b"file", &root, name, &mut pending).err(),
    ];
    assert_eq!(refused, [Some(FsError::Access); 6]);
}

#[test]
fn foreign_object_in_place_of_the_tree_is_refused() {
    let (root, file, user) = rig();
    let theirs = NewInode { mode: 0o700, uid: 2, gid: 2, times: None, size: 0 };
    root.node.make_dir(Name::STREAMS, &|_| Ok(theirs)).unwrap();
    let made = file.make_stream(&user, b"s", &mut PendingSync::default());
    assert_eq!(made.err(), Some(FsError::NotSupported));
    root.node.remove_dir(Name::STREAMS, &|_| Ok(())).unwrap();
    let link = Special::Symlink(b"/etc");
    let ours = NewInode { uid: 0, gid: 0, ..theirs };
    root.node.make_special(Name::STREAMS, link, &|_| Ok(ours)).unwrap();
    let made = file.make_stream(&user, b"s", &mut PendingSync::default());
    assert_eq!(made.err(), Some(FsError::NotSupported));
}

#[test]
fn caller_that_may_write_the_file_may_change_its_streams() {
    let (_root, file, user) = rig();
    let (other, mut pending) = (Caller::new(2, 2, []), PendingSync::default());
    assert_eq!(file.make_stream(&other, b"s", &mut pending).err(), Some(FsError::Access));
    let stream = put(&file, &user, b"s", b"stream");
    assert!(stream.open(&other, Access::READ, Blocking::Allowed).is_ok());
    assert_eq!(stream.open(&other, Access::WRITE, Blocking::Allowed).err(), Some(FsError::Access));
    assert_eq!(file.rename_stream(&other, b"s", b"t", false, &mut pending), Err(FsError::Access));
    assert_eq!(file.remove_streams(&other, &mut pending), Err(FsError::Access));
    let mut reader = user;
    reader.read_only = true;
    assert_eq!(file.make_stream(&reader, b"t", &mut pending).err(), Some(FsError::ReadOnly));
}

#[test]
fn a_file_has_so_many_streams_and_names_so_many_bytes() {
    let (_root, file, user) = rig();
    let mut pending = PendingSync::default();
    let long = vec![b'n'; STREAM_NAME_BYTES_MAX + 1];
    assert_eq!(file.make_stream(&user, &long, &mut pending).err(), Some(FsError::NameTooLong));
    for name in [&b""[..], b"a/b", b"a\0b"] {
        assert_eq!(file.make_stream(&user, name, &mut pending).err(), Some(FsError::Invalid), "{name:?}");
    }
    for number in 0..STREAMS_MAX {
        file.make_stream(&user, format!("{number}").as_bytes(), &mut pending).unwrap();
    }
    assert_eq!(file.make_stream(&user, b"more", &mut pending).err(), Some(FsError::NoSpace));
    assert_eq!(file.make_stream(&user, b"0", &mut pending).err(), Some(FsError::NoSpace));
    file.remove_streams(&user, &mut pending).unwrap();
    put(&file, &user, b"..", b"more");
    assert_eq!(streams(&file), [(b"..".to_vec(), 4)]);
}

struct Silent;

impl Holder for Silent {
    fn deliver(&self, effect: Effect) {
        panic!("{effect:?}");
    }
}

/// Opens a stream, marks it for deletion and closes it.
fn delete_on_close(file: &File, stream: &File, name: &[u8]) {
    let request = OpenRequest {
        holder: file.volume().claims().attach(Arc::new(Silent)),
        stream: stream.stream(),
        access: claims::Access { rights: Rights::DELETE, deny: Rights::NONE },
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease: None,
        reclaims: false,
        waits: false,
    };
    let Verdict::Granted(granted) = stream.claim(&Request::Open(request)) else { panic!("refused") };
    let open = granted.open.unwrap();
    let link = Link { parent: file.key(), name: name.into(), listing: None };
    for request in [Request::DeleteOnClose { open, link }, Request::Close(open)] {
        assert!(matches!(stream.claim(&request), Verdict::Granted(_)));
    }
    file.volume().remove_closed(&file.key()).unwrap();
}

#[test]
fn streams_that_were_removed_stay_away_after_a_power_cut() {
    let removals: [fn(&File, &Caller, &File); 2] = [
        |file, user, _| {
            let mut pending = PendingSync::default();
            file.remove_streams(user, &mut pending).unwrap();
            pending.sync_all().unwrap();
        },
        |file, _, stream| delete_on_close(file, stream, b"s"),
    ];
    for remove in removals {
        let (fs, user) = (new_storage(), Caller::new(0, 0, []));
        let file = make(&served(&fs), &user, b"file");
        let stream = put(&file, &user, b"s", b"stream");
        file.volume().sync().unwrap();
        let before = file.attrs(Blocking::Allowed).unwrap();
        remove(&file, &user, &stream);
        let root = served(&fs.crash());
        let dir = root.open_dir(&user, Blocking::Allowed).unwrap();
        let after = dir.lookup(b"file", Blocking::Allowed).unwrap();
        assert_eq!(streams(&after.file), []);
        assert!(after.attrs.change > before.change, "whatever is remembered of the file is void");
    }
}

#[test]
fn streams_of_what_went_otherwise_are_found_after_a_start() {
    let (root, file, user) = rig();
    put(&file, &user, b"s", b"stream");
    put(&make(&root, &user, b"stays"), &user, b"s", b"stream");
    root.node.remove(Name::new(b"file").unwrap(), &|_| Ok(())).unwrap();
    assert_eq!(hidden(&root), 2);
    while !root.volume().sweep_streams().unwrap() {}
    assert_eq!(hidden(&root), 1);
}

/// The marks in the hidden tree.
fn marks(root: &Root) -> Vec<Vec<u8>> {
    let tree = root.node.lookup(Name::STREAMS, Blocking::Allowed).unwrap().node;
    let mut marks = Vec::new();
    tree.read_dir(0, false, &mut |entry| {
        marks.extend(Some(entry.name.to_vec()).filter(|name| name.starts_with(b"of-")));
        ControlFlow::Continue(())
    })
    .unwrap();
    marks
}

#[test]
fn a_tree_that_was_made_elsewhere_is_not_swept() {
    let fs = new_storage();
    let (root, user) = (served(&fs), Caller::new(0, 0, []));
    let file = make(&root, &user, b"file");
    put(&file, &user, b"s", b"stream");
    let [mark] = &marks(&root)[..] else { panic!("one mark") };
    let tree = root.node.lookup(Name::STREAMS, Blocking::Allowed).unwrap().node;
    // As a copy has it, where the tree and its files are others.
    tree.remove(Name::new(mark).unwrap(), &|_| Ok(())).unwrap();
    let other = String::from_utf8(mark.clone()).unwrap().replace('0', "1");
    let own_file = NewInode { mode: 0o600, uid: 0, gid: 0, times: None, size: 0 };
    tree.create(Name::new(other.as_bytes()).unwrap(), &|_| Ok(own_file)).unwrap();
    root.node.remove(Name::new(b"file").unwrap(), &|_| Ok(())).unwrap();
    while !root.volume().sweep_streams().unwrap() {}
    assert_eq!(hidden(&root), 1);
    // Once nothing of what was copied is left, it is as good as one that was made here.
    let digits: String = file.key().bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let dir_name = Name::new(digits.as_bytes()).unwrap();
    let dir = tree.lookup(dir_name, Blocking::Allowed).unwrap().node;
    dir.remove(Name::new(b":s").unwrap(), &|_| Ok(())).unwrap();
    tree.remove_dir(dir_name, &|_| Ok(())).unwrap();
    let root = served(&fs);
    while !root.volume().sweep_streams().unwrap() {}
    assert!(marks(&root).contains(mark));
    put(&make(&root, &user, b"file"), &user, b"s", b"stream");
    root.node.remove(Name::new(b"file").unwrap(), &|_| Ok(())).unwrap();
    let root = served(&fs);
    while !root.volume().sweep_streams().unwrap() {}
    assert_eq!(hidden(&root), 0);
}

/// A delay in which a defective thread would act too early.
const PATIENCE: Duration = Duration::from_millis(200);

/// A backend that delays the lookups of a hidden tree that is not there.
struct Slow {
    fs: MemFs,
    lookups: Arc<Lookups>,
}

struct SlowNode {
    inner: NodeRef,
    lookups: Arc<Lookups>,
}

/// The first lookup waits for `may_end`, the second for the tree or for [`PATIENCE`].
#[derive(Default)]
struct Lookups {
    begun: AtomicUsize,
    may_end: AtomicBool,
}

impl Backend for Slow {
    fn root(&self) -> NodeRef {
        Arc::new(SlowNode { inner: self.fs.root(), lookups: Arc::clone(&self.lookups) })
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        let inner = self.fs.node(key, blocking)?;
        Ok(Arc::new(SlowNode { inner, lookups: Arc::clone(&self.lookups) }))
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.fs.stat()
    }

    fn limits(&self) -> FsLimits {
        self.fs.limits()
    }

    fn sync(&self) -> FsResult<()> {
        self.fs.sync()
    }

    fn flush_failures(&self) -> u64 {
        self.fs.flush_failures()
    }
}

impl SlowNode {
    fn wrap_found(&self, found: Lookup) -> Lookup {
        let lookups = Arc::clone(&self.lookups);
        Lookup { node: Arc::new(Self { inner: found.node, lookups }), ..found }
    }

    fn unwrapped(node: &NodeRef) -> &NodeRef {
        let any: &dyn Any = &**node;
        any.downcast_ref::<Self>().map_or(node, |slow| &slow.inner)
    }
}

impl Node for SlowNode {
    delegate_node!(
        self => self.inner;
        key, attrs, change_attrs, read, descriptor, write, reserve, release, pin, unpin, sync, read_link, read_dir, remove,
        remove_dir,
    );
    delegate_node!(self => self.inner, wrap; parent, create, make_dir, make_special, link, rename);

    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup> {
        let found = self.inner.lookup(name, blocking);
        if name == Name::STREAMS && found.is_err() {
            let begin = Instant::now();
            match self.lookups.begun.fetch_add(1, Ordering::SeqCst) {
                0 => wait_until(|| self.lookups.may_end.load(Ordering::SeqCst)),
                1 => wait_until(|| self.inner.lookup(name, blocking).is_ok() || begin.elapsed() > PATIENCE),
                _ => {}
            }
        }
        found.map(|found| self.wrap_found(found))
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

/// Makes the tree during a lookup that began before another one found it missing. False if that order did not occur.
fn make_tree_during_a_lookup() -> bool {
    let (user, lookups) = (Caller::new(0, 0, []), Arc::<Lookups>::default());
    let root = served_by(Arc::new(Slow { fs: new_storage(), lookups: Arc::clone(&lookups) }));
    let file = make(&root, &user, b"file");
    let begun = || lookups.begun.load(Ordering::SeqCst);
    assert_eq!(begun(), 0);
    thread::scope(|scope| {
        let first = scope.spawn(|| streams(&file));
        wait_until(|| begun() == 1);
        let second = scope.spawn(|| streams(&file));
        // Time to see that nothing is known of the tree, and to wait for the first.
        thread::sleep(PATIENCE);
        lookups.may_end.store(true, Ordering::SeqCst);
        assert_eq!(first.join().unwrap(), []);
        wait_until(|| begun() == 2 || second.is_finished());
        let is_under_way = begun() == 2;
        file.make_stream(&user, b"s", &mut PendingSync::default()).unwrap();
        second.join().unwrap();
        assert_eq!(streams(&file), [(b"s".to_vec(), 0)]);
        is_under_way
    })
}

#[test]
fn a_lookup_of_the_missing_tree_ends_before_the_tree_is_made() {
    while !make_tree_during_a_lookup() {}
}
