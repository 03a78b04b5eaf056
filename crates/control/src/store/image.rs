//! Images of the store's file, and the differences between two of them.

use super::StoreError;
use crate::error::Result;
use rusqlite::{Connection, MAIN_DB};
use std::io;
use std::ops::Range;

/// SQLite's default.
const PAGE_BYTES: usize = 4096;
/// Equal bytes between two changed ranges that make them two: a range costs this much.
const RANGE_HEAD_BYTES: usize = 12;
/// The bytes of the file that say that there is a log beside it (sqlite.org/fileformat.html, 1.3).
const FORMAT_VERSIONS: Range<usize> = 18..20;

/// The file as it would be after a commit of the open transaction, if there is one.
pub(crate) fn of(connection: &mut Connection) -> Result<Vec<u8>> {
    Ok(connection.serialize(MAIN_DB)?.to_vec())
}

/// Checks that an image is a whole database. SQLite leaves pages blank that it cannot read.
pub(super) fn check(image: &[u8]) -> Result<()> {
    let connection = open(image)?;
    let found: String = connection.query_one("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    Err(StoreError::Log(io::Error::new(io::ErrorKind::InvalidData, found)).into())
}

/// Opens an image in memory, where SQLite has no log.
pub(crate) fn open(image: &[u8]) -> Result<Connection> {
    let mut image = image.to_vec();
    image.get_mut(FORMAT_VERSIONS).unwrap_or_default().fill(1);
    let mut connection = Connection::open_in_memory()?;
    connection.deserialize_read_exact(MAIN_DB, &image[..], image.len(), true)?;
    Ok(connection)
}

/// The changed ranges of an image.
pub(super) struct Patch {
    image_bytes: u64,
    ranges: Vec<(u64, Vec<u8>)>,
    is_other_size: bool,
    has_blank_page: bool,
}

impl Patch {
    pub(super) fn between(old: &[u8], new: &[u8]) -> Self {
        let (mut ranges, mut has_blank_page) = (Vec::new(), false);
        for (start, page) in (0..).step_by(PAGE_BYTES).zip(new.chunks(PAGE_BYTES)) {
            let before = old.get(start..).unwrap_or_default();
            let before = &before[..before.len().min(page.len())];
            if before == page {
                continue;
            }
            has_blank_page |= page.iter().all(|byte| *byte == 0);
            let changed = changed_ranges(before, page).into_iter();
            ranges.extend(changed.map(|range| ((start + range.start) as u64, page[range].to_vec())));
        }
        let is_other_size = old.len() != new.len();
        Self { image_bytes: new.len() as u64, ranges, is_other_size, has_blank_page }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.is_other_size
    }

    pub(super) fn has_blank_page(&self) -> bool {
        self.has_blank_page
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.image_bytes.to_be_bytes());
        for (start, content) in &self.ranges {
            bytes.extend(start.to_be_bytes());
            // No range crosses a page.
            bytes.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
            bytes.extend(content);
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (image_bytes, mut rest) = bytes.split_first_chunk()?;
        let mut ranges = Vec::new();
        while !rest.is_empty() {
            let (start, after) = rest.split_first_chunk()?;
            let (length, after) = after.split_first_chunk()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (content, after) = after.split_at_checked(length)?;
            ranges.push((u64::from_be_bytes(*start), content.to_vec()));
            rest = after;
        }
        let image_bytes = u64::from_be_bytes(*image_bytes);
        Some(Self { image_bytes, ranges, is_other_size: true, has_blank_page: false })
    }

    /// `None` if a range is outside the image.
    pub(super) fn apply(&self, image: &mut Vec<u8>) -> Option<()> {
        // The new size is at most what the ranges add: anything else is damage, and must not exhaust the memory.
        let added: usize = self.ranges.iter().map(|(_, content)| content.len()).sum();
        let bytes = usize::try_from(self.image_bytes).ok().filter(|&bytes| bytes <= image.len() + added)?;
        image.resize(bytes, 0);
        for (start, content) in &self.ranges {
            let start = usize::try_from(*start).ok()?;
            image.get_mut(start..start.checked_add(content.len())?)?.copy_from_slice(content);
        }
        Some(())
    }
}

/// The ranges of `page` that differ from `before`, or are after its end.
fn changed_ranges(before: &[u8], page: &[u8]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (place, byte) in page.iter().enumerate() {
        if before.get(place) == Some(byte) {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if place - last.end < RANGE_HEAD_BYTES => last.end = place + 1,
            _ => ranges.push(place..place + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(old: &[u8], new: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        Patch::between(old, new).encode(&mut bytes);
        let (mut image, patch) = (old.to_vec(), Patch::decode(&bytes).unwrap());
        patch.apply(&mut image).unwrap();
        (image, bytes.len())
    }

    #[test]
    fn patched_image_is_the_new_one() {
        let old: Vec<u8> = (0..3 * PAGE_BYTES).map(|place| u8::try_from(place % 251).unwrap()).collect();
        let mut new = old.clone();
        for place in [0, 5, 40, PAGE_BYTES - 1, PAGE_BYTES, 3 * PAGE_BYTES - 1] {
            new[place] ^= 1;
        }
        assert_eq!(patched(&old, &new), (new.clone(), 8 + 5 * 12 + 10));
        let grown = [&new[..], &[0; PAGE_BYTES], &[7; PAGE_BYTES]].concat();
        assert_eq!(patched(&old, &grown).0, grown);
        assert_eq!(patched(&grown, &old).0, old);
        assert_eq!(patched(&[], &old).0, old);
        assert!(
            Patch::between(&old, &old).is_empty() && !Patch::between(&old, &old[..PAGE_BYTES]).is_empty()
        );
        assert!(
            Patch::between(&old, &grown).has_blank_page() && !Patch::between(&old, &new).has_blank_page()
        );
    }

    #[test]
    fn damaged_patch_is_refused() {
        let mut bytes = Vec::new();
        Patch::between(&[1; 100], &[2; 100]).encode(&mut bytes);
        for cut in (0..bytes.len()).filter(|cut| *cut != 8) {
            assert!(Patch::decode(&bytes[..cut]).is_none(), "{cut}");
        }
        for place in [0, 15] {
            let mut bytes = bytes.clone();
            bytes[place] ^= 0x40;
            assert!(Patch::decode(&bytes).unwrap().apply(&mut vec![1; 100]).is_none(), "{place}");
        }
    }

    #[test]
    fn image_with_a_blank_page_is_no_whole_database() {
        let mut connection = Connection::open_in_memory().unwrap();
        let rows = "CREATE TABLE t (x TEXT) STRICT; INSERT INTO t VALUES (hex(zeroblob(9000)));";
        connection.execute_batch(rows).unwrap();
        let mut image = of(&mut connection).unwrap();
        check(&image).unwrap();
        image[PAGE_BYTES..2 * PAGE_BYTES].fill(0);
        assert!(check(&image).unwrap_err().to_string().contains("page"));
    }
}
