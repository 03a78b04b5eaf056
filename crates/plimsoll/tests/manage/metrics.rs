//! What the service counts, against what was done.

use crate::mount::{mount, target};
use crate::rig::{Service, eventually};
use api::client::{Client, Samples, Target};
use bench::load::{Op, Plan, Progress};
use nfs_wire::v3::StableHow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: f64 = 1_048_576.0;

/// The API's client, with the first token.
pub fn client(service: &Service) -> Client {
    let url = service.announcement()["api"].as_str().unwrap().to_owned();
    let token = std::fs::read_to_string(service.data().join("admin.token")).unwrap();
    Client::new(&Target { url, token, issuers: None }).unwrap()
}

/// The counters of the volume `v1` that a benchmark looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    connections: f64,
    reads: f64,
    read_bytes: f64,
    writes: f64,
    write_bytes: f64,
    throttled: f64,
    throttle_s: f64,
    from_memory: f64,
    from_storage: f64,
}

impl Counters {
    fn of(samples: &Samples) -> Self {
        let all = |name: &str| samples.sum(&format!("plimsoll_volume_{name}"), &[("volume", "v1")]).unwrap();
        let one = |name: &str, direction: &str| {
            let labels = [("volume", "v1"), ("direction", direction)];
            samples.sum(&format!("plimsoll_volume_{name}"), &labels).unwrap()
        };
        Self {
            connections: all("connections"),
            reads: one("operations_total", "read"),
            read_bytes: one("bytes_total", "read"),
            writes: one("operations_total", "write"),
            write_bytes: one("bytes_total", "write"),
            throttled: all("throttled_operations_total"),
            throttle_s: all("throttle_seconds_total"),
            from_memory: all("reads_from_memory_total"),
            from_storage: all("reads_from_storage_total"),
        }
    }
}

/// The counters now.
fn look(client: &Client) -> Counters {
    Counters::of(&client.metrics().unwrap())
}

/// The counters once so many calls have been counted, which is after their replies have left.
fn look_after(client: &Client, reads: f64, writes: f64) -> Counters {
    eventually("all calls counted", || {
        let now = look(client);
        now.reads >= reads && now.writes >= writes
    });
    look(client)
}

/// Takes every file of the volumes out of the kernel's memory; false where it lies in nothing else.
fn evict(dir: &Path) -> bool {
    let mut is_elsewhere = true;
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            is_elsewhere &= evict(&entry.path());
        } else if entry.metadata().unwrap().len() >= 1 << 20 {
            let file = std::fs::File::open(entry.path()).unwrap();
            file.sync_all().unwrap();
            if rustix::fs::fstatfs(&file).unwrap().f_type == TMPFS {
                is_elsewhere = false;
                continue;
            }
            // Pages that the kernel has in hand for a moment stay.
            eventually("no page is in memory", || {
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                pages_in_memory(&entry.path()) == 0
            });
        }
    }
    is_elsewhere
}

fn pages_in_memory(file: &Path) -> u64 {
    let counted = Command::new("fincore").args(["--noheadings", "--output", "PAGES"]).arg(file).output();
    String::from_utf8(counted.unwrap().stdout).unwrap().trim().parse().unwrap()
}

const TMPFS: rustix::fs::FsWord = 0x0102_1994;

#[test]
fn every_call_is_counted_for_what_it_was() {
    const CALLS: u32 = 10;
    let calls = f64::from(CALLS);
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "1GiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1GiB"];
    service.says(&[&create[..], &["--allow", "127.0.0.1", "--squash", "none"]].concat());
    let client = client(&service);
    assert_eq!(look(&client), Counters::default());
    let mut clients: Vec<_> = (0..3).map(|_| mount(&service, "/v1").unwrap()).collect();
    let root = clients[0].root();
    let file = clients[0].create(&root, "a", 0o644).unwrap();
    for call in 0..CALLS {
        let data = vec![7; 1 << 20];
        clients[0].write(&file, u64::from(call) << 20, &data, StableHow::Unstable).unwrap();
    }
    let read = |clients: &mut [bench::client::Client]| {
        for call in 0..CALLS {
            let at = u64::from(call) << 20;
            assert_eq!(clients[1].read(&file, at, 4096).unwrap().data, [7; 4096]);
        }
    };
    read(&mut clients);
    let wanted = Counters {
        // The third has mounted and asked nothing.
        connections: 2.0,
        reads: calls,
        read_bytes: calls * 4096.0,
        writes: calls,
        write_bytes: calls * MIB,
        from_memory: calls,
        ..Counters::default()
    };
    assert_eq!(look_after(&client, calls, calls), wanted);
    let (from_memory, from_storage) =
        if evict(&service.data().join("volumes")) { (calls, calls) } else { (2.0 * calls, 0.0) };
    read(&mut clients);
    let wanted = Counters {
        reads: 2.0 * calls,
        read_bytes: 2.0 * wanted.read_bytes,
        from_memory,
        from_storage,
        ..wanted
    };
    assert_eq!(look_after(&client, 2.0 * calls, calls), wanted);
    drop(clients);
    eventually("nobody there", || look(&client).connections == 0.0);
}

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
    // Other tests run beside this one, and may hold up a load of three seconds or a look at it.
    let mut faults = Vec::new();
    for _ in 0..3 {
        faults = seen_wrong(&client, &plan);
        if faults.is_empty() {
            return;
        }
        eprintln!("{faults:?}");
    }
    panic!("{faults:?}");
}

/// Runs the load and looks at the metrics meanwhile; in what they differ from what must have been.
fn seen_wrong(client: &Client, plan: &Plan) -> Vec<String> {
    let in_flight = (plan.connections * plan.depth) as f64;
    let mut looks = Vec::new();
    let report = bench::load::run(plan, &mut |progress| {
        if matches!(progress, Progress::Running { warming_up: false, .. }) {
            let asked = Instant::now();
            let look = look(client);
            looks.push((asked + asked.elapsed() / 2, look));
        }
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
