//! Version 4.2 with TLS: long compounds through it, and sessions and handles that are used without it.

use crate::rig::{Offer, Refused, Rpc, Server};
use crate::{MIB, pattern};
use nfs_wire::v4::{
    Argument, ChannelAttrs, ClientId, ClientOwner, CompoundHead, CompoundReplyHead, CreateHow,
    CreateSessionArgs, CreateSessionFlags, CreateSessionReply, ExchangeIdArgs, ExchangeIdFlags,
    ExchangeIdReply, Fattr, FileHandle, LookupArgs, OpReply, OpenArgs, OpenClaim, OpenFlag, PROGRAM,
    PutfhArgs, ReadArgs, ReclaimCompleteArgs, Reply, SequenceArgs, SessionId, ShareAccess, ShareDeny,
    StableHow, StateOwner, StateProtect, Stateid, Status, VERSION, WriteArgs,
};
use std::fs;
use std::io::{Read, Write};
use xdr::{Decode, Encode, Reader, Writer};

const COMPOUND: (u32, u32, u32) = (PROGRAM, VERSION, 1);
/// Longer than any of the compounds and their results.
const CHANNEL: ChannelAttrs = ChannelAttrs {
    headerpadsize: 0,
    maxrequestsize: 1_049_620,
    maxresponsesize: 1_049_480,
    maxresponsesize_cached: 4096,
    maxoperations: 16,
    maxrequests: 4,
    rdma_ird: None,
};

struct Compound<'a>(&'a [Argument<'a>]);

impl Encode for Compound<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let operations = u32::try_from(self.0.len()).unwrap();
        CompoundHead { tag: b"", minorversion: 2, operations }.encode(w);
        self.0.iter().for_each(|operation| operation.encode(w));
    }
}

fn status(results: &[u8]) -> Status {
    CompoundReplyHead::decode(&mut Reader::new(results)).unwrap().status
}

fn last(results: &[u8]) -> OpReply<'_> {
    let mut r = Reader::new(results);
    let head = CompoundReplyHead::decode(&mut r).unwrap();
    (0..head.operations).map(|_| OpReply::decode(&mut r).unwrap()).last().unwrap()
}

fn create_session(clientid: ClientId, sequence: u32) -> Argument<'static> {
    Argument::CreateSession(CreateSessionArgs {
        clientid,
        sequence,
        flags: CreateSessionFlags(0),
        fore_chan_attrs: CHANNEL,
        back_chan_attrs: CHANNEL,
        cb_program: 0x4000_0000,
        sec_parms: vec![],
    })
}

/// A session, over whichever connection.
struct Session {
    client: ClientId,
    id: SessionId,
    sequence: u32,
}

impl Session {
    fn begin<S: Read + Write>(over: &mut Rpc<S>, verifier: u8) -> Self {
        let introduction = ExchangeIdArgs {
            clientowner: ClientOwner { verifier: [verifier; 8], ownerid: b"client" },
            flags: ExchangeIdFlags(0),
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        let results = over.call(COMPOUND, &Compound(&[Argument::ExchangeId(introduction)])).unwrap();
        let OpReply::ExchangeId(ExchangeIdReply::Ok(known)) = last(&results) else { panic!("{results:?}") };
        let creation = create_session(known.clientid, known.sequenceid);
        let results = over.call(COMPOUND, &Compound(&[creation])).unwrap();
        let OpReply::CreateSession(CreateSessionReply::Ok(made)) = last(&results) else {
            panic!("{results:?}")
        };
        let mut session = Self { client: known.clientid, id: made.sessionid, sequence: 0 };
        let complete = ReclaimCompleteArgs { one_fs: false };
        assert_eq!(session.status(over, &[Argument::ReclaimComplete(complete)]), Ok(Status::OK));
        session
    }

    fn ask<S: Read + Write>(
        &mut self,
        over: &mut Rpc<S>,
        operations: &[Argument<'_>],
    ) -> Result<Vec<u8>, Refused> {
        self.sequence += 1;
        let (sessionid, sequenceid) = (self.id, self.sequence);
        let sequence = SequenceArgs { sessionid, sequenceid, slotid: 0, highest_slotid: 0, cachethis: false };
        let all = [&[Argument::Sequence(sequence)], operations].concat();
        over.call(COMPOUND, &Compound(&all))
    }

    fn status<S: Read + Write>(
        &mut self,
        over: &mut Rpc<S>,
        operations: &[Argument<'_>],
    ) -> Result<Status, Refused> {
        self.ask(over, operations).map(|results| status(&results))
    }
}

fn put(handle: &[u8]) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: FileHandle(handle) })
}

