//! Creates, breaks, resumes, reverses and deletes replications. The file `transfer` moves the data.

mod break_off;
mod peers;
mod reverse;
mod source;
mod transfer;

use super::change::PoolAndVolume;
use super::snapshot::{Scheduled, storage};
use super::{OpenVolume, Page, Service, UNCHANGED, check_version};
use crate::difference::Difference;
use crate::error::{Error, Result};
use crate::job::JobSpec;
use crate::kind::{Kind, State};
use crate::name::{PeerName, SnapshotName, VolumeName, steers_terminal};
use crate::object_locks::{Locked, Mode, Object, Objects};
use crate::operation::{Actor, ChangeContext, ChangeResult, Operation, OperationId, Verb};
use crate::protocol::Protocols;
use crate::replication::{
    LastPoints, MirrorState, NewReplication, Phase, Replication, ReplicationError, ReplicationSchedule,
    prefix,
};
use crate::snapshot::{NewSnapshot, Snapshot, SnapshotKind, SnapshotState};
use crate::store::{self, operation::NewOperation};
use crate::volume::Volume;
use replicate::replication::{Changes, Means, WorkDir, ask, clear, count_changes, has_no_files};
use rusqlite::Connection;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vfs::claims::Grace;
use vfs::{Backend, FsError, FsResult, PointBackend, Time, VolumeId};

/// Attempts to work on a storage that clients have just left.
const CLOSE_POLLS_MAX: u32 = 200;
const CLOSE_POLL: Duration = Duration::from_millis(25);
/// A first transfer that has failed is repeated after this time.
const RETRY_MS: u64 = 60_000;

/// The present state of a replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationStatus {
    pub state: MirrorState,
    /// The name of the last point that the destination has.
    pub last_point: Option<SnapshotName>,
    /// The age of that point.
    pub lag_ms: Option<u64>,
    /// The transfer that runs.
    pub operation: Option<OperationId>,
}

/// A point of one side: its number and its snapshot.
type SidePoint = (u64, Snapshot);

