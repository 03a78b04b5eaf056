//! RPC as a protocol of the transport, and the server that speaks it.

use crate::call::Call;
use crate::call_stats::{CallCounters, ThreadCounters, VersionCounts};
use crate::handle::cache::{CachedFile, HandleCache};
use crate::limits::{
    CACHED_CREDENTIALS, CACHED_NAMES, LEASE_CACHE_ENTRIES, PARKED_BYTES_MAX, PARKED_CALLS_MAX,
    RECORD_BYTES_MAX,
};
use crate::programs::Programs;
use crate::records::mark::parse_frame;
use crate::records::reply::Records;
use crate::service::Service;
use crate::state::nfs4::client_info::ClientInfo;
use crate::state::nfs4::wire::Sender;
use crate::state::replay_cache::{InProgress, Verdict, Waiter};
use compounds::{RepliedCompound, SuspendedCompound};
use connection_state::ConnectionState;
use cost::admission;
use deferred::DeferredCall;
use dispatch::{RpcCall, Sideband, Target, route};
use large_write::nfs3::LargeWrite;
use large_write::nfs4::BufferedCompound;
use nfs_wire::rpc::{AuthStat, RecordMark, Rejected};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tls::TlsPolicy;
use transport::{
    Body, CallStats, Connection, Context, DeferredReply, Frame, Listeners, Malformed, Outbox, Parked,
    Parking, PartData, Plan, Progress, Protocol, Role,
};
pub use transport::{Client, ConnectionEnds, Settings, VolumeConnections};
use vfs::bounds::Network;
use vfs::volume::traffic::ReadSource;
use vfs::{Blocking, FsError, Namespace, Origin, Protection, Wait};

mod compounds;
pub(crate) mod connection_state;
pub(crate) mod cost;
mod deferred;
pub mod dispatch;
mod large_write;
mod long_compound;
pub mod tls;
pub mod udp;

pub(crate) struct Rpc {
    service: Arc<Service>,
    /// Deferred compounds of version 4.
    parking: Parking<ParkedCall>,
    /// Deferred calls of version 3. They wait longer, so a pool of their own leaves space to compounds.
    parking_v3: Parking<ParkedCall>,
    /// Hits and misses of the event loops' handle caches.
    handle_hits: AtomicU64,
    handle_misses: AtomicU64,
    counts: Arc<CallCounters>,
}

#[derive(Clone)]
pub(crate) struct Listening {
    programs: Programs,
    /// Whether its connections see only the exports that name its address as an endpoint.
    is_endpoint: bool,
    tls: Option<TlsPolicy>,
}

pub(crate) struct Memory {
    /// The exports at the start of this batch of calls.
    namespace: Arc<Namespace>,
    cache: Option<HandleCache>,
    ticks: u32,
}

/// The point at which a call resumes.
pub(crate) enum Continuation {
    /// The procedure, which would have blocked.
    Blocked(Box<Blocked>),
    /// The reply, which waits for flushes.
    Replied(Box<Replied>),
    /// The next operation of a compound.
    Compound(Box<SuspendedCompound>),
    CompoundReplied(Box<RepliedCompound>),
}

pub(crate) enum Upload {
    Write(Box<LargeWrite>),
    Compound(Box<large_write::nfs4::LargeWrite>),
    /// A compound whose data cannot be written as it arrives.
    Buffered(Box<BufferedCompound>),
}

pub(crate) struct ParkedCall {
    reply: DeferredReply<Rpc>,
    at: Continuation,
}

pub(crate) struct Blocked {
    call: RpcCall,
    args: Vec<u8>,
    read_from: Option<ReadSource>,
    replay: Option<InProgress>,
    deferred: Option<DeferredCall>,
}

pub(crate) struct Replied {
    call: RpcCall,
    replay: Option<InProgress>,
}

/// Bytes of the header of an accepted, successful reply.
pub(crate) const SUCCESS_HEADER_BYTES: usize = 24;
/// Ticks between sweeps of an event loop's caches.
const SWEEP_TICKS: u32 = 2;

impl Protocol for Rpc {
    type Listener = Listening;
    type Session = ConnectionState;
    type Memory = Memory;
    type Target = Rc<CachedFile>;
    type Call = RpcCall;
    type Continuation = Continuation;
    type Upload = Upload;

    const MESSAGE_BYTES_MAX: usize = RECORD_BYTES_MAX;
    const HEAD_BYTES: usize = RecordMark::SIZE + large_write::nfs4::HEAD_BYTES_MAX;
    const TAIL_BYTES_MAX: usize = RECORD_BYTES_MAX;

