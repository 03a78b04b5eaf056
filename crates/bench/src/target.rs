//! Where the server is.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::Error;

/// The port of NFS where a target names none.
const NFS_PORT: u16 = 2049;

/// `nfs://HOST[:PORT]/EXPORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A name or an address, without brackets.
    pub host: String,
    /// Where NFS listens.
    pub port: u16,
    /// Where MOUNT listens; by default where NFS does.
    pub mount_port: u16,
    /// The exported path, with its leading slash.
    pub export: String,
}

impl Target {
    /// The address of NFS.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.resolve(self.port)
    }

    /// The address of MOUNT.
    pub(crate) fn mount_address(&self) -> Result<SocketAddr, Error> {
        self.resolve(self.mount_port)
    }

    fn resolve(&self, port: u16) -> Result<SocketAddr, Error> {
        let doing = || format!("find the address of {}", self.host);
        let mut found = (self.host.as_str(), port).to_socket_addrs().map_err(Error::io(doing()))?;
        found.next().ok_or_else(|| Error::Plan(format!("{} has no address", self.host)))
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("\"{text}\" is no target; write nfs://HOST[:PORT]/EXPORT, like nfs://127.0.0.1:2049/data")
        };
        let (place, export) =
            text.strip_prefix("nfs://").and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?;
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
            None => place.split_at(place.find(':').unwrap_or(place.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|&port| port != 0).ok_or_else(wrong)?,
            None if port.is_empty() => NFS_PORT,
            None => return Err(wrong()),
        };
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port, mount_port: port, export: format!("/{export}") })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "nfs://[{}]:{}{}", self.host, self.port, self.export),
            false => write!(f, "nfs://{}:{}{}", self.host, self.port, self.export),
        }
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
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host.as_str(), target.port, target.export.as_str()), (host, port, export));
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
        for text in [
            "",
            "server:/x",
            "nfs://server",
            "nfs:///x",
            "nfs://a:b/x",
            "nfs://a:0/x",
            "nfs://[::1/x",
            "nfs://[::1]5/x",
        ] {
            assert!(text.parse::<Target>().unwrap_err().contains("nfs://HOST[:PORT]/EXPORT"), "{text}");
        }
    }
}
