//! Attacks on snapshots of volumes, over a Ceph cluster that `cargo xtask ceph` starts.

use ceph::{Options, Volumes};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use storage::NodeBudget;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Attrs, Backend, Blocking, Capacity, FileType, FsError, Name, NewInode, NodeRef, Provisioner, Root,
    SetAttrs, SetXattr, Snapshots, Special, SyncScope, Time, ViewId, VolumeId, XattrName, unpaced,
};
use vfs_testing::UncheckedNode;

const ID: VolumeId = VolumeId(1);
const NEW: NewInode = NewInode { mode: 0o644, uid: 12, gid: 34, times: None, size: 0 };
const DIR: NewInode = NewInode { mode: 0o755, ..NEW };
const ALLOWED: Blocking = Blocking::Allowed;

/// A service with an empty volume in a directory that no other test uses.
fn volume() -> (Arc<Volumes>, Arc<dyn Backend>) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let conf = std::env::var_os("CEPH_CONF").expect("CEPH_CONF names the configuration of a cluster");
    let options = Options {
        conf: conf.into(),
        user: "admin".into(),
        file_system: None,
        directory: format!("/snapshots-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)),
        is_exclusive: false,
        name: "one".into(),
    };
    let volumes = Volumes::open(&options, NodeBudget::new(10_000)).expect("the cluster answers");
    let root = Root { mode: 0o755, uid: 12, gid: 34 };
    volumes.make(ID, &root, Capacity { bytes: 1 << 40, files: 1 << 20 }).expect("a volume");
    let volume = volumes.open(ID).expect("the volume");
    (volumes, volume)
}

fn of(volume: &Arc<dyn Backend>) -> &dyn Snapshots {
    volume.snapshots().expect("snapshots")
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).expect("a valid name")
}

fn file(dir: &NodeRef, text: &str, data: &[u8]) -> NodeRef {
    let node = dir.create_unchecked(name(text), &NEW).expect("a file").found.node;
    node.write(0, data, KEEP_SET_ID).expect("a write");
    node
}

fn dir(parent: &NodeRef, text: &str) -> NodeRef {
    parent.make_dir_unchecked(name(text), &DIR).expect("a directory").found.node
}

fn lookup(dir: &NodeRef, text: &str) -> Result<NodeRef, FsError> {
    dir.lookup(name(text), ALLOWED).map(|found| found.node)
}

