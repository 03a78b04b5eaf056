//! NFSv4.0 over a socket: a repeated call is done once, and a change that is not durable is not acknowledged.

use crate::support::client::{Client, Running, mark, system_clock, wait_until};
use crate::support::gate::{Control, Gate};
use crate::support::{ALICE, Auth, BOB, VOLUME, head};
use nfs_wire::v4::{
    self, Argument, CbClient, CompoundHead, CompoundReplyHead, CreateArgs, CreateHow, CreateType, Fattr,
    FileHandle, NetAddr, NfsClientId, OpReply, OpenArgs, OpenClaim, OpenConfirmArgs, OpenFlag, PutfhArgs,
    Reply, SetclientidArgs, SetclientidConfirmArgs, SetclientidReply, ShareAccess, ShareDeny, StateOwner,
    Stateid, Status,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfs::{Backend, SetAttrs};
use vfs_testing::MemFs;
use xdr::{Decode, Encode, Reader};

struct Fixture {
    running: Running,
    control: Arc<Control>,
    root: Vec<u8>,
    client: Client,
    id: u64,
}

/// A client with a confirmed ID, whose calls used the xids 1 and 2.
fn fixture() -> Fixture {
    let fs = MemFs::new(system_clock());
    fs.root().set_attrs(&SetAttrs { mode: Some(0o777), ..SetAttrs::default() }).unwrap();
    let (gate, control) = Gate::new(fs.clone());
    let running = Running::new(gate);
    let root = running.handle(VOLUME, &fs.root().key());
    let client = running.connect();
    let mut fixture = Fixture { running, control, root, client, id: 0 };
    let introduction = Argument::Setclientid(SetclientidArgs {
        client: NfsClientId { verifier: [1; 8], id: b"host" },
        callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
        callback_ident: 0,
    });
    let introduced = fixture.ask(1, BOB, &[introduction]);
    let Some(OpReply::Setclientid(SetclientidReply::Ok(ok))) = introduced.last() else { panic!() };
    fixture.id = ok.clientid;
    let confirm =
        SetclientidConfirmArgs { clientid: ok.clientid, setclientid_confirm: ok.setclientid_confirm };
    assert_eq!(fixture.ask(2, BOB, &[Argument::SetclientidConfirm(confirm)]).status(), Status::OK);
    fixture
}

/// The results of a compound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Results(pub(crate) Vec<u8>);

impl Results {
    pub(crate) fn status(&self) -> Status {
        Status::decode(&mut Reader::new(&self.0)).unwrap()
    }

    fn last(&self) -> Option<OpReply<'_>> {
        let mut r = Reader::new(&self.0);
        let head = CompoundReplyHead::decode(&mut r).unwrap();
        (0..head.operations).map(|_| OpReply::decode(&mut r).unwrap()).last()
    }

    fn opened(&self) -> Stateid {
        match self.last() {
            Some(OpReply::Open(Reply::Ok(ok))) => ok.stateid,
            other => panic!("{other:?}"),
        }
    }
}