impl Service {
    /// Begins to replicate a volume to another one without files, which clients can no longer change.
    pub fn create_replication(
        &self,
        context: &ChangeContext,
        new: &NewReplication,
    ) -> Result<ChangeResult<Replication>> {
        let NewReplication { volume, source, peer, schedule } = new;
        let locked = self.lock_sides(volume, source, peer.as_ref());
        self.finish_named(volume)?;
        let of = self.find_volume(volume)?;
        let from = match peer {
            None => Some(self.find_volume(source)?),
            Some(peer) => {
                self.check_peer_of_source(peer)?;
                None
            }
        };
        if let Some(found) = self.read(|store| Ok(store::replication::find(store, of.id)?))? {
            return self.existing_replication(context, new, found);
        }
        if let Some(given) = self.given_to(&of, peer.as_ref())? {
            return self.reverse_from_peer(context, new, &of, &given);
        }
        self.check_new_replication(&of, from.as_ref())?;
        let now = self.now_ms();
        let mut relation = [0; 8];
        (self.dependencies.entropy)(&mut relation);
        let replication = Replication {
            relation: u64::from_be_bytes(relation),
            volume_id: of.id,
            source_id: from.map(|from| from.id),
            volume: volume.clone(),
            source: source.clone(),
            peer: peer.clone(),
            schedule: *schedule,
            phase: Phase::Active,
            next_point: 1,
            due_ms: now,
            is_healthy: true,
            last_error: String::new(),
            last_transfer: None,
            total_bytes: 0,
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        self.change(|store| Ok(store::replication::insert(store, &replication)?))?;
        // From here on no client reaches the files.
        let is_empty = std::cell::Cell::new(false);
        let checked = self.reopen(&of, &|| {
            let backend = self.dependencies.provisioner.open(of.id)?;
            is_empty.set(has_no_files(&*backend).map_err(|_| FsError::Io)?);
            Ok(())
        });
        if checked.is_err() || !is_empty.get() {
            self.change(|store| Ok(store::replication::delete(store, replication.relation)?))?;
            self.reopen(&of, &|| Ok(()))?;
            checked?;
            return Err(ReplicationError::NotEmpty { volume: volume.to_string() }.into());
        }
        let operation = self.begin_transfer(
            context,
            &replication,
            Verb::Create,
            &format!("from {}", replication.source_text()),
        )?;
        drop(locked);
        Ok(ChangeResult { value: replication, operation })
    }

    fn existing_replication(
        &self,
        context: &ChangeContext,
        new: &NewReplication,
        found: Replication,
    ) -> Result<ChangeResult<Replication>> {
        let word = |schedule: &Option<ReplicationSchedule>| {
            schedule.map_or("none", ReplicationSchedule::as_str).to_owned()
        };
        let differs: Vec<Difference> = [
            Difference::if_set("source", &found.source, Some(&new.source), ToString::to_string),
            Difference::if_set("peer", &found.peer, Some(&new.peer), |peer| {
                peer.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
            }),
            Difference::if_set("schedule", &found.schedule, Some(&new.schedule), word),
        ]
        .into_iter()
        .flatten()
        .collect();
        let name = found.volume.to_string();
        if !differs.is_empty() {
            return Err(Error::Conflict { kind: Kind::Replication, name, differs });
        }
        let thing = (Kind::Replication, name.as_str());
        let operation = self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
        Ok(ChangeResult { value: found, operation })
    }

    fn check_peer_of_source(&self, peer: &PeerName) -> Result<()> {
        match self.peer(peer)?.address {
            Some(_) => Ok(()),
            None => Err(Error::invalid(format!("the peer {peer} without an address"), "a peer with one")),
        }
    }

    fn check_new_replication(&self, volume: &Volume, source: Option<&Volume>) -> Result<()> {
        if source.is_some_and(|source| volume.id == source.id) {
            return Err(Error::invalid("a replication of a volume to itself", "two volumes"));
        }
        let members = self.read(|store| Ok(store::replication::with_volume(store, volume.id)?))?;
        if let Some(member) = members.first() {
            let (volume, destination) = (volume.name.to_string(), member.volume.to_string());
            return Err(
                ReplicationError::Member { volume, destination, doing: "become a destination" }.into()
            );
        }
        if let Some(given) = self.read(|store| Ok(store::peer::of_volume(store, volume.id)?))?.first() {
            let (volume, destination) = (volume.name.to_string(), format!("a volume of {}", given.peer));
            return Err(
                ReplicationError::Member { volume, destination, doing: "become a destination" }.into()
            );
        }
        source.map_or(Ok(()), |source| self.check_writable_volume(source, "become a source"))?;
        for one in [Some(volume), source].into_iter().flatten() {
            if one.state != State::Ready {
                return Err(Error::Changing { volume: one.name.to_string(), state: one.state });
            }
            let closed = || Error::storage(format!("open the volume {}", one.name))(FsError::Io);
            storage(&*self.served(&one.name).ok_or_else(closed)?, &one.name)?;
        }
        self.check_no_snapshots(volume.id)?;
        let name = &volume.name;
        if volume.policy.is_some() {
            return Err(Error::invalid(
                format!("the volume {name} with a policy"),
                "a destination without one",
            ));
        }
        let served = self.served(name);
        if served.is_some_and(|served| served.quotas().is_some_and(|quotas| !quotas.rules().is_empty())) {
            return Err(Error::invalid(
                format!("the volume {name} with quotas"),
                "a destination without any",
            ));
        }
        Ok(())
    }

    /// Starts a transfer now. Asked again, it returns the one that runs.
    pub fn sync_replication(&self, context: &ChangeContext, volume: &VolumeName) -> Result<Operation> {
        let _locked = self.lock_snapshots(volume);
        let replication = self.replication(volume)?;
        check_version(context, Kind::Replication, volume.as_str(), replication.version)?;
        if let Some(running) = self.running_transfer(&replication)? {
            if running.spec.is_some_and(JobSpec::is_break) {
                let state = State::Reverting;
                return Err(Error::Changing { volume: volume.to_string(), state });
            }
            return self.operation(running.id);
        }
        if replication.phase != Phase::Active {
            return Err(self.refuse_state(&replication, "a replication that is not stopped; resume it")?);
        }
        self.begin_transfer(context, &replication, Verb::Update, "transfer")
    }

    /// Follows the source again. The destination's changes since the last common point are lost, so this has to be forced
    /// where there are any. Without a common point everything is transferred again, which has to be forced too.
    pub fn resume_replication(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
    ) -> Result<ChangeResult<Replication>> {
        let replication = self.replication(volume)?;
        let _locked = self.lock_sides(volume, &replication.source, replication.peer.as_ref());
        let replication = self.replication(volume)?;
        check_version(context, Kind::Replication, volume.as_str(), replication.version)?;
        let of = self.find_volume(volume)?;
        let after = self.updated(Replication { phase: Phase::Active, ..replication.clone() });
        match replication.phase {
            Phase::Active => return Err(self.refuse_state(&replication, "a replication that is stopped")?),
            Phase::Aborted => {
                self.change(|store| Ok(store::replication::update(store, &after)?))?;
                self.reopen(&of, &|| Ok(()))?;
            }
            Phase::Stopped => self.follow(context, &replication, &after, &of)?,
        }
        let operation = self.begin_transfer(context, &after, Verb::Update, "resume")?;
        Ok(ChangeResult { value: after, operation })
    }

    /// Turns a replication round: the source follows the destination, which has to be writable.
    pub fn reverse_replication(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
    ) -> Result<ChangeResult<Replication>> {
        let replication = self.replication(volume)?;
        let _locked = self.lock_sides(volume, &replication.source, replication.peer.as_ref());
        let replication = self.replication(volume)?;
        check_version(context, Kind::Replication, volume.as_str(), replication.version)?;
        let (Some(source_id), None) = (replication.source_id, &replication.peer) else {
            let peer = replication.peer.as_ref().map(ToString::to_string).unwrap_or_default();
            return Err(ReplicationError::Elsewhere { volume: volume.to_string(), peer }.into());
        };
        if replication.phase != Phase::Stopped {
            return Err(self.refuse_state(&replication, "a replication that is stopped; break it first")?);
        }
        let of = self.find_volume(&replication.source)?;
        let others = self.read(|store| Ok(store::replication::with_volume(store, of.id)?))?;
        if let Some(other) = others.iter().find(|other| other.relation != replication.relation) {
            let (volume, destination) = (of.name.to_string(), other.volume.to_string());
            return Err(
                ReplicationError::Member { volume, destination, doing: "become a destination" }.into()
            );
        }
        let common = self.common(&replication)?;
        let turned = Replication {
            volume_id: source_id,
            source_id: Some(replication.volume_id),
            volume: replication.source.clone(),
            source: replication.volume.clone(),
            phase: Phase::Active,
            last_transfer: None,
            ..replication.clone()
        };
        let turned = self.updated(turned);
        let (before, work) = (self.work_dir(&replication)?, self.work_dir(&turned)?);
        let scratch = self.scratch(&turned)?;
        before.reverse(&work, &common, &scratch).map_err(refused)?;
        self.follow(context, &turned, &turned, &of)?;
        let operation = self.begin_transfer(context, &turned, Verb::Update, "reverse")?;
        Ok(ChangeResult { value: turned, operation })
    }

    /// Sets the schedule.
    pub fn update_replication(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        schedule: Option<ReplicationSchedule>,
    ) -> Result<ChangeResult<Replication>> {
        let _locked = self.lock_snapshots(volume);
        let before = self.replication(volume)?;
        check_version(context, Kind::Replication, volume.as_str(), before.version)?;
        if before.schedule == schedule {
            let operation = self.record_replication(context, &before, UNCHANGED)?;
            return Ok(ChangeResult { value: before, operation });
        }
        let after = self.updated(Replication { schedule, due_ms: self.now_ms(), ..before });
        let operation = self.change(|store| {
            store::replication::update(store, &after)?;
            self.record(store, context, Verb::Update, (Kind::Replication, volume.as_str()), "schedule")
        })?;
        Ok(ChangeResult { value: after, operation })
    }

    /// Ends a replication that is stopped. Both volumes are ordinary ones then; its points are deleted.
    pub fn delete_replication(&self, context: &ChangeContext, volume: &VolumeName) -> Result<Operation> {
        let replication = self.replication(volume)?;
        let locked = self.lock_sides(volume, &replication.source, replication.peer.as_ref());
        let replication = self.replication(volume)?;
        check_version(context, Kind::Replication, volume.as_str(), replication.version)?;
        if replication.phase == Phase::Active {
            return Err(self.refuse_state(&replication, "a replication that is stopped; break it first")?);
        }
        let of = self.find_volume(volume)?;
        if replication.phase == Phase::Aborted {
            self.clear_storage(&of)?;
        }
        let sides = [Some(replication.volume_id), replication.source_id].into_iter().flatten();
        let points = sides.map(|side| self.points(&replication, side)).collect::<Result<Vec<_>>>()?;
        let operation = self.change(|store| {
            store::replication::delete(store, replication.relation)?;
            self.record(store, context, Verb::Delete, (Kind::Replication, volume.as_str()), "")
        })?;
        _ = std::fs::remove_dir_all(self.work_path(&replication));
        self.reopen(&of, &|| Ok(()))?;
        drop(locked);
        self.remove_points(context, points.concat())?;
        Ok(operation)
    }

    pub fn replication(&self, volume: &VolumeName) -> Result<Replication> {
        let id = self.find_volume(volume)?.id;
        let found = self.read(|store| Ok(store::replication::find(store, id)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Replication, format!("to the volume {volume}")))
    }

    /// Lists replications by their destinations after `after`, the [`Page::next`] of the previous page.
    pub fn replications(&self, after: Option<&str>, most: usize) -> Result<Page<Replication>> {
        let after = after.unwrap_or("");
        self.page(
            most,
            |store, most| store::replication::list(store, after, most),
            |one| one.volume.to_string(),
        )
    }

    pub fn replication_status(&self, replication: &Replication) -> Result<ReplicationStatus> {
        let last = self.points(replication, replication.volume_id)?.pop();
        let running = self.running_transfer(replication)?;
        let point_ms = replication.last_transfer.map(|last| last.point_ms).filter(|_| last.is_some());
        let state = match MirrorState::new(replication.phase, last.is_some(), running.is_some()) {
            // Once a transfer has begun, the peer has let this service replicate its volume.
            MirrorState::Preparing if replication.peer.is_some() && !self.is_partial(replication)? => {
                MirrorState::PendingPeering
            }
            state => state,
        };
        Ok(ReplicationStatus {
            state,
            last_point: last.map(|(_, snapshot)| snapshot.name),
            lag_ms: point_ms.map(|point| self.now_ms().saturating_sub(point)),
            operation: running.map(|running| running.id),
        })
    }

    fn refuse_state(&self, replication: &Replication, allowed: &'static str) -> Result<Error> {
        let state = self.replication_status(replication)?.state;
        Ok(ReplicationError::State { volume: replication.volume.to_string(), state, allowed }.into())
    }

    fn record_replication(
        &self,
        context: &ChangeContext,
        replication: &Replication,
        detail: &str,
    ) -> Result<Operation> {
        let name = replication.volume.to_string();
        self.change(|store| self.record(store, context, Verb::Update, (Kind::Replication, &name), detail))
    }

    fn updated(&self, replication: Replication) -> Replication {
        Replication { version: replication.version + 1, changed_ms: self.now_ms(), ..replication }
    }

    fn running_transfer(&self, replication: &Replication) -> Result<Option<Operation>> {
        let name = replication.volume.to_string();
        self.read(|store| Ok(store::operation::running(store, Kind::Replication, &name)?))
    }

    fn begin_transfer(
        &self,
        context: &ChangeContext,
        replication: &Replication,
        verb: Verb,
        detail: &str,
    ) -> Result<Operation> {
        let name = replication.volume.to_string();
        let spec = JobSpec::Transfer { volume: replication.volume_id.0, relation: replication.relation };
        let begun = NewOperation {
            actor: &context.actor,
            verb,
            kind: Kind::Replication,
            name: &name,
            detail,
            spec: Some(spec),
        };
        let operation = self.change(|store| Ok(store::operation::begin(store, &begun, self.now_ms())?))?;
        self.enqueue(&operation);
        Ok(operation)
    }

    /// Locks the volumes of a replication that are here.
    fn lock_sides(&self, volume: &VolumeName, source: &VolumeName, peer: Option<&PeerName>) -> Locked<'_> {
        let object = |name: &VolumeName| (Object::Volume(name.clone()), Mode::Exclusive);
        let source = peer.is_none().then(|| object(source));
        self.objects.lock(&Objects::from_iter([object(volume)].into_iter().chain(source)))
    }

