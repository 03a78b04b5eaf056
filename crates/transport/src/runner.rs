//! The runner of calls, used by both event loops and storage threads.
//!
//! Replies that are ready leave together. Replies that wait for flushes leave when all flushes of the turn are done,
//! each file's once.

use crate::admission::{Admitted, admit, admit_later};
use crate::buffer::Buffer;
use crate::clock;
use crate::connection::{Connection, Work};
use crate::context::Context;
use crate::counters::{CallStats, OpCounters};
use crate::inbound::{Inbound, Message, Step};
use crate::limits::{TURN_BYTES_MAX, TURN_CALLS_MAX};
use crate::message::{Dispatch, Malformed, PartData};
use crate::outbox::{Outbox, Start};
use crate::pacing::ReplyPacing;
use crate::protocol::{Plan, Progress, Protocol};
use crate::tls::transform::Transform;
use crate::upload::{Part, UploadState};
use std::sync::Arc;
use std::time::Instant;
use vfs::qos::{Admission, Permit, Transferred};
use vfs::{Blocking, FsError, PendingSync, Time, Wait};

pub(crate) struct Runner<P: Protocol> {
    memory: P::Memory,
    ready: Outbox,
    counters: OpCounters<P::Target>,
    awaiting_sync: Outbox,
    calls_awaiting_sync: Vec<CallAwaitingSync<P>>,
    counters_awaiting_sync: OpCounters<P::Target>,
    pending: PendingSync,
    /// The time of day at the start of this turn, and the time at which its calls were received.
    now: Time,
    received: Instant,
    /// Calls of this turn that are counted as in progress.
    in_progress: u32,
}

struct CallAwaitingSync<P: Protocol> {
    at: P::Continuation,
    start: Start,
    end: Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunSite {
    EventLoop,
    Lease,
}

/// An admitted call that waits for a storage thread, which leases the connection.
pub(crate) struct LeasedCall<P: Protocol> {
    call: P::Call,
    permit: Option<Permit>,
    message: Message,
}

impl<P: Protocol> LeasedCall<P> {
    /// Moves the message out of the receive buffer.
    pub(crate) fn detach_from(self, buffer: Option<&Buffer>) -> Self {
        Self { message: Message::Assembled(self.message.into_bytes(buffer)), ..self }
    }
}

pub(crate) enum TurnEnd<P: Protocol> {
    /// More bytes must be received first.
    Receive,
    /// The next connection has its turn.
    Yield,
    /// No more calls may be taken now.
    Full,
    Lease(Option<LeasedCall<P>>),
}

pub(crate) struct Turn<P: Protocol> {
    pub(crate) end: Result<TurnEnd<P>, Malformed>,
    /// Whether a message was processed.
    pub(crate) progressed: bool,
    pub(crate) used_storage: bool,
}

impl<P: Protocol> Runner<P> {
    pub(crate) fn new(memory: P::Memory) -> Self {
        Self {
            memory,
            ready: Outbox::default(),
            counters: OpCounters::default(),
            awaiting_sync: Outbox::default(),
            calls_awaiting_sync: Vec::new(),
            counters_awaiting_sync: OpCounters::default(),
            pending: PendingSync::default(),
            now: Time::default(),
            received: Instant::now(),
            in_progress: 0,
        }
    }

    pub(crate) fn memory(&mut self) -> &mut P::Memory {
        &mut self.memory
    }

    pub(crate) fn begin(&mut self, connection: &Connection<P>, received: Instant) {
        connection.protocol.begin_turn(&mut self.memory);
        (self.now, self.received) = (clock::now(), received);
    }

