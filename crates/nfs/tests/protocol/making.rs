//! CREATE, MKDIR, SYMLINK, MKNOD, LINK.

use crate::support::{ALICE, Auth, BOB, GREG, OTHER, Object, ROOT, World, decode, some_handle, trusting};
use nfs_wire::v3::{
    CreateArgs, CreateFail, CreateHow, CreateOk, CreateReply, DeviceData, DirOpArgs, FileHandle, FileType,
    LinkArgs, LinkFail, LinkOk, LinkReply, MkdirArgs, MknodArgs, MknodData, NfsTime, Procedure, Reply, Sattr,
    SetTime, SpecData, Status, SymlinkArgs, SymlinkData,
};
use vfs::{Backend, Durability, SetAttrs, Special};
use vfs_testing::{MemFs, UncheckedNode, memfs};
use xdr::Encode;

fn mode(mode: u32) -> Sattr {
    Sattr { mode: Some(mode), ..Sattr::default() }
}

/// Creates an object and checks the whole reply against the new state.
fn make(
    w: &mut World,
    auth: Auth,
    procedure: Procedure,
    dir: &Object,
    name: &str,
    args: &impl Encode,
) -> Object {
    w.clock.advance_ms(1500);
    let before = dir.attrs();
    let added = w.pending.added();
    let reply = w.ask(auth, procedure, args);
    let made = w.find(dir, name);
    let ok = CreateOk { obj: Some(made.fh()), obj_attributes: made.post(), dir_wcc: dir.wcc(&before) };
    assert_eq!(decode::<CreateReply<'_>>(&reply), Reply::Ok(ok), "{procedure:?} {name}");
    assert!(w.pending.added() > added, "the entry must be durable before the reply leaves");
    made
}

/// Asserts that a creation is refused and changes nothing.
fn refused(
    w: &mut World,
    auth: Auth,
    procedure: Procedure,
    dir: &Object,
    args: &impl Encode,
    status: Status,
) {
    w.clock.advance_ms(1500);
    let before = dir.attrs();
    let added = w.pending.added();
    let reply = w.ask(auth, procedure, args);
    let fail = CreateFail { dir_wcc: dir.wcc_failed() };
    assert_eq!(decode::<CreateReply<'_>>(&reply), Reply::Err(status, fail), "{procedure:?} {auth:?}");
    assert_eq!(dir.attrs(), before);
    assert_eq!(w.pending.added(), added);
}

fn create<'a>(dir: &'a Object, name: &'a str, how: CreateHow) -> CreateArgs<'a> {
    CreateArgs { place: dir.at(name.as_bytes()), how }
}

fn symlink<'a>(place: DirOpArgs<'a>, target: &'a [u8]) -> SymlinkArgs<'a> {
    SymlinkArgs { place, symlink: SymlinkData { symlink_attributes: Sattr::default(), symlink_data: target } }
}

#[test]
fn create_makes_a_file_of_the_caller() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    for (name, how) in [("u", CreateHow::Unchecked(mode(0o640))), ("g", CreateHow::Guarded(mode(0o640)))] {
        let made = make(&mut w, BOB, Procedure::CREATE, &dir, name, &create(&dir, name, how));
        let attrs = made.fattr();
        assert_eq!((attrs.ftype, attrs.mode, attrs.nlink, attrs.size), (FileType::Regular, 0o640, 1, 0));
        assert_eq!((attrs.uid, attrs.gid), (1002, 102));
        assert_eq!(attrs.mtime, crate::support::object::time(w.clock.now()));
    }
}

#[test]
fn create_sets_all_requested_attributes() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let [atime, mtime] = [1, 2].map(|seconds| NfsTime { seconds, nseconds: 5 });
    let set = Sattr {
        mode: Some(0o6755),
        uid: Some(7),
        gid: Some(8),
        size: Some(9),
        atime: SetTime::ClientTime(atime),
        mtime: SetTime::ClientTime(mtime),
    };
    let how = CreateHow::Guarded(set);
    let made = make(&mut w, ROOT, Procedure::CREATE, &dir, "new", &create(&dir, "new", how)).fattr();
    assert_eq!((made.mode, made.uid, made.gid, made.size), (0o6755, 7, 8, 9));
    assert_eq!((made.atime, made.mtime), (atime, mtime));
}

