//! POSIX access control lists beside mode bits: each procedure grants the rights that the kernel grants.

use crate::support::{ALICE, Auth, BOB, GREG, Object, World, decode};
use nfs_wire::v3::{
    Access, AccessArgs, AccessReply, CreateArgs, CreateHow, LookupArgs, Procedure, ReadArgs, ReaddirArgs,
    RemoveArgs, RenameArgs, Reply, Sattr, SetattrArgs, StableHow, Status, WriteArgs,
};
use vfs::PosixAcl;
use xdr::{Decode, Encode, Reader};

/// A list with Alice as owner and an entry for Bob. The group, with Greg in it, has no rights.
fn list(bits: u32) -> PosixAcl {
    let users = [(1002, bits)].into();
    PosixAcl { owner: bits, group: 0, mask: Some(bits), other: 0, users, groups: [].into() }
}

fn status(w: &mut World, auth: Auth, procedure: Procedure, args: &impl Encode) -> Status {
    Status::decode(&mut Reader::new(&w.ask(auth, procedure, args))).unwrap()
}

fn granted(w: &mut World, auth: Auth, object: &Object) -> Access {
    let reply = w.ask(auth, Procedure::ACCESS, &AccessArgs { object: object.fh(), access: Access(0x3f) });
    match decode::<AccessReply>(&reply) {
        Reply::Ok(ok) => ok.access,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_accessible_to_users_in_its_list() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o660, b"data");
    w.fs.set_access_acl("file", Some(&list(6))).unwrap();
    assert_eq!(file.attrs().mode, 0o660, "the mode that is shown is the mask");
    let all = Access::READ | Access::MODIFY | Access::EXTEND;
    for (auth, access, expected) in [
        (ALICE, all, Status::OK),
        (BOB, all, Status::OK),
        (GREG, Access(0), Status::ACCES),
        (Auth::Sys(1003, 103, &[]), Access(0), Status::ACCES),
    ] {
        assert_eq!(granted(&mut w, auth, &file), access, "{auth:?}");
        let read = ReadArgs { file: file.fh(), offset: 0, count: 4 };
        assert_eq!(status(&mut w, auth, Procedure::READ, &read), expected, "{auth:?}");
        let (count, data) = (3, &b"new"[..]);
        let write = WriteArgs { file: file.fh(), offset: 0, count, stable: StableHow::FileSync, data };
        assert_eq!(status(&mut w, auth, Procedure::WRITE, &write), expected, "{auth:?}");
        let new_attributes = Sattr { size: Some(4), ..Sattr::default() };
        let cut = SetattrArgs { object: file.fh(), new_attributes, guard: None };
        assert_eq!(status(&mut w, auth, Procedure::SETATTR, &cut), expected, "{auth:?}");
    }
}

#[test]
fn a_directory_is_accessible_to_users_in_its_list() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o770);
    let other = w.dir(&w.root(), "other", 0o777);
    w.dir(&other, "sub", 0o770);
    w.fs.set_access_acl("dir", Some(&list(7))).unwrap();
    w.file(&dir, "file", 0o666, b"data");
    for (auth, expected) in [(GREG, Status::ACCES), (BOB, Status::OK)] {
        let lookup = LookupArgs { what: dir.at(b"file") };
        assert_eq!(status(&mut w, auth, Procedure::LOOKUP, &lookup), expected, "{auth:?}");
        let list = ReaddirArgs { dir: dir.fh(), cookie: 0, cookieverf: [0; 8], count: 4096 };
        assert_eq!(status(&mut w, auth, Procedure::READDIR, &list), expected, "{auth:?}");
        let create = CreateArgs { place: dir.at(b"new"), how: CreateHow::Guarded(Sattr::default()) };
        assert_eq!(status(&mut w, auth, Procedure::CREATE, &create), expected, "{auth:?}");
        let rename = RenameArgs { from: dir.at(b"file"), to: dir.at(b"moved") };
        assert_eq!(status(&mut w, auth, Procedure::RENAME, &rename), expected, "{auth:?}");
        let remove = RemoveArgs { object: dir.at(b"moved") };
        assert_eq!(status(&mut w, auth, Procedure::REMOVE, &remove), expected, "{auth:?}");
    }
    // Moving a directory to another parent writes to the directory itself.
    let root = w.root();
    w.fs.set_access_acl("other/sub", Some(&list(7))).unwrap();
    let away = RenameArgs { from: other.at(b"sub"), to: root.at(b"sub") };
    w.fs.set_access_acl("", Some(&PosixAcl { other: 7, mask: Some(7), owner: 7, ..list(7) })).unwrap();
    assert_eq!(status(&mut w, GREG, Procedure::RENAME, &away), Status::ACCES);
    assert_eq!(status(&mut w, BOB, Procedure::RENAME, &away), Status::OK);
}

#[test]
fn new_objects_inherit_the_default_list_bounded_by_the_mode() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    w.fs.set_default_acl("dir", Some(&list(6))).unwrap();
    for (name, mode, expected) in [("a", Some(0o666), 0o660), ("b", Some(0o640), 0o640), ("c", None, 0o660)] {
        let how = CreateHow::Guarded(Sattr { mode, ..Sattr::default() });
        let create = CreateArgs { place: dir.at(name.as_bytes()), how };
        assert_eq!(status(&mut w, ALICE, Procedure::CREATE, &create), Status::OK);
        let made = w.find(&dir, name);
        assert_eq!(made.attrs().mode, expected, "{name}");
        assert_eq!(granted(&mut w, GREG, &made), Access(0), "{name}");
        let writes = granted(&mut w, BOB, &made).contains(Access::MODIFY);
        assert_eq!(writes, expected & 0o020 != 0, "{name}");
    }
}