    /// The complete points of one side, in the order of their numbers.
    fn points(&self, replication: &Replication, side: VolumeId) -> Result<Vec<SidePoint>> {
        self.points_of(replication.relation, side)
    }

    fn points_of(&self, relation: u64, side: VolumeId) -> Result<Vec<SidePoint>> {
        let prefix = prefix(relation);
        let all = self.read(|store| Ok(store::snapshot::of_volume(store, side)?))?;
        let number = |one: &Snapshot| one.name.as_str().strip_prefix(&prefix)?.parse::<u64>().ok();
        let is_point =
            |one: &Snapshot| one.kind == SnapshotKind::Replication && one.state == SnapshotState::Ready;
        let found = all.into_iter().filter(is_point);
        let mut points: Vec<SidePoint> = found.filter_map(|one| Some((number(&one)?, one))).collect();
        points.sort_by_key(|(number, _)| *number);
        Ok(points)
    }

    /// The numbers of the source's points.
    fn source_points(&self, replication: &Replication) -> Result<Vec<u64>> {
        match replication.source_id {
            Some(source) => {
                Ok(self.points(replication, source)?.into_iter().map(|(number, _)| number).collect())
            }
            None => {
                let mut link = self.dial_source(replication, None)?;
                ask(&mut *link, &transfer::request(replication)).map_err(refused)
            }
        }
    }

