//! A message: one command, or several in a compound (MS-SMB2 §3.3.5.2.7).
//!
//! Commands run one after the other. When a command must wait, the compound retains the replies so far and continues
//! with that command later.

use super::admission::{AdmissionState, CommandInMessage};
use super::checks::{check_request, is_protected};
use super::headers::RequestHeaders;
use super::replies::{Replies, ReplyBuffer, hash_reply, reply_header};
use crate::limits::COMPOUND_REPLY_BYTES_MAX;
use crate::request::context::{MessageContext, RelatedState, RequestContext};
use crate::request::outcome::{CommandError, CommandResult};
use crate::request::wait::WaitState;
use crate::state::connection::Connection;
use crate::state::pending::{AsyncSlotGuard, Cancel, Interim, Rollback, Waker, Wakeup};
use crate::state::session::Session;
use smb_wire::compound::{self, Message};
use smb_wire::crypto::signing;
use smb_wire::error::ErrorResponse;
use smb_wire::header::{Command, Flags, HEADER_SIZE, Header, Routing};
use smb_wire::{Encode, NtStatus, Writer};
use std::sync::{Arc, Weak};
use std::time::Instant;
use vfs::{VolumeId, Wait};

#[derive(Default)]
pub(super) struct Compound {
    /// Offset of the next command in the message.
    position: usize,
    previous: RelatedState,
    pub(super) replies: Replies,
    pub(super) admission: AdmissionState,
    /// State of the next command, if that has waited.
    wait: WaitState,
    /// The next command, if that waits for a wakeup now.
    pub(super) pending_command: Option<PendingCommand>,
    /// Time since when the next command is deferred.
    pub(super) deferred_since: Option<Instant>,
    /// Status of the next command, which is not tried again.
    pub(super) fails_with: Option<NtStatus>,
    /// Whether the client has received an interim reply to the next command.
    has_interim: bool,
    /// Whether the connection is gone: the next command runs on another connection of the session, without a reply.
    is_detached: bool,
}

/// A command that waits for a wakeup.
pub(super) struct PendingCommand {
    pub(super) waker: Waker,
    pub(super) cancel: Cancel,
    pub(super) reply_target: ReplyTarget,
}

/// The target of a reply that follows later.
pub(super) struct ReplyTarget {
    /// The header of the request, with inherited ids.
    header: Header,
    signer: Option<Arc<signing::Key>>,
    pub(super) session: Weak<Session>,
    /// Gives back a granted claim if the request is refused, or its client is gone.
    pub(super) rollback: Option<Rollback>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompoundProgress {
    Done,
    /// The next command waits; for [`Wait::Event`], it is [`Compound::pending_command`].
    Wait(Wait),
    Disconnected,
}

impl Compound {
    pub(super) fn new(sealed_by: Option<Arc<Session>>, admitted_volume: Option<VolumeId>) -> Self {
        // Filled in place: one is made for each message, and a copy of a part costs more than setting a field.
        let mut compound = Self::default();
        compound.replies.sealed_by = sealed_by;
        compound.admission.admitted_volume = admitted_volume;
        compound
    }

    /// Runs the remaining commands of `message` and appends their replies.
    pub(super) fn run(
        &mut self,
        context: &mut MessageContext<'_>,
        message: &[u8],
        buffer: &mut ReplyBuffer<'_>,
    ) -> CompoundProgress {
        while let Some(Ok(request)) = compound::messages(self.remaining(message)).next() {
            let start = buffer.out.len();
            if let Err(progress) = self.run_command(context, &request, message, buffer) {
                buffer.out.truncate(start);
                return progress;
            }
            self.deferred_since = None;
            self.admission.finish_command();
            if self.is_detached {
                // The client sends the whole message again over another connection.
                buffer.out.truncate(buffer.first);
                self.replies.clear();
                break;
            }
            if request.header.next_command == 0 {
                break;
            }
            self.position += request.bytes.len();
        }
        CompoundProgress::Done
    }