/// The handle of a new file.
fn open<S: Read + Write>(session: &mut Session, over: &mut Rpc<S>, name: &str) -> Vec<u8> {
    let operations = [
        Argument::Putrootfh,
        Argument::Lookup(LookupArgs { objname: b"files" }),
        Argument::Open(OpenArgs {
            seqid: 0,
            share_access: ShareAccess(ShareAccess::BOTH.0 | ShareAccess::WANT_NO_DELEG.0),
            share_deny: ShareDeny(0),
            owner: StateOwner { clientid: 0, owner: b"a process" },
            openhow: OpenFlag::Create(CreateHow::Unchecked(Fattr::default())),
            claim: OpenClaim::Null(name.as_bytes()),
        }),
        Argument::Getfh,
    ];
    let results = session.ask(over, &operations).unwrap();
    let OpReply::Getfh(Reply::Ok(handle)) = last(&results) else { panic!("{results:?}") };
    handle.object.0.to_vec()
}

fn write(offset: u64, data: &[u8]) -> Argument<'_> {
    Argument::Write(WriteArgs { stateid: Stateid::ANONYMOUS, offset, stable: StableHow::FileSync, data })
}

fn read(offset: u64, count: u32) -> Argument<'static> {
    Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset, count })
}

#[test]
fn compounds_of_any_length_come_through() {
    let server = Server::start(&["--tls", "require"]);
    let mut client = server.tls();
    let mut session = Session::begin(&mut client, 1);
    let file = open(&mut session, &mut client, "big");
    let data = pattern(4 * MIB);
    for (number, part) in data.chunks(MIB).enumerate() {
        let operations = [put(&file), write((number * MIB) as u64, part), Argument::Getfh];
        assert_eq!(session.status(&mut client, &operations), Ok(Status::OK));
    }
    assert!(fs::read(server.file("big")).unwrap() == data);
    for (offset, count) in [(0, 1 << 20), (3, 1 << 20), (MIB - 5, 65_536), (4 * MIB - 100, 4096)] {
        let results = session.ask(&mut client, &[put(&file), read(offset as u64, count)]).unwrap();
        let OpReply::Read(Reply::Ok(read)) = last(&results) else { panic!("{:?}", status(&results)) };
        assert!(read.data == &data[offset..data.len().min(offset + count as usize)], "{count} at {offset}");
    }
    // The session is known, the connection is not protected.
    let refused = session.ask(&mut server.plain(), &[put(&file), write(0, b"other")]);
    assert!(refused.is_err(), "{refused:?}");
    assert!(fs::read(server.file("big")).unwrap() == data);
}

#[test]
fn an_export_for_tls_and_sessions_that_began_with_tls_are_not_there_for_others() {
    let server = Server::start(&["--xprtsec", "tls"]);
    let mut secured = server.tls();
    let mut session = Session::begin(&mut secured, 1);
    let file = open(&mut session, &mut secured, "file");
    assert_eq!(session.status(&mut secured, &[put(&file), write(0, b"secret")]), Ok(Status::OK));
    let mut plain = server.plain();
    let lookup = [Argument::Putrootfh, Argument::Lookup(LookupArgs { objname: b"files" })];
    let read = read(0, 6);
    let long = pattern(MIB);
    let trials: [(&[Argument<'_>], Status); 4] = [
        (&lookup, Status::NOENT),
        (&[put(&file)], Status::ACCESS),
        (&[put(&file), read.clone()], Status::ACCESS),
        (&[put(&file), write(0, &long)], Status::ACCESS),
    ];
    for (operations, _) in trials {
        let status = session.status(&mut plain, operations);
        assert_eq!(status, Ok(Status::BADSESSION), "in the session, {operations:.80?}");
    }
    let mut own = Session::begin(&mut plain, 1);
    for (operations, expected) in trials {
        assert_eq!(own.status(&mut plain, operations), Ok(expected), "in its own, {operations:.80?}");
    }
    assert_eq!(fs::read(server.file("file")).unwrap(), b"secret");
}

#[test]
fn nobody_with_less_protection_takes_the_place_of_a_client() {
    let server = Server::start(&[]);
    let trusted = Offer { shows: Some(server.client.clone()), ..Offer::new(&server.identity) };
    let (mut plain, mut secured, mut known) =
        (server.plain(), server.tls(), server.shake_hands(&trusted).unwrap());
    let mut first =
        [Session::begin(&mut plain, 1), Session::begin(&mut secured, 1), Session::begin(&mut known, 1)];
    let ids = first.each_ref().map(|session| session.client);
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "by the same name: {ids:?}");
    // Another verifier says that the client has restarted, and ends what it was before.
    Session::begin(&mut plain, 2);
    assert_eq!(first[0].status(&mut plain, &[]), Ok(Status::BADSESSION));
    assert_eq!(first[1].status(&mut secured, &[]), Ok(Status::OK));
    Session::begin(&mut secured, 2);
    assert_eq!(first[1].status(&mut secured, &[]), Ok(Status::BADSESSION));
    assert_eq!(first[2].status(&mut known, &[]), Ok(Status::OK));
    // Numbers of clients are no secret.
    for sequence in 0..5 {
        let made = plain.call(COMPOUND, &Compound(&[create_session(ids[2], sequence)])).unwrap();
        assert_eq!(status(&made), Status::CLID_INUSE);
    }
}
