//! A service with a volume on CephFS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::cluster::Cluster;
use crate::managed::{self, Managed};
use crate::process;
use crate::samba::USER;
use crate::server::PLIMSOLL_EXPORT;

/// Starts a service with a volume that everybody may mount, over NFS and SMB.
pub(super) fn start(binary: &Path, cluster: &Cluster, work: &Path) -> anyhow::Result<Managed> {
    let config = work.join("plimsoll.toml");
    let conf = cluster.conf();
    let text = format!(
        "storage = \"cephfs\"\n[ceph]\nconf = {:?}\nuser = \"admin\"\ndirectory = \"/{}\"\ngateway = \"one\"\n",
        process::text(&conf)?,
        work.file_name().unwrap_or_default().display()
    );
    fs::write(&config, text)?;
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
    let options = ["--config", process::text(&config)?];
    let prefix = cluster.root().prefix();
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let service = Managed::start_with_smb_and(binary, work, &prefix, &options)?;
    service.manage("pool create p1 --level plimsoll/unlimited --size 100GiB")?;
    let (password, id) = (managed::smb_password(work)?, USER.id.to_string());
    let name = PLIMSOLL_EXPORT.trim_start_matches('/');
    service.manage(&format!(
        "volume create {name} --pool p1 --size 50GiB --allow 127.0.0.1 --squash none --protocols nfsv3,smb --owner {id}:{id}"
    ))?;
    let user = ["user", "create", USER.name, "--uid", &id, "--gid", &id, "--password-file", &password];
    service.manage_with(&user)?;
    Ok(service)
}
