//! The end of the process's lease: no byte reaches a client afterwards, over any protocol.

use crate::support::client::{Client, PATIENCE, Running, one_volume, system_clock, wait_until};
use crate::support::gate::Gate;
use crate::support::{ALICE, PROGRAMS, VOLUME, call};
use crate::v40;
use nfs::server::Settings;
use nfs::server::udp::Responder;
use nfs_wire::portmap::{PMAP_VERSION, PROGRAM, PmapProcedure};
use nfs_wire::rpc::{CallHeader, RPC_VERSION, ReplyHeader};
use nfs_wire::v3::{CreateArgs, CreateHow, DirOpArgs, FileHandle, GetattrArgs, Procedure, Sattr};
use nfs_wire::v4::{Argument, Status};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use transport::{ReplyLease, clock};
use vfs::{Backend, SetAttrs};
use vfs_testing::MemFs;
use xdr::Encode;

/// The time in which a datagram would have arrived.
const SILENCE: Duration = Duration::from_millis(500);

#[track_caller]
fn assert_reset_without_a_byte(client: &mut Client) {
    let error = client.stream.read(&mut [0; 16]).expect_err("a byte, or an orderly end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// A call without arguments to the port mapper.
fn null_call(xid: u32) -> Vec<u8> {
    let (vers, proc) = (PMAP_VERSION, PmapProcedure::NULL.0);
    CallHeader { xid, rpcvers: RPC_VERSION, prog: PROGRAM, vers, proc, ..CallHeader::default() }.to_bytes()
}

/// A client of the datagram port that got an answer.
fn answered_over_udp(address: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send(&null_call(1)).unwrap();
    let mut reply = [0; 64];
    let length = client.recv(&mut reply).unwrap();
    assert_eq!(reply[..length], ReplyHeader::success(1));
    client
}

#[test]
fn no_byte_reaches_a_client_after_the_deadline() {
    let fs = MemFs::new(system_clock());
    fs.root().set_attrs(&SetAttrs { mode: Some(0o777), ..SetAttrs::default() }).unwrap();
    let (gate, control) = Gate::new(fs.clone());
    let lease = ReplyLease::new(clock::boot_ns() + 3_600_000_000_000);
    let deadline = lease.deadline();
    let settings = Settings { deadline, ..Settings::for_descriptors(2, 10_000) };
    let running = Running::with(one_volume(gate), settings);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let datagrams = socket.local_addr().unwrap();
    let _responder = Responder::start(Arc::clone(&running.service), socket, PROGRAMS, deadline).unwrap();
    let root = running.handle(VOLUME, &fs.root().key());
    let attributes = GetattrArgs { object: FileHandle(&root) };

    let [mut v3, mut v4, mut waiting] = [(); 3].map(|()| running.connect());
    assert!(!v3.ask(1, ALICE, Procedure::GETATTR, &attributes).is_empty());
    v4.send_bytes(&v40::record(2, ALICE, &[Argument::Putrootfh])).unwrap();
    assert_eq!(v40::Results(v4.receive().results).status(), Status::OK);
    let over_udp = answered_over_udp(datagrams);
    control.close();
    let place = DirOpArgs { dir: FileHandle(&root), name: b"file" };
    waiting.send(
        3,
        ALICE,
        Procedure::CREATE,
        &CreateArgs { place, how: CreateHow::Guarded(Sattr::default()) },
    );
    wait_until("the call at the gate", || control.arrived.load(Ordering::SeqCst) == 1);

    lease.end();
    control.open();
    assert_reset_without_a_byte(&mut waiting);
    assert_eq!(control.created.load(Ordering::SeqCst), 1, "the call ran");
    v3.send(4, ALICE, Procedure::GETATTR, &attributes);
    assert_reset_without_a_byte(&mut v3);
    v4.send_bytes(&v40::record(5, ALICE, &[Argument::Putrootfh])).unwrap();
    assert_reset_without_a_byte(&mut v4);
    let mut unknown = running.connect();
    unknown.send(6, ALICE, Procedure::NULL, &());
    assert_reset_without_a_byte(&mut unknown);
    over_udp.set_read_timeout(Some(SILENCE)).unwrap();
    for datagram in [null_call(7), call(8, ALICE, Procedure::NULL, &())] {
        over_udp.send(&datagram).unwrap();
        assert_eq!(over_udp.recv(&mut [0; 64]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
