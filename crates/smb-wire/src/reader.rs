//! Decoding.

use std::fmt;

/// The reason for which bytes are not a message of the expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// The location of a buffer, as stated in the fixed part of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLocation {
    /// Counted from the start of the message; `None`: behind the last byte read.
    pub offset: Option<usize>,
    pub length: usize,
}

/// A position in borrowed bytes. It counts from the SMB2 header of a message, or from the start of a structure with its
/// own offsets.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Starts at `position`, or at the end if that is nearer.
    #[inline]
    pub fn starting_at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()) }
    }

    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the unread bytes without consuming them.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let bytes = self.rest().get(..length).ok_or(SHORT)?;
        self.position += length;
        Ok(bytes)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.rest().first_chunk().ok_or(SHORT)?;
        self.position += N;
        Ok(*bytes)
    }

    /// Skips reserved bytes without checking them.
    #[inline]
    pub fn skip(&mut self, length: usize) -> Result<(), Malformed> {
        self.bytes(length).map(drop)
    }

    /// Moves to the next multiple of `alignment`, or to the end if that is nearer: trailing padding is optional.
    #[inline]
    pub fn align(&mut self, alignment: usize) {
        self.position = self.position.next_multiple_of(alignment).min(self.bytes.len());
    }

    /// Reads a `StructureSize` and checks that it is `size`.
    #[inline]
    pub fn structure_size(&mut self, size: u16) -> Result<(), Malformed> {
        if u16::from_le_bytes(self.array()?) == size {
            return Ok(());
        }
        Err(Malformed("StructureSize is not the structure's"))
    }

    /// The bytes of a buffer, which must lie behind all bytes read so far, so that buffers never overlap. The location
    /// of an empty buffer is ignored, since clients send arbitrary values.
    #[inline]
    pub fn buffer(&mut self, location: BufferLocation) -> Result<&'a [u8], Malformed> {
        if location.length == 0 {
            return Ok(&[]);
        }
        self.move_to(location.offset.unwrap_or(self.position))?;
        self.bytes(location.length)
    }

    /// Moves forward to `position`; a backward move is malformed.
    #[inline]
    pub fn move_to(&mut self, position: usize) -> Result<(), Malformed> {
        if position < self.position {
            return Err(Malformed("a buffer overlaps what precedes it"));
        }
        if position > self.bytes.len() {
            return Err(SHORT);
        }
        self.position = position;
        Ok(())
    }
}

pub(crate) const SHORT: Malformed = Malformed("message ends early");
