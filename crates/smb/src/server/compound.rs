//! A message: one command, or several in a compound (MS-SMB2 §3.3.5.2.7), and the replies to them.
//!
//! Commands are done one after the other. Where one has to wait, the chain is kept with what was answered so far, and goes on at
//! that command later.

use super::batch_signing::Unsigned;
use super::command_table::{Needs, Row, row};
use super::headers::Heads;
use super::price::{demand, demand_of_all, ends_waits};
use crate::limits::{COMPOUND_REPLY_BYTES_MAX, COMPRESSED_BYTES_MIN, CREDIT_BYTES};
use crate::request::context::{Ops, Stop};
use crate::request::copying::Copying;
use crate::request::export_access::origin;
use crate::request::limit_wait::Turn;
use crate::request::path_lookup::Trail;
use crate::state::caching::breaks::CacheUse;
use crate::state::connection::Connection;
use crate::state::open::channel_sequence::Outstanding;
use crate::state::open::open_table::Creation;
use crate::state::pending::{Cancel, Interim, Undo, Waker, Woken};
use crate::state::service::Service;
use crate::state::session::Session;
use crate::state::session::channel::Channel;
use crate::state::tree::{Disk, Tree};
use smb_wire::compound::{self, Message};
use smb_wire::compression::Compression;
use smb_wire::crypto::signing;
use smb_wire::error::ErrorResponse;
use smb_wire::file::READ_HEAD_SIZE;
use smb_wire::header::{Command, Flags, HEADER_SIZE, Header, NEXT_COMMAND_OFFSET, Routing};
use smb_wire::types::Dialect;
use smb_wire::{Encode, FileId, NtStatus, Writer};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;
use transport::{CallStats, Endpoints, Pipe};
use vfs::qos::{Admission, Demand, Permit, is_anything_limited};
use vfs::{Attrs, Blocking, Namespace, PendingSync, Time, VolumeId};

/// What all commands of a message are given.
pub(crate) struct Base<'c> {
    pub(crate) service: &'c Service,
    pub(crate) connection: &'c Connection,
    pub(crate) namespace: &'c Arc<Namespace>,
    pub(crate) ends: Endpoints,
    /// The address that stands for the client at limits.
    pub(crate) payer: IpAddr,
    pub(crate) blocking: Blocking,
    pub(crate) now: Time,
    pub(crate) pending: &'c mut PendingSync,
    pub(crate) trail: &'c mut Trail,
    pub(crate) stats: &'c mut CallStats<Arc<Disk>>,
    pub(crate) charge: &'c mut Option<Permit>,
}

impl Base<'_> {
    /// What a command with this header is given, behind what the one before it has left.
    fn ops(&mut self, header: Header, previous: &Previous) -> Ops<'_> {
        let channel = self.connection.channel(header.session_id);
        let valid = channel.as_ref().filter(|channel| channel.is_valid());
        let signer = valid.and_then(|channel| signer(channel, &header));
        let tree = valid.and_then(|channel| channel.session.tree(header.tree_id()));
        Ops {
            service: self.service,
            connection: self.connection,
            namespace: self.namespace,
            ends: self.ends,
            payer: self.payer,
            blocking: self.blocking,
            now: self.now,
            pending: self.pending,
            trail: self.trail,
            stats: self.stats,
            charge: self.charge,
            header,
            channel,
            signer,
            tree,
            // A CREATE has no file but the one that it opens: where it opens none, none is left to those that follow it.
            file: previous.file.filter(|_| header.command != Command::CREATE),
            told: previous.told,
            failed: previous.failed,
            outstanding: None,
            waker: None,
            woken: None,
            cancel: None,
            undo: None,
            turn: None,
            copying: None,
            creation: None,
            unanswered: Vec::new(),
            is_sealed: false,
            is_last: true,
            bytes: 0,
            compresses: false,
            takes_pages: false,
            pages: None,
        }
    }
}

