//! A client that has read the code and wants more than its limit: whatever it drops, repeats, misstates or refuses to
//! read, it gets what the limit says.

use super::tries::{ensure, within_tries};
use super::{Host, MIB, bytes};
use bench::load::Op;
use nfs_wire::rpc::RecordMark;
use nfs_wire::v3::{
    DirOpArgs, PROGRAM, Procedure, ReadArgs, ReaddirplusArgs, ReadlinkArgs, Sattr, StableHow, SymlinkArgs,
    SymlinkData, VERSION, WriteArgs,
};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use vfs::qos::{Mix, VolumeLimits};
use wire_client::{Client, Handle, Identity};
use xdr::{Encode, Writer};

const SECONDS: u64 = 3;
const LIMIT: u64 = 32 * MIB;
const FILE_BYTES: u64 = 16 * MIB;
/// Maximum size of a refusal, and of a READ or READLINK reply without its data: RPC header, status, attributes, count.
const HEAD_BYTES: u64 = 128;

/// A connection over which anything can be sent.
pub(super) struct Raw {
    pub(super) stream: TcpStream,
    pub(super) identity: Identity,
    pub(super) xid: u32,
}

impl Raw {
    pub(super) fn open(address: SocketAddr, source: u8) -> Self {
        let source = Some(IpAddr::from(Ipv4Addr::new(127, 0, 0, source)));
        let identity = Identity { source, ..Identity::new(0, 0) };
        let stream = identity.connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, identity, xid: 0 }
    }

    /// Sends a call; false if the server does not take it in time.
    fn send(&mut self, procedure: Procedure, args: &impl Encode) -> bool {
        self.xid += 1;
        self.send_as(self.xid, procedure, args)
    }

    fn send_as(&mut self, xid: u32, procedure: Procedure, args: &impl Encode) -> bool {
        let mut record = vec![0; RecordMark::SIZE];
        record.extend(self.identity.header(PROGRAM, VERSION, procedure.0));
        let mut writer = Writer::new(&mut record);
        args.encode(&mut writer);
        let length = u32::try_from(writer.len() - RecordMark::SIZE).unwrap();
        writer.patch_u32(0, RecordMark { last: true, length }.to_word());
        writer.patch_u32(RecordMark::SIZE, xid);
        self.stream.write_all(&record).is_ok()
    }

    /// The bytes of data in the next reply, without what every reply has; nothing once the connection has ended.
    pub(super) fn receive(&mut self) -> u64 {
        let mut mark = [0; RecordMark::SIZE];
        if self.stream.read_exact(&mut mark).is_err() {
            return 0;
        }
        let length = RecordMark::from_word(u32::from_be_bytes(mark)).length;
        let mut reply = vec![0; length as usize];
        self.stream.read_exact(&mut reply).map_or(0, |()| u64::from(length).saturating_sub(HEAD_BYTES))
    }
}

/// The volume and the file that an attacker uses.
pub(super) struct Prey {
    pub(super) address: SocketAddr,
    pub(super) root: Handle,
    pub(super) file: Handle,
}

impl Prey {
    pub(super) fn new(host: &Host) -> Self {
        Self::at(host, 0)
    }

    pub(super) fn at(host: &Host, volume: usize) -> Self {
        let target = format!("nfs://{}/v{volume}", host.address).parse().unwrap();
        let mut client = Client::mount(&target, &Identity::new(0, 0)).unwrap();
        let root = client.root();
        let file = client.create(&root, "prey", 0o666).unwrap();
        let data = vec![7; 1 << 20];
        for at in 0..FILE_BYTES / MIB {
            client.write(&file, at * MIB, &data, StableHow::Unstable).unwrap();
        }
        Self { address: host.address, root, file }
    }

    fn read(&self, offset: u64, count: u32) -> ReadArgs<'_> {
        ReadArgs { file: self.file.wire(), offset, count }
    }

    /// Repeats `attack` on `threads` threads, each with its number; returns the sum of the results.
    fn attack(&self, threads: u8, attack: impl Fn(u8) -> u64 + Sync) -> u64 {
        let end = Instant::now() + Duration::from_secs(SECONDS);
        let run = |thread| {
            let mut got = 0;
            while Instant::now() < end {
                got += attack(thread);
            }
            got
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    }
}

