//! Snapshots that other programs make of exported directories.

use crate::exit::usage;
use crate::manage::words;
use crate::periodic::Task;
use anyhow::Context;
use api::convert::ToValue;
use api_client::model::SnapshotDirectory;
use clap::Args;
use posix::{Options, SnapshotDirError, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfs::Volume;

/// Looks for new and deleted snapshots are this far apart.
const SCAN_EVERY: Duration = Duration::from_secs(3);

/// The arguments for them.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// Directory with Btrfs snapshots of the exported subvolumes, repeatable
    ///
    /// Clients find the read-only snapshots that snapper, btrbk or "btrfs subvolume snapshot -r" make there in .snapshot (NFS),
    /// in ~snapshot and in Previous Versions (SMB): DIR/NAME, and DIR/NUMBER/snapshot as NUMBER. New ones appear, and deleted
    /// ones vanish, within seconds. Each exported directory must be the root of a subvolume in the file system of DIR.
    #[arg(long, value_name = "DIR")]
    snapshots: Vec<PathBuf>,
    /// Access of clients to snapshots
    #[arg(
        long,
        value_name = "ACCESS",
        value_parser = words::snapshot_directory(),
        default_value = "reachable",
        requires = "snapshots",
        hide_short_help = true
    )]
    snapshot_directory: SnapshotDirectory,
}

/// A volume whose snapshots other programs make.
pub(crate) struct HostVolume {
    store: Arc<Store>,
    volume: Arc<Volume>,
}

impl SnapshotArgs {
    /// Lets a store show the snapshots of its directory.
    pub(crate) fn show_in(&self, store: &Store, dir: &Path, options: &Options) -> anyhow::Result<()> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let absolute = self.snapshots.iter().map(std::path::absolute).collect::<Result<_, _>>();
        let dirs: Vec<_> = absolute.context("cannot find the directory of --snapshots")?;
        let count_max = usize::try_from(control::SNAPSHOTS_PER_VOLUME_MAX).unwrap_or(usize::MAX);
        store.show_snapshots(options, dirs, count_max).map_err(|error| {
            let needed = match error {
                SnapshotDirError::Unreadable(..) => "it needs an existing directory that this process may read",
                SnapshotDirError::OtherFileSystem(_) => "it needs a directory on the Btrfs of the exported directory",
                SnapshotDirError::NoSubvolume | SnapshotDirError::NoUuid => {
                    "it needs a subvolume that \"btrfs subvolume create\" made; export that, not a directory in it"
                }
            };
            usage(format!("cannot serve snapshots of {}: {error}; --snapshots: {needed}", dir.display()))
        })
    }

    /// The volume for the task, if its snapshots are served. They are there from the start.
    pub(crate) fn volume(&self, store: &Arc<Store>, volume: &Arc<Volume>) -> Option<HostVolume> {
        let served = HostVolume { store: Arc::clone(store), volume: Arc::clone(volume) };
        (!self.snapshots.is_empty()).then(|| {
            volume.set_snapshot_directory(self.snapshot_directory.to_value());
            served.scan();
            served
        })
    }
}

impl HostVolume {
    fn scan(&self) {
        if let Some(snapshots) = self.store.scan_snapshots() {
            tracing::info!(
                volume = self.volume.name(),
                count = snapshots.len(),
                "shows snapshots of the host"
            );
            self.volume.set_snapshots(snapshots);
        }
    }
}

/// Looks for new and deleted snapshots.
pub(crate) fn task(volumes: Arc<[HostVolume]>) -> Option<Task> {
    let scan = |volumes: &[HostVolume]| volumes.iter().for_each(HostVolume::scan);
    (!volumes.is_empty()).then(|| Task::new("host-snapshots", SCAN_EVERY, move || scan(&volumes)))
}
