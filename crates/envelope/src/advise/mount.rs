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

/// What a service recommends, and why.
struct Basis {
    options: String,
    transfer: Bytes,
    transfer_why: Why,
    connections: u32,
    connections_why: String,
    source: Source,
}

impl Mount {
    /// For clients of such a pool.
    pub(super) fn of(pool: &Pool, workload: &Workload) -> Self {
        if workload.protocol == Protocol::Smb {
            return Self::smb();
        }
        let basis = match pool.level.info().provider {
            Provider::Anf => Basis::anf(),
            Provider::Gcnv => Basis::gcnv(pool.level),
            Provider::Filestore => Basis::filestore(pool),
            Provider::Plimsoll => Basis::own(),
        };
        let version = match workload.protocol {
            Protocol::NfsV41 => "4.1",
            Protocol::NfsV42 => "4.2",
            Protocol::NfsV3 | Protocol::Smb => "3",
        };
        let connections = workload.connections.unwrap_or(basis.connections);
        let text = match workload.connections {
            Some(asked) if asked != basis.connections => {
                format!("as asked; recommended is {}: {}", basis.connections, basis.connections_why)
            }
            _ => basis.connections_why,
        };
        let mut mount = Self {
            options: format!("vers={version},{},nconnect={connections}", basis.options),
            why: vec![basis.transfer_why, why(format!("nconnect={connections}"), text, basis.source)],
            connections,
            transfer: basis.transfer,
        };
        mount.for_load(pool.level, workload);
        mount
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

impl Basis {
    fn anf() -> Self {
        let transfer = "rsize=262144,wsize=262144";
        Self {
            options: format!("hard,tcp,timeo=600,{transfer},noatime,_netdev"),
            transfer: Bytes(256 << 10),
            transfer_why: why(transfer, "recommended; up to 1,048,576 is negotiated", A5),
            connections: 8,
            connections_why: "found best of at most 16; the first mount of an address sets it for all"
                .to_owned(),
            source: A5,
        }
    }

    fn gcnv(level: Level) -> Self {
        let flex = level == Level::GcnvFlexCustom;
        let bytes: u64 = if flex { 64 << 10 } else { 256 << 10 };
        let text = if flex { "measured with it" } else { "the largest block that was measured in one piece" };
        let transfer = format!("rsize={bytes},wsize={bytes}");
        Self {
            options: format!("hard,tcp,timeo=600,{transfer}"),
            transfer: Bytes(bytes),
            transfer_why: why(transfer, text, PAGE_000),
            connections: 16,
            connections_why: "measured with it".to_owned(),
            source: PAGE_000,
        }
    }

    fn filestore(pool: &Pool) -> Self {
        let basic = matches!(pool.level, Level::FilestoreBasicHdd | Level::FilestoreBasicSsd);
        let large = pool.size >= FILESTORE_LARGE && !basic && pool.level != Level::FilestoreEnterprise;
        let (read, connections) = (if basic { 1 << 20 } else { 512 << 10 }, if large { 7 } else { 2 });
        let band = if large { "10 TiB and more" } else { "less than 10 TiB, and Enterprise" };
        let transfer = format!("rsize={read},wsize=524288");
        Self {
            options: format!("hard,timeo=600,retrans=3,{transfer},resvport,async"),
            transfer: Bytes(512 << 10),
            transfer_why: why(transfer, "recommended", F4),
            connections,
            connections_why: format!("recommended for {band}; Linux 5.3 or later"),
            source: F4,
        }
    }

    fn own() -> Self {
        let transfer = "rsize=1048576,wsize=1048576";
        Self {
            options: format!("hard,tcp,timeo=600,{transfer},noatime"),
            transfer: Bytes(1 << 20),
            transfer_why: why(transfer, "the largest that is served", OWN),
            connections: 4,
            connections_why:
                "more than one connection lets a client use more than one of the server's threads".to_owned(),
            source: OWN,
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
        let who = if clients == 1 { "it".to_owned() } else { format!("each of {clients}") };
        let bits = (u128::from(reads.0.max(writes.0)) * 8).div_ceil(1_000_000_000);
        advice.push(why(
            format!("a network of {bits} Gbit/s or more for each client"),
            format!("{who} reads {} and writes {} at the peak", mib(reads), mib(writes)),
            OWN,
        ));
    }
    if let Some((clients, machine, source)) = measured_on {
        let text = format!("the envelope was measured from {clients} × {machine}");
        advice.push(why("client machines like those of the page", text, source));
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Stream;
    use crate::{Iops, Provider};

    fn of(level: Level, tib: u64, change: fn(&mut Workload)) -> Mount {
        let mut workload = Workload::new(Bytes::tib(1));
        change(&mut workload);
        Mount::of(&Pool::new(level, Bytes::tib(tib)), &workload)
    }

    fn says(mount: &Mount, what: &str) -> Option<String> {
        mount.why.iter().find(|one| one.what == what).map(|one| format!("{} [{}]", one.why, one.source.tag))
    }

    #[test]
    fn each_service_has_its_own_options() {
        let anf = of(Level::AnfUltra, 4, |_| ());
        assert_eq!(
            anf.options,
            "vers=3,hard,tcp,timeo=600,rsize=262144,wsize=262144,noatime,_netdev,nconnect=8"
        );
        let flex = of(Level::GcnvFlexCustom, 4, |workload| workload.protocol = Protocol::NfsV41);
        assert_eq!(flex.options, "vers=4.1,hard,tcp,timeo=600,rsize=65536,wsize=65536,nconnect=16");
        for (level, tib, connections, rsize) in [
            (Level::FilestoreZonal, 9, 2, 524_288),
            (Level::FilestoreZonal, 10, 7, 524_288),
            (Level::FilestoreEnterprise, 10, 2, 524_288),
            (Level::FilestoreBasicSsd, 20, 2, 1_048_576),
        ] {
            let options = of(level, tib, |_| ()).options;
            assert!(options.contains(&format!("rsize={rsize},wsize=524288,")), "{level}: {options}");
            assert!(options.ends_with(&format!("nconnect={connections}")), "{level} of {tib} TiB: {options}");
        }
        assert!(
            of(Level::AnfUltra, 4, |workload| workload.protocol = Protocol::Smb)
                .options
                .starts_with("vers=3.1.1")
        );
        for level in Level::all() {
            let mount = of(*level, 4, |_| ());
            let own = level.info().provider == Provider::Plimsoll;
            assert!(own || mount.why.iter().all(|one| one.source != OWN), "{level}");
        }
    }

    #[test]
    fn what_is_asked_for_stands_and_the_recommendation_beside_it() {
        let asked = of(Level::AnfUltra, 4, |workload| workload.connections = Some(2));
        assert!(asked.options.ends_with("nconnect=2"), "{}", asked.options);
        let text = says(&asked, "nconnect=2").unwrap();
        assert_eq!(
            text,
            "as asked; recommended is 8: found best of at most 16; the first mount of an address sets it for all [A5]"
        );
    }

    #[test]
    fn loads_ask_for_more() {
        let random = |reads| Stream::of_iops(Access::Random, Bytes(8192), reads, Iops(1));
        let attributes = "nocto,actimeo=600";
        assert!(says(&of(Level::AnfUltra, 4, |_| ()), attributes).is_none());
        let with = |stream| {
            let workload = Workload { streams: vec![stream], ..Workload::new(Bytes::tib(1)) };
            Mount::of(&Pool::new(Level::AnfUltra, Bytes::tib(4)), &workload)
        };
        assert!(says(&with(random(899)), attributes).is_none());
        assert!(says(&with(random(900)), attributes).unwrap().ends_with("[A5]"));
        assert!(says(&with(Stream::eda(Iops(1))), attributes).is_some());
        let sequential = Stream { access: Access::Sequential, ..random(10) };
        assert!(says(&with(sequential), "a larger read_ahead_kb").is_some());
        assert!(says(&with(random(1000)), "a larger read_ahead_kb").is_none());
    }
}
