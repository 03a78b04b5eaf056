//! OPEN and related operations, RFC 8881 §18.2, §18.16 and §18.18, RFC 7530 §16.18, RFC 9754.

use xdr::Xdr;

use super::attr::Ace;
use super::{Bitmap, ChangeInfo, Fattr, NAME_MAX, Reply, StateOwner, Stateid, Verifier};
use crate::bits::bits;

/// `CLOSE4args`, RFC 8881 §18.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CloseArgs {
    /// Used by 4.0; zero since 4.1.
    pub seqid: u32,
    pub open_stateid: Stateid,
}

/// `CLOSE4res`, RFC 8881 §18.2.2.
pub type CloseReply = Reply<Stateid>;

xdr::open_set! {
    /// The bits of `share_access`, RFC 8881 §18.16.1 and RFC 9754: the requested access and delegation.
    pub struct ShareAccess {
        READ: "OPEN4_SHARE_ACCESS_READ" = 0x0000_0001,
        WRITE: "OPEN4_SHARE_ACCESS_WRITE" = 0x0000_0002,
        BOTH: "OPEN4_SHARE_ACCESS_BOTH" = 0x0000_0003,
        WANT_DELEG_MASK: "OPEN4_SHARE_ACCESS_WANT_DELEG_MASK" = 0xff00,
        WANT_NO_PREFERENCE: "OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE" = 0x0000,
        WANT_READ_DELEG: "OPEN4_SHARE_ACCESS_WANT_READ_DELEG" = 0x0100,
        WANT_WRITE_DELEG: "OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG" = 0x0200,
        WANT_ANY_DELEG: "OPEN4_SHARE_ACCESS_WANT_ANY_DELEG" = 0x0300,
        WANT_NO_DELEG: "OPEN4_SHARE_ACCESS_WANT_NO_DELEG" = 0x0400,
        WANT_CANCEL: "OPEN4_SHARE_ACCESS_WANT_CANCEL" = 0x0500,
        WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL: "OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL" = 0x0001_0000,
        WANT_PUSH_DELEG_WHEN_UNCONTENDED: "OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED" = 0x0002_0000,
        WANT_DELEG_TIMESTAMPS: "OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS" = 0x0010_0000,
        WANT_OPEN_XOR_DELEGATION: "OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION" = 0x0020_0000,
    }
}

xdr::open_set! {
    /// The bits of `share_deny`, RFC 8881 §18.16.1.
    pub struct ShareDeny {
        NONE: "OPEN4_SHARE_DENY_NONE" = 0x0000_0000,
        READ: "OPEN4_SHARE_DENY_READ" = 0x0000_0001,
        WRITE: "OPEN4_SHARE_DENY_WRITE" = 0x0000_0002,
        BOTH: "OPEN4_SHARE_DENY_BOTH" = 0x0000_0003,
    }
}

xdr::open_set! {
    /// The bits of `rflags`, RFC 8881 §18.16.2 and RFC 9754.
    pub struct OpenResult {
        CONFIRM: "OPEN4_RESULT_CONFIRM" = 0x0000_0002,
        LOCKTYPE_POSIX: "OPEN4_RESULT_LOCKTYPE_POSIX" = 0x0000_0004,
        PRESERVE_UNLINKED: "OPEN4_RESULT_PRESERVE_UNLINKED" = 0x0000_0008,
        MAY_NOTIFY_LOCK: "OPEN4_RESULT_MAY_NOTIFY_LOCK" = 0x0000_0020,
        NO_OPEN_STATEID: "OPEN4_RESULT_NO_OPEN_STATEID" = 0x0000_0010,
    }
}

bits!(ShareAccess, ShareDeny, OpenResult);

impl ShareAccess {
    /// The requested access without wants: `READ`, `WRITE`, `BOTH`, or none of these.
    #[inline]
    pub const fn access(self) -> Self {
        Self(self.0 & Self::BOTH.0)
    }

    /// The requested delegation: one of `WANT_NO_PREFERENCE` to `WANT_CANCEL`.
    #[inline]
    pub const fn want(self) -> Self {
        Self(self.0 & Self::WANT_DELEG_MASK.0)
    }
}

/// `OPEN4args`, RFC 8881 §18.16.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OpenArgs<'a> {
    /// Used by 4.0; zero since 4.1.
    pub seqid: u32,
    pub share_access: ShareAccess,
    pub share_deny: ShareDeny,
    pub owner: StateOwner<'a>,
    pub openhow: OpenFlag<'a>,
    pub claim: OpenClaim<'a>,
}

/// `opentype4`, RFC 8881 §18.16.1; the tags of [`OpenFlag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum OpenType {
    #[xdr(name = "OPEN4_NOCREATE")]
    NoCreate = 0,
    #[xdr(name = "OPEN4_CREATE")]
    Create = 1,
}

