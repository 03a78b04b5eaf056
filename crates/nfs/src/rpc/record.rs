//! Record marking, RFC 5531 §11: where one call ends and the next begins. Pure.

use crate::limits::{FRAGMENTS_MAX, RECORD_BYTES_MAX};
use nfs_wire::rpc::RecordMark;
use std::ops::Range;
use xdr::Malformed;

/// What the received bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole record in one fragment, as nearly every client sends: these bytes, and what follows them starts at `end`.
    Record(Range<usize>),
    /// The mark of a fragment of a record that has others: as many bytes follow it, and whether it is the last.
    Fragment(usize, bool),
    /// Not all there yet: it will be this long in all, mark included.
    Incomplete(usize),
}

/// Looks at `bytes`; `partial` says that fragments of the same record came before.
#[inline]
pub fn parse_frame(bytes: &[u8], partial: bool) -> Result<Frame, Malformed> {
    let Some((mark, _)) = bytes.split_first_chunk::<{ RecordMark::SIZE }>() else {
        return Ok(Frame::Incomplete(RecordMark::SIZE));
    };
    let mark = RecordMark::from_word(u32::from_be_bytes(*mark));
    let length = mark.length as usize;
    if length > RECORD_BYTES_MAX {
        return Err(Malformed("record above the limit"));
    }
    if partial || !mark.last {
        return Ok(Frame::Fragment(length, mark.last));
    }
    let end = RecordMark::SIZE + length;
    Ok(if bytes.len() < end { Frame::Incomplete(end) } else { Frame::Record(RecordMark::SIZE..end) })
}

/// The fragments of one record, put together as their bytes come.
#[derive(Debug, Default)]
pub struct Assembly {
    /// What has come, in pieces that are never moved: growing one piece would leave freed memory behind each time.
    pieces: Vec<Vec<u8>>,
    /// Bytes in them.
    length: usize,
    /// Bytes of memory they take.
    held: usize,
    fragments: u32,
    /// Bytes that the fragment begun last still lacks, and whether it is the record's last.
    open: Option<(usize, bool)>,
}

/// Room for this many bytes is made at least, so that tiny fragments do not cost more than they bring.
const PIECE_BYTES_MIN: usize = 4096;

impl Assembly {
    /// Whether a record has begun and is not complete.
    pub fn is_partial(&self) -> bool {
        self.fragments > 0
    }

    /// Whether a fragment has begun and is not complete.
    pub fn is_inside(&self) -> bool {
        self.open.is_some()
    }

    /// Bytes of memory held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Begins a fragment of `length` bytes.
    pub fn begin(&mut self, length: usize, last: bool) -> Result<(), Malformed> {
        self.fragments += 1;
        if self.length + length > RECORD_BYTES_MAX || self.fragments > FRAGMENTS_MAX {
            return Err(Malformed("record above the limit"));
        }
        self.open = Some((length, last));
        Ok(())
    }

    /// Takes from the front of `bytes` what belongs to the fragment that has begun: how many these were, and the whole
    /// record if it ends there.
    pub fn take(&mut self, bytes: &[u8]) -> (usize, Option<Vec<u8>>) {
        let Some((lacks, last)) = self.open else { return (0, None) };
        let taken = lacks.min(bytes.len());
        self.keep(&bytes[..taken]);
        self.open = (taken < lacks).then_some((lacks - taken, last));
        if self.open.is_some() || !last {
            return (taken, None);
        }
        (taken, Some(std::mem::take(self).pieces.concat()))
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        match self.pieces.last_mut() {
            Some(last) if last.capacity() - last.len() >= bytes.len() => last.extend_from_slice(bytes),
            _ => {
                let mut piece = Vec::with_capacity(bytes.len().max(PIECE_BYTES_MIN));
                piece.extend_from_slice(bytes);
                self.held += piece.capacity();
                self.pieces.push(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(last: bool, length: u32) -> [u8; 4] {
        RecordMark { last, length }.to_word().to_be_bytes()
    }

    #[test]
    fn finds_the_ends_of_records() {
        assert_eq!(parse_frame(&[], false), Ok(Frame::Incomplete(4)));
        assert_eq!(parse_frame(&[0x80, 0, 0], false), Ok(Frame::Incomplete(4)));
        let record = [&mark(true, 3)[..], b"abc", b"rest"].concat();
        assert_eq!(parse_frame(&record, false), Ok(Frame::Record(4..7)));
        assert_eq!(parse_frame(&record[..6], false), Ok(Frame::Incomplete(7)));
        assert_eq!(parse_frame(&record, true), Ok(Frame::Fragment(3, true)));
        assert_eq!(parse_frame(&mark(false, 0), false), Ok(Frame::Fragment(0, false)));
        assert_eq!(
            parse_frame(&mark(false, 9), false),
            Ok(Frame::Fragment(9, false)),
            "before its bytes are there"
        );
        assert!(parse_frame(&mark(true, u32::try_from(RECORD_BYTES_MAX).unwrap() + 1), false).is_err());
    }

    /// Takes a fragment that is there as a whole.
    fn add(assembly: &mut Assembly, fragment: &[u8], last: bool) -> Result<Option<Vec<u8>>, Malformed> {
        assembly.begin(fragment.len(), last)?;
        let (taken, whole) = assembly.take(fragment);
        assert_eq!((taken, assembly.is_inside()), (fragment.len(), false));
        Ok(whole)
    }

    #[test]
    fn puts_fragments_together() {
        let mut assembly = Assembly::default();
        assert_eq!(add(&mut assembly, b"ab", false), Ok(None));
        assert!(assembly.is_partial());
        assert_eq!(add(&mut assembly, b"", false), Ok(None));
        assert_eq!(add(&mut assembly, b"c", true), Ok(Some(b"abc".to_vec())));
        assert!(!assembly.is_partial());
    }

    #[test]
    fn takes_a_fragment_as_it_comes_and_leaves_what_follows() {
        let mut assembly = Assembly::default();
        assembly.begin(5, true).unwrap();
        assert_eq!(assembly.take(b"ab"), (2, None));
        assert_eq!(assembly.take(b""), (0, None));
        assert!(assembly.is_inside());
        assert!(assembly.held() >= 2);
        assert_eq!(assembly.take(b"cde next"), (3, Some(b"abcde".to_vec())));
        assert!(!assembly.is_inside() && !assembly.is_partial());
        assert_eq!(assembly.take(b" next"), (0, None));
    }

    #[test]
    fn bounds_what_it_puts_together() {
        let mut assembly = Assembly::default();
        assert_eq!(add(&mut assembly, &vec![0; RECORD_BYTES_MAX], false), Ok(None));
        assert!(assembly.begin(1, true).is_err());
        let mut empty = Assembly::default();
        let refused = (0..=FRAGMENTS_MAX).position(|_| add(&mut empty, b"", false).is_err());
        assert_eq!(refused, Some(FRAGMENTS_MAX as usize));
    }
}
