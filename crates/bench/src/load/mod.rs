//! The load of a plan: one kind of call, or a mix of two, with many in flight on every connection.
//!
//! - `generator`: the next call. `v3`, `v4`, `smb`: encoded calls. `reply`: checks of results. `dialect`: the protocol
//!   of a connection.
//! - `sessions`: the connections of clients, and their sessions over NFSv4 and SMB.

mod call;
mod dialect;
mod file_set;
mod generator;
mod identity;
mod parallel;
mod plan;
mod reply;
mod report;
mod sessions;
mod smb;
mod stream;
mod v3;
mod v4;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ::report::scenario::Stability;

use crate::driver::buffers::{Framing, Inbox};
use crate::driver::connection::Connection;
use crate::driver::counters::{Clock, OpCounters, nanoseconds};
use crate::driver::{self, cpu};
use crate::error::Error;
use crate::job::Caller;
use crate::job::{Control, LayoutProgress};
use crate::machine::co_located;
use wire_client::Target;

use call::LISTING_MAX;
use generator::{PlanGenerator, Shared};
use identity::{identity, setup_client};
use report::Facts;
use sessions::{ClientConnection, Sessions};

pub(crate) use file_set::{FileSet, LaidOut};
pub(crate) use parallel::go_on;
pub(crate) use plan::stable_how;
pub use plan::{BlockOrder, Kind, Op, Placement, Plan};
pub(crate) use report::LATE_MAX;
pub use report::{KindReport, Report, Second};

const REPLY_OVERHEAD: usize = 1024;
const PROGRESS: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Files are being created, or those of an earlier run checked.
    Layout(LayoutProgress),
    Running {
        warming_up: bool,
        done: f64,
        ops_per_s: f64,
        mib_per_s: f64,
    },
    Verifying,
}

/// Runs a load: lay out, warm up, measure, drain, commit, verify.
///
/// # Errors
/// Whatever makes a result impossible or worthless: an impossible plan, a server out of reach or out of
/// protocol, wrong data, an error of `progress`, such as [`Error::Stopped`]. Calls that the server refuses are counted in the report instead.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress) -> Result<(), Error>) -> Result<Report, Error> {
    plan.server_pid.map(cpu::of_process).transpose()?;
    let mut prepared =
        Prepared::new(plan, &mut LaidOut::new(), &mut |done| progress(Progress::Layout(done)))?;
    let begin = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let control = Control::with_window(nanoseconds(begin), plan.warm_up, plan.time);
    let clock = Clock::new(&control);
    let (counters, server_cpu) = thread::scope(|scope| {
        let running = scope.spawn(|| prepared.measure(&control, clock));
        let server_cpu = observe(plan, &clock, &control, &|| running.is_finished(), progress);
        if server_cpu.is_err() {
            control.stop();
        }
        let counters = running.join().map_err(|_| Error::Plan("the generator panicked".to_owned()))?;
        let server_cpu = server_cpu?;
        Ok::<_, Error>((counters?, server_cpu))
    })?;
    let mut facts = Facts {
        started: (begin + plan.warm_up).as_secs_f64(),
        threads: prepared.threads,
        server_cpu,
        restarts: prepared.restarts(),
        co_located: co_located(plan.target.address()?),
        ..Facts::default()
    };
    prepared.finish(plan, &mut facts, progress)?;
    Ok(Report::new(plan, &counters, facts))
}

#[derive(Debug)]
pub(crate) struct Prepared {
    shared: Arc<Shared>,
    file_set: FileSet,
    /// Declared before the sessions: connections close first.
    connections: Vec<Connection<PlanGenerator>>,
    _sessions: Sessions,
    threads: usize,
}

impl Prepared {
    pub(crate) fn new(
        plan: &Plan,
        laid_out: &mut LaidOut,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        plan.check()?;
        // The set-up's connection ends here, so that the server counts only those of the load.
        let file_set = FileSet::lay_out(plan, &mut setup_client(plan)?, laid_out, progress)?;
        let identities: Vec<_> =
            (0..plan.clients).map(|index| identity(plan, plan.first_client + index)).collect();
        let mut sessions = Sessions::default();
        let clients = identities.iter().enumerate();
        let clients = clients
            .map(|(client, identity)| sessions.client(plan, client, identity, &file_set))
            .collect::<Result<Vec<_>, Error>>()?;
        let shared = Arc::new(Shared::new(plan.clone()));
        let data = if plan.op.transfers() { plan.transfer() } else { 0 };
        let longest = usize::try_from(data).unwrap_or(0).max(LISTING_MAX as usize) + REPLY_OVERHEAD;
        let mut connections = Vec::with_capacity(plan.connections_total());
        let framing = if plan.target.version.is_smb() { Framing::Smb } else { Framing::RecordMark };
        for (client, attached) in clients.into_iter().enumerate() {
            for (connection, ClientConnection { stream, dialect, channel }) in
                attached.into_iter().enumerate()
            {
                let (generator, calls) = PlanGenerator::new(Arc::clone(&shared), client, connection, dialect);
                let calls = match channel {
                    Some(channel) => calls.with_channel(channel),
                    None => calls,
                };
                let inbox = Inbox::new(longest, framing, plan.discards());
                connections.push(Connection::new(stream, calls, inbox, generator)?);
            }
        }
        let threads = driver::threads(connections.len(), plan.threads);
        Ok(Self { shared, file_set, connections, _sessions: sessions, threads })
    }

