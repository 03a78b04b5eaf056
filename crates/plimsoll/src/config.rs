//! The configuration file of `plimsoll serve`: how this process runs. What is served is not in it; that is managed with the
//! other commands, and kept in the data directory.

use crate::ceph_config::CephConfig;
use crate::client_networks::Ipv6Prefix;
use crate::cluster_config::ClusterConfig;
use crate::lease::{LEASE_S, LEASES_S, LeaseArgs};
use crate::manage::{URL_ALLOWED, is_url};
use crate::nfs_frontend::{CONNECTIONS_PER_CLIENT, IDLE_TIMEOUT, Listen, THREADS};
use crate::smb_frontend::Logins;
use crate::state;
use crate::tls::{TlsSettings, read_pair};
use crate::volume_storage::StorageSettings;
use crate::{number, toml_file};
use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use serde::Deserialize;
use std::fmt::Display;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use transport::ReplyDeadline;

/// The whole file. Every part may be left out.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Data directory; `/var/lib/plimsoll` for root, `~/.local/state/plimsoll` for an ordinary user.
    #[cfg_attr(test, serde(skip_serializing))]
    pub(crate) data: PathBuf,
    /// The storage of volumes: `local` for the data directory, `cephfs` for a CephFS.
    pub(crate) storage: StorageKind,
    /// Snapshots on file systems without their own: `native` for none, `copy` for copies of what changes.
    pub(crate) snapshots: SnapshotMode,
    /// The CephFS of volumes, if `storage` is `cephfs`.
    pub(crate) ceph: CephConfig,
    /// The cluster of gateways to which this machine belongs.
    pub(crate) cluster: ClusterConfig,
    /// NFS and what belongs to it.
    pub(crate) nfs: NfsConfig,
    /// SMB.
    pub(crate) smb: SmbConfig,
    /// Replications to other services.
    pub(crate) replication: ReplicationConfig,
    /// The API, over which everything is managed.
    pub(crate) api: ApiConfig,
}

/// The storage of volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum StorageKind {
    /// The data directory.
    #[default]
    Local,
    /// A directory of a CephFS, through libcephfs.
    CephFs,
}

/// File systems on which volumes can have snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum SnapshotMode {
    /// On Btrfs and XFS, which share the storage of what does not change.
    #[default]
    Native,
    /// On other file systems, too. There, the first change of each 4 KiB after a snapshot copies it and waits for the disk.
    Copy,
}

/// `[nfs]`
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NfsConfig {
    /// Address and port for NFS and MOUNT.
    #[serde(deserialize_with = "crate::listen_address::deserialize")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) listen: SocketAddr,
    /// A second port for MOUNT; 0 for none. Without the key it is 635, if NFS is on 2049 and 635 is free.
    pub(crate) mount_port: Option<u16>,
    /// Port of the port mapper, TCP and UDP; 0 for none. Without the key it is 111, if NFS is on 2049 and 111 is free.
    pub(crate) portmap_port: Option<u16>,
    /// Whether to register NFS, MOUNT and the lock protocols with the host's `rpcbind` instead of serving a port mapper.
    pub(crate) register_rpcbind: bool,
    /// Port of remote quotas, UDP and TCP, such as 4049: `quota` on NFS clients then shows limits and usage. Without the key, or with 0, they are not served.
    pub(crate) rquota_port: Option<u16>,
    /// Threads that receive and answer calls; one for each core without the key.
    pub(crate) threads: Option<usize>,
    /// Connections that one client may have open.
    pub(crate) connections_per_client: NonZeroUsize,
    /// Seconds without a call after which a connection is closed.
    pub(crate) idle_timeout: NonZeroU32,
    /// Domain of user and group names over NFSv4, such as `example.org`; without it clients get numbers.
    pub(crate) id_domain: Option<String>,
    /// Leading bits that IPv6 addresses of one network have in common, 1 to 128.
    #[cfg_attr(test, schemars(with = "u8"))]
    pub(crate) ipv6_prefix: Ipv6Prefix,
    /// Lease time of NFSv4 in seconds, 5 to 3600. After it, other clients may take a silent client's state.
    pub(crate) lease: u32,
    /// Seconds after a start in which clients reclaim their locks, at least the lease; 0 for none. Without the key it is 1.5 times the lease.
    pub(crate) grace_period: Option<u32>,
    /// Whether NFSv4.1 and 4.2 clients may cache writes by a delegation.
    pub(crate) write_delegations: bool,
    /// TLS for NFS.
    pub(crate) tls: TlsSettings,
}

