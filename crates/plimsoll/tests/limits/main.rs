//! The limits of volumes over real sockets: what the load generator gets of them. Each test measures for seconds: two run at a
//! time, and those that measure how long calls take run alone.

mod adversary;
mod large;
mod mixed;
mod neighbor;
#[path = "../support/server.rs"]
mod server;
#[path = "../support/shares.rs"]
mod shares;
mod smb;
#[path = "../../../bench/tests/support/tries.rs"]
mod tries;

use bench::load::{BlockOrder, Op, Plan, Progress, Report};
use bench::{Protection, Version};

use identity::NtHash;
use report::scenario::Stability;
use server::Running;
use shares::Shares;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tries::{ensure, within_tries};
use vfs::Export;
use vfs::qos::{Arbiter, Gate, Limits, Pacer, VolumeLimits};
use vfs::sync::{Condvar, Mutex};

const MIB: u64 = 1 << 20;

/// The part of the machine that no test occupies, in halves.
static FREE: Mutex<u8> = Mutex::new(2);
static FREED: Condvar = Condvar::new();

/// A part of the machine, in halves; free again on drop.
struct Halves(u8);

impl Halves {
    fn take(halves: u8) -> Self {
        let free = FREE.lock();
        let mut free = FREED.wait_while(free, |free| *free < halves);
        *free -= halves;
        Self(halves)
    }
}

impl Drop for Halves {
    fn drop(&mut self) {
        *FREE.lock() += self.0;
        FREED.notify_all();
    }
}

/// A server with limited volumes `/v0`, `/v1` and so on in one pool.
struct Host {
    address: SocketAddr,
    pool: Arc<Arbiter>,
    gates: Vec<Arc<Gate>>,
    server: Running,
    shares: Shares,
    exports: Vec<Arc<Export>>,
    dirs: Vec<tempfile::TempDir>,
    _halves: Halves,
}

impl Host {
    fn new(volumes: u64) -> Self {
        Self::on(Halves::take(1), volumes)
    }

    /// No other test runs meanwhile.
    fn alone(volumes: u64) -> Self {
        Self::on(Halves::take(2), volumes)
    }

    fn on(halves: Halves, volumes: u64) -> Self {
        let pool = Arbiter::new(&Limits::NONE.into(), &Pacer::start().unwrap());
        let (mut gates, mut dirs, mut exports) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..volumes {
            let dir = tempfile::tempdir().unwrap();
            let gate = pool.gate(VolumeLimits::default());
            let volume = server::volume(number, dir.path()).with_gate(Arc::clone(&gate));
            shares::open_to_all(dir.path());
            exports.push(Arc::new(server::export(format!("/v{number}"), volume)));
            gates.push(gate);
            dirs.push(dir);
        }
        let (server, shares) = (Running::new(exports.clone(), 30), Shares::new(exports.clone()));
        Self { address: server.address, pool, gates, server, shares, exports, dirs, _halves: halves }
    }

    fn plan(&self, volume: usize, op: Op) -> Plan {
        let mut plan = Plan::new(format!("nfs://{}/v{volume}", self.address).parse().unwrap(), op);
        plan.time = Duration::from_secs(5);
        (plan.size, plan.files) = (32 << 20, 2);
        plan
    }

    /// A plan for alice, over this protocol.
    fn plan_over(&self, version: Version, volume: usize, op: Op) -> Plan {
        let mut plan = self.plan(volume, op);
        (plan.uid, plan.gid) = shares::alice();
        plan.target.version = version;
        if version.is_smb() {
            // What makes the files encrypts, and nothing of that is optimized.
            plan.size = 4 << 20;
            plan.target.port = self.shares.address.port();
            plan.target.user = Some("alice".to_owned());
            plan.nt_hash = Some(NtHash::from_password(shares::PASSWORD));
        }
        plan
    }

    /// Runs a load that meets its limits once its files are there.
    fn run(&self, plan: &Plan, limit: impl FnOnce()) -> Report {
        let mut limit = Some(limit);
        let report = bench::load::run(plan, &mut |progress| {
            if matches!(progress, Progress::Running { .. })
                && let Some(limit) = limit.take()
            {
                limit();
            }
            Ok(())
        });
        let report = report.unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        report
    }
}

