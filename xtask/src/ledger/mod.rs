//! A ledger of acknowledgments: a random load over NFSv3 or SMB that records all acknowledged operations, and a check
//! over NFSv3, after a crash, that their effects exist.

pub(crate) mod client;
mod model;
mod smb;
pub(crate) mod v4;
mod verify;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::random::mix;
use crate::server::Endpoint;
use client::Client;
pub(crate) use smb::Share;
use verify::Snapshot;
use worker::{Connection, Worker};

/// A crash under a load with fewer acknowledged operations proves too little.
const ACKNOWLEDGED_MIN: usize = 300;
/// A load runs up to this much longer, until it has that many and all required kinds of operations.
const LOAD_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Ledger {
    workers: Vec<Worker>,
}

pub(crate) struct Load {
    threads: Vec<JoinHandle<Worker>>,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    stop: AtomicBool,
    acknowledged: Mutex<BTreeMap<&'static str, usize>>,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    acknowledged: BTreeMap<&'static str, usize>,
    names_checked: usize,
    problems: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct LostOperation(String);

impl fmt::Display for LostOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LostOperation {}

impl Ledger {
    /// Starts `workers` connections, each in a new directory of the export, named after `round` and its number. Every
    /// second one uses SMB if the export is also a share. Every operation is written to `log`, for the analysis of
    /// failures.
    pub(crate) fn start(
        endpoint: &Endpoint,
        share: Option<&Share>,
        round: u32,
        workers: u32,
        seed: u64,
        log: &Path,
    ) -> anyhow::Result<Load> {
        let log = Arc::new(Mutex::new(BufWriter::new(File::create(log)?)));
        let progress = Arc::new(Progress::default());
        let mut threads = Vec::new();
        for number in 0..workers {
            let connection = match share {
                Some(share) if number % 2 == 1 => Connection::Smb(share.connect()?),
                _ => Connection::Nfs(Client::mount(endpoint)?),
            };
            let seed = mix(seed ^ u64::from(number));
            let mut worker = Worker::new(connection, format!("round{round}-worker{number}"), seed)?;
            let (progress, log) = (Arc::clone(&progress), Arc::clone(&log));
            threads.push(std::thread::spawn(move || {
                worker.work(&progress, &log);
                worker
            }));
        }
        Ok(Load { threads, progress })
    }