/// `openflag4`, RFC 8881 §18.16.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum OpenFlag<'a> {
    #[xdr(tag = OpenType::NoCreate as u32)]
    NoCreate,
    #[xdr(tag = OpenType::Create as u32)]
    Create(CreateHow<'a>),
}

/// `createmode4`, RFC 8881 §18.16.1; the tags of [`CreateHow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum CreateMode {
    #[xdr(name = "UNCHECKED4")]
    Unchecked = 0,
    #[xdr(name = "GUARDED4")]
    Guarded = 1,
    #[xdr(name = "EXCLUSIVE4")]
    Exclusive = 2,
    /// Since 4.1.
    #[xdr(name = "EXCLUSIVE4_1")]
    Exclusive41 = 3,
}

/// `createhow4`, RFC 8881 §18.16.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum CreateHow<'a> {
    #[xdr(tag = CreateMode::Unchecked as u32)]
    Unchecked(Fattr<'a>),
    #[xdr(tag = CreateMode::Guarded as u32)]
    Guarded(Fattr<'a>),
    #[xdr(tag = CreateMode::Exclusive as u32)]
    Exclusive(Verifier),
    #[xdr(tag = CreateMode::Exclusive41 as u32)]
    Exclusive41(CreatVerfAttr<'a>),
}

/// `creatverfattr`, RFC 8881 §18.16.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CreatVerfAttr<'a> {
    pub verf: Verifier,
    pub attrs: Fattr<'a>,
}

/// `open_claim_type4`, RFC 8881 §18.16.1; the tags of [`OpenClaim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum OpenClaimType {
    #[xdr(name = "CLAIM_NULL")]
    Null = 0,
    #[xdr(name = "CLAIM_PREVIOUS")]
    Previous = 1,
    #[xdr(name = "CLAIM_DELEGATE_CUR")]
    DelegateCur = 2,
    #[xdr(name = "CLAIM_DELEGATE_PREV")]
    DelegatePrev = 3,
    #[xdr(name = "CLAIM_FH")]
    Fh = 4,
    #[xdr(name = "CLAIM_DELEG_CUR_FH")]
    DelegCurFh = 5,
    #[xdr(name = "CLAIM_DELEG_PREV_FH")]
    DelegPrevFh = 6,
}

/// `open_claim4`, RFC 8881 §18.16.1: the file by name in the current directory, or the current file itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum OpenClaim<'a> {
    /// A name, in an ordinary OPEN.
    #[xdr(tag = OpenClaimType::Null as u32)]
    Null(#[xdr(max = NAME_MAX)] &'a [u8]),
    /// The current file, opened before the server's restart.
    #[xdr(tag = OpenClaimType::Previous as u32)]
    Previous(DelegationType),
    #[xdr(tag = OpenClaimType::DelegateCur as u32)]
    DelegateCur(OpenClaimDelegateCur<'a>),
    #[xdr(tag = OpenClaimType::DelegatePrev as u32)]
    DelegatePrev(#[xdr(max = NAME_MAX)] &'a [u8]),
    /// The current file, an ordinary OPEN. Since 4.1.
    #[xdr(tag = OpenClaimType::Fh as u32)]
    Fh,
    #[xdr(tag = OpenClaimType::DelegCurFh as u32)]
    DelegCurFh(Stateid),
    #[xdr(tag = OpenClaimType::DelegPrevFh as u32)]
    DelegPrevFh,
}

/// `open_claim_delegate_cur4`, RFC 8881 §18.16.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OpenClaimDelegateCur<'a> {
    pub delegate_stateid: Stateid,
    #[xdr(max = NAME_MAX)]
    pub file: &'a [u8],
}

/// `open_delegation_type4`, RFC 8881 §18.16.1 and RFC 9754; the tags of [`OpenDelegation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum DelegationType {
    #[xdr(name = "OPEN_DELEGATE_NONE")]
    None = 0,
    #[xdr(name = "OPEN_DELEGATE_READ")]
    Read = 1,
    #[xdr(name = "OPEN_DELEGATE_WRITE")]
    Write = 2,
    /// Since 4.1.
    #[xdr(name = "OPEN_DELEGATE_NONE_EXT")]
    NoneExt = 3,
    /// With times that the client maintains (RFC 9754).
    #[xdr(name = "OPEN_DELEGATE_READ_ATTRS_DELEG")]
    ReadAttrs = 4,
    /// With times that the client maintains (RFC 9754).
    #[xdr(name = "OPEN_DELEGATE_WRITE_ATTRS_DELEG")]
    WriteAttrs = 5,
}

