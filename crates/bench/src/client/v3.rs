//! The client over NFSv3 (RFC 1813).

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

use super::connection::{Connection, Identity};
use super::object::{Attributes, Chunk, Handle, LISTING_MAX, Limits, Listed, Listing, Written};
use crate::error::Error;
use crate::target::Target;

/// A mounted export.
#[derive(Debug)]
pub(super) struct V3 {
    connection: Connection,
    root: Handle,
}

impl V3 {
    /// Asks MOUNT for the export's root and connects to NFS.
    pub(super) fn mount(target: &Target, identity: &Identity) -> Result<Self, Error> {
        let mut mountd = Connection::open(target.mount_address()?, identity.clone())?;
        let path = mount::DirPath(target.export.as_bytes());
        let mut results = mountd.call((mount::PROGRAM, mount::VERSION), mount::Procedure::MNT.0, &path)?;
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

    /// The export's root directory.
    pub(super) fn root(&self) -> Handle {
        self.root.clone()
    }

    /// GETATTR.
    pub(super) fn attributes(&mut self, object: &Handle) -> Result<Attributes, Error> {
        let arguments = GetattrArgs { object: object.wire() };
        self.call::<GetattrOk, ()>(Procedure::GETATTR, object, &arguments).map(|ok| ok.obj_attributes.into())
    }

    /// LOOKUP of one name.
    pub(super) fn lookup(&mut self, dir: &Handle, name: &str) -> Result<Handle, Error> {
        let arguments = LookupArgs { what: operand(dir, name) };
        self.call::<LookupOk<'_>, LookupFail>(Procedure::LOOKUP, name, &arguments).map(|ok| ok.object.into())
    }

    /// READ; the data lives until the next call.
    pub(super) fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Chunk<'_>, Error> {
        let arguments = ReadArgs { file: file.wire(), offset, count };
        let ok = self.call::<ReadOk<'_>, ReadFail>(Procedure::READ, file, &arguments)?;
        if ok.count > count || ok.count as usize != ok.data.len() {
            let sent = ok.data.len();
            return Err(Error::Protocol(format!("READ of {count} says {} and sends {sent} bytes", ok.count)));
        }
        Ok(Chunk { data: ok.data, eof: ok.eof })
    }

    /// WRITE.
    pub(super) fn write(
        &mut self,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<Written, Error> {
        let count =
            u32::try_from(data.len()).map_err(|_| Error::Plan("a write is below 4 GiB".to_owned()))?;
        let arguments = WriteArgs { file: file.wire(), offset, count, stable, data };
        let ok = self.call::<WriteOk, WriteFail>(Procedure::WRITE, file, &arguments)?;
        if ok.count == 0 || ok.count > count || ok.committed < stable {
            return Err(Error::Protocol(format!(
                "{stable:?} WRITE of {count} bytes: {:?} of {}",
                ok.committed, ok.count
            )));
        }
        Ok(Written { count: ok.count, committed: ok.committed, verf: ok.verf })
    }

    /// COMMIT of the whole file.
    pub(super) fn commit(&mut self, file: &Handle) -> Result<WriteVerf, Error> {
        let arguments = CommitArgs { file: file.wire(), offset: 0, count: 0 };
        self.call::<CommitOk, CommitFail>(Procedure::COMMIT, file, &arguments).map(|ok| ok.verf)
    }

    /// CREATE of a file that may exist.
    pub(super) fn create(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        let how = CreateHow::Unchecked(Sattr { mode: Some(mode), ..Sattr::default() });
        let arguments = CreateArgs { place: operand(dir, name), how };
        let made = self.call::<CreateOk<'_>, CreateFail>(Procedure::CREATE, name, &arguments)?;
        // The handle is optional in the reply (RFC 1813 §3.3.8); then it has to be asked for.
        match made.obj.map(Handle::from) {
            Some(handle) => Ok(handle),
            None => self.lookup(dir, name),
        }
    }

    /// REMOVE.
    pub(super) fn remove(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let arguments = RemoveArgs { object: operand(dir, name) };
        self.call::<RemoveOk, RemoveFail>(Procedure::REMOVE, name, &arguments).map(drop)
    }

    /// RMDIR.
    pub(super) fn remove_dir(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let arguments = RemoveArgs { object: operand(dir, name) };
        self.call::<RemoveOk, RemoveFail>(Procedure::RMDIR, name, &arguments).map(drop)
    }

    /// READDIRPLUS to the end of the directory; without `.` and `..`.
    pub(super) fn list(&mut self, dir: &Handle) -> Result<Vec<Listed>, Error> {
        Listing::read(|listing| {
            let arguments = ReaddirplusArgs {
                dir: dir.wire(),
                cookie: listing.cookie,
                cookieverf: listing.cookieverf,
                dircount: LISTING_MAX,
                maxcount: LISTING_MAX,
            };
            let ok = self.call::<ReaddirplusOk<'_>, ReaddirFail>(Procedure::READDIRPLUS, dir, &arguments)?;
            for entry in ok.entries.iter() {
                listing.cookie = entry.cookie;
                if entry.name != b"." && entry.name != b".." {
                    listing.listed.push(Listed {
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

    /// FSINFO of the export.
    pub(super) fn limits(&mut self) -> Result<Limits, Error> {
        let root = self.root();
        let arguments = FsinfoArgs { fsroot: root.wire() };
        let info = self.call::<FsinfoOk, FsinfoFail>(Procedure::FSINFO, &root, &arguments)?;
        Ok(Limits { read_max: info.rtmax, write_max: info.wtmax })
    }

    /// FSSTAT of the export.
    pub(super) fn free_bytes(&mut self) -> Result<u64, Error> {
        let root = self.root();
        let arguments = FsstatArgs { fsroot: root.wire() };
        self.call::<FsstatOk, FsstatFail>(Procedure::FSSTAT, &root, &arguments).map(|ok| ok.abytes)
    }

    /// MKDIR of a directory that is not there.
    pub(super) fn make_new_dir(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        let attributes = Sattr { mode: Some(mode), ..Sattr::default() };
        let arguments = MkdirArgs { place: operand(dir, name), attributes };
        let made = self.call::<CreateOk<'_>, CreateFail>(Procedure::MKDIR, name, &arguments)?;
        match made.obj.map(Handle::from) {
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
        let mut results = self.connection.call((PROGRAM, VERSION), procedure.0, arguments)?;
        match Reply::<O, F>::decode(&mut results)? {
            Reply::Ok(ok) => Ok(ok),
            Reply::Err(status, _) => Err(Error::Refused {
                doing: format!("{procedure:?} of {object:?}"),
                status: format!("{status:?}"),
            }),
        }
    }
}

fn operand<'a>(dir: &'a Handle, name: &'a str) -> DirOpArgs<'a> {
    DirOpArgs { dir: dir.wire(), name: name.as_bytes() }
}

impl From<Fattr> for Attributes {
    fn from(attributes: Fattr) -> Self {
        let Fattr { ftype, size, used, .. } = attributes;
        Self { is_directory: ftype == FileType::Directory, size, used }
    }
}