/// `[smb]`
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SmbConfig {
    /// Address and port for SMB; without the key SMB is not served.
    #[serde(deserialize_with = "crate::listen_address::deserialize_some")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) listen: Option<SocketAddr>,
    /// Names that clients may call the service by, besides its address; any name if the list is empty.
    pub(crate) names: Vec<String>,
    /// Whether anonymous logins are allowed. They can list shares but not open them.
    pub(crate) anonymous: bool,
    /// Whether a session may have several connections (multichannel).
    pub(crate) multichannel: bool,
}

impl Default for SmbConfig {
    fn default() -> Self {
        Self { listen: None, names: Vec::new(), anonymous: false, multichannel: true }
    }
}

impl SmbConfig {
    pub(crate) fn logins(&self) -> Logins {
        Logins { names: self.names.clone(), anonymous: self.anonymous }
    }
}

/// `[replication]`
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReplicationConfig {
    /// Address and port for peers that replicate volumes of this service; without the key it does not listen for them.
    #[serde(deserialize_with = "crate::listen_address::deserialize_some")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) listen: Option<SocketAddr>,
}

/// `[api]`
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ApiConfig {
    /// Address and port for the API.
    #[serde(deserialize_with = "crate::listen_address::deserialize")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) listen: SocketAddr,
    /// Certificate chain for TLS, in PEM.
    pub(crate) certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM; only its owner may read it.
    pub(crate) key: Option<PathBuf>,
    /// URL by which clients know the API, such as `https://storage.example.org:2050`; made from `listen` without the key.
    pub(crate) url: Option<String>,
    /// Whether the API may listen on other addresses than loopback without TLS.
    pub(crate) insecure: bool,
    /// Whether `/metrics` needs no token.
    pub(crate) open_metrics: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: state::default_dir(),
            storage: StorageKind::default(),
            snapshots: SnapshotMode::default(),
            ceph: CephConfig::default(),
            cluster: ClusterConfig::default(),
            nfs: NfsConfig::default(),
            smb: SmbConfig::default(),
            replication: ReplicationConfig::default(),
            api: ApiConfig::default(),
        }
    }
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 2050)),
            certificate: None,
            key: None,
            url: None,
            insecure: false,
            open_metrics: false,
        }
    }
}

impl Default for NfsConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 2049)),
            mount_port: None,
            portmap_port: None,
            register_rpcbind: false,
            rquota_port: None,
            threads: None,
            connections_per_client: CONNECTIONS_PER_CLIENT,
            idle_timeout: IDLE_TIMEOUT,
            id_domain: None,
            ipv6_prefix: Ipv6Prefix::default(),
            lease: LEASE_S,
            grace_period: None,
            write_delegations: false,
            tls: TlsSettings::default(),
        }
    }
}

/// The configuration of the package.
const DEFAULT_FILE: &str = "/etc/plimsoll/plimsoll.toml";
/// In place of a file: no configuration, not even the default one.
const NO_FILE: &str = "/dev/null";

impl Config {
    /// Reads the file, or root's default one, if it exists.
    pub(crate) fn read_or_default(path: Option<&Path>) -> anyhow::Result<Self> {
        let default = Path::new(DEFAULT_FILE);
        let has_default = || rustix::process::geteuid().is_root() && default.exists();
        match path.or_else(|| has_default().then_some(default)) {
            Some(path) => Self::read(path),
            None => Ok(Self::default()),
        }
    }

