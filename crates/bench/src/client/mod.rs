//! A synchronous client of NFS and SMB: one call at a time, every status but success an error.
//!
//! - `object`: handles, and what is told of files.
//! - `v3`: over NFSv3. `v4`: over NFSv4.1 and 4.2. `smb`: over SMB 3.1.1. A target says which of them ([`Version`](crate::Version)).
//! - `session`: a client of NFSv4 and its sessions; the load's connections share those. `lease`: keeps it alive.

mod connection;
pub(crate) mod lease;
mod object;
pub(crate) mod session;
mod smb;
mod v3;
mod v4;

use nfs_wire::v3::{StableHow, Status, WriteVerf};

use crate::error::Error;
use crate::target::{Target, Version};
use smb::Smb;
use v3::V3;
use v4::V4;

pub(crate) use connection::first_xid;
pub use connection::{Connection, Identity};
pub use object::{Attributes, Chunk, Handle, Limits, Listed, Written};
pub(crate) use object::{stable_in_v3, stable_in_v4};

/// A mounted export.
#[derive(Debug)]
pub struct Client(Dialect);

#[derive(Debug)]
enum Dialect {
    V3(V3),
    V4(Box<V4>),
    Smb(Box<Smb>),
}

/// The same verb of either dialect.
macro_rules! either {
    ($client:expr, $dialect:ident => $call:expr) => {
        match &mut $client.0 {
            Dialect::V3($dialect) => $call,
            Dialect::V4($dialect) => $call,
            Dialect::Smb($dialect) => $call,
        }
    };
}

impl Client {
    /// Finds the export's root: asks MOUNT over NFSv3, looks its path up over NFSv4, connects to the share over SMB.
    pub fn mount(target: &Target, identity: &Identity) -> Result<Self, Error> {
        let dialect = match (target.version, target.version.minor()) {
            (Version::Smb(_), _) => Dialect::Smb(Box::new(Smb::mount(target, identity)?)),
            (_, None) => Dialect::V3(V3::mount(target, identity)?),
            (_, Some(minor)) => Dialect::V4(Box::new(V4::mount(target, identity, minor)?)),
        };
        Ok(Self(dialect))
    }

    /// The export's root directory.
    pub fn root(&self) -> Handle {
        match &self.0 {
            Dialect::V3(v3) => v3.root(),
            Dialect::V4(v4) => v4.root(),
            Dialect::Smb(smb) => smb.root(),
        }
    }

    /// GETATTR.
    pub fn attributes(&mut self, object: &Handle) -> Result<Attributes, Error> {
        either!(self, client => client.attributes(object))
    }

    /// LOOKUP of one name.
    pub fn lookup(&mut self, dir: &Handle, name: &str) -> Result<Handle, Error> {
        either!(self, client => client.lookup(dir, name))
    }

    /// LOOKUP of every component of `path`, from the export's root.
    pub fn walk(&mut self, path: &str) -> Result<Handle, Error> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(self.root(), |dir, name| self.lookup(&dir, name))
    }

    /// READ; the data lives until the next call.
    pub fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Chunk<'_>, Error> {
        either!(self, client => client.read(file, offset, count))
    }

    /// WRITE.
    pub fn write(
        &mut self,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<Written, Error> {
        either!(self, client => client.write(file, offset, data, stable))
    }

    /// COMMIT of the whole file.
    pub(crate) fn commit(&mut self, file: &Handle) -> Result<WriteVerf, Error> {
        either!(self, client => client.commit(file))
    }

    /// Makes a file, which may exist.
    pub fn create(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        either!(self, client => client.create(dir, name, mode))
    }

    /// LOOKUP of a directory, which is made where there is none.
    pub fn make_dir(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        match self.lookup(dir, name) {
            Err(refused) if refused.is(Status::NOENT) => {}
            found => return found,
        }
        match either!(self, client => client.make_new_dir(dir, name, mode)) {
            // Another generator has just made it.
            Err(refused) if refused.is(Status::EXIST) => self.lookup(dir, name),
            made => made,
        }
    }

    /// REMOVE of a file.
    pub fn remove(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        either!(self, client => client.remove(dir, name))
    }

    /// Removes an empty directory.
    pub fn remove_dir(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        either!(self, client => client.remove_dir(dir, name))
    }

    /// Lists to the end of the directory; without `.` and `..`.
    pub fn list(&mut self, dir: &Handle) -> Result<Vec<Listed>, Error> {
        either!(self, client => client.list(dir))
    }

    /// What the server takes and gives in one call.
    pub fn limits(&mut self) -> Result<Limits, Error> {
        either!(self, client => client.limits())
    }

    /// Bytes that the caller may still write.
    pub(crate) fn free_bytes(&mut self) -> Result<u64, Error> {
        either!(self, client => client.free_bytes())
    }
}
