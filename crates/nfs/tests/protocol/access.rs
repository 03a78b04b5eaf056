//! ACCESS: every bit for every kind of caller.

use crate::support::{ALICE, Auth, BOB, GREG, Object, ROOT, World, decode, trusting};
use nfs_wire::v3::{Access, AccessArgs, AccessFail, AccessOk, AccessReply, Procedure, Reply, Status};
use vfs::{ExportRule, Squash};
use vfs_testing::UncheckedNode;

const ALL: Access = Access(0x3f);
const R: Access = Access::READ;
const L: Access = Access::LOOKUP;
const X: Access = Access::EXECUTE;
const NONE: Access = Access(0);

/// The bits that `w` grants on a file, or on a directory.
fn write(dir: bool) -> Access {
    let both = Access::MODIFY | Access::EXTEND;
    if dir { both | Access::DELETE } else { both }
}

fn access(w: &mut World, auth: Auth, object: &Object, wish: Access) -> AccessReply {
    decode(&w.ask(auth, Procedure::ACCESS, &AccessArgs { object: object.fh(), access: wish }))
}

fn granted(object: &Object, access: Access) -> AccessReply {
    Reply::Ok(AccessOk { obj_attributes: object.post(), access })
}

#[test]
fn mode_bits_decide_by_class() {
    let mut w = World::new();
    let root = w.root();
    for (mode, owner, group, other) in [
        (0o000, NONE, NONE, NONE),
        (0o421, R, write(false), X),
        (0o214, write(false), X, R),
        (0o142, X, R, write(false)),
        (0o755, R | write(false) | X, R | X, R | X),
        (0o077, NONE, R | write(false) | X, R | write(false) | X),
    ] {
        let file = w.file(&root, "file", mode, b"");
        for (auth, expected) in [(ALICE, owner), (GREG, group), (BOB, other), (Auth::None, other)] {
            assert_eq!(access(&mut w, auth, &file, ALL), granted(&file, expected), "{mode:o} {auth:?}");
        }
        root.node.remove_unchecked(vfs::Name::new(b"file").unwrap()).unwrap();
    }
    for (mode, owner, group, other) in
        [(0o421, R, write(true), L), (0o214, write(true), L, R), (0o142, L, R, write(true))]
    {
        let dir = w.dir(&root, "dir", mode);
        for (auth, expected) in [(ALICE, owner), (GREG, group), (BOB, other)] {
            assert_eq!(access(&mut w, auth, &dir, ALL), granted(&dir, expected), "{mode:o} {auth:?}");
        }
        root.node.remove_dir_unchecked(vfs::Name::new(b"dir").unwrap()).unwrap();
    }
}

#[test]
fn root_may_do_everything_but_execute_a_file_without_execute_bits() {
    let mut w = World::new();
    let root = w.root();
    let closed = w.file(&root, "closed", 0o000, b"");
    let runs = w.file(&root, "runs", 0o001, b"");
    let dir = w.dir(&root, "dir", 0o000);
    assert_eq!(access(&mut w, ROOT, &closed, ALL), granted(&closed, R | write(false)));
    assert_eq!(access(&mut w, ROOT, &runs, ALL), granted(&runs, R | write(false) | X));
    assert_eq!(access(&mut w, ROOT, &dir, ALL), granted(&dir, R | write(true) | L));
}

#[test]
fn access_reports_only_requested_bits() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o777, b"");
    for bit in [Access::READ, Access::MODIFY, Access::EXTEND, Access::EXECUTE] {
        assert_eq!(access(&mut w, BOB, &file, bit), granted(&file, bit));
    }
    assert_eq!(access(&mut w, BOB, &file, NONE), granted(&file, NONE));
    assert_eq!(access(&mut w, BOB, &file, Access(0xffff_ffc0)), granted(&file, NONE), "unknown bits");
    assert_eq!(access(&mut w, BOB, &file, L | Access::DELETE), granted(&file, NONE), "of directories only");
}

#[test]
fn squashed_callers_get_the_rights_of_others() {
    let mut w = World::with_rule(ExportRule::everybody());
    let file = w.file(&w.root(), "file", 0o751, b"");
    assert_eq!(access(&mut w, ROOT, &file, ALL), granted(&file, X), "root is squashed");
    assert_eq!(access(&mut w, ALICE, &file, ALL), granted(&file, R | write(false) | X));
    let zero_group = Auth::Sys(5, 5, &[0]);
    file.node.set_attrs(&vfs::SetAttrs { gid: Some(0), ..Default::default() }).unwrap();
    assert_eq!(access(&mut w, zero_group, &file, ALL), granted(&file, X), "so is root's group");

    let mut w = World::with_rule(ExportRule { squash: Squash::All, anonymous_uid: 1000, ..trusting() });
    let file = w.file(&w.root(), "file", 0o751, b"");
    for auth in [ROOT, BOB, Auth::None] {
        assert_eq!(
            access(&mut w, auth, &file, ALL),
            granted(&file, R | write(false) | X),
            "all are Alice: {auth:?}"
        );
    }
}

#[test]
fn a_read_only_export_grants_no_change() {
    let mut w = World::with_rule(ExportRule { read_only: true, ..trusting() });
    let root = w.root();
    let file = w.file(&root, "file", 0o777, b"");
    let dir = w.dir(&root, "dir", 0o777);
    for auth in [ROOT, ALICE, GREG, BOB] {
        assert_eq!(access(&mut w, auth, &file, ALL), granted(&file, R | X), "{auth:?}");
        assert_eq!(access(&mut w, auth, &dir, ALL), granted(&dir, R | L), "{auth:?}");
    }
}

#[test]
fn access_to_a_file_without_a_name_is_stale() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o777, b"");
    w.root().node.remove_unchecked(vfs::Name::new(b"file").unwrap()).unwrap();
    assert_eq!(
        access(&mut w, BOB, &file, ALL),
        Reply::Err(Status::STALE, AccessFail { obj_attributes: None })
    );
}
