//! LOOKUP, and the rules for names that all procedures share.

use crate::support::{ALICE, Auth, BOB, Object, World, decode};
use nfs_wire::v3::{
    CreateArgs, CreateFail, CreateHow, CreateReply, LinkArgs, LinkFail, LinkReply, LookupArgs, LookupFail,
    LookupOk, LookupReply, MkdirArgs, MknodArgs, MknodData, Procedure, RemoveArgs, RemoveFail, RemoveReply,
    RenameArgs, RenameFail, RenameReply, Reply, Sattr, Status, SymlinkArgs, SymlinkData,
};
use vfs::Special;
use vfs_testing::UncheckedNode;

pub(crate) fn lookup(w: &mut World, auth: Auth, dir: &Object, name: &[u8]) -> Vec<u8> {
    w.ask(auth, Procedure::LOOKUP, &LookupArgs { what: dir.at(name) })
}

fn assert_found(w: &mut World, dir: &Object, name: &[u8], object: &Object) {
    let ok = LookupOk { object: object.fh(), obj_attributes: object.post(), dir_attributes: dir.post() };
    let reply = lookup(w, BOB, dir, name);
    assert_eq!(decode::<LookupReply<'_>>(&reply), Reply::Ok(ok), "{}", name.escape_ascii());
}

fn assert_refused(w: &mut World, auth: Auth, dir: &Object, name: &[u8], status: Status) {
    let reply = lookup(w, auth, dir, name);
    let fail = LookupFail { dir_attributes: dir.post() };
    assert_eq!(decode::<LookupReply<'_>>(&reply), Reply::Err(status, fail), "{}", name.escape_ascii());
}

#[test]
fn lookup_finds_objects_of_every_kind() {
    let mut w = World::new();
    let root = w.root();
    let long = "n".repeat(255);
    let file = w.file(&root, &long, 0o000, b"hello");
    let dir = w.dir(&root, "dir", 0o711);
    let link = w.special(&root, "link", Special::Symlink(b"dir"));
    let deep = w.file(&dir, "deep", 0o644, b"");
    assert_found(&mut w, &root, long.as_bytes(), &file);
    assert_found(&mut w, &root, b"dir", &dir);
    assert_found(&mut w, &root, b"link", &link);
    assert_found(&mut w, &dir, b"deep", &deep);
}

#[test]
fn lookup_of_dots_stays_in_the_volume() {
    let mut w = World::new();
    let root = w.root();
    let dir = w.dir(&root, "dir", 0o755);
    let inner = w.dir(&dir, "inner", 0o755);
    assert_found(&mut w, &root, b".", &root);
    assert_found(&mut w, &root, b"..", &root);
    assert_found(&mut w, &inner, b".", &inner);
    assert_found(&mut w, &inner, b"..", &dir);
    assert_found(&mut w, &dir, b"..", &root);
}

#[test]
fn lookup_errors_are_as_specified() {
    let mut w = World::new();
    let root = w.root();
    let file = w.file(&root, "file", 0o777, b"");
    let link = w.special(&root, "link", Special::Symlink(b"dir"));
    let closed = w.dir(&root, "closed", 0o744);
    w.file(&closed, "inside", 0o777, b"");
    assert_refused(&mut w, BOB, &root, b"nothing", Status::NOENT);
    assert_refused(&mut w, BOB, &file, b"x", Status::NOTDIR);
    assert_refused(&mut w, BOB, &link, b"x", Status::NOTDIR);
    assert_refused(&mut w, BOB, &closed, b"inside", Status::ACCES);
    assert_refused(&mut w, BOB, &closed, b"..", Status::ACCES);
    assert_refused(&mut w, BOB, &root, &[b'x'; 256], Status::NAMETOOLONG);
    assert_refused(&mut w, BOB, &root, &[b'x'; 4096], Status::NAMETOOLONG);
    // RFC 1813 §3.3 (General comments on filenames): no empty names, nor characters the server cannot take.
    for name in [&b""[..], b"a/b", b"/", b"../x", b"a\0b"] {
        assert_refused(&mut w, BOB, &root, name, Status::ACCES);
    }
    let gone = w.dir(&root, "gone", 0o777);
    root.node.remove_dir_unchecked(vfs::Name::new(b"gone").unwrap()).unwrap();
    let reply = lookup(&mut w, BOB, &gone, b"x");
    assert_eq!(decode::<LookupReply<'_>>(&reply), Reply::Err(Status::STALE, LookupFail::default()));
}

/// Calls every creating procedure with `name`, and checks the whole reply.
fn assert_not_created(w: &mut World, dir: &Object, file: &Object, name: &[u8], status: Status) {
    let attributes = Sattr { mode: Some(0o644), ..Sattr::default() };
    let (place, symlink_data) = (dir.at(name), &b"target"[..]);
    let symlink = SymlinkData { symlink_attributes: attributes, symlink_data };
    let before = dir.attrs();
    let replies = [
        w.ask(ALICE, Procedure::CREATE, &CreateArgs { place, how: CreateHow::Unchecked(attributes) }),
        w.ask(ALICE, Procedure::CREATE, &CreateArgs { place, how: CreateHow::Guarded(attributes) }),
        w.ask(ALICE, Procedure::CREATE, &CreateArgs { place, how: CreateHow::Exclusive([1; 8]) }),
        w.ask(ALICE, Procedure::MKDIR, &MkdirArgs { place, attributes }),
        w.ask(ALICE, Procedure::SYMLINK, &SymlinkArgs { place, symlink }),
        w.ask(ALICE, Procedure::MKNOD, &MknodArgs { place, what: MknodData::Fifo(attributes) }),
    ];
    for reply in &replies {
        let fail = CreateFail { dir_wcc: dir.wcc_failed() };
        assert_eq!(decode::<CreateReply<'_>>(reply), Reply::Err(status, fail), "{}", name.escape_ascii());
    }
    let reply = w.ask(ALICE, Procedure::LINK, &LinkArgs { file: file.fh(), link: place });
    let fail = LinkFail { file_attributes: file.post(), linkdir_wcc: dir.wcc_failed() };
    assert_eq!(decode::<LinkReply>(&reply), Reply::Err(status, fail), "{}", name.escape_ascii());
    assert_eq!(dir.attrs(), before);
}

/// Calls every procedure that removes a name with `name`: REMOVE, RMDIR, RENAME from it and to it.
fn assert_not_removed(w: &mut World, dir: &Object, name: &[u8], [remove, rmdir, from, to]: [Status; 4]) {
    let before = dir.attrs();
    let object = dir.at(name);
    for (procedure, status) in [(Procedure::REMOVE, remove), (Procedure::RMDIR, rmdir)] {
        let reply = w.ask(ALICE, procedure, &RemoveArgs { object });
        let fail = RemoveFail { dir_wcc: dir.wcc_failed() };
        assert_eq!(decode::<RemoveReply>(&reply), Reply::Err(status, fail), "{}", name.escape_ascii());
    }
    for (args, status) in [
        (RenameArgs { from: object, to: dir.at(b"new") }, from),
        (RenameArgs { from: dir.at(b"file"), to: object }, to),
    ] {
        let reply = w.ask(ALICE, Procedure::RENAME, &args);
        let fail = RenameFail { fromdir_wcc: dir.wcc_failed(), todir_wcc: dir.wcc_failed() };
        assert_eq!(decode::<RenameReply>(&reply), Reply::Err(status, fail), "{}", name.escape_ascii());
    }
    assert_eq!(dir.attrs(), before);
}

#[test]
fn invalid_names_are_refused_by_every_procedure() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&dir, "file", 0o644, b"");
    for name in [&b""[..], b"/", b"a/b", b"a\0", b"\0"] {
        assert_not_created(&mut w, &dir, &file, name, Status::ACCES);
        assert_not_removed(&mut w, &dir, name, [Status::ACCES; 4]);
    }
    for length in [256, 4096] {
        let name = vec![b'n'; length];
        assert_not_created(&mut w, &dir, &file, &name, Status::NAMETOOLONG);
        assert_not_removed(&mut w, &dir, &name, [Status::NAMETOOLONG; 4]);
    }
    assert_eq!(w.pending.added(), 0);
}

#[test]
fn dots_exist_and_cannot_be_removed() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&dir, "file", 0o644, b"");
    // RFC 1813 §3.3.9 for creation, §3.3.13 for RMDIR, §3.3.14 for RENAME.
    assert_not_created(&mut w, &dir, &file, b".", Status::EXIST);
    assert_not_created(&mut w, &dir, &file, b"..", Status::EXIST);
    let [inval, exist] = [Status::INVAL, Status::EXIST];
    assert_not_removed(&mut w, &dir, b".", [inval, inval, inval, inval]);
    assert_not_removed(&mut w, &dir, b"..", [inval, exist, inval, inval]);
}
