//! Compares the load with measured envelopes of volumes and clients, from the user or from published pages.

use super::Assessor;
use crate::advise::band::Band;
use crate::advise::constraint::{Bound, Constraint, Load, Utilization, mib, mib_within, multiple, size};
use crate::advise::curve::{CeilingEstimate, Curve, ceiling, percent};
use crate::advise::envelopes::{Envelope, Scope};
use crate::advise::{Access, Evidence, LatencyCheck, Measured, Stream};
use crate::{Bytes, BytesPerSecond, Direction, Owner, Pattern, Protocol, Published, grouped};

/// The sum of each stream's share of its own ceiling.
#[derive(Default)]
struct StreamShares {
    used: Utilization,
    band: Option<Band>,
    formula: Vec<String>,
    sources: Vec<String>,
}

impl StreamShares {
    fn add(&mut self, stream: &Stream, estimate: &CeilingEstimate, times: u64, source: String) {
        let whole = u128::from(estimate.rate.0) * u128::from(times);
        self.used = self.used.plus(Utilization::of(u128::from(stream.rate.0), whole));
        self.band = union(self.band, estimate.band);
        let (used_text, ceiling) = match stream.access {
            // The operations are the published figure; their data differs from page to page.
            Access::Eda | Access::Metadata => {
                let carried = Stream { rate: estimate.rate, ..*stream }.iops();
                (format!("{:#}", stream.iops()), format!("{carried:#}"))
            }
            Access::Sequential | Access::Random => (mib(stream.rate), mib_within(estimate.rate)),
        };
        self.formula.push(format!("{used_text} of {} ({})", multiple(times, ceiling), estimate.derivation));
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    fn into_constraint(self, kind: Bound) -> Option<Constraint> {
        let Self { used, band, formula, sources } = self;
        let (formula, source) = (formula.join(" + "), sources.join("; "));
        (!formula.is_empty()).then_some(Constraint { kind, formula, used, band, source })
    }
}

impl Assessor<'_> {
    pub(super) fn envelope(&mut self) {
        let candidate = self.candidate;
        let own_pool = candidate.pool.level.info().owner == Owner::Pool;
        let times = u64::from(if own_pool { candidate.pools } else { candidate.volumes() });
        let mix = self.mix();
        let mut shares = StreamShares::default();
        for (requested, stream) in self.workload.needed().iter().zip(self.needed) {
            // The user's own measurements contain the actual data per operation.
            if let Some((estimate, source)) = self.measured(requested, mix) {
                self.latency(LatencyCheck::Measured);
                shares.add(requested, &estimate, times, source);
                continue;
            }
            let Some((estimate, source)) = self.published(stream, mix) else {
                self.assessment.evidence = Evidence::Limits;
                self.latency(LatencyCheck::Unchecked);
                let what = stream.operations();
                self.caveat(&format!(
                    "No curve covers {what} at {} reads on such volumes: only the documented limits \
                     apply to them.",
                    percent(mix)
                ));
                continue;
            };
            shares.add(stream, &estimate, times, source);
        }
        self.assessment.constraints.extend(shares.into_constraint(Bound::Envelope));
    }

    fn mix(&self) -> u32 {
        let blocks: Vec<Stream> =
            self.needed.iter().filter(|stream| !stream.access.is_fixed_mix()).copied().collect();
        Load { streams: &blocks }.read_thousandths()
    }

    /// The user's measurement of such volumes; within the latency target if any point meets the target.
    fn measured(&mut self, stream: &Stream, mix: u32) -> Option<(CeilingEstimate, String)> {
        let (candidate, workload, catalog) = (self.candidate, self.workload, self.catalog);
        let is_smb = |protocol| protocol == Protocol::Smb;
        let fits = |one: &&Measured| {
            (one.level, one.large) == (candidate.pool.level, candidate.volume.settings.large)
                && is_smb(one.protocol) == is_smb(workload.protocol)
        };
        let of_level: Vec<&Measured> = catalog.measured.iter().filter(fits).collect();
        let reads = if stream.access.is_fixed_mix() { stream.read_thousandths } else { mix };
        let target = workload.latency_us.unwrap_or(u64::MAX);
        let latency = of_level.iter().filter_map(|one| one.min_latency(stream, reads, target)).min();
        let Some(latency_us) = latency else {
            if !of_level.is_empty() {
                let what = stream.operations();
                self.caveat(&format!("The measurement has no {what} at {} reads.", percent(reads)));
            }
            return None;
        };
        if latency_us > target {
            let used = Utilization::of(u128::from(latency_us), u128::from(target));
            let source = of_level.iter().map(|one| one.source.as_str()).collect::<Vec<_>>().join("; ");
            let formula = {
                let [estimate, target] = [latency_us, target].map(grouped);
                format!("{estimate} µs at the least load that was measured, of {target} µs")
            };
            self.add(Bound::Latency, used, formula, source);
        }
        let at = of_level
            .iter()
            .filter_map(|one| Some((one.ceiling(stream, reads, target.max(latency_us))?, one)));
        let (estimate, one) = at.max_by_key(|(estimate, _)| estimate.rate)?;
        if self.assessment.evidence == Evidence::Published {
            self.assessment.evidence = Evidence::Measured;
        }
        if one.co_located {
            let text = "Clients and server of the measured run were on one host: it is not an envelope of the server alone.";
            self.caveat(text);
        }
        if one.protocol != workload.protocol {
            let (measured, wanted) = (one.protocol.name(), workload.protocol.name());
            self.caveat(&format!("The measurement used {measured}; the effect of {wanted} is unknown."));
        }
        let clients = one.points.iter().map(|point| point.clients).max();
        self.compare_setup(clients, Some(one.working_set));
        Some((estimate, one.source.clone()))
    }

