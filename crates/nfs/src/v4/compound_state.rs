//! State that the operations of a compound share, and their errors.

use super::filehandle::Filehandle;
use super::payment::Payment;
use crate::call::{Call, File};
use crate::limits::RECORD_BYTES_MAX;
use crate::state::nfs4::binding::Binding;
use crate::state::nfs4::client::Client;
use crate::state::nfs4::session::{SequenceStart, Session, SlotInUse};
use crate::state::nfs4::state_table::StateTable;
use crate::state::nfs4::v40::UnsyncedRequest;
use crate::status::nfs4::status;
use nfs_wire::v4::{ClientId, Op, StateOwner, Stateid, Status};
use std::sync::Arc;
use vfs::qos::Transferred;
use vfs::{Attrs, FsError, Wait};
use xdr::{Encode, Writer};

pub(super) struct CompoundState<'o, 'c> {
    pub(super) call: &'o mut Call<'c>,
    pub(super) binding: &'o Binding,
    pub(super) request: CompoundRequest<'o>,
    pub(super) current: Option<Filehandle>,
    pub(super) saved: Option<Filehandle>,
    /// The attributes of the current file directly after a WRITE, for the GETATTR that usually follows.
    pub(super) written: Option<Attrs>,
    /// Checksum of the bytes after SEQUENCE, or in 4.0 of the operation.
    pub(super) checksum: u64,
    /// Offset of the running operation in the arguments.
    pub(super) at: usize,
    pub(super) state: ResumeState,
}

/// A COMPOUND as the client sent it.
#[derive(Clone, Copy)]
pub(super) struct CompoundRequest<'o> {
    pub(super) minor: u32,
    /// Number of operations.
    pub(super) operations: u32,
    pub(super) args: &'o [u8],
}

/// The part of a compound's state that outlives a wait, moved as one value.
pub(super) struct ResumeState {
    pub(super) progress: RunState,
    /// The current stateid ([`Stateid::CURRENT`]), and the one that SAVEFH saved.
    pub(super) stateid: Option<Stateid>,
    pub(super) saved_stateid: Option<Stateid>,
    /// The session slot, once SEQUENCE ran.
    pub(super) slot: Option<SlotInUse>,
    /// In 4.0, the requests of owners whose changes are not durable yet.
    pub(super) unsynced: Vec<UnsyncedRequest>,
    pub(super) payment: Payment,
    /// Number of times that the compound may still wait for another client to return a delegation or lease.
    pub(super) retries_left: u32,
}

pub(super) struct RunState {
    /// Operations not begun, the running one included.
    pub(super) remaining: u32,
    pub(super) done: u32,
    pub(super) status: Status,
    /// The first operation that needs a flush, and the results before it.
    pub(super) unsynced: Option<(Op, Vec<u8>)>,
    /// Whether the results are those of an earlier run of the same request.
    pub(super) is_replayed: bool,
}

impl RunState {
    pub(super) fn is_running(&self) -> bool {
        self.remaining > 0 && self.status == Status::OK && !self.is_replayed
    }

    /// Counts an operation that ran. `results` returns the results before it, if it is the first that needs a flush.
    pub(super) fn count(
        &mut self,
        op: Op,
        status: Status,
        needs_sync: bool,
        results: impl FnOnce() -> Vec<u8>,
    ) {
        self.status = status;
        self.done += 1;
        self.remaining -= 1;
        if needs_sync && self.unsynced.is_none() {
            let mut results = results();
            patch(&mut results, 0, status, self.done);
            self.unsynced = Some((op, results));
        }
    }
}

/// Writes the status and the number of results into the results that begin at `start`.
pub(super) fn patch(bytes: &mut Vec<u8>, start: usize, status: Status, done: u32) {
    let tag =
        bytes.get(start + 4..start + 8).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes);
    let mut w = Writer::new(bytes);
    w.patch_u32(start, status.0);
    w.patch_u32(start + 8 + (tag as usize).next_multiple_of(4), done);
}

/// The reason why an operation did not succeed.
#[derive(Debug)]
pub(super) enum OpError {
    /// The operation fails with this status and no further result.
    Status(Status),
    /// The result is written except for its status, which is this.
    Written(Status),
    /// The operation has to wait and changed nothing. With [`Wait::Tokens`], `payment.owed` is the admission to wait for.
    Wait(Wait),
    /// The request was done before, with these results.
    Replay(Box<[u8]>),
}

impl From<Status> for OpError {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<FsError> for OpError {
    fn from(error: FsError) -> Self {
        match error {
            FsError::Wait(wait @ (Wait::Storage | Wait::Recall)) => Self::Wait(wait),
            error => Self::Status(status(error)),
        }
    }
}

pub(super) type OpResult = Result<(), OpError>;

impl CompoundState<'_, '_> {
    /// Whether no operation follows the running one.
    pub(super) fn is_last(&self) -> bool {
        self.state.progress.remaining == 1
    }

