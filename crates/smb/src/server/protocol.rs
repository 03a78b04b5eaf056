//! SMB as a protocol of the transport: planning, running and refusing messages.

use super::batch_signing::UnsignedReplies;
use super::command_table::{dispatch, reply_bytes_max};
use super::compound::Compound;
use super::headers::RequestHeaders;
use super::inbound_message::{InboundMessage, check_compression};
use super::price::{demand_of_all, ends_waits};
use super::replies::ReplyBuffer;
use super::run::append_replies;
use super::suspended::{BlockedCommand, SuspendedCall};
use super::{Continuation, Memory, PlannedCall, Smb, Upload};
use crate::commands::negotiate::multi_protocol;
use crate::framing::{self, FRAMING};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::request::path_lookup::PathCache;
use crate::state::connection::{Connection, Sender};
use crate::state::tree::DiskShare;
use crate::status::from_fs_error;
use smb_wire::Decode;
use smb_wire::compound::messages;
use smb_wire::header::{Header, ProtocolId};
use smb_wire::transform::{TRANSFORM_SIZE, TransformHeader};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use transport::{
    Body, Context, Dispatch, Endpoints, Frame, Malformed, Outbox, PartData, Plan, Progress, Protocol, Role,
};
use vfs::qos::{Admission, is_anything_limited};
use vfs::{FsError, VolumeId};

impl Protocol for Smb {
    type Listener = ();
    type Session = Arc<Connection>;
    type Memory = Memory;
    type Target = Arc<DiskShare>;
    type Call = PlannedCall;
    type Continuation = Continuation;
    type Upload = Upload;

    const MESSAGE_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
    const HEAD_BYTES: usize = FRAMING + TRANSFORM_SIZE + smb_wire::file::WRITE_HEADER_SIZE;
    const TAIL_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

    fn session(&self, _: &(), _: Endpoints) -> Arc<Connection> {
        Connection::new(&self.service)
    }

    fn memory(&self, _: Role, _: usize) -> Memory {
        let namespace = self.service.namespace.load_full();
        Memory { namespace, unsigned: UnsignedReplies::default(), path_cache: PathCache::default() }
    }

    fn begin_turn(&self, memory: &mut Memory) {
        let current = self.service.namespace.load();
        if !Arc::ptr_eq(&current, &memory.namespace) {
            memory.namespace = Arc::clone(&current);
        }
    }

    /// A volume that is no longer served can close, also if no client calls.
    fn tick(&self, memory: &mut Memory) {
        self.begin_turn(memory);
    }

    fn before_send(&self, memory: &mut Memory, out: &mut Outbox) {
        memory.unsigned.sign(out.bytes());
    }

    fn end_turn(&self, memory: &mut Memory) {
        memory.path_cache.clear();
    }

    fn frame(&self, have: &[u8], _: bool) -> Result<Frame, Malformed> {
        framing::parse(have)
    }

    fn plan(
        &self,
        connection: &transport::Connection<Self>,
        _: &mut Memory,
        message: &[u8],
        out: &mut Outbox,
    ) -> Result<Option<Plan<PlannedCall>>, Malformed> {
        let smb_connection = &connection.session;
        let protocol_id = ProtocolId::from_bytes(message).map_err(malformed)?;
        if protocol_id == ProtocolId::SMB1 {
            let answer = multi_protocol(smb_connection, message, transport::clock::now());
            let answer = answer.ok_or(Malformed("SMB1 is not spoken"))?;
            push(out, &answer);
            return Ok(None);
        }
        // The commands of an incomplete message are unknown, so they are admitted one by one.
        let mut call = PlannedCall {
            connection: Arc::clone(smb_connection),
            inbound: InboundMessage::default(),
            reply_bytes_max: None,
            has_consumed_ids: false,
            headers: RequestHeaders::default(),
            admitted_volume: None,
        };
        let not_whole = |call| Ok(Some(Plan { call, dispatch: Dispatch::Batched, admission: None }));
        if protocol_id == ProtocolId::TRANSFORM {
            let header = TransformHeader::from_bytes(message).map_err(malformed)?;
            let size = usize::try_from(header.original_message_size).unwrap_or(usize::MAX);
            if size > message.len().saturating_sub(TRANSFORM_SIZE) {
                return not_whole(call);
            }
            call.inbound = InboundMessage::open(smb_connection, message)?;
        } else if protocol_id == ProtocolId::COMPRESSION_TRANSFORM {
            check_compression(smb_connection)?;
            // The header does not state the compressed length, so a message that fails to decompress may be
            // incomplete.
            let Ok(opened) = InboundMessage::open(smb_connection, message) else { return not_whole(call) };
            call.inbound = opened;
        }
        let plain = call.inbound.commands(message);
        call.headers = match RequestHeaders::parse(plain) {
            Ok(headers) => headers,
            // The first command has arrived.
            Err(_) if !call.inbound.is_transformed() && Header::from_bytes(message).is_ok() => {
                return not_whole(call);
            }
            Err(error) => return Err(error),
        };
        call.headers.consume_ids(smb_connection)?;
        call.has_consumed_ids = true;
        let (volume, admission) = self.message_admission(connection, plain).unzip();
        call.admitted_volume = volume;
        let dispatch = dispatch(&call.headers);
        if admission.is_some() && call.inbound.is_decompressed() {
            call.reply_bytes_max = Some(reply_bytes_max(plain));
            call.inbound.drop_decompressed();
        }
        Ok(Some(Plan { call, dispatch, admission }))
    }

