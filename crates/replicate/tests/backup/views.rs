//! Backups of snapshots of real volumes, and restores to others.

use crate::everything::{change_tree, fill_tree_with};
use crate::ground::{Ground, Tree};
use crate::linux::{Place, now};
use crate::rig::{name, noise, plain};
use posix::{Options, Volumes};
use replicate::{Manifest, Restore, Selection, restore};
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, Capacity, Provisioner, Root, ViewId, VolumeId};
use vfs_testing::UncheckedNode;

const VOLUME: VolumeId = VolumeId(1);
/// An extended attribute of this size fits on every file system.
const XATTR_BYTES: usize = 12_000;

fn make(volumes: &Volumes, id: VolumeId) -> Arc<dyn Backend> {
    // Files count by their size, and one is of a TiB.
    let capacity = Capacity { bytes: 1 << 44, files: 100_000 };
    volumes.make(id, &Root { mode: 0o755, uid: 7, gid: 8 }, capacity).unwrap();
    volumes.open(id).unwrap()
}

/// Restores to a new volume, and compares that with the backup.
fn check_restore(place: &Place, manifest: &Manifest, volumes: &Volumes, id: VolumeId) {
    let target = make(volumes, id);
    let mut job = Restore {
        selection: Selection::Whole,
        pace: &mut |_| ControlFlow::Continue(()),
        progress: &mut |_| ControlFlow::Continue(()),
    };
    restore(&place.vault, manifest, &*target, &mut job).unwrap();
    assert_eq!(place.compare(manifest, &*target), []);
}

fn check_ground(ground: Ground) {
    let (Some(place), Some(tree)) = (Place::new(), Tree::new(ground)) else { return };
    let volumes = Volumes::open(&tree.path, Options::default()).unwrap();
    let volume = make(&volumes, VOLUME);
    fill_tree_with(&volume.root(), XATTR_BYTES, &|| ());
    let snapshots = volume.snapshots().unwrap();
    let taken = now();
    snapshots.create(ViewId(1)).unwrap();
    change_tree(&volume.root(), XATTR_BYTES);
    let view = snapshots.open(ViewId(1)).unwrap();
    let (first, _) = place.back_up(&*view, None, taken);
    assert_eq!(place.compare(&first, &*view), []);
    assert_ne!(place.compare(&first, &*volume), []);
    check_restore(&place, &first, &volumes, VolumeId(2));

    let taken = now();
    snapshots.create(ViewId(2)).unwrap();
    volume.root().set_attrs(&vfs::SetAttrs { mode: Some(0o711), ..vfs::SetAttrs::default() }).unwrap();
    let view = snapshots.open(ViewId(2)).unwrap();
    let (second, progress) = place.back_up(&*view, Some(&first), taken);
    assert!(progress.bytes_read < 10 << 20, "{}", progress.bytes_read);
    assert_eq!(place.compare(&second, &*view), []);
    check_restore(&place, &second, &volumes, VolumeId(3));

    let large = volume.root().create_unchecked(name(b"large"), &plain()).unwrap().found.node;
    large.write(0, &noise(9, 20 << 20), KEEP_SET_ID).unwrap();
    snapshots.create(ViewId(3)).unwrap();
    let (third, _) = place.back_up_changes(snapshots, [2, 3].map(ViewId), &second, now());
    large.write(9 << 20, b"changed", KEEP_SET_ID).unwrap();
    large.write(15 << 20, &noise(10, 3 << 20), KEEP_SET_ID).unwrap();
    let taken = now();
    snapshots.create(ViewId(4)).unwrap();
    let (fourth, progress) = place.back_up_changes(snapshots, [3, 4].map(ViewId), &third, taken);
    assert!(progress.bytes_read < 10 << 20, "{}", progress.bytes_read);
    assert_eq!(place.compare(&fourth, &*snapshots.open(ViewId(4)).unwrap()), []);
    check_restore(&place, &fourth, &volumes, VolumeId(4));
}

#[test]
fn snapshot_of_an_undo_store_is_restored_with_everything() {
    check_ground(Ground::Xfs);
}

#[test]
fn snapshot_that_is_a_subvolume_is_restored_with_everything() {
    check_ground(Ground::Btrfs);
}
