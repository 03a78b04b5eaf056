//! Sequences: the linked lists of RFC 4506 §4.19, owned and borrowed, and short arrays stored inline.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::{Decode, Encode, Malformed, Reader, Writer};

/// An owned linked list (`T *next`): on the wire a one before every element and a zero at the end.
///
/// The list needs no bound: a word on the wire precedes every element, so memory stays a small multiple of the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: Encode> Encode for List<T> {
    fn encode(&self, w: &mut Writer<'_>) {
        for item in &self.0 {
            w.bool(true);
            item.encode(w);
        }
        w.bool(false);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for List<T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut items = Vec::new();
        while let Some(item) = Option::decode(r)? {
            items.push(item);
        }
        Ok(Self(items))
    }
}

/// A linked list that stays in the message. It is checked once when decoded, and its elements are decoded again when
/// iterated, without allocation. Writers of long lists need no type: they encode `Some(element)` while there is room,
/// then `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRef<'a, T> {
    bytes: &'a [u8],
    item: PhantomData<T>,
}

impl<'a, T: Decode<'a>> ListRef<'a, T> {
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let mut r = Reader::new(self.bytes);
        // Decoding succeeded before, so the error arm never loses an element.
        std::iter::from_fn(move || Option::decode(&mut r).ok().flatten())
    }
}

impl<T> Encode for ListRef<'_, T> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.fixed(self.bytes);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for ListRef<'a, T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (whole, start) = (r.rest(), r.position());
        while Option::<T>::decode(r)?.is_some() {}
        Ok(Self { bytes: &whole[..r.position() - start], item: PhantomData })
    }
}

/// A variable-length array of at most `N` (`T<N>`), stored inline: decoding it allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct Inline<T, const N: usize> {
    items: [T; N],
    length: usize,
}

impl<T: Copy + Default, const N: usize> Inline<T, N> {
    /// Copies `items`; `None` if there are more than `N`.
    pub fn new(items: &[T]) -> Option<Self> {
        let mut inline = Self::default();
        inline.items.get_mut(..items.len())?.copy_from_slice(items);
        inline.length = items.len();
        Some(inline)
    }
}

impl<T: Copy + Default, const N: usize> Default for Inline<T, N> {
    fn default() -> Self {
        Self { items: [T::default(); N], length: 0 }
    }
}

impl<T, const N: usize> Deref for Inline<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.items[..self.length]
    }
}

impl<T: PartialEq, const N: usize> PartialEq for Inline<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const N: usize> Eq for Inline<T, N> {}

impl<T: Encode, const N: usize> Encode for Inline<T, N> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.length(self.length);
        self.iter().for_each(|item| item.encode(w));
    }
}

impl<'a, T: Decode<'a> + Copy + Default, const N: usize> Decode<'a> for Inline<T, N> {
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let length = r.u32()? as usize;
        let mut inline = Self { length, ..Self::default() };
        for item in inline.items.get_mut(..length).ok_or(Malformed("array above its bound"))? {
            *item = T::decode(r)?;
        }
        Ok(inline)
    }
}
