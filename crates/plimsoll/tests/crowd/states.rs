//! Many clients of NFSv4.1 that hold many files open, and many locks in them.

use super::{Server, raise_descriptors};
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, RecordMark};
use nfs_wire::v4::{
    Argument, ChannelAttrs, ClientOwner, CompoundHead, CompoundReplyHead, CreateHow, CreateSessionArgs,
    CreateSessionFlags, CreateSessionReply, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdReply, ExistLockOwner,
    Fattr, FileHandle, LockArgs, LockReply, LockType, Locker, LookupArgs, OpReply, OpenArgs, OpenClaim,
    OpenFlag, OpenToLockOwner, PROGRAM, PutfhArgs, ReclaimCompleteArgs, Reply, SequenceArgs, SessionId,
    ShareAccess, ShareDeny, StateOwner, StateProtect, Stateid, Status, VERSION,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use xdr::{Decode, Encode, Inline, Reader, Writer};

const CLIENTS: usize = 1000;
/// Of each client.
const OPENS: usize = 100;
/// In each of its open files: a million in all, of which a build without optimization needs too long.
const LOCKS: usize = if cfg!(debug_assertions) { 2 } else { 10 };
const FILES: usize = 1000;
/// Operations on files in one compound.
const BATCH: usize = 10;

/// The reply to a call, from the compound's head on.
const REPLY_HEADER_BYTES: usize = 24;

const OWNER: StateOwner<'_> = StateOwner { clientid: 0, owner: b"a process" };

struct Client {
    number: usize,
    stream: TcpStream,
    session: SessionId,
    sequence: u32,
    dir: Vec<u8>,
    /// What it has open.
    opened: Vec<(Vec<u8>, Stateid)>,
}

impl Client {
    fn connect(address: SocketAddr, number: usize) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { number, stream, session: [0; 16], sequence: 0, dir: vec![], opened: vec![] }
    }

    /// Does operations: the bytes of the results.
    fn compound(&mut self, operations: &[Argument<'_>]) -> Vec<u8> {
        let nobody = OpaqueAuth::default();
        let auth =
            AuthSys { stamp: 0, machinename: b"crowd", uid: 0, gid: 0, gids: Inline::default() }.to_bytes();
        let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &auth };
        let header = CallHeader {
            xid: 7,
            rpcvers: RPC_VERSION,
            prog: PROGRAM,
            vers: VERSION,
            proc: 1,
            cred,
            verf: nobody,
        };
        let count = u32::try_from(operations.len()).unwrap();
        let mut call = vec![0; 4];
        let w = &mut Writer::new(&mut call);
        header.encode(w);
        CompoundHead { tag: b"", minorversion: 1, operations: count }.encode(w);
        operations.iter().for_each(|operation| operation.encode(w));
        let length = u32::try_from(call.len() - 4).unwrap();
        call[..4].copy_from_slice(&RecordMark { last: true, length }.to_word().to_be_bytes());
        self.stream.write_all(&call).unwrap();
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).unwrap();
        let mut reply = vec![0; RecordMark::from_word(u32::from_be_bytes(mark)).length as usize];
        self.stream.read_exact(&mut reply).unwrap();
        reply.split_off(REPLY_HEADER_BYTES)
    }

    /// Does operations in its session.
    fn ask(&mut self, operations: &[Argument<'_>]) -> Vec<u8> {
        self.sequence += 1;
        let (sessionid, sequenceid) = (self.session, self.sequence);
        let sequence = SequenceArgs { sessionid, sequenceid, slotid: 0, highest_slotid: 0, cachethis: false };
        let all: Vec<_> =
            [Argument::Sequence(sequence)].into_iter().chain(operations.iter().cloned()).collect();
        self.compound(&all)
    }

    fn begin_session(&mut self) {
        let owner = format!("client {}", self.number);
        let introduction = ExchangeIdArgs {
            clientowner: ClientOwner { verifier: [1; 8], ownerid: owner.as_bytes() },
            flags: ExchangeIdFlags(0),
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        let reply = self.compound(&[Argument::ExchangeId(introduction)]);
        let [OpReply::ExchangeId(ExchangeIdReply::Ok(known))] = &*results(&reply) else {
            panic!("{reply:?}")
        };
        // As Linux asks.
        let channel = ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: 1_049_620,
            maxresponsesize: 1_049_480,
            maxresponsesize_cached: 7584,
            maxoperations: 64,
            maxrequests: 64,
            rdma_ird: None,
        };
        let creation = CreateSessionArgs {
            clientid: known.clientid,
            sequence: known.sequenceid,
            flags: CreateSessionFlags(0),
            fore_chan_attrs: channel,
            back_chan_attrs: channel,
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        };
        let reply = self.compound(&[Argument::CreateSession(creation)]);
        let [OpReply::CreateSession(CreateSessionReply::Ok(session))] = &*results(&reply) else {
            panic!("{reply:?}")
        };
        self.session = session.sessionid;
        let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let lookup = Argument::Lookup(LookupArgs { objname: b"files" });
        let reply = self.ask(&[complete, Argument::Putrootfh, lookup, Argument::Getfh]);
        match results(&reply).last() {
            Some(OpReply::Getfh(Reply::Ok(ok))) => self.dir = ok.object.0.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Opens some files, each of which a tenth of the clients opens.
    fn open(&mut self, from: usize) {
        let names: Vec<String> =
            (from..from + BATCH).map(|file| format!("f{}", (self.number + file * 10) % FILES)).collect();
        let dir = self.dir.clone();
        let operations: Vec<_> =
            names.iter().flat_map(|name| [put(&dir), open(name), Argument::Getfh]).collect();
        let reply = self.ask(&operations);
        let mut stateid = None;
        for result in results(&reply) {
            match result {
                OpReply::Open(Reply::Ok(ok)) => stateid = Some(ok.stateid),
                OpReply::Getfh(Reply::Ok(ok)) => {
                    self.opened.push((ok.object.0.to_vec(), stateid.take().unwrap()));
                }
                _ => {}
            }
        }
    }

    /// Locks ranges in an open file: how many it gets.
    fn lock(&mut self, file: usize) -> usize {
        let (handle, open_stateid) = self.opened[file].clone();
        let start = self.number as u64 * 10_000;
        let lock = |index: usize| {
            let locker = match index {
                0 => Locker::New(OpenToLockOwner {
                    open_seqid: 0,
                    open_stateid,
                    lock_seqid: 0,
                    lock_owner: OWNER,
                }),
                _ => Locker::Existing(ExistLockOwner { lock_stateid: Stateid::CURRENT, lock_seqid: 0 }),
            };
            let (offset, length) = (start + 20 * index as u64, 10);
            Argument::Lock(LockArgs { locktype: LockType::Write, reclaim: false, offset, length, locker })
        };
        let operations: Vec<_> = [put(&handle)].into_iter().chain((0..LOCKS).map(lock)).collect();
        let reply = self.ask(&operations);
        results(&reply).iter().filter(|result| matches!(result, OpReply::Lock(LockReply::Ok(_)))).count()
    }
}

fn open(name: &str) -> Argument<'_> {
    Argument::Open(OpenArgs {
        seqid: 0,
        share_access: ShareAccess(ShareAccess::BOTH.0 | ShareAccess::WANT_NO_DELEG.0),
        share_deny: ShareDeny(0),
        owner: OWNER,
        openhow: OpenFlag::Create(CreateHow::Unchecked(Fattr::default())),
        claim: OpenClaim::Null(name.as_bytes()),
    })
}

fn put(handle: &[u8]) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: FileHandle(handle) })
}

