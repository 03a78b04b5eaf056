//! Malicious and broken clients: others are served in bounded time, and memory stays bounded.
//!
//! Memory is counted per process, so the tests run one after the other, and their clients use little.

mod quotas;
#[path = "../support/mod.rs"]
mod support;

use nfs::limits::TRANSFER_BYTES_MAX;
use nfs::server::Settings;
use nfs_wire::rpc::RecordMark;
use nfs_wire::v3::{
    FileHandle, GetattrArgs, GetattrReply, Procedure, ReadArgs, ReadReply, Reply, StableHow, Status,
    WriteArgs, WriteReply,
};
use peak_alloc::PeakAlloc;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use support::client::{Client, Running, mark, one_volume, record, system_clock, wait_until};
use support::gate::{Control, Gate};
use support::object::{name, new_inode};
use support::{BOB, VOLUME, call, decode, trusting};
use transport::limits::{
    BUFFER_BYTES, BUFFERS_MAX, QUEUED_CLIENT_BYTES_MAX, SPILLED_BYTES_MAX, STORAGE_THREADS_MAX,
    UNREAD_REPLY_BYTES_MAX, UNREAD_TOTAL_BYTES_FULL, UNREAD_TOTAL_BYTES_MOST,
};
use vfs::qos::{Arbiter, Limits, Pacer, VolumeLimits};
use vfs::sync::Mutex;
use vfs::{Backend, Durability, Export, Namespace, Volume};
use vfs_testing::{MemFs, UncheckedNode};

/// The time within which a well-behaved client gets its reply during an attack, even while the machine compiles
/// something.
const SERVED_WITHIN: Duration = Duration::from_secs(10);

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

static ALONE: Mutex<()> = Mutex::new(());

/// The only running server: it is stopped before the next test begins, which would count its memory.
struct Alone {
    running: Option<Running>,
    _alone: MutexGuard<'static, ()>,
}

impl Alone {
    fn with(namespace: Namespace, settings: Settings) -> Self {
        let alone = ALONE.lock();
        Self { running: Some(Running::with(namespace, settings)), _alone: alone }
    }
}

impl Deref for Alone {
    type Target = Running;

    fn deref(&self) -> &Running {
        self.running.as_ref().expect("a server until the end")
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let Some(Running { server, service, .. }) = self.running.take() else { return };
        server.stop(Duration::from_secs(20));
        let service = Arc::downgrade(&{ service });
        if !std::thread::panicking() {
            wait_until("the end of the server's threads", || service.strong_count() == 0);
        }
    }
}

struct Fixture {
    running: Alone,
    control: Arc<Control>,
    file: Vec<u8>,
}

fn fixture() -> Fixture {
    // All clients have one address here.
    fixture_with(Settings { client_connections_max: usize::MAX, ..Settings::for_descriptors(2, 10_000) })
}

fn fixture_with(settings: Settings) -> Fixture {
    let fs = MemFs::new(system_clock());
    let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
    made.found.node.write(0, &[7; 1 << 20], vfs::backend::KEEP_SET_ID).unwrap();
    let (gate, control) = Gate::new(fs);
    let running = Alone::with(one_volume(gate), settings);
    let file = running.handle(VOLUME, &made.found.node.key());
    Fixture { running, control, file }
}

