//! What was measured, with what and how, in a few lines.

use super::table::Value;
use super::words;
use crate::curve::SET_RATE;
use crate::result::{DoubtKind, Run};
use crate::scenario::{Cache, Pattern, Preset, Series, Stability, Work};
use crate::units::show_size;

/// A name and what is to be said of it.
pub type Fact = (String, String);

/// Of the whole run.
pub(super) fn of_run(run: &Run) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.extend(value.filter(|value| !value.is_empty()).map(|value| (name.to_owned(), value)));
    };
    let target = &run.target;
    add("Target", Some(target.target.clone()));
    add("Clients at", Some(endpoints(run)));
    add("Over", Some([target.protocol.as_str(), target.generator.as_str()].join(", by ")));
    if let Some(volume) = &target.volume {
        add("Volume", Some(format!("{} of pool {}, Plimsoll {}", volume.name, volume.pool, volume.version)));
        add("Level", Some(volume.level.clone()));
        add("Limits", Some(words::limits_line(&volume.limits)));
        let scale = volume.shape_scale_thousandths.filter(|&scale| scale != 1000);
        let scale = scale.map_or(String::new(), |scale| format!(" × {:.3}", f64::from(scale) / 1e3));
        add("Shape", volume.shape.as_ref().map(|shape| format!("{shape}{scale}")));
    }
    let mount = target.mount.as_ref();
    add(
        "Mount",
        mount.map(|mount| format!("{} {} at {} ({})", mount.kind, mount.source, mount.at, mount.options)),
    );
    add("Client's cache", Some(target.client_cache.clone()));
    let transfers = [("READ", target.read_max), ("WRITE", target.write_max)];
    let transfers =
        transfers.into_iter().filter_map(|(name, bytes)| Some(format!("{name} {}", words::size(bytes)?)));
    add("Largest transfers", Some(transfers.collect::<Vec<_>>().join(", ")));
    add("Preset", Some(preset(run.preset).to_owned()));
    add("Measured", Some(format!("{} to {}", words::time(run.started), words::time(run.finished))));
    let machines: Vec<&str> = run.machines.iter().map(|machine| machine.name.as_str()).collect();
    add("Load from", Some(machines.join(", ")));
    add("Page", run.scenario.page.clone());
    add("Made by", Some(format!("Plimsoll {}, seed {}", run.version, run.seed)));
    facts
}

/// How many clients each address of the target had, at the point with the most clients; empty for a target with one address.
fn endpoints(run: &Run) -> String {
    let measurements = run.cells.iter().flat_map(|cell| &cell.measurements);
    let Some(largest) = measurements.max_by_key(|measurement| measurement.clients.len()) else {
        return String::new();
    };
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for endpoint in largest.clients.iter().filter_map(|client| client.endpoint.as_deref()) {
        match counts.iter_mut().find(|(known, _)| *known == endpoint) {
            Some((_, count)) => *count += 1,
            None => counts.push((endpoint, 1)),
        }
    }
    counts.iter().map(|(endpoint, count)| format!("{endpoint} ({count})")).collect::<Vec<_>>().join(", ")
}

fn preset(preset: Preset) -> &'static str {
    match preset {
        Preset::Quick => "quick: in minutes, shorter than the method asks for",
        Preset::Standard => "standard",
        Preset::Full => "full",
    }
}

/// What stands at the top in large letters.
pub(super) fn stamps(run: &Run) -> Vec<String> {
    let mut stamps = Vec::new();
    let co_located = run.doubts.iter().any(|doubt| doubt.kind == DoubtKind::CoLocated);
    if run.target.co_located || co_located {
        stamps.push("co-located: client and server share a host; this is not a volume's envelope".to_owned());
    }
    if run.preset == Preset::Quick {
        stamps.push("quick: shorter than the method asks for".to_owned());
    }
    stamps.extend(run.ended_early.as_ref().map(|why| format!("ended early: {why}")));
    stamps
}

/// Of a series.
pub(super) fn of_series(run: &Run, series: &Series) -> Vec<Fact> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let work = match series.work {
        Work::Transfers => "reads and writes of blocks".to_owned(),
        Work::OpenRead => "opening and reading whole files".to_owned(),
        Work::EdaBlend => {
            format!("the mix of an EDA flow: job sets of {SET_RATE} operations a second, on a schedule")
        }
        Work::Metadata => "operations on names, without data".to_owned(),
    };
    let mut facts = vec![fact("Work", work)];
    if series.work == Work::Metadata {
        facts.push(fact("Jobs", format!("{} of each client", series.jobs)));
        return facts;
    }
    if series.work != Work::EdaBlend {
        let blocks: Vec<String> = series.blocks.iter().map(|&block| show_size(block)).collect();
        facts.push(fact("Blocks", format!("{}, {}", blocks.join(", "), pattern(series.pattern))));
        facts.push(fact("Jobs", format!("{} of each client", series.jobs)));
        if let Some(rate) = series.rate {
            let text =
                format!("{} operations a second of all clients together, on a schedule", Value::figure(rate));
            facts.push(fact("Rate", text));
        }
        facts.push(fact("Working set", working_set(run, series)));
        facts.push(fact("Server's cache", cache(series.cache).to_owned()));
    }
    facts.push(fact("Writes", stability(series.stability).to_owned()));
    facts
}

/// What was used, and what the scenario asks for where that is more.
fn working_set(run: &Run, series: &Series) -> String {
    let wanted = show_size(series.working_set);
    let index = run.scenario.series.iter().position(|other| other == series);
    let file_size = index.and_then(|index| run.file_sizes.get(index)).copied().unwrap_or(0);
    let used = file_size * series.jobs_max() as u64;
    if used == 0 || used >= series.working_set {
        return wanted;
    }
    format!("{} instead of {wanted}", show_size(used))
}

pub(super) fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
        Pattern::Shuffled => "shuffled",
    }
}

pub(super) fn cache(cache: Cache) -> &'static str {
    match cache {
        Cache::Any => "as found",
        Cache::Warm => "meant to be warm",
        Cache::Cold => "meant to be cold",
    }
}

pub(super) fn stability(stability: Stability) -> &'static str {
    match stability {
        Stability::Unstable => "unstable, with COMMIT",
        Stability::DataSync => "data safe when answered",
        Stability::FileSync => "data and attributes safe when answered",
    }
}