/// Some clients send their own idea of owner and group with every CREATE. An owner that the caller may not set is
/// ignored.
#[test]
fn owners_that_the_caller_may_not_set_are_ignored() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let set = |uid, gid| Sattr { uid: Some(uid), gid: Some(gid), ..mode(0o644) };
    for (auth, uid, gid, expected) in [
        (BOB, 0, 0, (1002, 102)),
        (BOB, 1002, 102, (1002, 102)),
        (GREG, 1001, 7, (1001, 7)),
        (GREG, 1000, 100, (1001, 100)),
        (ROOT, 5, 6, (5, 6)),
    ] {
        let name = format!("{uid}-{gid}-{auth:?}").replace(['[', ']', '(', ')', ' ', ','], "");
        let how = CreateHow::Guarded(set(uid, gid));
        let file = make(&mut w, auth, Procedure::CREATE, &dir, &name, &create(&dir, &name, how)).attrs();
        assert_eq!((file.uid, file.gid), expected, "{auth:?}");
        let name = format!("d{name}");
        let args = MkdirArgs { place: dir.at(name.as_bytes()), attributes: set(uid, gid) };
        let made = make(&mut w, auth, Procedure::MKDIR, &dir, &name, &args).attrs();
        assert_eq!((made.uid, made.gid), expected, "{auth:?}");
    }
}

#[test]
fn a_directory_with_the_set_group_id_bit_passes_its_group_on() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o2777);
    let how = CreateHow::Guarded(mode(0o2755));
    let bobs = make(&mut w, BOB, Procedure::CREATE, &dir, "bobs", &create(&dir, "bobs", how)).attrs();
    assert_eq!((bobs.gid, bobs.mode), (100, 0o755), "no set-group-id for a group he is not in");
    let gregs = make(&mut w, GREG, Procedure::CREATE, &dir, "gregs", &create(&dir, "gregs", how)).attrs();
    assert_eq!((gregs.gid, gregs.mode), (100, 0o2755));
    let args = MkdirArgs { place: dir.at(b"sub"), attributes: mode(0o755) };
    let sub = make(&mut w, BOB, Procedure::MKDIR, &dir, "sub", &args).attrs();
    assert_eq!((sub.gid, sub.mode), (100, 0o2755), "directories hand the bit on too");
    let link = make(&mut w, BOB, Procedure::SYMLINK, &dir, "link", &symlink(dir.at(b"link"), b"x")).attrs();
    assert_eq!(link.gid, 100);
}

#[test]
fn an_unchecked_create_opens_an_existing_file() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&dir, "file", 0o666, b"hello");
    for (size, contents) in [(None, &b"hello"[..]), (Some(2), b"he"), (Some(0), b"")] {
        w.clock.advance_ms(1000);
        let (before, was) = (dir.attrs(), file.attrs());
        let how = CreateHow::Unchecked(Sattr { size, ..mode(0o600) });
        let reply = w.ask(BOB, Procedure::CREATE, &create(&dir, "file", how));
        let ok = CreateOk { obj: Some(file.fh()), obj_attributes: file.post(), dir_wcc: dir.wcc(&before) };
        assert_eq!(decode::<CreateReply<'_>>(&reply), Reply::Ok(ok));
        assert_eq!(dir.attrs(), before);
        assert_eq!(
            (file.contents(), file.attrs().mode),
            (contents.to_vec(), was.mode),
            "only the size counts"
        );
    }
    let closed = w.file(&dir, "closed", 0o644, b"hello");
    let how = CreateHow::Unchecked(Sattr { size: Some(0), ..Sattr::default() });
    refused(&mut w, BOB, Procedure::CREATE, &dir, &create(&dir, "closed", how), Status::ACCES);
    assert_eq!(closed.contents(), b"hello");
}

