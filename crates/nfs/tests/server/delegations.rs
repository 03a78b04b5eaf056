//! Delegations and callbacks over real connections: the server recalls a conflicting delegation, and the compound waits
//! a moment for its return.

use crate::support::VOLUME;
use crate::support::client::{Running, mark, one_volume, system_clock};
use nfs_wire::rpc::{
    AuthFlavor, AuthSys, CallHeader, MsgType, OpaqueAuth, RPC_VERSION, RecordMark, ReplyHeader,
};
use nfs_wire::v4::callback::{self, CompoundReplyHead as CallbackHead, OpReply as CallbackReply};
use nfs_wire::v4::{
    Argument, Bitmap, ChannelAttrs, ClientOwner, CompoundHead, CompoundReplyHead, CreateSessionArgs,
    CreateSessionFlags, CreateSessionReply, DelegreturnArgs, ExchangeIdArgs, ExchangeIdFlags,
    ExchangeIdReply, Fattr, FileHandle, GetattrArgs, LookupArgs, OpReply, OpenArgs, OpenClaim,
    OpenDelegation, OpenFlag, PutfhArgs, ReclaimCompleteArgs, Reply, SequenceArgs, SessionId, SetxattrArgs,
    SetxattrOption, ShareAccess, ShareDeny, StableHow, StateOwner, StateProtect, Stateid, Status, VerifyArgs,
    WriteArgs, XattrValue, attr,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::{Caller, Disposition, PendingSync, SetAttrs};
use vfs_testing::MemFs;
use xdr::{Decode, Encode, Inline, Reader};

/// A client with a connection and a session.
struct Host {
    stream: TcpStream,
    session: SessionId,
    sequence: u32,
    xid: u32,
    minor: u32,
}

impl Host {
    fn new(running: &Running, ownerid: &[u8]) -> Self {
        Self::of_minor(1, running, ownerid)
    }

    fn of_minor(minor: u32, running: &Running, ownerid: &[u8]) -> Self {
        let stream = TcpStream::connect(running.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut host = Self { stream, session: [0; 16], sequence: 0, xid: 100, minor };
        let introduction = ExchangeIdArgs {
            clientowner: ClientOwner { verifier: [1; 8], ownerid },
            flags: ExchangeIdFlags(0),
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        let reply = host.compound(&[Argument::ExchangeId(introduction)]);
        let [OpReply::ExchangeId(ExchangeIdReply::Ok(known))] = &*results(&reply) else { panic!() };
        let attrs = ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: 1 << 20,
            maxresponsesize: 1 << 20,
            maxresponsesize_cached: 4096,
            maxoperations: 8,
            maxrequests: 4,
            rdma_ird: None,
        };
        let creation = CreateSessionArgs {
            clientid: known.clientid,
            sequence: known.sequenceid,
            flags: CreateSessionFlags::CONN_BACK_CHAN,
            fore_chan_attrs: attrs,
            back_chan_attrs: attrs,
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        };
        let reply = host.compound(&[Argument::CreateSession(creation)]);
        let [OpReply::CreateSession(CreateSessionReply::Ok(session))] = &*results(&reply) else { panic!() };
        host.session = session.sessionid;
        let done = host.ask(&[Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
        assert_eq!(status(&done), Status::OK);
        host
    }

    /// Sends operations after SEQUENCE. Returns the call's xid.
    fn send(&mut self, operations: &[Argument<'_>]) -> u32 {
        self.sequence += 1;
        let sequence = SequenceArgs {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
        };
        let all: Vec<_> =
            [Argument::Sequence(sequence)].into_iter().chain(operations.iter().cloned()).collect();
        self.send_compound(&all)
    }

    fn ask(&mut self, operations: &[Argument<'_>]) -> Vec<u8> {
        self.send(operations);
        self.receive()
    }

    fn compound(&mut self, operations: &[Argument<'_>]) -> Vec<u8> {
        self.send_compound(operations);
        self.receive()
    }

    fn send_compound(&mut self, operations: &[Argument<'_>]) -> u32 {
        self.xid += 1;
        let sys =
            AuthSys { stamp: 1, machinename: b"ship", uid: 0, gid: 0, gids: Inline::default() }.to_bytes();
        let header = CallHeader {
            xid: self.xid,
            rpcvers: RPC_VERSION,
            prog: 100_003,
            vers: 4,
            proc: 1,
            cred: OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys },
            verf: OpaqueAuth::default(),
        };
        let operations_count = u32::try_from(operations.len()).unwrap();
        let mut call = header.to_bytes();
        call.extend(
            CompoundHead { tag: b"", minorversion: self.minor, operations: operations_count }.to_bytes(),
        );
        operations.iter().for_each(|operation| call.extend(operation.to_bytes()));
        self.send_record(&call);
        self.xid
    }

    fn send_record(&mut self, record: &[u8]) {
        self.stream.write_all(&[&mark(true, record.len())[..], record].concat()).unwrap();
    }

    /// The next record, a call or a reply.
    fn record(&mut self) -> Vec<u8> {
        let mut word = [0; 4];
        self.stream.read_exact(&mut word).expect("a record");
        let mark = RecordMark::from_word(u32::from_be_bytes(word));
        let mut record = vec![0; usize::try_from(mark.length).unwrap()];
        self.stream.read_exact(&mut record).unwrap();
        record
    }

    /// The reply to the last call.
    fn receive(&mut self) -> Vec<u8> {
        let record = self.record();
        assert_eq!(record[..24], ReplyHeader::success(self.xid));
        record[24..].to_vec()
    }

    /// Waits for a recall and accepts it. Returns the delegation's stateid.
    fn recalled(&mut self) -> Stateid {
        let record = self.record();
        assert_eq!(record[4..8], MsgType::CALL.0.to_be_bytes());
        let mut r = Reader::new(&record);
        let header = CallHeader::decode(&mut r).unwrap();
        callback::CompoundHead::decode(&mut r).unwrap();
        let callback::Argument::Sequence(args) = callback::Argument::decode(&mut r).unwrap() else {
            panic!()
        };
        let callback::Argument::Recall(recall) = callback::Argument::decode(&mut r).unwrap() else {
            panic!()
        };
        let ok = callback::SequenceOk {
            sessionid: args.sessionid,
            sequenceid: args.sequenceid,
            slotid: args.slotid,
            highest_slotid: 3,
            target_highest_slotid: 3,
        };
        let mut reply = ReplyHeader::success(header.xid).to_vec();
        reply.extend(CallbackHead { status: Status::OK, tag: b"", operations: 2 }.to_bytes());
        reply.extend(CallbackReply::Sequence(Reply::Ok(ok)).to_bytes());
        reply.extend(CallbackReply::Recall(Status::OK).to_bytes());
        self.send_record(&reply);
        recall.stateid
    }

    /// Opens a file for reading with a delegation.
    fn delegated(&mut self, handle: &[u8]) -> Stateid {
        let reply = self.ask(&[put(handle), open(ShareAccess::READ)]);
        match results(&reply).last() {
            Some(OpReply::Open(Reply::Ok(ok))) => match ok.delegation {
                OpenDelegation::Read(read) => read.stateid,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

fn status(reply: &[u8]) -> Status {
    Status::decode(&mut Reader::new(reply)).unwrap()
}

fn results(reply: &[u8]) -> Vec<OpReply<'_>> {
    let mut r = Reader::new(reply);
    let head = CompoundReplyHead::decode(&mut r).unwrap();
    (0..head.operations).map(|_| OpReply::decode(&mut r).unwrap()).collect()
}

fn put(handle: &[u8]) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: FileHandle(handle) })
}

fn open(share_access: ShareAccess) -> Argument<'static> {
    Argument::Open(OpenArgs {
        seqid: 0,
        share_access,
        share_deny: ShareDeny::NONE,
        owner: StateOwner { clientid: 0, owner: b"o" },
        openhow: OpenFlag::NoCreate,
        claim: OpenClaim::Fh,
    })
}

/// A server with some files, and their handles.
fn running() -> (Running, Vec<Vec<u8>>) {
    let namespace = one_volume(Arc::new(MemFs::new(system_clock())));
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
    let mut make = |name: u8| {
        let root = Arc::clone(&namespace.exports()[0]).root();
        root.create(&caller, &[name], Disposition::CreateNew, &set, &mut pending).unwrap().file.key()
    };
    let keys: Vec<_> = (b'a'..=b'z').map(&mut make).collect();
    let running = Running::serving(namespace);
    let handles = keys.iter().map(|key| running.handle(VOLUME, key)).collect();
    (running, handles)
}

#[test]
fn a_compound_waits_for_an_immediate_return() {
    let (running, handles) = running();
    let (mut reader, mut writer) = (Host::new(&running, b"reader"), Host::new(&running, b"writer"));
    // On a busy machine the return may take longer than a compound waits, but not every time.
    let was_put_off = handles.iter().any(|handle| {
        let deleg_stateid = reader.delegated(handle);
        writer.send(&[put(handle), open(ShareAccess::WRITE)]);
        assert_eq!(reader.recalled(), deleg_stateid);
        let returned = reader.ask(&[put(handle), Argument::Delegreturn(DelegreturnArgs { deleg_stateid })]);
        assert_eq!(status(&returned), Status::OK);
        let opened = status(&writer.receive());
        assert!(matches!(opened, Status::OK | Status::DELAY), "{opened:?}");
        opened == Status::OK
    });
    assert!(was_put_off);
}

#[test]
fn a_compound_waits_for_thirty_milliseconds_and_others_continue() {
    let (running, handles) = running();
    let handle = &handles[0];
    let (mut reader, mut writer) = (Host::new(&running, b"reader"), Host::new(&running, b"writer"));
    reader.delegated(handle);
    let began = Instant::now();
    writer.send(&[put(handle), open(ShareAccess::WRITE)]);
    reader.recalled();
    assert_eq!(status(&reader.ask(&[put(handle)])), Status::OK, "nobody else waits");
    assert_eq!(status(&writer.receive()), Status::DELAY);
    assert!(began.elapsed() >= Duration::from_millis(30));
    // The call of a client that disconnects meanwhile is dropped.
    writer.send(&[put(handle), open(ShareAccess::WRITE)]);
    drop(writer);
    assert_eq!(status(&reader.ask(&[put(handle)])), Status::OK);
}

/// A compound may be long for a name, a value or a second WRITE.
#[test]
fn a_long_compound_without_a_leading_long_write_is_answered() {
    for minor in [1, 2] {
        let (running, handles) = running();
        let (mut host, file) = (Host::of_minor(minor, &running, b"long"), &handles[0]);
        let long = vec![b'x'; 300 << 10];
        let verify =
            |attrmask| Argument::Verify(VerifyArgs { obj_attributes: Fattr { attrmask, attr_vals: &long } });
        let write = |offset, data| {
            let (stateid, stable) = (Stateid::ANONYMOUS, StableHow::Unstable);
            Argument::Write(WriteArgs { stateid, offset, stable, data })
        };
        let look = Argument::Getattr(GetattrArgs { attr_request: Bitmap::of(&[attr::SIZE]) });
        let name = Argument::Lookup(LookupArgs { objname: &long });
        let setxattr =
            SetxattrArgs { option: SetxattrOption::Either, key: b"user.long", value: XattrValue(&long) };
        let half = &long[..100 << 10];
        let of_size = Bitmap::of(&[attr::SIZE]);
        for (what, operations) in [
            ("a name", vec![Argument::Putrootfh, name]),
            ("a value", vec![put(file), verify(of_size)]),
            ("a value before a WRITE", vec![put(file), verify(of_size), write(0, half)]),
            ("an attribute", vec![put(file), Argument::Setxattr(setxattr)]),
        ] {
            let reply = host.ask(&operations);
            assert!(status(&reply) != Status::OK, "{what} is too long in 4.{minor}");
            assert!(matches!(results(&reply)[0], OpReply::Sequence(Reply::Ok(_))), "{what} in 4.{minor}");
        }
        let reply = host.ask(&[put(file), write(0, half), write(100 << 10, half), look.clone()]);
        let all = results(&reply);
        let Some(OpReply::Getattr(Reply::Ok(told))) = all.last() else { panic!("{all:?}") };
        assert_eq!(told.obj_attributes.attr_vals, (200_u64 << 10).to_be_bytes());
        let reply = host.ask(&[put(file), look, write(0, &long)]);
        assert_eq!(status(&reply), Status::OK, "4.{minor}");
    }
}
