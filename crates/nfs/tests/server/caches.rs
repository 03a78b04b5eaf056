//! NFSv3 calls about files that clients of another protocol have cached.

use crate::support::client::{Client, Running, system_clock, wait_until};
use crate::support::object::{name, new_inode};
use crate::support::{ALICE, ROOT, VOLUME, decode, trusting};
use nfs_wire::v3::{
    DirOpArgs, FileHandle, GetattrArgs, GetattrReply, LookupArgs, LookupReply, Procedure, ReadArgs,
    ReadReply, RemoveArgs, RemoveReply, Reply, StableHow, Status, WriteArgs, WriteReply,
};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::limits::CALLS_IN_PROGRESS_MAX;
use vfs::backend::KEEP_SET_ID;
use vfs::claims::{
    Access, Caching, Effect, Holder, LeaseKey, LeaseKind, LeaseRequest, OpenId, OpenRequest, Request, Rights,
    Stream, Verdict,
};
use vfs::qos::{Arbiter, Gate, Limits, Pacer, VolumeLimits};
use vfs::sync::Mutex;
use vfs::{Backend, Blocking, Durability, Export, FileKey, Namespace, Volume};
use vfs_testing::{MemFs, UncheckedNode};

const KEY: LeaseKey = LeaseKey::Shared { client: 7, key: 1 };
const ALL: Caching = Caching::ALL_SETS[7];

/// A client of the other protocol, which records the recalls that it gets.
#[derive(Default)]
struct Neighbor(Mutex<Vec<Caching>>);

impl Holder for Neighbor {
    fn deliver(&self, effect: Effect) {
        if let Effect::Recall { to, .. } = effect {
            self.0.lock().push(to);
        }
    }
}

struct Fixture {
    running: Running,
    volume: Arc<Volume>,
    gate: Arc<Gate>,
    fs: MemFs,
    file: FileKey,
    root: Vec<u8>,
    neighbor: Arc<Neighbor>,
    open: OpenId,
}

impl Fixture {
    /// A file of ten bytes, all cached by the neighbor.
    fn new() -> Self {
        let fs = MemFs::new(system_clock());
        let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
        made.found.node.write(0, b"0123456789", KEEP_SET_ID).unwrap();
        let gate = Arbiter::new(&Limits::NONE.into(), &Pacer::start().unwrap()).gate(VolumeLimits::default());
        let backend = Arc::new(fs.clone());
        let volume = Volume::new(VOLUME, "vol", backend, Durability::Sync, 1).with_gate(Arc::clone(&gate));
        let volume = Arc::new(volume);
        let export = Export::new("/vol", Arc::clone(&volume), vec![trusting()]);
        let running = Running::serving(Namespace::new([export]));
        let root = running.handle(VOLUME, &fs.root().key());
        let neighbor = Arc::new(Neighbor::default());
        let holder = volume.claims().attach(Arc::clone(&neighbor) as Arc<dyn Holder>);
        let kind = LeaseKind::Shared { client: 7, key: 1 };
        let request = OpenRequest {
            holder,
            stream: Stream::default(),
            access: Access { rights: Rights::READ | Rights::WRITE, deny: Rights::NONE },
            truncates: false,
            is_mandatory: true,
            is_advisory: false,
            lease: Some(LeaseRequest { kind, want: ALL, answers_within: None, epoch: 0 }),
            reclaims: false,
            waits: false,
        };
        let file = made.found.node.key();
        let Verdict::Granted(granted) = volume.claims().request(volume.now(), &file, &Request::Open(request))
        else {
            panic!("nothing is held yet");
        };
        assert_eq!(granted.caching, ALL);
        Self { running, volume, gate, fs, file, root, neighbor, open: granted.open.unwrap() }
    }

    fn handle(&self) -> Vec<u8> {
        self.running.handle(VOLUME, &self.file)
    }

    fn connect(&self) -> Client {
        self.running.connect()
    }

    /// Waits for a recall and returns the caching that it leaves.
    fn asked(&self) -> Caching {
        wait_until("a recall", || !self.neighbor.0.lock().is_empty());
        self.neighbor.0.lock().remove(0)
    }

    fn was_asked(&self) -> bool {
        !self.neighbor.0.lock().is_empty()
    }

    fn apply(&self, request: &Request) {
        let verdict = self.volume.claims().request(self.volume.now(), &self.file, request);
        assert!(matches!(verdict, Verdict::Granted(_)));
    }

    /// The neighbor answers the recall after a while, during which calls wait.
    fn comply(&self) {
        let keeps = self.asked();
        std::thread::sleep(Duration::from_millis(20));
        self.apply(&Request::Acknowledge { key: KEY, stream: Stream::default(), keeps });
    }

    /// The neighbor writes its cached data back.
    fn append(&self, bytes: &[u8]) {
        self.fs.node(&self.file, Blocking::Allowed).unwrap().write(10, bytes, KEEP_SET_ID).unwrap();
    }

    fn read(&self, client: &mut Client, count: u32) {
        client.send(
            1,
            ALICE,
            Procedure::READ,
            &ReadArgs { file: FileHandle(&self.handle()), offset: 0, count },
        );
    }

