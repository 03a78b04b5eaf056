//! Delegations and the back channel as clients see them.

use super::*;
use crate::testing::{Desk, rule};
use crate::v4::testing::{Client as TestClient, Host, Results, at, put};
use nfs_wire::rpc::{CallHeader, ReplyHeader};
use nfs_wire::v3;
use nfs_wire::v4::callback::{self, CompoundReplyHead, OpReply as CallbackReply};
use nfs_wire::v4::{
    Argument, BindConnToSessionArgs, ChannelDirFromClient, DestroyClientidArgs, DestroySessionArgs,
    FreeStateidArgs, OpReply, OpenFlag, ReclaimCompleteArgs, Reply, SequenceStatus, SessionId, SetxattrArgs,
    SetxattrOption, ShareDeny, StableHow, StateOwner, TestStateidArgs, WriteArgs, XattrValue,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use vfs::{Caller, Disposition, Durability, Export, MemFs, PendingSync, SetAttrs, Time, Volume, VolumeId};
use xdr::{Decode, Encode, Reader};

const SECOND: u64 = 1_000_000_000;
const LEASE_S: u64 = 30;

/// `/e` with the files `f`, `g` and `h`, a client that reads and can be called, and another one that writes.
struct Rig {
    client: TestClient,
    writer: Host,
    volume: Arc<Volume>,
    clock: Arc<AtomicU64>,
    calls: Receiver<Vec<u8>>,
}

/// A call of the service, as it came.
#[derive(Clone, Debug)]
struct Called {
    xid: u32,
    session: SessionId,
    sequence: u32,
    slot: u32,
    operation: Vec<u8>,
}

fn called(record: &[u8]) -> Called {
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
    /// The stateid that is asked for.
    fn stateid(&self) -> Stateid {
        match callback::Argument::decode(&mut Reader::new(&self.operation)) {
            Ok(callback::Argument::Recall(args)) => args.stateid,
            other => panic!("{other:?}"),
        }
    }

    fn sequence_reply(&self) -> CallbackReply<'static> {
        CallbackReply::Sequence(Reply::Ok(callback::SequenceOk {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: self.slot,
            highest_slotid: 3,
            target_highest_slotid: 3,
        }))
    }

    /// A reply with this status and these results.
    fn reply(&self, status: Status, results: &[CallbackReply<'_>]) -> Vec<u8> {
        let operations = u32::try_from(results.len()).unwrap();
        let mut reply = ReplyHeader::success(self.xid).to_vec();
        reply.extend(CompoundReplyHead { status, tag: b"", operations }.to_bytes());
        results.iter().for_each(|result| reply.extend(result.to_bytes()));
        reply
    }

    /// How a client replies that has done it, or not.
    fn answer(&self, status: Status) -> Vec<u8> {
        self.reply(status, &[self.sequence_reply(), CallbackReply::Recall(status)])
    }
}

impl Rig {
    fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(SECOND));
        let fs = MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }));
        let volume = Volume::new(VolumeId(1), "e", Arc::new(fs), Durability::Sync, 1);
        let now = Arc::clone(&clock);
        let volume = Arc::new(volume.with_clock(move || Nanos(now.load(Ordering::Relaxed))));
        let export = Export::new("/e", Arc::clone(&volume), vec![rule(&[])]);
        let desk = Desk::new([export], vec![]);
        let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
        let export = Arc::clone(&desk.service.namespace.load().exports()[0]);
        for name in [&b"f"[..], b"g", b"h"] {
            let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
            let root = Arc::clone(&export).root();
            root.create(&caller, name, Disposition::CreateNew, &set, &mut pending).unwrap();
        }
        let mut client = TestClient::new(desk, 1);
        client.be(b"writer");
        let mut rig =
            Self { client, writer: Host::default(), volume, clock, calls: std::sync::mpsc::channel().1 };
        rig.complete();
        rig.client.swap(&mut rig.writer);
        rig.calls = rig.client.listen();
        rig.client.be(b"reader");
        rig.complete();
        rig
    }

    fn complete(&self) {
        let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        assert_eq!(self.client.status(&[complete]), Status::OK);
    }

    fn ask_open(&self, name: &[u8], share_access: ShareAccess) -> Results {
        let args = OpenArgs {
            seqid: 0,
            share_access,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: 0, owner: b"o" },
            openhow: OpenFlag::NoCreate,
            claim: OpenClaim::Null(name),
        };
        self.client.ask(&at(&[b"e"], [Argument::Open(args)]))
    }

    fn open(&self, name: &[u8], access: ShareAccess) -> Result<OpenDelegation<'static>, Status> {
        let results = self.ask_open(name, access);
        match results.all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => Ok(match ok.delegation {
                OpenDelegation::Read(read) => {
                    let permissions = Ace { who: b"EVERYONE@", ..read.permissions };
                    OpenDelegation::Read(ReadDelegation { permissions, ..read })
                }
                OpenDelegation::None => OpenDelegation::None,
                OpenDelegation::NoneExt(why) => OpenDelegation::NoneExt(why),
                other => panic!("{other:?}"),
            }),
            _ => Err(results.status()),
        }
    }

    /// Opens a file once more: the stateid of the open.
    fn upgraded(&self, name: &[u8]) -> Stateid {
        match self.ask_open(name, ShareAccess(1 | ShareAccess::WANT_NO_DELEG.0)).all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => ok.stateid,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a file for reading and has it delegated.
    fn delegated(&self, name: &[u8]) -> Stateid {
        match self.open(name, ShareAccess::READ) {
            Ok(OpenDelegation::Read(read)) => {
                assert!(!read.recall);
                read.stateid
            }
            other => panic!("{other:?}"),
        }
    }

    /// Does something as the writer.
    fn as_writer<R>(&mut self, act: impl FnOnce(&Self) -> R) -> R {
        self.client.swap(&mut self.writer);
        let done = act(self);
        self.client.swap(&mut self.writer);
        done
    }

    /// What the writer gets for an OPEN.
    fn write(&mut self, name: &[u8]) -> Result<OpenDelegation<'static>, Status> {
        self.as_writer(|rig| rig.open(name, ShareAccess::WRITE))
    }

    /// The next call of the service.
    fn next_call(&self) -> Called {
        called(&self.calls.recv_timeout(Duration::from_secs(10)).expect("a call"))
    }

    /// Whether nothing comes. A call would come from another thread, but what follows it here shows whether it has.
    fn is_silent(&self) -> bool {
        self.calls.recv_timeout(Duration::from_millis(50)).is_err()
    }

    fn reply(&self, record: &[u8]) {
        assert!(self.client.binding.wire.take_reply(record), "it is no call");
    }

    fn give_back(&self, name: &[u8], deleg_stateid: Stateid) -> Status {
        self.client.status(&at(&[b"e", name], [Argument::Delegreturn(DelegreturnArgs { deleg_stateid })]))
    }

    /// Seconds pass, in which clients are heard.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.fetch_add(SECOND, Ordering::Relaxed);
            self.client.desk.service.v4.tick();
            self.volume.expire_claims(self.volume.now()).unwrap();
            assert_eq!(self.client.status(&[Argument::Putrootfh]), Status::OK);
            assert_eq!(self.as_writer(|rig| rig.client.status(&[Argument::Putrootfh])), Status::OK);
        }
    }

    fn state_of(&self, stateid: Stateid) -> Status {
        let results = self.client.ask(&[Argument::TestStateid(TestStateidArgs { stateids: vec![stateid] })]);
        match results.all().last() {
            Some(OpReply::TestStateid(Reply::Ok(ok))) => ok.status_codes[0],
            other => panic!("{other:?}"),
        }
    }

    fn reader(&self) -> Arc<Client> {
        let session = self.client.desk.service.v4.session(&self.client.session_id()).unwrap();
        Arc::clone(&session.client)
    }

    /// The flags that SEQUENCE tells.
    fn flags(&self) -> SequenceStatus {
        self.client.sequence_flags()
    }
}

