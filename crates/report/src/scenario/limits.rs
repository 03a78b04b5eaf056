//! Bounds of scenarios and generators.

use std::ops::RangeInclusive;

pub const DEPTH_MAX: usize = 1024;
/// Bytes of a transfer.
pub const BLOCK_MAX: u64 = 1 << 20;
pub const CLIENTS_MAX: usize = 1024;
pub const CONNECTIONS_MAX: usize = 4096;
pub const CONNECTIONS_TOTAL_MAX: usize = 16_384;
/// Operations per second of all clients together.
pub const RATES: RangeInclusive<f64> = 0.1..=1e9;
pub const FILES_MAX: usize = 100_000;
/// Bytes of all data files together.
pub const SPACE_MAX: u64 = 1 << 50;
/// Job sets of all generators together. The numbers of their files have 32 bits.
pub const JOB_SETS_MAX: u32 = 100_000;
pub const DIRECTORIES_MAX: usize = 10_000;
/// Unit of transfers of job sets, in bytes.
pub(crate) const EDA_UNIT: u64 = 4096;
/// Unit of blocks and transfers, in bytes: the data identifies its place in each unit.
pub(crate) const BLOCK_UNIT: u64 = 512;
