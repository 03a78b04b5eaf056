//! Every bound on what a scenario may ask for, and on what the generators take.

use std::ops::RangeInclusive;

/// Most calls in flight on one connection.
pub const DEPTH_MAX: usize = 1024;
/// Largest transfer.
pub const BLOCK_MAX: u64 = 1 << 20;
/// Most clients.
pub const CLIENTS_MAX: usize = 1024;
/// Most connections of a client.
pub const CONNECTIONS_MAX: usize = 4096;
/// Most connections of all clients together.
pub const CONNECTIONS_TOTAL_MAX: usize = 16_384;
/// Operations a second that can be asked for, of all clients together.
pub const RATES: RangeInclusive<f64> = 0.1..=1e9;
/// Most data files.
pub const FILES_MAX: usize = 100_000;
/// Most bytes of all data files together.
pub const SPACE_MAX: u64 = 1 << 50;
/// Most job sets of all generators together; the numbers of their files have 32 bits.
pub const JOB_SETS_MAX: u32 = 100_000;
/// Most directories that names are spread over.
pub const DIRECTORIES_MAX: usize = 10_000;
/// Of transfers of job sets: what their operations are multiples of.
pub(crate) const EDA_UNIT: u64 = 4096;
/// Of blocks and transfers: data says in each unit of so many bytes where it belongs.
pub(crate) const BLOCK_UNIT: u64 = 512;
