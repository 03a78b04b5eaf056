//! What bounds a choice, and how much of each bound a load takes.

use super::{Band, Stream};
use crate::{Bytes, BytesPerSecond, Ceilings, Iops, grouped};
use serde::Serialize;

/// A bound, and how much of it is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Constraint {
    /// What kind of bound it is.
    pub kind: Bound,
    /// What is compared with what, for people.
    pub formula: String,
    /// How much is taken by the load with its headroom, or by the capacity with its growth.
    pub used: Used,
    /// Between what the bound may lie, where it is estimated.
    pub band: Option<Band>,
    /// Who says so.
    pub source: String,
}

/// Kinds of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The room for data.
    Capacity,
    /// The smallest pool or volume there is.
    Smallest,
    /// The capacity that the user allows.
    Allowance,
    /// What the level gives for the size, or what it sells at most.
    Level,
    /// What one volume has at most, whatever its size.
    VolumeCap,
    /// What the pool has to share out.
    Pool,
    /// What such volumes were measured to carry.
    Envelope,
    /// What the clients are given or were measured to reach.
    Clients,
    /// How many clients may be connected.
    ClientCount,
    /// Calls in flight, by Little's law.
    Slots,
    /// The clients' network interfaces.
    Nic,
    /// How long an operation took where the least load was measured.
    Latency,
}

/// A share in billionths, rounded up: more than 1,000,000,000 does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Used(pub u64);

impl Used {
    /// All of it.
    pub const ALL: Self = Self(1_000_000_000);

    /// So much of so much.
    pub(super) fn of(part: u128, whole: u128) -> Self {
        let exact = part.saturating_mul(u128::from(Self::ALL.0)).div_ceil(whole.max(1));
        Self(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// How much it is of so many thousandths of the whole.
    pub(super) fn over_thousandths(self, thousandths: u32) -> Self {
        Self::of(u128::from(self.0) * 1000, u128::from(Self::ALL.0) * u128::from(thousandths))
    }

    /// Whether it fits.
    pub fn fits(self) -> bool {
        self <= Self::ALL
    }

    /// In percent, for people and plots.
    pub fn percent(self) -> u64 {
        self.0.div_ceil(Self::ALL.0 / 100)
    }
}

impl std::fmt::Display for Used {
    /// `87.3 %`, rounded up, so that what does not fit never shows as 100 %.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = self.0.div_ceil(Self::ALL.0 / 1000);
        f.pad(&format!("{}.{} %", grouped(tenths / 10), tenths % 10))
    }
}

impl Bound {
    /// As it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Smallest => "smallest size",
            Self::Allowance => "capacity allowed",
            Self::Level => "level",
            Self::VolumeCap => "volume cap",
            Self::Pool => "pool",
            Self::Envelope => "envelope",
            Self::Clients => "clients",
            Self::ClientCount => "number of clients",
            Self::Slots => "calls in flight",
            Self::Nic => "NIC",
            Self::Latency => "latency",
        }
    }

    /// Whether more load takes more of it.
    pub fn is_of_load(self) -> bool {
        !matches!(self, Self::Capacity | Self::Smallest | Self::Allowance | Self::ClientCount | Self::Latency)
    }
}

/// How much of one ceiling a load takes.
pub(super) struct Taken {
    pub(super) used: Used,
    /// What is compared with what, for people.
    pub(super) formula: String,
    /// Whether operations are counted, not data.
    pub(super) of_operations: bool,
}

/// A load with what is asked of it often.
pub(super) struct Load<'a> {
    pub(super) streams: &'a [Stream],
}

