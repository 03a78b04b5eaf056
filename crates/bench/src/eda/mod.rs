//! `eda-blend`: the mix of an EDA design flow, on a schedule.
//!
//! - [`mix`]: the definition of a job set.
//! - [`schedule`]: the operations of its processes, with their times.
//! - [`process`]: the calls of a process, one at a time, without sockets; `numbers`: their names; `opens`: its open files
//!   over NFSv4 and SMB.
//! - `clients`: connections, and sessions over NFSv4 and SMB.
//! - [`population`]: the files of a process.
//! - [`search`]: the choice of the points to measure.
//!
//! A run drives all processes of this generator's clients over their connections, with a thread for each processor. A
//! process has one operation at a time. A late process works off its backlog. So the response time, from the due time,
//! includes every wait, and the service time only those of operations under way.

mod clients;
mod generator;
mod layout;
pub(crate) mod mix;
mod numbers;
mod opens;
mod population;
mod process;
mod schedule;
pub(crate) mod search;

use report::result::{
    Caveat, CaveatKind, ClientResult, Distribution, MachineUse, Operation as Counted, Pace, Part,
};
use report::scenario::limits::{CLIENTS_MAX, CONNECTIONS_MAX, JOB_SETS_MAX};
use report::units::show_size;

use self::clients::{Connected, EdaClient, connect};
use self::generator::{ProcessGenerator, Worker};
use self::layout::{Layout, process_number};
use self::mix::{Operation, PROCESSES, role_of};
use self::process::{Process, Settings, UNIT};
use self::schedule::Schedule;
use crate::driver;
use crate::driver::connection::Connection;
use crate::driver::counters::{Clock, OpCounters, SECOND_NS};
use crate::error::Error;
use crate::job::Control;
use crate::job::{Job, LayoutProgress};
use wire_client::nfs4::lease::LeaseKeeper;
use wire_client::{Identity, TransferLimits};
use wire_client::{Target, Version};

pub(crate) const FILE_SCALES: std::ops::RangeInclusive<u32> = 1..=1000;

#[derive(Debug)]
pub struct Prepared {
    /// Declared before the sessions: connections close first.
    connections: Vec<Connection<ProcessGenerator>>,
    _leases: LeaseKeeper,
    clients: Vec<EdaClient>,
    version: Version,
    per_client: usize,
    seed: u64,
}

impl Prepared {
    /// Lays out the files of this generator's job sets below `plimsoll-bench/eda/`, reusing existing files, and
    /// connects its clients. Job sets go to the clients of all generators in turn, a set's processes to its client's
    /// connections. `progress` receives the share done.
    ///
    /// # Errors
    /// A job that asks for what cannot be, a server out of reach or out of protocol, a refused call.
    pub fn new(
        target: &Target,
        identity: &Identity,
        job: &Job,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        check(job)?;
        let sets: Vec<u32> = (0..job.job_sets).filter(|&set| client_of(set, job).is_some()).collect();
        let scale = job.file_scale_thousandths;
        let layout = Layout { target, identity, sets: &sets, scale, seed: job.seed };
        let (populations, info) = layout.set(progress)?;
        let settings = settings(target.version, job, &info)?;
        let mut workers: Vec<Vec<Worker>> = Vec::new();
        workers.resize_with(job.clients * job.connections, Vec::new);
        let mut assigned = vec![0; job.clients];
        let owners = sets.iter().flat_map(|&set| (0..PROCESSES).map(move |process| (set, process)));
        for ((set, process), population) in owners.zip(populations) {
            let client = client_of(set, job).unwrap_or(0);
            let number = process_number(set, process);
            let schedule = Schedule::new(population.role, job.seed, number);
            let process = Process::new(settings, schedule, population);
            let connection = client * job.connections + assigned[client] % job.connections;
            workers[connection].push(Worker::new(process, number));
            assigned[client] += 1;
        }
        let Connected { connections, clients, leases } = connect(target, identity, job, workers)?;
        let version = target.version;
        Ok(Self {
            connections,
            clients,
            _leases: leases,
            version,
            per_client: job.connections,
            seed: job.seed,
        })
    }

