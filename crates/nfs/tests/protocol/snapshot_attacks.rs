//! Every NFSv3 procedure that changes something, with each pair of live objects and objects of views as its handles, and
//! with names that mean something to snapshots.

use crate::handles::Encoded;
use crate::snapshots::Found;
use crate::support::{ROOT, VOLUME, World};
use nfs::handle::HandleSigner;
use nfs_wire::v3::{
    CommitArgs, CreateArgs, CreateHow, DeviceData, DirOpArgs, FileHandle, LinkArgs, MkdirArgs, MknodArgs,
    MknodData, NfsTime, Procedure, RemoveArgs, RenameArgs, Sattr, SetTime, SetattrArgs, SpecData, StableHow,
    Status, SymlinkArgs, SymlinkData, WriteArgs,
};
use std::collections::{BTreeMap, BTreeSet};
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, ViewId};
use vfs_testing::described;
use xdr::Encode;

const LIVE: [&str; 3] = ["", "dir", "dir/file"];
const VIEWS: [&str; 7] = [
    ".snapshot",
    "dir/.snapshot",
    ".snapshot/one",
    "dir/.snapshot/one",
    ".snapshot/one/dir",
    ".snapshot/one/dir/file",
    "dir/.snapshot/one/file",
];
const NAMES: [&[u8]; 9] =
    [b"file", b"dir", b"new", b".snapshot", b"one", b".", b"..", b".Snapshot", b"~snapshot"];

#[derive(Clone, Debug)]
struct Object {
    what: String,
    handle: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Live,
    View,
    /// An object of a snapshot that is deleted.
    Gone,
    /// The handle of a live object with the number of a view, or of a view with another one.
    Forged,
    /// A handle that only this server can have made, for a view that the volume does not have.
    Unknown,
}

struct Attack {
    world: World,
    objects: Vec<Object>,
}

impl Attack {
    fn new() -> Self {
        let mut world = World::new();
        let dir = world.dir(&world.root(), "dir", 0o755);
        let file = world.file(&dir, "file", 0o644, b"old");
        world.dir(&dir, "sub", 0o755);
        world.snapshot(1, "one");
        world.snapshot(2, "gone");
        file.node.write(0, b"new", KEEP_SET_ID).unwrap();
        let gone: Vec<_> =
            [".snapshot/gone", ".snapshot/gone/dir/file"].map(|path| (path, world.walk(path))).into();
        let volume = world.volume_of(VOLUME);
        volume.set_snapshots(volume.snapshots().iter().filter(|one| one.name == "one").cloned().collect());
        let mut objects = Vec::new();
        let mut add = |what: String, handle: Vec<u8>, kind| objects.push(Object { what, handle, kind });
        for (paths, kind) in [(&LIVE[..], Kind::Live), (&VIEWS, Kind::View)] {
            for path in paths {
                let handle =
                    if path.is_empty() { world.root().bytes().to_vec() } else { world.walk(path).handle };
                add((*path).to_owned(), handle, kind);
            }
        }
        gone.into_iter().for_each(|(path, Found { handle, .. })| add(path.to_owned(), handle, Kind::Gone));
        for (path, view) in [("dir/file", 1_u32), (".snapshot/one/dir/file", 0), ("dir", 0xffff_ffff)] {
            let mut handle = world.walk(path).handle;
            handle[17..21].copy_from_slice(&view.to_be_bytes());
            add(format!("{path} with view {view}"), handle, Kind::Forged);
        }
        let signer = HandleSigner::new([7; 16]);
        for view in [ViewId(2), ViewId(7), ViewId(7).entry(), ViewId(1 << 31)] {
            let handle = signer.sign(VOLUME.into(), &file.node.key().in_view(view));
            add(format!("dir/file of {view:?}"), handle.bytes().to_vec(), Kind::Unknown);
        }
        Self { world, objects }
    }

    /// Everything in the snapshots that the backend has, also in the one that is deleted for clients.
    fn frozen(&self) -> [BTreeMap<String, String>; 2] {
        let snapshots = self.world.fs.snapshots().unwrap();
        [1, 2].map(|view| described(&snapshots.open(ViewId(view)).unwrap().root()))
    }

    fn live_names(&self) -> BTreeSet<String> {
        described(&self.world.fs.root()).into_keys().collect()
    }

    fn ask(&mut self, procedure: Procedure, args: &[u8]) -> Status {
        let reply = self.world.ask(ROOT, procedure, &Encoded(args));
        xdr::Decode::decode(&mut xdr::Reader::new(&reply)).unwrap()
    }
}

/// The changes of one object.
fn changes(file: FileHandle<'_>) -> Vec<(Procedure, Vec<u8>)> {
    let none = Sattr::default();
    let time = SetTime::ClientTime(NfsTime { seconds: 1, nseconds: 0 });
    let mut all = Vec::new();
    for new_attributes in [
        none,
        Sattr { mode: Some(0), ..none },
        Sattr { uid: Some(1000), gid: Some(1000), ..none },
        Sattr { size: Some(0), ..none },
        Sattr { size: Some(1 << 40), ..none },
        Sattr { atime: time, ..none },
        Sattr { mtime: SetTime::ServerTime, ..none },
    ] {
        for guard in [None, Some(NfsTime { seconds: 1, nseconds: 0 })] {
            all.push((Procedure::SETATTR, SetattrArgs { object: file, new_attributes, guard }.to_bytes()));
        }
    }
    for (offset, data) in [(0, &b"evil"[..]), (1 << 40, b"e"), (0, b"")] {
        for stable in [StableHow::Unstable, StableHow::FileSync] {
            let count = u32::try_from(data.len()).unwrap();
            all.push((Procedure::WRITE, WriteArgs { file, offset, count, stable, data }.to_bytes()));
        }
    }
    all.push((Procedure::COMMIT, CommitArgs { file, offset: 0, count: 0 }.to_bytes()));
    all
}

