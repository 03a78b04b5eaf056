//! SMB as a protocol of the transport, and the server that speaks it.

mod batch_signing;
mod command_table;
mod compound;
mod headers;
mod inbound_message;
mod price;
mod suspended;

use crate::commands::negotiate::multi_protocol;
use crate::framing::{self, FRAMING};
use crate::limits::{MESSAGE_BYTES_MAX, PARKED_BYTES_MAX, PARKED_CALLS_MAX, RETRY_MS, RETRY_MS_MAX};
use crate::request::path_lookup::Trail;
use crate::state::connection::{Connection, Sender};
use crate::state::service::Service;
use crate::state::tree::Disk;
use crate::status::of_fs_error;
use batch_signing::Unsigned;
use command_table::{dispatch, reply_bytes_max};
use compound::{Base, Chain, Ended, Waits};
use headers::Heads;
use inbound_message::{Opened, check_compression};
use price::{demand_of_all, ends_waits};
use smb_wire::compound::messages;
use smb_wire::header::{Header, ProtocolId};
use smb_wire::transform::{TRANSFORM_SIZE, TransformHeader};
use smb_wire::{Decode, NtStatus};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use suspended::{Held, Replied, Rest, WaitingCall};
use transport::{
    Body, CallStats, Context, Dispatch, Endpoints, Frame, Late, Malformed, Outbox, Parked, Parking, PartData,
    Pipe, Plan, Progress, Protocol, Role,
};
pub use transport::{Client, Settings, Stats, Users};
use vfs::bounds::Network;
use vfs::qos::{Admission, is_anything_limited};
use vfs::{Blocking, FsError, Namespace, VolumeId};

/// SMB over TCP.
struct Smb {
    service: Arc<Service>,
    /// Calls that go on when others may have given way.
    parking: Parking<ParkedCall>,
}

/// What one thread remembers: what is served, as of the start of this batch of calls.
struct Memory {
    namespace: Arc<Namespace>,
    /// Replies that leave with others, and are signed with them then.
    unsigned: Unsigned,
    /// Where paths of this turn have led through.
    trail: Trail,
}

/// A message that was planned.
struct Call {
    connection: Arc<Connection>,
    /// What it says, if it was encrypted or compressed.
    opened: Opened,
    /// The most bytes of its reply, where only its compressed form is kept.
    reply_bytes_max: Option<u32>,
    /// Whether its message ids are used: not if too little of it is there to know them all.
    is_taken: bool,
    /// The headers of its commands, once their ids are used.
    heads: Heads,
    /// The volume whose limits it pays as a whole.
    paid: Option<VolumeId>,
}

/// Where a call goes on.
enum Continuation {
    /// At a command that would have blocked, or has something in its way.
    Suspended(Box<Suspended>),
    /// At its reply, which waits for flushes.
    Replied(Box<Replied>),
}

struct Suspended {
    connection: Arc<Connection>,
    message: Vec<u8>,
    chain: Chain,
    /// The replies so far, without their framing.
    replies: Vec<u8>,
    /// What was done for them.
    stats: CallStats<Arc<Disk>>,
}

/// A call that goes on after a while.
struct ParkedCall {
    late: Late<Smb>,
    suspended: Box<Suspended>,
}

/// A long message on its way. It is all tail: what is signed, encrypted or compressed is looked at as a whole.
struct Upload {
    call: Call,
    refusal: Option<FsError>,
}

impl Protocol for Smb {
    type Listener = ();
    type Session = Arc<Connection>;
    type Memory = Memory;
    type Target = Arc<Disk>;
    type Call = Call;
    type Continuation = Continuation;
    type Upload = Upload;

    const MESSAGE_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
    const HEAD_BYTES: usize = FRAMING + TRANSFORM_SIZE + smb_wire::file::WRITE_HEAD_SIZE;
    const TAIL_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

    fn session(&self, (): &(), _: Endpoints) -> Arc<Connection> {
        Connection::new(&self.service)
    }

