//! Faults of one client that must not affect others: panics, too many connections, idle connections.

use crate::support::client::{Client, Running, mark, one_volume, record, system_clock, wait_until};
use crate::support::gate::{Control, Gate};
use crate::support::object::{name, new_inode};
use crate::support::{BOB, VOLUME, decode, head};
use nfs::limits::{CLIENT_COMMITS_PER_S, CLIENT_MOUNTS_PER_S, CLIENT_RECORDS_PER_S};
use nfs::server::Settings;
use nfs::state::call_rates::CallRates;
use nfs_wire::v3::{
    CommitArgs, FileHandle, GetattrArgs, GetattrReply, Procedure, ReadArgs, Reply, StableHow, WriteArgs,
    WriteReply,
};
use nfs_wire::{mount, v4};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::qos::Pacer;
use vfs::{Backend, panics};
use vfs_testing::{MemFs, UncheckedNode};
use xdr::{Decode, Encode, Reader};

struct Fixture {
    running: Running,
    control: Arc<Control>,
    file: Vec<u8>,
}

impl Fixture {
    /// One event loop, so that all clients share it.
    fn new(settings: Settings) -> Self {
        Self::rated(settings, CallRates::unbounded())
    }

    fn rated(settings: Settings, rates: CallRates) -> Self {
        let fs = MemFs::new(system_clock());
        let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
        made.found.node.write(0, &[7; 4096], KEEP_SET_ID).unwrap();
        let (gate, control) = Gate::new(fs);
        let running = Running::rated(one_volume(gate), settings, rates);
        let file = running.handle(VOLUME, &made.found.node.key());
        Self { running, control, file }
    }

    fn getattr(&self) -> GetattrArgs<'_> {
        GetattrArgs { object: FileHandle(&self.file) }
    }

    fn assert_served(&self, client: &mut Client) {
        let results = client.ask(1, BOB, Procedure::GETATTR, &self.getattr());
        assert!(matches!(decode::<GetattrReply>(&results), Reply::Ok(_)));
    }

    fn write<'d>(&'d self, data: &'d [u8]) -> WriteArgs<'d> {
        let (file, count) = (FileHandle(&self.file), u32::try_from(data.len()).unwrap());
        WriteArgs { file, offset: 0, count, stable: StableHow::Unstable, data }
    }
}

fn settings() -> Settings {
    Settings::for_descriptors(1, 10_000)
}

#[test]
fn a_panic_on_an_event_loop_ends_one_connection() {
    let f = Fixture::new(settings());
    let (mut unlucky, mut neighbor) = (f.running.connect(), f.running.connect());
    f.assert_served(&mut neighbor);
    let caught = panics::caught();
    for _ in 0..3 {
        f.control.attrs_panic.store(true, Ordering::SeqCst);
        unlucky.send(1, BOB, Procedure::GETATTR, &f.getattr());
        assert!(unlucky.is_ended(), "no answer, and no wait for one");
        unlucky = f.running.connect();
        f.assert_served(&mut unlucky);
        f.assert_served(&mut neighbor);
    }
    assert!(panics::caught() >= caught + 3);
    wait_until("the count of two", || f.running.server.view().connections() == 2);
}

#[test]
fn replies_before_a_panic_reach_their_own_client() {
    let f = Fixture::new(settings());
    let (mut unlucky, mut neighbor) = (f.running.connect(), f.running.connect());
    f.assert_served(&mut neighbor);
    f.control.attrs_panic.store(true, Ordering::SeqCst);
    let read = ReadArgs { file: FileHandle(&f.file), offset: 0, count: 10 };
    let null = record(8, BOB, Procedure::NULL, &());
    unlucky.send_bytes(&[null, record(9, BOB, Procedure::READ, &read)].concat()).unwrap();
    assert!(unlucky.is_ended());
    f.assert_served(&mut neighbor);
    assert!(neighbor.hears_nothing(Duration::from_millis(100)), "nothing of the other's");
}

