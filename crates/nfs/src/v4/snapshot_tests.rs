//! Snapshots below `.snapshot` in every minor version: file systems of their own, read-only.

use crate::testing::v4::back::Rig as BackRig;
use crate::testing::v4::minors::{MINORS, Rig};
use crate::testing::v4::{at, copying, put};
use crate::testing::{NOW, rule, words};
use nfs_wire::v4::{
    Access, AccessArgs, AccessOk, AllocateArgs, Argument, Bitmap, CloneArgs, CloseArgs, CommitArgs,
    CopyReply, CreatVerfAttr, CreateArgs, CreateHow, CreateType, DataContent, DeallocateArgs,
    DelegreturnArgs, Fattr, GetxattrArgs, LinkArgs, ListxattrsArgs, LockArgs, LockReply, LockType, Locker,
    OpReply, OpenDelegation, OpenFlag, OpenOk, OpenToLockOwner, ReadArgs, ReadPlusArgs, ReaddirArgs,
    ReaddirOk, RemoveArgs, RemovexattrArgs, RenameArgs, Reply, SeekArgs, SetattrArgs, SetxattrArgs,
    SetxattrOption, ShareAccess, ShareDeny, StableHow, StateOwner, Stateid, Status, WriteArgs, XattrValue,
    attr,
};
use std::sync::Arc;
use vfs::{
    Backend, Caller, Durability, Export, ExportRule, PendingSync, SetAttrs, Snapshot, SnapshotDirectory,
    Squash, Stability, Time, ViewId, Volume, VolumeId,
};
use vfs_testing::MemFs;

const W: &[u8] = b"w";
const TOP: &[u8] = b".snapshot";
const ONE: &[u8] = b"one";
const F: &[u8] = b"f";
const D: &[u8] = b"d";
/// The path of the old `f`.
const OLD: &[&[u8]] = &[W, TOP, ONE, F];

fn snapshot(fs: &MemFs, volume: &Volume, view: u32, name: &str) {
    fs.snapshots().unwrap().create(ViewId(view)).unwrap();
    let created = Time { seconds: NOW.seconds + i64::from(view), nanos: 0 };
    let mut all: Vec<_> = volume.snapshots().iter().cloned().collect();
    all.push(Snapshot { view: ViewId(view), name: name.to_owned(), created });
    volume.set_snapshots(all);
}

/// The files of [`Rig`] with a directory `d`, of which the snapshot `one` has `f` as "old".
fn rig(minor: u32) -> Rig {
    let fs = MemFs::new(Arc::new(|| NOW));
    let rig = Rig::over(minor, fs.clone());
    let (root, set) = (Export::new("/x", Arc::clone(&rig.volume), vec![]), SetAttrs::default());
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let root = Arc::new(root).root();
    root.make_dir(&caller, D, &SetAttrs { mode: Some(0o755), ..set }, &mut pending).unwrap();
    let dir = root.open_dir(&caller, vfs::Blocking::Allowed).unwrap();
    let file = dir.lookup(F, vfs::Blocking::Allowed).unwrap().file;
    let mut write = |data| {
        file.authorize_write(&caller).unwrap().write(0, data, Stability::Unstable, &mut pending).unwrap();
    };
    write(b"old");
    snapshot(&fs, &rig.volume, 1, "one");
    write(b"new");
    rig
}

impl Rig {
    fn number(&self, path: &[&[u8]], number: u32) -> Vec<u8> {
        self.client.attrs(path, &[number]).1
    }

