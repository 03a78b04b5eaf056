//! Export rules: clients, their access and their identity.

use crate::Error;
use crate::protocol::Protocols;
use crate::words::words;
use envelope::Protocol;
use std::fmt;
use std::net::IpAddr;
use vfs::model::caller::INVALID_ID;
use vfs::namespace::ANONYMOUS_ID;
use vfs::namespace::BadCidr;
use vfs::{Cidr, Protection, Squash};

/// Bytes of a rule's client list, as text.
pub(crate) const CLIENTS_BYTES_MAX: usize = 4096;

/// One line of a volume's export policy. The first line whose clients and protocols match decides.
/// A client that no line matches may not mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRule {
    /// Never empty.
    pub clients: Clients,
    pub access: Access,
    /// Identities that become the anonymous user.
    pub squash: Squash,
    /// The uid of squashed callers.
    pub anonymous_uid: u32,
    /// The gid of squashed callers.
    pub anonymous_gid: u32,
    /// Protocols of the volume that the rule applies to.
    pub protocols: Protocols,
    /// The minimum protection of connections.
    pub protection: Protection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The files' permissions still apply.
    #[default]
    ReadWrite,
    ReadOnly,
    /// Refuses also to mount, whatever later rules say.
    NoAccess,
}

/// A list of clients that keeps its text as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    text: String,
    each: Vec<Client>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// An address, or a range of addresses.
    Range(Cidr),
    Host(String),
}

words!(Access: ReadWrite = "rw", ReadOnly = "ro", NoAccess = "none");

/// The word of the store for an identity mapping.
pub(crate) fn squash_word(squash: Squash) -> &'static str {
    match squash {
        Squash::Root => "root",
        Squash::All => "all",
        Squash::None => "none",
    }
}

/// The inverse of [`squash_word`].
pub(crate) fn squash_of(word: &str) -> Option<Squash> {
    [Squash::Root, Squash::All, Squash::None].into_iter().find(|&squash| squash_word(squash) == word)
}

/// The word of the store for a connection's protection.
pub(crate) fn protection_word(protection: Protection) -> &'static str {
    match protection {
        Protection::Plain => "any",
        Protection::Encrypted => "tls",
        Protection::Verified => "mtls",
    }
}

/// The start options of the service that this protection needs.
pub(crate) fn missing_for(protection: Protection) -> &'static str {
    match protection {
        Protection::Plain | Protection::Encrypted => "a certificate: --tls-cert and --tls-key",
        Protection::Verified => "issuers of clients' certificates: --tls-cert, --tls-key and --tls-client-ca",
    }
}

/// The inverse of [`protection_word`].
pub(crate) fn protection_of(word: &str) -> Option<Protection> {
    let all = [Protection::Plain, Protection::Encrypted, Protection::Verified];
    all.into_iter().find(|&protection| protection_word(protection) == word)
}

/// Refuses a number that is not a valid uid or gid.
pub(crate) fn check_id(what: &str, id: u32, of: &str) -> Result<(), Error> {
    if id != INVALID_ID {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} {id} {of}"), format!("0 to {}", INVALID_ID - 1)))
}

impl ExportRule {
    /// Read and write over every protocol without squashing: the providers' default ([`crate::default_root`]).
    pub fn for_clients(clients: Clients) -> Self {
        Self {
            clients,
            access: Access::ReadWrite,
            squash: Squash::None,
            anonymous_uid: ANONYMOUS_ID,
            anonymous_gid: ANONYMOUS_ID,
            protocols: Protocols::ALL,
            protection: Protection::Plain,
        }
    }

    /// The protocols of the rule over which no connection has the protection that it asks for. `protection` is that of NFS
    /// connections; SMB connections can always be encrypted and never show a certificate.
    pub(crate) fn unreachable(&self, protocols: Protocols, protection: Protection) -> Protocols {
        let lacks = |&protocol: &Protocol| {
            let has = if protocol == Protocol::Smb { Protection::Encrypted } else { protection };
            has < self.protection
        };
        if self.access == Access::NoAccess {
            Protocols::default()
        } else {
            self.protocols.and(protocols).iter().filter(lacks).collect()
        }
    }

    /// Whether clients can mount by this rule over some of these protocols, or are meant not to.
    pub(crate) fn is_reachable(&self, protocols: Protocols, protection: Protection) -> bool {
        let asked = self.protocols.and(protocols);
        asked.is_empty() || !self.unreachable(protocols, protection).include(asked)
    }

