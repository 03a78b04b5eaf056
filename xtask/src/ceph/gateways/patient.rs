//! A client that connects again and repeats calls until they succeed, as a kernel does, and permits no error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::setup::RECOVERY_MAX;
use crate::ledger::client::{Client, Failure, Handle, How, MountResult, Stable};
use crate::server::Endpoint;

/// `NFS3ERR_JUKEBOX`: ask again.
const JUKEBOX: u32 = 10_008;
/// `NFS3ERR_NOSPC`.
const NO_SPACE: u32 = 28;
const PAUSE: Duration = Duration::from_millis(20);
const DATA_BYTES: usize = 1024;
/// Each directory of a pass has few files, so that all can be checked.
const WORK_PAUSE: Duration = Duration::from_millis(5);

/// A client that makes files, writes and reads them.
pub(super) struct Patient {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Work>,
}

/// The work of a client until it ended.
pub(super) struct Work {
    directory: String,
    files: u64,
    pub(super) longest: Duration,
    /// Calls that were refused because there is no space.
    pub(super) refused: u64,
    complaint: Option<String>,
}

struct Worker {
    endpoint: Endpoint,
    mounted: Option<MountResult>,
    /// A directory and a file of it, by handles of the first connection.
    directory: Handle,
    file: Handle,
    may_refuse: bool,
    last: Instant,
    work: Work,
}

impl Patient {
    /// Starts to work in a new directory. The endpoint may refuse calls for lack of space if `may_refuse`.
    pub(super) fn start(endpoint: &Endpoint, directory: &str, may_refuse: bool) -> anyhow::Result<Self> {
        let mut mounted = Client::mount(endpoint)?;
        let handle = mounted.client.make_directory(&mounted.root, directory, 0o755)?;
        let file = mounted.client.create(&handle, "first", How::Guarded(0o644))?;
        let work = Work {
            directory: directory.to_owned(),
            files: 0,
            longest: Duration::ZERO,
            refused: 0,
            complaint: None,
        };
        let mut worker = Worker {
            endpoint: endpoint.clone(),
            mounted: Some(mounted),
            directory: handle,
            file,
            may_refuse,
            last: Instant::now(),
            work,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while worker.work.complaint.is_none() && !stopped.load(Ordering::SeqCst) {
                worker.work.complaint = worker.step().err().map(|error| error.to_string());
                std::thread::sleep(WORK_PAUSE);
            }
            worker.work
        });
        Ok(Self { stop, thread })
    }

    /// Ends the client after its current step.
    pub(super) fn finish(self) -> anyhow::Result<Work> {
        self.stop.store(true, Ordering::SeqCst);
        let work = self.thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        match &work.complaint {
            Some(complaint) => bail!("a client saw an error: {complaint}"),
            None => Ok(work),
        }
    }
}

impl Work {
    /// Checks all acknowledged data, over a new connection. Returns the number of files.
    pub(super) fn verify(&self, endpoint: &Endpoint) -> anyhow::Result<u64> {
        let mut mounted = Client::mount(endpoint)?;
        let directory = mounted.client.lookup(&mounted.root, &self.directory)?;
        ensure!(self.files > 0, "no operation was acknowledged");
        for number in 0..self.files {
            let file = mounted.client.lookup(&directory, &name(number))?;
            let found = mounted.client.read(&file, 0, u32::try_from(2 * DATA_BYTES)?)?.0;
            ensure!(found == data(number), "acknowledged data of {} is lost", name(number));
        }
        Ok(self.files)
    }
}

impl Worker {
    /// A new file with data, and a change of the first one.
    fn step(&mut self) -> anyhow::Result<()> {
        let (directory, first, number) = (self.directory.clone(), self.file.clone(), self.work.files);
        let bytes = data(number);
        let file = self
            .patiently("CREATE", |client| client.create(&directory, &name(number), How::Unchecked(0o644)))?;
        self.patiently("WRITE", |client| client.write(&file, 0, &bytes, Stable::FileSync).map(drop))?;
        self.patiently("WRITE of the first file", |client| {
            client.write(&first, 0, &bytes, Stable::FileSync).map(drop)
        })?;
        let count = u32::try_from(DATA_BYTES)?;
        let found = self.patiently("READ", |client| client.read(&first, 0, count))?.0;
        ensure!(found == bytes, "a file has other data than was written just before");
        self.work.files += 1;
        Ok(())
    }

    /// Repeats a call until it succeeds. All calls here may be performed twice.
    fn patiently<T>(
        &mut self,
        name: &str,
        mut call: impl FnMut(&mut Client) -> Result<T, Failure>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + RECOVERY_MAX;
        loop {
            let outcome = match &mut self.mounted {
                Some(mounted) => call(&mut mounted.client),
                None => match Client::mount(&self.endpoint) {
                    Ok(mounted) => call(&mut self.mounted.insert(mounted).client),
                    Err(failure) => Err(failure),
                },
            };
            match outcome {
                Ok(answer) => {
                    let now = Instant::now();
                    self.work.longest = self.work.longest.max(now - self.last);
                    self.last = now;
                    return Ok(answer);
                }
                Err(Failure::Lost(_)) => self.mounted = None,
                Err(Failure::Status(JUKEBOX)) => {}
                Err(Failure::Status(NO_SPACE)) if self.may_refuse => self.work.refused += 1,
                Err(failure) => bail!("{name} of file {}: {failure}", self.work.files),
            }
            ensure!(Instant::now() < deadline, "{name} is not answered");
            std::thread::sleep(PAUSE);
        }
    }
}

fn name(number: u64) -> String {
    format!("file-{number}")
}

fn data(number: u64) -> Vec<u8> {
    let mut data = format!("data {number}").into_bytes();
    data.resize(DATA_BYTES, b'-');
    data
}
