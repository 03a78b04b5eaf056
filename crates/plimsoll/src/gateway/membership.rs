//! The membership of this machine in a cluster: its key, and the connection to the store.

use super::settings;
use super::store::RadosStore;
use crate::config::Config;
use crate::gateway_dir::KEY_FILE;
use anyhow::{Context, bail};
use cluster::{Cluster, ClusterKey, KEY_BYTES, Name};
use control::KeyFile;
use std::path::Path;

/// A gateway's view of its own configuration and cluster.
pub(crate) struct Member {
    pub(crate) own: Name,
    pub(crate) cluster: Cluster<RadosStore>,
}

fn key_file(data: &Path) -> KeyFile<KEY_BYTES> {
    KeyFile::new(data.join(KEY_FILE), "the key can read the secrets of all endpoints")
}

/// Opens the cluster that this machine has joined.
pub(crate) fn open(config: &Config) -> anyhow::Result<Member> {
    let pool = settings::pool(config)?;
    let own = config.cluster.gateway()?;
    let key = key_file(&config.data).read()?.with_context(|| {
        format!(
            "this machine is no gateway yet: {} is missing. Make a cluster with \"plimsoll cluster init\", or join one \
             with \"plimsoll cluster join\"",
            config.data.join(KEY_FILE).display()
        )
    })?;
    let store = RadosStore::connect(&config.ceph, pool)?;
    Ok(Member { own, cluster: Cluster::open(store, ClusterKey::new(key))? })
}

/// Connects to the store of a cluster that this machine is to make or join. Returns its name too.
pub(super) fn connect_new(config: &Config) -> anyhow::Result<(Name, RadosStore)> {
    let pool = settings::pool(config)?;
    let own = config.cluster.gateway()?;
    if key_file(&config.data).read()?.is_some() {
        bail!("this machine is a gateway already: {} is there", config.data.join(KEY_FILE).display());
    }
    Ok((own, RadosStore::connect(&config.ceph, pool)?))
}

/// Stores the key of the cluster on this machine.
pub(super) fn keep_key(data: &Path, key: &ClusterKey) -> anyhow::Result<()> {
    key_file(data).read_or_make(|bytes| bytes.copy_from_slice(key.as_bytes()))?;
    Ok(())
}
