//! Reading.

use std::fmt;

/// Bytes that are no message of the expected type, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Where the fixed part of a structure says that a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From the start of the message; `None`: behind what was read last.
    pub offset: Option<usize>,
    /// In bytes.
    pub length: usize,
}

/// A position in borrowed bytes, counted from their start: the start of the SMB2 header for a message, of itself for a
/// structure that counts its own offsets.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Starts at `position`, or at the end where that is nearer.
    #[inline]
    pub fn starting_at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()) }
    }

    /// Bytes already read.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The bytes not yet read, without reading them.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    /// The next `length` bytes.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let bytes = self.rest().get(..length).ok_or(SHORT)?;
        self.position += length;
        Ok(bytes)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.rest().first_chunk().ok_or(SHORT)?;
        self.position += N;
        Ok(*bytes)
    }

    /// Passes reserved bytes, whatever they hold.
    #[inline]
    pub fn skip(&mut self, length: usize) -> Result<(), Malformed> {
        self.bytes(length).map(drop)
    }

    /// Moves to the next multiple of `alignment`, or to the end where that is nearer: padding that ends a message may be
    /// absent.
    #[inline]
    pub fn align(&mut self, alignment: usize) {
        self.position = self.position.next_multiple_of(alignment).min(self.bytes.len());
    }

    /// A `StructureSize`, which must be `size`.
    #[inline]
    pub fn structure_size(&mut self, size: u16) -> Result<(), Malformed> {
        if u16::from_le_bytes(self.array()?) == size {
            return Ok(());
        }
        Err(Malformed("StructureSize is not the structure's"))
    }

    /// The bytes of a buffer, behind everything read so far: neither the fixed part nor another buffer overlaps it. The
    /// place of an empty one is not looked at, since clients put anything there.
    #[inline]
    pub fn buffer(&mut self, place: Place) -> Result<&'a [u8], Malformed> {
        if place.length == 0 {
            return Ok(&[]);
        }
        self.move_to(place.offset.unwrap_or(self.position))?;
        self.bytes(place.length)
    }

    /// Moves forward to `position`; backward is malformed.
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
