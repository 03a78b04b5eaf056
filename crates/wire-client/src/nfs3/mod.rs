//! The client over NFSv3 (RFC 1813).

pub mod call;

use std::fmt;

use nfs_wire::mount::{self, MountReply};
use nfs_wire::v3::{
    CommitArgs, CommitFail, CommitOk, CreateArgs, CreateFail, CreateHow, CreateOk, DirOpArgs, Fattr,
    FileType, FsinfoArgs, FsinfoFail, FsinfoOk, FsstatArgs, FsstatFail, FsstatOk, GetattrArgs, GetattrOk,
    LookupArgs, LookupFail, LookupOk, MkdirArgs, PROGRAM, Procedure, ReadArgs, ReadFail, ReadOk, ReaddirFail,
    ReaddirplusArgs, ReaddirplusOk, RemoveArgs, RemoveFail, RemoveOk, Reply, Sattr, StableHow, VERSION,
    WriteArgs, WriteFail, WriteOk, WriteVerf,
};
use xdr::{Decode, Encode};

use crate::error::Error;
use crate::object::{
    Attributes, Chunk, DirEntry, Handle, Listing, PAGE_BYTES, Space, TransferLimits, WriteResult,
};
use crate::rpc::{Connection, Identity};
use crate::target::Target;

#[derive(Debug)]
pub(crate) struct Nfs3 {
    connection: Connection,
    root: Handle,
}

impl Nfs3 {
    /// Asks MOUNT for the root handle, then connects to NFS.
    pub(crate) fn mount(target: &Target, identity: &Identity) -> Result<Self, Error> {
        let mut mountd = Connection::open(target.mount_address()?, identity.clone())?;
        let path = mount::DirPath(target.export.as_bytes());
        let mut results = mountd.call(mount::PROGRAM, mount::VERSION, mount::Procedure::MNT.0, &path)?;
        let root = match MountReply::decode(&mut results)? {
            MountReply::Ok(ok) => Handle(ok.fhandle.to_vec()),
            MountReply::Err(status) => {
                return Err(Error::Refused {
                    doing: format!("mount {}", target.export),
                    status: format!("{status:?}"),
                });
            }
        };
        let connection = Connection::open(target.address()?, identity.clone())?;
        Ok(Self { connection, root })
    }

    pub(crate) fn root(&self) -> Handle {
        self.root.clone()
    }

    pub(crate) fn attributes(&mut self, object: &Handle) -> Result<Attributes, Error> {
        let arguments = GetattrArgs { object: object.wire() };
        self.call::<GetattrOk, ()>(Procedure::GETATTR, object, &arguments).map(|ok| ok.obj_attributes.into())
    }

    pub(crate) fn lookup(&mut self, dir: &Handle, name: &str) -> Result<Handle, Error> {
        let arguments = LookupArgs { what: dir_op(dir, name) };
        self.call::<LookupOk<'_>, LookupFail>(Procedure::LOOKUP, name, &arguments).map(|ok| ok.object.into())
    }

