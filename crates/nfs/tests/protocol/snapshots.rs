//! Snapshots below `.snapshot`: file systems of their own, read-only, reached by name.

use crate::handles::{Encoded, assert_all_refused, every_call};
use crate::support::object::name;
use crate::support::{ALICE, Auth, BOB, OTHER, ROOT, VOLUME, World, decode, trusting};
use nfs::handle::HandleSigner;
use nfs::handle::cache::HandleCache;
use nfs_wire::v3::{
    Access, AccessArgs, AccessReply, CommitArgs, DirOpArgs, Fattr, FileHandle, FsinfoReply, FsstatArgs,
    FsstatReply, GetattrArgs, GetattrReply, LinkArgs, LookupArgs, LookupReply, PathconfArgs, PathconfReply,
    Procedure, ReadArgs, ReadReply, ReaddirArgs, ReaddirReply, ReaddirplusArgs, ReaddirplusReply, RenameArgs,
    Reply, Status,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Backend, Blocking, ExportRule, Snapshot, SnapshotDirectory, Squash, Time, ViewId, Volume, VolumeId,
};
use xdr::Encode;

/// An object as LOOKUP returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) handle: Vec<u8>,
    fattr: Fattr,
}

impl Found {
    fn fh(&self) -> FileHandle<'_> {
        FileHandle(&self.handle)
    }

    fn fsid(&self) -> u64 {
        self.fattr.fsid
    }
}

impl World {
    pub(crate) fn volume_of(&self, id: VolumeId) -> Arc<Volume> {
        let exports = self.namespace.exports();
        Arc::clone(&exports.iter().find(|export| export.volume.id() == id).unwrap().volume)
    }

    /// Makes a snapshot of a volume and adds it to the list.
    fn snapshot_of(&self, id: VolumeId, view: u32, name: &str) {
        let (fs, volume) = (if id == VOLUME { &self.fs } else { &self.other }, self.volume_of(id));
        fs.snapshots().unwrap().create(ViewId(view)).unwrap();
        let created = Time { seconds: 1_000_100_000 + i64::from(view), nanos: 0 };
        let mut all: Vec<_> = volume.snapshots().iter().cloned().collect();
        all.push(Snapshot { view: ViewId(view), name: name.to_owned(), created });
        volume.set_snapshots(all);
    }

    pub(crate) fn snapshot(&self, view: u32, name: &str) {
        self.snapshot_of(VOLUME, view, name);
    }

    fn try_lookup(&mut self, auth: Auth, dir: &[u8], name: &[u8]) -> Result<Found, Status> {
        let reply =
            self.ask(auth, Procedure::LOOKUP, &LookupArgs { what: DirOpArgs { dir: FileHandle(dir), name } });
        match decode::<LookupReply<'_>>(&reply) {
            Reply::Ok(ok) => {
                let found = Found { handle: ok.object.0.to_vec(), fattr: ok.obj_attributes.unwrap() };
                assert_eq!(self.getattr(&found.handle), Ok(found.fattr), "{}", name.escape_ascii());
                Ok(found)
            }
            Reply::Err(status, _) => Err(status),
        }
    }

    /// Looks up a path below the root of the volume.
    fn try_walk(&mut self, auth: Auth, path: &str) -> Result<Found, Status> {
        let root = self.root();
        let start = Found { handle: root.bytes().to_vec(), fattr: root.fattr() };
        path.split('/').try_fold(start, |dir, name| self.try_lookup(auth, &dir.handle, name.as_bytes()))
    }

    pub(crate) fn walk(&mut self, path: &str) -> Found {
        self.try_walk(ROOT, path).unwrap_or_else(|status| panic!("{path}: {status:?}"))
    }

    fn getattr(&mut self, handle: &[u8]) -> Result<Fattr, Status> {
        let reply = self.ask(ROOT, Procedure::GETATTR, &GetattrArgs { object: FileHandle(handle) });
        match decode::<GetattrReply>(&reply) {
            Reply::Ok(ok) => Ok(ok.obj_attributes),
            Reply::Err(status, ()) => Err(status),
        }
    }

    fn read(&mut self, auth: Auth, file: &Found) -> Result<Vec<u8>, Status> {
        let reply = self.ask(auth, Procedure::READ, &ReadArgs { file: file.fh(), offset: 0, count: 4096 });
        match decode::<ReadReply<'_>>(&reply) {
            Reply::Ok(ok) => {
                assert_eq!(ok.file_attributes.unwrap().fsid, file.fsid());
                Ok(ok.data.to_vec())
            }
            Reply::Err(status, _) => Err(status),
        }
    }

    /// Names and file ids, one entry a call.
    fn list(&mut self, dir: &Found) -> Vec<(String, u64)> {
        let (mut entries, mut cookie, mut cookies) = (Vec::new(), 0, BTreeSet::new());
        loop {
            // Room for the head and one entry.
            let args = ReaddirArgs { dir: dir.fh(), cookie, cookieverf: [9; 8], count: 160 };
            let reply = self.ask(ROOT, Procedure::READDIR, &args);
            let Reply::Ok(ok) = decode::<ReaddirReply<'_>>(&reply) else { panic!("{reply:?}") };
            assert_eq!(ok.dir_attributes, Some(dir.fattr));
            for entry in ok.entries.iter() {
                cookie = entry.cookie;
                assert!(cookies.insert(cookie), "cookies are unique");
                entries.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.fileid));
            }
            if ok.eof {
                return entries;
            }
        }
    }
}

