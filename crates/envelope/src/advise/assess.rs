//! Every bound of pools and volumes, and how much of it the load takes.

use super::constraint::{Bound, Constraint, Load, Used, mib, size, times_of};
use super::curve::{Band, Curve, Found, ceiling, percent};
use super::envelopes::{Envelope, Scope};
use super::layout::Candidate;
use super::mount::Mount;
use super::{Access, Catalog, Evidence, Measured, Stream, Workload};
use crate::source::{OWN, SLOTS};
use crate::{
    Bands, Bytes, BytesPerSecond, Ceilings, Direction, Limits, Owner, Pattern, Protocol, Provider, Published,
    Qos, Refusal, Source,
};

/// What holds of one candidate.
pub(super) struct Assessment {
    pub(super) constraints: Vec<Constraint>,
    pub(super) evidence: Evidence,
    pub(super) caveats: Vec<String>,
    pub(super) mount: Mount,
    /// From how many clients of what kind the envelope was measured, and by whom.
    pub(super) measured_on: Option<(u32, &'static str, Source)>,
}

/// One candidate under one load.
struct Case<'a> {
    candidate: &'a Candidate,
    workload: &'a Workload,
    catalog: &'a Catalog,
    needed: &'a [Stream],
    found: Assessment,
}

/// Calls that a server of ANF or GCNV takes from an NFSv3 connection at a time.
const CALLS_PER_CONNECTION: u64 = 128;
/// Slots that Linux asks for of a session of NFSv4.1, whatever its connections.
const SLOTS_PER_SESSION: u64 = 64;

/// Every bound of `candidate`; refused where the level has no such pools and volumes.
pub(super) fn assess(
    candidate: &Candidate,
    workload: &Workload,
    catalog: &Catalog,
) -> Result<Assessment, Refusal> {
    let needed = workload.needed();
    let found = Assessment {
        constraints: Vec::new(),
        evidence: Evidence::Published,
        caveats: Vec::new(),
        mount: Mount::of(&candidate.pool, workload),
        measured_on: None,
    };
    let mut case = Case { candidate, workload, catalog, needed: &needed, found };
    case.room();
    if !needed.is_empty() {
        case.documented()?;
        case.envelope();
        case.client_envelope();
        case.network();
        case.slots();
    }
    Ok(case.found)
}

