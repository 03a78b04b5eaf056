//! A volume with an undo store, and checks of its space.

use crate::fixture::{Ground, new_inode};
use posix::{Options, Volumes};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfs::{Backend, Blocking, Capacity, Provisioner, Root, Snapshots, ViewId, VolumeId, unpaced};

pub(crate) const GROUNDS: [Ground; 3] = [Ground::Tmpfs, Ground::Ext4, Ground::Xfs];
pub(crate) const ID: VolumeId = VolumeId(7);
pub(crate) const CLONE: VolumeId = VolumeId(8);
pub(crate) const CAPACITY: Capacity = Capacity { bytes: 200 << 20, files: 100_000 };
pub(crate) const ALLOWED: Blocking = Blocking::Allowed;
/// Only a hang takes this long.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(600);
pub(crate) const ANY: vfs::AuthorizeRemove<'static> = &|_| Ok(());

pub(crate) fn open(data: &Path) -> Arc<Volumes> {
    Volumes::open(data, Options { copy_snapshots: true, ..Options::default() }).expect("volumes")
}

/// A volume, and its volumes, which must live as long.
pub(crate) struct Rig {
    pub(crate) data: PathBuf,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) volume: Arc<dyn Backend>,
    pub(crate) root: Root,
}

impl Rig {
    pub(crate) fn new(data: &Path) -> Self {
        let volumes = open(data);
        let own = new_inode(0o755);
        let root = Root { mode: own.mode, uid: own.uid, gid: own.gid };
        volumes.make(ID, &root, CAPACITY).unwrap();
        let volume = volumes.open(ID).unwrap();
        Self { data: data.to_owned(), volumes, volume, root }
    }

    /// The volume as after a restart.
    pub(crate) fn reopened(self) -> Self {
        let Self { data, volumes, volume, root } = self;
        drop(volume);
        volumes.close();
        drop(volumes);
        let volumes = open(&data);
        let volume = volumes.open(ID).unwrap();
        Self { data, volumes, volume, root }
    }

    /// The volume after a revert.
    pub(crate) fn reverted(self, view: u32) -> Self {
        let Self { data, volumes, volume, root } = self;
        drop(volume);
        volumes.revert(ID, ViewId(view), &mut unpaced).unwrap();
        let volume = volumes.open(ID).unwrap();
        assert!(volumes.wait_for_counts(WAIT_MAX));
        Self { data, volumes, volume, root }
    }

    pub(crate) fn snapshots(&self) -> &dyn Snapshots {
        self.volume.snapshots().expect("snapshots")
    }

    pub(crate) fn view(&self, view: u32) -> Arc<dyn Backend> {
        self.snapshots().open(ViewId(view)).unwrap()
    }
}

/// Without snapshots, all their space is free again.
pub(crate) fn check_space(rig: &Rig, views: Vec<u32>) {
    // What a stopped deletion has left goes on with the next one, even of a snapshot that is gone.
    for view in [1].into_iter().chain(views) {
        assert_eq!(rig.snapshots().delete(ViewId(view), &mut |_| ControlFlow::Continue(())), Ok(true));
    }
    let records: Vec<_> = std::fs::read_dir(rig.data.join("snapshots/0000000000000007/records"))
        .unwrap()
        .flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(records.is_empty(), "{records:?}");
    check_count(rig);
}

/// The running count is that of the live files and of what the snapshots hold.
#[track_caller]
pub(crate) fn check_count(rig: &Rig) {
    let counted = rig.volumes.usage(ID).unwrap();
    let live = Volumes::recount(&rig.data.join("volumes/0000000000000007")).unwrap();
    let held = rig.volumes.recount_held(ID).unwrap();
    assert_eq!(counted, vfs::Usage { bytes: live.bytes + held, ..live }, "of these are {held} held");
}
