//! A client with a back channel, a second one that conflicts with it, and the service's callbacks.

use super::{Client as TestClient, Host, Results, at, opening};
use crate::state::nfs4::client::Client;
use crate::testing::{TestEnv, rule};
use nfs_wire::rpc::{CallHeader, ReplyHeader};
use nfs_wire::v4::attr::Ace;
use nfs_wire::v4::callback::{self, CompoundReplyHead, OpReply as CallbackReply};
use nfs_wire::v4::{
    Argument, DelegreturnArgs, Fattr, OpReply, OpenClaim, OpenDelegation, OpenResult, ReadDelegation,
    ReclaimCompleteArgs, Reply, SequenceStatus, SessionId, ShareAccess, Stateid, Status, TestStateidArgs,
    WriteDelegation,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use vfs::qos::Nanos;
use vfs::{Caller, Disposition, Durability, Export, PendingSync, SetAttrs, Time, Volume, VolumeId};
use vfs_testing::MemFs;
use xdr::{Decode, Encode, Reader};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const LEASE_S: u64 = 30;

/// `/e` with the files `f`, `g` and `h`, a client that reads and can be called, and another one that writes.
pub(crate) struct Rig {
    pub(crate) client: TestClient,
    pub(crate) writer: Host,
    pub(crate) volume: Arc<Volume>,
    pub(crate) clock: Arc<AtomicU64>,
    pub(crate) calls: Receiver<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) xid: u32,
    pub(crate) session: SessionId,
    pub(crate) sequence: u32,
    pub(crate) slot: u32,
    pub(crate) operation: Vec<u8>,
}

pub(crate) fn called(record: &[u8]) -> Called {
    let mut r = Reader::new(record);
    let header = CallHeader::decode(&mut r).unwrap();
    assert_eq!((header.prog, header.vers, header.proc), (0x4000_0000, 1, 1));
    let head = callback::CompoundHead::decode(&mut r).unwrap();
    assert_eq!((head.minorversion, head.operations), (1, 2));
    let callback::Argument::Sequence(args) = callback::Argument::decode(&mut r).unwrap() else {
        panic!("CB_SEQUENCE comes first")
    };
    let operation = r.rest().to_vec();
    Called {
        xid: header.xid,
        session: args.sessionid,
        sequence: args.sequenceid,
        slot: args.slotid,
        operation,
    }
}

impl Called {
    /// Whether it is a CB_GETATTR.
    pub(crate) fn is_question(&self) -> bool {
        let asked = callback::Argument::decode(&mut Reader::new(&self.operation));
        matches!(asked, Ok(callback::Argument::Getattr(_)))
    }

    pub(crate) fn getattr_reply(&self, obj_attributes: Fattr<'_>) -> Vec<u8> {
        let getattr = CallbackReply::Getattr(Reply::Ok(callback::GetattrOk { obj_attributes }));
        self.reply(Status::OK, &[self.sequence_reply(), getattr])
    }

