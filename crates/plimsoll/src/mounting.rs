//! Mount commands for each version of NFS and for SMB, and whether clients can reach the locks of version 3.

use crate::nodename::nodename;
use crate::shell::quoted;
use api::{MountTarget, NfsService};
use control::Protocols;
use envelope::Protocol;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use vfs::{Durability, Export, Namespace, Protection};

/// The default port of NFS (RFC 1813 §2.1, RFC 8881 §2.9.3).
pub(crate) const NFS_PORT: u16 = 2049;

/// The default port of SMB (MS-SMB2 §2.1).
const SMB_PORT: u16 = 445;

/// The address of NFS, and the port mapper that leads clients there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounting {
    /// The address of NFS and MOUNT.
    pub(crate) address: SocketAddr,
    pub(crate) mapper: PortMapper,
    /// Whether calls without TLS are refused.
    pub(crate) requires_tls: bool,
}

/// The service that answers clients on port 111.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortMapper {
    /// Our own, at the service's own addresses.
    Own,
    /// The rpcbind of this host, which was told.
    Host,
    /// Nobody who knows of this service, for this reason.
    Nobody(String),
}

impl Mounting {
    /// The commands that mount what is served, a line each.
    pub(crate) fn commands_of(&self, namespace: &Namespace) -> String {
        let commands = namespace.exports().iter().flat_map(|export| self.commands(export));
        commands.map(|command| command + "\n").collect()
    }

    /// The commands that mount an export: one for each version that any of its rules allows.
    fn commands(&self, export: &Export) -> Vec<String> {
        let protocols = Protocols::from_rules(&export.rules);
        let endpoints = export.endpoints.iter().copied().map(Some);
        let endpoints = if export.endpoints.is_empty() { vec![None] } else { endpoints.collect() };
        let least = export.rules.iter().map(|rule| rule.protection).min().unwrap_or_default();
        let targets = endpoints.into_iter().flat_map(|endpoint| {
            protocols.iter().filter_map(move |protocol| self.target(protocol, endpoint, least))
        });
        let of = |target: MountTarget| {
            let host = host(target.address);
            command(target.protocol, &target.options, &host, &export.path, export.volume.durability())
        };
        targets.map(of).collect()
    }

    /// The mount target of a volume over a protocol: at an endpoint, or at the service's own address, with the `least`
    /// protection of its rules. `None` for a protocol other than NFS, and for version 3 where calls without TLS are
    /// refused: clients send MNT without TLS, whatever the mount options say.
    pub(crate) fn target(
        &self,
        protocol: Protocol,
        endpoint: Option<IpAddr>,
        least: Protection,
    ) -> Option<MountTarget> {
        let least = if self.requires_tls { least.max(Protection::Encrypted) } else { least };
        let xprtsec = match least {
            Protection::Plain => "",
            Protection::Encrypted => ",xprtsec=tls",
            Protection::Verified => ",xprtsec=mtls",
        };
        let address = endpoint.unwrap_or(self.address.ip());
        let port = self.address.port();
        let version_4 = |version: &str| {
            let port = if port == NFS_PORT { String::new() } else { format!(",port={port}") };
            (format!("vers={version},proto=tcp{port}{xprtsec}"), true)
        };
        let (options, has_locks) = match protocol {
            Protocol::NfsV3 if self.requires_tls => return None,
            Protocol::NfsV3 => {
                let is_found = self.is_found_at(address);
                let ports = if is_found { String::new() } else { format!(",port={port},mountport={port}") };
                // Clients call the lock manager without TLS, whatever the mount says.
                let has_locks = is_found && least == Protection::Plain;
                let nolock = if has_locks { "" } else { ",nolock" };
                (format!("vers=3,proto=tcp{ports}{nolock}{xprtsec}"), has_locks)
            }
            Protocol::NfsV40 => version_4("4.0"),
            Protocol::NfsV41 => version_4("4.1"),
            Protocol::NfsV42 => version_4("4.2"),
            Protocol::Smb => return None,
        };
        Some(MountTarget { protocol, address, options, has_locks })
    }

