//! A client of version 4 for tests: operations in, results out, no sockets.

pub(crate) mod back;
pub(crate) mod minors;

use super::TestEnv;
use crate::state::nfs4::binding::Binding;
use crate::state::nfs4::wire::Sender;
use crate::v4::compound::{CompoundArgs, CompoundProgress, run};
use nfs_wire::v4::{
    Argument, Bitmap, ChannelAttrs, ClientOwner, CompoundHead, CompoundReplyHead, CopyArgs,
    CreateSessionArgs, CreateSessionFlags, CreateSessionReply, ExchangeIdArgs, ExchangeIdFlags,
    ExchangeIdReply, Fattr, FileHandle, GetattrArgs, GetattrOk, LookupArgs, OpReply, OpenArgs, OpenClaim,
    OpenConfirmArgs, OpenFlag, PutfhArgs, Reply, SequenceArgs, SequenceStatus, SessionId, ShareAccess,
    ShareDeny, StateOwner, StateProtect, Stateid, Status,
};
use std::cell::Cell;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use transport::Outbox;
use vfs::qos::{Admission, Permit, QueueResult, Waiter};
use vfs::{Blocking, Credential, PendingSync, Proof, Wait};
use xdr::{Decode, Encode, Reader, Writer};

/// A client that has a session where its minor version knows sessions.
pub(crate) struct Client {
    pub(crate) env: TestEnv,
    /// Whether compounds may block at first. Otherwise they resume where they may.
    pub(crate) blocking: Blocking,
    minor: u32,
    pub(crate) binding: Binding,
    session: Option<SessionId>,
    sequence: Cell<u32>,
    /// The client's end of the connection, if it takes callbacks.
    line: Option<Arc<Line>>,
    verifier: [u8; 8],
}

#[derive(Default)]
pub(crate) struct Host {
    binding: Binding,
    session: Option<SessionId>,
    sequence: Cell<u32>,
    line: Option<Arc<Line>>,
}

/// The client's end of a connection: it receives callbacks.
pub(crate) struct Line(mpsc::Sender<Vec<u8>>);

impl Sender for Line {
    fn send_record(&self, record: &[u8]) {
        // Sending fails if the test has dropped the receiver.
        let _ = self.0.send(record.to_vec());
    }
}

/// OPEN of an existing file by the owner `o`, denying nothing.
pub(crate) fn opening(claim: OpenClaim<'_>, share_access: ShareAccess) -> OpenArgs<'_> {
    OpenArgs {
        seqid: 0,
        share_access,
        share_deny: ShareDeny::NONE,
        owner: StateOwner { clientid: 0, owner: b"o" },
        openhow: OpenFlag::NoCreate,
        claim,
    }
}

/// COPY from the beginning to the beginning, with no opens.
pub(crate) fn copying(count: u64, synchronous: bool) -> CopyArgs<'static> {
    CopyArgs {
        src_stateid: Stateid::ANONYMOUS,
        dst_stateid: Stateid::ANONYMOUS,
        src_offset: 0,
        dst_offset: 0,
        count,
        consecutive: true,
        synchronous,
        source_server: vec![],
    }
}

/// The results of a compound without SEQUENCE.
pub(crate) struct Results {
    bytes: Vec<u8>,
    skipped: usize,
    /// Whether it resumed on a blocking thread.
    pub(crate) waited: bool,
}

impl Client {
    pub(crate) fn new(env: TestEnv, minor: u32) -> Self {
        let mut client = Self {
            env,
            blocking: Blocking::Allowed,
            minor,
            binding: Binding::default(),
            session: None,
            sequence: Cell::new(0),
            line: None,
            verifier: [1; 8],
        };
        if minor > 0 {
            client.session = Some(client.begin_session(b"client"));
        }
        client
    }

    /// From now on it is the client with this name, in a new session.
    pub(crate) fn be(&mut self, ownerid: &[u8]) {
        self.try_be(ownerid).unwrap();
    }

