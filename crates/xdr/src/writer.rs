//! The writer of encoded bytes.

use crate::reader::padding;

/// A writer that appends to a `Vec<u8>`. It allocates only when the vector lacks capacity.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Writer<'b> {
    #[inline]
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Bytes in the vector, including those from before this writer: the offset of the next value.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "an offset, not a container's size")]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// The vector, for data that is produced in place (a file read directly into the reply). After appending a length
    /// that is not a multiple of four, call [`Self::pad`].
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// RFC 4506 §4.2.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// RFC 4506 §4.5.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// RFC 4506 §4.4.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// RFC 4506 §4.9: the bytes and their padding, without a length.
    #[inline]
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.pad(bytes.len());
    }

    /// RFC 4506 §4.10: length, bytes, padding.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.fixed(bytes);
    }

    /// A count of bytes or elements.
    ///
    /// # Panics
    ///
    /// If it exceeds 32 bits; replies are far shorter.
    #[inline]
    pub fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).expect("lengths on the wire fit 32 bits"));
    }

    /// The zeros that follow an opaque of `length` bytes (RFC 4506 §3).
    #[inline]
    pub fn pad(&mut self, length: usize) {
        // Most opaques are whole words: skip the call then.
        if !length.is_multiple_of(4) {
            self.out.extend_from_slice(&[0; 3][..padding(length)]);
        }
    }

    /// Overwrites the word at `offset` (as given by [`Self::len`]), for a value that becomes known later: a record
    /// mark, a status, a count.
    ///
    /// # Panics
    ///
    /// If no whole word was written there.
    #[inline]
    pub fn patch_u32(&mut self, offset: usize, value: u32) {
        self.out[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Removes everything from `offset` (as given by [`Self::len`]) on, such as an entry that did not fit.
    #[inline]
    pub fn truncate(&mut self, offset: usize) {
        self.out.truncate(offset);
    }
}