#[test]
fn who_reads_has_the_file_until_another_wants_to_write() {
    let mut rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(
        rig.as_writer(|rig| rig.open(b"f", ShareAccess::READ)),
        Ok(OpenDelegation::None),
        "no back channel"
    );
    assert_eq!(rig.write(b"f"), Err(Status::DELAY), "although it was put off");
    let call = rig.next_call();
    let handle = rig.client.handle(&[b"e", b"f"]);
    let args = callback::RecallArgs { stateid, truncate: false, fh: nfs_wire::v4::FileHandle(&handle) };
    assert_eq!(call.operation, callback::Argument::Recall(args).to_bytes());
    assert_eq!((call.session, call.sequence, call.slot), (rig.client.session_id(), 1, 0));
    rig.reply(&call.answer(Status::OK));
    assert_eq!(rig.write(b"f"), Err(Status::DELAY), "it is not given back yet");
    assert_eq!(rig.give_back(b"g", stateid), Status::BAD_STATEID, "of another file");
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    assert_eq!(rig.give_back(b"f", stateid), Status::BAD_STATEID);
    assert_eq!(rig.write(b"f"), Ok(OpenDelegation::None));
    assert!(rig.is_silent(), "it was asked once");
    assert_eq!(rig.open(b"f", ShareAccess::READ), Ok(OpenDelegation::None), "it is contended");
}

