//! The demand of one user, stream, machine, GPU or job.
//!
//! No page gives these figures, except for jobs. Each is an assumption of Plimsoll with its reason, and flags override it.

use super::{Access, Stream, WorkloadKind};
use crate::{Bytes, BytesPerSecond, Iops};

/// The demand of one unit of a kind of workload.
#[derive(Debug, PartialEq, Eq)]
pub struct Demand {
    /// The counted unit in the singular, as in `user`; the flag is its plural.
    pub unit: &'static str,
    pub capacity: Bytes,
    /// The rate of a unit while it is active.
    pub rate: DemandRate,
    /// Units that are active at the peak, in percent of all.
    pub active_percent: u32,
    /// The reason for the figures.
    pub why: &'static str,
}

/// A rate in the unit that people know it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandRate {
    Operations(Iops),
    Data(BytesPerSecond),
}

pub(super) const USER: Demand = Demand {
    unit: "user",
    capacity: Bytes::gib(10),
    rate: DemandRate::Operations(Iops(4)),
    active_percent: 25,
    why: "office work opens and saves small files in bursts, and most users read or pause",
};

pub(super) const STREAM: Demand = Demand {
    unit: "stream",
    capacity: Bytes::tib(3),
    rate: DemandRate::Data(BytesPerSecond(700_000_000 / 8)),
    active_percent: 100,
    why: "a stream is 700 Mbit/s, about ProRes 422 HQ in UHD at 24 frames a second; 3 TiB are 10 hours of it",
};

pub(super) const MACHINE: Demand = Demand {
    unit: "machine",
    capacity: Bytes::gib(60),
    rate: DemandRate::Operations(Iops(50)),
    active_percent: 50,
    why: "a general server has a small disk, and half of the servers work at the same time",
};

pub(super) const GPU: Demand = Demand {
    unit: "GPU",
    capacity: Bytes::tib(2),
    rate: DemandRate::Data(BytesPerSecond::mib(500)),
    active_percent: 100,
    why: "training on images reads all the time; training on text reads less",
};

/// Operations and files of a job set of SPECstorage's EDA mix, as `plimsoll bench run eda-blend` runs it.
pub(super) const JOB: Demand = Demand {
    unit: "job",
    capacity: Bytes((1_105 << 30) / 100),
    rate: DemandRate::Operations(Iops(450)),
    active_percent: 100,
    why: "a job is a job set of SPECstorage's EDA mix, five processes on a machine; your flow may do more or less",
};

impl Demand {
    /// The capacity of `count` units.
    pub fn capacity_of(&self, count: u32) -> Bytes {
        Bytes(self.capacity.0.saturating_mul(u64::from(count)))
    }

    /// The peak of `count` units, rounded up.
    pub fn peak_of(&self, count: u32) -> DemandRate {
        let active = u64::from(count) * u64::from(self.active_percent);
        let peak = |each: u64| each.saturating_mul(active).div_ceil(100);
        match self.rate {
            DemandRate::Operations(each) => DemandRate::Operations(Iops(peak(each.0))),
            DemandRate::Data(each) => DemandRate::Data(BytesPerSecond(peak(each.0))),
        }
    }
}

impl DemandRate {
    /// The rate as operations of this kind.
    pub fn stream(self, access: Access, block: Bytes, read_thousandths: u32) -> Stream {
        match self {
            Self::Operations(iops) => Stream::from_iops(access, block, read_thousandths, iops),
            Self::Data(rate) => Stream { access, block, read_thousandths, rate },
        }
    }
}

impl WorkloadKind {
    /// The first kind with a demand of this unit.
    pub fn of_unit(unit: &str) -> Option<&'static Self> {
        let has_unit = |one: &&Self| one.demand.is_some_and(|demand| demand.unit == unit);
        Self::all().iter().find(has_unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_counts_active_units_and_rounds_up() {
        assert_eq!(USER.capacity_of(500), Bytes::gib(5_000));
        assert_eq!(USER.peak_of(500), DemandRate::Operations(Iops(500)));
        assert_eq!(USER.peak_of(1), DemandRate::Operations(Iops(1)));
        assert_eq!(MACHINE.peak_of(3), DemandRate::Operations(Iops(75)));
        assert_eq!(STREAM.peak_of(40), DemandRate::Data(BytesPerSecond(3_500_000_000)));
        assert_eq!(JOB.peak_of(100), DemandRate::Operations(Iops(45_000)));
        assert_eq!(GPU.peak_of(16), DemandRate::Data(BytesPerSecond::mib(8_000)));
    }

    #[test]
    fn every_demand_has_a_unit_a_reason_and_a_possible_share() {
        for kind in WorkloadKind::all() {
            let Some(demand) = kind.demand else { continue };
            assert!((1..=100).contains(&demand.active_percent) && !demand.why.is_empty(), "{}", kind.name);
            assert!(WorkloadKind::of_unit(demand.unit).is_some_and(|first| first.demand == kind.demand));
        }
        let first = |unit| WorkloadKind::of_unit(unit).map(|kind| kind.name);
        assert_eq!(
            [first("user"), first("stream"), first("machine"), first("GPU"), first("job"), first("cow")],
            [Some("file-share"), Some("media-rendering"), Some("vm"), Some("ai-ml"), Some("eda"), None]
        );
    }
}
