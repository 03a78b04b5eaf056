//! Several exports of one volume: each handle is checked against the rules of its own export.

use crate::support::{ALICE, Auth, BOB, Object, VOLUME, World, decode, trusting};
use nfs::handle::cache::HandleCache;
use nfs_wire::v3::{
    CreateArgs, CreateHow, CreateReply, DirOpArgs, FileHandle, GetattrArgs, LinkArgs, LookupArgs,
    LookupReply, Procedure, ReadArgs, ReaddirplusArgs, ReaddirplusReply, RenameArgs, Reply, Sattr,
    SetattrArgs, StableHow, Status, WriteArgs,
};
use std::sync::Arc;
use vfs::{Export, ExportId, ExportRule, Namespace, Squash, Volume};
use xdr::Encode;

/// The second export.
const NARROW: ExportId = ExportId(0x0909);
const INSIDER: &str = "10.0.0.1:700";

fn serve(w: &mut World, exports: Vec<Export>) {
    let new = Namespace::new(exports);
    if let Some(cache) = &mut w.cache {
        cache.change(&w.namespace, &new);
    }
    w.namespace = Arc::new(new);
}

/// A volume with two exports: its own number with rule `wide`, and [`NARROW`] with rule `narrow`.
fn world(wide: ExportRule, narrow: ExportRule) -> World {
    let mut w = World::new();
    w.cache = Some(HandleCache::new(64, 64, 16));
    let volume = Arc::clone(&w.namespace.volume(VOLUME).unwrap().volume);
    let second = Export { id: NARROW, ..Export::new("/narrow", Arc::clone(&volume), vec![narrow]) };
    serve(&mut w, vec![Export::new("/vol", volume, vec![wide]), second]);
    w
}

/// The handle of a file in the second export.
fn narrow(w: &World, object: &Object) -> Vec<u8> {
    w.service.signer.sign(NARROW, &object.node.key()).bytes().to_vec()
}

fn status(results: &[u8]) -> Status {
    Status(u32::from_be_bytes(results[..4].try_into().unwrap()))
}

fn getattr(w: &mut World, auth: Auth, file: &[u8]) -> Status {
    status(&w.ask(auth, Procedure::GETATTR, &GetattrArgs { object: FileHandle(file) }))
}

fn read(w: &mut World, auth: Auth, file: &[u8]) -> Status {
    let args = ReadArgs { file: FileHandle(file), offset: 0, count: 10 };
    status(&w.ask(auth, Procedure::READ, &args))
}

fn write(w: &mut World, auth: Auth, file: &[u8]) -> Status {
    let (file, data) = (FileHandle(file), b"x");
    let args = WriteArgs { file, offset: 0, count: 1, stable: StableHow::Unstable, data };
    status(&w.ask(auth, Procedure::WRITE, &args))
}

#[test]
fn a_handle_admits_only_clients_of_its_export() {
    let insiders = ExportRule { clients: vec!["10.0.0.0/8".parse().unwrap()], ..trusting() };
    let mut w = world(trusting(), insiders);
    let file = w.file(&w.root(), "file", 0o666, b"data");
    let handle = narrow(&w, &file);
    for _ in 0..2 {
        assert_eq!(getattr(&mut w, ALICE, file.bytes()), Status::OK);
        assert_eq!(getattr(&mut w, ALICE, &handle), Status::ACCES, "though the other one admits the client");
        let outside = std::mem::replace(&mut w.peer, INSIDER.parse().unwrap());
        assert_eq!(getattr(&mut w, ALICE, &handle), Status::OK);
        w.peer = outside;
    }
    let other = ExportId(0x0a0a);
    let unknown = w.service.signer.sign(other, &file.node.key());
    assert_eq!(getattr(&mut w, ALICE, unknown.bytes()), Status::STALE, "of the same volume, by no export");
}

