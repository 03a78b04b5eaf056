//! Limits: rates as numbers.

use std::num::NonZeroU64;
use std::sync::Arc;

/// Rates for each second; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub read_bytes: Option<NonZeroU64>,
    pub write_bytes: Option<NonZeroU64>,
    /// Bytes read and written together.
    pub bytes: Option<NonZeroU64>,
    pub read_ops: Option<NonZeroU64>,
    pub write_ops: Option<NonZeroU64>,
    /// All operations together, including those on names and attributes.
    pub ops: Option<NonZeroU64>,
    /// The weight of a WRITE among all operations, in thousandths of a READ.
    pub write_op_milli: u32,
}

/// Points of a [`Mix`], from no bytes read to nothing but bytes read.
pub const MIX_STEPS: usize = 101;

/// The cost of a byte in time of a volume, by the percentage of bytes that are read: a ceiling that depends on the mix
/// of reads and writes, as real storage has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Picoseconds for a byte; entry `i` is for `i` percent of the bytes read.
    pub picoseconds_per_byte: [u64; MIX_STEPS],
    /// The least size of an operation, in bytes: the block size at which the ceiling was measured.
    pub op_bytes_min: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeLimits {
    pub all: Limits,
    pub per_client: Limits,
    /// A ceiling that follows the observed mix of reads and writes.
    pub mix: Option<Arc<Mix>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolLimits {
    pub all: Limits,
    /// Each client, in all its volumes together.
    pub per_client: Limits,
}

impl Limits {
    pub const NONE: Self = Self {
        read_bytes: None,
        write_bytes: None,
        bytes: None,
        read_ops: None,
        write_ops: None,
        ops: None,
        write_op_milli: 1000,
    };

    pub fn is_none(&self) -> bool {
        let rates = [self.read_bytes, self.write_bytes, self.bytes, self.read_ops, self.write_ops, self.ops];
        rates.iter().all(Option::is_none)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::NONE
    }
}

impl PoolLimits {
    pub fn is_none(&self) -> bool {
        self.all.is_none() && self.per_client.is_none()
    }
}

impl From<Limits> for PoolLimits {
    fn from(all: Limits) -> Self {
        Self { all, per_client: Limits::NONE }
    }
}

impl VolumeLimits {
    pub fn is_none(&self) -> bool {
        self.all.is_none() && self.per_client.is_none() && self.mix.is_none()
    }
}
