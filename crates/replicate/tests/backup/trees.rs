//! Trees with everything that a volume can have.

use crate::rig::{Rig, Volume, name, noise, plain, seconds};
use replicate::{Error, Key, Selection};
use vfs::backend::KEEP_SET_ID;
use vfs::volume::streams;
use vfs::{
    Backend, Blocking, Device, ExtraAttrs, FsError, Name, NewInode, NodeRef, PosixAcl, SetAttrs, SetTime,
    SetXattr, Special, Time, XattrName,
};
use vfs_testing::UncheckedNode;

fn acl(user: u32) -> PosixAcl {
    let users = [(user, 6), (user + 1, 4)].into();
    PosixAcl { owner: 7, group: 5, mask: Some(6), other: 1, users, groups: [(77, 7)].into() }
}

fn set(node: &NodeRef, name: XattrName<'_>, value: &[u8]) {
    node.xattrs().unwrap().set(name, value, SetXattr::Either, &|_| Ok(())).unwrap();
}

/// Makes one of everything.
pub(crate) fn fill(volume: &Volume) {
    fill_tree(&volume.root(), &|| volume.advance(3));
}

/// Makes one of everything below the root of a backend. `tick` is called between changes.
pub(crate) fn fill_tree(root: &NodeRef, tick: &dyn Fn()) {
    let dir =
        root.make_dir_unchecked(name(b"dir"), &NewInode { mode: 0o2750, ..plain() }).unwrap().found.node;
    let odd = [&b"\xff\xfe\n"[..], b" ", b"...", &[b'x'; 255], b"a\\b:*?\"", "\u{e4}".as_bytes()];
    for (at, odd) in odd.iter().enumerate() {
        let node = dir.create_unchecked(name(odd), &plain()).unwrap().found.node;
        node.write(0, &noise(at as u64, 10 * at), KEEP_SET_ID).unwrap();
    }
    tick();
    // Holes at the start, between and at the end; larger than a chunk; not at the limits of chunks.
    let sparse = root.create_unchecked(name(b"sparse"), &plain()).unwrap().found.node;
    sparse.write(3_000_000, &noise(50, 5_000_000), KEEP_SET_ID).unwrap();
    sparse.write(900_000_000_000, b"far", KEEP_SET_ID).unwrap();
    sparse.set_attrs(&SetAttrs { size: Some(1 << 40), ..SetAttrs::default() }).unwrap();
    let hole = root.create_unchecked(name(b"only-hole"), &NewInode { size: 1 << 33, ..plain() }).unwrap();
    assert_eq!(hole.found.attrs.size, 1 << 33);
    root.create_unchecked(name(b"empty"), &plain()).unwrap();
    // Hard links in several directories.
    let linked = root.create_unchecked(name(b"linked"), &plain()).unwrap().found.node;
    linked.write(0, &noise(51, 100_000), KEEP_SET_ID).unwrap();
    dir.link_unchecked(name(b"again"), &linked).unwrap();
    root.link_unchecked(name(b"third"), &linked).unwrap();
    let special = [
        (&b"link"[..], Special::Symlink(b"/to/\xffwhere")),
        (b"fifo", Special::Fifo),
        (b"socket", Special::Socket),
        (b"block", Special::Block(Device { major: 8, minor: 1 })),
        (b"character", Special::Character(Device { major: 1, minor: 700_000 })),
    ];
    for (at, (file, special)) in special.into_iter().enumerate() {
        let gid = u32::try_from(at).unwrap() + 100;
        let node =
            dir.make_special_unchecked(name(file), special, &NewInode { gid, ..plain() }).unwrap().found.node;
        dir.link_unchecked(name(&[file, b"-2"].concat()), &node).unwrap();
    }
    let set_id =
        root.create_unchecked(name(b"set-id"), &NewInode { mode: 0o6755, ..plain() }).unwrap().found.node;
    set(&set_id, XattrName::new(b"a.name\xff").unwrap(), &noise(52, 60_000));
    set(&set_id, XattrName::new(b"empty").unwrap(), b"");
    set(&dir, XattrName::new(b"of.a.directory").unwrap(), b"value");
    set(&set_id, XattrName::ACL, b"a record as it is");
    let mut extra = ExtraAttrs::default();
    (extra.flags, extra.born) = (Some(3), Some(seconds(-5)));
    set(&set_id, XattrName::EXTRA_ATTRS, &extra.encode());
    linked.acls().unwrap().set_access_acl(&acl(1)).unwrap();
    dir.acls().unwrap().set_access_acl(&acl(2)).unwrap();
    dir.acls().unwrap().set_default_acl(Some(&acl(3))).unwrap();
    tick();
    // Streams of a file, of a directory, and of the root.
    let (key, dir_key, root_key) = (linked.key(), dir.key(), root.key());
    let attrs = linked.attrs(Blocking::Allowed).unwrap();
    for (key, stream, len) in [
        (&key, &b"Zone.Identifier"[..], 100),
        (&key, b"a", 3_000_000),
        (&key, b"ab", 0),
        (&dir_key, "\u{e4}".as_bytes(), 7),
        (&root_key, b"..", 9),
    ] {
        let node = streams::restore_stream(root, key, stream, &attrs).unwrap();
        node.write(0, &noise(53, len), KEEP_SET_ID).unwrap();
    }
    let deep = (0..40)
        .fold(root.clone(), |dir, _| dir.make_dir_unchecked(name(b"deeper"), &plain()).unwrap().found.node);
    deep.create_unchecked(name(b"bottom"), &plain()).unwrap();
    let old = Time { seconds: -1_000_000, nanos: 999_999_999 };
    for node in [&deep, &dir, &set_id, root] {
        let times = SetAttrs { modified: Some(SetTime::To(old)), ..SetAttrs::default() };
        node.set_attrs(&times).unwrap();
    }
}