    /// The counts of the report are those of the last ledger.
    pub(crate) fn verify_all(ledgers: &[Self], endpoint: &Endpoint) -> anyhow::Result<Report> {
        let mut report = Report::default();
        let mut mounted = Client::mount(endpoint)?;
        for worker in ledgers.iter().flat_map(|ledger| &ledger.workers) {
            let directory = match mounted.client.lookup(&mounted.root, &worker.directory) {
                Ok(directory) => directory,
                Err(client::Failure::Status(status)) => {
                    report.problems.push(format!("{} has status {status}", worker.directory));
                    continue;
                }
                Err(failure) => return Err(failure.into()),
            };
            report.verify(worker, &mut mounted.client, directory).context(worker.directory.clone())?;
        }
        // Earlier rounds have counted and reported the other ledgers.
        for worker in ledgers.last().iter().flat_map(|ledger| &ledger.workers) {
            report.problems.extend(worker.complaints.iter().cloned());
            for kind in &worker.acknowledged {
                *report.acknowledged.entry(kind).or_default() += 1;
            }
        }
        Ok(report)
    }
}

impl Load {
    /// Lets the load run for `duration`, and longer on a slow machine: until enough operations, and some of each of
    /// these kinds, are acknowledged to make the crash meaningful.
    pub(crate) fn run_for(&self, duration: Duration, kinds: &[&str]) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < duration || !self.progress.is_enough(kinds) {
            if start.elapsed() > duration + LOAD_MAX {
                // A later load may have the missing kinds.
                let (acknowledged, seconds) = (self.progress.total(), start.elapsed().as_secs());
                ensure!(
                    acknowledged >= ACKNOWLEDGED_MIN,
                    "only {acknowledged} operations were acknowledged in {seconds} s"
                );
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits for the workers, which end with their connections, or after their current operation.
    pub(crate) fn finish(self) -> anyhow::Result<Ledger> {
        self.progress.stop.store(true, Ordering::Relaxed);
        let workers: Option<Vec<Worker>> =
            self.threads.into_iter().map(|thread| thread.join().ok()).collect();
        Ok(Ledger { workers: workers.context("a worker panicked")? })
    }
}

impl Progress {
    fn acknowledged(&self) -> MutexGuard<'_, BTreeMap<&'static str, usize>> {
        self.acknowledged.lock().expect("no worker panics while it counts")
    }

    fn total(&self) -> usize {
        self.acknowledged().values().sum()
    }

    fn is_enough(&self, kinds: &[&str]) -> bool {
        self.total() >= ACKNOWLEDGED_MIN && kinds.iter().all(|kind| self.acknowledged().contains_key(*kind))
    }
}

impl Report {
    fn verify(
        &mut self,
        worker: &Worker,
        client: &mut Client,
        directory: Vec<u8>,
    ) -> Result<(), client::Failure> {
        let snapshot = Snapshot::take(client, directory)?;
        self.names_checked += snapshot.len();
        let candidates = worker.tree.candidates(worker.in_flight.as_ref());
        // The operation in flight may have happened or not: the better matching tree is reported. Its handles are
        // checked too: a RENAME without a reply may have replaced a file.
        let verdicts = candidates.iter().map(|tree| (snapshot.problems(tree), tree));
        let mut problems = Vec::new();
        if let Some((best, tree)) = verdicts.min_by_key(|(problems, _)| problems.len()) {
            problems = best;
            problems.extend(snapshot.stale_handles(client, tree)?);
        }
        if let Some(file) = snapshot.first_file() {
            // An unchanged verifier would tell clients that their unstable writes still exist (RFC 1813 §3.3.21).
            let verifier = client.commit(file)?;
            if worker.verifier == Some(verifier) {
                problems.push("the write verifier did not change over the restart".into());
            }
        }
        self.problems.extend(problems.into_iter().map(|problem| format!("{}: {problem}", worker.directory)));
        Ok(())
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, count) in other.acknowledged {
            *self.acknowledged.entry(kind).or_default() += count;
        }
        self.names_checked += other.names_checked;
        self.problems.extend(other.problems);
    }

    pub(crate) fn require_clean(&self, logs: &Path) -> anyhow::Result<()> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let first: Vec<&str> = self.problems.iter().take(30).map(String::as_str).collect();
        let (count, logs) = (self.problems.len(), logs.display());
        Err(LostOperation(format!("{count} problems, logs in {logs}:\n{}", first.join("\n"))).into())
    }

    pub(crate) fn missing(&self, share: Option<&Share>) -> Vec<&'static str> {
        let smb = if share.is_some() { &model::KINDS_OF_SMB[..] } else { &[] };
        let kinds = model::KINDS_OF_NFS.iter().chain(smb).copied();
        kinds.filter(|kind| !self.acknowledged.contains_key(kind)).collect()
    }

    /// Fails if some kind of operation was never acknowledged: the run then proves nothing about it.
    pub(crate) fn require_every_kind(&self, share: Option<&Share>) -> anyhow::Result<()> {
        let missing = self.missing(share);
        if missing.is_empty() { Ok(()) } else { bail!("never acknowledged: {}", missing.join(", ")) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.acknowledged.values().sum();
        write!(f, "{total} operations acknowledged, {} names checked, ", self.names_checked)?;
        let kinds: Vec<String> =
            self.acknowledged.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        write!(f, "{} problems ({})", self.problems.len(), kinds.join(", "))
    }
}
