//! A workload: capacity, peak load, clients, and latency target.

use super::Machine;
use super::constraint::{Bound, Load, size};
use crate::source::OWN;
use crate::{Bytes, BytesPerSecond, Iops, Pattern, Protocol, Refusal, Source};
use serde::{Deserialize, Serialize};

/// A workload of one volume, or several together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// Current data.
    pub capacity: Bytes,
    /// Expected growth of a year, in percent of the capacity.
    pub growth_percent: u32,
    /// Years of growth that the capacity must last.
    pub years: u32,
    /// Percentage added to the data with their growth: room for snapshots, and for files that nobody planned.
    pub capacity_headroom_percent: u32,
    /// The load at its peak: all streams at the same time.
    pub streams: Vec<Stream>,
    /// The average load in percent of the peak; 100 if unknown.
    pub average_percent: u32,
    /// Percentage added to the peak before it is compared with a ceiling.
    pub headroom_percent: u32,
    /// Whether reads repeat the same places, so that cached figures apply.
    pub cached: bool,
    /// The data in use at a time.
    pub working_set: Option<Bytes>,
    /// Number of clients. Without it, limits of clients are not assessed.
    pub clients: Option<u32>,
    /// Connections of each client (`nconnect`); `None` for the service's recommendation.
    pub connections: Option<u32>,
    /// The clients' machine type.
    pub machine: Option<&'static Machine>,
    /// Maximum send rate of each client, which bounds writes; `None` for that of its machine.
    pub egress: Option<BytesPerSecond>,
    /// Maximum receive rate of each client, which bounds reads; `None` for that of its machine.
    pub ingress: Option<BytesPerSecond>,
    /// Maximum mean latency of an operation, in microseconds.
    pub latency_us: Option<u64>,
    pub protocol: Protocol,
    /// Maximum number of volumes to spread over; 1 if everything must be in one.
    pub volumes_max: u32,
    /// Maximum capacity to buy.
    pub capacity_max: Option<Bytes>,
}

/// Operations of one kind, at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stream {
    pub access: Access,
    /// Mean size of an operation.
    pub block: Bytes,
    /// Thousandths of the operations that are reads.
    pub read_thousandths: u32,
    /// The data rate. Operations are this over the block size, so whole numbers of both fit.
    pub rate: BytesPerSecond,
}

/// The order of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Each after the previous one in its file.
    Sequential,
    /// In any order.
    Random,
    /// The mix of an EDA design flow: more than half of it asks for attributes.
    Eda,
    /// No data: creating, removing, renaming, asking for attributes.
    Metadata,
}

/// The reason for a headroom of 20 % over the data.
pub const CAPACITY_HEADROOM_WHY: &str =
    "volumes that change by 1 to 2 % a day need about 20 % more for the usual snapshots";
/// The page of that figure. It is about NetApp Volumes; for other services it is an assumption.
pub const CAPACITY_HEADROOM_SOURCE: Source = crate::source::S6;

/// The greatest number of years: growth that far ahead is unknown.
const YEARS_MAX: u32 = 20;

/// Data per operation of the EDA mix: 7,263 KiB in 450 operations.
pub const EDA_BYTES: Bytes = Bytes((7_263 << 10) / 450);
/// Nominal data of an operation without data: rates are data over blocks.
const METADATA_BYTES: Bytes = Bytes(1);
/// Thousandths of the EDA mix's data that are read.
pub const EDA_READ_THOUSANDTHS: u32 = 525;

impl Stream {
    pub fn from_iops(access: Access, block: Bytes, read_thousandths: u32, iops: Iops) -> Self {
        let rate = BytesPerSecond(iops.0.saturating_mul(block.0));
        Self { access, block, read_thousandths, rate }
    }

    pub fn eda(iops: Iops) -> Self {
        Self::from_iops(Access::Eda, EDA_BYTES, EDA_READ_THOUSANDTHS, iops)
    }

    pub fn metadata(iops: Iops) -> Self {
        Self::from_iops(Access::Metadata, METADATA_BYTES, 0, iops)
    }

    pub fn total(streams: &[Self]) -> (BytesPerSecond, Iops) {
        let load = Load { streams };
        (load.rate(), load.iops())
    }

