//! Recommended mount options and clients.

use super::constraint::Load;
use super::{Access, Workload, mib};
use crate::source::{A5, F4, NFS5, OWN, PAGE_000, PAGE_001, PAGE_002, PAGE_004};
use crate::{Bytes, BytesPerSecond, Level, Pool, Protocol, Provider, Source};
use serde::Serialize;

/// Recommended options, with their reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The argument of `mount -o`.
    pub options: String,
    /// Reasons for the options that need one.
    pub why: Vec<Recommendation>,
    /// Connections of each client.
    pub connections: u32,
    /// Maximum size of READ and WRITE.
    #[serde(skip)]
    pub(super) transfer: Bytes,
}

/// A recommendation with its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recommendation {
    pub what: String,
    pub why: String,
    pub source: Source,
}

/// A Filestore instance of this size or more has the connections of the larger band.
const FILESTORE_LARGE: Bytes = Bytes::tib(10);
const GCNV_ADDRESSES: u32 = 6;
const ATTRIBUTES: &str = "nocto,actimeo=600";

const MEANINGS: &[(&str, &str, Source)] = &[
    ("vers", "the version of the protocol", NFS5),
    (
        "hard",
        "the client repeats a request for ever, so that no program sees an error while the server is away",
        PAGE_001,
    ),
    ("tcp", "over TCP", NFS5),
    (
        "timeo",
        "how long the client waits before it repeats a request, in tenths of a second: 600 are 60 s",
        PAGE_001,
    ),
    ("retrans", "how often it repeats one before it does more to recover", PAGE_001),
    ("rsize", "the most bytes of a READ", PAGE_001),
    ("wsize", "the most bytes of a WRITE", PAGE_001),
    ("noatime", "the client does not request access times", NFS5),
    ("_netdev", "the mount waits for the network at boot", NFS5),
    ("resvport", "the client calls from a privileged port", PAGE_001),
    ("async", "the client defers writes until memory, a sync or a close requires them", PAGE_001),
    ("nconnect", "TCP connections of the client, over which it spreads its calls", NFS5),
    ("nocto", "opening a file does not ask the server whether it changed", NFS5),
    ("actimeo", "for how many seconds the client believes attributes", NFS5),
    ("multichannel", "several TCP connections of an SMB session", OWN),
    ("max_channels", "how many of them", OWN),
];

fn why(what: impl Into<String>, why: impl Into<String>, source: Source) -> Recommendation {
    Recommendation { what: what.into(), why: why.into(), source }
}

struct Basis {
    options: String,
    transfer: Bytes,
    transfer_why: Recommendation,
    /// `None` for one connection, without the option.
    connections: Option<u32>,
    connections_why: String,
    connections_source: Source,
}

