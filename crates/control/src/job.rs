//! Jobs: operations that take long. They run on threads of their own, show their progress, and go on after a restart.
//!
//! The table of operations is their journal. [`Jobs`] has those that wait for a thread or run now.

use crate::job_backup::BackupJob;
use crate::limits::{JOB_PAUSE_MS_MAX, JOB_PAUSE_MS_MIN, VAULT_JOBS_MAX};
use crate::operation::OperationId;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::MutexGuard;
use std::time::Duration;
use vfs::qos::Nanos;
use vfs::sync::{Condvar, Mutex};
use vfs::{Progress, ViewId, VolumeId};

/// The work of a job: all that a later run needs to go on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobSpec {
    DeleteSnapshot {
        volume: u64,
        view: u32,
    },
    /// Replaces the files of a volume with those of its snapshot. If it fails, the volume has its size of before.
    Revert {
        volume: u64,
        view: u32,
        size_before: u64,
    },
    /// Takes the destination of a replication back to its last point, and breaks the replication.
    Break {
        volume: u64,
        view: u32,
    },
    /// Makes a volume from a snapshot of another one.
    Clone {
        volume: u64,
        source: u64,
        view: u32,
    },
    /// Restores files of a snapshot in its volume. The files are in a table of their own.
    RestoreFiles {
        volume: u64,
        view: u32,
    },
    /// Takes the destination of a replication to the next point.
    Transfer {
        volume: u64,
        relation: u64,
    },
    Backup(BackupJob),
}

/// The progress of a job that has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobProgress {
    pub done: u64,
    /// `None`: unknown.
    pub total: Option<u64>,
    /// The counted things.
    pub unit: &'static str,
    /// The speed of this run; `None` in its first second, or if it does not run.
    pub per_second: Option<u64>,
}

impl JobProgress {
    /// The seconds that the rest takes at the present speed.
    pub fn seconds_left(&self) -> Option<u64> {
        let speed = self.per_second.filter(|&speed| speed > 0)?;
        Some(self.total?.saturating_sub(self.done).div_ceil(speed))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: OperationId,
    pub(crate) spec: JobSpec,
}

#[derive(Default)]
pub(crate) struct Jobs {
    state: Mutex<JobsState>,
    changed: Condvar,
}

#[derive(Default)]
struct JobsState {
    waiting: VecDeque<Job>,
    running: HashMap<OperationId, RunningJob>,
    /// The service stops: no job begins, and those that run end at their next step.
    is_closed: bool,
}

struct RunningJob {
    spec: JobSpec,
    progress: Option<JobProgress>,
    is_cancelled: bool,
    /// Whether it has done what cannot be undone, and can only be finished.
    is_final: bool,
    begun: Nanos,
    /// The time of the last step.
    stepped: Nanos,
}

/// The state of a job that is to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The job waited for a thread, and is withdrawn.
    Waiting,
    /// The job ends at its next step.
    Running,
    /// The job has ended, belongs to another run, or can only be finished.
    Gone,
}

impl JobSpec {
    /// The volume whose snapshot it deletes.
    fn deletes_in(&self) -> Option<VolumeId> {
        match *self {
            Self::DeleteSnapshot { volume, .. } => Some(VolumeId(volume)),
            _ => None,
        }
    }

    pub(crate) fn delete_snapshot(volume: VolumeId, view: ViewId) -> Self {
        Self::DeleteSnapshot { volume: volume.0, view: view.0 }
    }

    /// The volume that it uses. It ends with that.
    pub(crate) fn volume(self) -> Option<VolumeId> {
        match self {
            Self::DeleteSnapshot { volume, .. }
            | Self::Revert { volume, .. }
            | Self::Break { volume, .. }
            | Self::Clone { volume, .. }
            | Self::RestoreFiles { volume, .. }
            | Self::Transfer { volume, .. } => Some(VolumeId(volume)),
            Self::Backup(job) => job.volume(),
        }
    }

    /// The row of the vault that it uses.
    pub(crate) fn vault(self) -> Option<i64> {
        match self {
            Self::Backup(job) => Some(job.vault()),
            _ => None,
        }
    }

    /// The snapshot that it reads, which must stay until it ends. Those of backups are in their table.
    pub(crate) fn pinned(self) -> Option<(VolumeId, ViewId)> {
        match self {
            Self::DeleteSnapshot { .. } | Self::Transfer { .. } | Self::Backup(_) => None,
            Self::Revert { volume, view, .. }
            | Self::Break { volume, view }
            | Self::RestoreFiles { volume, view } => Some((VolumeId(volume), ViewId(view))),
            Self::Clone { source, view, .. } => Some((VolumeId(source), ViewId(view))),
        }
    }

