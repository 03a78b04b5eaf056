//! A client of NFSv4.1 or 4.2 with its sessions (RFC 8881 §2.10).
//!
//! Calls that create and destroy state go over a connection of the client's own, one at a time, in the first slot.

use std::fmt;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nfs_wire::v4::{
    self, Argument, BindConnToSessionArgs, Bitmap, CallbackSecParms, ChannelAttrs, ChannelDirFromClient,
    ClientId, ClientOwner, CloseArgs, CompoundHead, CompoundReplyHead, CreateSessionArgs, CreateSessionFlags,
    DestroyClientidArgs, DestroySessionArgs, ExchangeIdArgs, ExchangeIdFlags, GetattrArgs, Op, OpReply,
    OpenArgs, OpenClaim, OpenFlag, PROGRAM, Procedure, PutfhArgs, ReclaimCompleteArgs, Reply, SequenceArgs,
    SequenceStatus, SessionId, ShareAccess, ShareDeny, StateOwner, StateProtect, Stateid, Status, VERSION,
    attr,
};
use xdr::{Decode, Encode, Reader, Writer};

use crate::error::Error;
use crate::object::Handle;
use crate::rpc::{Connection, Identity, first_xid};
use crate::target::Target;

/// Upper bound of the bytes of a request or a reply besides its data.
pub(super) const OVERHEAD: u32 = 4 << 10;
/// Most bytes of data requested for one call.
const DATA_MAX: u32 = 1 << 20;
/// Longest reply that the server must cache for a repeated request.
const CACHED_MAX: u32 = 2 << 10;
/// Bounds the operations of a compound.
const OPERATIONS_MAX: u32 = 16;
/// Bounds the sessions of a client, for servers that grant few slots to each session.
const SESSIONS_MAX: usize = 64;
/// A call is repeated for this long while the server answers NFS4ERR_DELAY.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const END_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_DELAY: Duration = Duration::from_millis(10);
const LOST: SequenceStatus = SequenceStatus(
    SequenceStatus::EXPIRED_ALL_STATE_REVOKED.0
        | SequenceStatus::EXPIRED_SOME_STATE_REVOKED.0
        | SequenceStatus::ADMIN_STATE_REVOKED.0,
);

/// A slot of a session: one call at a time, numbered by `sequence`.
#[derive(Clone, Copy, Debug)]
pub struct SessionSlot {
    pub session: SessionId,
    pub slot: u32,
    /// The highest slot of the session (`sa_highest_slotid`).
    pub highest: u32,
    pub sequence: u32,
}

impl SessionSlot {
    pub fn arguments(&self, is_cached: bool) -> SequenceArgs {
        SequenceArgs {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: self.slot,
            highest_slotid: self.highest,
            cachethis: is_cached,
        }
    }

