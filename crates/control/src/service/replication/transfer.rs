//! Transfers: jobs that take the destination of a replication to the next point.

use super::source::{SourceSide, unable};
use super::{RETRY_MS, ReplicationError, refused};
use crate::error::{Error, Result};
use crate::kind::State;
use crate::operation::{Actor, ChangeContext, OperationId, Outcome, Verb};
use crate::replication::{Phase, Replication, Transfer};
use crate::service::job::JobEnd;
use crate::service::{Service, ServiceState};
use crate::store;
use replicate::replication::{
    Link, Means, Origin, Point, Purpose, RelationId, Request, Target, WorkDir, receive, serve,
};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use vfs::{Backend, Progress, VolumeId, unpaced};

/// Times that a destination may have to go back before a transfer begins.
const ATTEMPTS_MAX: usize = 4;

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
        // A transfer that was cut goes on soon, not only when the next one is due.
        let is_cut = replication.schedule.is_some() && !replication.last_error.is_empty();
        let repeats = !is_running
            && now.saturating_sub(replication.changed_ms) >= RETRY_MS
            && (is_first || is_cut && self.is_partial(&replication)?);
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
            Ok(Some((point_ms, bytes))) => {
                let ended_ms = self.now_ms();
                let duration_ms = ended_ms.saturating_sub(started_ms);
                JobEnd::Transferred(Transfer { ended_ms, duration_ms, bytes, point_ms })
            }
            // The end of its connection is no failure then.
            Err(_) if self.jobs.is_cancelled(id) => JobEnd::Cancelled,
            Err(_) if self.jobs.is_closed() => JobEnd::Stopped,
            Err(error) => JobEnd::Failed(error.to_string()),
        }
    }

    /// Returns the time of the point at the source, and the bytes that came; `None` if the job was ended.
    fn try_transfer(&self, id: OperationId, relation: u64) -> Result<Option<(u64, u64)>> {
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
            let last = || Ok::<_, Error>(self.points(&replication, replication.volume_id)?.pop());
            if work.is_invalid() {
                // Even if the source cannot be reached.
                self.go_back(&replication, last()?.map(|(number, _)| number))?;
            }
            match self.transfer_once(id, &replication, &work) {
                // The end of an earlier transfer: now the present state.
                Ok((_, 0)) => {}
                Ok((point, received)) => {
                    bytes += received;
                    // The clock of another service may be ahead.
                    let point_ms = u64::try_from(point.taken.seconds).unwrap_or(0).saturating_mul(1000);
                    return Ok(Some((point_ms.min(self.now_ms()), bytes)));
                }
                Err(replicate::Error::GoBack(to)) => self.go_back(&replication, to)?,
                Err(replicate::Error::Diverged(_)) if attempt == 0 => {
                    self.go_back(&replication, last()?.map(|(number, _)| number))?;
                }
                Err(replicate::Error::Stopped) => return Ok(None),
                Err(error) => return Err(refused(error)),
            }
        }
        Err(ReplicationError::Failed { reason: "the destination does not come to a common point".to_owned() }
            .into())
    }

    /// One connection between the two sides.
    fn transfer_once(
        &self,
        id: OperationId,
        replication: &Replication,
        work: &WorkDir,
    ) -> replicate::Result<(Point, u64)> {
        match replication.source_id {
            Some(source) => self.transfer_here(id, replication, source, work),
            None => {
                let mut link = self.dial_source(replication, Some(id)).map_err(unable)?;
                self.take_over(id, replication, work, &mut *link)
            }
        }
    }

    /// Connects to the service of the source, until the job is cancelled.
    pub(super) fn dial_source(
        &self,
        replication: &Replication,
        job: Option<OperationId>,
    ) -> Result<Box<dyn Link>> {
        let Some(name) = &replication.peer else {
            return Err(Error::invalid("a connection to this service", "one to another service"));
        };
        let peer = self.peer(name)?;
        let reason =
            format!("the peer {name} has no address: give it with \"plimsoll peer update {name} --address\"");
        let address = peer.address.ok_or(ReplicationError::Failed { reason })?;
        let jobs = Arc::clone(&self.jobs);
        let stop = move || jobs.is_closed() || job.is_some_and(|job| jobs.is_cancelled(job));
        let link = self.dependencies.dialer.dial(&self.identity()?, &address, peer.key, Arc::new(stop));
        let failed =
            |error| ReplicationError::Failed { reason: format!("cannot reach {name} at {address}: {error}") };
        Ok(link.map_err(failed)?)
    }

    /// One connection between two volumes of this service.
    fn transfer_here(
        &self,
        id: OperationId,
        replication: &Replication,
        source: VolumeId,
        work: &WorkDir,
    ) -> replicate::Result<(Point, u64)> {
        let scratch = self.scratch(replication).map_err(unable)?;
        let (mut ours, mut theirs) = UnixStream::pair().map_err(replicate::Error::Link)?;
        std::thread::scope(|scope| {
            let served = scope.spawn(|| {
                let find = |_: &Request, _: Purpose| {
                    let origin = SourceSide::here(self, replication, source);
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
            let received = self.take_over(id, replication, work, &mut ours);
            drop(ours);
            match (received, served.join()) {
                (_, Err(panic)) => std::panic::resume_unwind(panic),
                // The cause is at the source.
                (Err(replicate::Error::Link(_)), Ok(Err(error))) => Err(error),
                (received, _) => received,
            }
        })
    }

    /// The destination's part of a connection.
    fn take_over(
        &self,
        id: OperationId,
        replication: &Replication,
        work: &WorkDir,
        link: &mut dyn Link,
    ) -> replicate::Result<(Point, u64)> {
        let scratch = self.scratch(replication).map_err(unable)?;
        let target = LocalTarget { service: self, replication };
        let points = self.points(replication, replication.volume_id).map_err(unable)?;
        let points: Vec<u64> = points.into_iter().map(|(number, _)| number).collect();
        let mut means = Means {
            scratch: &scratch,
            pace: &mut |_| ControlFlow::Continue(()),
            progress: &mut |progress| self.jobs.step(id, Progress { done: progress.bytes_done, total: None }),
        };
        receive(link, &request(replication), work, &points, &target, &mut means)
    }

    /// Takes the live files of the destination back to a point.
    fn go_back(&self, replication: &Replication, to: Option<u64>) -> Result<()> {
        let _locked = self.lock_snapshots(&replication.volume);
        let of = self.find_volume(&replication.volume)?;
        let points = self.points(replication, of.id)?;
        self.work_dir(replication)?.invalidate().map_err(refused)?;
        match to.and_then(|to| points.iter().find(|(number, _)| *number == to)) {
            Some((_, point)) => {
                self.reopen(&of, &|| {
                    self.dependencies.provisioner.revert(of.id, point.view, &mut unpaced).map(drop)
                })?;
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
}

/// The question of a destination.
pub(super) fn request(replication: &Replication) -> Request {
    let relation = RelationId(replication.relation.to_be_bytes());
    Request { relation, volume: replication.source.to_string() }
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
        let volume = &replication.volume;
        let made = service.make_point(replication.relation, volume.as_str(), volume, point.number)?;
        let shown = service.replicas.lock().get(&replication.volume_id).cloned();
        let is_first = shown.as_ref().is_some_and(|shown| shown.view().is_none());
        let shown = shown.map_or(Ok(()), |shown| shown.show(made.view));
        shown.map_err(Error::storage("show the point"))?;
        if is_first {
            service.renew_export(&replication.volume);
        }
        let points = service.points(replication, replication.volume_id)?;
        service.prune_points(replication.volume.as_str(), &points, Some(point.number))
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
