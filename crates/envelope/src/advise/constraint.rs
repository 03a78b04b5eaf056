//! Bounds of a choice, and the share of each that a load uses.

use super::{Band, Stream};
use crate::units::bytes_per_unit;
use crate::{Bytes, BytesPerSecond, Ceilings, Iops, grouped};
use serde::Serialize;

/// A bound, and the share of it in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Constraint {
    pub kind: Bound,
    /// The compared values, for people.
    pub formula: String,
    /// The share used by the load with its headroom, or by the data with growth and headroom.
    pub used: Utilization,
    /// The uncertainty of the bound, if it is estimated.
    pub band: Option<Band>,
    pub source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    Capacity,
    /// The smallest available pool or volume.
    Smallest,
    /// The capacity that the user allows.
    Allowance,
    /// The level's limit for the size, or its overall limit.
    Level,
    /// Throughput and operations as set. They can be raised up to the other bounds.
    Setting,
    /// A volume's limit, whatever its size.
    VolumeCap,
    /// The pool's limit, shared by its volumes.
    Pool,
    /// The measured maximum of such volumes.
    Envelope,
    /// The clients' limits or measured maximum.
    Clients,
    /// Maximum number of connected clients.
    ClientCount,
    /// Calls in flight, by Little's law.
    Slots,
    /// The clients' network interfaces.
    Nic,
    /// The latency of an operation at the lowest measured load.
    Latency,
}

/// A share in 10⁻¹⁸, rounded up, so that the ceiling can be computed from it exactly to the byte. More than
/// [`ALL`](Self::ALL) does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utilization(u128);

impl Utilization {
    pub const ALL: Self = Self(1_000_000_000_000_000_000);

    pub(super) fn of(part: u128, whole: u128) -> Self {
        let whole = whole.max(1);
        let (full, rest) = (part / whole, part % whole);
        let exact = match rest.checked_mul(Self::ALL.0) {
            Some(rest) => rest.div_ceil(whole),
            None => rest.div_ceil(whole / Self::ALL.0),
        };
        Self(full.saturating_mul(Self::ALL.0).saturating_add(exact))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The share of a ceiling that is `thousandths` of this one.
    pub(super) fn over_thousandths(self, thousandths: u32) -> Self {
        Self(self.0.saturating_mul(1000).div_ceil(u128::from(thousandths.max(1))))
    }

    pub(super) fn percent_of(self, percent: u32) -> Self {
        Self(self.0.saturating_mul(u128::from(percent)).div_ceil(100))
    }

    /// The share of a ceiling that is `percent` of this one.
    pub(super) fn over_percent(self, percent: u32) -> Self {
        Self(self.0.saturating_mul(100).div_ceil(u128::from(percent.max(1))))
    }

    /// The whole of which `part` uses this share, rounded down. The share was rounded up, so a whole number within the
    /// rounding error is the original one.
    pub(super) fn ceiling_of(self, part: u64) -> u64 {
        let (part, used) = (u128::from(part) * Self::ALL.0, self.0.max(2));
        let max = part.saturating_sub(1) / (used - 1);
        u64::try_from(max.min(part / used + 1)).unwrap_or(u64::MAX)
    }

    pub fn excess(self) -> Self {
        Self(self.0.saturating_sub(Self::ALL.0))
    }

    pub fn fits(self) -> bool {
        self <= Self::ALL
    }

    pub fn fits_in(self, thousandths: u32) -> bool {
        self.over_thousandths(thousandths).fits()
    }

    pub fn ratio(self) -> f64 {
        self.0 as f64 / Self::ALL.0 as f64
    }

    pub fn billionths(self) -> u64 {
        u64::try_from(self.0.div_ceil(Self::ALL.0 / 1_000_000_000)).unwrap_or(u64::MAX)
    }
}

impl Serialize for Utilization {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.billionths())
    }
}

impl std::fmt::Display for Utilization {
    /// `87.3 %`, rounded up, so that a share that does not fit never shows as 100 %.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = u64::try_from(self.0.div_ceil(Self::ALL.0 / 1000)).unwrap_or(u64::MAX);
        f.pad(&format!("{}.{} %", grouped(tenths / 10), tenths % 10))
    }
}

impl Bound {
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Smallest => "smallest size",
            Self::Allowance => "capacity allowed",
            Self::Level => "level",
            Self::Setting => "setting",
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

    pub fn is_of_load(self) -> bool {
        !matches!(self, Self::Capacity | Self::Smallest | Self::Allowance | Self::ClientCount | Self::Latency)
    }
}

pub(super) struct CeilingUse {
    pub(super) used: Utilization,
    pub(super) formula: String,
    pub(super) of_operations: bool,
}

pub(super) struct Load<'a> {
    pub(super) streams: &'a [Stream],
}

