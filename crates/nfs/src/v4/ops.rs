//! What the operations of a compound share, and how they end.

use super::filehandle::Place;
use super::payment::Payment;
use crate::call::{Call, File};
use crate::limits::RECORD_BYTES_MAX;
use crate::state::nfs4::binding::Binding;
use crate::state::nfs4::client::Client;
use crate::state::nfs4::session::{Begun, Session, SlotInUse};
use crate::state::nfs4::state_table::Held;
use crate::state::nfs4::v40::Unsynced;
use crate::status::nfs4::status;
use nfs_wire::v4::{ClientId, StateOwner, Stateid, Status};
use std::sync::Arc;
use vfs::qos::{Admission, Transferred};
use vfs::{Attrs, FsError, OpenFile, Wait};
use xdr::{Encode, Writer};

/// What the operations of a compound share.
pub(super) struct Ops<'o, 'c> {
    /// The call.
    pub(super) call: &'o mut Call<'c>,
    /// What the connection is bound to.
    pub(super) binding: &'o Binding,
    /// The minor version.
    pub(super) minor: u32,
    /// The current filehandle.
    pub(super) current: Option<Place>,
    /// The saved filehandle.
    pub(super) saved: Option<Place>,
    /// What the operation before has given for [`Stateid::CURRENT`], and what is saved with the handle.
    pub(super) stateid: Option<Stateid>,
    pub(super) saved_stateid: Option<Stateid>,
    /// The attributes of the current file, right behind a WRITE.
    pub(super) written: Option<Attrs>,
    /// The slot in which it is done, once SEQUENCE was.
    pub(super) slot: Option<SlotInUse>,
    /// In 4.0, the requests of owners whose changes are not durable yet.
    pub(super) unsynced: Vec<Unsynced>,
    /// How many operations there are in all, and the arguments' bytes, for SEQUENCE.
    pub(super) operations: u32,
    pub(super) bytes: usize,
    /// A checksum of what follows SEQUENCE, or, in 4.0, of the operation.
    pub(super) checksum: u64,
    /// The arguments, the place of the operation that is being done in them, and how many there are from it on.
    pub(super) args: &'o [u8],
    pub(super) at: usize,
    pub(super) left: u32,
    /// How far the compound has paid.
    pub(super) payment: Payment,
    /// How often it may still be put off while somebody else gives back what is in its way.
    pub(super) patience: u32,
    /// Nothing comes behind the operation that is being done.
    pub(super) is_last: bool,
}

/// Why a compound does not go on after an operation.
#[derive(Debug)]
pub(super) enum Stop {
    /// The result is this status, with nothing but what every failure of the operation has.
    Status(Status),
    /// The result is written, but for its status, which is this one.
    Written(Status),
    /// It would have to wait for storage; nothing was done.
    WouldWait,
    /// Somebody else has to give something back first; nothing was done.
    Held,
    /// This has to be paid first; nothing was done.
    Unpaid(Admission),
    /// The whole was done before: these were the results.
    Replay(Box<[u8]>),
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Self {
        match error {
            FsError::Wait(Wait::Storage) => Self::WouldWait,
            FsError::Wait(Wait::Recall) => Self::Held,
            error => Self::Status(status(error)),
        }
    }
}

/// How an operation ended.
pub(super) type Done = Result<(), Stop>;

impl Ops<'_, '_> {
    /// The current filehandle.
    pub(super) fn place(&self) -> Result<&Place, Stop> {
        self.current.as_ref().ok_or(Stop::Status(Status::NOFILEHANDLE))
    }

    /// Whether a reply of so many bytes fits what was agreed on for the session (RFC 8881 §18.46.3), or in 4.0, where nothing
    /// is agreed on, the longest record.
    pub(super) fn check_room(&self, bytes: usize) -> Result<(), Status> {
        if self.minor == 0 && bytes > RECORD_BYTES_MAX {
            return Err(Status::RESOURCE);
        }
        let Some(slot) = &self.slot else { return Ok(()) };
        let fore = &slot.session().fore;
        if bytes > fore.maxresponsesize as usize {
            return Err(Status::REP_TOO_BIG);
        }
        let is_too_long = slot.keeps() && bytes > fore.maxresponsesize_cached as usize;
        if is_too_long { Err(Status::REP_TOO_BIG_TO_CACHE) } else { Ok(()) }
    }

