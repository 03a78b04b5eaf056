//! The NFSv3 load generator.
//!
//! Calls are encoded once and patched; many are in flight on every connection; calls that one receive set free leave
//! in one send; a reply finds its call by the xid and is checked. Nothing is allocated per call.

mod calls;
mod cpu;
mod plan;
mod reply;
mod report;
mod stage;
mod tally;
mod wire;
mod worker;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use calls::{Calls, LISTING_MAX, Templates};
use report::Facts;
use stage::Stage;
use tally::{Clock, Tally};
use wire::Inbox;
use worker::{Lane, Shared};

use crate::Error;
use crate::client::{Client, Identity};

pub use plan::{BLOCK_MAX, DEPTH_MAX, Kind, Op, Order, Plan, Stability};
pub use report::{KindReport, Latency, Report, Second};

/// Room in a reply for everything but data.
const REPLY_OVERHEAD: usize = 1024;
/// How often progress is told.
const PROGRESS: Duration = Duration::from_millis(200);

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Files are made; the share done.
    Layout(f64),
    /// The load runs.
    Running {
        /// Still in the warm-up.
        warming_up: bool,
        /// The share of warm-up and measurement that has passed.
        done: f64,
        /// Good replies so far a second.
        ops_per_s: f64,
        /// MiB so far a second.
        mib_per_s: f64,
    },
    /// Everything is read back.
    Verifying,
}

/// Runs a load: lay out, warm up, measure, drain, commit, verify.
///
/// # Errors
/// Whatever makes a result impossible or worthless: an impossible plan, a server out of reach or out of protocol, wrong
/// data. Calls that the server refuses are counted in the report instead.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
    plan.check()?;
    plan.server_pid.map(cpu::of_process).transpose()?;
    let mut client = Client::mount(&plan.target, &setup_identity(plan))?;
    let stage = Stage::set(plan, &mut client, &mut |done| progress(Progress::Layout(done)))?;
    let address = plan.target.address()?;
    let identities: Vec<_> = (0..plan.clients).map(|index| identity(plan, index)).collect();
    let templates: Vec<_> = identities.iter().map(|identity| Templates::new(&stage, identity)).collect();
    let mut lanes = connect(plan, address, &identities, &templates)?;
    let available = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = plan.threads.unwrap_or(available).min(lanes.len());

    let (tally, mut facts) = measure(plan, &mut lanes, threads, progress)?;
    facts.restarts = lanes.iter().map(|lane| lane.calls.restarts).sum();
    facts.co_located = co_located(address);
    if plan.op.writes() {
        let start = Instant::now();
        stage.files.iter().try_for_each(|file| client.commit(file).map(drop))?;
        facts.final_commit = (plan.stability == Stability::Unstable).then(|| start.elapsed());
    }
    if plan.verify && plan.op.writes() {
        progress(Progress::Verifying);
        let generations: Vec<_> = lanes.iter().flat_map(|lane| lane.calls.ledger.iter().copied()).collect();
        stage.read_back(plan, &mut client, &generations)?;
        facts.read_back = true;
    }
    if plan.cleanup {
        Stage::clear(&mut client)?;
    }
    Ok(Report::new(plan, &tally, facts))
}

/// As whom files are made and checked: another machine than any that makes the load.
fn setup_identity(plan: &Plan) -> Identity {
    Identity { machine: "plimsoll-bench".to_owned(), ..identity(plan, 0) }
}

/// As whom the client of this index calls.
fn identity(plan: &Plan, index: usize) -> Identity {
    Identity {
        uid: plan.uid,
        gid: plan.gid,
        machine: format!("plimsoll-bench-{index}"),
        source: plan.sources.get(index % plan.sources.len().max(1)).copied(),
        privileged_port: plan.privileged_port,
    }
}

fn connect<'p>(
    plan: &'p Plan,
    address: SocketAddr,
    identities: &[Identity],
    templates: &'p [Templates],
) -> Result<Vec<Lane<'p>>, Error> {
    let data = if plan.op.transfers() { plan.block } else { 0 };
    let longest = usize::try_from(data).unwrap_or(0).max(LISTING_MAX as usize) + REPLY_OVERHEAD;
    let mut lanes = Vec::with_capacity(plan.connections_total());
    for (identity, templates) in identities.iter().zip(templates) {
        for _ in 0..plan.connections {
            let calls = Calls::new(plan, templates, lanes.len());
            lanes.push(Lane::new(identity.connect(address)?, calls, Inbox::new(longest, plan.discards()))?);
        }
    }
    Ok(lanes)
}

