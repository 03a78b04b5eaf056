//! Operations on files and their attributes, RFC 8881 §18, in its order.

use xdr::Xdr;

use super::{
    Access, Bitmap, DATA_MAX, Fattr, FileHandle, PATH_MAX, Reply, StableHow, Stateid, Status, Verifier,
};

/// `ACCESS4args`, RFC 8881 §18.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct AccessArgs {
    pub access: Access,
}

/// `ACCESS4resok`, RFC 8881 §18.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct AccessOk {
    /// The bits that the server can check.
    pub supported: Access,
    pub access: Access,
}

/// `ACCESS4res`, RFC 8881 §18.1.2.
pub type AccessReply = Reply<AccessOk>;

/// `COMMIT4args`, RFC 8881 §18.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CommitArgs {
    pub offset: u64,
    /// Zero: to the end of the file.
    pub count: u32,
}

/// `COMMIT4resok`, RFC 8881 §18.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CommitOk {
    pub writeverf: Verifier,
}

/// `COMMIT4res`, RFC 8881 §18.3.2.
pub type CommitReply = Reply<CommitOk>;

/// `GETATTR4args`, RFC 8881 §18.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetattrArgs {
    pub attr_request: Bitmap,
}

/// `GETATTR4resok`, RFC 8881 §18.7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetattrOk<'a> {
    pub obj_attributes: Fattr<'a>,
}

/// `GETATTR4res`, RFC 8881 §18.7.2.
pub type GetattrReply<'a> = Reply<GetattrOk<'a>>;

/// `GETFH4resok`, RFC 8881 §18.8.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetfhOk<'a> {
    pub object: FileHandle<'a>,
}

/// `GETFH4res`, RFC 8881 §18.8.2.
pub type GetfhReply<'a> = Reply<GetfhOk<'a>>;

/// `NVERIFY4args`, RFC 8881 §18.15.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct NverifyArgs<'a> {
    pub obj_attributes: Fattr<'a>,
}

/// `OPENATTR4args`, RFC 8881 §18.17.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OpenattrArgs {
    pub createdir: bool,
}

/// `PUTFH4args`, RFC 8881 §18.19.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct PutfhArgs<'a> {
    pub object: FileHandle<'a>,
}

/// `READ4args`, RFC 8881 §18.22.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadArgs {
    pub stateid: Stateid,
    pub offset: u64,
    pub count: u32,
}

/// `READ4resok`, RFC 8881 §18.22.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadOk<'a> {
    pub eof: bool,
    #[xdr(max = DATA_MAX)]
    pub data: &'a [u8],
}

/// `READ4resok` up to the length of `data`, RFC 8881 §18.22.2, for data that reaches the reply by another way
/// (read in place, or zero copy). After it come `data_length` bytes and [`xdr::Writer::pad`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadOkHead {
    pub eof: bool,
    pub data_length: u32,
}

/// `READ4res`, RFC 8881 §18.22.2.
pub type ReadReply<'a> = Reply<ReadOk<'a>>;

/// `READLINK4resok`, RFC 8881 §18.24.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadlinkOk<'a> {
    #[xdr(max = PATH_MAX)]
    pub link: &'a [u8],
}

/// `READLINK4res`, RFC 8881 §18.24.2.
pub type ReadlinkReply<'a> = Reply<ReadlinkOk<'a>>;

/// `SETATTR4args`, RFC 8881 §18.30.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetattrArgs<'a> {
    pub stateid: Stateid,
    pub obj_attributes: Fattr<'a>,
}

/// `SETATTR4res`, RFC 8881 §18.30.2: a failure also reports the attributes that were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetattrReply {
    pub status: Status,
    pub attrsset: Bitmap,
}

/// `VERIFY4args`, RFC 8881 §18.31.1: identical to that of NVERIFY.
pub type VerifyArgs<'a> = NverifyArgs<'a>;

/// `WRITE4args`, RFC 8881 §18.32.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WriteArgs<'a> {
    pub stateid: Stateid,
    pub offset: u64,
    pub stable: StableHow,
    #[xdr(max = DATA_MAX)]
    pub data: &'a [u8],
}

/// `WRITE4args` up to the length of `data`, RFC 8881 §18.32.1, for data that is processed as it
/// arrives. After it come `data_length` bytes, padded to a multiple of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WriteHead {
    pub stateid: Stateid,
    pub offset: u64,
    pub stable: StableHow,
    pub data_length: u32,
}

impl WriteHead {
    pub const SIZE: usize = 32;
}

/// `WRITE4resok`, RFC 8881 §18.32.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WriteOk {
    pub count: u32,
    pub committed: StableHow,
    pub writeverf: Verifier,
}

/// `WRITE4res`, RFC 8881 §18.32.2.
pub type WriteReply = Reply<WriteOk>;