impl Load<'_> {
    pub(super) fn rate(&self) -> BytesPerSecond {
        self.sum(|stream| stream.rate)
    }

    pub(super) fn reads(&self) -> BytesPerSecond {
        self.sum(Stream::reads)
    }

    pub(super) fn writes(&self) -> BytesPerSecond {
        self.sum(Stream::writes)
    }

    fn sum(&self, part: impl Fn(&Stream) -> BytesPerSecond) -> BytesPerSecond {
        BytesPerSecond(self.streams.iter().fold(0, |sum, stream| sum.saturating_add(part(stream).0)))
    }

    pub(super) fn iops(&self) -> Iops {
        Iops(self.streams.iter().fold(0, |sum, stream| sum.saturating_add(stream.iops().0)))
    }

    /// Thousandths of the data that are read, over all block sizes.
    pub(super) fn read_thousandths(&self) -> u32 {
        match self.streams {
            [only] => only.read_thousandths,
            _ => {
                let share = u128::from(self.reads().0) * 1000 / u128::from(self.rate().0.max(1));
                u32::try_from(share).unwrap_or(1000)
            }
        }
    }

    /// The use of each existing ceiling, `times` over, with its name.
    pub(super) fn ceiling_uses(
        &self,
        ceilings: &Ceilings,
        write_cost_thousandths: u32,
        times: u64,
    ) -> Vec<CeilingUse> {
        let rates = [
            ("read", ceilings.read, self.reads()),
            ("written", ceilings.write, self.writes()),
            ("read and written", ceilings.combined, self.rate()),
        ];
        let of_rates = rates.into_iter().filter_map(|(what, limit, need)| {
            let limit = limit?;
            let used = Utilization::of(u128::from(need.0), u128::from(limit.0) * u128::from(times));
            let formula = format!("{} {what} of {}", mib(need), multiple(times, mib_within(limit)));
            Some(CeilingUse { used, formula, of_operations: false })
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
            let formula = format!("{} {what}IOPS of {}", grouped(need), multiple(times, limit));
            Some(CeilingUse { used, formula, of_operations: true })
        });
        of_rates.chain(of_operations).collect()
    }

    /// Operations are data over block size; the data stays exact until the end.
    fn of_operations(&self, limit: Iops, read_cost: u32, write_cost: u32, times: u64) -> Utilization {
        self.streams.iter().fold(Utilization::default(), |used, stream| {
            let per_byte = u128::from(stream.block.0) * u128::from(limit.0) * u128::from(times);
            used.plus(Utilization::of(cost(stream, read_cost, write_cost), per_byte * 1_000_000))
        })
    }

    /// Rounded up, for people.
    fn operations(&self, read_cost: u32, write_cost: u32) -> u64 {
        let one = |stream: &Stream| {
            let exact = cost(stream, read_cost, write_cost).div_ceil(u128::from(stream.block.0) * 1_000_000);
            u64::try_from(exact).unwrap_or(u64::MAX)
        };
        self.streams.iter().map(one).fold(0, u64::saturating_add)
    }
}

/// The data of a stream in millionths, weighted by the cost of its operations.
fn cost(stream: &Stream, read_cost: u32, write_cost: u32) -> u128 {
    let reads = u128::from(stream.read_thousandths);
    let share = reads * u128::from(read_cost) + (1000 - reads) * u128::from(write_cost);
    u128::from(stream.rate.0) * share
}

/// `3 × 4,500 MiB/s`, or only the limit if `times` is 1.
pub(super) fn multiple(times: u64, limit: impl std::fmt::Display) -> String {
    if times == 1 { format!("{limit:#}") } else { format!("{} × {limit:#}", grouped(times)) }
}

/// A load for people in MiB/s with grouped digits: exact if that is short, otherwise rounded up to a tenth. A rate of
/// whole MB/s that is not round in MiB/s stays in MB/s.
pub fn mib(rate: BytesPerSecond) -> String {
    mib_of(rate, true)
}

pub fn mib_within(rate: BytesPerSecond) -> String {
    mib_of(rate, false)
}

fn mib_of(rate: BytesPerSecond, up: bool) -> String {
    let exact = format!("{rate:#}");
    if exact.ends_with(" MiB/s") || is_decimal(rate.0, 1_000_000) {
        return exact;
    }
    let tenths = rounded(u128::from(rate.0) * 10, 20, up);
    let (whole, rest) = (grouped(tenths / 10), tenths % 10);
    if rest == 0 { format!("{whole} MiB/s") } else { format!("{whole}.{rest} MiB/s") }
}

