//! Writing.

use crate::{Encode, EncodeBuffer};

/// Appends to a `Vec<u8>`; counts offsets from where it started.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
    base: usize,
}

/// Where a buffer was written, counted from the start of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Of its first byte.
    pub offset: usize,
    /// In bytes, those included that follow apart from the message.
    pub length: usize,
}

/// An integer that holds an offset or a length.
pub trait Slot: Encode + Sized {
    /// `value` as this integer.
    ///
    /// # Panics
    /// If it does not fit, which no message of ours comes near.
    fn slot(value: usize) -> Self;
}

macro_rules! slots {
    ($($int:ident),*) => {$(
        impl Slot for $int {
            #[inline]
            fn slot(value: usize) -> Self {
                $int::try_from(value).expect("offsets and lengths fit their field")
            }
        }
    )*};
}

slots!(u8, u16, u32);

impl<'b> Writer<'b> {
    /// Appends to `out`, keeping what it holds; the message starts at its end.
    #[inline]
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        let base = out.len();
        Self { out, base }
    }

    /// A writer at the same place that counts offsets from here.
    #[inline]
    pub fn nested(&mut self) -> Writer<'_> {
        Writer::new(self.out)
    }

    /// Bytes from the start of the message: the offset at which the next value lands.
    #[inline]
    pub fn position(&self) -> usize {
        self.out.len() - self.base
    }

    /// The vector, for data that is produced in place (a file read straight into the reply).
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// The bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Reserved bytes.
    #[inline]
    pub fn zeros(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, 0);
    }

    /// Zeros up to a multiple of `alignment`.
    #[inline]
    pub fn align(&mut self, alignment: usize) {
        let position = self.position();
        self.zeros(position.next_multiple_of(alignment) - position);
    }

    /// An integer, for values that are no field.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// An integer, for values that are no field.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// A length or count, as the integer `I`.
    ///
    /// # Panics
    /// If it does not fit.
    #[inline]
    pub fn length<I: Slot>(&mut self, length: usize) {
        I::slot(length).encode(self);
    }

    /// Overwrites the integer at `position` (as given by [`Self::position`]), for what is known only later.
    ///
    /// # Panics
    /// If no whole integer was written there, or the value does not fit it.
    #[inline]
    pub fn patch<I: Slot>(&mut self, position: usize, value: usize) {
        let end = self.out.len();
        I::slot(value).encode(self);
        let at = self.base + position;
        self.out.copy_within(end.., at);
        self.out.truncate(end);
    }

    /// Takes back everything from `position` on: an entry that did not fit.
    #[inline]
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(self.base + position);
    }

    /// Appends a buffer, aligned as it likes to be. The offset of an empty one is where it would be, or 0 where it is
    /// `optional`.
    #[inline]
    pub fn buffer<B: EncodeBuffer>(&mut self, buffer: &B, optional: bool) -> Placed {
        let before = self.position();
        self.align(B::ALIGN);
        let offset = self.position();
        match buffer.encode_buffer(self) {
            0 => {
                self.truncate(before);
                Placed { offset: if optional { 0 } else { before }, length: 0 }
            }
            length => Placed { offset, length },
        }
    }
}