impl Mount {
    pub(super) fn of(pool: &Pool, large: bool, workload: &Workload) -> Self {
        if workload.protocol == Protocol::Smb {
            return Self::smb();
        }
        let is_eda = workload.is_all(Access::Eda);
        let basis = match pool.level.info().provider {
            Provider::Anf if is_eda => Basis::anf_eda(large),
            Provider::Anf => Basis::anf(),
            Provider::Gcnv => Basis::gcnv(pool.level),
            Provider::Filestore => Basis::filestore(pool),
            Provider::Plimsoll => Basis::own(),
        };
        let version = match workload.protocol {
            Protocol::NfsV40 => "4.0",
            Protocol::NfsV41 => "4.1",
            Protocol::NfsV42 => "4.2",
            Protocol::NfsV3 | Protocol::Smb => "3",
        };
        let mut options = format!("vers={version},{}", basis.options);
        if is_eda {
            options = format!("{options},{ATTRIBUTES}");
        }
        let mut mount = Self {
            options,
            why: vec![basis.transfer_why.clone()],
            connections: workload.connections.or(basis.connections).unwrap_or(1),
            transfer: basis.transfer,
        };
        mount.set_connections(&basis, workload.connections);
        mount.for_load(pool.level, large, workload);
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

    fn set_connections(&mut self, basis: &Basis, requested: Option<u32>) {
        let recommended = basis.connections.map_or("the default, one".to_owned(), |count| count.to_string());
        let text = match requested {
            Some(requested) if requested != basis.connections.unwrap_or(1) => {
                format!("as requested; recommended is {recommended}: {}", basis.connections_why)
            }
            _ => basis.connections_why.clone(),
        };
        let what = match requested.or(basis.connections) {
            Some(count) if count != 1 || basis.connections.is_some() => format!("nconnect={count}"),
            _ => String::new(),
        };
        if what.is_empty() {
            self.why.push(why("no nconnect", text, basis.connections_source));
        } else {
            self.options = format!("{},{what}", self.options);
            self.why.push(why(what, text, basis.connections_source));
        }
    }

    fn for_load(&mut self, level: Level, large: bool, workload: &Workload) {
        let filestore = level.info().provider == Provider::Filestore;
        let mut add = |what: &str, text: &str, source| self.why.push(why(what, text, source));
        let streams = &workload.streams;
        let has = |access| streams.iter().any(|stream| stream.access == access);
        if large && level.info().provider == Provider::Anf && !has(Access::Eda) {
            add("rsize and wsize", "with large volumes 65536 did about as well as 262144", PAGE_002);
        }
        if filestore {
            add(
                "not sync",
                "a mount with sync is considerably slower: each write waits for the server",
                PAGE_001,
            );
        }
        if has(Access::Eda) {
            let text = "clients believe attributes for ten minutes: only for trees that are mostly read, as of tools and \
                        libraries, where nobody must see another client's changes at once";
            let alone =
                if workload.is_all(Access::Eda) { "" } else { " on the mounts of the EDA tools alone" };
            add(&format!("{ATTRIBUTES}{alone}"), text, PAGE_004);
            add(
                "kernel settings of the client",
                "measured with sysctl tuned, without saying which: TCP buffers, request slots and read-ahead matter",
                PAGE_004,
            );
            if workload.protocol != Protocol::NfsV3 {
                add("NFSv3", "performs better than NFSv4.1 for EDA", PAGE_004);
            }
        }
        let read_in_turn =
            |stream: &super::Stream| stream.access == Access::Sequential && stream.read_thousandths > 0;
        if streams.iter().any(read_in_turn) {
            let source = if filestore { F4 } else { A5 };
            let text = "for buffered sequential reads: more than the kernel's own read-ahead";
            add("a larger read_ahead_kb", text, source);
        }
    }

    pub fn meanings(&self) -> Vec<Recommendation> {
        let meaning = |option: &str| {
            let name = option.split_once('=').map_or(option, |(name, _)| name);
            let (_, text, source) = MEANINGS.iter().find(|(known, ..)| *known == name)?;
            Some(why(option, *text, *source))
        };
        let mut all: Vec<Recommendation> = self.options.split(',').filter_map(meaning).collect();
        if all.iter().any(|one| one.what == "hard") {
            let text = "each write would wait for the server, which lowers performance considerably";
            all.push(why("not sync", text, PAGE_001));
        }
        all
    }
}

impl Basis {
    fn anf() -> Self {
        let transfer = "rsize=262144,wsize=262144";
        Self {
            options: format!("hard,tcp,timeo=600,{transfer},noatime,_netdev"),
            transfer: Bytes(256 << 10),
            transfer_why: why(transfer, "recommended; up to 1,048,576 is negotiated", A5),
            connections: Some(8),
            connections_why: "found best of at most 16; the first mount of an address sets it for all"
                .to_owned(),
            connections_source: A5,
        }
    }

    fn anf_eda(large: bool) -> Self {
        let transfer = "rsize=262144,wsize=262144";
        let (connections, text) = if large {
            (8, "the EDA test of a large volume was mounted so")
        } else {
            (16, "the EDA tests of a regular volume were better with it")
        };
        Self {
            options: format!("hard,tcp,{transfer},noatime"),
            transfer: Bytes(256 << 10),
            transfer_why: why(transfer, "did much better than other sizes for EDA", PAGE_004),
            connections: Some(connections),
            connections_why: text.to_owned(),
            connections_source: PAGE_004,
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
            connections: Some(16),
            connections_why: "measured with it".to_owned(),
            connections_source: PAGE_000,
        }
    }

