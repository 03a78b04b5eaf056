//! The context of a command: its message, its session and tree connect, and the state that it leaves to related commands.

use super::outcome::CommandResult;
use super::path_lookup::PathCache;
use super::wait::WaitState;
use crate::state::caching::breaks::CacheGuard;
use crate::state::connection::Connection;
use crate::state::open::Open;
use crate::state::pipe::Pipe;
use crate::state::service::Service;
use crate::state::session::Session;
use crate::state::session::channel::Channel;
use crate::state::tree::{DiskShare, TreeConnect};
use smb_wire::crypto::signing;
use smb_wire::header::{Command, Flags, Header};
use smb_wire::negotiate::Capabilities;
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, FileId, Malformed, NtStatus, Writer};
use std::net::IpAddr;
use std::sync::Arc;
use transport::{CallStats, Endpoints, Pipe as Pages};
use vfs::qos::{Kind, Permit, Transferred};
use vfs::{Attrs, Blocking, Namespace, PendingSync, ShareSettings, Time};

pub(crate) struct MessageContext<'c> {
    pub(crate) service: &'c Service,
    pub(crate) connection: &'c Connection,
    pub(crate) namespace: &'c Arc<Namespace>,
    pub(crate) endpoints: Endpoints,
    /// The client's address at limits.
    pub(crate) client_address: IpAddr,
    pub(crate) blocking: Blocking,
    pub(crate) now: Time,
    pub(crate) pending: &'c mut PendingSync,
    pub(crate) path_cache: &'c mut PathCache,
    pub(crate) stats: &'c mut CallStats<Arc<DiskShare>>,
    pub(crate) permit: &'c mut Option<Permit>,
}

/// State that a command leaves to the related commands after it (MS-SMB2 §3.3.5.2.7.2).
#[derive(Clone, Copy, Default)]
pub(crate) struct RelatedState {
    /// Session id and tree connect id; `None` before the first command.
    pub(crate) ids: Option<(u64, u32)>,
    pub(crate) file_id: Option<FileId>,
    /// The file's attributes at its open; `None` once a command may have changed them.
    pub(crate) attrs_at_open: Option<Attrs>,
    pub(crate) error: Option<NtStatus>,
}

#[derive(Default)]
pub(crate) struct ReplyOptions {
    /// The key of the signature, unless the reply is encrypted.
    pub(crate) signer: Option<Arc<signing::Key>>,
    pub(crate) compresses: bool,
    /// Whether the reply may end with pages of a file. Requires that no reply follows and that nothing is computed over
    /// the bytes.
    pub(crate) takes_pages: bool,
    pub(crate) pages: Option<Pages>,
    /// Caches that the reply grants. Their breaks must follow the reply.
    pub(crate) guards: Vec<CacheGuard>,
}

pub(crate) struct RequestContext<'c, 'm> {
    pub(crate) message: &'c mut MessageContext<'m>,
    /// The header of the request, with inherited ids and ids that the command creates.
    pub(crate) header: Header,
    /// The request's session on this connection, bound or not.
    pub(crate) channel: Option<Arc<Channel>>,
    pub(crate) tree: Option<Arc<TreeConnect>>,
    pub(crate) related: RelatedState,
    pub(crate) is_sealed: bool,
    pub(crate) is_last: bool,
    pub(crate) wait: WaitState,
    pub(crate) reply: ReplyOptions,
}

pub(crate) enum OpenObject {
    File(Arc<Open>),
    Pipe(Arc<Pipe>),
}

impl<'c, 'm> RequestContext<'c, 'm> {
    /// Creates the context of a command that follows a command with the state `related`.
    pub(crate) fn new(
        message: &'c mut MessageContext<'m>,
        header: Header,
        related: &RelatedState,
        wait: WaitState,
    ) -> Self {
        let channel = message.connection.channel(header.session_id);
        let valid = channel.as_ref().filter(|channel| channel.is_valid());
        let signer = valid.and_then(|channel| channel.reply_key(&header));
        let tree = valid.and_then(|channel| channel.session.tree(header.tree_id()));
        // A CREATE that opens no file leaves none to the commands behind it.
        let file_id = related.file_id.filter(|_| header.command != Command::CREATE);
        Self {
            message,
            header,
            channel,
            tree,
            related: RelatedState { file_id, ..*related },
            is_sealed: false,
            is_last: true,
            wait,
            reply: ReplyOptions { signer, ..ReplyOptions::default() },
        }
    }

    /// Decodes the structure after the header of a request.
    pub(crate) fn decode<'a, T: Decode<'a>>(request: &'a [u8]) -> Result<T, Malformed> {
        let mut r = smb_wire::Reader::new(request);
        r.skip(smb_wire::header::HEADER_SIZE)?;
        T::decode(&mut r)
    }

    #[expect(clippy::unused_self, reason = "a reply is one to a command")]
    pub(crate) fn respond(&self, w: &mut Writer<'_>, response: &impl Encode) -> CommandResult {
        response.encode(w);
        Ok(NtStatus::SUCCESS)
    }

