//! Transfers: jobs that take the destination of a replication to the next point.

use super::{RETRY_MS, ReplicationError, SidePoint, refused, taken};
use crate::error::{Error, Result};
use crate::kind::State;
use crate::operation::{Actor, ChangeContext, OperationId, Outcome, Verb};
use crate::replication::{Phase, Replication, Transfer};
use crate::service::job::JobEnd;
use crate::service::{Service, ServiceState};
use crate::snapshot::Snapshot;
use crate::store;
use replicate::replication::{Means, Origin, Point, RelationId, Target, WorkDir, receive, serve};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use vfs::{Backend, FsError, Progress};

/// Times that a destination may have to go back before a transfer begins.
const ATTEMPTS_MAX: usize = 4;
/// Points that stay on each side.
const POINTS_KEPT: usize = 2;

impl Service {
    /// Begins the transfers that are due. After downtime one begins. The caller repeats this every few seconds.
    pub fn run_replications(&self) -> Result<()> {
        let now = self.now_ms();
        for replication in self.read(|store| Ok(store::replication::list(store, "", usize::MAX >> 1)?))? {
            if self.jobs.is_closed() {
                return Ok(());
            }
            if replication.phase == Phase::Active {
                self.run_replication(replication, now)?;
            }
        }
        Ok(())
    }

    fn run_replication(&self, replication: Replication, now: u64) -> Result<()> {
        let _locked = self.lock_snapshots(&replication.volume);
        let Some(replication) =
            self.read(|store| Ok(store::replication::find_relation(store, replication.relation)?))?
        else {
            return Ok(());
        };
        let is_running = self.running_transfer(&replication)?.is_some();
        let due = replication.schedule.map(|schedule| schedule.last_due(now));
        let is_due = due.is_some_and(|due| due > replication.due_ms);
        let is_first = replication.last_transfer.is_none();
        let repeats = is_first && !is_running && now.saturating_sub(replication.changed_ms) >= RETRY_MS;
        if !is_due && !repeats {
            return Ok(());
        }
        let due_ms = due.unwrap_or(replication.due_ms).max(replication.due_ms);
        // A transfer that takes longer than its interval misses the next one.
        let is_healthy = replication.is_healthy && !(is_running && is_due);
        let after = Replication { due_ms, is_healthy, changed_ms: now, ..replication };
        self.change(|store| Ok(store::replication::update(store, &after)?))?;
        if is_running {
            return Ok(());
        }
        let context = ChangeContext::by(Actor::new("schedule"));
        self.begin_transfer(&context, &after, Verb::Update, "transfer").map(drop)
    }

    pub(in crate::service) fn transfer(&self, id: OperationId, relation: u64) -> JobEnd {
        let started_ms = self.now_ms();
        self.jobs.begin(id, self.dependencies.pacer.now());
        match self.try_transfer(id, relation) {
            Ok(None) if self.jobs.is_cancelled(id) => JobEnd::Cancelled,
            Ok(None) => JobEnd::Stopped,
            Ok(Some((point, bytes))) => {
                let ended_ms = self.now_ms();
                let duration_ms = ended_ms.saturating_sub(started_ms);
                JobEnd::Transferred(Transfer { ended_ms, duration_ms, bytes, point_ms: point.created_ms })
            }
            Err(error) => JobEnd::Failed(error.to_string()),
        }
    }

    /// Returns the point of the source and the bytes that came; `None` if the job was ended.
    fn try_transfer(&self, id: OperationId, relation: u64) -> Result<Option<(Snapshot, u64)>> {
        let mut bytes = 0;
        for attempt in 0..ATTEMPTS_MAX {
            let found = self.read(|store| Ok(store::replication::find_relation(store, relation)?))?;
            let replication = found.filter(|found| found.phase == Phase::Active);
            let Some(replication) = replication else {
                return Err(
                    ReplicationError::Failed { reason: "the replication was stopped".to_owned() }.into()
                );
            };
            let work = self.work_dir(&replication)?;
            match self.transfer_once(id, &replication, &work) {
                // The end of an earlier transfer: now the present state.
                Ok((_, 0)) => {}
                Ok((point, received)) => {
                    bytes += received;
                    let points = self.points(&replication, replication.source_id)?;
                    let found = points.into_iter().find(|(number, _)| *number == point.number);
                    let gone = || ReplicationError::Failed { reason: "the point is gone".to_owned() };
                    return Ok(Some((found.ok_or_else(gone)?.1, bytes)));
                }
                Err(replicate::Error::GoBack(to)) => self.go_back(&replication, to)?,
                Err(replicate::Error::Diverged(_)) if attempt == 0 => {
                    let last = self.points(&replication, replication.volume_id)?.pop();
                    self.go_back(&replication, last.map(|(number, _)| number))?;
                }
                Err(replicate::Error::Stopped) => return Ok(None),
                Err(error) => return Err(refused(error)),
            }
        }
        Err(ReplicationError::Failed { reason: "the destination does not come to a common point".to_owned() }
            .into())
    }