    /// The work, after "the operation" in a message.
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::DeleteSnapshot { .. } => "deletes a snapshot",
            Self::Revert { .. } => "reverts the volume",
            Self::Break { .. } => "breaks the replication to the volume",
            Self::Clone { .. } => "makes a volume from a snapshot",
            Self::RestoreFiles { .. } => "restores files from a snapshot",
            Self::Transfer { .. } => "replicates to the volume",
            Self::Backup(job) => job.doing(),
        }
    }

    pub(crate) fn is_break(self) -> bool {
        matches!(self, Self::Break { .. })
    }

    /// The unit of its progress.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::DeleteSnapshot { .. } | Self::Revert { .. } | Self::Break { .. } | Self::Clone { .. } => {
                "steps"
            }
            Self::RestoreFiles { .. } | Self::Transfer { .. } => "bytes",
            Self::Backup(job) => job.unit(),
        }
    }
}

impl Jobs {
    pub(crate) fn push(&self, job: Job) {
        self.state.lock().waiting.push_back(job);
        self.changed.notify_all();
    }

    /// The next job, which is then running; `None` if none waits.
    pub(crate) fn try_next(&self) -> Option<Job> {
        self.state.lock().next()
    }

    /// Blocks until there is a job; `None` once the service stops.
    pub(crate) fn next(&self) -> Option<Job> {
        let state = self.state.lock();
        let mut state =
            self.changed.wait_while(state, |state| state.next_place().is_none() && !state.is_closed);
        state.next()
    }

    /// Takes the waiting deletions of snapshots of a volume, which then run, too.
    pub(crate) fn join_deletions(&self, volume: VolumeId) -> Vec<Job> {
        let mut state = self.state.lock();
        let waiting = std::mem::take(&mut state.waiting);
        let (joined, others): (Vec<_>, _) =
            waiting.into_iter().partition(|job| job.spec.deletes_in() == Some(volume));
        state.waiting = others.into();
        joined.into_iter().map(|job| state.start(job)).collect()
    }