    /// Runs the processes from `control`'s beginning to the window's end, and until every call is answered. Each run
    /// repeats the same schedule.
    ///
    /// # Errors
    /// A lost connection, wrong data, a server that is silent for 30 s. Refused calls are counted instead.
    pub fn run(&mut self, control: &Control) -> Result<Part, Error> {
        let mut counters = OpCounters::new(Clock::new(control), self.clients.len(), self.version);
        Operation::ALL.iter().try_for_each(|&operation| counters.expect(operation as usize, true))?;
        for worker in self.connections.iter_mut().flat_map(|connection| connection.generator.restart()) {
            let (role, _) = role_of(usize::try_from(worker.number % PROCESSES as u64).unwrap_or(0));
            worker.process.restart(Schedule::new(role, self.seed, worker.number));
        }
        let threads = driver::threads(self.connections.len(), None);
        let counters = driver::run(&mut self.connections, threads, control, counters)?;
        Ok(self.part(control, counters))
    }

    fn part(&self, control: &Control, counters: OpCounters) -> Part {
        let (start, end) = control.window();
        if control.is_stopped() || end == u64::MAX {
            return Part::default();
        }
        let seconds = (end - start) as f64 / SECOND_NS as f64;
        let generators = || self.connections.iter().map(|connection| &connection.generator);
        let workers = || generators().flat_map(|generator| &generator.workers);
        let restarts: u64 = workers().map(|worker| worker.process.restarts).sum();
        let caveats = (restarts > 0).then(|| {
            let text = "the server restarted: its write verifier changed, and uncommitted data may be lost";
            Caveat::new(CaveatKind::Void, text)
        });
        let mut shares: Vec<_> = workers().map(|worker| (worker.number, worker.share(end - start))).collect();
        shares.sort_unstable();
        let processes = shares.into_iter().map(|(_, share)| share).collect();
        let absorbed = generators().map(|generator| generator.absorbed).sum();
        Part {
            started: (control.begin + start) as f64 / SECOND_NS as f64,
            seconds,
            operations: operations(&counters),
            wire: counters.wire(),
            clients: self.client_results(&counters),
            usage: MachineUse {
                cpu_s: counters.cpu.as_secs_f64(),
                busiest_thread: counters.busiest.as_secs_f64() / seconds,
                late: counters.late,
                ..MachineUse::default()
            },
            pace: Some(Pace { processes, absorbed }),
            errors: counters.errors,
            error_details: counters.described,
            caveats: caveats.into_iter().collect(),
        }
    }

    fn client_results(&self, counters: &OpCounters) -> Vec<ClientResult> {
        let good = |connection: &Connection<ProcessGenerator>| {
            connection.generator.workers.iter().map(|worker| worker.good).sum()
        };
        let clients = self.clients.iter().zip(self.connections.chunks(self.per_client)).enumerate();
        let result = |(client, (known, connections)): (usize, (&EdaClient, &[Connection<_>]))| ClientResult {
            name: known.name.clone(),
            machine: 0,
            endpoint: known.endpoint.clone(),
            seconds: counters.window(client),
            connections: connections.iter().map(good).collect(),
        };
        clients.map(result).collect()
    }
}

fn operations(counters: &OpCounters) -> Vec<Counted> {
    let counted = |operation: &Operation| {
        let counts = counters.operation(*operation as usize)?;
        Some(Counted {
            name: operation.name().to_owned(),
            direction: operation.direction(),
            ops: counts.service.len(),
            bytes: counts.bytes,
            service: Distribution::from(&counts.service),
            response: counts.response.as_ref().map(Distribution::from),
        })
    };
    Operation::ALL.iter().filter_map(counted).collect()
}

/// Covers all job sets of all generators.
///
/// # Errors
/// The server refuses, or does not answer.
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

/// `None` if the job set belongs to another generator.
fn client_of(set: u32, job: &Job) -> Option<usize> {
    let client = usize::try_from(set).unwrap_or(usize::MAX) % job.clients_total;
    client.checked_sub(job.first_client).filter(|&client| client < job.clients)
}

fn settings(version: Version, job: &Job, info: &TransferLimits) -> Result<Settings, Error> {
    let most = u64::from(info.read_max.min(info.write_max));
    if let Some(gather) = job.gather.filter(|gather| *gather > most || !gather.is_multiple_of(UNIT as u64)) {
        let (gather, most) = (show_size(gather), show_size(most));
        return Err(Error::Plan(format!(
            "transfers are {gather}; allowed are multiples of 4 KiB, on this server up to {most}"
        )));
    }
    let units = |max: u32| {
        let max = u64::from(max).min(job.transfer) / UNIT as u64 * UNIT as u64;
        u32::try_from(max.max(UNIT as u64)).unwrap_or(u32::MAX)
    };
    Ok(Settings {
        version,
        read_max: units(info.read_max),
        write_max: units(info.write_max),
        stable: crate::load::stable_how(job.stability),
        attribute_cache: job.attribute_cache,
        gather: job.gather.and_then(|gather| u32::try_from(gather).ok()),
    })
}
