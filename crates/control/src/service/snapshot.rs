//! Creates, changes, deletes and lists snapshots. Creation and changes end with the call; deletion is a [job](super::job).

use super::{Page, Service, UNCHANGED, check_version, levels};
use crate::error::{Error, Result};
use crate::job::JobSpec;
use crate::kind::{Kind, State};
use crate::limits::{DESCRIPTION_CHARS_MAX, LOCK_CLOCK_BEHIND_MS};
use crate::name::{SnapshotName, VolumeName};
use crate::object_locks::{Locked, Mode, Object, Objects};
use crate::operation::{ChangeContext, ChangeResult, Operation, Outcome, Verb};
use crate::snapshot::{NewSnapshot, Snapshot, SnapshotChange, SnapshotKind, SnapshotState, full_name};
use crate::store::{self, lock_clock, operation::NewOperation};
use crate::volume::Volume;
use rusqlite::Connection;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::{FsError, SnapshotUsage, Snapshots, ViewId, VolumeId};

impl Service {
    /// Makes a snapshot with every change that clients have been told of. Succeeds without a change if an identical one
    /// of that name exists.
    pub fn create_snapshot(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        new: &NewSnapshot,
    ) -> Result<ChangeResult<Snapshot>> {
        self.check_writable_volume(&self.find_volume(volume)?, "have snapshots of its own")?;
        self.make_snapshot(context, volume, new, Scheduled::default())
    }

    pub(super) fn make_snapshot(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        new: &NewSnapshot,
        scheduled: Scheduled,
    ) -> Result<ChangeResult<Snapshot>> {
        check_description(&new.description)?;
        let _locked = self.lock_snapshots(volume);
        self.finish_named(volume)?;
        let of = self.find_volume(volume)?;
        if let Some(name) = &new.name
            && let Some(found) = self.find_same_name(&of, name)?
        {
            return self.existing(context, new, found);
        }
        let served = self.served_for_snapshots(&of)?;
        let storage = storage(&served, volume)?;
        self.check_new(&of, new, scheduled)?;
        let (snapshot, operation) =
            self.change(|store| self.insert(store, context, &of, new, scheduled.kind))?;
        if let Err(error) = storage.create(snapshot.view) {
            let advice = match error {
                FsError::TooManyLinks => {
                    ", which may have no more of them: delete some, or raise mds_max_snaps_per_dir of the CephFS"
                }
                _ => "",
            };
            let error = Error::storage(format!("make a snapshot of the volume {volume}{advice}"))(error);
            // It should leave nothing. What it leaves nevertheless, the next start deletes.
            _ = storage.delete(snapshot.view, &mut |_| ControlFlow::Continue(()));
            self.change(|store| {
                store::snapshot::delete(store, of.id, snapshot.view)?;
                let outcome = Outcome::Failed(error.to_string());
                Ok(store::operation::end(store, operation, outcome, self.now_ms())?)
            })?;
            return Err(error);
        }
        let snapshot = Snapshot { state: SnapshotState::Ready, ..snapshot };
        let operation = self.change(|store| {
            store::snapshot::update(store, &snapshot)?;
            Ok(store::operation::end(store, operation, Outcome::Succeeded, self.now_ms())?)
        })?;
        self.show_snapshots(&of, &served)?;
        Ok(ChangeResult { value: snapshot, operation })
    }

    /// The answer to a request for a snapshot whose name exists.
    fn existing(
        &self,
        context: &ChangeContext,
        new: &NewSnapshot,
        found: Snapshot,
    ) -> Result<ChangeResult<Snapshot>> {
        check_ready(&found)?;
        let differs = new.differs_from(&found);
        let name = found.full_name();
        if !differs.is_empty() {
            return Err(Error::Conflict { kind: Kind::Snapshot, name, differs });
        }
        let thing = (Kind::Snapshot, name.as_str());
        let operation = self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
        Ok(ChangeResult { value: found, operation })
    }

