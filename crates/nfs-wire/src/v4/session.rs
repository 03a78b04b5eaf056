//! Clients and sessions since 4.1, RFC 8881 §18.33 to §18.37, §18.46, §18.47, §18.50 and §18.51.

use xdr::{Encode, Writer, Xdr};

use super::{
    ARRAY_MAX, Bitmap, ClientId, GssService, NfsTime, OPAQUE_LIMIT, Reply, SessionId, TEXT_MAX, Text,
    Verifier,
};
use crate::bits::bits;
use crate::rpc::{AuthFlavor, AuthSys};

/// `callback_sec_parms4`, RFC 8881 §18.33.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum CallbackSecParms<'a> {
    #[xdr(tag = AuthFlavor::NONE.0)]
    None,
    #[xdr(tag = AuthFlavor::SYS.0)]
    Sys(AuthSys<'a>),
    #[xdr(tag = AuthFlavor::RPCSEC_GSS.0)]
    Gss(GssCbHandles<'a>),
}

/// `gss_cb_handles4`, RFC 8881 §18.33.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GssCbHandles<'a> {
    pub service: GssService,
    #[xdr(max = TEXT_MAX)]
    pub handle_from_server: &'a [u8],
    #[xdr(max = TEXT_MAX)]
    pub handle_from_client: &'a [u8],
}

/// `BACKCHANNEL_CTL4args`, RFC 8881 §18.33.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct BackchannelCtlArgs<'a> {
    pub cb_program: u32,
    #[xdr(max = ARRAY_MAX)]
    pub sec_parms: Vec<CallbackSecParms<'a>>,
}

/// `channel_dir_from_client4`, RFC 8881 §18.34.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum ChannelDirFromClient {
    #[xdr(name = "CDFC4_FORE")]
    Fore = 1,
    #[xdr(name = "CDFC4_BACK")]
    Back = 2,
    #[xdr(name = "CDFC4_FORE_OR_BOTH")]
    ForeOrBoth = 3,
    #[xdr(name = "CDFC4_BACK_OR_BOTH")]
    BackOrBoth = 7,
}

/// `channel_dir_from_server4`, RFC 8881 §18.34.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum ChannelDirFromServer {
    #[xdr(name = "CDFS4_FORE")]
    Fore = 1,
    #[xdr(name = "CDFS4_BACK")]
    Back = 2,
    #[xdr(name = "CDFS4_BOTH")]
    Both = 3,
}

/// `BIND_CONN_TO_SESSION4args`, RFC 8881 §18.34.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct BindConnToSessionArgs {
    pub sessid: SessionId,
    pub dir: ChannelDirFromClient,
    pub use_conn_in_rdma_mode: bool,
}

/// `BIND_CONN_TO_SESSION4resok`, RFC 8881 §18.34.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct BindConnToSessionOk {
    pub sessid: SessionId,
    pub dir: ChannelDirFromServer,
    pub use_conn_in_rdma_mode: bool,
}

/// `BIND_CONN_TO_SESSION4res`, RFC 8881 §18.34.2.
pub type BindConnToSessionReply = Reply<BindConnToSessionOk>;

xdr::open_set! {
    /// The bits of `eia_flags` and `eir_flags`, RFC 8881 §18.35.1 and RFC 7862 §14.1.
    pub struct ExchangeIdFlags {
        SUPP_MOVED_REFER: "EXCHGID4_FLAG_SUPP_MOVED_REFER" = 0x0000_0001,
        SUPP_MOVED_MIGR: "EXCHGID4_FLAG_SUPP_MOVED_MIGR" = 0x0000_0002,
        BIND_PRINC_STATEID: "EXCHGID4_FLAG_BIND_PRINC_STATEID" = 0x0000_0100,
        USE_NON_PNFS: "EXCHGID4_FLAG_USE_NON_PNFS" = 0x0001_0000,
        USE_PNFS_MDS: "EXCHGID4_FLAG_USE_PNFS_MDS" = 0x0002_0000,
        USE_PNFS_DS: "EXCHGID4_FLAG_USE_PNFS_DS" = 0x0004_0000,
        MASK_PNFS: "EXCHGID4_FLAG_MASK_PNFS" = 0x0007_0000,
        UPD_CONFIRMED_REC_A: "EXCHGID4_FLAG_UPD_CONFIRMED_REC_A" = 0x4000_0000,
        CONFIRMED_R: "EXCHGID4_FLAG_CONFIRMED_R" = 0x8000_0000,
        SUPP_FENCE_OPS: "EXCHGID4_FLAG_SUPP_FENCE_OPS" = 0x0000_0004,
    }
}

