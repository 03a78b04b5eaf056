//! The generator against servers with a known rate and latency.

mod fake;
#[path = "support/job.rs"]
mod job;
#[path = "support/tries.rs"]
mod tries;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bench::engine::{BuiltIn, Caller, Control, Engine, Job, Metadata};
use bench::{Error, Target};
use report::result::Part;
use report::scenario::{Cache, MetadataOperation, Pattern, Stability, Work};

use fake::{Fault, RATE, SLOW, STALL};
use tries::{ensure, near, within_tries};

fn job() -> Job {
    Job { connections: 2, jobs: 4, depth: 4, ..job::job(Work::Transfers) }
}

/// A second of warm-up precedes the window.
fn measure(fault: Fault, job: &Job, seconds: u64) -> Result<Part, Error> {
    measure_at(fake::start(fault), job, seconds)
}

fn measure_at(port: u16, job: &Job, seconds: u64) -> Result<Part, Error> {
    let target = format!("nfs://127.0.0.1:{port}/x").parse().unwrap();
    let mut engine = BuiltIn::new(target, Caller::default());
    engine.prepare(job, &mut |_| Ok(()))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let control = Control::new(u64::try_from((now + Duration::from_millis(50)).as_nanos()).unwrap());
    control.set_window(1, seconds);
    engine.run(&control)
}

fn ops(part: &Part) -> u64 {
    part.operations.iter().map(|operation| operation.ops).sum()
}

#[test]
fn known_rate_is_found() {
    let part = within_tries(|| {
        let part = measure(Fault::Paced, &job(), 4).unwrap();
        near(ops(&part) as f64 / part.seconds, f64::from(RATE), 0.01)?;
        Ok(part)
    });
    let seconds = &part.clients[0].seconds;
    assert_eq!(seconds.len(), 4);
    assert_eq!(seconds.iter().map(|second| second.reads).sum::<u64>(), ops(&part));
    assert_eq!(part.clients[0].connections.iter().sum::<u64>(), ops(&part));
    assert_eq!(part.wire["READ"], ops(&part));
}

#[test]
fn known_latency_is_found() {
    // One call at a time on each connection: what is measured is the server's time and the way there and
    // back.
    within_tries(|| {
        let part = measure(Fault::Slow, &Job { jobs: 2, depth: 1, ..job() }, 3).unwrap();
        let latency = part.operations[0].service.latency();
        let slow = SLOW.as_secs_f64() * 1e3;
        ensure((slow..slow + 3.0).contains(&latency.p50_ms), format!("{latency:?}"))?;
        // Little's law.
        let in_flight = ops(&part) as f64 / part.seconds * latency.mean_ms / 1e3;
        near(in_flight, 2.0, 0.01)
    });
}

#[test]
fn latency_from_the_intended_start_shows_a_stall_that_a_closed_loop_hides() {
    let stall = STALL.as_secs_f64() * 1e3;
    within_tries(|| {
        let open = measure(Fault::Stall, &Job { rate: Some(1000.0), ..job() }, 3).unwrap();
        near(ops(&open) as f64, 3000.0, 0.02)?;
        let operation = &open.operations[0];
        let (service, response) =
            (operation.service.latency(), operation.response.as_ref().unwrap().latency());
        // Calls in the stalled connection waited. Only the schedule shows the wait of calls that could not be sent.
        let waited = response.max_ms > stall * 0.9 && service.max_ms > stall * 0.9;
        let is_told_apart = service.p95_ms < stall / 8.0 && response.p95_ms > stall / 8.0;
        ensure(waited && is_told_apart, format!("{response:?} {service:?}"))
    });
    within_tries(|| {
        let closed = measure(Fault::Stall, &job(), 3).unwrap().operations[0].service.latency();
        ensure(closed.p99_ms < stall / 8.0, format!("{closed:?}"))
    });
}

#[test]
fn reply_that_never_comes_ends_the_run() {
    let wrong = measure(Fault::Dropped, &job(), 1).unwrap_err().to_string();
    assert!(wrong.contains("1 calls were not answered within 30 s"), "{wrong}");
}

#[test]
fn parts_of_an_operation_are_calls_on_the_wire() {
    let whole = Job { block: 256 << 10, transfer: 64 << 10, ..job() };
    let part = measure(Fault::None, &whole, 1).unwrap();
    let (calls, ops) = (part.wire["READ"], ops(&part));
    assert!(calls.abs_diff(ops * 4) <= 64, "{calls} calls of {ops} operations");
    assert_eq!(part.operations[0].bytes, ops * whole.block);
}

#[test]
fn operations_on_names_have_the_names_of_applications() {
    let (stat, create, rename) =
        (MetadataOperation::Stat, MetadataOperation::Create, MetadataOperation::Rename);
    for (operation, names) in
        [(stat, vec!["stat"]), (create, vec!["create", "unlink"]), (rename, vec!["rename"])]
    {
        let metadata = Some(Metadata { operation, directories: 2 });
        let part = measure(Fault::None, &Job { work: Work::Metadata, metadata, ..job() }, 1).unwrap();
        let found: Vec<&str> = part.operations.iter().map(|operation| operation.name.as_str()).collect();
        assert_eq!(found, names);
        assert!(part.operations.iter().all(|operation| operation.ops > 10), "{:?}", part.wire);
        assert!(part.errors.is_empty(), "{:?}", part.errors);
    }
}