fn rate(rate: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(rate)
}

fn all(all: Limits) -> VolumeLimits {
    VolumeLimits { all, ..VolumeLimits::default() }
}

fn bytes(bytes: u64) -> VolumeLimits {
    all(Limits { bytes: rate(bytes), ..Limits::NONE })
}

/// Whether a figure is off by no more than this part of what is wanted.
fn near(value: f64, wanted: f64, part: f64, what: &str) -> Result<(), String> {
    eprintln!("{what}: {value:.2} of {wanted:.2}, {:+.2} %", (value / wanted - 1.0) * 100.0);
    tries::near(value, wanted, part).map_err(|wrong| format!("{what}: {wrong}"))
}

#[test]
fn load_under_a_limit_is_delivered_at_the_limit() {
    let host = Host::alone(1);
    let cases = [
        // MiB/s, operation, block, connections, calls in flight on each
        (1, Op::Read, 4096, 1, 4),
        (10, Op::Write, 65_536, 1, 4),
        (20, Op::Mix, 8192, 64, 1),
        (100, Op::Read, 65_536, 1, 16),
        (100, Op::Read, 1 << 20, 2, 4),
        (60, Op::Write, 1 << 20, 2, 4),
        (200, Op::Mix, 65_536, 16, 4),
    ];
    // Set by `cargo xtask programs --brief`: every third case.
    let step = if std::env::var_os("PLIMSOLL_TESTS_BRIEF").is_some() { 3 } else { 1 };
    let over = |version| cases.into_iter().step_by(step).map(move |case| (version, case));
    // Both versions keep to the limit, and so to each other.
    for (version, (mib, op, block, connections, depth)) in
        [Version::V3, Version::V41].into_iter().flat_map(over)
    {
        let mut plan = host.plan(0, op);
        plan.target.version = version;
        (plan.block, plan.connections, plan.depth) = (block, connections, depth);
        (plan.size, plan.read_percent, plan.time) = (128 << 20, 50, Duration::from_secs(3));
        let what = format!("{version}: {op:?} {block} × {connections} × {depth} at {mib} MiB/s");
        within_tries(|| {
            host.gates[0].set_limits(VolumeLimits::default());
            let report = host.run(&plan, || host.gates[0].set_limits(bytes(mib * MIB)));
            near(report.mib_per_s, mib as f64, 0.02, &what)?;
            for kind in &report.kinds {
                let (mean, p99) = (kind.latency.mean_ms, kind.latency.p99_ms);
                let figures =
                    format!("{what}: {} takes {mean:.1} ms, the 99th percentile {p99:.1}", kind.kind);
                ensure(p99 <= 3.0 * mean, figures)?;
            }
            Ok(())
        });
    }
}

#[test]
fn operations_of_every_kind_are_counted() {
    let host = Host::new(1);
    let over = |version| [Op::Getattr, Op::Read, Op::Create].map(|op| (version, op));
    for (version, op) in [Version::V3, Version::V41].into_iter().flat_map(over) {
        let mut plan = host.plan(0, op);
        plan.target.version = version;
        // Over NFSv4.1 a name is made by OPEN and CLOSE, and each of them is an operation.
        let calls = if version == Version::V41 && op == Op::Create { 1.5 } else { 1.0 };
        let what = format!("{version}: {op:?} at 2,000 operations a second");
        within_tries(|| {
            host.gates[0].set_limits(VolumeLimits::default());
            let limits = all(Limits { ops: rate(2000), ..Limits::NONE });
            let report = host.run(&plan, || host.gates[0].set_limits(limits));
            near(report.ops_per_s * calls, 2000.0, 0.02, &what)
        });
    }
}