    /// The snapshot of a volume that has this name, or one that SMB, which ignores case, does not tell from it.
    fn find_same_name(&self, volume: &Volume, name: &SnapshotName) -> Result<Option<Snapshot>> {
        let all = self.read(|store| Ok(store::snapshot::of_volume(store, volume.id)?))?;
        let folded = name.folded();
        let exact = all.iter().position(|one| one.name == *name);
        let place = exact.or_else(|| all.iter().position(|one| one.name.folded() == folded));
        Ok(place.and_then(|place| all.into_iter().nth(place)))
    }

    fn check_new(&self, volume: &Volume, new: &NewSnapshot, scheduled: Scheduled) -> Result<()> {
        let pool = self.find_pool(&volume.pool)?;
        if let Some(name) = new.name.as_ref().filter(|_| scheduled.kind == SnapshotKind::Manual) {
            levels::check_snapshot_name(&pool, volume, name)?;
        }
        self.check_lock_time(new.locked_until_ms)?;
        let all = self.read(|store| Ok(store::snapshot::of_volume(store, volume.id)?))?;
        let present = all.iter().filter(|one| one.state != SnapshotState::Deleting).count();
        levels::check_snapshots(&pool, volume, present + usize::from(!scheduled.replaces))
    }

    /// Writes the intent to make a snapshot.
    fn insert(
        &self,
        store: &Connection,
        context: &ChangeContext,
        volume: &Volume,
        new: &NewSnapshot,
        kind: SnapshotKind,
    ) -> Result<(Snapshot, Operation)> {
        let now = self.now_ms();
        let (view, created_ms) = store::snapshot::take_number(store, volume.id, now)?;
        if view > ViewId::MAX {
            let what = format!("one more snapshot of the volume {}", volume.name);
            return Err(Error::invalid(what, format!("{} in all its life", ViewId::MAX.0)));
        }
        let name = match &new.name {
            Some(name) => name.clone(),
            None => name_of_time(store, volume.id, kind, created_ms)?,
        };
        let snapshot = Snapshot {
            volume_id: volume.id,
            volume: volume.name.clone(),
            view,
            name,
            kind,
            description: new.description.clone(),
            state: SnapshotState::Creating,
            reason: String::new(),
            locked_until_ms: new.locked_until_ms,
            volume_size: volume.size,
            version: 1,
            created_ms,
            changed_ms: now,
        };
        if new.name.is_none()
            && let Some(found) = store::snapshot::find(store, volume.id, &snapshot.name)?
        {
            return Err(Error::Conflict {
                kind: Kind::Snapshot,
                name: found.full_name(),
                differs: new.differs_from(&found),
            });
        }
        store::snapshot::insert(store, &snapshot)?;
        lock_clock::advance(store, self.lock_now_ms())?;
        let thing = snapshot.full_name();
        let operation = self.begin(store, context, Verb::Create, (Kind::Snapshot, &thing), "")?;
        Ok((snapshot, operation))
    }

    pub fn update_snapshot(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        name: &SnapshotName,
        change: &SnapshotChange,
    ) -> Result<ChangeResult<Snapshot>> {
        change.description.as_deref().map_or(Ok(()), check_description)?;
        let _locked = self.lock_snapshots(volume);
        check_settled(&self.find_volume(volume)?)?;
        let before = self.snapshot(volume, name)?;
        self.check_no_point(&before)?;
        let full_name = before.full_name();
        let thing = (Kind::Snapshot, full_name.as_str());
        check_version(context, Kind::Snapshot, &full_name, before.version)?;
        check_ready(&before)?;
        let (mut after, changes) = before.changed(change);
        if changes.is_empty() {
            let operation =
                self.change(|store| self.record(store, context, Verb::Update, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: before, operation });
        }
        if before.locked_until_ms != after.locked_until_ms {
            if after.locked_until_ms < before.locked_until_ms {
                self.check_unlocked(&before)?;
            }
            self.check_lock_time(after.locked_until_ms)?;
        }
        (after.version, after.changed_ms) = (before.version + 1, self.now_ms());
        let operation = self.change(|store| {
            store::snapshot::update(store, &after)?;
            lock_clock::advance(store, self.lock_now_ms())?;
            self.record(store, context, Verb::Update, thing, &changes.join(", "))
        })?;
        Ok(ChangeResult { value: after, operation })
    }

