//! Lays out the files of the job sets, below a directory of the export.
//!
//! ```text
//! plimsoll-bench/eda/s07/f0/d03/f42     file 423 of the eighth job set's first frontend process
//!                       /f0/new/n17     an empty file made in a run, new/d18 a directory
//!                       /b1/d04/f99     file 499 of its second backend process
//! ```
//!
//! Many synchronous clients work in parallel, each on a directory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nfs_wire::v3::{StableHow, Status};

use super::mix::{PROCESSES, Role, role_of};
use super::population::{Name, Population, SPARE};
use super::process::UNIT;
use crate::error::Error;
use crate::job::LayoutProgress;
use crate::load::go_on;
use crate::pattern::{self, FileOffset, Payload};
use wire_client::Target;
use wire_client::{Client, DirEntry, Handle, Identity, TransferLimits};

/// A directory of the export; it holds everything.
const TOP: &str = "plimsoll-bench";
const EDA: &str = "eda";
/// A process's directory for empty files and directories.
const SCRATCH: &str = "new";
const CLIENTS_MAX: usize = 32;
/// Small enough that the calls in flight end soon after a stop, even on a slow volume.
const WRITE_MAX: u32 = 256 << 10;
/// The weight of a file in the progress, besides its bytes.
const FILE_COST: u64 = 16 << 10;
const PROGRESS: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'a> {
    pub(super) target: &'a Target,
    pub(super) identity: &'a Identity,
    pub(super) sets: &'a [u32],
    pub(super) scale: u32,
    pub(super) seed: u64,
}

#[derive(Debug)]
struct ProcessDirs {
    set: u32,
    process: usize,
    directories: Vec<Handle>,
    scratch: Handle,
}

#[derive(Debug)]
struct DirectoryFiller<'a> {
    client: &'a mut Client,
    role: &'static Role,
    transfer: usize,
    seed: u64,
    payload: Option<Payload>,
    /// Progress of all fillers: bytes of files, and [`FILE_COST`] for each file.
    done: &'a AtomicU64,
    stop: &'a AtomicBool,
}

/// Unique among all job sets.
pub(super) fn process_number(set: u32, process: usize) -> u64 {
    u64::from(set) * PROCESSES as u64 + process as u64
}

impl Layout<'_> {
    /// Creates missing and wrong files. Returns the files of the processes, set by set, and the server's
    /// limits.
    pub(super) fn set(
        &self,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(Vec<Population>, TransferLimits), Error> {
        let mut client = Client::mount(self.target, self.identity)?;
        let info = client.limits()?;
        let root = client.root();
        let top = client.make_dir(&root, TOP, 0o755)?;
        let eda = client.make_dir(&top, EDA, 0o755)?;
        let processes: Vec<_> =
            self.sets.iter().flat_map(|&set| (0..PROCESSES).map(move |process| (set, process))).collect();
        let stop = AtomicBool::new(false);
        let mut start = || progress(LayoutProgress::share(0.0));
        let all_dirs = self.in_parallel(&processes, &stop, &mut start, |client, &(set, process)| {
            ProcessDirs::make(client, &eda, set, process)
        })?;
        let directories: Vec<_> =
            all_dirs.iter().flat_map(|dirs| (0..dirs.directories.len()).map(move |at| (dirs, at))).collect();
        let cost = |dirs: &ProcessDirs| {
            dirs.role().files_at(self.scale) as u64 * (dirs.role().file_bytes + FILE_COST)
        };
        let (done, all) = (AtomicU64::new(0), all_dirs.iter().map(cost).sum::<u64>());
        let transfer = usize::try_from(info.write_max.min(WRITE_MAX)).unwrap_or(0).max(UNIT) / UNIT * UNIT;
        let mut tell = || {
            let done = done.load(Ordering::Relaxed) as f64 / all.max(1) as f64;
            progress(LayoutProgress::share(done))
        };
        let filled = self.in_parallel(&directories, &stop, &mut tell, |client, &(dirs, at)| {
            let seed = self.seed ^ dirs.number(at).rotate_left(32);
            let filler = DirectoryFiller {
                client,
                role: dirs.role(),
                transfer,
                seed,
                payload: None,
                done: &done,
                stop: &stop,
            };
            filler.fill(dirs, at, self.scale)
        })?;
        let mut filled = filled.into_iter();
        let populations =
            all_dirs.into_iter().map(|dirs| dirs.population(self.scale, filled.by_ref())).collect();
        Ok((populations, info))
    }

    /// Covers all job sets of all generators.
    pub(super) fn clear(&self) -> Result<(), Error> {
        let mut client = Client::mount(self.target, self.identity)?;
        let top = match client.walk(TOP) {
            Err(refused) if refused.is(Status::NOENT) => return Ok(()),
            found => found?,
        };
        let eda = match client.lookup(&top, EDA) {
            Err(refused) if refused.is(Status::NOENT) => return Ok(()),
            found => found?,
        };
        let sets = client.list(&eda)?;
        self.in_parallel(&sets, &AtomicBool::new(false), &mut || Ok(()), |client, set| {
            remove_tree(client, &eda, set)
        })?;
        Ok(client.remove_dir(&top, EDA)?)
    }

    /// Runs all jobs with many clients. Returns the results in the jobs' order. Calls `tell` at intervals; its error sets
    /// `stop`.
    fn in_parallel<J: Sync, R: Send>(
        &self,
        jobs: &[J],
        stop: &AtomicBool,
        tell: &mut dyn FnMut() -> Result<(), Error>,
        work: impl Fn(&mut Client, &J) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut client = Client::mount(self.target, self.identity)?;
            let mut results = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { return Ok(results) };
                go_on(stop)?;
                match work(&mut client, job) {
                    Ok(result) => results.push((at, result)),
                    Err(wrong) => {
                        // Stops the other clients.
                        next.store(jobs.len(), Ordering::Relaxed);
                        return Err(wrong);
                    }
                }
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..CLIENTS_MAX.min(jobs.len())).map(|_| scope.spawn(worker)).collect();
            let mut told = Ok(());
            while threads.iter().any(|thread| !thread.is_finished()) {
                told = told.and_then(|()| tell());
                stop.fetch_or(told.is_err(), Ordering::Relaxed);
                thread::sleep(PROGRESS);
            }
            let mut results = Vec::with_capacity(jobs.len());
            for thread in threads {
                let done =
                    thread.join().map_err(|_| Error::Plan("a thread of the layout panicked".to_owned()))?;
                results.extend(match (&told, done) {
                    (Ok(()), done) => done?,
                    (Err(_), _) => Vec::new(),
                });
            }
            told?;
            results.sort_by_key(|(at, _)| *at);
            Ok(results.into_iter().map(|(_, result)| result).collect())
        })
    }
}