#[test]
fn delegations_say_why_there_is_none_to_who_asks() {
    let mut rig = Rig::new();
    let none = |why| Ok(OpenDelegation::NoneExt(why));
    let wants = |wants: ShareAccess| ShareAccess(1 | wants.0);
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_NO_DELEG)), none(NOT_WANTED));
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_CANCEL)), none(CANCELLED));
    assert_eq!(rig.open(b"g", ShareAccess(3 | ShareAccess::WANT_ANY_DELEG.0)), none(RESOURCE));
    rig.write(b"h").unwrap();
    assert_eq!(rig.open(b"h", wants(ShareAccess::WANT_READ_DELEG)), none(CONTENTION));
    rig.delegated(b"f");
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_READ_DELEG)), none(RESOURCE), "it has it");
}

#[test]
fn a_client_is_not_in_its_own_way() {
    let rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(rig.open(b"f", ShareAccess::BOTH), Ok(OpenDelegation::None));
    let handle = rig.client.handle(&[b"e", b"f"]);
    let (stable, data) = (StableHow::Unstable, &b"own"[..]);
    let write = |stateid| Argument::Write(WriteArgs { stateid, offset: 0, stable, data });
    assert_eq!(rig.client.status(&[put(&handle), write(Stateid::ANONYMOUS)]), Status::OK);
    assert_eq!(rig.client.status(&[put(&handle), write(stateid)]), Status::OPENMODE, "it is to read");
    let remove = Argument::Remove(nfs_wire::v4::RemoveArgs { target: b"f" });
    assert_eq!(rig.client.status(&at(&[b"e"], [remove])), Status::OK);
    assert!(rig.is_silent());
}

/// Does one of the changes of NFSv3 to `f`: its status.
fn change(rig: &Rig, change: &str) -> u32 {
    let (dir, file) = (rig.client.handle(&[b"e"]), rig.client.handle(&[b"e", b"f"]));
    let file = v3::FileHandle(&file);
    let name = |name| v3::DirOpArgs { dir: v3::FileHandle(&dir), name };
    let (procedure, args) = match change {
        "WRITE" => {
            let stable = v3::StableHow::Unstable;
            (7, v3::WriteArgs { file, offset: 0, count: 1, stable, data: b"x" }.to_bytes())
        }
        "SETATTR" => {
            let new_attributes = v3::Sattr { mode: Some(0o600), ..v3::Sattr::default() };
            (2, v3::SetattrArgs { object: file, new_attributes, guard: None }.to_bytes())
        }
        "REMOVE" => (12, v3::RemoveArgs { object: name(b"f") }.to_bytes()),
        "RENAME" => (14, v3::RenameArgs { from: name(b"f"), to: name(b"new") }.to_bytes()),
        "RENAME over it" => (14, v3::RenameArgs { from: name(b"g"), to: name(b"f") }.to_bytes()),
        _ => (15, v3::LinkArgs { file, link: name(b"new") }.to_bytes()),
    };
    let results = rig.client.desk.ask(100_003, 3, procedure, &Encoded(args)).unwrap();
    u32::from_be_bytes(results[..4].try_into().unwrap())
}

#[test]
fn changes_by_version_3_ask_for_the_delegation() {
    for name in ["WRITE", "SETATTR", "REMOVE", "RENAME", "RENAME over it", "LINK"] {
        let rig = Rig::new();
        let stateid = rig.delegated(b"f");
        assert_eq!(change(&rig, name), v3::Status::JUKEBOX.0, "{name}");
        assert_eq!(rig.next_call().stateid(), stateid, "{name}");
        assert_eq!(rig.give_back(b"f", stateid), Status::OK);
        assert_eq!(change(&rig, name), 0, "{name}");
    }
}

/// What is encoded already.
struct Encoded(Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, w: &mut xdr::Writer<'_>) {
        w.buffer().extend_from_slice(&self.0);
    }
}

