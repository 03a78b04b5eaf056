//! Every operation that changes something, with each pair of live objects and objects of views as saved and current
//! filehandle: nothing in a snapshot changes, and no name of the directory of snapshots is made or taken.

use crate::testing::v4::minors::{MINORS, Rig};
use crate::testing::v4::{at, copying, put};
use crate::testing::{NOW, words};
use nfs_wire::v4::{
    AllocateArgs, Argument, Bitmap, CloneArgs, CommitArgs, CreatVerfAttr, CreateArgs, CreateHow, CreateType,
    DeallocateArgs, DelegationType, Fattr, LinkArgs, LockArgs, LockType, Locker, LookupArgs, OpReply,
    OpenArgs, OpenClaim, OpenClaimDelegateCur, OpenDowngradeArgs, OpenFlag, OpenToLockOwner, OpenattrArgs,
    ReadArgs, ReaddirArgs, ReaddirOk, RemoveArgs, RemovexattrArgs, RenameArgs, Reply, SecinfoArgs,
    SetattrArgs, SetxattrArgs, SetxattrOption, ShareAccess, ShareDeny, SpecData, StableHow, StateOwner,
    Stateid, Status, WriteArgs, XattrValue, attr,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vfs::{Backend, Blocking, Caller, Export, PendingSync, SetAttrs, Snapshot, Stability, Time, ViewId};
use vfs_testing::{MemFs, described};

const W: &[u8] = b"w";
const TOP: &[u8] = b".snapshot";
const ONE: &[u8] = b"one";
const F: &[u8] = b"f";
const D: &[u8] = b"d";
const LIVE: [&[&[u8]]; 3] = [&[W], &[W, D], &[W, F]];
const VIEWS: [&[&[u8]]; 8] = [
    &[W, TOP],
    &[W, D, TOP],
    &[W, TOP, ONE],
    &[W, D, TOP, ONE],
    &[W, TOP, ONE, D],
    &[W, TOP, ONE, F],
    &[b"r", TOP],
    &[b"r", TOP, ONE, F],
];
/// A snapshot that is deleted after the client has its handle.
const GONE: &[&[u8]] = &[W, TOP, b"gone", F];
const NAMES: [&[u8]; 7] = [F, D, b"new", TOP, ONE, b"..", b".Snapshot"];

struct World {
    rig: Rig,
    fs: MemFs,
    /// The stateid of an open of the live file for writing.
    open: Stateid,
    /// The stateid of an open of the file in the snapshot for reading.
    old: Stateid,
    gone: Vec<u8>,
}

fn world(minor: u32) -> World {
    let fs = MemFs::new(Arc::new(|| NOW));
    let rig = Rig::over(minor, fs.clone());
    let root = Arc::new(Export::new("/x", Arc::clone(&rig.volume), vec![])).root();
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let set = SetAttrs { mode: Some(0o755), ..SetAttrs::default() };
    let dir = root.make_dir(&caller, D, &set, &mut pending).unwrap().file;
    dir.make_dir(&caller, b"inner", &set, &mut pending).unwrap();
    let opened = root.open_dir(&caller, Blocking::Allowed).unwrap();
    let file = opened.lookup(F, Blocking::Allowed).unwrap().file;
    file.authorize_write(&caller).unwrap().write(0, b"old", Stability::Unstable, &mut pending).unwrap();
    let snapshot = |view: u32, name: &str| {
        fs.snapshots().unwrap().create(ViewId(view)).unwrap();
        let created = Time { seconds: NOW.seconds + i64::from(view), nanos: 0 };
        Snapshot { view: ViewId(view), name: name.to_owned(), created }
    };
    let (one, gone) = (snapshot(1, "one"), snapshot(2, "gone"));
    rig.volume.set_snapshots(vec![one.clone(), gone]);
    let gone = rig.client.handle(GONE);
    rig.volume.set_snapshots(vec![one]);
    let open = rig.open(W, ShareAccess::BOTH, ShareDeny::NONE).unwrap();
    let old = open_old(&rig);
    World { rig, fs, open, old, gone }
}

fn open_old(rig: &Rig) -> Stateid {
    let owner = StateOwner { clientid: rig.id, owner: b"reader of old files" };
    let args = OpenArgs {
        seqid: 1,
        share_access: ShareAccess::READ,
        share_deny: ShareDeny::NONE,
        owner,
        openhow: OpenFlag::NoCreate,
        claim: OpenClaim::Null(F),
    };
    let results = rig.client.ask(&at(&[W, TOP, ONE], [Argument::Open(args)]));
    let stateid = match results.all().last() {
        Some(OpReply::Open(Reply::Ok(ok))) => ok.stateid,
        other => panic!("{other:?}"),
    };
    match rig.minor {
        0 => rig.client.confirm_open(&[W, TOP, ONE, F], stateid, 2).unwrap(),
        _ => stateid,
    }
}

impl World {
    fn frozen(&self) -> [BTreeMap<String, String>; 2] {
        [1, 2].map(|view| described(&self.fs.snapshots().unwrap().open(ViewId(view)).unwrap().root()))
    }

    /// Names in the live tree.
    fn live_names(&self) -> BTreeSet<String> {
        described(&self.fs.root()).into_keys().collect()
    }

    fn handle(&self, path: &[&[u8]]) -> Vec<u8> {
        if path == GONE { self.gone.clone() } else { self.rig.client.handle(path) }
    }
}

/// Each attribute that a client may set, with a value.
const VALUES: [(u32, &[u8]); 10] = [
    (attr::MODE, &0o600_u32.to_be_bytes()),
    (attr::SIZE, &1_u64.to_be_bytes()),
    (attr::SIZE, &(1_u64 << 40).to_be_bytes()),
    (attr::OWNER, b"\0\0\0\x041000"),
    (attr::OWNER_GROUP, b"\0\0\0\x041000"),
    (attr::TIME_ACCESS_SET, &[0; 4]),
    (attr::TIME_MODIFY_SET, &[0; 4]),
    (attr::TIME_CREATE, &[0; 12]),
    (attr::ACL, &[0; 4]),
    (attr::DACL, &[0; 8]),
];

/// The changes of a file or of the attributes of any object.
fn changes(minor: u32, stateid: Stateid) -> Vec<Argument<'static>> {
    let stable = StableHow::Unstable;
    let mut all = vec![
        Argument::Write(WriteArgs { stateid, offset: 0, stable, data: b"evil" }),
        Argument::Write(WriteArgs { stateid, offset: 1 << 40, stable, data: b"e" }),
        Argument::Write(WriteArgs { stateid, offset: 0, stable: StableHow::FileSync, data: b"" }),
        Argument::Commit(CommitArgs { offset: 0, count: 0 }),
        Argument::Openattr(OpenattrArgs { createdir: true }),
    ];
    all.extend(VALUES.map(|(number, attr_vals)| {
        let obj_attributes = Fattr { attrmask: Bitmap::of(&[number]), attr_vals };
        Argument::Setattr(SetattrArgs { stateid, obj_attributes })
    }));
    if minor == 2 {
        let (offset, length) = (0, 10);
        let option = SetxattrOption::Either;
        all.extend([
            Argument::Allocate(AllocateArgs { stateid, offset, length }),
            Argument::Deallocate(DeallocateArgs { stateid, offset, length }),
            Argument::Setxattr(SetxattrArgs { option, key: b"k", value: XattrValue(b"v") }),
            Argument::Removexattr(RemovexattrArgs { name: b"k" }),
        ]);
        for src_stateid in [Stateid::ANONYMOUS, stateid] {
            let (dst_stateid, src_offset, dst_offset, count) = (stateid, 0, 0, 0);
            let clone = CloneArgs { src_stateid, dst_stateid, src_offset, dst_offset, count };
            all.push(Argument::Clone(clone));
            let ways = [true, false].map(|synchronous| copying(0, synchronous));
            all.extend(
                ways.map(|copy| Argument::Copy(nfs_wire::v4::CopyArgs { src_stateid, dst_stateid, ..copy })),
            );
        }
    }
    all
}