    /// Whether clients that mount from this address find the ports of programs by themselves. Version 3's locks have no other
    /// way to be found: `port=` and `mountport=` say nothing of them.
    fn is_found_at(&self, address: IpAddr) -> bool {
        let own = self.address.ip();
        match self.mapper {
            PortMapper::Own | PortMapper::Host => own == address || own.is_unspecified(),
            PortMapper::Nobody(_) => false,
        }
    }

    /// NFS, as the API tells of it.
    pub(crate) fn service(&self) -> NfsService {
        let v3_locks = match &self.mapper {
            _ if self.requires_tls => {
                Err("calls without TLS are refused, and clients call the lock manager without it".into())
            }
            PortMapper::Own | PortMapper::Host => Ok(()),
            PortMapper::Nobody(why) => Err(why.clone()),
        };
        NfsService { address: self.address, v3_locks }
    }
}

/// The mount target of a volume over SMB. Without `uid` and `gid`, Linux lets only root write.
pub(crate) fn smb_target(address: SocketAddr) -> MountTarget {
    let port = match address.port() {
        SMB_PORT => String::new(),
        port => format!(",port={port}"),
    };
    let options = format!("vers=3.1.1,username=USER,uid=UID,gid=GID{port}");
    MountTarget { protocol: Protocol::Smb, address: address.ip(), options, has_locks: true }
}

/// A command that mounts.
pub(crate) fn command(
    protocol: Protocol,
    options: &str,
    host: &str,
    path: &str,
    durability: Durability,
) -> String {
    let (kind, source) = match protocol {
        Protocol::Smb => ("cifs", quoted(&format!("//{host}{path}")).into_owned()),
        _ => ("nfs", format!("{host}:{}", quoted(path))),
    };
    format!("mount -t {kind} -o {options} {source} /mnt{}", note(durability))
}

/// The options of a service with those that are advised besides: the service's ports and version come first and stay.
pub(crate) fn with_advised(options: &str, advised: &str) -> String {
    let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    let set: Vec<String> = options.split(',').map(name).collect();
    // `tcp` is an older spelling of `proto=tcp`.
    let is_set = |option: &str| {
        set.contains(&name(option)) || (option == "tcp" && set.iter().any(|set| set == "proto"))
    };
    let more = advised.split(',').filter(|option| !option.is_empty() && !is_set(option));
    [options].into_iter().chain(more).collect::<Vec<_>>().join(",")
}

/// An address of this machine as `mount` takes it.
pub(crate) fn host(address: IpAddr) -> String {
    in_brackets(&name_at(address))
}

/// A name or an address as `mount` takes it.
pub(crate) fn in_brackets(name: &str) -> String {
    if name.contains(':') { format!("[{name}]") } else { name.to_owned() }
}

/// The name of this machine for clients of an address: the address, or for all addresses the primary one.
pub(crate) fn name_at(address: IpAddr) -> String {
    match address {
        ip if ip.is_unspecified() => primary_address().map_or_else(nodename, |ip| ip.to_string()),
        ip => ip.to_string(),
    }
}

/// The address from which this machine reaches others. Connecting a datagram socket sends nothing (192.0.2.0/24 is for
/// documentation, RFC 5737).
pub(crate) fn primary_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}

