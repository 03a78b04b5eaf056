//! The index of a backup as it is written, record by record.

use super::packer::Packer;

use crate::error::{Error, Result};
use crate::format::PART_BYTES;
use crate::format::bytes::Writer;
use crate::format::leaf::LeafBuilder;
use crate::format::manifest::{Part, Totals, write_pack};
use crate::format::names::{self, BackupId, Hash};
use crate::format::pack::Content;
use crate::format::records::{LeafRef, Place};
use crate::format::seal::ObjectKind;
use crate::job::{Job, Progress};
use crate::vault::Vault;
use crate::vault::index::Cursor;
use std::collections::HashMap;

pub(super) struct IndexWriter<'v> {
    pub(super) packer: Packer<'v>,
    pub(super) progress: Progress,
    builder: LeafBuilder,
    /// Leaves that an earlier attempt has sent.
    resumed: HashMap<Hash, Place>,
    list: Vec<LeafRef>,
}

impl<'v> IndexWriter<'v> {
    pub(super) fn new(packer: Packer<'v>, resumed: HashMap<Hash, Place>, progress: Progress) -> Self {
        Self { packer, progress, builder: LeafBuilder::default(), resumed, list: Vec::new() }
    }

    /// Adds the next record, in the order of keys. A leaf that `base`, the previous index, has is not sent again.
    pub(super) fn push(
        &mut self,
        key: &[u8],
        value: &[u8],
        base: Option<&Cursor<'_>>,
        job: &mut Job<'_>,
    ) -> Result<()> {
        self.builder.push(key, value);
        if self.builder.is_full() { self.end_leaf(base, job) } else { Ok(()) }
    }

    fn end_leaf(&mut self, base: Option<&Cursor<'_>>, job: &mut Job<'_>) -> Result<()> {
        let Some((first, leaf)) = self.builder.take() else { return Ok(()) };
        let id = self.packer.vault().secrets().chunk_id(&leaf);
        let old = base.and_then(|base| base.leaf_at(&first)).filter(|old| old.id == id);
        let place = match old.map(|old| old.place).or_else(|| self.resumed.get(&id).copied()) {
            Some(place) => {
                self.packer.reuse(place.pack)?;
                place
            }
            None => self.packer.add(Content::Leaves, &first, 0, &leaf, id, job)?,
        };
        let len = u32::try_from(leaf.len()).unwrap_or(u32::MAX);
        self.list.push(LeafRef { first, id, place, len });
        Ok(())
    }

    pub(super) fn report(&mut self, job: &mut Job<'_>) -> Result<()> {
        self.progress.bytes_sent = self.packer.sent_bytes;
        self.progress.bytes_waiting = self.packer.waiting_bytes;
        match (job.progress)(&self.progress).is_break() {
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }

    /// Sends everything but the manifest.
    pub(super) fn finish(
        mut self,
        vault: &Vault,
        id: BackupId,
        base: Option<&Cursor<'_>>,
        job: &mut Job<'_>,
    ) -> Result<(Vec<Part>, Vec<Part>, Totals)> {
        self.end_leaf(base, job)?;
        self.packer.flush(job)?;
        self.report(job)?;
        let leaves =
            put_list(vault, id, ObjectKind::Leaves, self.list.iter(), job, |leaf, part| leaf.write(part))?;
        let packs =
            put_list(vault, id, ObjectKind::Packs, self.packer.used().iter(), job, |(pack, info), part| {
                write_pack(part, pack, info);
            })?;
        let totals = Totals {
            files: self.progress.files_done,
            bytes: self.progress.bytes_done,
            sent_bytes: self.packer.own_bytes(),
            skipped: 0,
        };
        Ok((leaves, packs, totals))
    }
}

fn put_list<T>(
    vault: &Vault,
    id: BackupId,
    kind: ObjectKind,
    items: impl Iterator<Item = T>,
    job: &mut Job<'_>,
    write: impl Fn(T, &mut Writer),
) -> Result<Vec<Part>> {
    let (mut parts, mut part) = (Vec::new(), Writer::default());
    for item in items {
        write(item, &mut part);
        if part.0.len() >= PART_BYTES {
            parts.push(put_part(vault, id, kind, &std::mem::take(&mut part.0), job)?);
        }
    }
    if !part.0.is_empty() {
        parts.push(put_part(vault, id, kind, &part.0, job)?);
    }
    Ok(parts)
}

/// Puts a part of a list under a name of its own.
fn put_part(
    vault: &Vault,
    id: BackupId,
    kind: ObjectKind,
    payload: &[u8],
    job: &mut Job<'_>,
) -> Result<Part> {
    loop {
        let mut number = [0; 8];
        (job.random)(&mut number);
        let object = names::part(id, number);
        if (job.pace)(payload.len() as u64).is_break() {
            return Err(Error::Stopped);
        }
        let written = vault.put(&object, kind, payload, job.random)?;
        if written.is_new {
            return Ok(Part { object, hash: written.hash });
        }
    }
}
