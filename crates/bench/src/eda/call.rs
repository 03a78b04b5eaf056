//! The calls that operations are made of, and what good replies bring, in either version.

use nfs_wire::v3::{
    AccessArgs, CommitArgs, CreateArgs, FileHandle, GetattrArgs, LookupArgs, MkdirArgs, ReadArgs, RemoveArgs,
    SetattrArgs, StableHow, WriteVerf,
};
use nfs_wire::v4::{ShareAccess, Stateid};

use super::{v3, v4};
use crate::target::Version;

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
    /// Of NFSv4 alone.
    Open(OpenHead<'a>),
    /// Of NFSv4 alone: of this file.
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

/// What a good reply brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Nothing to be kept.
    Done,
    /// The handle of a name, where the reply has it.
    Found(Option<FileHandle<'a>>),
    /// An open file; its handle, where a name was opened.
    Opened(Stateid, Option<FileHandle<'a>>),
    /// `count` as the reply says it.
    Read { count: u32, data: &'a [u8], eof: bool },
    /// Bytes taken, and how safe they are.
    Written { count: u32, committed: StableHow, verf: WriteVerf },
    /// Everything before is safe.
    Committed(WriteVerf),
}

impl Call<'_> {
    /// Under which number it is counted.
    pub(super) fn number(&self, version: Version) -> u32 {
        match version {
            // Job sets are of NFS: a share is refused before there is a call.
            Version::V3 | Version::Smb(_) => v3::procedure(self).0,
            Version::V41 | Version::V42 => v4::operation(self).0,
        }
    }

    /// Its procedure or operation by name.
    pub(super) fn name(&self, version: Version) -> String {
        match version {
            Version::V3 | Version::Smb(_) => format!("{:?}", v3::procedure(self)),
            Version::V41 | Version::V42 => format!("{:?}", v4::operation(self)),
        }
    }
}
