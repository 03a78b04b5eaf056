//! Runs jobs on threads of their own, and cancels them.
//!
//! A job runs without any lock: the state of its object keeps other changes away, which fail at once.

use super::Service;
use crate::error::{Error, Result};
use crate::job::{Cancelled, Job, JobSpec};
use crate::kind::Kind;
use crate::limits::{JOB_RECORD_MS, JOB_THREADS, REVERT_RETRY_MS};
use crate::name::VolumeName;
use crate::object_locks::Locked;
use crate::operation::{Operation, OperationId, Outcome};
use crate::replication::Transfer;
use crate::snapshot::{Snapshot, SnapshotState};
use crate::store;
use crate::warning::Warning;
use envelope::Bytes;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use vfs::{Pace, Progress, ViewId, VolumeId, panics};

/// The end of a job's run.
pub(super) enum JobEnd {
    Succeeded,
    Transferred(Transfer),
    Cancelled,
    /// The service stops; the next start goes on with it.
    Stopped,
    /// A change of its volume's replication has the storage.
    Waiting,
    Failed(String),
}

impl Service {
    /// Starts the threads that run jobs. They end with [`Service::stop_jobs`], or when the service is dropped.
    pub fn start_jobs(self: &Arc<Self>) -> std::io::Result<()> {
        let mut threads = self.job_threads.lock();
        for number in 1..=JOB_THREADS {
            let (jobs, service) = (Arc::clone(&self.jobs), Arc::downgrade(self));
            let run = move || {
                while let Some(job) = jobs.next() {
                    match service.upgrade() {
                        Some(service) if panics::catch(|| service.run_job(job)).is_err() => {
                            let reason = "a defect in plimsoll; see the log".to_owned();
                            _ = service.end_job(job, JobEnd::Failed(reason));
                        }
                        Some(_) => {}
                        None => jobs.end(job.id),
                    }
                }
            };
            threads.push(std::thread::Builder::new().name(format!("job-{number}")).spawn(run)?);
        }
        Ok(())
    }

    /// Ends the jobs at their next step, and their threads. The next start goes on with the jobs. No policy runs from here on.
    pub fn stop_jobs(&self) {
        self.jobs.close();
        let threads = std::mem::take(&mut *self.job_threads.lock());
        // A thread that panicked has ended too.
        threads.into_iter().for_each(|thread| _ = thread.join());
    }

    /// Runs the jobs that wait, one after the other, on this thread.
    pub fn run_waiting_jobs(&self) {
        while let Some(job) = self.jobs.try_next() {
            self.run_job(job);
        }
    }

    pub(crate) fn enqueue(&self, operation: &Operation) {
        if let Some(spec) = operation.spec {
            self.jobs.push(Job { id: operation.id, spec });
        }
    }

    fn run_job(&self, job: Job) {
        let ended = EndGuard(self, job.id);
        match job.spec {
            JobSpec::Backup(of) => self.run_backup_job(job.id, of),
            JobSpec::DeleteSnapshot { volume, .. } => self.run_deletions(job, ended, VolumeId(volume)),
            _ => {
                let end = self.work(job);
                self.finish_job(job, end);
            }
        }
    }

    /// Deletes a snapshot, and those of its volume whose deletions wait: the storage looks once for what only they need.
    fn run_deletions(&self, first: Job, ended: EndGuard<'_>, volume: VolumeId) {
        let mut jobs = VecDeque::from([(first, ended)]);
        jobs.extend(self.jobs.join_deletions(volume).into_iter().map(|job| (job, EndGuard(self, job.id))));
        if jobs.len() > 1 {
            // All begin, and go on below.
            jobs.retain(|(job, _)| match self.delete_in_storage(*job, &mut |_| ControlFlow::Break(())) {
                JobEnd::Failed(reason) => {
                    self.finish_job(*job, JobEnd::Failed(reason));
                    false
                }
                _ => true,
            });
        }
        while let Some((job, _ended)) = jobs.pop_front() {
            let mut seen = 0;
            let mut pace = self.pace(job.id, 0);
            let end = self.delete_in_storage(job, &mut |progress| {
                if progress.done != seen {
                    seen = progress.done;
                    jobs.iter().for_each(|(other, _)| _ = self.jobs.step(other.id, progress));
                }
                pace(progress)
            });
            let end = if matches!(end, JobEnd::Waiting) { self.again_later(job) } else { end };
            self.finish_job(job, end);
        }
    }

