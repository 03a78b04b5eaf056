//! Callbacks, RFC 8881 §19 and §20, RFC 7862 §16 and, of 4.0, RFC 7530 §17 and §18: calls of the server to a
//! program of the client's number.
//!
//! Shaped like COMPOUND: a [`CompoundHead`], and [`Argument`]s; a [`CompoundReplyHead`], and [`OpReply`]s.
//! Callbacks of layouts, of directory notifications and of delegations that a server pushes are numbers alone
//! ([`Argument::Illegal`]).

use xdr::{Decode, Encode, Malformed, Reader, Writer, Xdr};

use super::ops::operations;
use super::{
    ARRAY_MAX, Bitmap, FileHandle, Reply, SessionId, StateOwner, Stateid, Status, TAG_MAX, WriteResponse,
};
pub use super::{CompoundReplyHead, GetattrOk, GetattrReply};

xdr::constants! {
    pub CONSTANTS {
        PROGRAM: "NFS4_CALLBACK" = 0x4000_0000,
        VERSION: "NFS_CB" = 1,
        TYPE_MASK_RDATA_DLG: "RCA4_TYPE_MASK_RDATA_DLG" = 0,
        TYPE_MASK_WDATA_DLG: "RCA4_TYPE_MASK_WDATA_DLG" = 1,
        TYPE_MASK_DIR_DLG: "RCA4_TYPE_MASK_DIR_DLG" = 2,
        TYPE_MASK_FILE_LAYOUT: "RCA4_TYPE_MASK_FILE_LAYOUT" = 3,
        TYPE_MASK_BLK_LAYOUT: "RCA4_TYPE_MASK_BLK_LAYOUT" = 4,
        TYPE_MASK_OBJ_LAYOUT_MIN: "RCA4_TYPE_MASK_OBJ_LAYOUT_MIN" = 8,
        TYPE_MASK_OBJ_LAYOUT_MAX: "RCA4_TYPE_MASK_OBJ_LAYOUT_MAX" = 9,
        TYPE_MASK_OTHER_LAYOUT_MIN: "RCA4_TYPE_MASK_OTHER_LAYOUT_MIN" = 12,
        TYPE_MASK_OTHER_LAYOUT_MAX: "RCA4_TYPE_MASK_OTHER_LAYOUT_MAX" = 15,
    }
}

xdr::open_set! {
    /// The procedures, RFC 8881 §19.
    pub struct Procedure { NULL: "CB_NULL" = 0, COMPOUND: "CB_COMPOUND" = 1 }
}

xdr::open_set! {
    /// `nfs_cb_opnum4`, RFC 8881 §19.2.1 and RFC 7862 §16.
    pub struct Op {
        GETATTR: "OP_CB_GETATTR" = 3,
        RECALL: "OP_CB_RECALL" = 4,
        LAYOUTRECALL: "OP_CB_LAYOUTRECALL" = 5,
        NOTIFY: "OP_CB_NOTIFY" = 6,
        PUSH_DELEG: "OP_CB_PUSH_DELEG" = 7,
        RECALL_ANY: "OP_CB_RECALL_ANY" = 8,
        RECALLABLE_OBJ_AVAIL: "OP_CB_RECALLABLE_OBJ_AVAIL" = 9,
        RECALL_SLOT: "OP_CB_RECALL_SLOT" = 10,
        SEQUENCE: "OP_CB_SEQUENCE" = 11,
        WANTS_CANCELLED: "OP_CB_WANTS_CANCELLED" = 12,
        NOTIFY_LOCK: "OP_CB_NOTIFY_LOCK" = 13,
        NOTIFY_DEVICEID: "OP_CB_NOTIFY_DEVICEID" = 14,
        ILLEGAL: "OP_CB_ILLEGAL" = 10044,
        OFFLOAD: "OP_CB_OFFLOAD" = 15,
    }
}

/// `CB_COMPOUND4args` up to its operations, RFC 8881 §19.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CompoundHead<'a> {
    #[xdr(max = TAG_MAX)]
    pub tag: &'a [u8],
    pub minorversion: u32,
    /// Used by 4.0: the `callback_ident` of SETCLIENTID.
    pub callback_ident: u32,
    /// The length of `argarray`: how many operations follow.
    pub operations: u32,
}

/// `CB_GETATTR4args`, RFC 8881 §20.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetattrArgs<'a> {
    pub fh: FileHandle<'a>,
    pub attr_request: Bitmap,
}

/// `CB_RECALL4args`, RFC 8881 §20.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RecallArgs<'a> {
    pub stateid: Stateid,
    pub truncate: bool,
    pub fh: FileHandle<'a>,
}