    pub(crate) fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Chunk<'_>, Error> {
        let arguments = ReadArgs { file: file.wire(), offset, count };
        let ok = self.call::<ReadOk<'_>, ReadFail>(Procedure::READ, file, &arguments)?;
        if ok.count > count || ok.count as usize != ok.data.len() {
            let sent = ok.data.len();
            return Err(Error::Protocol(format!(
                "READ of {count} states {} and sends {sent} bytes",
                ok.count
            )));
        }
        Ok(Chunk { data: ok.data, eof: ok.eof })
    }

    pub(crate) fn write(
        &mut self,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<WriteResult, Error> {
        let count =
            u32::try_from(data.len()).map_err(|_| Error::Unsupported("a write is below 4 GiB".to_owned()))?;
        let arguments = WriteArgs { file: file.wire(), offset, count, stable, data };
        let ok = self.call::<WriteOk, WriteFail>(Procedure::WRITE, file, &arguments)?;
        if ok.count == 0 || ok.count > count || ok.committed < stable {
            return Err(Error::Protocol(format!(
                "{stable:?} WRITE of {count} bytes: {:?} of {}",
                ok.committed, ok.count
            )));
        }
        Ok(WriteResult { count: ok.count, committed: ok.committed, verf: ok.verf })
    }

    pub(crate) fn commit(&mut self, file: &Handle) -> Result<WriteVerf, Error> {
        let arguments = CommitArgs { file: file.wire(), offset: 0, count: 0 };
        self.call::<CommitOk, CommitFail>(Procedure::COMMIT, file, &arguments).map(|ok| ok.verf)
    }

    pub(crate) fn create(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        let how = CreateHow::Unchecked(Sattr { mode: Some(mode), ..Sattr::default() });
        let arguments = CreateArgs { place: dir_op(dir, name), how };
        let created = self.call::<CreateOk<'_>, CreateFail>(Procedure::CREATE, name, &arguments)?;
        // The handle is optional in the reply (RFC 1813 §3.3.8).
        match created.obj.map(Handle::from) {
            Some(handle) => Ok(handle),
            None => self.lookup(dir, name),
        }
    }

    pub(crate) fn remove(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let arguments = RemoveArgs { object: dir_op(dir, name) };
        self.call::<RemoveOk, RemoveFail>(Procedure::REMOVE, name, &arguments).map(drop)
    }

    pub(crate) fn remove_dir(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let arguments = RemoveArgs { object: dir_op(dir, name) };
        self.call::<RemoveOk, RemoveFail>(Procedure::RMDIR, name, &arguments).map(drop)
    }

    pub(crate) fn list(&mut self, dir: &Handle) -> Result<Vec<DirEntry>, Error> {
        Listing::read(|listing| {
            let arguments = ReaddirplusArgs {
                dir: dir.wire(),
                cookie: listing.cookie,
                cookieverf: listing.cookieverf,
                dircount: PAGE_BYTES,
                maxcount: PAGE_BYTES,
            };
            let ok = self.call::<ReaddirplusOk<'_>, ReaddirFail>(Procedure::READDIRPLUS, dir, &arguments)?;
            for entry in ok.entries.iter() {
                listing.cookie = entry.cookie;
                if entry.name != b"." && entry.name != b".." {
                    listing.entries.push(DirEntry {
                        name: entry.name.to_vec(),
                        attributes: entry.name_attributes.map(Attributes::from),
                        handle: entry.name_handle.map(Handle::from),
                    });
                }
            }
            listing.cookieverf = ok.cookieverf;
            Ok(ok.eof)
        })
    }

    pub(crate) fn limits(&mut self) -> Result<TransferLimits, Error> {
        let root = self.root();
        let arguments = FsinfoArgs { fsroot: root.wire() };
        let info = self.call::<FsinfoOk, FsinfoFail>(Procedure::FSINFO, &root, &arguments)?;
        Ok(TransferLimits { read_max: info.rtmax, write_max: info.wtmax })
    }

    pub(crate) fn space(&mut self) -> Result<Space, Error> {
        let root = self.root();
        let arguments = FsstatArgs { fsroot: root.wire() };
        let ok = self.call::<FsstatOk, FsstatFail>(Procedure::FSSTAT, &root, &arguments)?;
        Ok(Space { total: ok.tbytes, free: ok.fbytes, available: ok.abytes })
    }

    pub(crate) fn mkdir(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        let attributes = Sattr { mode: Some(mode), ..Sattr::default() };
        let arguments = MkdirArgs { place: dir_op(dir, name), attributes };
        let created = self.call::<CreateOk<'_>, CreateFail>(Procedure::MKDIR, name, &arguments)?;
        match created.obj.map(Handle::from) {
            Some(handle) => Ok(handle),
            None => self.lookup(dir, name),
        }
    }

    fn call<'a, O: Decode<'a>, F: Decode<'a>>(
        &'a mut self,
        procedure: Procedure,
        object: impl fmt::Debug,
        arguments: &impl Encode,
    ) -> Result<O, Error> {
        let mut results = self.connection.call(PROGRAM, VERSION, procedure.0, arguments)?;
        match Reply::<O, F>::decode(&mut results)? {
            Reply::Ok(ok) => Ok(ok),
            Reply::Err(status, _) => Err(Error::Refused {
                doing: format!("{procedure:?} of {object:?}"),
                status: format!("{status:?}"),
            }),
        }
    }
}

fn dir_op<'a>(dir: &'a Handle, name: &'a str) -> DirOpArgs<'a> {
    DirOpArgs { dir: dir.wire(), name: name.as_bytes() }
}

impl From<Fattr> for Attributes {
    fn from(attributes: Fattr) -> Self {
        let Fattr { ftype, size, used, .. } = attributes;
        Self { is_directory: ftype == FileType::Directory, size, used }
    }
}