    /// Hides a snapshot from clients, and starts the job that deletes it. Asked again, it returns the job that runs.
    pub fn delete_snapshot(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        name: &SnapshotName,
    ) -> Result<Operation> {
        let _locked = self.lock_snapshots(volume);
        self.check_no_point(&self.snapshot(volume, name)?)?;
        self.remove_locked_snapshot(context, volume, name)
    }

    /// [`Service::delete_snapshot`] of any snapshot.
    pub(super) fn remove_snapshot(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        name: &SnapshotName,
    ) -> Result<Operation> {
        let _locked = self.lock_snapshots(volume);
        self.remove_locked_snapshot(context, volume, name)
    }

    /// [`Service::remove_snapshot`] of a volume whose snapshots the caller has locked.
    pub(super) fn remove_locked_snapshot(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        name: &SnapshotName,
    ) -> Result<Operation> {
        let of = self.find_volume(volume)?;
        let before = self.snapshot(volume, name)?;
        let full_name = before.full_name();
        check_version(context, Kind::Snapshot, &full_name, before.version)?;
        let running = self.read(|store| Ok(store::operation::running(store, Kind::Snapshot, &full_name)?))?;
        if let Some(running) = running.filter(|_| before.state == SnapshotState::Deleting) {
            return self.operation(running.id);
        }
        self.check_unlocked(&before)?;
        self.check_no_job((Kind::Snapshot, &full_name), |spec| spec.pinned() == Some((of.id, before.view)))?;
        self.check_no_backup(&before)?;
        let served = self.served_for_snapshots(&of)?;
        let (version, changed_ms) = (before.version + 1, self.now_ms());
        let state = SnapshotState::Deleting;
        let after = Snapshot { state, version, changed_ms, reason: String::new(), ..before };
        let operation = self.change(|store| {
            store::snapshot::update(store, &after)?;
            lock_clock::advance(store, self.lock_now_ms())?;
            let spec = JobSpec::delete_snapshot(of.id, after.view);
            let begun = NewOperation {
                actor: &context.actor,
                verb: Verb::Delete,
                kind: Kind::Snapshot,
                name: &full_name,
                detail: "",
                spec: Some(spec),
            };
            Ok(store::operation::begin(store, &begun, self.now_ms())?)
        })?;
        self.show_snapshots(&of, &served)?;
        self.enqueue(&operation);
        Ok(operation)
    }

    pub fn snapshot(&self, volume: &VolumeName, name: &SnapshotName) -> Result<Snapshot> {
        let id = self.find_volume(volume)?.id;
        let found = self.read(|store| Ok(store::snapshot::find(store, id, name)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Snapshot, full_name(volume, name)))
    }

    /// Lists the snapshots of a volume by name after `after`, the [`Page::next`] of the previous page.
    pub fn snapshots(&self, volume: &VolumeName, after: Option<&str>, most: usize) -> Result<Page<Snapshot>> {
        let id = self.find_volume(volume)?.id;
        let after = after.unwrap_or("");
        self.page(
            most,
            |store, most| store::snapshot::list(store, id, after, most),
            |one| one.name.to_string(),
        )
    }

    /// The snapshots of a volume that clients can read.
    pub fn snapshot_count(&self, volume: &VolumeName) -> Result<usize> {
        let id = self.find_volume(volume)?.id;
        let all = self.read(|store| Ok(store::snapshot::of_volume(store, id)?))?;
        Ok(all.iter().filter(|one| one.state == SnapshotState::Ready).count())
    }