    /// The numbers of the points that both sides have.
    fn common(&self, replication: &Replication) -> Result<Vec<u64>> {
        let theirs = self.source_points(replication)?;
        let ours = self.points(replication, replication.volume_id)?.into_iter();
        Ok(ours.map(|(number, _)| number).filter(|number| theirs.contains(number)).collect())
    }

    /// Whether a transfer has begun that has not ended.
    fn is_partial(&self, replication: &Replication) -> Result<bool> {
        let points = self.points(replication, replication.volume_id)?;
        let points: Vec<u64> = points.into_iter().map(|(number, _)| number).collect();
        self.work_dir(replication)?.is_partial(&points).map_err(refused)
    }

    /// Prepares a volume to follow another one, and stores `after`. The next transfer takes the files back to the last common
    /// point, or empties the volume.
    fn follow(
        &self,
        context: &ChangeContext,
        replication: &Replication,
        after: &Replication,
        of: &Volume,
    ) -> Result<()> {
        let theirs = self.source_points(replication)?;
        let put = |store: &Connection| Ok(store::replication::update(store, after)?);
        self.follow_from(context, replication, of, &theirs, &put)
    }

    /// [`Service::follow`] of a source that has these points. `put` stores the replication.
    fn follow_from(
        &self,
        context: &ChangeContext,
        replication: &Replication,
        of: &Volume,
        theirs: &[u64],
        put: &dyn Fn(&Connection) -> Result<()>,
    ) -> Result<()> {
        let ours = self.points(replication, of.id)?;
        let common = ours.iter().rev().find(|(number, _)| theirs.contains(number));
        match common {
            None if context.force => {}
            None => return Err(ReplicationError::FullCopy { volume: of.name.to_string() }.into()),
            Some((_, point)) => {
                let lost = self.changes_since(replication, of, point)?;
                if !context.force && lost != Changes::default() {
                    let (volume, point) = (of.name.to_string(), point.name.to_string());
                    let Changes { files, bytes } = lost;
                    let name = |number: u64| format!("{}{number}", prefix(replication.relation));
                    let last = Box::new(LastPoints {
                        own: name(ours.last().map_or(0, |(number, _)| *number)),
                        followed: replication.source_text(),
                        other: name(theirs.last().copied().unwrap_or(0)),
                    });
                    return Err(ReplicationError::WouldLose { volume, point, files, bytes, last }.into());
                }
            }
        }
        self.work_dir(replication)?.invalidate().map_err(refused)?;
        // Clients lose their access first: what they wrote after the count would be lost unsaid.
        self.change(put)?;
        let forgotten = std::cell::Cell::new(Ok(()));
        self.reopen(of, &|| {
            // Until the files are back, clients see the common point.
            forgotten.set(self.forget_points(replication, of, common.map(|(number, _)| *number)));
            Ok(())
        })?;
        forgotten.into_inner()
    }

