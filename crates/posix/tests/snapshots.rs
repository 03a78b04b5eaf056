//! Snapshots of volumes, against whole copies of the tree from the time of each.

mod fixture;

use fixture::{Ground, Tree, name, new_inode};
use posix::{Options, Volumes};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Attrs, Backend, Blocking, Capacity, Change, FileKey, FileType, FsError, FsResult, NodeRef, Provisioner,
    Root, SetAttrs, SetTime, SetXattr, Snapshots, Span, Special, Time, ViewId, VolumeId, XattrName,
};
use vfs_testing::UncheckedNode;

const GROUNDS: [Ground; 3] = [Ground::Tmpfs, Ground::Ext4, Ground::Xfs];
const ID: VolumeId = VolumeId(7);
const CAPACITY: Capacity = Capacity { bytes: 200 << 20, files: 100_000 };
const ALLOWED: Blocking = Blocking::Allowed;
const ANY: vfs::AuthorizeRemove<'static> = &|_| Ok(());

fn open(data: &Path) -> Arc<Volumes> {
    Volumes::open(data, Options { copy_snapshots: true, ..Options::default() }).expect("volumes")
}

/// A volume, and its volumes, which must live as long.
struct Rig {
    data: std::path::PathBuf,
    volumes: Arc<Volumes>,
    volume: Arc<dyn Backend>,
}

impl Rig {
    fn new(data: &Path) -> Self {
        let volumes = open(data);
        let own = new_inode(0o755);
        volumes.make(ID, &Root { mode: own.mode, uid: own.uid, gid: own.gid }, CAPACITY).unwrap();
        let volume = volumes.open(ID).unwrap();
        Self { data: data.to_owned(), volumes, volume }
    }

    /// The volume as after a restart.
    fn reopened(self) -> Self {
        let Self { data, volumes, volume } = self;
        drop(volume);
        volumes.close();
        drop(volumes);
        let volumes = open(&data);
        let volume = volumes.open(ID).unwrap();
        Self { data, volumes, volume }
    }

    fn snapshots(&self) -> &dyn Snapshots {
        self.volume.snapshots().expect("snapshots")
    }

    fn view(&self, view: u32) -> Arc<dyn Backend> {
        self.snapshots().open(ViewId(view)).unwrap()
    }
}

/// All that a snapshot shows of an object.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    attrs: Attrs,
    key: FileKey,
    content: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn content(node: &NodeRef, attrs: &Attrs) -> FsResult<Vec<u8>> {
    match attrs.file_type {
        FileType::Regular => {
            let mut data = Vec::new();
            node.read(0, usize::try_from(attrs.size).unwrap(), &mut data, ALLOWED)?;
            Ok(data)
        }
        FileType::Symlink => node.read_link(),
        _ => Ok(Vec::new()),
    }
}

fn xattrs(node: &NodeRef, attrs: &Attrs) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    if let (FileType::Regular | FileType::Directory, Some(xattrs)) = (attrs.file_type, node.xattrs()) {
        let mut names = Vec::new();
        let listed = xattrs.list(0, &mut |name, _| {
            names.push(name.bytes().to_vec());
            ControlFlow::Continue(())
        });
        assert_eq!(listed, Ok(true));
        for name in names {
            let value = xattrs.get(XattrName::new(&name).unwrap()).unwrap();
            all.insert(name, value);
        }
    }
    all
}

/// Everything below a directory, by path.
fn walk(node: &NodeRef, path: &str, all: &mut BTreeMap<String, Seen>) {
    let attrs = node.attrs(ALLOWED).unwrap();
    let seen = Seen {
        // Reads move the access time, and storage in use is what records and files share.
        attrs: Attrs { accessed: Time::default(), used: 0, ..attrs },
        key: node.key(),
        content: content(node, &attrs).unwrap(),
        xattrs: xattrs(node, &attrs),
    };
    all.insert(path.to_owned(), seen);
    if attrs.file_type != FileType::Directory {
        return;
    }
    let (mut names, mut cookies) = (Vec::new(), Vec::new());
    let mut cookie = 0;
    loop {
        let mut count = 0;
        let at_end = node.read_dir(cookie, true, &mut |entry| {
            if count == 3 {
                return ControlFlow::Break(());
            }
            count += 1;
            cookie = entry.cookie;
            cookies.push(entry.cookie);
            if !matches!(entry.name, b"." | b"..") {
                names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.file_id));
            }
            ControlFlow::Continue(())
        });
        if at_end.unwrap() {
            break;
        }
    }
    cookies.sort_unstable();
    assert!(cookies.windows(2).all(|pair| pair[0] < pair[1]), "a cookie twice in {path}");
    for (entry, file_id) in names {
        let found =
            node.lookup(name(&entry), ALLOWED).unwrap_or_else(|error| panic!("{path}/{entry}: {error}"));
        assert_eq!(found.attrs.file_id, file_id, "{path}/{entry}");
        if found.attrs.file_type == FileType::Directory {
            assert_eq!(found.node.parent().unwrap().node.key(), node.key(), "the parent of {path}/{entry}");
        }
        walk(&found.node, &format!("{path}/{entry}"), all);
    }
}