/// Runs the threads and waits for them.
fn measure(
    plan: &Plan,
    lanes: &mut [Lane<'_>],
    threads: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Tally, Facts), Error> {
    let shared = Shared::default();
    let clock = Clock::new(plan.warm_up, plan.time);
    let mut all = tally_for(plan, clock)?;
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + plan.warm_up;
    let mut facts = Facts { started: started.as_secs_f64(), threads, ..Facts::default() };
    let share = lanes.len().div_ceil(threads);
    facts.threads = lanes.len().div_ceil(share);
    thread::scope(|scope| {
        let mut running = Vec::new();
        for lanes in lanes.chunks_mut(share) {
            let (shared, mut tally) = (&shared, tally_for(plan, clock)?);
            running.push(scope.spawn(move || {
                let result = worker::drive(lanes, clock, &mut tally, shared);
                if result.is_err() {
                    shared.failed.store(true, Ordering::Relaxed);
                }
                result.map(|()| tally)
            }));
        }
        let observed = observe(plan, clock, &shared, progress);
        let mut tallies = Vec::new();
        for thread in running {
            let tally =
                thread.join().map_err(|_| Error::Plan("a thread of the generator panicked".to_owned()))?;
            tallies.push(tally);
        }
        for tally in tallies {
            let tally = tally?;
            facts.busiest = facts.busiest.max(tally.cpu);
            all.merge(tally)?;
        }
        facts.server_cpu = observed?;
        Ok((all, facts))
    })
}

/// Tells progress until the clock's end; gives the server's processor time in the window.
fn observe(
    plan: &Plan,
    clock: Clock,
    shared: &Shared,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Duration>, Error> {
    let mut before = None;
    loop {
        let now = clock.now();
        if now >= clock.end || shared.failed.load(Ordering::Relaxed) {
            break;
        }
        if now >= clock.start && before.is_none() {
            before = plan.server_pid.map(cpu::of_process).transpose()?;
        }
        let passed = Duration::from_nanos(now).as_secs_f64().max(1e-9);
        let replies = shared.replies.load(Ordering::Relaxed) as f64;
        let bytes = shared.bytes.load(Ordering::Relaxed) as f64;
        progress(Progress::Running {
            warming_up: now < clock.start,
            done: now as f64 / clock.end as f64,
            ops_per_s: replies / passed,
            mib_per_s: bytes / passed / f64::from(1 << 20),
        });
        let next = if now < clock.start { clock.start } else { clock.end };
        thread::sleep(Duration::from_nanos(next - now).min(PROGRESS));
    }
    let after = plan.server_pid.filter(|_| before.is_some()).map(cpu::of_process).transpose()?;
    Ok(after.zip(before).map(|(after, before)| after.saturating_sub(before)))
}

/// A tally with room for every kind of the plan.
fn tally_for(plan: &Plan, clock: Clock) -> Result<Tally, Error> {
    let kinds: &[Kind] = match plan.op {
        Op::Read => &[Kind::Read],
        Op::Write => &[Kind::Write],
        Op::Mix => &[Kind::Read, Kind::Write],
        Op::Getattr => &[Kind::Getattr],
        Op::Lookup => &[Kind::Lookup],
        Op::Access => &[Kind::Access],
        Op::Create => &[Kind::Create, Kind::Remove],
        Op::Readdirplus => &[Kind::Readdirplus],
        Op::Commit => &[Kind::Commit],
        Op::Null => &[Kind::Null],
    };
    let mut tally = Tally::new(clock);
    kinds.iter().try_for_each(|&kind| tally.expect(kind))?;
    Ok(tally)
}

/// Whether the address is one of this host's: then the way to it begins where it ends.
pub(crate) fn co_located(address: SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let own = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    address.ip().is_loopback() || own.is_ok_and(|own| own.ip() == address.ip())
}