    fn memory(&self, _: Role, _: usize) -> Memory {
        let namespace = self.service.namespace.load_full();
        Memory { namespace, unsigned: Unsigned::default(), trail: Trail::default() }
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
        memory.trail.forget();
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
    ) -> Result<Option<Plan<Call>>, Malformed> {
        let ours = &connection.session;
        let protocol_id = ProtocolId::from_bytes(message).map_err(malformed)?;
        if protocol_id == ProtocolId::SMB1 {
            let answer = multi_protocol(ours, message, transport::clock::now());
            let answer = answer.ok_or(Malformed("SMB1 is not spoken"))?;
            push(out, &answer);
            return Ok(None);
        }
        // Of a message that is not there as a whole, not all commands are known: they pay when it is their turn.
        let mut call = Call {
            connection: Arc::clone(ours),
            opened: Opened::default(),
            reply_bytes_max: None,
            is_taken: false,
            heads: Heads::default(),
            paid: None,
        };
        let not_whole = |call| Ok(Some(Plan { call, dispatch: Dispatch::Batched, toll: None }));
        if protocol_id == ProtocolId::TRANSFORM {
            let header = TransformHeader::from_bytes(message).map_err(malformed)?;
            let size = usize::try_from(header.original_message_size).unwrap_or(usize::MAX);
            if size > message.len().saturating_sub(TRANSFORM_SIZE) {
                return not_whole(call);
            }
            call.opened = Opened::open(ours, message)?;
        } else if protocol_id == ProtocolId::COMPRESSION_TRANSFORM {
            check_compression(ours)?;
            // It does not say how long it is: what cannot be decompressed may not be there as a whole.
            let Ok(opened) = Opened::open(ours, message) else { return not_whole(call) };
            call.opened = opened;
        }
        let plain = call.opened.plain(message);
        call.heads = match Heads::of(plain) {
            Ok(heads) => heads,
            // Its first command is there.
            Err(_) if !call.opened.is_changed() && Header::from_bytes(message).is_ok() => {
                return not_whole(call);
            }
            Err(error) => return Err(error),
        };
        call.heads.take_ids(ours)?;
        call.is_taken = true;
        let toll = self.toll(connection, plain, &mut call.paid);
        let dispatch = dispatch(&call.heads);
        if toll.is_some() && call.opened.is_decompressed() {
            call.reply_bytes_max = Some(reply_bytes_max(plain));
            call.opened.shrink();
        }
        Ok(Some(Plan { call, dispatch, toll }))
    }

    fn streams(&self, connection: &transport::Connection<Self>, _: &Call) -> bool {
        // Nobody else makes us keep a message of a megabyte.
        connection.session.is_logged_on()
    }

    fn reply_bytes_max(&self, call: &Call, message: &[u8]) -> u32 {
        call.reply_bytes_max.unwrap_or_else(|| reply_bytes_max(call.opened.plain(message)))
    }

    fn reply_bytes_max_at(&self, at: &Continuation) -> u32 {
        match at {
            Continuation::Suspended(suspended) => reply_bytes_max(&suspended.message),
            Continuation::Replied(_) => 0,
        }
    }

    fn bytes(&self, call: &Call, message: &[u8]) -> usize {
        message.len() + call.opened.bytes()
    }

    fn bytes_at(&self, at: &Continuation) -> usize {
        match at {
            Continuation::Suspended(suspended) => suspended.bytes(),
            Continuation::Replied(_) => 0,
        }
    }

    fn run(&self, cx: &mut Context<'_, Self>, call: Call, message: &[u8]) -> Progress<Continuation> {
        let paid = call.paid;
        match enter(call, message) {
            Ok(opened) => {
                let chain = Chain::new(opened.sealed_by(), paid);
                self.go_on(cx, chain, opened.plain(message), &[])
            }
            Err(error) => end(cx, error),
        }
    }

    fn resume(&self, cx: &mut Context<'_, Self>, at: Continuation) -> Progress<Continuation> {
        match at {
            Continuation::Suspended(suspended) => {
                let Suspended { message, chain, replies, stats, .. } = *suspended;
                cx.stats = stats;
                self.go_on(cx, chain, &message, &replies)
            }
            // Its reply is there already.
            Continuation::Replied(_) => Progress::Done,
        }
    }

    fn synced(&self, at: Continuation, _: Option<&[u8]>) -> Option<Continuation> {
        // What its replies tell of caches is held back until they have left, and so is what waits behind them.
        Some(at)
    }

