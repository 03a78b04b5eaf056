//! Assesses every bound of pools and volumes, and the share of it that the load uses.

mod envelope;

use super::constraint::{
    Bound, Constraint, Load, Utilization, mib, mib_within, multiple, size, size_needed_of, size_to_buy,
    size_within,
};
use super::envelopes::needed;
use super::layout::Candidate;
use super::mount::Mount;
use super::{Catalog, Evidence, LatencyCheck, Stream, Workload};
use crate::limits::OPERATIONS;
use crate::source::{A1, OWN, PAGE_000, SLOTS};
use crate::{
    Bands, Bytes, BytesPerSecond, Ceilings, Limits, Owner, Protocol, Provider, Qos, Refusal, Source, anf,
    grouped,
};

pub(super) struct Assessment {
    pub(super) constraints: Vec<Constraint>,
    pub(super) evidence: Evidence,
    pub(super) latency: Option<LatencyCheck>,
    pub(super) caveats: Vec<String>,
    pub(super) mount: Mount,
    pub(super) measured_on: Option<(u32, &'static str, Source)>,
}

struct Assessor<'a> {
    candidate: &'a Candidate,
    workload: &'a Workload,
    catalog: &'a Catalog,
    needed: &'a [Stream],
    assessment: Assessment,
}

/// Calls that a server of ANF or GCNV accepts at a time from an NFSv3 connection.
const CALLS_PER_CONNECTION: u64 = 128;
/// The shortest published mean latency: the row eda-anf-1760.
const SHORTEST_US: u64 = 480;
/// Slots that Linux requests for an NFSv4.1 session, for any number of connections.
const SLOTS_PER_SESSION: u64 = 64;

/// Assesses every bound of `candidate`; an error if the level has no such pools and volumes.
pub(super) fn assess(
    candidate: &Candidate,
    workload: &Workload,
    catalog: &Catalog,
) -> Result<Assessment, Refusal> {
    let needed = needed(workload, candidate.pool.level, candidate.volume.settings.large);
    let assessment = Assessment {
        constraints: Vec::new(),
        evidence: if needed.is_empty() { Evidence::Limits } else { Evidence::Published },
        latency: (needed.is_empty() && workload.latency_us.is_some()).then_some(LatencyCheck::Unchecked),
        caveats: Vec::new(),
        mount: Mount::of(&candidate.pool, candidate.volume.settings.large, workload),
        measured_on: None,
    };
    let mut case = Assessor { candidate, workload, catalog, needed: &needed, assessment };
    case.capacity();
    if !needed.is_empty() {
        case.documented()?;
        case.envelope();
        case.client_envelope();
        case.network();
        case.slots();
    }
    case.quotas();
    Ok(case.assessment)
}

