//! What the user measured: curves like the published ones, with another source.

use super::Access;
use crate::{Bytes, BytesPerSecond, Level, Protocol};
use serde::Serialize;

/// A volume as somebody measured it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// Which run of which target, for people.
    pub source: String,
    /// Volumes of this level it tells of.
    pub level: Level,
    /// Whether it was a large volume.
    pub large: bool,
    /// Over what it was measured.
    pub protocol: Protocol,
    /// Whether its clients and its server were on one host.
    pub co_located: bool,
    /// The bytes of all files.
    pub working_set: Bytes,
    /// What was found.
    pub points: Vec<MeasuredPoint>,
}

/// One load and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MeasuredPoint {
    /// How operations followed each other.
    pub access: Access,
    /// The size of each.
    pub block: Bytes,
    /// Thousandths of them that were reads.
    pub read_thousandths: u32,
    /// How many clients there were.
    pub clients: u32,
    /// The data, reads and writes together.
    pub rate: BytesPerSecond,
    /// How long an operation took on average, in microseconds.
    pub latency_us: u64,
}