    fn fail(&self, at: Continuation, error: FsError, out: &mut Outbox) {
        let status = of_fs_error(error);
        match at {
            Continuation::Replied(mut replied) => {
                // Who was to be told that a command is answered later is told now that it has failed.
                if replied.held.as_ref().is_some_and(|held| held.waiting.chain.has_interim())
                    && let Some(Held { waker, cancel, .. }) = replied.held.take()
                {
                    cancel();
                    waker.finish();
                }
                let mut chain = std::mem::take(&mut replied.chain);
                write(out, &mut chain, |chain, out, base| chain.refuse(status, out, base));
            }
            Continuation::Suspended(suspended) => {
                let Suspended { connection, message, mut chain, replies, .. } = *suspended;
                let rest = Heads::of(chain.rest(&message)).unwrap_or_default();
                // What is done stays answered.
                write(out, &mut chain, |chain, out, base| {
                    out.extend_from_slice(&replies);
                    chain.refuse_rest(&connection, &rest, status, (out, base));
                });
            }
        }
    }

    fn refuse(&self, call: &Call, _message: &[u8], error: FsError, out: &mut Outbox) {
        let chain = Chain::new(call.opened.sealed_by(), None);
        refuse(chain, &call.connection, &call.heads, error, out);
    }

    fn begin_upload(
        &self,
        call: Call,
        _: &[u8],
        _: usize,
        refusal: Option<FsError>,
    ) -> Result<(Upload, Body), Malformed> {
        if call.opened.is_changed() {
            return Err(Malformed("something follows what was encrypted or compressed"));
        }
        Ok((Upload { call, refusal }, Body { start: 0, len: 0 }))
    }

    fn upload(&self, _: &mut Context<'_, Self>, _: &mut Upload, _: usize, _: PartData<'_>) -> usize {
        // Bodies are empty.
        0
    }

    fn finish_upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: Upload,
        message: &[u8],
    ) -> Progress<Continuation> {
        let Upload { call, refusal } = upload;
        // It has come in since the turn began.
        cx.memory.trail.forget();
        let (connection, paid) = (Arc::clone(&call.connection), call.paid);
        let opened = match enter(call, message) {
            Ok(opened) => opened,
            Err(error) => return end(cx, error),
        };
        let (plain, chain) = (opened.plain(message), Chain::new(opened.sealed_by(), paid));
        let Some(error) = refusal else { return self.go_on(cx, chain, plain, &[]) };
        refuse(chain, &connection, &Heads::of(plain).unwrap_or_default(), error, cx.out);
        Progress::Done
    }
}

impl Smb {
    /// Does a chain from where it is. `before` is what was replied so far.
    fn go_on(
        &self,
        cx: &mut Context<'_, Self>,
        chain: Chain,
        message: &[u8],
        before: &[u8],
    ) -> Progress<Continuation> {
        let flushes = cx.pending.added();
        self.attempt(cx, chain, message, before, flushes)
    }

    /// The same; `flushes` were pending before it began.
    fn attempt(
        &self,
        cx: &mut Context<'_, Self>,
        mut chain: Chain,
        message: &[u8],
        before: &[u8],
        flushes: usize,
    ) -> Progress<Continuation> {
        let (ends, connection) = (cx.ends(), cx.connection);
        let ours = &connection.session;
        ours.attach(connection);
        let out = cx.out.bytes();
        let frame_start = out.len();
        let base = frame_start + head_bytes(&chain);
        out.resize(base, 0);
        out.extend_from_slice(before);
        let mut with = Base {
            service: &self.service,
            connection: ours,
            namespace: &cx.memory.namespace,
            ends,
            payer: cx.connection.client(),
            blocking: cx.blocking,
            now: cx.now,
            pending: cx.pending,
            trail: &mut cx.memory.trail,
            stats: &mut cx.stats,
            charge: &mut cx.charge,
        };
        match chain.run(&mut with, message, out, base) {
            Ended::Replied => replied(cx, chain, frame_start, cx.pending.added() == flushes),
            Ended::Disconnected => {
                out.truncate(frame_start);
                cx.connection.close();
                Progress::Done
            }
            Ended::Later => self.wait(cx, chain, message, (frame_start, base), flushes),
            Ended::Unpaid | Ended::Delayed if cx.pending.added() > flushes && !chain.replies.is_empty() => {
                leave(cx, chain, message, (frame_start, base))
            }
            ended => {
                let replies = out[base..].to_vec();
                out.truncate(frame_start);
                let (message, connection, stats) = (message.to_vec(), Arc::clone(ours), CallStats::default());
                let suspended = Box::new(Suspended { connection, message, chain, replies, stats });
                self.suspend(cx, suspended, ended, flushes)
            }
        }
    }

