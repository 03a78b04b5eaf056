//! Chunks and leaves, read from packs.

use super::{Vault, damaged};
use crate::error::Result;
use crate::format::CHUNK_BYTES;
use crate::format::names::{Hash, PackId};
use crate::format::records::Place;
use std::collections::VecDeque;

/// The least that is read: small chunks lie beside others that are needed soon.
const READ_BYTES: usize = 512 << 10;
/// No chunk and no leaf is larger, compressed or not.
const CHUNK_BYTES_MAX: u64 = 2 * CHUNK_BYTES;
/// Reads that are kept.
const WINDOWS_MAX: usize = 64;

/// Reads chunks, and keeps the last reads.
pub(crate) struct Chunks<'v> {
    vault: &'v Vault,
    windows: VecDeque<Window>,
}

struct Window {
    pack: PackId,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn get(&self, place: &Place) -> Option<&[u8]> {
        let at = u64::from(place.offset).checked_sub(self.start).filter(|_| self.pack == place.pack)?;
        let at = usize::try_from(at).ok()?;
        self.bytes.get(at..at.checked_add(place.len as usize)?)
    }
}

impl<'v> Chunks<'v> {
    pub(crate) fn new(vault: &'v Vault) -> Self {
        Self { vault, windows: VecDeque::new() }
    }

    /// Reads the chunk at a place, which has `len` bytes and this id.
    pub(crate) fn read(&mut self, place: &Place, len: u32, id: &Hash) -> Result<Vec<u8>> {
        if u64::from(len.max(place.len)) > CHUNK_BYTES_MAX {
            return Err(damaged(&place.pack.object(), "a chunk in it is too large"));
        }
        let len = len as usize;
        let known = self.windows.iter().position(|window| window.get(place).is_some());
        match known.and_then(|at| self.windows.remove(at)) {
            Some(window) => self.windows.push_front(window),
            None => self.fetch(place)?,
        }
        let stored = self.windows.front().and_then(|window| window.get(place));
        let cipher = self.vault.secrets().cipher(&place.pack.0);
        let chunk = stored.and_then(|stored| cipher.open_chunk(place.offset, stored, len));
        let chunk = chunk.filter(|chunk| self.vault.secrets().chunk_id(chunk) == *id);
        chunk.ok_or_else(|| damaged(&place.pack.object(), "a chunk in it has other content"))
    }

    fn fetch(&mut self, place: &Place) -> Result<()> {
        let len = place.len as usize;
        let bytes = self.vault.read(&place.pack.object(), place.offset.into(), len.max(READ_BYTES))?;
        self.windows.truncate(WINDOWS_MAX - 1);
        self.windows.push_front(Window { pack: place.pack, start: place.offset.into(), bytes });
        Ok(())
    }
}
