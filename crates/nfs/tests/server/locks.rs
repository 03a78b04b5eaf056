//! Locks over real sockets: one client over TCP and another over UDP, which gets a callback when its lock is granted.

use super::compounds::{owe, waiting};
use super::limits::Host;
use crate::support::client::{Client, PATIENCE, system_clock, wait_until};
use crate::support::object::{name, new_inode};
use crate::support::{PROGRAMS, VOLUME, service, trusting, volume};
use nfs::limits::WAITING_DATAGRAMS_MAX;
use nfs::programs::Programs;
use nfs::server::udp::Responder;
use nfs::server::{Server, Settings};
use nfs::service::Service;
use nfs::state::nlm::Locks;
use nfs_wire::nlm::{
    CancelArgs, Lock, LockArgs, Notify, Object, Offset, PROGRAM, Procedure, Reply, Share, ShareAccess,
    ShareArgs, ShareMode, Status, TestArgs, UnlockArgs, VERSION_1, VERSION_3, VERSION_4,
};
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, RecordMark, ReplyHeader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU64;
use std::sync::Arc;
use vfs::qos::{Demand, Limits, QueueResult, VolumeLimits, Waiter};
use vfs::{Backend, Durability, Export, Namespace, bounds};
use vfs_testing::{MemFs, UncheckedNode};
use xdr::{Decode, Encode, Reader};

const TCP_CLIENT: [u8; 4] = [127, 0, 4, 1];
const UDP_CLIENT: [u8; 4] = [127, 0, 4, 2];

/// Calls whose results arrive in a separate call.
const ASYNCHRONOUS: [Procedure; 4] =
    [Procedure::TEST_MSG, Procedure::LOCK_MSG, Procedure::CANCEL_MSG, Procedure::UNLOCK_MSG];

fn call(xid: u32, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    call_of(xid, PROGRAM, VERSION_4, procedure.0, args)
}

fn call_of(xid: u32, program: u32, version: u32, procedure: u32, args: &impl Encode) -> Vec<u8> {
    let sys = AuthSys { uid: 1000, gid: 100, ..AuthSys::default() }.to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys };
    let verf = OpaqueAuth::default();
    let header =
        CallHeader { xid, rpcvers: RPC_VERSION, prog: program, vers: version, proc: procedure, cred, verf };
    [header.to_bytes(), args.to_bytes()].concat()
}

fn lock_args(fh: &[u8], block: bool) -> LockArgs<'_, u64> {
    let (fh, oh) = (Object(fh), Object(b"1@client"));
    let alock = Lock { caller_name: b"client", fh, oh, svid: 1, l_offset: 0, l_len: 0 };
    LockArgs { cookie: Object(b"c"), block, exclusive: true, alock, reclaim: false, state: 1 }
}

fn status(results: &[u8]) -> Status {
    Reply::decode(&mut Reader::new(results)).unwrap().stat
}

fn send_tcp(client: &mut Client, call: &[u8]) {
    let mark = RecordMark { last: true, length: u32::try_from(call.len()).unwrap() };
    client.send_bytes(&[&mark.to_word().to_be_bytes()[..], call].concat()).unwrap();
}

fn ask_tcp(client: &mut Client, procedure: Procedure, args: &impl Encode) -> Status {
    send_tcp(client, &call(7, procedure, args));
    status(&client.receive().results)
}