    /// Leaves a call to go on at a command that is not done.
    fn suspend(
        &self,
        cx: &mut Context<'_, Self>,
        mut suspended: Box<Suspended>,
        ended: Ended,
        flushes: usize,
    ) -> Progress<Continuation> {
        if ended == Ended::WouldBlock && cx.blocking == Blocking::Never {
            suspended.stats = std::mem::take(&mut cx.stats);
            return Progress::WouldBlock(Continuation::Suspended(suspended));
        }
        if suspended.replies.is_empty() {
            // No command is done: it counts when one is. Bytes were moved all the same.
            cx.stats = CallStats { moved: cx.stats.moved, ..CallStats::default() };
        }
        if ended == Ended::Unpaid
            && cx.pending.added() == flushes
            && let Some(toll) = suspended.chain.settle_unpaid()
        {
            let bytes = suspended.bytes();
            return Progress::Unpaid { at: Continuation::Suspended(suspended), bytes, toll };
        }
        self.put_off(cx, suspended, flushes)
    }

    /// Leaves a call to whoever wakes it. Its client is told, unless it need not be, together with what is answered already.
    fn wait(
        &self,
        cx: &mut Context<'_, Self>,
        mut chain: Chain,
        message: &[u8],
        (frame_start, base): (usize, usize),
        flushes: usize,
    ) -> Progress<Continuation> {
        let Some(waits) = chain.waits.take() else { return Progress::Done };
        chain.settle();
        let (is_pending, had_interim) = (cx.pending.added() > flushes, chain.has_interim());
        let ours = Arc::clone(cx.session());
        if cx.out.bytes().len() == base {
            cx.stats = CallStats { moved: cx.stats.moved, ..CallStats::default() };
        }
        let out = cx.out.bytes();
        chain.interim(&ours, &waits, out, base);
        // Replies leave with the interim one, and what waits for flushes with those of this turn.
        let leaves = is_pending || chain.has_interim() != had_interim;
        let sent = leaves.then(|| chain.split(out, base));
        let replies = if leaves { Vec::new() } else { out[base..].to_vec() };
        let Waits { waker, cancel, asker } = waits;
        let message = chain.cut(message);
        let connection = Arc::downgrade(cx.connection);
        let held = Held {
            waker,
            cancel,
            waiting: Box::new(WaitingCall { connection, asker, message, chain, replies }),
        };
        if let Some(sent) = sent {
            finish(&sent, out, frame_start);
            if is_pending {
                return Progress::AfterSync(Continuation::Replied(Box::new(Replied {
                    chain: sent,
                    held: Some(held),
                    rest: None,
                })));
            }
            // The reply may be there before this turn is over.
            send_now(cx, frame_start);
        }
        cx.out.bytes().truncate(frame_start);
        held.wait();
        Progress::Done
    }

    /// Puts a call off that something stands in the way of. Where that takes too long, or too many are put off, it is refused.
    fn put_off(
        &self,
        cx: &mut Context<'_, Self>,
        mut suspended: Box<Suspended>,
        flushes: usize,
    ) -> Progress<Continuation> {
        let since = *suspended.chain.delayed_since.get_or_insert_with(Instant::now);
        // What has added a flush by itself and is not done yet cannot be told of when that is.
        let is_over = since.elapsed() > Duration::from_millis(RETRY_MS_MAX) || cx.pending.added() > flushes;
        suspended.chain.settle();
        let late = cx.detach();
        let parked = ParkedCall { late, suspended };
        let refused = match is_over {
            true => Some(parked),
            false => self.parking.park(parked, Duration::from_millis(RETRY_MS)).err(),
        };
        let Some(ParkedCall { suspended, .. }) = refused else { return Progress::Detached };
        let Suspended { message, mut chain, replies, .. } = *suspended;
        chain.gives_up = Some(NtStatus::SHARING_VIOLATION);
        self.attempt(cx, chain, &message, &replies, flushes)
    }