    fn may_stream(&self, connection: &transport::Connection<Self>, _: &PlannedCall) -> bool {
        // Only a logged-on user may occupy a megabyte with an incomplete message.
        connection.session.is_logged_on()
    }

    fn reply_bytes_max(&self, call: &PlannedCall, message: &[u8]) -> u32 {
        call.reply_bytes_max.unwrap_or_else(|| reply_bytes_max(call.inbound.commands(message)))
    }

    fn reply_bytes_max_at(&self, at: &Continuation) -> u32 {
        match at {
            Continuation::Suspended(suspended) => reply_bytes_max(&suspended.message),
            Continuation::Replied(_) => 0,
        }
    }

    fn bytes(&self, call: &PlannedCall, message: &[u8]) -> usize {
        message.len() + call.inbound.extra_bytes()
    }

    fn bytes_at(&self, at: &Continuation) -> usize {
        match at {
            Continuation::Suspended(suspended) => suspended.bytes(),
            Continuation::Replied(_) => 0,
        }
    }

    fn run(&self, cx: &mut Context<'_, Self>, call: PlannedCall, message: &[u8]) -> Progress<Continuation> {
        let admitted_volume = call.admitted_volume;
        match open_message(call, message) {
            Ok(opened) => {
                let mut compound = Compound::new(opened.sealing_session(), admitted_volume);
                self.run_compound(cx, &mut compound, opened.commands(message), &[])
            }
            Err(error) => end(cx, error),
        }
    }

    fn resume(&self, cx: &mut Context<'_, Self>, at: Continuation) -> Progress<Continuation> {
        match at {
            Continuation::Suspended(suspended) => {
                let SuspendedCall { message, mut compound, replies, stats, .. } = *suspended;
                cx.stats = stats;
                self.run_compound(cx, &mut compound, &message, &replies)
            }
            // The replies have been written.
            Continuation::Replied(_) => Progress::Done,
        }
    }

    fn synced(&self, at: Continuation, _: Option<&[u8]>) -> Option<Continuation> {
        // Breaks that must follow the replies, and commands behind them, continue when this is dropped.
        Some(at)
    }

    fn fail(&self, at: Continuation, error: FsError, out: &mut Outbox) {
        let status = from_fs_error(error);
        match at {
            Continuation::Replied(mut flushing) => {
                // The refusals replace the interim reply of a command that is about to wait, so that command ends as well.
                if flushing.blocked.as_ref().is_some_and(|blocked| blocked.waiting.compound.has_interim())
                    && let Some(BlockedCommand { waker, cancel, .. }) = flushing.blocked.take()
                {
                    cancel();
                    waker.finish();
                }
                let mut replies = std::mem::take(&mut flushing.replies);
                let mut buffer = ReplyBuffer::begin(out.bytes(), &replies);
                replies.refuse(status, &mut buffer);
                replies.finish(buffer);
            }
            Continuation::Suspended(suspended) => {
                let SuspendedCall { connection, message, compound, replies, .. } = *suspended;
                let remaining = RequestHeaders::parse(compound.remaining(&message)).unwrap_or_default();
                // Commands that are done keep their replies.
                append_replies(out, compound, |compound, buffer| {
                    buffer.out.extend_from_slice(&replies);
                    compound.refuse_remaining(&connection, &remaining, status, buffer);
                });
            }
        }
    }

