//! The reader of encoded bytes.

use std::fmt;

/// The reason for which bytes are not a value of the expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, length: bytes.len() }
    }

    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// The bytes not yet read, without reading them.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// RFC 4506 §4.2.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// RFC 4506 §4.5.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// RFC 4506 §4.4: 0 or 1, nothing else.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("boolean is neither 0 nor 1")),
        }
    }

    /// RFC 4506 §4.9: `length` bytes and their padding.
    ///
    /// The RFC requires zeros as padding (§3). Any bytes are accepted here: some clients pad with leftovers of their
    /// buffers, and nothing depends on the padding. It must be present, though.
    #[inline]
    pub fn fixed(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(SHORT)?;
        self.rest = rest.get(padding(length)..).ok_or(SHORT)?;
        Ok(bytes)
    }

    /// RFC 4506 §4.10: a length of at most `max`, the bytes, and their padding (see [`Self::fixed`]).
    #[inline]
    pub fn opaque(&mut self, max: u32) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        if length > max {
            return Err(Malformed("opaque above its bound"));
        }
        self.fixed(length as usize)
    }

    /// Reads `N` words under one check of the remaining bytes, for headers that every message has.
    #[inline]
    pub fn words<const N: usize>(&mut self) -> Result<[u32; N], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(4 * N).ok_or(SHORT)?;
        self.rest = rest;
        let words = bytes.as_chunks().0;
        Ok(std::array::from_fn(|index| u32::from_be_bytes(words[index])))
    }

    /// The next `N` bytes, without padding.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(bytes)
    }
}

const SHORT: Malformed = Malformed("message ends early");

/// Bytes that fill `length` up to the next multiple of four (RFC 4506 §3).
#[inline]
pub(crate) const fn padding(length: usize) -> usize {
    length.wrapping_neg() % 4
}