    fn session(&self, listening: &Listening, ends: transport::Endpoints) -> ConnectionState {
        let endpoint = listening.is_endpoint.then(|| ends.local.to_canonical());
        let tls = listening.tls.clone();
        let (binding, deferred, denied) = Default::default();
        ConnectionState {
            programs: listening.programs,
            endpoint,
            tls,
            binding,
            deferred_calls: deferred,
            denied,
        }
    }

    fn memory(&self, role: Role, cached_files: usize) -> Memory {
        let mut cache = match role {
            Role::EventLoop => Some(HandleCache::new(cached_files, CACHED_NAMES, CACHED_CREDENTIALS)),
            Role::Lease => {
                let files = cached_files.min(LEASE_CACHE_ENTRIES);
                Some(HandleCache::new(files, LEASE_CACHE_ENTRIES, LEASE_CACHE_ENTRIES))
            }
            Role::Job => None,
        };
        if let Some(cache) = &mut cache {
            cache.counts = Some(Box::new(ThreadCounters::new(&self.counts)));
        }
        Memory { namespace: self.service.namespace.load_full(), cache, ticks: 0 }
    }

    fn begin_turn(&self, memory: &mut Memory) {
        if let Some(counts) = memory.cache.as_mut().and_then(|cache| cache.counts.as_mut()) {
            counts.flush_if_large();
        }
        let current = self.service.namespace.load();
        if !Arc::ptr_eq(&current, &memory.namespace) {
            if let Some(cache) = &mut memory.cache {
                cache.change(&memory.namespace, &current);
            }
            memory.namespace = Arc::clone(&current);
        }
    }

    fn tick(&self, memory: &mut Memory) {
        // A volume that is no longer served can close, also if no client calls.
        self.begin_turn(memory);
        memory.ticks += 1;
        let Some(cache) = &mut memory.cache else { return };
        if let Some(counts) = &mut cache.counts {
            counts.flush();
        }
        let (hits, misses) = cache.take_counts();
        self.handle_hits.fetch_add(hits, Ordering::Relaxed);
        self.handle_misses.fetch_add(misses, Ordering::Relaxed);
        if memory.ticks.is_multiple_of(SWEEP_TICKS) {
            cache.sweep();
        }
    }

    #[inline]
    fn frame(&self, have: &[u8], in_parts: bool) -> Result<Frame, Malformed> {
        parse_frame(have, in_parts)
    }

    #[inline]
    fn plan(
        &self,
        connection: &Connection<Self>,
        memory: &mut Memory,
        message: &[u8],
        out: &mut Outbox,
    ) -> Result<Option<Plan<RpcCall>>, Malformed> {
        // Replies to our callbacks arrive on the same connection (RFC 8881 §2.10.3.1).
        if connection.session.binding.wire.take_reply(message) {
            return Ok(None);
        }
        let routed = route(connection.session.programs, message, memory.cache.as_mut(), out);
        let routed = routed.map_err(|error| Malformed(error.0))?;
        let (ConnectionState { endpoint, tls, .. }, protection) =
            (&connection.session, connection.protection());
        // A NULL call does nothing. Clients use it to find the server.
        let admits = |call: &RpcCall| call.is_null() || tls::admits(tls.as_ref(), protection);
        if let Some(call) = routed.as_ref().filter(|call| !admits(call)) {
            tls::refuse(call.xid, out);
            return Ok(None);
        }
        Ok(routed.map(|mut call| {
            let (client, endpoint) = (connection.endpoints.peer.ip(), *endpoint);
            let origin = Origin { client, endpoint, protocol: call.protocol(), protection };
            // Checked before the call runs: its data may take long to arrive.
            let state = &connection.session;
            if !connection.is_proven() && !call.is_null() && state.may_mount(&memory.namespace, origin) {
                connection.prove();
            }
            let args = call.args(message);
            let payer = connection.client();
            let admission = admission(&mut call, args, &self.service, &memory.namespace, origin, payer);
            Plan { dispatch: call.dispatch(), call, admission }
        }))
    }

    fn may_stream(&self, _: &Connection<Self>, call: &RpcCall) -> bool {
        call.streams()
    }

    fn reply_bytes_max(&self, call: &RpcCall, message: &[u8]) -> u32 {
        call.reply_bytes_max(call.args(message))
    }

