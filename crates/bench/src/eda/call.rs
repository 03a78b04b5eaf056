//! The NFS calls that operations are made of.

use nfs_wire::v3::{
    AccessArgs, CommitArgs, CreateArgs, FileHandle, GetattrArgs, LookupArgs, MkdirArgs, Procedure, ReadArgs,
    RemoveArgs, SetattrArgs, StableHow,
};
use xdr::{Encode, Writer};

/// A call with its arguments.
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
}

/// `WRITE3args` (RFC 1813 §3.3.7) up to its data, of which `count` bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteHead<'a> {
    pub file: FileHandle<'a>,
    pub offset: u64,
    pub count: u32,
    pub stable: StableHow,
}

impl Call<'_> {
    /// Its procedure.
    pub(super) fn procedure(&self) -> Procedure {
        match self {
            Self::Getattr(_) => Procedure::GETATTR,
            Self::Setattr(_) => Procedure::SETATTR,
            Self::Lookup(_) => Procedure::LOOKUP,
            Self::Access(_) => Procedure::ACCESS,
            Self::Read(_) => Procedure::READ,
            Self::Write(_) => Procedure::WRITE,
            Self::Create(_) => Procedure::CREATE,
            Self::Mkdir(_) => Procedure::MKDIR,
            Self::Remove(_) => Procedure::REMOVE,
            Self::Rmdir(_) => Procedure::RMDIR,
            Self::Commit(_) => Procedure::COMMIT,
        }
    }
}

impl Encode for Call<'_> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Getattr(arguments) => arguments.encode(w),
            Self::Setattr(arguments) => arguments.encode(w),
            Self::Lookup(arguments) => arguments.encode(w),
            Self::Access(arguments) => arguments.encode(w),
            Self::Read(arguments) => arguments.encode(w),
            Self::Write(arguments) => arguments.encode(w),
            Self::Create(arguments) => arguments.encode(w),
            Self::Mkdir(arguments) => arguments.encode(w),
            Self::Remove(arguments) | Self::Rmdir(arguments) => arguments.encode(w),
            Self::Commit(arguments) => arguments.encode(w),
        }
    }
}

impl Encode for WriteHead<'_> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        self.file.encode(w);
        w.u64(self.offset);
        w.u32(self.count);
        self.stable.encode(w);
        w.u32(self.count);
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::v3::WriteArgs;

    use super::*;

    #[test]
    fn a_write_is_its_head_and_its_data() {
        let (file, data) = (FileHandle(&[1, 2, 3, 4, 5]), [7; 8]);
        let whole = WriteArgs { file, offset: 4096, count: 8, stable: StableHow::DataSync, data: &data };
        let head = Call::Write(WriteHead { file, offset: 4096, count: 8, stable: StableHow::DataSync });
        assert_eq!([head.to_bytes(), data.to_vec()].concat(), whole.to_bytes());
    }
}