impl Fixture {
    fn read(&self, count: u32) -> ReadArgs<'_> {
        ReadArgs { file: FileHandle(&self.file), offset: 0, count }
    }

    /// Asserts that small calls and a large one in each direction are served.
    fn assert_served(&self, client: &mut Client) {
        let start = Instant::now();
        self.assert_short_served(client);
        self.assert_reads(client);
        assert_in_time(start);
    }

    /// Asserts that calls with short replies are served.
    fn assert_short_served(&self, client: &mut Client) {
        let start = Instant::now();
        let file = FileHandle(&self.file);
        let results = client.ask(1, BOB, Procedure::GETATTR, &GetattrArgs { object: file });
        assert!(matches!(decode::<GetattrReply>(&results), Reply::Ok(_)));
        let data = [7; 64 << 10];
        let write = WriteArgs { file, offset: 0, count: 64 << 10, stable: StableHow::Unstable, data: &data };
        let results = client.ask(3, BOB, Procedure::WRITE, &write);
        assert!(matches!(decode::<WriteReply>(&results), Reply::Ok(_)));
        assert_in_time(start);
    }

    /// Asserts that a READ with a long reply is served, possibly after a wait.
    fn assert_reads(&self, client: &mut Client) {
        let results = client.ask(2, BOB, Procedure::READ, &self.read(64 << 10));
        match decode::<ReadReply<'_>>(&results) {
            Reply::Ok(ok) => assert!(ok.data == [7; 64 << 10]),
            Reply::Err(status, _) => panic!("{status:?}"),
        }
    }

    /// Asserts that both an earlier and a new client are served.
    fn assert_others_served(&self, before: &mut Client) {
        self.assert_served(before);
        self.assert_served(&mut self.running.connect());
    }
}

fn assert_in_time(start: Instant) {
    let took = start.elapsed();
    assert!(took < SERVED_WITHIN, "served after {took:?}");
}

/// Runs `act` and asserts that it never allocates more than `limit` MiB. Freed memory that the allocator retains does
/// not count.
fn within_mib(limit: usize, act: impl FnOnce(&dyn Fn())) {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    let look = || {
        let grown = ALLOCATED.peak_usage().saturating_sub(before) >> 20;
        assert!(grown <= limit, "{grown} MiB more than before");
    };
    act(&look);
    look();
}

fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    limit.maximum.unwrap_or(u64::MAX)
}

#[test]
fn announced_huge_records_allocate_nothing() {
    let f = fixture();
    let mut good = f.running.connect();
    within_mib(16, |_| {
        for word in [0x7fff_ffff, 0xffff_ffff_u32] {
            let mut bad = f.running.connect();
            bad.send_bytes(&word.to_be_bytes()).unwrap();
            assert!(bad.is_ended());
        }
    });
    f.assert_others_served(&mut good);
}

/// More beginnings of long WRITEs than there are receive buffers.
#[test]
fn beginnings_of_long_writes_allocate_little() {
    let f = fixture();
    let mut good = f.running.connect();
    let data = vec![7; 1 << 20];
    let write = WriteArgs {
        file: FileHandle(&f.file),
        offset: 0,
        count: 1 << 20,
        stable: StableHow::Unstable,
        data: &data,
    };
    let whole = record(9, BOB, Procedure::WRITE, &write);
    within_mib(100, |look| {
        for length in [4, 100, 600, 2000, 200 << 10] {
            let mut all: Vec<Client> = (0..400).map(|_| f.running.connect()).collect();
            all.iter_mut().for_each(|bad| bad.send_bytes(&whole[..length]).unwrap());
            f.assert_others_served(&mut good);
            look();
        }
    });
}

#[test]
fn endless_empty_fragments_end_the_connection() {
    let f = fixture();
    let mut good = f.running.connect();
    let mut bad = f.running.connect();
    let empty = [0; 4096];
    let refused = (0..100).any(|_| bad.send_bytes(&empty).is_err());
    assert!(refused || bad.is_ended());
    f.assert_others_served(&mut good);
}

/// Many records in fragments, each without its last fragment.
#[test]
fn unfinished_fragments_are_bounded_over_all_connections() {
    let f = fixture();
    let mut good = f.running.connect();
    let fragment = [&mark(false, 1 << 20)[..], &vec![1; 1 << 20]].concat();
    // The bound, and the bytes that are received last.
    let most = (2 * SPILLED_BYTES_MAX + BUFFERS_MAX * BUFFER_BYTES) >> 20;
    within_mib(most + 16, |look| {
        let mut all = Vec::new();
        for _ in 0..400 {
            let mut bad = f.running.connect();
            let _ = bad.send_bytes(&fragment);
            all.push(bad);
            look();
        }
        f.assert_others_served(&mut good);
    });
}

