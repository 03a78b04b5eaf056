//! Chains: entries of which each begins with the offset of the next one from its own start, 0 in the last (MS-FSCC §2.4).

use crate::reader::SHORT;
use crate::{Decode, Malformed, Writer};

/// Appends entries to a bounded buffer.
#[derive(Debug)]
pub struct ChainWriter {
    alignment: usize,
    start: usize,
    bytes_max: usize,
    last: Option<usize>,
}

impl ChainWriter {
    /// Entries from where `w` is, each at a multiple of `alignment` from there, at most `bytes_max` bytes of them.
    pub fn new(alignment: usize, w: &Writer<'_>, bytes_max: usize) -> Self {
        Self { alignment, start: w.position(), bytes_max, last: None }
    }

    /// Appends an entry: the offset of the next one, which is not there yet, and what `body` writes. `false`: it does not
    /// fit, and nothing has changed.
    pub fn push(&mut self, w: &mut Writer<'_>, body: impl FnOnce(&mut Writer<'_>)) -> bool {
        let end = w.position();
        let length = end - self.start;
        w.zeros(length.next_multiple_of(self.alignment) - length);
        let at = w.position();
        w.u32(0);
        body(w);
        if w.position() - self.start > self.bytes_max {
            w.truncate(end);
            return false;
        }
        if let Some(last) = self.last.replace(at) {
            w.patch::<u32>(last, at - last);
        }
        true
    }

    /// Whether there is no entry yet.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }
}

/// The entries of `bytes`, their offsets included; none if there are no bytes. What lies between two belongs to the first.
/// A malformed one is the last.
pub fn entries(alignment: usize, bytes: &[u8]) -> Entries<'_> {
    Entries { alignment, rest: bytes }
}

/// Iterates over the entries of a chain.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    alignment: usize,
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    fn split(&self) -> Result<(&'a [u8], &'a [u8]), Malformed> {
        let next = usize::try_from(u32::from_bytes(self.rest)?).unwrap_or(usize::MAX);
        if next == 0 {
            return Ok((self.rest, &[]));
        }
        if !next.is_multiple_of(self.alignment) {
            return Err(Malformed("an entry that is not aligned"));
        }
        let (entry, rest) = self.rest.split_at_checked(next).ok_or(Malformed("an entry past the end"))?;
        if rest.is_empty() { Err(SHORT) } else { Ok((entry, rest)) }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<&'a [u8], Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let split = self.split();
        self.rest = split.map_or(&[], |(_, rest)| rest);
        Some(split.map(|(entry, _)| entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(texts: &[&[u8]], bytes_max: usize) -> (Vec<u8>, Vec<bool>) {
        // Neither the buffer nor the chain begins at a multiple of anything.
        let mut out = vec![0xee; 3];
        let mut w = Writer::new(&mut out);
        w.zeros(2);
        let mut chain = ChainWriter::new(8, &w, bytes_max);
        let fits = texts.iter().map(|text| chain.push(&mut w, |w| w.bytes(text))).collect();
        assert_eq!(chain.is_empty(), out.len() == 5);
        (out.split_off(5), fits)
    }

    #[test]
    fn entries_come_back() {
        let (bytes, fits) = chain(&[b"a", b"quite long", b""], 28);
        assert_eq!(fits, [true, true, true]);
        assert_eq!(bytes[..9], [8, 0, 0, 0, b'a', 0, 0, 0, 16]);
        let found: Vec<_> = entries(8, &bytes).map(Result::unwrap).collect();
        assert_eq!(found, [&bytes[..8], &bytes[8..24], &bytes[24..]]);
        assert_eq!(entries(8, &[]).next(), None);
    }

    #[test]
    fn what_does_not_fit_leaves_no_trace() {
        let (bytes, fits) = chain(&[b"a", b"bcdef", b"b"], 13);
        assert_eq!((bytes.len(), fits), (13, vec![true, false, true]));
        assert_eq!(bytes[8..], [0, 0, 0, 0, b'b']);
        let (bytes, fits) = chain(&[b"a"], 4);
        assert_eq!((bytes.len(), fits), (0, vec![false]));
    }

    #[test]
    fn offsets_that_lead_nowhere_end_the_chain() {
        for (next, expected) in [
            (4, "an entry that is not aligned"),
            (24, "an entry past the end"),
            (16, "message ends early"),
            (u32::MAX - 7, "an entry past the end"),
        ] {
            let bytes = [&next.to_le_bytes()[..], &[0; 12]].concat();
            let mut found = entries(8, &bytes);
            assert_eq!(found.next(), Some(Err(Malformed(expected))), "{next}");
            assert_eq!(found.next(), None);
        }
        assert_eq!(entries(4, &[0, 0]).next(), Some(Err(SHORT)));
    }
}
