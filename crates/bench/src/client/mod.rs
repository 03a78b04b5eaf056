//! A synchronous NFSv3 client (RFC 1813): one call at a time, every status but success an error.

mod connection;

use std::fmt;

use nfs_wire::mount::{self, MountReply};
use nfs_wire::v3::{
    Access, AccessArgs, AccessFail, AccessOk, CommitArgs, CommitFail, CommitOk, CreateArgs, CreateFail,
    CreateHow, CreateOk, DirOpArgs, Fattr, FileHandle, FsinfoArgs, FsinfoFail, FsinfoOk, FsstatArgs,
    FsstatFail, FsstatOk, GetattrArgs, GetattrOk, LookupArgs, LookupFail, LookupOk, MkdirArgs, PROGRAM,
    Procedure, ReadArgs, ReadFail, ReadOk, ReaddirFail, ReaddirplusArgs, ReaddirplusOk, RemoveArgs,
    RemoveFail, RemoveOk, Reply, Sattr, StableHow, Status, VERSION, WriteArgs, WriteFail, WriteOk, WriteVerf,
};
use xdr::{Decode, Encode};

use crate::error::Error;
use crate::target::Target;

pub(crate) use connection::first_xid;
pub use connection::{Connection, Identity};

/// Most bytes asked for in one READDIRPLUS.
const LISTING_MAX: u32 = 64 << 10;

/// A file handle of its own.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Handle(Vec<u8>);

impl Handle {
    /// As the wire wants it.
    pub fn wire(&self) -> FileHandle<'_> {
        FileHandle(&self.0)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<FileHandle<'_>> for Handle {
    fn from(handle: FileHandle<'_>) -> Self {
        Self(handle.0.to_vec())
    }
}

/// What READ brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// They end where the file does.
    pub eof: bool,
}

/// What WRITE did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes taken.
    pub count: u32,
    /// How safe they are.
    pub committed: StableHow,
    /// Changes when the server may have lost unstable data.
    pub verf: WriteVerf,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// Its attributes, where the server gave them.
    pub attributes: Option<Fattr>,
    /// Its handle, where the server gave it.
    pub handle: Option<Handle>,
}

/// A mounted export.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    root: Handle,
}

impl Client {
    /// Asks MOUNT for the export's root and connects to NFS.
    pub fn mount(target: &Target, identity: &Identity) -> Result<Self, Error> {
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
    pub fn root(&self) -> Handle {
        self.root.clone()
    }

    /// NULL.
    pub fn null(&mut self) -> Result<(), Error> {
        self.connection.call((PROGRAM, VERSION), Procedure::NULL.0, &()).map(drop)
    }

    /// GETATTR.
    pub fn attributes(&mut self, object: &Handle) -> Result<Fattr, Error> {
        let arguments = GetattrArgs { object: object.wire() };
        self.call::<GetattrOk, ()>(Procedure::GETATTR, object, &arguments).map(|ok| ok.obj_attributes)
    }

    /// LOOKUP of one name.
    pub fn lookup(&mut self, dir: &Handle, name: &str) -> Result<Handle, Error> {
        let arguments = LookupArgs { what: operand(dir, name) };
        self.call::<LookupOk<'_>, LookupFail>(Procedure::LOOKUP, name, &arguments).map(|ok| ok.object.into())
    }

    /// LOOKUP of every component of `path`, from the export's root.
    pub fn walk(&mut self, path: &str) -> Result<Handle, Error> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(self.root(), |dir, name| self.lookup(&dir, name))
    }

    /// ACCESS: which of `wanted` the caller has.
    pub fn access(&mut self, object: &Handle, wanted: Access) -> Result<Access, Error> {
        let arguments = AccessArgs { object: object.wire(), access: wanted };
        self.call::<AccessOk, AccessFail>(Procedure::ACCESS, object, &arguments).map(|ok| ok.access)
    }