/// How far a message is done.
#[derive(Default)]
pub(crate) struct Chain {
    /// The session by whose key the message was encrypted, if it was.
    pub(crate) sealed_by: Option<Arc<Session>>,
    /// Where the next command begins in the message.
    at: usize,
    previous: Previous,
    pub(crate) replies: Vec<Reply>,
    /// The volume whose limits what is left of the message has paid, or the next command alone.
    pub(crate) paid: Option<VolumeId>,
    /// Whether it is the next command alone.
    pays_singly: bool,
    /// The volume that has counted its commands: bytes alone are to be paid there.
    counted: Option<VolumeId>,
    /// Where the command begins that has paid by itself.
    paid_at: Option<usize>,
    /// Since when something is in the way of the next command.
    pub(crate) delayed_since: Option<Instant>,
    /// What the next command is refused with, because it was put off for too long.
    pub(crate) gives_up: Option<NtStatus>,
    /// What wakes the next command, if it waits or has waited.
    waker: Option<Unanswered>,
    /// How it was woken, until it learns that.
    woken: Option<Woken>,
    /// What the next command has to pay for first.
    unpaid: Option<(VolumeId, Admission)>,
    /// That the next command is being done, as its open counts it.
    outstanding: Option<Outstanding>,
    /// The same, as a CREATE that may come again.
    creation: Option<Creation>,
    /// The turn of the next command at a limit of its own.
    turn: Option<Turn>,
    /// Progress of the next command, if it copies. Boxed, because chains are moved often and few commands copy.
    copying: Option<Box<Copying>>,
    /// The client was told that it is answered later.
    has_interim: bool,
    /// Its connection is gone: the next command is done by way of another one, and nobody is answered.
    is_lost: bool,
    /// What waits.
    pub(crate) waits: Option<Waits>,
    /// Caches of which the client learns with the replies so far.
    pub(crate) unanswered: Vec<CacheUse>,
    /// How the replies are compressed, if they are to be.
    compression: Option<Compression>,
    /// Pages of a file that end the only reply.
    pub(crate) pages: Option<Pipe>,
}

/// The waker of a command, which counts among those that are answered later until it is answered, or is not to be any more.
struct Unanswered(Option<Waker>);

impl Unanswered {
    fn into_waker(mut self) -> Option<Waker> {
        self.0.take()
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.take().iter().for_each(Waker::finish);
    }
}

/// A command that waits.
pub(crate) struct Waits {
    pub(crate) waker: Waker,
    pub(crate) cancel: Cancel,
    pub(crate) asker: Asker,
}

/// Who is answered later, and to what.
pub(crate) struct Asker {
    /// The header of the request, with the ids that it takes over.
    header: Header,
    signer: Option<Arc<signing::Key>>,
    /// Whose request it is.
    pub(crate) session: Weak<Session>,
    /// For the case that it is refused, or nobody is there any more to be answered.
    pub(crate) undo: Option<Undo>,
}

/// What related commands take over from the one before.
#[derive(Default)]
struct Previous {
    /// Whether there was one, and then its session and tree connect.
    ids: Option<(u64, u32)>,
    file: Option<FileId>,
    /// What that was like when it was opened, if nothing was done to it since.
    told: Option<Attrs>,
    failed: Option<NtStatus>,
}

/// A reply that was written.
pub(crate) struct Reply {
    pub(crate) header: Header,
    /// Where it begins, from the first one.
    start: usize,
    /// Whose key it is signed with.
    signer: Option<Arc<signing::Key>>,
}

/// How a chain ended, for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All of it is done.
    Replied,
    /// The next command has to wait for the storage.
    WouldBlock,
    /// Something stands in the way of the next command.
    Delayed,
    /// The rest has to pay first.
    Unpaid,
    /// The next command is done when it is woken.
    Later,
    /// The connection ends.
    Disconnected,
}

impl Chain {
    pub(crate) fn new(sealed_by: Option<Arc<Session>>, paid: Option<VolumeId>) -> Self {
        Self { sealed_by, paid, ..Self::default() }
    }

