//! Volumes with limits: calls that wait, clients that are refused, and statistics.

use crate::support::client::{Client, Running, system_clock, wait_until};
use crate::support::object::{name, new_inode};
use crate::support::{ALICE, ROOT, VOLUME, decode, trusting, volume};
use nfs_wire::v3::{
    DirOpArgs, FileHandle, GetattrArgs, GetattrReply, Procedure, ReadArgs, ReadReply, ReaddirplusArgs, Reply,
    Sattr, StableHow, Status, SymlinkArgs, SymlinkData, WriteArgs, WriteReply,
};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::qos::{Arbiter, Demand, Gate, Kind, Limits, Pacer, VolumeLimits};
use vfs::{Backend, Durability, Export, ExportRule, Namespace, Snapshot, Time, ViewId, Volume, VolumeId};
use vfs_testing::{MemFs, UncheckedNode};

pub(crate) const FILE_BYTES: u32 = 10_000;
const FREE: VolumeId = VolumeId(0xf4ee);

pub(crate) struct Host {
    pub(crate) running: Running,
    pub(crate) gate: Arc<Gate>,
    pub(crate) file: Vec<u8>,
    /// The file in a snapshot.
    old: Vec<u8>,
    pub(crate) root: Vec<u8>,
    /// The root of a volume without limits.
    pub(crate) free_root: Vec<u8>,
}

impl Host {
    pub(crate) fn new(rule: ExportRule) -> Self {
        let fs = MemFs::new(system_clock());
        let root = fs.root().key();
        let made = fs.root().create_unchecked(name("data"), &new_inode(0o666)).unwrap();
        made.found.node.write(0, &vec![7; FILE_BYTES as usize], KEEP_SET_ID).unwrap();
        let gate = Arbiter::new(&Limits::NONE.into(), &Pacer::start().unwrap()).gate(VolumeLimits::default());
        let view = ViewId(1);
        fs.snapshots().unwrap().create(view).unwrap();
        let volume =
            Volume::new(VOLUME, "vol", Arc::new(fs), Durability::Sync, 1).with_gate(Arc::clone(&gate));
        volume.set_snapshots(vec![Snapshot { view, name: "one".to_owned(), created: Time::default() }]);
        let export = Export::new("/vol", Arc::new(volume), vec![rule]);
        let free = MemFs::new(system_clock());
        let free_root = free.root().key();
        let free = self::volume(FREE, Arc::new(free), Durability::Sync);
        let free = Export::new("/free", free, vec![trusting()]);
        let running = Running::serving(Namespace::new([export, free]));
        let file = running.handle(VOLUME, &made.found.node.key());
        let old = running.handle(VOLUME, &made.found.node.key().in_view(view));
        let free_root = running.handle(FREE, &free_root);
        let root = running.handle(VOLUME, &root);
        Self { running, gate, file, old, root, free_root }
    }

    pub(crate) fn limit(&self, bytes: u64) {
        let all = Limits { bytes: NonZeroU64::new(bytes), ..Limits::NONE };
        self.gate.set_limits(VolumeLimits { all, ..VolumeLimits::default() });
    }

    fn read(&self, client: &mut Client, xid: u32, count: u32) {
        read_of(&self.file, client, xid, count);
    }
}

fn read_of(file: &[u8], client: &mut Client, xid: u32, count: u32) {
    let args = ReadArgs { file: FileHandle(file), offset: 0, count };
    client.send(xid, ALICE, Procedure::READ, &args);
}

/// Sends calls past the limit of one volume and GETATTRs of another one's root over one connection. Asserts that the
/// GETATTRs are answered first. Then the limit is lifted, and all other replies arrive.
fn ask_past_the_limit(calls: u32, ask: impl Fn(&Host, &mut Client, u32)) {
    let host = Host::new(trusting());
    host.limit(1);
    let mut client = host.running.connect();
    for xid in 0..calls {
        ask(&host, &mut client, xid);
    }
    let args = GetattrArgs { object: FileHandle(&host.free_root) };
    client.send(calls, ALICE, Procedure::GETATTR, &args);
    // One passes: no tokens are used yet.
    let mut first = [client.receive().xid, client.receive().xid];
    first.sort_unstable();
    assert_eq!(first, [0, calls]);
    host.gate.set_limits(VolumeLimits::default());
    let mut rest: Vec<u32> = (1..calls).map(|_| client.receive().xid).collect();
    rest.sort_unstable();
    assert!(rest.into_iter().eq(1..calls));
}

