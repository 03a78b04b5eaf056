//! The contents of a regular file: the pages that were written, and holes elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{FsError, FsResult, Seek, Span};

pub(super) const PAGE_BYTES: usize = 4096;

/// Sparse contents. A clone shares its pages until one of the two is written.
#[derive(Clone, Default)]
pub(super) struct Pages {
    size: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE_BYTES]>>,
}

impl Pages {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of storage in use.
    pub(super) fn used(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }

    /// Appends up to `len` bytes at `offset` to `into`; returns how many bytes that were.
    pub(super) fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>) -> usize {
        let remaining = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = remaining.min(len);
        into.reserve(count);
        for piece in pieces(offset, count) {
            match self.pages.get(&piece.page) {
                Some(page) => into.extend_from_slice(&page[piece.start..piece.start + piece.count]),
                None => into.resize(into.len() + piece.count, 0),
            }
        }
        count
    }

    /// Returns the bytes of storage that a write of `count` bytes at `offset` would add.
    pub(super) fn growth(&self, offset: u64, count: usize) -> u64 {
        let holes = pieces(offset, count).filter(|piece| !self.pages.contains_key(&piece.page)).count();
        (holes * PAGE_BYTES) as u64
    }

    /// Writes `data` at `offset`. The end must not lie past `u64::MAX`.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for piece in pieces(offset, data.len()) {
            let page = self.pages.entry(piece.page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[piece.start..piece.start + piece.count]
                .copy_from_slice(&data[piece.done..piece.done + piece.count]);
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    /// Finds data or a hole, as [`vfs::Ranges::seek`].
    pub(super) fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        if offset >= self.size {
            return Err(FsError::NoDevice);
        }
        let page_bytes = PAGE_BYTES as u64;
        let mut page = offset / page_bytes;
        Ok(match what {
            Seek::Data => {
                let data = self.pages.range(page..).next().map(|(page, _)| offset.max(page * page_bytes));
                data.filter(|&data| data < self.size)
            }
            Seek::Hole => {
                let pages = self.pages.range(page..).map(|(&page, _)| page);
                page += pages.zip(page..).take_while(|(there, next)| there == next).count() as u64;
                Some(offset.max(page.saturating_mul(page_bytes)).min(self.size))
            }
        })
    }

    /// Allocates storage for the holes of a range, within `room` bytes. The end must not lie past `u64::MAX`.
    pub(super) fn allocate(&mut self, offset: u64, len: u64, room: u64) -> FsResult<()> {
        let page_bytes = PAGE_BYTES as u64;
        let (first, end) = (offset / page_bytes, (offset + len).div_ceil(page_bytes));
        // A range may have more pages than can be counted one by one.
        if (end - first).saturating_sub(self.pages.len() as u64) > room / page_bytes {
            return Err(FsError::NoSpace);
        }
        for page in first..end {
            self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
        }
        self.size = self.size.max(offset + len);
        Ok(())
    }

    /// Allocates storage for the part of the first `len` bytes past the end, within `room` bytes.
    pub(super) fn preallocate(&mut self, len: u64, room: u64) -> FsResult<()> {
        let size = self.size;
        if len > size {
            self.allocate(size, len - size, room)?;
        }
        self.size = size;
        Ok(())
    }

    /// Makes the part of a range within the file read as zeros.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return;
        }
        let page_bytes = PAGE_BYTES as u64;
        let touched: Vec<u64> =
            self.pages.range(offset / page_bytes..end.div_ceil(page_bytes)).map(|(&page, _)| page).collect();
        for page in touched {
            let start = page * page_bytes;
            let [from, to] = [offset.max(start), end.min(start + page_bytes)].map(|at| split(at - start));
            let (from, to) = (from.1, if to.0 == 1 { PAGE_BYTES } else { to.1 });
            if from == 0 && start + to as u64 >= self.size.min(start + page_bytes) {
                self.pages.remove(&page);
            } else if let Some(page) = self.pages.get_mut(&page) {
                Arc::make_mut(page)[from..to].fill(0);
            }
        }
    }

    /// Shares the pages of a range of `source` that has passed [`Span::check_clone`].
    pub(super) fn share(&mut self, source: &Self, span: &Span) {
        let page_bytes = PAGE_BYTES as u64;
        let [from, to] = [span.source, span.target].map(|at| at / page_bytes);
        let count = span.len.div_ceil(page_bytes);
        let mut rest = self.pages.split_off(&to);
        self.pages.append(&mut rest.split_off(&(to + count)));
        let shared = source.pages.range(from..from + count);
        self.pages.extend(shared.map(|(page, bytes)| (page - from + to, Arc::clone(bytes))));
        self.size = self.size.max(span.target + span.len);
    }

    /// Truncates, or grows by a hole. Zeroes the rest of the last page, so that truncated data never reappears.
    pub(super) fn resize(&mut self, size: u64) {
        let (page, start) = split(size);
        self.pages.split_off(&if start == 0 { page } else { page + 1 });
        if start != 0
            && let Some(last) = self.pages.get_mut(&page)
        {
            Arc::make_mut(last)[start..].fill(0);
        }
        self.size = size;
    }
}