    /// Reads a file. Errors name the line.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new(NO_FILE) {
            return Ok(Self::default());
        }
        let bytes = stable::files::read_trusted(path)
            .with_context(|| format!("cannot read the configuration {}", path.display()))?;
        Self::parse(&bytes, path)
    }

    /// Reads the text of the file `path`.
    pub(crate) fn parse(text: &[u8], path: &Path) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(text)
            .map_err(|_| anyhow!("the configuration {} is not text in UTF-8", path.display()))?;
        let config: Self =
            toml_file::parse(text, path).map_err(|fault| anyhow!("the configuration {fault}"))?;
        if let Some((key, wrong)) = config.out_of_range() {
            bail!("the configuration {}", toml_file::fault(text, path, key, &wrong));
        }
        if config.storage != StorageKind::CephFs
            && let Some(key) = toml_file::first_key(text, "ceph")
        {
            let unused = "has no effect: set storage = \"cephfs\" at the top of the file";
            bail!("the configuration {}", toml_file::fault(text, path, &key, unused));
        }
        Ok(config)
    }

    /// The JSON pointer of a key whose value is out of its range, and the fault.
    fn out_of_range(&self) -> Option<(&'static str, String)> {
        let NfsConfig { lease, grace_period, threads, .. } = self.nfs;
        let grace_periods = lease..=*LEASES_S.end();
        let wrong = |value: &dyn Display, allowed: String| format!("is {value}; {allowed}");
        if !LEASES_S.contains(&lease) {
            return Some(("/nfs/lease", wrong(&lease, number::allowed(&LEASES_S))));
        }
        if let Some(grace @ 1..) = grace_period.filter(|grace| !grace_periods.contains(grace)) {
            let allowed =
                format!("{} (nfs.lease is {lease}), or 0 for none", number::allowed(&grace_periods));
            return Some(("/nfs/grace_period", wrong(&grace, allowed)));
        }
        if let Some(threads) = threads.filter(|threads| !THREADS.contains(threads)) {
            return Some(("/nfs/threads", wrong(&threads, number::allowed(&THREADS))));
        }
        if let Some((key, fault)) = self.ceph.fault() {
            return Some((key, fault));
        }
        let url = self.api.url.as_deref().filter(|url| !is_url(url));
        url.map(|url| ("/api/url", format!("is \"{url}\"; allowed: {URL_ALLOWED}")))
    }

    pub(crate) fn storage(&self) -> StorageSettings<'_> {
        StorageSettings { kind: self.storage, snapshots: self.snapshots, ceph: &self.ceph }
    }

    /// Checks settings that depend on each other, and reads the files that they name.
    pub(crate) fn check(&self) -> anyhow::Result<api::Settings> {
        self.nfs.tls.load()?;
        self.api.settings()
    }
}

impl NfsConfig {
    pub(crate) fn listen(&self) -> Listen {
        let Self {
            listen,
            mount_port,
            portmap_port,
            register_rpcbind,
            rquota_port,
            threads,
            connections_per_client,
            idle_timeout,
            id_domain,
            ipv6_prefix,
            lease,
            grace_period,
            write_delegations,
            tls,
        } = self.clone();
        Listen {
            listen,
            mount_port,
            portmap_port,
            no_portmap: false,
            register_rpcbind,
            rquota_port: rquota_port.filter(|&port| port != 0),
            deadline: ReplyDeadline::default(),
            keeps_connections: false,
            threads,
            connections_per_client,
            idle_timeout,
            id_domain,
            ipv6_prefix,
            lease: LeaseArgs { lease, grace_period },
            write_delegations,
            tls,
        }
    }
}

