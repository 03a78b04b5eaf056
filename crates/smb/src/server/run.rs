//! Running a compound on a connection, to its end or to a wait.

use super::compound::{Compound, CompoundProgress, PendingCommand};
use super::replies::{Replies, ReplyBuffer};
use super::suspended::{
    BlockedCommand, FlushingReplies, ParkedCall, RemainingCommands, SuspendedCall, WaitingCall,
};
use super::{Continuation, Smb};
use crate::limits::{RETRY_MS, RETRY_MS_MAX};
use crate::request::context::MessageContext;
use smb_wire::NtStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::{CallStats, Context, Outbox, Progress};
use vfs::{Blocking, Wait};

impl Smb {
    /// Runs a compound from its next command on, behind the replies so far.
    pub(super) fn run_compound(
        &self,
        cx: &mut Context<'_, Self>,
        compound: &mut Compound,
        message: &[u8],
        replies_so_far: &[u8],
    ) -> Progress<Continuation> {
        let flushes = cx.pending.added();
        self.run_compound_after(cx, compound, message, replies_so_far, flushes)
    }

    /// Runs a compound whose first command began when so many flushes had been added.
    fn run_compound_after(
        &self,
        cx: &mut Context<'_, Self>,
        compound: &mut Compound,
        message: &[u8],
        replies_so_far: &[u8],
        flushes: usize,
    ) -> Progress<Continuation> {
        let (endpoints, client_address) = (cx.endpoints(), cx.connection.client());
        let connection = &cx.connection.session;
        connection.attach(cx.connection);
        let mut buffer = ReplyBuffer::begin(cx.out.bytes(), &compound.replies);
        buffer.out.extend_from_slice(replies_so_far);
        let mut context = MessageContext {
            service: &self.service,
            connection,
            namespace: &cx.memory.namespace,
            endpoints,
            client_address,
            blocking: cx.blocking,
            now: cx.now,
            pending: cx.pending,
            path_cache: &mut cx.memory.path_cache,
            stats: &mut cx.stats,
            permit: &mut cx.permit,
        };
        let progress = compound.run(&mut context, message, &mut buffer);
        let frame = buffer.frame;
        match progress {
            CompoundProgress::Done => finish_done(cx, &mut compound.replies, frame, flushes),
            CompoundProgress::Disconnected => {
                buffer.discard();
                cx.connection.close();
                Progress::Done
            }
            CompoundProgress::Wait(Wait::Event) => {
                self.suspend_until_woken(cx, std::mem::take(compound), message, frame, flushes)
            }
            CompoundProgress::Wait(Wait::Tokens | Wait::Recall)
                if cx.pending.added() > flushes && !compound.replies.is_empty() =>
            {
                send_before_rest(cx, std::mem::take(compound), message, frame)
            }
            CompoundProgress::Wait(cause) => {
                let replies = buffer.replies().to_vec();
                buffer.discard();
                let suspended = SuspendedCall {
                    connection: Arc::clone(connection),
                    message: message.to_vec(),
                    compound: std::mem::take(compound),
                    replies,
                    stats: CallStats::default(),
                };
                self.suspend(cx, Box::new(suspended), cause, flushes)
            }
        }
    }

    /// Suspends a call at a command that has to wait.
    fn suspend(
        &self,
        cx: &mut Context<'_, Self>,
        mut suspended: Box<SuspendedCall>,
        cause: Wait,
        flushes: usize,
    ) -> Progress<Continuation> {
        if cause == Wait::Storage && cx.blocking == Blocking::Never {
            suspended.stats = std::mem::take(&mut cx.stats);
            return Progress::WaitForStorage(Continuation::Suspended(suspended));
        }
        if suspended.replies.is_empty() {
            // The call counts when its first command is done; its bytes were moved all the same.
            cx.stats = CallStats { transferred: cx.stats.transferred, ..CallStats::default() };
        }
        if cause == Wait::Tokens
            && cx.pending.added() == flushes
            && let Some(admission) = suspended.compound.admission.take_due()
        {
            return Progress::WaitForTokens { at: Continuation::Suspended(suspended), admission };
        }
        self.defer(cx, suspended, flushes)
    }

