//! Streams, whose places are keys of their files, after reverts and in clones.

use crate::fixture::trees::content;
use crate::fixture::{Tree, name, new_inode};
use crate::rig::{ALLOWED, ANY, CAPACITY, CLONE, GROUNDS, ID, Rig, check_count};
use std::ops::ControlFlow;
use vfs::backend::KEEP_SET_ID;
use vfs::volume::streams;
use vfs::{Attrs, ExtraAttrs, NodeRef, Provisioner, SetXattr, Time, ViewId, XattrName, unpaced};
use vfs_testing::UncheckedNode;

/// The data of the only stream of a file; `None` without one.
fn stream_of(root: &NodeRef, file: &NodeRef) -> Option<Vec<u8>> {
    let tree = streams::tree_of(root).unwrap()?;
    let dir = tree.lookup(name(&streams::dir_name(&file.key())), ALLOWED).ok()?.node;
    let stream = dir.lookup(name(":note"), ALLOWED).unwrap();
    Some(content(&stream.node, &stream.attrs).unwrap())
}

/// Makes a stream as the service does, with the birth time that a client has set for the file.
fn add_stream(root: &NodeRef, file: &NodeRef, data: &[u8]) {
    let attrs = file.attrs(ALLOWED).unwrap();
    let stream = streams::restore_stream(root, &file.key(), b"note", &attrs).unwrap();
    stream.write(0, data, KEEP_SET_ID).unwrap();
    let extra = ExtraAttrs::default().of_copy(&Attrs { born: Some(BORN), ..attrs }, &attrs);
    let xattrs = file.xattrs().unwrap();
    xattrs.set(XattrName::EXTRA_ATTRS, &extra.encode(), SetXattr::Either, &|_| Ok(())).unwrap();
}

const BORN: Time = Time { seconds: 1_000_000_000, nanos: 0 };

/// The streams and birth times of [`streams_follow_their_files`], in the volume or in a clone.
fn check_streams(root: &NodeRef, what: &str) {
    for (path, data) in [("file", &b"of a file"[..]), ("dir", b"of a directory")] {
        let found =
            root.lookup(name(path), ALLOWED).unwrap_or_else(|error| panic!("{what}: {path}: {error}"));
        assert_eq!(stream_of(root, &found.node).as_deref(), Some(data), "{what}: {path}");
        let record = found.node.xattrs().unwrap().get(XattrName::EXTRA_ATTRS).unwrap();
        assert_eq!(ExtraAttrs::decode(&record).born(&found.attrs), Some(BORN), "{what}: {path}");
    }
    let tree = streams::tree_of(root).unwrap().unwrap();
    let mut count = 0;
    tree.read_dir(0, false, &mut |_| {
        count += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(count, 5, "{what}: two names of itself, a mark, and two files with streams");
}

#[test]
fn streams_follow_their_files() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let mut rig = Rig::new(&tree.path);
        let root = rig.volume.root();
        let file = root.create_unchecked(name("file"), &new_inode(0o644)).unwrap().found.node;
        let dir = root.make_dir_unchecked(name("dir"), &new_inode(0o755)).unwrap().found.node;
        add_stream(&root, &file, b"of a file");
        add_stream(&root, &dir, b"of a directory");
        rig.snapshots().create(ViewId(1)).unwrap();
        // As the service removes a directory with streams.
        let streams = streams::tree_of(&root).unwrap().unwrap();
        let of_dir = streams::dir_name(&dir.key());
        let of_dir = name(&of_dir);
        streams.lookup(of_dir, ALLOWED).unwrap().node.remove(name(":note"), ANY).unwrap();
        streams.remove_dir(of_dir, ANY).unwrap();
        root.remove_dir(name("dir"), ANY).unwrap();
        drop((root, file, dir, streams));
        rig.volumes.clone_volume(ID, ViewId(1), CLONE, &rig.root, CAPACITY, &mut unpaced).unwrap();
        check_streams(&rig.volumes.open(CLONE).unwrap().root(), "a clone");
        for _ in 0..2 {
            rig = rig.reverted(1);
            check_streams(&rig.volume.root(), "a revert");
            check_count(&rig);
        }
    }
}