impl ApiConfig {
    pub(crate) fn settings(&self) -> anyhow::Result<api::Settings> {
        let tls = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                let (certificates, key) = read_pair(certificate, key)?;
                Some(api::Tls { certificates, key })
            }
            (Some(_), None) => bail!("[api] has a certificate without its key: set \"key\" too"),
            (None, Some(_)) => bail!("[api] has a key without its certificate: set \"certificate\" too"),
        };
        if tls.is_none() && !self.insecure && !self.listen.ip().to_canonical().is_loopback() {
            bail!(
                "the API would listen on {} without a certificate, and tokens would travel in the clear: set api.certificate and \
                 api.key in the configuration (\"plimsoll tls init\" makes them), or api.insecure = true in a network with other \
                 protection, or listen on 127.0.0.1",
                self.listen
            );
        }
        let settings = api::Settings::new(self.listen);
        Ok(api::Settings { tls, open_metrics: self.open_metrics, allow_insecure: self.insecure, ..settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn tls_needs_its_files_and_flags_hold_over_the_configuration() {
        assert!(parse("").unwrap().nfs.tls.load().unwrap().is_none());
        let tls = |text: &str| parse(&format!("[nfs.tls]\n{text}")).unwrap().nfs.tls;
        let refused = |tls: TlsSettings| tls.load().err().unwrap().to_string();
        let required = tls("mode = \"require\"");
        assert!(refused(required.clone()).contains("certificate and key in [nfs.tls]"));
        assert!(required.is_required());
        assert!(refused(tls("certificate = \"/none\"")).contains("a certificate without its key"));
        assert!(refused(tls("key = \"/none\"")).contains("a key without its certificate"));
        let off = tls("mode = \"off\"");
        assert!(off.clone().or(required.clone()).load().unwrap().is_none(), "off says the flag");
        assert!(required.or(off).is_required());
    }

    #[test]
    fn null_device_is_no_configuration() {
        let config = Config::read_or_default(Some(Path::new(NO_FILE))).unwrap();
        assert_eq!(config.data, Config::default().data);
    }

    #[test]
    fn everything_may_be_left_out_and_nothing_unknown_put_in() {
        let config = parse("").unwrap();
        assert_eq!(config.nfs.listen.to_string(), "127.0.0.1:2049");
        assert_eq!(config.api.listen.to_string(), "127.0.0.1:2050");
        assert!(config.api.settings().unwrap().tls.is_none());
        assert_eq!(config.smb.listen, None);
        let smb = parse("[smb]\nlisten = \"0.0.0.0:445\"").unwrap().smb;
        assert_eq!((smb.listen, smb.names), (Some("0.0.0.0:445".parse().unwrap()), Vec::new()));
        let names = parse("[smb]\nnames = [\"files\", \"files.example.org\"]").unwrap().smb.names;
        assert_eq!(names, ["files", "files.example.org"]);
        assert!(!parse("").unwrap().smb.logins().anonymous);
        assert!(parse("[smb]\nanonymous = true").unwrap().smb.logins().anonymous);
        assert!(parse("[smb]\nlisten = \"0.0.0.0:445\"").unwrap().smb.multichannel);
        assert!(!parse("[smb]\nmultichannel = false").unwrap().smb.multichannel);
        let half = parse("[api]\nkey = \"key.pem\"\n").unwrap();
        assert!(half.api.settings().err().unwrap().to_string().contains("\"certificate\" too"));
        let config =
            parse("data = \"/srv/plimsoll\"\n[nfs]\nlisten = \"0.0.0.0:2049\"\nmount_port = 0\n").unwrap();
        assert_eq!((config.data, config.nfs.mount_port), ("/srv/plimsoll".into(), Some(0)));
        for (text, complaint) in [
            ("dta = \"/srv\"", "unknown field `dta`"),
            ("[nfs]\nlisten = \"2049\"", "allowed: ADDRESS:PORT"),
            ("[nfs]\nthreads = -1", "line 2"),
            ("[api]\nlisten = \"127.0.0.1\"", "allowed: ADDRESS:PORT"),
            ("[smb]\nusers = \"u\"", "unknown field `users`"),
            ("[api]\ninsecure = 1", "expected a boolean"),
            ("[nfs.tls]\nmode = \"always\"", "expected one of `off`, `allow`, `require`"),
            ("[nfs.tls]\ncert = \"cert.pem\"", "unknown field `cert`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }

    const PACKAGED: &str = include_str!("../../../packaging/plimsoll.toml");

    /// The keys of a table, from the error about a key that it lacks.
    fn keys(table: &str) -> Option<Vec<String>> {
        let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
        let error = parse(&format!("{head}no_such_key = 1")).unwrap_err();
        let (_, named) = error.split_once("unknown field `no_such_key`, expected ")?;
        Some(named.split('`').skip(1).step_by(2).map(str::to_owned).collect())
    }

    /// All keys of the configuration, by their paths.
    fn all_keys(table: &str) -> Vec<String> {
        let path = |key: &String| if table.is_empty() { key.clone() } else { format!("{table}.{key}") };
        let below = |path: String| match keys(&path) {
            Some(_) => all_keys(&path),
            None => vec![path],
        };
        keys(table).unwrap().iter().map(path).flat_map(below).collect()
    }

    /// The commented lines of the package's file as settings: all, or only those that show a default.
    fn uncommented(with_examples: bool) -> String {
        let (mut lines, mut is_example) = (String::new(), false);
        for line in PACKAGED.lines() {
            let setting = line.strip_prefix('#').filter(|rest| rest.starts_with(char::is_alphabetic));
            match setting {
                Some(setting) if with_examples || !is_example => lines += setting,
                None if line.starts_with('[') => lines += line,
                _ => {}
            }
            lines.push('\n');
            is_example =
                setting.is_none() && (line.contains("No default") || is_example && line.starts_with("# "));
        }
        lines
    }

    #[test]
    fn packaged_configuration_shows_every_key_with_its_default() {
        let paths = |table: &toml::Table| {
            fn walk(table: &toml::Table, before: &str, paths: &mut Vec<String>) {
                for (key, value) in table {
                    let path = format!("{before}{key}");
                    match value {
                        toml::Value::Table(inner) => walk(inner, &format!("{path}."), paths),
                        _ => paths.push(path),
                    }
                }
            }
            let mut paths = Vec::new();
            walk(table, "", &mut paths);
            paths.sort();
            paths
        };
        let mut expected = all_keys("");
        expected.sort();
        assert!(expected.contains(&"nfs.tls.client_ca".to_owned()), "{expected:?}");
        assert_eq!(paths(&uncommented(true).parse().unwrap()), expected);
        parse(&uncommented(true)).unwrap();
        let default = Config { data: "/var/lib/plimsoll".into(), ..Config::default() };
        assert_eq!(format!("{:?}", parse(&uncommented(false)).unwrap()), format!("{default:?}"));
        let as_installed = Config { data: state::default_dir(), ..default };
        assert_eq!(format!("{:?}", parse(PACKAGED).unwrap()), format!("{as_installed:?}"));
    }

    #[test]
    fn networks_are_of_64_bits_where_nothing_else_is_said() {
        let prefix = |text: &str| parse(text).map(|config| config.nfs.listen().ipv6_prefix);
        assert_eq!(prefix("").unwrap(), Ipv6Prefix::default());
        assert_eq!(prefix("[nfs]\nipv6_prefix = 56").unwrap().to_string(), "56");
        for wrong in ["0", "129", "256", "\"64\""] {
            assert!(prefix(&format!("[nfs]\nipv6_prefix = {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_are_delegated_for_writing_where_that_is_said() {
        let is_set = |text| parse(text).unwrap().nfs.listen().write_delegations;
        assert!(!is_set(""));
        assert!(is_set("[nfs]\nwrite_delegations = true"));
        assert!(parse("[nfs]\nwrite_delegations = 1").is_err());
    }
}