/// Half a call and then silence, on more connections than there are receive buffers.
#[test]
fn half_calls_do_not_use_up_the_buffers() {
    let f = fixture();
    let mut good = f.running.connect();
    let data = vec![7; 100 << 10];
    let write = WriteArgs {
        file: FileHandle(&f.file),
        offset: 0,
        count: 100 << 10,
        stable: StableHow::Unstable,
        data: &data,
    };
    let whole = record(9, BOB, Procedure::WRITE, &write);
    within_mib(100, |look| {
        let mut all = Vec::new();
        for length in [1, 3, 40, 1000, 90 << 10] {
            for _ in 0..250 {
                let mut bad = f.running.connect();
                bad.send_bytes(&whole[..length]).unwrap();
                all.push((bad, length));
            }
            f.assert_others_served(&mut good);
            look();
        }
        // A slow client is served once it continues, unless its connection ended for lack of memory.
        let mut answered = 0;
        for (slow, length) in &mut all {
            if slow.send_bytes(&whole[*length..]).is_ok() && slow.try_receive().is_ok() {
                answered += 1;
            }
        }
        assert_eq!(answered, all.len());
    });
}

/// A byte now and then, on more connections than there are receive buffers.
#[test]
fn trickling_clients_do_not_use_up_the_buffers() {
    let f = fixture();
    let mut good = f.running.connect();
    let whole = record(9, BOB, Procedure::GETATTR, &GetattrArgs { object: FileHandle(&f.file) });
    let mut all: Vec<Client> = (0..300).map(|_| f.running.connect()).collect();
    for byte in whole.chunks(1) {
        all.iter_mut().for_each(|slow| slow.send_bytes(byte).unwrap());
        let start = Instant::now();
        f.assert_served(&mut good);
        assert!(start.elapsed() < SERVED_WITHIN);
    }
    assert!(all.iter_mut().all(|slow| slow.receive().xid == 9));
}

