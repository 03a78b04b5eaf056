//! A tree with everything that a volume can have.

use crate::volume::{name, noise, plain, seconds};
use vfs::backend::KEEP_SET_ID;
use vfs::volume::streams;
use vfs::{
    Blocking, Device, ExtraAttrs, NewInode, NodeRef, PosixAcl, SetAttrs, SetTime, SetXattr, Special, Time,
    XattrName,
};
use vfs_testing::UncheckedNode;

fn acl(user: u32) -> PosixAcl {
    let users = [(user, 6), (user + 1, 4)].into();
    PosixAcl { owner: 7, group: 5, mask: Some(6), other: 1, users, groups: [(77, 7)].into() }
}

fn set(node: &NodeRef, name: XattrName<'_>, value: &[u8]) {
    node.xattrs().unwrap().set(name, value, SetXattr::Either, &|_| Ok(())).unwrap();
}

/// Bytes of the longest extended attribute. Btrfs has a limit of 16 KiB.
const XATTR_BYTES: usize = 60_000;

/// Makes one of everything below the root of a backend. `tick` is called between changes.
pub(crate) fn fill_tree(root: &NodeRef, tick: &dyn Fn()) {
    fill_tree_with(root, XATTR_BYTES, tick);
}

/// [`fill_tree`] with an extended attribute of so many bytes.
pub(crate) fn fill_tree_with(root: &NodeRef, xattr_bytes: usize, tick: &dyn Fn()) {
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
        (b"character", Special::Character(Device { major: 1, minor: 200_000 })),
    ];
    for (at, (file, special)) in special.into_iter().enumerate() {
        let gid = u32::try_from(at).unwrap() + 100;
        let node =
            dir.make_special_unchecked(name(file), special, &NewInode { gid, ..plain() }).unwrap().found.node;
        dir.link_unchecked(name(&[file, b"-2"].concat()), &node).unwrap();
    }
    let set_id =
        root.create_unchecked(name(b"set-id"), &NewInode { mode: 0o6755, ..plain() }).unwrap().found.node;
    set(&set_id, XattrName::new(b"a.name\xff").unwrap(), &noise(52, xattr_bytes));
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

/// Changes one of everything of such a tree.
pub(crate) fn change_tree(root: &NodeRef, xattr_bytes: usize) {
    let found = |file: &[u8]| root.lookup(name(file), Blocking::Allowed).unwrap().node;
    let (dir, linked, set_id, sparse) = (found(b"dir"), found(b"linked"), found(b"set-id"), found(b"sparse"));
    root.rename_unchecked(name(b"dir"), root, name(b"moved")).unwrap();
    root.remove_unchecked(name(b"third")).unwrap();
    root.link_unchecked(name(b"fourth"), &linked).unwrap();
    dir.remove_unchecked(name(b"fifo")).unwrap();
    dir.create_unchecked(name(b"new"), &plain()).unwrap().found.node.write(0, b"new", KEEP_SET_ID).unwrap();
    linked.write(50_000, &noise(60, 10_000), KEEP_SET_ID).unwrap();
    sparse.write(1_500_000, &noise(61, 10_000), KEEP_SET_ID).unwrap();
    sparse.set_attrs(&SetAttrs { size: Some(4_000_000), ..SetAttrs::default() }).unwrap();
    set(&set_id, XattrName::new(b"a.name\xff").unwrap(), &noise(62, xattr_bytes));
    set_id.xattrs().unwrap().remove(XattrName::new(b"empty").unwrap(), &|_| Ok(())).unwrap();
    let mut extra = ExtraAttrs::default();
    (extra.flags, extra.born) = (Some(1), Some(seconds(1_000_000_000)));
    set(&set_id, XattrName::EXTRA_ATTRS, &extra.encode());
    let owner = SetAttrs { mode: Some(0o640), uid: Some(9), gid: Some(10), ..SetAttrs::default() };
    found(b"empty").set_attrs(&owner).unwrap();
    linked.acls().unwrap().set_access_acl(&acl(11)).unwrap();
    dir.acls().unwrap().set_default_acl(None).unwrap();
    let tree = streams::tree_of(root).unwrap().unwrap();
    let of_linked = streams::dir_name(&linked.key());
    let streams_of = tree.lookup(name(of_linked.as_bytes()), Blocking::Allowed).unwrap().node;
    let stream = |stream: &[u8]| streams_of.lookup(name(stream), Blocking::Allowed).unwrap().node;
    stream(b":a").write(70_000, &noise(63, 5_000), KEEP_SET_ID).unwrap();
    streams_of.remove_unchecked(name(b":ab")).unwrap();
    let attrs = linked.attrs(Blocking::Allowed).unwrap();
    let new = streams::restore_stream(root, &linked.key(), b"new", &attrs).unwrap();
    new.write(0, &noise(64, 5_000), KEEP_SET_ID).unwrap();
}
