//! Calls and results in the words of NFSv3, for every version. `nfs3::call`, `nfs4::call` and `smb::call`
//! encode and decode them.

use nfs_wire::v3::{
    AccessArgs, CommitArgs, CreateArgs, FileHandle, GetattrArgs, LookupArgs, MkdirArgs, ReadArgs, RemoveArgs,
    SetattrArgs, StableHow, WriteVerf,
};
use nfs_wire::v4::{ShareAccess, Stateid};
use smb_wire::FileId;
use xdr::Reader;

use crate::error::Error;

/// A call with its arguments. RENAME and READDIRPLUS are decoded only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    Getattr(GetattrArgs<'a>),
    Setattr(SetattrArgs<'a>),
    Lookup(LookupArgs<'a>),
    Access(AccessArgs<'a>),
    Read(ReadArgs<'a>),
    Write(WriteHead<'a>),
    Create(CreateArgs<'a>),
    Mkdir(MkdirArgs<'a>),
    Remove(RemoveArgs<'a>),
    Rmdir(RemoveArgs<'a>),
    Commit(CommitArgs<'a>),
    /// Not in NFSv3.
    Open(OpenHead<'a>),
    /// Not in NFSv3.
    Close(FileHandle<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    Null,
    Getattr,
    Setattr,
    Lookup,
    Access,
    Read,
    Write,
    Create,
    Mkdir,
    Remove,
    Rmdir,
    Rename,
    Readdirplus,
    Commit,
    Open,
    Close,
}

impl Call<'_> {
    pub fn kind(&self) -> CallKind {
        match self {
            Self::Getattr(_) => CallKind::Getattr,
            Self::Setattr(_) => CallKind::Setattr,
            Self::Lookup(_) => CallKind::Lookup,
            Self::Access(_) => CallKind::Access,
            Self::Read(_) => CallKind::Read,
            Self::Write(_) => CallKind::Write,
            Self::Create(_) => CallKind::Create,
            Self::Mkdir(_) => CallKind::Mkdir,
            Self::Remove(_) => CallKind::Remove,
            Self::Rmdir(_) => CallKind::Rmdir,
            Self::Commit(_) => CallKind::Commit,
            Self::Open(_) => CallKind::Open,
            Self::Close(_) => CallKind::Close,
        }
    }
}

/// `WRITE3args` (RFC 1813 §3.3.7) up to its data, of which `count` bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteHead<'a> {
    pub file: FileHandle<'a>,
    pub offset: u64,
    pub count: u32,
    pub stable: StableHow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHead<'a> {
    pub file: FileHandle<'a>,
    pub access: ShareAccess,
    /// The open owner's index among those of the caller's slot.
    pub owner: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenId {
    Nfs4(Stateid),
    Smb(FileId),
}

impl OpenId {
    pub fn stateid(open: Option<Self>) -> Stateid {
        match open {
            Some(Self::Nfs4(stateid)) => stateid,
            Some(Self::Smb(_)) | None => Stateid::ANONYMOUS,
        }
    }

    pub fn file_id(self) -> Option<FileId> {
        match self {
            Self::Nfs4(_) => None,
            Self::Smb(file_id) => Some(file_id),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult<'a> {
    /// Success without anything that callers use.
    Done,
    /// Present where the reply contains the handle.
    Found(Option<FileHandle<'a>>),
    /// The handle is present if the file was opened by name.
    Opened(OpenId, Option<FileHandle<'a>>),
    /// `count` as the reply states it; the length of `data` may differ.
    Read {
        count: u32,
        data: &'a [u8],
        eof: bool,
    },
    Written {
        count: u32,
        committed: StableHow,
        verf: WriteVerf,
    },
    Committed(WriteVerf),
    /// Without `.` and `..`.
    Listed(ListedPage),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedPage {
    pub entries: u64,
    pub cookie: u64,
    pub cookieverf: [u8; 8],
    pub eof: bool,
}

/// READ results up to their data, which a receiver may drop unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadHead {
    pub count: u32,
    pub length: u32,
    pub eof: bool,
}

#[derive(Debug)]
pub enum Rejection {
    /// The server asks for the call again later.
    Later,
    /// Contains the name of the status.
    Refused(String),
    /// The reply violates the protocol, or the client's state is lost.
    Fatal(Error),
}

impl<E: Into<Error>> From<E> for Rejection {
    fn from(error: E) -> Self {
        Self::Fatal(error.into())
    }
}

impl Rejection {
    #[cold]
    pub(crate) fn refused(status: impl std::fmt::Debug) -> Self {
        Self::Refused(format!("{status:?}"))
    }
}

/// Checks that nothing follows the results.
#[inline]
pub(crate) fn ended(r: &Reader<'_>) -> Result<(), Error> {
    match r.remaining() {
        0 => Ok(()),
        more => Err(Error::Protocol(format!("{more} bytes behind the end of a reply"))),
    }
}