    pub(super) fn operations(&self) -> String {
        match self.access {
            Access::Eda => "operations of the EDA mix".to_owned(),
            Access::Metadata => "metadata operations".to_owned(),
            access => format!("{} operations of {}", access.name(), size(self.block)),
        }
    }

    pub fn iops(&self) -> Iops {
        Iops(self.rate.0.div_ceil(self.block.0.max(1)))
    }

    /// The data rate if each operation had another block size, rounded up.
    pub(super) fn rate_of_blocks(&self, block: Bytes) -> BytesPerSecond {
        let exact = u128::from(self.rate.0) * u128::from(block.0);
        BytesPerSecond(u64::try_from(exact.div_ceil(u128::from(self.block.0.max(1)))).unwrap_or(u64::MAX))
    }

    pub fn reads(&self) -> BytesPerSecond {
        BytesPerSecond(thousandths_of(self.rate.0, self.read_thousandths))
    }

    pub fn writes(&self) -> BytesPerSecond {
        BytesPerSecond(thousandths_of(self.rate.0, 1000 - self.read_thousandths.min(1000)))
    }

    fn plus_percent(self, percent: u32) -> Self {
        Self { rate: BytesPerSecond(plus_percent(self.rate.0, percent)), ..self }
    }
}

/// Rounded up.
fn plus_percent(value: u64, percent: u32) -> u64 {
    let more = u128::from(value) * u128::from(percent);
    value.saturating_add(u64::try_from(more.div_ceil(100)).unwrap_or(u64::MAX))
}

fn thousandths_of(value: u64, thousandths: u32) -> u64 {
    let exact = u128::from(value) * u128::from(thousandths);
    u64::try_from(exact.div_ceil(1000)).unwrap_or(u64::MAX)
}

impl From<Pattern> for Access {
    fn from(pattern: Pattern) -> Self {
        match pattern {
            Pattern::Sequential => Self::Sequential,
            Pattern::Random => Self::Random,
        }
    }
}

impl Access {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
            Self::Eda => "EDA mix",
            Self::Metadata => "metadata",
        }
    }

    /// Whether blocks and share of reads are fixed: ceilings of other mixes do not apply.
    pub fn is_fixed_mix(self) -> bool {
        matches!(self, Self::Eda | Self::Metadata)
    }
}

impl Workload {
    /// A workload without a load: any number of clients over NFSv3, a headroom of 30 % over the peak and none over the
    /// data, and up to six volumes.
    pub fn new(capacity: Bytes) -> Self {
        Self {
            capacity,
            growth_percent: 0,
            years: 1,
            capacity_headroom_percent: 0,
            streams: Vec::new(),
            average_percent: 100,
            headroom_percent: 30,
            cached: false,
            working_set: None,
            clients: None,
            connections: None,
            machine: None,
            egress: None,
            ingress: None,
            latency_us: None,
            protocol: Protocol::NfsV3,
            volumes_max: 6,
            capacity_max: None,
        }
    }

    pub(super) fn send_limit(&self) -> Option<(BytesPerSecond, Source)> {
        self.of_network(self.egress, |machine| machine.egress)
    }

    pub(super) fn receive_limit(&self) -> Option<(BytesPerSecond, Source)> {
        self.of_network(self.ingress, |machine| machine.ingress)
    }

    fn of_network(
        &self,
        asked: Option<BytesPerSecond>,
        of: fn(&Machine) -> Option<BytesPerSecond>,
    ) -> Option<(BytesPerSecond, Source)> {
        let of_machine = || self.machine.and_then(|machine| Some((of(machine)?, machine.source)));
        asked.map(|rate| (rate, OWN)).or_else(of_machine)
    }

    /// The data with their growth, rounded up.
    pub fn planned(&self) -> Bytes {
        let grown = |data, _| plus_percent(data, self.growth_percent);
        Bytes((0..self.years).fold(self.capacity.0, grown))
    }

    /// The capacity that the volumes must have: the data with growth and headroom. The headroom is rounded down, so that
    /// 4 TiB and 20 % are 4.8 TiB and not a byte more.
    pub fn needed_capacity(&self) -> Bytes {
        let (data, percent) = (self.planned().0, u128::from(self.capacity_headroom_percent));
        let headroom = u64::try_from(u128::from(data) * percent / 100).unwrap_or(u64::MAX);
        Bytes(data.saturating_add(headroom))
    }

