//! GETATTR and SETATTR.

use crate::support::{ALICE, BOB, GREG, Object, ROOT, World, decode};
use nfs_wire::v3::{
    Fattr, FileType, GetattrArgs, GetattrOk, GetattrReply, NfsTime, Procedure, Reply, Sattr, SetTime,
    SetattrArgs, SetattrFail, SetattrOk, SetattrReply, SpecData, Status,
};
use vfs::{Device, Special};
use vfs_testing::UncheckedNode;

fn getattr(w: &mut World, object: &Object) -> GetattrReply {
    decode(&w.ask(BOB, Procedure::GETATTR, &GetattrArgs { object: object.fh() }))
}

#[test]
fn getattr_returns_every_attribute() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o640, b"hello");
    let expected = Fattr {
        ftype: FileType::Regular,
        mode: 0o640,
        nlink: 1,
        uid: 1000,
        gid: 100,
        size: 5,
        used: 4096,
        rdev: SpecData { specdata1: 0, specdata2: 0 },
        fsid: 0x0101,
        fileid: 2,
        atime: NfsTime { seconds: 1_000_000_001, nseconds: 0 },
        mtime: NfsTime { seconds: 1_000_000_001, nseconds: 0 },
        ctime: NfsTime { seconds: 1_000_000_001, nseconds: 0 },
    };
    assert_eq!(getattr(&mut w, &file), Reply::Ok(GetattrOk { obj_attributes: expected }));
}

#[test]
fn getattr_returns_every_file_type() {
    let mut w = World::new();
    let root = w.root();
    let device = Device { major: 8, minor: 17 };
    let all = [
        (w.dir(&root, "dir", 0o755), FileType::Directory, (0, 0)),
        (w.special(&root, "link", Special::Symlink(b"to")), FileType::Symlink, (0, 0)),
        (w.special(&root, "block", Special::Block(device)), FileType::BlockDevice, (8, 17)),
        (w.special(&root, "char", Special::Character(device)), FileType::CharDevice, (8, 17)),
        (w.special(&root, "fifo", Special::Fifo), FileType::Fifo, (0, 0)),
        (w.special(&root, "socket", Special::Socket), FileType::Socket, (0, 0)),
    ];
    for (object, ftype, (specdata1, specdata2)) in all {
        let Reply::Ok(ok) = getattr(&mut w, &object) else { panic!("{ftype:?}") };
        assert_eq!(ok.obj_attributes, object.fattr());
        assert_eq!(
            (ok.obj_attributes.ftype, ok.obj_attributes.rdev),
            (ftype, SpecData { specdata1, specdata2 })
        );
    }
}

#[test]
fn getattr_of_a_file_without_a_name_is_stale() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"");
    w.root().node.remove_unchecked(vfs::Name::new(b"file").unwrap()).unwrap();
    assert_eq!(getattr(&mut w, &file), Reply::Err(Status::STALE, ()));
}

fn setattr(
    w: &mut World,
    auth: crate::support::Auth,
    object: &Object,
    set: Sattr,
    guard: Option<NfsTime>,
) -> SetattrReply {
    w.clock.advance_ms(1500);
    decode(&w.ask(auth, Procedure::SETATTR, &SetattrArgs { object: object.fh(), new_attributes: set, guard }))
}

#[test]
fn setattr_sets_all_attributes_and_returns_wcc_data() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"hello");
    let before = file.attrs();
    let set = Sattr {
        mode: Some(0o600),
        uid: Some(5),
        gid: Some(6),
        size: Some(2),
        atime: SetTime::ClientTime(NfsTime { seconds: 11, nseconds: 12 }),
        mtime: SetTime::ClientTime(NfsTime { seconds: 13, nseconds: 14 }),
    };
    let reply = setattr(&mut w, ROOT, &file, set, None);
    assert_eq!(reply, Reply::Ok(SetattrOk { obj_wcc: file.wcc(&before) }));
    let after = file.fattr();
    assert_eq!((after.mode, after.uid, after.gid, after.size), (0o600, 5, 6, 2));
    assert_eq!(after.atime, NfsTime { seconds: 11, nseconds: 12 });
    assert_eq!(after.mtime, NfsTime { seconds: 13, nseconds: 14 });
    assert_eq!(after.ctime, NfsTime { seconds: 1_000_000_003, nseconds: 500_000_000 });
    assert_eq!(w.pending.added(), 1, "durable before the reply leaves");
}