/// Ways to get an open for writing, or a lock, without naming the file.
fn state_changes(clientid: u64, stateid: Stateid) -> Vec<Argument<'static>> {
    let claims = [
        OpenClaim::Fh,
        OpenClaim::Previous(DelegationType::Write),
        OpenClaim::DelegCurFh(stateid),
        OpenClaim::DelegPrevFh,
        OpenClaim::DelegateCur(OpenClaimDelegateCur { delegate_stateid: stateid, file: F }),
        OpenClaim::DelegatePrev(F),
    ];
    let mut all = Vec::new();
    for (share_access, share_deny) in
        [(ShareAccess::WRITE, ShareDeny::NONE), (ShareAccess::BOTH, ShareDeny::BOTH)]
    {
        let owner = StateOwner { clientid, owner: b"attacker" };
        let ways = [OpenFlag::NoCreate, OpenFlag::Create(CreateHow::Unchecked(Fattr::default()))];
        for (claim, openhow) in claims.iter().flat_map(|claim| ways.map(|way| (*claim, way))) {
            let open = OpenArgs { seqid: 1, share_access, share_deny, owner, openhow, claim };
            all.push(Argument::Open(open));
        }
        let downgrade = OpenDowngradeArgs { open_stateid: stateid, seqid: 3, share_access, share_deny };
        all.push(Argument::OpenDowngrade(downgrade));
    }
    let lock_owner = StateOwner { clientid, owner: b"locker" };
    let new = OpenToLockOwner { open_seqid: 3, open_stateid: stateid, lock_seqid: 0, lock_owner };
    let lock = LockArgs {
        locktype: LockType::Write,
        reclaim: false,
        offset: 0,
        length: u64::MAX,
        locker: Locker::New(new),
    };
    all.push(Argument::Lock(lock));
    all
}

