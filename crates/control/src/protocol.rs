//! The protocols a volume is served over.

use crate::Error;
use envelope::Protocol;
use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Protocols(u8);

/// Each protocol at the position of its bit, with its name in texts.
const ALL: [(Protocol, &str); 5] = [
    (Protocol::NfsV3, "nfsv3"),
    (Protocol::NfsV40, "nfsv4.0"),
    (Protocol::NfsV41, "nfsv4.1"),
    (Protocol::NfsV42, "nfsv4.2"),
    (Protocol::Smb, "smb"),
];

pub const PROTOCOLS_MAX: usize = ALL.len();

fn bit(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::NfsV3 => 1,
        Protocol::NfsV41 => 2,
        Protocol::NfsV42 => 4,
        Protocol::Smb => 8,
        Protocol::NfsV40 => 16,
    }
}

impl Protocols {
    pub const NFS_V3: Self = Self(1);
    pub const ALL: Self = Self(31);

    /// All versions of NFS, but not SMB.
    pub const NFS: Self = Self(23);
    pub(crate) const SMB: Self = Self(8);

    /// The bits are equal to the data plane's: NFS 3, 4.1, 4.2, SMB, and NFS 4.0.
    pub fn ids(self) -> vfs::ProtocolSet {
        vfs::ProtocolSet::from_bits(self.0)
    }

    /// Protocols over which at least one rule admits clients.
    pub fn from_rules(rules: &[vfs::ExportRule]) -> Self {
        let allows = |&protocol: &Protocol| {
            let id = vfs::ProtocolId(u8::try_from(bit(protocol).trailing_zeros()).unwrap_or(u8::MAX));
            rules.iter().any(|rule| !rule.no_access && rule.protocols.contains(id))
        };
        Self::ALL.iter().filter(allows).collect()
    }

    pub fn contains(self, protocol: Protocol) -> bool {
        self.0 & bit(protocol) != 0
    }

    pub fn include(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Protocol> {
        ALL.into_iter().map(|(protocol, _)| protocol).filter(move |&protocol| self.contains(protocol))
    }
}

impl FromIterator<Protocol> for Protocols {
    fn from_iter<I: IntoIterator<Item = Protocol>>(protocols: I) -> Self {
        Self(protocols.into_iter().fold(0, |bits, protocol| bits | bit(protocol)))
    }
}

impl fmt::Display for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ALL.iter().filter(|(protocol, _)| self.contains(*protocol)).map(|(_, name)| *name);
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

impl std::str::FromStr for Protocols {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let named = |name: &str| ALL.iter().find(|(_, known)| *known == name).map(|(protocol, _)| *protocol);
        let protocols = text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(|name| {
            named(name).ok_or_else(|| {
                let all: Vec<&str> = ALL.iter().map(|(_, name)| *name).collect();
                Error::invalid(format!("the protocol {name:?}"), all.join(", "))
            })
        });
        protocols.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_they_are_read() {
        for (text, count) in
            [("", 0), ("nfsv3", 1), ("nfsv3,nfsv4.1,smb", 3), ("nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb", 5)]
        {
            let set: Protocols = text.parse().unwrap();
            assert_eq!((set.to_string().as_str(), set.iter().count()), (text, count));
        }
        assert_eq!(" smb, nfsv3".parse::<Protocols>().unwrap().to_string(), "nfsv3,smb");
        let error = "nfsv3,ftp".parse::<Protocols>().unwrap_err().to_string();
        assert_eq!(error, "the protocol \"ftp\"; allowed: nfsv3, nfsv4.0, nfsv4.1, nfsv4.2, smb");
    }

    #[test]
    fn sets_are_sets() {
        let both: Protocols = [Protocol::NfsV3, Protocol::Smb].into_iter().collect();
        assert!(both.include(Protocols::NFS_V3) && !Protocols::NFS_V3.include(both));
        assert_eq!(both.and(Protocols::NFS_V3), Protocols::NFS_V3);
        assert_eq!(both.without(Protocols::NFS_V3).to_string(), "smb");
        assert_eq!(Protocols::ALL.without(Protocols::NFS).to_string(), "smb");
        assert!(Protocols::NFS_V3.and("smb".parse().unwrap()).is_empty());
        assert_eq!(Protocols::ALL.iter().collect::<Protocols>(), Protocols::ALL);
        for (protocol, number) in [("nfsv3", 0), ("nfsv4.1", 1), ("nfsv4.2", 2), ("nfsv4.0", 4)] {
            let ids = protocol.parse::<Protocols>().unwrap().ids();
            let has = |id| ids.contains(vfs::ProtocolId(id));
            assert_eq!((0..8).filter(|&id| has(id)).collect::<Vec<_>>(), [number], "{protocol}");
        }
    }
}
