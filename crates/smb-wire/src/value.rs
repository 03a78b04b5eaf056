//! Values and their wire forms.

use crate::reader::SHORT;
use crate::{Malformed, Place, Reader, Writer};

/// Room that is made for a value by itself: most structures are shorter.
const MOSTLY_BYTES: usize = 128;

/// A value with a wire form.
pub trait Encode {
    /// Appends the value to `w`.
    fn encode(&self, w: &mut Writer<'_>);

    /// The value alone, in a new vector.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MOSTLY_BYTES);
        self.encode(&mut Writer::new(&mut out));
        out
    }
}

/// A value that can be read from bytes that live for `'a`, which it may borrow.
pub trait Decode<'a>: Sized {
    /// Reads the value and moves `r` past it; on an error the position of `r` is unspecified.
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Reads the value at the start of `bytes`; what follows it is not looked at.
    fn from_bytes(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::decode(&mut Reader::new(bytes))
    }
}

/// What can follow a structure as a buffer, given by offset and length.
pub trait EncodeBuffer {
    /// The buffer starts at a multiple of this, counted from the start of the message.
    const ALIGN: usize = 1;

    /// Appends the bytes and returns their length.
    fn encode_buffer(&self, w: &mut Writer<'_>) -> usize;
}

/// What can be read from a buffer.
pub trait DecodeBuffer<'a>: Sized {
    /// Reads all of the buffer, and moves `r` past it.
    fn decode_buffer(r: &mut Reader<'a>, place: Place) -> Result<Self, Malformed>;
}

macro_rules! integers {
    ($($int:ident),*) => {$(
        impl Encode for $int {
            #[inline]
            fn encode(&self, w: &mut Writer<'_>) {
                w.bytes(&self.to_le_bytes());
            }
        }

        impl Decode<'_> for $int {
            #[inline]
            fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
                r.array().map($int::from_le_bytes)
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i64);

/// A `BOOLEAN` of one byte (MS-DTYP §2.2.4): anything but 0 is true.
impl Encode for bool {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        u8::from(*self).encode(w);
    }
}

impl Decode<'_> for bool {
    #[inline]
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        u8::decode(r).map(|byte| byte != 0)
    }
}

impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self);
    }
}

impl<const N: usize> Decode<'_> for [u8; N] {
    #[inline]
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.array()
    }
}

impl EncodeBuffer for &[u8] {
    #[inline]
    fn encode_buffer(&self, w: &mut Writer<'_>) -> usize {
        w.bytes(self);
        self.len()
    }
}

impl<'a> DecodeBuffer<'a> for &'a [u8] {
    #[inline]
    fn decode_buffer(r: &mut Reader<'a>, place: Place) -> Result<Self, Malformed> {
        r.buffer(place)
    }
}

/// A buffer that is not in the bytes at hand: it follows behind them, or is still to come. It is the last of its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// From the start of the message, as it was read; writing puts the place behind the fixed part there.
    pub offset: usize,
    /// In bytes.
    pub length: usize,
}

impl EncodeBuffer for Elsewhere {
    fn encode_buffer(&self, _: &mut Writer<'_>) -> usize {
        self.length
    }
}

impl DecodeBuffer<'_> for Elsewhere {
    fn decode_buffer(r: &mut Reader<'_>, place: Place) -> Result<Self, Malformed> {
        let offset = place.offset.unwrap_or(r.position());
        if place.length != 0 && offset < r.position() {
            return Err(Malformed("a buffer overlaps what precedes it"));
        }
        Ok(Self { offset, length: place.length })
    }
}

/// Appends a list whose count is elsewhere.
pub fn encode_list<T: Encode>(items: &[T], w: &mut Writer<'_>) {
    items.iter().for_each(|item| item.encode(w));
}

/// Reads `count` values. The vector grows as they arrive: a count is a claim of the sender's, not a reason to reserve
/// memory.
pub fn decode_list<'a, T: Decode<'a>>(r: &mut Reader<'a>, count: usize) -> Result<Vec<T>, Malformed> {
    // Every value is one byte or more, so a count above what remains cannot be met.
    if count > r.rest().len() {
        return Err(SHORT);
    }
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(T::decode(r)?);
    }
    Ok(items)
}
