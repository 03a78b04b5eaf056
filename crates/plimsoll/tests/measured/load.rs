//! A load at a volume's limit, as the service counts it.

use crate::counters::{MIB, client, look};
use crate::mount::target;
use crate::rig::Service;
use crate::tries::{ensure, within_tries};
use api_client::Client;
use bench::load::{Op, Plan, Progress};
use std::time::{Duration, Instant};

#[test]
fn a_load_at_its_limit_is_seen_from_the_server() {
    let service = Service::start_alone();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/custom", "--size", "1GiB"]);
    let create =
        ["volume", "create", "v1", "--pool", "p1", "--size", "1GiB", "--limit", "throughput=40MiB/s"];
    service.says(&[&create[..], &["--allow", "127.0.0.1", "--squash", "none"]].concat());
    let client = client(&service);
    let plan = Plan {
        block: 64 << 10,
        size: 16 << 20,
        connections: 16,
        depth: 4,
        time: Duration::from_secs(3),
        ..Plan::new(target(&service, "/v1"), Op::Read)
    };
    within_tries(|| {
        let faults = seen_wrong(&client, &plan);
        ensure(faults.is_empty(), format!("{faults:?}"))
    });
}

/// Runs the load and reads the metrics meanwhile; returns how they differ from the expected ones.
fn seen_wrong(client: &Client, plan: &Plan) -> Vec<String> {
    let in_flight = (plan.connections * plan.depth) as f64;
    let mut looks = Vec::new();
    let report = bench::load::run(plan, &mut |progress| {
        if matches!(progress, Progress::Running { warming_up: false, .. }) {
            let asked = Instant::now();
            let look = look(client);
            looks.push((asked + asked.elapsed() / 2, look));
        }
        Ok(())
    });
    let report = report.unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let [(begin, first), .., (end, last)] = looks[..] else { panic!("{} looks", looks.len()) };
    let seconds = end.duration_since(begin).as_secs_f64();
    for (_, look) in &looks {
        assert_eq!(look.connections, plan.connections as f64);
    }
    let mut faults = Vec::new();
    let mut near = |what: &str, found: f64, wanted: f64, part: f64| {
        if (found - wanted).abs() > part * wanted {
            faults.push(format!("{what}: {found:.3} instead of {wanted:.3}"));
        }
    };
    let reads = last.reads - first.reads;
    near("MiB/s", (last.read_bytes - first.read_bytes) / seconds / MIB, 40.0, 0.03);
    near("MiB/s as the client sees them", report.mib_per_s, 40.0, 0.03);
    near("bytes of a READ", (last.read_bytes - first.read_bytes) / reads, plan.block as f64, 0.03);
    near("READs from memory", last.from_memory - first.from_memory, reads, 0.03);
    near("READs from storage", last.from_storage, first.from_storage, 0.0);
    near("WRITEs", last.writes, first.writes, 0.0);
    near("READs that waited", last.throttled - first.throttled, reads, 0.05);
    // Each of the calls in flight waits nearly all the time.
    near("seconds waited in a second", (last.throttle_s - first.throttle_s) / seconds, in_flight, 0.1);
    faults
}