#[test]
fn connections_of_one_address_are_bounded() {
    let f = Fixture::new(Settings { client_connections_max: 3, ..settings() });
    let mut mine: Vec<Client> = (0..3).map(|_| f.running.connect()).collect();
    mine.iter_mut().for_each(|client| f.assert_served(client));
    assert!(f.running.connect().is_ended(), "one too many");
    let mut other = Client::connect_as([127, 0, 0, 2], f.running.address);
    f.assert_served(&mut other);
    mine.pop();
    wait_until("room for another one", || {
        let mut comes = f.running.connect();
        let is_sent = comes.send_bytes(&record(1, BOB, Procedure::GETATTR, &f.getattr())).is_ok();
        is_sent && comes.try_receive().is_ok()
    });
    mine.iter_mut().for_each(|client| f.assert_served(client));
}

#[test]
fn idle_connections_end_and_others_stay() {
    let f = Fixture::new(Settings { idle_s: 3, ..settings() });
    let start = Instant::now();
    let (mut idle, mut busy, mut waits) = (f.running.connect(), f.running.connect(), f.running.connect());
    f.control.close();
    f.control.cold_reads.store(true, Ordering::SeqCst);
    let read = ReadArgs { file: FileHandle(&f.file), offset: 0, count: 10 };
    waits.send(7, BOB, Procedure::READ, &read);
    wait_until("all three", || f.running.server.view().connections() == 3);
    while f.running.server.view().connections() == 3 {
        f.assert_served(&mut busy);
        std::thread::sleep(Duration::from_millis(100));
        assert!(start.elapsed() < Duration::from_secs(20), "nothing ends");
    }
    assert!(start.elapsed() >= Duration::from_secs(1) && idle.is_ended());
    for _ in 0..15 {
        f.assert_served(&mut busy);
        std::thread::sleep(Duration::from_millis(100));
    }
    f.control.open();
    assert_eq!(waits.receive().xid, 7, "auth waits for us is not idle");
}

