//! Bounds of scenarios and generators.

use std::ops::RangeInclusive;

/// Maximum calls in flight on one connection.
pub const DEPTH_MAX: usize = 1024;
/// Maximum transfer size.
pub const BLOCK_MAX: u64 = 1 << 20;
pub const CLIENTS_MAX: usize = 1024;
/// Maximum connections of a client.
pub const CONNECTIONS_MAX: usize = 4096;
/// Maximum connections of all clients together.
pub const CONNECTIONS_TOTAL_MAX: usize = 16_384;
/// Allowed operations a second of all clients together.
pub const RATES: RangeInclusive<f64> = 0.1..=1e9;
/// Maximum number of data files.
pub const FILES_MAX: usize = 100_000;
/// Maximum size of all data files together.
pub const SPACE_MAX: u64 = 1 << 50;
/// Maximum job sets of all generators together; the numbers of their files have 32 bits.
pub const JOB_SETS_MAX: u32 = 100_000;
/// Maximum number of directories that names are spread over.
pub const DIRECTORIES_MAX: usize = 10_000;
/// Unit of transfers of job sets.
pub(crate) const EDA_UNIT: u64 = 4096;
/// Unit of blocks and transfers: the data identifies its place in each unit.
pub(crate) const BLOCK_UNIT: u64 = 512;
