//! The operations by number: [`Op`], with its arguments ([`Argument`]) and its results ([`OpReply`]).

use xdr::{Decode, Encode, Malformed, Reader, Writer};

use super::*;

xdr::open_set! {
    /// `nfs_opnum4`, RFC 8881 §16.2.1, RFC 7862 §15 and RFC 8276 §8.4.
    pub struct Op {
        ACCESS: "OP_ACCESS" = 3,
        CLOSE: "OP_CLOSE" = 4,
        COMMIT: "OP_COMMIT" = 5,
        CREATE: "OP_CREATE" = 6,
        DELEGPURGE: "OP_DELEGPURGE" = 7,
        DELEGRETURN: "OP_DELEGRETURN" = 8,
        GETATTR: "OP_GETATTR" = 9,
        GETFH: "OP_GETFH" = 10,
        LINK: "OP_LINK" = 11,
        LOCK: "OP_LOCK" = 12,
        LOCKT: "OP_LOCKT" = 13,
        LOCKU: "OP_LOCKU" = 14,
        LOOKUP: "OP_LOOKUP" = 15,
        LOOKUPP: "OP_LOOKUPP" = 16,
        NVERIFY: "OP_NVERIFY" = 17,
        OPEN: "OP_OPEN" = 18,
        OPENATTR: "OP_OPENATTR" = 19,
        OPEN_CONFIRM: "OP_OPEN_CONFIRM" = 20,
        OPEN_DOWNGRADE: "OP_OPEN_DOWNGRADE" = 21,
        PUTFH: "OP_PUTFH" = 22,
        PUTPUBFH: "OP_PUTPUBFH" = 23,
        PUTROOTFH: "OP_PUTROOTFH" = 24,
        READ: "OP_READ" = 25,
        READDIR: "OP_READDIR" = 26,
        READLINK: "OP_READLINK" = 27,
        REMOVE: "OP_REMOVE" = 28,
        RENAME: "OP_RENAME" = 29,
        RENEW: "OP_RENEW" = 30,
        RESTOREFH: "OP_RESTOREFH" = 31,
        SAVEFH: "OP_SAVEFH" = 32,
        SECINFO: "OP_SECINFO" = 33,
        SETATTR: "OP_SETATTR" = 34,
        SETCLIENTID: "OP_SETCLIENTID" = 35,
        SETCLIENTID_CONFIRM: "OP_SETCLIENTID_CONFIRM" = 36,
        VERIFY: "OP_VERIFY" = 37,
        WRITE: "OP_WRITE" = 38,
        RELEASE_LOCKOWNER: "OP_RELEASE_LOCKOWNER" = 39,
        ILLEGAL: "OP_ILLEGAL" = 10044,
        BACKCHANNEL_CTL: "OP_BACKCHANNEL_CTL" = 40,
        BIND_CONN_TO_SESSION: "OP_BIND_CONN_TO_SESSION" = 41,
        EXCHANGE_ID: "OP_EXCHANGE_ID" = 42,
        CREATE_SESSION: "OP_CREATE_SESSION" = 43,
        DESTROY_SESSION: "OP_DESTROY_SESSION" = 44,
        FREE_STATEID: "OP_FREE_STATEID" = 45,
        GET_DIR_DELEGATION: "OP_GET_DIR_DELEGATION" = 46,
        GETDEVICEINFO: "OP_GETDEVICEINFO" = 47,
        GETDEVICELIST: "OP_GETDEVICELIST" = 48,
        LAYOUTCOMMIT: "OP_LAYOUTCOMMIT" = 49,
        LAYOUTGET: "OP_LAYOUTGET" = 50,
        LAYOUTRETURN: "OP_LAYOUTRETURN" = 51,
        SECINFO_NO_NAME: "OP_SECINFO_NO_NAME" = 52,
        SEQUENCE: "OP_SEQUENCE" = 53,
        SET_SSV: "OP_SET_SSV" = 54,
        TEST_STATEID: "OP_TEST_STATEID" = 55,
        WANT_DELEGATION: "OP_WANT_DELEGATION" = 56,
        DESTROY_CLIENTID: "OP_DESTROY_CLIENTID" = 57,
        RECLAIM_COMPLETE: "OP_RECLAIM_COMPLETE" = 58,
        ALLOCATE: "OP_ALLOCATE" = 59,
        COPY: "OP_COPY" = 60,
        COPY_NOTIFY: "OP_COPY_NOTIFY" = 61,
        DEALLOCATE: "OP_DEALLOCATE" = 62,
        IO_ADVISE: "OP_IO_ADVISE" = 63,
        LAYOUTERROR: "OP_LAYOUTERROR" = 64,
        LAYOUTSTATS: "OP_LAYOUTSTATS" = 65,
        OFFLOAD_CANCEL: "OP_OFFLOAD_CANCEL" = 66,
        OFFLOAD_STATUS: "OP_OFFLOAD_STATUS" = 67,
        READ_PLUS: "OP_READ_PLUS" = 68,
        SEEK: "OP_SEEK" = 69,
        WRITE_SAME: "OP_WRITE_SAME" = 70,
        CLONE: "OP_CLONE" = 71,
        GETXATTR: "OP_GETXATTR" = 72,
        SETXATTR: "OP_SETXATTR" = 73,
        LISTXATTRS: "OP_LISTXATTRS" = 74,
        REMOVEXATTR: "OP_REMOVEXATTR" = 75,
    }
}