fn rounded(value: u128, shift: u32, up: bool) -> u64 {
    let whole = if up { value.div_ceil(1 << shift) } else { value >> shift };
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// Whether a number of bytes is a multiple of `unit`, a power of ten, but not of a MiB.
fn is_decimal(bytes: u64, unit: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(unit) && !bytes.is_multiple_of(1 << 20)
}

/// A required size for people, in the largest unit below it, rounded up to a hundredth. A size of whole GB
/// that is not round in MiB stays in powers of ten.
pub fn size(bytes: Bytes) -> String {
    size_of(bytes, true)
}

/// An available size, like [`size`] but rounded down.
pub fn size_within(bytes: Bytes) -> String {
    size_of(bytes, false)
}

/// A size to buy or set, exact to the byte. Commands accept the text, so its digits are not grouped.
pub fn size_to_buy(bytes: Bytes) -> String {
    bytes.to_string()
}

fn size_of(bytes: Bytes, up: bool) -> String {
    if is_decimal(bytes.0, 1_000_000_000) {
        return format!("{bytes:#}");
    }
    let units = [(50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let Some((shift, unit)) = units.into_iter().find(|(shift, _)| bytes.0 >> shift > 0) else {
        return format!("{bytes:#}");
    };
    let thousandths = u128::from(bytes.0) * 1000;
    // An exact size stays exact, so that it never shows as more than the size to buy.
    if thousandths.is_multiple_of(1 << shift) {
        return decimal(rounded(thousandths, shift, up), 3, unit);
    }
    decimal(rounded(u128::from(bytes.0) * 100, shift, up), 2, unit)
}

/// A number of tenths, hundredths and so on with its unit, without zeros at the end.
fn decimal(parts: u64, decimals: usize, unit: &str) -> String {
    let one = 10u64.pow(u32::try_from(decimals).unwrap_or_default());
    let fraction = format!(".{:0decimals$}", parts % one);
    format!("{}{} {unit}", grouped(parts / one), fraction.trim_end_matches('0').trim_end_matches('.'))
}

/// A required size in the unit of the available size beside it: rounded up, but never to more than that if it fits.
pub(super) fn size_needed_of(needed: Bytes, available: Bytes) -> String {
    let shown = size_to_buy(available);
    let (number, unit) = shown.split_once(' ').unwrap_or((&shown, "B"));
    let Some(bytes) = bytes_per_unit(unit) else { return size(needed) };
    // With its decimals the available size is exact, so rounding up a smaller one cannot exceed it.
    let decimals = number.split_once('.').map_or(0, |(_, fraction)| fraction.len()).max(2);
    let one = 10u128.pow(u32::try_from(decimals).unwrap_or_default());
    let parts = (u128::from(needed.0) * one).div_ceil(u128::from(bytes));
    // Without groups, as in the available size.
    decimal(u64::try_from(parts).unwrap_or(u64::MAX), decimals, unit).replace(',', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loads_round_up_and_ceilings_round_down() {
        let rate = BytesPerSecond((100 << 20) + 1);
        assert_eq!((mib(rate), mib_within(rate)), ("100.1 MiB/s".to_owned(), "100 MiB/s".to_owned()));
        let bytes = Bytes((3 << 40) + (1 << 30) + 1);
        assert_eq!((size(bytes), size_within(bytes)), ("3.01 TiB".to_owned(), "3 TiB".to_owned()));
        assert_eq!(size_to_buy(Bytes::gib(2_629)), "2629 GiB");
        let exact = Bytes::gib(10_368);
        assert_eq!((size(exact), size_within(exact)), ("10.125 TiB".into(), "10.125 TiB".into()));
        assert_eq!(
            (size(Bytes::gib(2_629)), size_within(Bytes::gib(2_629))),
            ("2.57 TiB".into(), "2.56 TiB".into())
        );
    }

    proptest! {
        #[test]
        fn printed_figures_round_to_safe_side(bytes in 1u64..1 << 55) {
            let plain = |text: String| text.replace(',', "");
            let read = |text: String| plain(text).parse::<Bytes>().unwrap();
            let rate = |text: String| plain(text).parse::<BytesPerSecond>().unwrap();
            prop_assert!(read(size(Bytes(bytes))) >= Bytes(bytes));
            prop_assert!(read(size_within(Bytes(bytes))) <= Bytes(bytes));
            prop_assert_eq!(size_to_buy(Bytes(bytes)).parse::<Bytes>().unwrap(), Bytes(bytes));
            prop_assert!(rate(mib(BytesPerSecond(bytes))) >= BytesPerSecond(bytes));
            prop_assert!(rate(mib_within(BytesPerSecond(bytes))) <= BytesPerSecond(bytes));
        }

        #[test]
        fn needed_size_is_shown_as_more_than_available_only_if_it_is(
            needed in 1u64..1 << 55,
            available in prop_oneof![1u64..1 << 55, (1u64..1 << 25).prop_map(|gib| gib << 30)],
        ) {
            let shown = size_needed_of(Bytes(needed), Bytes(available));
            let unit = size_to_buy(Bytes(available));
            prop_assert!(shown.split_once(' ').unwrap().1 == unit.split_once(' ').unwrap().1, "{shown} {unit}");
            let read = shown.parse::<Bytes>();
            prop_assert!(read.as_ref().is_ok_and(|shown| *shown >= Bytes(needed)) || read.is_err(), "{shown}");
            prop_assert!(needed > available || read.is_ok_and(|shown| shown <= Bytes(available)), "{shown}");
        }

        #[test]
        fn ceiling_of_inverts_utilization(part in 1u64..1 << 40, whole in 1u64..1 << 44) {
            let used = Utilization::of(u128::from(part), u128::from(whole));
            // For a very small part even this share is too coarse for the last byte.
            let is_exact = u128::from(whole) * u128::from(whole) / u128::from(part) < Utilization::ALL.0 / 2;
            prop_assert!(!is_exact || used.ceiling_of(part) == whole, "{}", used.ceiling_of(part));
            prop_assert!(used.ceiling_of(part) <= whole + 1);
        }
    }
}
