//! Makes volumes from snapshots. A clone is a [job](super::job), since some storages copy. It depends on nothing once it is
//! there, so the snapshot is in use only until then.

use super::job::JobEnd;
use super::snapshot::check_ready;
use super::volume::check_addresses;
use super::{Service, UNCHANGED, levels};
use crate::error::{Error, Result};
use crate::job::JobSpec;
use crate::kind::{Kind, State};
use crate::name::check_labels;
use crate::object_locks::{Locked, Mode, Object, Objects};
use crate::operation::{ChangeContext, ChangeResult, OperationId, Outcome, Verb};
use crate::pool::Pool;
use crate::snapshot::Snapshot;
use crate::store::{self, operation::NewOperation};
use crate::volume::{NewClone, NewVolume, Volume};
use vfs::claims::Grace;
use vfs::{Blocking, Root, ViewId, VolumeId};

impl Service {
    /// Starts the job that makes a volume with the files of a snapshot, and with the other properties of its volume. Asked
    /// again for the same clone, it returns that.
    pub fn clone_volume(&self, context: &ChangeContext, new: &NewClone) -> Result<ChangeResult<Volume>> {
        check_labels(&new.labels)?;
        let _locked = self.lock_clone(new)?;
        if let Some(found) = self.read(|store| Ok(store::volume::find(store, &new.name)?))? {
            return self.existing_clone(context, new, found);
        }
        let source = self.find_volume(&new.source)?;
        let snapshot = self.snapshot(&new.source, &new.snapshot)?;
        check_ready(&snapshot)?;
        let pool = self.find_pool(new.pool.as_ref().unwrap_or(&source.pool))?;
        let wanted = self.properties_of_clone(new, &source, &snapshot, &pool)?;
        let mut state = self.state();
        let volume = Volume { clone_of: Some(snapshot.full_name()), ..self.planned(&pool, &wanted)? };
        levels::check_totals(&pool, &state.totals.with(&pool, &volume), context.force)?;
        let detail = format!("{} in the pool {}, from {}", volume.size, pool.name, snapshot.full_name());
        let operation = self.change(|store| {
            store::volume::insert(store, &volume)?;
            check_addresses(store)?;
            let (source, view) = (source.id.0, snapshot.view.0);
            let begun = NewOperation {
                actor: &context.actor,
                verb: Verb::Create,
                kind: Kind::Volume,
                name: volume.name.as_str(),
                detail: &detail,
                spec: Some(JobSpec::Clone { volume: volume.id.0, source, view }),
            };
            Ok(store::operation::begin(store, &begun, self.now_ms())?)
        })?;
        state.totals.set(&volume);
        drop(state);
        self.enqueue(&operation);
        Ok(ChangeResult { value: volume, operation })
    }

    fn existing_clone(
        &self,
        context: &ChangeContext,
        new: &NewClone,
        found: Volume,
    ) -> Result<ChangeResult<Volume>> {
        let differs = new.differs_from(&found);
        if !differs.is_empty() {
            return Err(Error::Conflict { kind: Kind::Volume, name: new.name.to_string(), differs });
        }
        let is_its = |spec| matches!(spec, JobSpec::Clone { volume, .. } if volume == found.id.0);
        let operation = match self.find_job(is_its)? {
            Some(job) => self.operation(job.id)?,
            None => {
                let thing = (Kind::Volume, new.name.as_str());
                self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?
            }
        };
        Ok(ChangeResult { value: found, operation })
    }