    pub(super) fn current_filehandle(&self) -> Result<&Filehandle, OpError> {
        self.current.as_ref().ok_or(OpError::Status(Status::NOFILEHANDLE))
    }

    /// Checks that a reply of this length fits the session's channel (RFC 8881 §18.46.3), or in 4.0 the longest record.
    pub(super) fn check_room(&self, bytes: usize) -> Result<(), Status> {
        // 4.0 negotiates no size.
        if self.request.minor == 0 && bytes > RECORD_BYTES_MAX {
            return Err(Status::RESOURCE);
        }
        let Some(slot) = &self.state.slot else { return Ok(()) };
        let fore = &slot.session().fore;
        if bytes > fore.maxresponsesize as usize {
            return Err(Status::REP_TOO_BIG);
        }
        let is_too_long = slot.keeps() && bytes > fore.maxresponsesize_cached as usize;
        if is_too_long { Err(Status::REP_TOO_BIG_TO_CACHE) } else { Ok(()) }
    }

    /// The file of the current filehandle.
    pub(super) fn file(&self) -> Result<File, OpError> {
        match self.current_filehandle()? {
            Filehandle::File(file) => {
                let mut file = file.clone();
                file.caller.by = self.requester(&file);
                Ok(file)
            }
            Filehandle::Pseudo(_) => Err(OpError::Status(Status::ROFS)),
        }
    }

    /// Counts data that were read or written: those of all operations of a compound add up.
    pub(super) fn count_data(&mut self, moved: Transferred) {
        self.call.stats.count_data(moved);
    }

    /// Counts bytes of listings, links and attributes, which limits count as data.
    pub(super) fn count_metadata(&mut self, moved: Transferred) {
        self.call.stats.count_metadata(moved);
    }

    pub(super) fn client(&self) -> Result<Arc<Client>, OpError> {
        let slot = self.state.slot.as_ref().ok_or(OpError::Status(Status::OP_NOT_IN_SESSION))?;
        Ok(Arc::clone(&slot.session().client))
    }

    /// The client of an owner: that of the session, whatever number the owner has (RFC 8881 §18.16.3).
    pub(super) fn owner_client(&self, owner: &StateOwner<'_>) -> Result<Arc<Client>, OpError> {
        if self.request.minor == 0 { self.client_40(owner.clientid) } else { self.client() }
    }

    /// The client of a stateid: that of the session, or the one that the stateid tells of (RFC 7530 §9.1.4).
    pub(super) fn client_of(&self, stateid: &Stateid) -> Result<Arc<Client>, OpError> {
        if self.request.minor > 0 {
            return self.client();
        }
        if let Some(client) = self.binding.client(StateTable::client_of(stateid)) {
            self.call.service.v4.renew_lease_40(&client)?;
            return Ok(client);
        }
        self.client_40(self.call.service.v4.client_of_stateid(stateid)?)
    }

    /// The client that is probably calling, before the request identifies it.
    pub(super) fn likely_client(&self) -> Option<Arc<Client>> {
        if self.request.minor == 0 { self.binding.last_client() } else { self.client().ok() }
    }

    /// The client of 4.0 with this id. Renews its lease.
    pub(super) fn client_40(&self, id: ClientId) -> Result<Arc<Client>, OpError> {
        let state = &self.call.service.v4;
        if let Some(client) = self.binding.client(id) {
            state.renew_lease_40(&client)?;
            return Ok(client);
        }
        let client = state.client_40(id, self.call.client(), self.call.protection)?;
        self.binding.bind_client(&client);
        Ok(client)
    }

    /// Resolves a stateid of an operation's arguments: the special current one (RFC 8881 §16.2.3.1.2). 4.0 has no seqid
    /// 0.
    pub(super) fn stateid(&self, stateid: &Stateid) -> Result<Stateid, OpError> {
        match *stateid {
            Stateid { seqid: 0, .. } if self.request.minor == 0 => Err(OpError::Status(Status::BAD_STATEID)),
            other if self.request.minor == 0 => Ok(other),
            Stateid::CURRENT => self.state.stateid.ok_or(OpError::Status(Status::BAD_STATEID)),
            other => Ok(other),
        }
    }
}

pub(super) fn begin<'s>(
    cx: &'s mut CompoundState<'_, '_>,
    begun: SequenceStart,
) -> Result<&'s Session, OpError> {
    match begun {
        SequenceStart::New(slot) => Ok(cx.state.slot.insert(slot).session()),
        SequenceStart::Replay(results) => Err(OpError::Replay(results)),
    }
}

pub(super) fn reply(w: &mut Writer<'_>, ok: &impl Encode) -> OpResult {
    ok.encode(w);
    Ok(())
}
