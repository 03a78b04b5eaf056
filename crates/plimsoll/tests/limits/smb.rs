//! Limits of volumes over SMB, alone and beside NFS.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bench::load::{Op, Plan};
use bench::{Protection, Version};
use wire_client::{Client, Identity};

use identity::NtHash;
use vfs::qos::{Kind, Limits, VolumeLimits};

use super::tries::within_tries;
use super::{Host, MIB, all, bytes, near, rate, shares};

const SIGNED: Version = Version::Smb(Protection::Gmac);
const SEALED: Version = Version::Smb(Protection::Gcm128);

/// A load of two seconds. Signing is slow in a build without optimization, so its limits are low.
fn short(host: &Host, version: Version, op: Op) -> Plan {
    let (time, warm_up) = (Duration::from_secs(2), Duration::from_millis(500));
    Plan { time, warm_up, read_percent: 50, ..host.plan_over(version, 0, op) }
}

#[test]
fn load_over_smb_is_delivered_at_the_limit() {
    let host = Host::new(1);
    for (version, mib, op, block, (connections, channels), depth) in [
        (SIGNED, 1, Op::Write, 8192, (1, 1), 4),
        (SEALED, 10, Op::Mix, 8192, (8, 1), 2),
        (SEALED, 30, Op::Read, 1 << 20, (2, 1), 2),
        // A session of eight connections has no more than one of one.
        (SEALED, 10, Op::Mix, 8192, (8, 8), 2),
    ] {
        let mut plan = Plan { block, connections, depth, ..short(&host, version, op) };
        plan.target.channels = channels;
        let what = format!("{}: {op:?} {block} × {connections} × {depth}", plan.target);
        within_tries(|| {
            host.gates[0].set_limits(VolumeLimits::default());
            let report = host.run(&plan, || host.gates[0].set_limits(bytes(mib * MIB)));
            near(report.mib_per_s, mib as f64, 0.02, &what)
        });
    }
}

/// A message that opens, asks and closes is an operation; one that opens, renames and closes is two.
#[test]
fn operations_over_smb_are_counted() {
    let host = Host::new(1);
    for (version, op) in
        [(SIGNED, Op::Getattr), (SEALED, Op::Read), (SIGNED, Op::Create), (SIGNED, Op::Rename)]
    {
        let plan = Plan { block: 4096, ..short(&host, version, op) };
        let operations = match op {
            // A name is made by CREATE and CLOSE.
            Op::Create => 1.5,
            Op::Rename => 2.0,
            _ => 1.0,
        };
        let what = format!("{}: {op:?} at 500 operations a second", plan.target);
        within_tries(|| {
            host.gates[0].set_limits(VolumeLimits::default());
            let limits = all(Limits { ops: rate(500), ..Limits::NONE });
            let report = host.run(&plan, || host.gates[0].set_limits(limits));
            near(report.ops_per_s * operations, 500.0, 0.02, &what)
        });
    }
}

#[test]
fn protocols_share_the_limit_of_their_volume() {
    let host = Host::new(1);
    let plans = [SEALED, Version::V3].map(|version| {
        let mut plan = short(&host, version, Op::Read);
        (plan.block, plan.size, plan.threads) = (65_536, 4 << 20, Some(1));
        plan.time = Duration::from_secs(4);
        host.run(&Plan { time: Duration::from_millis(200), ..plan.clone() }, || ());
        plan
    });
    host.gates[0].set_limits(bytes(20 * MIB));
    let delivered = || host.exports[0].volume.traffic().operation_counts(Kind::Read).bytes;
    within_tries(|| {
        let (together, rates) = std::thread::scope(|scope| {
            let running = plans.each_ref().map(|plan| scope.spawn(|| host.run(plan, || ()).mib_per_s));
            // Both have begun, and none has ended.
            std::thread::sleep(Duration::from_millis(1500));
            let (before, begun) = (delivered(), Instant::now());
            std::thread::sleep(Duration::from_secs(2));
            let together = (delivered() - before) as f64 / begun.elapsed().as_secs_f64() / MIB as f64;
            (together, running.map(|one| one.join().unwrap()))
        });
        assert!(rates.iter().all(|rate| *rate > 5.0), "{rates:?}");
        near(together, 20.0, 0.02, &format!("SMB and NFS together, {rates:.1?}"))
    });
}

/// A refused read costs nothing, and its charge is refunded only once: other clients get the whole limit, and no more.
#[test]
fn refused_reads_over_smb_leave_the_limit_to_others() {
    let host = Host::new(1);
    let mut plan = short(&host, SEALED, Op::Read);
    (plan.block, plan.time) = (65_536, Duration::from_millis(200));
    host.run(&plan, || ());
    plan.time = Duration::from_secs(3);
    host.gates[0].set_limits(bytes(20 * MIB));
    let until_it_is_over = |is_over: &AtomicBool| {
        let nt_hash = Some(NtHash::from_password(shares::PASSWORD));
        let mut client = Client::mount(&plan.target, &Identity { nt_hash, ..Identity::new(0, 0) }).unwrap();
        let file = client.walk("plimsoll-bench/data-000000").unwrap();
        let mut refused = 0;
        while !is_over.load(Ordering::Relaxed) {
            // END_OF_FILE.
            assert!(client.read(&file, 1 << 40, 1 << 18).unwrap().data.is_empty());
            refused += 1;
        }
        refused
    };
    within_tries(|| {
        let is_over = AtomicBool::new(false);
        let delivered = std::thread::scope(|scope| {
            let refused = scope.spawn(|| until_it_is_over(&is_over));
            let report = host.run(&plan, || ());
            is_over.store(true, Ordering::Relaxed);
            assert!(refused.join().unwrap() > 10);
            report.mib_per_s
        });
        near(delivered, 20.0, 0.02, "beside reads that are refused")
    });
}
