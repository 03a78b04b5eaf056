//! What makes a figure doubtful, or takes it away.

use report::result::{Caveat, CaveatKind, Cell, Direction, MachineUse, Measurement, Run, TargetFacts};
use report::scenario::{Cache, Work};

use super::thoroughness::Thoroughness;
use crate::eda;
use crate::engine::job::Job;
use crate::load::LATE_MAX;

/// A busier generator is taken for the bottleneck.
const BUSY_MAX: f64 = 0.8;
/// A fuller network is taken for the bottleneck.
const NETWORK_MAX: f64 = 0.9;
/// Repetitions that differ more are flagged.
const VARIATION_MAX: f64 = 0.05;
/// How far a mix may be off, in percent of the operations.
const MIX_MAX: f64 = 0.5;
/// What is meant to be in memory is, from this share on; what is not is not, up to the rest.
const WARM_MIN: f64 = 0.95;

/// Adds the doubts that a measurement shows by itself.
pub(super) fn measurement(measured: &mut Measurement, job: &Job, target: &TargetFacts, is_one_machine: bool) {
    if !measured.is_valid() {
        return;
    }
    let mut doubts = Vec::new();
    let mut doubt = |applies: bool, kind: CaveatKind, text: String| {
        if applies {
            doubts.push(Caveat::new(kind, text));
        }
    };
    let errors = measured.errors.values().sum::<u64>();
    doubt(errors > 0, CaveatKind::Void, format!("{errors} calls failed"));
    let ops = measured.ops(None);
    doubt(ops == 0, CaveatKind::Void, "no operation was answered in the window".to_owned());
    if job.work == Work::Transfers && ops > 0 {
        let share = 100.0 * measured.ops(Some(Direction::Read)) as f64 / ops as f64;
        // With few operations, one more or less is more than that; fio draws by chance, off by three
        // deviations at most.
        let wanted = f64::from(job.read_percent) / 100.0;
        let chance =
            if target.mount.is_some() { 300.0 * (wanted * (1.0 - wanted) / ops as f64).sqrt() } else { 0.0 };
        let allowed = MIX_MAX + chance.max(200.0 / ops as f64);
        let off = (share - f64::from(job.read_percent)).abs() > allowed;
        doubt(off, CaveatKind::Void, format!("{share:.1} % were reads instead of {} %", job.read_percent));
    }
    let wanted = connections(job);
    if let Some(server) = &measured.server {
        let text = format!("the server counted {} connections, not {wanted}", server.connections);
        doubt(server.connections < wanted as u64, CaveatKind::Void, text);
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
        doubt(mixed, CaveatKind::CacheMixed, text);
    }
    if let Some(text) = delivered(measured, job) {
        doubt(true, CaveatKind::Other, text);
    }
    for usage in &measured.machines {
        // Where the server is on the same machine, that machine's load says nothing of the client.
        let shared = target.co_located && is_one_machine;
        for text in client_limited(usage, ops, shared) {
            doubt(true, CaveatKind::ClientLimited, text);
        }
    }
    doubt(
        measured.steady == Some(false),
        CaveatKind::NotSteady,
        "the rate was not steady when measuring began".to_owned(),
    );
    measured.caveats.extend(doubts);
}

/// Connections that the job uses: all of them, unless there are fewer processes of job sets than that.
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

/// Where operations had a schedule and too few of them came about: how many.
fn delivered(measured: &Measurement, job: &Job) -> Option<String> {
    let asked = job.rate?;
    let reached = measured.ops(None) as f64 / measured.seconds;
    (reached < report::curve::WHOLE_MIN * asked)
        .then(|| format!("delivered {reached:.1} of {asked} operations a second asked"))
}

/// What says that a machine that makes load was the limit, and not the server; `shared` is one that the
/// server is on, too.
fn client_limited(usage: &MachineUse, ops: u64, shared: bool) -> Vec<String> {
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

/// The doubts of a point: those of its repetitions, each once, and how much they differ.
pub(super) fn cell(cell: &Cell, thoroughness: &Thoroughness) -> Vec<Caveat> {
    let mut doubts: Vec<Caveat> = Vec::new();
    for doubt in cell.measurements.iter().flat_map(|measurement| &measurement.caveats) {
        if !doubts.iter().any(|other| other.kind == doubt.kind) {
            doubts.push(doubt.clone());
        }
    }
    let variation = cell.summary.iops.variation;
    if variation > VARIATION_MAX {
        let text = format!("repetitions differ: standard deviation {:.1} % of the mean", variation * 100.0);
        doubts.push(Caveat::new(CaveatKind::Variation, text));
    }
    let done = cell.measurements.iter().filter(|measurement| measurement.is_valid()).count();
    if done > 0 && done < thoroughness.repetitions as usize {
        let text = format!("{done} of {} repetitions have a result", thoroughness.repetitions);
        doubts.push(Caveat::new(CaveatKind::Short, text));
    }
    doubts
}

/// Adds the doubts of a whole run.
pub(super) fn whole(run: &mut Run) {
    if run.target.co_located {
        let text = "client and server share this host and its processors: figures about this host, not a volume's envelope";
        run.caveats.push(Caveat::new(CaveatKind::CoLocated, text));
    }
    if !run.scaled.is_empty() {
        // How, `scaled` says itself.
        let text = "shorter or smaller than the method or the scenario asks for";
        run.caveats.push(Caveat::new(CaveatKind::Short, text));
    }
    if let Some(why) = &run.ended_early {
        run.caveats
            .push(Caveat::new(CaveatKind::Short, format!("ended before every point was measured: {why}")));
    }
}
