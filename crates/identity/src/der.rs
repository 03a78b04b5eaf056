//! DER (X.690 §10), the subset that SPNEGO needs: elements of a tag, a length and contents.

use crate::refusal::{Malformed, Refusal};

pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const GENERAL_STRING: u8 = 0x1b;
pub(crate) const SEQUENCE: u8 = 0x30;
/// `[APPLICATION 0]`, the tag of an initial GSS-API token (RFC 2743 §3.1).
pub(crate) const APPLICATION_0: u8 = 0x60;

/// `[number]`, the tag of a field of a sequence.
pub(crate) const fn context_tag(number: u8) -> u8 {
    0xa0 | number
}

/// Reads consecutive elements. Never reads past the end, and never allocates.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The contents of the next element, if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, Refusal> {
        if self.rest.first() != Some(&tag) {
            return Ok(None);
        }
        let (length, head) = length(&self.rest[1..]).ok_or(Malformed::DER)?;
        let from = 1 + head;
        let to = from.checked_add(length).filter(|&to| to <= self.rest.len()).ok_or(Malformed::DER)?;
        let contents = &self.rest[from..to];
        self.rest = &self.rest[to..];
        Ok(Some(contents))
    }

    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'a [u8], Refusal> {
        self.optional(tag)?.ok_or(Malformed::DER.into())
    }

    /// The contents of the only element in field `number`, if the field is present.
    pub(crate) fn field(&mut self, number: u8, inner: u8) -> Result<Option<&'a [u8]>, Refusal> {
        self.optional(context_tag(number))?.map(|contents| Reader::new(contents).only(inner)).transpose()
    }

    /// The contents of the only element, which must have this tag.
    pub(crate) fn only(mut self, tag: u8) -> Result<&'a [u8], Refusal> {
        let contents = self.expect(tag)?;
        if self.is_empty() { Ok(contents) } else { Err(Malformed::DER.into()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Decodes a length. Returns it with the number of bytes that encode it.
fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((usize::from(first), 1));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return None;
    }
    let value = rest.get(..count)?.iter().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
    Some((usize::try_from(value).ok()?, 1 + count))
}

pub(crate) fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match u8::try_from(contents.len()) {
        Ok(short) if short < 0x80 => bytes.push(short),
        _ => {
            let length = contents.len().to_be_bytes();
            let significant = &length[length.iter().take_while(|&&byte| byte == 0).count()..];
            // At most 8 bytes of a length.
            bytes.push(0x80 | u8::try_from(significant.len()).unwrap_or(0));
            bytes.extend_from_slice(significant);
        }
    }
    bytes.extend_from_slice(contents);
    bytes
}

/// Field `number` of a sequence, with one element in it.
pub(crate) fn context_field(number: u8, tag: u8, contents: &[u8]) -> Vec<u8> {
    element(context_tag(number), &element(tag, contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_of_every_form_round_trips() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let contents = vec![7; length];
            let bytes = element(OCTET_STRING, &contents);
            assert_eq!(Reader::new(&bytes).only(OCTET_STRING).unwrap(), contents, "{length}");
        }
        assert_eq!(element(OCTET_STRING, &[0; 200])[..3], [0x04, 0x81, 200]);
    }

    #[test]
    fn truncated_element_is_refused() {
        let cut: [&[u8]; 8] = [
            &[0x04],
            &[0x04, 1],
            &[0x04, 0x80, 0, 0],
            &[0x04, 0x82, 1],
            &[0x04, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x04, 0x85, 0, 0, 0, 0, 1, 0],
            &[0x04, 0xff],
            &[0x04, 0, 0],
        ];
        for bytes in cut {
            assert!(Reader::new(bytes).only(OCTET_STRING).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn field_with_two_elements_is_refused() {
        let bytes = context_field(2, OCTET_STRING, b"x");
        assert_eq!(Reader::new(&bytes).field(2, OCTET_STRING).unwrap(), Some(&b"x"[..]));
        assert_eq!(Reader::new(&bytes).field(1, OCTET_STRING).unwrap(), None);
        assert!(Reader::new(&bytes).field(2, OID).is_err());
        let two =
            element(context_tag(2), &[element(OCTET_STRING, b"x"), element(OCTET_STRING, b"y")].concat());
        assert!(Reader::new(&two).field(2, OCTET_STRING).is_err());
    }
}
