//! SMB as a protocol of the transport, and the server.

mod admission;
mod batch_signing;
mod checks;
mod command_table;
mod compound;
mod headers;
mod inbound_message;
mod price;
mod replies;
mod run;
mod suspended;
mod view;

use crate::commands::negotiate::multi_protocol;
use crate::framing::{self, FRAMING};
use crate::limits::{MESSAGE_BYTES_MAX, PARKED_BYTES_MAX, PARKED_CALLS_MAX};
use crate::request::path_lookup::PathCache;
use crate::state::connection::{Connection, Sender};
use crate::state::service::Service;
use crate::state::tree::DiskShare;
use crate::status::of_fs_error;
use batch_signing::UnsignedReplies;
use command_table::{dispatch, reply_bytes_max};
use compound::Compound;
use headers::RequestHeaders;
use inbound_message::{InboundMessage, check_compression};
use price::{demand_of_all, ends_waits};
use replies::ReplyBuffer;
use run::append_replies;
use smb_wire::Decode;
use smb_wire::compound::messages;
use smb_wire::header::{Header, ProtocolId};
use smb_wire::transform::{TRANSFORM_SIZE, TransformHeader};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use suspended::{BlockedCommand, FlushingReplies, ParkedCall, SuspendedCall};
use transport::{
    Body, Context, Dispatch, Endpoints, Frame, Malformed, Outbox, Parking, PartData, Plan, Progress,
    Protocol, Role,
};
pub use transport::{Client, Settings, Stats, Users};
use vfs::qos::{Admission, is_anything_limited};
use vfs::{FsError, Namespace, VolumeId};
pub use view::{Usage, View};

struct Smb {
    service: Arc<Service>,
    /// Calls that are tried again after a while.
    parking: Parking<ParkedCall>,
}

/// The memory of a thread: the namespace at the start of its turn.
struct Memory {
    namespace: Arc<Namespace>,
    /// Replies that are signed together when they leave.
    unsigned: UnsignedReplies,
    /// Directories that paths of this turn have led through.
    path_cache: PathCache,
}

struct PlannedCall {
    connection: Arc<Connection>,
    /// The plain form of an encrypted or compressed message.
    inbound: InboundMessage,
    /// The maximum length of the reply, where only the compressed message is kept.
    reply_bytes_max: Option<u32>,
    /// Whether the message ids are consumed. A message that has not arrived completely keeps them: its commands are
    /// unknown.
    has_consumed_ids: bool,
    /// The headers of the commands, once their ids are consumed.
    headers: RequestHeaders,
    /// The volume that admits the message as a whole.
    admitted_volume: Option<VolumeId>,
}

/// The point at which a call continues.
enum Continuation {
    /// A command that has to wait.
    Suspended(Box<SuspendedCall>),
    /// Replies that wait for flushes.
    Replied(Box<FlushingReplies>),
}

/// A long message that is still arriving. All of it is tail: signatures, encryption and compression cover the whole
/// message.
struct Upload {
    call: PlannedCall,
    refusal: Option<FsError>,
}

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

    fn session(&self, (): &(), _: Endpoints) -> Arc<Connection> {
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
        let not_whole = |call| Ok(Some(Plan { call, dispatch: Dispatch::Batched, toll: None }));
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
        let (volume, toll) = self.message_admission(connection, plain).unzip();
        call.admitted_volume = volume;
        let dispatch = dispatch(&call.headers);
        if toll.is_some() && call.inbound.is_decompressed() {
            call.reply_bytes_max = Some(reply_bytes_max(plain));
            call.inbound.drop_decompressed();
        }
        Ok(Some(Plan { call, dispatch, toll }))
    }

    fn streams(&self, connection: &transport::Connection<Self>, _: &PlannedCall) -> bool {
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
                let compound = Compound::new(opened.sealing_session(), admitted_volume);
                self.run_compound(cx, compound, opened.commands(message), &[])
            }
            Err(error) => end(cx, error),
        }
    }

    fn resume(&self, cx: &mut Context<'_, Self>, at: Continuation) -> Progress<Continuation> {
        match at {
            Continuation::Suspended(suspended) => {
                let SuspendedCall { message, compound, replies, stats, .. } = *suspended;
                cx.stats = stats;
                self.run_compound(cx, compound, &message, &replies)
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
        let status = of_fs_error(error);
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
        let (plain, compound) =
            (opened.commands(message), Compound::new(opened.sealing_session(), admitted_volume));
        let Some(error) = refusal else { return self.run_compound(cx, compound, plain, &[]) };
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
    fn send_surely(&self, messages: &mut Outbox, patience: Duration) {
        Self::send_surely(self, messages, patience);
    }

    fn is_ended(&self) -> bool {
        Self::is_ended(self)
    }

    fn client(&self) -> IpAddr {
        self.ends.peer.ip()
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
    tracing::info!(peer = %cx.connection.ends.peer, %error, "a connection is ended");
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
    let status = of_fs_error(error);
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

pub struct Server {
    server: transport::Server<Smb>,
    service: Arc<Service>,
}

impl Server {
    pub fn start(service: Arc<Service>, listeners: Vec<TcpListener>, settings: Settings) -> io::Result<Self> {
        let parking = Parking::new("smb-parked", PARKED_CALLS_MAX, PARKED_BYTES_MAX);
        let listeners = listeners.into_iter().map(|listener| (listener, ())).collect();
        let smb = Arc::new(Smb { service: Arc::clone(&service), parking });
        service.cleanup.start()?;
        let server = transport::Server::start(smb, "smb", listeners, settings)?;
        Ok(Self { server, service })
    }

    pub fn view(&self) -> View {
        View { transport: self.server.view(), service: Arc::clone(&self.service) }
    }

    /// Stops accepting connections and calls. Waits at most `patience` for the calls in flight, and for the cleanup of
    /// closed connections.
    pub fn stop(self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.server.stop(patience / 2);
        self.service.cleanup.stop(deadline.saturating_duration_since(Instant::now()));
    }
}