/// A world with `dir/file` ("old") and `dir/sub`, a snapshot `one`, and other data in the live file.
fn world() -> World {
    let w = World::new();
    populate(&w);
    w
}

fn populate(w: &World) {
    let dir = w.dir(&w.root(), "dir", 0o755);
    let file = w.file(&dir, "file", 0o644, b"old");
    w.dir(&dir, "sub", 0o755);
    w.snapshot(1, "one");
    file.node.write(0, b"new", KEEP_SET_ID).unwrap();
}

#[test]
fn snapshot_is_a_file_system_of_its_own_with_the_file_ids_of_live_files() {
    let mut w = world();
    w.snapshot(2, "two");
    w.snapshot_of(OTHER, 1, "one");
    let live = w.walk("dir/file");
    let old = w.walk("dir/.snapshot/one/file");
    assert_eq!((w.read(BOB, &old), w.read(BOB, &live)), (Ok(b"old".to_vec()), Ok(b"new".to_vec())));
    assert_eq!((old.fattr.fileid, live.fsid()), (live.fattr.fileid, VOLUME.0));
    assert_eq!(w.walk(".snapshot/one/dir/file"), old, "one file has one handle");
    assert_eq!(w.walk("dir/.snapshot").fsid(), VOLUME.0);
    let other = w.other_root().bytes().to_vec();
    let other = w.try_lookup(ROOT, &other, b".snapshot").unwrap();
    let others = w.try_lookup(ROOT, &other.handle, b"one").unwrap();
    let ids = [live.fsid(), OTHER.0, old.fsid(), w.walk(".snapshot/two").fsid(), others.fsid()];
    assert_eq!(BTreeSet::from(ids).len(), ids.len(), "{ids:x?}");
}

#[test]
fn every_reply_about_a_view_has_its_file_system_id() {
    let mut w = world();
    let dir = w.walk("dir/.snapshot/one");
    let fsid = dir.fsid();
    let fsroot = FsstatArgs { fsroot: dir.fh() };
    let reply = w.ask(BOB, Procedure::FSSTAT, &fsroot);
    let Reply::Ok(stat) = decode::<FsstatReply>(&reply) else { panic!() };
    assert_eq!(stat.obj_attributes, Some(dir.fattr));
    let reply = w.ask(BOB, Procedure::FSINFO, &fsroot);
    let Reply::Ok(info) = decode::<FsinfoReply>(&reply) else { panic!() };
    assert_eq!(info.obj_attributes, Some(dir.fattr));
    let reply = w.ask(BOB, Procedure::PATHCONF, &PathconfArgs { object: dir.fh() });
    let Reply::Ok(conf) = decode::<PathconfReply>(&reply) else { panic!() };
    assert_eq!(conf.obj_attributes, Some(dir.fattr));
    let args =
        ReaddirplusArgs { dir: dir.fh(), cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 4096 };
    let reply = w.ask(BOB, Procedure::READDIRPLUS, &args);
    let Reply::Ok(ok) = decode::<ReaddirplusReply<'_>>(&reply) else { panic!() };
    let entries: Vec<_> = ok.entries.iter().collect();
    assert_eq!(
        entries.iter().map(|entry| entry.name).collect::<Vec<_>>(),
        [&b"."[..], b"..", b"file", b"sub"]
    );
    for entry in &entries[2..] {
        let found = w.try_lookup(BOB, &dir.handle, entry.name).unwrap();
        assert_eq!((entry.name_attributes, entry.fileid), (Some(found.fattr), found.fattr.fileid));
        assert_eq!((entry.name_handle, found.fsid()), (Some(found.fh()), fsid));
    }
}