/// A union over operation numbers: `Variant(name: Type) = NUMBER`, or a variant alone if the number has no body. `else
/// Variant` takes all other numbers; without it, such a number is malformed.
macro_rules! operations {
    (
        $(#[$meta:meta])* $vis:vis enum $union:ident<$life:lifetime>: $op:ident $(, else $other:ident)? {
            $($variant:ident $(($value:ident: $type:ty))? = $number:ident,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis enum $union<$life> {
            $($variant $(($type))?,)*
            $(#[doc = "A number without a meaning here: nothing after it is read."] $other($op),)?
        }

        impl<$life> $union<$life> {
            #[inline]
            pub const fn op(&self) -> $op {
                match self {
                    $(Self::$variant { .. } => $op::$number,)*
                    $(Self::$other(op) => *op,)?
                }
            }

            /// Decodes the body of the operation `op`.
            #[inline]
            pub fn decode_body(op: $op, r: &mut Reader<$life>) -> Result<Self, Malformed> {
                Ok(match op {
                    $($op::$number => Self::$variant $((<$type>::decode(r)?))?,)*
                    _ => operations!(@other op $($other)?),
                })
            }
        }

        impl Encode for $union<'_> {
            fn encode(&self, w: &mut Writer<'_>) {
                self.op().encode(w);
                match self {
                    $(Self::$variant $(($value))? => { $($value.encode(w))? })*
                    $(Self::$other(_) => {})?
                }
            }
        }

        impl<$life> Decode<$life> for $union<$life> {
            fn decode(r: &mut Reader<$life>) -> Result<Self, Malformed> {
                let op = $op::decode(r)?;
                Self::decode_body(op, r)
            }
        }
    };
    (@other $op:ident $other:ident) => { Self::$other($op) };
    (@other $op:ident) => { return Err(Malformed("result of an unknown operation")) };
}

pub(super) use operations;

operations! {
    /// `nfs_argop4`, RFC 8881 §16.2.1: an operation with its arguments.
    pub enum Argument<'a>: Op, else Illegal {
        Access(args: AccessArgs) = ACCESS,
        Close(args: CloseArgs) = CLOSE,
        Commit(args: CommitArgs) = COMMIT,
        Create(args: CreateArgs<'a>) = CREATE,
        Delegpurge(args: DelegpurgeArgs) = DELEGPURGE,
        Delegreturn(args: DelegreturnArgs) = DELEGRETURN,
        Getattr(args: GetattrArgs) = GETATTR,
        Getfh = GETFH,
        Link(args: LinkArgs<'a>) = LINK,
        Lock(args: LockArgs<'a>) = LOCK,
        Lockt(args: LocktArgs<'a>) = LOCKT,
        Locku(args: LockuArgs) = LOCKU,
        Lookup(args: LookupArgs<'a>) = LOOKUP,
        Lookupp = LOOKUPP,
        Nverify(args: NverifyArgs<'a>) = NVERIFY,
        Open(args: OpenArgs<'a>) = OPEN,
        Openattr(args: OpenattrArgs) = OPENATTR,
        OpenConfirm(args: OpenConfirmArgs) = OPEN_CONFIRM,
        OpenDowngrade(args: OpenDowngradeArgs) = OPEN_DOWNGRADE,
        Putfh(args: PutfhArgs<'a>) = PUTFH,
        Putpubfh = PUTPUBFH,
        Putrootfh = PUTROOTFH,
        Read(args: ReadArgs) = READ,
        Readdir(args: ReaddirArgs) = READDIR,
        Readlink = READLINK,
        Remove(args: RemoveArgs<'a>) = REMOVE,
        Rename(args: RenameArgs<'a>) = RENAME,
        Renew(args: RenewArgs) = RENEW,
        Restorefh = RESTOREFH,
        Savefh = SAVEFH,
        Secinfo(args: SecinfoArgs<'a>) = SECINFO,
        Setattr(args: SetattrArgs<'a>) = SETATTR,
        Setclientid(args: SetclientidArgs<'a>) = SETCLIENTID,
        SetclientidConfirm(args: SetclientidConfirmArgs) = SETCLIENTID_CONFIRM,
        Verify(args: VerifyArgs<'a>) = VERIFY,
        Write(args: WriteArgs<'a>) = WRITE,
        ReleaseLockowner(args: ReleaseLockownerArgs<'a>) = RELEASE_LOCKOWNER,
        BackchannelCtl(args: BackchannelCtlArgs<'a>) = BACKCHANNEL_CTL,
        BindConnToSession(args: BindConnToSessionArgs) = BIND_CONN_TO_SESSION,
        ExchangeId(args: ExchangeIdArgs<'a>) = EXCHANGE_ID,
        CreateSession(args: CreateSessionArgs<'a>) = CREATE_SESSION,
        DestroySession(args: DestroySessionArgs) = DESTROY_SESSION,
        FreeStateid(args: FreeStateidArgs) = FREE_STATEID,
        GetDirDelegation(args: GetDirDelegationArgs) = GET_DIR_DELEGATION,
        Getdeviceinfo(args: GetdeviceinfoArgs) = GETDEVICEINFO,
        Getdevicelist(args: GetdevicelistArgs) = GETDEVICELIST,
        Layoutcommit(args: LayoutcommitArgs<'a>) = LAYOUTCOMMIT,
        Layoutget(args: LayoutgetArgs) = LAYOUTGET,
        Layoutreturn(args: LayoutreturnArgs<'a>) = LAYOUTRETURN,
        SecinfoNoName(args: SecinfoNoNameArgs) = SECINFO_NO_NAME,
        Sequence(args: SequenceArgs) = SEQUENCE,
        SetSsv(args: SetSsvArgs<'a>) = SET_SSV,
        TestStateid(args: TestStateidArgs) = TEST_STATEID,
        WantDelegation(args: WantDelegationArgs) = WANT_DELEGATION,
        DestroyClientid(args: DestroyClientidArgs) = DESTROY_CLIENTID,
        ReclaimComplete(args: ReclaimCompleteArgs) = RECLAIM_COMPLETE,
        Allocate(args: AllocateArgs) = ALLOCATE,
        Copy(args: CopyArgs<'a>) = COPY,
        CopyNotify(args: CopyNotifyArgs<'a>) = COPY_NOTIFY,
        Deallocate(args: DeallocateArgs) = DEALLOCATE,
        IoAdvise(args: IoAdviseArgs) = IO_ADVISE,
        Layouterror(args: LayouterrorArgs) = LAYOUTERROR,
        Layoutstats(args: LayoutstatsArgs<'a>) = LAYOUTSTATS,
        OffloadCancel(args: OffloadCancelArgs) = OFFLOAD_CANCEL,
        OffloadStatus(args: OffloadStatusArgs) = OFFLOAD_STATUS,
        ReadPlus(args: ReadPlusArgs) = READ_PLUS,
        Seek(args: SeekArgs) = SEEK,
        WriteSame(args: WriteSameArgs<'a>) = WRITE_SAME,
        Clone(args: CloneArgs) = CLONE,
        Getxattr(args: GetxattrArgs<'a>) = GETXATTR,
        Setxattr(args: SetxattrArgs<'a>) = SETXATTR,
        Listxattrs(args: ListxattrsArgs) = LISTXATTRS,
        Removexattr(args: RemovexattrArgs<'a>) = REMOVEXATTR,
    }
}

operations! {
    /// `nfs_resop4`, RFC 8881 §16.2.2: an operation with its result, as a client reads it.
    pub enum OpReply<'a>: Op {
        Access(reply: AccessReply) = ACCESS,
        Close(reply: CloseReply) = CLOSE,
        Commit(reply: CommitReply) = COMMIT,
        Create(reply: CreateReply) = CREATE,
        Delegpurge(status: Status) = DELEGPURGE,
        Delegreturn(status: Status) = DELEGRETURN,
        Getattr(reply: GetattrReply<'a>) = GETATTR,
        Getfh(reply: GetfhReply<'a>) = GETFH,
        Link(reply: LinkReply) = LINK,
        Lock(reply: LockReply<'a>) = LOCK,
        Lockt(reply: LocktReply<'a>) = LOCKT,
        Locku(reply: LockuReply) = LOCKU,
        Lookup(status: Status) = LOOKUP,
        Lookupp(status: Status) = LOOKUPP,
        Nverify(status: Status) = NVERIFY,
        Open(reply: OpenReply<'a>) = OPEN,
        Openattr(status: Status) = OPENATTR,
        OpenConfirm(reply: OpenConfirmReply) = OPEN_CONFIRM,
        OpenDowngrade(reply: OpenDowngradeReply) = OPEN_DOWNGRADE,
        Putfh(status: Status) = PUTFH,
        Putpubfh(status: Status) = PUTPUBFH,
        Putrootfh(status: Status) = PUTROOTFH,
        Read(reply: ReadReply<'a>) = READ,
        Readdir(reply: ReaddirReply<'a>) = READDIR,
        Readlink(reply: ReadlinkReply<'a>) = READLINK,
        Remove(reply: RemoveReply) = REMOVE,
        Rename(reply: RenameReply) = RENAME,
        Renew(status: Status) = RENEW,
        Restorefh(status: Status) = RESTOREFH,
        Savefh(status: Status) = SAVEFH,
        Secinfo(reply: SecinfoReply<'a>) = SECINFO,
        Setattr(reply: SetattrReply) = SETATTR,
        Setclientid(reply: SetclientidReply<'a>) = SETCLIENTID,
        SetclientidConfirm(status: Status) = SETCLIENTID_CONFIRM,
        Verify(status: Status) = VERIFY,
        Write(reply: WriteReply) = WRITE,
        ReleaseLockowner(status: Status) = RELEASE_LOCKOWNER,
        BackchannelCtl(status: Status) = BACKCHANNEL_CTL,
        BindConnToSession(reply: BindConnToSessionReply) = BIND_CONN_TO_SESSION,
        ExchangeId(reply: ExchangeIdReply<'a>) = EXCHANGE_ID,
        CreateSession(reply: CreateSessionReply) = CREATE_SESSION,
        DestroySession(status: Status) = DESTROY_SESSION,
        FreeStateid(status: Status) = FREE_STATEID,
        GetDirDelegation(reply: GetDirDelegationReply) = GET_DIR_DELEGATION,
        Getdeviceinfo(reply: GetdeviceinfoReply<'a>) = GETDEVICEINFO,
        Getdevicelist(reply: GetdevicelistReply) = GETDEVICELIST,
        Layoutcommit(reply: LayoutcommitReply) = LAYOUTCOMMIT,
        Layoutget(reply: LayoutgetReply<'a>) = LAYOUTGET,
        Layoutreturn(reply: LayoutreturnReply) = LAYOUTRETURN,
        SecinfoNoName(reply: SecinfoNoNameReply<'a>) = SECINFO_NO_NAME,
        Sequence(reply: SequenceReply) = SEQUENCE,
        SetSsv(reply: SetSsvReply<'a>) = SET_SSV,
        TestStateid(reply: TestStateidReply) = TEST_STATEID,
        WantDelegation(reply: WantDelegationReply<'a>) = WANT_DELEGATION,
        DestroyClientid(status: Status) = DESTROY_CLIENTID,
        ReclaimComplete(status: Status) = RECLAIM_COMPLETE,
        Allocate(status: Status) = ALLOCATE,
        Copy(reply: CopyReply) = COPY,
        CopyNotify(reply: CopyNotifyReply<'a>) = COPY_NOTIFY,
        Deallocate(status: Status) = DEALLOCATE,
        IoAdvise(reply: IoAdviseReply) = IO_ADVISE,
        Layouterror(status: Status) = LAYOUTERROR,
        Layoutstats(status: Status) = LAYOUTSTATS,
        OffloadCancel(status: Status) = OFFLOAD_CANCEL,
        OffloadStatus(reply: OffloadStatusReply) = OFFLOAD_STATUS,
        ReadPlus(reply: ReadPlusReply<'a>) = READ_PLUS,
        Seek(reply: SeekReply) = SEEK,
        WriteSame(reply: WriteSameReply) = WRITE_SAME,
        Clone(status: Status) = CLONE,
        Getxattr(reply: GetxattrReply<'a>) = GETXATTR,
        Setxattr(reply: SetxattrReply) = SETXATTR,
        Listxattrs(reply: ListxattrsReply<'a>) = LISTXATTRS,
        Removexattr(reply: RemovexattrReply) = REMOVEXATTR,
        Illegal(status: Status) = ILLEGAL,
    }
}