impl Case<'_> {
    fn add(&mut self, kind: Bound, used: Used, formula: String, source: impl ToString) {
        let source = source.to_string();
        self.found.constraints.push(Constraint { kind, formula, used, band: None, source });
    }

    fn load(&self) -> Load<'_> {
        Load { streams: self.needed }
    }

    /// Room for the data.
    fn room(&mut self) {
        let (candidate, planned) = (self.candidate, self.workload.planned());
        let volumes = candidate.volumes();
        let room = u128::from(candidate.volume.size.0) * u128::from(volumes);
        let each = times_of(u64::from(volumes), size(candidate.volume.size));
        let formula = format!("{} planned of {each}", size(planned));
        self.add(Bound::Capacity, Used::of(u128::from(planned.0), room), formula, OWN);
        self.smallest();
        if let Some(most) = self.workload.capacity_max {
            let capacity = candidate.capacity();
            let used = Used::of(u128::from(capacity.0), u128::from(most.0));
            self.add(Bound::Allowance, used, format!("{} of {}", size(capacity), size(most)), OWN);
        }
    }

    /// How near pool and volume are to the smallest of their kind.
    fn smallest(&mut self) {
        let (pool, volume) = (&self.candidate.pool, &self.candidate.volume);
        let of = |bands: Option<Bands>, what: &str, is: Bytes| {
            let bands = bands?;
            let least = bands.ranges.iter().map(|range| range.min).min()?;
            let used = Used::of(u128::from(least.0), u128::from(is.0));
            Some((used, format!("{} of {what} of {} are the least", size(least), size(is)), bands.source))
        };
        let both =
            [of(pool.sizes(), "a pool", pool.size), of(volume.sizes(pool.level), "a volume", volume.size)];
        if let Some((used, formula, source)) = both.into_iter().flatten().max_by_key(|(used, ..)| *used) {
            self.add(Bound::Smallest, used, formula, source);
        }
    }

    /// What the level, the volumes and the pools give.
    fn documented(&mut self) -> Result<(), Refusal> {
        let candidate = self.candidate;
        let (pools, volumes) = (u64::from(candidate.pools), u64::from(candidate.volumes()));
        let of_volume = candidate.pool.volume_limits(&candidate.volume)?;
        if candidate.pool.level.info().provider == Provider::Plimsoll {
            return Ok(());
        }
        let mut of_pool = candidate.pool.with_most().limits()?;
        let cap = candidate.pool.volume_ceiling(&candidate.volume);
        if let Some((cap, source)) = cap {
            self.ceilings(Bound::VolumeCap, &combined(cap), &of_volume, volumes, source);
        }
        let source = |limits: &Limits| limits.origin.first().map_or(OWN, |origin| origin.source);
        if of_pool.owner == Owner::Pool {
            self.ceilings(Bound::Level, &of_pool.total, &of_pool, pools, source(&of_pool));
        } else if candidate.pool.qos() == Qos::Manual {
            // Equal parts of whole bytes.
            let parts = u64::from(candidate.per_pool);
            of_pool.total.combined = of_pool.total.combined.map(|all| BytesPerSecond(all.0 / parts * parts));
            self.ceilings(Bound::Pool, &of_pool.total, &of_pool, pools, source(&of_pool));
        } else if candidate.pool.level.info().is_instance {
            self.ceilings(Bound::Level, &of_pool.total, &of_pool, pools, source(&of_pool));
            self.clients(&of_pool, pools);
        } else {
            let capped = cap.is_some_and(|(cap, _)| of_volume.total.combined == Some(cap));
            let combined = of_volume.total.combined.filter(|_| !capped);
            let total = Ceilings { combined, ..of_volume.total };
            self.ceilings(Bound::Level, &total, &of_volume, volumes, source(&of_volume));
        }
        Ok(())
    }

    fn ceilings(&mut self, kind: Bound, ceilings: &Ceilings, limits: &Limits, times: u64, source: Source) {
        for (used, formula) in self.load().of_ceilings(ceilings, limits.write_cost_thousandths, times) {
            self.add(kind, used, formula, source);
        }
    }

    /// What an instance gives each client, and how many it takes.
    fn clients(&mut self, limits: &Limits, instances: u64) {
        let Some(clients) = self.workload.clients else { return };
        let source = limits.origin.last().map_or(OWN, |origin| origin.source);
        if limits.per_client != Ceilings::default() {
            self.ceilings(Bound::Clients, &limits.per_client, limits, u64::from(clients), source);
        }
        if let Some(most) = limits.clients_max {
            let used = Used::of(u128::from(clients), u128::from(most));
            // Each client may be connected to every instance.
            let formula = format!("{clients} clients of {most}, each on {}", instances_of(instances));
            self.add(Bound::ClientCount, used, formula, source);
        }
    }

    /// What such volumes were measured to carry.
    fn envelope(&mut self) {
        let candidate = self.candidate;
        let own_pool = candidate.pool.level.info().owner == Owner::Pool;
        let times = u64::from(if own_pool { candidate.pools } else { candidate.volumes() });
        let mix = self.mix();
        let (mut used, mut band, mut formula, mut sources) = (Used(0), None, Vec::new(), Vec::new());
        for stream in self.needed {
            let Some((found, source)) = self.measured(stream, mix).or_else(|| self.published(stream, mix))
            else {
                self.found.evidence = Evidence::Limits;
                let what = format!("{} operations of {}", stream.access.name(), size(stream.block));
                self.found.caveats.push(format!(
                    "No curve covers {what} at {} reads on such volumes: for them only the documented limits were \
                     looked at.",
                    percent(mix)
                ));
                continue;
            };
            let whole = u128::from(found.rate.0) * u128::from(times);
            used = used.and(Used::of(u128::from(stream.rate.0), whole));
            band = wider(band, found.band);
            formula.push(format!(
                "{} of {} ({})",
                mib(stream.rate),
                times_of(times, mib(found.rate)),
                found.how
            ));
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        if !formula.is_empty() {
            let (formula, source) = (formula.join(" + "), sources.join("; "));
            self.found.constraints.push(Constraint { kind: Bound::Envelope, formula, used, band, source });
        }
    }

    /// Thousandths of reads of everything but EDA loads, which have their own.
    fn mix(&self) -> u32 {
        let blocks: Vec<Stream> =
            self.needed.iter().filter(|stream| stream.access != Access::Eda).copied().collect();
        Load { streams: &blocks }.read_thousandths()
    }

    /// What the user measured of such volumes, within the latency target if it was met at all.
    fn measured(&mut self, stream: &Stream, mix: u32) -> Option<(Found, String)> {
        let (candidate, workload, catalog) = (self.candidate, self.workload, self.catalog);
        let is_smb = |protocol| protocol == Protocol::Smb;
        let fits = |one: &&Measured| {
            (one.level, one.large) == (candidate.pool.level, candidate.volume.settings.large)
                && is_smb(one.protocol) == is_smb(workload.protocol)
        };
        let of_level: Vec<&Measured> = catalog.measured.iter().filter(fits).collect();
        let reads = if stream.access == Access::Eda { stream.read_thousandths } else { mix };
        let target = workload.latency_us.unwrap_or(u64::MAX);
        let latency = of_level.iter().filter_map(|one| one.least_latency(stream, reads, target)).min();
        let Some(latency_us) = latency else {
            if !of_level.is_empty() {
                let what = format!("{} operations of {}", stream.access.name(), size(stream.block));
                self.caveat(&format!("What was measured has no {what} at {} reads.", percent(reads)));
            }
            return None;
        };
        if latency_us > target {
            let used = Used::of(u128::from(latency_us), u128::from(target));
            let source = of_level.iter().map(|one| one.source.as_str()).collect::<Vec<_>>().join("; ");
            let formula = format!("{latency_us} µs at the least load that was measured, of {target} µs");
            self.add(Bound::Latency, used, formula, source);
        }
        let at = of_level
            .iter()
            .filter_map(|one| Some((one.ceiling(stream, reads, target.max(latency_us))?, one)));
        let (found, one) = at.max_by_key(|(found, _)| found.rate)?;
        if self.found.evidence == Evidence::Published {
            self.found.evidence = Evidence::Measured;
        }
        if one.co_located {
            let text = "Clients and server of the measured run were on one host: it is no envelope of the server alone.";
            self.caveat(text);
        }
        Some((found, one.source.clone()))
    }

    /// What a page measured of such volumes.
    fn published(&mut self, stream: &Stream, mix: u32) -> Option<(Found, String)> {
        let (pool, large) = (&self.candidate.pool, self.candidate.volume.settings.large);
        let workload = self.workload;
        let all = Envelope::of(pool.level, large, workload.protocol, &self.catalog.profiles, Scope::Volume);
        let mut all: Vec<&Envelope> = all.filter(|one| workload.cached || !one.cached).collect();
        // Those that are cached come first where they are wanted.
        all.sort_by_key(|one| !one.cached);
        let (found, envelope) =
            all.into_iter().find_map(|one| Some((of_page(one, stream, mix, workload)?, one)))?;
        let setup = &envelope.setup;
        self.found.measured_on = setup.clients.map(|clients| (clients, setup.machine, setup.source));
        if let Some((clients, of_page)) = workload.clients.zip(setup.clients)
            && clients < of_page
        {
            self.caveat(&format!(
                "The envelope was measured from {of_page} clients; what {clients} can do of it, the page does not say."
            ));
        }
        if let Some((needed, of_page)) = workload.working_set.zip(setup.working_set)
            && needed > of_page
        {
            self.caveat(&format!(
                "The envelope was measured with {} in use; with {} more may come from disks.",
                size(of_page),
                size(needed)
            ));
        }
        if matches!(workload.protocol, Protocol::NfsV41 | Protocol::NfsV42) {
            self.caveat("The envelope was measured over NFSv3; over NFSv4.1 nobody published one, and page 004 has it slower.");
        }
        if workload.latency_us.is_some() && envelope.eda.is_none() {
            self.caveat("The page has no latency beside its rates: that the target is met at the ceiling is not known.");
        }
        for curve in &found.curves {
            let one: Option<Published> = curve.parse().ok();
            one.into_iter().flat_map(Published::conflicts).for_each(|conflict| self.caveat(conflict));
        }
        Some((found, setup.source.to_string()))
    }

    /// What one client was measured to reach.
    fn client_envelope(&mut self) {
        let (pool, large) = (&self.candidate.pool, self.candidate.volume.settings.large);
        let Some(clients) = self.workload.clients else { return };
        let profiles = &self.catalog.profiles;
        let mut all = Envelope::of(pool.level, large, self.workload.protocol, profiles, Scope::Client);
        let Some(envelope) = all.next() else { return };
        let one_connection = self.workload.connections == Some(1);
        let curves: Vec<Curve> = envelope
            .shapes()
            .map(|shape| {
                let mut curve = Curve::from(shape);
                if one_connection {
                    curve.name.push_str(" without nconnect");
                    let access = curve.access;
                    curve.knots.iter_mut().for_each(|knot| knot.1 = without_nconnect(access, *knot));
                }
                curve
            })
            .collect();
        let mix = self.mix();
        let (mut used, mut band, mut formula) = (Used(0), None, Vec::new());
        for stream in self.needed {
            let Some(found) = ceiling(&curves, stream.access, stream.block, mix) else { continue };
            let whole = u128::from(found.rate.0) * u128::from(clients);
            used = used.and(Used::of(u128::from(stream.rate.0), whole));
            band = wider(band, found.band);
            let each = times_of(u64::from(clients), mib(found.rate));
            formula.push(format!("{} of {each} ({})", mib(stream.rate), found.how));
        }
        if !formula.is_empty() {
            let source = envelope.setup.source.to_string();
            let formula = formula.join(" + ");
            self.found.constraints.push(Constraint { kind: Bound::Clients, formula, used, band, source });
        }
    }

    /// What the clients' interfaces carry, each way.
    fn network(&mut self) {
        let (Some(nic), Some(clients)) = (self.workload.nic, self.workload.clients) else { return };
        let ways = [("read", self.load().reads()), ("written", self.load().writes())];
        for (way, rate) in ways {
            let used = Used::of(u128::from(rate.0), u128::from(nic.0) * u128::from(clients));
            let formula = format!("{} {way} of {}", mib(rate), times_of(u64::from(clients), nic));
            self.add(Bound::Nic, used, formula, OWN);
        }
    }

    /// Little's law: calls in flight are calls a second times the time of each.
    fn slots(&mut self) {
        let (Some(clients), Some(latency_us)) = (self.workload.clients, self.workload.latency_us) else {
            return;
        };
        let provider = self.candidate.pool.level.info().provider;
        let (each, what) = match (provider, self.workload.protocol) {
            (Provider::Filestore | Provider::Plimsoll, _) | (_, Protocol::Smb) => return,
            (_, Protocol::NfsV3) => {
                let connections = u64::from(self.found.mount.connections);
                (CALLS_PER_CONNECTION * connections, format!("{connections} × {CALLS_PER_CONNECTION}"))
            }
            (_, Protocol::NfsV41 | Protocol::NfsV42) => (SLOTS_PER_SESSION, SLOTS_PER_SESSION.to_string()),
        };
        let transfer = self.found.mount.transfer.0;
        let slots = u128::from(each) * u128::from(clients);
        let mut calls = 0;
        let used = self.needed.iter().fold(Used(0), |used, stream| {
            let per_operation = u128::from(stream.block.0.div_ceil(transfer));
            let busy = u128::from(stream.rate.0) * per_operation * u128::from(latency_us);
            let second = u128::from(stream.block.0) * 1_000_000;
            calls += busy.div_ceil(second);
            used.and(Used::of(busy, second * slots))
        });
        let formula = format!("{calls} calls in flight at {latency_us} µs of {clients} × {what}");
        self.add(Bound::Slots, used, formula, SLOTS);
    }

    fn caveat(&mut self, text: &str) {
        if !self.found.caveats.iter().any(|one| one == text) {
            self.found.caveats.push(text.to_owned());
        }
    }
}