    /// Suspends a call until its waker is called. The client receives an interim reply, unless it expects none, together with the
    /// replies so far.
    fn suspend_until_woken(
        &self,
        cx: &mut Context<'_, Self>,
        mut compound: Compound,
        message: &[u8],
        frame: usize,
        flushes: usize,
    ) -> Progress<Continuation> {
        let Some(pending) = compound.pending_command.take() else { return Progress::Done };
        compound.admission.settle();
        let (is_flushing, had_interim) = (cx.pending.added() > flushes, compound.has_interim());
        let connection = Arc::clone(cx.session());
        let mut buffer = ReplyBuffer::resume(cx.out.bytes(), frame, &compound.replies);
        if buffer.is_empty() {
            cx.stats = CallStats { transferred: cx.stats.transferred, ..CallStats::default() };
        }
        compound.push_interim(&connection, &pending, &mut buffer);
        // Earlier replies leave with the interim reply, and wait with it for the flushes of this turn.
        let leaves = is_flushing || compound.has_interim() != had_interim;
        let sent = leaves.then(|| compound.replies.split(&mut buffer));
        let replies = if leaves { Vec::new() } else { buffer.replies().to_vec() };
        let PendingCommand { waker, cancel, reply_target } = pending;
        let message = compound.split_off(message);
        let connection = Arc::downgrade(cx.connection);
        let waiting = Box::new(WaitingCall { connection, reply_target, message, compound, replies });
        let blocked = BlockedCommand { waker, cancel, waiting };
        let Some(sent) = sent else {
            buffer.discard();
            blocked.wait();
            return Progress::Done;
        };
        sent.finish(buffer);
        if is_flushing {
            return after_sync(sent, Some(blocked), None);
        }
        // Another thread may send the final reply before this turn is over.
        send_now(cx, frame);
        blocked.wait();
        Progress::Done
    }

    /// Defers a call until the obstacle may have gone. A call that was deferred for too long, or exceeds the bound on deferred calls,
    /// runs once more and fails.
    fn defer(
        &self,
        cx: &mut Context<'_, Self>,
        mut suspended: Box<SuspendedCall>,
        flushes: usize,
    ) -> Progress<Continuation> {
        let since = *suspended.compound.deferred_since.get_or_insert_with(Instant::now);
        // A command that has added a flush and is not done cannot be answered after that flush.
        let is_over = since.elapsed() > Duration::from_millis(RETRY_MS_MAX) || cx.pending.added() > flushes;
        suspended.compound.admission.settle();
        let reply = cx.detach();
        let parked = ParkedCall { reply, suspended };
        let refused = match is_over {
            true => Some(parked),
            false => self.parking.park(parked, Duration::from_millis(RETRY_MS)).err(),
        };
        let Some(ParkedCall { suspended, .. }) = refused else { return Progress::Detached };
        let SuspendedCall { message, mut compound, replies, .. } = *suspended;
        compound.fails_with = Some(NtStatus::SHARING_VIOLATION);
        self.run_compound_after(cx, &mut compound, &message, &replies, flushes)
    }
}

/// Sends the replies so far once their changes are durable. The rest of the message follows then, however long it has to wait.
fn send_before_rest(
    cx: &mut Context<'_, Smb>,
    mut compound: Compound,
    message: &[u8],
    frame: usize,
) -> Progress<Continuation> {
    compound.admission.settle();
    let mut buffer = ReplyBuffer::resume(cx.out.bytes(), frame, &compound.replies);
    let sent = compound.replies.split(&mut buffer);
    sent.finish(buffer);
    let message = compound.split_off(message);
    let connection = Arc::downgrade(cx.connection);
    after_sync(sent, None, Some(RemainingCommands { connection, message, compound }))
}

/// Finishes the replies of a compound that is done. They leave at the end of the turn, or after the flushes that they wait for.
fn finish_done(
    cx: &mut Context<'_, Smb>,
    replies: &mut Replies,
    frame: usize,
    flushes: usize,
) -> Progress<Continuation> {
    let is_flushed = cx.pending.added() == flushes;
    let out = cx.out.bytes();
    if is_flushed
        && replies.finish_unsigned(&mut cx.memory.unsigned, ReplyBuffer::resume(out, frame, replies))
    {
        return Progress::Done;
    }
    replies.finish(ReplyBuffer::resume(out, frame, replies));
    replies.pages.take().into_iter().for_each(|pages| cx.out.push_pipe(pages));
    if !is_flushed {
        return after_sync(std::mem::take(replies), None, None);
    }
    if !replies.guards.is_empty() {
        // A break of a cache that these replies grant must follow them.
        send_now(cx, frame);
    }
    Progress::Done
}

fn after_sync(
    replies: Replies,
    blocked: Option<BlockedCommand>,
    remaining: Option<RemainingCommands>,
) -> Progress<Continuation> {
    Progress::AfterSync(Continuation::Replied(Box::new(FlushingReplies { replies, blocked, remaining })))
}

/// Sends the frame at this position before the turn is over, so that it precedes messages of other threads.
fn send_now(cx: &mut Context<'_, Smb>, frame: usize) {
    let out = cx.out.bytes();
    let mut first = Outbox::default();
    first.bytes().extend_from_slice(&out[frame..]);
    out.truncate(frame);
    cx.connection.send(&mut first);
}

/// Frames the replies that `write` appends.
pub(super) fn append_replies(
    out: &mut Outbox,
    mut compound: Compound,
    write: impl FnOnce(&mut Compound, &mut ReplyBuffer<'_>),
) {
    let mut buffer = ReplyBuffer::begin(out.bytes(), &compound.replies);
    write(&mut compound, &mut buffer);
    compound.replies.finish(buffer);
}