#[test]
fn an_empty_setattr_changes_nothing() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"hello");
    let before = file.attrs();
    let reply = setattr(&mut w, BOB, &file, Sattr::default(), None);
    assert_eq!(reply, Reply::Ok(SetattrOk { obj_wcc: file.wcc(&before) }));
    assert_eq!(file.attrs(), before);
    assert_eq!(w.pending.added(), 0);
}

#[test]
fn setattr_guard_must_be_the_change_time() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"");
    let before = file.attrs();
    let guard = file.fattr().ctime;
    let set = Sattr { mode: Some(0o600), ..Sattr::default() };
    for wrong in [
        NfsTime { seconds: guard.seconds + 1, ..guard },
        NfsTime { nseconds: guard.nseconds + 1, ..guard },
        NfsTime { seconds: guard.seconds, nseconds: u32::MAX },
    ] {
        let reply = setattr(&mut w, ALICE, &file, set, Some(wrong));
        assert_eq!(reply, Reply::Err(Status::NOT_SYNC, SetattrFail { obj_wcc: file.wcc_failed() }));
    }
    assert_eq!(file.attrs(), before);
    let reply = setattr(&mut w, ALICE, &file, set, Some(guard));
    assert_eq!(reply, Reply::Ok(SetattrOk { obj_wcc: file.wcc(&before) }));
    let again = setattr(&mut w, ALICE, &file, set, Some(guard));
    assert_eq!(
        again,
        Reply::Err(Status::NOT_SYNC, SetattrFail { obj_wcc: file.wcc_failed() }),
        "a stale guard"
    );
}

#[test]
fn setattr_times_are_unchanged_or_from_the_server_or_the_client() {
    let mut w = World::new();
    let file = w.file(&w.root(), "file", 0o644, b"");
    let old = file.fattr();
    let to = SetTime::ClientTime(NfsTime { seconds: 1, nseconds: 999_999_999 });
    for (atime, mtime) in [
        (SetTime::DontChange, SetTime::ServerTime),
        (SetTime::ServerTime, SetTime::DontChange),
        (to, SetTime::ServerTime),
        (SetTime::ServerTime, to),
        (to, SetTime::DontChange),
    ] {
        let before = file.attrs();
        let was = file.fattr();
        let set = Sattr { atime, mtime, ..Sattr::default() };
        let reply = setattr(&mut w, ALICE, &file, set, None);
        assert_eq!(reply, Reply::Ok(SetattrOk { obj_wcc: file.wcc(&before) }));
        let now = crate::support::object::time(w.clock.now());
        let expect = |how, was| match how {
            SetTime::DontChange => was,
            SetTime::ServerTime => now,
            SetTime::ClientTime(time) => time,
        };
        let after = file.fattr();
        assert_eq!((after.atime, after.mtime), (expect(atime, was.atime), expect(mtime, was.mtime)));
        assert_eq!(after.ctime, now);
    }
    assert_ne!(file.fattr(), old);
}

