//! A client that mounts what is served.

use crate::rig::Service;
use bench::client::{Client, Connection, Identity};
use bench::{Error, Target};
use nfs_wire::v3::{FsstatArgs, FsstatFail, FsstatOk, PROGRAM, Procedure, Reply, VERSION};
use xdr::Decode;

fn root() -> Identity {
    Identity::new(0, 0)
}

/// An export of the service.
pub fn target(service: &Service, path: &str) -> Target {
    format!("nfs://{}{path}", service.nfs()).parse().unwrap()
}

/// Mounts an export as root.
pub fn mount(service: &Service, path: &str) -> Result<Client, Error> {
    Client::mount(&target(service, path), &root())
}

/// Mounts an export from another address of this machine.
pub fn mount_from(service: &Service, path: &str, source: &str) -> Result<Client, Error> {
    Client::mount(&target(service, path), &Identity { source: source.parse().ok(), ..root() })
}

/// FSSTAT: what `df` shows.
pub fn fsstat(service: &Service, client: &Client) -> FsstatOk {
    let mut connection = Connection::open(service.nfs(), root()).unwrap();
    let root = client.root();
    let arguments = FsstatArgs { fsroot: root.wire() };
    let mut results = connection.call((PROGRAM, VERSION), Procedure::FSSTAT.0, &arguments).unwrap();
    match Reply::<FsstatOk, FsstatFail>::decode(&mut results).unwrap() {
        Reply::Ok(ok) => ok,
        Reply::Err(status, _) => panic!("FSSTAT: {status:?}"),
    }
}