xdr::open_set! {
    /// The bits of `csa_flags` and `csr_flags`, RFC 8881 §18.36.1.
    pub struct CreateSessionFlags {
        PERSIST: "CREATE_SESSION4_FLAG_PERSIST" = 0x0000_0001,
        CONN_BACK_CHAN: "CREATE_SESSION4_FLAG_CONN_BACK_CHAN" = 0x0000_0002,
        CONN_RDMA: "CREATE_SESSION4_FLAG_CONN_RDMA" = 0x0000_0004,
    }
}

xdr::open_set! {
    /// The bits of `sr_status_flags`, RFC 8881 §18.46.2.
    pub struct SequenceStatus {
        CB_PATH_DOWN: "SEQ4_STATUS_CB_PATH_DOWN" = 0x0000_0001,
        CB_GSS_CONTEXTS_EXPIRING: "SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING" = 0x0000_0002,
        CB_GSS_CONTEXTS_EXPIRED: "SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED" = 0x0000_0004,
        EXPIRED_ALL_STATE_REVOKED: "SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED" = 0x0000_0008,
        EXPIRED_SOME_STATE_REVOKED: "SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED" = 0x0000_0010,
        ADMIN_STATE_REVOKED: "SEQ4_STATUS_ADMIN_STATE_REVOKED" = 0x0000_0020,
        RECALLABLE_STATE_REVOKED: "SEQ4_STATUS_RECALLABLE_STATE_REVOKED" = 0x0000_0040,
        LEASE_MOVED: "SEQ4_STATUS_LEASE_MOVED" = 0x0000_0080,
        RESTART_RECLAIM_NEEDED: "SEQ4_STATUS_RESTART_RECLAIM_NEEDED" = 0x0000_0100,
        CB_PATH_DOWN_SESSION: "SEQ4_STATUS_CB_PATH_DOWN_SESSION" = 0x0000_0200,
        BACKCHANNEL_FAULT: "SEQ4_STATUS_BACKCHANNEL_FAULT" = 0x0000_0400,
        DEVID_CHANGED: "SEQ4_STATUS_DEVID_CHANGED" = 0x0000_0800,
        DEVID_DELETED: "SEQ4_STATUS_DEVID_DELETED" = 0x0000_1000,
    }
}

bits!(ExchangeIdFlags, CreateSessionFlags, SequenceStatus);

/// `client_owner4`, RFC 8881 §2.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ClientOwner<'a> {
    pub verifier: Verifier,
    #[xdr(max = OPAQUE_LIMIT)]
    pub ownerid: &'a [u8],
}

/// `server_owner4`, RFC 8881 §2.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ServerOwner<'a> {
    pub minor_id: u64,
    #[xdr(max = OPAQUE_LIMIT)]
    pub major_id: &'a [u8],
}

/// `nfs_impl_id4`, RFC 8881 §3.3.21.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ImplId<'a> {
    #[xdr(max = TEXT_MAX)]
    pub domain: &'a [u8],
    #[xdr(max = TEXT_MAX)]
    pub name: &'a [u8],
    pub date: NfsTime,
}

/// `state_protect_how4`, RFC 8881 §18.35.1; the tags of [`StateProtect`] and [`StateProtectInfo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum StateProtectHow {
    #[xdr(name = "SP4_NONE")]
    None = 0,
    #[xdr(name = "SP4_MACH_CRED")]
    MachCred = 1,
    #[xdr(name = "SP4_SSV")]
    Ssv = 2,
}

/// `state_protect_ops4`, RFC 8881 §18.35.1: sets of operation numbers ([`Op`](super::Op)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct StateProtectOps {
    pub must_enforce: Bitmap,
    pub must_allow: Bitmap,
}

/// `ssv_sp_parms4`, RFC 8881 §18.35.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct SsvSpParms<'a> {
    pub ops: StateProtectOps,
    #[xdr(max = ARRAY_MAX)]
    pub hash_algs: Vec<Text<'a>>,
    #[xdr(max = ARRAY_MAX)]
    pub encr_algs: Vec<Text<'a>>,
    pub window: u32,
    pub num_gss_handles: u32,
}

/// `state_protect4_a`, RFC 8881 §18.35.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub enum StateProtect<'a> {
    #[xdr(tag = StateProtectHow::None as u32)]
    None,
    #[xdr(tag = StateProtectHow::MachCred as u32)]
    MachCred(StateProtectOps),
    #[xdr(tag = StateProtectHow::Ssv as u32)]
    Ssv(SsvSpParms<'a>),
}

/// `ssv_prot_info4`, RFC 8881 §18.35.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct SsvProtInfo<'a> {
    pub ops: StateProtectOps,
    pub hash_alg: u32,
    pub encr_alg: u32,
    pub ssv_len: u32,
    pub window: u32,
    #[xdr(max = ARRAY_MAX)]
    pub handles: Vec<Text<'a>>,
}

/// `state_protect4_r`, RFC 8881 §18.35.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub enum StateProtectInfo<'a> {
    #[xdr(tag = StateProtectHow::None as u32)]
    None,
    #[xdr(tag = StateProtectHow::MachCred as u32)]
    MachCred(StateProtectOps),
    #[xdr(tag = StateProtectHow::Ssv as u32)]
    Ssv(SsvProtInfo<'a>),
}

