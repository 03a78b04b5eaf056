//! The load that the plain flags describe.

use envelope::{Access, Bytes, Demand, DemandRate, Stream, WorkloadKind, mib, size};

use super::flags::LoadFlags;
use crate::exit::usage;

const RANDOM_BLOCK: Bytes = Bytes(8 << 10);
/// The default block of sequential operations, and the least block that counts as sequential.
const SEQUENTIAL_BLOCK: Bytes = Bytes(64 << 10);

/// A note about the mix that a kind of workload assumes.
pub(super) fn assumed(kind: &WorkloadKind) -> String {
    let WorkloadKind { name, about, source, .. } = kind;
    let mix = match kind.access {
        Access::Eda => "its mix is fixed".to_owned(),
        access => format!(
            "{} operations of {}, {} % reads are assumed; --pattern, --block and --read override that",
            access.name(),
            size(kind.block),
            kind.read_thousandths / 10
        ),
    };
    format!("like {name}: {mix}; {about} [{source}]")
}

/// Users, streams, machines, GPUs or jobs, with the demand of each.
pub(super) struct Counted {
    count: u32,
    demand: &'static Demand,
    /// Whether the rate alone can be chosen.
    is_fixed_mix: bool,
}

impl Counted {
    pub(super) fn capacity(&self) -> Bytes {
        self.demand.capacity_of(self.count)
    }

    /// A note about the demand that is assumed.
    pub(super) fn assumed(&self) -> String {
        let Demand { unit, capacity, rate, active_percent, why } = self.demand;
        let others =
            if self.is_fixed_mix { "--capacity and --iops" } else { "--capacity, --iops and --throughput" };
        let shown = |rate: DemandRate| match rate {
            DemandRate::Operations(iops) => format!("{iops:#}"),
            DemandRate::Data(rate) => mib(rate),
        };
        let plural = if self.count == 1 { "" } else { "s" };
        format!(
            "{} {unit}{plural}: {} and {} each, {active_percent} % active at the peak: {} and {}; an assumption of \
             Plimsoll: {why}; {others} override it",
            envelope::grouped(self.count.into()),
            size(*capacity),
            shown(*rate),
            size(self.capacity()),
            shown(self.demand.peak_of(self.count)),
        )
    }
}

