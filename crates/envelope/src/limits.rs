//! The result: ceilings to enforce, each with its origin.

use crate::{BytesPerSecond, Iops, Owner, Shaping, Source};
use serde::{Deserialize, Serialize};

/// Cost of a write in [`Ceilings::combined_iops`], in thousandths of an operation, unless a level says otherwise.
pub const PLAIN_WRITE_COST_THOUSANDTHS: u32 = 1_000;

/// Maximum rates; `None` is unlimited. All of them apply at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ceilings {
    pub read: Option<BytesPerSecond>,
    pub write: Option<BytesPerSecond>,
    /// Data read and written together.
    pub combined: Option<BytesPerSecond>,
    pub read_iops: Option<Iops>,
    pub write_iops: Option<Iops>,
    /// Read and write operations together, where a write may [cost more](Limits::write_cost_thousandths).
    pub combined_iops: Option<Iops>,
}

/// The limits of a pool or a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// The object that enforces them. A pool's limits owned by its volumes are only the amount that these share.
    pub owner: Owner,
    /// For all clients together.
    pub total: Ceilings,
    pub per_client: Ceilings,
    /// Maximum number of connected clients; `None` is unlimited.
    pub clients_max: Option<u32>,
    /// Cost of a write in `combined_iops`, in thousandths of an operation. A read costs 1,000.
    pub write_cost_thousandths: u32,
    /// The published curve that also applies, following the observed mix.
    pub shape: Option<Shaping>,
    /// The origin of each limit, for people.
    pub origin: Vec<Origin>,
}

/// The origin of one figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The figure, as in `throughput`.
    pub what: &'static str,
    /// The derivation, as in `2 TiB × 64 MiB/s per TiB = 128 MiB/s`.
    pub formula: String,
    pub source: Source,
}

pub(crate) const OPERATIONS: &str = "operations";

pub(crate) fn origin_text<T>(setting: Option<T>) -> &'static str {
    if setting.is_some() { "as set" } else { "unless set" }
}

impl Ceilings {
    pub(crate) fn combined(rate: BytesPerSecond) -> Self {
        Self { combined: Some(rate), ..Self::default() }
    }

    pub(crate) fn less_than(&self, max: &Self) -> Self {
        fn less<T: Ord>(value: Option<T>, max: Option<T>) -> Option<T> {
            value.filter(|value| max.is_none_or(|max| *value < max))
        }
        Self {
            read: less(self.read, max.read),
            write: less(self.write, max.write),
            combined: less(self.combined, max.combined),
            read_iops: less(self.read_iops, max.read_iops),
            write_iops: less(self.write_iops, max.write_iops),
            combined_iops: less(self.combined_iops, max.combined_iops),
        }
    }

    pub(crate) fn blocks_traffic(&self) -> bool {
        let rates = [self.read, self.write, self.combined];
        let operations = [self.read_iops, self.write_iops, self.combined_iops];
        rates.contains(&Some(BytesPerSecond(0))) || operations.contains(&Some(Iops(0)))
    }
}

impl Limits {
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

    pub(crate) fn for_all_clients(owner: Owner, total: Ceilings) -> Self {
        Self { total, ..Self::unlimited(owner) }
    }

    pub(crate) fn with_origin(
        mut self,
        what: &'static str,
        formula: impl Into<String>,
        source: Source,
    ) -> Self {
        self.origin.push(Origin { what, formula: formula.into(), source });
        self
    }
}
