//! Large calls at the limit of a pool, each client in a volume of its own: they pass one after the other, whatever the protocol.

use super::adversary::{Prey, Raw};
use super::mixed::{SMB, WINDOW, counted, read};
use super::tries::{ensure, within_tries};
use super::{Host, MIB, rate};
use bench::Version;
use bench::load::{Op, Plan};
use nfs_wire::v4::{Argument, FileHandle, PutfhArgs};
use report::scenario::Stability;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfs::qos::Limits;

const VOLUMES: u8 = 8;
const LIMIT: u64 = 8 * MIB;

/// Bytes read so far of each volume.
fn read_of_each(host: &Host) -> Vec<u64> {
    (0..VOLUMES.into()).map(|volume| counted(host, volume)[0]).collect()
}

/// Runs a load in each volume until it is over: together they have the limit, and each an equal share of it.
fn assert_within_limit(host: &Host, what: &str, load: impl Fn(u8, &AtomicBool) + Sync) {
    within_tries(|| {
        host.pool.set_limits(&Limits { bytes: rate(LIMIT), ..Limits::NONE }.into());
        let is_over = AtomicBool::new(false);
        let (got, took) = std::thread::scope(|scope| {
            for volume in 0..VOLUMES {
                let (load, is_over) = (&load, &is_over);
                scope.spawn(move || load(volume, is_over));
            }
            std::thread::sleep(Duration::from_secs(1));
            let (before, began) = (read_of_each(host), Instant::now());
            std::thread::sleep(WINDOW);
            let (after, took) = (read_of_each(host), began.elapsed().as_secs_f64());
            is_over.store(true, Ordering::Relaxed);
            let got: Vec<f64> =
                after.iter().zip(before).map(|(after, before)| (after - before) as f64).collect();
            (got, took)
        });
        host.pool.set_limits(&Limits::NONE.into());
        let (all, limit) = (got.iter().sum::<f64>(), LIMIT as f64 * took);
        let jain = all * all / (f64::from(VOLUMES) * got.iter().map(|own| own * own).sum::<f64>());
        let figures = format!("{what}: {:.3} of the limit, Jain's index {jain:.3}", all / limit);
        eprintln!("{figures}");
        // One call may straddle the beginning or the end of the time.
        let is_within = all <= 1.05 * limit + MIB as f64 && all >= 0.95 * limit - MIB as f64;
        ensure(is_within && jain >= 0.95, figures)
    });
}

/// A client that reads a MiB at a time.
fn plan(host: &Host, version: Version, volume: u8) -> Plan {
    let mut plan = host.plan_over(version, volume.into(), Op::Read);
    (plan.block, plan.connections, plan.depth, plan.threads) = (1 << 20, 1, 2, Some(1));
    (plan.size, plan.files, plan.cleanup) = (4 << 20, 1, false);
    (plan.time, plan.warm_up, plan.stability) =
        (WINDOW + Duration::from_secs(2), Duration::ZERO, Stability::Unstable);
    plan.sources = vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, 10 + volume))];
    plan
}

#[test]
fn large_calls_in_all_volumes_keep_to_the_limit_of_their_pool() {
    let host = Host::alone(VOLUMES.into());
    for version in [Version::V3, Version::V41, Version::V42, SMB] {
        let plans: Vec<Plan> = (0..VOLUMES).map(|volume| plan(&host, version, volume)).collect();
        for plan in &plans {
            host.run(&Plan { time: Duration::from_millis(100), ..plan.clone() }, || ());
        }
        assert_within_limit(&host, &version.to_string(), |volume, _| {
            host.run(&plans[usize::from(volume)], || ());
        });
    }
    let prey: Vec<Prey> = (0..VOLUMES).map(|volume| Prey::at(&host, volume.into())).collect();
    assert_within_limit(&host, "NFSv4.0", |volume, is_over| {
        let file = FileHandle(prey[usize::from(volume)].file.wire().0);
        let mut raw = Raw::open(host.address, 10 + volume);
        let compound = [Argument::Putfh(PutfhArgs { object: file }), read(1 << 20)];
        let ask = |raw: &mut Raw| assert!(raw.send_compound(&compound));
        ask(&mut raw);
        while !is_over.load(Ordering::Relaxed) {
            ask(&mut raw);
            raw.receive();
        }
    });
}
