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
