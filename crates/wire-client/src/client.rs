//! A synchronous client of NFS and SMB: one call at a time; every status but success is an error.

use nfs_wire::v3::{StableHow, Status, WriteVerf};

use crate::error::Error;
use crate::nfs3::Nfs3;
use crate::nfs4::Nfs4;
use crate::object::{Attributes, Chunk, DirEntry, Handle, Space, TransferLimits, WriteResult};
use crate::rpc::Identity;
use crate::smb::Smb;
use crate::target::{Target, Version};

#[derive(Debug)]
pub struct Client(Dialect);

#[derive(Debug)]
enum Dialect {
    Nfs3(Nfs3),
    Nfs4(Box<Nfs4>),
    Smb(Box<Smb>),
}

macro_rules! dispatch {
    ($client:expr, $dialect:ident => $call:expr) => {
        match &mut $client.0 {
            Dialect::Nfs3($dialect) => $call,
            Dialect::Nfs4($dialect) => $call,
            Dialect::Smb($dialect) => $call,
        }
    };
}

impl Client {
    /// Finds the export's root: by MOUNT over NFSv3, by LOOKUP of its path over NFSv4, by TREE_CONNECT over SMB.
    pub fn mount(target: &Target, identity: &Identity) -> Result<Self, Error> {
        let dialect = match (target.version, target.version.minor()) {
            (Version::Smb(_), _) => Dialect::Smb(Box::new(Smb::mount(target, identity)?)),
            (_, None) => Dialect::Nfs3(Nfs3::mount(target, identity)?),
            (_, Some(minor)) => Dialect::Nfs4(Box::new(Nfs4::mount(target, identity, minor)?)),
        };
        Ok(Self(dialect))
    }

    pub fn root(&self) -> Handle {
        match &self.0 {
            Dialect::Nfs3(nfs3) => nfs3.root(),
            Dialect::Nfs4(nfs4) => nfs4.root(),
            Dialect::Smb(smb) => smb.root(),
        }
    }

    pub fn attributes(&mut self, object: &Handle) -> Result<Attributes, Error> {
        dispatch!(self, client => client.attributes(object))
    }

    pub fn lookup(&mut self, dir: &Handle, name: &str) -> Result<Handle, Error> {
        dispatch!(self, client => client.lookup(dir, name))
    }

    /// LOOKUP of every component of `path`, from the export's root.
    pub fn walk(&mut self, path: &str) -> Result<Handle, Error> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(self.root(), |dir, name| self.lookup(&dir, name))
    }

    /// Reads into a buffer that lives until the next call.
    pub fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Chunk<'_>, Error> {
        dispatch!(self, client => client.read(file, offset, count))
    }

    pub fn write(
        &mut self,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<WriteResult, Error> {
        dispatch!(self, client => client.write(file, offset, data, stable))
    }

    pub fn commit(&mut self, file: &Handle) -> Result<WriteVerf, Error> {
        dispatch!(self, client => client.commit(file))
    }

    pub fn create(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        dispatch!(self, client => client.create(dir, name, mode))
    }

    /// Creates the directory only if LOOKUP does not find it.
    pub fn make_dir(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        match self.lookup(dir, name) {
            Err(refused) if refused.is(Status::NOENT) => {}
            found => return found,
        }
        match dispatch!(self, client => client.mkdir(dir, name, mode)) {
            // Another client has created it since the lookup.
            Err(refused) if refused.is(Status::EXIST) => self.lookup(dir, name),
            made => made,
        }
    }

    pub fn remove(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        dispatch!(self, client => client.remove(dir, name))
    }

    pub fn remove_dir(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        dispatch!(self, client => client.remove_dir(dir, name))
    }

    /// Without `.` and `..`.
    pub fn list(&mut self, dir: &Handle) -> Result<Vec<DirEntry>, Error> {
        dispatch!(self, client => client.list(dir))
    }

    pub fn limits(&mut self) -> Result<TransferLimits, Error> {
        dispatch!(self, client => client.limits())
    }

    pub fn free_bytes(&mut self) -> Result<u64, Error> {
        Ok(self.space()?.available)
    }

    pub fn space(&mut self) -> Result<Space, Error> {
        dispatch!(self, client => client.space())
    }
}