    fn run_command(
        &mut self,
        context: &mut MessageContext<'_>,
        request: &Message<'_>,
        message: &[u8],
        buffer: &mut ReplyBuffer<'_>,
    ) -> Result<(), CompoundProgress> {
        let mut header = request.header;
        let is_related = inherit_ids(&mut header, self.previous.ids);
        if header.command == Command::CANCEL {
            cancel(context.connection, request, self.replies.sealed_by.as_ref());
            return Ok(());
        }
        if matches!(header.command, Command::SET_INFO | Command::IOCTL) {
            // The command may rename directories, or change access to them.
            context.path_cache.clear();
        }
        let previous = if is_related { std::mem::take(&mut self.previous) } else { RelatedState::default() };
        // A related command at the head of a message has nothing to relate to.
        let has_previous = !is_related || previous.ids.is_some();
        let command =
            CommandInMessage { request, remaining: self.remaining(message), position: self.position };
        let mut cx = RequestContext::new(context, header, &previous, std::mem::take(&mut self.wait));
        self.prepare(&mut cx, command, buffer);
        let has_room = buffer.len() < COMPOUND_REPLY_BYTES_MAX;
        self.replies.link(buffer);
        let start = buffer.out.len();
        let mut w = Writer::new(buffer.out);
        w.zeros(HEADER_SIZE);
        let refusal = match self.fails_with.take() {
            _ if !has_previous => Some(NtStatus::INVALID_PARAMETER),
            Some(status) => Some(status),
            None => (!has_room).then_some(NtStatus::INSUFFICIENT_RESOURCES),
        };
        let result = match refusal {
            Some(status) => Err(status.into()),
            None => self.try_command(&mut cx, command, &mut w),
        };
        let status = match result {
            Ok(status) => status,
            Err(CommandError::Status(status)) => {
                w.truncate(HEADER_SIZE);
                ErrorResponse::default().encode(&mut w);
                status
            }
            Err(CommandError::Wait(cause)) => {
                // The file may change during the wait.
                self.previous = RelatedState { attrs_at_open: None, ..previous };
                self.suspend(cause, cx);
                return Err(CompoundProgress::Wait(cause));
            }
            Err(CommandError::Disconnect) => return Err(CompoundProgress::Disconnected),
        };
        let has_session = has_previous && status != NtStatus::USER_SESSION_DELETED;
        self.finish_reply(cx, status, has_session, buffer, start);
        Ok(())
    }

    fn try_command(
        &mut self,
        cx: &mut RequestContext<'_, '_>,
        command: CommandInMessage<'_>,
        w: &mut Writer<'_>,
    ) -> CommandResult {
        let request = command.request;
        let is_alone = command.position == 0 && cx.is_last;
        let entry = check_request(cx, request, self.replies.sealed_by.as_ref(), is_alone)?;
        self.admission.admit(cx, command)?;
        (entry.run)(cx, request.bytes, w)
    }

    /// Hands the state of the compound over to its next command.
    fn prepare(
        &mut self,
        cx: &mut RequestContext<'_, '_>,
        command: CommandInMessage<'_>,
        buffer: &ReplyBuffer<'_>,
    ) {
        cx.wait.take_early_wakeup();
        cx.wait.memory_bytes = command.remaining.len() + buffer.len();
        cx.is_last = command.request.header.next_command == 0;
        cx.is_sealed = self.replies.sealed_by.is_some();
        cx.reply.compresses = cx.share_compresses();
        let is_alone = command.position == 0 && cx.is_last;
        cx.reply.takes_pages = is_alone && !cx.is_sealed && cx.reply.signer.is_none();
    }

    /// Writes the header of a reply, which begins at `start` and ends the output.
    fn finish_reply(
        &mut self,
        cx: RequestContext<'_, '_>,
        status: NtStatus,
        has_session: bool,
        buffer: &mut ReplyBuffer<'_>,
        start: usize,
    ) {
        let RequestContext { message, header, channel, related, mut wait, reply, .. } = cx;
        let connection = message.connection;
        self.replies.pages = reply.pages;
        if reply.compresses {
            self.replies.compression = connection.compression();
        }
        self.replies.guards.extend(reply.guards);
        let keeps_attrs = matches!(header.command, Command::CREATE | Command::QUERY_INFO);
        self.previous = RelatedState {
            // Without a session, none is left to related commands (MS-SMB2 §3.3.5.2.7.2).
            ids: has_session.then(|| (header.session_id, header.tree_id())),
            file_id: related.file_id,
            attrs_at_open: related.attrs_at_open.filter(|_| keeps_attrs),
            error: status.is_error().then_some(status),
        };
        let signer = reply.signer.filter(|_| self.replies.sealed_by.is_none());
        let waker = wait.waker.take().and_then(AsyncSlotGuard::into_waker);
        let reply = self.final_header(connection, &header, status, signer.is_some(), waker.as_ref());
        buffer.out[start..start + HEADER_SIZE].copy_from_slice(&reply.to_array());
        hash_reply(connection, channel.as_deref(), &reply, signer.as_deref(), &mut buffer.out[start..]);
        self.replies.add(reply, signer, buffer, start);
    }

    /// Ends the wait of a request, and returns the header of its reply.
    fn final_header(
        &mut self,
        connection: &Connection,
        request: &Header,
        status: NtStatus,
        is_signed: bool,
        waker: Option<&Waker>,
    ) -> Header {
        let Some(waker) = waker else { return reply_header(connection, request, status, is_signed) };
        waker.finish();
        if !std::mem::take(&mut self.has_interim) {
            return reply_header(connection, request, status, is_signed);
        }
        // The interim reply has granted the credits (MS-SMB2 §3.3.4.2).
        let reply = request.response(status);
        let flags = if is_signed { reply.flags | Flags::SIGNED } else { reply.flags };
        Header { routing: Routing::Async { async_id: waker.request().async_id }, flags, ..reply }
    }

    /// Appends an interim reply to the next command, if its client expects one. It is not signed: the signature would have the
    /// nonce of the final reply (MS-SMB2 §3.3.4.1.1).
    pub(super) fn push_interim(
        &mut self,
        connection: &Connection,
        pending: &PendingCommand,
        buffer: &mut ReplyBuffer<'_>,
    ) {
        let request = pending.waker.request();
        if request.interim == Interim::Never || std::mem::replace(&mut self.has_interim, true) {
            return;
        }
        let reply = reply_header(connection, &pending.reply_target.header, NtStatus::PENDING, false);
        let routing = Routing::Async { async_id: request.async_id };
        self.replies.push_error(Header { routing, ..reply }, None, buffer);
    }