    fn changes_since(&self, replication: &Replication, of: &Volume, point: &Snapshot) -> Result<Changes> {
        let live = self.dependencies.provisioner.open(of.id).map_err(Error::storage("read the volume"))?;
        let snapshots = live.snapshots().ok_or(FsError::NotSupported);
        let old = snapshots.and_then(|snapshots| snapshots.open(point.view));
        let old = old.map_err(Error::storage("read the last common point"))?;
        let scratch = self.scratch(replication)?;
        let mut means = Means {
            scratch: &scratch,
            pace: &mut |_| ControlFlow::Continue(()),
            progress: &mut |_| ControlFlow::Continue(()),
        };
        count_changes((&*old, taken(point)), &*live, &mut means).map_err(refused)
    }

    fn clear_storage(&self, of: &Volume) -> Result<()> {
        let backend =
            self.dependencies.provisioner.open(of.id).map_err(Error::storage("empty the volume"))?;
        clear(&*backend).map_err(refused)
    }

    /// Deletes the points of one side after `last`, and forgets an unfinished transfer: the live files are those of `last`.
    fn forget_later(&self, replication: &Replication, of: &Volume, last: Option<u64>) -> Result<()> {
        self.forget_points(replication, of, last)?;
        let stay = self.points(replication, of.id)?.into_iter().map(|(number, _)| number);
        self.work_dir(replication)?.discard(&stay.collect::<Vec<_>>()).map_err(refused)
    }

