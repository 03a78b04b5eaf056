//! Packs under construction, and the list of all packs that a backup uses.

use crate::error::{Error, Result};
use crate::format::names::{BackupId, Hash, PackId};
use crate::format::pack::{Content, PackBuilder, PackInfo};
use crate::format::records::Place;
use crate::job::Job;
use crate::vault::{Vault, at, damaged};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};

pub(super) struct Packer<'v> {
    vault: &'v Vault,
    id: BackupId,
    /// Packs of the previous backup, and of an earlier attempt at this one.
    known: HashMap<PackId, PackInfo>,
    used: BTreeMap<PackId, PackInfo>,
    data: Option<PackBuilder>,
    leaves: Option<PackBuilder>,
    pub(super) sent_bytes: u64,
    /// Bytes of chunks of files in the open pack.
    pub(super) waiting_bytes: u64,
}

impl<'v> Packer<'v> {
    pub(super) fn new(vault: &'v Vault, id: BackupId, known: HashMap<PackId, PackInfo>) -> Self {
        let used = BTreeMap::new();
        Self { vault, id, known, used, data: None, leaves: None, sent_bytes: 0, waiting_bytes: 0 }
    }

    pub(super) fn vault(&self) -> &'v Vault {
        self.vault
    }

    /// Adds a chunk of a file, or a leaf. `owner` and `offset` are for the list of the pack.
    pub(super) fn add(
        &mut self,
        content: Content,
        owner: &[u8],
        offset: u64,
        chunk: &[u8],
        id: Hash,
        job: &mut Job<'_>,
    ) -> Result<Place> {
        let open = match content {
            Content::Data => &mut self.data,
            Content::Leaves => &mut self.leaves,
        };
        if let Some(full) = open.take_if(|builder| !builder.has_room(chunk.len() + owner.len())) {
            self.send(full, job)?;
            if content == Content::Data {
                self.waiting_bytes = 0;
            }
        }
        if content == Content::Data {
            self.waiting_bytes += chunk.len() as u64;
        }
        let (vault, backup) = (self.vault, self.id);
        let open = match content {
            Content::Data => &mut self.data,
            Content::Leaves => &mut self.leaves,
        };
        let builder =
            open.get_or_insert_with(|| PackBuilder::new(vault.secrets(), new_id(backup, job), content));
        let place = builder.add(owner, offset, chunk, id);
        place.ok_or_else(|| damaged("packs/", "a chunk cannot be encrypted"))
    }

    /// Notes that the backup needs a pack from before.
    pub(super) fn reuse(&mut self, pack: PackId) -> Result<()> {
        if !self.used.contains_key(&pack) {
            let info = self.known.get(&pack);
            let info = info.ok_or_else(|| damaged(&pack.object(), "no list of packs names it"))?;
            self.used.insert(pack, *info);
        }
        Ok(())
    }

    /// Sends what is incomplete.
    pub(super) fn flush(&mut self, job: &mut Job<'_>) -> Result<()> {
        let open = [self.data.take(), self.leaves.take()];
        open.into_iter().flatten().try_for_each(|builder| self.send(builder, job))?;
        self.waiting_bytes = 0;
        Ok(())
    }

    fn send(&mut self, builder: PackBuilder, job: &mut Job<'_>) -> Result<()> {
        let finished = builder.finish();
        let (id, bytes, info) = finished.ok_or_else(|| damaged("packs/", "a pack cannot be encrypted"))?;
        let name = id.object();
        let put = self.vault.store().put_new(&name, &bytes, job.pace);
        if !put.map_err(stopped_or(at(&name)))? {
            // A repeated request may have found its own object.
            let size = self.vault.store().size(&name).map_err(at(&name))?;
            if size != Some(info.size) {
                return Err(Error::Damaged(name, "another object has its random name"));
            }
        }
        self.sent_bytes += info.size;
        self.used.insert(id, info);
        Ok(())
    }

    /// Bytes of the packs of this backup, those of earlier attempts too.
    pub(super) fn own_bytes(&self) -> u64 {
        let own = self.used.iter().filter(|(pack, _)| pack.backup() == self.id);
        own.map(|(_, info)| info.size).sum()
    }

    pub(super) fn used(&self) -> &BTreeMap<PackId, PackInfo> {
        &self.used
    }
}

/// An error of the store, unless the pace ended the work.
fn stopped_or(at: impl Fn(io::Error) -> Error) -> impl Fn(io::Error) -> Error {
    move |error| if error.kind() == ErrorKind::Interrupted { Error::Stopped } else { at(error) }
}

fn new_id(backup: BackupId, job: &mut Job<'_>) -> PackId {
    let mut id = [0; 20];
    let (first, rest) = id.split_at_mut(backup.0.len());
    first.copy_from_slice(&backup.0);
    (job.random)(rest);
    PackId(id)
}