/// An lstat before the client has mounted the other file system must not find the number of the directory above.
#[test]
fn entries_of_a_directory_of_snapshots_do_not_look_like_a_loop() {
    let mut w = world();
    w.snapshot(2, "two");
    let (live, top) = (w.walk("dir"), w.walk("dir/.snapshot"));
    assert_ne!(top.fattr.fileid, live.fattr.fileid);
    let listed = w.list(&top);
    assert_eq!(listed[..2], [(".".into(), top.fattr.fileid), ("..".into(), live.fattr.fileid)]);
    for (name, file_id) in &listed[2..] {
        let entry = w.try_lookup(ROOT, &top.handle, name.as_bytes()).unwrap();
        assert_eq!(entry.fattr.fileid, *file_id, "{name}");
        assert!(![live.fattr.fileid, top.fattr.fileid].contains(file_id));
        assert_eq!(w.list(&entry)[0], (".".into(), *file_id));
        // Inside, all numbers are those of the live files.
        let sub = w.try_lookup(ROOT, &entry.handle, b"sub").unwrap();
        assert_eq!(sub.fattr.fileid, w.walk("dir/sub").fattr.fileid);
    }
    let names: Vec<_> = listed.iter().skip(2).map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn directory_of_snapshots_lists_the_roots_that_lookups_find() {
    let mut w = world();
    // A directory that is in the second snapshot alone, though it is older by its times.
    let young = w.dir(&w.root(), "young", 0o755);
    w.snapshot(2, "two");
    let top = w.walk("dir/.snapshot");
    let args =
        ReaddirplusArgs { dir: top.fh(), cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 4096 };
    let reply = w.ask(BOB, Procedure::READDIRPLUS, &args);
    let Reply::Ok(ok) = decode::<ReaddirplusReply<'_>>(&reply) else { panic!() };
    let entries: Vec<_> = ok.entries.iter().collect();
    assert_eq!(entries.iter().skip(2).map(|entry| entry.name).collect::<Vec<_>>(), [&b"one"[..], b"two"]);
    for entry in &entries[2..] {
        let found = w.try_lookup(BOB, &top.handle, entry.name).unwrap();
        assert_eq!((entry.name_attributes, entry.fileid), (Some(found.fattr), found.fattr.fileid));
        assert_eq!(entry.name_handle, Some(found.fh()));
        assert_ne!(found.fsid(), top.fsid());
    }
    let young = w.try_lookup(ROOT, young.bytes(), b".snapshot").unwrap();
    let reply = w.ask(BOB, Procedure::READDIRPLUS, &ReaddirplusArgs { dir: young.fh(), ..args });
    let Reply::Ok(ok) = decode::<ReaddirplusReply<'_>>(&reply) else { panic!() };
    assert_eq!(ok.entries.iter().map(|entry| entry.name).collect::<Vec<_>>(), [&b"."[..], b"..", b"two"]);
}

/// A listing that ends after each entry goes on with the next.
#[test]
fn listing_of_roots_fits_any_reply() {
    let mut w = world();
    (2..20).for_each(|view| w.snapshot(view, &format!("s{view}")));
    let top = w.walk("dir/.snapshot");
    let (mut cookie, mut names) = (0, Vec::new());
    loop {
        let args =
            ReaddirplusArgs { dir: top.fh(), cookie, cookieverf: [0; 8], dircount: 4096, maxcount: 700 };
        let reply = w.ask(BOB, Procedure::READDIRPLUS, &args);
        assert!(reply.len() <= 700 + 4);
        let Reply::Ok(ok) = decode::<ReaddirplusReply<'_>>(&reply) else { panic!() };
        names.extend(ok.entries.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()));
        cookie = ok.entries.iter().last().map_or(cookie, |entry| entry.cookie);
        if ok.eof {
            break;
        }
    }
    assert_eq!(names.len(), 21);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 21);
}