/// The changes of names in a directory.
fn name_changes(minor: u32, clientid: u64, name: &'static [u8]) -> Vec<Argument<'static>> {
    let createattrs = Fattr::default();
    let create = |objtype| Argument::Create(CreateArgs { objtype, objname: name, createattrs });
    let open = |share_access, openhow, claim| {
        let owner = StateOwner { clientid, owner: b"attacker" };
        Argument::Open(OpenArgs {
            seqid: 1,
            share_access,
            share_deny: ShareDeny::NONE,
            owner,
            openhow,
            claim,
        })
    };
    let made = |how| open(ShareAccess::BOTH, OpenFlag::Create(how), OpenClaim::Null(name));
    let mut all = vec![
        create(CreateType::Directory),
        create(CreateType::Symlink(b"target")),
        create(CreateType::Fifo),
        create(CreateType::Socket),
        create(CreateType::CharDevice(SpecData { specdata1: 1, specdata2: 3 })),
        Argument::Remove(RemoveArgs { target: name }),
        Argument::Link(LinkArgs { newname: name }),
        made(CreateHow::Unchecked(Fattr::default())),
        made(CreateHow::Guarded(Fattr::default())),
        made(CreateHow::Exclusive([7; 8])),
        open(ShareAccess::WRITE, OpenFlag::NoCreate, OpenClaim::Null(name)),
    ];
    if minor > 0 {
        let attrs = Fattr::default();
        all.push(made(CreateHow::Exclusive41(CreatVerfAttr { verf: [7; 8], attrs })));
    }
    all.extend(NAMES.map(|oldname| Argument::Rename(RenameArgs { oldname, newname: name })));
    all
}

/// Whether this status may refuse an operation at an object of a view. Errors of the arguments or of the stateid can
/// come first.
fn is_refusal(operation: &Argument<'_>, status: Status) -> bool {
    let others: &[Status] = match operation {
        Argument::Rename(_) | Argument::Link(_) => &[Status::XDEV, Status::BADNAME],
        Argument::Create(_) | Argument::Remove(_) => &[Status::BADNAME],
        Argument::Setattr(_) => &[Status::BAD_STATEID, Status::OPENMODE, Status::ATTRNOTSUPP],
        Argument::Write(_) => &[Status::BAD_STATEID, Status::OPENMODE],
        Argument::Allocate(_) | Argument::Deallocate(_) => {
            &[Status::BAD_STATEID, Status::OPENMODE, Status::NOTSUPP]
        }
        Argument::Clone(_) | Argument::Copy(_) => &[Status::BAD_STATEID, Status::OPENMODE, Status::ISDIR],
        Argument::Openattr(_) => &[Status::NOTSUPP],
        Argument::Open(_) | Argument::OpenDowngrade(_) | Argument::Lock(_) => return status != Status::OK,
        _ => &[],
    };
    status == Status::ROFS || others.contains(&status)
}

/// A path and the filehandle that it had first.
type Place<'p> = (&'p [&'p [u8]], &'p [u8]);

impl World {
    /// Runs an operation on a saved and a current filehandle.
    fn attack(&self, saved: Place<'_>, current: Place<'_>, operation: &Argument<'_>) {
        let ((saved, from), (current, to)) = (saved, current);
        let is_live = |path: &[&[u8]]| LIVE.contains(&path);
        let moves = matches!(operation, Argument::Rename(_) | Argument::Link(_));
        let what = format!("4.{}: {operation:?} from {saved:?} at {current:?}", self.rig.minor);
        let status = self.rig.client.status(&[put(from), Argument::Savefh, put(to), operation.clone()]);
        assert!(status != Status::OK || is_live(current) && (!moves || is_live(saved)), "{what}");
        assert_ne!(status, Status::SERVERFAULT, "{what}");
        if current == GONE {
            assert_eq!(status, Status::STALE, "{what}");
        } else if !is_live(current) && saved != GONE {
            assert!(is_refusal(operation, status), "{what}: {status:?}");
        }
        // The current filehandle comes back from where it was saved: both are one object.
        let back = [put(to), Argument::Savefh, put(from), Argument::Restorefh, operation.clone()];
        let status = self.rig.client.status(&back);
        assert!(status != Status::OK || is_live(current), "{what}, restored");
    }
}

#[test]
fn no_compound_changes_a_snapshot_whatever_it_combines() {
    let objects: Vec<&[&[u8]]> = LIVE.into_iter().chain(VIEWS).chain([GONE]).collect();
    for minor in MINORS {
        for (saved, current) in objects.iter().flat_map(|saved| objects.iter().map(move |to| (*saved, *to))) {
            let w = world(minor);
            let frozen = w.frozen();
            // An operation may take away the name of a live object.
            let (from, to) = (w.handle(saved), w.handle(current));
            let (from, to) = ((saved, &from[..]), (current, &to[..]));
            let states = [Stateid::ANONYMOUS, Stateid::READ_BYPASS, w.open, w.old];
            let of_file = states.into_iter().flat_map(|stateid| changes(minor, stateid));
            let of_state = states.into_iter().flat_map(|stateid| state_changes(w.rig.id, stateid));
            let of_names = NAMES.into_iter().flat_map(|name| name_changes(minor, w.rig.id, name));
            of_file.chain(of_state).chain(of_names).for_each(|operation| w.attack(from, to, &operation));
            assert_eq!(w.frozen(), frozen, "4.{minor}: from {saved:?} at {current:?}");
            assert!(w.live_names().iter().all(|path| !path.contains("/.snapshot")), "{:?}", w.live_names());
            let listed = at(&[W, TOP, ONE], [Argument::Getfh]);
            assert_eq!(w.rig.client.status(&listed), Status::OK, "from {saved:?} at {current:?}");
        }
    }
}

/// The stateid of one file at the handle of another.
#[test]
fn stateid_of_a_live_file_gives_nothing_in_its_snapshot() {
    for minor in MINORS {
        let w = world(minor);
        let old = w.handle(&[W, TOP, ONE, F]);
        let read = |stateid| Argument::Read(ReadArgs { stateid, offset: 0, count: 10 });
        let write = WriteArgs { stateid: w.open, offset: 0, stable: StableHow::Unstable, data: b"evil" };
        let refused = w.rig.client.status(&[put(&old), Argument::Write(write)]);
        assert!([Status::BAD_STATEID, Status::ROFS].contains(&refused), "4.{minor}: {refused:?}");
        assert_eq!(w.rig.client.status(&[put(&old), read(w.open)]), Status::BAD_STATEID, "4.{minor}");
        assert_eq!(w.rig.client.status(&[put(&old), read(Stateid::ANONYMOUS)]), Status::OK);
    }
}

/// Cookies of every directory at every other one, and numbers that nobody gave.
#[test]
fn cookies_of_other_directories_end_and_show_names_of_the_directory_alone() {
    let dirs: [&[&[u8]]; 7] =
        [&[W], &[W, D], &[W, TOP], &[W, D, TOP], &[W, TOP, ONE], &[W, D, TOP, ONE], &[b"r", TOP]];
    for minor in MINORS {
        let w = world(minor);
        w.rig.volume.set_snapshot_directory(vfs::SnapshotDirectory::Listed);
        let page = |dir: &[&[u8]], cookie: u64| {
            let attr_request = Bitmap::of(&[attr::FILEID, attr::RDATTR_ERROR]);
            let (cookieverf, maxcount) = ([0; 8], 1 << 16);
            let args = ReaddirArgs { cookie, cookieverf, dircount: 0, maxcount, attr_request };
            let results = w.rig.client.ask(&at(dir, [Argument::Readdir(args)]));
            match results.all().last() {
                Some(OpReply::Readdir(Reply::Ok(ReaddirOk { entries, eof: true, .. }))) => {
                    Ok(entries.iter().map(|entry| (entry.name.to_vec(), entry.cookie)).collect::<Vec<_>>())
                }
                Some(OpReply::Readdir(Reply::Err(status))) => Err(*status),
                other => panic!("{other:?}"),
            }
        };
        let mut cookies: BTreeSet<u64> =
            [1, 2, 3, 5, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX].into();
        for dir in dirs {
            cookies.extend(page(dir, 0).unwrap().into_iter().map(|(_, cookie)| cookie));
        }
        for dir in dirs {
            let own: BTreeSet<_> = page(dir, 0).unwrap().into_iter().map(|(name, _)| name).collect();
            for &cookie in &cookies {
                match page(dir, cookie) {
                    Ok(rest) => assert!(
                        rest.iter().all(|(name, _)| own.contains(name)),
                        "4.{minor}: {dir:?} after {cookie:x}: {rest:?}"
                    ),
                    Err(status) => assert_eq!(status, Status::BAD_COOKIE, "{dir:?} after {cookie:x}"),
                }
            }
        }
    }
}

#[test]
fn security_information_and_lookups_know_the_directory_by_its_name_alone() {
    for minor in MINORS {
        let w = world(minor);
        let secinfo = |dir: &[&'static [u8]], name| {
            w.rig.client.status(&at(dir, [Argument::Secinfo(SecinfoArgs { name })]))
        };
        let lookup = |dir: &[&'static [u8]], objname| {
            w.rig.client.status(&at(dir, [Argument::Lookup(LookupArgs { objname })]))
        };
        let cases = [
            (&[W][..], TOP, Status::OK),
            (&[W, D], TOP, Status::OK),
            (&[W, TOP], ONE, Status::OK),
            (&[W, TOP], TOP, Status::NOENT),
            (&[W, TOP, ONE], TOP, Status::NOENT),
            (&[W], b".SNAPSHOT", Status::NOENT),
            (&[W], b"~snapshot", Status::NOENT),
            (&[W, TOP], b"gone", Status::NOENT),
        ];
        for (dir, name, expected) in cases {
            assert_eq!(lookup(dir, name), expected, "4.{minor}: {}", name.escape_ascii());
            assert_eq!(secinfo(dir, name), expected, "4.{minor}: {}", name.escape_ascii());
        }
        w.rig.volume.set_snapshot_directory(vfs::SnapshotDirectory::Hidden);
        assert_eq!((lookup(&[W], TOP), secinfo(&[W], TOP)), (Status::NOENT, Status::NOENT), "4.{minor}");
    }
}

/// `words` is the value of attributes that a snapshot must keep.
#[test]
fn fsid_of_a_view_cannot_be_set() {
    for minor in MINORS {
        let w = world(minor);
        let before = w.rig.client.attrs(&[W, TOP, ONE], &[attr::FSID]).1;
        assert_eq!(before, words(&[0, 1, 0, 1]));
        let value = words(&[0, 9, 0, 9]);
        let obj_attributes = Fattr { attrmask: Bitmap::of(&[attr::FSID]), attr_vals: &value };
        let set = Argument::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, obj_attributes });
        assert_ne!(w.rig.client.status(&at(&[W, TOP, ONE], [set])), Status::OK);
        assert_eq!(w.rig.client.attrs(&[W, TOP, ONE], &[attr::FSID]).1, before);
    }
}