    /// Detaches the next command from its connection, if the command outlives that. Whether it is detached.
    pub(super) fn detach(&mut self, waker: &Waker) -> bool {
        self.is_detached |= waker.request().outlives_connection;
        self.is_detached
    }

    pub(super) fn is_detached(&self) -> bool {
        self.is_detached
    }

    pub(super) fn has_interim(&self) -> bool {
        self.has_interim
    }

    /// Answers the next command, which waits, with an error.
    pub(super) fn end_pending(
        &mut self,
        connection: &Connection,
        target: ReplyTarget,
        waker: &Waker,
        status: NtStatus,
        buffer: &mut ReplyBuffer<'_>,
    ) {
        let ReplyTarget { header, signer, .. } = target;
        let signer = signer.filter(|_| self.replies.sealed_by.is_none());
        let reply = self.final_header(connection, &header, status, signer.is_some(), Some(waker));
        self.replies.push_error(reply, signer, buffer);
    }

    /// The commands of `message` from the next one on.
    pub(super) fn remaining<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        message.get(self.position..).unwrap_or_default()
    }

    /// Splits the remaining commands off, as a message of their own.
    pub(super) fn split_off(&mut self, message: &[u8]) -> Vec<u8> {
        let remaining = self.remaining(message).to_vec();
        self.admission.rebase(self.position);
        self.position = 0;
        remaining
    }

    /// Whether the next command of `message` is the last.
    pub(super) fn is_at_last(&self, message: &[u8]) -> bool {
        let next = compound::messages(self.remaining(message)).next();
        next.is_none_or(|next| next.is_ok_and(|next| next.header.next_command == 0))
    }

    /// Continues with a command that was woken, or is to fail.
    pub(super) fn wake(&mut self, waker: Waker, wakeup: Option<Wakeup>, fails_with: Option<NtStatus>) {
        self.wait.resume(waker, wakeup);
        self.fails_with = fails_with;
    }

    /// Keeps the state of a command that waits.
    fn suspend(&mut self, cause: Wait, cx: RequestContext<'_, '_>) {
        let RequestContext { header, channel, mut wait, reply, .. } = cx;
        if cause == Wait::Event {
            let session = channel.map_or_else(Weak::new, |channel| Arc::downgrade(&channel.session));
            let rollback = wait.rollback.take();
            let reply_target = ReplyTarget { header, signer: reply.signer, session, rollback };
            let waker = wait.waker.take().and_then(AsyncSlotGuard::into_waker);
            let pending = waker.zip(wait.cancel.take());
            self.pending_command =
                pending.map(|(waker, cancel)| PendingCommand { waker, cancel, reply_target });
        }
        wait.suspend(cause);
        self.wait = wait;
    }

    /// Refuses the remaining commands of a message, which have these headers.
    pub(super) fn refuse_remaining(
        &mut self,
        connection: &Connection,
        remaining: &RequestHeaders,
        status: NtStatus,
        buffer: &mut ReplyBuffer<'_>,
    ) {
        // Only the first may have had an interim reply, which its final reply must match.
        let mut waker = self.wait.waker.take().and_then(AsyncSlotGuard::into_waker);
        let mut ids = self.previous.ids;
        for mut header in remaining.iter().copied().filter(|header| header.command != Command::CANCEL) {
            inherit_ids(&mut header, ids);
            ids = Some((header.session_id, header.tree_id()));
            let channel = connection.channel(header.session_id);
            let channel = channel.filter(|channel| self.replies.sealed_by.is_none() && channel.is_valid());
            let signer = channel.and_then(|channel| channel.reply_key(&header));
            let waker = waker.take();
            let reply = self.final_header(connection, &header, status, signer.is_some(), waker.as_ref());
            self.replies.push_error(reply, signer, buffer);
        }
    }
}

/// Gives a related command the session and tree connect of the one before (MS-SMB2 §3.3.5.2.7.2). Whether it is related.
fn inherit_ids(header: &mut Header, previous: Option<(u64, u32)>) -> bool {
    let is_related = header.flags.contains(Flags::RELATED_OPERATIONS);
    if let (true, Some((session_id, tree_id))) = (is_related, previous) {
        (header.session_id, header.routing) = (session_id, Routing::Sync { process_id: 0, tree_id });
    }
    is_related
}

/// CANCEL (MS-SMB2 §3.3.5.16), which has no reply. It reaches requests of its own session and connection.
fn cancel(connection: &Connection, request: &Message<'_>, sealed_by: Option<&Arc<Session>>) {
    let header = &request.header;
    let channel = connection.channel(header.session_id).filter(|channel| channel.is_valid());
    let Some(channel) = channel.filter(|channel| is_protected(request, channel, sealed_by)) else { return };
    channel.session.async_commands().cancel(connection.number, header.async_id(), header.message_id);
}