#[test]
fn listing_goes_on_after_a_snapshot_that_is_gone() {
    let mut w = world();
    w.snapshot(2, "two");
    w.snapshot(3, "three");
    let top = w.walk(".snapshot");
    let args = ReaddirArgs { dir: top.fh(), cookie: 0, cookieverf: [0; 8], count: 4096 };
    let reply = w.ask(ROOT, Procedure::READDIR, &args);
    let Reply::Ok(ok) = decode::<ReaddirReply<'_>>(&reply) else { panic!() };
    let two = ok.entries.iter().find(|entry| entry.name == b"two").unwrap().cookie;
    let volume = w.volume_of(VOLUME);
    volume.set_snapshots(volume.snapshots().iter().filter(|one| one.name != "two").cloned().collect());
    let args = ReaddirArgs { cookie: two, ..args };
    let reply = w.ask(ROOT, Procedure::READDIR, &args);
    let Reply::Ok(ok) = decode::<ReaddirReply<'_>>(&reply) else { panic!() };
    assert_eq!(ok.entries.iter().map(|entry| entry.name).collect::<Vec<_>>(), [b"three"]);
    assert_ne!(ok.dir_attributes, Some(top.fattr), "clients list it again");
}

#[test]
fn nothing_in_a_view_changes_and_access_offers_no_change() {
    let mut w = world();
    let added = w.pending.added();
    for (path, is_dir) in
        [("dir/.snapshot", true), ("dir/.snapshot/one", true), ("dir/.snapshot/one/file", false)]
    {
        let object = w.walk(path);
        for (procedure, args, words) in every_call(&object.handle) {
            let on_file = matches!(procedure, Procedure::WRITE | Procedure::COMMIT);
            if words < 2 || (on_file == is_dir && procedure != Procedure::SETATTR) {
                continue;
            }
            let reply = w.ask(ROOT, procedure, &Encoded(&args));
            assert_eq!(reply[..4], Status::ROFS.to_bytes(), "{procedure:?} in {path}");
            assert_eq!(w.getattr(&object.handle), Ok(object.fattr), "{procedure:?}");
        }
        let reply = w.ask(ROOT, Procedure::ACCESS, &AccessArgs { object: object.fh(), access: Access(0x3f) });
        let Reply::Ok(ok) = decode::<AccessReply>(&reply) else { panic!() };
        let expected = if is_dir { Access::READ | Access::LOOKUP } else { Access::READ };
        assert_eq!((ok.access, ok.obj_attributes), (expected, Some(object.fattr)), "{path}");
    }
    assert_eq!(w.pending.added(), added, "nothing needs a flush");
}

#[test]
fn links_and_renames_do_not_cross_the_border_of_a_view() {
    let mut w = world();
    let (live, view) = (w.walk("dir"), w.walk("dir/.snapshot/one"));
    let (old, new) = (w.walk("dir/.snapshot/one/file"), w.walk("dir/file"));
    let mut link = |file: &Found, dir: &Found| {
        let link = DirOpArgs { dir: dir.fh(), name: b"link" };
        w.ask(ROOT, Procedure::LINK, &LinkArgs { file: file.fh(), link })[..4].to_vec()
    };
    assert_eq!(link(&old, &live), Status::XDEV.to_bytes());
    assert_eq!(link(&new, &view), Status::ROFS.to_bytes());
    assert_eq!(link(&old, &view), Status::ROFS.to_bytes());
    let mut rename = |from: &Found, to: &Found| {
        let [from, to] =
            [(from, &b"file"[..]), (to, b"moved")].map(|(dir, name)| DirOpArgs { dir: dir.fh(), name });
        w.ask(ROOT, Procedure::RENAME, &RenameArgs { from, to })[..4].to_vec()
    };
    for (from, to) in [(&view, &live), (&live, &view), (&view, &view)] {
        let status = rename(from, to);
        assert!([Status::ROFS, Status::XDEV].map(|status| status.to_bytes()).contains(&status), "{status:?}");
    }
    assert_eq!(w.walk("dir/file"), new);
}

