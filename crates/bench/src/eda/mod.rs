//! `eda-blend`: the mix of an EDA design flow, on a schedule.
//!
//! - [`mix`]: what a job set is.
//! - [`schedule`]: when its processes do what.
//! - [`process`]: what that means on the wire, one call at a time, without sockets.
//! - [`population`]: the files of a process.
//! - [`search`]: which points are measured.
//!
//! A run drives all processes of this generator's clients over their connections with a thread a processor. A process
//! has one operation outstanding. One that is late works off what it should have done meanwhile, so that the response
//! time, which counts from when an operation was to begin, shows all of a wait, and the service time only the waits of
//! the operations that were under way.

mod call;
mod connection;
mod counters;
mod driver;
mod layout;
pub mod mix;
pub mod population;
pub mod process;
pub mod schedule;
pub mod search;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nfs_wire::v3::{FsinfoOk, Procedure};
use report::result::{ClientResult, Doubt, DoubtKind, MachineUse, Pace, Part, Second};
use report::scenario::limits::{CLIENTS_MAX, CONNECTIONS_MAX, JOB_SETS_MAX};

use self::connection::Connection;
use self::counters::{Clock, OpCounters};
use self::layout::{Layout, process_number};
use self::mix::{PROCESSES, role_of};
use self::process::{Process, Settings, UNIT};
use self::schedule::Schedule;
use crate::client::Identity;
use crate::engine::control::Control;
use crate::engine::job::Job;
use crate::error::Error;
use crate::target::Target;

pub use call::{Call, WriteHead};

/// Thousandths of the usual number of files: the least and the most.
pub const FILE_SCALES: std::ops::RangeInclusive<u32> = 1..=1000;
const SECOND_NS: u64 = 1_000_000_000;

/// Job sets whose files are laid out and whose clients are connected.
#[derive(Debug)]
pub struct Prepared {
    connections: Vec<Connection>,
    clients: Vec<String>,
    per_client: usize,
    seed: u64,
}

impl Prepared {
    /// Lays out the files of this generator's job sets below `plimsoll-bench/eda/`, using again what is there, and
    /// connects its clients. Job sets are dealt to the clients of all generators in turn, a set's processes to its
    /// client's connections. `progress` is told the share done.
    ///
    /// # Errors
    /// A job that asks for what cannot be, a server out of reach or out of protocol, a refused call.
    pub fn new(
        target: &Target,
        identity: &Identity,
        job: &Job,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, Error> {
        check(job)?;
        let sets: Vec<u32> = (0..job.job_sets).filter(|&set| client_of(set, job).is_some()).collect();
        let scale = job.file_scale_thousandths;
        let layout = Layout { target, identity, sets: &sets, scale, seed: job.seed };
        let (populations, info) = layout.set(progress)?;
        let settings = settings(job, &info);
        let (mut connections, clients) = connect(target, identity, job)?;
        let mut assigned = vec![0; job.clients];
        let owners = sets.iter().flat_map(|&set| (0..PROCESSES).map(move |process| (set, process)));
        for ((set, process), population) in owners.zip(populations) {
            let client = client_of(set, job).unwrap_or(0);
            let number = process_number(set, process);
            let schedule = Schedule::new(population.role, job.seed, number);
            let connection = client * job.connections + assigned[client] % job.connections;
            connections[connection].add(Process::new(settings, schedule, population), number)?;
            assigned[client] += 1;
        }
        Ok(Self { connections, clients, per_client: job.connections, seed: job.seed })
    }

    /// Runs the processes from `control`'s beginning to the window's end, and until every call is answered. The
    /// schedule is the same each time.
    ///
    /// # Errors
    /// A lost connection, wrong data, a server that is silent for 30 s. Refused calls are counted instead.
    pub fn run(&mut self, control: &Control) -> Result<Part, Error> {
        let clock = Clock::new(control.begin);
        for worker in self.connections.iter_mut().flat_map(Connection::restart) {
            let (role, _) = role_of(usize::try_from(worker.number % PROCESSES as u64).unwrap_or(0));
            worker.process.restart(Schedule::new(role, self.seed, worker.number));
        }
        let available = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let share = self.connections.len().div_ceil(available.min(self.connections.len()));
        let failed = AtomicBool::new(false);
        let all_counters = thread::scope(|scope| {
            let drive = |connections| {
                let counters = driver::drive(connections, clock, control, &failed);
                if counters.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                counters
            };
            let threads: Vec<_> = self
                .connections
                .chunks_mut(share)
                .map(|connections| scope.spawn(move || drive(connections)))
                .collect();
            let panicked = || Error::Plan("a thread of the generator panicked".to_owned());
            let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| panicked())?);
            // All are joined before the first error is told.
            joined.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>, _>>()
        })?;
        self.part(control, all_counters)
    }

    /// What the threads counted, and what was counted at the connections.
    fn part(&self, control: &Control, all_counters: Vec<OpCounters>) -> Result<Part, Error> {
        let (start, end) = control.window();
        if control.is_stopped() || end == u64::MAX {
            return Ok(Part::default());
        }
        let seconds = (end - start) as f64 / SECOND_NS as f64;
        let (mut all, mut cpu, mut busiest) = (OpCounters::new()?, Duration::ZERO, Duration::ZERO);
        for counters in all_counters {
            let used = counters.cpu.unwrap_or_default();
            (cpu, busiest) = (cpu + used, busiest.max(used));
            all.merge(counters)?;
        }
        let workers = || self.connections.iter().flat_map(|connection| &connection.workers);
        let restarts: u64 = workers().map(|worker| worker.process.restarts).sum();
        let doubts = (restarts > 0).then(|| {
            let text = "the server restarted: its write verifier changed, and uncommitted data may be lost";
            Doubt::new(DoubtKind::Void, text)
        });
        let mut shares: Vec<_> = workers().map(|worker| (worker.number, worker.share(end - start))).collect();
        shares.sort_unstable();
        let processes = shares.into_iter().map(|(_, share)| share).collect();
        Ok(Part {
            started: (control.begin + start) as f64 / SECOND_NS as f64,
            seconds,
            operations: all.operations(),
            wire: wire(&all),
            clients: self.client_results(start, end),
            usage: MachineUse {
                cpu_s: cpu.as_secs_f64(),
                busiest_thread: busiest.as_secs_f64() / seconds,
                late: all.late,
                ..MachineUse::default()
            },
            pace: Some(Pace { processes, absorbed: all.absorbed }),
            errors: all.errors,
            error_details: all.described,
            doubts: doubts.into_iter().collect(),
        })
    }

    fn client_results(&self, start: u64, end: u64) -> Vec<ClientResult> {
        let [first, last] = [start, end].map(|time| usize::try_from(time / SECOND_NS).unwrap_or(0));
        let result = |(name, connections): (&String, &[Connection])| ClientResult {
            name: name.clone(),
            machine: 0,
            seconds: (first..last)
                .map(|second| sum(connections.iter().filter_map(|connection| connection.seconds.get(second))))
                .collect(),
            connections: connections
                .iter()
                .map(|connection| connection.workers.iter().map(|worker| worker.good).sum())
                .collect(),
        };
        self.clients.iter().zip(self.connections.chunks(self.per_client)).map(result).collect()
    }
}

