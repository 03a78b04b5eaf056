//! The conformance suite on volumes with undo stores.

use crate::fixture::{Ground, Tree, new_inode, set_acl};
use crate::rig::{GROUNDS, ID, open};
use std::sync::Arc;
use vfs::{Capacity, Provisioner, Root, ViewId};
use vfs_testing::conformance::{Case, Fixture, Lack, cases};

/// The lacks of a file system in the conformance suite.
fn lacks_of(ground: Ground) -> &'static [(Lack, &'static str)] {
    match ground {
        Ground::Tmpfs => &[(Lack::Clones, "tmpfs shares no blocks")],
        Ground::Ext4 => &[
            (Lack::Clones, "ext4 shares no blocks"),
            (Lack::LargeXattrs, "ext4 keeps the attributes of a file in its inode and one block"),
        ],
        _ => &[
            (Lack::LargeDevices, "XFS refuses them with EINVAL"),
            (Lack::LongTargets, "XFS keeps 1,023 bytes (XFS_SYMLINK_MAXLEN)"),
        ],
    }
}

/// The conformance suite on volumes with undo stores. With `snapshot`, each volume has a snapshot that nobody looks at,
/// so that every change preserves something first.
fn run_suite(ground: Ground, snapshot: bool) {
    let Some(tree) = Tree::new(ground) else { return };
    let make = |has_snapshots: bool| {
        let dir = tempfile::tempdir_in(&tree.path).unwrap();
        let volumes = open(dir.path());
        let own = new_inode(0o755);
        let root = Root { mode: own.mode, uid: own.uid, gid: own.gid };
        volumes.make(ID, &root, Capacity { bytes: 1 << 40, files: 1 << 20 }).unwrap();
        let volume = volumes.open(ID).unwrap();
        let live = dir.path().join("volumes/0000000000000007");
        let fixture = Fixture::new(Arc::clone(&volume)).keeping((volumes, dir));
        let fixture =
            lacks_of(ground).iter().fold(fixture, |fixture, &(lack, reason)| fixture.without(lack, reason));
        if has_snapshots {
            // An undo store does not see the changes of other programs.
            return fixture;
        }
        if snapshot {
            volume.snapshots().expect("snapshots").create(ViewId(1)).unwrap();
        }
        fixture.with_acls_set_by(Box::new(move |file, kind, acl| set_acl(&live.join(file), kind, acl)))
    };
    let failure = |case: Case| {
        let has_snapshots = case.name.starts_with("snapshots/");
        // Those cases make their own snapshots.
        if snapshot && has_snapshots {
            None
        } else {
            case.failure(&|| make(has_snapshots)).map(|failure| (case, failure))
        }
    };
    let failed: Vec<_> = cases()
        .into_iter()
        .filter_map(failure)
        .map(|(case, failure)| format!("{}: {failure}", case.name))
        .collect();
    assert!(failed.is_empty(), "on {ground:?}: {failed:#?}");
}

#[test]
fn suite_with_undo_store() {
    GROUNDS.into_iter().for_each(|ground| run_suite(ground, false));
}

#[test]
fn suite_with_an_unseen_snapshot() {
    GROUNDS.into_iter().for_each(|ground| run_suite(ground, true));
}