#[test]
fn handles_of_a_view_outlive_a_restart_and_end_with_the_snapshot() {
    let mut w = world();
    let (old, entry, top) =
        (w.walk("dir/.snapshot/one/file"), w.walk("dir/.snapshot/one"), w.walk(".snapshot"));
    let objects = [&old, &entry, &top];
    // Another process over the same storage, with the same key and list.
    let mut again = World::new();
    again.fs = w.fs.clone();
    let volume = crate::support::volume(VOLUME, Arc::new(w.fs.clone()), vfs::Durability::Sync);
    volume.set_snapshots(w.volume_of(VOLUME).snapshots().iter().cloned().collect());
    let export = vfs::Export::new("/vol", volume, vec![trusting()]);
    again.namespace = Arc::new(vfs::Namespace::new([export]));
    again.service = crate::support::service(Arc::clone(&again.namespace));
    for object in objects {
        assert_eq!(again.getattr(&object.handle), Ok(object.fattr));
    }
    assert_eq!(again.read(BOB, &old), Ok(b"old".to_vec()));
    w.cache = Some(HandleCache::new(64, 64, 16));
    w.getattr(&old.handle).unwrap();
    w.volume_of(VOLUME).set_snapshots(Vec::new());
    for object in [&old, &entry] {
        assert_all_refused(&mut w, &object.handle, Status::STALE);
    }
    assert!(w.getattr(&top.handle).is_ok());
    assert_eq!(w.try_walk(ROOT, ".snapshot/one"), Err(Status::NOENT));
}

#[test]
fn hiding_snapshots_ends_the_access_of_cached_handles_too() {
    let mut w = world();
    w.cache = Some(HandleCache::new(64, 64, 16));
    w.clock.advance_ms(1000);
    let objects = ["dir/.snapshot", "dir/.snapshot/one", "dir/.snapshot/one/file"].map(|path| w.walk(path));
    w.volume_of(VOLUME).set_snapshot_directory(SnapshotDirectory::Hidden);
    for object in &objects {
        assert_all_refused(&mut w, &object.handle, Status::STALE);
    }
    assert_eq!(w.try_walk(ROOT, "dir/.snapshot"), Err(Status::NOENT));
    w.volume_of(VOLUME).set_snapshot_directory(SnapshotDirectory::Reachable);
    assert_eq!(w.walk("dir/.snapshot"), objects[0], "no absence is cached");
    assert_eq!(w.getattr(&objects[2].handle), Ok(objects[2].fattr));
}

#[test]
fn only_the_setting_lists_the_directory_in_the_root() {
    let mut w = world();
    let listed = |w: &mut World| {
        let root = w.root();
        let root = Found { handle: root.bytes().to_vec(), fattr: root.fattr() };
        let entries = w.list(&root);
        (entries.iter().any(|(name, _)| name == ".snapshot"), entries)
    };
    assert!(!listed(&mut w).0);
    w.volume_of(VOLUME).set_snapshot_directory(SnapshotDirectory::Listed);
    let (is_listed, entries) = listed(&mut w);
    assert!(is_listed);
    let file_id = entries.iter().find(|(name, _)| name == ".snapshot").unwrap().1;
    assert_eq!(w.walk(".snapshot").fattr.fileid, file_id);
    let dir = w.walk("dir");
    assert!(w.list(&dir).iter().all(|(name, _)| name != ".snapshot"));
}