    /// Does the commands of `message` that are not done yet. Replies are appended to `out`, where the first begins at `base`.
    pub(crate) fn run(
        &mut self,
        with: &mut Base<'_>,
        message: &[u8],
        out: &mut Vec<u8>,
        base: usize,
    ) -> Ended {
        while let Some(Ok(request)) = compound::messages(self.rest(message)).next() {
            let start = out.len();
            let rest = self.rest(message);
            if let Err(ended) = self.command(with, (&request, rest), out, base) {
                out.truncate(start);
                return ended;
            }
            self.delayed_since = None;
            self.paid = self.paid.filter(|_| !self.pays_singly);
            if self.is_lost {
                // Who asks again asks for all of it.
                out.truncate(base);
                self.replies.clear();
                break;
            }
            if request.header.next_command == 0 {
                break;
            }
            self.at += request.bytes.len();
        }
        Ended::Replied
    }

    fn command(
        &mut self,
        with: &mut Base<'_>,
        (request, rest): (&Message<'_>, &[u8]),
        out: &mut Vec<u8>,
        base: usize,
    ) -> Result<(), Ended> {
        let mut header = request.header;
        let is_related = inherit(&mut header, self.previous.ids);
        if header.command == Command::CANCEL {
            cancel(with.connection, request, self.sealed_by.as_ref());
            return Ok(());
        }
        if matches!(header.command, Command::SET_INFO | Command::IOCTL) {
            // It may change what directories are called, or whom they let through.
            with.trail.forget();
        }
        let previous = if is_related { std::mem::take(&mut self.previous) } else { Previous::default() };
        let mut ops = with.ops(header, &previous);
        let is_last = request.header.next_command == 0;
        let is_alone = self.at == 0 && is_last;
        self.hand_over(&mut ops, is_last, is_alone, rest.len() + out.len() - base);
        let is_first = is_related && previous.ids.is_none();
        let follows = if is_first { Err(NtStatus::INVALID_PARAMETER) } else { Ok(()) };
        let has_room = out.len() - base < COMPOUND_REPLY_BYTES_MAX;
        if let Some(before) = self.replies.last() {
            compound::link(out, base + before.start);
        }
        let start = out.len();
        let mut w = Writer::new(out);
        w.zeros(HEADER_SIZE);
        let done = follows
            .and(self.gives_up.take().map_or(Ok(()), Err))
            .and(if has_room { Ok(()) } else { Err(NtStatus::INSUFFICIENT_RESOURCES) })
            .map_err(Stop::from)
            .and_then(|()| admitted(&ops, request, self.sealed_by.as_ref(), is_alone))
            .and_then(|row| self.pay(&mut ops, request, rest).map(|()| row))
            .and_then(|row| (row.run)(&mut ops, request.bytes, &mut w));
        let status = match done {
            Ok(status) => status,
            Err(Stop::Status(status)) => {
                w.truncate(HEADER_SIZE);
                ErrorResponse::default().encode(&mut w);
                status
            }
            Err(stop) => {
                // What it waits for may change the file.
                self.previous = Previous { told: None, ..previous };
                return Err(self.stopped(stop, ops));
            }
        };
        let has_session = !is_first && status != NtStatus::USER_SESSION_DELETED;
        self.answered(ops, (status, has_session), (out, base, start));
        Ok(())
    }

    /// Gives a reply, which begins at `start` and ends `out`, its header, and keeps what those that follow it take over.
    fn answered(
        &mut self,
        ops: Ops<'_>,
        (status, has_session): (NtStatus, bool),
        (out, base, start): (&mut [u8], usize, usize),
    ) {
        let Ops { connection, header, channel, file, told, waker, .. } = ops;
        self.pages = ops.pages;
        if ops.compresses {
            self.compression = connection.compression();
        }
        self.unanswered.extend(ops.unanswered);
        self.previous = Previous {
            // What has no session leaves none to those that follow it (MS-SMB2 §3.3.5.2.7.2).
            ids: has_session.then(|| (header.session_id, header.tree_id())),
            file,
            told: told.filter(|_| matches!(header.command, Command::CREATE | Command::QUERY_INFO)),
            failed: status.is_error().then_some(status),
        };
        let signer = ops.signer.filter(|_| self.sealed_by.is_none());
        let reply = self.final_header(connection, &header, status, signer.is_some(), waker.as_ref());
        out[start..start + HEADER_SIZE].copy_from_slice(&reply.to_array());
        note_reply(connection, channel.as_deref(), &reply, signer.as_deref(), &mut out[start..]);
        self.replies.push(Reply { header: reply, start: start - base, signer });
    }

    /// Gives a command what it has of the chain, which takes so many bytes with the replies so far.
    fn hand_over(&mut self, ops: &mut Ops<'_>, is_last: bool, is_alone: bool, bytes: usize) {
        (ops.outstanding, ops.creation) = (self.outstanding.take(), self.creation.take());
        (ops.turn, ops.copying) = (self.turn.take(), self.copying.take());
        (ops.waker, ops.is_last) = (self.waker.take().and_then(Unanswered::into_waker), is_last);
        ops.is_sealed = self.sealed_by.is_some();
        ops.compresses = ops.share_compresses();
        let early = || ops.waker.as_ref().and_then(Waker::take_woken);
        ops.woken = self.woken.take().or_else(|| early().map(|outcome| Woken::new(outcome, None)));
        ops.bytes = bytes;
        ops.takes_pages = is_alone && self.sealed_by.is_none() && ops.signer.is_none();
    }

    /// The header of the reply to a request, which need not wait any longer if it has.
    fn final_header(
        &mut self,
        connection: &Connection,
        request: &Header,
        status: NtStatus,
        is_signed: bool,
        waker: Option<&Waker>,
    ) -> Header {
        let Some(waker) = waker else { return header_of(connection, request, status, is_signed) };
        waker.finish();
        if !std::mem::take(&mut self.has_interim) {
            return header_of(connection, request, status, is_signed);
        }
        // The credits came with the interim reply (MS-SMB2 §3.3.4.2).
        let reply = request.response(status);
        let flags = if is_signed { reply.flags | Flags::SIGNED } else { reply.flags };
        Header { routing: Routing::Async { async_id: waker.asked().async_id }, flags, ..reply }
    }

    /// Tells the client that the next command is answered later, if it is to be told. It is not signed: its signature would have the
    /// same nonce as that of the reply (MS-SMB2 §3.3.4.1.1).
    pub(crate) fn interim(&mut self, connection: &Connection, waits: &Waits, out: &mut Vec<u8>, base: usize) {
        let asked = waits.waker.asked();
        if asked.interim == Interim::Never || std::mem::replace(&mut self.has_interim, true) {
            return;
        }
        let reply = header_of(connection, &waits.asker.header, NtStatus::PENDING, false);
        let routing = Routing::Async { async_id: asked.async_id };
        self.push(Header { routing, ..reply }, None, out, base);
    }

    /// Has the next command go on without its connection, if it may.
    pub(crate) fn outlives(&mut self, waker: &Waker) -> bool {
        self.is_lost |= waker.asked().outlives;
        self.is_lost
    }

    /// Whether nobody is answered.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether the client was told that the next command is answered later.
    pub(crate) fn has_interim(&self) -> bool {
        self.has_interim
    }

    /// Answers the next command, which waits, with an error.
    pub(crate) fn end(
        &mut self,
        connection: &Connection,
        asker: Asker,
        waker: &Waker,
        status: NtStatus,
        (out, base): (&mut Vec<u8>, usize),
    ) {
        let Asker { header, signer, .. } = asker;
        let signer = signer.filter(|_| self.sealed_by.is_none());
        let reply = self.final_header(connection, &header, status, signer.is_some(), Some(waker));
        self.push(reply, signer, out, base);
    }

    fn push(&mut self, header: Header, signer: Option<Arc<signing::Key>>, out: &mut Vec<u8>, base: usize) {
        if let Some(before) = self.replies.last() {
            compound::link(out, base + before.start);
        }
        self.replies.push(Reply { header, start: out.len() - base, signer });
        compound::push(out, &header, &ErrorResponse::default());
    }

    /// The replies so far, which end `out` and leave by themselves.
    pub(crate) fn split(&mut self, out: &mut [u8], base: usize) -> Self {
        let replies = std::mem::take(&mut self.replies);
        if let Some(last) = replies.last() {
            out[base + last.start + NEXT_COMMAND_OFFSET..][..4].fill(0);
        }
        let unanswered = std::mem::take(&mut self.unanswered);
        let (sealed_by, compression) = (self.sealed_by.clone(), self.compression);
        Self { sealed_by, compression, replies, unanswered, ..Self::default() }
    }

    /// The commands of `message` that are not done yet, as a message of their own.
    pub(crate) fn cut(&mut self, message: &[u8]) -> Vec<u8> {
        let rest = self.rest(message).to_vec();
        self.paid_at = self.paid_at.filter(|at| *at == self.at).map(|_| 0);
        self.at = 0;
        rest
    }

    /// Whether nothing follows the next command of `message`.
    pub(crate) fn is_at_last(&self, message: &[u8]) -> bool {
        let next = compound::messages(self.rest(message)).next();
        next.is_none_or(|next| next.is_ok_and(|next| next.header.next_command == 0))
    }

    /// Goes on with a command that was woken, or ends it.
    pub(crate) fn woken(&mut self, waker: Waker, woken: Option<Woken>, ends_with: Option<NtStatus>) {
        (self.waker, self.woken) = (Some(Unanswered(Some(waker))), woken);
        self.gives_up = ends_with;
    }

    /// How a command ended that has no reply now.
    fn stopped(&mut self, stop: Stop, ops: Ops<'_>) -> Ended {
        let Ops { header, channel, signer, waker, woken, cancel, undo, .. } = ops;
        (self.outstanding, self.creation) = (ops.outstanding, ops.creation);
        (self.turn, self.copying) = (ops.turn, ops.copying);
        self.waker = waker.map(|waker| Unanswered(Some(waker)));
        match stop {
            Stop::Delayed => Ended::Delayed,
            Stop::Unpaid => {
                self.woken = woken;
                Ended::Unpaid
            }
            Stop::Disconnect => Ended::Disconnected,
            Stop::WouldBlock | Stop::Status(_) => {
                self.woken = woken;
                Ended::WouldBlock
            }
            Stop::Later => {
                let session = channel.map_or_else(Weak::new, |channel| Arc::downgrade(&channel.session));
                let asker = Asker { header, signer, session, undo };
                let waits = self.waker.take().and_then(Unanswered::into_waker).zip(cancel);
                self.waits = waits.map(|(waker, cancel)| Waits { waker, cancel, asker });
                Ended::Later
            }
        }
    }

    /// Pays for the next command if the message has not paid for its volume: whatever tree connects the commands of a message are
    /// of, nothing is done in a limited volume for nothing. What cannot pay at once waits for its turn with all that follows it.
    fn pay(&mut self, ops: &mut Ops<'_>, request: &Message<'_>, rest: &[u8]) -> Result<(), Stop> {
        let Some(disk) = ops.tree.as_ref().and_then(|tree| tree.disk()) else { return Ok(()) };
        let volume = &disk.export.volume;
        // A copy on its way pays for each part by itself.
        let is_paid =
            self.paid == Some(volume.id()) || self.paid_at == Some(self.at) || ops.copying.is_some();
        if !is_anything_limited() || is_paid || ends_waits(request.header.command) {
            return Ok(());
        }
        let client = ops.payer;
        let toll = |demand: Demand| match self.counted == Some(volume.id()) {
            true => Some(demand.without_operations()).filter(|demand| !demand.is_nothing()),
            false => Some(demand),
        };
        let toll = |demand| toll(demand).and_then(|demand| volume.admission(client, demand));
        // Before anything is done, all of a message can wait: what has to be told of first cannot.
        let is_first = self.at == 0 && self.counted.is_none() && request.header.next_command != 0;
        let whole = is_first.then(|| demand_of_all(rest)).flatten();
        let demand = whole.unwrap_or_else(|| demand(request));
        let Some(paying) = toll(demand) else { return Ok(()) };
        if let Ok(charge) = paying.try_acquire() {
            let before = ops.charge.replace(charge);
            ops.stats.settle(before);
            (self.paid, self.paid_at) = (whole.map(|_| volume.id()).or(self.paid), Some(self.at));
            return Ok(());
        }
        let all = demand_of_all(rest);
        self.pays_singly = all.is_none();
        self.unpaid = toll(all.unwrap_or(demand)).map(|toll| (volume.id(), toll));
        Err(Stop::Unpaid)
    }

    /// What was paid is settled with what was done: what follows pays for the bytes that it moves.
    pub(crate) fn settle(&mut self) {
        let paid = self.paid.take().filter(|_| !self.pays_singly);
        self.counted = paid.or(self.counted);
    }

    /// The same, with what the rest has to pay before it goes on, and has paid then.
    pub(crate) fn settle_unpaid(&mut self) -> Option<Admission> {
        self.settle();
        let (volume, toll) = self.unpaid.take()?;
        self.paid = Some(volume);
        Some(toll)
    }

    /// The commands of `message` that are not done yet.
    pub(crate) fn rest<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        message.get(self.at..).unwrap_or_default()
    }