    /// What a message must pay, for the volume that its first command is for, which is noted. Commands of other volumes pay by
    /// themselves, and so do those behind one that pays nothing; whoever has no session and tree connect pays nothing, and gets nothing.
    fn toll(
        &self,
        connection: &transport::Connection<Self>,
        message: &[u8],
        paid: &mut Option<VolumeId>,
    ) -> Option<Admission> {
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
        let toll = volume.admission(connection.client(), demand_of_all(message)?)?;
        *paid = Some(volume.id());
        Some(toll)
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

    fn prove(&self) {
        Self::prove(self);
    }

    fn tolerate(&self) {
        Self::tolerate(self);
    }
}

impl Suspended {
    /// The memory that it takes.
    fn bytes(&self) -> usize {
        self.message.len() + self.replies.len()
    }
}

impl Parked for ParkedCall {
    fn bytes(&self) -> usize {
        self.suspended.bytes()
    }

    fn network(&self) -> Network {
        self.late.network()
    }

    fn go_on(self) {
        self.late.resume(Continuation::Suspended(self.suspended));
    }
}

fn malformed(malformed: smb_wire::Malformed) -> Malformed {
    Malformed(malformed.0)
}

/// Opens a message that is there as a whole by now, and uses its message ids.
fn enter(call: Call, message: &[u8]) -> Result<Opened, Malformed> {
    let Call { connection, mut opened, is_taken, .. } = call;
    if is_taken {
        opened.decompress(&connection, message)?;
    } else {
        opened = Opened::open(&connection, message)?;
        Heads::of(opened.plain(message))?.take_ids(&connection)?;
    }
    Ok(opened)
}

/// Ends a connection whose message cannot be answered.
fn end(cx: &Context<'_, Smb>, error: Malformed) -> Progress<Continuation> {
    tracing::info!(peer = %cx.connection.ends.peer, %error, "a connection is ended");
    cx.connection.close();
    Progress::Done
}

/// Bytes before the first reply of a chain.
fn head_bytes(chain: &Chain) -> usize {
    FRAMING + if chain.sealed_by.is_some() { TRANSFORM_SIZE } else { 0 }
}

/// Has what was changed be told of once it is durable, and not after something else. What follows goes on then, however long it has to
/// wait.
fn leave(
    cx: &mut Context<'_, Smb>,
    mut chain: Chain,
    message: &[u8],
    (frame_start, base): (usize, usize),
) -> Progress<Continuation> {
    chain.settle();
    let out = cx.out.bytes();
    let sent = chain.split(out, base);
    finish(&sent, out, frame_start);
    let message = chain.cut(message);
    let rest = Rest { connection: Arc::downgrade(cx.connection), message, chain };
    Progress::AfterSync(Continuation::Replied(Box::new(Replied {
        chain: sent,
        held: None,
        rest: Some(rest),
    })))
}

/// Finishes the replies of a chain that is done. They leave at the end of the turn, or when flushes are done that they wait for.
fn replied(
    cx: &mut Context<'_, Smb>,
    mut chain: Chain,
    start: usize,
    is_flushed: bool,
) -> Progress<Continuation> {
    let out = cx.out.bytes();
    let is_compressed = chain.compression_of(out.len() - start).is_some();
    if is_flushed && chain.unanswered.is_empty() && !is_compressed && chain.gains_by_company() {
        chain.pad(out, start + FRAMING);
        chain.leave_unsigned(&mut cx.memory.unsigned, out.len(), start + FRAMING);
        framing::finish(out, start, 0);
        return Progress::Done;
    }
    finish(&chain, out, start);
    chain.pages.take().into_iter().for_each(|pages| cx.out.push_pipe(pages));
    if !is_flushed {
        return Progress::AfterSync(Continuation::Replied(Box::new(Replied {
            chain,
            held: None,
            rest: None,
        })));
    }
    if !chain.unanswered.is_empty() {
        send_now(cx, start);
    }
    Progress::Done
}

/// Signs the replies of a chain, compresses and encrypts them where that is wanted, and frames them. Without any, there is no message.
fn finish(chain: &Chain, out: &mut Vec<u8>, start: usize) {
    if chain.replies.is_empty() {
        return out.truncate(start);
    }
    chain.pad(out, start + head_bytes(chain));
    let piped = chain.pages.as_ref().map_or(0, Pipe::held);
    if chain.sealed_by.is_none() {
        chain.sign(out, start + FRAMING);
    }
    chain.compress(out, start + head_bytes(chain));
    if let Some(session) = &chain.sealed_by {
        let is_sealed = session.keys().is_some_and(|keys| keys.seal(session.id, out, start + FRAMING));
        if !is_sealed {
            tracing::error!("the keys of a session are used up: it gets no more replies");
            return out.truncate(start);
        }
    }
    framing::finish(out, start, piped);
}

/// Sends what begins at `start` before the turn is over, so that it is there before what follows from elsewhere.
fn send_now(cx: &mut Context<'_, Smb>, start: usize) {
    let out = cx.out.bytes();
    let mut first = Outbox::default();
    first.bytes().extend_from_slice(&out[start..]);
    out.truncate(start);
    cx.connection.send(&mut first);
}

/// Refuses all commands of a message.
fn refuse(mut chain: Chain, connection: &Connection, heads: &Heads, error: FsError, out: &mut Outbox) {
    let status = of_fs_error(error);
    write(out, &mut chain, |chain, out, base| chain.refuse_rest(connection, heads, status, (out, base)));
}

/// Writes replies of a chain, of which `with` makes the first where it is told.
fn write(out: &mut Outbox, chain: &mut Chain, with: impl FnOnce(&mut Chain, &mut Vec<u8>, usize)) {
    let out = out.bytes();
    let start = out.len();
    let base = start + head_bytes(chain);
    out.resize(base, 0);
    with(chain, out, base);
    finish(chain, out, start);
}

fn push(out: &mut Outbox, message: &[u8]) {
    let out = out.bytes();
    let start = out.len();
    out.extend_from_slice(&[0; FRAMING]);
    out.extend_from_slice(message);
    framing::finish(out, start, 0);
}

/// A look at a running server.
#[derive(Clone)]
pub struct View {
    transport: transport::View<Smb>,
    service: Arc<Service>,
}

/// What clients have over SMB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections now.
    pub connections: usize,
    /// Sessions: users who are logged in.
    pub sessions: usize,
    /// Files and pipes that they have open.
    pub opens: usize,
    /// Logins that were refused since the start.
    pub refused_logins: u64,
    /// Bytes that READs took from files to the network without a copy, since the start.
    pub spliced_bytes: u64,
}

