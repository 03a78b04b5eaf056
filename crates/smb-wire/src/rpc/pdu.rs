//! Protocol data units, C706 §12.6 and MS-RPCE §2.2.2.

use crate::sets::{bit_set, open_set};
use crate::{Decode, Encode, Guid, Malformed, Reader, Wire, Writer};

open_set! {
    /// `PTYPE`, C706 §12.6.4.
    pub struct PduType: u8 {
        REQUEST = 0,
        RESPONSE = 2,
        FAULT = 3,
        BIND = 11,
        BIND_ACK = 12,
        BIND_NAK = 13,
        ALTER_CONTEXT = 14,
        ALTER_CONTEXT_RESP = 15,
        CO_CANCEL = 18,
        ORPHANED = 19,
    }

    /// The reason for which a call failed: `status` of a fault (C706 appendix E, MS-RPCE §2.2.2.1).
    pub struct Fault: u32 {
        // The interface has no such operation.
        OP_RNG_ERROR = 0x1c01_0002,
        // The interface is not bound.
        UNK_IF = 0x1c01_0003,
        // The arguments are malformed: RPC_X_BAD_STUB_DATA.
        NDR = 0x0000_06f7,
        // RPC_S_ACCESS_DENIED.
        ACCESS_DENIED = 0x0000_0005,
        // The handle is not open.
        CONTEXT_MISMATCH = 0x1c00_001a,
        REMOTE_NO_MEMORY = 0x1c00_001b,
    }
}

bit_set! {
    /// `pfc_flags`, C706 §12.6.3.1.
    pub struct PduFlags: u8 {
        FIRST_FRAG = 0x01,
        LAST_FRAG = 0x02,
        DID_NOT_EXECUTE = 0x20,
        OBJECT_UUID = 0x80,
    }
}

impl PduFlags {
    /// The flags of a message in a single fragment.
    pub const WHOLE: Self = Self(Self::FIRST_FRAG.0 | Self::LAST_FRAG.0);
}

/// Little-endian, ASCII, IEEE (C706 §14.1).
pub const DATA_REPRESENTATION: [u8; 4] = [0x10, 0, 0, 0];
pub const HEADER_SIZE: usize = 16;
pub const FRAG_LENGTH_OFFSET: usize = 8;

/// The header of every PDU, C706 §12.6.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct Header {
    pub version: u8,
    pub minor_version: u8,
    pub pdu_type: PduType,
    pub flags: PduFlags,
    pub data_representation: [u8; 4],
    pub frag_length: u16,
    pub auth_length: u16,
    pub call_id: u32,
}

impl Header {
    /// [`build`] sets `frag_length`.
    pub const fn new(pdu_type: PduType, flags: PduFlags, call_id: u32) -> Self {
        Self {
            version: 5,
            minor_version: 0,
            pdu_type,
            flags,
            data_representation: DATA_REPRESENTATION,
            frag_length: 0,
            auth_length: 0,
            call_id,
        }
    }
}

/// Builds one PDU from its header and the output of `body`.
pub fn build(header: &Header, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    header.encode(&mut w);
    body(&mut w);
    w.patch::<u16>(FRAG_LENGTH_OFFSET, w.position());
    out
}

/// `p_syntax_id_t`, C706 §12.6.3.1: an interface or a transfer syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct Syntax {
    pub uuid: Guid,
    /// `if_version`: the major version in the lower half, the minor in the upper.
    pub version: u32,
}

impl Syntax {
    /// NDR of 32 bits, C706 §14.
    pub const NDR: Self =
        Self { uuid: Guid::new(0x8a88_5d04, 0x1ceb, 0x11c9, 0x9fe8_0800_2b10_4860), version: 2 };
}

/// `p_cont_elem_t`, C706 §12.6.3.1: a requested interface and the proposed transfer syntaxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextElement {
    pub context_id: u16,
    pub abstract_syntax: Syntax,
    pub transfer_syntaxes: Vec<Syntax>,
}

impl Decode<'_> for ContextElement {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let context_id = Decode::decode(r)?;
        let count = u8::decode(r)?;
        r.skip(1)?;
        let abstract_syntax = Decode::decode(r)?;
        let transfer_syntaxes = crate::decode_list(r, usize::from(count))?;
        Ok(Self { context_id, abstract_syntax, transfer_syntaxes })
    }
}

/// `bind` and `alter_context`, C706 §12.6.4.3, behind the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    pub max_xmit_frag: u16,
    pub max_recv_frag: u16,
    pub assoc_group_id: u32,
    pub contexts: Vec<ContextElement>,
}

impl Decode<'_> for Bind {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (max_xmit_frag, max_recv_frag) = (Decode::decode(r)?, Decode::decode(r)?);
        let assoc_group_id = Decode::decode(r)?;
        let count = u8::decode(r)?;
        r.skip(3)?;
        let contexts = crate::decode_list(r, usize::from(count))?;
        Ok(Self { max_xmit_frag, max_recv_frag, assoc_group_id, contexts })
    }
}

/// `p_result_t`, C706 §12.6.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct ContextResult {
    pub result: u16,
    pub reason: u16,
    pub transfer_syntax: Syntax,
}

impl ContextResult {
    pub const ACCEPTED: Self = Self { result: 0, reason: 0, transfer_syntax: Syntax::NDR };
    /// The pipe does not offer the interface.
    pub const ABSTRACT_SYNTAX_NOT_SUPPORTED: Self = Self::rejected(1);
    /// NDR is not among the transfer syntaxes.
    pub const TRANSFER_SYNTAXES_NOT_SUPPORTED: Self = Self::rejected(2);
    /// Too many interfaces are bound.
    pub const LOCAL_LIMIT_EXCEEDED: Self = Self::rejected(3);

    /// A rejection by the provider.
    const fn rejected(reason: u16) -> Self {
        Self { result: 2, reason, transfer_syntax: Syntax { uuid: Guid([0; 16]), version: 0 } }
    }
}

/// `bind_ack` and `alter_context_resp`, C706 §12.6.4.4, behind the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindAck<'a> {
    pub max_xmit_frag: u16,
    pub max_recv_frag: u16,
    pub assoc_group_id: u32,
    /// Empty in `alter_context_resp`.
    pub secondary_address: &'a str,
    pub results: Vec<ContextResult>,
}

impl Encode for BindAck<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        self.max_xmit_frag.encode(w);
        self.max_recv_frag.encode(w);
        self.assoc_group_id.encode(w);
        if self.secondary_address.is_empty() {
            w.u16(0);
        } else {
            w.length::<u16>(self.secondary_address.len() + 1);
            w.bytes(self.secondary_address.as_bytes());
            w.zeros(1);
        }
        w.align(4);
        w.length::<u8>(self.results.len());
        w.zeros(3);
        crate::encode_list(&self.results, w);
    }
}

/// `request`, C706 §12.6.4.9, behind the header and before the arguments, with the optional object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct RequestHeader {
    pub alloc_hint: u32,
    pub context_id: u16,
    pub opnum: u16,
}

/// `response`, C706 §12.6.4.10, behind the header and before the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 2)]
pub struct ResponseHeader {
    pub alloc_hint: u32,
    pub context_id: u16,
}

/// Bytes of `response` before the results.
pub const RESPONSE_HEADER_SIZE: usize = HEADER_SIZE + 8;
