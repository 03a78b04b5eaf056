//! The setup of the measurement, in a few lines.

use super::table::Value;
use super::words;
use crate::curve::SET_RATE;
use crate::result::{CaveatKind, Durability, ExportRule, Limits, Run, SmbFacts, VolumeFacts};
use crate::scenario::limits::BLOCK_MAX;
use crate::scenario::{Cache, Depth, Pattern, Preset, Series, Stability, Work};
use crate::units::show_size;

pub type Fact = (String, String);

pub(super) fn of_run(run: &Run) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.extend(value.filter(|value| !value.is_empty()).map(|value| (name.to_owned(), value)));
    };
    let target = &run.target;
    add("Target", Some(target.target.clone()));
    add("Case", target.case.clone());
    add("Over", Some([target.protocol.as_str(), target.generator.as_str()].join(", by ")));
    add("Messages", target.smb.as_ref().map(messages));
    match &target.volume {
        Some(volume) => of_volume(volume).into_iter().for_each(|(name, value)| add(name, Some(value))),
        None => add(
            "Volume",
            Some(
                "unknown: pass --data or --url to query the service for level, limits, durability and export"
                    .to_owned(),
            ),
        ),
    }
    let mount = target.mount.as_ref();
    add(
        "Mount",
        mount.map(|mount| format!("{} {} at {} ({})", mount.kind, mount.source, mount.at, mount.options)),
    );
    add("Client's cache", Some(target.client_cache.clone()));
    let transfers = [("READ", target.read_max), ("WRITE", target.write_max)];
    let transfers =
        transfers.into_iter().filter_map(|(name, bytes)| Some(format!("{name} of {}", words::size(bytes)?)));
    let transfers: Vec<String> = transfers.collect();
    add("Server takes", (!transfers.is_empty()).then(|| format!("{} at most", transfers.join(" and "))));
    add("Preset", Some(preset(run.preset).to_owned()));
    add("Measured", Some(format!("{} to {}", words::time(run.started), words::time(run.finished))));
    let machines: Vec<&str> = run.machines.iter().map(|machine| machine.name.as_str()).collect();
    add("Load from", Some(machines.join(", ")));
    add("Scenario", Some(run.scenario.name.clone()));
    add("Page", run.scenario.page.clone());
    add("Made by", Some(format!("Plimsoll {}, seed {}", run.version, run.seed)));
    facts
}

fn messages(smb: &SmbFacts) -> String {
    let protected = match (&smb.signing, &smb.encryption) {
        (_, Some(cipher)) => format!("encrypted with {cipher}"),
        (Some(algorithm), None) => format!("signed with {algorithm}"),
        (None, None) => "neither signed nor encrypted".to_owned(),
    };
    let connections = match smb.multichannel {
        true => "a session has several connections (channels)",
        false => "each connection is a session of its own",
    };
    format!("of SMB {}, {protected}; {connections}", smb.dialect)
}

/// The number of clients of each target address, at the point with the most clients. Empty for a target with
/// one address.
fn endpoints(run: &Run, series: usize) -> String {
    let measurements = run.cells_of(series).flat_map(|cell| &cell.measurements);
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

/// Values that the service did not report are unknown.
fn of_volume(volume: &VolumeFacts) -> Vec<(&'static str, String)> {
    let size = volume.size_bytes.map_or(String::new(), |bytes| format!(", {}", show_size(bytes)));
    let large = if volume.large == Some(true) { "large volume " } else { "" };
    let profile = volume.profile.as_ref().map_or(String::new(), |profile| format!(", profile {profile}"));
    let mut facts = vec![
        (
            "Volume",
            format!("{large}{} of pool {}{size}, Plimsoll {}", volume.name, volume.pool, volume.version),
        ),
        ("Level", format!("{}{profile}", volume.level)),
        ("Limits", words::limits_line(&volume.limits)),
    ];
    if volume.client_limits != Limits::default() {
        facts.push(("Each client", words::limits_line(&volume.client_limits)));
    }
    facts.extend(words::curve(volume).map(|curve| ("Follows", curve)));
    let durability = match volume.durability {
        Some(Durability::Sync) => "sync: data acknowledged as stable survives a power cut",
        Some(Durability::Relaxed) => "relaxed: a power cut may take back the last seconds",
        None => "unknown",
    };
    facts.push(("Durability", durability.to_owned()));
    let rule =
        |rule: &ExportRule| format!("{}: {}, squash {}", rule.clients.join(" "), rule.access, rule.squash);
    let rules = volume.export.as_ref().map(|rules| rules.iter().map(rule).collect::<Vec<_>>().join("; "));
    facts.push(("Export", rules.unwrap_or_else(|| "unknown".to_owned())));
    facts
}

fn preset(preset: Preset) -> &'static str {
    match preset {
        Preset::Quick => "quick: in minutes, shorter than the method requires",
        Preset::Standard => "standard",
        Preset::Full => "full",
    }
}

