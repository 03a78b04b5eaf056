//! The packs that an earlier attempt at a backup has sent.

use crate::error::Result;
use crate::format::bytes::{Reader, Writer};
use crate::format::names::{self, BackupId, Hash, PackId};
use crate::format::pack::{Content, Listed, PackInfo, TRAILER_BYTES, list, trailer};
use crate::format::records::{Extent, Place};
use crate::sorter::{Sorted, Sorter};
use crate::vault::{Vault, damaged};
use std::collections::HashMap;
use std::path::Path;

pub(super) struct Resume {
    pub(super) packs: HashMap<PackId, PackInfo>,
    pub(super) data: ResumedData,
    pub(super) leaves: HashMap<Hash, Place>,
}

/// Chunks in the order in which the backup comes to them.
pub(super) struct ResumedData(Sorted);

impl Resume {
    pub(super) fn load(vault: &Vault, id: BackupId, scratch: &Path) -> Result<Self> {
        let mut found = Vec::new();
        vault.each(&names::packs_of(id), &mut |name, size| {
            found.extend(PackId::of_object(name).map(|pack| (pack, size)));
        })?;
        let (mut packs, mut leaves, mut sorter) = (HashMap::new(), HashMap::new(), Sorter::new(scratch));
        for (pack, size) in found {
            let (info, content, listed) = read_list(vault, pack, size)?;
            packs.insert(pack, info);
            for one in listed {
                match content {
                    Content::Leaves => _ = leaves.insert(one.id, one.place),
                    Content::Data => sorter.push(key(&one.owner, one.offset), encode(&one))?,
                }
            }
        }
        Ok(Self { packs, data: ResumedData(sorter.finish()?), leaves })
    }
}

/// Reads the list of a pack without its chunks.
pub(crate) fn read_list(vault: &Vault, pack: PackId, size: u64) -> Result<(PackInfo, Content, Vec<Listed>)> {
    let name = pack.object();
    let bad = || damaged(&name, "its list of chunks is malformed");
    let at = size.checked_sub(TRAILER_BYTES as u64).ok_or_else(bad)?;
    let trailer = trailer(&vault.read(&name, at, TRAILER_BYTES)?, size).ok_or_else(bad)?;
    let stored = vault.read(&name, trailer.at.into(), trailer.len as usize)?;
    let (content, listed) = list(vault.secrets(), pack, &trailer, &stored).ok_or_else(bad)?;
    Ok((trailer.info, content, listed))
}

impl ResumedData {
    /// The chunk of a file's range, if it was sent. Calls come in the order of files and offsets.
    pub(super) fn find(&mut self, content: &[u8], offset: u64, len: u32) -> Result<Option<Extent>> {
        let wanted = key(content, offset);
        while self.0.peek().is_some_and(|(at, _)| *at < wanted) {
            self.0.next()?;
        }
        let Some((_, value)) = self.0.peek().filter(|(at, _)| *at == wanted) else { return Ok(None) };
        Ok(decode(offset, value).filter(|extent| extent.len == len))
    }
}

fn key(owner: &[u8], offset: u64) -> Vec<u8> {
    [owner, &offset.to_be_bytes()].concat()
}

fn encode(listed: &Listed) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(listed.len);
    writer.raw(&listed.id.0);
    writer.raw(&listed.place.pack.0);
    writer.u32(listed.place.offset);
    writer.u32(listed.place.len);
    writer.0
}

fn decode(offset: u64, value: &[u8]) -> Option<Extent> {
    let mut reader = Reader(value);
    let (len, id) = (reader.u32()?, Hash(reader.array()?));
    let place = Place { pack: PackId(reader.array()?), offset: reader.u32()?, len: reader.u32()? };
    Some(Extent { offset, len, id, place })
}