    /// Has the last of several replies, which begin at `base` and end `out`, end as the others do (MS-SMB2 §3.3.4.1.3).
    pub(crate) fn pad(&self, out: &mut Vec<u8>, base: usize) {
        if self.replies.len() > 1 {
            out.resize(base + (out.len() - base).next_multiple_of(8), 0);
        }
    }

    /// Signs the replies, which begin at `base` and end `out`.
    pub(crate) fn sign(&self, out: &mut [u8], base: usize) {
        if let ([only], true) = (&*self.replies, self.pages.is_none()) {
            return only.signer.iter().for_each(|key| key.sign(&mut out[base..]));
        }
        let mut unsigned = Unsigned::default();
        self.leave_unsigned(&mut unsigned, out.len(), base);
        unsigned.sign(out);
    }

    /// How the replies are compressed, which are so many bytes, if they are.
    pub(crate) fn compression_of(&self, bytes: usize) -> Option<Compression> {
        self.compression.filter(|_| bytes >= COMPRESSED_BYTES_MIN)
    }

    /// Compresses the replies, which begin at `base` and end `out`, where that is wanted and makes them shorter. What comes before the
    /// data of a READ stays as it is.
    pub(crate) fn compress(&self, out: &mut Vec<u8>, base: usize) {
        let compression = self.compression_of(out.len() - base);
        let packed = compression.and_then(|compression| compression.compress(&out[base..], READ_HEAD_SIZE));
        if let Some(packed) = packed {
            out.truncate(base);
            out.extend_from_slice(&packed);
        }
    }