#[test]
fn changes_of_extended_attributes_ask_for_the_delegation() {
    let mut rig = Rig::new();
    rig.client.set_minor(2);
    let stateid = rig.delegated(b"f");
    let handle = rig.client.handle(&[b"e", b"f"]);
    let args = SetxattrArgs { option: SetxattrOption::Either, key: b"k", value: XattrValue(b"v") };
    let set = [put(&handle), Argument::Setxattr(args)];
    assert_eq!(rig.client.status(&set), Status::OK, "its own");
    assert_eq!(rig.as_writer(|rig| rig.client.status(&set)), Status::DELAY);
    assert_eq!(rig.next_call().stateid(), stateid);
}

#[test]
fn what_is_not_given_back_in_a_lease_is_taken_away() {
    let mut rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    rig.next_call();
    rig.pass(LEASE_S - 1);
    assert_eq!((rig.write(b"f"), rig.state_of(stateid)), (Err(Status::DELAY), Status::OK));
    rig.pass(1);
    assert_eq!(rig.write(b"f"), Ok(OpenDelegation::None));
    assert!(rig.flags().contains(SequenceStatus::RECALLABLE_STATE_REVOKED));
    assert_eq!(rig.state_of(stateid), Status::DELEG_REVOKED);
    assert_eq!(rig.give_back(b"f", stateid), Status::DELEG_REVOKED);
    assert!(rig.flags().contains(SequenceStatus::RECALLABLE_STATE_REVOKED), "until it is freed");
    let free = |stateid| Argument::FreeStateid(FreeStateidArgs { stateid });
    assert_eq!(rig.as_writer(|rig| rig.client.status(&[free(stateid)])), Status::BAD_STATEID, "another's");
    assert_eq!(rig.client.status(&[free(stateid)]), Status::OK);
    assert!(!rig.flags().contains(SequenceStatus::RECALLABLE_STATE_REVOKED));
    assert_eq!(rig.state_of(stateid), Status::BAD_STATEID);
}

#[test]
fn only_the_client_that_was_called_replies() {
    let mut rig = Rig::new();
    rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    let call = rig.next_call();
    let answer = call.answer(Status::DELAY);
    assert!(rig.as_writer(|rig| rig.client.binding.wire.take_reply(&answer)), "dropped");
    for forged in [0, call.xid.wrapping_add(1), u32::MAX] {
        rig.reply(&Called { xid: forged, ..call.clone() }.answer(Status::DELAY));
    }
    rig.pass(1);
    assert!(rig.is_silent(), "nobody has said that it is to be asked later");
    rig.reply(&answer);
    rig.pass(1);
    let again = rig.next_call();
    assert_eq!((again.slot, again.sequence), (call.slot, call.sequence + 1));
    assert_eq!(again.operation, call.operation);
    rig.reply(&answer);
    rig.pass(1);
    assert!(rig.is_silent(), "one reply is one reply");
}

#[test]
fn replies_that_say_nothing_make_a_channel_faulty_until_it_is_bound_again() {
    let broken: [fn(&Called) -> Vec<u8>; 8] = [
        |call| ReplyHeader::success(call.xid).to_vec(),
        |call| call.reply(Status::OK, &[]),
        |call| call.reply(Status::OK, &[CallbackReply::Recall(Status::OK)]),
        |call| call.reply(Status::BADSESSION, &[CallbackReply::Sequence(Reply::Err(Status::BADSESSION))]),
        |call| Called { slot: 1, ..call.clone() }.answer(Status::OK),
        |call| Called { sequence: 7, ..call.clone() }.answer(Status::OK),
        |call| Called { session: [7; 16], ..call.clone() }.answer(Status::OK),
        |call| {
            let mut denied = call.answer(Status::OK);
            // MSG_DENIED, and what follows is read as that.
            denied[11] = 1;
            denied
        },
    ];
    for (number, broken) in broken.iter().enumerate() {
        let mut rig = Rig::new();
        let stateid = rig.delegated(b"f");
        assert_eq!(rig.write(b"f"), Err(Status::DELAY));
        let call = rig.next_call();
        rig.reply(&broken(&call));
        assert!(rig.flags().contains(SequenceStatus::BACKCHANNEL_FAULT), "{number}");
        assert_eq!(
            rig.open(b"g", ShareAccess::READ),
            Ok(OpenDelegation::None),
            "{number}: it cannot be asked"
        );
        rig.calls = rig.client.listen();
        bind(&rig);
        assert!(!rig.flags().contains(SequenceStatus::BACKCHANNEL_FAULT), "{number}");
        assert_eq!(rig.next_call().stateid(), stateid, "{number}: it is asked again");
    }
}