fn results(reply: &[u8]) -> Vec<OpReply<'_>> {
    let r = &mut Reader::new(reply);
    let head = CompoundReplyHead::decode(r).unwrap();
    let results = (0..head.operations).map(|_| OpReply::decode(r).unwrap()).collect();
    assert_eq!(head.status, Status::OK, "{results:?}");
    results
}

/// Memory that a step may take, for so many things.
fn assert_takes(
    what: &str,
    server: &Server,
    before: &mut u64,
    things: usize,
    bytes_each: u64,
    begun: Instant,
) {
    let now = server.resident_kib();
    let each = (now - *before) * 1024 / things as u64;
    eprintln!("{things} {what}: {each} bytes each, {:.1} s", begun.elapsed().as_secs_f64());
    assert!(each <= bytes_each, "{what}: {each} bytes each, {bytes_each} are too many");
    *before = now;
}

#[test]
fn what_clients_hold_takes_little_memory() {
    raise_descriptors();
    let server = Server::start(None);
    let mut clients: Vec<Client> =
        (0..CLIENTS).map(|number| Client::connect(server.address, number)).collect();
    let mut resident = server.resident_kib();
    let begun = Instant::now();
    clients.iter_mut().for_each(Client::begin_session);
    // With the buffers of their connections.
    assert_takes("sessions", &server, &mut resident, CLIENTS, 28 << 10, begun);
    for from in (0..OPENS).step_by(BATCH) {
        clients.iter_mut().for_each(|client| client.open(from));
    }
    assert_takes("open files", &server, &mut resident, CLIENTS * OPENS, 2 << 10, begun);
    let mut granted = 0;
    for file in 0..OPENS {
        granted += clients.iter_mut().map(|client| client.lock(file)).sum::<usize>();
    }
    assert_eq!(granted, CLIENTS * OPENS * LOCKS);
    let owner_bytes = 512 + 160 * LOCKS as u64;
    assert_takes("lock owners", &server, &mut resident, CLIENTS * OPENS, owner_bytes, begun);
    server.assert_useful();
}
