//! A call that a generator makes.

use report::scenario::Stability;

use super::file_set::entry_name;
use super::plan::Kind;
use crate::driver::calls::Calls;
use crate::pattern::FileOffset;

/// Bounds a READDIRPLUS reply, in bytes.
pub(super) const LISTING_MAX: u32 = 64 << 10;

#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) kind: Kind,
    pub(super) slot: usize,
    /// An index among the objects of this kind of call.
    pub(super) object: usize,
    /// The target directory of RENAME.
    pub(super) other: usize,
    pub(super) position: &'a FileOffset,
    pub(super) transfer: u32,
    pub(super) stability: Stability,
    pub(super) cookie: u64,
    pub(super) cookieverf: &'a [u8; 8],
    /// Unique over all connections.
    pub(super) connection: usize,
    pub(super) serial: u32,
}

impl Call<'_> {
    #[inline]
    pub(super) fn entry(&self) -> [u8; 7] {
        entry_name(u64::from(self.serial))
    }

    /// The slot's current name, or the name `after` names later.
    #[inline]
    pub(super) fn name(&self, after: u32) -> [u8; 24] {
        scratch_name(self.connection, self.slot, self.serial.wrapping_add(after))
    }

    /// The slot whose payload follows, and its length.
    #[inline]
    pub(super) fn payload(&self) -> Option<(usize, u32)> {
        (self.kind == Kind::Write).then_some((self.slot, self.transfer))
    }
}

/// For slots, workers and name lengths on the wire.
#[expect(clippy::cast_possible_truncation, reason = "slots are at most DEPTH_MAX, 1024")]
pub(super) const fn to_u32(slot: usize) -> u32 {
    slot as u32
}

#[inline]
pub(super) fn push_name(out: &mut Calls, name: &[u8]) {
    out.push(&to_u32(name.len()).to_be_bytes());
    out.push(name);
    out.push(&[0; 3][..name.len().next_multiple_of(4) - name.len()]);
}

/// 24 hexadecimal digits, unique to a slot.
fn scratch_name(connection: usize, slot: usize, serial: u32) -> [u8; 24] {
    let mut rest = (connection as u128) << 64 | (slot as u128) << 32 | u128::from(serial);
    let mut name = [0; 24];
    for digit in name.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 0xF) as usize];
        rest >>= 4;
    }
    name
}