    fn reply_bytes_max_at(&self, at: &Continuation) -> u32 {
        match at {
            Continuation::Blocked(blocked) => blocked.call.reply_bytes_max(&blocked.args),
            Continuation::Compound(compound) => compound.call.reply_bytes_max(&compound.args),
            Continuation::Replied(_) | Continuation::CompoundReplied(_) => 0,
        }
    }

    fn bytes_at(&self, at: &Continuation) -> usize {
        at.bytes()
    }

    #[inline]
    fn run(&self, cx: &mut Context<'_, Self>, call: RpcCall, message: &[u8]) -> Progress<Continuation> {
        let mut replay = None;
        if !call.is_idempotent() {
            replay = match self.check_replay_cache(cx, &call, message) {
                Ok(begun) => begun,
                Err(answered) => return answered,
            };
        }
        let args = call.args(message);
        match (call.target, &cx.session().tls) {
            (Target::Compound(_), _) => {
                let flushes = cx.pending.added();
                self.compound(cx, call, args, None, flushes, replay)
            }
            (Target::Sideband(Sideband::StartTls), Some(policy)) => {
                let policy = policy.clone();
                start_tls(cx, call, &policy)
            }
            _ => self.perform(cx, call, args, replay, None),
        }
    }

    fn resume(&self, cx: &mut Context<'_, Self>, at: Continuation) -> Progress<Continuation> {
        match at {
            Continuation::Blocked(blocked) => {
                let Blocked { call, args, read_from, replay, deferred } = *blocked;
                // Memory was tried before the call moved to this thread, and must not be tried again.
                cx.stats.read_from = read_from;
                self.perform(cx, call, &args, replay, deferred)
            }
            Continuation::Compound(compound) => self.resume_compound(cx, *compound),
            // The reply is in the outbox already.
            Continuation::Replied(_) | Continuation::CompoundReplied(_) => Progress::Done,
        }
    }

    fn synced(&self, at: Continuation, reply: Option<&[u8]>) -> Option<Continuation> {
        let record = reply.and_then(|reply| reply.get(RecordMark::SIZE..));
        match at {
            Continuation::Replied(replied) => {
                complete_replay(replied.replay, record);
            }
            Continuation::CompoundReplied(replied) => {
                replied.results.complete(record.and_then(|record| record.get(SUCCESS_HEADER_BYTES..)));
                complete_replay(replied.replay, record);
            }
            Continuation::Blocked(_) | Continuation::Compound(_) => {}
        }
        None
    }

    fn fail(&self, at: Continuation, error: FsError, out: &mut Outbox) {
        let start = out.start();
        match at {
            Continuation::Blocked(blocked) => {
                let Blocked { call, args, replay, .. } = *blocked;
                call.fail(&args, error, out);
                complete_replay(replay, out.record(start));
            }
            Continuation::Replied(replied) => {
                let Replied { call, replay } = *replied;
                call.fail(&[], error, out);
                complete_replay(replay, out.record(start));
            }
            Continuation::Compound(compound) => compound.call.fail(&compound.args, error, out),
            Continuation::CompoundReplied(replied) => {
                let RepliedCompound { xid, replay, results } = *replied;
                let start = out.begin_success(xid);
                results.fail(error, &mut out.writer());
                out.finish(start);
                complete_replay(replay, out.record(start));
            }
        }
    }

    fn finish_without_tokens(&self, cx: &mut Context<'_, Self>, at: Continuation) -> Progress<Continuation> {
        match at {
            Continuation::Compound(mut compound) => {
                compound.at.cannot_pay();
                self.resume_compound(cx, *compound)
            }
            at => {
                self.fail(at, FsError::Wait(Wait::Recall), cx.out);
                Progress::Done
            }
        }
    }

    fn refuse(&self, call: &RpcCall, message: &[u8], error: FsError, out: &mut Outbox) {
        call.fail(call.args(message), error, out);
    }

    fn begin_upload(
        &self,
        call: RpcCall,
        head: &[u8],
        message_bytes: usize,
        refusal: Option<FsError>,
    ) -> Result<(Upload, Body), Malformed> {
        let begun = if let Target::Compound(_) = call.target {
            Ok(match large_write::nfs4::LargeWrite::begin(call, head, message_bytes, refusal) {
                Ok((write, body)) => (Upload::Compound(Box::new(write)), body),
                Err(buffered) => (Upload::Buffered(Box::new(buffered)), Body { start: 0, len: 0 }),
            })
        } else {
            LargeWrite::begin(call, head, message_bytes, refusal)
                .map(|(write, body)| (Upload::Write(Box::new(write)), body))
        };
        begun.map_err(|error| Malformed(error.0))
    }

