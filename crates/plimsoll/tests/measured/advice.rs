//! An advice that is applied to a service and checked by the benchmark.

use crate::asked::asked;
use crate::rig::Service;
use crate::tries::{ensure, within_tries};
use serde_json::Value;
use std::path::Path;

const IOPS: u64 = 1_200;
const LATENCY_MS: f64 = 20.0;

/// The only cell of a run.
fn cell(run: &Path) -> Value {
    let run: Value = serde_json::from_slice(&std::fs::read(run).unwrap()).unwrap();
    run["cells"][0].clone()
}

#[test]
fn advised_volume_delivers_the_requested_load() {
    let service = Service::start_alone();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // 9.375 MiB/s with their headroom are 12.19: at 64 MiB/s per TiB 195 GiB.
    let made =
        service.says(&asked(&["apply"], &["--name", "tools", "--allow", "127.0.0.0/8", "--squash", "none"]));
    assert!(made.contains("Created the pool tools") && made.contains("Created the volume tools"), "{made}");
    let volume = service.json(&["volume", "show", "tools"]);
    assert_eq!(volume["size_bytes"], 195u64 << 30, "{volume}");
    let again =
        service.says(&asked(&["apply"], &["--name", "tools", "--allow", "127.0.0.0/8", "--squash", "none"]));
    assert!(again.contains("Nothing to change"), "{again}");

    std::fs::write(file("workload.toml"), service.says(&asked(&["scenario"], &[]))).unwrap();
    let target = format!("nfs://{}/tools", service.nfs());
    let scenario = file("workload.toml");
    let run = file("run.json");
    let how = ["--preset", "quick", "--repetitions", "1", "--time", "5", "--uid", "0", "--output", &run];
    let cell = within_tries(|| {
        service.says(&[&["bench", "run", &scenario, "--target", &target], &how[..]].concat());
        let cell = cell(Path::new(&run));
        let delivered = cell["summary"]["iops"]["median"].as_f64().unwrap();
        ensure(delivered > 0.99 * IOPS as f64, format!("{delivered} of {IOPS}: {cell}"))?;
        Ok(cell)
    });
    let summary = &cell["summary"];
    let mean_ms = summary["latency"]["mean_ms"].as_f64().unwrap();
    assert!(mean_ms <= LATENCY_MS, "{mean_ms} ms: {cell}");

    // The same load again, read from the run, has the same answer.
    let from = ["size", "--capacity", "100GiB", "--from", &run, "--level", "anf/premium"];
    let again = service.json(&from);
    let first = &again["options"][0];
    let size = first["volume"]["size"].as_u64().unwrap() >> 30;
    assert!((190..=200).contains(&size), "{first}");
    // And as the service counts it, while it runs.
    let mut load =
        service.command(&["bench", "load", &target, "--op", "mix", "--read", "70", "--rate", "600"]);
    let mut load = load
        .args(["--files", "4", "--size", "4m", "--time", "11s"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(5));
    let watched = ["size", "--from-volume", "tools", "--watch", "3s", "--provider", "anf"];
    let seen = service.json(&watched);
    assert!(load.wait().unwrap().success());
    // The files of the loads, and the clients that have them.
    let stored = seen["workload"]["capacity"].as_u64().unwrap() >> 20;
    assert!((32..60).contains(&stored), "{seen}");
    assert!(seen["workload"]["clients"].as_u64().unwrap() >= 1, "{seen}");
    let streams = seen["workload"]["streams"].as_array().unwrap();
    let rate: u64 = streams.iter().map(|stream| stream["rate"].as_u64().unwrap()).sum();
    // The peak of tenths of three seconds lies above the mean, and what was due while the machine stood still follows at once.
    assert!((600 * 8192 * 9 / 10..600 * 8192 * 3).contains(&rate), "{seen}");
}