#[test]
fn restore_equals_source_with_and_without_encryption() {
    for key in [None, Some(Key([9; 32]))] {
        let (rig, volume) = (Rig::new(key), Volume::new());
        fill(&volume);
        let manifest = rig.back_up(&volume, None);
        let restored = rig.check_restore(&manifest, &volume);
        // Holes are holes there, too.
        let used = |volume: &Volume| volume.fs.usage().bytes;
        assert!(used(&restored) <= used(&volume) + 4_000_000, "{} {}", used(&restored), used(&volume));
        assert_eq!(manifest.totals.skipped, 0);
        // The mark of the hidden tree is that of its new place.
        let tree = restored.root().lookup(Name::STREAMS, Blocking::Allowed).unwrap().node;
        assert!(streams::tree_of(&restored.root()).unwrap().is_some_and(|found| found.key() == tree.key()));
    }
}

#[test]
fn restored_volume_makes_the_same_backup_again() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    fill(&volume);
    let manifest = rig.back_up(&volume, None);
    let restored = rig.restore(&manifest, Selection::Whole).unwrap();
    let again = rig.back_up(&restored, None);
    assert_eq!((again.totals.files, again.totals.bytes), (manifest.totals.files, manifest.totals.bytes));
    rig.check_restore(&again, &restored);
}

#[test]
fn snapshot_is_backed_up_while_the_live_volume_changes() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    fill(&volume);
    let snapshots = volume.fs.snapshots().unwrap();
    snapshots.create(vfs::ViewId(7)).unwrap();
    volume.put("linked", b"changed after the snapshot");
    volume.root().remove_unchecked(name(b"third")).unwrap();
    let opened = snapshots.open(vfs::ViewId(7)).unwrap();
    let source = replicate::Source { backend: &*opened, ..crate::rig::source(&volume, None, seconds(9_000)) };
    let (manifest, _) = rig.run(crate::rig::new_id(), &source).unwrap();
    let restored = rig.restore(&manifest, Selection::Whole).unwrap();
    let found =
        replicate::compare(&rig.vault, &manifest, &*opened, 9, &mut || std::ops::ControlFlow::Continue(()));
    assert_eq!(found.unwrap(), []);
    assert!(restored.root().lookup(name(b"third"), Blocking::Allowed).is_ok());
}

#[test]
fn single_paths_are_restored_with_their_directories() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    fill(&volume);
    let manifest = rig.back_up(&volume, None);
    let paths: [&[u8]; 3] = [b"dir/again", b"deeper/deeper", b"/set-id"];
    let restored = rig.restore(&manifest, Selection::Paths(&paths)).unwrap();
    let root = restored.root();
    let look_up = |path: &[u8]| {
        let mut names = path.split(|&byte| byte == b'/');
        names.try_fold(root.clone(), |dir: NodeRef, part| {
            Ok::<_, FsError>(dir.lookup(name(part), Blocking::Allowed)?.node)
        })
    };
    let again = look_up(b"dir/again").unwrap();
    assert_eq!(again.read_vec(0, 200_000, Blocking::Allowed).unwrap(), noise(51, 100_000));
    assert_eq!(again.attrs(Blocking::Allowed).unwrap().links, 1, "its other names were not asked for");
    assert!(
        again
            .acls()
            .unwrap()
            .access_acl(&again.attrs(Blocking::Allowed).unwrap(), Blocking::Allowed)
            .unwrap()
            .is_some()
    );
    assert!(look_up(b"deeper/deeper/deeper/deeper").is_ok());
    assert_eq!(look_up(b"set-id").unwrap().attrs(Blocking::Allowed).unwrap().mode, 0o6755);
    assert_eq!(look_up(b"dir").unwrap().attrs(Blocking::Allowed).unwrap().mode & 0o7000, 0o2000);
    assert!(look_up(b"dir/fifo").is_err() && look_up(b"sparse").is_err());
    // What exists stays.
    let again = rig.restore_to(&manifest, Selection::Paths(&[b"set-id"]), &restored);
    assert!(matches!(again, Err(Error::File(_, FsError::Exists))), "{again:?}");
    let missing = rig.restore_to(&manifest, Selection::Paths(&[b"dir/missing"]), &restored);
    assert!(matches!(missing, Err(Error::NoPath(_))), "{missing:?}");
}

#[test]
fn whole_restore_needs_an_empty_target() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    fill(&volume);
    let manifest = rig.back_up(&volume, None);
    let used = rig.restore_to(&manifest, Selection::Whole, &volume);
    assert!(matches!(used, Err(Error::TargetNotEmpty)), "{used:?}");
}

#[test]
fn empty_volume_is_backed_up() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let manifest = rig.back_up(&volume, None);
    assert_eq!((manifest.totals.files, manifest.totals.bytes), (1, 0));
    rig.check_restore(&manifest, &volume);
}

#[test]
fn streams_without_their_file_are_left_out() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let gone = volume.put("gone", b"x");
    streams::restore_stream(&volume.root(), &gone.key(), b"s", &gone.attrs(Blocking::Allowed).unwrap())
        .unwrap();
    volume.put("stays", b"y");
    volume.root().remove_unchecked(name(b"gone")).unwrap();
    let manifest = rig.back_up(&volume, None);
    assert_eq!(manifest.totals.files, 2);
    rig.check_restore(&manifest, &volume);
}