    fn up(&self, path: &[&[u8]], steps: usize) -> Vec<u8> {
        let climb = std::iter::repeat_n(Argument::Lookupp, steps).chain([Argument::Getfh]);
        let results = self.client.ask(&at(path, climb));
        match results.all().last() {
            Some(OpReply::Getfh(Reply::Ok(ok))) => ok.object.0.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn contents(&self, path: &[&[u8]], stateid: Stateid) -> Result<Vec<u8>, Status> {
        let results =
            self.client.ask(&at(path, [Argument::Read(ReadArgs { stateid, offset: 0, count: 100 })]));
        match results.all().last() {
            Some(OpReply::Read(Reply::Ok(ok))) => Ok(ok.data.to_vec()),
            _ => Err(results.status()),
        }
    }

    /// The names of a listing with the values of these attributes.
    fn listed(&self, path: &[&[u8]], numbers: &[u32]) -> Vec<(Vec<u8>, Bitmap, Vec<u8>)> {
        let (cookieverf, attr_request) = ([0; 8], Bitmap::of(numbers));
        let args = ReaddirArgs { cookie: 0, cookieverf, dircount: 0, maxcount: 1 << 16, attr_request };
        let results = self.client.ask(&at(path, [Argument::Readdir(args)]));
        match results.all().last() {
            Some(OpReply::Readdir(Reply::Ok(ReaddirOk { entries, eof: true, .. }))) => entries
                .iter()
                .map(|entry| (entry.name.to_vec(), entry.attrs.attrmask, entry.attrs.attr_vals.to_vec()))
                .collect(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn snapshot_is_a_file_system_mounted_on_an_entry_with_a_number_of_its_own() {
    for rig in MINORS.map(rig) {
        let fsid = |path: &[&[u8]]| rig.number(path, attr::FSID);
        assert_eq!(fsid(&[W, TOP]), words(&[0, 1, 0, 0]), "of the live files");
        for path in [&[W, TOP, ONE][..], OLD, &[W, TOP, ONE, D], &[W, D, TOP, ONE], &[b"r", TOP, ONE, F]] {
            assert_eq!(fsid(path), words(&[0, 1, 0, 1]), "{path:?}");
        }
        let ids =
            |path: &[&[u8]]| (rig.number(path, attr::FILEID), rig.number(path, attr::MOUNTED_ON_FILEID));
        let (live, entry) = (ids(&[W, D]), ids(&[W, D, TOP, ONE]));
        assert_eq!(live.0, live.1);
        assert_eq!(entry.0, live.0, "a directory has its number in every view");
        assert_ne!(entry.1, live.0, "the client would see a loop");
        let inside = ids(&[W, TOP, ONE, D]);
        assert_eq!(inside, live, "nothing is mounted there");
        let listed = rig.listed(&[W, D, TOP], &[attr::MOUNTED_ON_FILEID]);
        assert_eq!(listed, [(ONE.to_vec(), Bitmap::of(&[attr::MOUNTED_ON_FILEID]), entry.1)]);
        assert_eq!(rig.number(OLD, attr::FH_EXPIRE_TYPE), words(&[0]), "persistent");
        assert_eq!(
            (
                rig.contents(OLD, Stateid::ANONYMOUS).unwrap(),
                rig.contents(&[W, F], Stateid::ANONYMOUS).unwrap()
            ),
            (b"old".to_vec(), b"new".to_vec())
        );
    }
}

/// The attributes that Linux requests are encoded by other code than single ones.
#[test]
fn all_ways_to_read_attributes_agree_about_views() {
    let linux = [
        attr::TYPE,
        attr::CHANGE,
        attr::SIZE,
        attr::FSID,
        attr::FILEID,
        attr::MODE,
        attr::NUMLINKS,
        attr::OWNER,
        attr::OWNER_GROUP,
        attr::RAWDEV,
        attr::SPACE_USED,
        attr::TIME_ACCESS,
        attr::TIME_METADATA,
        attr::TIME_MODIFY,
        attr::MOUNTED_ON_FILEID,
    ];
    for rig in MINORS.map(rig) {
        for path in [OLD, &[W, D, TOP, ONE], &[W, TOP]] {
            let (mask, all) = rig.client.attrs(path, &linux);
            assert_eq!(mask, Bitmap::of(&linux));
            let mut sorted = linux;
            sorted.sort_unstable();
            let each: Vec<u8> = sorted.iter().flat_map(|number| rig.number(path, *number)).collect();
            assert_eq!(all, each, "{path:?}");
        }
        let of_names: Vec<u32> = linux.into_iter().chain([attr::RDATTR_ERROR, attr::FILEHANDLE]).collect();
        let listed = rig.listed(&[W, TOP, ONE], &of_names);
        assert_eq!(listed.len(), 2);
        for (name, mask, values) in &listed {
            assert_eq!(*mask, Bitmap::of(&of_names));
            // RDATTR_ERROR and FILEHANDLE stand after FSID: 36 bytes, the status, and the handle.
            let handle = rig.client.handle(&[W, TOP, ONE, name]);
            let (_, all) = rig.client.attrs(&[W, TOP, ONE, name], &linux);
            assert_eq!(values[..36], all[..36], "{}", name.escape_ascii());
            assert_eq!(values[44..44 + handle.len()], handle);
        }
    }
}

#[test]
fn entries_of_a_directory_of_snapshots_have_the_attributes_of_their_roots() {
    let linux = [
        attr::TYPE,
        attr::CHANGE,
        attr::SIZE,
        attr::FSID,
        attr::FILEHANDLE,
        attr::FILEID,
        attr::MODE,
        attr::NUMLINKS,
        attr::OWNER,
        attr::OWNER_GROUP,
        attr::RAWDEV,
        attr::SPACE_USED,
        attr::TIME_ACCESS,
        attr::TIME_METADATA,
        attr::TIME_MODIFY,
        attr::MOUNTED_ON_FILEID,
    ];
    // RDATTR_ERROR makes the client accept errors in entries. There is none.
    let with_errors: Vec<u32> = linux.into_iter().chain([attr::RDATTR_ERROR]).collect();
    for rig in MINORS.map(rig) {
        for dir in [&[W, TOP][..], &[W, D, TOP], &[b"r", D, TOP]] {
            let root = [dir, &[ONE]].concat();
            let (mask, values) = rig.client.attrs(&root, &linux);
            assert_eq!(rig.listed(dir, &linux), [(ONE.to_vec(), mask, values)], "{dir:?} in 4.{}", rig.minor);
            let [(_, mask, values)] = &rig.listed(dir, &with_errors)[..] else { panic!("{dir:?}") };
            assert_eq!(*mask, Bitmap::of(&with_errors));
            // RDATTR_ERROR stands after TYPE, CHANGE, SIZE and FSID.
            assert_eq!(values[36..40], Status::OK.0.to_be_bytes());
        }
    }
}

/// The handle in a listing is one that the client may use without a lookup.
#[test]
fn handles_of_listed_snapshots_lead_into_them_and_back() {
    for rig in MINORS.map(rig) {
        let [(_, _, value)] = &rig.listed(&[W, D, TOP], &[attr::FILEHANDLE])[..] else { panic!() };
        let handle: &[u8] = xdr::Reader::new(value).opaque(128).unwrap();
        assert_eq!(handle, rig.client.handle(&[W, D, TOP, ONE]));
        let up = [put(handle), Argument::Lookupp, Argument::Getfh];
        match rig.client.ask(&up).all().last() {
            Some(OpReply::Getfh(Reply::Ok(ok))) => assert_eq!(ok.object.0, rig.client.handle(&[W, D, TOP])),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn caller_who_may_not_enter_the_directory_gets_errors_in_entries() {
    for mut rig in MINORS.map(rig) {
        chmod(&rig, D, 0o744);
        let handle = rig.client.handle(&[W, D, TOP]);
        rig.client.env.user = (1000, 100);
        let numbers = [attr::TYPE, attr::RDATTR_ERROR, attr::MOUNTED_ON_FILEID];
        let (cookieverf, attr_request) = ([0; 8], Bitmap::of(&numbers));
        let args = ReaddirArgs { cookie: 0, cookieverf, dircount: 0, maxcount: 1 << 16, attr_request };
        let results = rig.client.ask(&[put(&handle), Argument::Readdir(args)]);
        match results.all().last() {
            Some(OpReply::Readdir(Reply::Ok(ReaddirOk { entries, .. }))) => {
                let [entry] = &entries.iter().collect::<Vec<_>>()[..] else { panic!() };
                let known = [attr::RDATTR_ERROR, attr::MOUNTED_ON_FILEID];
                assert_eq!(entry.attrs.attrmask, Bitmap::of(&known), "4.{}", rig.minor);
                assert_eq!(entry.attrs.attr_vals[..4], Status::ACCESS.0.to_be_bytes());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn parents_lead_from_a_view_to_the_live_directory() {
    for rig in MINORS.map(rig) {
        let handle = |path: &[&[u8]]| rig.client.handle(path);
        assert_eq!(rig.up(&[W, D, TOP], 1), handle(&[W, D]));
        assert_eq!(rig.up(&[W, D, TOP, ONE], 1), handle(&[W, D, TOP]));
        assert_eq!(rig.up(&[W, D, TOP, ONE], 2), handle(&[W, D]));
        assert_eq!(rig.up(&[W, TOP, ONE, D], 2), handle(&[W, TOP]));
        assert_eq!(rig.up(&[W, TOP, ONE, D], 3), handle(&[W]));
        assert_eq!(rig.up(&[W, TOP], 1), handle(&[W]));
    }
}

fn create(name: &'static [u8]) -> Argument<'static> {
    let createattrs = Fattr::default();
    Argument::Create(CreateArgs { objtype: CreateType::Directory, objname: name, createattrs })
}

#[test]
fn operations_that_change_a_view_are_refused() {
    let stateid = Stateid::ANONYMOUS;
    let size = 0_u64.to_be_bytes();
    let mode = 0o600_u32.to_be_bytes();
    let set = |number, attr_vals| {
        let obj_attributes = Fattr { attrmask: Bitmap::of(&[number]), attr_vals };
        Argument::Setattr(SetattrArgs { stateid, obj_attributes })
    };
    let range = AllocateArgs { stateid, offset: 0, length: 10 };
    let xattr = SetxattrArgs { option: SetxattrOption::Either, key: b"k", value: XattrValue(b"v") };
    for rig in MINORS.map(rig) {
        let refuses = |path: &[&'static [u8]], operation: Argument<'static>| {
            let status = rig.client.status(&at(path, [operation.clone()]));
            assert_eq!(status, Status::ROFS, "{operation:?} in 4.{}", rig.minor);
        };
        let dirs = [&[W, TOP][..], &[W, TOP, ONE], &[W, TOP, ONE, D], &[W, D, TOP]];
        for dir in dirs {
            refuses(dir, create(b"new"));
            refuses(dir, Argument::Remove(RemoveArgs { target: F }));
            let rename = Argument::Rename(RenameArgs { oldname: F, newname: b"g" });
            assert_eq!(rig.client.status(&at(dir, [Argument::Savefh, rename])), Status::ROFS);
            let mut link = at(OLD, [Argument::Savefh]);
            link.extend(at(dir, [Argument::Link(LinkArgs { newname: b"g" })]));
            assert_eq!(rig.client.status(&link), Status::ROFS);
            let status = rig.client.status(&at(dir, [set(attr::MODE, &mode)]));
            assert_eq!(status, Status::ROFS);
        }
        for operation in [set(attr::MODE, &mode), set(attr::SIZE, &size)] {
            assert_eq!(rig.client.status(&at(OLD, [operation])), Status::ROFS);
        }
        refuses(
            OLD,
            Argument::Write(WriteArgs { stateid, offset: 0, stable: StableHow::Unstable, data: b"x" }),
        );
        refuses(OLD, Argument::Commit(CommitArgs { offset: 0, count: 0 }));
        if rig.minor == 2 {
            refuses(OLD, Argument::Allocate(range));
            let AllocateArgs { stateid, offset, length } = range;
            refuses(OLD, Argument::Deallocate(DeallocateArgs { stateid, offset, length }));
            refuses(OLD, Argument::Setxattr(xattr));
            refuses(OLD, Argument::Removexattr(RemovexattrArgs { name: b"k" }));
        }
        let rights = Access::READ | Access::LOOKUP | Access::MODIFY | Access::EXTEND | Access::DELETE;
        let results = rig.client.ask(&at(&[W, TOP, ONE], [Argument::Access(AccessArgs { access: rights })]));
        match results.all().last() {
            Some(OpReply::Access(Reply::Ok(AccessOk { access, .. }))) => {
                assert_eq!(*access, Access::READ | Access::LOOKUP);
            }
            other => panic!("{other:?}"),
        }
        let xdev: Vec<_> = at(OLD, [Argument::Savefh])
            .into_iter()
            .chain(at(&[W], [Argument::Link(LinkArgs { newname: b"g" })]))
            .collect();
        assert_eq!(rig.client.status(&xdev), Status::XDEV, "a link out of it");
        assert_eq!(rig.contents(OLD, Stateid::ANONYMOUS), Ok(b"old".to_vec()));
    }
}

impl Rig {
    fn open_at(
        &self,
        dir: &[&'static [u8]],
        name: &'static [u8],
        share_access: ShareAccess,
        share_deny: ShareDeny,
        openhow: OpenFlag<'static>,
    ) -> Result<Stateid, Status> {
        let owner = StateOwner { clientid: self.id, owner: b"reader" };
        let claim = nfs_wire::v4::OpenClaim::Null(name);
        let args = nfs_wire::v4::OpenArgs { seqid: 1, share_access, share_deny, owner, openhow, claim };
        let results = self.client.ask(&at(dir, [Argument::Open(args)]));
        let stateid = match results.all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => ok.stateid,
            _ => return Err(results.status()),
        };
        match self.minor {
            0 => self.client.confirm_open(&[dir, &[name]].concat(), stateid, 2),
            _ => Ok(stateid),
        }
    }
}

#[test]
fn opens_of_a_view_read_and_deny_nothing() {
    const DIR: &[&[u8]] = &[W, TOP, ONE];
    for minor in MINORS {
        let (no, read) = (OpenFlag::NoCreate, ShareAccess::READ);
        for access in [ShareAccess::WRITE, ShareAccess::BOTH] {
            assert_eq!(
                rig(minor).open_at(DIR, F, access, ShareDeny::NONE, no),
                Err(Status::ROFS),
                "4.{minor}"
            );
        }
        for deny in [ShareDeny::WRITE, ShareDeny::READ, ShareDeny::BOTH] {
            assert_eq!(rig(minor).open_at(DIR, F, read, deny, no), Err(Status::ROFS), "4.{minor}");
        }
        let none = Fattr::default();
        let mut ways =
            vec![CreateHow::Unchecked(none), CreateHow::Guarded(none), CreateHow::Exclusive([7; 8])];
        if minor > 0 {
            ways.push(CreateHow::Exclusive41(CreatVerfAttr { verf: [7; 8], attrs: none }));
        }
        for how in ways {
            let made =
                rig(minor).open_at(DIR, b"new", ShareAccess::BOTH, ShareDeny::NONE, OpenFlag::Create(how));
            assert_eq!(made, Err(Status::ROFS), "{how:?} in 4.{minor}");
        }
        let rig = rig(minor);
        let open_stateid = rig.open_at(DIR, F, read, ShareDeny::NONE, no).unwrap();
        let lock_owner = StateOwner { clientid: rig.id, owner: b"l" };
        let lock = |locktype, seqid| {
            let new = OpenToLockOwner { open_seqid: seqid, open_stateid, lock_seqid: 0, lock_owner };
            let (reclaim, locker) = (false, Locker::New(new));
            let args = LockArgs { locktype, reclaim, offset: 0, length: 1, locker };
            let results = rig.client.ask(&at(OLD, [Argument::Lock(args)]));
            match results.all().last() {
                Some(OpReply::Lock(LockReply::Ok(_))) => Status::OK,
                _ => results.status(),
            }
        };
        assert_eq!(lock(LockType::Write, 3), Status::OPENMODE, "4.{minor}");
        assert_eq!(lock(LockType::Read, 4), Status::OK, "4.{minor}");
        assert_eq!(rig.contents(OLD, open_stateid), Ok(b"old".to_vec()));
        assert!(rig.open(W, ShareAccess::BOTH, ShareDeny::WRITE).is_ok(), "the live file is another one");
    }
}

#[test]
fn file_that_is_open_when_its_snapshot_is_deleted_is_stale_and_closed() {
    for rig in [1, 2].map(rig) {
        let stateid =
            rig.open_at(&[W, TOP, ONE], F, ShareAccess::READ, ShareDeny::NONE, OpenFlag::NoCreate).unwrap();
        let handle = rig.client.handle(OLD);
        rig.volume.set_snapshots(Vec::new());
        let read = Argument::Read(ReadArgs { stateid, offset: 0, count: 10 });
        assert_eq!(rig.client.status(&[put(&handle), read]), Status::STALE);
        let close = Argument::Close(CloseArgs { seqid: 0, open_stateid: stateid });
        assert_eq!(rig.client.status(&[put(&handle), close]), Status::OK);
        assert_eq!(rig.client.status(&[put(&handle)]), Status::STALE);
    }
}

fn chmod(rig: &Rig, name: &[u8], mode: u32) {
    let root = Arc::new(Export::new("/x", Arc::clone(&rig.volume), vec![])).root();
    let (caller, set) = (Caller::new(0, 0, []), SetAttrs { mode: Some(mode), ..SetAttrs::default() });
    let dir = root.open_dir(&caller, vfs::Blocking::Allowed).unwrap();
    let file = dir.lookup(name, vfs::Blocking::Allowed).unwrap().file;
    file.set_attrs(&caller, &set, None, &mut PendingSync::default()).unwrap();
}

#[test]
fn rights_in_a_view_are_those_of_its_time_also_for_squashed_users() {
    for minor in MINORS {
        let fs = MemFs::new(Arc::new(|| NOW));
        let mut rig = Rig::over(minor, fs.clone());
        chmod(&rig, F, 0o600);
        snapshot(&fs, &rig.volume, 1, "one");
        chmod(&rig, F, 0o644);
        let is_refused = |rig: &Rig| {
            let live = rig.contents(&[W, F], Stateid::ANONYMOUS);
            assert_eq!(live, Ok(Vec::new()), "it is open to all now");
            let by_name =
                rig.open_at(&[W, TOP, ONE], F, ShareAccess::READ, ShareDeny::NONE, OpenFlag::NoCreate);
            rig.contents(OLD, Stateid::ANONYMOUS) == Err(Status::ACCESS) && by_name == Err(Status::ACCESS)
        };
        rig.client.env.user = (1000, 100);
        assert!(is_refused(&rig), "4.{minor}");
        rig.client.env.user = (0, 0);
        assert_eq!(rig.contents(OLD, Stateid::ANONYMOUS), Ok(Vec::new()));
        rig.serve(Some(ExportRule { squash: Squash::Root, ..rule(&[]) }));
        assert!(is_refused(&rig), "4.{minor}");
    }
}

#[test]
fn hidden_and_forged_views_are_not_reached() {
    for rig in MINORS.map(rig) {
        let handles = [&[W, TOP][..], &[W, TOP, ONE], OLD].map(|path| rig.client.handle(path));
        for handle in &handles {
            let mut forged = handle.clone();
            forged[20] ^= 2;
            assert_eq!(rig.client.status(&[put(&forged)]), Status::BADHANDLE);
        }
        rig.volume.set_snapshot_directory(SnapshotDirectory::Hidden);
        for handle in &handles {
            assert_eq!(rig.client.status(&[put(handle)]), Status::STALE, "4.{}", rig.minor);
        }
        assert_eq!(rig.client.status(&at(&[W, TOP], [])), Status::NOENT);
        assert!(rig.listed(&[W], &[attr::FILEID]).iter().all(|(name, ..)| name != TOP));
        rig.volume.set_snapshot_directory(SnapshotDirectory::Listed);
        let numbers = [attr::FSID, attr::FILEID, attr::MOUNTED_ON_FILEID];
        let listed = rig.listed(&[W], &numbers);
        let (_, _, values) = listed.iter().find(|(name, ..)| name == TOP).unwrap();
        assert_eq!(*values, rig.client.attrs(&[W, TOP], &numbers).1);
        assert!(rig.listed(&[W, D], &[attr::FILEID]).is_empty(), "in the root alone");
    }
}

fn between(rig: &Rig, from: &[&'static [u8]], to: &[&'static [u8]], operation: &Argument<'static>) -> Status {
    let (from, to) = (rig.client.handle(from), rig.client.handle(to));
    let asked = [put(&from), Argument::Savefh, put(&to), operation.clone()];
    let results = rig.client.ask(&asked);
    match results.all().last() {
        Some(OpReply::Copy(CopyReply::Ok(ok))) => assert_eq!(ok.response.count, 3),
        Some(OpReply::Clone(_) | OpReply::Copy(_)) => {}
        other => panic!("{other:?}"),
    }
    results.status()
}

#[test]
fn holes_and_extended_attributes_of_a_view_are_read() {
    let rig = rig(2);
    let live = Argument::Setxattr(SetxattrArgs {
        option: SetxattrOption::Create,
        key: b"later",
        value: XattrValue(b"v"),
    });
    assert_eq!(rig.client.status(&at(&[W, F], [live])), Status::OK);
    let get = || Argument::Getxattr(GetxattrArgs { name: b"later" });
    assert_eq!(rig.client.status(&at(&[W, F], [get()])), Status::OK);
    assert_eq!(rig.client.status(&at(OLD, [get()])), Status::NOXATTR, "it had none then");
    let list = Argument::Listxattrs(ListxattrsArgs { cookie: 0, maxcount: 4096 });
    let stateid = Stateid::ANONYMOUS;
    let seek = Argument::Seek(SeekArgs { stateid, offset: 0, what: DataContent::Hole as u32 });
    let read = Argument::ReadPlus(ReadPlusArgs { stateid, offset: 0, count: 100 });
    assert_eq!(rig.client.status(&at(OLD, [list, seek, read])), Status::OK);
}

#[test]
fn files_are_copied_and_cloned_out_of_a_view_and_not_into_it() {
    let (src_stateid, dst_stateid) = (Stateid::ANONYMOUS, Stateid::ANONYMOUS);
    let clone = CloneArgs { src_stateid, dst_stateid, src_offset: 0, dst_offset: 0, count: 0 };
    for operation in [Argument::Copy(copying(0, true)), Argument::Clone(clone)] {
        let rig = rig(2);
        assert_eq!(between(&rig, &[W, F], OLD, &operation), Status::ROFS, "{operation:?}");
        assert_eq!(between(&rig, OLD, OLD, &operation), Status::ROFS, "{operation:?}");
        assert_eq!(rig.contents(&[W, F], Stateid::ANONYMOUS), Ok(b"new".to_vec()));
        assert_eq!(between(&rig, OLD, &[W, F], &operation), Status::OK, "{operation:?}");
        assert_eq!(rig.contents(&[W, F], Stateid::ANONYMOUS), Ok(b"old".to_vec()), "{operation:?}");
    }
}

#[test]
fn read_delegation_of_a_view_is_granted_and_never_recalled() {
    let fs = MemFs::new(Arc::new(|| NOW));
    let backend = Arc::new(fs.clone());
    let mut rig = BackRig::with(|_| Volume::new(VolumeId(1), "e", backend, Durability::Sync, 1));
    snapshot(&fs, &rig.volume, 1, "one");
    let path: &[&[u8]] = &[b"e", TOP, ONE];
    let args = crate::testing::v4::opening(nfs_wire::v4::OpenClaim::Null(F), ShareAccess::READ);
    let results = rig.client.ask(&at(path, [Argument::Open(args)]));
    let deleg_stateid = match results.all().last() {
        Some(OpReply::Open(Reply::Ok(OpenOk { delegation: OpenDelegation::Read(read), .. }))) => read.stateid,
        other => panic!("{other:?}"),
    };
    assert_eq!(rig.write(F), Ok(OpenDelegation::None), "the live file is another one");
    let remove = Argument::Remove(RemoveArgs { target: F });
    assert_eq!(rig.as_writer(|rig| rig.client.status(&at(&[b"e"], [remove]))), Status::OK);
    assert!(rig.is_silent());
    let give_back = Argument::Delegreturn(DelegreturnArgs { deleg_stateid });
    assert_eq!(rig.client.status(&at(&[b"e", TOP, ONE, F], [give_back])), Status::OK);
    // A write delegation is not offered, because the open is refused.
    rig.client.env.service.v4.delegates_writing = true;
    let args = crate::testing::v4::opening(nfs_wire::v4::OpenClaim::Null(F), ShareAccess::BOTH);
    assert_eq!(rig.client.status(&at(path, [Argument::Open(args)])), Status::ROFS);
}