    /// The file of the current filehandle.
    pub(super) fn file(&self) -> Result<File, Stop> {
        match self.place()? {
            Place::File(file) => {
                let mut file = file.clone();
                file.caller.by = self.by(&file);
                Ok(file)
            }
            Place::Pseudo(_) => Err(Stop::Status(Status::ROFS)),
        }
    }

    /// Counts data that were read or written: those of all operations of a compound add up.
    pub(super) fn count_data(&mut self, moved: Transferred) {
        self.call.stats.count_data(moved);
    }

    /// Counts bytes of listings, links and attributes, which limits count as data.
    pub(super) fn count_listed(&mut self, moved: Transferred) {
        self.call.stats.count_listed(moved);
    }

    /// The client whose session this is.
    pub(super) fn client(&self) -> Result<Arc<Client>, Stop> {
        let slot = self.slot.as_ref().ok_or(Stop::Status(Status::OP_NOT_IN_SESSION))?;
        Ok(Arc::clone(&slot.session().client))
    }

    /// The client of an owner: that of the session, whatever number the owner has (RFC 8881 §18.16.3).
    pub(super) fn owner_client(&self, owner: &StateOwner<'_>) -> Result<Arc<Client>, Stop> {
        if self.minor == 0 { self.client_40(owner.clientid) } else { self.client() }
    }

    /// The client of a stateid: that of the session, or the one that the stateid tells of (RFC 7530 §9.1.4).
    pub(super) fn client_of(&self, stateid: &Stateid) -> Result<Arc<Client>, Stop> {
        if self.minor > 0 {
            return self.client();
        }
        if let Some(client) = self.binding.client(Held::client_of(stateid)) {
            self.call.service.v4.use_40(&client)?;
            return Ok(client);
        }
        self.client_40(self.call.service.v4.client_of_stateid(stateid)?)
    }

    /// The client that is calling, as far as is known before it says so.
    pub(super) fn likely_client(&self) -> Option<Arc<Client>> {
        if self.minor == 0 { self.binding.last_client() } else { self.client().ok() }
    }

    /// The client of 4.0 with this number, which is heard.
    pub(super) fn client_40(&self, id: ClientId) -> Result<Arc<Client>, Stop> {
        let state = &self.call.service.v4;
        if let Some(client) = self.binding.client(id) {
            state.use_40(&client)?;
            return Ok(client);
        }
        let client = state.client_40(id, (self.call.client(), self.call.protection))?;
        self.binding.bind_client(&client);
        Ok(client)
    }

    /// A stateid of an operation's arguments: the current one where it says so (RFC 8881 §16.2.3.1.2). In 4.0 each is of its
    /// moment.
    pub(super) fn stateid(&self, stateid: &Stateid) -> Result<Stateid, Stop> {
        match *stateid {
            Stateid { seqid: 0, .. } if self.minor == 0 => Err(Stop::Status(Status::BAD_STATEID)),
            other if self.minor == 0 => Ok(other),
            Stateid::CURRENT => self.stateid.ok_or(Stop::Status(Status::BAD_STATEID)),
            other => Ok(other),
        }
    }
}

/// What a stateid allows: nothing of its own if it is a special one.
pub(super) type Kept = Option<Arc<OpenFile<'static>>>;

/// Begins the request of a SEQUENCE in its slot.
pub(super) fn begin<'s>(ops: &'s mut Ops<'_, '_>, begun: Begun) -> Result<&'s Session, Stop> {
    match begun {
        Begun::New(slot) => Ok(ops.slot.insert(slot).session()),
        Begun::Replay(results) => Err(Stop::Replay(results)),
    }
}

/// Writes what follows the status of a success.
pub(super) fn reply(w: &mut Writer<'_>, ok: &impl Encode) -> Done {
    ok.encode(w);
    Ok(())
}