/// A compound of version 4.0 in one fragment.
pub(crate) fn record(xid: u32, auth: Auth, operations: &[Argument<'_>]) -> Vec<u8> {
    let count = u32::try_from(operations.len()).unwrap();
    let compound = CompoundHead { tag: b"", minorversion: 0, operations: count }.to_bytes();
    let encoded = operations.iter().flat_map(Argument::to_bytes).collect();
    let body = [head(xid, auth, v4::VERSION, v4::Procedure::COMPOUND.0), compound, encoded].concat();
    [&mark(true, body.len())[..], &body].concat()
}

impl Fixture {
    fn send(&mut self, xid: u32, auth: Auth, operations: &[Argument<'_>]) {
        self.client.send_bytes(&record(xid, auth, operations)).unwrap();
    }

    fn ask(&mut self, xid: u32, auth: Auth, operations: &[Argument<'_>]) -> Results {
        self.send(xid, auth, operations);
        let answer = self.client.receive();
        assert_eq!(answer.xid, xid);
        Results(answer.results)
    }

    fn at_root<'a>(root: &'a [u8], argument: Argument<'a>) -> [Argument<'a>; 2] {
        [Argument::Putfh(PutfhArgs { object: FileHandle(root) }), argument]
    }

    fn make_dir(&mut self, xid: u32, auth: Auth) -> Results {
        let root = self.root.clone();
        let createattrs = Fattr::default();
        let args = CreateArgs { objtype: CreateType::Directory, objname: b"dir", createattrs };
        self.ask(xid, auth, &Self::at_root(&root, Argument::Create(args)))
    }

    /// An OPEN that creates a file.
    fn open(id: u64, seqid: u32, name: &[u8]) -> Argument<'_> {
        Argument::Open(OpenArgs {
            seqid,
            share_access: ShareAccess::BOTH,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: id, owner: b"o" },
            openhow: OpenFlag::Create(CreateHow::Guarded(Fattr::default())),
            claim: OpenClaim::Null(name),
        })
    }

    fn ask_open(&mut self, xid: u32, seqid: u32, name: &[u8]) -> Results {
        let root = self.root.clone();
        self.ask(xid, BOB, &Self::at_root(&root, Self::open(self.id, seqid, name)))
    }

    /// Confirms the open-owner with sequence number 2.
    fn confirm(&mut self, xid: u32, name: &[u8], open_stateid: Stateid) -> Status {
        let root = self.root.clone();
        let lookup = Argument::Lookup(v4::LookupArgs { objname: name });
        let confirm = Argument::OpenConfirm(OpenConfirmArgs { open_stateid, seqid: 2 });
        let [put, lookup] = Self::at_root(&root, lookup);
        self.ask(xid, BOB, &[put, lookup, confirm]).status()
    }

    fn created(&self) -> usize {
        self.control.created.load(Ordering::SeqCst)
    }
}

#[test]
fn a_repeated_compound_gets_the_same_bytes() {
    let mut f = fixture();
    let first = f.make_dir(5, BOB);
    assert_eq!(first.status(), Status::OK);
    assert_eq!(f.make_dir(5, BOB), first);
    assert_eq!(f.make_dir(6, BOB).status(), Status::EXIST, "another xid is another call");
    assert_eq!(f.make_dir(5, ALICE).status(), Status::EXIST, "and so is another caller's");
    let mut stranger = std::mem::replace(&mut f.client, f.running.connect());
    assert_eq!(f.make_dir(5, BOB).status(), Status::EXIST, "or one from another port");
    assert!(stranger.hears_nothing(Duration::from_millis(20)));
}

#[test]
fn a_repeated_open_waits_for_the_first() {
    let mut f = fixture();
    f.control.close();
    let (root, id) = (f.root.clone(), f.id);
    let open = Fixture::at_root(&root, Fixture::open(id, 1, b"file"));
    f.send(5, BOB, &open);
    let control = Arc::clone(&f.control);
    wait_until("a call at the gate", || control.arrived.load(Ordering::SeqCst) >= 1);
    f.send(5, BOB, &open);
    let mut another = f.running.connect();
    another.send_bytes(&record(6, BOB, &open)).unwrap();
    let busy = another.receive();
    assert_eq!((busy.xid, Results(busy.results).status()), (6, Status::DELAY), "its owner is at work");
    assert!(f.client.hears_nothing(Duration::from_millis(50)));
    f.control.open();
    let replies = [f.client.receive(), f.client.receive()];
    assert_eq!(replies[0], replies[1]);
    assert_eq!((Results(replies[0].results.clone()).status(), f.created()), (Status::OK, 1));
}