    /// One connection between the two sides, which are both here.
    fn transfer_once(
        &self,
        id: OperationId,
        replication: &Replication,
        work: &WorkDir,
    ) -> replicate::Result<(Point, u64)> {
        let scratch = self.scratch(replication).map_err(unable)?;
        let target = LocalTarget { service: self, replication };
        let points = self.points(replication, replication.volume_id).map_err(unable)?;
        let points: Vec<u64> = points.into_iter().map(|(number, _)| number).collect();
        let relation = RelationId(replication.relation.to_be_bytes());
        let (mut ours, mut theirs) = UnixStream::pair().map_err(replicate::Error::Link)?;
        std::thread::scope(|scope| {
            let served = scope.spawn(|| {
                let find = |_| {
                    let origin = LocalOrigin { service: self, replication };
                    Ok(Box::new(origin) as Box<dyn Origin + '_>)
                };
                let mut means = Means {
                    scratch: &scratch,
                    pace: &mut |_| ControlFlow::Continue(()),
                    progress: &mut |_| ControlFlow::Continue(()),
                };
                let served = serve(&mut theirs, &find, &mut means);
                drop(theirs);
                served
            });
            let mut means = Means {
                scratch: &scratch,
                pace: &mut |_| ControlFlow::Continue(()),
                progress: &mut |progress| {
                    self.jobs.step(id, Progress { done: progress.bytes_done, total: None })
                },
            };
            let received = receive(&mut ours, relation, work, &points, &target, &mut means);
            drop(ours);
            match (received, served.join()) {
                (_, Err(panic)) => std::panic::resume_unwind(panic),
                // The cause is at the source.
                (Err(replicate::Error::Link(_)), Ok(Err(error))) => Err(error),
                (received, _) => received,
            }
        })
    }

    /// Takes the live files of the destination back to a point.
    fn go_back(&self, replication: &Replication, to: Option<u64>) -> Result<()> {
        let _locked = self.lock_snapshots(&replication.volume);
        let of = self.find_volume(&replication.volume)?;
        let points = self.points(replication, of.id)?;
        self.work_dir(replication)?.invalidate().map_err(refused)?;
        match to.and_then(|to| points.iter().find(|(number, _)| *number == to)) {
            Some((_, point)) => {
                self.reopen(&of, &|| self.dependencies.provisioner.revert(of.id, point.view))?;
            }
            None if to.is_some() || !points.is_empty() => {
                return Err(ReplicationError::FullCopy { volume: of.name.to_string() }.into());
            }
            // Only unfinished first transfers: no client has ever reached these files.
            None => self.clear_storage(&of)?,
        }
        self.forget_later(replication, &of, to)
    }

    /// Records the end of a transfer in its replication.
    pub(in crate::service) fn record_transfer(
        &self,
        store: &rusqlite::Connection,
        relation: u64,
        outcome: &Outcome,
        transfer: Option<Transfer>,
    ) -> Result<()> {
        let Some(found) = store::replication::find_relation(store, relation)? else { return Ok(()) };
        let now = self.now_ms();
        let after = match (outcome, transfer) {
            (Outcome::Succeeded, Some(transfer)) => Replication {
                is_healthy: true,
                last_error: String::new(),
                last_transfer: Some(transfer),
                total_bytes: found.total_bytes.saturating_add(transfer.bytes),
                ..found
            },
            (Outcome::Failed(reason), _) => {
                Replication { is_healthy: false, last_error: reason.clone(), changed_ms: now, ..found }
            }
            _ => return Ok(()),
        };
        Ok(store::replication::update(store, &after)?)
    }

    /// Deletes the points of one side that are no longer needed: all but the last two up to `last`.
    fn prune_points(&self, replication: &Replication, points: &[SidePoint], last: Option<u64>) -> Result<()> {
        let context = ChangeContext::by(Actor::new(format!("replication to {}", replication.volume)));
        let kept: Vec<u64> =
            points.iter().map(|(number, _)| *number).filter(|&number| Some(number) <= last).collect();
        let kept = &kept[kept.len().saturating_sub(POINTS_KEPT)..];
        for (_, point) in points.iter().filter(|(number, _)| !kept.contains(number)) {
            match self.remove_snapshot(&context, &point.volume, &point.name) {
                // A lock ends some day, and the next transfer tries again.
                Ok(_) | Err(Error::Locked { .. } | Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// An error of the management as one of a side.
fn unable(error: Error) -> replicate::Error {
    replicate::Error::Refused(error.to_string())
}

struct LocalOrigin<'s> {
    service: &'s Service,
    replication: &'s Replication,
}

impl LocalOrigin<'_> {
    fn side(&self) -> replicate::Result<Vec<SidePoint>> {
        self.service.points(self.replication, self.replication.source_id).map_err(unable)
    }
}

impl Origin for LocalOrigin<'_> {
    fn points(&self) -> replicate::Result<Vec<Point>> {
        Ok(self
            .side()?
            .iter()
            .map(|(number, point)| Point { number: *number, taken: taken(point) })
            .collect())
    }

    fn make(&self) -> replicate::Result<Point> {
        let (service, relation) = (self.service, self.replication.relation);
        let number =
            service.change(|store| Ok(store::replication::take_point(store, relation)?)).map_err(unable)?;
        let point = service.make_point(self.replication, &self.replication.source, number).map_err(unable)?;
        Ok(Point { number, taken: taken(&point) })
    }

    fn open(&self, point: u64) -> replicate::Result<Arc<dyn Backend>> {
        let shown = || format!("point {point} of the source");
        let failed = |error| replicate::Error::File(shown(), error);
        let side = self.side()?;
        let found =
            side.iter().find(|(number, _)| *number == point).ok_or_else(|| failed(FsError::NotFound))?;
        let served = self.service.served(&self.replication.source).ok_or_else(|| failed(FsError::Io))?;
        let snapshots = served.snapshot_storage().ok_or_else(|| failed(FsError::NotSupported))?;
        snapshots.open(found.1.view).map_err(failed)
    }

    fn confirm(&self, point: Option<u64>) -> replicate::Result<()> {
        self.service.prune_points(self.replication, &self.side()?, point).map_err(unable)
    }
}

struct LocalTarget<'s> {
    service: &'s Service,
    replication: &'s Replication,
}

impl Target for LocalTarget<'_> {
    fn backend(&self) -> replicate::Result<Arc<dyn Backend>> {
        let opened = self.service.dependencies.provisioner.open(self.replication.volume_id);
        opened.map_err(|error| replicate::Error::File("the destination".to_owned(), error))
    }

    fn commit(&self, point: Point) -> replicate::Result<()> {
        self.commit_point(point).map_err(unable)
    }
}

impl LocalTarget<'_> {
    fn commit_point(&self, point: Point) -> Result<()> {
        let (service, replication) = (self.service, self.replication);
        let made = service.make_point(replication, &replication.volume, point.number)?;
        let shown = service.replicas.lock().get(&replication.volume_id).cloned();
        let is_first = shown.as_ref().is_some_and(|shown| shown.view().is_none());
        let shown = shown.map_or(Ok(()), |shown| shown.show(made.view));
        shown.map_err(Error::storage("show the point"))?;
        if is_first {
            service.renew_export(&replication.volume);
        }
        let points = service.points(replication, replication.volume_id)?;
        service.prune_points(replication, &points, Some(point.number))
    }
}

impl Service {
    /// Exports a volume that has files now.
    fn renew_export(&self, volume: &crate::VolumeName) {
        let mut state = self.state();
        let ServiceState { open, hosts, .. } = &mut *state;
        let is_other = open
            .get_mut(volume)
            .filter(|open| matches!(open.row.state, State::Ready | State::Updating))
            .is_some_and(|open| open.renew(hosts, self.dependencies.served));
        if is_other {
            self.publish(&state);
        }
    }
}
