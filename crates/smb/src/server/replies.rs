//! The replies to a message: linked, padded, signed, compressed, encrypted and framed.

use super::batch_signing::UnsignedReplies;
use crate::framing::{self, FRAMING};
use crate::limits::COMPRESSED_BYTES_MIN;
use crate::state::caching::breaks::CacheGuard;
use crate::state::connection::Connection;
use crate::state::session::Session;
use crate::state::session::channel::Channel;
use smb_wire::NtStatus;
use smb_wire::compound;
use smb_wire::compression::Compression;
use smb_wire::crypto::signing;
use smb_wire::error::ErrorResponse;
use smb_wire::file::READ_HEADER_SIZE;
use smb_wire::header::{Command, Flags, Header, NEXT_COMMAND_OFFSET};
use smb_wire::transform::TRANSFORM_SIZE;
use std::sync::Arc;
use transport::Pipe;
use vfs::qos::is_anything_limited;

/// Replies that have not left.
#[derive(Default)]
pub(super) struct Replies {
    /// The session whose key encrypted the message, if it was encrypted.
    pub(super) sealed_by: Option<Arc<Session>>,
    list: Vec<Reply>,
    /// Caches granted by the replies.
    pub(super) guards: Vec<CacheGuard>,
    pub(super) compression: Option<Compression>,
    /// Pages of a file at the end of the only reply.
    pub(super) pages: Option<Pipe>,
}

struct Reply {
    header: Header,
    /// Offset from the first reply.
    start: usize,
    signer: Option<Arc<signing::Key>>,
}

/// The output of a connection while the replies to a message are appended to it.
pub(super) struct ReplyBuffer<'o> {
    pub(super) out: &'o mut Vec<u8>,
    /// Position of the frame in the output.
    pub(super) frame: usize,
    /// Position of the first reply in the output.
    pub(super) first: usize,
}

impl<'o> ReplyBuffer<'o> {
    /// Begins a frame at the end of the output.
    pub(super) fn begin(out: &'o mut Vec<u8>, replies: &Replies) -> Self {
        let frame = out.len();
        let first = frame + replies.head_bytes();
        out.resize(first, 0);
        Self { out, frame, first }
    }

    /// The frame at this position, which replies are part of already.
    pub(super) fn resume(out: &'o mut Vec<u8>, frame: usize, replies: &Replies) -> Self {
        Self { out, frame, first: frame + replies.head_bytes() }
    }

    /// Bytes of the replies so far.
    pub(super) fn len(&self) -> usize {
        self.out.len() - self.first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn replies(&self) -> &[u8] {
        &self.out[self.first..]
    }

    /// Removes the frame.
    pub(super) fn discard(self) {
        self.out.truncate(self.frame);
    }
}

impl Replies {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Drops the replies, which are not sent.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Bytes before the first reply.
    fn head_bytes(&self) -> usize {
        FRAMING + if self.sealed_by.is_some() { TRANSFORM_SIZE } else { 0 }
    }

    /// Links the last reply to the one that is written next.
    pub(super) fn link(&self, buffer: &mut ReplyBuffer<'_>) {
        if let Some(last) = self.list.last() {
            compound::link(buffer.out, buffer.first + last.start);
        }
    }

    /// Adds a reply that was written at position `start` of the output.
    pub(super) fn add(
        &mut self,
        header: Header,
        signer: Option<Arc<signing::Key>>,
        buffer: &ReplyBuffer<'_>,
        start: usize,
    ) {
        self.list.push(Reply { header, start: start - buffer.first, signer });
    }

    /// Appends a reply without a body.
    pub(super) fn push_error(
        &mut self,
        header: Header,
        signer: Option<Arc<signing::Key>>,
        buffer: &mut ReplyBuffer<'_>,
    ) {
        self.link(buffer);
        self.add(header, signer, buffer, buffer.out.len());
        compound::push(buffer.out, &header, &ErrorResponse::default());
    }

    /// Writes a refusal in place of each reply.
    pub(super) fn refuse(&mut self, status: NtStatus, buffer: &mut ReplyBuffer<'_>) {
        for Reply { mut header, signer, .. } in std::mem::take(&mut self.list) {
            header.status = status;
            self.push_error(header, signer, buffer);
        }
    }

    /// Takes the replies so far, to be sent before the rest of their message runs.
    pub(super) fn split(&mut self, buffer: &mut ReplyBuffer<'_>) -> Self {
        let list = std::mem::take(&mut self.list);
        if let Some(last) = list.last() {
            buffer.out[buffer.first + last.start + NEXT_COMMAND_OFFSET..][..4].fill(0);
        }
        Self {
            sealed_by: self.sealed_by.clone(),
            list,
            guards: std::mem::take(&mut self.guards),
            compression: self.compression,
            pages: None,
        }
    }

    /// Pads the last of several replies (MS-SMB2 §3.3.4.1.3).
    fn pad(&self, buffer: &mut ReplyBuffer<'_>) {
        if self.list.len() > 1 {
            buffer.out.resize(buffer.first + buffer.len().next_multiple_of(8), 0);
        }
    }