    /// Runs from `clock`'s beginning to the end of `control`'s window.
    pub(crate) fn measure(&mut self, control: &Control, clock: Clock) -> Result<OpCounters, Error> {
        let counters = counters_for(&self.shared.plan, clock)?;
        driver::run(&mut self.connections, self.threads, control, counters)
    }

    pub(crate) fn connections(&self, client: usize) -> Vec<u64> {
        self.connections
            .iter()
            .filter(|connection| connection.generator.client == client)
            .map(|connection| connection.generator.ops)
            .collect()
    }

    pub(crate) fn read_all(
        &self,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.file_set.warm(&self.shared.plan, progress)
    }

    /// Commits writes, reads them back, and removes the files, as planned.
    fn finish(
        &mut self,
        plan: &Plan,
        facts: &mut Facts,
        progress: &mut dyn FnMut(Progress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !(plan.op.writes() || plan.keeps_ledger() || plan.cleanup) {
            return Ok(());
        }
        let mut client = setup_client(plan)?;
        if plan.op.writes() {
            let start = Instant::now();
            self.file_set.files.iter().try_for_each(|file| client.commit(file).map(drop))?;
            facts.final_commit = (plan.stability == Stability::Unstable).then(|| start.elapsed());
        }
        if plan.keeps_ledger() {
            let mut watch = || progress(Progress::Verifying);
            let ledgers =
                self.connections.iter().flat_map(|connection| connection.generator.ledger.iter().copied());
            self.file_set.read_back(plan, &mut client, &ledgers.collect::<Vec<_>>(), &mut watch)?;
            facts.read_back = true;
        }
        if plan.cleanup {
            // Over SMB open files exist as long as the connections.
            self.connections.clear();
            FileSet::clear(&mut client)?;
        }
        Ok(())
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.connections.iter().map(|connection| connection.generator.restarts).sum()
    }
}

pub(crate) fn clear(target: &Target, caller: &Caller) -> Result<(), Error> {
    let Caller { uid, gid, privileged_port, nt_hash, .. } = *caller;
    let plan = Plan { uid, gid, privileged_port, nt_hash, ..Plan::new(target.clone(), Op::Null) };
    FileSet::clear(&mut setup_client(&plan)?)
}

/// Reports progress until the window ends or the generator stops. Returns the server's processor time in the
/// window.
fn observe(
    plan: &Plan,
    clock: &Clock,
    control: &Control,
    is_done: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress) -> Result<(), Error>,
) -> Result<Option<Duration>, Error> {
    let (mut before, (start, end)) = (None, control.window());
    loop {
        let now = clock.now();
        if now >= end || is_done() {
            break;
        }
        if now >= start && before.is_none() {
            before = plan.server_pid.map(cpu::of_process).transpose()?;
        }
        let passed = Duration::from_nanos(now).as_secs_f64().max(1e-9);
        let (ops, bytes) = control.total();
        progress(Progress::Running {
            warming_up: now < start,
            done: now as f64 / end as f64,
            ops_per_s: ops as f64 / passed,
            mib_per_s: bytes as f64 / passed / f64::from(1 << 20),
        })?;
        let next = if now < start { start } else { end };
        thread::sleep(Duration::from_nanos(next - now).min(PROGRESS));
    }
    let after = plan.server_pid.filter(|_| before.is_some()).map(cpu::of_process).transpose()?;
    Ok(after.zip(before).map(|(after, before)| after.saturating_sub(before)))
}

fn counters_for(plan: &Plan, clock: Clock) -> Result<OpCounters, Error> {
    let kinds: &[Kind] = match plan.op {
        Op::Read | Op::OpenRead => &[Kind::Read],
        Op::Write => &[Kind::Write],
        Op::Mix => &[Kind::Read, Kind::Write],
        Op::Getattr => &[Kind::Getattr],
        Op::Lookup => &[Kind::Lookup],
        Op::Access => &[Kind::Access],
        Op::Open => &[Kind::Open, Kind::Close],
        Op::Create => &[Kind::Create, Kind::Remove],
        Op::Rename => &[Kind::Rename],
        Op::Readdirplus => &[Kind::Readdirplus],
        Op::Commit => &[Kind::Commit],
        Op::Null => &[Kind::Null],
    };
    let mut counters = OpCounters::new(clock, plan.clients, plan.target.version);
    kinds.iter().try_for_each(|&kind| counters.expect(kind as usize, plan.rate.is_some()))?;
    Ok(counters)
}