/// Shown in large letters at the top.
pub(super) fn stamps(run: &Run) -> Vec<String> {
    let mut stamps = Vec::new();
    let co_located = run.caveats.iter().any(|caveat| caveat.kind == CaveatKind::CoLocated);
    if run.target.co_located || co_located {
        stamps.push("co-located: client and server share a host; this is not a volume's envelope".to_owned());
    }
    if run.preset == Preset::Quick {
        stamps.push("quick: shorter than the method requires".to_owned());
    }
    stamps.extend(run.ended_early.as_ref().map(|why| format!("ended early: {why}")));
    stamps
}

/// The complete setup: you can repeat the series from this section alone.
pub(super) fn of_series(run: &Run, series: &Series) -> Vec<Fact> {
    let index = run.scenario.series.iter().position(|other| other == series).unwrap_or(usize::MAX);
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    let blocks = joined(&series.blocks, |block| show_size(*block));
    let mixes = joined(&series.reads, |percent| format!("{percent}/{}", 100u8.saturating_sub(*percent)));
    match series.work {
        Work::Transfers => {
            add(
                "Load",
                format!("reads and writes of {blocks}, {}; read/write % {mixes}", pattern(series.pattern)),
            );
        }
        Work::OpenRead => add("Load", format!("opening files of {blocks} and reading them whole")),
        Work::EdaBlend => add(
            "Load",
            format!("the mix of an EDA flow: job sets of {SET_RATE} operations a second, on a schedule"),
        ),
        Work::Metadata => add("Load", names_changed(series)),
    }
    add("Clients", clients(run, series));
    Some(endpoints(run, index)).filter(|at| !at.is_empty()).into_iter().for_each(|at| add("Clients at", at));
    if series.work != Work::EdaBlend {
        add("Jobs", format!("{} of each client, {}", series.jobs, in_flight(run, series, index)));
    }
    if let Some(rate) = series.rate {
        let rate = Value::figure(rate);
        add("Rate", format!("{rate} operations a second of all clients together, on a schedule"));
    }
    if series.work != Work::Metadata {
        add("Calls", calls(run, series));
        add("Working set", working_set(run, series, index));
    }
    if !series.attribute_caches.is_empty() {
        let cached = |cached: &bool| (if *cached { "cached" } else { "not cached" }).to_owned();
        add(
            "Attributes",
            format!("{} (cached as with nocto,actimeo=600)", joined(&series.attribute_caches, cached)),
        );
    }
    if !series.same_places.is_empty() {
        let same = |same: &bool| (if *same { "the same" } else { "new ones" }).to_owned();
        add("Places", format!("{} in each repetition", joined(&series.same_places, same)));
    }
    if !series.protocols.is_empty() {
        add("Protocols", joined(&series.protocols, ToString::to_string));
    }
    if matches!(series.work, Work::Transfers | Work::OpenRead) {
        add("Server's cache", cache(series.cache).to_owned());
    }
    if series.work == Work::EdaBlend || (series.work == Work::Transfers && series.reads != [100]) {
        add("Writes", stability(series.stability).to_owned());
    }
    facts
}

fn clients(run: &Run, series: &Series) -> String {
    let (clients, connections) = (series.clients.as_slice(), series.connections.as_slice());
    let [client, connection] = [clients, connections].map(|counts| if counts == [1] { "" } else { "s" });
    let each = if clients == [1] { "" } else { " each" };
    let over = if run.target.mount.is_some() { "as many as the mount has, not " } else { "" };
    let [clients, connections] = [clients, connections].map(|counts| joined(counts, ToString::to_string));
    format!("{clients} client{client} with {over}{connections} connection{connection}{each} (nconnect)")
}

