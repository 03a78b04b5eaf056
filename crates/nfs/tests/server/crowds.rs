//! Unproven connections beside mounts, over every version.

use crate::support::client::{Client, Running, mark, record, system_clock, wait_until};
use crate::support::{BOB, VOLUME, head, trusting, volume};
use nfs::server::Settings;
use nfs_wire::v3::{FileHandle, GetattrArgs, Procedure};
use nfs_wire::{mount, v4};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::{Backend, Durability, Export, ExportRule, Namespace};
use vfs_testing::MemFs;
use xdr::Encode;

/// A server with unproven connections and mounts.
struct Fixture {
    running: Running,
    first_calls: Vec<Vec<u8>>,
}

impl Fixture {
    /// Hosts of 127.0.1.0/24 may mount.
    fn new(settings: Settings) -> Self {
        let fs = MemFs::new(system_clock());
        let root = fs.root().key();
        let volume = volume(VOLUME, Arc::new(fs), Durability::Sync);
        let rule = ExportRule { clients: vec!["127.0.1.0/24".parse().unwrap()], ..trusting() };
        let namespace = Namespace::new([Export::new("/vol", volume, vec![rule])]);
        let running = Running::with(namespace, settings);
        let handle = running.handle(VOLUME, &root);
        let getattr = record(1, BOB, Procedure::GETATTR, &GetattrArgs { object: FileHandle(&handle) });
        let mut mnt = record(1, BOB, Procedure::NULL, &mount::DirPath(b"/vol"));
        // The program, its version and the procedure, in place of those of NFS.
        for (at, word) in [(16, mount::PROGRAM), (20, mount::VERSION), (24, mount::Procedure::MNT.0)] {
            mnt[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        let first_calls = [getattr, mnt].into_iter().chain([0, 1, 2].map(compound)).collect();
        Self { running, first_calls }
    }

    fn connect(&self, last: u8) -> Client {
        Client::connect_as([127, 0, 1, last], self.running.address)
    }

    /// A client for each kind of first call, all of which are answered.
    fn mounted(&self) -> Vec<Client> {
        (0..).zip(&self.first_calls).map(|(number, call)| asked(self.connect(100 + number), call)).collect()
    }

    fn assert_served(&self, mounted: &mut [Client]) {
        for (client, call) in mounted.iter_mut().zip(&self.first_calls) {
            client.send_bytes(call).unwrap();
            client.receive();
        }
    }

    fn connections(&self) -> usize {
        self.running.server.view().connections()
    }
}

fn asked(mut client: Client, call: &[u8]) -> Client {
    client.send_bytes(call).unwrap();
    client.receive();
    client
}

/// PUTROOTFH, with which mounts begin over version 4.0. Later versions refuse it without a session, which is a reply as
/// well.
fn compound(minorversion: u32) -> Vec<u8> {
    let head = head(1, BOB, v4::VERSION, v4::Procedure::COMPOUND.0);
    let compound = v4::CompoundHead { tag: b"", minorversion, operations: 1 }.to_bytes();
    let body = [head, compound, v4::Argument::Putrootfh.to_bytes()].concat();
    [&mark(true, body.len())[..], &body].concat()
}

fn null() -> Vec<u8> {
    record(9, BOB, Procedure::NULL, &())
}

fn settings() -> Settings {
    Settings { connections_max: 60, ..Settings::for_descriptors(1, 10_000) }
}

#[test]
fn connections_without_a_call_are_evicted_and_mounts_stay() {
    let f = Fixture::new(settings());
    let mut before = f.mounted();
    let mut silent: Vec<Client> = (0..30).map(|_| f.connect(2)).collect();
    // NULL proves nothing, nor does a call of a host that may not mount.
    let _null: Vec<Client> = (0..25).map(|_| asked(f.connect(3), &null())).collect();
    let strangers = (0..40).map(|_| Client::connect_as([127, 0, 2, 1], f.running.address));
    let _strangers: Vec<Client> = strangers.collect();
    let mut after = f.mounted();
    assert!(silent[0].is_ended(), "the oldest gave way");
    f.assert_served(&mut before);
    f.assert_served(&mut after);
}

#[test]
fn unproven_connections_end_at_the_deadline_and_mounts_stay() {
    let f = Fixture::new(Settings { unproven_s: 2, ..settings() });
    let mut mounted = f.mounted();
    let start = Instant::now();
    let (mut silent, mut pings) = (f.connect(1), f.connect(1));
    let mut stranger = Client::connect_as([127, 0, 2, 1], f.running.address);
    let calls = f.first_calls.concat();
    wait_until("the newcomers", || f.connections() == mounted.len() + 3);
    while f.connections() > mounted.len() {
        _ = pings.send_bytes(&null());
        _ = stranger.send_bytes(&calls);
        std::thread::sleep(Duration::from_millis(50));
        assert!(start.elapsed() < Duration::from_secs(20), "nothing ends");
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(silent.is_ended(), "it is silent");
    f.assert_served(&mut mounted);
}

/// The current exports decide.
#[test]
fn a_newly_admitted_host_is_proven_by_its_next_call() {
    let f = Fixture::new(Settings { unproven_s: 3, ..settings() });
    let mut client = Client::connect_as([127, 0, 2, 1], f.running.address);
    client = asked(client, &compound(0));
    let exports = f.running.service.namespace.load();
    let volume = Arc::clone(&exports.exports()[0].volume);
    f.running.service.namespace.store(Arc::new(Namespace::new([Export::new(
        "/vol",
        volume,
        vec![trusting()],
    )])));
    client = asked(client, &compound(0));
    let mut silent = f.connect(1);
    wait_until("the end of the silent one", || f.connections() == 1);
    assert!(silent.is_ended());
    asked(client, &compound(0));
}
