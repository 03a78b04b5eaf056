//! What the commands of a message share: who asks, over what, and how they end.

use super::copying::Copying;
use super::limit_wait::Turn;
use crate::request::path_lookup::Trail;
use crate::state::caching::breaks::CacheUse;
use crate::state::connection::Connection;
use crate::state::open::Open;
use crate::state::open::channel_sequence::Outstanding;
use crate::state::open::open_table::Creation;
use crate::state::pending::{Asked, Cancel, Interim, Undo, Waker, Woken};
use crate::state::pipe::Pipe;
use crate::state::service::Service;
use crate::state::session::Session;
use crate::state::session::channel::Channel;
use crate::state::tree::{Disk, Tree};
use crate::status::of_fs_error;
use smb_wire::crypto::signing;
use smb_wire::header::{Flags, Header};
use smb_wire::negotiate::Capabilities;
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, FileId, Malformed, NtStatus, Writer};
use std::net::IpAddr;
use std::sync::Arc;
use transport::{CallStats, Endpoints, Pipe as Pages};
use vfs::claims::{Io, IoKind, Request, Requester, Span, Ticket, Verdict};
use vfs::qos::{Admission, Kind, Permit, QueueResult, Transferred};
use vfs::{Attrs, Blocking, File, FsError, Namespace, PendingSync, ShareSettings, Time, Wait};

/// How a command ended that has a reply of its own: the status of that. Anything else is an error, which has no body.
pub(crate) type Done = Result<NtStatus, Stop>;

/// Why a command has no reply of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is refused.
    Status(NtStatus),
    /// It has to wait for the storage, which it may not here.
    WouldBlock,
    /// Somebody else has to give way first: it is to be tried again.
    Delayed,
    /// It has to wait for its turn at a limit.
    Unpaid,
    /// It is done again when it is woken ([`Ops::wait`]).
    Later,
    /// It ends the connection: what was said before cannot be trusted.
    Disconnect,
}

impl From<NtStatus> for Stop {
    fn from(status: NtStatus) -> Self {
        Self::Status(status)
    }
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Self {
        match error {
            FsError::Wait(Wait::Storage) => Self::WouldBlock,
            FsError::Wait(Wait::Recall) => Self::Delayed,
            error => Self::Status(of_fs_error(error)),
        }
    }
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Status(NtStatus::INVALID_PARAMETER)
    }
}

/// What a command is given besides its request.
pub(crate) struct Ops<'c> {
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
    /// The header of the request, with the ids that related commands take over, and those that the command makes.
    pub(crate) header: Header,
    /// The session of the request as its connection has it, be it bound already or not.
    pub(crate) channel: Option<Arc<Channel>>,
    /// What the reply is signed with, unless it is encrypted.
    pub(crate) signer: Option<Arc<signing::Key>>,
    pub(crate) tree: Option<Arc<Tree>>,
    /// The file of the commands before it in a compound.
    pub(crate) file: Option<FileId>,
    /// What that was like when one of them opened it, if they have done nothing else.
    pub(crate) told: Option<Attrs>,
    /// How the command before it failed, if it did.
    pub(crate) failed: Option<NtStatus>,
    /// That the request is being done, as its open counts it.
    pub(crate) outstanding: Option<Outstanding>,
    /// What wakes the request, if it waits or has waited.
    pub(crate) waker: Option<Waker>,
    /// How it was woken, if it has waited.
    pub(crate) woken: Option<Woken>,
    /// How it stops waiting.
    pub(crate) cancel: Option<Cancel>,
    /// What it does if it gets what it waits for when nobody is there any more.
    pub(crate) undo: Option<Undo>,
    /// Its turn at a limit, if it waits or has waited for one by itself.
    pub(crate) turn: Option<Turn>,
    /// How far it has copied, if it has to pay before it copies more.
    pub(crate) copying: Option<Box<Copying>>,
    /// That the request is a CREATE under way, as it may come again.
    pub(crate) creation: Option<Creation>,
    /// Caches of which the client learns with the reply.
    pub(crate) unanswered: Vec<CacheUse>,
    /// Whether the message was encrypted.
    pub(crate) is_sealed: bool,
    /// Whether it is the last one of its message.
    pub(crate) is_last: bool,
    /// The memory it takes while it waits.
    pub(crate) bytes: usize,
    /// Whether its reply is compressed if it is long.
    pub(crate) compresses: bool,
    /// Whether its reply may end with pages of a file: nothing follows it, and nothing is computed of its bytes.
    pub(crate) takes_pages: bool,
    /// Those pages.
    pub(crate) pages: Option<Pages>,
}

