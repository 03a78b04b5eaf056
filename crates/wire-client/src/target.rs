//! Targets: address, export or share, and protocol.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::Error;

const NFS_PORT: u16 = 2049;
const SMB_PORT: u16 = 445;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    #[default]
    V3,
    V41,
    V42,
    Smb(Protection),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protection {
    /// Messages after the TREE_CONNECT are unprotected.
    None,
    Hmac,
    Cmac,
    #[default]
    Gmac,
    Ccm128,
    Gcm128,
    Ccm256,
    Gcm256,
}

impl Protection {
    const SAID: [(Self, &'static str); 8] = [
        (Self::Gmac, "sign=gmac"),
        (Self::Cmac, "sign=cmac"),
        (Self::Hmac, "sign=hmac"),
        (Self::None, "sign=none"),
        (Self::Gcm128, "seal=gcm"),
        (Self::Ccm128, "seal=ccm"),
        (Self::Gcm256, "seal=gcm256"),
        (Self::Ccm256, "seal=ccm256"),
    ];

    pub fn signing(self) -> Option<&'static str> {
        match self {
            Self::Hmac => Some("HMAC-SHA256"),
            Self::Cmac => Some("AES-128-CMAC"),
            Self::Gmac => Some("AES-128-GMAC"),
            Self::None | Self::Ccm128 | Self::Gcm128 | Self::Ccm256 | Self::Gcm256 => None,
        }
    }

    pub fn encryption(self) -> Option<&'static str> {
        match self {
            Self::Ccm128 => Some("AES-128-CCM"),
            Self::Gcm128 => Some("AES-128-GCM"),
            Self::Ccm256 => Some("AES-256-CCM"),
            Self::Gcm256 => Some("AES-256-GCM"),
            Self::None | Self::Hmac | Self::Cmac | Self::Gmac => None,
        }
    }

    fn as_str(self) -> &'static str {
        Self::SAID.iter().find(|(one, _)| *one == self).map_or("", |(_, said)| said)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ShareOptions {
    protection: Option<Protection>,
    channels: Option<usize>,
}

impl FromStr for ShareOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for part in text.split('&') {
            let protection = Protection::SAID.iter().find(|(_, said)| *said == part);
            let protection = protection.map(|(protection, _)| *protection);
            let channels = part.strip_prefix("channels=").and_then(|count| count.parse().ok());
            let channels = channels.filter(|count| (1..=CHANNELS_MAX).contains(count));
            let is_new = match (protection, channels) {
                (Some(protection), _) => options.protection.replace(protection).is_none(),
                (_, Some(channels)) => options.channels.replace(channels).is_none(),
                (None, None) => false,
            };
            if !is_new {
                let allowed = Protection::SAID.map(|(_, said)| said).join(", ");
                return Err(format!(
                    "?{text} is not an option of a share; allowed are {allowed}, one of them, and channels=1 to \
                     channels={CHANNELS_MAX}, with & between"
                ));
            }
        }
        if options.protection == Some(Protection::Gmac) && options.channels.is_some_and(|count| count > 1) {
            // A binding request would reuse a nonce of the session.
            return Err(format!(
                "?{text}: AES-GMAC signs sessions of one connection alone; with channels= use sign=cmac or seal=gcm"
            ));
        }
        Ok(options)
    }
}

impl Version {
    pub fn minor(self) -> Option<u32> {
        match self {
            Self::V3 | Self::Smb(_) => None,
            Self::V41 => Some(1),
            Self::V42 => Some(2),
        }
    }

    pub fn is_smb(self) -> bool {
        matches!(self, Self::Smb(_))
    }

