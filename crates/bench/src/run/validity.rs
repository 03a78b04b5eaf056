//! Caveats that qualify or void a result.

use report::document::limits_changed;
use report::result::{Caveat, CaveatKind, Cell, Direction, MachineUse, Measurement, Run, TargetFacts};
use report::scenario::{Cache, Work};

use super::thoroughness::Thoroughness;
use crate::eda;
use crate::job::Job;
use crate::load::LATE_MAX;

/// A busier generator counts as the bottleneck.
const BUSY_MAX: f64 = 0.8;
const NETWORK_MAX: f64 = 0.9;
/// A larger standard deviation over mean causes a caveat.
const VARIATION_MAX: f64 = 0.05;
/// Bounds the deviation of a mix, in percent of the operations.
const MIX_MAX: f64 = 0.5;
/// Reads with a higher cache hit ratio count as from memory. With at most one minus this ratio, reads count
/// as from storage.
const WARM_MIN: f64 = 0.95;

pub(super) fn check_measurement(
    measured: &mut Measurement,
    job: &Job,
    target: &TargetFacts,
    is_one_machine: bool,
) {
    if !measured.is_valid() {
        return;
    }
    let mut caveats = Vec::new();
    let mut caveat = |applies: bool, kind: CaveatKind, text: String| {
        if applies {
            caveats.push(Caveat::new(kind, text));
        }
    };
    let errors = measured.errors.values().sum::<u64>();
    caveat(errors > 0, CaveatKind::Void, format!("{errors} calls failed"));
    let ops = measured.ops(None);
    caveat(ops == 0, CaveatKind::Void, "no operation was answered in the window".to_owned());
    if job.work == Work::Transfers && ops > 0 {
        let share = 100.0 * measured.ops(Some(Direction::Read)) as f64 / ops as f64;
        // With few operations, one more or less exceeds the limit. fio draws at random: allows three standard deviations.
        let wanted = f64::from(job.read_percent) / 100.0;
        let chance =
            if target.mount.is_some() { 300.0 * (wanted * (1.0 - wanted) / ops as f64).sqrt() } else { 0.0 };
        let allowed = MIX_MAX + chance.max(200.0 / ops as f64);
        let off = (share - f64::from(job.read_percent)).abs() > allowed;
        caveat(off, CaveatKind::Void, format!("{share:.1} % were reads instead of {} %", job.read_percent));
    }
    let wanted = connections(job);
    if let Some(server) = &measured.server {
        let text = format!("the server counted {} connections, not {wanted}", server.connections);
        caveat(server.connections < wanted as u64, CaveatKind::Void, text);
        let hits = server.cache_hit_ratio.filter(|_| job.read_percent > 0);
        let mixed = hits.is_some_and(|hits| match job.cache {
            Cache::Any => false,
            Cache::Warm => hits < WARM_MIN,
            Cache::Cold => hits > 1.0 - WARM_MIN,
        });
        let meant = if job.cache == Cache::Warm { "memory" } else { "storage" };
        let percent = hits.unwrap_or(0.0) * 100.0;
        let text = format!(
            "reads were meant to come from the server's {meant}, but {percent:.0} % came from memory"
        );
        caveat(mixed, CaveatKind::CacheMixed, text);
        if let Some(before) = &server.limits_before {
            let text = limits_changed(&[*before, server.limits]);
            caveat(true, CaveatKind::Other, text);
        }
    }
    if let Some(text) = rate_shortfall(measured, job) {
        caveat(true, CaveatKind::Other, text);
    }
    for usage in &measured.machines {
        // On a shared machine the utilization includes the server's.
        let shared = target.co_located && is_one_machine;
        for text in client_limits(usage, ops, shared) {
            caveat(true, CaveatKind::ClientLimited, text);
        }
    }
    caveat(
        measured.steady == Some(false),
        CaveatKind::NotSteady,
        "the rate was not steady when measuring began".to_owned(),
    );
    measured.caveats.extend(caveats);
}

/// All connections, or fewer if the job has fewer processes.
fn connections(job: &Job) -> usize {
    if job.work != Work::EdaBlend {
        return job.clients_total * job.connections;
    }
    let sets = usize::try_from(job.job_sets).unwrap_or(usize::MAX);
    let of_client = |client: usize| {
        let sets = (sets + job.clients_total - 1 - client) / job.clients_total;
        job.connections.min(sets * eda::mix::PROCESSES)
    };
    (0..job.clients_total).map(of_client).sum()
}

/// `None` if the schedule was kept well enough.
fn rate_shortfall(measured: &Measurement, job: &Job) -> Option<String> {
    let asked = job.rate?;
    let reached = measured.ops(None) as f64 / measured.seconds;
    (reached < report::curve::WHOLE_MIN * asked)
        .then(|| format!("delivered {reached:.1} of {asked} operations a second asked"))
}

/// Signs that a generator's machine was the bottleneck. `shared` if the server runs on that machine.
fn client_limits(usage: &MachineUse, ops: u64, shared: bool) -> Vec<String> {
    let late = usage.late as f64 / ops.max(1) as f64;
    let network = usage.network_share.unwrap_or(0.0);
    let signs = [
        (usage.busiest_thread, BUSY_MAX, "of the time a thread of the generator was busy"),
        (if shared { 0.0 } else { usage.cpu_share }, BUSY_MAX, "of a client's processors were busy"),
        (late, LATE_MAX, "of the operations were sent late"),
        (network, NETWORK_MAX, "of what a client's network can carry was on it"),
    ];
    let over = signs.into_iter().filter(|(share, most, _)| share > most);
    over.map(|(share, _, words)| format!("{:.1} % {words}", share * 100.0)).collect()
}

/// Each caveat of a repetition once, then the variation.
pub(super) fn cell_caveats(cell: &Cell, thoroughness: &Thoroughness) -> Vec<Caveat> {
    let mut caveats: Vec<Caveat> = Vec::new();
    for caveat in cell.measurements.iter().flat_map(|measurement| &measurement.caveats) {
        if !caveats.iter().any(|other| other.kind == caveat.kind) {
            caveats.push(caveat.clone());
        }
    }
    let variation = cell.summary.iops.variation;
    if variation > VARIATION_MAX {
        let text = format!("repetitions differ: standard deviation {:.1} % of the mean", variation * 100.0);
        caveats.push(Caveat::new(CaveatKind::Variation, text));
    }
    let done = cell.measurements.iter().filter(|measurement| measurement.is_valid()).count();
    if done > 0 && done < thoroughness.repetitions as usize {
        let text = format!("{done} of {} repetitions have a result", thoroughness.repetitions);
        caveats.push(Caveat::new(CaveatKind::Short, text));
    }
    caveats
}

pub(super) fn check_run(run: &mut Run) {
    if run.target.co_located {
        let text = "client and server share this host and its processors: figures about this host, not a volume's envelope";
        run.caveats.push(Caveat::new(CaveatKind::CoLocated, text));
    }
    if !run.scaled.is_empty() {
        // `scaled` has the details.
        let text = "shorter or smaller than the method or the scenario asks for";
        run.caveats.push(Caveat::new(CaveatKind::Short, text));
    }
    if let Some(why) = &run.ended_early {
        run.caveats
            .push(Caveat::new(CaveatKind::Short, format!("ended before every point was measured: {why}")));
        for cell in run.cells.iter_mut().filter(|cell| cell.measurements.is_empty()) {
            cell.caveats.push(Caveat::new(CaveatKind::Void, "not measured, because the run ended early"));
        }
    }
}