fn contents(node: &NodeRef) -> Vec<u8> {
    node.read_vec(0, 1 << 24, ALLOWED).expect("a read")
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn directory_of_the_engine_is_no_name_for_clients() {
    let (_volumes, volume) = volume();
    let (root, sub) = (volume.root(), dir(&volume.root(), "sub"));
    of(&volume).create(ViewId(1)).expect("a snapshot");
    let snapshot = of(&volume).open(ViewId(1)).expect("the snapshot").root();
    for dir in [&root, &sub, &snapshot] {
        for text in [".snap", "..snap", ".plimsoll-snapshots-of-cephfs", "_", "0000000000000001", ".snapshot"]
        {
            assert_eq!(lookup(dir, text).map(|_| ()), Err(FsError::NotFound), "{text}");
        }
    }
    // To clients it is a name as any other: what they make there is no snapshot.
    let own = dir(&root, ".snap");
    file(&own, "file", b"data");
    dir(&own, "0000000000000002");
    assert_eq!(of(&volume).list(), Ok(vec![ViewId(1)]));
    of(&volume).create(ViewId(2)).expect("a snapshot");
    let snapshot = of(&volume).open(ViewId(2)).expect("the snapshot").root();
    let seen = lookup(&lookup(&snapshot, ".snap").expect("the directory"), "file").expect("the file");
    assert_eq!(contents(&seen), b"data");
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn files_of_a_snapshot_refuse_changes() {
    let (_volumes, volume) = volume();
    let live = file(&volume.root(), "file", b"before");
    of(&volume).create(ViewId(1)).expect("a snapshot");
    let root = of(&volume).open(ViewId(1)).expect("the snapshot").root();
    let frozen = lookup(&root, "file").expect("the file");
    let size = SetAttrs { size: Some(0), ..SetAttrs::default() };
    let xattrs = frozen.xattrs().expect("attributes");
    let ranges = frozen.ranges().expect("ranges");
    let refusals = [
        frozen.write(0, b"after", KEEP_SET_ID).map(drop),
        frozen.reserve(0, 10, KEEP_SET_ID),
        frozen.set_attrs(&size).map(drop),
        xattrs.set(XattrName::new(b"a").expect("a name"), b"b", SetXattr::Either, &|_| Ok(())).map(drop),
        ranges.punch(0, 4, KEEP_SET_ID).map(drop),
        ranges.allocate(0, 100, KEEP_SET_ID).map(drop),
        root.create_unchecked(name("new"), &NEW).map(drop),
        root.make_dir_unchecked(name("new"), &DIR).map(drop),
        root.make_special_unchecked(name("new"), Special::Fifo, &NEW).map(drop),
        root.link_unchecked(name("new"), &frozen).map(drop),
        root.remove_unchecked(name("file")).map(drop),
        root.rename_unchecked(name("file"), &root, name("new")).map(drop),
    ];
    assert!(refusals.iter().all(|refusal| *refusal == Err(FsError::ReadOnly)), "{refusals:?}");
    // Neither does a change of the live tree that names a file of the snapshot.
    assert!(volume.root().link_unchecked(name("new"), &frozen).is_err());
    assert!(volume.root().rename_unchecked(name("file"), &root, name("new")).is_err());
    live.write(0, b"other", KEEP_SET_ID).expect("a write");
    assert_eq!((contents(&frozen), contents(&live)), (b"before".to_vec(), b"othere".to_vec()));
    let copy = file(&volume.root(), "copy", b"");
    let span = vfs::Span { source: 0, target: 0, len: 100 };
    let copied = ranges.copy_to(&copy, &span, KEEP_SET_ID).map(|(bytes, _)| bytes);
    assert_eq!((copied, contents(&copy)), (Ok(6), b"before".to_vec()));
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn files_of_a_deleted_snapshot_are_stale() {
    let (_volumes, volume) = volume();
    let live = file(&volume.root(), "file", b"data");
    of(&volume).create(ViewId(1)).expect("a snapshot");
    let snapshot = of(&volume).open(ViewId(1)).expect("the snapshot");
    let (root, frozen) = (snapshot.root(), snapshot.node(&live.key(), ALLOWED).expect("the file"));
    assert_eq!(contents(&frozen), b"data");
    assert_eq!(of(&volume).delete(ViewId(1), &mut unpaced), Ok(true));
    let stale = Some(FsError::Stale);
    assert_eq!(frozen.attrs(ALLOWED).err(), stale);
    assert_eq!(frozen.read(0, 4, &mut Vec::new(), ALLOWED).err(), stale);
    assert_eq!(root.attrs(ALLOWED).err(), stale);
    assert_eq!(lookup(&root, "file").err(), stale);
    assert_eq!(root.read_dir(0, true, &mut |_| ControlFlow::Continue(())).err(), stale);
    assert_eq!(snapshot.node(&live.key(), ALLOWED).err(), stale);
    assert_eq!(of(&volume).open(ViewId(1)).err(), Some(FsError::NotFound));
    assert_eq!(of(&volume).delete(ViewId(1), &mut unpaced), Ok(true));
    assert_eq!(contents(&live), b"data");
}

/// Four threads that write to one file, each in its own part and in order, and make a name after every few writes: a
/// snapshot has all that was acknowledged before, nothing that began after, and of each thread a beginning.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn snapshot_under_writers_is_one_moment() {
    const THREADS: u64 = 4;
    const PART: u64 = 1 << 20;
    const WRITES_A_NAME: u64 = 25;
    let (_volumes, volume) = volume();
    let log = file(&volume.root(), "log", b"");
    let names = dir(&volume.root(), "names");
    let [begun, done] = [0, 1].map(|_| [const { AtomicU64::new(0) }; 4]);
    let is_ending = AtomicBool::new(false);
    let all = |counts: &[AtomicU64; 4]| counts.each_ref().map(|count| count.load(Ordering::SeqCst));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, names, begun, done, is_ending) = (&log, &names, &begun, &done, &is_ending);
            scope.spawn(move || {
                let place = usize::try_from(thread).unwrap_or(0);
                for number in 1..PART / 8 {
                    if is_ending.load(Ordering::SeqCst) {
                        return;
                    }
                    begun[place].store(number, Ordering::SeqCst);
                    let offset = thread * PART + (number - 1) * 8;
                    log.write(offset, &number.to_be_bytes(), KEEP_SET_ID).expect("a write");
                    done[place].store(number, Ordering::SeqCst);
                    if number % WRITES_A_NAME == 0 {
                        let text = format!("{thread}-{number}");
                        names.create_unchecked(name(&text), &NEW).expect("a name");
                    }
                }
            });
        }
        for view in 1..=8 {
            std::thread::sleep(Duration::from_millis(50));
            let before = all(&done);
            of(&volume).create(ViewId(view)).expect("a snapshot");
            let after = all(&begun);
            let snapshot = of(&volume).open(ViewId(view)).expect("the snapshot");
            let seen = contents(&snapshot.node(&log.key(), ALLOWED).expect("the file"));
            let names = snapshot.node(&names.key(), ALLOWED).expect("the directory");
            for thread in 0..THREADS {
                let part = seen.chunks(8).skip(usize::try_from(thread * PART / 8).unwrap_or(0));
                let part = part.take(usize::try_from(PART / 8).unwrap_or(0));
                let count = part.clone().take_while(|bytes| bytes.iter().any(|&byte| byte != 0)).count();
                let in_order =
                    part.clone().zip(1u64..).take(count).all(|(bytes, at)| bytes == at.to_be_bytes());
                let is_rest_empty = part.clone().skip(count).all(|bytes| bytes.iter().all(|&byte| byte == 0));
                assert!(in_order && is_rest_empty, "thread {thread} in {view}");
                let (count, place) = (count as u64, usize::try_from(thread).unwrap_or(0));
                assert!(
                    (before[place]..=after[place]).contains(&count),
                    "{count} writes in {view}: {before:?} were done, {after:?} had begun"
                );
                // A name is made between two writes.
                let last = count / WRITES_A_NAME * WRITES_A_NAME;
                let has = |number: u64| lookup(&names, &format!("{thread}-{number}")).is_ok();
                assert!(last == count || last == 0 || has(last), "{thread}-{last} of {count} in {view}");
                assert!(!has(last + WRITES_A_NAME), "{thread}-{last} and a later one of {count} in {view}");
            }
        }
        is_ending.store(true, Ordering::SeqCst);
    });
}

