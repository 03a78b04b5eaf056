//! Large sparse files: truncated in one step, and sparse in snapshots and after reverts.

use crate::fixture::{Tree, name, new_inode};
use crate::rig::{ALLOWED, GROUNDS, ID, Rig, check_count};
use std::ops::ControlFlow;
use vfs::backend::KEEP_SET_ID;
use vfs::{Capacity, NodeRef, Provisioner, SetAttrs, ViewId};
use vfs_testing::UncheckedNode;

/// Bytes of a file in a view: at its start, within, and at its end.
fn samples(root: &NodeRef, file: &str, size: u64) -> Vec<u8> {
    let node = root.lookup(name(file), ALLOWED).unwrap().node;
    assert_eq!(node.attrs(ALLOWED).unwrap().size, size);
    [0, 9 << 20, size / 2, size - 8].iter().flat_map(|at| node.read_vec(*at, 8, ALLOWED).unwrap()).collect()
}

#[test]
fn sparse_file_of_any_size_is_truncated_and_comes_back_sparse() {
    const SIZE: u64 = 4 << 40;
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let rig = Rig::new(&tree.path);
        rig.volumes.set_capacity(ID, Capacity { bytes: 64 << 40, files: 1000 }).unwrap();
        let root = rig.volume.root();
        let file = root.create_unchecked(name("sparse"), &new_inode(0o644)).unwrap().found.node;
        let size = |size| SetAttrs { size: Some(size), ..SetAttrs::default() };
        file.set_attrs(&size(SIZE)).unwrap();
        file.write(SIZE / 2, b"in it, ", KEEP_SET_ID).unwrap();
        file.write(SIZE - 4, b"end.", KEEP_SET_ID).unwrap();
        rig.snapshots().create(ViewId(1)).unwrap();
        let before = samples(&root, "sparse", SIZE);
        file.write(9 << 20, b"a change", KEEP_SET_ID).unwrap();
        rig.snapshots().create(ViewId(2)).unwrap();
        let changed = samples(&root, "sparse", SIZE);
        let used = rig.volumes.usage(ID).unwrap().bytes;
        file.ranges().unwrap().punch(1 << 30, SIZE - (2 << 30), KEEP_SET_ID).unwrap();
        file.set_attrs(&size(10)).unwrap();
        file.set_attrs(&size(SIZE)).unwrap();
        // Only what had data is held.
        assert!(rig.volumes.usage(ID).unwrap().bytes < used + (1 << 20));
        assert_eq!(samples(&rig.view(1).root(), "sparse", SIZE), before);
        assert_eq!(samples(&rig.view(2).root(), "sparse", SIZE), changed);
        let old = rig.view(2).root().lookup(name("sparse"), ALLOWED).unwrap().node;
        assert_eq!(old.ranges().unwrap().seek(1 << 30, vfs::Seek::Data).unwrap(), Some(SIZE / 2));
        assert!(old.ranges().unwrap().seek(0, vfs::Seek::Hole).unwrap().is_some_and(|hole| hole < 9 << 20));
        check_count(&rig);
        drop((root, file, old));
        // The records of the later one move to the earlier one.
        let rig = rig.reopened();
        assert!(rig.snapshots().delete(ViewId(2), &mut |_| ControlFlow::Continue(())).unwrap());
        rig.snapshots().create(ViewId(3)).unwrap();
        assert!(rig.snapshots().delete(ViewId(3), &mut |_| ControlFlow::Continue(())).unwrap());
        assert_eq!(samples(&rig.view(1).root(), "sparse", SIZE), before);
        check_count(&rig);
        let rig = rig.reverted(1);
        assert_eq!(samples(&rig.volume.root(), "sparse", SIZE), before);
        let back = rig.volume.root().lookup(name("sparse"), ALLOWED).unwrap();
        assert!(back.attrs.used < 1 << 20, "{}", back.attrs.used);
        check_count(&rig);
    }
}