/// Binds the client's connection to its session, for both directions.
fn bind(rig: &Rig) {
    let args = BindConnToSessionArgs {
        sessid: rig.client.session_id(),
        dir: ChannelDirFromClient::ForeOrBoth,
        use_conn_in_rdma_mode: false,
    };
    assert_eq!(rig.client.run_alone(&Argument::BindConnToSession(args)).status(), Status::OK);
}

#[test]
fn a_call_whose_connection_has_gone_comes_again_over_another() {
    let mut rig = Rig::new();
    rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    let call = rig.next_call();
    rig.calls = rig.client.listen();
    rig.pass(1);
    let down = SequenceStatus::CB_PATH_DOWN | SequenceStatus::CB_PATH_DOWN_SESSION;
    assert!(rig.flags().contains(down));
    bind(&rig);
    let again = rig.next_call();
    assert_eq!((again.slot, again.sequence), (call.slot, call.sequence), "it may have been done");
    assert_eq!(again.operation, call.operation);
    assert_eq!(rig.flags().0 & down.0, 0);
    // Done before, and not remembered: that is an answer, too.
    let uncached = CallbackReply::Sequence(Reply::Err(Status::RETRY_UNCACHED_REP));
    rig.reply(&again.reply(Status::RETRY_UNCACHED_REP, &[uncached]));
    assert!(!rig.flags().contains(SequenceStatus::BACKCHANNEL_FAULT));
}

#[test]
fn a_client_that_never_answers_is_called_no_more_over_that_connection() {
    let mut rig = Rig::new();
    rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    rig.next_call();
    rig.pass(12);
    assert!(rig.flags().contains(SequenceStatus::CB_PATH_DOWN));
    assert_eq!(rig.open(b"g", ShareAccess::READ), Ok(OpenDelegation::None));
    rig.pass(LEASE_S);
    assert_eq!(rig.write(b"f"), Ok(OpenDelegation::None));
    assert!(rig.is_silent());
}

#[test]
fn a_call_about_what_was_given_back_is_not_repeated() {
    let mut rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    let call = rig.next_call();
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    rig.reply(&call.answer(Status::BAD_STATEID));
    rig.pass(3);
    assert!(rig.is_silent());
}

#[test]
fn delegations_are_bounded_and_those_of_who_goes_are_given_back() {
    let mut rig = Rig::new();
    let total = Arc::clone(&rig.client.desk.service.v4.delegations);
    total.store(crate::limits::DELEGATIONS_MAX - 1, Ordering::Relaxed);
    rig.delegated(b"f");
    let wanted = ShareAccess(1 | ShareAccess::WANT_READ_DELEG.0);
    assert_eq!(rig.open(b"g", wanted), Ok(OpenDelegation::NoneExt(RESOURCE)));
    total.store(1, Ordering::Relaxed);
    rig.delegated(b"g");
    let (reader, session) = (rig.reader(), rig.client.session_id());
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    // A client of the same name after a restart ends what the earlier one had.
    rig.client.restart(b"reader");
    rig.complete();
    assert_eq!(total.load(Ordering::Relaxed), 0);
    assert!(rig.client.desk.service.v4.session(&session).is_err());
    assert_eq!(reader.known_by(), 0);
    assert_eq!(rig.write(b"f"), Ok(OpenDelegation::None));
}

#[test]
fn a_client_that_says_goodbye_leaves_nothing_behind() {
    let mut rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    let close = |rig: &Rig, args| rig.client.run_alone(&args).status();
    let open = rig.upgraded(b"f");
    let closed = Argument::Close(nfs_wire::v4::CloseArgs { seqid: 0, open_stateid: open });
    assert_eq!(rig.client.status(&at(&[b"e", b"f"], [closed])), Status::OK);
    let (reader, sessionid) = (rig.reader(), rig.client.session_id());
    let destroy_client = || Argument::DestroyClientid(DestroyClientidArgs { clientid: reader.id });
    assert_eq!(close(&rig, destroy_client()), Status::CLIENTID_BUSY);
    assert_eq!(close(&rig, Argument::DestroySession(DestroySessionArgs { sessionid })), Status::OK);
    assert_eq!(reader.known_by(), 1);
    assert_eq!(close(&rig, destroy_client()), Status::OK);
    assert_eq!(reader.known_by(), 0);
    rig.client.restart(b"reader");
}