    /// Whether a receiver may drop data unread: protected messages must be complete.
    pub fn is_plain(self) -> bool {
        !matches!(self, Self::Smb(protection) if protection != Protection::None)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "3" => Ok(Self::V3),
            "4.1" => Ok(Self::V41),
            "4.2" => Ok(Self::V42),
            _ => Err(format!("version={text} is not supported; allowed are version=3, 4.1 and 4.2")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V3 => "NFSv3",
            Self::V41 => "NFSv4.1",
            Self::V42 => "NFSv4.2",
            Self::Smb(_) => "SMB 3.1.1",
        })
    }
}

/// An export or a share: `HOST:/EXPORT`, `nfs://HOST[:PORT][,HOST[:PORT]]…/EXPORT[?version=VERSION]`, or
/// `smb://USER@HOST[:PORT][,HOST[:PORT]]…/SHARE[/PATH][?OPTION[&OPTION]]`, where an option is `sign=HOW`, `seal=HOW`
/// or `channels=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
    /// The port of MOUNT; by default that of NFS.
    pub mount_port: u16,
    pub others: Vec<(String, u16)>,
    /// The exported path, or the share and the path in it, with its leading slash.
    pub export: String,
    pub version: Version,
    /// SMB only.
    pub user: Option<String>,
    /// Maximum connections of a client's SMB session.
    pub channels: usize,
}

const ADDRESSES_MAX: usize = 64;
/// The maximum of Windows.
const CHANNELS_MAX: usize = 32;

impl Target {
    pub fn address(&self) -> Result<SocketAddr, Error> {
        resolve(&self.host, self.port)
    }

    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        (0..=self.others.len()).map(|client| self.address_for(client)).collect()
    }

    /// Clients use the addresses in turn.
    pub fn address_for(&self, client: usize) -> Result<SocketAddr, Error> {
        match (client % (1 + self.others.len())).checked_sub(1).and_then(|place| self.others.get(place)) {
            Some((host, port)) => resolve(host, *port),
            None => self.address(),
        }
    }

    /// `None` if the target has a single address.
    pub fn endpoint_for(&self, client: usize) -> Result<Option<String>, Error> {
        if self.others.is_empty() {
            return Ok(None);
        }
        self.address_for(client).map(|address| Some(address.to_string()))
    }

    pub fn mount_address(&self) -> Result<SocketAddr, Error> {
        resolve(&self.host, self.mount_port)
    }

    /// Joins targets that name the same export at different addresses.
    ///
    /// # Errors
    /// The targets name different exports, the same address twice, or too many addresses.
    pub fn joined(targets: &[Self]) -> Result<Self, Error> {
        let Some((first, others)) = targets.split_first() else {
            return Err(Error::Unsupported("there is no target".to_owned()));
        };
        let mut joined = first.clone();
        for other in others {
            if (other.version, &other.user, other.channels) != (first.version, &first.user, first.channels) {
                return Err(Error::Unsupported(format!(
                    "{first} and {other} are of different versions, users or channels; several targets are the addresses of one"
                )));
            }
            if other.export != first.export {
                return Err(Error::Unsupported(format!(
                    "{first} and {other} are different exports; several targets are the addresses of one"
                )));
            }
            joined.others.push((other.host.clone(), other.port));
            joined.others.extend(other.others.iter().cloned());
        }
        joined.check().map_err(Error::Unsupported)?;
        Ok(joined)
    }

    /// The share, and the directory in the share, with `\` between names.
    pub fn share(&self) -> (&str, String) {
        let path = self.export.trim_matches('/');
        let (share, directory) = path.split_once('/').unwrap_or((path, ""));
        (share, directory.replace('/', "\\"))
    }

    fn check(&self) -> Result<(), String> {
        let own = (self.host.clone(), self.port);
        let all: Vec<&(String, u16)> = std::iter::once(&own).chain(&self.others).collect();
        if all.len() > ADDRESSES_MAX {
            return Err(format!("{} addresses of a target; at most {ADDRESSES_MAX} are possible", all.len()));
        }
        let twice = (1..all.len()).find(|&place| all[..place].contains(&all[place]));
        twice.map_or(Ok(()), |place| Err(format!("the address {} is given twice", all[place].0)))
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let mut found =
        (host, port).to_socket_addrs().map_err(Error::io(format!("find the address of {host}")))?;
    found.next().ok_or_else(|| Error::Unsupported(format!("{host} has no address")))
}

