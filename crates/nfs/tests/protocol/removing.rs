//! REMOVE, RMDIR, RENAME.

use crate::support::object::name;
use crate::support::{ALICE, Auth, BOB, GREG, Object, ROOT, World, decode};
use nfs_wire::v3::{
    Procedure, RemoveArgs, RemoveFail, RemoveOk, RemoveReply, RenameArgs, RenameFail, RenameOk, RenameReply,
    Reply, Status,
};
use vfs::{Blocking, FsError, Special};
use vfs_testing::UncheckedNode;

fn remove(w: &mut World, auth: Auth, procedure: Procedure, dir: &Object, name: &str) -> RemoveReply {
    w.clock.advance_ms(1500);
    decode(&w.ask(auth, procedure, &RemoveArgs { object: dir.at(name.as_bytes()) }))
}

fn exists(dir: &Object, text: &str) -> bool {
    match dir.node.lookup(name(text), Blocking::Allowed) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, FsError::NotFound);
            false
        }
    }
}

#[test]
fn remove_removes_any_name_but_a_directory() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    w.file(&dir, "file", 0o000, b"x");
    w.special(&dir, "link", Special::Symlink(b"nowhere"));
    w.special(&dir, "fifo", Special::Fifo);
    for name in ["file", "link", "fifo"] {
        let before = dir.attrs();
        let added = w.pending.added();
        let reply = remove(&mut w, BOB, Procedure::REMOVE, &dir, name);
        assert_eq!(reply, Reply::Ok(RemoveOk { dir_wcc: dir.wcc(&before) }), "{name}");
        assert!(!exists(&dir, name));
        assert_eq!(w.pending.added(), added + 1);
    }
}

#[test]
fn rmdir_removes_an_empty_directory() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    w.dir(&dir, "sub", 0o000);
    let before = dir.attrs();
    let reply = remove(&mut w, BOB, Procedure::RMDIR, &dir, "sub");
    assert_eq!(reply, Reply::Ok(RemoveOk { dir_wcc: dir.wcc(&before) }));
    assert_eq!((exists(&dir, "sub"), dir.attrs().links, w.pending.added()), (false, 2, 1));
}

#[test]
fn remove_and_rmdir_errors_are_as_specified() {
    let mut w = World::new();
    let root = w.root();
    let dir = w.dir(&root, "dir", 0o777);
    let file = w.file(&dir, "file", 0o777, b"");
    let full = w.dir(&dir, "full", 0o777);
    w.file(&full, "x", 0o777, b"");
    let closed = w.dir(&root, "closed", 0o755);
    w.file(&closed, "file", 0o777, b"");
    w.dir(&closed, "sub", 0o777);
    let sticky = w.dir(&root, "sticky", 0o1777);
    w.file(&sticky, "file", 0o777, b"");
    w.dir(&sticky, "sub", 0o777);
    for (auth, procedure, dir, name, status) in [
        (BOB, Procedure::REMOVE, &dir, "nothing", Status::NOENT),
        (BOB, Procedure::RMDIR, &dir, "nothing", Status::NOENT),
        (BOB, Procedure::REMOVE, &sticky, "nothing", Status::NOENT),
        (BOB, Procedure::REMOVE, &dir, "full", Status::ISDIR),
        (BOB, Procedure::RMDIR, &dir, "full", Status::NOTEMPTY),
        (BOB, Procedure::RMDIR, &dir, "file", Status::NOTDIR),
        (BOB, Procedure::REMOVE, &file, "x", Status::NOTDIR),
        (BOB, Procedure::RMDIR, &file, "x", Status::NOTDIR),
        (BOB, Procedure::REMOVE, &closed, "file", Status::ACCES),
        (GREG, Procedure::RMDIR, &closed, "sub", Status::ACCES),
        (BOB, Procedure::REMOVE, &sticky, "file", Status::ACCES),
        (GREG, Procedure::RMDIR, &sticky, "sub", Status::ACCES),
    ] {
        let before = dir.attrs();
        let reply = remove(&mut w, auth, procedure, dir, name);
        let fail = RemoveFail { dir_wcc: dir.wcc_failed() };
        assert_eq!(reply, Reply::Err(status, fail), "{procedure:?} {name}");
        assert_eq!(dir.attrs(), before);
    }
    assert_eq!(w.pending.added(), 0);
    let reply = remove(&mut w, ALICE, Procedure::REMOVE, &sticky, "file");
    assert!(matches!(reply, Reply::Ok(_)), "her own");
    let reply = remove(&mut w, ROOT, Procedure::RMDIR, &sticky, "sub");
    assert!(matches!(reply, Reply::Ok(_)), "root's pleasure");
}

fn rename(w: &mut World, auth: Auth, from: (&Object, &str), to: (&Object, &str)) -> RenameReply {
    w.clock.advance_ms(1500);
    let args = RenameArgs { from: from.0.at(from.1.as_bytes()), to: to.0.at(to.1.as_bytes()) };
    decode(&w.ask(auth, Procedure::RENAME, &args))
}