    /// The space of a snapshot. Nothing of it is known while its volume is not open.
    pub fn snapshot_usage(&self, snapshot: &Snapshot) -> SnapshotUsage {
        let served = self.served(&snapshot.volume).filter(|_| snapshot.state == SnapshotState::Ready);
        let usage = |served: Arc<vfs::Volume>| served.snapshot_storage()?.usage(snapshot.view).ok();
        served.and_then(usage).unwrap_or_default()
    }

    /// Locks a volume to change its snapshots. They do not depend on its pool.
    pub(super) fn lock_snapshots(&self, volume: &VolumeName) -> Locked<'_> {
        self.objects.lock(&Objects::from([(Object::Volume(volume.clone()), Mode::Exclusive)]))
    }

    /// Updates the data plane to the snapshots in the store. The caller has locked the volume, so that the list of a later
    /// change is also the later one here.
    pub(crate) fn show_snapshots(&self, volume: &Volume, served: &vfs::Volume) -> Result<()> {
        let all = self.read(|store| Ok(store::snapshot::of_volume(store, volume.id)?))?;
        let is_ready = |one: &&Snapshot| one.state == SnapshotState::Ready;
        served.set_snapshots(all.iter().filter(is_ready).map(Snapshot::served).collect());
        Ok(())
    }

    pub(super) fn served_for_snapshots(&self, volume: &Volume) -> Result<Arc<vfs::Volume>> {
        check_settled(volume)?;
        let closed = || Error::storage(format!("open the volume {}", volume.name))(FsError::Io);
        self.served(&volume.name).ok_or_else(closed)
    }

    /// The time by which locks end.
    pub(crate) fn lock_now_ms(&self) -> u64 {
        self.lock_clock.now_ms(self.dependencies.pacer.now(), self.now_ms())
    }

    /// Stores the time by which locks end, if there is a lock. Otherwise it follows the time of day.
    pub(super) fn store_lock_clock(&self) -> Result<()> {
        let now = self.lock_now_ms();
        if self.read(|store| Ok(lock_clock::has_locks(store, now)?))? {
            return self.change(|store| Ok(lock_clock::advance(store, now)?));
        }
        self.lock_clock.follow(self.now_ms());
        Ok(())
    }

    pub(super) fn check_unlocked(&self, snapshot: &Snapshot) -> Result<()> {
        if !snapshot.is_locked(self.lock_now_ms()) {
            return Ok(());
        }
        let until = snapshot.locked_until_ms.unwrap_or_default();
        let until = self.lock_end_text(until)?;
        Err(Error::Locked { snapshot: snapshot.full_name(), until })
    }

    /// Refuses the deletion of a volume with locked snapshots, and without force with any but those that backups have left.
    pub(super) fn check_snapshots_may_go(&self, volume: VolumeId, force: bool) -> Result<()> {
        let all = self.read(|store| Ok(store::snapshot::of_volume(store, volume)?))?;
        all.iter().try_for_each(|snapshot| self.check_unlocked(snapshot))?;
        let is_left = |one: &Snapshot| one.kind == SnapshotKind::Backup && self.check_no_backup(one).is_ok();
        if force { Ok(()) } else { check_none(&all, is_left) }
    }

    pub(super) fn check_no_snapshots(&self, volume: VolumeId) -> Result<()> {
        check_none(&self.read(|store| Ok(store::snapshot::of_volume(store, volume)?))?, |_| false)
    }

    /// The end of a lock. Names the clock of locks if that is behind the time of day.
    pub(super) fn lock_end_text(&self, until_ms: u64) -> Result<String> {
        let (now, day) = (self.lock_now_ms(), self.now_ms());
        let text = |ms| self.read(|store| Ok(lock_clock::utc(store, "%Y-%m-%d %H:%M:%S UTC", ms)?));
        let until = text(until_ms)?;
        if day.saturating_sub(now) < LOCK_CLOCK_BEHIND_MS {
            return Ok(until);
        }
        Ok(format!(
            "{until} by the clock of locks, which counts while the service runs and shows {}",
            text(now)?
        ))
    }

    /// Refuses the end of a lock that has passed already.
    pub(super) fn check_lock_time(&self, until: Option<u64>) -> Result<()> {
        if until.is_some() {
            self.store_lock_clock()?;
        }
        let now = self.lock_now_ms();
        match until {
            Some(until) if until <= now => {
                let form = "%Y-%m-%dT%H:%M:%SZ";
                let (until, now) = self.read(|store| {
                    Ok((lock_clock::utc(store, form, until)?, lock_clock::utc(store, form, now)?))
                })?;
                Err(Error::invalid(format!("a lock until {until}"), format!("a time after {now}")))
            }
            _ => Ok(()),
        }
    }
}