#[test]
fn a_client_waits_over_udp_for_the_lock_of_one_over_tcp() {
    // The second client's host: one socket serves as its port mapper and its lock manager.
    let host = UdpSocket::bind((Ipv4Addr::from(UDP_CLIENT), 0)).unwrap();
    host.set_read_timeout(Some(PATIENCE)).unwrap();
    let own_port = host.local_addr().unwrap().port();

    let fs = MemFs::new(system_clock());
    let made = fs.root().create_unchecked(name("file"), &new_inode(0o644)).unwrap();
    let volume = volume(VOLUME, Arc::new(fs.clone()), Durability::Sync);
    let namespace = Namespace::new([Export::new("/vol", volume, vec![trusting()])]);
    let service = service(Arc::new(namespace));
    let service = Arc::new(Service { locks: Locks::new(None, own_port), ..service });
    let handle = service.signer.sign(VOLUME.into(), &made.found.node.key());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let settings = Settings::for_descriptors(2, 10_000);
    let server = Server::start(Arc::clone(&service), vec![(listener, PROGRAMS)], None, settings).unwrap();
    let socket = UdpSocket::bind(address).unwrap();
    let locks_only = Programs { locks: true, ..Programs::default() };
    let responder = Responder::start(service, socket, locks_only, Default::default()).unwrap();

    let mut first = Client::connect_as(TCP_CLIENT, address);
    let fh = handle.bytes();
    assert_eq!(ask_tcp(&mut first, Procedure::LOCK, &lock_args(fh, false)), Status::GRANTED);
    let mut datagram = [0; 2048];
    host.send_to(&call(8, Procedure::LOCK, &lock_args(fh, true)), address).unwrap();
    let (length, from) = host.recv_from(&mut datagram).unwrap();
    assert_eq!(from, address);
    let reply = datagram[..length].strip_prefix(&ReplyHeader::success(8)).unwrap();
    assert_eq!(status(reply), Status::BLOCKED);

    let unlock = UnlockArgs { cookie: Object(b"c"), alock: lock_args(fh, false).alock };
    assert_eq!(ask_tcp(&mut first, Procedure::UNLOCK, &unlock), Status::GRANTED);
    loop {
        let (length, from) = host.recv_from(&mut datagram).unwrap();
        assert_eq!(from.ip(), address.ip(), "calls come from where the client has called");
        let mut r = Reader::new(&datagram[..length]);
        let CallHeader { xid, prog, proc, .. } = CallHeader::decode(&mut r).unwrap();
        let results = if prog == PROGRAM {
            let told = TestArgs::<u64>::decode(&mut r).unwrap();
            assert_eq!((Procedure(proc), told.alock), (Procedure::GRANTED, lock_args(fh, true).alock));
            Reply { cookie: told.cookie, stat: Status::GRANTED }.to_bytes()
        } else {
            u32::from(own_port).to_bytes()
        };
        host.send_to(&[&ReplyHeader::success(xid)[..], &results].concat(), from).unwrap();
        if prog == PROGRAM {
            break;
        }
    }
    assert_eq!(ask_tcp(&mut first, Procedure::LOCK, &lock_args(fh, false)), Status::DENIED);
    drop(responder);
    server.stop(PATIENCE);
}

/// A call of every procedure about this file, in one version of the lock manager.
fn calls_about<O: Offset + From<u8>>(version: u32, fh: &[u8]) -> Vec<(Procedure, Vec<u8>)> {
    let (cookie, oh) = (Object(b"c"), Object(b"1@client"));
    let (l_offset, l_len, fh) = (O::from(0), O::from(0), Object(fh));
    let alock = Lock { caller_name: b"client", fh, oh, svid: 1, l_offset, l_len };
    let lock = LockArgs { cookie, block: false, exclusive: true, alock, reclaim: false, state: 1 };
    let test = TestArgs { cookie, exclusive: true, alock };
    let cancel = CancelArgs { cookie, block: false, exclusive: true, alock };
    let unlock = UnlockArgs { cookie, alock };
    let (mode, access) = (ShareMode::DENY_NONE, ShareAccess::READ);
    let share = Share { caller_name: b"client", fh, oh, mode, access };
    let share = ShareArgs { cookie, share, reclaim: false };
    let mut calls = vec![
        (Procedure::TEST, test.to_bytes()),
        (Procedure::LOCK, lock.to_bytes()),
        (Procedure::CANCEL, cancel.to_bytes()),
        (Procedure::UNLOCK, unlock.to_bytes()),
        (Procedure::TEST_MSG, test.to_bytes()),
        (Procedure::LOCK_MSG, lock.to_bytes()),
        (Procedure::CANCEL_MSG, cancel.to_bytes()),
        (Procedure::UNLOCK_MSG, unlock.to_bytes()),
    ];
    if version != VERSION_1 {
        calls.push((Procedure::NM_LOCK, lock.to_bytes()));
        calls.push((Procedure::SHARE, share.to_bytes()));
        calls.push((Procedure::UNSHARE, share.to_bytes()));
    }
    let numbered = (0..).zip(calls);
    let called = numbered.map(|(xid, (procedure, args))| {
        (procedure, [call_of(xid, PROGRAM, version, procedure.0, &()), args].concat())
    });
    called.collect()
}

