//! Metrics are in the format, and complete.

use crate::raw::body_of;
use crate::rig::Rig;
use api_client::ChangeOptions;
use api_client::model::{NewPool, NewSnapshot, NewVolume};
use envelope::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfs::qos::Kind;
use vfs::volume::traffic::ReadCounts;

/// A sample: its labels, and its value.
type Sample = (BTreeMap<String, String>, f64);

/// Reads the text format strictly: families in one piece, each with help and type, every sample of a family of its name.
fn parse(text: &str) -> BTreeMap<String, Vec<Sample>> {
    let mut samples: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    let (mut families, mut kind, mut family) = (BTreeSet::new(), "", "");
    let mut unique = BTreeSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap();
            assert!(families.insert(family), "{family} in two pieces");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, word) = rest.split_once(' ').unwrap();
            assert_eq!(name, family);
            kind = word;
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(unique.insert(series), "{series} twice");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{name} in {family}"));
            let allowed: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{name} in {family}");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{family} is a {kind}");
            let labels = labels.strip_suffix('}').unwrap();
            let labels = labels.split("\",").filter(|label| !label.is_empty()).map(|label| {
                let (name, value) = label.split_once("=\"").unwrap();
                (name.to_owned(), value.trim_end_matches('"').to_owned())
            });
            samples.entry(name.to_owned()).or_default().push((labels.collect(), value.parse().unwrap()));
        }
    }
    samples
}

#[test]
fn metrics_tell_what_passed_and_what_may() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::AnfPremium, 4 << 40)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", 2 << 40)).unwrap();
    let volume = rig.namespace.load().exports()[0].volume.clone();
    volume.traffic().count(Kind::Write, 2, 8192, Duration::from_micros(3));
    volume.traffic().count(Kind::Write, 1, 4096, Duration::from_secs(60));
    volume.traffic().count_reads(ReadCounts { from_memory: 7, from_storage: 2 });
    rig.plane.active.lock().insert(volume.id(), BTreeMap::from([("10.0.0.2".parse().unwrap(), 16)]));
    let client = rig.client();
    let before = parse(&body_of(&rig, "/metrics"));
    assert!(!before.contains_key("plimsoll_volume_last_snapshot_timestamp_seconds"));
    let made = client.create_snapshot("v", &NewSnapshot::default()).unwrap().value;
    let metrics = parse(&body_of(&rig, "/metrics"));
    let value = |name: &str, labels: &[(&str, &str)]| {
        let mut found = metrics[name].iter().filter(|(have, _)| {
            labels.iter().all(|(label, value)| have.get(*label).is_some_and(|have| have == value))
        });
        let (Some((_, value)), None) = (found.next(), found.next()) else {
            panic!("{name} {labels:?}: {metrics:?}")
        };
        *value
    };
    let written = [("volume", "v"), ("direction", "write")];
    assert!((value("plimsoll_volume_operations_total", &written) - 3.0).abs() < 1e-9);
    assert!((value("plimsoll_volume_bytes_total", &written) - 12_288.0).abs() < 1e-9);
    let bucket =
        |le: &str| value("plimsoll_volume_operation_seconds_bucket", &[written[0], written[1], ("le", le)]);
    assert!(bucket("0.000001000") < 0.5 && (bucket("0.000004000") - 2.0).abs() < 1e-9);
    assert!((bucket("4.194304000") - 2.0).abs() < 1e-9 && (bucket("+Inf") - 3.0).abs() < 1e-9);
    let sum = value("plimsoll_volume_operation_seconds_sum", &written);
    assert!((sum - 60.000_006).abs() < 1e-9, "{sum}");
    let limit = value("plimsoll_volume_limit_bytes_per_second", &[("volume", "v"), ("direction", "all")]);
    assert!((limit - 134_217_728.0).abs() < 1e-9);
    assert!((value("plimsoll_pool_allocated_bytes", &[("pool", "p")]) - 2_199_023_255_552.0).abs() < 1e-9);
    let own = [("volume", "v")];
    assert!((value("plimsoll_volume_reads_from_memory_total", &own) - 7.0).abs() < 1e-9);
    assert!((value("plimsoll_volume_reads_from_storage_total", &own) - 2.0).abs() < 1e-9);
    assert!((value("plimsoll_volume_connections", &own) - 16.0).abs() < 1e-9);
    assert!((value("plimsoll_connections", &[]) - 3.0).abs() < 1e-9);
    assert!(value("process_open_fds", &[]) > 3.0 && value("process_resident_memory_bytes", &[]) > 1e6);
    assert!((value("plimsoll_volume_snapshots", &own) - 1.0).abs() < 1e-9);
    assert!(value("plimsoll_volume_policy_failures_total", &own).abs() < 1e-9);
    assert!(value("plimsoll_volume_snapshot_reserve_bytes", &own).abs() < 1e-9);
    // Snapshots in memory are not counted.
    assert!(before.contains_key("plimsoll_volume_snapshot_bytes"));
    assert!(!metrics.contains_key("plimsoll_volume_snapshot_bytes"));
    let created = made.created.to_ms().unwrap() / 1_000;
    let newest = value("plimsoll_volume_last_snapshot_timestamp_seconds", &own);
    assert!((newest - f64::from(u32::try_from(created).unwrap())).abs() < 1e-6, "{newest}");
    let free = value("plimsoll_volume_capacity_bytes", &own) - value("plimsoll_volume_used_bytes", &own);
    assert!((value("plimsoll_volume_available_bytes", &own) - free).abs() < 1e-3);
    for name in [
        "plimsoll_volume_throttled_operations_total",
        "plimsoll_volume_throttle_seconds_total",
        "plimsoll_volume_waiting_operations",
        "plimsoll_volume_capacity_bytes",
        "plimsoll_volume_used_bytes",
        "plimsoll_volume_files_used",
        "plimsoll_volume_files",
        "plimsoll_waiting_calls",
        "plimsoll_handle_cache_hits_total",
        "plimsoll_panics_total",
        "process_cpu_seconds_total",
        "plimsoll_build_info",
    ] {
        assert!(metrics.contains_key(name), "{name}");
    }
}

