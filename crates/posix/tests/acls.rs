//! Compares POSIX ACLs with the kernel's own decisions: random ACLs and callers, and inheritance from random
//! directories.

mod fixture;

use fixture::{GROUNDS, Tree};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, XattrFlags, accessat, mkdirat, mknodat, openat};
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use vfs::acl::access;
use vfs::{
    Access, Blocking, Caller, Disposition, Durability, ExclusiveKey, Export, File, FsResult, PendingSync,
    PosixAcl, SetAttrs, Special, Volume, VolumeId,
};
use vfs_testing::conformance::oracle::Random;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

fn served(tree: &Tree) -> File {
    let store = Arc::clone(&tree.open().store);
    let volume = Volume::new(VolumeId(1), "one", store, Durability::Relaxed, 1);
    Arc::new(Export::new("/one", Arc::new(volume), Vec::new())).root()
}

fn everywhere(test: impl Fn(&Tree)) {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        eprintln!("on {ground:?}");
        fs::set_permissions(&tree.path, fs::Permissions::from_mode(0o755)).expect("a mode");
        test(&tree);
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        fixture::skip("asking the kernel as others needs root");
    }
    is_root
}

/// One of few users, so that ACLs often name them. Root is rare.
fn user(random: &mut Random) -> u32 {
    if random.below(20) == 0 { 0 } else { 100 + small(random, 5) }
}

fn group(random: &mut Random) -> u32 {
    200 + small(random, 5)
}

fn small(random: &mut Random, below: usize) -> u32 {
    u32::try_from(random.below(below)).expect("a small number")
}

fn named(random: &mut Random, id: fn(&mut Random) -> u32) -> Box<[(u32, u32)]> {
    (0..random.below(4)).map(|_| (id(random), small(random, 8))).collect()
}

/// An ACL in an unusual order, possibly with a user twice.
fn list(random: &mut Random) -> PosixAcl {
    let (users, groups) = (named(random, user), named(random, group));
    let needs_mask = !users.is_empty() || !groups.is_empty() || random.below(4) == 0;
    let [owner, owning, mask, other] = [(); 4].map(|()| small(random, 8));
    PosixAcl { owner, group: owning, mask: needs_mask.then_some(mask), other, users, groups }
}

fn caller(random: &mut Random) -> Caller {
    let more: Vec<u32> = (0..random.below(3)).map(|_| group(random)).collect();
    Caller::new(user(random), group(random), more)
}

/// Runs `act` while the kernel treats this thread as `caller`. The thread must not have served before: it would keep
/// its capabilities.
fn as_caller<T>(caller: &Caller, act: impl FnOnce() -> T) -> T {
    let groups: Vec<Gid> = caller.groups().iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
    set_thread_groups(&groups).expect("groups");
    set_thread_res_gid(gid, gid, Gid::ROOT).expect("a group");
    set_thread_res_uid(uid, uid, Uid::ROOT).expect("a user");
    let done = act();
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).expect("root");
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).expect("root");
    done
}

fn access_masks() -> impl Iterator<Item = (Access, rustix::fs::Access)> {
    use rustix::fs::Access as Asked;
    let bits =
        [(Access::EXECUTE, Asked::EXEC_OK), (Access::WRITE, Asked::WRITE_OK), (Access::READ, Asked::READ_OK)];
    (1..8).map(move |mask| {
        let selected = bits.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
        selected.fold((Access::NONE, Asked::EXISTS), |(ours, theirs), (_, (access, kernel_mask))| {
            (ours.and(*access), theirs | *kernel_mask)
        })
    })
}

fn set_list(path: &Path, name: &str, acl: &PosixAcl) {
    rustix::fs::setxattr(path, name, &acl.to_xattr(), XattrFlags::empty()).expect("a list");
}

