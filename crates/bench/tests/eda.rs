//! The EDA mix against a server that does what it should, and one that does not.

mod fake;

use std::time::{Duration, SystemTime};

use bench::client::Identity;
use bench::eda::Prepared;
use bench::engine::{Control, Job};
use bench::load::Stability;
use bench::result::Part;
use bench::scenario::{Cache, Pattern, Work};
use bench::{Error, Target};
use fake::Fault;

fn job(job_sets: u32) -> Job {
    Job {
        work: Work::EdaBlend,
        block: 0,
        pattern: Pattern::Random,
        read_percent: 0,
        transfer: 1 << 20,
        attribute_cache: true,
        stability: Stability::Unstable,
        cache: Cache::Any,
        clients_total: 1,
        first_client: 0,
        clients: 1,
        connections: 2,
        jobs: 0,
        depth: 0,
        file_size: 0,
        rate: None,
        job_sets,
        file_scale_thousandths: 1,
        repetition: 0,
        seed: 1,
    }
}

fn target(fault: Fault) -> Target {
    format!("nfs://127.0.0.1:{}/x", fake::start(fault)).parse().unwrap()
}

fn identity() -> Identity {
    Identity::new(0, 0)
}

/// Runs with a window of so many seconds after one of warm-up.
fn measure(prepared: &mut Prepared, seconds: u64) -> Result<Part, Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let control = Control::new(u64::try_from((now + Duration::from_millis(50)).as_nanos()).unwrap());
    control.set_window(1, seconds);
    prepared.run(&control)
}

#[test]
fn a_set_runs_at_its_rate() {
    let target = target(Fault::None);
    let mut told = 0.0;
    let mut prepared = Prepared::new(&target, &identity(), &job(2), &mut |done| told = done).unwrap();
    let part = measure(&mut prepared, 2).unwrap();
    assert!(part.errors.is_empty() && part.doubts.is_empty(), "{:?}", part.error_details);
    let ops: u64 = part.operations.iter().map(|operation| operation.ops).sum();
    assert!(ops.abs_diff(2 * 2 * 450) < 40, "{ops}");
}

/// For looking at a real server: `EDA_TARGET=nfs://… EDA_JOB_SETS=20 cargo test … -- --ignored --nocapture`.
#[test]
#[ignore = "needs a server"]
fn a_real_server() {
    let target: Target = std::env::var("EDA_TARGET").expect("EDA_TARGET").parse().unwrap();
    let sets = std::env::var("EDA_JOB_SETS").map_or(4, |sets| sets.parse().unwrap());
    for attribute_cache in [true, false] {
        let job = Job { attribute_cache, connections: 4, ..job(sets) };
        let mut prepared = Prepared::new(&target, &identity(), &job, &mut |_| {}).unwrap();
        let part = measure(&mut prepared, 5).unwrap();
        assert!(part.errors.is_empty() && part.doubts.is_empty(), "{:?}", part.error_details);
        let ops: u64 = part.operations.iter().map(|operation| operation.ops).sum();
        let slowest = part.pace.as_ref().unwrap().processes.iter().min().unwrap();
        let calls: u64 = part.wire.values().sum();
        println!(
            "{sets} sets, cache {attribute_cache}: {:.0} ops/s, {:.0} calls/s, slowest process {slowest} ‰, late {}, \
             CPU {:.2} µs/op, {:.2} µs/call",
            ops as f64 / part.seconds,
            calls as f64 / part.seconds,
            part.usage.late,
            part.usage.cpu_s * 1e6 / ops as f64,
            part.usage.cpu_s * 1e6 / calls as f64
        );
        for operation in &part.operations {
            let ms = |latency: bench::result::Latency| (latency.mean_ms, latency.p99_ms, latency.max_ms);
            let response = operation.response.as_ref().unwrap();
            println!(
                "{:16} {:8} service {:.3?} response {:.3?}",
                operation.name,
                operation.ops,
                ms(operation.service.latency()),
                ms(response.latency())
            );
        }
        println!("{:?}", part.wire);
    }
}