impl ProcessDirs {
    /// Creates the directories, and resets the scratch directory to its initial state.
    fn make(client: &mut Client, eda: &Handle, set: u32, process: usize) -> Result<Self, Error> {
        let (role, number) = role_of(process);
        let set_dir = client.make_dir(eda, Name::new(b's', set).text(), 0o755)?;
        let dirs = client.make_dir(&set_dir, &format!("{}{number}", role.letter), 0o755)?;
        let directories = (0..)
            .take(role.directories)
            .map(|at| client.make_dir(&dirs, Name::new(b'd', at).text(), 0o755))
            .collect::<Result<_, _>>()?;
        let scratch = client.make_dir(&dirs, SCRATCH, 0o755)?;
        let spare: Vec<Name> = (0..SPARE).map(|serial| Name::new(b'n', serial)).collect();
        for listed in client.list(&scratch)? {
            if spare.iter().all(|name| name.bytes() != listed.name) {
                remove_tree(client, &scratch, &listed)?;
            }
        }
        for name in spare {
            client.create(&scratch, name.text(), 0o644)?;
        }
        Ok(Self { set, process, directories, scratch })
    }

    fn role(&self) -> &'static Role {
        role_of(self.process).0
    }

    /// The number of a file in its data: unique over all job sets, and equal at any scale.
    fn number(&self, file: usize) -> u64 {
        process_number(self.set, self.process) * 1000 + file as u64
    }

    fn position(&self, file: usize, offset: u64) -> FileOffset {
        FileOffset { file: u32::try_from(self.number(file)).unwrap_or(u32::MAX), offset }
    }

    fn population(self, scale: u32, filled: &mut impl Iterator<Item = Vec<Handle>>) -> Population {
        let role = self.role();
        let mut directories: Vec<_> =
            filled.take(role.directories).map(|handles| handles.into_iter()).collect();
        let files = (0..role.files_at(scale)).filter_map(|file| directories[file % role.directories].next());
        let files = files.collect();
        Population::new(role, self.position(0, 0).file, self.directories, self.scratch, files)
    }
}

