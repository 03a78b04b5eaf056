//! The load of a generator, its caller, and its start and end.

mod caller;
mod control;

use report::scenario::{Cache, MetadataOperation, Pattern, Protocol, Stability, Work};
use serde::{Deserialize, Serialize};

pub use caller::Caller;
pub use control::{Control, SECONDS_MAX, moment};

/// A load, and the share of it that is one generator's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub work: Work,
    /// Over which protocol; that of the target without.
    #[serde(default)]
    pub protocol: Option<Protocol>,
    /// Bytes of an operation.
    pub block: u64,
    /// The order of the blocks.
    pub pattern: Pattern,
    /// Share of reads in percent.
    pub read_percent: u8,
    /// Largest READ and WRITE on the wire.
    pub transfer: u64,
    /// Whether attributes are cached.
    pub attribute_cache: bool,
    pub stability: Stability,
    /// The intended state of the server's cache.
    pub cache: Cache,
    /// Whether each repetition comes to the same places; as `cache` wants it without.
    #[serde(default)]
    pub same_places: Option<bool>,
    /// The operation on names, for [`Work::Metadata`].
    #[serde(default)]
    pub metadata: Option<Metadata>,
    /// Bytes of the calls into which a client's page cache gathers sequential operations, for
    /// [`Work::EdaBlend`]; each is a call of its own without.
    #[serde(default)]
    pub gather: Option<u64>,
    /// Clients of all generators.
    pub clients_total: usize,
    /// The first of this generator's clients.
    pub first_client: usize,
    /// The clients of this generator.
    pub clients: usize,
    /// Connections of each client.
    pub connections: usize,
    /// Jobs of each client.
    pub jobs: usize,
    /// Calls in flight of each job.
    pub depth: usize,
    /// Bytes of each job's file.
    pub file_size: u64,
    /// Operations a second of all clients together, on a schedule; as many as possible without it.
    pub rate: Option<f64>,
    /// Job sets, for [`Work::EdaBlend`].
    pub job_sets: u32,
    /// Their files, in thousandths of the usual number.
    #[serde(default = "whole")]
    pub file_scale_thousandths: u32,
    /// Which repetition it is, for places of its own.
    pub repetition: u32,
    /// The seed of the pseudo-random sequences.
    pub seed: u64,
}

/// Operations on names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Which.
    pub operation: MetadataOperation,
    /// Over how many directories.
    pub directories: usize,
}

impl Job {
    /// Whether each repetition comes to the same places.
    pub(crate) fn repeats_places(&self) -> bool {
        self.same_places.unwrap_or(self.cache != Cache::Any)
    }
}

/// The default file scale.
fn whole() -> u32 {
    1000
}