    fn filestore(pool: &Pool) -> Self {
        let is_basic = matches!(pool.level, Level::FilestoreBasicHdd | Level::FilestoreBasicSsd);
        let by_default = is_basic || pool.level == Level::FilestoreHighScaleSsd2021;
        let options = |transfer: &str| format!("hard,timeo=600,retrans=3,{transfer},resvport,async");
        if by_default {
            let transfer = "rsize=1048576,wsize=1048576";
            return Self {
                options: options(transfer),
                transfer: Bytes(1 << 20),
                transfer_why: why(
                    transfer,
                    "recommended with the default options of Linux, above all hard and async",
                    PAGE_001,
                ),
                connections: None,
                connections_why: "the default options are recommended".to_owned(),
                connections_source: PAGE_001,
            };
        }
        let large = pool.size >= FILESTORE_LARGE && pool.level != Level::FilestoreEnterprise;
        let (band, connections) =
            if large { ("10 TiB and more", 7) } else { ("less than 10 TiB, and Enterprise", 2) };
        let transfer = "rsize=524288,wsize=524288";
        Self {
            options: options(transfer),
            transfer: Bytes(512 << 10),
            transfer_why: why(transfer, "recommended", F4),
            connections: Some(connections),
            connections_why: format!("recommended for {band}; Linux 5.3 or later"),
            connections_source: F4,
        }
    }

