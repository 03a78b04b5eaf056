//! Ranges of a regular file: where its holes are, taking and giving back storage, copying within the storage
//! (RFC 7862 SEEK, ALLOCATE, DEALLOCATE, COPY, CLONE; the FSCTLs of SMB for sparse files and copies).

use crate::{AuthorizeWrite, Change, FsError, FsResult, NodeRef};

/// The most bytes that one [`Ranges::copy_to`] copies, so that no copy holds a file and a thread for long.
pub const COPY_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The first byte that may be other than zero.
    Data,
    /// The first byte of a hole. Every file ends with one.
    Hole,
}

/// A range that is copied or cloned to another file, or to another place of the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub source: u64,
    pub target: u64,
    pub len: u64,
}

impl Span {
    /// Whether source and target overlap, if they are in one file.
    pub fn overlaps(&self) -> bool {
        self.source.abs_diff(self.target) < self.len
    }

    /// Whether storage with blocks of `block` bytes can clone this range.
    /// Each end must lie between blocks, or at the end of both source and target.
    pub fn check_clone(&self, block: u64, source_size: u64, target_size: u64) -> FsResult<()> {
        let source_end = self.source.checked_add(self.len).ok_or(FsError::Invalid)?;
        let target_end = self.target.checked_add(self.len).ok_or(FsError::FileTooBig)?;
        let aligned = |at: u64| at.is_multiple_of(block);
        let ends = aligned(self.len) || source_end == source_size && target_end >= target_size;
        let is_whole = aligned(self.source) && aligned(self.target) && ends && source_end <= source_size;
        if is_whole { Ok(()) } else { Err(FsError::Invalid) }
    }
}

/// The ranges of a regular file; for any other type every method fails like [`crate::Node::write`].
///
/// Changes keep the promises of [`crate::Node`]: they call the authorizing closure and clear set-id bits like a write.
/// They are durable after `sync(Data)` of the changed node. An empty range changes nothing. A range past the largest
/// file size is [`FsError::FileTooBig`] if it would grow the file.
pub trait Ranges {
    /// Finds the first offset from `offset` with data, or with a hole; `None` if there is no more data. An offset
    /// outside the file is [`FsError::NoDevice`]. A storage that does not know its holes has only the one at the end.
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>>;

    /// Allocates storage for a range, so that later writes to it cannot fail for lack of space.
    /// Contents stay; a shorter file grows by zeros. [`FsError::NotSupported`] if the storage makes no such promise.
    fn allocate(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change>;

    /// Allocates storage for the part of the first `len` bytes past the end, so that the file can grow to there.
    /// Contents and size stay. [`FsError::NotSupported`] if the storage makes no such promise, or charges files by
    /// size.
    fn preallocate(&self, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change>;

    /// Makes the part of a range within the file read as zeros, and releases its storage in whole blocks. The size
    /// stays.
    fn punch(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change>;

    /// Makes the part of a range within the file read as zeros. The size stays; storage may be released.
    fn zero(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change>;

    /// Whether `target` lies in the same file system, so that copies and clones are the storage's own work.
    fn shares_storage(&self, target: &NodeRef) -> bool;

    /// Copies a range to `target`, up to the end of this file and at most [`COPY_BYTES_MAX`]. Returns the number of
    /// bytes copied from the start of the range, which is 0 only if there is nothing to copy, and the change of
    /// `target`. [`FsError::Invalid`] for a range that overlaps itself, [`FsError::CrossVolume`] for a target of
    /// another kind of backend.
    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)>;

    /// Lets a range of `target` share the storage of this range, all or nothing. [`FsError::NotSupported`] if the storage
    /// cannot; [`FsError::Invalid`] for a range that overlaps itself, reaches past the end of this file, or does not begin
    /// and end between blocks ([`super::capabilities::RangeLimits::clone_bytes`]) or at the end of both files.
    fn clone_to(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_overlaps_itself_if_it_is_moved_by_less_than_its_length() {
        let span = |source, target, len| Span { source, target, len };
        assert!(span(0, 5, 6).overlaps() && span(5, 0, 6).overlaps() && span(7, 7, 1).overlaps());
        assert!(!span(0, 5, 5).overlaps() && !span(5, 0, 5).overlaps() && !span(7, 7, 0).overlaps());
        assert!(span(0, u64::MAX - 1, u64::MAX).overlaps());
    }

    #[test]
    fn clones_are_of_whole_blocks_or_go_to_both_ends() {
        let check = |source, target, len| Span { source, target, len }.check_clone(10, 95, 50);
        assert_eq!(check(0, 20, 30), Ok(()));
        assert_eq!(check(80, 40, 15), Ok(()), "to the end of both");
        assert_eq!(check(80, 0, 15), Err(FsError::Invalid), "the target goes on after it");
        for (source, target, len) in [(5, 0, 10), (0, 5, 10), (0, 0, 5), (80, 0, 20), (90, 0, 10)] {
            assert_eq!(check(source, target, len), Err(FsError::Invalid), "{len} from {source} to {target}");
        }
        assert_eq!(check(u64::MAX - 5, 0, 10), Err(FsError::Invalid));
        assert_eq!(check(0, u64::MAX - 5, 10), Err(FsError::FileTooBig));
    }
}
