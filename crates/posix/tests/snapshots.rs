//! Snapshots of volumes on Btrfs: the conformance suite on a volume that is a subvolume, and every verb around it.

mod fixture;

use fixture::{Ground, Tree, new_inode, run, set_acl};
use posix::{Options, Volumes};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use vfs::{Backend, Capacity, Provisioner, Root, VolumeId};
use vfs_testing::conformance::{Fixture, Lack};

const ID: VolumeId = VolumeId(0xbeef);
const CAPACITY: Capacity = Capacity { bytes: 1 << 40, files: 1 << 20 };
/// Only a hang takes this long.
const WAIT_MAX: Duration = Duration::from_secs(600);

fn open(data: &Path) -> Arc<Volumes> {
    Volumes::open(data, Options::default()).expect("volumes")
}

fn root() -> Root {
    let own = new_inode(0o755);
    Root { mode: own.mode, uid: own.uid, gid: own.gid }
}

fn snapshot(source: &Path, target: &Path, read_only: &[&str]) {
    let mut command = Command::new("btrfs");
    command.args(["-q", "subvolume", "snapshot"]).args(read_only).args([source, target]);
    assert!(run(&mut command), "{target:?}");
}

/// Copies a data directory, as after a move to another path: no key may change.
fn copy(from: &Path, to: &Path) {
    let id = format!("{:016x}", ID.0);
    std::fs::create_dir_all(to.join("volumes")).unwrap();
    std::fs::create_dir_all(to.join("snapshots").join(&id)).unwrap();
    snapshot(&from.join("volumes").join(&id), &to.join("volumes").join(&id), &[]);
    for entry in std::fs::read_dir(from.join("snapshots").join(&id)).unwrap() {
        let entry = entry.unwrap();
        snapshot(&entry.path(), &to.join("snapshots").join(&id).join(entry.file_name()), &["-r"]);
    }
}

fn opened(volumes: &Volumes) -> Arc<dyn Backend> {
    volumes.make(ID, &root(), CAPACITY).expect("a volume");
    let volume = volumes.open(ID).expect("a volume");
    assert!(volumes.wait_for_counts(WAIT_MAX));
    volume
}

#[test]
fn suite_on_subvolume() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let next = AtomicU32::new(0);
    vfs_testing::conformance::run(&|| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let data = tree.path.join(format!("data-{number}"));
        std::fs::create_dir(&data).unwrap();
        let volumes = open(&data);
        let volume = opened(&volumes);
        assert!(volume.snapshots().is_some());
        let path = data.join(format!("volumes/{:016x}", ID.0));
        let again = tree.path.join(format!("again-{number}"));
        let reopen = move || {
            copy(&data, &again);
            opened(&open(&again))
        };
        Fixture::new(volume)
            .reopened_by(Box::new(reopen))
            .with_acls_set_by(Box::new(move |file, kind, acl| set_acl(&path.join(file), kind, acl)))
            .without(Lack::DirectoryLinks, "a directory of btrfs has one link")
            .without(Lack::LargeXattrs, "btrfs keeps an attribute in one node of its tree")
            .keeping(volumes)
    });
}