/// `open_delegation4`, RFC 8881 §18.16.2 and RFC 9754.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum OpenDelegation<'a> {
    #[xdr(tag = DelegationType::None as u32)]
    None,
    #[xdr(tag = DelegationType::Read as u32)]
    Read(ReadDelegation<'a>),
    #[xdr(tag = DelegationType::Write as u32)]
    Write(WriteDelegation<'a>),
    #[xdr(tag = DelegationType::NoneExt as u32)]
    NoneExt(NoDelegation),
    #[xdr(tag = DelegationType::ReadAttrs as u32)]
    ReadAttrs(ReadDelegation<'a>),
    #[xdr(tag = DelegationType::WriteAttrs as u32)]
    WriteAttrs(WriteDelegation<'a>),
}

/// `open_read_delegation4`, RFC 8881 §18.16.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReadDelegation<'a> {
    pub stateid: Stateid,
    /// Whether it is recalled already: the client must return it as soon as it can.
    pub recall: bool,
    pub permissions: Ace<'a>,
}

/// `open_write_delegation4`, RFC 8881 §18.16.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WriteDelegation<'a> {
    pub stateid: Stateid,
    /// Whether it is recalled already: the client must return it as soon as it can.
    pub recall: bool,
    pub space_limit: SpaceLimit,
    pub permissions: Ace<'a>,
}

/// `limit_by4`, RFC 8881 §18.16.1; the tags of [`SpaceLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum LimitBy {
    #[xdr(name = "NFS_LIMIT_SIZE")]
    Size = 1,
    #[xdr(name = "NFS_LIMIT_BLOCKS")]
    Blocks = 2,
}

/// `nfs_space_limit4`, RFC 8881 §18.16.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum SpaceLimit {
    /// The file's size in bytes.
    #[xdr(tag = LimitBy::Size as u32)]
    Size(u64),
    #[xdr(tag = LimitBy::Blocks as u32)]
    Blocks(ModifiedLimit),
}

/// `nfs_modified_limit4`, RFC 8881 §18.16.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ModifiedLimit {
    pub num_blocks: u32,
    pub bytes_per_block: u32,
}

xdr::open_set! {
    /// `why_no_delegation4`, RFC 8881 §18.16.2.
    pub struct WhyNoDelegation {
        NOT_WANTED: "WND4_NOT_WANTED" = 0,
        CONTENTION: "WND4_CONTENTION" = 1,
        RESOURCE: "WND4_RESOURCE" = 2,
        NOT_SUPP_FTYPE: "WND4_NOT_SUPP_FTYPE" = 3,
        WRITE_DELEG_NOT_SUPP_FTYPE: "WND4_WRITE_DELEG_NOT_SUPP_FTYPE" = 4,
        NOT_SUPP_UPGRADE: "WND4_NOT_SUPP_UPGRADE" = 5,
        NOT_SUPP_DOWNGRADE: "WND4_NOT_SUPP_DOWNGRADE" = 6,
        CANCELLED: "WND4_CANCELLED" = 7,
        IS_DIR: "WND4_IS_DIR" = 8,
    }
}

/// `open_none_delegation4`, RFC 8881 §18.16.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum NoDelegation {
    /// Whether the server pushes one later.
    #[xdr(tag = WhyNoDelegation::CONTENTION.0)]
    Contention(bool),
    /// Whether the server notifies the client when one is available.
    #[xdr(tag = WhyNoDelegation::RESOURCE.0)]
    Resource(bool),
    #[xdr(default)]
    Other(WhyNoDelegation),
}

/// `OPEN4resok`, RFC 8881 §18.16.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OpenOk<'a> {
    pub stateid: Stateid,
    pub cinfo: ChangeInfo,
    pub rflags: OpenResult,
    pub attrset: Bitmap,
    pub delegation: OpenDelegation<'a>,
}

/// `OPEN4res`, RFC 8881 §18.16.2.
pub type OpenReply<'a> = Reply<OpenOk<'a>>;

/// `OPEN_CONFIRM4args`, RFC 7530 §16.18.2; only in 4.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OpenConfirmArgs {
    pub open_stateid: Stateid,
    pub seqid: u32,
}

/// `OPEN_CONFIRM4res`, RFC 7530 §16.18.3.
pub type OpenConfirmReply = Reply<Stateid>;

/// `OPEN_DOWNGRADE4args`, RFC 8881 §18.18.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OpenDowngradeArgs {
    pub open_stateid: Stateid,
    /// Used by 4.0; zero since 4.1.
    pub seqid: u32,
    pub share_access: ShareAccess,
    pub share_deny: ShareDeny,
}

/// `OPEN_DOWNGRADE4res`, RFC 8881 §18.18.2.
pub type OpenDowngradeReply = Reply<Stateid>;
