//! A client of NFSv4.1 or 4.2 with its sessions (RFC 8881 §2.10), and the connection on which it calls for
//! itself: what sets up and ends state goes over that one, a call at a time, always in the first slot.

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

use super::connection::{Connection, Identity, first_xid};
use super::object::Handle;
use crate::error::Error;
use crate::target::Target;

/// Room in a request or a reply for everything but data.
pub(crate) const OVERHEAD: u32 = 4 << 10;
/// Most bytes of data in one call that are asked for.
const DATA_MAX: u32 = 1 << 20;
/// Most bytes of a reply that the server keeps for a repetition.
const CACHED_MAX: u32 = 2 << 10;
/// Operations of the longest compound.
const OPERATIONS_MAX: u32 = 16;
/// Sessions of one client at most, where a server gives few slots to each.
const SESSIONS_MAX: usize = 64;
/// How long a server may ask to be asked again later.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long its end may take.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How soon it is.
const AGAIN: Duration = Duration::from_millis(10);
/// With these it says that what the client held is lost.
const LOST: SequenceStatus = SequenceStatus(
    SequenceStatus::EXPIRED_ALL_STATE_REVOKED.0
        | SequenceStatus::EXPIRED_SOME_STATE_REVOKED.0
        | SequenceStatus::ADMIN_STATE_REVOKED.0,
);

/// A slot of a session: one call at a time, numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionSlot {
    pub(crate) session: SessionId,
    pub(crate) slot: u32,
    /// The last slot of the session.
    pub(crate) highest: u32,
    /// Of the next call.
    pub(crate) sequence: u32,
}

impl SessionSlot {
    /// The arguments of SEQUENCE for the next call.
    pub(crate) fn arguments(&self, is_kept: bool) -> SequenceArgs {
        SequenceArgs {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: self.slot,
            highest_slotid: self.highest,
            cachethis: is_kept,
        }
    }

    /// A call has its number; the next one's is another.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// SEQUENCE was refused: its number is the next one's again.
    pub(crate) fn take_back(&mut self) {
        self.sequence = self.sequence.wrapping_sub(1);
    }
}

/// A client, its sessions and what it has open. All of that ends in order when this is dropped.
#[derive(Debug)]
pub(crate) struct ClientState {
    connection: Connection,
    minor: u32,
    pub(crate) id: ClientId,
    /// Each with so many slots.
    sessions: Vec<(SessionId, u32)>,
    own: SessionSlot,
    /// What a call and its reply may be, whole.
    pub(crate) request_max: u32,
    pub(crate) reply_max: u32,
    opened: Vec<(Handle, Stateid)>,
    identity: Identity,
    /// The server no longer knows it.
    is_lost: bool,
}

