//! A call that a generator wants made, and what of it goes to the wire in either version.

use report::scenario::Stability;

use super::file_set::entry_name;
use super::plan::Kind;
use crate::driver::calls::Calls;
use crate::pattern::FileOffset;

/// Most bytes of one READDIRPLUS reply.
pub(super) const LISTING_MAX: u32 = 64 << 10;

/// A call that is to be made.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) kind: Kind,
    /// Which call slot of its connection.
    pub(super) slot: usize,
    /// Which of the objects that calls of this kind go to.
    pub(super) object: usize,
    /// The directory to which RENAME moves.
    pub(super) other: usize,
    pub(super) position: &'a FileOffset,
    /// Bytes of a READ or WRITE.
    pub(super) transfer: u32,
    pub(super) stability: Stability,
    pub(super) cookie: u64,
    pub(super) cookieverf: &'a [u8; 8],
    /// The number of the connection among all.
    pub(super) connection: usize,
    /// The number of the name.
    pub(super) serial: u32,
}

impl Call<'_> {
    /// The name that LOOKUP looks for.
    #[inline]
    pub(super) fn entry(&self) -> [u8; 7] {
        entry_name(u64::from(self.serial))
    }

    /// The name that the slot makes or has made, or the one so many after it.
    #[inline]
    pub(super) fn name(&self, after: u32) -> [u8; 24] {
        scratch_name(self.connection, self.slot, self.serial.wrapping_add(after))
    }

    /// The payload that follows, and its length.
    #[inline]
    pub(super) fn payload(&self) -> Option<(usize, u32)> {
        (self.kind == Kind::Write).then_some((self.slot, self.transfer))
    }
}

/// A number of slots, workers or bytes of a name.
#[expect(clippy::cast_possible_truncation, reason = "slots are at most DEPTH_MAX, 1024")]
pub(super) const fn to_u32(slot: usize) -> u32 {
    slot as u32
}

/// Appends a name.
#[inline]
pub(super) fn push_name(out: &mut Calls, name: &[u8]) {
    out.push(&to_u32(name.len()).to_be_bytes());
    out.push(name);
    out.push(&[0; 3][..name.len().next_multiple_of(4) - name.len()]);
}

/// A name no other slot uses, of 24 hexadecimal digits.
fn scratch_name(connection: usize, slot: usize, serial: u32) -> [u8; 24] {
    let mut rest = (connection as u128) << 64 | (slot as u128) << 32 | u128::from(serial);
    let mut name = [0; 24];
    for digit in name.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 0xF) as usize];
        rest >>= 4;
    }
    name
}