fn is_read(results: &[u8], bytes: usize) -> bool {
    matches!(decode::<ReadReply<'_>>(results), Reply::Ok(ok) if ok.data.len() == bytes)
}

#[test]
fn waiting_calls_are_dropped_with_their_connection() {
    let host = Host::new(trusting());
    host.limit(1000);
    let mut gone = host.running.connect();
    (0..20).for_each(|xid| host.read(&mut gone, xid, 4096));
    let queued = || host.running.server.view().stats().transport.queued_bytes;
    wait_until("calls that wait", || host.gate.throttled().1 == 19 && queued() > 0);
    drop(gone);
    wait_until("the end of the records", || queued() == 0);
    host.gate.set_limits(VolumeLimits::default());
    let mut other = host.running.connect();
    host.read(&mut other, 1, 4096);
    assert!(is_read(&other.receive().results, 4096));
}

#[test]
fn reads_of_snapshots_count_at_the_limit_of_their_volume() {
    let host = Host::new(trusting());
    host.limit(1000);
    let mut client = host.running.connect();
    read_of(&host.old, &mut client, 0, 4096);
    assert!(is_read(&client.receive().results, 4096), "no tokens were used before");
    host.read(&mut client, 1, 4096);
    read_of(&host.old, &mut client, 2, 4096);
    wait_until("calls that wait", || host.gate.throttled().1 == 2);
    host.gate.set_limits(VolumeLimits::default());
    let mut last = [client.receive(), client.receive()];
    last.sort_unstable_by_key(|answer| answer.xid);
    assert!(last.iter().all(|answer| is_read(&answer.results, 4096)));
    assert_eq!(last.map(|answer| answer.xid), [1, 2]);
}

#[test]
fn attributes_are_returned_while_data_waits() {
    let host = Host::new(trusting());
    host.limit(1000);
    let mut client = host.running.connect();
    (0..3).for_each(|xid| host.read(&mut client, xid, 4096));
    let args = GetattrArgs { object: FileHandle(&host.file) };
    client.send(9, ALICE, Procedure::GETATTR, &args);
    // The first READ passes, the others wait.
    assert_eq!(client.receive().xid, 0);
    let answer = client.receive();
    assert_eq!(answer.xid, 9, "bytes are limited, not operations");
    assert!(matches!(decode::<GetattrReply>(&answer.results), Reply::Ok(_)));
    host.gate.set_limits(VolumeLimits::default());
    let mut last = [client.receive().xid, client.receive().xid];
    last.sort_unstable();
    assert_eq!(last, [1, 2], "a limit that is lifted lets them pass at once");
}

#[test]
fn waiting_reads_delay_no_other_volume() {
    ask_past_the_limit(900, |host, client, xid| host.read(client, xid, 1 << 20));
}

#[test]
fn waiting_writes_delay_no_other_volume() {
    let data = vec![3; 64 << 10];
    ask_past_the_limit(100, |host, client, xid| {
        let (file, count) = (FileHandle(&host.file), 64 << 10);
        let args = WriteArgs { file, offset: 0, count, stable: StableHow::FileSync, data: &data };
        client.send(xid, ALICE, Procedure::WRITE, &args);
    });
}

#[test]
fn waiting_long_writes_delay_no_other_volume() {
    let data = vec![3; 1 << 20];
    ask_past_the_limit(100, |host, client, xid| {
        let (file, count) = (FileHandle(&host.file), 1 << 20);
        let args = WriteArgs { file, offset: 0, count, stable: StableHow::Unstable, data: &data };
        client.send(xid, ALICE, Procedure::WRITE, &args);
    });
}

#[test]
fn a_client_that_shuts_down_sending_gets_its_waiting_replies() {
    let host = Host::new(trusting());
    host.limit(40_000);
    let mut client = host.running.connect();
    (0..20).for_each(|xid| host.read(&mut client, xid, 4096));
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answered: Vec<u32> = (0..20).map(|_| client.receive().xid).collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..20));
    assert!(client.is_ended());
}

