//! RPC messages and record marks, RFC 5531.

use xdr::{Decode, Encode, Inline, Malformed, Reader, Writer, Xdr};

/// `rpcvers`, RFC 5531 §9: the only version.
pub const RPC_VERSION: u32 = 2;

/// Bytes in the body of an `opaque_auth`, RFC 5531 §8.2.
pub const AUTH_BODY_MAX: u32 = 400;

/// Bytes in the `machinename` of `authsys_parms`, RFC 5531 Appendix A.
pub const MACHINE_NAME_MAX: u32 = 255;

/// Supplementary groups in `authsys_parms`, RFC 5531 Appendix A.
pub const GIDS_MAX: usize = 16;

xdr::open_set! {
    /// `auth_flavor`, RFC 5531 §8.2.
    pub struct AuthFlavor {
        NONE: "AUTH_NONE" = 0,
        SYS: "AUTH_SYS" = 1,
        SHORT: "AUTH_SHORT" = 2,
        DH: "AUTH_DH" = 3,
        RPCSEC_GSS: "RPCSEC_GSS" = 6,
    }
}

impl AuthFlavor {
    /// `AUTH_TLS`, RFC 9289 §4.1.
    pub const TLS: Self = Self(7);
}

xdr::open_set! {
    /// `msg_type`, RFC 5531 §9.
    pub struct MsgType { CALL: "CALL" = 0, REPLY: "REPLY" = 1 }
}

xdr::open_set! {
    /// `reply_stat`, RFC 5531 §9.
    pub struct ReplyStat { ACCEPTED: "MSG_ACCEPTED" = 0, DENIED: "MSG_DENIED" = 1 }
}

xdr::open_set! {
    /// `accept_stat`, RFC 5531 §9.
    pub struct AcceptStat {
        SUCCESS: "SUCCESS" = 0,
        PROG_UNAVAIL: "PROG_UNAVAIL" = 1,
        PROG_MISMATCH: "PROG_MISMATCH" = 2,
        PROC_UNAVAIL: "PROC_UNAVAIL" = 3,
        GARBAGE_ARGS: "GARBAGE_ARGS" = 4,
        SYSTEM_ERR: "SYSTEM_ERR" = 5,
    }
}

xdr::open_set! {
    /// `reject_stat`, RFC 5531 §9.
    pub struct RejectStat { RPC_MISMATCH: "RPC_MISMATCH" = 0, AUTH_ERROR: "AUTH_ERROR" = 1 }
}

xdr::open_set! {
    /// `auth_stat`, RFC 5531 §9.
    pub struct AuthStat {
        OK: "AUTH_OK" = 0,
        BADCRED: "AUTH_BADCRED" = 1,
        REJECTEDCRED: "AUTH_REJECTEDCRED" = 2,
        BADVERF: "AUTH_BADVERF" = 3,
        REJECTEDVERF: "AUTH_REJECTEDVERF" = 4,
        TOOWEAK: "AUTH_TOOWEAK" = 5,
        INVALIDRESP: "AUTH_INVALIDRESP" = 6,
        FAILED: "AUTH_FAILED" = 7,
        KERB_GENERIC: "AUTH_KERB_GENERIC" = 8,
        TIMEEXPIRE: "AUTH_TIMEEXPIRE" = 9,
        TKT_FILE: "AUTH_TKT_FILE" = 10,
        DECODE: "AUTH_DECODE" = 11,
        NET_ADDR: "AUTH_NET_ADDR" = 12,
        GSS_CREDPROBLEM: "RPCSEC_GSS_CREDPROBLEM" = 13,
        GSS_CTXPROBLEM: "RPCSEC_GSS_CTXPROBLEM" = 14,
    }
}

/// The four bytes before a record fragment, RFC 5531 §11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordMark {
    /// No fragment of this record follows.
    pub last: bool,
    /// Bytes in the fragment, without the mark; below 2^31.
    pub length: u32,
}

impl RecordMark {
    pub const SIZE: usize = 4;
    pub const LAST: u32 = 1 << 31;

    #[inline]
    pub const fn from_word(word: u32) -> Self {
        Self { last: word & Self::LAST != 0, length: word & !Self::LAST }
    }

    #[inline]
    pub const fn to_word(self) -> u32 {
        self.length | if self.last { Self::LAST } else { 0 }
    }
}

/// `opaque_auth`, RFC 5531 §8.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct OpaqueAuth<'a> {
    pub flavor: AuthFlavor,
    #[xdr(max = AUTH_BODY_MAX)]
    pub body: &'a [u8],
}