#[test]
fn reads_are_not_held_up_by_writes_that_wait() {
    let host = Host::new(1);
    let mut plan = host.plan(0, Op::Mix);
    (plan.block, plan.connections, plan.depth, plan.read_percent) = (8192, 4, 16, 50);
    let (limit, reads) = (rate(10 * MIB), rate(10 * MIB));
    let limits = all(Limits { write_bytes: limit, read_bytes: reads, ..Limits::NONE });
    within_tries(|| {
        host.gates[0].set_limits(VolumeLimits::default());
        let report = host.run(&plan, || host.gates[0].set_limits(limits.clone()));
        near(report.mib_per_s, 20.0, 0.03, "10 MiB/s of each")
    });
}

#[test]
fn a_new_limit_is_met_by_the_running_client() {
    let host = Host::new(1);
    let mut plan = host.plan(0, Op::Read);
    (plan.block, plan.time) = (65_536, Duration::from_secs(9));
    let gate = &host.gates[0];
    within_tries(|| {
        gate.set_limits(VolumeLimits::default());
        let report = std::thread::scope(|scope| {
            host.run(&plan, || {
                gate.set_limits(bytes(20 * MIB));
                scope.spawn(|| {
                    // A second of warm-up is before the measurement.
                    std::thread::sleep(Duration::from_millis(4000));
                    gate.set_limits(bytes(80 * MIB));
                    std::thread::sleep(Duration::from_millis(3000));
                    gate.set_limits(bytes(40 * MIB));
                });
            })
        });
        let of = |seconds: std::ops::Range<usize>| {
            let bytes: u64 = report.series[seconds.clone()].iter().map(|second| second.bytes).sum();
            bytes as f64 / seconds.len() as f64 / MIB as f64
        };
        near(of(0..2), 20.0, 0.05, "first")?;
        near(of(4..5), 80.0, 0.05, "after the growth")?;
        near(of(7..9), 40.0, 0.05, "after the shrink")
    });
}

