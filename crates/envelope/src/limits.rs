//! What comes out: the ceilings that a limiter enforces, and where each comes from.

use crate::{BytesPerSecond, Iops, Owner, Shaping, Source};
use serde::{Deserialize, Serialize};

/// What a write costs of [`Ceilings::combined_iops`], in thousandths of an operation, unless a level says otherwise.
pub const PLAIN_WRITE_COST_THOUSANDTHS: u32 = 1_000;

/// Rates that may not be exceeded; `None` is unlimited. All that are there hold at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ceilings {
    /// Data read.
    pub read: Option<BytesPerSecond>,
    /// Data written.
    pub write: Option<BytesPerSecond>,
    /// Data read and written together.
    pub combined: Option<BytesPerSecond>,
    /// Read operations.
    pub read_iops: Option<Iops>,
    /// Write operations.
    pub write_iops: Option<Iops>,
    /// Read and write operations together, where a write may [cost more](Limits::write_cost_thousandths).
    pub combined_iops: Option<Iops>,
}

/// What a pool or a volume may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Whose meter enforces them. A pool's limits owned by its volumes are only what these may share out.
    pub owner: Owner,
    /// For all clients together.
    pub total: Ceilings,
    /// For each client.
    pub per_client: Ceilings,
    /// The most clients that may be connected; `None` is unlimited.
    pub clients_max: Option<u32>,
    /// What a write takes from `combined_iops`, in thousandths of an operation. A read takes 1,000.
    pub write_cost_thousandths: u32,
    /// The published curve that holds besides, following the observed mix.
    pub shape: Option<Shaping>,
    /// Where each of them comes from, for people.
    pub origin: Vec<Origin>,
}

/// Where one figure comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Which figure, as in `throughput`.
    pub what: &'static str,
    /// How it was reached, as in `2 TiB × 64 MiB/s per TiB = 128 MiB/s`.
    pub formula: String,
    /// Who says so.
    pub source: Source,
}

/// What an [`Origin`] of a ceiling of operations is called.
pub(crate) const OPERATIONS: &str = "operations";

/// How a figure that may be set came about, for its [`Origin`].
pub(crate) fn as_set<T>(setting: Option<T>) -> &'static str {
    if setting.is_some() { "as set" } else { "unless set" }
}

impl Ceilings {
    /// Reads and writes together at this rate, nothing else limited.
    pub(crate) fn combined(rate: BytesPerSecond) -> Self {
        Self { combined: Some(rate), ..Self::default() }
    }

    /// Those that are less than in `most`.
    pub(crate) fn below(&self, most: &Self) -> Self {
        fn less<T: Ord>(one: Option<T>, most: Option<T>) -> Option<T> {
            one.filter(|one| most.is_none_or(|most| *one < most))
        }
        Self {
            read: less(self.read, most.read),
            write: less(self.write, most.write),
            combined: less(self.combined, most.combined),
            read_iops: less(self.read_iops, most.read_iops),
            write_iops: less(self.write_iops, most.write_iops),
            combined_iops: less(self.combined_iops, most.combined_iops),
        }
    }

    /// Whether one of them would let nothing through at all.
    pub(crate) fn stalls(&self) -> bool {
        let rates = [self.read, self.write, self.combined];
        let operations = [self.read_iops, self.write_iops, self.combined_iops];
        rates.contains(&Some(BytesPerSecond(0))) || operations.contains(&Some(Iops(0)))
    }
}

impl Limits {
    /// No limit at all.
    pub(crate) fn unlimited(owner: Owner) -> Self {
        Self {
            owner,
            total: Ceilings::default(),
            per_client: Ceilings::default(),
            clients_max: None,
            write_cost_thousandths: PLAIN_WRITE_COST_THOUSANDTHS,
            shape: None,
            origin: Vec::new(),
        }
    }

    /// These ceilings for all clients together.
    pub(crate) fn of(owner: Owner, total: Ceilings) -> Self {
        Self { total, ..Self::unlimited(owner) }
    }

    /// With a line on where `what` comes from.
    pub(crate) fn because(mut self, what: &'static str, formula: impl Into<String>, source: Source) -> Self {
        self.origin.push(Origin { what, formula: formula.into(), source });
        self
    }
}
