//! A limit of a pool while its endpoint moves from gateway to gateway: no move and no death brings more than the limit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::setup::{ENDPOINTS, GATEWAYS, RECOVERY_MAX, Setup};
use crate::ceph::network::CLIENTS;
use crate::ledger::client::{Client, Failure, Handle, How, MountResult, Stable};
use crate::ledger::v4::Session;
use crate::server::Endpoint;

const VOLUME: &str = "limited";
const FILE: &str = "data";
/// Bytes a second of the pool.
const LIMIT: u64 = 8 << 20;
const BLOCK: u32 = 64 << 10;
const BLOCKS: u64 = 64;
const READERS: [Version; 8] =
    [Version::V3, Version::V3, Version::V3, Version::V3, Version::V3, Version::V4, Version::V4, Version::V4];
const MOVES: usize = 5;
const WINDOW: Duration = Duration::from_secs(5);
/// The limiter lets an unused rate be used this much later (`vfs::qos::BURST`).
const BURST: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V3,
    V4,
}

/// A reply with data.
#[derive(Clone, Copy)]
struct Read {
    at: Instant,
    bytes: u64,
    version: Version,
}

/// Clients that read as fast as they can.
struct Load {
    reads: Arc<Mutex<Vec<Read>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

enum Reader {
    V3 { mounted: MountResult, file: Handle },
    V4(Session),
}

/// Moves an endpoint with a saturated pool again and again, and kills its gateway.
pub(super) fn hold(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    let endpoint = make_volume(setup)?;
    let mut from = setup.serving(ENDPOINTS[0])?;
    let load = Load::start(&endpoint);
    load.wait_until_saturated_after(Instant::now())?;
    for _ in 0..MOVES {
        from = move_to(setup, (from + 1) % GATEWAYS.len())?;
        load.wait_until_saturated_after(Instant::now())?;
    }
    setup.gateways[from].kill()?;
    load.wait_until_saturated_after(Instant::now())?;
    setup.command(Some(from), &["endpoint", "move", ENDPOINTS[0], "any"])?;
    let reads = load.finish()?;
    let binary = setup.binary;
    setup.gateways[from].start(binary)?;
    let most = most_in(&reads, WINDOW);
    let (begun, ended) = (reads[0].at, reads[reads.len() - 1].at);
    let all = total(&reads);
    eprintln!(
        "ceph: {MOVES} moves and a death under a limit of {LIMIT} bytes/s: at most {most} bytes in {} s, {all} in {} ms, at \
         most {} in 1 s",
        WINDOW.as_secs(),
        (ended - begun).as_millis(),
        most_in(&reads, Duration::from_secs(1)),
    );
    require_within(most, WINDOW)?;
    require_within(all, ended - begun)?;
    for version in [Version::V3, Version::V4] {
        let count = reads.iter().filter(|read| read.version == version).count();
        ensure!(count > 100, "only {count} reads over {version:?}");
    }
    setup.wait_until_ready(from, Instant::now()).map(drop)
}

/// Makes a volume with a file, in a pool with the limit.
fn make_volume(setup: &Setup<'_>) -> anyhow::Result<Endpoint> {
    let pool =
        format!("pool create limited --level plimsoll/custom --size 10GiB --limit throughput={LIMIT}B/s");
    let volume = format!(
        "volume create {VOLUME} --pool limited --size 1GiB --allow {CLIENTS} --squash none --protocols nfsv3,nfsv4.1"
    );
    for words in [&pool, &volume] {
        setup.manage(ENDPOINTS[0], &words.split(' ').collect::<Vec<_>>())?;
    }
    let endpoint = Endpoint { export: format!("/{VOLUME}"), ..setup.endpoint(0) };
    endpoint.wait_until_ready(RECOVERY_MAX)?;
    let mut mounted = Client::mount(&endpoint)?;
    let file = mounted.client.create(&mounted.root, FILE, How::Guarded(0o644))?;
    let block = vec![b'-'; BLOCK as usize];
    for number in 0..BLOCKS {
        mounted.client.write(&file, number * u64::from(BLOCK), &block, Stable::Unstable)?;
    }
    mounted.client.commit(&file)?;
    Ok(endpoint)
}

/// Moves the first endpoint, and waits until its address is there.
fn move_to(setup: &Setup<'_>, gateway: usize) -> anyhow::Result<usize> {
    setup.command(None, &["endpoint", "move", ENDPOINTS[0], GATEWAYS[gateway]])?;
    let deadline = Instant::now() + RECOVERY_MAX;
    while setup.gateways_with_address(0)? != [gateway] {
        ensure!(Instant::now() < deadline, "{} does not move to {}", ENDPOINTS[0], GATEWAYS[gateway]);
        std::thread::sleep(PAUSE);
    }
    Ok(gateway)
}

/// The most bytes in any window of this length.
fn most_in(reads: &[Read], window: Duration) -> u64 {
    let (mut most, mut sum, mut first) = (0, 0, 0);
    for read in reads {
        sum += read.bytes;
        while read.at - reads[first].at > window {
            sum -= reads[first].bytes;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

fn total(reads: &[Read]) -> u64 {
    reads.iter().map(|read| read.bytes).sum()
}

/// Fails if more than the limit passed in this time: 2 % and one burst are allowed, and one call that makes the next wait.
fn require_within(bytes: u64, time: Duration) -> anyhow::Result<()> {
    let limit = u128::from(LIMIT);
    let allowed = limit * (time.as_millis() * 102 / 100 + BURST.as_millis()) / 1000 + u128::from(BLOCK);
    ensure!(u128::from(bytes) <= allowed, "{bytes} bytes in {} ms, allowed {allowed}", time.as_millis());
    Ok(())
}

impl Load {
    fn start(endpoint: &Endpoint) -> Self {
        let (reads, stop) = <(Arc<Mutex<Vec<Read>>>, Arc<AtomicBool>)>::default();
        let threads = READERS.into_iter().enumerate().map(|(number, version)| {
            let (reads, stop, endpoint) = (Arc::clone(&reads), Arc::clone(&stop), endpoint.clone());
            std::thread::spawn(move || work(&endpoint, number, version, &reads, &stop))
        });
        let threads = threads.collect();
        Self { reads, stop, threads }
    }

    /// Waits until nine tenths of the limit passed in one second after this time.
    fn wait_until_saturated_after(&self, time: Instant) -> anyhow::Result<()> {
        loop {
            let second = Duration::from_secs(1);
            let reads = self.reads.lock().expect("no reader panics").clone();
            let later: Vec<Read> = reads.into_iter().filter(|read| read.at > time).collect();
            if most_in(&later, second) > LIMIT * 9 / 10 {
                return Ok(());
            }
            if let Some(thread) = self.threads.iter().find(|thread| thread.is_finished()) {
                bail!("a reader has ended: {:?}", thread.thread().id());
            }
            ensure!(time.elapsed() < RECOVERY_MAX, "the limit is not reached: {} bytes", total(&later));
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends the clients. Returns all reads in their order.
    fn finish(self) -> anyhow::Result<Vec<Read>> {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
        }
        let mut reads = self.reads.lock().expect("no reader panics").clone();
        reads.sort_by_key(|read| read.at);
        ensure!(!reads.is_empty(), "nothing was read");
        Ok(reads)
    }
}

/// Reads until it is stopped. Connects again when the endpoint moves.
fn work(
    endpoint: &Endpoint,
    number: usize,
    version: Version,
    reads: &Mutex<Vec<Read>>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut reader = None;
    let mut block = number as u64;
    while !stop.load(Ordering::SeqCst) {
        let read = match &mut reader {
            Some(reader) => Reader::read(reader, block % BLOCKS * u64::from(BLOCK)),
            None => Reader::connect(endpoint, number, version).map(|made| {
                reader = Some(made);
                0
            }),
        };
        match read {
            Ok(0) => {}
            Ok(bytes) => {
                block += 1;
                let read = Read { at: Instant::now(), bytes: bytes as u64, version };
                reads.lock().expect("no reader panics").push(read);
            }
            Err(failure) if is_passing(&failure) => std::thread::sleep(PAUSE),
            Err(failure) if ends_connection(&failure) => {
                reader = None;
                std::thread::sleep(PAUSE);
            }
            Err(failure) => bail!("a reader over {version:?}: {failure}"),
        }
    }
    Ok(())
}

/// Whether the call is to be repeated: `NFS3ERR_JUKEBOX` and `NFS4ERR_DELAY`, `NFS4ERR_GRACE`.
fn is_passing(failure: &Failure) -> bool {
    matches!(failure, Failure::Status(10_008 | 10_013))
}

/// Whether a new connection is needed: also for `NFS4ERR_STALE_CLIENTID`, `NFS4ERR_BADSESSION`, `NFS4ERR_DEADSESSION`.
fn ends_connection(failure: &Failure) -> bool {
    matches!(failure, Failure::Lost(_) | Failure::Status(10_022 | 10_052 | 10_078))
}

impl Reader {
    fn connect(endpoint: &Endpoint, number: usize, version: Version) -> Result<Self, Failure> {
        if version == Version::V4 {
            return Session::open(endpoint, &format!("reader-{number}")).map(Self::V4);
        }
        let mut mounted = Client::mount(endpoint)?;
        let file = mounted.client.lookup(&mounted.root, FILE)?;
        Ok(Self::V3 { mounted, file })
    }

    fn read(&mut self, offset: u64) -> Result<usize, Failure> {
        match self {
            Self::V3 { mounted, file } => Ok(mounted.client.read(file, offset, BLOCK)?.0.len()),
            Self::V4(session) => session.read(&[VOLUME, FILE], offset, BLOCK),
        }
    }
}