    /// Deletes the points of one side after `last`.
    fn forget_points(&self, replication: &Replication, of: &Volume, last: Option<u64>) -> Result<()> {
        let mut gone = self.points(replication, of.id)?;
        gone.retain(|(number, _)| Some(*number) > last);
        let context = ChangeContext::by(Actor::new("plimsoll"));
        gone.iter()
            .try_for_each(|(_, point)| self.remove_locked_snapshot(&context, &of.name, &point.name).map(drop))
    }

    /// Closes a volume to clients, lets `work` change its storage, and serves it again as its replication demands. Clients
    /// that have it mounted wait meanwhile. If the storage does not open, they go on waiting.
    fn reopen(&self, volume: &Volume, work: &dyn Fn() -> FsResult<()>) -> Result<()> {
        let pool = self.find_pool(&volume.pool)?;
        let mut state = self.state();
        let open = state.open.get(&volume.name);
        let (was_open, was_exported) = (open.is_some(), open.is_some_and(|open| open.export.is_some()));
        if was_open {
            // A volume without files is not exported, nor is its placeholder.
            let protocols = if was_exported { volume.protocols } else { Protocols::default() };
            let volume = Volume { protocols, ..volume.clone() };
            self.serve_placeholder(&mut state, &PoolAndVolume { pool: pool.clone(), volume })?;
        }
        drop(state);
        self.close_replica(volume.id);
        let mut worked = work();
        for _ in 0..CLOSE_POLLS_MAX {
            if !matches!(worked, Err(FsError::Locked)) {
                break;
            }
            // A request of a client still holds a file.
            std::thread::sleep(CLOSE_POLL);
            worked = work();
        }
        if was_open {
            let gate = self.state().meters.apply(&pool, volume)?;
            let served = self.open_storage(volume, gate, Grace::default());
            let served = served.map_err(Error::storage(format!("open the volume {}", volume.name)))?;
            self.show_snapshots(volume, &served)?;
            let mut state = self.state();
            let open = OpenVolume::new(volume.clone(), served, &state.hosts, self.protocols());
            state.open.insert(volume.name.clone(), open);
            self.publish(&state);
        }
        worked.map_err(Error::storage(format!("change the volume {}", volume.name)))
    }

    /// Releases the storage of a destination.
    fn close_replica(&self, volume: VolumeId) {
        let points = self.replicas.lock().remove(&volume);
        points.inspect(|points| points.close());
    }

    /// The storage as clients see it: a destination shows its last point.
    pub(super) fn shown(&self, volume: VolumeId, storage: Arc<dyn Backend>) -> FsResult<Arc<dyn Backend>> {
        let found =
            self.read(|store| Ok(store::replication::find(store, volume)?)).map_err(|_| FsError::Io)?;
        let Some(replication) = found.filter(|found| found.phase != Phase::Stopped) else {
            return Ok(storage);
        };
        let backend = Arc::new(PointBackend::new(storage));
        let points = self.points(&replication, volume).map_err(|_| FsError::Io)?;
        // The storage may have lost the last one.
        _ = points.iter().rev().find(|(_, point)| backend.show(point.view).is_ok());
        self.replicas.lock().insert(volume, Arc::clone(&backend));
        Ok(backend)
    }