/// What a page says of one stream.
fn of_page(envelope: &Envelope, stream: &Stream, mix: u32, workload: &Workload) -> Option<Found> {
    if stream.access != Access::Eda {
        let curves: Vec<Curve> = envelope.shapes().map(Curve::from).collect();
        return ceiling(&curves, stream.access, stream.block, mix);
    }
    let (iops, at_us) = envelope.eda?;
    if at_us.zip(workload.latency_us).is_some_and(|(found, wanted)| wanted < found) {
        return None;
    }
    let at = at_us.map_or(String::new(), |us| format!(" at a latency of {} ms", us / 1000));
    let rate = Stream::eda(iops).rate;
    Some(Found { rate, band: None, how: format!("an EDA load of {iops}{at}"), curves: Vec::new() })
}

/// The rate of one connection, where the page says how much more there was with nconnect.
fn without_nconnect(access: Access, (reads, rate): (u32, BytesPerSecond)) -> BytesPerSecond {
    let gains = "anf-large-scaleup-gain".parse::<Published>().map(Published::figures).unwrap_or_default();
    let direction = if reads == 0 { Direction::Write } else { Direction::Read };
    let random = access == Access::Random;
    let of_this = gains.iter().find(|gain| {
        let same_pattern = gain.mix.is_some_and(|mix| (mix.pattern == Pattern::Random) == random);
        gain.direction == direction && same_pattern
    });
    let hundredths = of_this.map_or(100, |gain| gain.hundredths);
    BytesPerSecond(crate::units::proportion(rate.0, 100, hundredths))
}

fn combined(rate: BytesPerSecond) -> Ceilings {
    Ceilings { combined: Some(rate), ..Ceilings::default() }
}

fn instances_of(times: u64) -> String {
    if times == 1 { "the instance".to_owned() } else { format!("all {times} instances") }
}

/// The band that holds both.
fn wider(one: Option<Band>, other: Option<Band>) -> Option<Band> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some(Band {
        low_thousandths: one.low_thousandths.min(other.low_thousandths),
        high_thousandths: one.high_thousandths.max(other.high_thousandths),
    })
}