    /// Locks the source, the new volume and its pool.
    fn lock_clone(&self, new: &NewClone) -> Result<Locked<'_>> {
        loop {
            let objects = self.objects_of_clone(new)?;
            let locked = self.objects.lock(&objects);
            if self.objects_of_clone(new)? == objects {
                return Ok(locked);
            }
        }
    }

    fn objects_of_clone(&self, new: &NewClone) -> Result<Objects> {
        let pool = match &new.pool {
            Some(pool) => pool.clone(),
            None => self.find_volume(&new.source)?.pool,
        };
        let mut objects = self.objects_of(&new.name, Some(&pool))?;
        objects.insert(Object::Volume(new.source.clone()), Mode::Exclusive);
        Ok(objects)
    }

    fn properties_of_clone(
        &self,
        new: &NewClone,
        source: &Volume,
        snapshot: &Snapshot,
        pool: &Pool,
    ) -> Result<NewVolume> {
        // Sizes of older snapshots were not recorded.
        let least = snapshot.volume_size;
        let size = new.size.unwrap_or(source.size.max(least));
        if size < least {
            let what = format!("a clone of {} with {}", snapshot.full_name(), size.for_people());
            let allowed = format!("at least {}, the size of the volume at that time", least.for_people());
            return Err(Error::invalid(what, allowed));
        }
        let level = source.level.filter(|_| source.pool_row == pool.row);
        Ok(NewVolume {
            share: new.share.clone(),
            level,
            settings: source.settings.clone(),
            protocols: Some(source.protocols),
            smb: Some(source.smb),
            root: Some(self.root_of(source, snapshot)?),
            durability: Some(source.durability),
            security_style: Some(source.security_style),
            snapshot_directory: Some(source.snapshot_directory),
            snap_reserve: Some(source.snap_reserve).filter(|_| levels::has_snap_reserve(pool, level)),
            rules: Some(source.rules.clone()),
            endpoints: Some(source.endpoints.clone()),
            labels: new.labels.clone(),
            ..NewVolume::new(new.name.clone(), pool.name.clone(), size)
        })
    }

    /// The mode and owner of the root directory in a snapshot.
    fn root_of(&self, source: &Volume, snapshot: &Snapshot) -> Result<Root> {
        let served = self.served_for_snapshots(source)?;
        let storage = super::snapshot::storage(&served, &source.name)?;
        let attrs = storage.open(snapshot.view).and_then(|files| files.root().attrs(Blocking::Allowed));
        let attrs = attrs.map_err(Error::storage(format!("read the snapshot {}", snapshot.full_name())))?;
        Ok(Root { mode: attrs.mode, uid: attrs.uid, gid: attrs.gid })
    }

    pub(super) fn clone_in_storage(
        &self,
        id: OperationId,
        volume: VolumeId,
        source: VolumeId,
        view: ViewId,
    ) -> JobEnd {
        self.jobs.begin(id, self.dependencies.pacer.now());
        let cloned = self.clone_one(id, volume, source, view);
        self.job_end(id, cloned.map(|is_done| is_done && !self.jobs.is_cancelled(id)))
    }

    fn clone_one(&self, id: OperationId, volume: VolumeId, source: VolumeId, view: ViewId) -> Result<bool> {
        let found = self.read(|store| Ok(store::volume::find_id(store, volume)?))?;
        let row = found.ok_or_else(|| Error::not_found(Kind::Volume, volume.0))?;
        let capacity = levels::capacity(&self.find_pool(&row.pool)?, &row);
        let provisioner = &self.dependencies.provisioner;
        let pace = &mut self.pace(id, 0);
        let cloned = provisioner.clone_volume(source, view, volume, &row.root, capacity, pace);
        cloned.map_err(Error::storage(format!("clone {}", row.clone_of.unwrap_or_default())))
    }

    /// Serves a clone, or removes what there is of it.
    pub(super) fn end_clone(&self, id: OperationId, volume: VolumeId, outcome: &Outcome) -> Result<()> {
        let found = self.read(|store| {
            Ok(store::volume::find_id(store, volume)?.zip(store::operation::find(store, id)?))
        })?;
        let Some((row, operation)) = found.filter(|(row, _)| row.state == State::Creating) else {
            return Ok(());
        };
        if *outcome != Outcome::Succeeded {
            return self.undo_create(row, operation, outcome.clone());
        }
        let pool = self.find_pool(&row.pool)?;
        let gate = self.state().meters.apply(&pool, &row)?;
        match self.open_storage(&row, gate, Grace::default()) {
            Ok(served) => self.serve_created(row, served, operation).map(drop),
            Err(error) => {
                let error = Error::storage(format!("open the volume {}", row.name))(error);
                self.undo_create(row, operation, Outcome::Failed(error.to_string()))
            }
        }
    }
}
