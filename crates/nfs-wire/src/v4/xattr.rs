//! Extended attributes, RFC 8276 §8.4.

use xdr::Xdr;

use super::{ChangeInfo, Component, NAME_MAX, Reply};

/// The longest value of an extended attribute that is decoded; above the kernel's 64 KiB, so that a longer one gets
/// `NFS4ERR_XATTR2BIG`.
pub const XATTR_MAX: u32 = 1 << 20;
/// The most names of extended attributes that are decoded at once.
pub const XATTR_NAMES_MAX: u32 = 1 << 16;

/// `GETXATTR4args`, RFC 8276 §8.4.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetxattrArgs<'a> {
    #[xdr(max = NAME_MAX)]
    pub name: &'a [u8],
}

/// `xattrvalue4`, RFC 8276 §8.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct XattrValue<'a>(#[xdr(max = XATTR_MAX)] pub &'a [u8]);

/// `GETXATTR4res`, RFC 8276 §8.4.1.2.
pub type GetxattrReply<'a> = Reply<XattrValue<'a>>;

/// `setxattr_option4`, RFC 8276 §8.4.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum SetxattrOption {
    #[xdr(name = "SETXATTR4_EITHER")]
    Either = 0,
    #[xdr(name = "SETXATTR4_CREATE")]
    Create = 1,
    #[xdr(name = "SETXATTR4_REPLACE")]
    Replace = 2,
}

/// `SETXATTR4args`, RFC 8276 §8.4.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetxattrArgs<'a> {
    pub option: SetxattrOption,
    #[xdr(max = NAME_MAX)]
    pub key: &'a [u8],
    pub value: XattrValue<'a>,
}

/// `SETXATTR4res`, RFC 8276 §8.4.2.2.
pub type SetxattrReply = Reply<ChangeInfo>;

/// `LISTXATTRS4args`, RFC 8276 §8.4.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ListxattrsArgs {
    pub cookie: u64,
    /// Most bytes of the whole `LISTXATTRS4resok`.
    pub maxcount: u32,
}

/// `LISTXATTRS4resok`, RFC 8276 §8.4.3.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct ListxattrsOk<'a> {
    pub cookie: u64,
    #[xdr(max = XATTR_NAMES_MAX)]
    pub names: Vec<Component<'a>>,
    pub eof: bool,
}

/// `LISTXATTRS4res`, RFC 8276 §8.4.3.2.
pub type ListxattrsReply<'a> = Reply<ListxattrsOk<'a>>;

/// `REMOVEXATTR4args`, RFC 8276 §8.4.4.1: identical to that of GETXATTR.
pub type RemovexattrArgs<'a> = GetxattrArgs<'a>;
/// `REMOVEXATTR4res`, RFC 8276 §8.4.4.2.
pub type RemovexattrReply = Reply<ChangeInfo>;