    /// Whether the replies are signed with less work beside others.
    pub(crate) fn gains_by_company(&self) -> bool {
        self.replies.iter().any(|reply| reply.signer.as_ref().is_some_and(|key| key.gains_by_company()))
    }

    /// Leaves the replies, which lie between `base` and `end`, to be signed with others.
    pub(crate) fn leave_unsigned(&self, unsigned: &mut Unsigned, end: usize, base: usize) {
        let ends = self.replies.iter().skip(1).map(|next| base + next.start).chain([end]);
        for (reply, end) in self.replies.iter().zip(ends) {
            if let Some(key) = &reply.signer {
                unsigned.push(key, base + reply.start..end);
            }
        }
    }

    /// Writes a refusal in place of each reply.
    pub(crate) fn refuse(&mut self, status: NtStatus, out: &mut Vec<u8>, base: usize) {
        for Reply { mut header, signer, .. } in std::mem::take(&mut self.replies) {
            header.status = status;
            self.push(header, signer, out, base);
        }
    }

    /// Refuses the commands of a message that are not done: those of `rest`.
    pub(crate) fn refuse_rest(
        &mut self,
        connection: &Connection,
        rest: &Heads,
        status: NtStatus,
        (out, base): (&mut Vec<u8>, usize),
    ) {
        // Who was told that the first is answered later is told what became of it in the same way.
        let mut waker = self.waker.take().and_then(Unanswered::into_waker);
        let mut ids = self.previous.ids;
        for mut header in rest.iter().copied().filter(|header| header.command != Command::CANCEL) {
            inherit(&mut header, ids);
            ids = Some((header.session_id, header.tree_id()));
            let channel = connection.channel(header.session_id);
            let channel = channel.filter(|channel| self.sealed_by.is_none() && channel.is_valid());
            let signer = channel.and_then(|channel| signer(&channel, &header));
            let waker = waker.take();
            let reply = self.final_header(connection, &header, status, signer.is_some(), waker.as_ref());
            self.push(reply, signer, out, base);
        }
    }
}