#[test]
fn setattr_refuses_what_posix_refuses() {
    let mut w = World::new();
    let root = w.root();
    let file = w.file(&root, "file", 0o664, b"hello");
    let dir = w.dir(&root, "dir", 0o777);
    let fifo = w.special(&root, "fifo", Special::Fifo);
    let none = Sattr::default;
    let moment = SetTime::ClientTime(NfsTime { seconds: 1, nseconds: 0 });
    let refusals = [
        (BOB, &file, Sattr { mode: Some(0o777), ..none() }, Status::PERM),
        (GREG, &file, Sattr { mode: Some(0o777), ..none() }, Status::PERM),
        (BOB, &file, Sattr { uid: Some(1002), ..none() }, Status::PERM),
        (ALICE, &file, Sattr { uid: Some(1001), ..none() }, Status::PERM),
        (ALICE, &file, Sattr { gid: Some(101), ..none() }, Status::PERM),
        (GREG, &file, Sattr { gid: Some(101), ..none() }, Status::PERM),
        (BOB, &file, Sattr { size: Some(0), ..none() }, Status::ACCES),
        (GREG, &file, Sattr { mtime: moment, ..none() }, Status::PERM),
        (BOB, &file, Sattr { mtime: SetTime::ServerTime, ..none() }, Status::ACCES),
        (ALICE, &dir, Sattr { size: Some(0), ..none() }, Status::ISDIR),
        (ROOT, &fifo, Sattr { size: Some(0), ..none() }, Status::INVAL),
        (ROOT, &file, Sattr { size: Some(1 << 63), ..none() }, Status::FBIG),
    ];
    for (auth, object, set, status) in refusals {
        let before = object.attrs();
        let reply = setattr(&mut w, auth, object, set, None);
        let fail = SetattrFail { obj_wcc: object.wcc_failed() };
        assert_eq!(reply, Reply::Err(status, fail), "{auth:?} {set:?}");
        assert_eq!(object.attrs(), before, "{auth:?} {set:?}");
    }
    assert_eq!(w.pending.added(), 0);
}

#[test]
fn setattr_allows_what_posix_allows() {
    let mut w = World::new();
    let root = w.root();
    let file = w.file(&root, "file", 0o664, b"hello");
    let none = Sattr::default;
    for (auth, set) in [
        (GREG, Sattr { size: Some(3), ..none() }),
        (GREG, Sattr { atime: SetTime::ServerTime, mtime: SetTime::ServerTime, ..none() }),
        (ALICE, Sattr { uid: Some(1000), gid: Some(100), ..none() }),
        (ALICE, Sattr { mode: Some(0o7711), ..none() }),
        (ALICE, Sattr { mode: Some(0o000), ..none() }),
        (ALICE, Sattr { size: Some(9), ..none() }),
        (ROOT, Sattr { uid: Some(1001), gid: Some(101), ..none() }),
        (GREG, Sattr { gid: Some(7), ..none() }),
    ] {
        let before = file.attrs();
        let reply = setattr(&mut w, auth, &file, set, None);
        assert_eq!(reply, Reply::Ok(SetattrOk { obj_wcc: file.wcc(&before) }), "{auth:?} {set:?}");
    }
    let after = file.fattr();
    assert_eq!((after.uid, after.gid, after.size, after.mode), (1001, 7, 9, 0));
    assert_eq!(file.contents(), b"hel\0\0\0\0\0\0", "growth is zeros, and what was cut is gone");
}

#[test]
fn set_id_bits_are_cleared_when_owner_or_size_changes() {
    let mut w = World::new();
    let root = w.root();
    let none = Sattr::default;
    for (auth, mode, set, left) in [
        (ROOT, 0o6755, Sattr { uid: Some(7), ..none() }, 0o755),
        (ROOT, 0o6755, Sattr { gid: Some(7), ..none() }, 0o755),
        (ROOT, 0o2745, Sattr { gid: Some(7), ..none() }, 0o2745),
        (ROOT, 0o6755, Sattr { size: Some(0), ..none() }, 0o6755),
        (ALICE, 0o6755, Sattr { size: Some(0), ..none() }, 0o755),
        (ROOT, 0o755, Sattr { uid: Some(7), mode: Some(0o6755), ..none() }, 0o6755),
        (GREG, 0o755, Sattr { mode: Some(0o2755), ..none() }, 0o2755),
    ] {
        let file = w.file(&root, "file", mode, b"hello");
        if let crate::support::Auth::Sys(1001, ..) = auth {
            file.node.set_attrs(&vfs::SetAttrs { uid: Some(1001), ..Default::default() }).unwrap();
        }
        let before = file.attrs();
        let reply = setattr(&mut w, auth, &file, set, None);
        assert_eq!(reply, Reply::Ok(SetattrOk { obj_wcc: file.wcc(&before) }));
        assert_eq!(file.attrs().mode, left, "{auth:?} {mode:o} {set:?}");
        root.node.remove_unchecked(vfs::Name::new(b"file").unwrap()).unwrap();
    }
}