    #[inline]
    pub fn advance(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Takes back the sequence id of a call whose SEQUENCE was refused.
    pub(super) fn undo_advance(&mut self) {
        self.sequence = self.sequence.wrapping_sub(1);
    }
}

/// A client, its sessions and its opens. `Drop` closes the opens, then destroys sessions and client.
#[derive(Debug)]
pub struct ClientState {
    connection: Connection,
    minor: u32,
    pub id: ClientId,
    /// Each session with its number of slots.
    sessions: Vec<(SessionId, u32)>,
    own_slot: SessionSlot,
    /// The longest request, in bytes.
    pub request_max: u32,
    pub reply_max: u32,
    opens: Vec<(Handle, Stateid)>,
    identity: Identity,
    /// Whether the server has discarded the client.
    is_lost: bool,
}

impl ClientState {
    /// Registers a client whose sessions have `slots` slots besides the client's own.
    pub fn new(
        target: &Target,
        client: usize,
        identity: &Identity,
        minor: u32,
        slots: u32,
    ) -> Result<Self, Error> {
        let connection = Connection::open(target.address_for(client)?, identity.clone())?;
        let own_slot = SessionSlot { session: [0; _], slot: 0, highest: 0, sequence: 1 };
        let mut state = Self {
            connection,
            minor,
            id: 0,
            sessions: Vec::new(),
            own_slot,
            request_max: u32::MAX,
            reply_max: u32::MAX,
            opens: Vec::new(),
            identity: identity.clone(),
            is_lost: false,
        };
        let sequence = state.exchange_id()?;
        state.create_sessions(sequence, slots + 1)?;
        state.call(&"the client", &[Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })])?;
        Ok(state)
    }

    /// EXCHANGE_ID with a unique owner; returns the sequence number of the first CREATE_SESSION.
    fn exchange_id(&mut self) -> Result<u32, Error> {
        static CLIENTS: AtomicU32 = AtomicU32::new(0);
        let (number, start) = (CLIENTS.fetch_add(1, Ordering::Relaxed), first_xid());
        // A new owner for each client: the server must not take one client for the restart of another.
        let owner = format!("{} {} {start:08x} {number}", self.identity.machine, std::process::id());
        let mut verifier = [0; 8];
        verifier[..4].copy_from_slice(&start.to_be_bytes());
        let arguments = ExchangeIdArgs {
            clientowner: ClientOwner { verifier, ownerid: owner.as_bytes() },
            flags: ExchangeIdFlags::USE_NON_PNFS,
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        match call_without_session(&mut self.connection, self.minor, Argument::ExchangeId(arguments))? {
            OpReply::ExchangeId(Reply::Ok(ok)) => {
                self.id = ok.clientid;
                Ok(ok.sequenceid)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Creates sessions until they have `slots` slots together.
    fn create_sessions(&mut self, first: u32, slots: u32) -> Result<(), Error> {
        let (mut sequence, mut missing) = (first, slots);
        while missing > 0 {
            if self.sessions.len() == SESSIONS_MAX {
                let granted = slots - missing;
                return Err(Error::Unsupported(format!(
                    "{slots} calls in flight of a client need as many slots; this server gave {granted} in {SESSIONS_MAX} \
                     sessions: lower the depth or the connections"
                )));
            }
            let (session, granted) = self.create_session(sequence, missing)?;
            // A server may grant more slots than requested; these stay unused.
            self.sessions.push((session, granted.min(missing)));
            missing = missing.saturating_sub(granted);
            sequence = sequence.wrapping_add(1);
        }
        let first = self.slots().next();
        self.own_slot = first.unwrap_or(self.own_slot);
        Ok(())
    }

    fn create_session(&mut self, sequence: u32, slots: u32) -> Result<(SessionId, u32), Error> {
        let channel = |data: u32, requests: u32| ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: data + OVERHEAD,
            maxresponsesize: data + OVERHEAD,
            maxresponsesize_cached: CACHED_MAX,
            maxoperations: OPERATIONS_MAX,
            maxrequests: requests,
            rdma_ird: None,
        };
        let arguments = CreateSessionArgs {
            clientid: self.id,
            sequence,
            flags: CreateSessionFlags(0),
            fore_chan_attrs: channel(DATA_MAX, slots),
            back_chan_attrs: channel(0, 1),
            cb_program: 0,
            sec_parms: vec![CallbackSecParms::None],
        };
        let ok =
            match call_without_session(&mut self.connection, self.minor, Argument::CreateSession(arguments))?
            {
                OpReply::CreateSession(Reply::Ok(ok)) => ok,
                other => return Err(unexpected(&other)),
            };
        let fore = ok.fore_chan_attrs;
        if fore.maxrequests == 0 || fore.maxoperations < OPERATIONS_MAX / 2 {
            let (slots, operations) = (fore.maxrequests, fore.maxoperations);
            return Err(Error::Protocol(format!("a session with {slots} slots for {operations} operations")));
        }
        self.request_max = self.request_max.min(fore.maxrequestsize);
        self.reply_max = self.reply_max.min(fore.maxresponsesize);
        Ok((ok.sessionid, fore.maxrequests))
    }

    fn slots(&self) -> impl Iterator<Item = SessionSlot> {
        let session_slots = |&(session, slots): &(SessionId, u32)| {
            (0..slots).map(move |slot| SessionSlot { session, slot, highest: slots - 1, sequence: 1 })
        };
        self.sessions.iter().flat_map(session_slots)
    }

    pub fn load_slots(&self) -> Vec<SessionSlot> {
        // The first slot is the client's own.
        self.slots().skip(1).collect()
    }

    /// Opens another connection to the same server, and binds all sessions to it.
    pub fn connect(&self, target: &Target, client: usize) -> Result<TcpStream, Error> {
        let mut connection = Connection::open(target.address_for(client)?, self.identity.clone())?;
        for &(sessid, _) in &self.sessions {
            let dir = ChannelDirFromClient::Fore;
            let arguments = BindConnToSessionArgs { sessid, dir, use_conn_in_rdma_mode: false };
            call_without_session(&mut connection, self.minor, Argument::BindConnToSession(arguments))?;
        }
        Ok(connection.into_stream())
    }

    /// The file stays open until the client ends.
    pub fn open(&mut self, file: &Handle, access: ShareAccess) -> Result<Stateid, Error> {
        let owner = StateOwner { clientid: self.id, owner: b"plimsoll-bench" };
        let operations = [putfh(file), open(owner, access, OpenFlag::NoCreate, OpenClaim::Fh)];
        let stateid = match self.call(file, &operations)? {
            OpReply::Open(Reply::Ok(ok)) => ok.stateid,
            other => return Err(unexpected(&other)),
        };
        self.opens.push((file.clone(), stateid));
        Ok(stateid)
    }

    pub(super) fn lease_time(&mut self) -> Result<Duration, Error> {
        let attr_request = Bitmap::of(&[attr::LEASE_TIME]);
        let operations = [Argument::Putrootfh, Argument::Getattr(GetattrArgs { attr_request })];
        match self.call(&"the root", &operations)? {
            OpReply::Getattr(Reply::Ok(ok)) => {
                Ok(Duration::from_secs(Reader::new(ok.obj_attributes.attr_vals).u32()?.into()))
            }
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn renew(&mut self) -> Result<(), Error> {
        self.call(&"the lease", &[]).map(drop)
    }

    /// Makes a compound in the client's own slot; returns the result of the last operation. Repeats the
    /// compound while the server answers NFS4ERR_DELAY or NFS4ERR_GRACE.
    pub fn call(
        &mut self,
        object: &dyn fmt::Debug,
        operations: &[Argument<'_>],
    ) -> Result<OpReply<'_>, Error> {
        let until = Instant::now() + RETRY_TIMEOUT;
        loop {
            // The server need not cache the reply: a client that loses its connection is not used again.
            let sequence = Argument::Sequence(self.own_slot.arguments(false));
            exchange(&mut self.connection, self.minor, &[&[sequence], operations].concat())?;
            let outcome = outcome(&self.connection)?;
            self.own_slot.sequence = self.own_slot.sequence.wrapping_add(u32::from(outcome.is_sequenced));
            match outcome.status {
                Status::OK => break,
                Status::DELAY | Status::GRACE if Instant::now() < until => thread::sleep(RETRY_DELAY),
                status => {
                    let lost = lost_state(status, outcome.flags);
                    // `end` destroys nothing that the server has discarded already.
                    self.is_lost |= lost.is_some();
                    return Err(lost.unwrap_or_else(|| Error::Refused {
                        doing: format!("{:?} of {object:?}", outcome.last),
                        status: format!("{status:?}"),
                    }));
                }
            }
        }
        let mut results = results(&self.connection)?;
        let head = CompoundReplyHead::decode(&mut results)?;
        // Results have no length, so the last one can only be reached by decoding all others.
        (1..head.operations).try_for_each(|_| OpReply::decode(&mut results).map(drop))?;
        Ok(OpReply::decode(&mut results)?)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Leaves the state to expire with the lease.
    pub(super) fn abandon(&mut self) {
        self.is_lost = true;
    }

    /// Closes files, then destroys sessions and client, unless the server has discarded the client.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        if self.is_lost || self.sessions.is_empty() {
            return Ok(());
        }
        self.connection.set_timeout(END_TIMEOUT)?;
        for (file, open_stateid) in std::mem::take(&mut self.opens) {
            let close = Argument::Close(CloseArgs { seqid: 0, open_stateid });
            self.call(&file, &[putfh(&file), close])?;
        }
        for (sessionid, _) in std::mem::take(&mut self.sessions) {
            let arguments = DestroySessionArgs { sessionid };
            call_without_session(&mut self.connection, self.minor, Argument::DestroySession(arguments))?;
        }
        let arguments = DestroyClientidArgs { clientid: self.id };
        call_without_session(&mut self.connection, self.minor, Argument::DestroyClientid(arguments)).map(drop)
    }
}

impl Drop for ClientState {
    fn drop(&mut self) {
        // State that remains after an error expires with the lease.
        _ = self.end();
    }
}

pub fn putfh(object: &Handle) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: v4::FileHandle(&object.0) })
}