/// Whether a command is about what the one before it was about: then it has the ids of its session and tree connect
/// (MS-SMB2 §3.3.5.2.7.2).
fn inherit(header: &mut Header, previous: Option<(u64, u32)>) -> bool {
    let is_related = header.flags.contains(Flags::RELATED_OPERATIONS);
    if let (true, Some((session_id, tree_id))) = (is_related, previous) {
        (header.session_id, header.routing) = (session_id, Routing::Sync { process_id: 0, tree_id });
    }
    is_related
}

/// The key that the reply to a request is signed with: as the request was, and in any case where the session must be
/// (MS-SMB2 §3.3.4.1.1).
fn signer(channel: &Channel, request: &Header) -> Option<Arc<signing::Key>> {
    let signs = request.flags.contains(Flags::SIGNED) || channel.session.must_sign();
    channel.signing().filter(|_| signs).cloned()
}

/// The header of the reply to a request, with as many credits as there are for it. Signed requests get replies that say they are
/// signed even where there is no key for them: clients take nothing else.
fn header_of(connection: &Connection, request: &Header, status: NtStatus, is_signed: bool) -> Header {
    let credits = connection.grant(request.credits, is_pressed(connection, request));
    let reply = Header { credits, ..request.response(status) };
    // A session that is over has no key any longer, and the key of AES-GMAC signs no refusal to bind.
    let has_no_key = matches!(status, NtStatus::USER_SESSION_DELETED | NtStatus::REQUEST_OUT_OF_SEQUENCE);
    let signs = is_signed || has_no_key && request.flags.contains(Flags::SIGNED);
    let flags = if signs { reply.flags | Flags::SIGNED } else { reply.flags };
    Header { flags, ..reply }
}