/// Like open(2) with `O_CREAT`: a caller without write access to the directory may still open an existing file.
#[test]
fn an_unchecked_create_of_an_existing_file_needs_no_write_access() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o755);
    let file = w.file(&dir, "file", 0o666, b"hello");
    let before = dir.attrs();
    let how = CreateHow::Unchecked(mode(0o600));
    let reply = w.ask(BOB, Procedure::CREATE, &create(&dir, "file", how));
    let ok = CreateOk { obj: Some(file.fh()), obj_attributes: file.post(), dir_wcc: dir.wcc(&before) };
    assert_eq!(decode::<CreateReply<'_>>(&reply), Reply::Ok(ok));
    refused(&mut w, BOB, Procedure::CREATE, &dir, &create(&dir, "new", how), Status::ACCES);
    let how = CreateHow::Guarded(mode(0o600));
    refused(&mut w, BOB, Procedure::CREATE, &dir, &create(&dir, "file", how), Status::EXIST);
    let closed = w.dir(&w.root(), "closed", 0o766);
    w.file(&closed, "file", 0o666, b"");
    refused(&mut w, BOB, Procedure::CREATE, &closed, &create(&closed, "file", how), Status::ACCES);
}

#[test]
fn a_guarded_create_refuses_an_existing_name() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    w.file(&dir, "file", 0o666, b"hello");
    w.dir(&dir, "sub", 0o777);
    w.special(&dir, "link", Special::Symlink(b"nowhere"));
    for name in ["file", "sub", "link"] {
        let how = CreateHow::Guarded(mode(0o600));
        refused(&mut w, BOB, Procedure::CREATE, &dir, &create(&dir, name, how), Status::EXIST);
    }
    for name in ["sub", "link"] {
        let how = CreateHow::Unchecked(mode(0o600));
        refused(&mut w, BOB, Procedure::CREATE, &dir, &create(&dir, name, how), Status::EXIST);
    }
}

#[test]
fn an_exclusive_create_recognizes_its_repetition() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let first = [0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88];
    let how = CreateHow::Exclusive(first);
    let file = make(&mut w, BOB, Procedure::CREATE, &dir, "file", &create(&dir, "file", how));
    assert_eq!((file.attrs().uid, file.attrs().gid), (1002, 102));
    let before = dir.attrs();
    let added = w.pending.added();
    let reply = w.ask(BOB, Procedure::CREATE, &create(&dir, "file", how));
    let ok = CreateOk { obj: Some(file.fh()), obj_attributes: file.post(), dir_wcc: dir.wcc(&before) };
    assert_eq!(decode::<CreateReply<'_>>(&reply), Reply::Ok(ok));
    assert!(w.pending.added() > added, "the first may have died before its flush");
    for bit in 0..64 {
        let other = CreateHow::Exclusive((u64::from_be_bytes(first) ^ 1 << bit).to_be_bytes());
        refused(&mut w, BOB, Procedure::CREATE, &dir, &create(&dir, "file", other), Status::EXIST);
    }
    // The client's SETATTR overwrites the verifier.
    file.node.set_attrs(&SetAttrs { accessed: Some(vfs::SetTime::Now), ..SetAttrs::default() }).unwrap();
    refused(&mut w, BOB, Procedure::CREATE, &dir, &create(&dir, "file", how), Status::EXIST);
}

#[test]
fn an_exclusive_create_is_recognized_after_a_restart() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    w.fs.root().sync(vfs::SyncScope::All).unwrap();
    let how = CreateHow::Exclusive(*b"verifier");
    let handle =
        make(&mut w, BOB, Procedure::CREATE, &dir, "file", &create(&dir, "file", how)).bytes().to_vec();
    w.pending.sync_all().unwrap();
    let mut after = restarted(&w, w.fs.crash());
    let dir = after.find(&after.root(), "dir");
    let reply = after.ask(BOB, Procedure::CREATE, &create(&dir, "file", how));
    let Reply::Ok(ok) = decode::<CreateReply<'_>>(&reply) else { panic!("{reply:?}") };
    assert_eq!(some_handle(ok.obj), handle);
    let other = CreateHow::Exclusive(*b"Verifier");
    refused(&mut after, BOB, Procedure::CREATE, &dir, &create(&dir, "file", other), Status::EXIST);
}

fn restarted(w: &World, fs: MemFs) -> World {
    let mut after = World::new();
    let volume =
        crate::support::volume(crate::support::VOLUME, std::sync::Arc::new(fs.clone()), Durability::Sync);
    let export = vfs::Export::new("/vol", volume, vec![trusting()]);
    after.namespace = std::sync::Arc::new(vfs::Namespace::new([export]));
    after.service.signer = w.service.signer.clone();
    after.fs = fs;
    after
}

