//! Checks of a backup's objects.

use crate::error::{Error, Result};
use crate::format::leaf;
use crate::format::manifest::Manifest;
use crate::format::names::PackId;
use crate::format::pack::TRAILER_BYTES;
use crate::format::pack::{Content, PackInfo, is_intact, list, trailer};
use crate::format::records::{Inode, Place, decode_entry};
use crate::format::sort_key::{self, Kind};
use crate::vault::Vault;
use crate::vault::index::{Cursor, Index, extents_of, load_packs};
use std::collections::HashMap;
use std::ops::ControlFlow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Lists are intact, and packs exist with their sizes.
    Objects,
    /// All packs are read, with every chunk in them, and the whole index.
    Data,
}

/// A damaged object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub object: String,
    pub why: &'static str,
}

/// The means that a caller gives a check.
pub struct Verify<'a> {
    pub depth: Depth,
    /// Called with the size of each pack before it is read; waits as long as a limit demands. `Break` stops.
    pub pace: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    /// Called with the bytes of packs that were checked, and all. `Break` stops the check with [`Error::Stopped`].
    pub progress: &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>,
}

/// Checks the objects of a backup and returns all that are damaged. A damaged manifest cannot be opened, so
/// [`Vault::list`] names it.
pub fn verify(vault: &Vault, manifest: &Manifest, job: &mut Verify<'_>) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    let packs = found(load_packs(vault, manifest), &mut faults)?.unwrap_or_default();
    let index = found(Index::load(vault, manifest), &mut faults)?;
    let total = packs.values().map(|info| info.size).sum();
    let (mut done, mut by_name): (u64, Vec<_>) = (0, packs.iter().collect());
    by_name.sort_by_key(|(pack, _)| **pack);
    for (pack, info) in by_name {
        let why = match job.depth {
            Depth::Objects => check_size(vault, *pack, info)?,
            Depth::Data => {
                if (job.pace)(info.size).is_break() {
                    return Err(Error::Stopped);
                }
                check_pack(vault, *pack, info)?
            }
        };
        faults.extend(why.map(|why| Fault { object: pack.object(), why }));
        done += info.size;
        if (job.progress)(done, total).is_break() {
            return Err(Error::Stopped);
        }
    }
    if let (Some(index), Depth::Data) = (index, job.depth) {
        let checked = check_index(vault, index, &packs);
        found(checked, &mut faults)?;
    }
    Ok(faults)
}

/// Moves a damage to the list of faults; other errors end the check.
fn found<T>(result: Result<T>, faults: &mut Vec<Fault>) -> Result<Option<T>> {
    match result {
        Err(Error::Damaged(object, why)) => {
            faults.push(Fault { object, why });
            Ok(None)
        }
        result => result.map(Some),
    }
}

fn check_size(vault: &Vault, pack: PackId, info: &PackInfo) -> Result<Option<&'static str>> {
    let name = pack.object();
    Ok(match vault.store().size(&name).map_err(|error| Error::Store(name, error))? {
        None => Some("it is missing"),
        Some(size) if size != info.size => Some("its size is another one"),
        Some(_) => None,
    })
}

fn check_pack(vault: &Vault, pack: PackId, info: &PackInfo) -> Result<Option<&'static str>> {
    let Some(bytes) = vault.read_pack(&pack.object())? else { return Ok(Some("it is missing")) };
    if !is_intact(vault.secrets(), pack, &bytes, info) {
        return Ok(Some("its hash is another one"));
    }
    Ok(if are_chunks_intact(vault, pack, &bytes).is_some() { None } else { Some("its chunks are malformed") })
}

fn are_chunks_intact(vault: &Vault, pack: PackId, bytes: &[u8]) -> Option<()> {
    let secrets = vault.secrets();
    let trailer = trailer(bytes.get(bytes.len().checked_sub(TRAILER_BYTES)?..)?, bytes.len() as u64)?;
    let part = |at: u32, len: u32| bytes.get(at as usize..(at as usize).checked_add(len as usize)?);
    let (content, listed) = list(secrets, pack, &trailer, part(trailer.at, trailer.len)?)?;
    let cipher = secrets.cipher(&pack.0);
    for one in listed {
        let stored = part(one.place.offset, one.place.len)?;
        let chunk = cipher.open_chunk(one.place.offset, stored, one.len as usize)?;
        (secrets.chunk_id(&chunk) == one.id).then_some(())?;
        if content == Content::Leaves {
            leaf::records(&chunk)?;
        }
    }
    Some(())
}

/// Reads all records and checks that what they name is in the list of packs.
fn check_index(vault: &Vault, index: Index, packs: &HashMap<PackId, PackInfo>) -> Result<()> {
    let bad = || Error::Damaged("index".to_owned(), "a record names a chunk that no pack of the backup has");
    let malformed = || Error::Damaged("index".to_owned(), "a record is malformed");
    let has = |pack: &PackId, end: u64| packs.get(pack).is_some_and(|info| end <= info.size);
    let mut cursor = Cursor::new(vault, index);
    while let Some((key, value)) = cursor.next()? {
        let (_, kind) = sort_key::parse(&key).ok_or_else(malformed)?;
        match kind {
            Kind::Inode | Kind::Stream(_) => drop(Inode::decode(&value).ok_or_else(malformed)?),
            Kind::Entry(_) => _ = decode_entry(&value).ok_or_else(malformed)?,
            Kind::Extents | Kind::StreamExtents => {
                let all = extents_of(&key, &value)?;
                let place = all.iter().map(|extent| extent.place);
                let is_there =
                    |place: Place| has(&place.pack, u64::from(place.offset) + u64::from(place.len));
                if !place.into_iter().all(is_there) {
                    return Err(bad());
                }
            }
        }
    }
    Ok(())
}