    /// Processes the received bytes, as far as `site` may. `is_alone`: no other connection is ready.
    pub(crate) fn turn(
        &mut self,
        connection: &Arc<Connection<P>>,
        inbound: &mut Inbound<P>,
        first: Option<LeasedCall<P>>,
        site: RunSite,
        is_alone: bool,
    ) -> Turn<P> {
        self.begin(connection, Instant::now());
        let mut turn = Turn { end: Ok(TurnEnd::Receive), progressed: false, used_storage: first.is_some() };
        if let Some(LeasedCall { call, permit, message }) = first {
            self.run_blocking(connection, call, message.bytes(inbound.buffer.as_ref()), permit);
        }
        let mut pacing = ReplyPacing::new(inbound.buffered_bytes(), is_alone, self.received);
        let mut calls = 0;
        turn.end = loop {
            let has_much = self.ready.pending() >= TURN_BYTES_MAX;
            match site {
                RunSite::EventLoop if calls == TURN_CALLS_MAX || has_much => break Ok(TurnEnd::Yield),
                RunSite::Lease if has_much => self.send(connection),
                RunSite::EventLoop | RunSite::Lease => {}
            }
            if !connection.may_take_calls() {
                break Ok(TurnEnd::Full);
            }
            calls += 1;
            match inbound.next(&*connection.protocol) {
                Err(error) => break Err(error),
                Ok(Step::Receive) => break Ok(TurnEnd::Receive),
                Ok(Step::Message(message)) => {
                    turn.progressed = true;
                    let len = message.bytes(inbound.buffer.as_ref()).len();
                    match self.plan_and_run(connection, inbound, message, site, &mut turn.used_storage) {
                        Ok(None) => {}
                        Ok(first) => break Ok(TurnEnd::Lease(first)),
                        Err(error) => break Err(error),
                    }
                    if pacing.note_call(len) && pacing.is_worth_a_send(self.ready.pending(), Instant::now()) {
                        self.send(connection);
                    }
                }
                Ok(Step::Begin { .. } | Step::Upload) if site == RunSite::EventLoop => {
                    break Ok(TurnEnd::Lease(None));
                }
                Ok(Step::Begin { framing, len }) => {
                    turn.used_storage = true;
                    if let Err(error) = self.begin_upload(connection, inbound, framing, len) {
                        break Err(error);
                    }
                }
                Ok(Step::Upload) => {
                    (turn.progressed, turn.used_storage) = (true, true);
                    self.upload(connection, inbound);
                }
            }
        };
        self.finish(connection);
        turn
    }

    /// Plans a message and performs its call, or hands it on. On an event loop, returns a call that needs a lease.
    fn plan_and_run(
        &mut self,
        connection: &Arc<Connection<P>>,
        inbound: &mut Inbound<P>,
        message: Message,
        site: RunSite,
        used_storage: &mut bool,
    ) -> Result<Option<LeasedCall<P>>, Malformed> {
        let protocol = &*connection.protocol;
        let planned = inbound.planned.take();
        let bytes = message.bytes(inbound.buffer.as_ref());
        let plan = match planned {
            Some(plan) => {
                connection.queue.unreserve();
                Some(plan)
            }
            None => protocol.plan(connection, &mut self.memory, bytes, &mut self.ready)?,
        };
        let Some(plan) = plan else { return Ok(None) };
        let buffer = inbound.buffer.as_ref();
        let Some(admitted) = admit(connection, plan, message, buffer, &mut self.ready) else {
            return Ok(None);
        };
        let Admitted { call, message, dispatch, permit } = admitted;
        match dispatch {
            Dispatch::Inline => {
                let transform = self.run_inline(connection, call, message.bytes(buffer), permit);
                if let Some(transform) = transform {
                    connection.switch(&mut self.ready, transform);
                    inbound.begin_transform(connection)?;
                }
            }
            Dispatch::Offload => {
                let message = message.into_bytes(buffer);
                connection.submit(Work::Call { call, message, permit, received: self.received });
            }
            Dispatch::Batched if site == RunSite::EventLoop => {
                return Ok(Some(LeasedCall { call, permit, message }));
            }
            Dispatch::Batched => {
                *used_storage = true;
                self.run_blocking(connection, call, message.bytes(buffer), permit);
            }
        }
        Ok(None)
    }

    /// Performs a call without blocking; one that needs storage continues on a storage thread. Returns the connection's
    /// new transform, if the call begins one.
    #[inline]
    fn run_inline(
        &mut self,
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: &[u8],
        permit: Option<Permit>,
    ) -> Option<Box<dyn Transform>> {
        let run = |cx: &mut Context<'_, P>| connection.protocol.run(cx, call, message);
        match self.attempt(connection, Blocking::Never, permit, run) {
            Attempt::Done => None,
            Attempt::Switch(transform) => Some(transform),
            Attempt::WaitForStorage(at, permit) => {
                connection.submit(Work::Resume { at, permit, received: self.received });
                None
            }
        }
    }

    fn run_blocking(
        &mut self,
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: &[u8],
        permit: Option<Permit>,
    ) {
        connection.begin_calls(1);
        self.in_progress += 1;
        self.run_to_end(connection, permit, |cx| connection.protocol.run(cx, call, message));
    }

    /// Performs a single call on a storage thread, or refuses it because clients have too many unread replies.
    pub(crate) fn run_job(
        &mut self,
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: &[u8],
        permit: Option<Permit>,
        is_refused: bool,
    ) {
        let protocol = &*connection.protocol;
        if is_refused {
            protocol.refuse(&call, message, FsError::Wait(Wait::Recall), &mut self.ready);
        } else {
            self.run_to_end(connection, permit, |cx| protocol.run(cx, call, message));
        }
        self.finish(connection);
    }