    /// Counts a command that reads or writes, and its bytes. A message with any write counts as a write.
    pub(crate) fn count_transfer(&mut self, kind: Kind, moved: Transferred) {
        let stats = &mut self.message.stats;
        if stats.kind != Kind::Write {
            stats.kind = kind;
        }
        stats.count_data(moved);
    }

    pub(crate) fn session(&self) -> Result<&Arc<Session>, NtStatus> {
        let channel = self.channel.as_ref().ok_or(NtStatus::USER_SESSION_DELETED)?;
        Ok(&channel.session)
    }

    pub(crate) fn tree(&self) -> Result<&Arc<TreeConnect>, NtStatus> {
        self.tree.as_ref().ok_or(NtStatus::NETWORK_NAME_DELETED)
    }

    /// Fails unless the message is encrypted where a share requires encryption. A command checks each share whose
    /// objects it uses.
    pub(crate) fn check_sealed(&self, disk: &DiskShare) -> Result<(), NtStatus> {
        if disk.must_seal && !self.is_sealed { Err(NtStatus::ACCESS_DENIED) } else { Ok(()) }
    }

    /// Whether opens of a share survive a restart of the service, for a client that supports this.
    pub(crate) fn is_continuously_available(&self, disk: &DiskShare) -> bool {
        let negotiated = self.message.connection.negotiated();
        negotiated.is_some_and(|agreed| agreed.capabilities.contains(Capabilities::PERSISTENT_HANDLES))
            && self.share_settings(disk).continuously_available
    }

    pub(crate) fn share_settings(&self, disk: &DiskShare) -> ShareSettings {
        self.message.namespace.export(disk.export.id).map_or(disk.export.share, |export| export.share)
    }

    /// Whether long replies of the share are compressed.
    pub(crate) fn share_compresses(&self) -> bool {
        let is_set =
            |tree: &Arc<TreeConnect>| tree.disk().is_some_and(|disk| self.share_settings(disk).compression);
        self.message.connection.compression().is_some() && self.tree.as_ref().is_some_and(is_set)
    }

    /// Resolves a file id of a request. A related command inherits the id of the previous command.
    fn resolve_file_id(&self, id: FileId) -> Result<FileId, NtStatus> {
        let is_related = self.header.flags.contains(Flags::RELATED_OPERATIONS);
        match (self.related.file_id, self.related.error) {
            // The id in a related command is ignored (MS-SMB2 §3.3.5.2.7.2).
            (Some(id), _) if is_related => Ok(id),
            // If the command before failed and opened no file, this one fails with the same status.
            (None, Some(status)) if is_related => Err(status),
            _ if id == FileId::PREVIOUS => self.related.file_id.ok_or(NtStatus::FILE_CLOSED),
            _ => Ok(id),
        }
    }

    /// Finds the object in the request's session and tree connect.
    pub(crate) fn object(&mut self, id: FileId) -> Result<OpenObject, NtStatus> {
        let tree = self.tree.as_ref().ok_or(NtStatus::NETWORK_NAME_DELETED)?;
        let id = self.resolve_file_id(id)?;
        let Some(disk) = tree.disk() else {
            let pipe = self.session()?.pipe(id).filter(|pipe| pipe.tree_id == tree.id);
            let pipe = pipe.ok_or(NtStatus::FILE_CLOSED)?;
            self.related.file_id = Some(id);
            return Ok(OpenObject::Pipe(pipe));
        };
        let open = self.session()?.open(id).filter(|open| Arc::ptr_eq(disk, &open.disk));
        let open = open.ok_or(NtStatus::FILE_CLOSED)?;
        self.related.file_id = Some(id);
        self.message.stats.target = Some(Arc::clone(&open.disk));
        self.count_in_open(&open)?;
        Ok(OpenObject::File(open))
    }

    /// Fails for pipes, which do not support the command.
    pub(crate) fn open(&mut self, id: FileId) -> Result<Arc<Open>, NtStatus> {
        match self.object(id)? {
            OpenObject::File(open) => Ok(open),
            OpenObject::Pipe(_) => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }

    pub(crate) fn pipe(&mut self, id: FileId) -> Result<Arc<Pipe>, NtStatus> {
        if self.tree()?.disk().is_some() {
            return Err(NtStatus::INVALID_DEVICE_REQUEST);
        }
        match self.object(id)? {
            OpenObject::Pipe(pipe) => Ok(pipe),
            OpenObject::File(_) => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }

    pub(crate) fn has_dialect(&self, dialect: Dialect) -> bool {
        self.message.connection.negotiated().is_some_and(|negotiated| negotiated.dialect == dialect)
    }

    /// Counts the request in its open, once (MS-SMB2 §3.3.5.2.10). SMB 2.1 has no channel sequence.
    fn count_in_open(&mut self, open: &Arc<Open>) -> Result<(), NtStatus> {
        if self.wait.outstanding.is_none() && !self.has_dialect(Dialect::SMB210) {
            self.wait.outstanding = open.sequences.channel.count(&self.header)?;
        }
        Ok(())
    }
}