/// `authsys_parms`, RFC 5531 Appendix A.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct AuthSys<'a> {
    pub stamp: u32,
    #[xdr(max = MACHINE_NAME_MAX)]
    pub machinename: &'a [u8],
    pub uid: u32,
    pub gid: u32,
    pub gids: Inline<u32, GIDS_MAX>,
}

/// `rpc_msg` with a `call_body`, RFC 5531 §9, up to the arguments.
///
/// The caller checks `rpcvers`: for another version than [`RPC_VERSION`] only `xid` and `rpcvers` are decoded, the rest
/// is zero, and the reply is [`Rejected::RpcMismatch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallHeader<'a> {
    pub xid: u32,
    pub rpcvers: u32,
    pub prog: u32,
    pub vers: u32,
    pub proc: u32,
    pub cred: OpaqueAuth<'a>,
    pub verf: OpaqueAuth<'a>,
}

impl Encode for CallHeader<'_> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        let words = [self.xid, MsgType::CALL.0, self.rpcvers, self.prog, self.vers, self.proc];
        words.iter().for_each(|&word| w.u32(word));
        self.cred.encode(w);
        self.verf.encode(w);
    }
}

impl<'a> Decode<'a> for CallHeader<'a> {
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let [xid, msg_type, rpcvers] = r.words()?;
        if MsgType(msg_type) != MsgType::CALL {
            return Err(Malformed("not a call"));
        }
        if rpcvers != RPC_VERSION {
            return Ok(Self { xid, rpcvers, ..Self::default() });
        }
        let [prog, vers, proc] = r.words()?;
        Ok(Self {
            xid,
            rpcvers,
            prog,
            vers,
            proc,
            cred: OpaqueAuth::decode(r)?,
            verf: OpaqueAuth::decode(r)?,
        })
    }
}

/// `rpc_msg` with a `reply_body`, RFC 5531 §9, up to the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    pub xid: u32,
    pub body: ReplyBody<'a>,
}

impl ReplyHeader<'_> {
    /// The commonest header, encoded in one piece: accepted, verifier `AUTH_NONE`, `SUCCESS`.
    #[inline]
    pub fn success(xid: u32) -> [u8; 24] {
        // After the xid: REPLY, MSG_ACCEPTED, AUTH_NONE with no body, SUCCESS; all zero but the first.
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&xid.to_be_bytes());
        bytes[4..8].copy_from_slice(&MsgType::REPLY.0.to_be_bytes());
        bytes
    }
}

impl Encode for ReplyHeader<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.xid);
        MsgType::REPLY.encode(w);
        self.body.encode(w);
    }
}

impl<'a> Decode<'a> for ReplyHeader<'a> {
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let xid = r.u32()?;
        if MsgType::decode(r)? != MsgType::REPLY {
            return Err(Malformed("not a reply"));
        }
        Ok(Self { xid, body: ReplyBody::decode(r)? })
    }
}

/// `reply_body`, RFC 5531 §9; an accepted reply's verifier and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum ReplyBody<'a> {
    #[xdr(tag = ReplyStat::ACCEPTED.0)]
    Accepted(OpaqueAuth<'a>, Accepted),
    #[xdr(tag = ReplyStat::DENIED.0)]
    Denied(Rejected),
}

/// The union in `accepted_reply`, RFC 5531 §9. The results follow `Success`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum Accepted {
    #[xdr(tag = AcceptStat::SUCCESS.0)]
    Success,
    #[xdr(tag = AcceptStat::PROG_UNAVAIL.0)]
    ProgUnavail,
    #[xdr(tag = AcceptStat::PROG_MISMATCH.0)]
    ProgMismatch(Versions),
    #[xdr(tag = AcceptStat::PROC_UNAVAIL.0)]
    ProcUnavail,
    #[xdr(tag = AcceptStat::GARBAGE_ARGS.0)]
    GarbageArgs,
    #[xdr(tag = AcceptStat::SYSTEM_ERR.0)]
    SystemErr,
}

/// `rejected_reply`, RFC 5531 §9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum Rejected {
    #[xdr(tag = RejectStat::RPC_MISMATCH.0)]
    RpcMismatch(Versions),
    #[xdr(tag = RejectStat::AUTH_ERROR.0)]
    AuthError(AuthStat),
}

/// `mismatch_info`, RFC 5531 §9: the lowest and the highest version served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Versions {
    pub low: u32,
    pub high: u32,
}
