//! Collects all metrics when a client asks for them.

use super::family::{Document, Family, Seconds};
use super::{families, snapshots};
use crate::core::Core;
use crate::plane::{Nfs4State, RECENT_USE, VolumeConnections};
use crate::process::Process;
use control::{PAGE_MAX, Page, Pool, Replication, ReplicationStatus, Result, Volume};
use envelope::Protocol;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU64;
use vfs::Usage;
use vfs::qos::{Kind, Limits, Throttled, VolumeLimits};
use vfs::volume::traffic::{INTERVALS, OperationCounts, ReadCounts};

/// A volume as its metrics show it.
pub(super) struct VolumeFigures {
    pub(super) volume: Volume,
    usage: Usage,
    pub(super) snapshots: snapshots::Shown,
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
    replications(&mut document, core)?;
    snapshots::add(&mut document, &volumes);
    pooled(&mut document, &pools, &volumes)?;
    super::backups::backups(&mut document, core)?;
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
    // A volume that is being made or removed holds nothing that could be told.
    let space = core.service.space(&volume.name).unwrap_or_default();
    VolumeFigures {
        counted,
        reads: served.and_then(|served| served.reads()),
        connections: users.get(&volume.id).cloned().unwrap_or_default(),
        files_max: files_max.filter(|&files| files < u64::MAX),
        throttled,
        waiting,
        limits: served.map(|served| served.gate().limits()).unwrap_or_default(),
        usage: space.used,
        snapshots: snapshots::Shown {
            figures: core.service.snapshot_figures(&volume).unwrap_or_default(),
            space,
        },
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
    let mut operations = document.family(families::VOLUME_OPERATIONS);
    each(&mut operations, volumes, |shown, kind| shown.counted[kind.index()].ops);
    let mut bytes = document.family(families::VOLUME_BYTES);
    each(&mut bytes, volumes, |shown, kind| shown.counted[kind.index()].bytes);
    let mut times = document.family(families::VOLUME_OPERATION_TIME);
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
    let counters: [(_, Of); 2] = [
        (families::VOLUME_READS_FROM_MEMORY, |reads| reads.from_memory),
        (families::VOLUME_READS_FROM_STORAGE, |reads| reads.from_storage),
    ];
    for (family, of) in counters {
        let mut family = document.family(family);
        for shown in volumes {
            let labels = [("volume", shown.volume.name.as_str())];
            shown.reads.iter().for_each(|reads| family.sample(&labels, of(reads)));
        }
    }
}

fn connections(document: &mut Document, volumes: &[VolumeFigures]) {
    let mut family = document.family(families::VOLUME_CONNECTIONS);
    for shown in volumes {
        family.sample(&[("volume", shown.volume.name.as_str())], shown.connections.values().sum::<usize>());
    }
}

fn endpoints(document: &mut Document, core: &Core, volumes: &[VolumeFigures]) {
    let mut reached: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for client in core.plane.clients() {
        client.endpoints.iter().for_each(|(at, connections)| *reached.entry(*at).or_default() += connections);
    }
    let mut family = document.family(families::ENDPOINT_CONNECTIONS);
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
    let mut family = document.family(families::VOLUME_ENDPOINT_CONNECTIONS);
    each(&mut family, &|shown, at| shown.connections.get(at).copied().unwrap_or_default());
    let failures = core.service.not_listening();
    let mut family = document.family(families::VOLUME_ENDPOINT_UP);
    each(&mut family, &|_, at| usize::from(!failures.contains_key(at)));
}

fn throttling(document: &mut Document, volumes: &[VolumeFigures]) {
    let mut calls = document.family(families::VOLUME_THROTTLED);
    each(&mut calls, volumes, |shown, kind| shown.throttled.calls[kind.index()]);
    let mut waited = document.family(families::VOLUME_THROTTLE_TIME);
    each(&mut waited, volumes, |shown, kind| Seconds(shown.throttled.waited[kind.index()].0));
    let mut waiting = document.family(families::VOLUME_WAITING);
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
    let all: [(_, _, Of); 2] = [
        (families::VOLUME_LIMIT_BYTES, families::VOLUME_LIMIT_OPERATIONS, |limits| &limits.all),
        (families::CLIENT_LIMIT_BYTES, families::CLIENT_LIMIT_OPERATIONS, |limits| &limits.per_client),
    ];
    for (bytes, operations, of) in all {
        let mut family = document.family(bytes);
        for shown in volumes {
            for (direction, bytes, _) in rates(of(&shown.limits)) {
                let labels = [("volume", shown.volume.name.as_str()), ("direction", direction)];
                bytes.into_iter().for_each(|bytes| family.sample(&labels, bytes));
            }
        }
        let mut family = document.family(operations);
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
    let gauges: [(_, Value); 4] = [
        (families::VOLUME_CAPACITY, |shown| Some(shown.volume.size.0)),
        (families::VOLUME_USED, |shown| Some(shown.usage.bytes)),
        (families::VOLUME_FILES, |shown| shown.files_max),
        (families::VOLUME_FILES_USED, |shown| Some(shown.usage.files)),
    ];
    for (family, value) in gauges {
        let mut family = document.family(family);
        for shown in volumes {
            let labels = [("volume", shown.volume.name.as_str())];
            value(shown).into_iter().for_each(|value| family.sample(&labels, value));
        }
    }
    let mut info = document.family(families::VOLUME_INFO);
    for VolumeFigures { volume, .. } in volumes {
        let labels = [
            ("volume", volume.name.as_str()),
            ("pool", volume.pool.as_str()),
            ("state", volume.state.as_str()),
        ];
        info.sample(&labels, 1);
    }
}

fn replications(document: &mut Document, core: &Core) -> Result<()> {
    let all = all(|after| core.service.replications(after, PAGE_MAX))?;
    let status = |one: Replication| Ok((core.service.replication_status(&one)?, one));
    let all = all.into_iter().map(status).collect::<Result<Vec<_>>>()?;
    let mut info = document.family(families::REPLICATION_INFO);
    for (status, one) in &all {
        let labels = [
            ("volume", one.volume.as_str()),
            ("source", one.source.as_str()),
            ("peer", one.peer.as_ref().map_or("", |peer| peer.as_str())),
            ("state", status.state.as_str()),
        ];
        info.sample(&labels, 1);
    }
    type Value = fn(&ReplicationStatus, &Replication) -> Option<u64>;
    let values: [(_, Value); 5] = [
        (families::REPLICATION_HEALTHY, |_, one| Some(one.is_healthy.into())),
        (families::REPLICATION_LAG, |status, _| status.lag_ms.map(|lag| lag / 1000)),
        (families::REPLICATION_LAST_TIME, |_, one| Some(one.last_transfer?.duration_ms.div_ceil(1000))),
        (families::REPLICATION_LAST_BYTES, |_, one| Some(one.last_transfer?.bytes)),
        (families::REPLICATION_BYTES, |_, one| Some(one.total_bytes)),
    ];
    for (family, value) in values {
        let mut family = document.family(family);
        for (status, one) in &all {
            let labels = [("volume", one.volume.as_str())];
            value(status, one).into_iter().for_each(|value| family.sample(&labels, value));
        }
    }
    Ok(())
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
    let gauges: [(_, Value<'_>); 4] = [
        (families::POOL_CAPACITY, &|pool| pool.size.0),
        (families::POOL_ALLOCATED, &|pool| of(pool).1),
        (families::POOL_USED, &|pool| of(pool).2),
        (families::POOL_VOLUMES, &|pool| of(pool).0),
    ];
    for (family, value) in gauges {
        let mut family = document.family(family);
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
    let mut family = document.family(families::POOL_LIMIT_BYTES);
    for (pool, total) in &shared {
        for (direction, rate) in [("read", total.read), ("write", total.write), ("all", total.combined)] {
            let labels = [("pool", pool.name.as_str()), ("direction", direction)];
            rate.into_iter().for_each(|rate| family.sample(&labels, rate.0));
        }
    }
    let mut family = document.family(families::POOL_LIMIT_OPERATIONS);
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
    let gauges = [
        (families::CONNECTIONS, stats.connections),
        (families::CONNECTIONS_MAX, stats.connections_max),
        (families::QUEUED, stats.queued_bytes),
        (families::UNREAD, stats.unread_bytes),
        (families::SPILLED, stats.spilled_bytes),
    ];
    for (family, value) in gauges {
        document.family(family).sample(&[], value);
    }
    let waiting: u64 = core.plane.clients().iter().map(|client| client.waiting).sum();
    document.family(families::WAITING_CALLS).sample(&[], waiting);
    nfs_calls(document, core);
    nfs4(document, core);
    smb(document, core);
    document.family(families::HANDLE_HITS).sample(&[], stats.handle_hits);
    document.family(families::HANDLE_MISSES).sample(&[], stats.handle_misses);
    document.family(families::PANICS).sample(&[], stats.panics);
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    document.family(families::BUILD_INFO).sample(&labels, 1);
    let mut endpoint = document.family(families::ENDPOINT_INFO);
    if let Some(placement) = core.plane.placement() {
        let labels = [("endpoint", placement.endpoint.as_str()), ("gateway", placement.gateway.as_str())];
        endpoint.sample(&labels, 1);
    }
}

/// Calls by version.
fn nfs_calls(document: &mut Document, core: &Core) {
    let counted = core.plane.nfs_calls();
    let name = |protocol| api_client::model::Protocol::from(protocol).as_str();
    let mut calls = document.family(families::NFS_CALLS);
    for version in &counted {
        calls.sample(&[("protocol", name(version.protocol))], version.calls);
    }
    let mut operations = document.family(families::NFS_OPERATIONS);
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
        (families::SMB_CONNECTIONS, served.connections),
        (families::SMB_SESSIONS, served.sessions),
        (families::SMB_OPEN_FILES, served.opens),
    ];
    for (family, value) in gauges {
        document.family(family).sample(&[], value);
    }
    document.family(families::SMB_REFUSED_LOGINS).sample(&[], served.refused_logins);
}

/// A number of things that a client of NFSv4 has.
type Count = fn(&Nfs4State) -> usize;

/// The state of NFSv4 clients, by the newest version of each.
fn nfs4(document: &mut Document, core: &Core) {
    let clients: Vec<Nfs4State> = core.plane.clients().into_iter().flat_map(|client| client.nfs4).collect();
    let gauges: [(_, Count); 5] = [
        (families::NFS4_CLIENTS, |_| 1),
        (families::NFS4_SESSIONS, |client| client.sessions),
        (families::NFS4_OPEN_FILES, |client| client.opens),
        (families::NFS4_LOCKED_RANGES, |client| client.ranges),
        (families::NFS4_DELEGATIONS, |client| client.delegations),
    ];
    for (family, value) in gauges {
        let mut family = document.family(family);
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
        (families::OPEN_DESCRIPTORS, process.open_descriptors.map(number)),
        (families::DESCRIPTORS_MAX, process.descriptors_max),
        (families::RESIDENT, process.resident_bytes),
        (families::VIRTUAL, process.virtual_bytes),
        (families::THREADS, process.threads),
    ];
    for (family, value) in gauges {
        if let Some(value) = value {
            document.family(family).sample(&[], value);
        }
    }
    if let Some(ticks) = process.cpu_ticks {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(process.ticks_per_second.max(1));
        let seconds = Seconds(u64::try_from(nanos).unwrap_or(u64::MAX));
        document.family(families::CPU).sample(&[], seconds);
    }
}
