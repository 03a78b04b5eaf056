//! A client that mounts what is served.
#![allow(dead_code, reason = "each test binary uses its own part")]

use crate::rig::Service;
use bench::Target;
use nfs_wire::v3::{
    Fattr, FsinfoArgs, FsinfoFail, FsinfoOk, FsstatArgs, FsstatFail, FsstatOk, GetattrArgs, GetattrOk,
    PROGRAM, Procedure, Reply, VERSION,
};
use wire_client::Error;
use wire_client::{Client, Connection, Handle, Identity};
use xdr::{Decode, Encode};

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
    let root = client.root();
    ask::<_, FsstatFail>(service, Procedure::FSSTAT, &FsstatArgs { fsroot: root.wire() })
}

/// FSINFO: what may be asked for.
pub fn fsinfo(service: &Service, client: &Client) -> FsinfoOk {
    let root = client.root();
    ask::<_, FsinfoFail>(service, Procedure::FSINFO, &FsinfoArgs { fsroot: root.wire() })
}

/// GETATTR: all attributes.
pub fn getattr(service: &Service, object: &Handle) -> Fattr {
    let arguments = GetattrArgs { object: object.wire() };
    ask::<GetattrOk, ()>(service, Procedure::GETATTR, &arguments).obj_attributes
}

/// A call as root that is granted.
fn ask<O: for<'a> Decode<'a>, F: for<'a> Decode<'a>>(
    service: &Service,
    procedure: Procedure,
    arguments: &impl Encode,
) -> O {
    let mut connection = Connection::open(service.nfs(), root()).unwrap();
    let mut results = connection.call(PROGRAM, VERSION, procedure.0, arguments).unwrap();
    match Reply::<O, F>::decode(&mut results).unwrap() {
        Reply::Ok(ok) => ok,
        Reply::Err(status, _) => panic!("{procedure:?}: {status:?}"),
    }
}