/// The note about a durability other than the default.
pub(crate) fn note(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "",
        Durability::Relaxed => "   (durability: relaxed: a power cut loses the last seconds)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounting(address: &str, mapper: PortMapper) -> Mounting {
        Mounting { address: address.parse().unwrap(), mapper, requires_tls: false }
    }

    fn nobody() -> PortMapper {
        PortMapper::Nobody("--no-portmap".into())
    }

    fn options(of: &Mounting, protocol: Protocol, endpoint: Option<&str>) -> (String, bool) {
        let endpoint = endpoint.map(|text| text.parse().unwrap());
        let target = of.target(protocol, endpoint, Protection::Plain).unwrap();
        (target.options, target.has_locks)
    }

    #[test]
    fn version_3_is_mounted_with_locks_only_where_they_can_be_found() {
        let v3 = |of: &Mounting, endpoint| options(of, Protocol::NfsV3, endpoint);
        let found = ("vers=3,proto=tcp".to_owned(), true);
        let expected = ("vers=3,proto=tcp,port=2049,mountport=2049,nolock".to_owned(), false);
        let own = mounting("10.0.0.1:2049", PortMapper::Own);
        assert_eq!([None, Some("10.0.0.2")].map(|at| v3(&own, at)), [found.clone(), expected.clone()]);
        let all = mounting("0.0.0.0:2049", PortMapper::Own);
        assert_eq!(v3(&all, Some("10.0.0.2")), found);
        assert_eq!(v3(&mounting("10.0.0.1:2049", nobody()), None), expected);
    }

    #[test]
    fn version_4_needs_its_port_and_nothing_else() {
        let at = |address| mounting(address, nobody());
        assert_eq!(options(&at("10.0.0.1:2049"), Protocol::NfsV42, None).0, "vers=4.2,proto=tcp");
        assert_eq!(options(&at("10.0.0.1:2049"), Protocol::NfsV40, None).0, "vers=4.0,proto=tcp");
        let other = options(&at("[::1]:2050"), Protocol::NfsV41, Some("::2"));
        assert_eq!(other, ("vers=4.1,proto=tcp,port=2050".to_owned(), true));
        assert!(at("10.0.0.1:2049").target(Protocol::Smb, None, Protection::Plain).is_none());
    }

    #[test]
    fn protected_exports_are_mounted_with_protection_and_without_version_3_locks() {
        let own = mounting("10.0.0.1:2049", PortMapper::Own);
        let all = Mounting { requires_tls: true, ..own.clone() };
        let of = |own: &Mounting, protocol, least| own.target(protocol, None, least).unwrap().options;
        assert_eq!(of(&own, Protocol::NfsV42, Protection::Encrypted), "vers=4.2,proto=tcp,xprtsec=tls");
        assert_eq!(of(&all, Protocol::NfsV42, Protection::Plain), "vers=4.2,proto=tcp,xprtsec=tls");
        assert_eq!(of(&all, Protocol::NfsV41, Protection::Verified), "vers=4.1,proto=tcp,xprtsec=mtls");
        assert_eq!(of(&own, Protocol::NfsV3, Protection::Verified), "vers=3,proto=tcp,nolock,xprtsec=mtls");
        assert!(all.target(Protocol::NfsV3, None, Protection::Plain).is_none());
        assert!(all.service().v3_locks.is_err() && own.service().v3_locks.is_ok());
    }

    #[test]
    fn advised_options_follow_those_of_the_service_once() {
        assert_eq!(
            with_advised("vers=3,proto=tcp,port=2050,nolock", "vers=3,hard,tcp,timeo=600,nconnect=16"),
            "vers=3,proto=tcp,port=2050,nolock,hard,timeo=600,nconnect=16"
        );
        assert_eq!(with_advised("vers=4.1,proto=tcp", ""), "vers=4.1,proto=tcp");
    }

    #[test]
    fn odd_paths_are_quoted_and_durability_is_told() {
        let odd = command(
            Protocol::NfsV42,
            "vers=4.2",
            &host("::1".parse().unwrap()),
            "/it's;x",
            Durability::Relaxed,
        );
        assert!(
            odd.starts_with(r"mount -t nfs -o vers=4.2 [::1]:'/it'\''s;x' /mnt   (durability: r"),
            "{odd}"
        );
        let all = host("0.0.0.0".parse().unwrap());
        assert!(!all.is_empty() && !all.contains("0.0.0.0"), "{all}");
        let smb = |address: &str| smb_target(address.parse().unwrap()).options;
        assert_eq!(smb("10.0.0.1:445"), "vers=3.1.1,username=USER,uid=UID,gid=GID");
        assert_eq!(smb("[::1]:4450"), "vers=3.1.1,username=USER,uid=UID,gid=GID,port=4450");
        let share = command(Protocol::Smb, "vers=3.1.1", "10.0.0.1", "/a b", Durability::Sync);
        assert_eq!(share, "mount -t cifs -o vers=3.1.1 '//10.0.0.1/a b' /mnt");
    }
}