    fn lookup_tells(&self, client: &mut Client) -> Option<u64> {
        let what = DirOpArgs { dir: FileHandle(&self.root), name: b"file" };
        let results = client.ask(2, ALICE, Procedure::LOOKUP, &LookupArgs { what });
        match decode::<LookupReply<'_>>(&results) {
            Reply::Ok(ok) => ok.obj_attributes.map(|attrs| attrs.size),
            Reply::Err(status, _) => panic!("{status:?}"),
        }
    }
}

fn read_bytes(results: &[u8]) -> Result<Vec<u8>, Status> {
    match decode::<ReadReply<'_>>(results) {
        Reply::Ok(ok) => Ok(ok.data.to_vec()),
        Reply::Err(status, _) => Err(status),
    }
}

#[test]
fn a_read_waits_for_the_recall_without_a_retry() {
    let f = Fixture::new();
    let mut client = f.connect();
    f.read(&mut client, 20);
    f.append(b"ab");
    f.comply();
    assert_eq!(read_bytes(&client.receive().results).as_deref(), Ok(&b"0123456789ab"[..]));
}

#[test]
fn a_write_or_remove_waits_for_the_recall_and_runs_once() {
    let f = Fixture::new();
    let (mut client, handle) = (f.connect(), f.handle());
    let args =
        WriteArgs { file: FileHandle(&handle), offset: 2, count: 1, stable: StableHow::FileSync, data: b"x" };
    client.send(1, ALICE, Procedure::WRITE, &args);
    // The recall takes write caching first and then the rest.
    f.comply();
    assert!(matches!(decode::<WriteReply>(&client.receive().results), Reply::Ok(_)));
    f.apply(&Request::Close(f.open));
    let f = Fixture::new();
    let mut client = f.connect();
    let object = DirOpArgs { dir: FileHandle(&f.root), name: b"file" };
    client.send(3, ROOT, Procedure::REMOVE, &RemoveArgs { object });
    f.asked();
    f.apply(&Request::Close(f.open));
    assert!(matches!(decode::<RemoveReply>(&client.receive().results), Reply::Ok(_)));
    let results = client.ask(4, ROOT, Procedure::REMOVE, &RemoveArgs { object });
    assert!(matches!(decode::<RemoveReply>(&results), Reply::Err(Status::NOENT, _)));
}

#[test]
fn sizes_are_returned_after_cached_writes_arrive() {
    let f = Fixture::new();
    let (mut client, handle) = (f.connect(), f.handle());
    assert_eq!(f.lookup_tells(&mut client), None, "the client asks for them");
    assert!(!f.was_asked());
    client.send(1, ALICE, Procedure::GETATTR, &GetattrArgs { object: FileHandle(&handle) });
    assert_eq!(f.asked(), Caching::READ | Caching::HANDLE);
    assert!(client.hears_nothing(Duration::from_millis(50)));
    f.append(b"ab");
    f.apply(&Request::Acknowledge {
        key: KEY,
        stream: Stream::default(),
        keeps: Caching::READ | Caching::HANDLE,
    });
    let results = client.receive().results;
    assert!(matches!(decode::<GetattrReply>(&results), Reply::Ok(ok) if ok.obj_attributes.size == 12));
    assert_eq!(f.lookup_tells(&mut client), Some(12));
    assert!(!f.was_asked(), "once is enough");
}

#[test]
fn a_call_past_an_unanswered_recall_is_refused_with_a_retry() {
    let f = Fixture::new();
    let mut client = f.connect();
    let start = Instant::now();
    f.read(&mut client, 20);
    assert_eq!(read_bytes(&client.receive().results), Err(Status::JUKEBOX));
    assert!(start.elapsed() > Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn a_call_that_waits_for_a_recall_pays_once() {
    const COUNT: u32 = 1000;
    let f = Fixture::new();
    let all = Limits { bytes: NonZeroU64::new(u64::from(COUNT)), ..Limits::NONE };
    f.gate.set_limits(VolumeLimits { all, ..VolumeLimits::default() });
    let mut client = f.connect();
    f.read(&mut client, 10 * COUNT);
    f.comply();
    assert_eq!(read_bytes(&client.receive().results).map(|data| data.len()), Ok(10));
    // The request is for ten seconds' worth; the wait refunds nothing.
    f.read(&mut client, 10);
    assert!(client.hears_nothing(Duration::from_secs(1)));
}

#[test]
fn a_repetition_of_a_refused_call_is_refused_too() {
    let f = Fixture::new();
    let mut client = f.connect();
    let object = DirOpArgs { dir: FileHandle(&f.root), name: b"file" };
    for _ in 0..2 {
        client.send(3, ROOT, Procedure::REMOVE, &RemoveArgs { object });
    }
    for _ in 0..2 {
        let results = client.receive().results;
        assert!(matches!(decode::<RemoveReply>(&results), Reply::Err(Status::JUKEBOX, _)));
    }
}

#[test]
fn waiting_calls_delay_no_other_call_of_the_connection() {
    let goes_on = || {
        let f = Fixture::new();
        let mut client = f.connect();
        let start = Instant::now();
        for _ in 0..CALLS_IN_PROGRESS_MAX {
            f.read(&mut client, 20);
        }
        client.send(9, ALICE, Procedure::GETATTR, &GetattrArgs { object: FileHandle(&f.root) });
        while client.receive().xid != 9 {}
        // Waiting calls are refused after two seconds.
        start.elapsed() < Duration::from_millis(1800)
    };
    // On a slow machine one attempt may take as long, but not every one.
    assert!((0..5).any(|_| goes_on()));
}
