//! Traits of values with a wire form.

use crate::reader::SHORT;
use crate::{BufferLocation, Malformed, Reader, Writer};

/// The initial capacity of an encoded value: most structures are shorter.
const MOSTLY_BYTES: usize = 128;

pub trait Encode {
    fn encode(&self, w: &mut Writer<'_>);

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MOSTLY_BYTES);
        self.encode(&mut Writer::new(&mut out));
        out
    }
}

/// A value that is decoded from bytes with lifetime `'a`, which it may borrow.
pub trait Decode<'a>: Sized {
    /// Decodes a value and moves `r` past it. After an error the position of `r` is unspecified.
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Decodes the value at the start of `bytes`; ignores the rest.
    fn from_bytes(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::decode(&mut Reader::new(bytes))
    }
}

/// A buffer behind a structure, located by offset and length.
pub trait EncodeBuffer {
    /// The alignment of the buffer, counted from the start of the message.
    const ALIGN: usize = 1;

    /// Appends the bytes and returns their length.
    fn encode_buffer(&self, w: &mut Writer<'_>) -> usize;
}

/// A value that is decoded from a buffer.
pub trait DecodeBuffer<'a>: Sized {
    /// Decodes the whole buffer and moves `r` past it.
    fn decode_buffer(r: &mut Reader<'a>, location: BufferLocation) -> Result<Self, Malformed>;
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

/// A one-byte `BOOLEAN` (MS-DTYP §2.2.4): every nonzero value is true.
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
    fn decode_buffer(r: &mut Reader<'a>, location: BufferLocation) -> Result<Self, Malformed> {
        r.buffer(location)
    }
}

/// A buffer outside of the bytes at hand: it is sent separately, or has not arrived. It is the last of its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalBuffer {
    /// Counted from the start of the message, as decoded. Encoding sets it to the end of the fixed part.
    pub offset: usize,
    pub length: usize,
}

impl EncodeBuffer for ExternalBuffer {
    fn encode_buffer(&self, _: &mut Writer<'_>) -> usize {
        self.length
    }
}

impl DecodeBuffer<'_> for ExternalBuffer {
    fn decode_buffer(r: &mut Reader<'_>, location: BufferLocation) -> Result<Self, Malformed> {
        let offset = location.offset.unwrap_or(r.position());
        if location.length != 0 && offset < r.position() {
            return Err(Malformed("a buffer overlaps what precedes it"));
        }
        Ok(Self { offset, length: location.length })
    }
}

/// Appends a list whose count is encoded elsewhere.
pub fn encode_list<T: Encode>(items: &[T], w: &mut Writer<'_>) {
    items.iter().for_each(|item| item.encode(w));
}

/// Decodes `count` values. The vector grows as they are decoded: a sender's count does not justify an allocation.
pub fn decode_list<'a, T: Decode<'a>>(r: &mut Reader<'a>, count: usize) -> Result<Vec<T>, Malformed> {
    // Every value takes at least one byte, so a count above the remaining bytes is false.
    if count > r.rest().len() {
        return Err(SHORT);
    }
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(T::decode(r)?);
    }
    Ok(items)
}