impl Load<'_> {
    /// Its data.
    pub(super) fn rate(&self) -> BytesPerSecond {
        self.sum(|stream| stream.rate)
    }

    /// Its data that is read.
    pub(super) fn reads(&self) -> BytesPerSecond {
        self.sum(Stream::reads)
    }

    /// Its data that is written.
    pub(super) fn writes(&self) -> BytesPerSecond {
        self.sum(Stream::writes)
    }

    fn sum(&self, part: impl Fn(&Stream) -> BytesPerSecond) -> BytesPerSecond {
        BytesPerSecond(self.streams.iter().fold(0, |sum, stream| sum.saturating_add(part(stream).0)))
    }

    /// Its operations.
    pub(super) fn iops(&self) -> Iops {
        Iops(self.streams.iter().fold(0, |sum, stream| sum.saturating_add(stream.iops().0)))
    }

    /// Thousandths of the data that are read, of blocks of all sizes together.
    pub(super) fn read_thousandths(&self) -> u32 {
        match self.streams {
            [only] => only.read_thousandths,
            _ => {
                let share = u128::from(self.reads().0) * 1000 / u128::from(self.rate().0.max(1));
                u32::try_from(share).unwrap_or(1000)
            }
        }
    }

    /// What is taken of each ceiling that there is, `times` over, with what that is called.
    pub(super) fn of_ceilings(
        &self,
        ceilings: &Ceilings,
        write_cost_thousandths: u32,
        times: u64,
    ) -> Vec<Taken> {
        let rates = [
            ("read", ceilings.read, self.reads()),
            ("written", ceilings.write, self.writes()),
            ("read and written", ceilings.combined, self.rate()),
        ];
        let of_rates = rates.into_iter().filter_map(|(what, limit, need)| {
            let limit = limit?;
            let used = Used::of(u128::from(need.0), u128::from(limit.0) * u128::from(times));
            let formula = format!("{} {what} of {}", mib(need), times_of(times, mib(limit)));
            Some(Taken { used, formula, of_operations: false })
        });
        let costs = [
            ("read", ceilings.read_iops, 1000, 0),
            ("write", ceilings.write_iops, 0, 1000),
            ("", ceilings.combined_iops, 1000, write_cost_thousandths),
        ];
        let of_operations = costs.into_iter().filter_map(|(what, limit, read_cost, write_cost)| {
            let limit = limit?;
            let used = self.of_operations(limit, read_cost, write_cost, times);
            let need = self.operations(read_cost, write_cost);
            let what = if what.is_empty() { String::new() } else { format!("{what} ") };
            let formula = format!("{} {what}IOPS of {}", grouped(need), times_of(times, limit));
            Some(Taken { used, formula, of_operations: true })
        });
        of_rates.chain(of_operations).collect()
    }

    /// Operations are data over blocks; data stays exact until the end.
    fn of_operations(&self, limit: Iops, read_cost: u32, write_cost: u32, times: u64) -> Used {
        self.streams.iter().fold(Used(0), |used, stream| {
            let per_byte = u128::from(stream.block.0) * u128::from(limit.0) * u128::from(times);
            used.and(Used::of(cost(stream, read_cost, write_cost), per_byte * 1_000_000))
        })
    }

    /// Operations rounded up, for people.
    fn operations(&self, read_cost: u32, write_cost: u32) -> u64 {
        let one = |stream: &Stream| {
            let exact = cost(stream, read_cost, write_cost).div_ceil(u128::from(stream.block.0) * 1_000_000);
            u64::try_from(exact).unwrap_or(u64::MAX)
        };
        self.streams.iter().map(one).fold(0, u64::saturating_add)
    }
}

/// The data of a stream, each part times what its operations cost, in millionths.
fn cost(stream: &Stream, read_cost: u32, write_cost: u32) -> u128 {
    let reads = u128::from(stream.read_thousandths);
    let share = reads * u128::from(read_cost) + (1000 - reads) * u128::from(write_cost);
    u128::from(stream.rate.0) * share
}

/// `3 × 4,500 MiB/s`, or only what there is one of.
pub(super) fn times_of(times: u64, limit: impl std::fmt::Display) -> String {
    if times == 1 { format!("{limit:#}") } else { format!("{} × {limit:#}", grouped(times)) }
}

/// A rate for people in MiB/s, its thousands apart: as it is if that is short, and otherwise to a tenth, rounded up. What
/// is given in whole MB/s, and is nothing round in MiB/s, stays in MB/s.
pub fn mib(rate: BytesPerSecond) -> String {
    let exact = format!("{rate:#}");
    if exact.ends_with(" MiB/s") || is_decimal(rate.0, 1_000_000) {
        return exact;
    }
    let tenths = (u128::from(rate.0) * 10).div_ceil(1 << 20);
    let tenths = u64::try_from(tenths).unwrap_or(u64::MAX);
    let (whole, rest) = (grouped(tenths / 10), tenths % 10);
    if rest == 0 { format!("{whole} MiB/s") } else { format!("{whole}.{rest} MiB/s") }
}

/// Whether a number of bytes is a multiple of `unit`, a power of ten, and not of a MiB.
fn is_decimal(bytes: u64, unit: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(unit) && !bytes.is_multiple_of(1 << 20)
}

/// A size for people, in the largest unit of which there is at least one, to a hundredth. What is given in whole GB, and
/// is nothing round in MiB, stays in powers of ten.
pub fn size(bytes: Bytes) -> String {
    if is_decimal(bytes.0, 1_000_000_000) {
        return format!("{bytes:#}");
    }
    let units = [(50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let Some((shift, unit)) = units.into_iter().find(|(shift, _)| bytes.0 >> shift > 0) else {
        return format!("{bytes:#}");
    };
    let hundredths = (u128::from(bytes.0) * 100) >> shift;
    let whole = u64::try_from(hundredths / 100).unwrap_or(u64::MAX);
    match (grouped(whole), hundredths % 100) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, rest) if rest % 10 == 0 => format!("{whole}.{} {unit}", rest / 10),
        (whole, rest) => format!("{whole}.{rest:02} {unit}"),
    }
}