    /// Records a step of a running job. Returns whether the job goes on.
    pub(crate) fn step(&self, id: OperationId, progress: Progress) -> ControlFlow<()> {
        let mut state = self.state.lock();
        let is_closed = state.is_closed;
        let Some(job) = state.running.get_mut(&id) else { return ControlFlow::Break(()) };
        let Progress { done, total } = progress;
        job.progress = Some(JobProgress { done, total, unit: job.spec.unit(), per_second: None });
        if is_closed || job.is_cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// [`Jobs::step`] with the speed since the job began.
    pub(crate) fn step_at(&self, id: OperationId, progress: Progress, now: Nanos) -> ControlFlow<()> {
        let goes_on = self.step(id, progress);
        if let Some(job) = self.state.lock().running.get_mut(&id) {
            let ms = now.0.saturating_sub(job.begun.0) / 1_000_000;
            if let Some(progress) = job.progress.as_mut().filter(|_| ms >= 1_000) {
                let per_second = u128::from(progress.done) * 1_000 / u128::from(ms);
                progress.per_second = u64::try_from(per_second).ok();
            }
        }
        goes_on
    }

    /// Waits for a time, or until the job is to end.
    pub(crate) fn rest(&self, id: OperationId, time: Duration) -> ControlFlow<()> {
        let goes_on = |state: &mut JobsState| {
            !state.is_closed && state.running.get(&id).is_some_and(|job| !job.is_cancelled)
        };
        let (mut state, _) = self.changed.wait_timeout_while(self.state.lock(), time, goes_on);
        if goes_on(&mut state) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// [`Jobs::step`] of a job that can be cancelled before its first step alone: later, only the end of the service ends it.
    pub(crate) fn final_step(&self, id: OperationId, progress: Progress) -> ControlFlow<()> {
        let mut state = self.state.lock();
        let is_closed = state.is_closed;
        let Some(job) = state.running.get_mut(&id) else { return ControlFlow::Break(()) };
        if is_closed || (job.is_cancelled && !job.is_final) {
            return ControlFlow::Break(());
        }
        let Progress { done, total } = progress;
        job.progress = Some(JobProgress { done, total, unit: job.spec.unit(), per_second: None });
        job.is_final = true;
        ControlFlow::Continue(())
    }

    /// Lets others use the storage for as long as the last step took, so that a job takes at most half of its time.
    pub(crate) fn pause(&self, id: OperationId, now: impl Fn() -> Nanos) {
        let mut state = self.state.lock();
        let Some(job) = state.running.get_mut(&id) else { return };
        let took = Duration::from_nanos(now().0.saturating_sub(job.stepped.0));
        // Short steps share a pause.
        if took < Duration::from_millis(JOB_PAUSE_MS_MIN) {
            return;
        }
        let pause = took.min(Duration::from_millis(JOB_PAUSE_MS_MAX));
        let goes_on = |state: &mut JobsState| {
            !state.is_closed && state.running.get(&id).is_some_and(|job| !job.is_cancelled)
        };
        let (mut state, _) = self.changed.wait_timeout_while(state, pause, goes_on);
        if let Some(job) = state.running.get_mut(&id) {
            job.stepped = now();
        }
    }

    /// The first step begins.
    pub(crate) fn begin(&self, id: OperationId, now: Nanos) {
        if let Some(job) = self.state.lock().running.get_mut(&id) {
            (job.begun, job.stepped) = (now, now);
            let unit = job.spec.unit();
            job.progress = Some(JobProgress { done: 0, total: None, unit, per_second: None });
        }
    }

    pub(crate) fn end(&self, id: OperationId) {
        self.state.lock().running.remove(&id);
        self.changed.notify_all();
    }

    pub(crate) fn cancel(&self, id: OperationId) -> Cancelled {
        let mut state = self.state.lock();
        let waiting = state.waiting.len();
        state.waiting.retain(|job| job.id != id);
        if state.waiting.len() < waiting {
            return Cancelled::Waiting;
        }
        let Some(job) = state.running.get_mut(&id).filter(|job| !job.is_final) else {
            return Cancelled::Gone;
        };
        job.is_cancelled = true;
        self.changed.notify_all();
        Cancelled::Running
    }

    /// Whether a job waits or runs in this process.
    pub(crate) fn has(&self, id: OperationId) -> bool {
        let state = self.state.lock();
        state.running.contains_key(&id) || state.waiting.iter().any(|job| job.id == id)
    }

    /// Waits until a job runs no more.
    pub(crate) fn wait(&self, id: OperationId) {
        let state = self.state.lock();
        drop(self.changed.wait_while(state, |state| state.running.contains_key(&id)));
    }

    pub(crate) fn is_cancelled(&self, id: OperationId) -> bool {
        self.state.lock().running.get(&id).is_some_and(|job| job.is_cancelled)
    }

    pub(crate) fn progress(&self, id: OperationId) -> Option<JobProgress> {
        self.state.lock().running.get(&id)?.progress
    }

    /// Withdraws the jobs of a volume that is removed, and waits until none of them uses its storage.
    pub(crate) fn withdraw(&self, volume: VolumeId) {
        let mut state = self.state.lock();
        state.waiting.retain(|job| job.spec.volume() != Some(volume));
        state.of(volume).for_each(|job| job.is_cancelled = true);
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.of(volume).next().is_some()));
    }

    /// Begins no further job, and waits until those that run have ended their step.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.running.is_empty()));
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// [`Jobs::close`] without waiting.
    pub(crate) fn begin_close(&self) {
        let mut state: MutexGuard<'_, JobsState> = self.state.lock();
        state.is_closed = true;
        self.changed.notify_all();
    }
}

impl JobsState {
    fn next(&mut self) -> Option<Job> {
        if self.is_closed {
            return None;
        }
        let job = self.next_place().and_then(|place| self.waiting.remove(place))?;
        Some(self.start(job))
    }

    fn start(&mut self, job: Job) -> Job {
        let (begun, stepped) = (Nanos::default(), Nanos::default());
        let (spec, progress) = (job.spec, None);
        let running = RunningJob { spec, progress, is_cancelled: false, is_final: false, begun, stepped };
        self.running.insert(job.id, running);
        job
    }

    /// The place of the first job that may run. Slow vaults, and a volume with many snapshots to delete, leave threads to
    /// other jobs.
    fn next_place(&self) -> Option<usize> {
        let with_vaults = self.running.values().filter(|job| job.spec.vault().is_some()).count();
        let may_run = |job: &Job| match job.spec.deletes_in() {
            Some(volume) => !self.running.values().any(|job| job.spec.deletes_in() == Some(volume)),
            None => job.spec.vault().is_none() || with_vaults < VAULT_JOBS_MAX,
        };
        self.waiting.iter().position(may_run)
    }

    fn of(&mut self, volume: VolumeId) -> impl Iterator<Item = &mut RunningJob> {
        self.running.values_mut().filter(move |job| job.spec.volume() == Some(volume))
    }
}