/// Parses `HOST[:PORT]`, with an IPv6 address in brackets.
fn server(text: &str, port_by_default: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|&port| port != 0)?,
        None if port.is_empty() => port_by_default,
        None => return None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("smb://") {
            Some(rest) => smb(rest).ok_or_else(|| {
                format!(
                    "\"{text}\" is not a valid target: write smb://USER@HOST[:PORT]/SHARE, like smb://alice@127.0.0.1/data, with commas \
                     between several addresses of the same share, ?sign=HOW or ?seal=HOW at the end for a protection other \
                     than signatures by AES-128-GMAC, and ?channels=N for sessions of N connections, signed with AES-128-CMAC"
                )
            })?,
            None => nfs(text),
        }
    }
}

fn nfs(text: &str) -> Result<Target, String> {
    let wrong = || {
        format!(
            "\"{text}\" is not a valid target: HOST:/EXPORT as for mount, or nfs://HOST[:PORT]/EXPORT, like \
             nfs://127.0.0.1:2049/data, with commas between several addresses of the same export and ?version=4.1 or \
             ?version=4.2 at the end for those versions of NFS"
        )
    };
    let (place, export) = match text.strip_prefix("nfs://") {
        Some(rest) => rest.split_once('/'),
        // The form of mount, df and fstab.
        // A second slash belongs to another scheme.
        None => text
            .split_once(":/")
            .filter(|(place, export)| !place.contains('/') && !export.starts_with('/'))
            .filter(|(place, _)| !["nfs", "smb", "http", "https"].contains(place)),
    }
    .ok_or_else(wrong)?;
    let (export, version) = match export.split_once('?') {
        Some((export, asked)) => (export, asked.strip_prefix("version=").ok_or_else(wrong)?.parse()?),
        None => (export, Version::default()),
    };
    target(place, NFS_PORT, export, version, None).ok_or_else(wrong)?
}

/// Expects the text after the scheme; `None` for a malformed text.
fn smb(rest: &str) -> Option<Result<Target, String>> {
    let (place, share) = rest.split_once('/')?;
    let (user, place) = place.rsplit_once('@').filter(|(user, _)| !user.is_empty())?;
    let (share, asked) = share.split_once('?').map_or((share, None), |(share, asked)| (share, Some(asked)));
    if share.split('/').next().is_none_or(str::is_empty) {
        return None;
    }
    match asked.map_or(Ok(ShareOptions::default()), str::parse) {
        Ok(ShareOptions { protection, channels }) => {
            let channels = channels.unwrap_or(1);
            let default = if channels > 1 { Protection::Cmac } else { Protection::default() };
            let version = Version::Smb(protection.unwrap_or(default));
            let target = target(place, SMB_PORT, share, version, Some(user.to_owned()))?;
            Some(target.map(|target| Target { channels, ..target }))
        }
        Err(wrong) => Some(Err(wrong)),
    }
}

