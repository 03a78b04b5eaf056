//! Calls being done: what both an event loop and a storage thread do with received bytes.
//!
//! Replies that may leave are gathered and leave together; those that wait for flushes are held until all flushes of the turn
//! are done, each file's once.

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
use crate::transform::Transform;
use crate::upload::{Part, Uploading};
use std::sync::Arc;
use std::time::Instant;
use vfs::qos::{Admission, Permit, Transferred};
use vfs::{Blocking, FsError, PendingSync, Time, Wait};

/// What does calls on one thread.
pub(crate) struct Runner<P: Protocol> {
    memory: P::Memory,
    /// Replies that may leave, and what their calls have done.
    ready: Outbox,
    counters: OpCounters<P::Target>,
    /// Replies that leave after the pending flushes.
    held: Outbox,
    held_calls: Vec<Held<P>>,
    held_counters: OpCounters<P::Target>,
    pending: PendingSync,
    /// The time of day at the start of this turn, and when its calls were received.
    now: Time,
    received: Instant,
    /// Calls begun in this turn that count as in progress.
    in_progress: u32,
}

/// A call whose reply is held.
struct Held<P: Protocol> {
    at: P::Continuation,
    start: Start,
    end: Start,
}

/// Where a turn is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// On an event loop, which must not block.
    EventLoop,
    /// On a storage thread that has leased the connection.
    Lease,
}

/// A call that is admitted and waits for a storage thread, which gets the connection with it.
pub(crate) struct First<P: Protocol> {
    call: P::Call,
    charge: Option<Permit>,
    message: Message,
}

impl<P: Protocol> First<P> {
    /// The call with its message in memory of its own.
    pub(crate) fn away_from(self, buffer: Option<&Buffer>) -> Self {
        Self { message: Message::Assembled(self.message.into_bytes(buffer)), ..self }
    }
}

/// Why a turn ended.
pub(crate) enum Rest<P: Protocol> {
    /// More must be received first.
    Receive,
    /// It is the next connection's turn.
    Again,
    /// No more calls may be taken now.
    Full,
    /// What comes next is for a storage thread that leases the connection.
    Lease(Option<First<P>>),
}

/// A turn that was taken.
pub(crate) struct Turn<P: Protocol> {
    pub(crate) rest: Result<Rest<P>, Malformed>,
    /// Whether a message was dealt with.
    pub(crate) progressed: bool,
    /// Whether one of them needed a storage thread.
    pub(crate) used_storage: bool,
}

impl<P: Protocol> Runner<P> {
    /// A runner with the memory of its thread.
    pub(crate) fn new(memory: P::Memory) -> Self {
        Self {
            memory,
            ready: Outbox::default(),
            counters: OpCounters::default(),
            held: Outbox::default(),
            held_calls: Vec::new(),
            held_counters: OpCounters::default(),
            pending: PendingSync::default(),
            now: Time::default(),
            received: Instant::now(),
            in_progress: 0,
        }
    }

    /// What the thread remembers.
    pub(crate) fn memory(&mut self) -> &mut P::Memory {
        &mut self.memory
    }

    /// Begins with calls that were received at this time.
    pub(crate) fn begin(&mut self, connection: &Connection<P>, received: Instant) {
        connection.protocol.begin_turn(&mut self.memory);
        (self.now, self.received) = (clock::now(), received);
    }

