//! Collects all metrics when a client asks for them.

use super::family::{Document, Family, Seconds};
use crate::core::Core;
use crate::plane::{Nfs4State, RECENT_USE, VolumeConnections};
use crate::process::Process;
use control::{PAGE_MAX, Page, Pool, Result, Volume};
use envelope::Protocol;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU64;
use vfs::Usage;
use vfs::qos::{Kind, Limits, Throttled, VolumeLimits};
use vfs::volume::traffic::{INTERVALS, OperationCounts, ReadCounts};

/// A volume as its metrics show it.
struct VolumeFigures {
    volume: Volume,
    usage: Usage,
    /// The most files that it may hold, if there is such a number.
    files_max: Option<u64>,
    counted: [OperationCounts; Kind::COUNT],
    /// The sources of READ data, if the storage counts them.
    reads: Option<ReadCounts>,
    /// Connections that use it, by the address that they have reached.
    connections: BTreeMap<IpAddr, usize>,
    throttled: Throttled,
    waiting: usize,
    limits: VolumeLimits,
}

/// The intervals that are shown: every second end, which is enough to tell memory from disks from throttling.
const INTERVAL_STEP: usize = 2;

/// All metrics.
pub(crate) fn gather(core: &Core) -> Result<String> {
    let users = core.plane.volume_connections(RECENT_USE);
    let volumes: Vec<VolumeFigures> = all(|after| core.service.volumes(after, PAGE_MAX))?
        .into_iter()
        .map(|volume| shown(core, volume, &users))
        .collect();
    let pools = all(|after| core.service.pools(after, PAGE_MAX))?;
    let mut document = Document::default();
    traffic(&mut document, &volumes);
    reads(&mut document, &volumes);
    connections(&mut document, &volumes);
    endpoints(&mut document, core, &volumes);
    throttling(&mut document, &volumes);
    limits(&mut document, &volumes);
    capacity(&mut document, &volumes);
    pooled(&mut document, &pools, &volumes)?;
    plane(&mut document, core);
    process(&mut document, Process::own());
    Ok(document.finish())
}

fn all<T>(page: impl Fn(Option<&str>) -> Result<Page<T>>) -> Result<Vec<T>> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let Page { items: more, next } = page(after.as_deref())?;
        items.extend(more);
        if next.is_none() {
            return Ok(items);
        }
        after = next;
    }
}

fn shown(core: &Core, volume: Volume, users: &VolumeConnections) -> VolumeFigures {
    let served = core.served(&volume);
    let served = served.as_ref();
    let (throttled, waiting) = served.map(|served| served.gate().throttled()).unwrap_or_default();
    let counted = Kind::ALL
        .map(|kind| served.map(|served| served.traffic().operation_counts(kind)).unwrap_or_default());
    let files_max = served.and_then(|served| served.stat().ok()).map(|stat| stat.files_total);
    VolumeFigures {
        counted,
        reads: served.and_then(|served| served.reads()),
        connections: users.get(&volume.id).cloned().unwrap_or_default(),
        files_max: files_max.filter(|&files| files < u64::MAX),
        throttled,
        waiting,
        limits: served.map(|served| served.gate().limits()).unwrap_or_default(),
        // A volume that is being made or removed holds nothing that could be told.
        usage: core.service.usage(&volume.name).unwrap_or_default(),
        volume,
    }
}

fn direction(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Other => "other",
    }
}

/// A sample of each volume and direction.
fn each<V: std::fmt::Display>(
    family: &mut Family<'_>,
    volumes: &[VolumeFigures],
    value: impl Fn(&VolumeFigures, Kind) -> V,
) {
    for shown in volumes {
        for kind in Kind::ALL {
            let labels = [("volume", shown.volume.name.as_str()), ("direction", direction(kind))];
            family.sample(&labels, value(shown, kind));
        }
    }
}