    fn own() -> Self {
        let transfer = "rsize=1048576,wsize=1048576";
        Self {
            options: format!("hard,tcp,timeo=600,{transfer},noatime"),
            transfer: Bytes(1 << 20),
            transfer_why: why(transfer, "the largest that is served", OWN),
            connections: Some(4),
            connections_why:
                "more than one connection lets a client use more than one of the server's threads".to_owned(),
            connections_source: OWN,
        }
    }
}

pub(super) fn for_clients(
    level: Level,
    large: bool,
    workload: &Workload,
    measured_on: Option<(u32, &str, Source)>,
) -> Vec<Recommendation> {
    let mut advice = Vec::new();
    let provider = level.info().provider;
    if let Some(clients) = workload.clients
        && !workload.streams.is_empty()
    {
        advice.extend(for_network(clients, workload));
    }
    if provider == Provider::Filestore {
        let text = "such a machine reads at about 16 Gbit/s where the load suits caches";
        advice.push(why("client machines n1-standard-8 or larger", text, PAGE_001));
    }
    if provider == Provider::Gcnv && large {
        let text = "the volume has them all, and its EDA test was made so";
        advice.push(why(
            format!("clients spread evenly over the volume's {GCNV_ADDRESSES} addresses"),
            text,
            PAGE_000,
        ));
    }
    if provider == Provider::Anf && workload.streams.iter().any(|stream| stream.access == Access::Metadata) {
        let what = if large { "a large volume for metadata" } else { "a large volume instead" };
        let text = "it works on more of them at a time: noticeable with many creations, removals and renames, as of version \
                    control and EDA";
        advice.push(why(what, text, PAGE_002));
    }
    if let Some((clients, machine, source)) = measured_on {
        advice.push(why(
            format!("clients like {clients} × {machine}"),
            "the envelope was measured from them",
            source,
        ));
    }
    advice
}

fn for_network(clients: u32, workload: &Workload) -> Vec<Recommendation> {
    let load = Load { streams: &workload.streams };
    let each = |rate: BytesPerSecond| BytesPerSecond(rate.0.div_ceil(u64::from(clients)));
    let (reads, writes) = (each(load.reads()), each(load.writes()));
    let who = if clients == 1 { "it".to_owned() } else { format!("each of {clients}") };
    let bits = (u128::from(reads.0.max(writes.0)) * 8).div_ceil(1_000_000_000);
    let mut advice = vec![why(
        format!("a network of {bits} Gbit/s or more for each client"),
        format!("{who} reads {} and writes {} at the peak", mib(reads), mib(writes)),
        OWN,
    )];
    if let Some(machine) = workload.machine {
        advice.push(why(machine.name, machine.about, machine.source));
    }
    if let Some((egress, _)) = workload.send_limit() {
        let text = "egress bounds only writes: reads arrive, and clouds limit the send rate";
        advice.push(why(format!("{} of egress for each client", mib(egress)), text, PAGE_002));
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
        Mount::of(&Pool::new(level, Bytes::tib(tib)), false, &workload)
    }

    fn reason_for(mount: &Mount, what: &str) -> Option<String> {
        mount.why.iter().find(|one| one.what == what).map(|one| format!("{} [{}]", one.why, one.source))
    }

    #[test]
    fn each_service_has_own_mount_options() {
        let anf = of(Level::AnfUltra, 4, |_| ());
        assert_eq!(
            anf.options,
            "vers=3,hard,tcp,timeo=600,rsize=262144,wsize=262144,noatime,_netdev,nconnect=8"
        );
        let flex = of(Level::GcnvFlexCustom, 4, |workload| workload.protocol = Protocol::NfsV41);
        assert_eq!(flex.options, "vers=4.1,hard,tcp,timeo=600,rsize=65536,wsize=65536,nconnect=16");
        for (level, tib, connections) in [
            (Level::FilestoreZonal, 9, 2),
            (Level::FilestoreZonal, 10, 7),
            (Level::FilestoreEnterprise, 10, 2),
        ] {
            let options = of(level, tib, |_| ()).options;
            assert!(options.contains("rsize=524288,wsize=524288,"), "{level}: {options}");
            assert!(options.ends_with(&format!("nconnect={connections}")), "{level} of {tib} TiB: {options}");
        }
        for level in [Level::FilestoreBasicHdd, Level::FilestoreBasicSsd, Level::FilestoreHighScaleSsd2021] {
            let by_default = of(level, 60, |_| ());
            assert_eq!(
                by_default.options,
                "vers=3,hard,timeo=600,retrans=3,rsize=1048576,wsize=1048576,resvport,async"
            );
            assert_eq!(by_default.connections, 1);
            assert!(by_default.why.iter().all(|one| one.source == PAGE_001), "{:?}", by_default.why);
            assert!(reason_for(&by_default, "not sync").is_some());
            let requested = of(level, 60, |workload| workload.connections = Some(4));
            assert!(requested.options.ends_with(",async,nconnect=4"), "{}", requested.options);
            assert!(
                reason_for(&requested, "nconnect=4")
                    .unwrap()
                    .starts_with("as requested; recommended is the default, one")
            );
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
    fn requested_connections_show_recommendation() {
        let requested = of(Level::AnfUltra, 4, |workload| workload.connections = Some(2));
        assert!(requested.options.ends_with("nconnect=2"), "{}", requested.options);
        let text = reason_for(&requested, "nconnect=2").unwrap();
        assert_eq!(
            text,
            "as requested; recommended is 8: found best of at most 16; the first mount of an address sets it for all \
             [ANF mount options for Linux (Microsoft)]"
        );
    }

    fn with(level: Level, large: bool, streams: &[Stream]) -> Mount {
        let workload = Workload { streams: streams.to_vec(), ..Workload::new(Bytes::tib(1)) };
        Mount::of(&Pool::new(level, Bytes::tib(60)), large, &workload)
    }

    #[test]
    fn load_adds_mount_options() {
        let random = |reads| Stream::from_iops(Access::Random, Bytes(8192), reads, Iops(1));
        let sequential = Stream { access: Access::Sequential, ..random(10) };
        let ahead = "a larger read_ahead_kb";
        assert!(reason_for(&with(Level::AnfUltra, false, &[sequential]), ahead).is_some());
        assert!(reason_for(&with(Level::AnfUltra, false, &[random(1000)]), ahead).is_none());
        let alike = "with large volumes 65536 did about as well as 262144 [ANF large volumes (Microsoft)]";
        assert_eq!(
            reason_for(&with(Level::AnfUltra, true, &[sequential]), "rsize and wsize").unwrap(),
            alike
        );
        assert!(reason_for(&with(Level::AnfUltra, false, &[sequential]), "rsize and wsize").is_none());
    }

    #[test]
    fn attributes_are_cached_for_eda_only() {
        let eda = Stream::eda(Iops(1));
        let reads = Stream::from_iops(Access::Random, Bytes(8192), 1000, Iops(1));
        let large = with(Level::AnfUltra, true, &[eda]);
        assert_eq!(
            large.options,
            "vers=3,hard,tcp,rsize=262144,wsize=262144,noatime,nocto,actimeo=600,nconnect=8"
        );
        assert!(large.why.iter().all(|one| one.source == PAGE_004), "{:?}", large.why);
        assert!(reason_for(&large, ATTRIBUTES).is_some());
        assert!(with(Level::AnfUltra, false, &[eda]).options.ends_with(",nocto,actimeo=600,nconnect=16"));
        assert!(with(Level::GcnvExtreme, true, &[eda]).options.contains(ATTRIBUTES));
        for other in [with(Level::AnfUltra, false, &[reads]), with(Level::AnfUltra, false, &[eda, reads])] {
            assert!(!other.options.contains("actimeo"), "{}", other.options);
        }
        assert!(reason_for(&with(Level::AnfUltra, false, &[reads]), ATTRIBUTES).is_none());
        let both = with(Level::AnfUltra, false, &[eda, reads]);
        assert!(reason_for(&both, "nocto,actimeo=600 on the mounts of the EDA tools alone").is_some());
    }

    #[test]
    fn every_option_has_a_meaning() {
        for level in Level::all() {
            for streams in [&[][..], &[Stream::eda(Iops(1))]] {
                let mount = with(*level, false, streams);
                let meanings = mount.meanings();
                assert_eq!(meanings.len(), mount.options.split(',').count() + 1, "{}", mount.options);
                assert_eq!(meanings.last().unwrap().what, "not sync");
            }
        }
        let basic = of(Level::FilestoreBasicHdd, 4, |_| ());
        let timeo = basic.meanings().into_iter().find(|one| one.what == "timeo=600").unwrap();
        assert!(timeo.why.contains("600 are 60 s") && timeo.source == PAGE_001, "{timeo:?}");
        let smb = of(Level::AnfUltra, 4, |workload| workload.protocol = Protocol::Smb).meanings();
        assert_eq!(smb.len(), 3);
    }

    #[test]
    fn clients_get_recommendations_of_pages() {
        let recommendations = |level, large, change: fn(&mut Workload)| -> Vec<String> {
            let stream = Stream::from_iops(Access::Random, Bytes(8192), 500, Iops(100_000));
            let mut workload = Workload { streams: vec![stream], ..Workload::new(Bytes::tib(1)) };
            change(&mut workload);
            for_clients(level, large, &workload, None)
                .into_iter()
                .map(|one| format!("{} [{}]", one.what, one.source))
                .collect()
        };
        let machines =
            "client machines n1-standard-8 or larger [Filestore performance 2021 (Google)]".to_owned();
        assert!(recommendations(Level::FilestoreZonal, false, |_| ()).contains(&machines));
        let spread =
            "clients spread evenly over the volume's 6 addresses [GCNV benchmarks (Google)]".to_owned();
        assert!(recommendations(Level::GcnvExtreme, true, |_| ()).contains(&spread));
        assert!(recommendations(Level::GcnvExtreme, false, |_| ()).is_empty());
        let egress = recommendations(Level::AnfUltra, true, |workload| {
            workload.clients = Some(4);
            workload.machine = crate::Machine::named("E32s_v5").ok();
        });
        let bound = "2,000 MiB/s of egress for each client [ANF large volumes (Microsoft)]".to_owned();
        assert!(egress.contains(&bound) && egress.len() == 3, "{egress:?}");
        let metadata = recommendations(Level::AnfUltra, false, |workload| {
            workload.streams.push(Stream::metadata(Iops(1)))
        });
        assert_eq!(metadata, ["a large volume instead [ANF large volumes (Microsoft)]"]);
    }
}