    fn upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: &mut Upload,
        at: usize,
        data: PartData<'_>,
    ) -> usize {
        let connection = cx.connection;
        let call = upload.call().clone();
        let (mut call, _) = self.call(cx, &call);
        match upload {
            Upload::Write(write) => write.write_part(&mut call, at, data),
            Upload::Compound(write) => write.write_part(&mut call, &connection.session.binding, at, data),
            // A buffered compound has no body.
            Upload::Buffered(_) => 0,
        }
    }

    fn finish_upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: Upload,
        tail: &[u8],
    ) -> Progress<Continuation> {
        let upload = match upload {
            Upload::Buffered(buffered) => return self.run_buffered(cx, *buffered, tail),
            upload => upload,
        };
        let call = upload.call().clone();
        let flushes = cx.pending.added();
        let connection = cx.connection;
        let (mut written, out) = self.call(cx, &call);
        match upload {
            Upload::Write(write) => {
                write.finish(&mut written, out);
                let stats = written.stats;
                self.finish_call(cx, call, stats, flushes, None)
            }
            Upload::Compound(write) => {
                let (args, refusal, at) = write.finish(&mut written, &connection.session.binding, tail);
                cx.stats = written.stats;
                if let Some(error) = refusal {
                    call.fail(&args, error, cx.out);
                    return Progress::Done;
                }
                self.compound(cx, call, &args, at, flushes, None)
            }
            Upload::Buffered(_) => Progress::Done,
        }
    }
}

/// Answers a STARTTLS call, RFC 9289 §4.1. A connection has at most one handshake.
fn start_tls(cx: &mut Context<'_, Rpc>, call: RpcCall, policy: &TlsPolicy) -> Progress<Continuation> {
    let stat = if cx.connection.protection() == Protection::Plain {
        match policy.tls.accept() {
            // The reply leaves in clear, and the handshake follows it.
            Ok(transform) if cx.connection.begin_handshake() => {
                tls::reply(call.xid, cx.out);
                return Progress::Switch(transform);
            }
            Ok(_) => AuthStat::FAILED,
            Err(error) => {
                tracing::error!(%error, "cannot start a TLS handshake");
                AuthStat::FAILED
            }
        }
    } else {
        AuthStat::BADCRED
    };
    cx.out.reject(call.xid, Rejected::AuthError(stat));
    Progress::Done
}

/// Sends the reply to repetitions that wait for the call, if it is in memory.
pub(crate) fn complete_replay(replay: Option<InProgress>, record: Option<&[u8]>) {
    if let (Some(replay), Some(record)) = (replay, record) {
        replay.complete(record);
    }
}

