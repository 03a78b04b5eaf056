//! Record marking, RFC 5531 §11: where one call ends and the next begins. Pure.

use super::wire::RecordMark;
use crate::limits::{FRAGMENTS_MAX, RECORD_BYTES_MAX};
use std::ops::Range;
use xdr::Malformed;

/// What the front of the received bytes is.
#[derive(Debug, PartialEq, Eq)]
pub enum Front {
    /// A whole record in one fragment, as nearly every client sends: these bytes, and what follows them starts at `end`.
    Record(Range<usize>),
    /// A fragment of a record that has others: these bytes, and whether it is the last.
    Fragment(Range<usize>, bool),
    /// Not all there yet: it will be this long in all, mark included.
    Incomplete(usize),
}

/// Looks at `bytes`; `partial` says that fragments of the same record came before.
#[inline]
pub fn front(bytes: &[u8], partial: bool) -> Result<Front, Malformed> {
    let Some((mark, _)) = bytes.split_first_chunk::<{ RecordMark::SIZE }>() else {
        return Ok(Front::Incomplete(RecordMark::SIZE));
    };
    let mark = RecordMark::from_word(u32::from_be_bytes(*mark));
    let length = mark.length as usize;
    if length > RECORD_BYTES_MAX {
        return Err(Malformed("record above the limit"));
    }
    let end = RecordMark::SIZE + length;
    if bytes.len() < end {
        return Ok(Front::Incomplete(end));
    }
    let body = RecordMark::SIZE..end;
    Ok(if mark.last && !partial { Front::Record(body) } else { Front::Fragment(body, mark.last) })
}

/// The fragments of one record, put together.
#[derive(Debug, Default)]
pub struct Assembly {
    bytes: Vec<u8>,
    fragments: u32,
}

impl Assembly {
    /// Whether a record has begun and is not complete.
    pub fn is_partial(&self) -> bool {
        self.fragments > 0
    }

    /// Adds a fragment; the whole record with the last one.
    pub fn add(&mut self, fragment: &[u8], last: bool) -> Result<Option<Vec<u8>>, Malformed> {
        self.fragments += 1;
        if self.bytes.len() + fragment.len() > RECORD_BYTES_MAX || self.fragments > FRAGMENTS_MAX {
            return Err(Malformed("record above the limit"));
        }
        self.bytes.extend_from_slice(fragment);
        if !last {
            return Ok(None);
        }
        self.fragments = 0;
        Ok(Some(std::mem::take(&mut self.bytes)))
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
        assert_eq!(front(&[], false), Ok(Front::Incomplete(4)));
        assert_eq!(front(&[0x80, 0, 0], false), Ok(Front::Incomplete(4)));
        let record = [&mark(true, 3)[..], b"abc", b"rest"].concat();
        assert_eq!(front(&record, false), Ok(Front::Record(4..7)));
        assert_eq!(front(&record[..6], false), Ok(Front::Incomplete(7)));
        assert_eq!(front(&record, true), Ok(Front::Fragment(4..7, true)));
        assert_eq!(front(&mark(false, 0), false), Ok(Front::Fragment(4..4, false)));
        assert!(front(&mark(true, u32::try_from(RECORD_BYTES_MAX).unwrap() + 1), false).is_err());
    }

    #[test]
    fn puts_fragments_together() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(b"ab", false), Ok(None));
        assert!(assembly.is_partial());
        assert_eq!(assembly.add(b"", false), Ok(None));
        assert_eq!(assembly.add(b"c", true), Ok(Some(b"abc".to_vec())));
        assert!(!assembly.is_partial());
    }

    #[test]
    fn bounds_what_it_puts_together() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(&vec![0; RECORD_BYTES_MAX], false), Ok(None));
        assert!(assembly.add(b"x", true).is_err());
        let mut empty = Assembly::default();
        let refused = (0..=FRAGMENTS_MAX).position(|_| empty.add(b"", false).is_err());
        assert_eq!(refused, Some(FRAGMENTS_MAX as usize));
    }
}