/// Removes the files of all job sets, of whichever generator.
///
/// # Errors
/// The server says no, or nothing.
pub fn clear(target: &Target, identity: &Identity) -> Result<(), Error> {
    Layout { target, identity, sets: &[], scale: 0, seed: 0 }.clear()
}

fn check(job: &Job) -> Result<(), Error> {
    let range = |what: &str, value: u32, range: std::ops::RangeInclusive<u32>| match range.contains(&value) {
        true => Ok(()),
        false => {
            Err(Error::Plan(format!("{what} is {value}; allowed is {} to {}", range.start(), range.end())))
        }
    };
    range("the number of job sets", job.job_sets, 1..=JOB_SETS_MAX)?;
    range("the file scale in thousandths", job.file_scale_thousandths, FILE_SCALES)?;
    let many = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    range("the number of clients", many(job.clients), 1..=many(CLIENTS_MAX))?;
    range("the number of connections", many(job.connections), 1..=many(CONNECTIONS_MAX))?;
    let (first, last) = (job.first_client, job.first_client + job.clients);
    if last > job.clients_total {
        let total = job.clients_total;
        return Err(Error::Plan(format!(
            "clients {first} to {last} are more than the {total} of all generators"
        )));
    }
    Ok(())
}

/// Which of this generator's clients a job set belongs to, if to any.
fn client_of(set: u32, job: &Job) -> Option<usize> {
    let client = usize::try_from(set).unwrap_or(usize::MAX) % job.clients_total;
    client.checked_sub(job.first_client).filter(|&client| client < job.clients)
}

fn settings(job: &Job, info: &FsinfoOk) -> Settings {
    let units = |max: u32| {
        let max = u64::from(max).min(job.transfer) / UNIT as u64 * UNIT as u64;
        u32::try_from(max.max(UNIT as u64)).unwrap_or(u32::MAX)
    };
    Settings {
        read_max: units(info.rtmax),
        write_max: units(info.wtmax),
        stable: crate::load::stable_how(job.stability),
        attribute_cache: job.attribute_cache,
    }
}

/// Connects every client; gives the connections, client by client, and the clients' names.
fn connect(target: &Target, identity: &Identity, job: &Job) -> Result<(Vec<Connection>, Vec<String>), Error> {
    let address = target.address()?;
    let (mut connections, mut names) = (Vec::new(), Vec::new());
    for client in 0..job.clients {
        let machine = format!("{}-{}", identity.machine, job.first_client + client);
        let identity = Identity { machine, ..identity.clone() };
        for _ in 0..job.connections {
            let seed = job.seed ^ (connections.len() as u64 + 1).rotate_left(20);
            connections.push(Connection::new(identity.connect(address)?, &identity, seed)?);
        }
        names.push(identity.machine);
    }
    Ok((connections, names))
}

fn sum<'a>(seconds: impl Iterator<Item = &'a Second>) -> Second {
    seconds.fold(Second::default(), |sum, second| Second {
        reads: sum.reads + second.reads,
        read_bytes: sum.read_bytes + second.read_bytes,
        writes: sum.writes + second.writes,
        write_bytes: sum.write_bytes + second.write_bytes,
        others: sum.others + second.others,
    })
}

/// Calls by the names of their procedures.
fn wire(counters: &OpCounters) -> BTreeMap<String, u64> {
    let name = |procedure| format!("{:?}", Procedure(procedure)).replace("NFSPROC3_", "");
    (0..)
        .zip(counters.wire)
        .filter(|(_, calls)| *calls > 0)
        .map(|(procedure, calls)| (name(procedure), calls))
        .collect()
}