#[test]
fn writes_just_above_the_limit_get_a_reply_or_end_the_connection() {
    let f = Fixture::new(settings());
    for more in 1..=4 {
        let mut client = f.running.connect();
        let (small, long) = (vec![1; 4096], vec![2; (1 << 20) + more]);
        // Small calls first: the storage thread then retains the connection.
        for xid in 0..4 {
            let results = client.ask(xid, BOB, Procedure::WRITE, &f.write(&small));
            assert!(matches!(decode::<WriteReply>(&results), Reply::Ok(_)));
        }
        let start = Instant::now();
        let _ = client.send_bytes(&record(9, BOB, Procedure::WRITE, &f.write(&long)));
        match client.try_receive() {
            Ok(answer) => assert!(matches!(decode::<WriteReply>(&answer.results), Reply::Err(..))),
            Err(_) => assert!(client.is_ended()),
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{more} bytes more: {:?}", start.elapsed());
    }
}

/// Asserts that a client is limited to `per_s` of these calls while another client, elsewhere, does not wait. A slow
/// machine may delay the other one too, so this is tried again.
fn assert_rated(f: &Fixture, per_s: u64, call: &[u8]) {
    let calls = usize::try_from(per_s * 3 / 2).unwrap();
    let goes_on_elsewhere = || {
        let mut many = f.running.connect();
        let mut other = Client::connect_as([127, 0, 0, 2], f.running.address);
        let start = Instant::now();
        many.send_bytes(&call.repeat(calls)).unwrap();
        many.receive();
        let asked = Instant::now();
        other.send_bytes(call).unwrap();
        other.receive();
        let other_took = asked.elapsed();
        (1..calls).for_each(|_| _ = many.receive());
        let took = start.elapsed();
        assert!(took > Duration::from_millis(1300), "{took:?} for {calls} calls of 1.5 s");
        other_took < asked.elapsed() / 2
    };
    assert!((0..3).any(|_| goes_on_elsewhere()), "others wait for {calls} calls, too");
}

#[test]
fn commits_mounts_and_records_of_one_client_are_rate_limited() {
    let f = Fixture::rated(settings(), CallRates::new(&Pacer::start().unwrap()));
    let args = CommitArgs { file: FileHandle(&f.file), offset: 0, count: 0 };
    let commit = record(1, BOB, Procedure::COMMIT, &args);
    assert_rated(&f, CLIENT_COMMITS_PER_S, &commit);
    // The program, its version and the procedure, in place of those of NFS.
    let mut mnt = record(1, BOB, Procedure::NULL, &mount::DirPath(b"/vol"));
    for (at, word) in [(16, mount::PROGRAM), (20, mount::VERSION), (24, mount::Procedure::MNT.0)] {
        mnt[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    assert_rated(&f, CLIENT_MOUNTS_PER_S, &mnt);
    let head = head(1, BOB, v4::VERSION, v4::Procedure::COMPOUND.0);
    let compound = v4::CompoundHead { tag: b"", minorversion: 1, operations: 1 }.to_bytes();
    let complete = v4::Argument::ReclaimComplete(v4::ReclaimCompleteArgs { one_fs: false }).to_bytes();
    let body = [head, compound, complete].concat();
    let complete = [&mark(true, body.len())[..], &body].concat();
    assert_rated(&f, CLIENT_RECORDS_PER_S, &complete);
}

/// COMMITs of NFSv4.0, many in each compound. A compound succeeds if all of its COMMITs are done; otherwise the client
/// gets a retry.
struct Commits {
    compound: Vec<u8>,
    each: u32,
}

impl Commits {
    fn new(f: &Fixture, each: u32) -> Self {
        let put = v4::Argument::Putfh(v4::PutfhArgs { object: v4::FileHandle(&f.file) }).to_bytes();
        let commit = v4::Argument::Commit(v4::CommitArgs { offset: 0, count: 0 }).to_bytes();
        let head = head(1, BOB, v4::VERSION, v4::Procedure::COMPOUND.0);
        let compound = v4::CompoundHead { tag: b"", minorversion: 0, operations: 1 + each }.to_bytes();
        let body = [head, compound, put, commit.repeat(each as usize)].concat();
        Self { compound: [&mark(true, body.len())[..], &body].concat(), each }
    }

    /// The number of COMMITs that one compound has done.
    fn done(&self, client: &mut Client) -> u32 {
        let results = client.receive().results;
        let head = v4::CompoundReplyHead::decode(&mut Reader::new(&results)).unwrap();
        match head.status {
            v4::Status::OK => assert_eq!(head.operations, 1 + self.each),
            v4::Status::DELAY => return head.operations - 2,
            other => panic!("{other:?}"),
        }
        self.each
    }
}

/// The limit holds for any number per compound, and beside COMMITs of NFSv3 by the same client.
#[test]
fn commits_of_one_client_over_nfs4_share_the_rate_limit() {
    let f = Fixture::rated(settings(), CallRates::new(&Pacer::start().unwrap()));
    let commits = Commits::new(&f, 10);
    let per_s = u32::try_from(CLIENT_COMMITS_PER_S).unwrap();
    let compounds = 3 * per_s / commits.each;
    let mut client = f.running.connect();
    let start = Instant::now();
    client.send_bytes(&commits.compound.repeat(compounds as usize)).unwrap();
    let done: u32 = (0..compounds).map(|_| commits.done(&mut client)).sum();
    let took = start.elapsed();
    // A fifth of a second is available immediately, see `commits_mounts_and_records_of_one_client_are_rate_limited`.
    let most = f64::from(per_s) * (took.as_secs_f64() + 0.2);
    assert!(done >= commits.each && f64::from(done) <= most, "{done} COMMITs within {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?} for what is refused");
    let mut other = Client::connect_as([127, 0, 0, 2], f.running.address);
    other.send_bytes(&commits.compound).unwrap();
    assert_eq!(commits.done(&mut other), commits.each, "others wait, too");
}