fn names_changed(series: &Series) -> String {
    let operations = joined(&series.operations, |operation| operation.words().to_owned());
    match series.directories.as_slice() {
        [] | [1] => format!("{operations}, in one directory"),
        directories => format!("{operations}, over {} directories", joined(directories, ToString::to_string)),
    }
}

fn joined<T>(values: &[T], show: impl Fn(&T) -> String) -> String {
    values.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn in_flight(run: &Run, series: &Series, index: usize) -> String {
    let mut depths: Vec<usize> = run.cells_of(index).map(|cell| cell.point.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let depths = joined(&depths, ToString::to_string);
    match (&series.depths, depths.as_str()) {
        (Depth::Search(_), "") => "calls in flight searched for".to_owned(),
        (Depth::Search(_), found) => format!("{found} calls in flight each, searched for"),
        (Depth::Fixed(fixed), _) => {
            let max = if series.rate.is_some() { " at most" } else { "" };
            let call = if fixed == &[1] { "call" } else { "calls" };
            format!("{} {call} in flight each{max}", joined(fixed, ToString::to_string))
        }
    }
}

fn calls(run: &Run, series: &Series) -> String {
    let option = |name: &str| {
        let options = run.target.mount.as_ref()?.options.split(',');
        options.filter_map(|option| option.split_once('=')).find(|(known, _)| *known == name)?.1.parse().ok()
    };
    let server = run.target.read_max.into_iter().chain(run.target.write_max).min();
    let of_mount: Option<u64> = option("rsize").into_iter().chain(option("wsize")).min();
    let max = server.into_iter().chain(of_mount).min().unwrap_or(u64::MAX);
    if series.work == Work::EdaBlend && series.transfers.is_empty() {
        return format!("of up to {}", show_size(max.min(BLOCK_MAX)));
    }
    let block = series.blocks.iter().copied().max().unwrap_or(0);
    let sizes = if series.transfers.is_empty() { vec![block] } else { series.transfers.clone() };
    let one = |sizes: &u64| {
        let size = (*sizes).min(max);
        match block.div_ceil(size.max(1)) {
            1 => format!("one for each operation of {}", show_size(block)),
            calls => format!("{calls} for each operation of {} (rsize=wsize={size})", show_size(block)),
        }
    };
    joined(&sizes, one)
}

/// The actual working set, and that of the scenario if the scenario's is larger.
fn working_set(run: &Run, series: &Series, index: usize) -> String {
    let of_files = || run.file_sizes.get(index).copied().unwrap_or(0) * series.jobs_max() as u64;
    let used = run.working_sets.get(index).copied().filter(|used| *used > 0).unwrap_or_else(of_files);
    let sizes = show_size(series.working_set);
    match (series.work, used) {
        (Work::Transfers, 0) => format!("unknown; requested: {sizes}"),
        (Work::Transfers, used) if used < series.working_set => {
            format!("{} instead of {sizes}", size_text(used))
        }
        (Work::Transfers, _) => sizes,
        (Work::OpenRead, 0) => "unknown".to_owned(),
        (Work::OpenRead, used) => format!("{} of small files", size_text(used)),
        (Work::Metadata, _) => "none".to_owned(),
        (Work::EdaBlend, 0) => "the files of the job sets".to_owned(),
        (Work::EdaBlend, used) => format!("{}: the files of the most job sets", size_text(used)),
    }
}

/// Accepts sizes that are not whole multiples of a large unit.
fn size_text(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB")];
    let of = units.into_iter().find(|(shift, _)| bytes >> shift > 0).filter(|_| !bytes.is_power_of_two());
    of.map_or_else(
        || show_size(bytes),
        |(shift, unit)| {
            let value = bytes as f64 / (1u64 << shift) as f64;
            if bytes.is_multiple_of(1 << shift) {
                show_size(bytes)
            } else {
                format!("{} {unit}", Value::figure(value))
            }
        },
    )
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