    /// Refuses a change of a volume that follows another one.
    pub(super) fn check_writable_volume(&self, volume: &Volume, doing: &'static str) -> Result<()> {
        let found = self.read(|store| Ok(store::replication::find(store, volume.id)?))?;
        match found.filter(|found| found.phase != Phase::Stopped) {
            None => Ok(()),
            Some(found) => {
                let (volume, destination) = (volume.name.to_string(), found.volume.to_string());
                Err(ReplicationError::Member { volume, destination, doing }.into())
            }
        }
    }

    /// Refuses the removal of a volume that belongs to a replication.
    pub(super) fn check_no_replication(&self, volume: &Volume) -> Result<()> {
        let (found, given) = self.read(|store| {
            let given = store::peer::of_volume(store, volume.id)?;
            Ok((store::replication::with_volume(store, volume.id)?, given))
        })?;
        let destination = match (found.first(), given.first()) {
            (None, None) => return Ok(()),
            (Some(found), _) => found.volume.to_string(),
            (None, Some(given)) => format!("a volume of {}", given.peer),
        };
        let volume = volume.name.to_string();
        Err(ReplicationError::Member { volume, destination, doing: "be deleted" }.into())
    }

    /// Refuses the deletion of a point that a replication needs.
    pub(super) fn check_no_point(&self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.kind != SnapshotKind::Replication {
            return Ok(());
        }
        let (found, given) = self.read(|store| {
            let given = store::peer::of_volume(store, snapshot.volume_id)?;
            Ok((store::replication::with_volume(store, snapshot.volume_id)?, given))
        })?;
        let here = found.iter().map(|found| (found.relation, found.volume.to_string()));
        let there =
            given.iter().filter_map(|given| Some((given.relation?, format!("a volume of {}", given.peer))));
        match here.chain(there).find(|(relation, _)| snapshot.name.as_str().starts_with(&prefix(*relation))) {
            None => Ok(()),
            Some((_, volume)) => {
                Err(ReplicationError::Pinned { snapshot: snapshot.full_name(), volume }.into())
            }
        }
    }

    fn make_point(
        &self,
        relation: u64,
        destination: &str,
        volume: &VolumeName,
        number: u64,
    ) -> Result<Snapshot> {
        let context = ChangeContext::by(Actor::new(format!("replication to {destination}")));
        let name = Some(SnapshotName::stored(format!("{}{number}", prefix(relation))));
        let scheduled = Scheduled { kind: SnapshotKind::Replication, replaces: true };
        let new = NewSnapshot { name, ..NewSnapshot::default() };
        Ok(self.make_snapshot(&context, volume, &new, scheduled)?.value)
    }

    fn work_path(&self, replication: &Replication) -> PathBuf {
        let Replication { relation, volume_id, .. } = replication;
        self.dependencies.dir.join("replication").join(format!("{relation:016x}-{:016x}", volume_id.0))
    }

    /// The state of the destination.
    fn work_dir(&self, replication: &Replication) -> Result<WorkDir> {
        WorkDir::open(&self.work_path(replication)).map_err(refused)
    }

    fn scratch(&self, replication: &Replication) -> Result<PathBuf> {
        // It is there as soon as the directory is.
        self.work_dir(replication).map(|_| self.work_path(replication))
    }
}

/// The time of a point by the clock that stamps files. The time in its name and list may be later by some seconds, because no
/// two snapshots of a volume have the same.
fn taken(point: &Snapshot) -> Time {
    let ms = point.created_ms.min(point.changed_ms);
    Time { seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX), nanos: 0 }
}

fn refused(error: replicate::Error) -> Error {
    Error::Replication(ReplicationError::Failed { reason: harmless(&error.to_string()) })
}

/// Characters of a reason, which may be the words of another service.
const REASON_CHARS_MAX: usize = 500;

/// A text that neither steers a terminal nor fills a screen.
fn harmless(text: &str) -> String {
    let shown = |c| if steers_terminal(c) { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().take(REASON_CHARS_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_another_service_are_harmless() {
        let reason = |text: &str| refused(replicate::Error::Refused(text.to_owned())).to_string();
        assert_eq!(reason("no\u{1b}[2J\u{202e}"), "the replication failed: no\u{fffd}[2J\u{fffd}");
        assert!(reason(&"x".repeat(1 << 20)).len() < 600);
    }
}