    /// Deals with what was received, as far as this site may. `is_alone` says that no other connection needs it.
    pub(crate) fn turn(
        &mut self,
        connection: &Arc<Connection<P>>,
        inbound: &mut Inbound<P>,
        first: Option<First<P>>,
        site: Site,
        is_alone: bool,
    ) -> Turn<P> {
        self.begin(connection, Instant::now());
        let mut turn = Turn { rest: Ok(Rest::Receive), progressed: false, used_storage: first.is_some() };
        if let Some(First { call, charge, message }) = first {
            self.run_blocking(connection, call, message.bytes(inbound.buffer.as_ref()), charge);
        }
        let mut pacing = ReplyPacing::new(inbound.have(), is_alone, self.received);
        let mut calls = 0;
        turn.rest = loop {
            let has_much = self.ready.pending() >= TURN_BYTES_MAX;
            match site {
                Site::EventLoop if calls == TURN_CALLS_MAX || has_much => break Ok(Rest::Again),
                Site::Lease if has_much => self.send(connection),
                Site::EventLoop | Site::Lease => {}
            }
            if !connection.may_take_calls() {
                break Ok(Rest::Full);
            }
            calls += 1;
            match inbound.next(&*connection.protocol) {
                Err(error) => break Err(error),
                Ok(Step::Receive) => break Ok(Rest::Receive),
                Ok(Step::Message(message)) => {
                    turn.progressed = true;
                    let len = message.bytes(inbound.buffer.as_ref()).len();
                    match self.take(connection, inbound, message, site, &mut turn.used_storage) {
                        Ok(None) => {}
                        Ok(first) => break Ok(Rest::Lease(first)),
                        Err(error) => break Err(error),
                    }
                    if pacing.end_with(len) && pacing.is_worth_it(self.ready.pending(), Instant::now()) {
                        self.send(connection);
                    }
                }
                Ok(Step::Begin { .. } | Step::Upload) if site == Site::EventLoop => {
                    break Ok(Rest::Lease(None));
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

    /// Plans a message and does its call, or hands it on. A call for a storage thread that is to lease the connection comes
    /// back on an event loop.
    fn take(
        &mut self,
        connection: &Arc<Connection<P>>,
        inbound: &mut Inbound<P>,
        message: Message,
        site: Site,
        used_storage: &mut bool,
    ) -> Result<Option<First<P>>, Malformed> {
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
        let Admitted { call, message, dispatch, charge } = admitted;
        match dispatch {
            Dispatch::Inline => {
                let transform = self.run_inline(connection, call, message.bytes(buffer), charge);
                if let Some(transform) = transform {
                    connection.switch(&mut self.ready, transform);
                    inbound.begin_transform(connection)?;
                }
            }
            Dispatch::Offload => {
                let message = message.into_bytes(buffer);
                connection.submit(Work::Call { call, message, charge, received: self.received });
            }
            Dispatch::Batched if site == Site::EventLoop => return Ok(Some(First { call, charge, message })),
            Dispatch::Batched => {
                *used_storage = true;
                self.run_blocking(connection, call, message.bytes(buffer), charge);
            }
        }
        Ok(None)
    }

    /// Does a call if it need not wait; what would block goes on on a storage thread. Returns what the connection's bytes pass
    /// through from now on, if the call has changed that.
    #[inline]
    fn run_inline(
        &mut self,
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: &[u8],
        charge: Option<Permit>,
    ) -> Option<Box<dyn Transform>> {
        let run = |cx: &mut Context<'_, P>| connection.protocol.run(cx, call, message);
        match self.attempt(connection, Blocking::Never, charge, run) {
            Attempt::Done => None,
            Attempt::Switch(transform) => Some(transform),
            Attempt::WouldBlock(at, charge) => {
                connection.submit(Work::Resume { at, charge, received: self.received });
                None
            }
        }
    }

    /// Does a call that may wait.
    fn run_blocking(
        &mut self,
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: &[u8],
        charge: Option<Permit>,
    ) {
        connection.begin_calls(1);
        self.in_progress += 1;
        self.run_to_end(connection, charge, |cx| connection.protocol.run(cx, call, message));
    }

    /// Does a call by itself on a storage thread, unless it is refused because clients have left too much unread.
    pub(crate) fn run_job(
        &mut self,
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: &[u8],
        charge: Option<Permit>,
        is_refused: bool,
    ) {
        let protocol = &*connection.protocol;
        if is_refused {
            protocol.refuse(&call, message, FsError::Wait(Wait::Recall), &mut self.ready);
        } else {
            self.run_to_end(connection, charge, |cx| protocol.run(cx, call, message));
        }
        self.finish(connection);
    }

    /// Goes on with a call by itself on a storage thread, unless it is refused.
    pub(crate) fn resume_job(
        &mut self,
        connection: &Arc<Connection<P>>,
        at: P::Continuation,
        charge: Option<Permit>,
        is_refused: bool,
    ) {
        let protocol = &*connection.protocol;
        if is_refused {
            protocol.fail(at, FsError::Wait(Wait::Recall), &mut self.ready);
        } else {
            self.run_to_end(connection, charge, |cx| protocol.resume(cx, at));
        }
        self.finish(connection);
    }

    /// Does a call on an event loop that was queued for its volume's limits. Its reply is not sent yet.
    pub(crate) fn run_queued(
        &mut self,
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: &[u8],
        since: Instant,
        charge: Permit,
    ) {
        self.begin(connection, since);
        // A call that has waited for a limit changes nothing of its connection.
        let _ = self.run_inline(connection, call, message, Some(charge));
        self.counters.count(since.elapsed(), |volume| connection.note_volume(volume));
    }

    fn run_to_end(
        &mut self,
        connection: &Arc<Connection<P>>,
        charge: Option<Permit>,
        run: impl FnOnce(&mut Context<'_, P>) -> Progress<P::Continuation>,
    ) {
        match self.attempt(connection, Blocking::Allowed, charge, run) {
            Attempt::Done => {}
            Attempt::Switch(_) | Attempt::WouldBlock(..) => {
                tracing::error!(peer = %connection.ends.peer, "a call on a storage thread did not end there");
                connection.close();
            }
        }
    }

    #[inline]
    fn attempt(
        &mut self,
        connection: &Arc<Connection<P>>,
        blocking: Blocking,
        charge: Option<Permit>,
        run: impl FnOnce(&mut Context<'_, P>) -> Progress<P::Continuation>,
    ) -> Attempt<P> {
        let protocol = &*connection.protocol;
        let refused = match self.attempt_once(connection, blocking, charge, run) {
            Ok(attempt) => return attempt,
            Err(at) => self.attempt_once(connection, blocking, None, |cx| protocol.cannot_wait(cx, at)),
        };
        refused.unwrap_or_else(|at| {
            protocol.fail(at, FsError::Wait(Wait::Recall), &mut self.ready);
            Attempt::Done
        })
    }

    /// One attempt. A call comes back that has to pay first and cannot wait for that, as too much waits already.
    #[inline]
    fn attempt_once(
        &mut self,
        connection: &Arc<Connection<P>>,
        blocking: Blocking,
        charge: Option<Permit>,
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
            charge,
        };
        let progress = run(&mut cx);
        let (mut stats, charge) = (cx.stats, cx.charge);
        let (mut synced, mut switch, mut unpaid) = (None, None, None);
        match progress {
            Progress::WouldBlock(at) => {
                self.ready.abandon(start);
                return Ok(Attempt::WouldBlock(at, charge));
            }
            Progress::Done | Progress::Detached => {}
            Progress::AfterSync(at) => synced = Some(at),
            Progress::Switch(transform) => switch = Some(transform),
            Progress::Unpaid { at, bytes, toll } => unpaid = Some((at, bytes, toll)),
        }
        stats.settle(charge);
        if let Some((at, bytes, toll)) = unpaid
            && let Err(at) = admit_later(connection, (at, bytes), &toll)
        {
            return Err(at);
        }
        if let Some(at) = synced {
            let begin = self.held.start();
            self.held.append_from(&mut self.ready, start);
            self.held_calls.push(Held { at, start: begin, end: self.held.start() });
            self.held_counters.add(stats);
        } else {
            self.counters.add(stats);
        }
        Ok(switch.map_or(Attempt::Done, Attempt::Switch))
    }

    /// Begins to take the body of the message at the front of the buffer. One that must wait for a limit is put together in
    /// memory and queued; if too much is queued, it is refused, whatever its body is.
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
        let plan = plan.filter(|plan| protocol.streams(connection, &plan.call));
        let plan = plan.ok_or(Malformed("a message that may not be so long"))?;
        let (charge, refusal) = match plan.toll.map(Admission::try_acquire) {
            None => (None, None),
            Some(Ok(charge)) => (Some(charge), None),
            Some(Err(toll)) if connection.queue.reserve(len) => {
                inbound.planned = Some(Plan { toll: Some(toll), ..plan });
                buffer.start += framing;
                inbound.assembly.begin_whole(len);
                return Ok(());
            }
            Some(Err(_)) => (None, Some(FsError::Wait(Wait::Recall))),
        };
        let (upload, body) = protocol.begin_upload(plan.call, head, len, refusal)?;
        inbound.uploading = Some(Uploading::new(upload, charge, body, len, &connection.resources.tails)?);
        buffer.start += framing + body.start;
        connection.begin_calls(1);
        Ok(())
    }

    /// Takes what has come of a body, and answers at its end.
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
                let Uploading { upload, charge, since, tail, .. } = uploading;
                self.send(connection);
                self.received = since;
                self.in_progress += 1;
                let finish = |cx: &mut Context<'_, P>| protocol.finish_upload(cx, upload, tail.bytes());
                return self.run_to_end(connection, charge, finish);
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
            charge: uploading.charge.take(),
        };
        let stored = protocol.upload(&mut cx, &mut uploading.upload, at, data);
        uploading.charge = cx.charge;
        if let Some(charge) = &mut uploading.charge {
            charge.record(Transferred::written(stored));
        }
    }

    /// Sends the replies that may leave.
    pub(crate) fn send(&mut self, connection: &Connection<P>) {
        if !self.ready.is_empty() {
            connection.protocol.before_send(&mut self.memory, &mut self.ready);
            connection.send(&mut self.ready);
        }
        self.counters.count(self.received.elapsed(), |volume| connection.note_volume(volume));
    }

    /// Bytes of replies that may leave.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.ready.pending()
    }

    /// Sends what may leave, does the flushes that the rest waits for, and sends the rest.
    fn finish(&mut self, connection: &Connection<P>) {
        self.send(connection);
        if !self.held_calls.is_empty() {
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
                for Held { at, start, end } in self.held_calls.drain(..) {
                    leaving.extend(protocol.synced(at, self.held.between(start, end)));
                }
            }
            // Nothing that waited for this flush may be acknowledged; that unstable writes may be lost as well, the volume's
            // write verifier tells from now on.
            Err(error) => {
                let peer = connection.ends.peer;
                tracing::error!(%peer, %error, "a flush failed; its calls are answered with an error");
                self.held.clear();
                for Held { at, .. } in self.held_calls.drain(..) {
                    protocol.fail(at, error, &mut self.held);
                }
            }
        }
        connection.send(&mut self.held);
        drop(leaving);
        self.held_counters.count(self.received.elapsed(), |volume| connection.note_volume(volume));
    }
}

/// How an attempt ended, for who makes it.
enum Attempt<P: Protocol> {
    Done,
    Switch(Box<dyn Transform>),
    WouldBlock(P::Continuation, Option<Permit>),
}