#[test]
fn random_acls_grant_same_access_as_kernel() {
    if !is_root() {
        return;
    }
    everywhere(|tree| {
        let (root, mut random) = (served(tree), Random::new(11));
        let at = openat(CWD, &tree.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("a tree");
        let objects: Vec<(String, File)> = (0..16)
            .map(|number| {
                let name = format!("object-{number}");
                let path = tree.path.join(&name);
                if number % 2 == 0 { fs::create_dir(&path) } else { fs::write(&path, b"x") }
                    .expect("an object");
                let dir = root.open_dir(&Caller::new(0, 0, []), Blocking::Allowed).expect("the root");
                let found = dir.lookup(name.as_bytes(), Blocking::Allowed).expect("an object");
                (name, found.file)
            })
            .collect();
        let mut bits_alone_err = 0;
        for round in 0..10_000 {
            let (name, file) = &objects[random.below(16)];
            let path = tree.path.join(name);
            chown(&path, Some(user(&mut random)), Some(group(&mut random))).expect("an owner");
            let acl = list(&mut random);
            set_list(&path, ACCESS, &acl);
            let caller = caller(&mut random);
            let attrs = file.attrs(Blocking::Allowed).expect("attributes");
            let ours = file.posix_acl(&attrs, Blocking::Allowed).expect("a list");
            let reply = file.access(&caller, Blocking::Allowed).expect("an answer");
            let kernel_mask = as_caller(&caller, || {
                access_masks()
                    .map(|(_, kernel_mask)| accessat(&at, &**name, kernel_mask, AtFlags::EACCESS))
                    .collect::<Vec<_>>()
            });
            for ((mask, _), theirs) in access_masks().zip(kernel_mask) {
                let theirs = theirs.map_err(|errno| assert_eq!(errno, Errno::ACCESS)).is_ok();
                let granted = access::check(&attrs, ours.as_deref(), &caller, mask).is_ok();
                assert_eq!(granted, theirs, "{round}: {mask:?} of {attrs:?} with {acl:?} for {caller:?}");
                bits_alone_err += u32::from(access::check(&attrs, None, &caller, mask).is_ok() != theirs);
                let replied = match mask {
                    Access::READ => reply.read,
                    Access::WRITE => reply.modify && reply.extend,
                    Access::EXECUTE => reply.execute || reply.lookup,
                    _ => theirs,
                };
                assert_eq!(replied, theirs, "{round}: a reply for {mask:?}");
            }
        }
        assert!(
            bits_alone_err > 1000,
            "mode bits alone err {bits_alone_err} times: the lists say too little"
        );
    });
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    File,
    Once,
    Sized,
    Dir,
    Fifo,
}

fn make_served(dir: &File, caller: &Caller, kind: Kind, mode: u32) -> FsResult<()> {
    let mut pending = PendingSync::default();
    let size = if let Kind::Sized = kind { Some(5000) } else { None };
    let set = SetAttrs { mode: Some(mode), size, ..SetAttrs::default() };
    match kind {
        Kind::File | Kind::Sized => dir.create(caller, b"new", Disposition::CreateNew, &set, &mut pending),
        Kind::Once => {
            let once = Disposition::CreateOnce(ExclusiveKey::new([7; 8]));
            dir.create(caller, b"new", once, &set, &mut pending)
        }
        Kind::Dir => dir.make_dir(caller, b"new", &set, &mut pending),
        Kind::Fifo => dir.make_special(caller, b"new", Special::Fifo, &set, &mut pending),
    }
    .map(drop)
}

fn make_by_kernel(dir: &Path, kind: Kind, mode: u32) -> Result<(), Errno> {
    let (path, mode) = (dir.join("new"), Mode::from_raw_mode(mode));
    match kind {
        Kind::File | Kind::Once | Kind::Sized => {
            openat(CWD, path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC, mode)
                .map(drop)
        }
        Kind::Dir => mkdirat(CWD, path, mode),
        Kind::Fifo => mknodat(CWD, path, rustix::fs::FileType::Fifo, mode, 0),
    }
}

fn security(path: &Path) -> (u32, u32, u32, [Option<Vec<u8>>; 2]) {
    let metadata = fs::symlink_metadata(path).expect("a file");
    let lists = [ACCESS, DEFAULT].map(|name| {
        let mut value = vec![0; 1024];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).ok()?;
        value.truncate(len);
        Some(value)
    });
    (metadata.mode(), metadata.uid(), metadata.gid(), lists)
}

#[test]
fn new_object_inherits_same_acls_as_in_kernel() {
    if !is_root() {
        return;
    }
    everywhere(|tree| {
        let (root, mut random) = (served(tree), Random::new(12));
        let mut with_lists = 0;
        for round in 0..600 {
            let kinds = [Kind::File, Kind::Once, Kind::Sized, Kind::Dir, Kind::Fifo];
            let kind = kinds[random.below(5)];
            let (acl, mode) = (list(&mut random), small(&mut random, 0o1000));
            let caller = Caller::new(100 + small(&mut random, 5), group(&mut random), [group(&mut random)]);
            let above = if random.below(2) == 0 { 0o777 } else { 0o2777 };
            let [ours, theirs] = ["ours", "theirs"].map(|whose| {
                let path = tree.path.join(format!("{whose}-{round}"));
                fs::create_dir(&path).expect("a directory");
                chown(&path, Some(100), Some(201)).expect("an owner");
                fs::set_permissions(&path, fs::Permissions::from_mode(above)).expect("a mode");
                set_list(&path, DEFAULT, &acl);
                path
            });
            let name = format!("ours-{round}");
            let made = std::thread::scope(|scope| {
                let serving = scope.spawn(|| {
                    let dir = root.open_dir(&caller, Blocking::Allowed)?;
                    make_served(&dir.lookup(name.as_bytes(), Blocking::Allowed)?.file, &caller, kind, mode)
                });
                serving.join().expect("no panic")
            });
            made.expect("made");
            as_caller(&caller, || make_by_kernel(&theirs, kind, mode)).expect("made");
            let [ours, theirs] = [ours, theirs].map(|dir| security(&dir.join("new")));
            assert_eq!(ours, theirs, "{round}: {kind:?} of mode {mode:o} below {acl:?}");
            with_lists += u32::from(ours.3[0].is_some());
        }
        assert!(with_lists > 100, "{with_lists} of 600 have a list");
    });
}
