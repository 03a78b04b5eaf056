//! Encoding.

use crate::{Encode, EncodeBuffer};

/// Appends to a `Vec<u8>`; offsets count from the initial end.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
    base: usize,
}

/// The location of a written buffer, counted from the start of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpan {
    pub offset: usize,
    /// In bytes, including data that is sent separately.
    pub length: usize,
}

/// An integer type for offsets and lengths.
pub trait FieldInt: Encode + Sized {
    /// Converts `value`.
    ///
    /// # Panics
    /// If it does not fit; our messages are far too short for that.
    fn from_usize(value: usize) -> Self;
}

macro_rules! slots {
    ($($int:ident),*) => {$(
        impl FieldInt for $int {
            #[inline]
            fn from_usize(value: usize) -> Self {
                $int::try_from(value).expect("offsets and lengths fit their field")
            }
        }
    )*};
}

slots!(u8, u16, u32);

impl<'b> Writer<'b> {
    /// Begins a message at the end of `out`.
    #[inline]
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        let base = out.len();
        Self { out, base }
    }

    /// A writer at the same position whose offsets count from here.
    #[inline]
    pub fn nested(&mut self) -> Writer<'_> {
        Writer::new(self.out)
    }

    /// Bytes from the start of the message.
    #[inline]
    pub fn position(&self) -> usize {
        self.out.len() - self.base
    }

    /// The vector, for data produced in place (a file read directly into the reply).
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        self.out
    }

    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    pub fn zeros(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, 0);
    }

    /// Appends zeros up to a multiple of `alignment`.
    #[inline]
    pub fn align(&mut self, alignment: usize) {
        let position = self.position();
        self.zeros(position.next_multiple_of(alignment) - position);
    }

    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends a length or count as the integer `I`.
    ///
    /// # Panics
    /// If it does not fit.
    #[inline]
    pub fn length<I: FieldInt>(&mut self, length: usize) {
        I::from_usize(length).encode(self);
    }

    /// Overwrites the integer at `position`, as returned by [`Self::position`].
    ///
    /// # Panics
    /// If no whole integer was written there, or the value does not fit.
    #[inline]
    pub fn patch<I: FieldInt>(&mut self, position: usize, value: usize) {
        let end = self.out.len();
        I::from_usize(value).encode(self);
        let at = self.base + position;
        self.out.copy_within(end.., at);
        self.out.truncate(end);
    }

    /// Removes everything from `position` on: an entry that did not fit.
    #[inline]
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(self.base + position);
    }

    /// Appends a buffer with its alignment. The offset of an empty buffer is its position, or 0 if `optional`.
    #[inline]
    pub fn buffer<B: EncodeBuffer>(&mut self, buffer: &B, optional: bool) -> BufferSpan {
        let before = self.position();
        self.align(B::ALIGN);
        let offset = self.position();
        match buffer.encode_buffer(self) {
            0 => {
                self.truncate(before);
                BufferSpan { offset: if optional { 0 } else { before }, length: 0 }
            }
            length => BufferSpan { offset, length },
        }
    }
}