fn traffic(document: &mut Document, volumes: &[VolumeFigures]) {
    let mut operations = document.counter("plimsoll_volume_operations_total", "Operations answered.");
    each(&mut operations, volumes, |shown, kind| shown.counted[kind.index()].ops);
    let mut bytes = document.counter("plimsoll_volume_bytes_total", "Bytes of data read or written.");
    each(&mut bytes, volumes, |shown, kind| shown.counted[kind.index()].bytes);
    let mut times = document.histogram(
        "plimsoll_volume_operation_seconds",
        "Time from the arrival of a call to the end of its reply.",
    );
    for shown in volumes {
        for kind in Kind::ALL {
            let counted = &shown.counted[kind.index()];
            let own = [("volume", shown.volume.name.as_str()), ("direction", direction(kind))];
            let mut sum = 0;
            for (interval, operations) in counted.intervals[..INTERVALS - 1].iter().enumerate() {
                sum += operations;
                if interval % INTERVAL_STEP == 0 {
                    let end = Seconds(1000 << interval).to_string();
                    times.suffixed("_bucket", &[own[0], own[1], ("le", &end)], sum);
                }
            }
            times.suffixed("_bucket", &[own[0], own[1], ("le", "+Inf")], counted.ops);
            times.suffixed("_sum", &own, Seconds(counted.nanos));
            times.suffixed("_count", &own, counted.ops);
        }
    }
}

fn reads(document: &mut Document, volumes: &[VolumeFigures]) {
    type Of = fn(&ReadCounts) -> u64;
    let families: [(&str, &str, Of); 2] = [
        (
            "plimsoll_volume_reads_from_memory_total",
            "READs served from memory, including read-ahead; no series if the file system cannot tell.",
            |reads| reads.from_memory,
        ),
        (
            "plimsoll_volume_reads_from_storage_total",
            "READs that waited for storage for at least a part of their data; no series if the file system \
             cannot tell.",
            |reads| reads.from_storage,
        ),
    ];
    for (name, help, of) in families {
        let mut family = document.counter(name, help);
        for shown in volumes {
            let labels = [("volume", shown.volume.name.as_str())];
            shown.reads.iter().for_each(|reads| family.sample(&labels, of(reads)));
        }
    }
}

fn connections(document: &mut Document, volumes: &[VolumeFigures]) {
    let help = format!("Connections that a volume answered in the last {} seconds.", RECENT_USE.as_secs());
    let mut family = document.gauge("plimsoll_volume_connections", &help);
    for shown in volumes {
        family.sample(&[("volume", shown.volume.name.as_str())], shown.connections.values().sum::<usize>());
    }
}

fn endpoints(document: &mut Document, core: &Core, volumes: &[VolumeFigures]) {
    let mut reached: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for client in core.plane.clients() {
        client.endpoints.iter().for_each(|(at, connections)| *reached.entry(*at).or_default() += connections);
    }
    let help = "Client connections, by the service's address.";
    let mut family = document.gauge("plimsoll_endpoint_connections", help);
    for (endpoint, connections) in reached {
        family.sample(&[("endpoint", &endpoint.to_string())], connections);
    }
    let each = |family: &mut Family<'_>, value: &dyn Fn(&VolumeFigures, &IpAddr) -> usize| {
        for shown in volumes {
            for endpoint in &shown.volume.endpoints {
                let address = endpoint.to_string();
                let labels = [("volume", shown.volume.name.as_str()), ("endpoint", address.as_str())];
                family.sample(&labels, value(shown, endpoint));
            }
        }
    };
    let help = format!(
        "Connections at an endpoint that its volume answered in the last {} seconds.",
        RECENT_USE.as_secs()
    );
    let mut family = document.gauge("plimsoll_volume_endpoint_connections", &help);
    each(&mut family, &|shown, at| shown.connections.get(at).copied().unwrap_or_default());
    let failures = core.service.not_listening();
    let help = "Whether the service listens at an endpoint of a volume.";
    let mut family = document.gauge("plimsoll_volume_endpoint_up", help);
    each(&mut family, &|_, at| usize::from(!failures.contains_key(at)));
}