impl Rpc {
    /// The context of a procedure, and the outbox for its reply.
    #[inline]
    pub(crate) fn call<'c>(
        &'c self,
        cx: &'c mut Context<'_, Self>,
        call: &'c RpcCall,
    ) -> (Call<'c>, &'c mut Outbox) {
        let transport::Endpoints { peer, local } = cx.connection.endpoints;
        let moves_pages = cx.moves_pages();
        let call = Call {
            service: &self.service,
            namespace: &cx.memory.namespace,
            peer,
            payer: cx.connection.client(),
            local,
            endpoint: cx.connection.session.endpoint,
            protocol: call.protocol(),
            protection: cx.connection.protection(),
            moves_pages,
            credential: &call.credential,
            now: cx.now,
            blocking: cx.blocking,
            cache: cx.memory.cache.as_mut(),
            pending: cx.pending,
            stats: std::mem::take(&mut cx.stats),
            permit: &mut cx.permit,
        };
        (call, cx.out)
    }

    /// Looks a non-idempotent call up in the replay cache, and adds it if it is new. An error ends a repetition.
    fn check_replay_cache(
        &self,
        cx: &mut Context<'_, Self>,
        call: &RpcCall,
        message: &[u8],
    ) -> Result<Option<InProgress>, Progress<Continuation>> {
        let (Some(cache), Some(procedure)) = (&self.service.replay, call.procedure()) else {
            return Ok(None);
        };
        let peer = cx.endpoints().peer;
        let key = cache.key((peer, cx.connection.protection()), call.xid, procedure, message);
        match cache.begin(&key, || Box::new(cx.detach())) {
            Verdict::New => Ok(Some(InProgress::new(cache, key, self.service.networks.of(peer.ip())))),
            // The running call answers this one as well.
            Verdict::Waits => Err(Progress::Detached),
            Verdict::Replay(reply) => {
                cx.out.push_record(&reply);
                Err(Progress::Done)
            }
        }
    }

    /// Runs a call. A reply without a flush also answers the repetitions that wait for `replay`.
    /// Without a reply in memory, the repetitions end unanswered.
    #[inline]
    fn perform(
        &self,
        cx: &mut Context<'_, Self>,
        call: RpcCall,
        args: &[u8],
        mut replay: Option<InProgress>,
        deferred: Option<DeferredCall>,
    ) -> Progress<Continuation> {
        let (flushes, start) = (cx.pending.added(), cx.out.start());
        let (mut performed, out) = self.call(cx, &call);
        if let Err(wait) = call.perform(args, &mut performed, out) {
            let read_from = performed.stats.read_from;
            let blocked = Blocked { call, args: args.to_vec(), read_from, replay, deferred };
            return self.retry(cx, wait, Box::new(blocked));
        }
        let stats = performed.stats;
        if let Some(answered) = replay.take_if(|_| cx.pending.added() == flushes)
            && let Some(record) = cx.out.record(start)
        {
            answered.complete(record);
        }
        self.finish_call(cx, call, stats, flushes, replay)
    }

    /// Schedules a retry, or refuses the call (NFS3ERR_JUKEBOX), and the client retries.
    fn retry(
        &self,
        cx: &mut Context<'_, Self>,
        wait: Wait,
        mut blocked: Box<Blocked>,
    ) -> Progress<Continuation> {
        // Moves to a thread that may block.
        if wait == Wait::Storage && cx.blocking == Blocking::Never {
            return Progress::WaitForStorage(Continuation::Blocked(blocked));
        }
        let retries = match wait {
            Wait::Recall => blocked.count_retry(&cx.session().deferred_calls),
            // A backend that refuses to wait on a thread that may.
            Wait::Storage | Wait::Tokens | Wait::Event => None,
        };
        let (moved, mut at) = (blocked.call.moved(&blocked.args), Continuation::Blocked(blocked));
        if let Some(retries) = retries {
            match self.park(cx, at, retries) {
                Ok(()) => {
                    // The permit pays for the call when it resumes.
                    cx.stats.transferred = moved;
                    return Progress::Detached;
                }
                Err(back) => at = back,
            }
        }
        self.fail(at, FsError::Wait(Wait::Recall), cx.out);
        Progress::Done
    }

    /// Parks a call for a time that doubles with each retry. Returns it if too many are parked.
    pub(crate) fn park(
        &self,
        cx: &Context<'_, Self>,
        at: Continuation,
        retries: u32,
    ) -> Result<(), Continuation> {
        let parking = if matches!(at, Continuation::Blocked(_)) { &self.parking_v3 } else { &self.parking };
        let parked = ParkedCall { reply: cx.detach(), at };
        parking.park(parked, Duration::from_millis(2 << retries)).map_err(|parked| parked.at)
    }

    /// Ends a call after its reply is written. The reply leaves at once, or after the call's flushes.
    #[inline]
    fn finish_call(
        &self,
        cx: &mut Context<'_, Self>,
        call: RpcCall,
        stats: CallStats<Rc<CachedFile>>,
        flushes: usize,
        replay: Option<InProgress>,
    ) -> Progress<Continuation> {
        cx.stats = CallStats { kind: call.kind(), ..stats };
        if cx.pending.added() == flushes {
            return Progress::Done;
        }
        Progress::AfterSync(Continuation::Replied(Box::new(Replied { call, replay })))
    }
}

impl Continuation {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Blocked(blocked) => size_of::<Blocked>() + blocked.args.len(),
            Self::Compound(compound) => compound.args.len() + compound.at.bytes(),
            Self::Replied(_) | Self::CompoundReplied(_) => 0,
        }
    }
}

impl Blocked {
    /// Counts a retry, and returns the number of earlier ones; `None` if the call cannot be deferred.
    fn count_retry(&mut self, calls: &Arc<AtomicU32>) -> Option<u32> {
        let deferred = self.deferred.take().or_else(|| DeferredCall::new(calls))?;
        self.deferred.insert(deferred).count_retry()
    }
}

impl Parked for ParkedCall {
    fn bytes(&self) -> usize {
        self.at.bytes()
    }

    fn network(&self) -> Network {
        self.reply.network()
    }

