//! One client that attacks over all protocols at once, with compounds that mix what pays for what.

use super::adversary::{Prey, Raw};
use super::tries::{ensure, within_tries};
use super::{Host, MIB, all, rate};
use bench::load::{Op, Plan};
use bench::{Protection, Version};
use nfs_wire::rpc::RecordMark;
use nfs_wire::v4::{
    self, Argument, Bitmap, CompoundHead, FileHandle, GetattrArgs, LookupArgs, PutfhArgs, ReadArgs,
    StableHow, Stateid, WriteArgs,
};
use report::scenario::Stability;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfs::qos::{Kind, Limits, VolumeLimits};
use xdr::Encode;

const READ_LIMIT: u64 = 24 * MIB;
const WRITE_LIMIT: u64 = 12 * MIB;
pub(super) const SMB: Version = Version::Smb(Protection::Gcm128);
/// The time over which no limit may be passed.
pub(super) const WINDOW: Duration = Duration::from_secs(5);

impl Raw {
    /// Sends a compound of version 4.0, which needs no session.
    pub(super) fn send_compound(&mut self, operations: &[Argument<'_>]) -> bool {
        self.xid += 1;
        let mut record = vec![0; RecordMark::SIZE];
        record.extend(self.identity.header(v4::PROGRAM, v4::VERSION, v4::Procedure::COMPOUND.0));
        let count = u32::try_from(operations.len()).unwrap();
        record.extend(CompoundHead { tag: b"", minorversion: 0, operations: count }.to_bytes());
        operations.iter().for_each(|operation| record.extend(operation.to_bytes()));
        let length = u32::try_from(record.len() - RecordMark::SIZE).unwrap();
        record[..4].copy_from_slice(&RecordMark { last: true, length }.to_word().to_be_bytes());
        record[4..8].copy_from_slice(&self.xid.to_be_bytes());
        self.stream.write_all(&record).is_ok()
    }
}

pub(super) fn read(count: u32) -> Argument<'static> {
    Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count })
}

/// Compounds of which each mixes operations in another way.
fn attack(prey: &Prey, thread: u8) {
    let mut raw = Raw::open(prey.address, 9);
    let put = |handle| Argument::Putfh(PutfhArgs { object: FileHandle(handle) });
    let (file, root) = (prey.file.wire().0, prey.root.wire().0);
    let data = vec![9; 300 << 10];
    let write = |data| {
        Argument::Write(WriteArgs {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            stable: StableHow::Unstable,
            data,
        })
    };
    let lookup = |objname| Argument::Lookup(LookupArgs { objname });
    let getattr = || Argument::Getattr(GetattrArgs { attr_request: Bitmap::EMPTY });
    let compound = match thread % 6 {
        // Reads beside a write that fails, before and behind it.
        0 => vec![put(file), read(500 << 10), put(root), write(&data[..1])],
        1 => vec![put(file), write(&data[..1]), read(500 << 10)],
        // Reads behind a write that is longer than a receive buffer.
        2 => vec![put(file), write(&data), read(500 << 10)],
        // No filehandle at the beginning.
        3 => vec![Argument::Putrootfh, lookup(b"v0"), lookup(b"prey"), read(900 << 10)],
        // Reads at a filehandle that comes back.
        4 => vec![put(file), Argument::Savefh, put(root), getattr(), Argument::Restorefh, read(900 << 10)],
        _ => [put(file)].into_iter().chain((0..60).map(|_| getattr())).chain([read(64 << 10)]).collect(),
    };
    for _ in 0..4 {
        raw.send_compound(&compound);
    }
    (0..4).for_each(|_| _ = raw.receive());
}

/// Bytes that a volume has counted: read and written.
pub(super) fn counted(host: &Host, volume: usize) -> [u64; 2] {
    let traffic = host.exports[volume].volume.traffic();
    [Kind::Read, Kind::Write].map(|kind| traffic.operation_counts(kind).bytes)
}

/// A plan of the attacker with files of its own: one address, whatever the protocol.
fn plan(host: &Host, version: Version, op: Op, first_file: u32) -> Plan {
    let mut plan = host.plan_over(version, 0, op);
    (plan.block, plan.connections, plan.depth, plan.threads) = (128 << 10, 1, 4, Some(1));
    (plan.time, plan.warm_up, plan.stability) =
        (WINDOW + Duration::from_secs(1), Duration::ZERO, Stability::Unstable);
    plan.sources = vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9))];
    (plan.first_file, plan.cleanup) = (first_file, false);
    plan
}

#[test]
fn attacker_over_all_protocols_keeps_to_each_limit_and_leaves_a_neighbor_its_share() {
    let host = Host::alone(1);
    let prey = Prey::new(&host);
    let gate = &host.gates[0];
    let attackers = [
        (Version::V3, Op::Read, 0),
        (Version::V41, Op::Mix, 10),
        (Version::V42, Op::Write, 20),
        (SMB, Op::Mix, 30),
    ]
    .map(|(version, op, first_file)| plan(&host, version, op, first_file));
    let mut fair = plan(&host, Version::V41, Op::Read, 40);
    (fair.time, fair.sources) = (WINDOW, vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))]);
    for plan in attackers.iter().chain([&fair]) {
        host.run(&Plan { time: Duration::from_millis(100), ..plan.clone() }, || ());
    }
    let limits = all(Limits { read_bytes: rate(READ_LIMIT), write_bytes: rate(WRITE_LIMIT), ..Limits::NONE });
    within_tries(|| {
        gate.set_limits(limits.clone());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for plan in &attackers {
                scope.spawn(|| host.run(plan, || ()));
            }
            for thread in 0..6 {
                let (prey, is_over) = (&prey, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        attack(prey, thread);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(500));
            let (before, began) = (counted(&host, 0), Instant::now());
            let got = host.run(&fair, || ()).mib_per_s * MIB as f64;
            let (after, took) = (counted(&host, 0), began.elapsed().as_secs_f64());
            is_over.store(true, Ordering::Relaxed);
            gate.set_limits(VolumeLimits::default());
            for (what, at, limit) in [("read", 0, READ_LIMIT), ("written", 1, WRITE_LIMIT)] {
                let part = (after[at] - before[at]) as f64 / took / limit as f64;
                let figures = format!("{what}: {part:.3} of the limit");
                eprintln!("{figures}");
                ensure(part <= 1.05, figures)?;
            }
            let share = got / (READ_LIMIT / 2) as f64;
            let figures = format!("the neighbor: {share:.3} of its share");
            eprintln!("{figures}");
            ensure(share >= 0.95, figures)
        })
    });
}
