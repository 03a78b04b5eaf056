//! The state of one open pipe: bound interfaces, a partly received PDU, and unread replies.

use std::collections::VecDeque;

use super::pdu::{
    Bind, BindAck, ContextElement, ContextResult, DATA_REPRESENTATION, Fault, HEADER_SIZE, Header, PduFlags,
    PduType, RESPONSE_HEADER_SIZE, RequestHeader, ResponseHeader, Syntax, build,
};
use crate::{Decode, Encode, Malformed, Reader};

/// The maximum size of a call's arguments. The longest useful call has a thousand SIDs.
pub const REQUEST_MAX: usize = 256 * 1024;
/// With this many unread bytes, writes are refused.
pub const UNREAD_MAX: usize = 1024 * 1024;
/// The maximum number of PDUs in one write. Clients send one; the limit lets other connections take turns.
pub(super) const WRITE_CALLS_MAX: usize = 256;
/// The longest fragment that is sent, as Windows over TCP.
const FRAGMENT_MAX: u16 = 5840;
/// The shortest maximum that every peer must accept: `MustRecvFragSize`, C706 §12.6.3.1.
const FRAGMENT_MIN: u16 = 1432;
/// Interfaces bound at a time.
const CONTEXTS_MAX: usize = 16;
/// `authentication_type_not_recognized`, MS-RPCE §2.2.2.5: the caller is the session under the pipe.
const REJECT_AUTHENTICATION: u16 = 8;

/// A call with complete arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// One of the interfaces that the pipe offers.
    pub interface: Syntax,
    pub opnum: u16,
    /// The arguments.
    pub stub: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Malformed or excessive RPC: the pipe must be closed.
    Malformed(Malformed),
    /// The client must read first.
    UnreadReplies,
}

impl From<Malformed> for WriteError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyPart {
    /// Bytes of a single fragment.
    pub bytes: Vec<u8>,
    /// The fragment has more bytes: `STATUS_BUFFER_OVERFLOW`.
    pub has_more: bool,
}

/// A call whose arguments are incomplete.
struct PendingCall {
    call_id: u32,
    head: RequestHeader,
    stub: Vec<u8>,
}

/// The server's RPC state of one open pipe.
pub struct Association {
    pipe: &'static str,
    offered: &'static [Syntax],
    /// Bound interfaces by context id.
    contexts: Vec<(u16, Syntax)>,
    max_xmit: u16,
    /// The beginning of an incomplete PDU.
    partial_pdu: Vec<u8>,
    partial: Option<PendingCall>,
    /// Fragments, and the number of bytes read from the first.
    replies: VecDeque<Vec<u8>>,
    read: usize,
    unread: usize,
}

impl Association {
    /// Creates the state of a pipe with this name (`\PIPE\srvsvc`) and these interfaces.
    pub fn new(pipe: &'static str, offered: &'static [Syntax]) -> Self {
        Self {
            pipe,
            offered,
            contexts: Vec::new(),
            max_xmit: FRAGMENT_MIN,
            partial_pdu: Vec::new(),
            partial: None,
            replies: VecDeque::new(),
            read: 0,
            unread: 0,
        }
    }