    /// The need now, without growth.
    pub(super) fn now(&self) -> Self {
        Self { growth_percent: 0, years: 1, ..self.clone() }
    }

    /// The need a year later, without further growth.
    pub(super) fn after_a_year(&self, growth_percent: u32) -> Self {
        let later = Self { growth_percent, years: 1, ..self.clone() };
        Self { capacity: later.planned(), growth_percent: 0, ..later }
    }

    /// The headroom that the use of this bound includes, like ` with 30 % headroom`; empty without any.
    pub fn headroom_in_words(&self, kind: Bound) -> String {
        let percent = match kind {
            Bound::Capacity => self.capacity_headroom_percent,
            kind if kind.is_of_load() => self.headroom_percent,
            _ => 0,
        };
        if percent == 0 { String::new() } else { format!(" with {percent} % headroom") }
    }

    pub fn needed(&self) -> Vec<Stream> {
        self.streams.iter().map(|stream| stream.plus_percent(self.headroom_percent)).collect()
    }

    pub fn read_thousandths(&self) -> u32 {
        Load { streams: &self.streams }.read_thousandths()
    }

    pub(super) fn is_all(&self, access: Access) -> bool {
        !self.streams.is_empty() && self.streams.iter().all(|stream| stream.access == access)
    }

    /// This load with `read_thousandths` in each stream, or unchanged if that is its mix already. `None` if a
    /// part has a fixed mix.
    pub(super) fn with_mix(&self, read_thousandths: u32) -> Option<Self> {
        let mut mixed = self.clone();
        if read_thousandths != self.read_thousandths() {
            for stream in &mut mixed.streams {
                (!stream.access.is_fixed_mix()).then_some(())?;
                stream.read_thousandths = read_thousandths;
            }
        }
        Some(mixed)
    }

    pub fn check(&self) -> Result<(), Refusal> {
        let refuse = |what: String, allowed: &str| Err(Refusal::new(what, allowed, OWN));
        if self.capacity.0 == 0 {
            return refuse("a workload without a capacity".to_owned(), "1 B or more");
        }
        for stream in &self.streams {
            if stream.block.0 == 0 || stream.rate.0 == 0 {
                let what = format!("a load of {} in blocks of {}", stream.rate, stream.block);
                return refuse(what, "a rate and a block of 1 B or more");
            }
            if stream.read_thousandths > 1000 {
                let what = format!("{} thousandths of reads", stream.read_thousandths);
                return refuse(what, "0 to 1000");
            }
        }
        if !(1..=100).contains(&self.average_percent) {
            return refuse(format!("an average of {} % of the peak", self.average_percent), "1 to 100");
        }
        if !(1..=YEARS_MAX).contains(&self.years) {
            return refuse(format!("{} years", self.years), &format!("1 to {YEARS_MAX}"));
        }
        for (what, percent) in [
            ("headroom", self.headroom_percent),
            ("capacity headroom", self.capacity_headroom_percent),
            ("growth", self.growth_percent),
        ] {
            if percent > 10_000 {
                return refuse(format!("a {what} of {percent} %"), "0 to 10000");
            }
        }
        if !(1..=100).contains(&self.volumes_max) {
            return refuse(format!("a workload in {} volumes", self.volumes_max), "1 to 100");
        }
        let none = [self.clients, self.connections].contains(&Some(0));
        if none
            || self.latency_us == Some(0)
            || [self.egress, self.ingress].contains(&Some(BytesPerSecond(0)))
        {
            let what = "no client, no connection, no bandwidth or no time for an operation";
            return refuse(what.to_owned(), "1 or more, or to leave it out");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_has_the_growth_of_all_years_and_then_the_headroom() {
        let workload = Workload {
            growth_percent: 10,
            years: 2,
            capacity_headroom_percent: 20,
            ..Workload::new(Bytes(1_000))
        };
        assert_eq!((workload.planned(), workload.needed_capacity()), (Bytes(1_210), Bytes(1_452)));
        assert_eq!(workload.now().needed_capacity(), Bytes(1_200));
        assert_eq!(workload.headroom_in_words(Bound::Capacity), " with 20 % headroom");
        assert_eq!(workload.headroom_in_words(Bound::Smallest), "");
        let too_much = Workload { capacity_headroom_percent: 10_001, ..workload };
        assert!(too_much.check().unwrap_err().to_string().contains("capacity headroom"));
    }
}
