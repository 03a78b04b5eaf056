//! The server's own view of a measurement.

use report::result::{Limits, VolumeFacts};
use serde::{Deserialize, Serialize};

use crate::error::Error;

pub trait Observer: Send {
    /// # Errors
    /// The server does not answer, or has no such volume.
    fn facts(&mut self) -> Result<VolumeFacts, Error>;

    /// # Errors
    /// The server does not answer, or has no such volume.
    fn sample(&mut self) -> Result<Sample, Error>;
}

/// Counters of a server and one of its volumes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Connections of clients of the volume.
    pub connections: u64,
    /// Operations on the volume since the server's start.
    pub ops: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Operations that a limit delayed.
    pub throttled_ops: u64,
    /// Seconds that operations waited for limits, in total.
    pub throttle_s: f64,
    /// READs answered from memory.
    pub reads_from_memory: u64,
    /// READs that waited for storage.
    pub reads_from_storage: u64,
    pub limits: Limits,
}
