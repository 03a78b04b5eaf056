//! Every procedure with every kind of handle: forged, foreign, stale, not admitted, read-only; with and without
//! blocking.

use crate::support::{ALICE, BOB, OTHER, Object, VOLUME, World, trusting};
use nfs::handle::HandleSigner;
use nfs::handle::cache::HandleCache;
use nfs_wire::v3::{
    AccessArgs, CommitArgs, CreateArgs, CreateHow, DirOpArgs, FileHandle, FsstatArgs, GetattrArgs, LinkArgs,
    LookupArgs, MkdirArgs, MknodArgs, MknodData, PathconfArgs, Procedure, ReadArgs, ReaddirArgs,
    ReaddirplusArgs, ReadlinkArgs, RemoveArgs, RenameArgs, Sattr, SetattrArgs, StableHow, Status,
    SymlinkArgs, SymlinkData, WriteArgs,
};
use vfs::{Blocking, ExportId, ExportRule, FileKey, ViewId};
use vfs_testing::UncheckedNode;
use xdr::Encode;

/// A call of each procedure, with the number of absent attributes in its failure when the object is unknown (RFC 1813
/// §2.6: `post_op_attr` is one word then, `wcc_data` two).
pub(crate) fn every_call(handle: &[u8]) -> Vec<(Procedure, Vec<u8>, usize)> {
    let fh = FileHandle(handle);
    let place = DirOpArgs { dir: fh, name: b"name" };
    let attributes = Sattr { mode: Some(0o644), ..Sattr::default() };
    let symlink = SymlinkData { symlink_attributes: attributes, symlink_data: b"to" };
    let new_attributes = attributes;
    let write = WriteArgs { file: fh, offset: 0, count: 1, stable: StableHow::FileSync, data: b"x" };
    let cookieverf = [0; 8];
    vec![
        (Procedure::GETATTR, GetattrArgs { object: fh }.to_bytes(), 0),
        (Procedure::SETATTR, SetattrArgs { object: fh, new_attributes, guard: None }.to_bytes(), 2),
        (Procedure::LOOKUP, LookupArgs { what: place }.to_bytes(), 1),
        (Procedure::ACCESS, AccessArgs { object: fh, access: nfs_wire::v3::Access(0x3f) }.to_bytes(), 1),
        (Procedure::READLINK, ReadlinkArgs { symlink: fh }.to_bytes(), 1),
        (Procedure::READ, ReadArgs { file: fh, offset: 0, count: 1 }.to_bytes(), 1),
        (Procedure::WRITE, write.to_bytes(), 2),
        (Procedure::CREATE, CreateArgs { place, how: CreateHow::Unchecked(attributes) }.to_bytes(), 2),
        (Procedure::CREATE, CreateArgs { place, how: CreateHow::Guarded(attributes) }.to_bytes(), 2),
        (Procedure::CREATE, CreateArgs { place, how: CreateHow::Exclusive([0; 8]) }.to_bytes(), 2),
        (Procedure::MKDIR, MkdirArgs { place, attributes }.to_bytes(), 2),
        (Procedure::SYMLINK, SymlinkArgs { place, symlink }.to_bytes(), 2),
        (Procedure::MKNOD, MknodArgs { place, what: MknodData::Fifo(attributes) }.to_bytes(), 2),
        (Procedure::REMOVE, RemoveArgs { object: place }.to_bytes(), 2),
        (Procedure::RMDIR, RemoveArgs { object: place }.to_bytes(), 2),
        (Procedure::RENAME, RenameArgs { from: place, to: place }.to_bytes(), 4),
        (Procedure::LINK, LinkArgs { file: fh, link: place }.to_bytes(), 3),
        (Procedure::READDIR, ReaddirArgs { dir: fh, cookie: 0, cookieverf, count: 4096 }.to_bytes(), 1),
        (
            Procedure::READDIRPLUS,
            ReaddirplusArgs { dir: fh, cookie: 0, cookieverf, dircount: 4096, maxcount: 4096 }.to_bytes(),
            1,
        ),
        (Procedure::FSSTAT, FsstatArgs { fsroot: fh }.to_bytes(), 1),
        (Procedure::FSINFO, FsstatArgs { fsroot: fh }.to_bytes(), 1),
        (Procedure::PATHCONF, PathconfArgs { object: fh }.to_bytes(), 1),
        (Procedure::COMMIT, CommitArgs { file: fh, offset: 0, count: 0 }.to_bytes(), 2),
    ]
}

pub(crate) struct Encoded<'a>(pub(crate) &'a [u8]);

impl Encode for Encoded<'_> {
    fn encode(&self, w: &mut xdr::Writer<'_>) {
        w.fixed(self.0);
    }
}

pub(crate) fn assert_all_refused(w: &mut World, handle: &[u8], status: Status) {
    for (procedure, args, absent) in every_call(handle) {
        let reply = w.ask(ALICE, procedure, &Encoded(&args));
        let expected = [status.to_bytes(), vec![0; 4 * absent]].concat();
        assert_eq!(reply, expected, "{procedure:?}");
    }
    assert_eq!(w.pending.added(), 0);
}

#[test]
fn forged_and_foreign_handles_are_bad() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o666, b"hello");
    let handle = file.bytes().to_vec();
    let mut forged: Vec<Vec<u8>> = (0..handle.len())
        .map(|place| {
            let mut forged = handle.clone();
            forged[place] ^= 0x40;
            forged
        })
        .collect();
    forged.extend((0..handle.len()).map(|length| handle[..length].to_vec()));
    forged.push([&handle[..], &[0]].concat());
    forged.push(vec![0; 64]);
    forged.push(HandleSigner::new([8; 16]).sign(VOLUME.into(), &file.node.key()).bytes().to_vec());
    for handle in forged {
        assert_all_refused(&mut w, &handle, Status::BADHANDLE);
    }
}