impl Assessor<'_> {
    fn add(&mut self, kind: Bound, used: Utilization, formula: String, source: impl ToString) {
        let source = source.to_string();
        self.assessment.constraints.push(Constraint { kind, formula, used, band: None, source });
    }

    fn load(&self) -> Load<'_> {
        Load { streams: self.needed }
    }

    fn capacity(&mut self) {
        let (candidate, needed) = (self.candidate, self.workload.needed_capacity());
        let volumes = candidate.volumes();
        let room = u128::from(candidate.volume.size.0) * u128::from(volumes);
        let each = multiple(u64::from(volumes), size_to_buy(candidate.volume.size));
        let formula = format!("{} needed of {each}", size_needed_of(needed, candidate.volume.size));
        self.add(Bound::Capacity, Utilization::of(u128::from(needed.0), room), formula, OWN);
        self.smallest();
        if let Some(max) = self.workload.capacity_max {
            let capacity = candidate.capacity();
            let used = Utilization::of(u128::from(capacity.0), u128::from(max.0));
            self.add(
                Bound::Allowance,
                used,
                format!("{} of {}", size_to_buy(capacity), size_within(max)),
                OWN,
            );
        }
    }

    fn smallest(&mut self) {
        let (pool, volume) = (&self.candidate.pool, &self.candidate.volume);
        let of = |bands: Option<Bands>, what: &str, is: Bytes| {
            let bands = bands?;
            let min = bands.ranges.iter().map(|range| range.min).min()?;
            let used = Utilization::of(u128::from(min.0), u128::from(is.0));
            Some((
                used,
                format!("the smallest {what} has {}, this one {}", size(min), size_to_buy(is)),
                bands.source,
            ))
        };
        let both = [of(pool.sizes(), "pool", pool.size), of(volume.sizes(pool.level), "volume", volume.size)];
        if let Some((used, formula, source)) = both.into_iter().flatten().max_by_key(|(used, ..)| *used) {
            self.add(Bound::Smallest, used, formula, source);
        }
    }

    fn documented(&mut self) -> Result<(), Refusal> {
        let candidate = self.candidate;
        let (pools, volumes) = (u64::from(candidate.pools), u64::from(candidate.volumes()));
        let of_volume = candidate.pool.volume_limits(&candidate.volume)?;
        if candidate.pool.level.info().provider == Provider::Plimsoll {
            self.settings(&of_volume.total, &Ceilings::default(), &of_volume, volumes);
            return Ok(());
        }
        let as_set = candidate.pool.limits()?;
        let mut of_pool = candidate.pool.with_max_settings().limits()?;
        let cap = candidate.pool.volume_ceiling(&candidate.volume);
        if let Some((cap, source)) = cap {
            let total = Ceilings { combined: Some(cap), ..of_volume.total };
            self.ceilings(Bound::VolumeCap, &total, &of_volume, volumes, source);
        }
        let source = |limits: &Limits| limits.origin.first().map_or(OWN, |origin| origin.source);
        if of_pool.owner == Owner::Pool {
            self.ceilings(Bound::Level, &of_pool.total, &of_pool, pools, source(&of_pool));
            self.settings(&as_set.total, &of_pool.total, &as_set, pools);
        } else if candidate.pool.qos() == Qos::Manual {
            // Equal parts of whole bytes.
            let parts = u64::from(candidate.per_pool);
            of_pool.total.combined = of_pool.total.combined.map(|all| BytesPerSecond(all.0 / parts * parts));
            self.ceilings(Bound::Pool, &of_pool.total, &of_pool, pools, source(&of_pool));
            let max = Ceilings { combined: cap.map(|(cap, _)| cap), ..of_volume.total };
            self.settings(&of_volume.total, &max, &of_volume, volumes);
        } else if candidate.pool.level.info().is_instance {
            self.ceilings(Bound::Level, &of_pool.total, &of_pool, pools, source(&of_pool));
            self.settings(&as_set.total, &of_pool.total, &as_set, pools);
            self.clients(&as_set, pools);
        } else {
            let capped = cap.is_some_and(|(cap, _)| of_volume.total.combined == Some(cap));
            let combined = of_volume.total.combined.filter(|_| !capped);
            let total = Ceilings { combined, ..Ceilings::default() };
            self.ceilings(Bound::Level, &total, &of_volume, volumes, source(&of_volume));
        }
        Ok(())
    }

    fn settings(&mut self, set: &Ceilings, max: &Ceilings, limits: &Limits, times: u64) {
        let source = limits.origin.first().map_or(OWN, |origin| origin.source);
        let below = set.less_than(max);
        for ceiling_use in self.load().ceiling_uses(&below, limits.write_cost_thousandths, times) {
            self.add(Bound::Setting, ceiling_use.used, format!("{} as set", ceiling_use.formula), source);
        }
    }

    fn ceilings(&mut self, kind: Bound, ceilings: &Ceilings, limits: &Limits, times: u64, source: Source) {
        let operations = limits.origin.iter().find(|origin| origin.what == OPERATIONS);
        for ceiling_use in self.load().ceiling_uses(ceilings, limits.write_cost_thousandths, times) {
            let of_operations = operations.filter(|_| ceiling_use.of_operations);
            let source = of_operations.map_or(source, |origin| origin.source);
            self.add(kind, ceiling_use.used, ceiling_use.formula, source);
        }
    }

    fn clients(&mut self, limits: &Limits, instances: u64) {
        let Some(clients) = self.workload.clients else { return };
        let source = limits.origin.last().map_or(OWN, |origin| origin.source);
        if limits.per_client != Ceilings::default() {
            self.ceilings(Bound::Clients, &limits.per_client, limits, u64::from(clients), source);
        }
        if let Some(max) = limits.clients_max {
            let used = Utilization::of(u128::from(clients), u128::from(max));
            // Each client may connect to every instance.
            let [clients, max] = [clients, max].map(|count| grouped(count.into()));
            let formula = format!("{clients} clients of {max}, each on {}", instances_text(instances));
            self.add(Bound::ClientCount, used, formula, source);
        }
    }

    /// Reads are received, writes are sent.
    fn network(&mut self) {
        let Some(clients) = self.workload.clients else { return };
        let ways = [
            ("read", self.load().reads(), self.workload.receive_limit()),
            ("written", self.load().writes(), self.workload.send_limit()),
        ];
        for (way, rate, limit) in ways {
            let Some((limit, source)) = limit else { continue };
            let used = Utilization::of(u128::from(rate.0), u128::from(limit.0) * u128::from(clients));
            let formula =
                format!("{} {way} of {}", mib(rate), multiple(u64::from(clients), mib_within(limit)));
            self.add(Bound::Nic, used, formula, source);
        }
    }

    /// Applies Little's law: calls in flight are calls per second times latency. The real latency is unknown,
    /// and the target may be too long, so the bound uses the shortest published latency. The target only
    /// causes a caveat.
    fn slots(&mut self) {
        let Some(clients) = self.workload.clients else { return };
        let provider = self.candidate.pool.level.info().provider;
        let (each, what) = match (provider, self.workload.protocol) {
            (Provider::Filestore | Provider::Plimsoll, _) | (_, Protocol::Smb) => return,
            // Without sessions, each connection has its own calls.
            (_, Protocol::NfsV3 | Protocol::NfsV40) => {
                let connections = u64::from(self.assessment.mount.connections);
                (CALLS_PER_CONNECTION * connections, format!("{connections} × {CALLS_PER_CONNECTION}"))
            }
            (_, Protocol::NfsV41 | Protocol::NfsV42) => (SLOTS_PER_SESSION, SLOTS_PER_SESSION.to_string()),
        };
        let slots = u128::from(each) * u128::from(clients);
        let (used, calls) = self.in_flight(SHORTEST_US, slots);
        let calls = grouped_u128(calls);
        let formula = format!("{calls} calls in flight at {SHORTEST_US} µs of {clients} × {what}");
        self.add(Bound::Slots, used, formula, SLOTS);
        let Some(target_us) = self.workload.latency_us else { return };
        let (at_target, calls) = self.in_flight(target_us, slots);
        if !at_target.fits() {
            let max = at_target.ceiling_of(target_us);
            let [target, calls, max] = [target_us.into(), calls, max.into()].map(grouped_u128);
            self.caveat(&format!(
                "At {target} µs an operation there are {calls} calls in flight, and the clients have {clients} × {what}: \
                 operations may take {max} µs at most, or there must be more connections or clients."
            ));
        }
    }

    fn in_flight(&self, latency_us: u64, slots: u128) -> (Utilization, u128) {
        let transfer = self.assessment.mount.transfer.0;
        self.needed.iter().fold((Utilization::default(), 0), |(used, calls), stream| {
            let per_operation = u128::from(stream.block.0.div_ceil(transfer));
            let busy = u128::from(stream.rate.0) * per_operation * u128::from(latency_us);
            let second = u128::from(stream.block.0) * 1_000_000;
            (used.plus(Utilization::of(busy, second * slots)), calls + busy.div_ceil(second))
        })
    }

    /// Default quotas can be raised, so they become notes, not bounds.
    fn quotas(&mut self) {
        let pools = self.candidate.pools;
        match self.candidate.pool.level.info().provider {
            Provider::Anf => {
                let max = anf::REGION_CAPACITY;
                if self.candidate.capacity() > max {
                    let max = size(max);
                    self.caveat(&format!("A subscription has {max} per region unless its quota was raised [{A1}]."));
                }
                let max = anf::POOLS_PER_ACCOUNT;
                if pools > max {
                    self.caveat(&format!("An account has {max} pools unless its quota was raised [{A1}]."));
                }
            }
            // Even for one volume: the project may contain others.
            Provider::Gcnv if !self.needed.is_empty() => self.caveat(&format!(
                "Limits of the project may bind when several fast volumes are used in one project [{PAGE_000}]."
            )),
            Provider::Gcnv | Provider::Filestore | Provider::Plimsoll => {}
        }
    }
}

fn grouped_u128(count: u128) -> String {
    grouped(u64::try_from(count).unwrap_or(u64::MAX))
}

fn instances_text(times: u64) -> String {
    if times == 1 { "the instance".to_owned() } else { format!("all {times} instances") }
}