/// The attributes of new objects.
const CREATED: Sattr = Sattr {
    mode: Some(0o777),
    uid: None,
    gid: None,
    size: None,
    atime: SetTime::DontChange,
    mtime: SetTime::DontChange,
};

/// The changes of a name in a directory.
fn name_changes(place: DirOpArgs<'_>) -> Vec<(Procedure, Vec<u8>)> {
    let attributes = CREATED;
    let symlink = SymlinkData { symlink_attributes: attributes, symlink_data: b"/etc" };
    let ways = [
        CreateHow::Unchecked(attributes),
        CreateHow::Unchecked(Sattr { size: Some(0), ..attributes }),
        CreateHow::Guarded(attributes),
        CreateHow::Exclusive([3; 8]),
    ];
    let device = DeviceData { dev_attributes: attributes, spec: SpecData { specdata1: 1, specdata2: 3 } };
    let mut all: Vec<_> =
        ways.into_iter().map(|how| (Procedure::CREATE, CreateArgs { place, how }.to_bytes())).collect();
    for what in [MknodData::Fifo(attributes), MknodData::Socket(attributes), MknodData::CharDevice(device)] {
        all.push((Procedure::MKNOD, MknodArgs { place, what }.to_bytes()));
    }
    all.extend([
        (Procedure::MKDIR, MkdirArgs { place, attributes }.to_bytes()),
        (Procedure::SYMLINK, SymlinkArgs { place, symlink }.to_bytes()),
        (Procedure::REMOVE, RemoveArgs { object: place }.to_bytes()),
        (Procedure::RMDIR, RemoveArgs { object: place }.to_bytes()),
    ]);
    all
}

/// The statuses that may refuse a change by this handle, whatever the other one is.
fn refusals(kind: Kind) -> &'static [Status] {
    match kind {
        Kind::Live => &[],
        Kind::View => &[Status::ROFS, Status::XDEV, Status::EXIST, Status::INVAL, Status::NOTDIR],
        Kind::Gone | Kind::Unknown => &[Status::STALE],
        Kind::Forged => &[Status::BADHANDLE],
    }
}

#[test]
fn no_procedure_changes_a_snapshot_by_any_handle_and_name() {
    let Attack { objects, .. } = Attack::new();
    for Object { what, handle, kind } in &objects {
        let mut attack = Attack::new();
        let frozen = attack.frozen();
        let dir = FileHandle(handle);
        let place = DirOpArgs { dir, name: b"file" };
        let found = CreateArgs { place, how: CreateHow::Unchecked(CREATED) }.to_bytes();
        let of_names = NAMES.iter().flat_map(|name| name_changes(DirOpArgs { dir, name }));
        for (procedure, args) in changes(dir).into_iter().chain(of_names) {
            let status = attack.ask(procedure, &args);
            // An unchecked CREATE of a file that exists only finds it, as O_CREAT does in a read-only file system.
            let finds = *kind == Kind::View && args == found;
            let is_refused = refusals(*kind).contains(&status);
            assert!(is_refused || finds || *kind == Kind::Live, "{procedure:?} of {what}: {status:?}");
        }
        assert_eq!(attack.frozen(), frozen, "{what}");
        assert!(attack.live_names().iter().all(|path| !path.contains("/.snapshot")), "{what}");
    }
}

/// Both handles of RENAME and LINK: the first refusal that applies to one of them is the answer.
#[test]
fn no_rename_or_link_crosses_the_border_of_a_snapshot() {
    let Attack { objects, .. } = Attack::new();
    for one in &objects {
        for other in objects.iter().filter(|other| other.kind != Kind::Live || one.kind != Kind::Live) {
            let mut attack = Attack::new();
            let frozen = (attack.frozen(), attack.live_names());
            let mut calls = Vec::new();
            for new_name in NAMES {
                let to = DirOpArgs { dir: FileHandle(&other.handle), name: new_name };
                calls
                    .push((Procedure::LINK, LinkArgs { file: FileHandle(&one.handle), link: to }.to_bytes()));
                for name in NAMES {
                    let from = DirOpArgs { dir: FileHandle(&one.handle), name };
                    calls.push((Procedure::RENAME, RenameArgs { from, to }.to_bytes()));
                }
            }
            for (procedure, args) in calls {
                let status = attack.ask(procedure, &args);
                let allowed = [refusals(one.kind), refusals(other.kind)].concat();
                assert!(allowed.contains(&status), "{procedure:?} of {one:?} to {other:?}: {status:?}");
            }
            assert_eq!((attack.frozen(), attack.live_names()), frozen, "{one:?} to {other:?}");
        }
    }
}