    /// Whether a later rule never applies to one of its clients because this one decides.
    fn hides(&self, client: &Client, protocols: Protocols, later: &Self) -> bool {
        self.protocols.include(later.protocols.and(protocols))
            && self.clients.iter().any(|own| match (own, client) {
                (Client::Range(own), Client::Range(range)) => own.covers(range),
                (Client::Host(own), Client::Host(host)) => own == host,
                _ => false,
            })
    }

    /// Refuses an anonymous uid or gid that is not valid.
    pub(crate) fn check_ids(&self) -> Result<(), Error> {
        check_id("the anonymous user", self.anonymous_uid, "of an export rule")?;
        check_id("the anonymous group", self.anonymous_gid, "of an export rule")
    }
}

/// The indexes of the rules that never apply over these protocols, each with that of the earlier one that decides for its
/// first client.
pub(crate) fn hidden(rules: &[ExportRule], protocols: Protocols) -> Vec<(usize, usize)> {
    let hider = |place: usize, client: &Client| {
        rules[..place].iter().position(|earlier| earlier.hides(client, protocols, &rules[place]))
    };
    let all = rules.iter().enumerate().filter(|(_, rule)| !rule.protocols.and(protocols).is_empty());
    all.filter_map(|(place, rule)| {
        let hiders: Option<Vec<_>> = rule.clients.iter().map(|client| hider(place, client)).collect();
        Some((place, *hiders?.first()?))
    })
    .collect()
}

impl Clients {
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.each.iter()
    }

    /// Takes a list from the store. Earlier versions accepted invalid entries, which match no client.
    pub(crate) fn stored(text: String) -> Result<Self, Error> {
        let is_nobody = |part: &str| matches!(part.parse::<Cidr>(), Err(BadCidr::Mixed(_)));
        let parts = text.split(',').map(str::trim).filter(|part| !is_nobody(part));
        let each = parts.map(str::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { text, each })
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.each.iter().filter_map(|client| match client {
            Client::Host(name) => Some(name.as_str()),
            Client::Range(_) => None,
        })
    }
}

impl std::str::FromStr for Clients {
    type Err = Error;

    /// Parses addresses, ranges and host names separated by commas.
    fn from_str(text: &str) -> Result<Self, Error> {
        let no_clients = || Error::invalid("a rule without clients", "addresses, ranges or host names");
        if text.len() > CLIENTS_BYTES_MAX {
            let what = format!("a list of clients with {} bytes", text.len());
            return Err(Error::invalid(what, format!("at most {CLIENTS_BYTES_MAX}")));
        }
        let each = text.split(',').map(|part| part.trim().parse()).collect::<Result<Vec<_>, _>>();
        if text.trim().is_empty() {
            Err(no_clients())
        } else {
            Ok(Self { text: text.to_owned(), each: each? })
        }
    }
}

impl std::str::FromStr for Client {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.parse() {
            Ok(range) => return Ok(Self::Range(range)),
            Err(BadCidr::Mixed(_)) => {
                let allowed =
                    "a range of IPv4 as such, like 10.1.0.0/16 or 0.0.0.0/0, or one of IPv6 without it";
                return Err(Error::invalid(format!("the client {text:?}"), allowed));
            }
            Err(BadCidr::Unreadable(_)) => {}
        }
        if is_host(text) {
            return Ok(Self::Host(text.to_ascii_lowercase()));
        }
        let address = text.split_once('/').and_then(|(address, _)| address.parse::<IpAddr>().ok());
        if let Some(address) = address {
            let most = if address.is_ipv4() { 32 } else { 128 };
            let allowed = format!("{address}/0 to {address}/{most}");
            return Err(Error::invalid(format!("the range of clients {text:?}"), allowed));
        }
        let allowed = "an address (192.168.1.7, 2001:db8::9), a range (10.1.0.0/16, 2001:db8::/32) or a host's name; \
                       everybody is 0.0.0.0/0 and ::/0";
        Err(Error::invalid(format!("the client {text:?}"), allowed))
    }
}