#[test]
fn a_client_with_sixteen_connections_gets_no_more_than_one_with_one() {
    let host = Host::new(1);
    let mut plan = host.plan(0, Op::Read);
    (plan.block, plan.depth, plan.time) = (16_384, 16, Duration::from_secs(6));
    // Lay the files out, without a limit.
    plan.time = Duration::from_millis(200);
    host.run(&plan, || ());
    plan.time = Duration::from_secs(6);
    host.gates[0].set_limits(bytes(50 * MIB));
    let shares: Vec<f64> = std::thread::scope(|scope| {
        let clients = (0..16u8).map(|client| {
            let mut plan = plan.clone();
            plan.connections = 1 + usize::from(client);
            plan.threads = Some(1);
            plan.sources = vec![IpAddr::V4(Ipv4Addr::new(127, 0, 1, client + 1))];
            let host = &host;
            scope.spawn(move || host.run(&plan, || ()).mib_per_s)
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let sum: f64 = shares.iter().sum();
    let jain = sum * sum / (16.0 * shares.iter().map(|share| share * share).sum::<f64>());
    eprintln!("{shares:.2?}");
    assert!(jain >= 0.99, "Jain's index is {jain:.4} for {shares:.2?}");
}

#[test]
fn volumes_share_their_pool_and_use_what_others_leave() {
    let host = Host::new(2);
    for volume in 0..2 {
        let mut plan = host.plan(volume, Op::Read);
        plan.time = Duration::from_millis(200);
        host.run(&plan, || ());
    }
    host.pool.set_limits(&Limits { bytes: rate(60 * MIB), ..Limits::NONE }.into());
    let plans = [(0, 4, 8), (1, 1, 3)].map(|(volume, connections, seconds)| {
        let mut plan = host.plan(volume, Op::Read);
        (plan.block, plan.connections, plan.threads) = (65_536, connections, Some(1));
        (plan.time, plan.stability, plan.order) =
            (Duration::from_secs(seconds), Stability::Unstable, BlockOrder::Random);
        plan
    });
    within_tries(|| {
        let reports = std::thread::scope(|scope| {
            let runs = plans.each_ref().map(|plan| scope.spawn(|| host.run(plan, || ())));
            runs.map(|run| run.join().unwrap())
        });
        let first = |from: usize, to: usize| {
            let bytes: u64 = reports[0].series[from..to].iter().map(|second| second.bytes).sum();
            bytes as f64 / (to - from) as f64 / MIB as f64
        };
        near(reports[1].mib_per_s, 30.0, 0.03, "the one with a connection")?;
        near(first(0, 2), 30.0, 0.05, "the one with four, while both run")?;
        near(first(5, 8), 60.0, 0.03, "the one with four, alone")
    });
}

#[test]
fn a_stop_does_not_wait_for_what_waits() {
    for version in [Version::V3, Version::V41, Version::V42, mixed::SMB] {
        let mut host = Host::new(1);
        let mut plan = host.plan_over(version, 0, Op::Read);
        plan.time = Duration::from_millis(200);
        host.run(&plan, || ());
        host.gates[0].set_limits(bytes(4096));
        let gate = Arc::clone(&host.gates[0]);
        std::thread::scope(|scope| {
            // Its calls wait for hours; it ends with an error when the server goes.
            scope.spawn(|| {
                plan.time = Duration::from_secs(60);
                assert!(
                    bench::load::run(&plan, &mut |_| Ok(())).is_err(),
                    "{version}: the server has stopped"
                );
            });
            while gate.throttled().1 == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
            let start = std::time::Instant::now();
            let patience = Duration::from_secs(20);
            match version.is_smb() {
                true => host.shares.server.take().unwrap().stop(patience),
                false => host.server.stop(patience),
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{version}: {:?}", start.elapsed());
        });
    }
}

#[test]
fn a_tenant_at_its_limit_is_not_felt_next_door() {
    is_not_felt_next_door(Version::V3, Version::V3);
}

#[test]
fn a_tenant_at_its_limit_is_not_felt_next_door_over_version_4_1() {
    is_not_felt_next_door(Version::V41, Version::V41);
}

#[test]
fn a_tenant_at_its_limit_over_smb_is_not_felt_over_nfs() {
    is_not_felt_next_door(Version::Smb(Protection::Gcm128), Version::V3);
}

#[test]
fn a_tenant_at_its_limit_over_nfs_is_not_felt_over_smb() {
    is_not_felt_next_door(Version::V3, Version::Smb(Protection::Gcm128));
}

/// The tenant calls over the one protocol, the one next door over the other.
fn is_not_felt_next_door(tenant: Version, next_door: Version) {
    let host = Host::alone(2);
    let mut loud = host.plan_over(tenant, 0, Op::Read);
    (loud.block, loud.connections, loud.depth) = (65_536, 4, 16);
    (loud.time, loud.threads) = (Duration::from_millis(200), Some(1));
    host.run(&loud, || ());
    loud.time = Duration::from_secs(2);
    let mut quiet = host.plan_over(next_door, 1, Op::Read);
    (quiet.block, quiet.depth, quiet.time) = (4096, 1, Duration::from_secs(2));
    host.gates[0].set_limits(bytes(50 * MIB));
    // The machine has other work, too: what counts is the best of some pairs, beside reads and beside writes.
    let p99 = || host.run(&quiet, || ()).kinds[0].latency.p99_ms;
    let mut best = f64::INFINITY;
    for (round, op) in [Op::Read, Op::Write, Op::Write, Op::Read, Op::Write].into_iter().enumerate() {
        if round >= 2 && best < 2.0 {
            break;
        }
        let alone = p99();
        let loud = Plan { op, ..loud.clone() };
        let (beside, delivered) = std::thread::scope(|scope| {
            let running = scope.spawn(|| host.run(&loud, || ()));
            std::thread::sleep(Duration::from_millis(500));
            (p99(), running.join().unwrap().mib_per_s)
        });
        eprintln!(
            "{op:?} next door: p99 {alone:.3} ms alone, {beside:.3} ms beside it, {:.2} times",
            beside / alone
        );
        // Beside a tenant that has less than its limit nothing is shown.
        if near(delivered, 50.0, 0.02, "the tenant at its limit").is_ok() {
            best = best.min(beside / alone);
        }
    }
    assert!(best < 2.0, "the 99th percentile grows {best:.2} times");
}