#[test]
fn mkdir_makes_an_empty_directory() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let args = MkdirArgs { place: dir.at(b"sub"), attributes: mode(0o1750) };
    let sub = make(&mut w, BOB, Procedure::MKDIR, &dir, "sub", &args).fattr();
    assert_eq!(
        (sub.ftype, sub.mode, sub.nlink, sub.uid, sub.gid),
        (FileType::Directory, 0o1750, 2, 1002, 102)
    );
    assert_eq!(dir.attrs().links, 3);
    refused(&mut w, BOB, Procedure::MKDIR, &dir, &args, Status::EXIST);
    let args = MkdirArgs { place: dir.at(b"plain"), attributes: Sattr::default() };
    assert_eq!(make(&mut w, BOB, Procedure::MKDIR, &dir, "plain", &args).attrs().mode, 0o755);
}

#[test]
fn symlink_stores_its_target_unchanged() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let long = vec![b'x'; 4095];
    for (name, target) in [("a", &b"../../../etc"[..]), ("b", b"\xff"), ("c", &long)] {
        let made =
            make(&mut w, BOB, Procedure::SYMLINK, &dir, name, &symlink(dir.at(name.as_bytes()), target));
        assert_eq!(made.node.read_link().as_deref(), Ok(target));
        assert_eq!((made.attrs().mode, made.attrs().uid), (0o777, 1002));
    }
    refused(&mut w, BOB, Procedure::SYMLINK, &dir, &symlink(dir.at(b"a"), b"x"), Status::EXIST);
    refused(&mut w, BOB, Procedure::SYMLINK, &dir, &symlink(dir.at(b"e"), b""), Status::INVAL);
    refused(&mut w, BOB, Procedure::SYMLINK, &dir, &symlink(dir.at(b"e"), b"a\0b"), Status::INVAL);
    refused(
        &mut w,
        BOB,
        Procedure::SYMLINK,
        &dir,
        &symlink(dir.at(b"e"), &[b'x'; 4096]),
        Status::NAMETOOLONG,
    );
}

#[test]
fn mknod_makes_fifos_sockets_and_for_root_devices() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let spec = SpecData { specdata1: 8, specdata2: 65 };
    let device = DeviceData { dev_attributes: mode(0o600), spec };
    let none = SpecData::default();
    for (auth, name, what, ftype, rdev) in [
        (BOB, "fifo", MknodData::Fifo(mode(0o600)), FileType::Fifo, none),
        (BOB, "socket", MknodData::Socket(mode(0o600)), FileType::Socket, none),
        (ROOT, "block", MknodData::BlockDevice(device), FileType::BlockDevice, spec),
        (ROOT, "char", MknodData::CharDevice(device), FileType::CharDevice, spec),
    ] {
        let args = MknodArgs { place: dir.at(name.as_bytes()), what };
        let made = make(&mut w, auth, Procedure::MKNOD, &dir, name, &args).fattr();
        assert_eq!((made.ftype, made.rdev, made.mode), (ftype, rdev, 0o600));
        refused(&mut w, auth, Procedure::MKNOD, &dir, &args, Status::EXIST);
    }
    for (what, status) in [
        (MknodData::BlockDevice(device), Status::PERM),
        (MknodData::CharDevice(device), Status::PERM),
        (MknodData::Other(1), Status::BADTYPE),
        (MknodData::Other(2), Status::BADTYPE),
        (MknodData::Other(5), Status::BADTYPE),
        (MknodData::Other(0), Status::BADTYPE),
        (MknodData::Other(u32::MAX), Status::BADTYPE),
    ] {
        refused(&mut w, BOB, Procedure::MKNOD, &dir, &MknodArgs { place: dir.at(b"new"), what }, status);
    }
}

fn link(w: &mut World, auth: Auth, file: FileHandle<'_>, link: DirOpArgs<'_>) -> LinkReply {
    w.clock.advance_ms(1500);
    decode(&w.ask(auth, Procedure::LINK, &LinkArgs { file, link }))
}