    /// Introduces the client and creates a session, if it can have one.
    pub(crate) fn try_be(&mut self, ownerid: &[u8]) -> Result<(), Status> {
        let session = self.try_session(ownerid)?;
        self.sequence.set(0);
        self.session = Some(session);
        Ok(())
    }

    /// Swaps identities with another host.
    pub(crate) fn swap(&mut self, host: &mut Host) {
        std::mem::swap(&mut self.binding, &mut host.binding);
        std::mem::swap(&mut self.session, &mut host.session);
        std::mem::swap(&mut self.sequence, &mut host.sequence);
        std::mem::swap(&mut self.line, &mut host.line);
    }

    /// The owner of an open confirms itself (RFC 7530 §16.18): the stateid from then on.
    pub(crate) fn confirm_open(
        &self,
        path: &[&[u8]],
        open_stateid: Stateid,
        seqid: u32,
    ) -> Result<Stateid, Status> {
        let confirm = Argument::OpenConfirm(OpenConfirmArgs { open_stateid, seqid });
        let results = self.ask(&at(path, [confirm]));
        match results.all().last() {
            Some(OpReply::OpenConfirm(Reply::Ok(stateid))) => Ok(*stateid),
            _ => Err(results.status()),
        }
    }

    /// Switches to a new connection with a back channel. Returns its callbacks.
    pub(crate) fn listen(&mut self) -> mpsc::Receiver<Vec<u8>> {
        let (sender, calls) = mpsc::channel();
        let line = Arc::new(Line(sender));
        self.binding = Binding::default();
        self.binding.wire.attach(&line);
        if let Some(before) = self.line.replace(line) {
            let closed = Arc::downgrade(&before);
            drop(before);
            // A thread that just called may still have a reference.
            while closed.strong_count() > 0 {
                std::thread::yield_now();
            }
        }
        calls
    }

    pub(crate) fn session_id(&self) -> SessionId {
        self.session.unwrap()
    }

    /// Sets the minor version of further compounds.
    pub(crate) fn set_minor(&mut self, minor: u32) {
        self.minor = minor;
    }

    pub(crate) fn sequence_flags(&self) -> SequenceStatus {
        let results = Results { skipped: 0, ..self.ask(&[Argument::Putrootfh]) };
        match results.all().first() {
            Some(OpReply::Sequence(Reply::Ok(ok))) => ok.status_flags,
            other => panic!("{other:?}"),
        }
    }

    /// Restarts the client of this name.
    pub(crate) fn restart(&mut self, ownerid: &[u8]) {
        self.lose_memory();
        self.be(ownerid);
    }

    /// Makes further introductions those of a restarted client.
    pub(crate) fn lose_memory(&mut self) {
        self.verifier = self.verifier.map(|byte| byte + 1);
    }

    fn begin_session(&self, ownerid: &[u8]) -> SessionId {
        self.try_session(ownerid).unwrap()
    }

    /// A session of the client with this name, another one if it has one.
    pub(crate) fn try_session(&self, ownerid: &[u8]) -> Result<SessionId, Status> {
        let introduction = ExchangeIdArgs {
            clientowner: ClientOwner { verifier: self.verifier, ownerid },
            flags: ExchangeIdFlags(0),
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        let results = self.run_alone(&Argument::ExchangeId(introduction));
        let replies = results.all();
        let [OpReply::ExchangeId(ExchangeIdReply::Ok(known))] = &*replies else {
            return Err(results.status());
        };
        let channel = ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: 1 << 20,
            maxresponsesize: 1 << 20,
            maxresponsesize_cached: 4096,
            maxoperations: 16,
            maxrequests: 4,
            rdma_ird: None,
        };
        let creation = CreateSessionArgs {
            clientid: known.clientid,
            sequence: known.sequenceid,
            flags: if self.line.is_some() {
                CreateSessionFlags::CONN_BACK_CHAN
            } else {
                CreateSessionFlags(0)
            },
            fore_chan_attrs: channel,
            back_chan_attrs: channel,
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        };
        let results = self.run_alone(&Argument::CreateSession(creation));
        match &*results.all() {
            [OpReply::CreateSession(CreateSessionReply::Ok(session))] => Ok(session.sessionid),
            _ => Err(results.status()),
        }
    }