#[test]
fn a_read_only_export_refuses_changes_that_another_export_allows() {
    let mut w = world(trusting(), ExportRule { read_only: true, ..trusting() });
    let file = w.file(&w.root(), "file", 0o666, b"data");
    let handle = narrow(&w, &file);
    for _ in 0..2 {
        assert_eq!(write(&mut w, ALICE, file.bytes()), Status::OK);
        assert_eq!(write(&mut w, ALICE, &handle), Status::ROFS);
        assert_eq!(read(&mut w, ALICE, &handle), Status::OK);
        let args = SetattrArgs { object: FileHandle(&handle), new_attributes: Sattr::default(), guard: None };
        assert_eq!(status(&w.ask(ALICE, Procedure::SETATTR, &args)), Status::ROFS);
    }
}

#[test]
fn lookups_stay_within_their_export() {
    let mut w = world(trusting(), ExportRule { read_only: true, ..trusting() });
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&dir, "file", 0o666, b"data");
    let before = (dir.attrs(), file.attrs());
    let (narrow_dir, narrow_file) = (narrow(&w, &dir), narrow(&w, &file));
    let at = |dir: &'static [u8]| move |handle| DirOpArgs { dir: FileHandle(handle), name: dir };
    let (old, new) = (at(b"file"), at(b"new"));
    for (from, to) in [(old(&narrow_dir), new(dir.bytes())), (old(dir.bytes()), new(&narrow_dir))] {
        let reply = w.ask(ALICE, Procedure::RENAME, &RenameArgs { from, to });
        assert_eq!(status(&reply), Status::XDEV);
    }
    for (file, link) in [(&*narrow_file, new(dir.bytes())), (file.bytes(), new(&narrow_dir))] {
        let reply = w.ask(ALICE, Procedure::LINK, &LinkArgs { file: FileHandle(file), link });
        assert_eq!(status(&reply), Status::XDEV);
    }
    assert_eq!((dir.attrs(), file.attrs()), before);
}

#[test]
fn returned_handles_belong_to_the_same_export() {
    let mut w = world(trusting(), trusting());
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&dir, "file", 0o666, b"data");
    let (narrow_dir, narrow_file) = (narrow(&w, &dir), narrow(&w, &file));
    for (dir, file) in [(&narrow_dir[..], &narrow_file[..]), (dir.bytes(), file.bytes())] {
        for _ in 0..2 {
            let what = DirOpArgs { dir: FileHandle(dir), name: b"file" };
            let found = w.ask(ALICE, Procedure::LOOKUP, &LookupArgs { what });
            let Reply::Ok(found) = decode::<LookupReply<'_>>(&found) else { panic!("{found:?}") };
            assert_eq!(found.object.0, file);
        }
        let (dircount, maxcount) = (4096, 4096);
        let (dir, cookieverf) = (FileHandle(dir), [0; 8]);
        let args = ReaddirplusArgs { dir, cookie: 0, cookieverf, dircount, maxcount };
        let listed = w.ask(ALICE, Procedure::READDIRPLUS, &args);
        let Reply::Ok(listed) = decode::<ReaddirplusReply<'_>>(&listed) else { panic!("{listed:?}") };
        let entry = listed.entries.iter().find(|entry| entry.name == b"file").unwrap();
        assert_eq!(entry.name_handle.unwrap().0, file);
    }
    let place = DirOpArgs { dir: FileHandle(&narrow_dir), name: b"made" };
    let how = CreateHow::Unchecked(Sattr { mode: Some(0o644), ..Sattr::default() });
    let made = w.ask(ALICE, Procedure::CREATE, &CreateArgs { place, how });
    let Reply::Ok(made) = decode::<CreateReply<'_>>(&made) else { panic!("{made:?}") };
    let found = w.find(&dir, "made");
    assert_eq!(made.obj.unwrap().0, narrow(&w, &found));
}

