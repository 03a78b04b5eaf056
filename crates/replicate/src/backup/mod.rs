//! Backups: a walk of the tree, then all files in the order of their keys, then the manifest.

mod copy;
mod packer;
mod resume;
mod writer;

use crate::error::{Error, Result};
use crate::format::bytes::Writer;
use crate::format::manifest::Manifest;
use crate::format::names::{self, BackupId};
use crate::format::seal::ObjectKind;
use crate::job::{Job, Progress, Source};
use crate::vault::index::{Cursor, Index, load_packs};
use crate::vault::{Vault, at};
use crate::walk::walk;
use copy::Copier;
use packer::Packer;
use resume::Resume;
use std::collections::HashMap;
use vfs::ViewId;
use writer::IndexWriter;

/// Makes backup `id`, or goes on with it after an error or a crash. Another number needs another `id`; choose it at
/// random. Nothing of the backup is visible before it is complete.
pub fn backup(vault: &Vault, id: BackupId, source: &Source<'_>, job: &mut Job<'_>) -> Result<Manifest> {
    vault.check_writer()?;
    if let Some(done) = vault.completed(id)? {
        return complete(vault, done);
    }
    let (mut base, mut known) = (None, HashMap::new());
    if let Some(previous) = begin(vault, id, source, job)? {
        known = load_packs(vault, &previous)?;
        base = Some((previous.taken, Cursor::new(vault, Index::load(vault, &previous)?)));
    }
    let resume = Resume::load(vault, id, job.scratch)?;
    known.extend(resume.packs.iter().map(|(pack, info)| (*pack, *info)));
    let packer = Packer::new(vault, id, known);
    let walked = walk(source.backend, job.scratch, job.progress)?;
    let progress =
        Progress { files_total: Some(walked.files), bytes_total: Some(walked.bytes), ..Progress::default() };
    let skipped = walked.skipped;
    let writer = IndexWriter::new(packer, resume.leaves, progress);
    let mut copier = Copier { source, base, extents: Default::default(), resumed: resume.data, writer, job };
    copier.copy_all(walked.records)?;
    let Copier { base, writer, .. } = copier;
    let (leaves, packs, mut totals) = writer.finish(vault, id, base.as_ref().map(|(_, base)| base), job)?;
    totals.skipped = skipped;
    let manifest = Manifest {
        id,
        volume: source.volume.to_owned(),
        snapshot: source.snapshot.to_owned(),
        taken: source.taken,
        finished: (job.now)(),
        previous: source.previous,
        locked_until: source.locked_until,
        totals,
        root: source.backend.root().key().in_view(ViewId::LIVE),
        leaves,
        packs,
    };
    vault.check_writer()?;
    vault.put(&names::manifest(id), ObjectKind::Manifest, &manifest.encode(), job.random)?;
    // It exists if it was put and the answer was lost, or if the backup was abandoned meanwhile.
    complete(vault, vault.completed(id)?.ok_or(Error::Abandoned(id))?)
}

/// Puts the session, which keeps the packs of this backup and of the previous one from removal.
/// Returns the manifest of the previous one.
fn begin(vault: &Vault, id: BackupId, source: &Source<'_>, job: &mut Job<'_>) -> Result<Option<Manifest>> {
    let mut payload = Writer::default();
    payload.bytes(source.previous.as_ref().map_or(&[][..], |id| &id.0));
    payload.bytes(source.volume.as_bytes());
    payload.bytes(source.snapshot.as_bytes());
    payload.time(source.taken);
    let name = names::session(id);
    let is_new = !vault.exists(&name)?;
    if !vault.put_or_same(&name, ObjectKind::Session, &payload.0, job.random)? {
        return Err(Error::OtherSource(id));
    }
    let Some(previous) = source.previous else { return Ok(None) };
    // A deletion after this sees the session.
    match vault.manifest(previous) {
        Err(Error::NotFound(_)) if is_new => {
            vault.delete_object(&name)?;
            Err(Error::NotFound(previous))
        }
        // The session has preserved the manifest of a backup that was deleted meanwhile.
        Err(Error::NotFound(_)) => vault.manifest_of(previous)?.map(Some).ok_or(Error::NotFound(previous)),
        // Keys of another volume's files mean other files.
        Ok(found) if found.volume != source.volume => {
            vault.delete_object(&name)?;
            Err(Error::OtherVolume(previous, found.volume))
        }
        found => found.map(Some),
    }
}

/// Locks the objects of a complete backup and ends its session.
fn complete(vault: &Vault, manifest: Manifest) -> Result<Manifest> {
    if let Some(until) = manifest.locked_until {
        let parts = manifest.leaves.iter().chain(&manifest.packs).map(|part| part.object.clone());
        let packs = load_packs(vault, &manifest)?;
        let packs = packs.keys().map(names::PackId::object);
        for object in parts.chain(packs).chain([names::manifest(manifest.id)]) {
            if !vault.store().retain(&object, until).map_err(at(&object))? {
                break;
            }
        }
    }
    vault.delete_object(&names::session(manifest.id))?;
    Ok(manifest)
}