/// Sends calls until the server accepts no more. Returns the number of bytes.
fn send_until_blocked(client: &mut Client, calls: &[u8]) -> usize {
    client.stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut sent = 0;
    while sent < 64 << 20 {
        match std::io::Write::write(&mut client.stream, &calls[sent % calls.len()..]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    sent
}

/// The bound of unread replies, receive buffers, and one reply with its outbox for each storage thread.
fn most_mib(unread: usize) -> usize {
    let threads = STORAGE_THREADS_MAX * (TRANSFER_BYTES_MAX as usize + (2 << 20));
    (unread + BUFFERS_MAX * BUFFER_BYTES + threads) >> 20
}

/// Reads that wait for storage produce many replies at a time: together they must not exceed the bound of the
/// connections.
#[test]
fn unread_replies_are_bounded() {
    const CLIENTS: usize = 40;
    for (cold, count) in [(false, 64 << 10), (true, 1 << 20), (true, 100 << 10)] {
        let f = fixture();
        f.control.cold_reads.store(cold, Ordering::SeqCst);
        let mut good = f.running.connect();
        let calls = record(9, BOB, Procedure::READ, &f.read(count)).repeat(1000);
        within_mib(most_mib(UNREAD_TOTAL_BYTES_FULL), |look| {
            let mut all = Vec::new();
            for _ in 0..CLIENTS {
                let mut bad = f.running.connect();
                let sent = send_until_blocked(&mut bad, &calls);
                assert!(sent < 64 << 20, "the server takes calls for ever");
                all.push(bad);
                look();
                let unread = f.running.server.view().stats().transport.unread_bytes;
                let most = UNREAD_TOTAL_BYTES_FULL + CLIENTS * UNREAD_REPLY_BYTES_MAX;
                assert!(unread <= most, "{unread} bytes are unread");
            }
            f.assert_others_served(&mut good);
            // One client begins to read: it gets whole replies, and in the end one for every accepted call.
            let first = &mut all[0];
            assert!((0..100).all(|_| first.receive().xid == 9));
        });
    }
}

/// The connections are so many that their individual bounds exceed the total bound.
#[test]
fn connections_with_too_many_unread_replies_are_ended() {
    const CLIENTS: usize = 500;
    raise_descriptors();
    for cold in [false, true] {
        let f = fixture();
        f.control.cold_reads.store(cold, Ordering::SeqCst);
        let mut good = f.running.connect();
        let calls = record(9, BOB, Procedure::READ, &f.read(1 << 20)).repeat(12);
        within_mib(most_mib(UNREAD_TOTAL_BYTES_MOST), |look| {
            let mut all: Vec<Client> = Vec::new();
            for _ in 0..CLIENTS {
                let mut bad = f.running.connect();
                // A small receive buffer keeps the replies in the server, not in the kernel.
                rustix::net::sockopt::set_socket_recv_buffer_size(&bad.stream, 64 << 10).unwrap();
                bad.send_bytes(&calls).unwrap();
                all.push(bad);
                look();
                let unread = f.running.server.view().stats().transport.unread_bytes;
                // The bound, and one turn of a connection on each of the two event loops.
                let most = UNREAD_TOTAL_BYTES_MOST + 2 * (2 << 20);
                assert!(unread <= most, "{unread} bytes are unread");
            }
            wait_until("the end of some", || f.running.server.view().connections() < CLIENTS);
            let mut new = f.running.connect();
            f.assert_short_served(&mut good);
            f.assert_short_served(&mut new);
            // Long replies may still wait until more connections have ended.
            f.assert_reads(&mut good);
            f.assert_reads(&mut new);
        });
    }
}

/// Connections that have read their replies release nearly all memory of a burst.
#[test]
fn idle_connections_keep_no_memory() {
    const CLIENTS: usize = 600;
    const CALLS: usize = 80;
    raise_descriptors();
    let f = fixture();
    let calls = record(9, BOB, Procedure::READ, &f.read(64 << 10)).repeat(CALLS);
    let mut replies = vec![0; 1 << 20];
    let unread = || f.running.server.view().stats().transport.unread_bytes;
    let burst = |replies: &mut [u8]| {
        let mut client = f.running.connect();
        // A small receive buffer keeps the replies in the server, not in the kernel.
        rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 << 10).unwrap();
        client.send_bytes(&calls).unwrap();
        wait_until("replies that are unread", || unread() > 0);
        let mut left = CALLS * (28 + 4 + 88 + 12 + (64 << 10));
        while left > 0 {
            left -= client.stream.read(replies).unwrap();
        }
        client
    };
    // The first clients allocate the memory that threads retain.
    let mut all: Vec<Client> = (0..20).map(|_| burst(&mut replies)).collect();
    within_mib(64, |_| {
        let before = ALLOCATED.current_usage();
        all.extend((0..CLIENTS).map(|_| burst(&mut replies)));
        // A connection takes about one KiB, and an event loop may retain two MiB more than before.
        wait_until("the memory of the bursts", || {
            ALLOCATED.current_usage().saturating_sub(before) <= CLIENTS * (8 << 10)
        });
    });
}

#[test]
fn two_thousand_connections_are_served() {
    let descriptors = raise_descriptors();
    let f = fixture();
    let count = usize::try_from(descriptors.saturating_sub(200) / 2).unwrap().min(2000);
    let mut all: Vec<Client> = (0..count).map(|_| f.running.connect()).collect();
    wait_until("all connections", || f.running.server.view().connections() == count);
    within_mib(64, |_| {
        for (place, client) in all.iter_mut().enumerate() {
            if place % 100 == 0 {
                f.assert_served(client);
            }
            let xid = u32::try_from(place).unwrap();
            let args = GetattrArgs { object: FileHandle(&f.file) };
            assert!(!client.ask(xid, BOB, Procedure::GETATTR, &args).is_empty());
        }
    });
    drop(all);
    wait_until("the end of all", || f.running.server.view().connections() == 0);
}

/// Xorshift: the same bytes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

#[test]
fn random_bytes_leave_other_clients_served() {
    let f = fixture();
    let mut good = f.running.connect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let body = call(9, BOB, Procedure::READ, &f.read(100));
    within_mib(64, |_| {
        for round in 0..300 {
            let mut bad = f.running.connect();
            let noise: Vec<u8> = (0..random.below(3000)).map(|_| random.next().to_le_bytes()[0]).collect();
            let bytes = match round % 3 {
                // Noise; noise behind a valid record mark; a valid call with some bytes changed.
                0 => noise,
                1 => [&mark(true, noise.len())[..], &noise].concat(),
                _ => {
                    let mut body = body.clone();
                    for _ in 0..3 {
                        let place = random.below(body.len());
                        body[place] ^= random.next().to_le_bytes()[0];
                    }
                    [&mark(true, body.len())[..], &body].concat()
                }
            };
            let _ = bad.send_bytes(&bytes);
            if round % 2 == 0 {
                bad.stream.shutdown(Shutdown::Write).unwrap();
                assert!(bad.is_ended());
            }
            if round % 50 == 0 {
                f.assert_served(&mut good);
            }
        }
    });
    f.assert_others_served(&mut good);
    wait_until("the end of the noise", || f.running.server.view().connections() <= 1);
}

#[test]
fn reset_connections_release_everything() {
    let f = fixture();
    let mut good = f.running.connect();
    let data = vec![7; 300 << 10];
    let write = WriteArgs {
        file: FileHandle(&f.file),
        offset: 0,
        count: 300 << 10,
        stable: StableHow::FileSync,
        data: &data,
    };
    let long = record(9, BOB, Procedure::WRITE, &write);
    let reads = record(9, BOB, Procedure::READ, &f.read(1 << 20)).repeat(50);
    within_mib(100, |_| {
        for round in 0..100 {
            let mut bad = f.running.connect();
            let bytes = if round % 2 == 0 { &long[..long.len() / 2] } else { &reads[..] };
            let _ = bad.send_bytes(bytes);
            if round % 4 == 1 {
                let _ = bad.stream.read(&mut [0; 1000]);
            }
            bad.reset();
        }
        f.assert_others_served(&mut good);
    });
    wait_until("the end of the broken ones", || f.running.server.view().connections() <= 1);
    let start = Instant::now();
    drop(good);
    drop(f);
    assert!(start.elapsed() < SERVED_WITHIN, "a stop waits for calls of clients that are gone");
}

/// Calls that wait for storage on one connection must not delay another.
#[test]
fn a_connection_full_of_waiting_calls_delays_no_other() {
    let f = fixture();
    f.control.cold_reads.store(true, Ordering::SeqCst);
    f.control.close();
    let mut busy = f.running.connect();
    let calls = record(9, BOB, Procedure::READ, &f.read(100)).repeat(40);
    busy.send_bytes(&calls).unwrap();
    wait_until("reads at the gate", || f.control.arrived.load(Ordering::SeqCst) >= 40);
    let mut good = f.running.connect();
    let start = Instant::now();
    let args = GetattrArgs { object: FileHandle(&f.file) };
    assert!(!good.ask(1, BOB, Procedure::GETATTR, &args).is_empty());
    assert!(!good.ask(2, BOB, Procedure::NULL, &()).iter().any(|_| true));
    assert!(start.elapsed() < SERVED_WITHIN);
    f.control.open();
    assert!((0..40).all(|_| busy.receive().xid == 9));
}

#[test]
fn a_client_that_closes_immediately_is_released() {
    let f = fixture();
    for _ in 0..200 {
        drop(TcpStream::connect(f.running.address).unwrap());
    }
    let mut half = f.running.connect();
    half.send_bytes(&RecordMark { last: true, length: 40 }.to_word().to_be_bytes()).unwrap();
    half.stream.shutdown(Shutdown::Write).unwrap();
    assert!(half.is_ended());
    wait_until("the end of all", || f.running.server.view().connections() == 0);
}

/// Half a call, half a long WRITE, and unread replies: each connection ends after its timeout.
#[test]
fn stalled_connections_are_ended() {
    const STALLED_S: u32 = 2;
    let f = fixture_with(Settings { stalled_s: STALLED_S, ..Settings::for_descriptors(2, 10_000) });
    let start = Instant::now();
    let [mut idle, mut half, mut long, mut deaf] = [(); 4].map(|()| f.running.connect());
    half.send_bytes(&record(9, BOB, Procedure::READ, &f.read(10))[..30]).unwrap();
    let data = vec![7; 1 << 20];
    let file = FileHandle(&f.file);
    let write = WriteArgs { file, offset: 0, count: 1 << 20, stable: StableHow::Unstable, data: &data };
    long.send_bytes(&record(9, BOB, Procedure::WRITE, &write)[..500 << 10]).unwrap();
    send_until_blocked(&mut deaf, &record(9, BOB, Procedure::READ, &f.read(64 << 10)).repeat(1000));
    wait_until("the end of three", || f.running.server.view().connections() == 1);
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(STALLED_S.into()) && took < Duration::from_secs(10), "{took:?}");
    f.assert_others_served(&mut idle);
}

