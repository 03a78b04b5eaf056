//! The load of a generator, its caller, and its start and end.

mod caller;
mod control;
mod layout_progress;

use report::scenario::{Cache, MetadataOperation, Pattern, Protocol, Stability, Work};
use serde::{Deserialize, Serialize};

pub use caller::Caller;
pub use control::{Control, SECONDS_MAX, moment};
pub use layout_progress::LayoutProgress;

/// A load, and one generator's share of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub work: Work,
    /// The protocol; by default that of the target.
    #[serde(default)]
    pub protocol: Option<Protocol>,
    pub block: u64,
    /// The order of the blocks.
    pub pattern: Pattern,
    /// Share of reads in percent.
    pub read_percent: u8,
    /// Largest READ and WRITE on the wire.
    pub transfer: u64,
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
    /// Bytes of the calls into which a client's page cache gathers sequential operations, for [`Work::EdaBlend`].
    #[serde(default)]
    pub gather: Option<u64>,
    pub clients_total: usize,
    /// The first of this generator's clients.
    pub first_client: usize,
    /// The clients of this generator.
    pub clients: usize,
    pub connections: usize,
    pub jobs: usize,
    pub depth: usize,
    pub file_size: u64,
    /// Operations a second of all clients, on a schedule; without it, as many as possible.
    pub rate: Option<f64>,
    pub job_sets: u32,
    /// Files of a job set, in thousandths of the usual number.
    #[serde(default = "whole")]
    pub file_scale_thousandths: u32,
    /// The number of the repetition, which selects its places.
    pub repetition: u32,
    /// The seed of the pseudo-random sequences.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    pub operation: MetadataOperation,
    pub directories: usize,
}

impl Job {
    pub(crate) fn repeats_places(&self) -> bool {
        self.same_places.unwrap_or(self.cache != Cache::Any)
    }
}

fn whole() -> u32 {
    1000
}