    /// Resumes a single call on a storage thread, or refuses it.
    pub(crate) fn resume_job(
        &mut self,
        connection: &Arc<Connection<P>>,
        at: P::Continuation,
        permit: Option<Permit>,
        is_refused: bool,
    ) {
        let protocol = &*connection.protocol;
        if is_refused {
            protocol.fail(at, FsError::Wait(Wait::Recall), &mut self.ready);
        } else {
            self.run_to_end(connection, permit, |cx| protocol.resume(cx, at));
        }
        self.finish(connection);
    }

    /// Performs an admitted call on an event loop. Its reply is not sent yet.
    pub(crate) fn run_queued(
        &mut self,
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: &[u8],
        since: Instant,
        permit: Permit,
    ) {
        self.begin(connection, since);
        // A call that has waited for a limit never begins a transform.
        let _ = self.run_inline(connection, call, message, Some(permit));
        self.counters.flush(since.elapsed(), |volume| connection.note_volume(volume));
    }

    fn run_to_end(
        &mut self,
        connection: &Arc<Connection<P>>,
        permit: Option<Permit>,
        run: impl FnOnce(&mut Context<'_, P>) -> Progress<P::Continuation>,
    ) {
        match self.attempt(connection, Blocking::Allowed, permit, run) {
            Attempt::Done => {}
            Attempt::Switch(_) | Attempt::WaitForStorage(..) => {
                tracing::error!(peer = %connection.endpoints.peer, "a call did not finish on its storage thread; its connection is closed");
                connection.close();
            }
        }
    }

    #[inline]
    fn attempt(
        &mut self,
        connection: &Arc<Connection<P>>,
        blocking: Blocking,
        permit: Option<Permit>,
        run: impl FnOnce(&mut Context<'_, P>) -> Progress<P::Continuation>,
    ) -> Attempt<P> {
        let protocol = &*connection.protocol;
        let refused = match self.attempt_once(connection, blocking, permit, run) {
            Ok(attempt) => return attempt,
            Err(at) => {
                self.attempt_once(connection, blocking, None, |cx| protocol.finish_without_tokens(cx, at))
            }
        };
        refused.unwrap_or_else(|at| {
            protocol.fail(at, FsError::Wait(Wait::Recall), &mut self.ready);
            Attempt::Done
        })
    }

    /// Makes one attempt. Returns the continuation of a call that needs tokens and finds the queue full.
    #[inline]
    fn attempt_once(
        &mut self,
        connection: &Arc<Connection<P>>,
        blocking: Blocking,
        permit: Option<Permit>,
        run: impl FnOnce(&mut Context<'_, P>) -> Progress<P::Continuation>,
    ) -> Result<Attempt<P>, P::Continuation> {
        let start = self.ready.start();
        let mut cx = Context {
            connection,
            memory: &mut self.memory,
            out: &mut self.ready,
            pending: &mut self.pending,
            blocking,
            now: self.now,
            stats: CallStats::default(),
            permit,
        };
        let progress = run(&mut cx);
        let (mut stats, permit) = (cx.stats, cx.permit);
        let (mut synced, mut switch, mut wait) = (None, None, None);
        match progress {
            Progress::WaitForStorage(at) => {
                self.ready.truncate(start);
                return Ok(Attempt::WaitForStorage(at, permit));
            }
            Progress::Done | Progress::Detached => {}
            Progress::AfterSync(at) => synced = Some(at),
            Progress::Switch(transform) => switch = Some(transform),
            Progress::WaitForTokens { at, admission } => wait = Some((at, admission)),
        }
        stats.record_transferred(permit);
        if let Some((at, admission)) = wait
            && let Err(at) = admit_later(connection, at, &admission)
        {
            return Err(at);
        }
        if let Some(at) = synced {
            let begin = self.awaiting_sync.start();
            self.awaiting_sync.append_from(&mut self.ready, start);
            self.calls_awaiting_sync.push(CallAwaitingSync {
                at,
                start: begin,
                end: self.awaiting_sync.start(),
            });
            self.counters_awaiting_sync.add(stats);
        } else {
            self.counters.add(stats);
        }
        Ok(switch.map_or(Attempt::Done, Attempt::Switch))
    }

    /// Begins to receive the body of the message at the front of the buffer. A call that must wait for a limit is
    /// assembled in memory and queued. If the queue is full, it is refused, whatever its body is.
    fn begin_upload(
        &mut self,
        connection: &Arc<Connection<P>>,
        inbound: &mut Inbound<P>,
        framing: usize,
        len: usize,
    ) -> Result<(), Malformed> {
        let protocol = &*connection.protocol;
        let Some(buffer) = &mut inbound.buffer else { return Ok(()) };
        let head = &buffer.bytes()[framing..];
        let plan = protocol.plan(connection, &mut self.memory, head, &mut self.ready)?;
        let plan = plan.filter(|plan| protocol.may_stream(connection, &plan.call));
        let plan = plan.ok_or(Malformed("a message of this kind above the limit"))?;
        let (permit, refusal) = match plan.admission.map(Admission::try_acquire) {
            None => (None, None),
            Some(Ok(permit)) => (Some(permit), None),
            Some(Err(admission)) if connection.queue.reserve(len) => {
                inbound.planned = Some(Plan { admission: Some(admission), ..plan });
                buffer.start += framing;
                inbound.assembly.begin_whole(len);
                return Ok(());
            }
            Some(Err(_)) => (None, Some(FsError::Wait(Wait::Recall))),
        };
        let (upload, body) = protocol.begin_upload(plan.call, head, len, refusal)?;
        inbound.uploading = Some(UploadState::new(upload, permit, body, len, &connection.resources.tails)?);
        buffer.start += framing + body.start;
        connection.begin_calls(1);
        Ok(())
    }

    /// Processes the received part of a body, and performs the call at its end.
    fn upload(&mut self, connection: &Arc<Connection<P>>, inbound: &mut Inbound<P>) {
        let protocol = &*connection.protocol;
        let Some(uploading) = &mut inbound.uploading else { return };
        let Some(part) = uploading.next(&mut inbound.buffer) else { return };
        let (at, data) = match part {
            Part::Piped { at, pipe } => (at, PartData::Pipe(pipe)),
            Part::Received { at, range } => {
                let received = inbound.buffer.as_ref().map_or(&[][..], |buffer| &buffer.all()[range]);
                (at, PartData::Bytes(received))
            }
            Part::End => {
                let Some(uploading) = inbound.uploading.take() else { return };
                let UploadState { upload, permit, since, tail, .. } = uploading;
                self.send(connection);
                self.received = since;
                self.in_progress += 1;
                let finish = |cx: &mut Context<'_, P>| protocol.finish_upload(cx, upload, tail.bytes());
                return self.run_to_end(connection, permit, finish);
            }
        };
        let mut cx = Context {
            connection,
            memory: &mut self.memory,
            out: &mut self.ready,
            pending: &mut self.pending,
            blocking: Blocking::Allowed,
            now: self.now,
            stats: CallStats::default(),
            permit: uploading.permit.take(),
        };
        let stored = protocol.upload(&mut cx, &mut uploading.upload, at, data);
        uploading.permit = cx.permit;
        if let Some(permit) = &mut uploading.permit {
            permit.record(Transferred::written(stored));
        }
    }

    pub(crate) fn send(&mut self, connection: &Connection<P>) {
        if !self.ready.is_empty() {
            connection.protocol.before_send(&mut self.memory, &mut self.ready);
            connection.send(&mut self.ready);
        }
        self.counters.flush(self.received.elapsed(), |volume| connection.note_volume(volume));
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.ready.pending()
    }

    /// Sends the ready replies, performs the flushes, and sends the replies that wait for them.
    fn finish(&mut self, connection: &Connection<P>) {
        self.send(connection);
        if !self.calls_awaiting_sync.is_empty() {
            self.sync(connection);
        }
        connection.protocol.end_turn(&mut self.memory);
        if self.in_progress > 0 {
            connection.end_calls(std::mem::take(&mut self.in_progress));
        }
    }

    fn sync(&mut self, connection: &Connection<P>) {
        let protocol = &*connection.protocol;
        let mut leaving = Vec::new();
        match self.pending.sync_all() {
            Ok(()) => {
                for CallAwaitingSync { at, start, end } in self.calls_awaiting_sync.drain(..) {
                    leaving.extend(protocol.synced(at, self.awaiting_sync.between(start, end)));
                }
            }
            // After a failed flush no reply may acknowledge stability. Earlier unstable writes may be lost too, which
            // the volume's new write verifier tells clients.
            Err(error) => {
                let peer = connection.endpoints.peer;
                tracing::error!(%peer, %error, "a flush failed; the calls that waited for it get an error");
                self.awaiting_sync.clear();
                for CallAwaitingSync { at, .. } in self.calls_awaiting_sync.drain(..) {
                    protocol.fail(at, error, &mut self.awaiting_sync);
                }
            }
        }
        connection.send(&mut self.awaiting_sync);
        drop(leaving);
        self.counters_awaiting_sync.flush(self.received.elapsed(), |volume| connection.note_volume(volume));
    }
}

enum Attempt<P: Protocol> {
    Done,
    Switch(Box<dyn Transform>),
    WaitForStorage(P::Continuation, Option<Permit>),
}