/// A handle from before a change of storage: the signature is valid, but the key is not one of this backend.
#[test]
fn keys_of_another_backend_are_bad() {
    let mut w = World::new();
    let key = FileKey::new(b"no key of this backend").unwrap();
    let handle = w.service.signer.sign(VOLUME.into(), &key);
    assert_all_refused(&mut w, handle.bytes(), Status::BADHANDLE);
}

#[test]
fn removed_files_and_unserved_volumes_are_stale() {
    let mut w = World::new();
    let root = w.root();
    let gone = w.file(&root, "gone", 0o666, b"");
    let left = w.file(&root, "left", 0o666, b"");
    root.node.remove_unchecked(vfs::Name::new(b"gone").unwrap()).unwrap();
    assert_all_refused(&mut w, gone.bytes(), Status::STALE);
    let unknown = w.service.signer.sign(ExportId(0x0303), &left.node.key());
    assert_all_refused(&mut w, unknown.bytes(), Status::STALE);
}

#[test]
fn files_of_a_view_that_the_volume_does_not_have_are_stale() {
    let mut w = World::new();
    let root = w.root();
    let file = w.file(&root, "file", 0o666, b"");
    for node in [&root.node, &file.node] {
        let handle = w.service.signer.sign(VOLUME.into(), &node.key().in_view(ViewId(1)));
        assert_all_refused(&mut w, handle.bytes(), Status::STALE);
    }
    let (procedure, args, _) = every_call(file.bytes()).swap_remove(0);
    assert_eq!(w.ask(ALICE, procedure, &Encoded(&args))[..4], Status::OK.to_bytes());
}

#[test]
fn a_client_that_no_rule_admits_gets_nothing() {
    let rule = ExportRule { clients: vec!["10.0.0.0/8".parse().unwrap()], ..trusting() };
    let mut w = World::with_rule(rule);
    let file = w.file(&w.root(), "file", 0o666, b"");
    assert_all_refused(&mut w, file.bytes(), Status::ACCES);
    w.cache = Some(HandleCache::new(64, 64, 16));
    w.peer = "10.1.2.3:700".parse().unwrap();
    let (procedure, args, _) = every_call(file.bytes()).swap_remove(0);
    assert_eq!(w.ask(ALICE, procedure, &Encoded(&args))[..4], Status::OK.to_bytes());
    w.peer = "11.1.2.3:700".parse().unwrap();
    assert_all_refused(&mut w, file.bytes(), Status::ACCES);
}

#[test]
fn a_handle_opens_only_its_own_volume() {
    let mut w = World::new();
    w.file(&w.root(), "file", 0o666, b"");
    let far = Object::new(&w.service.signer, OTHER, w.find(&w.root(), "file").node);
    assert_all_refused(&mut w, far.bytes(), Status::STALE);
}

#[test]
fn a_read_only_export_refuses_every_change() {
    let mut w = World::with_rule(ExportRule { read_only: true, ..trusting() });
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&dir, "other", 0o666, b"x");
    for (object, is_dir) in [(&dir, true), (&file, false)] {
        for (procedure, args, words) in every_call(object.bytes()) {
            let before = object.attrs();
            let changes = words > 1;
            let on_file = matches!(procedure, Procedure::WRITE | Procedure::COMMIT);
            if !changes || (on_file == is_dir && procedure != Procedure::SETATTR) {
                continue;
            }
            let reply = w.ask(ALICE, procedure, &Encoded(&args));
            assert_eq!(reply[..4], Status::ROFS.to_bytes(), "{procedure:?}");
            let after = object.post().to_bytes();
            let wcc = [&[0; 4], &after[..]].concat();
            let expected = match procedure {
                Procedure::RENAME => [&wcc[..], &wcc].concat(),
                Procedure::LINK => [&after[..], &wcc].concat(),
                _ => wcc,
            };
            assert_eq!(reply[4..], expected, "{procedure:?}");
            assert_eq!(object.attrs(), before, "{procedure:?}");
        }
    }
    assert_eq!(w.pending.added(), 0);
}

/// A call that may not block returns without output if it has to wait. The blocking call returns a reply, and so does a
/// repeated call with warm caches; both replies are equal.
#[test]
fn blocking_and_nonblocking_calls_return_the_same_reply() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&dir, "name", 0o666, b"x");
    // The first read after a change updates the access time; later ones do not.
    file.contents();
    let inline = [
        Procedure::GETATTR,
        Procedure::LOOKUP,
        Procedure::ACCESS,
        Procedure::READ,
        Procedure::FSINFO,
        Procedure::PATHCONF,
    ];
    for object in [&dir, &file] {
        for (procedure, args, _) in every_call(object.bytes()) {
            if !inline.contains(&procedure) {
                continue;
            }
            let args = Encoded(&args);
            w.fs.cold(true);
            w.blocking = Blocking::Never;
            w.cache = Some(HandleCache::new(64, 64, 16));
            assert_eq!(w.try_ask(BOB, procedure, &args), None, "{procedure:?}");
            w.blocking = Blocking::Allowed;
            let waited = w.ask(BOB, procedure, &args);
            w.fs.cold(false);
            w.blocking = Blocking::Never;
            let at_once = w.ask(BOB, procedure, &args);
            let remembered = w.ask(BOB, procedure, &args);
            assert_eq!((&at_once, &remembered), (&waited, &waited), "{procedure:?}");
            w.cache = None;
            assert_eq!(w.ask(BOB, procedure, &args), waited, "{procedure:?}");
        }
    }
}
