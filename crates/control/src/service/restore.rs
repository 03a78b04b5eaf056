//! Restores files from snapshots into their volume. A restore is a [job](super::job): it replaces one file after the other, each in
//! one step, and notes those that are done, so that a later run does not undo what users have changed since.

use super::Service;
use super::job::JobEnd;
use super::snapshot::check_ready;
use crate::error::{Error, Result};
use crate::job::JobSpec;
use crate::kind::Kind;
use crate::limits::{RESTORE_PATH_CHARS_MAX, RESTORE_PATHS_MAX, RESTORE_RETRY_MS, RESTORE_WAIT_MS};
use crate::name::{SnapshotName, VolumeName};
use crate::operation::{ChangeContext, Operation, OperationId, Verb};
use crate::snapshot::Snapshot;
use crate::store::restored_file::{self, RestoredFile};
use crate::store::{self, operation::NewOperation};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use vfs::{Export, FileRestore, FsError, Progress, RestoreError, ViewId, VolumeId};

impl Service {
    /// Starts the job that restores files of a snapshot: to their paths, or into the directory `to`. Directories must
    /// exist. The snapshot stays until the job ends.
    pub fn restore_files(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        name: &SnapshotName,
        paths: &[String],
        to: Option<&str>,
    ) -> Result<Operation> {
        let files = files_of(paths, to)?;
        let _locked = self.lock_snapshots(volume);
        let of = self.find_volume(volume)?;
        let served = self.served_for_snapshots(&of)?;
        self.check_writable_volume(&of, "get restored files")?;
        let snapshot = self.snapshot(volume, name)?;
        check_ready(&snapshot)?;
        let is_other = |spec| matches!(spec, JobSpec::RestoreFiles { volume, .. } if volume == of.id.0);
        self.check_no_job((Kind::Volume, volume.as_str()), is_other)?;
        let export = export_of(served);
        for file in &files {
            let checked = file.restore(snapshot.view, b"", |restore| export.check_restore(restore));
            checked.map_err(|error| refusal(&snapshot, file, error))?;
        }
        let full_name = snapshot.full_name();
        let detail = if files.len() == 1 { files[0].path.clone() } else { format!("{} files", files.len()) };
        let detail = to.map_or(detail.clone(), |to| format!("{detail}, to {to}"));
        let operation = self.change(|store| {
            let begun = NewOperation {
                actor: &context.actor,
                verb: Verb::Restore,
                kind: Kind::Snapshot,
                name: &full_name,
                detail: &detail,
                spec: Some(JobSpec::RestoreFiles { volume: of.id.0, view: snapshot.view.0 }),
            };
            let operation = store::operation::begin(store, &begun, self.now_ms())?;
            restored_file::insert(store, operation.id, &files)?;
            Ok(operation)
        })?;
        self.enqueue(&operation);
        Ok(operation)
    }

    pub(super) fn restore_in_volume(&self, id: OperationId, volume: VolumeId, view: ViewId) -> JobEnd {
        self.jobs.begin(id, self.dependencies.pacer.now());
        match self.try_restore(id, volume, view) {
            Ok(true) => JobEnd::Succeeded,
            Ok(false) if self.jobs.is_cancelled(id) => JobEnd::Cancelled,
            Ok(false) => JobEnd::Stopped,
            Err(error) => JobEnd::Failed(error.to_string()),
        }
    }

    /// Restores the files that are left. False if the job is to end early.
    fn try_restore(&self, id: OperationId, volume: VolumeId, view: ViewId) -> Result<bool> {
        let snapshot = self.read(|store| Ok(store::snapshot::find_view(store, volume, view)?))?;
        let snapshot = snapshot.ok_or_else(|| Error::not_found(Kind::Snapshot, view.0))?;
        let served = self.served_by_id(volume);
        let closed = || Error::storage(format!("open the volume {}", snapshot.volume))(FsError::Io);
        let export = export_of(served.ok_or_else(closed)?);
        let files = self.read(|store| Ok(restored_file::of(store, id)?))?;
        let temporary = format!(".plimsoll-restore-{id}");
        let mut sizes = Vec::new();
        for file in &files {
            let size = file.restore(view, temporary.as_bytes(), |restore| export.check_restore(restore));
            sizes.push(size.map_err(|error| refusal(&snapshot, file, error))?);
        }
        let total = sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(*size));
        let (mut before, mut recorded_ms) = (0, 0);
        for (file, size) in files.iter().zip(sizes) {
            let mut wait = Waiting::default();
            let mut pace = |progress: Progress| {
                let done = before + progress.done.min(size);
                self.jobs.step(id, Progress { done, total: Some(total) })?;
                // The record is for the time after a restart alone.
                _ = self.record_progress(id, &mut recorded_ms);
                match wait.is_stuck(progress.done, self.now_ms()) {
                    None => self.jobs.pause(id, || self.dependencies.pacer.now()),
                    Some(false) => self.jobs.rest(id, Duration::from_millis(RESTORE_RETRY_MS))?,
                    Some(true) => return ControlFlow::Break(()),
                }
                ControlFlow::Continue(())
            };
            let restored =
                file.restore(view, temporary.as_bytes(), |restore| export.restore_file(restore, &mut pace));
            match restored.map_err(|error| refusal(&snapshot, file, error))? {
                true => self.change(|store| Ok(restored_file::delete(store, id, file.place)?))?,
                false if wait.gave_up => {
                    let seconds = RESTORE_WAIT_MS / 1_000;
                    let what = format!("{}: clients did not return it for {seconds} seconds", file.path);
                    return Err(Error::invalid(what, "files that no client holds"));
                }
                false => return Ok(false),
            }
            before += size;
        }
        Ok(true)
    }
}