/// The whole pages that two ranges (offset and length) of a file have in common.
pub(super) fn overlap(one: (u64, usize), other: (u64, usize)) -> Option<(u64, usize)> {
    let pages = |(offset, len): (u64, usize)| {
        let page_bytes = PAGE_BYTES as u64;
        offset / page_bytes * page_bytes..offset.saturating_add(len as u64).div_ceil(page_bytes) * page_bytes
    };
    let (one, other) = (pages(one), pages(other));
    let (start, end) = (one.start.max(other.start), one.end.min(other.end));
    let len = usize::try_from(end.checked_sub(start)?).ok()?;
    (len > 0).then_some((start, len))
}

/// The part of a transfer that lies in one page.
struct Piece {
    page: u64,
    start: usize,
    count: usize,
    /// Bytes of the transfer before this piece.
    done: usize,
}

fn pieces(offset: u64, count: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (page, start) = split(offset + done as u64);
        let piece = Piece { page, start, count: (PAGE_BYTES - start).min(count - done), done };
        done += piece.count;
        (piece.count > 0).then_some(piece)
    })
}

fn split(offset: u64) -> (u64, usize) {
    let page_bytes = PAGE_BYTES as u64;
    (offset / page_bytes, usize::try_from(offset % page_bytes).expect("less than a page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pages: &Pages) -> Vec<u8> {
        let mut read = vec![0xee; 3];
        let count = pages.read(0, usize::try_from(pages.size()).unwrap() + 10, &mut read);
        assert_eq!((&read[..3], read.len()), (&[0xee; 3][..], 3 + count), "what was there stays");
        read.split_off(3)
    }

    #[test]
    fn pages_hold_what_a_vector_holds() {
        let mut pages = Pages::default();
        let mut plain = Vec::new();
        for (offset, count) in [(5000_usize, 10_usize), (0, 1), (4090, 4110), (20_000, 0), (12_288, 4096)] {
            let data: Vec<u8> = (1..=251).cycle().skip(offset).take(count).collect();
            pages.write(offset as u64, &data);
            if count > 0 && plain.len() < offset + count {
                plain.resize(offset + count, 0);
            }
            let start = offset.min(plain.len());
            plain[start..][..count].copy_from_slice(&data);
            assert_eq!(all(&pages), plain, "after {count} bytes at {offset}");
        }
        for size in [9000, 4096, 4097, 100, 8192, 0, 1] {
            pages.resize(size as u64);
            plain.resize(size, 0);
            assert_eq!(all(&pages), plain, "after the cut to {size}");
        }
    }

    #[test]
    fn holes_take_no_storage() {
        let mut pages = Pages::default();
        assert_eq!(pages.growth(4095, 2), 8192);
        pages.write(1 << 62, b"x");
        assert_eq!((pages.size(), pages.used()), ((1 << 62) + 1, 4096));
        assert_eq!(pages.growth(1 << 62, 4096), 0);
        pages.resize(u64::MAX);
        assert_eq!(pages.used(), 4096);
        assert_eq!(pages.read(u64::MAX - 3, 8, &mut Vec::new()), 3);
    }
}