#[test]
fn a_seqid_replayed_in_another_call_is_detected() {
    let mut f = fixture();
    let first = f.ask_open(5, 1, b"a");
    assert_eq!(f.ask_open(6, 1, b"a"), first, "the last request of its owner, as another call");
    assert_eq!(f.confirm(7, b"a", first.opened()), Status::OK);
    let second = f.ask_open(8, 3, b"b");
    assert_eq!(second.status(), Status::OK);
    assert_eq!(f.ask_open(9, 1, b"a").status(), Status::BAD_SEQID);
    assert_eq!(f.ask_open(10, 3, b"a").status(), Status::BAD_SEQID, "not the same request");
    assert_eq!(f.ask_open(5, 1, b"a"), first, "as the same call it was answered already");
    assert_eq!(f.ask_open(11, 3, b"b"), second);
    assert_eq!(f.created(), 2);
}

#[test]
fn an_open_that_is_not_durable_fails_and_its_repetition_too() {
    let mut f = fixture();
    let first = f.ask_open(5, 1, b"a");
    assert_eq!(f.confirm(6, b"a", first.opened()), Status::OK);
    f.control.sync_fails.store(true, Ordering::SeqCst);
    let failed = f.ask_open(7, 3, b"b");
    assert_eq!(failed.status(), Status::IO);
    f.control.sync_fails.store(false, Ordering::SeqCst);
    assert_eq!(f.ask_open(7, 3, b"b"), failed, "as the same call");
    assert_eq!(f.ask_open(8, 3, b"b").status(), Status::IO, "as the same request of its owner");
    assert_eq!(f.ask_open(9, 4, b"c").status(), Status::OK, "the number was used");
    assert_eq!(f.created(), 3);
}

#[test]
fn calls_are_counted_by_version_and_operations_by_name_on_every_thread() {
    let mut fixture = fixture();
    for xid in 3..300 {
        fixture.make_dir(xid, BOB);
    }
    let view = fixture.running.server.view();
    let counted = || view.counts().swap_remove(1);
    wait_until("all calls to be counted", || counted().calls == 299);
    assert_eq!(counted().minor, Some(0));
    let operations = [("create", 297), ("putfh", 297), ("setclientid", 1), ("setclientid_confirm", 1)];
    assert_eq!(counted().operations, operations.map(|(name, count)| (name.to_owned(), count)));
    let root = fixture.root.clone();
    let mut client = fixture.running.connect();
    let args = nfs_wire::v3::GetattrArgs { object: nfs_wire::v3::FileHandle(&root) };
    client.ask(1, BOB, nfs_wire::v3::Procedure::GETATTR, &args);
    wait_until("the call of version 3", || view.counts()[0].operations == [("getattr".to_owned(), 1)]);
    assert_eq!([0, 2, 3].map(|version| view.counts()[version].calls), [1, 0, 0]);
}

#[test]
fn a_long_compound_without_a_leading_long_write_is_answered() {
    let mut f = fixture();
    let root = f.root.clone();
    let long = vec![b'x'; 300 << 10];
    let lookup = Argument::Lookup(v4::LookupArgs { objname: &long });
    assert!(f.ask(5, BOB, &Fixture::at_root(&root, lookup)).status() != Status::OK);
    let opened = f.ask_open(6, 1, b"a").opened();
    assert_eq!(f.confirm(7, b"a", opened), Status::OK);
    let stateid = Stateid { seqid: 2, ..opened };
    let write = |offset| {
        let (stable, data) = (v4::StableHow::Unstable, &long[..100 << 10]);
        Argument::Write(v4::WriteArgs { stateid, offset, stable, data })
    };
    let [put, lookup] = Fixture::at_root(&root, Argument::Lookup(v4::LookupArgs { objname: b"a" }));
    let written = f.ask(8, BOB, &[put, lookup, write(0), write(100 << 10)]);
    assert_eq!(written.status(), Status::OK);
    // A non-idempotent operation is done once.
    let (createattrs, objname) = (Fattr::default(), &b"dir"[..]);
    let create = CreateArgs { objtype: CreateType::Directory, objname, createattrs };
    let [put, create] = Fixture::at_root(&root, Argument::Create(create));
    let operations = [put, create, Argument::Lookup(v4::LookupArgs { objname: &long })];
    let first = f.ask(9, BOB, &operations);
    assert_eq!(f.ask(9, BOB, &operations), first);
}