    /// Lets a job wait anew after a moment: the change that has its volume's storage may need this thread.
    fn again_later(&self, job: Job) -> JobEnd {
        if self.jobs.rest(job.id, Duration::from_millis(REVERT_RETRY_MS)).is_continue() {
            self.jobs.push(job);
        }
        if self.jobs.is_cancelled(job.id) { JobEnd::Cancelled } else { JobEnd::Stopped }
    }

    fn finish_job(&self, job: Job, end: JobEnd) {
        // If the store refuses, or the storage does not open, the job is still running there, and the next start goes on
        // with it.
        let ended = self.lock_job(job.spec).and_then(|_locked| self.end_job(job, end));
        if let (Err(error), Ok(Some(volume))) = (ended, self.volume_of(job.spec)) {
            let warning = Warning::Unfinished { volume, reason: error.to_string() };
            self.state().startup_warnings.push(warning);
        }
    }

    fn work(&self, Job { id, spec }: Job) -> JobEnd {
        match spec {
            JobSpec::Revert { volume, view, .. } | JobSpec::Break { volume, view } => {
                self.revert_in_storage(id, VolumeId(volume), ViewId(view))
            }
            JobSpec::Clone { volume, source, view } => {
                self.clone_in_storage(id, VolumeId(volume), VolumeId(source), ViewId(view))
            }
            JobSpec::RestoreFiles { volume, view } => {
                self.restore_in_volume(id, VolumeId(volume), ViewId(view))
            }
            JobSpec::Transfer { relation, .. } => self.transfer(id, relation),
            JobSpec::DeleteSnapshot { .. } | JobSpec::Backup(_) => JobEnd::Stopped,
        }
    }