impl LoadFlags {
    /// The kind of workload, as named or by the counted unit.
    pub(super) fn kind(&self) -> Option<&'static WorkloadKind> {
        self.like.or_else(|| WorkloadKind::of_unit(self.count()?.0))
    }

    /// The counted unit and its number.
    fn count(&self) -> Option<(&'static str, u32)> {
        let counts = [
            ("user", self.users),
            ("stream", self.streams),
            ("machine", self.machines),
            ("GPU", self.gpus),
            ("job", self.jobs),
        ];
        counts.into_iter().find_map(|(unit, count)| Some((unit, count?)))
    }

    /// The counted units; an error if the kind of workload does not have this unit.
    pub(super) fn counted(&self) -> anyhow::Result<Option<Counted>> {
        let (Some((unit, count)), Some(kind)) = (self.count(), self.kind()) else { return Ok(None) };
        match kind.demand {
            Some(demand) if demand.unit == unit => {
                Ok(Some(Counted { count, demand, is_fixed_mix: kind.access.is_fixed_mix() }))
            }
            demand => {
                let counted = demand.map_or_else(String::new, |demand| format!("{}, ", flag(demand)));
                let rates = if kind.access.is_fixed_mix() { "--iops" } else { "--iops, --throughput" };
                Err(usage(format!("--like {} has no {unit}s; allowed: {counted}{rates}", kind.name)))
            }
        }
    }

    /// The load that the plain flags describe; `None` without one.
    pub(super) fn stream(&self) -> anyhow::Result<Option<Stream>> {
        let counted = self.counted()?;
        if self.kind().is_some_and(|kind| kind.access == Access::Eda) {
            return self.eda_stream(counted.as_ref()).map(Some);
        }
        let read_thousandths = self.read.or(self.kind().map(|kind| kind.read_thousandths)).unwrap_or(1000);
        if self.iops.is_none() && self.throughput.is_none() {
            let Some(Counted { count, demand, .. }) = counted else { return self.without_rate() };
            let block = self.block.or(self.kind().map(|kind| kind.block)).unwrap_or(RANDOM_BLOCK);
            let peak = demand.peak_of(count);
            return Ok(Some(peak.stream(self.access(block), block, read_thousandths)));
        }
        if let (Some(iops), Some(rate)) = (self.iops, self.throughput) {
            let block = Bytes(rate.0 / iops.0);
            if self.block.is_some_and(|given| given != block) {
                return Err(usage(format!(
                    "--iops {} and --throughput {rate} are operations of {block}, not of --block {}: leave one out, or give \
                     two loads with --load",
                    iops.0,
                    self.block.unwrap_or(block)
                )));
            }
            let access = self.access(block);
            return Ok(Some(Stream { access, block, read_thousandths, rate }));
        }
        // A rate in operations suggests small random ones, a rate in bytes suggests streams.
        let sequential = self.pattern.map_or(self.iops.is_none(), |pattern| pattern == Access::Sequential);
        let usual = if sequential { SEQUENTIAL_BLOCK } else { RANDOM_BLOCK };
        let block = self.block.or(self.kind().map(|kind| kind.block)).unwrap_or(usual);
        let access = self.access(block);
        Ok(Some(match (self.iops, self.throughput) {
            (Some(iops), _) => Stream::from_iops(access, block, read_thousandths, iops),
            (None, rate) => Stream { access, block, read_thousandths, rate: rate.unwrap_or_default() },
        }))
    }

    /// No load, or an error if only its mix is known.
    fn without_rate(&self) -> anyhow::Result<Option<Stream>> {
        if let Some(kind) = self.like {
            let counted = kind.demand.map_or(String::new(), |demand| format!("{} N, or ", flag(demand)));
            return Err(usage(format!(
                "--like sets the mix and not the amount: give {counted}the rate with --iops or --throughput"
            )));
        }
        if self.block.is_some() || self.read.is_some() {
            return Err(usage(
                "the rate of the load is missing: give --iops or --throughput, like --iops 20k",
            ));
        }
        Ok(None)
    }

    /// The load of an EDA design flow. Its mix is fixed, only the rate can be chosen.
    fn eda_stream(&self, counted: Option<&Counted>) -> anyhow::Result<Stream> {
        let fixed = self.block.is_some() || self.read.is_some() || self.pattern.is_some();
        if fixed || self.throughput.is_some() {
            return Err(usage(
                "the mix of an EDA load is fixed; allowed with --like eda: --jobs or --iops alone",
            ));
        }
        let of_jobs = counted.and_then(|counted| match counted.demand.peak_of(counted.count) {
            DemandRate::Operations(iops) => Some(iops),
            DemandRate::Data(_) => None,
        });
        let Some(iops) = self.iops.or(of_jobs) else {
            return Err(usage("the rate of the load is missing: give --jobs N, or --iops, like --iops 30k"));
        };
        Ok(Stream::eda(iops))
    }

    fn access(&self, block: Bytes) -> Access {
        let guess = if block < SEQUENTIAL_BLOCK { Access::Random } else { Access::Sequential };
        self.pattern.or(self.kind().map(|kind| kind.access)).unwrap_or(guess)
    }
}

/// The flag that counts the units of a demand.
fn flag(demand: &Demand) -> String {
    format!("--{}s", demand.unit.to_lowercase())
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;

    #[test]
    fn help_of_counted_units_has_the_share_that_is_active() {
        let command = LoadFlags::augment_args(Command::new("size"));
        for demand in WorkloadKind::all().iter().filter_map(|kind| kind.demand) {
            let is_own = |arg: &&clap::Arg| arg.get_long() == flag(demand).strip_prefix("--");
            let help = command.get_arguments().find(is_own).unwrap().get_help().unwrap().to_string();
            let share = format!("{} % active", demand.active_percent);
            assert_eq!(help.contains(&share), demand.active_percent < 100, "{}: {help}", demand.unit);
        }
    }
}
