//! The storage of managed volumes: a directory of this machine, or a CephFS.

use crate::ceph_config::CephConfig;
use crate::config::{SnapshotMode, StorageKind};
use crate::descriptors::share_descriptors;
use crate::nfs_frontend::IDLE_TICKS;
use crate::nodename::nodename;
use anyhow::Context;
use posix::ResourceBudget;
use std::path::Path;
use std::sync::Arc;
use storage::NodeBudget;
use vfs::Provisioner;

/// Files of CephFS that may be open or cached. None needs a descriptor.
const CEPH_NODES_MAX: usize = 131_072;

/// The settings of a storage.
pub(crate) struct StorageSettings<'s> {
    pub(crate) kind: StorageKind,
    pub(crate) snapshots: SnapshotMode,
    pub(crate) ceph: &'s CephConfig,
}

/// Open storage.
#[derive(Clone)]
pub(crate) enum VolumeStorage {
    Local { volumes: Arc<posix::Volumes>, budget: Arc<ResourceBudget> },
    Ceph(Arc<ceph::Volumes>),
}

impl VolumeStorage {
    /// Opens the storage of a service with this data directory.
    pub(crate) fn open(data: &Path, settings: &StorageSettings<'_>) -> anyhow::Result<Self> {
        let budget = ResourceBudget::of_process();
        if settings.kind == StorageKind::CephFs {
            return Self::open_ceph(settings.ceph);
        }
        let copy_snapshots = settings.snapshots == SnapshotMode::Copy;
        let options =
            posix::Options { budget: Arc::clone(&budget), copy_snapshots, ..posix::Options::default() };
        let volumes = posix::Volumes::open(data, options)
            .with_context(|| format!("cannot use the data directory {}", data.display()))?;
        Ok(Self::Local { volumes, budget })
    }

    fn open_ceph(config: &CephConfig) -> anyhow::Result<Self> {
        let CephConfig { conf, user, file_system, directory, gateway } = config.clone();
        let name = gateway.unwrap_or_else(nodename);
        let options = ceph::Options { conf, user, file_system, directory, is_exclusive: true, name };
        let volumes = ceph::Volumes::open(&options, NodeBudget::new(CEPH_NODES_MAX));
        Ok(Self::Ceph(volumes.context("cannot use CephFS")?))
    }

    pub(crate) fn provisioner(&self) -> Arc<dyn Provisioner> {
        match self {
            Self::Local { volumes, .. } => Arc::clone(volumes) as _,
            Self::Ceph(volumes) => Arc::clone(volumes) as _,
        }
    }

    /// Releases what is not used any more. The process has `connections` open. Call this about once a second.
    pub(crate) fn sweep(&self, connections: usize) {
        match self {
            Self::Local { volumes, budget } => {
                volumes.sweep(IDLE_TICKS);
                share_descriptors(budget, connections);
            }
            Self::Ceph(volumes) => volumes.sweep(IDLE_TICKS),
        }
    }

    /// Saves the usage of all volumes. Call this when no client can change them any more.
    pub(crate) fn close(&self) {
        match self {
            Self::Local { volumes, .. } => volumes.close(),
            Self::Ceph(volumes) => volumes.close(),
        }
    }
}