impl DirectoryFiller<'_> {
    /// Returns the handles in the order of the file numbers.
    fn fill(mut self, dirs: &ProcessDirs, at: usize, scale: u32) -> Result<Vec<Handle>, Error> {
        let directory = &dirs.directories[at];
        let listed = self.client.list(directory)?;
        let mut existing: HashMap<_, _> = listed.into_iter().map(|one| (one.name.clone(), one)).collect();
        let mut handles = Vec::new();
        for file in (at..self.role.files_at(scale)).step_by(self.role.directories) {
            go_on(self.stop)?;
            let name = Name::new(b'f', u32::try_from(file / self.role.directories).unwrap_or(u32::MAX));
            let position = dirs.position(file, 0);
            let found = match existing.remove(name.bytes()) {
                // Checks the content of one file in each directory.
                Some(listed) => self.take_usable(directory, listed, position, handles.is_empty())?,
                None => None,
            };
            handles.push(match found {
                Some(handle) => handle,
                None => self.make(directory, &name, position)?,
            });
            self.done.fetch_add(FILE_COST, Ordering::Relaxed);
        }
        Ok(handles)
    }

    /// Removes an unusable file and returns `None`.
    fn take_usable(
        &mut self,
        directory: &Handle,
        listed: DirEntry,
        position: FileOffset,
        look: bool,
    ) -> Result<Option<Handle>, Error> {
        let name = String::from_utf8_lossy(&listed.name).into_owned();
        let handle = match listed.handle {
            Some(handle) => handle,
            None => self.client.lookup(directory, &name)?,
        };
        let attributes = match listed.attributes {
            Some(attributes) => attributes,
            None => self.client.attributes(&handle)?,
        };
        if attributes.size == self.role.file_bytes && (!look || self.verify(&handle, position)?) {
            self.done.fetch_add(self.role.file_bytes, Ordering::Relaxed);
            return Ok(Some(handle));
        }
        self.client.remove(directory, &name)?;
        Ok(None)
    }

    fn verify(&mut self, file: &Handle, position: FileOffset) -> Result<bool, Error> {
        let count = u32::try_from(UNIT).unwrap_or(0);
        let chunk = self.client.read(file, position.offset, count)?;
        Ok(pattern::verify(chunk.data, UNIT, position, None).is_ok() && chunk.data.len() == UNIT)
    }

    fn make(&mut self, directory: &Handle, name: &Name, position: FileOffset) -> Result<Handle, Error> {
        let file = self.client.create(directory, name.text(), 0o644)?;
        let filled = self.fill_file(&file, name, position);
        if let Err(Error::Stopped) = filled {
            // The next run must not find a part of a file. Its size would give it away if this fails.
            let _ = self.client.remove(directory, name.text());
        }
        filled.map(|()| file)
    }

    fn fill_file(&mut self, file: &Handle, name: &Name, mut position: FileOffset) -> Result<(), Error> {
        let payload = self.payload.get_or_insert_with(|| Payload::new(self.transfer, UNIT, self.seed));
        let mut verf = None;
        while position.offset < self.role.file_bytes {
            go_on(self.stop)?;
            payload.stamp(position, 0);
            let rest = usize::try_from(self.role.file_bytes - position.offset).unwrap_or(usize::MAX);
            let data = &payload.bytes()[..rest.min(self.transfer)];
            let written = self.client.write(file, position.offset, data, StableHow::Unstable)?;
            // Whole units only, so that the next WRITE begins with one.
            let count = u64::from(written.count) / UNIT as u64 * UNIT as u64;
            if count == 0 || *verf.get_or_insert(written.verf) != written.verf {
                return Err(Error::Protocol(format!(
                    "the server restarted, or wrote {} bytes only, while {} was written",
                    written.count,
                    name.text()
                )));
            }
            position.offset += count;
            self.done.fetch_add(count, Ordering::Relaxed);
        }
        if verf != Some(self.client.commit(file)?) {
            return Err(Error::Protocol(format!(
                "the server restarted before {} was committed",
                name.text()
            )));
        }
        Ok(())
    }
}

fn remove_tree(client: &mut Client, directory: &Handle, listed: &DirEntry) -> Result<(), Error> {
    let name = String::from_utf8_lossy(&listed.name);
    let handle = match &listed.handle {
        Some(handle) => handle.clone(),
        None => client.lookup(directory, &name)?,
    };
    let attributes = match listed.attributes {
        Some(attributes) => attributes,
        None => client.attributes(&handle)?,
    };
    if !attributes.is_directory {
        return Ok(client.remove(directory, &name)?);
    }
    for inner in client.list(&handle)? {
        remove_tree(client, &handle, &inner)?;
    }
    Ok(client.remove_dir(directory, &name)?)
}