#[test]
fn link_adds_a_name_to_a_file() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let file = w.file(&w.root(), "file", 0o600, b"hello");
    let before = dir.attrs();
    let reply = link(&mut w, BOB, file.fh(), dir.at(b"again"));
    assert_eq!(reply, Reply::Ok(LinkOk { file_attributes: file.post(), linkdir_wcc: dir.wcc(&before) }));
    assert_eq!((file.attrs().links, w.find(&dir, "again").bytes()), (2, file.bytes()));
    assert_eq!(w.pending.added(), 1);
}

#[test]
fn link_errors_are_as_specified() {
    let mut options = memfs::Options::default();
    options.limits.links_max = 4;
    let mut w = World::with(trusting(), Durability::Sync, options);
    let root = w.root();
    let dir = w.dir(&root, "dir", 0o777);
    let closed = w.dir(&root, "closed", 0o755);
    let file = w.file(&root, "file", 0o666, b"");
    let far = w
        .other
        .root()
        .create_unchecked(crate::support::object::name("far"), &crate::support::object::new_inode(0o666));
    let far = Object::new(&w.service.signer, OTHER, far.unwrap().found.node);
    for name in ["1", "2", "3"] {
        dir.node.link_unchecked(crate::support::object::name(name), &file.node).unwrap();
    }
    for (object, to, name, status) in [
        (&file, &dir, "1", Status::EXIST),
        (&file, &dir, "4", Status::MLINK),
        (&file, &closed, "x", Status::ACCES),
        (&file, &file, "x", Status::NOTDIR),
        (&closed, &dir, "x", Status::ISDIR),
        (&far, &dir, "x", Status::XDEV),
    ] {
        let before = to.attrs();
        let fail = LinkFail { file_attributes: object.post(), linkdir_wcc: to.wcc_failed() };
        assert_eq!(link(&mut w, BOB, object.fh(), to.at(name.as_bytes())), Reply::Err(status, fail));
        assert_eq!(to.attrs(), before);
    }
    let gone = w.file(&root, "gone", 0o666, b"");
    root.node.remove_unchecked(crate::support::object::name("gone")).unwrap();
    assert_eq!(link(&mut w, BOB, gone.fh(), dir.at(b"x")), Reply::Err(Status::STALE, LinkFail::default()));
    let (fail, there) = (LinkFail { file_attributes: file.post(), ..LinkFail::default() }, gone.at(b"x"));
    assert_eq!(link(&mut w, BOB, file.fh(), there), Reply::Err(Status::STALE, fail));
}

#[test]
fn creation_is_refused_in_a_non_directory_or_without_access_or_space() {
    let options = memfs::Options { files_total: 4, ..memfs::Options::default() };
    let mut w = World::with(trusting(), Durability::Sync, options);
    let root = w.root();
    let closed = w.dir(&root, "closed", 0o755);
    let file = w.file(&root, "file", 0o777, b"");
    let open = w.dir(&root, "open", 0o777);
    let set = mode(0o644);
    for (dir, status) in [(&closed, Status::ACCES), (&file, Status::NOTDIR), (&open, Status::NOSPC)] {
        let place = dir.at(b"new");
        for how in [CreateHow::Unchecked(set), CreateHow::Guarded(set), CreateHow::Exclusive([0; 8])] {
            refused(&mut w, BOB, Procedure::CREATE, dir, &CreateArgs { place, how }, status);
        }
        refused(&mut w, BOB, Procedure::MKDIR, dir, &MkdirArgs { place, attributes: set }, status);
        refused(&mut w, BOB, Procedure::SYMLINK, dir, &symlink(place, b"x"), status);
        refused(&mut w, BOB, Procedure::MKNOD, dir, &MknodArgs { place, what: MknodData::Fifo(set) }, status);
    }
    let how = CreateHow::Guarded(Sattr { size: Some(u64::MAX), ..set });
    root.node.remove_unchecked(crate::support::object::name("file")).unwrap();
    refused(&mut w, BOB, Procedure::CREATE, &open, &create(&open, "new", how), Status::FBIG);
    root.node.remove_dir_unchecked(crate::support::object::name("open")).unwrap();
    let reply = w.ask(ALICE, Procedure::CREATE, &create(&open, "new", CreateHow::Guarded(set)));
    assert_eq!(decode::<CreateReply<'_>>(&reply), Reply::Err(Status::STALE, CreateFail::default()));
}
