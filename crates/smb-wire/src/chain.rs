//! Chains of entries: each begins with `NextEntryOffset`, counted from its own start, 0 in the last (MS-FSCC §2.4).

use crate::reader::SHORT;
use crate::{Decode, Malformed, Writer};

#[derive(Debug)]
pub struct ChainWriter {
    alignment: usize,
    start: usize,
    bytes_max: usize,
    last: Option<usize>,
}

impl ChainWriter {
    /// Begins a chain at the position of `w`. Entries start at multiples of `alignment` from there and take at most
    /// `bytes_max` bytes.
    pub fn new(alignment: usize, w: &Writer<'_>, bytes_max: usize) -> Self {
        Self { alignment, start: w.position(), bytes_max, last: None }
    }

    /// Appends an entry: a zero `NextEntryOffset`, then the output of `body`. Returns `false` without a change if the
    /// entry does not fit.
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

    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }
}

/// Iterates over the entries of `bytes`, their offsets included; none if `bytes` is empty. Padding belongs to the
/// preceding entry. A malformed entry ends the iteration.
pub fn entries(alignment: usize, bytes: &[u8]) -> Entries<'_> {
    Entries { alignment, rest: bytes }
}

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
            return Err(Malformed("an unaligned entry"));
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
        // Buffer and chain both begin at unaligned offsets.
        let mut out = vec![0xee; 3];
        let mut w = Writer::new(&mut out);
        w.zeros(2);
        let mut chain = ChainWriter::new(8, &w, bytes_max);
        let fits = texts.iter().map(|text| chain.push(&mut w, |w| w.bytes(text))).collect();
        assert_eq!(chain.is_empty(), out.len() == 5);
        (out.split_off(5), fits)
    }

    #[test]
    fn entries_round_trip() {
        let (bytes, fits) = chain(&[b"a", b"quite long", b""], 28);
        assert_eq!(fits, [true, true, true]);
        assert_eq!(bytes[..9], [8, 0, 0, 0, b'a', 0, 0, 0, 16]);
        let found: Vec<_> = entries(8, &bytes).map(Result::unwrap).collect();
        assert_eq!(found, [&bytes[..8], &bytes[8..24], &bytes[24..]]);
        assert_eq!(entries(8, &[]).next(), None);
    }

    #[test]
    fn oversized_entry_is_not_written() {
        let (bytes, fits) = chain(&[b"a", b"bcdef", b"b"], 13);
        assert_eq!((bytes.len(), fits), (13, vec![true, false, true]));
        assert_eq!(bytes[8..], [0, 0, 0, 0, b'b']);
        let (bytes, fits) = chain(&[b"a"], 4);
        assert_eq!((bytes.len(), fits), (0, vec![false]));
    }

    #[test]
    fn invalid_next_offset_ends_the_chain() {
        for (next, expected) in [
            (4, "an unaligned entry"),
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