/// A copy takes several steps of the engine.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn copy_under_way_is_in_a_snapshot_whole_or_not_at_all() {
    const BYTES: usize = 8 << 20;
    let (_volumes, volume) = volume();
    let root = volume.root();
    let sources = [1, 2].map(|byte| file(&root, &format!("source-{byte}"), &vec![byte; BYTES]));
    let target = file(&root, "target", &vec![1; BYTES]);
    let is_ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for source in sources.iter().cycle().take_while(|_| !is_ending.load(Ordering::SeqCst)) {
                let span = vfs::Span { source: 0, target: 0, len: BYTES as u64 };
                let ranges = source.ranges().expect("ranges");
                let copied = ranges.copy_to(&target, &span, KEEP_SET_ID).map(|(bytes, _)| bytes);
                assert_eq!(copied, Ok(BYTES as u64));
            }
        });
        for view in 1..=10 {
            std::thread::sleep(Duration::from_millis(30));
            of(&volume).create(ViewId(view)).expect("a snapshot");
            let snapshot = of(&volume).open(ViewId(view)).expect("the snapshot");
            let seen = contents(&snapshot.node(&target.key(), ALLOWED).expect("the file"));
            let torn = seen.iter().position(|byte| Some(byte) != seen.first());
            is_ending.store(torn.is_some() || view == 10, Ordering::SeqCst);
            assert_eq!((seen.len(), torn), (BYTES, None), "in {view}");
        }
    });
}

