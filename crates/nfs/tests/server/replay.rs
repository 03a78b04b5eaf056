//! The duplicate request cache: a repeated call is done once.

use crate::support::client::{Client, Running, system_clock, wait_until};
use crate::support::gate::{Control, Gate};
use crate::support::{ALICE, BOB, decode};
use nfs_wire::v3::{
    CreateArgs, CreateHow, CreateReply, DirOpArgs, FileHandle, Procedure, RemoveArgs, RemoveReply, Reply,
    Sattr, Status,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfs::{Backend, SetAttrs};
use vfs_testing::MemFs;

struct Fixture {
    running: Running,
    control: Arc<Control>,
    root: Vec<u8>,
}

fn fixture() -> Fixture {
    let fs = MemFs::new(system_clock());
    fs.root().set_attrs(&SetAttrs { mode: Some(0o777), ..SetAttrs::default() }).unwrap();
    let (gate, control) = Gate::new(fs.clone());
    let running = Running::new(gate);
    let root = running.handle(crate::support::VOLUME, &fs.root().key());
    Fixture { running, control, root }
}

impl Fixture {
    fn create<'a>(&'a self, name: &'a [u8]) -> CreateArgs<'a> {
        let how = CreateHow::Guarded(Sattr { mode: Some(0o644), ..Sattr::default() });
        CreateArgs { place: DirOpArgs { dir: FileHandle(&self.root), name }, how }
    }

    fn created(&self) -> usize {
        self.control.created.load(Ordering::SeqCst)
    }

    fn wait_for_arrivals(&self, count: usize) {
        wait_until("a call at the gate", || self.control.arrived.load(Ordering::SeqCst) >= count);
    }

    /// Closes the gate. A client makes a call, disconnects, reconnects from the same port and repeats the call, which
    /// waits.
    fn ask_and_come_back(&self) -> Client {
        self.control.close();
        let mut client = Client::connect_to_return(self.running.address);
        let port = client.port();
        client.send(1, BOB, Procedure::CREATE, &self.create(b"file"));
        self.wait_for_arrivals(1);
        client.reset();
        let mut again = Client::connect_from(self.running.address, port);
        again.send(1, BOB, Procedure::CREATE, &self.create(b"file"));
        assert!(again.hears_nothing(Duration::from_millis(100)), "it waits for the first");
        again
    }
}

fn status(results: &[u8]) -> Status {
    match decode::<CreateReply<'_>>(results) {
        Reply::Ok(_) => Status::OK,
        Reply::Err(status, _) => status,
    }
}

#[test]
fn a_repetition_gets_the_same_reply_and_a_new_xid_a_new_one() {
    let f = fixture();
    let mut client = f.running.connect();
    let first = client.ask(1, BOB, Procedure::CREATE, &f.create(b"file"));
    assert_eq!(status(&first), Status::OK);
    assert_eq!(client.ask(1, BOB, Procedure::CREATE, &f.create(b"file")), first);
    assert_eq!(client.ask(1, BOB, Procedure::CREATE, &f.create(b"file")), first);
    assert_eq!(status(&client.ask(2, BOB, Procedure::CREATE, &f.create(b"file"))), Status::EXIST);
    assert_eq!(
        status(&client.ask(1, ALICE, Procedure::CREATE, &f.create(b"file"))),
        Status::EXIST,
        "another caller"
    );
    assert_eq!(
        status(&client.ask(1, BOB, Procedure::CREATE, &f.create(b"more"))),
        Status::OK,
        "another name"
    );
    assert_eq!(f.created(), 2);
    let object = DirOpArgs { dir: FileHandle(&f.root), name: b"file" };
    for _ in 0..3 {
        let results = client.ask(3, BOB, Procedure::REMOVE, &RemoveArgs { object });
        assert!(matches!(decode::<RemoveReply>(&results), Reply::Ok(_)));
    }
}

