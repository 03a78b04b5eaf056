//! An orderly stop, and a namespace that is replaced while clients use it.

use crate::support::client::{Running, record, system_clock, wait_until};
use crate::support::gate::Gate;
use crate::support::object::{name, new_inode};
use crate::support::{ALICE, BOB, OTHER, VOLUME, decode, trusting, volume};
use nfs_wire::v3::{
    CreateArgs, CreateHow, CreateReply, DirOpArgs, FileHandle, GetattrArgs, GetattrReply, Procedure,
    ReadArgs, Reply, Sattr, StableHow, Status, WriteArgs, WriteReply,
};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, Durability, Export, ExportRule, Namespace, SetAttrs, VolumeId};
use vfs_testing::{MemFs, UncheckedNode};

#[test]
fn a_stop_answers_the_calls_in_flight() {
    let fs = MemFs::new(system_clock());
    fs.root().set_attrs(&SetAttrs { mode: Some(0o777), ..SetAttrs::default() }).unwrap();
    let (gate, control) = Gate::new(fs.clone());
    let running = Running::new(gate);
    let root = running.handle(VOLUME, &fs.root().key());
    control.close();
    let names: Vec<String> = (0..20).map(|number| format!("file-{number}")).collect();
    let mut clients: Vec<_> = names
        .iter()
        .map(|text| {
            let mut client = running.connect();
            let place = DirOpArgs { dir: FileHandle(&root), name: text.as_bytes() };
            let how = CreateHow::Guarded(Sattr::default());
            client.send(7, ALICE, Procedure::CREATE, &CreateArgs { place, how });
            client
        })
        .collect();
    wait_until("the calls at the gate", || control.arrived.load(Ordering::SeqCst) == names.len());
    let address = running.address;
    let stopping = std::thread::spawn(move || running.server.stop(Duration::from_secs(20)));
    wait_until("the end of listening", || TcpStream::connect(address).is_err());
    assert!(!stopping.is_finished(), "calls are in flight");
    control.open();
    for client in &mut clients {
        let answer = client.receive();
        assert!(matches!(decode::<CreateReply<'_>>(&answer.results), Reply::Ok(_)));
        assert!(client.is_ended());
    }
    stopping.join().unwrap();
    assert_eq!(control.created.load(Ordering::SeqCst), names.len());
}

#[test]
fn a_stop_waits_at_most_its_timeout() {
    let fs = MemFs::new(system_clock());
    let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
    let (gate, control) = Gate::new(fs);
    let running = Running::new(gate);
    let file = running.handle(VOLUME, &made.found.node.key());
    made.found.node.write(0, b"x", KEEP_SET_ID).unwrap();
    control.close();
    control.cold_reads.store(true, Ordering::SeqCst);
    let mut client = running.connect();
    client.send(1, BOB, Procedure::READ, &ReadArgs { file: FileHandle(&file), offset: 0, count: 1 });
    wait_until("the read at the gate", || control.arrived.load(Ordering::SeqCst) == 1);
    let start = Instant::now();
    running.server.stop(Duration::from_millis(300));
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(10), "{took:?}");
    control.open();
}

#[test]
fn idle_connections_and_half_calls_do_not_delay_a_stop() {
    let fs = MemFs::new(system_clock());
    let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
    let running = Running::new(Arc::new(fs));
    let file = running.handle(VOLUME, &made.found.node.key());
    let mut idle: Vec<_> = (0..10).map(|_| running.connect()).collect();
    idle[0].send_bytes(&[0x80, 0, 0]).unwrap();
    let (count, data) = (1 << 20, vec![1; 1 << 20]);
    let args =
        WriteArgs { file: FileHandle(&file), offset: 0, count, stable: StableHow::FileSync, data: &data };
    let long = record(1, BOB, Procedure::WRITE, &args);
    idle[1].send_bytes(&long[..900 << 10]).unwrap();
    wait_until("its first part", || made.found.node.attrs(vfs::Blocking::Allowed).unwrap().size > 0);
    // Everything but the padding: the connection waits for three bytes.
    let args = WriteArgs { count: count - 3, data: &data[3..], ..args };
    let long = record(2, BOB, Procedure::WRITE, &args);
    idle[2].send_bytes(&long[..long.len() - 3]).unwrap();
    assert!(idle[2].hears_nothing(Duration::from_millis(100)));
    let start = Instant::now();
    running.server.stop(Duration::from_secs(20));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(idle.iter_mut().all(crate::support::client::Client::is_ended));
}

/// A client that calls `shutdown(SHUT_WR)` after its last call still waits for the replies.
#[test]
fn a_client_that_shuts_down_sending_gets_all_replies() {
    for cold in [false, true] {
        let fs = MemFs::new(system_clock());
        let made = fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap();
        made.found.node.write(0, &[7; 64 << 10], vfs::backend::KEEP_SET_ID).unwrap();
        let (gate, control) = Gate::new(fs);
        control.cold_reads.store(cold, Ordering::SeqCst);
        let running = Running::new(gate);
        let file = running.handle(VOLUME, &made.found.node.key());
        let mut client = running.connect();
        rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 << 10).unwrap();
        for xid in 0..100 {
            let args = ReadArgs { file: FileHandle(&file), offset: 0, count: 64 << 10 };
            client.send(xid, BOB, Procedure::READ, &args);
        }
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let mut seen: Vec<u32> = (0..100).map(|_| client.receive().xid).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert!(client.is_ended());
        wait_until("the end of the connection", || running.server.view().connections() == 0);
    }
}

