//! `[cluster]`: the membership of a machine in a cluster of gateways.

use crate::nodename::nodename;
use cluster::Name;
use serde::Deserialize;

/// `[cluster]`
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ClusterConfig {
    /// Replicated RADOS pool with the state of a cluster. With the key, this machine is a gateway.
    pub(crate) pool: Option<String>,
    /// Name of this gateway; without the key, the first label of the name of the host.
    pub(crate) gateway: Option<String>,
    /// Network interface that gets the addresses of endpoints; without the key, another program moves them.
    pub(crate) interface: Option<String>,
}

impl ClusterConfig {
    /// The name of this gateway.
    pub(crate) fn gateway(&self) -> anyhow::Result<Name> {
        let named = self.gateway.clone();
        let host = || {
            let host = nodename().to_ascii_lowercase();
            host.split('.').next().unwrap_or_default().to_owned()
        };
        let name = named.unwrap_or_else(host);
        name.parse().map_err(|error: String| anyhow::anyhow!("cluster.gateway: {error}"))
    }
}
