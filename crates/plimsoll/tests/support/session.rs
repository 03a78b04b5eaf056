//! A client of NFSv4.1 or later with one session on one connection, for tests.
#![allow(dead_code, reason = "each test binary uses its own part")]

use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, MsgType, OpaqueAuth, RPC_VERSION, RecordMark};
use nfs_wire::v4::{
    Argument, ChannelAttrs, ClientOwner, CompoundHead, CompoundReplyHead, CreateSessionArgs,
    CreateSessionFlags, CreateSessionReply, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdReply, FileHandle,
    LookupArgs, OpReply, PROGRAM, PutfhArgs, Reply, SequenceArgs, SessionId, StateProtect, VERSION,
};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use xdr::{Decode, Encode, Inline, Reader, Writer};

/// The reply to a call, up to the compound's head.
const REPLY_HEADER_BYTES: usize = 24;

pub struct Session {
    stream: TcpStream,
    /// The minor version of requests.
    pub minor: u32,
    id: SessionId,
    sequence: u32,
}

impl Session {
    /// A connection, without a session as yet.
    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, minor: 1, id: [0; 16], sequence: 0 })
    }

    /// Introduces the client with this name, and makes its session.
    pub fn begin(&mut self, ownerid: &[u8]) -> io::Result<()> {
        self.begin_with(ownerid, CreateSessionFlags(0))
    }

    /// Begins a session over whose connection the server calls, so that it grants delegations. The client ignores the
    /// calls.
    pub fn begin_with_callbacks(&mut self, ownerid: &[u8]) -> io::Result<()> {
        self.begin_with(ownerid, CreateSessionFlags::CONN_BACK_CHAN)
    }

    fn begin_with(&mut self, ownerid: &[u8], flags: CreateSessionFlags) -> io::Result<()> {
        let introduction = ExchangeIdArgs {
            clientowner: ClientOwner { verifier: [1; 8], ownerid },
            flags: ExchangeIdFlags(0),
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        let reply = self.compound(&[Argument::ExchangeId(introduction)])?;
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
            flags,
            fore_chan_attrs: channel,
            back_chan_attrs: channel,
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        };
        let reply = self.compound(&[Argument::CreateSession(creation)])?;
        let [OpReply::CreateSession(CreateSessionReply::Ok(session))] = &*results(&reply) else {
            panic!("{reply:?}")
        };
        (self.id, self.sequence) = (session.sessionid, 0);
        Ok(())
    }

    /// Sends operations; returns the bytes of the results.
    fn compound(&mut self, operations: &[Argument<'_>]) -> io::Result<Vec<u8>> {
        let auth =
            AuthSys { stamp: 0, machinename: b"tests", uid: 0, gid: 0, gids: Inline::default() }.to_bytes();
        let header = CallHeader {
            xid: 7,
            rpcvers: RPC_VERSION,
            prog: PROGRAM,
            vers: VERSION,
            proc: 1,
            cred: OpaqueAuth { flavor: AuthFlavor::SYS, body: &auth },
            verf: OpaqueAuth::default(),
        };
        let count = u32::try_from(operations.len()).unwrap();
        let mut call = vec![0; 4];
        let w = &mut Writer::new(&mut call);
        header.encode(w);
        CompoundHead { tag: b"", minorversion: self.minor, operations: count }.encode(w);
        operations.iter().for_each(|operation| operation.encode(w));
        let length = u32::try_from(call.len() - 4).unwrap();
        call[..4].copy_from_slice(&RecordMark { last: true, length }.to_word().to_be_bytes());
        self.stream.write_all(&call)?;
        loop {
            let mut record = self.record()?;
            if record[4..8] == MsgType::REPLY.0.to_be_bytes() {
                return Ok(record.split_off(REPLY_HEADER_BYTES));
            }
        }
    }

    fn record(&mut self) -> io::Result<Vec<u8>> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark)?;
        let mut record = vec![0; RecordMark::from_word(u32::from_be_bytes(mark)).length as usize];
        self.stream.read_exact(&mut record)?;
        Ok(record)
    }

    /// Sends operations in the session; returns the bytes of the results, SEQUENCE's first.
    pub fn ask(&mut self, operations: &[Argument<'_>]) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let (sessionid, sequenceid) = (self.id, self.sequence);
        let sequence = SequenceArgs { sessionid, sequenceid, slotid: 0, highest_slotid: 0, cachethis: false };
        let all: Vec<_> =
            [Argument::Sequence(sequence)].into_iter().chain(operations.iter().cloned()).collect();
        self.compound(&all)
    }

    /// The filehandle at a path from the root.
    pub fn handle(&mut self, path: &[&str]) -> io::Result<Vec<u8>> {
        let lookups = path.iter().map(|name| Argument::Lookup(LookupArgs { objname: name.as_bytes() }));
        let operations: Vec<_> =
            [Argument::Putrootfh].into_iter().chain(lookups).chain([Argument::Getfh]).collect();
        let reply = self.ask(&operations)?;
        match results(&reply).last() {
            Some(OpReply::Getfh(Reply::Ok(ok))) => Ok(ok.object.0.to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

/// PUTFH.
pub fn put(handle: &[u8]) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: FileHandle(handle) })
}

/// The results of all operations that were done.
pub fn results(reply: &[u8]) -> Vec<OpReply<'_>> {
    let r = &mut Reader::new(reply);
    let head = CompoundReplyHead::decode(r).unwrap();
    (0..head.operations).map(|_| OpReply::decode(r).unwrap()).collect()
}