/// More long WRITEs than memory allows wait for a limit: those past the bound are refused with a retry, and the others
/// are done in turn.
#[test]
fn long_writes_that_wait_are_bounded() {
    const CLIENTS: usize = 400;
    let fs = MemFs::new(system_clock());
    let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
    let bytes = |bytes: u64| {
        let all = Limits { bytes: NonZeroU64::new(bytes), ..Limits::NONE };
        VolumeLimits { all, ..VolumeLimits::default() }
    };
    let gate = Arbiter::new(&Limits::NONE.into(), &Pacer::start().unwrap()).gate(bytes(1));
    let volume = Volume::new(VOLUME, "vol", Arc::new(fs), Durability::Sync, 1).with_gate(Arc::clone(&gate));
    let export = Export::new("/vol", Arc::new(volume), vec![trusting()]);
    let settings = Settings { client_connections_max: usize::MAX, ..Settings::for_descriptors(2, 10_000) };
    let running = Alone::with(Namespace::new([export]), settings);
    let file = running.handle(VOLUME, &made.found.node.key());
    let data = vec![7; 1 << 20];
    let (file, stable) = (FileHandle(&file), StableHow::Unstable);
    let call =
        record(9, BOB, Procedure::WRITE, &WriteArgs { file, offset: 0, count: 1 << 20, stable, data: &data });
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| running.connect()).collect();
    within_mib(2 * (QUEUED_CLIENT_BYTES_MAX >> 20) + 64, |look| {
        for client in &mut clients {
            client.send_bytes(&call).unwrap();
        }
        let most = 2 * QUEUED_CLIENT_BYTES_MAX / call.len();
        wait_until("as many as may wait", || gate.throttled().1 >= most - 1);
        look();
        gate.set_limits(VolumeLimits::default());
        let mut later = 0;
        for client in &mut clients {
            match decode::<WriteReply>(&client.receive().results) {
                Reply::Ok(ok) => assert_eq!(ok.count, 1 << 20),
                Reply::Err(status, _) => {
                    assert_eq!(status, Status::JUKEBOX);
                    later += 1;
                }
            }
        }
        assert!(later > 0 && later < CLIENTS - most / 2, "{later} of {CLIENTS} are refused with a retry");
    });
    assert_eq!(running.server.view().stats().transport.queued_bytes, 0);
}