    fn sign(&self, buffer: &mut ReplyBuffer<'_>) {
        if let ([only], true) = (&*self.list, self.pages.is_none()) {
            return only.signer.iter().for_each(|key| key.sign(&mut buffer.out[buffer.first..]));
        }
        let mut unsigned = UnsignedReplies::default();
        self.defer_signing(&mut unsigned, buffer);
        unsigned.sign(buffer.out);
    }

    /// Adds the replies to those that are signed together.
    fn defer_signing(&self, unsigned: &mut UnsignedReplies, buffer: &ReplyBuffer<'_>) {
        let ends = self.list.iter().skip(1).map(|next| buffer.first + next.start).chain([buffer.out.len()]);
        for (reply, end) in self.list.iter().zip(ends) {
            if let Some(key) = &reply.signer {
                unsigned.push(key, buffer.first + reply.start..end);
            }
        }
    }

    /// Finishes the replies but for their signatures, where signing them with others is faster and nothing is computed over the
    /// signed bytes. Whether it did.
    pub(super) fn finish_unsigned(
        &self,
        unsigned: &mut UnsignedReplies,
        mut buffer: ReplyBuffer<'_>,
    ) -> bool {
        let is_compressed = self.compression_of(buffer.out.len() - buffer.frame).is_some();
        let is_faster = |reply: &Reply| reply.signer.as_ref().is_some_and(|key| key.benefits_from_batching());
        if is_compressed || !self.guards.is_empty() || !self.list.iter().any(is_faster) {
            return false;
        }
        self.pad(&mut buffer);
        self.defer_signing(unsigned, &buffer);
        framing::finish(buffer.out, buffer.frame, 0);
        true
    }

    /// The compression of replies of so many bytes.
    fn compression_of(&self, bytes: usize) -> Option<Compression> {
        self.compression.filter(|_| bytes >= COMPRESSED_BYTES_MIN)
    }

    /// Compresses the replies where this makes them shorter. The bytes before the data of a READ stay as they are.
    fn compress(&self, buffer: &mut ReplyBuffer<'_>) {
        let compression = self.compression_of(buffer.len());
        let compressed =
            compression.and_then(|compression| compression.compress(buffer.replies(), READ_HEADER_SIZE));
        if let Some(compressed) = compressed {
            buffer.out.truncate(buffer.first);
            buffer.out.extend_from_slice(&compressed);
        }
    }

    /// Pads, signs, compresses, encrypts and frames the replies. Without any reply the frame is removed.
    pub(super) fn finish(&self, mut buffer: ReplyBuffer<'_>) {
        if self.is_empty() {
            return buffer.discard();
        }
        self.pad(&mut buffer);
        let piped = self.pages.as_ref().map_or(0, Pipe::len);
        if self.sealed_by.is_none() {
            self.sign(&mut buffer);
        }
        self.compress(&mut buffer);
        if let Some(session) = &self.sealed_by {
            let start = buffer.frame + FRAMING;
            let is_sealed = session.keys().is_some_and(|keys| keys.seal(session.id, buffer.out, start));
            if !is_sealed {
                tracing::error!("the keys of a session are used up: it gets no more replies");
                return buffer.discard();
            }
        }
        framing::finish(buffer.out, buffer.frame, piped);
    }
}

/// The header of the reply to a request, with the credits that are granted. A signed request gets a reply marked as signed even
/// without a key: clients ignore any other.
pub(super) fn reply_header(
    connection: &Connection,
    request: &Header,
    status: NtStatus,
    is_signed: bool,
) -> Header {
    let credits = connection.grant(request.credits, is_pressed(connection, request));
    let reply = Header { credits, ..request.response(status) };
    // An ended session has no key, and the key of AES-GMAC does not sign a refusal to bind.
    let has_no_key = matches!(status, NtStatus::USER_SESSION_DELETED | NtStatus::REQUEST_OUT_OF_SEQUENCE);
    let signs = is_signed || has_no_key && request.flags.contains(Flags::SIGNED);
    let flags = if signs { reply.flags | Flags::SIGNED } else { reply.flags };
    Header { flags, ..reply }
}

/// Whether calls wait for a limit of the request's volume. The client then gets fewer credits.
fn is_pressed(connection: &Connection, request: &Header) -> bool {
    if !is_anything_limited() {
        return false;
    }
    let channel = connection.channel(request.session_id);
    let tree = channel.and_then(|channel| channel.session.tree(request.tree_id()));
    tree.as_ref().and_then(|tree| tree.disk()).is_some_and(|disk| {
        let gate = disk.export.volume.gate();
        gate.is_limited() && gate.throttled().1 > 0
    })
}

/// Adds a reply to the preauthentication hash where it is part of that (MS-SMB2 §3.3.5.4, §3.3.5.5). The hash covers the signature.
pub(super) fn hash_reply(
    connection: &Connection,
    channel: Option<&Channel>,
    header: &Header,
    signer: Option<&signing::Key>,
    reply: &mut [u8],
) {
    match (header.command, header.status) {
        (Command::NEGOTIATE, NtStatus::SUCCESS) => connection.preauth().update(reply),
        (Command::SESSION_SETUP, NtStatus::MORE_PROCESSING_REQUIRED) => {
            if let Some(key) = signer {
                key.sign(reply);
            }
            if let Some(channel) = channel {
                channel.note_reply(reply);
            }
        }
        _ => {}
    }
}
