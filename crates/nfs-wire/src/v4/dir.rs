//! Operations on names and directories, RFC 8881 §18, in its order.

use xdr::{ListRef, Xdr};

use super::{
    ARRAY_MAX, Bitmap, ChangeInfo, Fattr, FileType, NAME_MAX, PATH_MAX, Reply, SpecData, TEXT_MAX, Verifier,
};
use crate::rpc::AuthFlavor;

/// `CREATE4args`, RFC 8881 §18.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CreateArgs<'a> {
    pub objtype: CreateType<'a>,
    #[xdr(max = NAME_MAX)]
    pub objname: &'a [u8],
    pub createattrs: Fattr<'a>,
}

/// `createtype4`, RFC 8881 §18.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum CreateType<'a> {
    #[xdr(tag = FileType::Symlink as u32)]
    Symlink(#[xdr(max = PATH_MAX)] &'a [u8]),
    #[xdr(tag = FileType::BlockDevice as u32)]
    BlockDevice(SpecData),
    #[xdr(tag = FileType::CharDevice as u32)]
    CharDevice(SpecData),
    #[xdr(tag = FileType::Socket as u32)]
    Socket,
    #[xdr(tag = FileType::Fifo as u32)]
    Fifo,
    #[xdr(tag = FileType::Directory as u32)]
    Directory,
    /// Any other value, an `nfs_ftype4` or not: the answer is `NFS4ERR_BADTYPE`.
    #[xdr(default)]
    Other(u32),
}

/// `CREATE4resok`, RFC 8881 §18.4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CreateOk {
    pub cinfo: ChangeInfo,
    pub attrset: Bitmap,
}

/// `CREATE4res`, RFC 8881 §18.4.2.
pub type CreateReply = Reply<CreateOk>;

/// `LINK4args`, RFC 8881 §18.9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LinkArgs<'a> {
    #[xdr(max = NAME_MAX)]
    pub newname: &'a [u8],
}

/// `LINK4resok`, RFC 8881 §18.9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LinkOk {
    pub cinfo: ChangeInfo,
}

/// `LINK4res`, RFC 8881 §18.9.2.
pub type LinkReply = Reply<LinkOk>;

/// `LOOKUP4args`, RFC 8881 §18.13.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LookupArgs<'a> {
    #[xdr(max = NAME_MAX)]
    pub objname: &'a [u8],
}

/// `READDIR4args`, RFC 8881 §18.23.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReaddirArgs {
    pub cookie: u64,
    pub cookieverf: Verifier,
    /// A hint: most bytes of names and cookies.
    pub dircount: u32,
    /// Most bytes of the whole `READDIR4resok`.
    pub maxcount: u32,
    pub attr_request: Bitmap,
}

/// `READDIR4resok` before its entries, RFC 8881 §18.23.2.
///
/// The server writes [`Status::OK`](super::Status::OK), this, then `Some(entry)` for as many as fit, then
/// [`DirListEnd`](super::DirListEnd). An entry that turns out too large is removed with
/// [`xdr::Writer::truncate`]. The client decodes [`ReaddirOk`], which is the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReaddirOkHead {
    pub cookieverf: Verifier,
}

/// `entry4` without its link, RFC 8881 §18.23.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Entry<'a> {
    pub cookie: u64,
    #[xdr(max = NAME_MAX)]
    pub name: &'a [u8],
    pub attrs: Fattr<'a>,
}

/// `READDIR4resok` with `dirlist4`, RFC 8881 §18.23.2, as a client reads it: `reply.entries.iter()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReaddirOk<'a> {
    pub cookieverf: Verifier,
    pub entries: ListRef<'a, Entry<'a>>,
    pub eof: bool,
}

/// `READDIR4res`, RFC 8881 §18.23.2.
pub type ReaddirReply<'a> = Reply<ReaddirOk<'a>>;

/// `REMOVE4args`, RFC 8881 §18.25.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RemoveArgs<'a> {
    #[xdr(max = NAME_MAX)]
    pub target: &'a [u8],
}

/// `REMOVE4resok`, RFC 8881 §18.25.2: identical to that of LINK.
pub type RemoveOk = LinkOk;
/// `REMOVE4res`, RFC 8881 §18.25.2.
pub type RemoveReply = Reply<RemoveOk>;

/// `RENAME4args`, RFC 8881 §18.26.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RenameArgs<'a> {
    #[xdr(max = NAME_MAX)]
    pub oldname: &'a [u8],
    #[xdr(max = NAME_MAX)]
    pub newname: &'a [u8],
}

/// `RENAME4resok`, RFC 8881 §18.26.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RenameOk {
    pub source_cinfo: ChangeInfo,
    pub target_cinfo: ChangeInfo,
}

/// `RENAME4res`, RFC 8881 §18.26.2.
pub type RenameReply = Reply<RenameOk>;

/// `SECINFO4args`, RFC 8881 §18.29.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SecinfoArgs<'a> {
    #[xdr(max = NAME_MAX)]
    pub name: &'a [u8],
}

/// `rpc_gss_svc_t`, RFC 8881 §18.29.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum GssService {
    #[xdr(name = "RPC_GSS_SVC_NONE")]
    None = 1,
    #[xdr(name = "RPC_GSS_SVC_INTEGRITY")]
    Integrity = 2,
    #[xdr(name = "RPC_GSS_SVC_PRIVACY")]
    Privacy = 3,
}

/// `rpcsec_gss_info`, RFC 8881 §18.29.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RpcsecGssInfo<'a> {
    #[xdr(max = TEXT_MAX)]
    pub oid: &'a [u8],
    pub qop: u32,
    pub service: GssService,
}

/// `secinfo4`, RFC 8881 §18.29.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum Secinfo<'a> {
    #[xdr(tag = AuthFlavor::RPCSEC_GSS.0)]
    RpcsecGss(RpcsecGssInfo<'a>),
    /// A flavor that needs no more than its number; never [`AuthFlavor::RPCSEC_GSS`].
    #[xdr(default)]
    Flavor(AuthFlavor),
}

/// `SECINFO4resok`, RFC 8881 §18.29.2, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Xdr)]
pub struct SecinfoOk<'a>(#[xdr(max = ARRAY_MAX)] pub Vec<Secinfo<'a>>);

/// `SECINFO4res`, RFC 8881 §18.29.2.
pub type SecinfoReply<'a> = Reply<SecinfoOk<'a>>;

/// `secinfo_style4`, RFC 8881 §18.45.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum SecinfoStyle {
    #[xdr(name = "SECINFO_STYLE4_CURRENT_FH")]
    CurrentFh = 0,
    #[xdr(name = "SECINFO_STYLE4_PARENT")]
    Parent = 1,
}

/// `SECINFO_NO_NAME4args`, RFC 8881 §18.45.1.
pub type SecinfoNoNameArgs = SecinfoStyle;
/// `SECINFO_NO_NAME4res`, RFC 8881 §18.45.2: identical to that of SECINFO.
pub type SecinfoNoNameReply<'a> = SecinfoReply<'a>;