impl Ops<'_> {
    /// The structure behind the header of a request.
    pub(crate) fn decode<'a, T: Decode<'a>>(request: &'a [u8]) -> Result<T, Malformed> {
        let mut r = smb_wire::Reader::new(request);
        r.skip(smb_wire::header::HEADER_SIZE)?;
        T::decode(&mut r)
    }

    /// Writes the reply of a command that has succeeded.
    #[expect(clippy::unused_self, reason = "a reply is one to a command")]
    pub(crate) fn reply(&self, w: &mut Writer<'_>, reply: &impl Encode) -> Done {
        reply.encode(w);
        Ok(NtStatus::SUCCESS)
    }

    /// Counts a command that reads or writes, and the bytes that it has moved: the commands of a message add up.
    pub(crate) fn count(&mut self, kind: Kind, moved: Transferred) {
        if self.stats.kind != Kind::Write {
            self.stats.kind = kind;
        }
        self.stats.count_data(moved);
    }

    /// The session of the request.
    pub(crate) fn session(&self) -> Result<&Arc<Session>, NtStatus> {
        let channel = self.channel.as_ref().ok_or(NtStatus::USER_SESSION_DELETED)?;
        Ok(&channel.session)
    }

    /// The tree connect of the request.
    pub(crate) fn tree(&self) -> Result<&Arc<Tree>, NtStatus> {
        self.tree.as_ref().ok_or(NtStatus::NETWORK_NAME_DELETED)
    }

    /// Whether the message is encrypted where a share asks for that. Checked for each share that a command takes an object of.
    pub(crate) fn check_sealed(&self, disk: &Disk) -> Result<(), NtStatus> {
        if disk.must_seal && !self.is_sealed { Err(NtStatus::ACCESS_DENIED) } else { Ok(()) }
    }

    /// Whether what is open of a share outlives the service, for a client that knows such opens.
    pub(crate) fn is_continuously_available(&self, disk: &Disk) -> bool {
        let agreed = self.connection.negotiated();
        agreed.is_some_and(|agreed| agreed.capabilities.contains(Capabilities::PERSISTENT_HANDLES))
            && self.share_settings(disk).continuously_available
    }

    /// What holds for a share now.
    pub(crate) fn share_settings(&self, disk: &Disk) -> ShareSettings {
        self.namespace.export(disk.export.id).map_or(disk.export.share, |export| export.share)
    }

    /// Whether long replies of the share are compressed, to a client that can read them.
    pub(crate) fn share_compresses(&self) -> bool {
        let has_disk =
            |tree: &Arc<Tree>| tree.disk().is_some_and(|disk| self.share_settings(disk).compression);
        self.connection.compression().is_some() && self.tree.as_ref().is_some_and(has_disk)
    }

    /// What wakes this request, which is about `file` and ends with `closed_with` when that is closed. From now on it is one of those
    /// that are answered later, of which there are only so many.
    pub(crate) fn waker(
        &mut self,
        file: Option<FileId>,
        closed_with: NtStatus,
        interim: Interim,
    ) -> Result<Waker, NtStatus> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        if interim == Interim::OfLast && !self.is_last {
            return Err(NtStatus::INTERNAL_ERROR);
        }
        let asked = Asked {
            async_id: self.service.counts.next_id(),
            connection: self.connection.number,
            message_id: self.header.message_id,
            tree_id: self.header.tree_id(),
            file,
            closed_with,
            interim,
            outlives: self.creation.is_some(),
        };
        let too_many = NtStatus::INSUFFICIENT_RESOURCES;
        let ours = self.connection.waiting.take(self.bytes).ok_or(too_many)?;
        let of_user =
            self.session()?.user().waiting.take_beside(self.bytes, &self.service.waiting).ok_or(too_many)?;
        let all = self.service.waiting.take(self.bytes).ok_or(too_many)?;
        let waker = self.session()?.waker(asked, [ours, of_user, all])?;
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Has the request wait for its [`Waker`], which somebody has by now.
    pub(crate) fn wait(&mut self, cancel: Cancel) -> Stop {
        self.cancel = Some(cancel);
        Stop::Later
    }

    /// Has the request wait for a ticket of a claim on `file` that `disk` was given.
    pub(crate) fn wait_for_claim(&mut self, disk: &Disk, file: &File, ticket: Ticket, waker: &Waker) -> Stop {
        let cancel = disk.claimant.wait(file, ticket, waker);
        self.wait(cancel)
    }

    /// Has the request wait until others have given up what stands in the way of reading or writing through `open`. Its client is not
    /// told.
    pub(crate) fn wait_for_io(&mut self, open: &Open, kind: IoKind, span: Span) -> Stop {
        let by = Requester::Open(open.claim());
        let request = Request::Io(Io { by, stream: open.file.stream(), kind, span, waits: true });
        self.wait_for_verdict(open, &open.file, &request)
    }

    /// The same before the name of `file` changes, which `open` is for or will replace.
    pub(crate) fn wait_for_name(&mut self, open: &Open, file: &File) -> Stop {
        let request = Request::Unlink { by: Requester::Open(open.claim()), waits: true };
        self.wait_for_verdict(open, file, &request)
    }

    fn wait_for_verdict(&mut self, open: &Open, file: &File, request: &Request) -> Stop {
        let waker = match self.waker(Some(open.id), NtStatus::FILE_CLOSED, Interim::Never) {
            Ok(waker) => waker,
            Err(status) => return status.into(),
        };
        match file.claim(request) {
            Verdict::Wait(ticket) => self.wait_for_claim(&open.disk, file, ticket, &waker),
            // What was in the way has gone, or is no lease.
            Verdict::Granted(_) | Verdict::Refused(_) => Stop::Delayed,
        }
    }

    /// Pays what a request about `open` owes at the limit of another volume than its own. Its client is not told if it has to wait.
    pub(crate) fn pay(&mut self, open: &Open, toll: Admission) -> Result<Permit, Stop> {
        if let Some(charge) = self.turn.take().and_then(Turn::into_charge) {
            return Ok(charge);
        }
        let toll = match toll.try_acquire() {
            Ok(charge) => return Ok(charge),
            Err(toll) => toll,
        };
        let waker = self.waker(Some(open.id), NtStatus::FILE_CLOSED, Interim::Never)?;
        let turn = Turn::default();
        match turn.wait(&toll, &waker) {
            QueueResult::Passed => Ok(toll.into_permit()),
            QueueResult::Full => Err(Stop::Delayed),
            QueueResult::Queued => {
                self.turn = Some(turn);
                Err(self.wait(Box::new(|| true)))
            }
        }
    }

    /// A file id of a request; in a compound, perhaps that of the command before.
    fn resolved(&self, id: FileId) -> Result<FileId, NtStatus> {
        let is_related = self.header.flags.contains(Flags::RELATED_OPERATIONS);
        match (self.file, self.failed) {
            // Whatever a related command names, it is about the file of the one before (MS-SMB2 §3.3.5.2.7.2).
            (Some(id), _) if is_related => Ok(id),
            // Where that has failed and opened no file, it fails in the same way.
            (None, Some(status)) if is_related => Err(status),
            _ if id == FileId::PREVIOUS => self.file.ok_or(NtStatus::FILE_CLOSED),
            _ => Ok(id),
        }
    }

    /// A pipe of the request's session and tree connect, if that is IPC$.
    pub(crate) fn pipe(&mut self, id: FileId) -> Result<Option<Arc<Pipe>>, NtStatus> {
        let tree = self.tree()?;
        if tree.disk().is_some() {
            return Ok(None);
        }
        let id = self.resolved(id)?;
        let pipe = self.session()?.pipe(id).filter(|pipe| pipe.tree_id == tree.id);
        let pipe = pipe.ok_or(NtStatus::FILE_CLOSED)?;
        self.file = Some(id);
        Ok(Some(pipe))
    }

    /// A file of the request's session and share that is open.
    pub(crate) fn open(&mut self, id: FileId) -> Result<Arc<Open>, NtStatus> {
        if self.pipe(id)?.is_some() {
            // What is asked is none of a pipe's.
            return Err(NtStatus::INVALID_DEVICE_REQUEST);
        }
        let id = self.resolved(id)?;
        let open = self.session()?.open(id).ok_or(NtStatus::FILE_CLOSED)?;
        let is_of_tree = self.tree()?.disk().is_some_and(|disk| Arc::ptr_eq(disk, &open.disk));
        if !is_of_tree {
            return Err(NtStatus::FILE_CLOSED);
        }
        self.file = Some(id);
        self.stats.target = Some(Arc::clone(&open.disk));
        self.count_outstanding(&open)?;
        Ok(open)
    }

    /// Whether this is the dialect of the connection.
    pub(crate) fn speaks(&self, dialect: Dialect) -> bool {
        self.connection.negotiated().is_some_and(|negotiated| negotiated.dialect == dialect)
    }

    /// Counts the request as one of its open, once, for clients that say which of theirs come from before (MS-SMB2 §3.3.5.2.10).
    fn count_outstanding(&mut self, open: &Arc<Open>) -> Result<(), NtStatus> {
        if self.outstanding.is_none() && !self.speaks(Dialect::SMB210) {
            self.outstanding = open.sequences.count(&self.header)?;
        }
        Ok(())
    }
}