/// Denies nothing to others and requests no delegation.
pub fn open<'a>(
    owner: StateOwner<'a>,
    access: ShareAccess,
    openhow: OpenFlag<'a>,
    claim: OpenClaim<'a>,
) -> Argument<'a> {
    let share_access = access | ShareAccess::WANT_NO_DELEG;
    Argument::Open(OpenArgs { seqid: 0, share_access, share_deny: ShareDeny::NONE, owner, openhow, claim })
}

pub(super) fn lost_state(status: Status, flags: SequenceStatus) -> Option<Error> {
    let lost = match status {
        Status::BADSESSION | Status::DEADSESSION | Status::STALE_CLIENTID | Status::EXPIRED => {
            format!("the session is gone ({status:?})")
        }
        _ if flags.0 & LOST.0 != 0 => format!("opens are gone ({:?})", SequenceStatus(flags.0 & LOST.0)),
        _ => return None,
    };
    Some(Error::Protocol(format!(
        "{lost}: the server restarted, the lease ran out, or an administrator revoked the state"
    )))
}

struct Outcome {
    status: Status,
    /// Executed or refused.
    last: Op,
    /// Set if SEQUENCE succeeded: the slot's sequence id advances.
    is_sequenced: bool,
    flags: SequenceStatus,
}

fn outcome(connection: &Connection) -> Result<Outcome, Error> {
    let mut r = results(connection)?;
    let head = CompoundReplyHead::decode(&mut r)?;
    let flags = SequenceStatus(0);
    let mut outcome = Outcome { status: head.status, last: Op::SEQUENCE, is_sequenced: false, flags };
    for _ in 0..head.operations {
        let reply = OpReply::decode(&mut r)?;
        outcome.last = reply.op();
        if let OpReply::Sequence(Reply::Ok(ok)) = reply {
            (outcome.is_sequenced, outcome.flags) = (true, ok.status_flags);
        }
    }
    Ok(outcome)
}