    pub(crate) fn stateid(&self) -> Stateid {
        match callback::Argument::decode(&mut Reader::new(&self.operation)) {
            Ok(callback::Argument::Recall(args)) => args.stateid,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn sequence_reply(&self) -> CallbackReply<'static> {
        CallbackReply::Sequence(Reply::Ok(callback::SequenceOk {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: self.slot,
            highest_slotid: 3,
            target_highest_slotid: 3,
        }))
    }

    pub(crate) fn reply(&self, status: Status, results: &[CallbackReply<'_>]) -> Vec<u8> {
        let operations = u32::try_from(results.len()).unwrap();
        let mut reply = ReplyHeader::success(self.xid).to_vec();
        reply.extend(CompoundReplyHead { status, tag: b"", operations }.to_bytes());
        results.iter().for_each(|result| reply.extend(result.to_bytes()));
        reply
    }

    pub(crate) fn status_reply(&self, status: Status) -> Vec<u8> {
        self.reply(status, &[self.sequence_reply(), CallbackReply::Recall(status)])
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(|volume| volume)
    }

    /// The set-up with a volume changed by `change`.
    pub(crate) fn with(change: impl FnOnce(Volume) -> Volume) -> Self {
        let clock = Arc::new(AtomicU64::new(SECOND));
        let fs = MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }));
        let volume = Volume::new(VolumeId(1), "e", Arc::new(fs), Durability::Sync, 1);
        let now = Arc::clone(&clock);
        let volume = volume.with_clock(move || Nanos(now.load(Ordering::Relaxed)));
        let volume = Arc::new(change(volume));
        let export = Export::new("/e", Arc::clone(&volume), vec![rule(&[])]);
        let env = TestEnv::new([export], vec![]);
        let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
        let export = Arc::clone(&env.service.namespace.load().exports()[0]);
        for name in [&b"f"[..], b"g", b"h"] {
            let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
            let root = Arc::clone(&export).root();
            root.create(&caller, name, Disposition::CreateNew, &set, &mut pending).unwrap();
        }
        let mut client = TestClient::new(env, 1);
        client.be(b"writer");
        let mut rig = Self { client, writer: Host::default(), volume, clock, calls: channel().1 };
        rig.complete();
        rig.client.swap(&mut rig.writer);
        rig.calls = rig.client.listen();
        rig.client.be(b"reader");
        rig.complete();
        rig
    }

    pub(crate) fn complete(&self) {
        let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        assert_eq!(self.client.status(&[complete]), Status::OK);
    }

    pub(crate) fn ask_open(&self, name: &[u8], share_access: ShareAccess) -> Results {
        let args = opening(OpenClaim::Null(name), share_access);
        self.client.ask(&at(&[b"e"], [Argument::Open(args)]))
    }

    pub(crate) fn open(&self, name: &[u8], access: ShareAccess) -> Result<OpenDelegation<'static>, Status> {
        let results = self.ask_open(name, access);
        match results.all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => Ok(match ok.delegation {
                OpenDelegation::Read(read) => {
                    let permissions = Ace { who: b"EVERYONE@", ..read.permissions };
                    OpenDelegation::Read(ReadDelegation { permissions, ..read })
                }
                OpenDelegation::Write(write) => {
                    let permissions = Ace { who: b"EVERYONE@", ..write.permissions };
                    OpenDelegation::Write(WriteDelegation { permissions, ..write })
                }
                OpenDelegation::WriteAttrs(write) => {
                    let permissions = Ace { who: b"EVERYONE@", ..write.permissions };
                    OpenDelegation::WriteAttrs(WriteDelegation { permissions, ..write })
                }
                OpenDelegation::None => OpenDelegation::None,
                OpenDelegation::NoneExt(why) => OpenDelegation::NoneExt(why),
                other => panic!("{other:?}"),
            }),
            _ => Err(results.status()),
        }
    }

    /// Opens a file without a delegation. Returns the stateid, and the reason in the reply.
    pub(crate) fn opened(&self, name: &[u8], access: ShareAccess) -> (Stateid, OpenResult) {
        let access = ShareAccess(access.0 | ShareAccess::WANT_NO_DELEG.0);
        match self.ask_open(name, access).all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => (ok.stateid, ok.rflags),
            other => panic!("{other:?}"),
        }
    }

    /// Opens a file for reading with a delegation.
    pub(crate) fn delegated(&self, name: &[u8]) -> Stateid {
        match self.open(name, ShareAccess::READ) {
            Ok(OpenDelegation::Read(read)) => {
                assert!(!read.recall);
                read.stateid
            }
            other => panic!("{other:?}"),
        }
    }

    /// The set-up with write delegations.
    pub(crate) fn delegating_writes() -> Self {
        let mut rig = Self::new();
        rig.client.env.service.v4.delegates_writing = true;
        rig
    }

    /// Opens a file for writing with a delegation.
    pub(crate) fn delegated_to_write(&self, name: &[u8]) -> Stateid {
        match self.open(name, ShareAccess::BOTH) {
            Ok(OpenDelegation::Write(write)) => {
                assert!(!write.recall);
                write.stateid
            }
            other => panic!("{other:?}"),
        }
    }

    /// Does something as a client of 4.0 that has not introduced itself.
    pub(crate) fn as_40<R>(&mut self, act: impl FnOnce(&Self) -> R) -> R {
        let mut other = Host::default();
        self.client.swap(&mut other);
        self.client.set_minor(0);
        let done = act(self);
        self.client.set_minor(1);
        self.client.swap(&mut other);
        done
    }

    /// Runs `act` as the writer.
    pub(crate) fn as_writer<R>(&mut self, act: impl FnOnce(&Self) -> R) -> R {
        self.client.swap(&mut self.writer);
        let done = act(self);
        self.client.swap(&mut self.writer);
        done
    }

    /// OPENs a file as the writer, and returns the delegation.
    pub(crate) fn write(&mut self, name: &[u8]) -> Result<OpenDelegation<'static>, Status> {
        self.as_writer(|rig| rig.open(name, ShareAccess::WRITE))
    }

    pub(crate) fn next_call(&self) -> Called {
        called(&self.calls.recv_timeout(Duration::from_secs(10)).expect("a call"))
    }

    /// Whether no callback arrives. It would come from another thread; a later reply shows whether it did.
    pub(crate) fn is_silent(&self) -> bool {
        self.calls.recv_timeout(Duration::from_millis(50)).is_err()
    }

    pub(crate) fn reply(&self, record: &[u8]) {
        assert!(self.client.binding.wire.take_reply(record), "it is no call");
    }

    pub(crate) fn give_back(&self, name: &[u8], deleg_stateid: Stateid) -> Status {
        self.client.status(&at(&[b"e", name], [Argument::Delegreturn(DelegreturnArgs { deleg_stateid })]))
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.fetch_add(SECOND, Ordering::Relaxed);
            self.client.env.service.v4.tick();
            self.volume.expire_claims(self.volume.now()).unwrap();
            assert_eq!(self.client.status(&[Argument::Putrootfh]), Status::OK);
            assert_eq!(self.as_writer(|rig| rig.client.status(&[Argument::Putrootfh])), Status::OK);
        }
    }

    pub(crate) fn state_of(&self, stateid: Stateid) -> Status {
        let results = self.client.ask(&[Argument::TestStateid(TestStateidArgs { stateids: vec![stateid] })]);
        match results.all().last() {
            Some(OpReply::TestStateid(Reply::Ok(ok))) => ok.status_codes[0],
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn reader(&self) -> Arc<Client> {
        let session = self.client.env.service.v4.session(&self.client.session_id()).unwrap();
        Arc::clone(&session.client)
    }

    pub(crate) fn flags(&self) -> SequenceStatus {
        self.client.sequence_flags()
    }
}
