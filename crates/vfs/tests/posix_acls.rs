//! Lists of POSIX at the door: every verb that mode bits decide asks for them.

use std::sync::Arc;
use vfs::{
    Access, Backend, Blocking, Caller, Disposition, Durability, Export, File, FsError, Name, NewInode,
    PendingSync, PosixAcl, Resolved, SecurityStyle, SetAttrs, SetXattr, Snapshot, Time, ViewId, Volume,
    VolumeId,
};
use vfs_testing::{MemFs, UncheckedNode};

const ALLOWED: Blocking = Blocking::Allowed;

/// A volume of this style with a file of user 1, group 10, mode 0670.
/// The ACL of the file denies everything to its group and grants all to user 5.
fn rig(style: SecurityStyle) -> (MemFs, File, File) {
    let fs = MemFs::new(Arc::new(Time::default));
    let volume = Volume::new(VolumeId(1), "one", Arc::new(fs.clone()), Durability::Sync, 1);
    let volume = volume.with_security_style(style).unwrap();
    let root = Arc::new(Export::new("/one", Arc::new(volume), Vec::new())).root();
    // Not by the door, which would give it a list of its own.
    let new = NewInode { mode: 0o670, uid: 1, gid: 10, times: None, size: 5 };
    fs.root().create_unchecked(Name::new(b"file").unwrap(), &new).unwrap();
    fs.set_access_acl("file", Some(&list())).unwrap();
    let dir = root.open_dir(&Caller::new(0, 0, []), ALLOWED).unwrap();
    let file = dir.lookup(b"file", ALLOWED).unwrap().file;
    (fs, root, file)
}

fn list() -> PosixAcl {
    PosixAcl { owner: 6, group: 0, mask: Some(7), other: 0, users: [(5, 7)].into(), groups: [].into() }
}

#[test]
fn every_verb_asks_for_the_list() {
    let (_fs, root, file) = rig(SecurityStyle::Unix);
    let mut pending = PendingSync::default();
    for (caller, is_let) in [(Caller::new(2, 10, []), false), (Caller::new(5, 99, []), true)] {
        let attrs = file.attrs(ALLOWED).unwrap();
        let mut answers = vec![
            ("open", file.open(&caller, Access::READ.and(Access::WRITE), ALLOWED).map(drop)),
            ("authorize_read", file.authorize_read(&caller, ALLOWED).map(drop)),
            ("set_xattr", file.set_xattr(&caller, b"x", b"y", SetXattr::Either, &mut pending).map(drop)),
            ("get_xattr", file.get_xattr(&caller, b"x").map(drop)),
            ("keep", file.update_extra_attrs(&caller, |kept| kept.flags = Some(2), &mut pending).map(drop)),
            ("make_stream", file.make_stream(&caller, b"s", &mut pending).map(drop)),
        ];
        let opened = file.authorize_write(&caller).unwrap();
        answers.push(("write", opened.write(0, b"x", vfs::Stability::Unstable, &mut pending).map(drop)));
        answers.push(("reserve", opened.reserve(0, 10).map(drop)));
        answers.push(("commit", opened.commit().map(drop)));
        let size = SetAttrs { size: Some(1), ..SetAttrs::default() };
        answers.push(("cut", file.set_attrs(&caller, &size, None, &mut pending).map(drop)));
        let truncates = root.create(&caller, b"file", Disposition::OpenOrCreate, &size, &mut pending);
        answers.push(("create over it", truncates.map(drop)));
        for (what, answer) in answers {
            let expected = if is_let { Ok(()) } else { Err(FsError::Access) };
            assert_eq!(answer, expected, "{what} by {caller:?}");
        }
        let reply = file.access(&caller, ALLOWED).unwrap();
        assert_eq!((reply.read, reply.modify, reply.execute), (is_let, is_let, is_let));
        assert_eq!(root.export().is_visible(&file.key(), &attrs, &caller), Ok(is_let));
    }
}

#[test]
fn file_without_a_list_of_its_own_is_ruled_by_that_of_posix() {
    let (fs, _root, file) = rig(SecurityStyle::Ntfs);
    let (member, named) = (Caller::new(2, 10, []), Caller::new(5, 99, []));
    assert_eq!(file.open(&member, Access::READ, ALLOWED).map(drop), Err(FsError::Access));
    assert_eq!(file.open(&named, Access::READ.and(Access::WRITE), ALLOWED).map(drop), Ok(()));
    fs.set_access_acl("file", Some(&PosixAcl { group: 4, users: [(5, 0)].into(), ..list() })).unwrap();
    assert_eq!(file.open(&member, Access::READ, ALLOWED).map(drop), Ok(()));
    assert_eq!(file.open(&named, Access::READ, ALLOWED).map(drop), Err(FsError::Access));
}

/// The list of a directory rules the directory of snapshots in it; in a snapshot, the list of its time does.
#[test]
fn lists_rule_directories_of_snapshots_and_their_files() {
    for style in [SecurityStyle::Unix, SecurityStyle::Ntfs] {
        let (fs, root, _file) = rig(style);
        let new = NewInode { mode: 0o770, uid: 1, gid: 10, times: None, size: 0 };
        fs.root().make_dir_unchecked(Name::new(b"dir").unwrap(), &new).unwrap();
        fs.set_access_acl("dir", Some(&list())).unwrap();
        fs.snapshots().unwrap().create(ViewId(1)).unwrap();
        let snapshot = Snapshot { view: ViewId(1), name: "one".to_owned(), created: Time::default() };
        root.volume().set_snapshots(vec![snapshot]);
        let (member, named) = (Caller::new(2, 10, []), Caller::new(5, 99, []));
        let walk = |caller: &Caller, path: &[&str]| {
            let start = Resolved { attrs: root.attrs(ALLOWED)?, file: root.clone() };
            let step =
                |at: Resolved, name: &&str| at.open_dir(caller, ALLOWED)?.lookup(name.as_bytes(), ALLOWED);
            path.iter().try_fold(start, step)?.open_dir(caller, ALLOWED).map(drop)
        };
        let ways = [&["dir", ".snapshot"][..], &["dir", ".snapshot", "one"], &[".snapshot", "one", "dir"]];
        for path in ways {
            assert_eq!(walk(&named, path), Ok(()), "{style:?} {path:?}");
            assert_eq!(walk(&member, path), Err(FsError::Access), "{style:?} {path:?}");
        }
        // An open directory of snapshots follows the list of the live directory.
        let key = fs.root().lookup(Name::new(b"dir").unwrap(), ALLOWED).unwrap().node.key();
        let top = root.export().file(&key.in_view(ViewId::DIRECTORY), ALLOWED).unwrap();
        fs.set_access_acl("dir", Some(&PosixAcl { group: 7, users: [(5, 0)].into(), ..list() })).unwrap();
        assert_eq!(top.open_dir(&named, ALLOWED).err(), Some(FsError::Access), "{style:?}");
        assert!(top.open_dir(&member, ALLOWED).is_ok(), "{style:?}");
        assert_eq!(walk(&member, ways[1]), Err(FsError::Access), "the list of its time");
        assert_eq!(walk(&named, ways[2]), Ok(()));
    }
}