#[test]
fn bytes_past_the_end_of_file_are_refunded() {
    let host = Host::new(trusting());
    host.limit(100_000);
    let mut client = host.running.connect();
    let start = Instant::now();
    for xid in 0..20 {
        // Each requests ten seconds' worth and gets a tenth of a second's.
        host.read(&mut client, xid, 1 << 20);
        assert!(is_read(&client.receive().results, FILE_BYTES as usize));
    }
    // Two seconds' worth, while the requests are for two hundred.
    let took = start.elapsed();
    assert!(took > Duration::from_millis(1500) && took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_refused_client_uses_no_tokens() {
    let elsewhere = ExportRule { clients: vec!["10.0.0.0/8".parse().unwrap()], ..trusting() };
    let host = Host::new(elsewhere);
    host.limit(1);
    let mut client = host.running.connect();
    for xid in 0..10 {
        host.read(&mut client, xid, 4096);
        let refused = client.receive().results;
        assert!(matches!(decode::<ReadReply<'_>>(&refused), Reply::Err(Status::ACCES, _)));
    }
    // A handle that the server has not issued.
    let forged = vec![1; host.file.len()];
    let args = ReadArgs { file: FileHandle(&forged), offset: 0, count: 4096 };
    client.ask(99, ALICE, Procedure::READ, &args);
    assert!(host.gate.admit([10, 0, 0, 1].into(), Demand::read(1)));
    assert_eq!(host.gate.throttled().1, 0);
}

#[test]
fn clients_and_their_calls_are_counted() {
    let (one, two) = (MemFs::new(system_clock()), MemFs::new(system_clock()));
    let mut exports = vec![];
    for (id, fs) in [(VOLUME, &one), (VolumeId(77), &two)] {
        let volume = volume(id, Arc::new(fs.clone()), Durability::Sync);
        exports.push(Export::new(format!("/{}", id.0), volume, vec![trusting()]));
    }
    let running = Running::serving(Namespace::new(exports));
    let roots = [(VOLUME, &one), (VolumeId(77), &two)].map(|(id, fs)| running.handle(id, &fs.root().key()));
    let mut clients: Vec<Client> = (0..3).map(|_| running.connect()).collect();
    for (client, roots) in clients.iter_mut().zip([&roots[..1], &roots[..], &[]]) {
        for root in roots {
            client.ask(1, ALICE, Procedure::GETATTR, &GetattrArgs { object: FileHandle(root) });
        }
    }
    wait_until("all connections", || running.server.view().connections() == 3);
    // Calls are counted when the reply has left.
    let counted = || {
        let namespace = running.service.namespace.load();
        let export = namespace.volume(VOLUME).unwrap();
        export.volume.traffic().operation_counts(Kind::Other).ops
    };
    wait_until("two calls", || counted() == 2);
    let known = running.server.view().clients();
    assert_eq!(known.len(), 1, "one machine");
    assert_eq!(known[0].connections, 3);
    wait_until("the volumes", || {
        running.server.view().clients()[0].volumes == [(VOLUME, 2), (VolumeId(77), 1)].into()
    });
    let here = |connections| BTreeMap::from([(running.address.ip(), connections)]);
    let all = [(VOLUME, here(2)), (VolumeId(77), here(1))].into();
    assert_eq!(running.server.view().users(Duration::from_secs(10)), all);
    assert_eq!(running.server.view().clients()[0].endpoints, here(3));
    std::thread::sleep(Duration::from_millis(200));
    let lately = || running.server.view().users(Duration::from_millis(150));
    assert_eq!(lately(), [].into(), "nobody asks any more");
    wait_until("one that asks", || {
        clients[1].ask(2, ALICE, Procedure::GETATTR, &GetattrArgs { object: FileHandle(&roots[0]) });
        lately() == [(VOLUME, here(1))].into()
    });
    drop(clients);
    wait_until("their end", || running.server.view().clients().is_empty());
    assert_eq!(running.server.view().users(Duration::from_secs(10)), [].into());
}

#[test]
fn bytes_and_times_are_counted() {
    let host = Host::new(trusting());
    let mut client = host.running.connect();
    for xid in 0..3 {
        host.read(&mut client, xid, 1 << 20);
        assert!(is_read(&client.receive().results, FILE_BYTES as usize));
    }
    let namespace = host.running.service.namespace.load();
    let traffic = namespace.volume(VOLUME).unwrap().volume.traffic();
    wait_until("three calls", || traffic.operation_counts(Kind::Read).ops == 3);
    let counted = traffic.operation_counts(Kind::Read);
    assert_eq!(counted.bytes, u64::from(3 * FILE_BYTES));
    assert!(counted.nanos > 0 && counted.nanos < 60_000_000_000, "{counted:?}");
    assert_eq!(traffic.operation_counts(Kind::Write).ops, 0);
}

/// A WRITE with all of `data`, whatever its count.
fn write_of<'d>(file: &'d [u8], count: u32, data: &'d [u8]) -> WriteArgs<'d> {
    WriteArgs { file: FileHandle(file), offset: 0, count, stable: StableHow::Unstable, data }
}

#[test]
fn a_long_write_waits_for_its_turn_and_is_dropped_with_its_connection() {
    let host = Host::new(trusting());
    host.limit(1);
    let data = vec![3; 1 << 20];
    let mut gone = host.running.connect();
    for xid in 0..8 {
        let args = WriteArgs { offset: u64::from(xid) << 20, ..write_of(&host.file, 1 << 20, &data) };
        gone.send(xid, ALICE, Procedure::WRITE, &args);
    }
    wait_until("calls that wait", || host.gate.throttled().1 == 7);
    drop(gone);
    let queued = || host.running.server.view().stats().transport.queued_bytes;
    wait_until("the end of the records", || queued() == 0);
    host.gate.set_limits(VolumeLimits::default());
    let mut other = host.running.connect();
    let args = GetattrArgs { object: FileHandle(&host.file) };
    let results = other.ask(1, ALICE, Procedure::GETATTR, &args);
    let Reply::Ok(ok) = decode::<GetattrReply>(&results) else { panic!("GETATTR failed") };
    assert_eq!(
        ok.obj_attributes.size,
        1 << 20,
        "the one that had paid; the others went with their connection"
    );
}

#[test]
fn a_refused_write_pays_nothing_and_refunds_nothing() {
    let host = Host::new(trusting());
    // Ten seconds' worth is used in advance.
    host.limit(100 << 10);
    let mut client = host.running.connect();
    assert!(host.gate.admit([10, 0, 0, 1].into(), Demand::write(1 << 20)));
    let data = vec![3; 1 << 20];
    for (xid, count, length) in [(1, 0, 250_000), (2, 1 << 20, 4), (3, 0, 1 << 20), (4, 1 << 20, 900_000)] {
        let results = client.ask(xid, ALICE, Procedure::WRITE, &write_of(&host.file, count, &data[..length]));
        assert!(
            matches!(decode::<WriteReply>(&results), Reply::Err(Status::INVAL, _)),
            "{count} of {length}"
        );
    }
    assert!(!host.gate.admit([10, 0, 0, 1].into(), Demand::read(1)), "still owed");
    assert_eq!(host.gate.throttled(), Default::default(), "nothing has waited");
}

#[test]
fn listings_and_links_count_as_data() {
    let host = Host::new(trusting());
    let root = host.root.clone();
    let mut client = host.running.connect();
    for number in 0..200 {
        let text = vec![b'x'; 4000];
        let name = format!("{number:0>200}");
        let symlink = SymlinkData { symlink_attributes: Sattr::default(), symlink_data: &text };
        let place = DirOpArgs { dir: FileHandle(&root), name: name.as_bytes() };
        client.ask(number, ROOT, Procedure::SYMLINK, &SymlinkArgs { place, symlink });
    }
    host.limit(1);
    let listing = ReaddirplusArgs {
        dir: FileHandle(&root),
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 1 << 20,
        maxcount: 1 << 20,
    };
    let owed = |host: &Host| !host.gate.admit([10, 0, 0, 1].into(), Demand::read(0));
    client.ask(1000, ALICE, Procedure::READDIRPLUS, &listing);
    assert!(owed(&host), "a listing is paid for");
    client.send(1001, ALICE, Procedure::READDIRPLUS, &listing);
    wait_until("a listing that waits", || host.gate.throttled().1 == 1);
}