impl View {
    /// Connections now, and those whose sessions are being ended.
    pub fn connections(&self) -> usize {
        self.service.counts.connections()
    }

    /// What clients have.
    pub fn usage(&self) -> Usage {
        Usage {
            connections: self.connections(),
            sessions: self.service.sessions(),
            opens: self.service.counts.opens(),
            refused_logins: self.service.counts.refused(),
            spliced_bytes: self.service.counts.spliced_bytes(),
        }
    }

    /// Everybody who is connected.
    pub fn clients(&self) -> Vec<Client> {
        self.transport.clients()
    }

    /// The connections that a call to a volume was answered on within this time.
    pub fn users(&self, within: Duration) -> Users {
        self.transport.users(within)
    }

    /// How it does.
    pub fn stats(&self) -> Stats {
        self.transport.stats()
    }
}

/// A running server.
pub struct Server {
    server: transport::Server<Smb>,
    service: Arc<Service>,
}

impl Server {
    /// Serves `service` on these listeners.
    pub fn start(service: Arc<Service>, listeners: Vec<TcpListener>, settings: Settings) -> io::Result<Self> {
        let parking = Parking::new("smb-parked", PARKED_CALLS_MAX, PARKED_BYTES_MAX);
        let listeners = listeners.into_iter().map(|listener| (listener, ())).collect();
        let smb = Arc::new(Smb { service: Arc::clone(&service), parking });
        service.endings.start()?;
        let server = transport::Server::start(smb, "smb", listeners, settings)?;
        Ok(Self { server, service })
    }

    /// A look at it.
    pub fn view(&self) -> View {
        View { transport: self.server.view(), service: Arc::clone(&self.service) }
    }

    /// Stops accepting and taking calls, and waits at most `patience` for the calls in flight to be answered, and for what clients have
    /// left to be closed.
    pub fn stop(self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.server.stop(patience / 2);
        self.service.endings.stop(deadline.saturating_duration_since(Instant::now()));
    }
}