/// A call of every procedure about the file of a host.
fn calls_at(host: &Host, version: u32) -> Vec<(Procedure, Vec<u8>)> {
    match version {
        VERSION_4 => calls_about::<u64>(version, &host.file),
        _ => calls_about::<u32>(version, &host.file),
    }
}

/// A host whose volume admits no operation for a minute.
fn slow_host() -> Host {
    let host = Host::new(trusting());
    let all = Limits { ops: NonZeroU64::new(1), ..Limits::NONE };
    host.gate.set_limits(VolumeLimits { all, ..VolumeLimits::default() });
    owe(&host, 60);
    host
}

#[test]
fn each_call_about_a_file_is_an_operation_of_its_volume() {
    for version in [VERSION_1, VERSION_3, VERSION_4] {
        let host = slow_host();
        let calls = calls_at(&host, version);
        let mut client = host.running.connect();
        for (_, call) in &calls {
            send_tcp(&mut client, call);
        }
        wait_until("all to wait", || waiting(&host) == calls.len());
        // A client that releases everything does not wait.
        let notify = Notify { name: b"client", state: 0 };
        let free_all = call_of(99, PROGRAM, VERSION_4, Procedure::FREE_ALL.0, &notify);
        send_tcp(&mut client, &free_all);
        assert_eq!(client.receive().xid, 99);
        host.gate.set_limits(VolumeLimits::default());
        let mut answered: Vec<u32> = (0..calls.len()).map(|_| client.receive().xid).collect();
        answered.sort_unstable();
        assert!(answered.into_iter().eq((0..).take(calls.len())), "version {version}");
    }
}

/// A waiter that takes its place in line and does nothing with its turn.
struct Idle;

impl Waiter for Idle {
    fn pass(self: Box<Self>) {}
}

#[test]
fn a_call_without_room_to_wait_is_refused_with_a_retry() {
    let host = slow_host();
    let client = Ipv4Addr::LOCALHOST.into();
    while host.gate.wait(client, Demand::OTHER, Box::new(Idle)) == QueueResult::Queued {}
    let mut client = host.running.connect();
    for version in [VERSION_1, VERSION_3, VERSION_4] {
        let calls = calls_at(&host, version).into_iter();
        for (procedure, call) in calls.filter(|(procedure, _)| !ASYNCHRONOUS.contains(procedure)) {
            send_tcp(&mut client, &call);
            // Every result begins with a cookie and a status.
            let results = client.receive().results;
            let Reply { cookie, stat } = Reply::decode(&mut Reader::new(&results)).unwrap();
            assert_eq!((cookie, stat), (Object(b"c"), Status::DENIED_GRACE_PERIOD), "{procedure:?}");
        }
    }
}

/// A slow host that is called by datagrams.
struct Called {
    host: Host,
    address: SocketAddr,
    responder: Responder,
}

impl Called {
    fn new() -> Self {
        let host = slow_host();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let locks_only = Programs { locks: true, ..Programs::default() };
        let responder =
            Responder::start(Arc::clone(&host.running.service), socket, locks_only, Default::default())
                .unwrap();
        Self { host, address, responder }
    }

