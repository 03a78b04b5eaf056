//! External data representation, RFC 4506: a reader over borrowed bytes, a writer that appends to a `Vec<u8>`, and
//! `#[derive(Xdr)]`, which derives the wire form of a Rust type from its declaration order.
//!
//! This crate knows nothing of RPC or NFS. Decoding never allocates more than a small multiple of the received bytes: a
//! length or a count from the wire is compared with a bound and with the remaining bytes before use.
#![forbid(unsafe_code)]

mod list;
mod reader;
mod sets;
mod writer;

pub use list::{Inline, List, ListRef};
pub use reader::{Malformed, Reader};
pub use writer::Writer;
pub use xdr_derive::Xdr;

/// A value with a wire form.
pub trait Encode {
    fn encode(&self, w: &mut Writer<'_>);

    /// Encodes the value into a new buffer. For tests and cold paths.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut Writer::new(&mut out));
        out
    }
}

/// A value that can be decoded from bytes with lifetime `'a`, which it may borrow.
pub trait Decode<'a>: Sized {
    /// Decodes the value and moves `r` past it. After an error the position of `r` is unspecified.
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed>;
}

/// A value of variable length whose declaration bounds it: `opaque<max>`, `T<max>`.
///
/// It has no plain [`Decode`], so that a bound cannot be forgotten; the derive takes it from `#[xdr(max = N)]`.
pub trait DecodeMax<'a>: Sized {
    /// Like [`Decode::decode`]; a length above `max` (bytes or elements) is malformed.
    fn decode_max(r: &mut Reader<'a>, max: u32) -> Result<Self, Malformed>;
}

macro_rules! integers {
    ($($int:ident),*) => {$(
        impl Encode for $int {
            #[inline]
            fn encode(&self, w: &mut Writer<'_>) {
                w.fixed(&self.to_be_bytes());
            }
        }
        impl Decode<'_> for $int {
            #[inline]
            fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok($int::from_be_bytes(*r.array()?))
            }
        }
    )*};
}

integers!(u32, i32, u64, i64);

/// RFC 4506 §4.16 (void).
impl Encode for () {
    #[inline]
    fn encode(&self, _: &mut Writer<'_>) {}
}

impl Decode<'_> for () {
    #[inline]
    fn decode(_: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

/// RFC 4506 §4.4 (boolean).
impl Encode for bool {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bool(*self);
    }
}

impl Decode<'_> for bool {
    #[inline]
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.bool()
    }
}

/// RFC 4506 §4.9 (fixed-length opaque data).
impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.fixed(self);
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(r.fixed(N)?);
        Ok(bytes)
    }
}

/// RFC 4506 §4.10 (variable-length opaque data) and §4.11 (string).
impl Encode for &[u8] {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.opaque(self);
    }
}

impl<'a> DecodeMax<'a> for &'a [u8] {
    #[inline]
    fn decode_max(r: &mut Reader<'a>, max: u32) -> Result<Self, Malformed> {
        r.opaque(max)
    }
}

/// RFC 4506 §4.19 (optional-data).
impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bool(self.is_some());
        if let Some(value) = self {
            value.encode(w);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        if r.bool()? { T::decode(r).map(Some) } else { Ok(None) }
    }
}

/// RFC 4506 §4.13 (variable-length array).
impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.length(self.len());
        self.iter().for_each(|item| item.encode(w));
    }
}

impl<'a, T: Decode<'a>> DecodeMax<'a> for Vec<T> {
    fn decode_max(r: &mut Reader<'a>, max: u32) -> Result<Self, Malformed> {
        let count = r.u32()?;
        if count > max {
            return Err(Malformed("array above its bound"));
        }
        // Grows as elements arrive: the sender's count is no reason to reserve memory.
        let mut items = Self::new();
        for _ in 0..count {
            items.push(T::decode(r)?);
        }
        Ok(items)
    }
}