    /// READ; the data lives until the next call.
    pub fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Chunk<'_>, Error> {
        let arguments = ReadArgs { file: file.wire(), offset, count };
        let ok = self.call::<ReadOk<'_>, ReadFail>(Procedure::READ, file, &arguments)?;
        if ok.count > count || ok.count as usize != ok.data.len() {
            let sent = ok.data.len();
            return Err(Error::Protocol(format!("READ of {count} says {} and sends {sent} bytes", ok.count)));
        }
        Ok(Chunk { data: ok.data, eof: ok.eof })
    }

    /// WRITE.
    pub fn write(
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
    pub(crate) fn commit(&mut self, file: &Handle) -> Result<WriteVerf, Error> {
        let arguments = CommitArgs { file: file.wire(), offset: 0, count: 0 };
        self.call::<CommitOk, CommitFail>(Procedure::COMMIT, file, &arguments).map(|ok| ok.verf)
    }

    /// CREATE of a file that may exist.
    pub fn create(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        let how = CreateHow::Unchecked(Sattr { mode: Some(mode), ..Sattr::default() });
        let arguments = CreateArgs { place: operand(dir, name), how };
        let made = self.call::<CreateOk<'_>, CreateFail>(Procedure::CREATE, name, &arguments)?;
        // The handle is optional in the reply (RFC 1813 §3.3.8); then it has to be asked for.
        match made.obj.map(Handle::from) {
            Some(handle) => Ok(handle),
            None => self.lookup(dir, name),
        }
    }

    /// LOOKUP of a directory, or MKDIR where there is none.
    pub fn make_dir(&mut self, dir: &Handle, name: &str, mode: u32) -> Result<Handle, Error> {
        match self.lookup(dir, name) {
            Err(refused) if refused.is(Status::NOENT) => {}
            found => return found,
        }
        let attributes = Sattr { mode: Some(mode), ..Sattr::default() };
        let arguments = MkdirArgs { place: operand(dir, name), attributes };
        match self.call::<CreateOk<'_>, CreateFail>(Procedure::MKDIR, name, &arguments) {
            Ok(CreateOk { obj: Some(handle), .. }) => Ok(Handle::from(handle)),
            Ok(_) => self.lookup(dir, name),
            // Another generator has just made it.
            Err(refused) if refused.is(Status::EXIST) => self.lookup(dir, name),
            Err(refused) => Err(refused),
        }
    }

    /// REMOVE.
    pub fn remove(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let arguments = RemoveArgs { object: operand(dir, name) };
        self.call::<RemoveOk, RemoveFail>(Procedure::REMOVE, name, &arguments).map(drop)
    }

    /// RMDIR.
    pub fn remove_dir(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let arguments = RemoveArgs { object: operand(dir, name) };
        self.call::<RemoveOk, RemoveFail>(Procedure::RMDIR, name, &arguments).map(drop)
    }

    /// READDIRPLUS to the end of the directory; without `.` and `..`.
    pub fn list(&mut self, dir: &Handle) -> Result<Vec<Listed>, Error> {
        let (mut listed, mut cookie, mut cookieverf) = (Vec::new(), 0, [0; 8]);
        loop {
            let arguments = ReaddirplusArgs {
                dir: dir.wire(),
                cookie,
                cookieverf,
                dircount: LISTING_MAX,
                maxcount: LISTING_MAX,
            };
            let ok = self.call::<ReaddirplusOk<'_>, ReaddirFail>(Procedure::READDIRPLUS, dir, &arguments)?;
            let before = cookie;
            for entry in ok.entries.iter() {
                cookie = entry.cookie;
                if entry.name != b"." && entry.name != b".." {
                    let handle = entry.name_handle.map(Handle::from);
                    listed.push(Listed {
                        name: entry.name.to_vec(),
                        attributes: entry.name_attributes,
                        handle,
                    });
                }
            }
            cookieverf = ok.cookieverf;
            if ok.eof {
                return Ok(listed);
            }
            if cookie == before {
                return Err(Error::Protocol("READDIRPLUS neither goes on nor ends".to_owned()));
            }
        }
    }

    /// FSINFO of the export.
    pub fn fs_info(&mut self) -> Result<FsinfoOk, Error> {
        let root = self.root();
        let arguments = FsinfoArgs { fsroot: root.wire() };
        self.call::<FsinfoOk, FsinfoFail>(Procedure::FSINFO, &root, &arguments)
    }

    /// FSSTAT of the export.
    pub(crate) fn fs_stat(&mut self) -> Result<FsstatOk, Error> {
        let root = self.root();
        let arguments = FsstatArgs { fsroot: root.wire() };
        self.call::<FsstatOk, FsstatFail>(Procedure::FSSTAT, &root, &arguments)
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