#[test]
fn handle_with_a_forged_view_is_bad_and_a_view_of_another_volume_is_not_reached() {
    let mut w = world();
    w.snapshot_of(OTHER, 7, "seven");
    let old = w.walk("dir/.snapshot/one/file");
    let live = w.walk("dir/file");
    let view = 17..21;
    for bytes in [[0, 0, 0, 0], [0, 0, 0, 7], [0xff; 4], [0x80, 0, 0, 1]] {
        for honest in [&old, &live] {
            let mut forged = honest.handle.clone();
            if forged[view.clone()] == bytes {
                continue;
            }
            forged[view.clone()].copy_from_slice(&bytes);
            assert_all_refused(&mut w, &forged, Status::BADHANDLE);
        }
    }
    // Views that the service would have to have signed itself.
    let key = w.find(&w.find(&w.root(), "dir"), "file").node.key();
    let signer = HandleSigner::new([7; 16]);
    for view in [ViewId(7), ViewId::MAX, ViewId(7).entry(), ViewId(1 << 31)] {
        let handle = signer.sign(VOLUME.into(), &key.in_view(view));
        assert_all_refused(&mut w, handle.bytes(), Status::STALE);
    }
}

#[test]
fn rights_in_a_view_are_those_of_its_time() {
    let mut w = World::with_rule(ExportRule { squash: Squash::Root, ..trusting() });
    let root = w.root();
    let closed = w.dir(&root, "closed", 0o700);
    w.file(&closed, "file", 0o644, b"secret");
    let open = w.dir(&root, "open", 0o755);
    let file = w.file(&open, "file", 0o600, b"private");
    w.snapshot(1, "one");
    // Opened later: that opens nothing in the snapshot.
    let everyone = vfs::SetAttrs { mode: Some(0o777), ..vfs::SetAttrs::default() };
    closed.node.set_attrs(&everyone).unwrap();
    file.node.set_attrs(&everyone).unwrap();
    for auth in [BOB, ROOT] {
        assert_eq!(w.try_walk(auth, ".snapshot/one/closed/file"), Err(Status::ACCES), "{auth:?}");
        assert_eq!(w.try_walk(auth, "closed/.snapshot/one/file"), Err(Status::ACCES), "{auth:?}");
        let old = w.try_walk(auth, "open/.snapshot/one/file").unwrap();
        assert_eq!(w.read(auth, &old), Err(Status::ACCES), "{auth:?}");
    }
    let old = w.try_walk(ALICE, "closed/.snapshot/one/file").unwrap();
    assert_eq!(w.read(ALICE, &old), Ok(b"secret".to_vec()));
    // And closed later: the live directory no longer leads anywhere.
    let owner = vfs::SetAttrs { mode: Some(0o700), ..vfs::SetAttrs::default() };
    open.node.set_attrs(&owner).unwrap();
    assert_eq!(w.try_walk(BOB, "open/.snapshot"), Err(Status::ACCES));
    assert!(w.try_walk(BOB, ".snapshot/one/open").is_ok());
}

#[test]
fn read_only_export_and_foreign_client_see_views_by_its_rules() {
    let mut w = World::with_rule(ExportRule { read_only: true, ..trusting() });
    populate(&w);
    let old = w.walk("dir/.snapshot/one/file");
    assert_eq!(w.read(BOB, &old), Ok(b"old".to_vec()));
    let reply = w.ask(ROOT, Procedure::COMMIT, &CommitArgs { file: old.fh(), offset: 0, count: 0 });
    assert_eq!(reply[..4], Status::ROFS.to_bytes());
    let rule = ExportRule { clients: vec!["10.0.0.0/8".parse().unwrap()], ..trusting() };
    let mut w = World::with_rule(rule);
    populate(&w);
    w.peer = "10.1.2.3:700".parse().unwrap();
    let old = w.walk("dir/.snapshot/one/file");
    w.peer = "11.1.2.3:700".parse().unwrap();
    assert_all_refused(&mut w, &old.handle, Status::ACCES);
}

#[test]
fn file_of_the_name_comes_first() {
    let mut w = World::new();
    let own = w.file(&w.root(), ".snapshot", 0o644, b"mine");
    w.snapshot(1, "one");
    let found = w.walk(".snapshot");
    assert_eq!(found.handle, own.bytes());
    assert_eq!(w.root().node.lookup(name(".snapshot"), Blocking::Allowed).unwrap().attrs, own.attrs());
}