#[test]
fn a_refusal_is_replayed_too() {
    let f = fixture();
    let mut client = f.running.connect();
    client.ask(1, BOB, Procedure::CREATE, &f.create(b"file"));
    let refused = client.ask(2, BOB, Procedure::CREATE, &f.create(b"file"));
    assert_eq!(status(&refused), Status::EXIST);
    let object = DirOpArgs { dir: FileHandle(&f.root), name: b"file" };
    client.ask(3, BOB, Procedure::REMOVE, &RemoveArgs { object });
    assert_eq!(client.ask(2, BOB, Procedure::CREATE, &f.create(b"file")), refused);
    assert_eq!(f.created(), 1);
}

#[test]
fn a_repetition_after_the_call_from_the_same_port_gets_the_same_reply() {
    let f = fixture();
    let mut client = Client::connect_to_return(f.running.address);
    let first = client.ask(1, BOB, Procedure::CREATE, &f.create(b"file"));
    let port = client.port();
    client.reset();
    let mut again = Client::connect_from(f.running.address, port);
    assert_eq!(again.ask(1, BOB, Procedure::CREATE, &f.create(b"file")), first);
    let mut other = f.running.connect();
    let results = other.ask(1, BOB, Procedure::CREATE, &f.create(b"file"));
    assert_eq!(status(&results), Status::EXIST, "another port is another client");
    assert_eq!(f.created(), 1);
}

#[test]
fn a_repetition_during_the_call_waits_for_it() {
    let f = fixture();
    f.control.close();
    let mut client = f.running.connect();
    client.send(1, BOB, Procedure::CREATE, &f.create(b"file"));
    f.wait_for_arrivals(1);
    client.send(1, BOB, Procedure::CREATE, &f.create(b"file"));
    client.send(1, BOB, Procedure::CREATE, &f.create(b"file"));
    assert!(client.hears_nothing(Duration::from_millis(100)));
    f.control.open();
    let replies = [client.receive(), client.receive(), client.receive()];
    assert_eq!(status(&replies[0].results), Status::OK);
    assert!(replies.iter().all(|reply| *reply == replies[0]));
    assert_eq!((f.created(), f.control.arrived.load(Ordering::SeqCst)), (1, 1), "done once, tried once");
    assert_eq!(client.ask(1, BOB, Procedure::CREATE, &f.create(b"file")), replies[0].results);
}

#[test]
fn a_client_that_reconnects_during_the_call_gets_its_reply() {
    let f = fixture();
    let mut again = f.ask_and_come_back();
    f.control.open();
    let answer = again.receive();
    assert_eq!((answer.xid, status(&answer.results), f.created()), (1, Status::OK, 1));
    assert!(again.hears_nothing(Duration::from_millis(50)), "one reply");
    // Both connections count their calls correctly: 200 more are accepted than may wait at one time.
    for xid in 2..200 {
        again.send(xid, BOB, Procedure::CREATE, &f.create(b"file"));
    }
    assert!((2..200).all(|_| status(&again.receive().results) == Status::EXIST));
}

#[test]
fn a_call_that_panicked_may_be_repeated() {
    let is_told = || {
        let f = fixture();
        f.control.panics.store(true, Ordering::SeqCst);
        let mut again = f.ask_and_come_back();
        let port = again.port();
        f.control.open();
        if let Ok(answer) = again.try_receive() {
            assert_eq!((answer.xid, status(&answer.results), f.created()), (1, Status::OK, 1));
            return false;
        }
        assert!(again.is_ended(), "it must ask once more");
        again.reset();
        let mut third = Client::connect_from(f.running.address, port);
        assert_eq!(status(&third.ask(1, BOB, Procedure::CREATE, &f.create(b"file"))), Status::OK);
        assert_eq!(f.created(), 1);
        true
    };
    // A repetition that the server reads only after the panic is a new call.
    assert!((0..10).any(|_| is_told()));
}
