//! The calls that operations are made of, and what good replies bring, in every version.

use nfs_wire::v3::{
    AccessArgs, CommitArgs, CreateArgs, FileHandle, GetattrArgs, LookupArgs, MkdirArgs, ReadArgs, RemoveArgs,
    SetattrArgs, StableHow, WriteVerf,
};
use nfs_wire::v4::{ShareAccess, Stateid};
use smb_wire::FileId;

/// A call with its arguments, in NFSv3's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call<'a> {
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
    /// Not of NFSv3.
    Open(OpenHead<'a>),
    /// Not of NFSv3: of this file.
    Close(FileHandle<'a>),
}

/// `WRITE3args` (RFC 1813 §3.3.7) up to its data, of which `count` bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteHead<'a> {
    pub file: FileHandle<'a>,
    pub offset: u64,
    pub count: u32,
    pub stable: StableHow,
}

/// A file that is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenHead<'a> {
    pub file: FileHandle<'a>,
    /// What for.
    pub access: ShareAccess,
    /// As which of the owners that a process is.
    pub owner: u8,
}

/// By what a server knows an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenId {
    /// Over NFSv4.
    V4(Stateid),
    /// Over SMB.
    Smb(FileId),
}

impl OpenId {
    /// Over NFSv4: that of nobody where nothing is open.
    pub(super) fn stateid(under: Option<Self>) -> Stateid {
        match under {
            Some(Self::V4(stateid)) => stateid,
            Some(Self::Smb(_)) | None => Stateid::ANONYMOUS,
        }
    }

    /// Over SMB.
    pub(super) fn file_id(self) -> Option<FileId> {
        match self {
            Self::V4(_) => None,
            Self::Smb(file_id) => Some(file_id),
        }
    }
}

/// What a good reply brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Nothing to be kept.
    Done,
    /// The handle of a name, where the reply has it.
    Found(Option<FileHandle<'a>>),
    /// An open file; its handle, where a name was opened.
    Opened(OpenId, Option<FileHandle<'a>>),
    /// `count` as the reply says it.
    Read { count: u32, data: &'a [u8], eof: bool },
    /// Bytes taken, and how safe they are.
    Written { count: u32, committed: StableHow, verf: WriteVerf },
    /// Everything before is safe.
    Committed(WriteVerf),
}
