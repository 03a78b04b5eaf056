//! Names: UTF-16LE on the wire, WTF-8 inside the server.
//!
//! Windows names are arbitrary 16-bit units. A lone surrogate has no UTF-8 encoding; WTF-8 encodes it as three bytes,
//! so that every name round-trips.

use std::fmt;

use crate::{BufferLocation, DecodeBuffer, EncodeBuffer, Malformed, Reader, Writer};

/// A text in UTF-16LE, borrowed from the message: an even number of bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Utf16<'a>(&'a [u8]);

impl<'a> Utf16<'a> {
    pub const EMPTY: Self = Self(&[]);

    /// Checks that `bytes` are whole units.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len().is_multiple_of(2) {
            return Ok(Self(bytes));
        }
        Err(Malformed("a text with an odd number of bytes"))
    }

    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub fn units(self) -> impl Iterator<Item = u16> + Clone + 'a {
        self.0.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit))
    }

    /// The text as WTF-8, which differs from UTF-8 only for lone surrogates.
    pub fn to_wtf8(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len());
        self.push_wtf8(&mut out);
        out
    }

    pub fn push_wtf8(self, out: &mut Vec<u8>) {
        for unit in char::decode_utf16(self.units()) {
            match unit {
                Ok(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(lone) => {
                    let unit = lone.unpaired_surrogate();
                    let [high, low] = unit.to_be_bytes();
                    out.extend_from_slice(&[
                        0xe0 | high >> 4,
                        0x80 | (high & 15) << 2 | low >> 6,
                        0x80 | low & 0x3f,
                    ]);
                }
            }
        }
    }

    /// Appends WTF-8 text as UTF-16LE. Returns `None` without a change if the text is not valid WTF-8.
    pub fn push_encoded(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let mut rest = text;
        loop {
            match str::from_utf8(rest) {
                Ok(valid) => {
                    push_str(valid, out);
                    return Some(());
                }
                Err(error) => {
                    let (valid, other) = rest.split_at(error.valid_up_to());
                    let Some((unit, after)) = surrogate(other) else {
                        out.truncate(start);
                        return None;
                    };
                    push_str(str::from_utf8(valid).unwrap_or_default(), out);
                    if is_pair(out, start, unit) {
                        out.truncate(start);
                        return None;
                    }
                    out.extend_from_slice(&unit.to_le_bytes());
                    rest = after;
                }
            }
        }
    }
}

fn push_str(text: &str, out: &mut Vec<u8>) {
    out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
}

/// Decodes a surrogate from the next three bytes. Returns it with the remaining bytes.
fn surrogate(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (&[first, second, third], rest) = bytes.split_first_chunk()?;
    let encoded = first == 0xed && (0xa0..=0xbf).contains(&second) && (0x80..=0xbf).contains(&third);
    encoded.then(|| (0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f), rest))
}

/// Whether `unit` completes a surrogate pair. WTF-8 forbids pairs in this form: a name would have two encodings.
fn is_pair(out: &[u8], start: usize, unit: u16) -> bool {
    let before = out[start..].last_chunk().map(|unit| u16::from_le_bytes(*unit));
    (0xdc00..=0xdfff).contains(&unit) && before.is_some_and(|unit| (0xd800..=0xdbff).contains(&unit))
}

impl fmt::Debug for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf16_lossy(&self.units().collect::<Vec<_>>()), f)
    }
}

/// Texts start at even offsets.
impl EncodeBuffer for Utf16<'_> {
    const ALIGN: usize = 2;

    #[inline]
    fn encode_buffer(&self, w: &mut Writer<'_>) -> usize {
        self.0.encode_buffer(w)
    }
}

impl<'a> DecodeBuffer<'a> for Utf16<'a> {
    #[inline]
    fn decode_buffer(r: &mut Reader<'a>, location: BufferLocation) -> Result<Self, Malformed> {
        r.buffer(location).and_then(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        Utf16::push_encoded(text, &mut out).map(|()| out)
    }

    #[test]
    fn lone_surrogates_round_trip() {
        for units in [&[0xd83d_u16][..], &[0x41, 0xde00, 0x42], &[0xde00, 0xd83d], &[0xd83d, 0xd83d, 0xde00]]
        {
            let bytes: Vec<_> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            assert_eq!(encoded(&Utf16::new(&bytes).unwrap().to_wtf8()), Some(bytes));
        }
        assert_eq!(Utf16::new(&[0x3d, 0xd8]).unwrap().to_wtf8(), [0xed, 0xa0, 0xbd]);
    }

    #[test]
    fn surrogate_pair_becomes_one_character() {
        assert_eq!(Utf16::new(&[0x3d, 0xd8, 0x00, 0xde]).unwrap().to_wtf8(), "😀".as_bytes());
        assert_eq!(encoded("😀".as_bytes()), Some(vec![0x3d, 0xd8, 0x00, 0xde]));
    }

    #[test]
    fn invalid_wtf8_appends_nothing() {
        let mut out = vec![7];
        for text in [&b"a\xff"[..], b"ab\xc3", b"\xed\xa0", b"\xed\xa0\xbd\xed\xb8\x80", b"x\xf0\x9f\x98"] {
            assert_eq!(Utf16::push_encoded(text, &mut out), None, "{text:x?}");
            assert_eq!(out, [7]);
        }
    }

    #[test]
    fn odd_length_is_malformed() {
        assert_eq!(Utf16::new(&[1, 2, 3]), Err(Malformed("a text with an odd number of bytes")));
    }

    proptest! {
        #[test]
        fn every_utf16_name_round_trips(units: Vec<u16>) {
            let bytes: Vec<_> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            prop_assert_eq!(encoded(&Utf16::new(&bytes).unwrap().to_wtf8()), Some(bytes));
        }

        #[test]
        fn every_accepted_text_round_trips(text: Vec<u8>) {
            if let Some(units) = encoded(&text) {
                prop_assert_eq!(Utf16::new(&units).unwrap().to_wtf8(), text);
            }
        }
    }
}