/// The metadata server waits for the client that may write the file, which has nothing to tell for 10 to 15 seconds.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn file_that_is_open_for_writing_is_found_soon() {
    let (_volumes, volume) = volume();
    let root = volume.root();
    let files: Vec<_> = (0..5).map(|number| file(&root, &format!("file-{number}"), b"data")).collect();
    files.iter().for_each(|file| file.sync(SyncScope::All).expect("a flush"));
    of(&volume).create(ViewId(1)).expect("a snapshot");
    for file in &files {
        file.set_attrs(&SetAttrs { mode: Some(0o600), ..SetAttrs::default() }).expect("a change");
    }
    let (snapshot, begun) = (of(&volume).open(ViewId(1)).expect("the snapshot"), Instant::now());
    for file in &files {
        let frozen = snapshot.node(&file.key(), ALLOWED).expect("the file");
        assert_eq!(frozen.attrs(ALLOWED).map(|attrs| attrs.mode), Ok(0o644));
        assert_eq!(contents(&frozen), b"data");
    }
    println!("five files: {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn volume_has_the_snapshots_that_the_engine_allows() {
    let (volumes, volume) = volume();
    file(&volume.root(), "file", b"data");
    let refused =
        (1..=1000).find_map(|view| of(&volume).create(ViewId(view)).err().map(|error| (view, error)));
    assert_eq!(refused, Some((101, FsError::TooManyLinks)), "mds_max_snaps_per_dir is 100 unless changed");
    assert_eq!(of(&volume).list().map(|views| views.len()), Ok(100));
    assert_eq!(of(&volume).delete(ViewId(50), &mut unpaced), Ok(true));
    assert_eq!(of(&volume).create(ViewId(102)), Ok(()));
    assert_eq!(volumes.snapshot_bytes(ID), Ok(None));
    // The engine removes no directory that has snapshots.
    drop(volume);
    volumes.remove(ID).expect("a removal");
    assert!(volumes.wait_for_trash(Duration::from_secs(300)), "the trash has an error");
    assert_eq!(volumes.list(), Ok(Vec::new()));
}

/// An object of a tree.
#[derive(Debug, PartialEq)]
struct Seen {
    attrs: Attrs,
    /// A hash of the contents, or the target of a link.
    data: String,
    xattr: Option<Vec<u8>>,
}

fn hash(data: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    format!("{} bytes, {:x}", data.len(), hasher.finish())
}

fn tree(root: &NodeRef) -> BTreeMap<String, Seen> {
    let (mut tree, mut waiting) = (BTreeMap::new(), vec![(String::new(), NodeRef::clone(root))]);
    while let Some((path, node)) = waiting.pop() {
        let now = node.attrs(ALLOWED).expect("attributes");
        let mut names = Vec::new();
        let data = match now.file_type {
            FileType::Regular => hash(&contents(&node)),
            FileType::Symlink => String::from_utf8_lossy(&node.read_link().expect("a target")).into_owned(),
            FileType::Directory => {
                let listed = node.read_dir(0, false, &mut |entry| {
                    names.push(String::from_utf8_lossy(entry.name).into_owned());
                    ControlFlow::Continue(())
                });
                assert_eq!(listed, Ok(true));
                String::new()
            }
            _ => String::new(),
        };
        for text in names.iter().filter(|text| !matches!(text.as_str(), "." | "..")) {
            waiting.push((format!("{path}/{text}"), lookup(&node, text).expect("a listed name")));
        }
        let is_plain = matches!(now.file_type, FileType::Regular | FileType::Directory);
        let xattr = node.xattrs().filter(|_| is_plain);
        let xattr = xattr.and_then(|xattrs| xattrs.get(XattrName::new(b"kept").expect("a name")).ok());
        let none = Time::default();
        let attrs = Attrs { accessed: none, changed: none, change: 0, used: 0, ..now };
        tree.insert(path, Seen { attrs, data, xattr });
    }
    tree
}

/// Trees without what a file that is made anew does not get back.
fn without_identity(tree: &BTreeMap<String, Seen>) -> BTreeMap<&str, (Attrs, &str, &Option<Vec<u8>>)> {
    let of = |seen: &Attrs| Attrs { file_id: 0, born: None, ..*seen };
    tree.iter().map(|(path, seen)| (path.as_str(), (of(&seen.attrs), &*seen.data, &seen.xattr))).collect()
}