    fn refuse(&self, call: &PlannedCall, _message: &[u8], error: FsError, out: &mut Outbox) {
        let compound = Compound::new(call.inbound.sealing_session(), None);
        refuse(compound, &call.connection, &call.headers, error, out);
    }

    fn begin_upload(
        &self,
        call: PlannedCall,
        _: &[u8],
        _: usize,
        refusal: Option<FsError>,
    ) -> Result<(Upload, Body), Malformed> {
        if call.inbound.is_transformed() {
            return Err(Malformed("something follows what was encrypted or compressed"));
        }
        Ok((Upload { call, refusal }, Body { start: 0, len: 0 }))
    }

    fn upload(&self, _: &mut Context<'_, Self>, _: &mut Upload, _: usize, _: PartData<'_>) -> usize {
        0
    }

    fn finish_upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: Upload,
        message: &[u8],
    ) -> Progress<Continuation> {
        let Upload { call, refusal } = upload;
        // The message has arrived since the turn began, so cached directories may be older than its commands.
        cx.memory.path_cache.clear();
        let (connection, admitted_volume) = (Arc::clone(&call.connection), call.admitted_volume);
        let opened = match open_message(call, message) {
            Ok(opened) => opened,
            Err(error) => return end(cx, error),
        };
        let (plain, mut compound) =
            (opened.commands(message), Compound::new(opened.sealing_session(), admitted_volume));
        let Some(error) = refusal else { return self.run_compound(cx, &mut compound, plain, &[]) };
        refuse(compound, &connection, &RequestHeaders::parse(plain).unwrap_or_default(), error, cx.out);
        Progress::Done
    }
}

impl Smb {
    /// The admission of a message to the volume of its first command. Commands in other volumes are admitted one by
    /// one, and so are commands behind one that needs no admission. A message without a session and tree connect is
    /// not limited: it reaches nothing.
    fn message_admission(
        &self,
        connection: &transport::Connection<Self>,
        message: &[u8],
    ) -> Option<(VolumeId, Admission)> {
        if !is_anything_limited() {
            return None;
        }
        let first = messages(message).flatten().next()?.header;
        if ends_waits(first.command) {
            return None;
        }
        let channel = connection.session.channel(first.session_id).filter(|channel| channel.is_valid())?;
        let tree = channel.session.tree(first.tree_id())?;
        let volume = &tree.disk()?.export.volume;
        let admission = volume.admission(connection.client(), demand_of_all(message)?)?;
        Some((volume.id(), admission))
    }
}

impl Sender for transport::Connection<Smb> {
    fn send_within(&self, messages: &mut Outbox, patience: Duration) {
        Self::send_within(self, messages, patience);
    }

    fn is_ended(&self) -> bool {
        Self::is_ended(self)
    }

    fn client(&self) -> IpAddr {
        self.endpoints.peer.ip()
    }

    fn keep_as_user(&self) {
        Self::prove(self);
    }

    fn allow_anonymous(&self) {
        Self::tolerate(self);
    }
}

fn malformed(malformed: smb_wire::Malformed) -> Malformed {
    Malformed(malformed.0)
}

/// Opens a message that has arrived completely, and consumes its message ids.
fn open_message(call: PlannedCall, message: &[u8]) -> Result<InboundMessage, Malformed> {
    let PlannedCall { connection, inbound: mut opened, has_consumed_ids: is_taken, .. } = call;
    if is_taken {
        opened.decompress(&connection, message)?;
    } else {
        opened = InboundMessage::open(&connection, message)?;
        RequestHeaders::parse(opened.commands(message))?.consume_ids(&connection)?;
    }
    Ok(opened)
}

/// Ends a connection whose message cannot be answered.
fn end(cx: &Context<'_, Smb>, error: Malformed) -> Progress<Continuation> {
    tracing::info!(peer = %cx.connection.endpoints.peer, %error, "a connection is ended");
    cx.connection.close();
    Progress::Done
}

fn refuse(
    compound: Compound,
    connection: &Connection,
    headers: &RequestHeaders,
    error: FsError,
    out: &mut Outbox,
) {
    let status = from_fs_error(error);
    append_replies(out, compound, |compound, buffer| {
        compound.refuse_remaining(connection, headers, status, buffer);
    });
}

fn push(out: &mut Outbox, message: &[u8]) {
    let out = out.bytes();
    let start = out.len();
    out.extend_from_slice(&[0; FRAMING]);
    out.extend_from_slice(message);
    framing::finish(out, start, 0);
}