/// A credential is evaluated under the current rule.
#[test]
fn a_cached_caller_is_dropped_when_the_rule_changes() {
    let mut w = world(trusting(), trusting());
    let file = w.file(&w.root(), "file", 0o600, b"data");
    let rooted = Auth::Sys(0, 0, &[]);
    let volume = Arc::clone(&w.namespace.volume(VOLUME).unwrap().volume);
    let with = |rule| vec![Export::new("/vol", Arc::clone(&volume), vec![rule])];
    for (rule, wanted) in [
        (trusting(), (Status::OK, Status::OK)),
        (ExportRule { read_only: true, ..trusting() }, (Status::OK, Status::ROFS)),
        (ExportRule::everybody(), (Status::ACCES, Status::ACCES)),
        (trusting(), (Status::OK, Status::OK)),
        (ExportRule { squash: Squash::All, ..trusting() }, (Status::ACCES, Status::ACCES)),
    ] {
        serve(&mut w, with(rule.clone()));
        for _ in 0..3 {
            let seen = (read(&mut w, rooted, file.bytes()), write(&mut w, rooted, file.bytes()));
            assert_eq!(seen, wanted, "{rule:?}");
        }
    }
}

/// One export has two rules, for two clients with the same credential.
#[test]
fn a_cached_caller_belongs_to_one_rule() {
    let mut w = world(trusting(), trusting());
    let file = w.file(&w.root(), "file", 0o600, b"data");
    let volume = Arc::clone(&w.namespace.volume(VOLUME).unwrap().volume);
    let insiders = ExportRule { clients: vec!["10.0.0.0/8".parse().unwrap()], ..trusting() };
    serve(&mut w, vec![Export::new("/vol", volume, vec![insiders, ExportRule::everybody()])]);
    let outside = w.peer;
    for (peer, wanted) in [(INSIDER.parse().unwrap(), Status::OK), (outside, Status::ACCES)].repeat(2) {
        w.peer = peer;
        assert_eq!(read(&mut w, Auth::Sys(0, 0, &[]), file.bytes()), wanted, "{peer}");
    }
}

#[test]
fn the_root_group_is_squashed_at_every_position_and_no_other_group_is() {
    let mut w = world(ExportRule::everybody(), trusting());
    let [root_group, hers] = [("roots", 0), ("hers", 7)].map(|(name, gid)| {
        let file = w.file(&w.root(), name, 0o040, b"data");
        let owner = vfs::SetAttrs { gid: Some(gid), uid: Some(5), ..vfs::SetAttrs::default() };
        file.node.set_attrs(&owner).unwrap();
        file
    });
    for auth in [Auth::Sys(1000, 0, &[7]), Auth::Sys(1000, 100, &[0, 7]), Auth::Sys(1000, 7, &[0])] {
        for _ in 0..2 {
            assert_eq!(read(&mut w, auth, root_group.bytes()), Status::ACCES, "{auth:?}");
            assert_eq!(read(&mut w, auth, hers.bytes()), Status::OK, "{auth:?}");
        }
        let handle = narrow(&w, &root_group);
        assert_eq!(read(&mut w, auth, &handle), Status::OK, "the other export believes {auth:?}");
    }
    assert_eq!(read(&mut w, BOB, hers.bytes()), Status::ACCES);
}

/// AUTH_SYS has room for 16 groups (RFC 5531 Appendix A): one more is refused, not ignored.
#[test]
fn a_credential_with_too_many_groups_is_refused() {
    let mut w = world(trusting(), trusting());
    let args = GetattrArgs { object: FileHandle(w.root().bytes()) }.to_bytes();
    let record = |groups: u32| {
        let gids: Vec<u32> = (1..=groups).collect();
        let sys = [&[1, 4, u32::from_be_bytes(*b"ship"), 1000, 100, groups][..], &gids].concat();
        let header = [7, 0, 2, 100_003, 3, 1, 1, u32::try_from(sys.len()).unwrap() * 4];
        let words = [&header[..], &sys, &[0, 0]].concat();
        [words.into_iter().flat_map(u32::to_be_bytes).collect::<Vec<_>>(), args.clone()].concat()
    };
    for _ in 0..2 {
        // Accepted, and NFS3_OK; denied, AUTH_ERROR, AUTH_BADCRED.
        assert_eq!(w.perform(&record(16)).unwrap()[4..28], [&[0, 0, 0, 1][..], &[0; 20]].concat());
        let denied = [1u32, 1, 1, 1].map(u32::to_be_bytes).concat();
        for groups in [17, 80] {
            assert_eq!(w.perform(&record(groups)).unwrap()[4..], denied, "{groups} groups");
        }
    }
}

