//! A second client at a volume that another one holds at its limit: it mounts, lists, looks, reads and writes, and takes no longer than
//! twice the time that its share implies, over every protocol beside every other.

use super::tries::{ensure, within_tries};
use super::{Host, MIB, bytes};
use bench::load::{Op, Plan};
use bench::{Protection, Version};
use identity::NtHash;
use nfs_wire::v3::StableHow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfs::qos::{Limits, VolumeLimits};
use wire_client::{Client, Identity};

use super::{all, rate, shares};

const LIMIT: u64 = 12 * MIB;
const FILES: usize = 1000;
const SMB: Version = Version::Smb(Protection::Gcm128);
const VERSIONS: [Version; 4] = [Version::V3, Version::V41, Version::V42, SMB];
/// A block of the copy, as `cp` reads and writes.
const BLOCK: u32 = 128 << 10;

/// A client at another address than the one that holds the volume at its limit.
fn identity() -> Identity {
    let (uid, gid) = shares::alice();
    Identity {
        source: Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 77))),
        nt_hash: Some(NtHash::from_password(shares::PASSWORD)),
        ..Identity::new(uid, gid)
    }
}

/// The files that are listed, made over the protocol.
fn make_files(plan: &Plan) {
    let mut client = Client::mount(&plan.target, &identity()).unwrap();
    let root = client.root();
    let dir = client.make_dir(&root, "many", 0o777).unwrap();
    for number in 0..FILES {
        client.create(&dir, &format!("file-{number:04}"), 0o666).unwrap();
    }
    let file = client.create(&root, "small", 0o666).unwrap();
    let data = vec![7; BLOCK as usize];
    for block in 0..MIB / u64::from(BLOCK) {
        client.write(&file, block * u64::from(BLOCK), &data, StableHow::Unstable).unwrap();
    }
}

/// The neighbor's work, with its approximate bytes and operations.
fn work(plan: &Plan) -> (u64, u64) {
    let mut client = Client::mount(&plan.target, &identity()).unwrap();
    let root = client.root();
    let dir = client.lookup(&root, "many").unwrap();
    let listed = client.list(&dir).unwrap();
    assert_eq!(listed.len(), FILES);
    for number in 0..10 {
        let file = client.lookup(&dir, &format!("file-{:04}", number * 7)).unwrap();
        client.attributes(&file).unwrap();
    }
    let file = client.lookup(&root, "small").unwrap();
    let copy = client.create(&root, &format!("copy-{}", plan.target.version), 0o666).unwrap();
    for block in 0..MIB / u64::from(BLOCK) {
        let at = block * u64::from(BLOCK);
        let data = client.read(&file, at, BLOCK).unwrap().data.to_vec();
        assert_eq!(data.len(), BLOCK as usize);
        client.write(&copy, at, &data, StableHow::Unstable).unwrap();
    }
    // An entry of a listing takes less than 256 bytes in every protocol here.
    (2 * MIB + FILES as u64 * 256, 60)
}

/// Runs the neighbor over each protocol while `loud` holds the volume at `limits`.
fn neighbors_are_served(loud: Version, limits: &VolumeLimits, share: impl Fn(u64, u64) -> Duration + Copy) {
    let host = Host::alone(1);
    let mut plan = host.plan_over(loud, 0, Op::Read);
    (plan.block, plan.connections, plan.depth, plan.threads) = (256 << 10, 2, 4, Some(1));
    plan.time = Duration::from_millis(200);
    host.run(&plan, || ());
    make_files(&host.plan_over(Version::V3, 0, Op::Read));
    plan.time = Duration::from_secs(3);
    let step = if std::env::var_os("PLIMSOLL_TESTS_BRIEF").is_some() { 2 } else { 1 };
    for version in VERSIONS.into_iter().step_by(step) {
        let next = host.plan_over(version, 0, Op::Read);
        within_tries(|| {
            host.gates[0].set_limits(VolumeLimits::default());
            let (is_held, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    host.run(&plan, || {
                        host.gates[0].set_limits(limits.clone());
                        is_held.store(true, Ordering::Relaxed);
                    });
                    is_over.store(true, Ordering::Relaxed);
                });
                while !is_held.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                std::thread::sleep(Duration::from_millis(300));
                let began = Instant::now();
                let (bytes, operations) = work(&next);
                let (took, fair) = (began.elapsed(), share(bytes, operations));
                let times = took.as_secs_f64() / fair.as_secs_f64();
                let what = format!("{version} beside {loud}: {took:.2?}, {times:.2} times its share");
                eprintln!("{what}");
                ensure(!is_over.load(Ordering::Relaxed), format!("{what}, but alone at the end"))?;
                ensure(times <= 2.0, what)
            })
        });
    }
}

/// The time that half of a rate takes.
fn half(amount: u64, rate: u64) -> Duration {
    Duration::from_secs_f64(2.0 * amount as f64 / rate as f64)
}

fn beside_bytes(loud: Version) {
    neighbors_are_served(loud, &bytes(LIMIT), |bytes, _| half(bytes, LIMIT));
}

#[test]
fn neighbor_is_served_beside_version_3_at_its_limit() {
    beside_bytes(Version::V3);
}

#[test]
fn neighbor_is_served_beside_version_4_1_at_its_limit() {
    beside_bytes(Version::V41);
}

#[test]
fn neighbor_is_served_beside_version_4_2_at_its_limit() {
    beside_bytes(Version::V42);
}

#[test]
fn neighbor_is_served_beside_smb_at_its_limit() {
    beside_bytes(SMB);
}

#[test]
fn neighbor_is_served_where_operations_are_limited() {
    let ops = 200;
    let limits = all(Limits { ops: rate(ops), ..Limits::NONE });
    neighbors_are_served(Version::V41, &limits, |_, operations| half(operations, ops));
}