/// The time for which a restore makes no progress.
#[derive(Default)]
struct Waiting {
    /// The bytes at the last step, and the time of the first step with them.
    at: Option<(u64, u64)>,
    gave_up: bool,
}

impl Waiting {
    /// Whether the time is over; `None` if there was progress.
    fn is_stuck(&mut self, done: u64, now_ms: u64) -> Option<bool> {
        match self.at {
            Some((before, since_ms)) if before == done => {
                self.gave_up = now_ms.abs_diff(since_ms) >= RESTORE_WAIT_MS;
                Some(self.gave_up)
            }
            _ => {
                self.at = Some((done, now_ms));
                None
            }
        }
    }
}

impl RestoredFile {
    fn restore<R>(&self, snapshot: ViewId, temporary: &[u8], act: impl FnOnce(&FileRestore<'_>) -> R) -> R {
        let (path, dir) = (names(&self.path), names(&self.dir));
        act(&FileRestore { snapshot, path: &path, dir: &dir, temporary })
    }
}

/// The names of a path.
fn names(path: &str) -> Vec<&[u8]> {
    path.split('/').filter(|name| !name.is_empty()).map(str::as_bytes).collect()
}

/// An export for the service's own use: no client has it.
fn export_of(volume: Arc<vfs::Volume>) -> Arc<Export> {
    Arc::new(Export::new("/", volume, Vec::new()))
}

fn files_of(paths: &[String], to: Option<&str>) -> Result<Vec<RestoredFile>> {
    if paths.is_empty() || paths.len() > RESTORE_PATHS_MAX {
        let what = format!("a restore of {} files", paths.len());
        return Err(Error::invalid(what, format!("1 to {RESTORE_PATHS_MAX}")));
    }
    let to = to.map(check_path).transpose()?;
    let mut targets = BTreeSet::new();
    let mut files = Vec::new();
    for (place, path) in (0_u32..).zip(paths) {
        let path = check_path(path)?;
        let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if name.is_empty() {
            return Err(Error::invalid("a restore of the root directory", "paths of files"));
        }
        let dir = to.clone().unwrap_or_else(|| above.to_owned());
        if !targets.insert((dir.clone(), name.to_owned())) {
            let what = format!("two files that would both be {dir}/{name}");
            return Err(Error::invalid(what, "files with different targets; restore the others later"));
        }
        files.push(RestoredFile { place, dir, path });
    }
    Ok(files)
}

/// The path without slashes at its ends. It leads down alone.
fn check_path(path: &str) -> Result<String> {
    let chars = path.chars().count();
    if chars > RESTORE_PATH_CHARS_MAX {
        let what = format!("a path of {chars} characters");
        return Err(Error::invalid(what, format!("at most {RESTORE_PATH_CHARS_MAX}")));
    }
    let trimmed = path.trim_matches('/');
    let leads_away =
        |name: &str| matches!(name, "" | "." | ".." | ".snapshot" | "~snapshot") || name.contains('\0');
    if !trimmed.is_empty() && trimmed.split('/').any(leads_away) {
        let allowed = "names below the root of the volume, without . and .. and directories of snapshots";
        return Err(Error::invalid(format!("the path {path:?}"), allowed));
    }
    Ok(trimmed.to_owned())
}

fn refusal(snapshot: &Snapshot, file: &RestoredFile, error: RestoreError) -> Error {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let (what, error, allowed) = match error {
        RestoreError::Source(error) => {
            let what = format!("{} in the snapshot {}", file.path, snapshot.full_name());
            (what, error, "regular files; links are not followed".to_owned())
        }
        RestoreError::Dir(error) => {
            (format!("the directory /{}", file.dir), error, "directories that exist".to_owned())
        }
        RestoreError::Target(error @ (FsError::IsDirectory | FsError::BadType)) => {
            let what = format!("{name} in the directory /{}", file.dir);
            (what, error, "a free name, or a regular file, which is replaced".to_owned())
        }
        RestoreError::Target(error) => {
            return Error::storage(format!("restore {} to the directory /{}", file.path, file.dir))(error);
        }
    };
    match error {
        FsError::Io | FsError::Resource | FsError::Stale => Error::storage(format!("read {what}"))(error),
        error => Error::invalid(format!("{what}: {error}"), allowed),
    }
}