#[test]
fn opening_takes_a_call_unless_attributes_are_cached() {
    for (attribute_cache, opens) in [(false, 1.0), (true, 0.0)] {
        let small =
            Job { work: Work::OpenRead, block: 16 << 10, transfer: 16 << 10, attribute_cache, ..job() };
        // The calls in flight where the window begins and ends count for more where there are few.
        within_tries(|| {
            let part = measure(Fault::None, &small, 1).unwrap();
            assert_eq!(part.operations[0].name, "open-read");
            let asked = part.wire.get("GETATTR").copied().unwrap_or(0) as f64 / ops(&part) as f64;
            ensure((asked - opens).abs() < 0.02, format!("{asked} GETATTRs an operation"))
        });
    }
}

#[test]
fn unstable_writes_are_committed_within_the_window() {
    let part =
        measure(Fault::None, &Job { read_percent: 0, block: 64 << 10, transfer: 64 << 10, ..job() }, 1)
            .unwrap();
    let every = bench::engine::COMMIT_EVERY / (64 << 10);
    let (commits, owed) = (part.wire["COMMIT"], part.wire["WRITE"] / every);
    assert!(commits.abs_diff(owed) <= 4, "{commits} of {owed}");
    let synced = Job { read_percent: 0, stability: Stability::FileSync, ..job() };
    assert!(!measure(Fault::None, &synced, 1).unwrap().wire.contains_key("COMMIT"));
}

#[test]
fn only_the_load_is_connected_once_it_is_prepared() {
    let (port, seen) = fake::start_watched(Fault::None);
    let mut engine = BuiltIn::new(format!("nfs://127.0.0.1:{port}/x").parse().unwrap(), Caller::default());
    engine.prepare(&job(), &mut |_| Ok(())).unwrap();
    let patience = Instant::now() + Duration::from_secs(10);
    while seen.connections.load(Ordering::Relaxed) != job().connections {
        assert!(Instant::now() < patience, "{seen:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn repetitions_come_to_the_same_places_or_to_new_ones() {
    let (port, seen) = fake::start_watched(Fault::None);
    let alone = Job { pattern: Pattern::Shuffled, connections: 1, jobs: 1, depth: 1, ..job() };
    let places = |same_places, cache, repetition| {
        seen.places.lock().unwrap().clear();
        measure_at(port, &Job { same_places, cache, repetition, ..alone.clone() }, 1).unwrap();
        seen.places.lock().unwrap()[..64].to_vec()
    };
    for (same_places, cache, same) in [
        (Some(true), Cache::Any, true),
        (Some(false), Cache::Any, false),
        (None, Cache::Any, false),
        (None, Cache::Warm, true),
    ] {
        let (first, second) = (places(same_places, cache, 0), places(same_places, cache, 1));
        assert_eq!(first == second, same, "{same_places:?} {cache:?}: {first:?} {second:?}");
    }
}

#[test]
fn files_are_read_into_memory_when_they_change() {
    let (port, seen) = fake::start_watched(Fault::None);
    let mut engine = BuiltIn::new(format!("nfs://127.0.0.1:{port}/x").parse().unwrap(), Caller::default());
    let warm = Job { cache: Cache::Warm, ..job() };
    let larger = Job { file_size: 2 << 20, ..warm.clone() };
    let mut reads = |job: &Job| {
        let before = seen.setup_reads.load(Ordering::Relaxed);
        engine.prepare(job, &mut |_| Ok(())).unwrap();
        seen.setup_reads.load(Ordering::Relaxed) - before
    };
    // Four files in READs of 256 KiB.
    assert_eq!((reads(&warm), reads(&Job { repetition: 1, ..warm.clone() })), (16, 0));
    assert_eq!((reads(&larger), reads(&larger)), (32, 0));
    // Who knows what is in memory after another load.
    assert_eq!((reads(&Job { cache: Cache::Any, ..larger.clone() }), reads(&larger)), (0, 32));
}

#[test]
fn files_can_be_removed_twice() {
    let target: Target = format!("nfs://127.0.0.1:{}/x", fake::start(Fault::None)).parse().unwrap();
    let mut engines = [(); 2].map(|()| BuiltIn::new(target.clone(), Caller::default()));
    engines[0].prepare(&job(), &mut |_| Ok(())).unwrap();
    for engine in &mut engines {
        engine.clear().unwrap();
    }
}

#[test]
fn mixes_are_exact() {
    for read_percent in [25, 50, 75] {
        within_tries(|| {
            let part = measure(Fault::Paced, &Job { read_percent, ..job() }, 1).unwrap();
            let reads = part.operations.iter().find(|operation| operation.name == "read").unwrap().ops;
            let share = 100.0 * reads as f64 / ops(&part) as f64;
            ensure(
                (share - f64::from(read_percent)).abs() < 0.5,
                format!("{share} instead of {read_percent}"),
            )
        });
    }
}