fn call_without_session<'c>(
    connection: &'c mut Connection,
    minor: u32,
    operation: Argument<'_>,
) -> Result<OpReply<'c>, Error> {
    let until = Instant::now() + RETRY_TIMEOUT;
    let operations = [operation];
    loop {
        exchange(connection, minor, &operations)?;
        let outcome = outcome(connection)?;
        match outcome.status {
            Status::OK => break,
            Status::DELAY if Instant::now() < until => thread::sleep(RETRY_DELAY),
            status => {
                let doing = format!("{:?}", operations[0].op());
                return Err(Error::Refused { doing, status: format!("{status:?}") });
            }
        }
    }
    let mut results = results(connection)?;
    CompoundReplyHead::decode(&mut results)?;
    Ok(OpReply::decode(&mut results)?)
}

fn exchange(
    connection: &mut Connection,
    minorversion: u32,
    operations: &[Argument<'_>],
) -> Result<(), Error> {
    let count = u32::try_from(operations.len()).unwrap_or(u32::MAX);
    let mut arguments = CompoundHead { tag: b"", minorversion, operations: count }.to_bytes();
    let mut writer = Writer::new(&mut arguments);
    operations.iter().for_each(|operation| operation.encode(&mut writer));
    connection.call(PROGRAM, VERSION, Procedure::COMPOUND.0, &Encoded(&arguments)).map(drop)
}

struct Encoded<'a>(&'a [u8]);

impl Encode for Encoded<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.buffer().extend_from_slice(self.0);
    }
}

fn results(connection: &Connection) -> Result<Reader<'_>, Error> {
    connection.results("COMPOUND")
}

#[cold]
pub(super) fn unexpected(result: &OpReply<'_>) -> Error {
    Error::Protocol(format!("a result of {:?}, which was not requested", result.op()))
}