    /// Switches to a new connection from this address.
    pub(crate) fn reconnect(&mut self, peer: &str) {
        self.env.peer = peer.parse().unwrap();
        self.binding = Binding::default();
    }

    /// Runs operations, after SEQUENCE if needed.
    pub(crate) fn ask(&self, operations: &[Argument<'_>]) -> Results {
        let encoded: Vec<u8> = operations.iter().flat_map(Argument::to_bytes).collect();
        self.ask_encoded(u32::try_from(operations.len()).unwrap(), &encoded)
    }

    /// Runs encoded operations.
    pub(crate) fn ask_encoded(&self, count: u32, operations: &[u8]) -> Results {
        let Some(sessionid) = self.session else { return self.run_encoded(count, operations, 0) };
        self.sequence.set(self.sequence.get() + 1);
        let sequenceid = self.sequence.get();
        let sequence = SequenceArgs { sessionid, sequenceid, slotid: 0, highest_slotid: 0, cachethis: false };
        let encoded = [&Argument::Sequence(sequence).to_bytes(), operations].concat();
        self.run_encoded(count + 1, &encoded, 1)
    }

    /// Does operations in a slot, and has the reply kept.
    pub(crate) fn ask_in_slot(&self, slot: (u32, u32), operations: &[Argument<'_>]) -> Results {
        let ((slotid, sequenceid), sessionid) = (slot, self.session_id());
        let sequence = SequenceArgs { sessionid, sequenceid, slotid, highest_slotid: 0, cachethis: true };
        let encoded: Vec<u8> = operations.iter().flat_map(Argument::to_bytes).collect();
        let encoded = [Argument::Sequence(sequence).to_bytes(), encoded].concat();
        self.run_encoded(u32::try_from(operations.len()).unwrap() + 1, &encoded, 1)
    }

    /// The status of the last operation.
    pub(crate) fn status(&self, operations: &[Argument<'_>]) -> Status {
        self.ask(operations).status()
    }

    pub(crate) fn attrs(&self, path: &[&[u8]], numbers: &[u32]) -> (Bitmap, Vec<u8>) {
        let request = GetattrArgs { attr_request: Bitmap::of(numbers) };
        let results = self.ask(&at(path, [Argument::Getattr(request)]));
        match results.all().last() {
            Some(OpReply::Getattr(Reply::Ok(GetattrOk {
                obj_attributes: Fattr { attrmask, attr_vals },
            }))) => (*attrmask, attr_vals.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn handle(&self, path: &[&[u8]]) -> Vec<u8> {
        let results = self.ask(&at(path, [Argument::Getfh]));
        match results.all().last() {
            Some(OpReply::Getfh(Reply::Ok(ok))) => ok.object.0.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn run_alone(&self, operation: &Argument<'_>) -> Results {
        self.run_encoded(1, &operation.to_bytes(), 0)
    }

    fn run_encoded(&self, operations: u32, encoded: &[u8], skipped: usize) -> Results {
        let head = CompoundHead { tag: b"tag", minorversion: self.minor, operations };
        let args = [&head.to_bytes(), encoded].concat();
        let (uid, gid) = self.env.user;
        let credential = Credential::new(Proof::Claimed, uid, gid, []);
        let (mut out, mut pending) = (Outbox::default(), PendingSync::default());
        let mut permit = None;
        let mut attempt = |blocking, paid: Option<Permit>, at| {
            permit = paid.or(permit.take());
            self.env.call_paid(&credential, &mut pending, &mut permit, |call| {
                call.blocking = blocking;
                let ended = run(call, &self.binding, CompoundArgs { bytes: &args, paid: None }, at, &mut out)
                    .unwrap();
                if !matches!(ended, CompoundProgress::Suspended(_, Wait::Storage)) {
                    call.stats.record_transferred(call.permit.take());
                }
                ended
            })
        };
        let (mut ended, mut waited) = (attempt(self.blocking, None, None), false);
        let results = loop {
            ended = match ended {
                CompoundProgress::Replied(results) => break results,
                CompoundProgress::Suspended(at, Wait::Storage) => {
                    assert!(!std::mem::replace(&mut waited, true), "the call may wait");
                    attempt(Blocking::Allowed, None, Some(at))
                }
                CompoundProgress::Suspended(mut at, Wait::Tokens) => {
                    let paid = at.take_owed().and_then(wait_in_line);
                    if paid.is_none() {
                        at.cannot_pay();
                    }
                    attempt(Blocking::Allowed, paid, Some(at))
                }
                CompoundProgress::Suspended(at, _) => attempt(Blocking::Allowed, None, Some(at)),
            };
        };
        let mut bytes = std::mem::take(out.bytes());
        match pending.sync_all() {
            Ok(()) => results.complete(Some(&bytes)),
            Err(error) => {
                bytes.clear();
                results.fail(error, &mut Writer::new(&mut bytes));
            }
        }
        Results { bytes, skipped, waited }
    }
}

/// Waits for a turn at a limit, for a moment.
fn wait_in_line(admission: Admission) -> Option<Permit> {
    struct Turn(mpsc::Sender<()>);

    impl Waiter for Turn {
        fn pass(self: Box<Self>) {
            let _ = self.0.send(());
        }
    }

    let (sender, turn) = mpsc::channel();
    match admission.wait(Box::new(Turn(sender))) {
        QueueResult::Passed => Some(admission.into_permit()),
        QueueResult::Queued => turn.recv_timeout(PATIENCE).ok().map(|()| admission.into_permit()),
        QueueResult::Full => None,
    }
}

/// The longest time that a compound waits for its turn.
const PATIENCE: Duration = Duration::from_millis(20);

impl Results {
    pub(crate) fn all(&self) -> Vec<OpReply<'_>> {
        let mut r = Reader::new(&self.bytes);
        let head = CompoundReplyHead::decode(&mut r).unwrap();
        assert_eq!(head.tag, b"tag");
        let results: Vec<_> = (0..head.operations).map(|_| OpReply::decode(&mut r).unwrap()).collect();
        assert_eq!(r.remaining(), 0, "results end where they end");
        results.into_iter().skip(self.skipped).collect()
    }

    /// The status of the whole, which is that of the last operation.
    pub(crate) fn status(&self) -> Status {
        Status::decode(&mut Reader::new(&self.bytes)).unwrap()
    }
}

/// An operation alone, over a connection of its own in 4.1, from whichever thread.
pub(crate) fn alone(env: &TestEnv, operation: &Argument<'_>) -> Results {
    let head = CompoundHead { tag: b"tag", minorversion: 1, operations: 1 };
    let args = [head.to_bytes(), operation.to_bytes()].concat();
    let (uid, gid) = env.user;
    let credential = Credential::new(Proof::Claimed, uid, gid, []);
    let (binding, mut out, mut pending) = (Binding::default(), Outbox::default(), PendingSync::default());
    let ended = env.call(&credential, &mut pending, |call| {
        run(call, &binding, CompoundArgs { bytes: &args, paid: None }, None, &mut out).unwrap()
    });
    assert!(matches!(ended, CompoundProgress::Replied(_)), "nothing is waited for");
    Results { bytes: std::mem::take(out.bytes()), skipped: 0, waited: false }
}

/// Prepends the operations that lead to a path.
pub(crate) fn at<'a>(
    path: &[&'a [u8]],
    operations: impl IntoIterator<Item = Argument<'a>>,
) -> Vec<Argument<'a>> {
    let steps = path.iter().map(|objname| Argument::Lookup(LookupArgs { objname }));
    [Argument::Putrootfh].into_iter().chain(steps).chain(operations).collect()
}

pub(crate) fn put(handle: &[u8]) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: FileHandle(handle) })
}