    /// Locks the volume of a job whose end changes more of it than its snapshots.
    fn lock_job(&self, spec: JobSpec) -> Result<Option<Locked<'_>>> {
        match spec {
            JobSpec::Revert { .. } | JobSpec::Break { .. } | JobSpec::Clone { .. } => {
                let volume = self.volume_of(spec)?;
                volume.map(|volume| self.lock_volume(&volume, None)).transpose()
            }
            // Those of backups lock what they need themselves.
            JobSpec::DeleteSnapshot { .. }
            | JobSpec::RestoreFiles { .. }
            | JobSpec::Transfer { .. }
            | JobSpec::Backup(_) => Ok(None),
        }
    }

    fn delete_in_storage(&self, Job { id, spec }: Job, pace: &mut Pace<'_>) -> JobEnd {
        let JobSpec::DeleteSnapshot { volume, view } = spec else { return JobEnd::Stopped };
        let Some(served) = self.served_by_id(VolumeId(volume)) else {
            // The removal of its volume cancels it.
            return match self.jobs.is_cancelled(id) {
                true => JobEnd::Cancelled,
                false => JobEnd::Failed("the storage of its volume is not open".to_owned()),
            };
        };
        self.jobs.begin(id, self.dependencies.pacer.now());
        if served.check_open().is_err() {
            return JobEnd::Waiting;
        }
        // A storage that has no snapshots does not have this one.
        let Some(storage) = served.snapshot_storage() else { return JobEnd::Succeeded };
        if let Err(error) = self.record_progress(id, &mut 0) {
            return JobEnd::Failed(error.to_string());
        }
        let is_served = || self.served_by_id(VolumeId(volume)).is_some_and(|now| Arc::ptr_eq(&now, &served));
        let deleted = storage.delete(ViewId(view), &mut |progress| {
            // A change of its replication closes the volume, and needs the storage for itself.
            if is_served() { pace(progress) } else { ControlFlow::Break(()) }
        });
        if deleted != Ok(true) && !is_served() {
            return JobEnd::Waiting;
        }
        self.job_end(id, deleted.map_err(Error::storage("delete the snapshot")))
    }

    /// The pace of a job that can be cancelled at each step. Its progress was stored at this time.
    pub(super) fn pace(
        &self,
        id: OperationId,
        mut recorded_ms: u64,
    ) -> impl FnMut(Progress) -> ControlFlow<()> {
        move |progress| {
            self.jobs.step(id, progress)?;
            // The record is for the time after a restart alone.
            _ = self.record_progress(id, &mut recorded_ms);
            self.jobs.pause(id, || self.dependencies.pacer.now());
            ControlFlow::Continue(())
        }
    }

    /// The end of a job whose storage returns whether it is done.
    pub(super) fn job_end(&self, id: OperationId, done: Result<bool>) -> JobEnd {
        match done {
            Ok(true) => JobEnd::Succeeded,
            Ok(false) if self.jobs.is_cancelled(id) => JobEnd::Cancelled,
            Ok(false) => JobEnd::Stopped,
            Err(error) => JobEnd::Failed(error.to_string()),
        }
    }

    /// Stores the progress of a job, if it has not just been stored.
    pub(super) fn record_progress(&self, id: OperationId, recorded_ms: &mut u64) -> Result<()> {
        let now = self.now_ms();
        let Some(progress) = self.jobs.progress(id) else { return Ok(()) };
        if now.abs_diff(*recorded_ms) < JOB_RECORD_MS {
            return Ok(());
        }
        *recorded_ms = now;
        self.change(|store| Ok(store::operation::record(store, id, progress)?))
    }

    fn end_job(&self, Job { id, spec }: Job, end: JobEnd) -> Result<()> {
        let mut transferred = None;
        let outcome = match end {
            JobEnd::Stopped | JobEnd::Waiting => return Ok(()),
            JobEnd::Succeeded => Outcome::Succeeded,
            JobEnd::Transferred(transfer) => {
                transferred = Some(transfer);
                Outcome::Succeeded
            }
            JobEnd::Cancelled => Outcome::Cancelled,
            JobEnd::Failed(reason) => Outcome::Failed(reason),
        };
        match spec {
            JobSpec::DeleteSnapshot { volume, view } => {
                self.end_deletion(id, (VolumeId(volume), ViewId(view)), &outcome)
            }
            JobSpec::Revert { volume, view, size_before } => {
                self.end_revert(id, (VolumeId(volume), ViewId(view)), Bytes(size_before), &outcome, true)
            }
            JobSpec::Break { volume, view } => self.end_break(id, (VolumeId(volume), ViewId(view)), &outcome),
            JobSpec::Clone { volume, .. } => self.end_clone(id, VolumeId(volume), &outcome),
            JobSpec::RestoreFiles { .. } => {
                self.change(|store| self.end_operation(store, id, &outcome).map(drop))
            }
            JobSpec::Backup(of) => match outcome {
                Outcome::Failed(reason) => self.fail_backup_job(id, of, reason),
                _ => Ok(()),
            },
            JobSpec::Transfer { relation, .. } => self.change(|store| {
                if !self.end_operation(store, id, &outcome)? {
                    return Ok(());
                }
                self.record_transfer(store, relation, &outcome, transferred)
            }),
        }
    }

    fn end_deletion(&self, id: OperationId, of: (VolumeId, ViewId), outcome: &Outcome) -> Result<()> {
        let (volume, view) = of;
        self.change(|store| {
            if !self.end_operation(store, id, outcome)? {
                return Ok(());
            }
            match (outcome, store::snapshot::find_view(store, volume, view)?) {
                (Outcome::Succeeded, _) => store::snapshot::delete(store, volume, view)?,
                (Outcome::Failed(reason), Some(snapshot)) => {
                    store::snapshot::update(store, &Snapshot { reason: reason.clone(), ..snapshot })?;
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Ends the operation of a job. False if it has ended: the removal of its volume did that.
    pub(super) fn end_operation(
        &self,
        store: &Connection,
        id: OperationId,
        outcome: &Outcome,
    ) -> Result<bool> {
        let found = store::operation::find(store, id)?;
        let Some(operation) = found.filter(|one| one.outcome == Outcome::Running) else { return Ok(false) };
        let progress = self.jobs.progress(id);
        progress.map_or(Ok(()), |progress| store::operation::record(store, id, progress))?;
        store::operation::end(store, operation, outcome.clone(), self.now_ms())?;
        Ok(true)
    }

    /// Ends a job at its next step. The deletion of a snapshot that has not begun is undone. One that has begun stays where
    /// it is: a new deletion or the next start goes on with it. Other jobs leave things as they were before them; files
    /// that were restored already stay.
    pub fn cancel_operation(&self, id: OperationId) -> Result<Operation> {
        let found = self.operation(id)?;
        let refused = || Error::NotRunning { operation: id.0 };
        let spec = found.spec.filter(|_| found.outcome == Outcome::Running).ok_or_else(refused)?;
        // The end of a restore from a backup locks its volume.
        let volume = if matches!(spec, JobSpec::Backup(_)) { None } else { self.volume_of(spec)? };
        let _locked = volume.as_ref().map(|volume| self.lock_volume(volume, None)).transpose()?;
        match self.jobs.cancel(id) {
            Cancelled::Running => {
                self.change(|store| Ok(store::operation::cancel(store, id)?))?;
            }
            Cancelled::Waiting => match spec {
                JobSpec::DeleteSnapshot { volume, view } => {
                    self.withdraw_deletion(id, VolumeId(volume), ViewId(view))?;
                }
                JobSpec::Backup(of) => self.withdraw_backup_job(id, of)?,
                spec => {
                    self.change(|store| Ok(store::operation::cancel(store, id)?))?;
                    self.end_job(Job { id, spec }, JobEnd::Cancelled)?;
                }
            },
            Cancelled::Gone => return Err(refused()),
        }
        self.operation(id)
    }

    fn withdraw_deletion(&self, id: OperationId, volume: VolumeId, view: ViewId) -> Result<()> {
        self.change(|store| {
            store::operation::cancel(store, id)?;
            let Some(operation) = store::operation::find(store, id)? else { return Ok(()) };
            // Without progress the storage has not been asked, in an earlier run neither.
            if let Some(snapshot) = store::snapshot::find_view(store, volume, view)?
                && operation.progress.is_none()
            {
                let version = snapshot.version + 1;
                let state = SnapshotState::Ready;
                store::snapshot::update(store, &Snapshot { state, version, ..snapshot })?;
            }
            store::operation::end(store, operation, Outcome::Cancelled, self.now_ms())?;
            Ok(())
        })?;
        let found = self.read(|store| Ok(store::volume::find_id(store, volume)?))?;
        match (found, self.served_by_id(volume)) {
            (Some(row), Some(served)) => self.show_snapshots(&row, &served),
            _ => Ok(()),
        }
    }

    /// Ends the unfinished operations on the snapshots of a volume that is gone.
    pub(super) fn end_snapshot_operations(&self, store: &Connection, volume: VolumeId) -> Result<()> {
        for snapshot in store::snapshot::of_volume(store, volume)? {
            if let Some(running) = store::operation::running(store, Kind::Snapshot, &snapshot.full_name())? {
                store::operation::end(store, running, Outcome::Cancelled, self.now_ms())?;
            }
        }
        Ok(())
    }

    /// The first unfinished job that is this.
    pub(super) fn find_job(&self, is_it: impl Fn(JobSpec) -> bool) -> Result<Option<Job>> {
        let jobs = self.read(|store| Ok(store::operation::jobs(store)?))?;
        Ok(jobs.into_iter().find(|job| is_it(job.spec)))
    }

    /// Refuses a change of `thing` while there is a job that is this.
    pub(super) fn check_no_job(
        &self,
        thing: (Kind, &str),
        is_in_the_way: impl Fn(JobSpec) -> bool,
    ) -> Result<()> {
        let (kind, name) = thing;
        match self.find_job(is_in_the_way)? {
            None => Ok(()),
            Some(Job { id, spec }) => {
                Err(Error::UsedByJob { kind, name: name.to_owned(), operation: id.0, doing: spec.doing() })
            }
        }
    }

    pub(super) fn served_by_id(&self, id: VolumeId) -> Option<Arc<vfs::Volume>> {
        let state = self.state();
        state.open.values().find(|open| open.row.id == id).map(|open| Arc::clone(&open.served))
    }

    fn volume_of(&self, spec: JobSpec) -> Result<Option<VolumeName>> {
        let Some(id) = spec.volume() else { return Ok(None) };
        Ok(self.read(|store| Ok(store::volume::find_id(store, id)?))?.map(|volume| volume.name))
    }
}

/// Ends a job in memory, also after a panic.
struct EndGuard<'s>(&'s Service, OperationId);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.jobs.end(self.1);
    }
}