    fn compare_setup(&mut self, clients: Option<u32>, working_set: Option<Bytes>) {
        if let Some((few, measured)) = self.workload.clients.zip(clients)
            && few < measured
        {
            self.caveat(&format!(
                "The envelope was measured from {measured} clients; the performance of {few} is unknown."
            ));
        }
        if let Some((more, measured)) = self.workload.working_set.zip(working_set)
            && more > measured
        {
            self.caveat(&format!(
                "The envelope was measured with {} in use; with {} more may come from disks.",
                size(measured),
                size(more)
            ));
        }
    }

    fn published(&mut self, stream: &Stream, mix: u32) -> Option<(CeilingEstimate, String)> {
        let (pool, large) = (&self.candidate.pool, self.candidate.volume.settings.large);
        let workload = self.workload;
        let all = Envelope::of(pool.level, large, workload.protocol, &self.catalog.profiles, Scope::Volume);
        let mut all: Vec<&Envelope> = all.filter(|one| workload.cached || !one.cached).collect();
        // Cached figures come first if the workload is cached.
        all.sort_by_key(|one| !one.cached);
        let (estimate, envelope) =
            all.into_iter().find_map(|one| Some((page_ceiling(one, stream, mix)?, one)))?;
        let setup = &envelope.setup;
        self.assessment.measured_on = setup.clients.map(|clients| (clients, setup.machine, setup.source));
        self.compare_setup(setup.clients, setup.working_set);
        if matches!(workload.protocol, Protocol::NfsV41 | Protocol::NfsV42) {
            self.caveat("The envelope was measured over NFSv3; none is published over NFSv4.1, which Microsoft measured as slower for EDA.");
        }
        let known_us = envelope.eda.and_then(|eda| eda.latency_us);
        let is_met = workload.latency_us.zip(known_us).is_some_and(|(target, published)| target >= published);
        self.latency(if is_met { LatencyCheck::Published } else { LatencyCheck::Unchecked });
        match (workload.latency_us, known_us) {
            (Some(_), None) => self.caveat(
                "The page gives no latency with its rates: whether the ceiling meets the target is unknown.",
            ),
            (Some(target), Some(published_ms)) if target < published_ms => {
                let (published_ms, target) = (published_ms / 1000, grouped(target));
                self.caveat(&format!(
                    "The rate was published at a latency of {published_ms} ms: how much of it is left within {target} µs is not \
                     known."
                ));
                if !large {
                    self.caveat(BELOW_1_MS);
                }
            }
            _ => {}
        }
        if let Some(estimate) = setup.source.estimate() {
            self.caveat(estimate);
        }
        if stream.access == Access::Metadata {
            self.caveat(
                "Nobody published a rate of creations, removals or renames alone: each is counted as an operation of the EDA \
                 mix, of which more than half is metadata.",
            );
        }
        for curve in &estimate.curves {
            let one: Option<Published> = curve.parse().ok();
            one.into_iter().flat_map(Published::conflicts).for_each(|conflict| self.caveat(conflict));
        }
        Some((estimate, setup.source.to_string()))
    }

    pub(super) fn client_envelope(&mut self) {
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
        let mut shares = StreamShares::default();
        for stream in self.needed {
            if let Some(estimate) = ceiling(&curves, stream.access, stream.block, mix) {
                shares.add(stream, &estimate, clients.into(), envelope.setup.source.to_string());
            }
        }
        self.assessment.constraints.extend(shares.into_constraint(Bound::Clients));
    }

    /// The weakest check of all streams counts.
    fn latency(&mut self, check: LatencyCheck) {
        if self.workload.latency_us.is_some() {
            self.assessment.latency = self.assessment.latency.max(Some(check));
        }
    }

    pub(super) fn caveat(&mut self, text: &str) {
        if !self.assessment.caveats.iter().any(|one| one == text) {
            self.assessment.caveats.push(text.to_owned());
        }
    }
}

const BELOW_1_MS: &str = "Microsoft's page for EDA has latencies below 1 ms with nocto,actimeo=600, tuned kernel settings and \
                          nconnect=16 together, and does not say at which rate.";

fn page_ceiling(envelope: &Envelope, stream: &Stream, mix: u32) -> Option<CeilingEstimate> {
    if !stream.access.is_fixed_mix() {
        let curves: Vec<Curve> = envelope.shapes().map(Curve::from).collect();
        return ceiling(&curves, stream.access, stream.block, mix);
    }
    let eda = envelope.eda?;
    let at = eda.latency_us.map_or(String::new(), |us| format!(" at a latency of {} ms", us / 1000));
    // A shorter latency leaves at most that rate.
    let rate = Stream::from_iops(stream.access, stream.block, stream.read_thousandths, eda.iops).rate;
    let how = format!("an EDA load with {}{at}", mib(eda.data));
    Some(CeilingEstimate { rate, band: None, derivation: how, curves: Vec::new() })
}

/// The rate of one connection, where the page gives the gain of nconnect.
fn without_nconnect(access: Access, knot: (u32, BytesPerSecond)) -> BytesPerSecond {
    let (reads, rate) = knot;
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

fn union(one: Option<Band>, other: Option<Band>) -> Option<Band> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some(Band {
        low_thousandths: one.low_thousandths.min(other.low_thousandths),
        high_thousandths: one.high_thousandths.max(other.high_thousandths),
    })
}