/// `CB_RECALL_ANY4args`, RFC 8881 §20.6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RecallAnyArgs {
    pub objects_to_keep: u32,
    /// A set of `RCA4_TYPE_MASK_…`.
    pub type_mask: Bitmap,
}

/// `CB_RECALLABLE_OBJ_AVAIL4args`, RFC 8881 §20.7.1: identical to that of CB_RECALL_ANY.
pub type RecallableObjAvailArgs = RecallAnyArgs;

/// `CB_RECALL_SLOT4args`, RFC 8881 §20.8.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RecallSlotArgs {
    pub target_highest_slotid: u32,
}

/// `referring_call4`, RFC 8881 §20.9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReferringCall {
    pub sequenceid: u32,
    pub slotid: u32,
}

/// `referring_call_list4`, RFC 8881 §20.9.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct ReferringCallList {
    pub sessionid: SessionId,
    #[xdr(max = ARRAY_MAX)]
    pub referring_calls: Vec<ReferringCall>,
}

/// `CB_SEQUENCE4args`, RFC 8881 §20.9.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct SequenceArgs {
    pub sessionid: SessionId,
    pub sequenceid: u32,
    pub slotid: u32,
    pub highest_slotid: u32,
    pub cachethis: bool,
    #[xdr(max = ARRAY_MAX)]
    pub referring_call_lists: Vec<ReferringCallList>,
}

/// `CB_SEQUENCE4resok`, RFC 8881 §20.9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SequenceOk {
    pub sessionid: SessionId,
    pub sequenceid: u32,
    pub slotid: u32,
    pub highest_slotid: u32,
    pub target_highest_slotid: u32,
}

/// `CB_SEQUENCE4res`, RFC 8881 §20.9.2.
pub type SequenceReply = Reply<SequenceOk>;

/// `CB_WANTS_CANCELLED4args`, RFC 8881 §20.10.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WantsCancelledArgs {
    pub contended_wants_cancelled: bool,
    pub resourced_wants_cancelled: bool,
}

/// `CB_NOTIFY_LOCK4args`, RFC 8881 §20.11.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct NotifyLockArgs<'a> {
    pub fh: FileHandle<'a>,
    pub lock_owner: StateOwner<'a>,
}

/// `CB_OFFLOAD4args`, RFC 7862 §16.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OffloadArgs<'a> {
    pub fh: FileHandle<'a>,
    pub stateid: Stateid,
    pub offload_info: OffloadInfo,
}

/// `offload_info4`, RFC 7862 §16.1.1: how a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum OffloadInfo {
    #[xdr(tag = Status::OK.0)]
    Ok(WriteResponse),
    /// Any other status, and how many bytes were copied.
    #[xdr(default)]
    Err(Status, u64),
}

operations! {
    /// `nfs_cb_argop4`, RFC 8881 §19.2.1: a callback with its arguments.
    pub enum Argument<'a>: Op, else Illegal {
        Getattr(args: GetattrArgs<'a>) = GETATTR,
        Recall(args: RecallArgs<'a>) = RECALL,
        RecallAny(args: RecallAnyArgs) = RECALL_ANY,
        RecallableObjAvail(args: RecallableObjAvailArgs) = RECALLABLE_OBJ_AVAIL,
        RecallSlot(args: RecallSlotArgs) = RECALL_SLOT,
        Sequence(args: SequenceArgs) = SEQUENCE,
        WantsCancelled(args: WantsCancelledArgs) = WANTS_CANCELLED,
        NotifyLock(args: NotifyLockArgs<'a>) = NOTIFY_LOCK,
        Offload(args: OffloadArgs<'a>) = OFFLOAD,
    }
}

operations! {
    /// `nfs_cb_resop4`, RFC 8881 §19.2.2: a callback with its result, as a server reads it.
    pub enum OpReply<'a>: Op {
        Getattr(reply: GetattrReply<'a>) = GETATTR,
        Recall(status: Status) = RECALL,
        Layoutrecall(status: Status) = LAYOUTRECALL,
        Notify(status: Status) = NOTIFY,
        PushDeleg(status: Status) = PUSH_DELEG,
        RecallAny(status: Status) = RECALL_ANY,
        RecallableObjAvail(status: Status) = RECALLABLE_OBJ_AVAIL,
        RecallSlot(status: Status) = RECALL_SLOT,
        Sequence(reply: SequenceReply) = SEQUENCE,
        WantsCancelled(status: Status) = WANTS_CANCELLED,
        NotifyLock(status: Status) = NOTIFY_LOCK,
        NotifyDeviceid(status: Status) = NOTIFY_DEVICEID,
        Offload(status: Status) = OFFLOAD,
        Illegal(status: Status) = ILLEGAL,
    }
}