/// The schedule of a snapshot.
#[derive(Clone, Copy, Default)]
pub(super) struct Scheduled {
    /// [`SnapshotKind::Manual`] without a schedule.
    pub(super) kind: SnapshotKind,
    /// Whether an older snapshot is deleted after it.
    pub(super) replaces: bool,
}

/// The name of a snapshot without one, in UTC, so that no hour is doubled: for a schedule as Azure NetApp Files names them, else
/// one that every provider allows.
fn name_of_time(store: &Connection, volume: VolumeId, kind: SnapshotKind, ms: u64) -> Result<SnapshotName> {
    let named = |form: &str| Ok::<_, Error>(SnapshotName::stored(lock_clock::utc(store, form, ms)?));
    if kind == SnapshotKind::Manual {
        return named("manual-%Y-%m-%d-%H%M%S");
    }
    let name = named(&format!("{kind}.%Y-%m-%d_%H%M"))?;
    // The time of day can have been set back by a minute or more.
    match store::snapshot::find(store, volume, &name)? {
        Some(_) => named(&format!("{kind}.%Y-%m-%d_%H%M%S")),
        None => Ok(name),
    }
}

/// The snapshots in the storage of a volume.
pub(super) fn storage<'v>(served: &'v vfs::Volume, volume: &VolumeName) -> Result<&'v dyn Snapshots> {
    served.snapshot_storage().ok_or_else(|| Error::NoSnapshots { volume: volume.to_string() })
}

/// Refuses a volume whose storage is being made, replaced or removed.
pub(super) fn check_settled(volume: &Volume) -> Result<()> {
    match volume.state {
        State::Ready | State::Updating => Ok(()),
        state => Err(Error::Changing { volume: volume.name.to_string(), state }),
    }
}

pub(super) fn check_ready(snapshot: &Snapshot) -> Result<()> {
    match snapshot.state {
        SnapshotState::Ready => Ok(()),
        state => Err(Error::SnapshotState { snapshot: snapshot.full_name(), state: state.as_str() }),
    }
}

fn check_description(text: &str) -> Result<()> {
    let chars = text.chars().count();
    let is_plain = |c: char| c == '\n' || !crate::name::steers_terminal(c);
    if chars <= DESCRIPTION_CHARS_MAX && text.chars().all(is_plain) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("a description of {chars} characters"),
        format!("at most {DESCRIPTION_CHARS_MAX} characters, and none that control a terminal"),
    ))
}

/// Refuses snapshots, apart from those that do not count.
fn check_none(all: &[Snapshot], counts_not: impl Fn(&Snapshot) -> bool) -> Result<()> {
    let counting = |one: &&Snapshot| one.state != SnapshotState::Deleting && !counts_not(one);
    match (all.first(), all.iter().filter(counting).count()) {
        (None, _) | (_, 0) => Ok(()),
        (Some(first), snapshots) => Err(Error::HasSnapshots { volume: first.volume.to_string(), snapshots }),
    }
}