fn target(
    place: &str,
    port: u16,
    export: &str,
    version: Version,
    user: Option<String>,
) -> Option<Result<Target, String>> {
    let mut servers = place.split(',').map(|text| server(text, port));
    let (host, port) = servers.next()??;
    let others = servers.collect::<Option<_>>()?;
    let export = format!("/{export}");
    let target = Target { host, port, mount_port: port, others, export, version, user, channels: 1 };
    Some(target.check().map(|()| target))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = |(host, port): (&String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let all = std::iter::once((&self.host, self.port))
            .chain(self.others.iter().map(|(host, port)| (host, *port)));
        let (scheme, user) = match &self.user {
            Some(user) => ("smb", format!("{user}@")),
            None => ("nfs", String::new()),
        };
        write!(f, "{scheme}://{user}{}{}", all.map(server).collect::<Vec<_>>().join(","), self.export)?;
        let mut options = Vec::new();
        match self.version {
            Version::V3 => {}
            Version::V41 => options.push("version=4.1".to_owned()),
            Version::V42 => options.push("version=4.2".to_owned()),
            Version::Smb(Protection::Gmac) => {}
            Version::Smb(protection) => options.push(protection.as_str().to_owned()),
        }
        if self.channels > 1 {
            options.push(format!("channels={}", self.channels));
        }
        if options.is_empty() { Ok(()) } else { write!(f, "?{}", options.join("&")) }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, host, port, export) in [
            ("nfs://127.0.0.1:20490/a/b", "127.0.0.1", 20490, "/a/b"),
            ("nfs://server/", "server", 2049, "/"),
            ("nfs://[::1]:111/x", "::1", 111, "/x"),
            ("nfs://[::1]/x", "::1", 2049, "/x"),
            ("server:/a/b", "server", 2049, "/a/b"),
            ("[::1]:/x", "::1", 2049, "/x"),
            ("127.0.0.1:20490:/x", "127.0.0.1", 20490, "/x"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host.as_str(), target.port, target.export.as_str()), (host, port, export));
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
        for text in [
            "",
            "server",
            "server:x",
            "/mnt/a:/b",
            "http://server/x",
            "nfs://server",
            "nfs:///x",
            "nfs://a:b/x",
            "nfs://a:0/x",
            "nfs://[::1/x",
            "nfs://[::1]5/x",
            "nfs:/a/x",
            "nfs://a,/x",
            "nfs://a,b:0/x",
        ] {
            assert!(text.parse::<Target>().unwrap_err().contains("nfs://HOST[:PORT]/EXPORT"), "{text}");
        }
    }

    #[test]
    fn target_names_its_version() {
        let target = |text: &str| text.parse::<Target>();
        for (text, version) in [
            ("nfs://h:1/x", Version::V3),
            ("nfs://h:1/x?version=3", Version::V3),
            ("nfs://h:1/x?version=4.1", Version::V41),
            ("nfs://h:1,i:2/x/y?version=4.2", Version::V42),
        ] {
            let parsed = target(text).unwrap();
            assert_eq!((parsed.version, parsed.export.contains('?')), (version, false));
            assert_eq!(target(&parsed.to_string()).unwrap(), parsed);
        }
        for text in ["nfs://h/x?version=4", "nfs://h/x?version=4.0", "nfs://h/x?version="] {
            let wrong = target(text).unwrap_err();
            assert!(wrong.ends_with("allowed are version=3, 4.1 and 4.2"), "{wrong}");
        }
        for text in ["nfs://h/x?", "nfs://h/x?vers=4.1", "nfs://h/x?4.1"] {
            assert!(target(text).unwrap_err().contains("?version=4.1"), "{text}");
        }
        let both = [target("nfs://h/x").unwrap(), target("nfs://i/x?version=4.1").unwrap()];
        assert!(Target::joined(&both).unwrap_err().to_string().contains("of different versions"));
    }

    #[test]
    fn share_is_named_with_its_user() {
        let target = |text: &str| text.parse::<Target>();
        for (text, port, protection, share) in [
            ("smb://alice@h/docs", 445, Protection::Gmac, ("docs", "")),
            ("smb://alice@h:4450/docs/a/b?sign=none", 4450, Protection::None, ("docs", "a\\b")),
            ("smb://CORP\\bob@[::1]:9,h/docs/?seal=ccm256", 9, Protection::Ccm256, ("docs", "")),
        ] {
            let parsed = target(text).unwrap();
            assert_eq!((parsed.port, parsed.version), (port, Version::Smb(protection)));
            assert_eq!(parsed.share(), (share.0, share.1.to_owned()));
            assert_eq!(target(&parsed.to_string()).unwrap(), parsed);
        }
        for text in
            ["smb://h/docs", "smb://@h/docs", "smb://a@h", "smb://a@h/", "smb://a@h:0/x", "smb://a@/x"]
        {
            assert!(target(text).unwrap_err().contains("smb://USER@HOST[:PORT]/SHARE"), "{text}");
        }
        for text in ["smb://a@h/x?sign=md5", "smb://a@h/x?version=3", "smb://a@h/x?"] {
            assert!(target(text).unwrap_err().contains("allowed are sign=gmac, sign=cmac"), "{text}");
        }
        assert!(target("nfs://h/x?sign=gmac").is_err());
    }

    #[test]
    fn share_says_how_many_connections_a_session_has() {
        let target = |text: &str| text.parse::<Target>();
        for (text, channels, protection) in [
            ("smb://a@h/x", 1, Protection::Gmac),
            ("smb://a@h/x?channels=1", 1, Protection::Gmac),
            ("smb://a@h/x?channels=1&sign=gmac", 1, Protection::Gmac),
            ("smb://a@h/x?channels=32", 32, Protection::Cmac),
            ("smb://a@h/x?channels=4&seal=gcm", 4, Protection::Gcm128),
            ("smb://a@h,i/x?sign=cmac&channels=4", 4, Protection::Cmac),
        ] {
            let parsed = target(text).unwrap();
            assert_eq!((parsed.channels, parsed.version), (channels, Version::Smb(protection)), "{text}");
            assert_eq!(target(&parsed.to_string()).unwrap(), parsed);
        }
        for asked in [
            "channels=0",
            "channels=33",
            "channels=-1",
            "channels=",
            "channels=2&channels=2",
            "sign=gmac&seal=gcm",
            "channels=2&",
        ] {
            let wrong = target(&format!("smb://a@h/x?{asked}")).unwrap_err();
            assert!(wrong.ends_with("channels=1 to channels=32, with & between"), "{wrong}");
        }
        let unsafe_mac = target("smb://a@h/x?sign=gmac&channels=2").unwrap_err();
        assert!(unsafe_mac.contains("AES-GMAC signs sessions of one connection alone"), "{unsafe_mac}");
        assert!(target("nfs://h/x?channels=2").is_err());
        let both = [target("smb://a@h/x").unwrap(), target("smb://a@i/x?channels=2").unwrap()];
        assert!(Target::joined(&both).unwrap_err().to_string().contains("or channels"));
    }

    #[test]
    fn several_addresses_are_dealt_to_clients_in_turn() {
        let target: Target = "nfs://127.0.0.2:2049,127.0.0.3:2050,[::1]/x".parse().unwrap();
        assert_eq!(target.to_string(), "nfs://127.0.0.2:2049,127.0.0.3:2050,[::1]:2049/x");
        assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        let dealt: Vec<String> = (0..4).map(|client| target.endpoint_for(client).unwrap().unwrap()).collect();
        assert_eq!(dealt, ["127.0.0.2:2049", "127.0.0.3:2050", "[::1]:2049", "127.0.0.2:2049"]);
        let one: Target = "nfs://127.0.0.2/x".parse().unwrap();
        assert_eq!(one.endpoint_for(3).unwrap(), None);
        let joined = |texts: &[&str]| {
            let targets: Vec<Target> = texts.iter().map(|text| text.parse().unwrap()).collect();
            Target::joined(&targets).map(|target| target.to_string()).map_err(|error| error.to_string())
        };
        let all = joined(&["nfs://127.0.0.2/x", "nfs://127.0.0.3:2050,[::1]/x"]);
        assert_eq!(all.as_deref(), Ok(target.to_string().as_str()));
        assert!(joined(&["nfs://a/x", "nfs://b/y"]).unwrap_err().contains("are different exports"));
        assert!(joined(&["nfs://a/x", "nfs://b,a/x"]).unwrap_err().contains("a is given twice"));
    }
}