/// `EXCHANGE_ID4args`, RFC 8881 §18.35.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct ExchangeIdArgs<'a> {
    pub clientowner: ClientOwner<'a>,
    pub flags: ExchangeIdFlags,
    pub state_protect: StateProtect<'a>,
    /// An array of at most one.
    pub client_impl_id: Option<ImplId<'a>>,
}

/// `EXCHANGE_ID4resok`, RFC 8881 §18.35.2.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct ExchangeIdOk<'a> {
    pub clientid: ClientId,
    pub sequenceid: u32,
    pub flags: ExchangeIdFlags,
    pub state_protect: StateProtectInfo<'a>,
    pub server_owner: ServerOwner<'a>,
    #[xdr(max = OPAQUE_LIMIT)]
    pub server_scope: &'a [u8],
    /// An array of at most one.
    pub server_impl_id: Option<ImplId<'a>>,
}

/// `EXCHANGE_ID4res`, RFC 8881 §18.35.2.
pub type ExchangeIdReply<'a> = Reply<ExchangeIdOk<'a>>;

/// `channel_attrs4`, RFC 8881 §18.36.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ChannelAttrs {
    pub headerpadsize: u32,
    pub maxrequestsize: u32,
    pub maxresponsesize: u32,
    pub maxresponsesize_cached: u32,
    pub maxoperations: u32,
    pub maxrequests: u32,
    /// An array of at most one.
    pub rdma_ird: Option<u32>,
}

/// `CREATE_SESSION4args`, RFC 8881 §18.36.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct CreateSessionArgs<'a> {
    pub clientid: ClientId,
    pub sequence: u32,
    pub flags: CreateSessionFlags,
    pub fore_chan_attrs: ChannelAttrs,
    pub back_chan_attrs: ChannelAttrs,
    pub cb_program: u32,
    #[xdr(max = ARRAY_MAX)]
    pub sec_parms: Vec<CallbackSecParms<'a>>,
}

/// `CREATE_SESSION4resok`, RFC 8881 §18.36.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CreateSessionOk {
    pub sessionid: SessionId,
    pub sequence: u32,
    pub flags: CreateSessionFlags,
    pub fore_chan_attrs: ChannelAttrs,
    pub back_chan_attrs: ChannelAttrs,
}

/// `CREATE_SESSION4res`, RFC 8881 §18.36.2.
pub type CreateSessionReply = Reply<CreateSessionOk>;

/// `DESTROY_SESSION4args`, RFC 8881 §18.37.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DestroySessionArgs {
    pub sessionid: SessionId,
}

/// `SEQUENCE4args`, RFC 8881 §18.46.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SequenceArgs {
    pub sessionid: SessionId,
    pub sequenceid: u32,
    pub slotid: u32,
    pub highest_slotid: u32,
    pub cachethis: bool,
}

/// `SEQUENCE4resok`, RFC 8881 §18.46.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(decode)]
pub struct SequenceOk {
    pub sessionid: SessionId,
    pub sequenceid: u32,
    pub slotid: u32,
    pub highest_slotid: u32,
    pub target_highest_slotid: u32,
    pub status_flags: SequenceStatus,
}

/// By hand: every reply in a session holds one, and one append is several times faster than six.
impl Encode for SequenceOk {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        let slots = [self.sequenceid, self.slotid, self.highest_slotid, self.target_highest_slotid];
        let mut bytes = [0; 36];
        bytes[..16].copy_from_slice(&self.sessionid);
        bytes[16..32].copy_from_slice(slots.map(u32::to_be_bytes).as_flattened());
        bytes[32..].copy_from_slice(&self.status_flags.0.to_be_bytes());
        w.fixed(&bytes);
    }
}

/// `SEQUENCE4res`, RFC 8881 §18.46.2.
pub type SequenceReply = Reply<SequenceOk>;

/// `SET_SSV4args`, RFC 8881 §18.47.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetSsvArgs<'a> {
    #[xdr(max = TEXT_MAX)]
    pub ssv: &'a [u8],
    #[xdr(max = TEXT_MAX)]
    pub digest: &'a [u8],
}

/// `SET_SSV4resok`, RFC 8881 §18.47.2: the digest.
pub type SetSsvOk<'a> = Text<'a>;
/// `SET_SSV4res`, RFC 8881 §18.47.2.
pub type SetSsvReply<'a> = Reply<SetSsvOk<'a>>;

/// `DESTROY_CLIENTID4args`, RFC 8881 §18.50.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DestroyClientidArgs {
    pub clientid: ClientId,
}

/// `RECLAIM_COMPLETE4args`, RFC 8881 §18.51.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReclaimCompleteArgs {
    pub one_fs: bool,
}
