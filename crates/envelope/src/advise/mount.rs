//! How clients should mount, and what they should be.

use super::constraint::Load;
use super::{Access, Workload, mib};
use crate::source::{A5, F4, OWN, PAGE_000, PAGE_004};
use crate::{Bytes, BytesPerSecond, Level, Pool, Protocol, Provider, Source};
use serde::Serialize;

/// Recommended options, with their reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// For `mount -o`.
    pub options: String,
    /// Each that is not a matter of course.
    pub why: Vec<Why>,
    /// Connections of each client.
    pub connections: u32,
    /// The largest READ and WRITE.
    #[serde(skip)]
    pub(super) transfer: Bytes,
}

/// An advice and who gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// What to do.
    pub what: String,
    /// What for.
    pub why: String,
    /// Who says so.
    pub source: Source,
}

/// Reads that are so many thousandths of a load make it read-mostly.
const READ_MOSTLY: u32 = 900;
/// Where a Filestore instance has the larger band's connections.
const FILESTORE_LARGE: Bytes = Bytes::tib(10);

fn why(what: impl Into<String>, why: impl Into<String>, source: Source) -> Why {
    Why { what: what.into(), why: why.into(), source }
}

impl Mount {
    /// For clients of such a pool.
    pub(super) fn of(pool: &Pool, workload: &Workload) -> Self {
        if workload.protocol == Protocol::Smb {
            return Self::smb();
        }
        let mut mount = match pool.level.info().provider {
            Provider::Anf => Self::anf(),
            Provider::Gcnv => Self::gcnv(pool.level),
            Provider::Filestore => Self::filestore(pool),
            Provider::Plimsoll => Self::own(),
        };
        mount.connections = workload.connections.unwrap_or(mount.connections);
        let version = match workload.protocol {
            Protocol::NfsV41 => "4.1",
            Protocol::NfsV42 => "4.2",
            Protocol::NfsV3 | Protocol::Smb => "3",
        };
        mount.options = format!("vers={version},{},nconnect={}", mount.options, mount.connections);
        mount.for_load(pool.level, workload);
        mount
    }

    fn anf() -> Self {
        Self {
            options: "hard,tcp,timeo=600,rsize=262144,wsize=262144,noatime,_netdev".to_owned(),
            why: vec![
                why("rsize=262144,wsize=262144", "recommended; up to 1,048,576 is negotiated", A5),
                why(
                    "nconnect=8",
                    "8 was found best of at most 16; the first mount of an address sets it for all",
                    A5,
                ),
            ],
            connections: 8,
            transfer: Bytes(256 << 10),
        }
    }

    fn gcnv(level: Level) -> Self {
        let flex = level == Level::GcnvFlexCustom;
        let transfer: u64 = if flex { 64 << 10 } else { 256 << 10 };
        let text = if flex { "measured with it" } else { "the largest block that was measured in one piece" };
        Self {
            options: format!("hard,tcp,timeo=600,rsize={transfer},wsize={transfer}"),
            why: vec![
                why(format!("rsize={transfer},wsize={transfer}"), text, PAGE_000),
                why("nconnect=16", "measured with it", PAGE_000),
            ],
            connections: 16,
            transfer: Bytes(transfer),
        }
    }

    fn filestore(pool: &Pool) -> Self {
        let basic = matches!(pool.level, Level::FilestoreBasicHdd | Level::FilestoreBasicSsd);
        let large = pool.size >= FILESTORE_LARGE && !basic && pool.level != Level::FilestoreEnterprise;
        let (read, connections) = (if basic { 1 << 20 } else { 512 << 10 }, if large { 7 } else { 2 });
        let band = if large { "10 TiB and more" } else { "less than 10 TiB, and Enterprise" };
        Self {
            options: format!("hard,timeo=600,retrans=3,rsize={read},wsize=524288,resvport,async"),
            why: vec![
                why(format!("rsize={read},wsize=524288"), "recommended", F4),
                why(
                    format!("nconnect={connections}"),
                    format!("recommended for {band}; Linux 5.3 or later"),
                    F4,
                ),
            ],
            connections,
            transfer: Bytes(512 << 10),
        }
    }

    fn own() -> Self {
        Self {
            options: "hard,tcp,timeo=600,rsize=1048576,wsize=1048576,noatime".to_owned(),
            why: vec![why("rsize=1048576,wsize=1048576", "the largest that is served", OWN)],
            connections: 4,
            transfer: Bytes(1 << 20),
        }
    }

    fn smb() -> Self {
        Self {
            options: "vers=3.1.1,multichannel,max_channels=4".to_owned(),
            why: vec![why(
                "ConnectionCountPerRssNetworkInterface 16 on Windows",
                "measured with it; max_channels is its like on Linux",
                PAGE_000,
            )],
            connections: 4,
            transfer: Bytes(1 << 20),
        }
    }

    /// What the load asks for besides.
    fn for_load(&mut self, level: Level, workload: &Workload) {
        let streams = &workload.streams;
        let load = Load { streams };
        let eda = streams.iter().any(|stream| stream.access == Access::Eda);
        let read_mostly = !streams.is_empty() && load.read_thousandths() >= READ_MOSTLY;
        if eda || read_mostly {
            let text = "nocto takes away 65 to 70 % of GETATTR and actimeo another 20 to 25 % of trees that are mostly \
                        read; only where clients need not see each other's changes at once";
            self.why.push(why("nocto,actimeo=600", text, A5));
        }
        let sequential = |access| matches!(access, Access::Sequential);
        if streams.iter().any(|stream| sequential(stream.access) && stream.read_thousandths > 0) {
            let source = if level.info().provider == Provider::Filestore { F4 } else { A5 };
            let text = "for buffered sequential reads: more than the kernel's own read-ahead";
            self.why.push(why("a larger read_ahead_kb", text, source));
        }
        if eda && workload.protocol != Protocol::NfsV3 {
            self.why.push(why("NFSv3", "performs better than NFSv4.1 for EDA", PAGE_004));
        }
    }
}

/// What each client has to carry.
pub(super) fn of_client(workload: &Workload, measured_on: Option<(u32, &str, Source)>) -> Vec<Why> {
    let mut advice = Vec::new();
    let load = Load { streams: &workload.streams };
    if let Some(clients) = workload.clients
        && !workload.streams.is_empty()
    {
        let each = |rate: BytesPerSecond| BytesPerSecond(rate.0.div_ceil(u64::from(clients)));
        let (reads, writes) = (each(load.reads()), each(load.writes()));
        let bits = (u128::from(reads.0.max(writes.0)) * 8).div_ceil(1_000_000_000);
        advice.push(why(
            format!("a network of {bits} Gbit/s or more for each client"),
            format!("each of {clients} reads {} and writes {} at the peak", mib(reads), mib(writes)),
            OWN,
        ));
    }
    if let Some((clients, machine, source)) = measured_on {
        let text = format!("the envelope was measured from {clients} × {machine}");
        advice.push(why("client machines like those of the page", text, source));
    }
    advice
}
