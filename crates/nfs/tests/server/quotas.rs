//! Remote quotas over real sockets: over both transports, and questions of one client beside those of others.

use crate::support::client::{Client, PATIENCE, Running, mark};
use crate::support::quotas::{answer, limited, question, unused};
use crate::support::{VOLUME, trusting, volume};
use nfs::limits::CLIENT_QUOTAS_PER_S;
use nfs::programs::Programs;
use nfs::server::Settings;
use nfs::server::udp::Responder;
use nfs::state::call_rates::CallRates;
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::rquota::{QuotaReply, Status, VERSION_1, VERSION_2};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use vfs::qos::Pacer;
use vfs::{Durability, Export, ExportRule, Namespace};
use xdr::{Decode, Encode, Reader};

const CLIENT: [u8; 4] = [127, 0, 5, 1];
const OTHER: [u8; 4] = [127, 0, 5, 2];
const STRANGER: [u8; 4] = [127, 0, 6, 1];

struct Asked {
    running: Running,
    responder: Option<Responder>,
    address: SocketAddr,
}

impl Asked {
    /// A service for the network of [`CLIENT`], where each user has 1 MiB.
    fn new() -> Self {
        let volume = volume(VOLUME, Arc::new(limited()), Durability::Sync);
        let rule = ExportRule { clients: vec!["127.0.5.0/24".parse().unwrap()], ..trusting() };
        let namespace = Namespace::new([Export::new("/vol", volume, vec![rule])]);
        let rates = CallRates::new(&Pacer::start().unwrap());
        let running = Running::rated(namespace, Settings::for_descriptors(2, 10_000), rates);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let quotas_only = Programs { quotas: true, ..Programs::default() };
        let responder =
            Responder::start(Arc::clone(&running.service), socket, quotas_only, Default::default()).unwrap();
        Self { running, responder: Some(responder), address }
    }

    fn socket(&self, from: [u8; 4]) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::from(from), 0)).unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

/// The xid and the answer of the next reply.
fn next(socket: &UdpSocket) -> (u32, QuotaReply) {
    let mut datagram = [0; 2048];
    let length = socket.recv(&mut datagram).unwrap();
    let xid = u32::decode(&mut Reader::new(&datagram)).unwrap();
    (xid, answer(datagram[..length].strip_prefix(&ReplyHeader::success(xid)).unwrap()))
}

#[test]
fn both_versions_answer_over_both_transports() {
    let asked = Asked::new();
    let socket = asked.socket(CLIENT);
    let mut tcp = Client::connect_as(CLIENT, asked.running.address);
    for version in [VERSION_1, VERSION_2] {
        socket.send(&question(version, version, "/vol")).unwrap();
        assert_eq!(next(&socket), (version, unused()));
        let call = question(7, version, "vol/");
        tcp.send_bytes(&[&mark(true, call.len())[..], &call].concat()).unwrap();
        assert_eq!(answer(&tcp.receive().results), unused());
    }
}

#[test]
fn stranger_is_refused_over_both_transports() {
    let asked = Asked::new();
    let socket = asked.socket(STRANGER);
    let mut tcp = Client::connect_as(STRANGER, asked.running.address);
    for path in ["/vol", "/vol/absent", "/absent"] {
        socket.send(&question(1, VERSION_2, path)).unwrap();
        assert_eq!(next(&socket), (1, QuotaReply::Err(Status::PERM)), "{path}");
        let call = question(7, VERSION_2, path);
        tcp.send_bytes(&[&mark(true, call.len())[..], &call].concat()).unwrap();
        assert_eq!(answer(&tcp.receive().results), QuotaReply::Err(Status::PERM), "{path}");
    }
}

#[test]
fn flood_of_one_client_is_paced_and_delays_no_other() {
    let asked = Asked::new();
    let flood = u32::try_from(CLIENT_QUOTAS_PER_S).unwrap() * 20;
    for from in [STRANGER, CLIENT] {
        let greedy = asked.socket(from);
        // Of the flood, some waits at the rate of its client, and the rest is dropped. A machine under load loses some of
        // it before.
        let dropped = || asked.running.service.rates.quotas.throttled().1;
        let before = dropped();
        while dropped() == before {
            for xid in 0..flood {
                greedy.send(&question(xid, VERSION_2, "/vol")).unwrap();
            }
        }
        let other = asked.socket(OTHER);
        // A datagram may be lost in the flood.
        other.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let is_served = |xid| {
            other.send(&question(xid, VERSION_2, "/vol")).unwrap();
            let mut datagram = [0; 2048];
            other.recv(&mut datagram).is_ok()
        };
        assert!((0..20).any(is_served), "another client during a flood of {from:?}");
    }
}

#[test]
fn datagrams_that_are_no_questions_change_nothing() {
    let mut asked = Asked::new();
    let socket = asked.socket(CLIENT);
    let whole = question(1, VERSION_2, "/vol");
    for length in 0..whole.len() {
        socket.send(&whole[..length]).unwrap();
    }
    let mut seed = 0x9e37_79b9_u32;
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..4 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [at, value, ..] = seed.to_be_bytes();
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= value;
        }
        socket.send(&bytes).unwrap();
    }
    let fresh = asked.socket(OTHER);
    fresh.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let is_served = |xid| {
        fresh.send(&question(xid, VERSION_2, "/vol")).unwrap();
        let mut datagram = [0; 2048];
        fresh.recv(&mut datagram).is_ok_and(|length| datagram[..length].ends_with(&unused().to_bytes()))
    };
    assert!((1000..1020).any(is_served));
    // Datagrams that wait do not keep the thread.
    drop(asked.responder.take());
}