/// RFC 1123 §2.1. A letter is required, or a mistyped address would be a name.
fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        let inside = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        (1..=63).contains(&label.len()) && inside && !label.starts_with('-') && !label.ends_with('-')
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    let last_has_letter =
        text.rsplit('.').next().is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_alphabetic()));
    text.len() <= 253 && last_has_letter && text.split('.').all(label)
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_addresses_ranges_and_hosts() {
        let clients: Clients = "10.1.2.3/16, build-7.example.org,::1".parse().unwrap();
        assert_eq!(clients.to_string(), "10.1.2.3/16, build-7.example.org,::1", "shown as written");
        let host = Client::Host("build-7.example.org".to_owned());
        let each: Vec<_> = clients.iter().cloned().collect();
        assert_eq!(
            each,
            [Client::Range("10.1.0.0/16".parse().unwrap()), host, Client::Range("::1".parse().unwrap())]
        );
        assert_eq!(clients.hosts().collect::<Vec<_>>(), ["build-7.example.org"]);
        assert_eq!("BUILD".parse::<Client>().unwrap(), Client::Host("build".to_owned()));
    }

    #[test]
    fn rules_behind_others_are_hidden() {
        let rule = |clients: &str, protocols: &str| ExportRule {
            protocols: protocols.parse().unwrap(),
            ..ExportRule::for_clients(clients.parse().unwrap())
        };
        let rules = [
            rule("10.1.0.0/16,build.example.org", "nfsv3,nfsv4.2"),
            rule("10.1.9.0/24,BUILD.example.org", "nfsv4.2"),
            rule("10.1.9.0/24", "smb"),
            rule("10.0.0.0/8", "nfsv3"),
            rule("10.1.2.3,10.2.0.0/16", "nfsv3"),
            rule("::/0", "nfsv3"),
        ];
        let found = |protocols: &str| hidden(&rules, protocols.parse().unwrap());
        assert_eq!(found("nfsv3,nfsv4.2,smb"), [(1, 0), (4, 0)]);
        assert_eq!(found("smb"), []);
    }

    #[test]
    fn rule_is_unreachable_over_protocols_without_its_protection() {
        let over = |protection, offered| {
            let rule = ExportRule { protection, ..ExportRule::for_clients("::/0".parse().unwrap()) };
            let protocols = "nfsv4.2,smb".parse().unwrap();
            (rule.unreachable(protocols, offered).to_string(), rule.is_reachable(protocols, offered))
        };
        use Protection::{Encrypted, Plain, Verified};
        assert_eq!(over(Plain, Plain), (String::new(), true));
        assert_eq!(over(Encrypted, Plain), ("nfsv4.2".into(), true));
        assert_eq!(over(Verified, Plain), ("nfsv4.2,smb".into(), false));
        assert_eq!(over(Verified, Verified), ("smb".into(), true));
    }

    #[test]
    fn stored_invalid_id_becomes_anonymous() {
        let clients = Clients::stored("10.0.0.1, ::ffff:10.0.0.0/90".to_owned()).unwrap();
        assert_eq!(clients.each, ["10.0.0.1".parse().unwrap()]);
        assert_eq!(clients.to_string(), "10.0.0.1, ::ffff:10.0.0.0/90");
        assert!(Clients::stored("10.0.0.300".to_owned()).is_err());
    }

    #[test]
    fn invalid_client_is_refused() {
        let long = "a".repeat(64);
        for bad in [
            "",
            " ",
            "10.0.0.1,",
            "10.0.0",
            "10.0.0.256",
            "10.1.0.0/33",
            "a b",
            "-a",
            "a/8",
            "@group",
            "*",
            &long,
        ] {
            assert!(bad.parse::<Clients>().is_err(), "{bad:?}");
        }
        let error = "::ffff:10.0.0.0/90".parse::<Clients>().unwrap_err().to_string();
        assert!(error.contains("allowed: a range of IPv4 as such"), "{error}");
        let error = "10.0.0.300".parse::<Clients>().unwrap_err().to_string();
        assert!(error.starts_with("the client \"10.0.0.300\"; allowed: an address (192.168.1.7"), "{error}");
        for (range, allowed) in [("10.1.0.0/33", "10.1.0.0/0 to 10.1.0.0/32"), ("::1/x", "::1/0 to ::1/128")]
        {
            let error = range.parse::<Clients>().unwrap_err().to_string();
            assert_eq!(error, format!("the range of clients {range:?}; allowed: {allowed}"));
        }
        let many = vec!["10.0.0.1"; 1000].join(",");
        assert!(many.parse::<Clients>().unwrap_err().to_string().contains("at most 4096"));
    }
}