impl ClientState {
    /// Makes a client of its own at `target` whose sessions have `slots` slots, and one for itself.
    pub(crate) fn new(
        target: &Target,
        client: usize,
        identity: &Identity,
        minor: u32,
        slots: u32,
    ) -> Result<Self, Error> {
        let connection = Connection::open(target.address_for(client)?, identity.clone())?;
        let own = SessionSlot { session: [0; _], slot: 0, highest: 0, sequence: 1 };
        let mut state = Self {
            connection,
            minor,
            id: 0,
            sessions: Vec::new(),
            own,
            request_max: u32::MAX,
            reply_max: u32::MAX,
            opened: Vec::new(),
            identity: identity.clone(),
            is_lost: false,
        };
        let sequence = state.introduce()?;
        state.make_sessions(sequence, slots + 1)?;
        state.call(&"the client", &[Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })])?;
        Ok(state)
    }

    /// EXCHANGE_ID as a client that no other is; gives the number of its first CREATE_SESSION.
    fn introduce(&mut self) -> Result<u32, Error> {
        static CLIENTS: AtomicU32 = AtomicU32::new(0);
        let (number, start) = (CLIENTS.fetch_add(1, Ordering::Relaxed), first_xid());
        let owner = format!("{} {} {start:08x} {number}", self.identity.machine, std::process::id());
        let mut verifier = [0; 8];
        verifier[..4].copy_from_slice(&start.to_be_bytes());
        let arguments = ExchangeIdArgs {
            clientowner: ClientOwner { verifier, ownerid: owner.as_bytes() },
            flags: ExchangeIdFlags::USE_NON_PNFS,
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        match alone(&mut self.connection, self.minor, Argument::ExchangeId(arguments))? {
            OpReply::ExchangeId(Reply::Ok(ok)) => {
                self.id = ok.clientid;
                Ok(ok.sequenceid)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// As many sessions as have `slots` slots together.
    fn make_sessions(&mut self, first: u32, slots: u32) -> Result<(), Error> {
        let (mut sequence, mut missing) = (first, slots);
        while missing > 0 {
            if self.sessions.len() == SESSIONS_MAX {
                let had = slots - missing;
                return Err(Error::Plan(format!(
                    "{slots} calls in flight of a client need as many slots; this server gave {had} in {SESSIONS_MAX} \
                     sessions: lower the depth or the connections"
                )));
            }
            let (session, granted) = self.make_session(sequence, missing)?;
            self.sessions.push((session, granted.min(missing)));
            missing = missing.saturating_sub(granted);
            sequence = sequence.wrapping_add(1);
        }
        let own = self.slots().next();
        self.own = own.unwrap_or(self.own);
        Ok(())
    }

    fn make_session(&mut self, sequence: u32, slots: u32) -> Result<(SessionId, u32), Error> {
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
        let ok = match alone(&mut self.connection, self.minor, Argument::CreateSession(arguments))? {
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

    /// All slots of all sessions; the first is the client's own.
    fn slots(&self) -> impl Iterator<Item = SessionSlot> {
        let of_session = |&(session, slots): &(SessionId, u32)| {
            (0..slots).map(move |slot| SessionSlot { session, slot, highest: slots - 1, sequence: 1 })
        };
        self.sessions.iter().flat_map(of_session)
    }

    /// The slots that are for others.
    pub(crate) fn other_slots(&self) -> Vec<SessionSlot> {
        self.slots().skip(1).collect()
    }

    /// Another connection to the same server, on which the slots of all sessions are good.
    pub(crate) fn connect(&self, target: &Target, client: usize) -> Result<TcpStream, Error> {
        let mut connection = Connection::open(target.address_for(client)?, self.identity.clone())?;
        for &(sessid, _) in &self.sessions {
            let dir = ChannelDirFromClient::Fore;
            let arguments = BindConnToSessionArgs { sessid, dir, use_conn_in_rdma_mode: false };
            alone(&mut connection, self.minor, Argument::BindConnToSession(arguments))?;
        }
        Ok(connection.into_stream())
    }

    /// Opens a file for the whole load.
    pub(crate) fn open(&mut self, file: &Handle, access: ShareAccess) -> Result<Stateid, Error> {
        let owner = StateOwner { clientid: self.id, owner: b"plimsoll-bench" };
        let operations = [putfh(file), open(owner, access, OpenFlag::NoCreate, OpenClaim::Fh)];
        let stateid = match self.call(file, &operations)? {
            OpReply::Open(Reply::Ok(ok)) => ok.stateid,
            other => return Err(unexpected(&other)),
        };
        self.opened.push((file.clone(), stateid));
        Ok(stateid)
    }

    /// How long the server keeps a client that does not call.
    pub(crate) fn lease(&mut self) -> Result<Duration, Error> {
        let attr_request = Bitmap::of(&[attr::LEASE_TIME]);
        let operations = [Argument::Putrootfh, Argument::Getattr(GetattrArgs { attr_request })];
        match self.call(&"the root", &operations)? {
            OpReply::Getattr(Reply::Ok(ok)) => {
                Ok(Duration::from_secs(Reader::new(ok.obj_attributes.attr_vals).u32()?.into()))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// SEQUENCE alone: the client is alive.
    pub(crate) fn renew(&mut self) -> Result<(), Error> {
        self.call(&"the lease", &[]).map(drop)
    }

    /// Operations on `object` in the client's own slot; gives the result of the last one. What the server
    /// wants to be asked again later is asked again.
    pub(crate) fn call(
        &mut self,
        object: &dyn fmt::Debug,
        operations: &[Argument<'_>],
    ) -> Result<OpReply<'_>, Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            // Nothing is repeated here: with the connection the client is given up.
            let sequence = Argument::Sequence(self.own.arguments(false));
            exchange(&mut self.connection, self.minor, &[&[sequence], operations].concat())?;
            let outcome = outcome(&self.connection)?;
            self.own.sequence = self.own.sequence.wrapping_add(u32::from(outcome.is_sequenced));
            match outcome.status {
                Status::OK => break,
                Status::DELAY | Status::GRACE if Instant::now() < until => thread::sleep(AGAIN),
                status => {
                    let lost = lost(status, outcome.flags);
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
        (1..head.operations).try_for_each(|_| OpReply::decode(&mut results).map(drop))?;
        Ok(OpReply::decode(&mut results)?)
    }

    /// Whether the server no longer knows it.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Leaves what is there to the lease.
    pub(super) fn abandon(&mut self) {
        self.is_lost = true;
    }

    /// Closes what is open, and ends the sessions and the client; nothing where they are lost.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        if self.is_lost || self.sessions.is_empty() {
            return Ok(());
        }
        self.connection.set_patience(END_PATIENCE)?;
        for (file, open_stateid) in std::mem::take(&mut self.opened) {
            let close = Argument::Close(CloseArgs { seqid: 0, open_stateid });
            self.call(&file, &[putfh(&file), close])?;
        }
        for (sessionid, _) in std::mem::take(&mut self.sessions) {
            let arguments = DestroySessionArgs { sessionid };
            alone(&mut self.connection, self.minor, Argument::DestroySession(arguments))?;
        }
        let arguments = DestroyClientidArgs { clientid: self.id };
        alone(&mut self.connection, self.minor, Argument::DestroyClientid(arguments)).map(drop)
    }
}

impl Drop for ClientState {
    fn drop(&mut self) {
        // What is left behind where that fails ends with the lease.
        _ = self.end();
    }
}

/// PUTFH of a handle.
pub(crate) fn putfh(object: &Handle) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: v4::FileHandle(&object.0) })
}

/// OPEN of a file whose use by others it leaves alone, and that is not to be delegated.
pub(crate) fn open<'a>(
    owner: StateOwner<'a>,
    access: ShareAccess,
    openhow: OpenFlag<'a>,
    claim: OpenClaim<'a>,
) -> Argument<'a> {
    let share_access = access | ShareAccess::WANT_NO_DELEG;
    Argument::Open(OpenArgs { seqid: 0, share_access, share_deny: ShareDeny::NONE, owner, openhow, claim })
}

/// What of a client's state is gone, by a status or by what SEQUENCE says besides.
pub(crate) fn lost(status: Status, flags: SequenceStatus) -> Option<Error> {
    let what = match status {
        Status::BADSESSION | Status::DEADSESSION | Status::STALE_CLIENTID | Status::EXPIRED => {
            format!("the session is gone ({status:?})")
        }
        _ if flags.0 & LOST.0 != 0 => format!("opens are gone ({:?})", SequenceStatus(flags.0 & LOST.0)),
        _ => return None,
    };
    Some(Error::Protocol(format!(
        "{what}: the server restarted, the lease ran out, or somebody took the state away"
    )))
}

/// How a compound ended.
struct Outcome {
    status: Status,
    /// The last operation that was done or refused.
    last: Op,
    /// SEQUENCE was done: its slot has its next number.
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

/// An operation without a session; gives its result.
fn alone<'c>(
    connection: &'c mut Connection,
    minor: u32,
    operation: Argument<'_>,
) -> Result<OpReply<'c>, Error> {
    let until = Instant::now() + PATIENCE;
    let operations = [operation];
    loop {
        exchange(connection, minor, &operations)?;
        let outcome = outcome(connection)?;
        match outcome.status {
            Status::OK => break,
            Status::DELAY if Instant::now() < until => thread::sleep(AGAIN),
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

/// Calls COMPOUND and waits for its reply.
fn exchange(
    connection: &mut Connection,
    minorversion: u32,
    operations: &[Argument<'_>],
) -> Result<(), Error> {
    let count = u32::try_from(operations.len()).unwrap_or(u32::MAX);
    let mut arguments = CompoundHead { tag: b"", minorversion, operations: count }.to_bytes();
    let mut writer = Writer::new(&mut arguments);
    operations.iter().for_each(|operation| operation.encode(&mut writer));
    connection.call((PROGRAM, VERSION), Procedure::COMPOUND.0, &Encoded(&arguments)).map(drop)
}

/// Arguments that are encoded already.
struct Encoded<'a>(&'a [u8]);

impl Encode for Encoded<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.buffer().extend_from_slice(self.0);
    }
}

fn results(connection: &Connection) -> Result<Reader<'_>, Error> {
    connection.results("COMPOUND")
}

/// A result of another operation than was asked for.
#[cold]
pub(super) fn unexpected(result: &OpReply<'_>) -> Error {
    Error::Protocol(format!("a result of {:?}, which was not asked for there", result.op()))
}