    /// Consumes a client's write: part of a PDU, or several. Runs `answer` for each complete call.
    pub fn write(
        &mut self,
        bytes: &[u8],
        mut answer: impl FnMut(Call<'_>) -> Result<Vec<u8>, Fault>,
    ) -> Result<(), WriteError> {
        if self.unread > UNREAD_MAX {
            return Err(WriteError::UnreadReplies);
        }
        let mut calls = 0;
        let mut arrived = std::mem::take(&mut self.partial_pdu);
        arrived.extend_from_slice(bytes);
        let mut rest = &arrived[..];
        while rest.len() >= HEADER_SIZE {
            let header = Header::from_bytes(rest)?;
            let length = usize::from(header.frag_length);
            if header.version != 5
                || header.data_representation != DATA_REPRESENTATION
                || length < HEADER_SIZE
            {
                return Err(Malformed("not RPC version 5 in little-endian").into());
            }
            let Some((unit, behind)) = rest.split_at_checked(length) else { break };
            if self.unread > UNREAD_MAX {
                return Err(Malformed("calls while earlier replies are unread").into());
            }
            calls += 1;
            if calls > WRITE_CALLS_MAX {
                return Err(Malformed("too many calls in one write").into());
            }
            self.receive(&header, unit, &mut answer)?;
            rest = behind;
        }
        self.partial_pdu = rest.to_vec();
        Ok(())
    }

    /// Returns at most `length` bytes of the oldest unread fragment; `None` if there is none yet.
    pub fn read(&mut self, length: usize) -> Option<ReplyPart> {
        let fragment = self.replies.front()?;
        let end = self.read.saturating_add(length).min(fragment.len());
        let bytes = fragment[self.read..end].to_vec();
        let has_more = end < fragment.len();
        if has_more {
            self.read = end;
        } else {
            self.unread -= fragment.len();
            self.replies.pop_front();
            self.read = 0;
        }
        Some(ReplyPart { bytes, has_more })
    }

    pub fn has_unread(&self) -> bool {
        self.unread > 0
    }

    /// Bytes buffered for incomplete calls and unread replies.
    pub fn buffered_bytes(&self) -> usize {
        let partial = self.partial.as_ref().map_or(0, |call| call.stub.len());
        self.partial_pdu.len() + partial + self.unread
    }

    fn push_fragment(&mut self, fragment: Vec<u8>) {
        self.unread += fragment.len();
        self.replies.push_back(fragment);
    }

    fn receive(
        &mut self,
        header: &Header,
        unit: &[u8],
        answer: &mut impl FnMut(Call<'_>) -> Result<Vec<u8>, Fault>,
    ) -> Result<(), Malformed> {
        let mut r = Reader::starting_at(unit, HEADER_SIZE);
        match header.pdu_type {
            PduType::BIND | PduType::ALTER_CONTEXT => self.bind(header, &Bind::decode(&mut r)?),
            PduType::REQUEST => self.request(header, &mut r, answer)?,
            // The call has already completed, or the client ignores its reply.
            PduType::CO_CANCEL => (),
            PduType::ORPHANED => self.partial = None,
            _ => return Err(Malformed("a PDU type that clients do not send")),
        }
        Ok(())
    }

    fn bind(&mut self, header: &Header, bind: &Bind) {
        let is_bind = header.pdu_type == PduType::BIND;
        if header.auth_length != 0 {
            let header = Header::new(PduType::BIND_NAK, PduFlags::WHOLE, header.call_id);
            self.push_fragment(build(&header, |w| {
                w.u16(REJECT_AUTHENTICATION);
                // The only version.
                w.bytes(&[1, 5, 0]);
            }));
            return;
        }
        if is_bind {
            self.contexts.clear();
            self.max_xmit = bind.max_recv_frag.clamp(FRAGMENT_MIN, FRAGMENT_MAX);
        }
        let ack = BindAck {
            max_xmit_frag: self.max_xmit,
            max_recv_frag: bind.max_xmit_frag.clamp(FRAGMENT_MIN, FRAGMENT_MAX),
            assoc_group_id: bind.assoc_group_id.max(1),
            secondary_address: if is_bind { self.pipe } else { "" },
            results: bind.contexts.iter().map(|context| self.negotiate(context)).collect(),
        };
        let reply = if is_bind { PduType::BIND_ACK } else { PduType::ALTER_CONTEXT_RESP };
        let header = Header::new(reply, PduFlags::WHOLE, header.call_id);
        self.push_fragment(build(&header, |w| ack.encode(w)));
    }

    fn negotiate(&mut self, context: &ContextElement) -> ContextResult {
        let asked = context.abstract_syntax;
        if !self.offered.contains(&asked) {
            return ContextResult::ABSTRACT_SYNTAX_NOT_SUPPORTED;
        }
        if !context.transfer_syntaxes.contains(&Syntax::NDR) {
            return ContextResult::TRANSFER_SYNTAXES_NOT_SUPPORTED;
        }
        self.contexts.retain(|(id, _)| *id != context.context_id);
        if self.contexts.len() == CONTEXTS_MAX {
            return ContextResult::LOCAL_LIMIT_EXCEEDED;
        }
        self.contexts.push((context.context_id, asked));
        ContextResult::ACCEPTED
    }

    /// Handles one fragment of a call; the last one runs the call.
    fn request(
        &mut self,
        header: &Header,
        r: &mut Reader<'_>,
        answer: &mut impl FnMut(Call<'_>) -> Result<Vec<u8>, Fault>,
    ) -> Result<(), Malformed> {
        let head = RequestHeader::decode(r)?;
        if header.flags.contains(PduFlags::OBJECT_UUID) {
            r.skip(16)?;
        }
        if header.auth_length != 0 {
            return Err(Malformed("a call with authentication, which was not negotiated"));
        }
        let mut call = match self.partial.take() {
            None if header.flags.contains(PduFlags::FIRST_FRAG) => {
                PendingCall { call_id: header.call_id, head, stub: Vec::new() }
            }
            Some(call) if !header.flags.contains(PduFlags::FIRST_FRAG) && call.call_id == header.call_id => {
                call
            }
            _ => return Err(Malformed("interleaved fragments of calls")),
        };
        if call.stub.len() + r.rest().len() > REQUEST_MAX {
            return Err(Malformed("a call with too many bytes of arguments"));
        }
        call.stub.extend_from_slice(r.rest());
        if !header.flags.contains(PduFlags::LAST_FRAG) {
            self.partial = Some(call);
            return Ok(());
        }
        let interface = self.contexts.iter().find(|(id, _)| *id == call.head.context_id);
        let result = match interface {
            Some((_, interface)) => {
                answer(Call { interface: *interface, opnum: call.head.opnum, stub: &call.stub })
            }
            None => Err(Fault::UNK_IF),
        };
        match result {
            Ok(stub) => self.respond(&call, &stub),
            Err(fault) => self.fault(&call, fault),
        }
        Ok(())
    }

    /// Queues the results in as many fragments as they need.
    fn respond(&mut self, call: &PendingCall, stub: &[u8]) {
        let room = usize::from(self.max_xmit) - RESPONSE_HEADER_SIZE;
        let mut rest = stub;
        let mut flags = PduFlags::FIRST_FRAG;
        loop {
            let (part, behind) = rest.split_at(room.min(rest.len()));
            if behind.is_empty() {
                flags |= PduFlags::LAST_FRAG;
            }
            let header = Header::new(PduType::RESPONSE, flags, call.call_id);
            let alloc_hint = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let head = ResponseHeader { alloc_hint, context_id: call.head.context_id };
            self.push_fragment(build(&header, |w| {
                head.encode(w);
                w.bytes(part);
            }));
            if behind.is_empty() {
                return;
            }
            (rest, flags) = (behind, PduFlags::empty());
        }
    }

    /// `fault`, C706 §12.6.4.7.
    fn fault(&mut self, call: &PendingCall, fault: Fault) {
        let flags = PduFlags::WHOLE | PduFlags::DID_NOT_EXECUTE;
        let header = Header::new(PduType::FAULT, flags, call.call_id);
        let head = ResponseHeader { alloc_hint: 0, context_id: call.head.context_id };
        self.push_fragment(build(&header, |w| {
            head.encode(w);
            fault.encode(w);
            w.zeros(4);
        }));
    }
}