fn export(path: &str, id: VolumeId, fs: &MemFs, rule: ExportRule) -> Export {
    Export::new(path, volume(id, Arc::new(fs.clone()), Durability::Sync), vec![rule])
}

#[test]
fn a_new_namespace_applies_from_the_next_call() {
    let [fs, other] = [(); 2].map(|()| MemFs::new(system_clock()));
    let made = [&fs, &other]
        .map(|fs| fs.root().create_unchecked(name("file"), &new_inode(0o666)).unwrap().found.node);
    let both = || [export("/a", VOLUME, &fs, trusting()), export("/b", OTHER, &other, trusting())];
    let running = Running::serving(Namespace::new(both()));
    let [kept, taken] = [running.handle(VOLUME, &made[0].key()), running.handle(OTHER, &made[1].key())];
    let mut client = running.connect();
    let mut xid = 0;
    let mut ask = |handle: &[u8]| {
        xid += 2;
        let args = GetattrArgs { object: FileHandle(handle) };
        let read = client.ask(xid, BOB, Procedure::GETATTR, &args);
        let read = match decode::<GetattrReply>(&read) {
            Reply::Ok(_) => Status::OK,
            Reply::Err(status, ()) => status,
        };
        let file = FileHandle(handle);
        let args = WriteArgs { file, offset: 0, count: 1, stable: StableHow::FileSync, data: b"x" };
        let write = match decode::<WriteReply>(&client.ask(xid + 1, BOB, Procedure::WRITE, &args)) {
            Reply::Ok(_) => Status::OK,
            Reply::Err(status, _) => status,
        };
        (read, write)
    };
    let set = |exports: Vec<Export>| running.service.namespace.store(Arc::new(Namespace::new(exports)));
    for _ in 0..3 {
        assert_eq!((ask(&kept), ask(&taken)), ((Status::OK, Status::OK), (Status::OK, Status::OK)));
        set(vec![export("/a", VOLUME, &fs, trusting())]);
        assert_eq!((ask(&kept), ask(&taken)), ((Status::OK, Status::OK), (Status::STALE, Status::STALE)));
        set(vec![export("/a", VOLUME, &fs, ExportRule { read_only: true, ..trusting() })]);
        assert_eq!(ask(&kept), (Status::OK, Status::ROFS));
        set(vec![export(
            "/a",
            VOLUME,
            &fs,
            ExportRule { clients: vec!["10.0.0.1".parse().unwrap()], ..trusting() },
        )]);
        assert_eq!(ask(&kept), (Status::ACCES, Status::ACCES));
        set(vec![]);
        assert_eq!(ask(&kept), (Status::STALE, Status::STALE));
        set(both().into());
    }
}