#[test]
fn rename_moves_and_replaces() {
    let mut w = World::new();
    let root = w.root();
    let [a, b] = ["a", "b"].map(|name| w.dir(&root, name, 0o777));
    let file = w.file(&a, "file", 0o600, b"new");
    w.file(&b, "old", 0o600, b"old");
    let sub = w.dir(&a, "sub", 0o777);
    w.dir(&b, "empty", 0o777);
    let moves = [
        (&a, "file", &a, "still", &file),
        (&a, "still", &b, "there", &file),
        (&b, "there", &b, "old", &file),
        (&a, "sub", &b, "empty", &sub),
        (&b, "empty", &a, "back", &sub),
    ];
    for (from, old, to, new, object) in moves {
        let (before_from, before_to) = (from.attrs(), to.attrs());
        let added = w.pending.added();
        let reply = rename(&mut w, BOB, (from, old), (to, new));
        let ok = RenameOk { fromdir_wcc: from.wcc(&before_from), todir_wcc: to.wcc(&before_to) };
        assert_eq!(reply, Reply::Ok(ok), "{old} to {new}");
        assert_eq!((exists(from, old), w.find(to, new).bytes()), (false, object.bytes()), "{old} to {new}");
        assert_eq!(w.pending.added(), added + 2, "both directories");
    }
    assert_eq!((a.attrs().links, b.attrs().links), (3, 2));
}

#[test]
fn rename_between_two_names_of_one_file_does_nothing() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&dir, "one", 0o600, b"");
    dir.node.link_unchecked(name("two"), &file.node).unwrap();
    for to in ["two", "one"] {
        let before = dir.attrs();
        let reply = rename(&mut w, BOB, (&dir, "one"), (&dir, to));
        let wcc = dir.wcc(&before);
        assert_eq!(reply, Reply::Ok(RenameOk { fromdir_wcc: wcc, todir_wcc: wcc }));
        assert_eq!((exists(&dir, "one"), exists(&dir, "two"), file.attrs().links), (true, true, 2));
        assert_eq!(dir.attrs(), before);
    }
}

#[test]
fn rename_errors_are_as_specified() {
    let mut w = World::new();
    let root = w.root();
    let dir = w.dir(&root, "dir", 0o777);
    let file = w.file(&dir, "file", 0o777, b"");
    let sub = w.dir(&dir, "sub", 0o777);
    w.file(&sub, "inside", 0o777, b"");
    w.dir(&dir, "closed-dir", 0o755);
    let closed = w.dir(&root, "closed", 0o755);
    w.file(&closed, "file", 0o777, b"");
    let sticky = w.dir(&root, "sticky", 0o1777);
    w.file(&sticky, "hers", 0o777, b"");
    w.file(&dir, "loose", 0o777, b"");
    let far = w.other_root();
    for (from, to, status) in [
        ((&dir, "nothing"), (&dir, "new"), Status::NOENT),
        ((&dir, "nothing"), (&dir, "file"), Status::NOENT),
        ((&dir, "file"), (&file, "new"), Status::NOTDIR),
        ((&file, "x"), (&dir, "new"), Status::NOTDIR),
        ((&dir, "file"), (&dir, "sub"), Status::ISDIR),
        ((&dir, "closed-dir"), (&dir, "file"), Status::NOTDIR),
        ((&dir, "closed-dir"), (&dir, "sub"), Status::NOTEMPTY),
        ((&dir, "sub"), (&sub, "new"), Status::INVAL),
        ((&dir, "file"), (&closed, "new"), Status::ACCES),
        ((&closed, "file"), (&dir, "new"), Status::ACCES),
        ((&sticky, "hers"), (&dir, "new"), Status::ACCES),
        ((&dir, "loose"), (&sticky, "hers"), Status::ACCES),
        ((&dir, "closed-dir"), (&sub, "moved"), Status::ACCES),
        ((&dir, "file"), (&far, "new"), Status::XDEV),
        ((&far, "file"), (&dir, "new"), Status::XDEV),
    ] {
        let (before_from, before_to) = (from.0.attrs(), to.0.attrs());
        let reply = rename(&mut w, BOB, from, to);
        let fail = RenameFail { fromdir_wcc: from.0.wcc_failed(), todir_wcc: to.0.wcc_failed() };
        assert_eq!(reply, Reply::Err(status, fail), "{} to {}", from.1, to.1);
        assert_eq!((from.0.attrs(), to.0.attrs()), (before_from, before_to));
    }
    assert_eq!(w.pending.added(), 0);
    dir.node.rename_unchecked(name("closed-dir"), &root.node, name("elsewhere")).unwrap();
    let gone = w.dir(&root, "gone", 0o777);
    root.node.remove_dir_unchecked(name("gone")).unwrap();
    let reply = rename(&mut w, BOB, (&dir, "file"), (&gone, "x"));
    let todir_wcc = nfs_wire::v3::WccData::default();
    let fail = RenameFail { fromdir_wcc: dir.wcc_failed(), todir_wcc };
    assert_eq!(reply, Reply::Err(Status::STALE, fail));
}