/// Bytes that lie in the first volume.
fn stored(host: &Host) -> u64 {
    let files = std::fs::read_dir(host.dirs[0].path()).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// Not more than the limit lets through in the time that has passed, one call at the beginning apart.
fn assert_within(got: u64, limit: u64, since: Instant, what: &str) {
    let allowed = limit as f64 * since.elapsed().as_secs_f64() * 1.05 + MIB as f64;
    let part = got as f64 / (limit as f64 * since.elapsed().as_secs_f64());
    eprintln!("{what}: {part:.3} of the limit");
    assert!(got as f64 <= allowed, "{what}: {part:.2} times the limit");
}

#[test]
fn dropped_connections_write_no_more_than_the_limit() {
    for (block, calls) in [(MIB, 6), (256 << 10, 20), (64 << 10, 64)] {
        let host = Host::new(1);
        let prey = Prey::new(&host);
        host.gates[0].set_limits(bytes(LIMIT));
        let (before, start) = (stored(&host), Instant::now());
        let data = vec![9; usize::try_from(block).unwrap()];
        let count = u32::try_from(block).unwrap();
        let next = std::sync::atomic::AtomicU64::new(64);
        prey.attack(4, |_| {
            let mut raw = Raw::open(prey.address, 9);
            for _ in 0..calls {
                let offset = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) * block;
                let stable = StableHow::Unstable;
                let args = WriteArgs { file: prey.file.wire(), offset, count, stable, data: &data };
                if !raw.send(Procedure::WRITE, &args) {
                    break;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
            0
        });
        assert_within(stored(&host) - before, LIMIT, start, &format!("dropped WRITEs of {block}"));
    }
}

#[test]
fn refused_calls_pay_for_no_others() {
    let host = Host::new(1);
    let prey = Prey::new(&host);
    host.gates[0].set_limits(bytes(LIMIT));
    let start = Instant::now();
    let data = vec![9; 250_000];
    let wrong =
        WriteArgs { file: prey.file.wire(), offset: 0, count: 0, stable: StableHow::Unstable, data: &data };
    let got = prey.attack(6, |thread| {
        let mut raw = Raw::open(prey.address, 9);
        for _ in 0..16 {
            match thread % 3 {
                0 => raw.send(Procedure::WRITE, &wrong),
                // A byte of the million that is asked for.
                1 => raw.send(Procedure::READ, &prey.read(FILE_BYTES - 1, 1 << 20)),
                _ => raw.send(Procedure::READ, &prey.read(0, 256 << 10)),
            };
        }
        (0..16).map(|_| raw.receive()).sum()
    });
    assert_within(got, LIMIT, start, "READs beside refused calls");
}

#[test]
fn repeated_calls_and_other_addresses_read_no_more_than_the_limit() {
    let host = Host::new(1);
    let prey = Prey::new(&host);
    host.gates[0].set_limits(bytes(LIMIT));
    let start = Instant::now();
    let got = prey.attack(8, |thread| {
        let mut raw = Raw::open(prey.address, 10 + thread);
        for _ in 0..16 {
            raw.send_as(77, Procedure::READ, &prey.read(0, 128 << 10));
        }
        (0..16).map(|_| raw.receive()).sum()
    });
    assert_within(got, LIMIT, start, "the same READ from eight addresses");
}

#[test]
fn listings_and_links_carry_no_more_than_the_limit() {
    let host = Host::new(1);
    let prey = Prey::new(&host);
    let mut raw = Raw::open(prey.address, 9);
    let text = vec![b'x'; 4000];
    for number in 0..2000 {
        let name = format!("{number:0>200}");
        let place = DirOpArgs { dir: prey.root.wire(), name: name.as_bytes() };
        let symlink = SymlinkData { symlink_attributes: Sattr::default(), symlink_data: &text };
        raw.send(Procedure::SYMLINK, &SymlinkArgs { place, symlink });
        raw.receive();
    }
    let target = format!("nfs://{}/v0", host.address).parse().unwrap();
    let link = Client::mount(&target, &Identity::new(0, 0))
        .unwrap()
        .lookup(&prey.root, &format!("{:0>200}", 7))
        .unwrap();
    let limit = 8 * MIB;
    host.gates[0].set_limits(bytes(limit));
    let listing = ReaddirplusArgs {
        dir: prey.root.wire(),
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 1 << 20,
        maxcount: 1 << 20,
    };
    let start = Instant::now();
    let got = prey.attack(4, |_| {
        let mut raw = Raw::open(prey.address, 9);
        for _ in 0..2 {
            raw.send(Procedure::READDIRPLUS, &listing);
            for _ in 0..32 {
                raw.send(Procedure::READLINK, &ReadlinkArgs { symlink: link.wire() });
            }
        }
        (0..66).map(|_| raw.receive()).sum()
    });
    assert_within(got, limit, start, "listings and links");
}

#[test]
fn empty_reads_buy_no_writes_where_the_ceiling_follows_the_mix() {
    let host = Host::new(1);
    let prey = Prey::new(&host);
    // 400 MiB/s if all is read, 16 if all is written.
    let picoseconds = |mib: u64| 1_000_000_000_000 / (mib * MIB);
    let step = |read: u64| (read * picoseconds(400) + (100 - read) * picoseconds(16)) / 100;
    let table: Vec<u64> = (0..=100).map(step).collect();
    let mix = Mix { picoseconds_per_byte: table.try_into().unwrap(), op_bytes_min: 4096 };
    host.gates[0].set_limits(VolumeLimits { mix: Some(mix.into()), ..VolumeLimits::default() });
    let (before, start) = (stored(&host), Instant::now());
    let data = vec![9; 64 << 10];
    let next = std::sync::atomic::AtomicU64::new(FILE_BYTES / (64 << 10));
    prey.attack(4, |thread| {
        let mut raw = Raw::open(prey.address, 9 + thread % 2);
        for _ in 0..16 {
            if thread % 2 == 0 {
                raw.send(Procedure::READ, &prey.read(FILE_BYTES * 1000, 1 << 20));
            } else {
                let offset = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) * (64 << 10);
                let (file, count, stable) = (prey.file.wire(), 64 << 10, StableHow::Unstable);
                raw.send(Procedure::WRITE, &WriteArgs { file, offset, count, stable, data: &data });
            }
        }
        (0..16).map(|_| raw.receive()).sum()
    });
    assert_within(stored(&host) - before, 16 * MIB, start, "WRITEs beside empty READs");
}

#[test]
fn fair_client_beside_attackers_gets_its_half() {
    let host = Host::new(1);
    let prey = Prey::new(&host);
    let mut plan = host.plan(0, Op::Read);
    (plan.block, plan.connections, plan.depth) = (64 << 10, 2, 8);
    (plan.time, plan.threads) = (Duration::from_secs(SECONDS - 1), Some(1));
    let data = vec![9; 1 << 20];
    let attack = |_: u8| {
        let mut raw = Raw::open(prey.address, 9);
        for _ in 0..4 {
            raw.send(Procedure::READ, &prey.read(FILE_BYTES, 1 << 20));
            raw.send(Procedure::READ, &prey.read(0, 1 << 20));
            let (file, count, stable) = (prey.file.wire(), 1 << 20, StableHow::Unstable);
            raw.send(Procedure::WRITE, &WriteArgs { file, offset: 0, count, stable, data: &data });
        }
        std::thread::sleep(Duration::from_millis(5));
        0
    };
    let half = (LIMIT / 2) as f64 / MIB as f64;
    within_tries(|| {
        host.gates[0].set_limits(VolumeLimits::default());
        std::thread::scope(|scope| {
            let fair = scope.spawn(|| host.run(&plan, || host.gates[0].set_limits(bytes(LIMIT))));
            std::thread::sleep(Duration::from_millis(500));
            prey.attack(4, attack);
            let got = fair.join().unwrap().mib_per_s;
            let what = format!("the fair client: {got:.1} MiB/s of {half:.1}");
            eprintln!("{what}");
            ensure(got >= 0.9 * half, what)
        })
    });
}