#[test]
fn a_client_reads_all_of_them() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::AnfPremium, 4 << 40)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", 2 << 40)).unwrap();
    let samples = client.metrics().unwrap();
    // Between the two nothing happens but to the process.
    let told = parse(&body_of(&rig, "/metrics"));
    for (name, told) in told.iter().filter(|(name, _)| name.starts_with("plimsoll_")) {
        let read =
            samples.of(name, &[]).map(|sample| (sample.labels.iter().cloned().collect(), sample.value));
        assert_eq!(&read.collect::<Vec<Sample>>(), told, "{name}");
    }
    assert!(told.len() > 30);
}

#[test]
fn no_label_is_a_client() {
    let rig = Rig::start();
    *rig.plane.clients.lock() = (0..100_u32)
        .map(|number| api::ConnectedClient {
            connections: 1,
            waiting: 1,
            nfs4: vec![api::Nfs4State {
                protocols: "nfsv4.1,nfsv4.2".parse().unwrap(),
                opens: 3,
                ..api::Nfs4State::default()
            }],
            ..api::ConnectedClient::disconnected(std::net::IpAddr::from(number.to_be_bytes()))
        })
        .collect();
    let metrics = parse(&body_of(&rig, "/metrics"));
    let names: BTreeSet<&String> = metrics.values().flatten().flat_map(|(labels, _)| labels.keys()).collect();
    assert_eq!(
        names,
        BTreeSet::from([&"operation".to_owned(), &"protocol".to_owned(), &"version".to_owned()])
    );
    let open: Vec<f64> = metrics["plimsoll_nfs4_open_files"].iter().map(|(_, value)| *value).collect();
    assert_eq!(open, [0.0, 0.0, 300.0], "by the newest version");
    assert!((metrics["plimsoll_waiting_calls"][0].1 - 100.0).abs() < 1e-9);
}

#[test]
fn metrics_count_calls_by_version_and_operations_by_name() {
    let metrics = parse(&body_of(&Rig::start(), "/metrics"));
    let counted = |name: &str| -> Vec<(String, f64)> {
        let labels =
            |labels: &BTreeMap<String, String>| labels.values().cloned().collect::<Vec<_>>().join(" ");
        metrics[name].iter().map(|(of, value)| (labels(of), *value)).collect()
    };
    let calls = [("nfsv3", 7.0), ("nfsv4.0", 0.0), ("nfsv4.1", 3.0), ("nfsv4.2", 0.0)];
    assert_eq!(counted("plimsoll_nfs_calls_total"), calls.map(|(of, value)| (of.to_owned(), value)));
    let operations = [("read nfsv3", 5.0), ("write nfsv3", 2.0), ("sequence nfsv4.1", 3.0)];
    assert_eq!(
        counted("plimsoll_nfs_operations_total"),
        operations.map(|(of, value)| (of.to_owned(), value))
    );
}
