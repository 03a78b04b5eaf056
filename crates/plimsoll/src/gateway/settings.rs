//! The configuration of a gateway, and the parts of it that an endpoint changes.

use crate::config::{Config, StorageKind};
use crate::gateway_dir::endpoints_dir;
use anyhow::{Context, bail};
use cluster::Name;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The pool of the cluster; an error if the configuration makes no gateway.
pub(crate) fn pool(config: &Config) -> anyhow::Result<&str> {
    let pool = config.cluster.pool.as_deref().context(
        "the configuration has no pool in [cluster]: set it, and storage = \"cephfs\", to make this machine a gateway",
    )?;
    if config.storage != StorageKind::CephFs {
        bail!("[cluster] needs storage = \"cephfs\": gateways have their volumes on one CephFS");
    }
    Ok(pool)
}

/// The local copy of the state of an endpoint.
pub(crate) fn data_dir(data: &Path, endpoint: &Name) -> PathBuf {
    endpoints_dir(data).join(endpoint.as_str())
}

/// The configuration of an endpoint: that of its gateway, at the address and with the directories of the endpoint.
pub(crate) fn of_endpoint(gateway: &Config, endpoint: &Name, address: IpAddr) -> Config {
    let mut config = gateway.clone();
    let at_address = |listen: &mut SocketAddr| listen.set_ip(address);
    config.data = data_dir(&gateway.data, endpoint);
    at_address(&mut config.nfs.listen);
    config.smb.listen.as_mut().into_iter().for_each(at_address);
    config.replication.listen.as_mut().into_iter().for_each(at_address);
    if config.api.certificate.is_some() || config.api.insecure {
        at_address(&mut config.api.listen);
    } else {
        // Several endpoints of a gateway cannot have the same port of the loopback interface.
        config.api.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    }
    let directory = gateway.ceph.directory.trim_end_matches('/');
    config.ceph.directory = format!("{directory}/{endpoint}");
    // The session of an earlier process of this name is ended, at whichever gateway it ran.
    config.ceph.gateway = Some(endpoint.to_string());
    config
}