fn tree(root: &NodeRef) -> BTreeMap<String, Seen> {
    let mut all = BTreeMap::new();
    walk(root, "", &mut all);
    all
}

#[track_caller]
fn assert_same(what: &str, got: &BTreeMap<String, Seen>, want: &BTreeMap<String, Seen>) {
    for (path, want) in want {
        let Some(got) = got.get(path) else { panic!("{what}: {path:?} is missing") };
        // The links of a directory follow its subdirectories; the counter of an unchanged file may rise with others'.
        let attrs = Attrs { change: want.attrs.change, ..got.attrs };
        assert_eq!((attrs, &got.key), (want.attrs, &want.key), "{what}: {path:?}");
        assert_eq!(got.xattrs, want.xattrs, "{what}: {path:?}");
        let differs = got.content.iter().zip(&want.content).position(|(a, b)| a != b);
        assert!(got.content == want.content, "{what}: {path:?} differs at {differs:?}");
    }
    let more: Vec<_> = got.keys().filter(|path| !want.contains_key(*path)).collect();
    assert!(more.is_empty(), "{what}: {more:?} should not be there");
}

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Changes the live tree at random. Refusals are as good as changes.
fn change(root: &NodeRef, random: &mut Random) -> FsResult<()> {
    let dir = {
        let mut dir = NodeRef::clone(root);
        for _ in 0..random.below(3) {
            match dir.lookup(name(&format!("d{}", random.below(3))), ALLOWED) {
                Ok(found) if found.attrs.file_type == FileType::Directory => dir = found.node,
                _ => break,
            }
        }
        dir
    };
    let file_name = format!("f{}", random.below(6));
    let dir_name = format!("d{}", random.below(3));
    let file = || dir.lookup(name(&file_name), ALLOWED).map(|found| found.node);
    let new = new_inode(0o644);
    let done = |change: FsResult<Change>| change.map(drop);
    match random.below(22) {
        0 | 1 => dir.create_unchecked(name(&file_name), &new).map(drop),
        2 => dir.make_dir_unchecked(name(&dir_name), &new_inode(0o755)).map(drop),
        3 => dir.make_special(name(&file_name), Special::Symlink(b"target"), &|_| Ok(new)).map(drop),
        4 => dir.make_special(name(&file_name), Special::Fifo, &|_| Ok(new)).map(drop),
        5..=9 => {
            let (offset, len) = (random.below(200_000), 1 + random.below(40_000));
            let data = vec![u8::try_from(random.below(255) + 1).unwrap(); usize::try_from(len).unwrap()];
            done(file()?.write(offset, &data, KEEP_SET_ID))
        }
        10 | 11 => {
            let set = SetAttrs { size: Some(random.below(250_000)), ..SetAttrs::default() };
            done(file()?.set_attrs(&set))
        }
        12 => {
            let mode = u32::try_from(random.below(0o777)).unwrap() | 0o600;
            let time = Time { seconds: i64::try_from(random.below(1 << 30)).unwrap(), nanos: 0 };
            let modified = Some(SetTime::To(time));
            done(file()?.set_attrs(&SetAttrs { mode: Some(mode), modified, ..SetAttrs::default() }))
        }
        13 => {
            let (file, value) = (file()?, vec![7; usize::try_from(random.below(300)).unwrap()]);
            let xattrs = file.xattrs().ok_or(FsError::NotSupported)?;
            let attribute = format!("x{}", random.below(3));
            let attribute = XattrName::new(attribute.as_bytes())?;
            done(xattrs.set(attribute, &value, SetXattr::Either, &|_| Ok(())))
        }
        14 => {
            done(file()?.xattrs().ok_or(FsError::NotSupported)?.remove(XattrName::new(b"x1")?, &|_| Ok(())))
        }
        15 | 16 => dir.remove(name(&file_name), ANY).map(drop),
        17 => dir.remove_dir(name(&dir_name), ANY).map(drop),
        18 => {
            let to = root
                .lookup(name(&format!("d{}", random.below(3))), ALLOWED)
                .map_or(dir.clone(), |to| to.node);
            let from = if random.below(4) == 0 { &dir_name } else { &file_name };
            let target = if random.below(4) == 0 {
                format!("d{}", random.below(3))
            } else {
                format!("f{}", random.below(6))
            };
            dir.rename(name(from), &to, name(&target), &|_, _| Ok(())).map(drop)
        }
        19 => root.link(name(&format!("f{}", random.below(6))), &file()?, &|_| Ok(())).map(drop),
        20 => {
            let file = file()?;
            let ranges = file.ranges().ok_or(FsError::NotSupported)?;
            let (offset, len) = (random.below(200_000), 1 + random.below(60_000));
            done(if random.below(2) == 0 {
                ranges.punch(offset, len, KEEP_SET_ID)
            } else {
                ranges.zero(offset, len, KEEP_SET_ID)
            })
        }
        _ => {
            let (from, to) = (file()?, root.lookup(name(&format!("f{}", random.below(6))), ALLOWED)?.node);
            let span = Span {
                source: 4096 * random.below(20),
                target: 4096 * random.below(20),
                len: 4096 * (1 + random.below(9)),
            };
            let ranges = from.ranges().ok_or(FsError::NotSupported)?;
            let copied = ranges.copy_to(&to, &span, KEEP_SET_ID).map(drop);
            let _may_not_share = ranges.clone_to(&to, &span, KEEP_SET_ID);
            copied
        }
    }
}

