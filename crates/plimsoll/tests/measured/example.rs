//! The example of the README: a client gets what the size promises, and what the new size promises within a second.

use crate::mount::target;
use crate::rig::Service;
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MIB: f64 = (1_u64 << 20) as f64;
/// Seconds of load, and after how many of them the volume grows.
const LOAD_S: usize = 12;
const GROWS_AFTER: Duration = Duration::from_secs(6);

#[test]
fn a_running_client_gets_the_new_limit_within_a_second() {
    let service = Service::start_alone();
    service.says(&["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"]);
    service.says(&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"]);
    let result = service.data().join("result.json");
    let (target, seconds) =
        (format!("nfs://{}/v1", target(&service, "/v1").address().unwrap()), format!("{LOAD_S}s"));
    let load = ["bench", "load", &target, "--op", "read", "--block", "64k", "--files", "2", "--size", "16m"];
    let mut command = service.command(&load);
    command.args(["--time", &seconds, "--json"]).arg(&result).stdout(Stdio::null());
    let mut running = command.spawn().unwrap();
    // The files are made in a quarter of a second, then a second of warm-up.
    std::thread::sleep(GROWS_AFTER);
    let said = service.says(&["volume", "resize", "v1", "2TiB"]);
    let grown = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(said.contains("2 TiB in pool p1, 256 MiB/s"), "{said}");
    let watched = service.says(&["volume", "watch", "v1", "--count", "3"]);
    assert!(running.wait().unwrap().success());

    let report: Value = serde_json::from_slice(&std::fs::read(&result).unwrap()).unwrap();
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    let at = grown - report["started"].as_f64().unwrap();
    let series = report["series"].as_array().unwrap();
    let rates: Vec<f64> = series.iter().map(|second| second["bytes"].as_f64().unwrap() / MIB).collect();
    eprintln!("the volume grew {at:.2} s after the start: {rates:.1?}");
    let before: Vec<f64> =
        rates.iter().zip(1..).filter(|(_, end)| f64::from(*end) <= at - 0.2).map(|(rate, _)| *rate).collect();
    let after: Vec<f64> =
        rates.iter().zip(0..).filter(|(_, start)| f64::from(*start) >= at).map(|(rate, _)| *rate).collect();
    assert!(before.len() >= 2 && are_near(&before, 128.0), "before: {before:.1?}");
    assert!(after.len() >= 3 && are_near(&after, 256.0), "after: {after:.1?}");

    let (head, lines) = watched.split_once('\n').unwrap();
    assert!(head.starts_with("TIME ") && head.contains("LIMIT") && head.contains("P99 ms"), "{watched}");
    let rate = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[5], words[6]), ("256.0", "MiB/s"), "{watched}");
        words[4].parse().unwrap()
    };
    assert!(are_near(&lines.lines().map(rate).collect::<Vec<f64>>(), 256.0), "{watched}");
}

/// Whether these are the rates of so many seconds: the machine may stand still in one of them.
fn are_near(rates: &[f64], wanted: f64) -> bool {
    rates.iter().filter(|rate| (*rate - wanted).abs() >= 0.05 * wanted).count() <= 1
}
