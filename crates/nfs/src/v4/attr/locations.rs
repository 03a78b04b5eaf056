//! Locations of a file system: the addresses that serve its export (RFC 8881 §11.16, RFC 7530 §8.1).

use crate::state::nfs4::DEFAULT_PORT;
use nfs_wire::v4::attr::{FsLocation, FsLocations, Pathname};
use nfs_wire::v4::{Component, Text};
use std::net::IpAddr;
use xdr::{Encode, Writer};

/// The addresses of an export, or of the directories above the exports.
pub(super) struct Locations<'l> {
    pub(super) path: &'l str,
    /// The address at which the client has reached us.
    pub(super) local: IpAddr,
    /// Further addresses.
    pub(super) endpoints: &'l [IpAddr],
    /// The port of all addresses.
    pub(super) port: u16,
}

impl Locations<'_> {
    /// The address that the client knows, and then the others.
    fn servers(&self) -> Vec<String> {
        let local = self.local.to_canonical();
        let others = self.endpoints.iter().map(IpAddr::to_canonical).filter(|other| *other != local);
        [local].into_iter().chain(others).map(|address| self.server(address)).collect()
    }

    /// An address, with the port as two bytes of a universal address (RFC 5665 §5.2.3.3) unless it is the usual one.
    fn server(&self, address: IpAddr) -> String {
        let [high, low] = self.port.to_be_bytes();
        if self.port == DEFAULT_PORT { address.to_string() } else { format!("{address}.{high}.{low}") }
    }
}

impl Encode for Locations<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let path = || {
            let names = self.path.split('/').filter(|name| !name.is_empty());
            Pathname(names.map(|name| Component(name.as_bytes())).collect())
        };
        let servers = self.servers();
        let server = servers.iter().map(|server| Text(server.as_bytes())).collect();
        FsLocations { fs_root: path(), locations: vec![FsLocation { server, rootpath: path() }] }.encode(w);
    }
}