fn build(root: &NodeRef) -> Vec<NodeRef> {
    let [a, b] = ["a", "b"].map(|text| dir(root, text));
    let deep = dir(&dir(&a, "sub"), "deep");
    let files = vec![file(&a, "one", &[1; 3 << 20]), file(&deep, "two", b"two"), file(&b, "three", b"three")];
    b.link_unchecked(name("hard"), &files[0]).expect("a link");
    deep.link_unchecked(name("hard"), &files[2]).expect("a link");
    a.make_special_unchecked(name("link"), Special::Symlink(b"one"), &NEW).expect("a link");
    a.make_special_unchecked(name("fifo"), Special::Fifo, &NEW).expect("a fifo");
    let kept = XattrName::new(b"kept").expect("a name");
    for node in [&files[1], &deep] {
        let xattrs = node.xattrs().expect("attributes");
        xattrs.set(kept, b"first", SetXattr::Either, &|_| Ok(())).expect("an attribute");
    }
    files
}

fn change(root: &NodeRef) {
    let [a, b] = ["a", "b"].map(|text| lookup(root, text).expect("a directory"));
    let sub = lookup(&a, "sub").expect("a directory");
    let deep = lookup(&sub, "deep").expect("a directory");
    let [one, two] = [lookup(&a, "one"), lookup(&deep, "two")].map(|found| found.expect("a file"));
    one.write(2_000_000, &[9; 10], KEEP_SET_ID).expect("a write");
    two.set_attrs(&SetAttrs { mode: Some(0o600), size: Some(1), ..SetAttrs::default() }).expect("a change");
    let kept = XattrName::new(b"kept").expect("a name");
    two.xattrs().expect("attributes").set(kept, b"other", SetXattr::Either, &|_| Ok(())).expect("a value");
    // A directory moves, another object takes its name, and the names of a file change.
    sub.rename_unchecked(name("deep"), root, name("moved")).expect("a rename");
    file(&sub, "deep", b"a file");
    b.remove_unchecked(name("hard")).expect("a removal");
    a.rename_unchecked(name("one"), &b, name("away")).expect("a rename");
    a.remove_unchecked(name("link")).expect("a removal");
    a.remove_unchecked(name("fifo")).expect("a removal");
    file(&dir(&dir(&b, "new"), "newer"), "file", b"new");
    // It has another name.
    b.remove_unchecked(name("three")).expect("a removal");
    dir(&b, "three");
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask ceph"]
fn revert_restores_names_links_data_and_attributes() {
    let (volumes, volume) = volume();
    let keys: Vec<_> = build(&volume.root()).iter().map(|file| file.key()).collect();
    let first = tree(&volume.root());
    of(&volume).create(ViewId(1)).expect("a snapshot");
    change(&volume.root());
    let second = tree(&volume.root());
    of(&volume).create(ViewId(2)).expect("a snapshot");
    drop(volume);
    for (view, want) in [(1, &first), (2, &second), (1, &first)] {
        assert_eq!(volumes.revert(ID, ViewId(view), &mut unpaced), Ok(true));
        assert!(volumes.wait_for_counts(Duration::from_secs(60)));
        let volume = volumes.open(ID).expect("the volume");
        let got = tree(&volume.root());
        for (path, want) in without_identity(want) {
            assert_eq!(without_identity(&got).get(path), Some(&want), "{path} after {view}");
        }
        assert_eq!(got.len(), want.len(), "after {view}");
        // What nobody has deleted is the same file.
        for path in
            ["/a/one", "/a/sub/deep", "/a/sub/deep/two", "/b/three", "/b/new/newer/file", "/moved/two"]
        {
            assert_eq!(
                got.get(path).map(|seen| seen.attrs.file_id),
                want.get(path).map(|seen| seen.attrs.file_id),
                "{path}"
            );
        }
        for key in &keys {
            assert!(volume.node(key, ALLOWED).is_ok(), "{key:?} after {view}");
        }
    }
}
