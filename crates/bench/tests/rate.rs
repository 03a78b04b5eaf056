//! Loads at a given rate, from the scenario's text to the report.

mod fake;
#[path = "support/tries.rs"]
mod tries;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::engine::{BuiltIn, Caller};
use bench::load::{self, Op, Plan};
use bench::run::{Arm, GeneratorGroup, Measured, Progress, ProgressListener, RunRequest, Thoroughness};
use report::document::{Report, markdown};
use report::result::{CaveatKind, Latency, Run};
use report::scenario::{Depth, Preset};

use fake::{Fault, RATE, STALL};
use tries::{ensure, near, within_tries};

struct Silent;

impl ProgressListener for Silent {
    fn progress(&mut self, _progress: &Progress<'_>) {}
    fn measured(&mut self, _measured: &Measured<'_>) {}
}

/// One window of three seconds at this rate, after a second of warm-up.
fn run(fault: Fault, rate: u32) -> Run {
    let scenario = format!(
        "name = \"paced\"\ntitle = \"Paced\"\n[[series]]\nname = \"reads\"\nconnections = [2]\njobs = 4\n\
         depths = [4]\nworking_set = \"8m\"\nrate = {rate}\n"
    );
    let thoroughness =
        Thoroughness { repetitions: 1, warm_up_min: 1, warm_up_max: 1, time: 3, ..Preset::Quick.into() };
    let order = RunRequest {
        scenario: scenario.parse().unwrap(),
        preset: Preset::Quick,
        thoroughness,
        seed: 1,
        working_set_max: None,
    };
    let target = format!("nfs://127.0.0.1:{}/x", fake::start(fault)).parse().unwrap();
    let generators = GeneratorGroup::new(vec![Box::new(BuiltIn::new(target, Caller::default()))]).unwrap();
    let mut sides = [Arm { generators, observer: None }];
    bench::run::run(&order, &mut sides, &AtomicBool::new(false), &mut Silent).unwrap().remove(0)
}

fn times(run: &Run) -> (Latency, Latency) {
    let measured = &run.cells[0].measurements[0];
    assert!(measured.is_scheduled() && measured.is_valid(), "{:?}", run.cells[0].caveats);
    (measured.service(None).latency(), measured.response().latency())
}

fn missed(run: &Run) -> Option<&str> {
    let mut doubts = run.cells[0].caveats.iter().filter(|doubt| doubt.kind == CaveatKind::Other);
    doubts.find(|doubt| doubt.text.starts_with("delivered")).map(|doubt| doubt.text.as_str())
}

#[test]
fn rate_is_delivered_and_reported() {
    let mut run = within_tries(|| {
        let run = run(Fault::None, 1000);
        near(run.cells[0].summary.iops.median, 1000.0, 0.01)?;
        Ok(run)
    });
    assert_eq!(missed(&run), None);
    let text = markdown(&[Report::of(&run)]);
    for part in [
        "1,000 operations a second requested",
        "1,000 operations a second of all clients together, on a schedule",
        "Requested ops/s",
        "Service p99 ms",
        "Response p99 ms",
        "Calls in flight at most",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Points that are rows of a table say the same.
    let mut deeper = run.cells[0].clone();
    deeper.point.depth = 8;
    run.cells.push(deeper);
    run.scenario.series[0].depths = Depth::Fixed(vec![4, 8]);
    let text = markdown(&[Report::of(&run)]);
    let head = text.lines().find(|line| line.starts_with("| Point")).unwrap();
    for part in ["Service mean ms", "Requested ops/s", "Reached %", "Response p99 ms"] {
        assert!(head.contains(part), "{part} in {head}");
    }
}

#[test]
fn stall_shows_in_the_response_time_and_not_in_the_service_time() {
    within_tries(|| {
        let run = run(Fault::Stall, 1000);
        near(run.cells[0].summary.iops.median, 1000.0, 0.02)?;
        let ((service, response), stall) = (times(&run), STALL.as_secs_f64() * 1e3);
        // The 16 calls that were in flight waited by either; the hundreds that could not be sent by one
        // alone.
        let is_told_apart = service.p95_ms < stall / 8.0 && response.p95_ms > stall / 8.0;
        ensure(is_told_apart && response.max_ms > stall * 0.9, format!("{service:?} {response:?}"))
    });
}

#[test]
fn rate_above_the_server_s_is_reported() {
    let run = run(Fault::Paced, 2 * RATE);
    let text = missed(&run).unwrap();
    assert!(text.ends_with("of 4000 operations a second asked"), "{text}");
    let (service, response) = times(&run);
    // Never more than 16 in flight, so that the rest waits to be sent.
    assert!(service.mean_ms < 50.0 && response.mean_ms > 500.0, "{service:?} {response:?}");
}

#[test]
fn single_load_keeps_its_rate_and_reports_misses() {
    let load = |fault, rate| {
        let target = format!("nfs://127.0.0.1:{}/x", fake::start(fault)).parse().unwrap();
        let (size, time, rate) = (8 << 20, Duration::from_secs(2), Some(rate));
        load::run(&Plan { connections: 2, size, time, rate, ..Plan::new(target, Op::Read) }, &mut |_| Ok(()))
            .unwrap()
    };
    let kept = within_tries(|| {
        let kept = load(Fault::None, 1000.0);
        near(kept.ops_per_s, 1000.0, 0.01)?;
        Ok(kept)
    });
    let response = kept.kinds[0].response.unwrap();
    assert!(response.p99_ms >= kept.kinds[0].latency.p99_ms, "{kept}");
    let text = kept.to_string();
    assert!(text.contains("; 1000 ops/s, at most 1 × 2 × 16 in flight"), "{text}");
    assert!(text.contains("from when it was due") && text.contains("asked 1000 ops/s, delivered"), "{text}");
    let missed = load(Fault::Paced, f64::from(2 * RATE));
    assert!(
        missed.warnings.iter().any(|text| text.ends_with("of 4000 operations a second asked")),
        "{missed}"
    );
}