fn soak(data: &Path, seed: u64, steps: u32) {
    let mut rig = Rig::new(data);
    let mut random = Random(seed);
    let mut copies: BTreeMap<u32, BTreeMap<String, Seen>> = BTreeMap::new();
    let (mut next, mut done) = (1, 0);
    for step in 0..steps {
        done += u32::from(change(&rig.volume.root(), &mut random).is_ok());
        if random.below(25) == 0 {
            rig.snapshots().create(ViewId(next)).unwrap();
            copies.insert(next, tree(&rig.volume.root()));
            next += 1;
        }
        if copies.len() > 4 || (!copies.is_empty() && random.below(60) == 0) {
            let place = usize::try_from(random.below(copies.len() as u64)).unwrap();
            let view = *copies.keys().nth(place).unwrap();
            // Some deletions are stopped, and go on with the next one.
            let mut left = random.below(40);
            let stops = random.below(3) == 0;
            rig.snapshots()
                .delete(ViewId(view), &mut |_| {
                    left = left.saturating_sub(1);
                    if stops && left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
                .unwrap();
            copies.remove(&view);
        }
        if random.below(150) == 0 {
            rig = rig.reopened();
        }
        if step.is_multiple_of(20) {
            check_count(&rig);
        }
        let listed: Vec<u32> = rig.snapshots().list().unwrap().into_iter().map(|view| view.0).collect();
        assert_eq!(listed, copies.keys().copied().collect::<Vec<_>>());
        if step.is_multiple_of(5) {
            for (view, copy) in &copies {
                let what = format!("seed {seed}, step {step}, snapshot {view}");
                assert_same(&what, &tree(&rig.view(*view).root()), copy);
            }
        }
    }
    assert!(done > steps / 4, "{done} of {steps} changes happened");
    check_space(&rig, copies.keys().copied().collect());
}

/// Without snapshots, all their space is free again.
fn check_space(rig: &Rig, views: Vec<u32>) {
    for view in views {
        assert_eq!(rig.snapshots().delete(ViewId(view), &mut |_| ControlFlow::Continue(())), Ok(true));
    }
    let records: Vec<_> = std::fs::read_dir(rig.data.join("snapshots/0000000000000007/records"))
        .unwrap()
        .flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(records.is_empty(), "{records:?}");
    check_count(rig);
}

/// The running count is that of the live files and of what the snapshots hold.
#[track_caller]
fn check_count(rig: &Rig) {
    let counted = rig.volumes.usage(ID).unwrap();
    let live = Volumes::recount(&rig.data.join("volumes/0000000000000007")).unwrap();
    let held = rig.volumes.recount_held(ID).unwrap();
    assert_eq!(counted, vfs::Usage { bytes: live.bytes + held, ..live }, "of these are {held} held");
}

#[test]
fn snapshots_stay_as_they_were_under_random_changes() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        // More seeds by hand: PLIMSOLL_SEEDS=100
        let seeds = std::env::var("PLIMSOLL_SEEDS").map_or(3, |seeds| seeds.parse().unwrap());
        for seed in 1..=seeds {
            eprintln!("on {ground:?}, seed {seed}");
            let data = tree.path.join(format!("data-{seed}"));
            std::fs::create_dir(&data).unwrap();
            soak(&data, seed, 600);
        }
    }
}