    fn resume(self) {
        self.reply.resume(self.at);
    }
}

impl Sender for Connection<Rpc> {
    fn send_record(&self, record: &[u8]) {
        let mut out = Outbox::default();
        out.push_record(record);
        self.send(&mut out);
    }
}

impl Waiter for DeferredReply<Rpc> {
    fn answer(self: Box<Self>, reply: &[u8]) {
        let mut out = Outbox::default();
        out.push_record(reply);
        Self::send(*self, &mut out);
    }

    fn give_up(self: Box<Self>) {
        Self::close_connection(*self);
    }
}

pub struct Server {
    server: transport::Server<Rpc>,
    rpc: Arc<Rpc>,
    tls: Option<TlsPolicy>,
}

impl Server {
    /// Serves `service` on these listeners, at the service's own addresses: their clients see all exports.
    /// The port mapper has only public information, so it needs no TLS.
    pub fn start(
        service: Arc<Service>,
        listeners: Vec<(TcpListener, Programs)>,
        tls: Option<TlsPolicy>,
        settings: Settings,
    ) -> io::Result<Self> {
        let (handle_hits, handle_misses) = (AtomicU64::new(0), AtomicU64::new(0));
        let [parking, parking_v3] =
            ["nfs-parked", "nfs3-parked"].map(|name| Parking::new(name, PARKED_CALLS_MAX, PARKED_BYTES_MAX));
        let counts = Arc::default();
        let rpc = Arc::new(Rpc { service, parking, parking_v3, handle_hits, handle_misses, counts });
        let own = |(listener, programs): (TcpListener, Programs)| {
            let tls = tls.clone().filter(|_| !programs.portmap);
            (listener, Listening { programs, is_endpoint: false, tls })
        };
        let listeners = listeners.into_iter().map(own).collect();
        let server = transport::Server::start(Arc::clone(&rpc), "nfs", listeners, settings)?;
        Ok(Self { server, rpc, tls })
    }

    pub fn endpoints(&self) -> Endpoints {
        Endpoints { listeners: self.server.listeners(), tls: self.tls.clone() }
    }

    pub fn view(&self) -> View {
        View { view: self.server.view(), rpc: Arc::clone(&self.rpc) }
    }

    /// Stops accepting connections and calls. Waits at most `timeout` for the replies to calls in progress.
    pub fn stop(self, timeout: Duration) {
        self.server.stop(timeout);
    }
}

/// Addresses that serve only the exports naming them. They may change while the server runs.
pub struct Endpoints {
    listeners: Listeners<Listening>,
    tls: Option<TlsPolicy>,
}

impl Endpoints {
    pub fn add(&self, listener: TcpListener) -> io::Result<()> {
        let programs = Programs { nfs: true, mount: true, portmap: false, locks: true, quotas: false };
        let tls = self.tls.clone();
        self.listeners.add(listener, Listening { programs, is_endpoint: true, tls })
    }

    pub fn remove(&self, address: SocketAddr) {
        self.listeners.remove(address);
    }
}

#[derive(Clone)]
pub struct View {
    view: transport::View<Rpc>,
    rpc: Arc<Rpc>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub transport: transport::Stats,
    /// Hits of the event loops' handle caches, up to one second old.
    pub handle_hits: u64,
    /// Misses of the event loops' handle caches, up to one second old.
    pub handle_misses: u64,
}

impl View {
    pub fn connections(&self) -> usize {
        self.view.connections()
    }

    pub fn clients(&self) -> Vec<Client> {
        self.view.clients()
    }

    /// The ends of current connections, at most this many, the newest first.
    pub fn connection_ends(&self, most: usize) -> Vec<ConnectionEnds> {
        self.view.connection_ends(most)
    }

    /// The clients of NFSv4, connected or not.
    pub fn nfs4_clients(&self) -> Vec<ClientInfo> {
        self.rpc.service.v4.client_infos()
    }

    /// The connections that received a reply about a volume within this time.
    pub fn users(&self, within: Duration) -> VolumeConnections {
        self.view.volume_connections(within)
    }

    /// Call counts by version, at most about a second old.
    pub fn counts(&self) -> Vec<VersionCounts> {
        self.rpc.counts.snapshot()
    }

    pub fn stats(&self) -> Stats {
        Stats {
            transport: self.view.stats(),
            handle_hits: self.rpc.handle_hits.load(Ordering::Relaxed),
            handle_misses: self.rpc.handle_misses.load(Ordering::Relaxed),
        }
    }
}