fn throttling(document: &mut Document, volumes: &[VolumeFigures]) {
    let name = "plimsoll_volume_throttled_operations_total";
    let mut calls = document.counter(name, "Operations delayed by a limit.");
    each(&mut calls, volumes, |shown, kind| shown.throttled.calls[kind.index()]);
    let name = "plimsoll_volume_throttle_seconds_total";
    let mut waited = document.counter(name, "Total delay of operations by a limit.");
    each(&mut waited, volumes, |shown, kind| Seconds(shown.throttled.waited[kind.index()].0));
    let name = "plimsoll_volume_waiting_operations";
    let mut waiting = document.gauge(name, "Operations now waiting for a limit.");
    for shown in volumes {
        waiting.sample(&[("volume", shown.volume.name.as_str())], shown.waiting);
    }
}

/// The limits that there are, by the direction that they are for.
fn rates(limits: &Limits) -> [(&'static str, Option<NonZeroU64>, Option<NonZeroU64>); 3] {
    [
        ("read", limits.read_bytes, limits.read_ops),
        ("write", limits.write_bytes, limits.write_ops),
        ("all", limits.bytes, limits.ops),
    ]
}

fn limits(document: &mut Document, volumes: &[VolumeFigures]) {
    type Of = fn(&VolumeLimits) -> &Limits;
    let families: [(&str, &str, &str, Of); 2] = [
        (
            "plimsoll_volume_limit_bytes_per_second",
            "plimsoll_volume_limit_operations_per_second",
            "of a volume",
            |limits| &limits.all,
        ),
        (
            "plimsoll_volume_client_limit_bytes_per_second",
            "plimsoll_volume_client_limit_operations_per_second",
            "of each client of a volume",
            |limits| &limits.per_client,
        ),
    ];
    for (bytes, operations, whose, of) in families {
        let mut family = document.gauge(bytes, &format!("Limit {whose}; unlimited if missing."));
        for shown in volumes {
            for (direction, bytes, _) in rates(of(&shown.limits)) {
                let labels = [("volume", shown.volume.name.as_str()), ("direction", direction)];
                bytes.into_iter().for_each(|bytes| family.sample(&labels, bytes));
            }
        }
        let mut family = document.gauge(operations, &format!("Limit {whose}; unlimited if missing."));
        for shown in volumes {
            for (direction, _, operations) in rates(of(&shown.limits)) {
                let labels = [("volume", shown.volume.name.as_str()), ("direction", direction)];
                operations.into_iter().for_each(|operations| family.sample(&labels, operations));
            }
        }
    }
}

fn capacity(document: &mut Document, volumes: &[VolumeFigures]) {
    type Value = fn(&VolumeFigures) -> Option<u64>;
    let families: [(&str, &str, Value); 4] = [
        ("plimsoll_volume_capacity_bytes", "Size of a volume.", |shown| Some(shown.volume.size.0)),
        ("plimsoll_volume_used_bytes", "Used bytes of a volume.", |shown| Some(shown.usage.bytes)),
        ("plimsoll_volume_files", "Maximum number of files of a volume; unlimited if missing.", |shown| {
            shown.files_max
        }),
        ("plimsoll_volume_files_used", "Files and directories in a volume.", |shown| Some(shown.usage.files)),
    ];
    for (name, help, value) in families {
        let mut family = document.gauge(name, help);
        for shown in volumes {
            let labels = [("volume", shown.volume.name.as_str())];
            value(shown).into_iter().for_each(|value| family.sample(&labels, value));
        }
    }
    let mut info = document.gauge("plimsoll_volume_info", "The pool and the state of a volume; always 1.");
    for VolumeFigures { volume, .. } in volumes {
        let labels = [
            ("volume", volume.name.as_str()),
            ("pool", volume.pool.as_str()),
            ("state", volume.state.as_str()),
        ];
        info.sample(&labels, 1);
    }
}

fn pooled(document: &mut Document, pools: &[Pool], volumes: &[VolumeFigures]) -> Result<()> {
    let mut totals: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for shown in volumes {
        let (count, allocated, used) = totals.entry(shown.volume.pool.as_str()).or_default();
        *count += 1;
        *allocated = allocated.saturating_add(shown.volume.size.0);
        *used = used.saturating_add(shown.usage.bytes);
    }
    let of = |pool: &Pool| totals.get(pool.name.as_str()).copied().unwrap_or_default();
    type Value<'a> = &'a dyn Fn(&Pool) -> u64;
    let families: [(&str, &str, Value<'_>); 4] = [
        ("plimsoll_pool_capacity_bytes", "Size of a pool.", &|pool| pool.size.0),
        ("plimsoll_pool_allocated_bytes", "Total size of a pool's volumes.", &|pool| of(pool).1),
        ("plimsoll_pool_used_bytes", "Used bytes of a pool's volumes.", &|pool| of(pool).2),
        ("plimsoll_pool_volumes", "Volumes of a pool.", &|pool| of(pool).0),
    ];
    for (name, help, value) in families {
        let mut family = document.gauge(name, help);
        pools.iter().for_each(|pool| family.sample(&[("pool", pool.name.as_str())], value(pool)));
    }
    pool_limits(document, pools)
}

fn pool_limits(document: &mut Document, pools: &[Pool]) -> Result<()> {
    let mut shared = Vec::new();
    for pool in pools {
        let limits = pool.limits()?;
        if limits.owner == envelope::Owner::Pool {
            shared.push((pool, limits.total));
        }
    }
    let name = "plimsoll_pool_limit_bytes_per_second";
    let mut family = document.gauge(name, "Limit that a pool's volumes share; unlimited if missing.");
    for (pool, total) in &shared {
        for (direction, rate) in [("read", total.read), ("write", total.write), ("all", total.combined)] {
            let labels = [("pool", pool.name.as_str()), ("direction", direction)];
            rate.into_iter().for_each(|rate| family.sample(&labels, rate.0));
        }
    }
    let name = "plimsoll_pool_limit_operations_per_second";
    let mut family = document.gauge(name, "Limit that a pool's volumes share; unlimited if missing.");
    for (pool, total) in &shared {
        let rates = [("read", total.read_iops), ("write", total.write_iops), ("all", total.combined_iops)];
        for (direction, rate) in rates {
            let labels = [("pool", pool.name.as_str()), ("direction", direction)];
            rate.into_iter().for_each(|rate| family.sample(&labels, rate.0));
        }
    }
    Ok(())
}

fn plane(document: &mut Document, core: &Core) {
    let stats = core.plane.stats();
    let spilled = "Bytes of incomplete calls outside of receive buffers.";
    let gauges = [
        ("plimsoll_connections", "Connections of clients.", stats.connections),
        ("plimsoll_connections_max", "Maximum number of client connections.", stats.connections_max),
        ("plimsoll_queued_bytes", "Bytes of calls that wait for a limit.", stats.queued_bytes),
        ("plimsoll_unread_bytes", "Bytes of replies that clients have not read.", stats.unread_bytes),
        ("plimsoll_spilled_bytes", spilled, stats.spilled_bytes),
    ];
    for (name, help, value) in gauges {
        document.gauge(name, help).sample(&[], value);
    }
    let waiting: u64 = core.plane.clients().iter().map(|client| client.waiting).sum();
    let help = "Calls that wait for storage, a flush or a limit. A long call counts several times.";
    document.gauge("plimsoll_waiting_calls", help).sample(&[], waiting);
    nfs_calls(document, core);
    nfs4(document, core);
    smb(document, core);
    let name = "plimsoll_handle_cache_hits_total";
    document.counter(name, "File handles found in the cache.").sample(&[], stats.handle_hits);
    let name = "plimsoll_handle_cache_misses_total";
    document.counter(name, "File handles missing from the cache.").sample(&[], stats.handle_misses);
    let help = "Caught panics; the service abandoned the work that caused each.";
    document.counter("plimsoll_panics_total", help).sample(&[], stats.panics);
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    document.gauge("plimsoll_build_info", "Version of the service; always 1.").sample(&labels, 1);
}

/// Calls by version.
fn nfs_calls(document: &mut Document, core: &Core) {
    let counted = core.plane.nfs_calls();
    let name = |protocol| api_client::model::Protocol::from(protocol).as_str();
    let mut calls = document.counter("plimsoll_nfs_calls_total", "Received NFS calls.");
    for version in &counted {
        calls.sample(&[("protocol", name(version.protocol))], version.calls);
    }
    let help = "Requested NFS operations; each operation of an NFSv4 compound counts. Operations without \
        requests have no series.";
    let mut operations = document.counter("plimsoll_nfs_operations_total", help);
    for version in &counted {
        for (operation, count) in &version.operations {
            operations.sample(&[("protocol", name(version.protocol)), ("operation", operation)], count);
        }
    }
}

/// The state of SMB, if it is served.
fn smb(document: &mut Document, core: &Core) {
    let Some(served) = core.plane.smb() else { return };
    let gauges = [
        ("plimsoll_smb_connections", "Connections of SMB clients.", served.connections),
        ("plimsoll_smb_sessions", "SMB sessions.", served.sessions),
        ("plimsoll_smb_open_files", "Open files and pipes of SMB clients.", served.opens),
    ];
    for (name, help, value) in gauges {
        document.gauge(name, help).sample(&[], value);
    }
    let help = "Refused SMB logins.";
    document.counter("plimsoll_smb_refused_logins_total", help).sample(&[], served.refused_logins);
}

/// A number of things that a client of NFSv4 has.
type Count = fn(&Nfs4State) -> usize;

/// The state of NFSv4 clients, by the newest version of each.
fn nfs4(document: &mut Document, core: &Core) {
    let clients: Vec<Nfs4State> = core.plane.clients().into_iter().flat_map(|client| client.nfs4).collect();
    let gauges: [(_, _, Count); 5] = [
        ("plimsoll_nfs4_clients", "Clients of NFSv4, connected or not.", |_| 1),
        ("plimsoll_nfs4_sessions", "Sessions of NFSv4 clients.", |client| client.sessions),
        ("plimsoll_nfs4_open_files", "Open files of NFSv4 clients.", |client| client.opens),
        ("plimsoll_nfs4_locked_ranges", "Locked byte ranges of NFSv4 clients.", |client| client.ranges),
        ("plimsoll_nfs4_delegations", "Delegations of NFSv4 clients.", |client| client.delegations),
    ];
    for (name, help, value) in gauges {
        let mut family = document.gauge(name, help);
        for protocol in [Protocol::NfsV40, Protocol::NfsV41, Protocol::NfsV42] {
            let speaks = |client: &&Nfs4State| client.protocols.iter().last() == Some(protocol);
            let sum: usize = clients.iter().filter(speaks).map(value).sum();
            let name = api_client::model::Protocol::from(protocol).as_str();
            family.sample(&[("protocol", name)], sum);
        }
    }
}

fn process(document: &mut Document, process: Process) {
    let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let gauges = [
        ("process_open_fds", "Open descriptors.", process.open_descriptors.map(number)),
        ("process_max_fds", "Maximum number of descriptors.", process.descriptors_max),
        ("process_resident_memory_bytes", "Resident memory.", process.resident_bytes),
        ("process_virtual_memory_bytes", "Virtual memory.", process.virtual_bytes),
        ("process_threads", "Threads.", process.threads),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            document.gauge(name, help).sample(&[], value);
        }
    }
    if let Some(ticks) = process.cpu_ticks {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(process.ticks_per_second.max(1));
        let seconds = Seconds(u64::try_from(nanos).unwrap_or(u64::MAX));
        document
            .counter("process_cpu_seconds_total", "Processor time, user and system.")
            .sample(&[], seconds);
    }
}