#[test]
fn a_handle_is_valid_at_the_endpoints_of_its_export_for_admitted_clients() {
    let insiders = ExportRule { clients: vec!["10.0.0.0/8".parse().unwrap()], ..trusting() };
    let mut w = world(trusting(), insiders);
    let [first, second, third] = [1, 2, 3].map(|last| std::net::IpAddr::from([127, 0, 1, last]));
    let volume = Arc::clone(&w.namespace.volume(VOLUME).unwrap().volume);
    let narrow_export = Arc::clone(w.namespace.export(NARROW).unwrap());
    let wide = Export::new("/vol", volume, vec![trusting()]).at(vec![first, second]);
    let inner = Export::new("/narrow", Arc::clone(&narrow_export.volume), narrow_export.rules.clone());
    serve(&mut w, vec![wide, Export { id: NARROW, ..inner.at(vec![second]) }]);
    let file = w.file(&w.root(), "file", 0o666, b"data");
    let handle = narrow(&w, &file);
    // Twice: a handle cached for one address is checked again for another one.
    for _ in 0..2 {
        for (endpoint, of_wide, of_narrow) in [
            (None, Status::OK, Status::ACCES),
            (Some(first), Status::OK, Status::ACCES),
            (Some(second), Status::OK, Status::ACCES),
            (Some(third), Status::ACCES, Status::ACCES),
        ] {
            w.endpoint = endpoint;
            assert_eq!(getattr(&mut w, ALICE, file.bytes()), of_wide, "{endpoint:?}");
            assert_eq!(read(&mut w, ALICE, file.bytes()), of_wide, "{endpoint:?}");
            assert_eq!(write(&mut w, ALICE, &handle), of_narrow, "{endpoint:?}");
        }
        let outside = std::mem::replace(&mut w.peer, INSIDER.parse().unwrap());
        for (endpoint, found) in [
            (None, Status::OK),
            (Some(second), Status::OK),
            (Some(first), Status::ACCES),
            (Some(third), Status::ACCES),
        ] {
            w.endpoint = endpoint;
            assert_eq!(getattr(&mut w, ALICE, &handle), found, "{endpoint:?}");
        }
        w.peer = outside;
    }
}

#[test]
fn a_volume_that_is_closed_for_a_while_has_its_clients_come_back() {
    let mut w = world(trusting(), trusting());
    let file = w.file(&w.root(), "file", 0o666, b"data");
    assert_eq!(read(&mut w, ALICE, file.bytes()), Status::OK);
    let volume = Arc::clone(&w.namespace.volume(VOLUME).unwrap().volume);
    serve(&mut w, vec![Export::new("/vol", Arc::new(placeholder(&volume)), vec![trusting()])]);
    let root = w.root().bytes().to_vec();
    for handle in [file.bytes(), &root] {
        assert_eq!(getattr(&mut w, ALICE, handle), Status::JUKEBOX);
        assert_eq!(read(&mut w, ALICE, handle), Status::JUKEBOX);
        assert_eq!(write(&mut w, ALICE, handle), Status::JUKEBOX);
    }
    w.service.namespace.store(Arc::clone(&w.namespace));
    assert_eq!(Arc::strong_count(&volume), 1, "nothing keeps it open");
    serve(&mut w, vec![Export::new("/vol", volume, vec![trusting()])]);
    assert_eq!(read(&mut w, ALICE, file.bytes()), Status::OK);
}

fn placeholder(volume: &Volume) -> Volume {
    Volume::placeholder(volume.id(), volume.name(), volume.durability(), 1)
}