/// Whether calls wait for a limit of the volume that a request is about: its client is to have fewer on their way.
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

/// Adds a reply to what keys are made of, if it is part of that (MS-SMB2 §3.3.5.4, §3.3.5.5): as it leaves, with its signature.
fn note_reply(
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

/// How a command is done, if its session and tree connect are there and its signature is right.
fn admitted(
    ops: &Ops<'_>,
    request: &Message<'_>,
    sealed_by: Option<&Arc<Session>>,
    is_alone: bool,
) -> Result<&'static Row, Stop> {
    let command = request.header.command;
    if command == Command::NEGOTIATE && ops.connection.negotiated().is_some() {
        // MS-SMB2 §3.3.5.4.
        return Err(Stop::Disconnect);
    }
    let row = row(command).ok_or(NtStatus::INVALID_PARAMETER)?;
    if ops.connection.negotiated().is_none() && command != Command::NEGOTIATE {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let channel = ops.channel.as_ref().filter(|channel| channel.is_valid());
    if let Some(channel) = channel {
        // What has waited was checked before, perhaps by the key of a channel that is gone.
        if ops.waker.is_none() {
            check_protection(ops, request, channel, sealed_by)?;
        }
    } else if sealed_by.is_some() {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    check_charge(request)?;
    match row.needs {
        Needs::BeAlone if !is_alone => return Err(NtStatus::INVALID_PARAMETER.into()),
        Needs::BeAlone | Needs::Nothing => {}
        Needs::Session | Needs::Tree => _ = channel.ok_or(NtStatus::USER_SESSION_DELETED)?,
    }
    if row.needs == Needs::Tree {
        let tree = ops.tree()?;
        if let Some(disk) = tree.disk() {
            if command != Command::TREE_DISCONNECT {
                check_served(ops, tree, disk)?;
            }
            ops.check_sealed(disk)?;
        }
    }
    Ok(row)
}

/// Whether a share is what it was when its client connected to it. If it is not, the client may connect to it again, and is not to
/// meet what it had open.
fn check_served(ops: &Ops<'_>, tree: &Arc<Tree>, disk: &Disk) -> Result<(), Stop> {
    if disk.is_served(ops.namespace, origin(ops)) {
        return Ok(());
    }
    if ops.blocking == Blocking::Never {
        // There may be much to close.
        return Err(Stop::WouldBlock);
    }
    ops.service.end_tree_if_gone(ops.session()?, tree);
    Err(NtStatus::NETWORK_NAME_DELETED.into())
}

/// Signature and encryption of a request of an established session (MS-SMB2 §3.3.5.2.4, §3.3.5.2.11).
fn check_protection(
    ops: &Ops<'_>,
    request: &Message<'_>,
    channel: &Channel,
    sealed_by: Option<&Arc<Session>>,
) -> Result<(), Stop> {
    if is_protected(request, channel, sealed_by) {
        let is_bare = sealed_by.is_none() && !request.header.flags.contains(Flags::SIGNED);
        // With 3.1.1 it proves that the negotiation was not changed on the way (MS-SMB2 §3.3.5.7).
        let proves = request.header.command == Command::TREE_CONNECT
            && !channel.session.is_anonymous()
            && ops.connection.negotiated().is_some_and(|negotiated| negotiated.dialect == Dialect::SMB311);
        return if is_bare && proves { Err(Stop::Disconnect) } else { Ok(()) };
    }
    if sealed_by.is_none() {
        let (peer, is_signed) = (ops.ends.peer, request.header.flags.contains(Flags::SIGNED));
        tracing::warn!(%peer, command = ?request.header.command, is_signed, "a request without a valid signature is refused");
    }
    Err(NtStatus::ACCESS_DENIED.into())
}

fn is_protected(request: &Message<'_>, channel: &Channel, sealed_by: Option<&Arc<Session>>) -> bool {
    match sealed_by {
        Some(sealer) => Arc::ptr_eq(sealer, &channel.session),
        None if request.header.flags.contains(Flags::SIGNED) => channel.verify(request.bytes),
        None => !channel.session.must_sign(),
    }
}

/// CANCEL (MS-SMB2 §3.3.5.16), which has no reply. It is for requests of its own session and connection.
fn cancel(connection: &Connection, request: &Message<'_>, sealed_by: Option<&Arc<Session>>) {
    let header = &request.header;
    let channel = connection.channel(header.session_id).filter(|channel| channel.is_valid());
    let Some(channel) = channel.filter(|channel| is_protected(request, channel, sealed_by)) else { return };
    channel.session.waiting().cancel(connection.number, header.async_id(), header.message_id);
}

/// What a request moves must be paid for with its credits (MS-SMB2 §3.3.5.2.5).
fn check_charge(request: &Message<'_>) -> Result<(), NtStatus> {
    let length = crate::request::payload::payload_bytes(request);
    let needed = 1 + length.saturating_sub(1) / CREDIT_BYTES;
    let charge = u32::from(request.header.credit_charge.max(1));
    if charge < needed { Err(NtStatus::INVALID_PARAMETER) } else { Ok(()) }
}