    fn client(&self, host: [u8; 4]) -> Caller<'_> {
        let socket = UdpSocket::bind((Ipv4Addr::from(host), 0)).unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Caller { socket, file: &self.host.file }
    }
}

struct Caller<'h> {
    socket: UdpSocket,
    file: &'h [u8],
}

impl Caller<'_> {
    fn lock(&self, xid: u32) {
        self.socket
            .send(&call(xid, Procedure::LOCK, &LockArgs { exclusive: false, ..lock_args(self.file, false) }))
            .unwrap();
    }

    /// The number of the next call that is answered.
    fn answered(&self) -> u32 {
        let mut datagram = [0; 2048];
        let length = self.socket.recv(&mut datagram).unwrap();
        let xid = u32::decode(&mut Reader::new(&datagram)).unwrap();
        assert_eq!(
            status(datagram[..length].strip_prefix(&ReplyHeader::success(xid)).unwrap()),
            Status::GRANTED
        );
        xid
    }
}

#[test]
fn datagrams_wait_for_a_limit_once_each() {
    let called = Called::new();
    let client = called.client(UDP_CLIENT);
    for xid in [1, 1, 1, 2, 3, 2] {
        client.lock(xid);
    }
    wait_until("three that wait", || waiting(&called.host) == 3);
    called.host.gate.set_limits(VolumeLimits::default());
    let mut answered = [(); 3].map(|()| client.answered());
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3]);
    // The repeated call gets no second reply.
    client.lock(4);
    assert_eq!(client.answered(), 4);
}

#[test]
fn datagrams_of_one_client_leave_room_for_other_clients() {
    let called = Called::new();
    let [greedy, other] = [TCP_CLIENT, UDP_CLIENT].map(|host| called.client(host));
    let most = bounds::share(WAITING_DATAGRAMS_MAX, 0);
    for xid in 0..=u32::try_from(most).unwrap() + 20 {
        greedy.lock(xid);
        wait_until("it to be in line", || waiting(&called.host) >= (xid as usize).min(most));
    }
    other.lock(7);
    wait_until("the other one's", || waiting(&called.host) == most + 1);
    called.host.gate.set_limits(VolumeLimits::default());
    assert_eq!(other.answered(), 7);
}

#[test]
fn datagrams_from_forged_addresses_leave_room_for_tcp_calls() {
    let called = Called::new();
    for (forged, waits) in (0..).zip(1..=WAITING_DATAGRAMS_MAX) {
        let [high, low] = u16::to_be_bytes(forged);
        called.client([127, 1, high, low]).lock(1);
        wait_until("it to be in line", || waiting(&called.host) == waits);
    }
    // The queue is full: one more call is dropped, and repeated later.
    let late = called.client(UDP_CLIENT);
    late.lock(1);
    let mut client = called.host.running.connect();
    let shared = LockArgs { exclusive: false, ..lock_args(&called.host.file, false) };
    send_tcp(&mut client, &call(7, Procedure::LOCK, &shared));
    wait_until("the one over TCP", || waiting(&called.host) == WAITING_DATAGRAMS_MAX + 1);
    called.host.gate.set_limits(VolumeLimits::default());
    assert_eq!(status(&client.receive().results), Status::GRANTED);
    late.lock(2);
    assert_eq!(late.answered(), 2);
}

#[test]
fn a_responder_stops_while_datagrams_wait() {
    let called = Called::new();
    let client = called.client(UDP_CLIENT);
    (0..20).for_each(|xid| client.lock(xid));
    wait_until("all to wait", || waiting(&called.host) == 20);
    drop(client);
    let Called { host, responder, .. } = called;
    drop(responder);
    host.gate.set_limits(VolumeLimits::default());
    assert_eq!(waiting(&host), 0);
}
