//! Malicious and broken clients at the port of remote quotas, over TCP. Others are served, on this port and on that of NFS.

use crate::support::client::{Client, Running, mark, wait_until};
use crate::support::quotas::{answer, limited, question, unused};
use crate::support::{BOB, PROGRAMS, service};
use crate::{ALONE, Alone, assert_in_time, most_mib, send_until_blocked, within_mib};
use nfs::programs::Programs;
use nfs::server::{Server, Settings};
use nfs_wire::rquota::{VERSION_1, VERSION_2};
use nfs_wire::v3::Procedure;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::limits::{UNREAD_REPLY_BYTES_MAX, UNREAD_TOTAL_BYTES_FULL};

struct Fixture {
    running: Alone,
    /// The port of remote quotas.
    quotas: SocketAddr,
}

fn fixture(settings: Settings) -> Fixture {
    let alone = ALONE.lock();
    let service = Arc::new(service(Arc::new(crate::one_volume(Arc::new(limited())))));
    let without = Programs { quotas: false, ..PROGRAMS };
    let programs = [without, Programs { quotas: true, ..Programs::default() }];
    let listeners = programs.map(|programs| (TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), programs));
    let [address, quotas] = [0, 1].map(|place: usize| listeners[place].0.local_addr().unwrap());
    let server = Server::start(Arc::clone(&service), listeners.into(), None, settings).unwrap();
    Fixture { running: Alone { running: Some(Running { server, service, address }), _alone: alone }, quotas }
}

/// All clients have one address here.
fn settings() -> Settings {
    Settings { client_connections_max: usize::MAX, ..Settings::for_descriptors(2, 10_000) }
}

fn asked(version: u32) -> Vec<u8> {
    let call = question(9, version, "/vol");
    [&mark(true, call.len())[..], &call].concat()
}

impl Fixture {
    fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.quotas).unwrap())
    }

    /// Asserts that both ports serve an earlier and a new client.
    fn assert_others_served(&self, before: &mut Client) {
        let start = Instant::now();
        for client in [before, &mut self.connect()] {
            for version in [VERSION_1, VERSION_2] {
                client.send_bytes(&asked(version)).unwrap();
                assert_eq!(answer(&client.receive().results), unused());
            }
        }
        assert!(self.running.connect().ask(1, BOB, Procedure::NULL, &()).is_empty());
        assert_in_time(start);
    }
}

#[test]
fn huge_and_endless_questions_are_refused() {
    let f = fixture(settings());
    let mut good = f.connect();
    within_mib(16, |_| {
        for word in [0x7fff_ffff, 0xffff_ffff_u32] {
            let mut bad = f.connect();
            bad.send_bytes(&word.to_be_bytes()).unwrap();
            assert!(bad.is_ended());
        }
        let mut endless = f.connect();
        let refused = (0..100).any(|_| endless.send_bytes(&[0; 4096]).is_err());
        assert!(refused || endless.is_ended());
    });
    f.assert_others_served(&mut good);
}

/// Half a question and then silence, on more connections than there are receive buffers.
#[test]
fn half_questions_do_not_use_up_the_buffers() {
    let f = fixture(settings());
    let mut good = f.connect();
    let whole = asked(VERSION_2);
    within_mib(64, |look| {
        let mut all = Vec::new();
        for length in [1, 3, 40, whole.len() - 1] {
            for _ in 0..250 {
                let mut bad = f.connect();
                bad.send_bytes(&whole[..length]).unwrap();
                all.push((bad, length));
            }
            f.assert_others_served(&mut good);
            look();
        }
        for (slow, length) in &mut all {
            slow.send_bytes(&whole[*length..]).unwrap();
            assert_eq!(answer(&slow.receive().results), unused());
        }
    });
}

#[test]
fn unread_answers_are_bounded() {
    const CLIENTS: usize = 10;
    let f = fixture(settings());
    let mut good = f.connect();
    let calls = asked(VERSION_2).repeat(1000);
    within_mib(most_mib(UNREAD_TOTAL_BYTES_FULL), |look| {
        let mut all = Vec::new();
        for _ in 0..CLIENTS {
            let mut bad = f.connect();
            // A small receive buffer keeps the replies in the server, not in the kernel.
            rustix::net::sockopt::set_socket_recv_buffer_size(&bad.stream, 64 << 10).unwrap();
            let sent = send_until_blocked(&mut bad, &calls);
            assert!(sent < 64 << 20, "the server takes questions for ever");
            all.push(bad);
            look();
            let unread = f.running.server.view().stats().transport.unread_bytes;
            // What a turn produces comes on top of the bound at which a connection is no longer read.
            assert!(unread <= 2 * CLIENTS * UNREAD_REPLY_BYTES_MAX, "{unread} bytes are unread");
        }
        f.assert_others_served(&mut good);
        // One client begins to read, and gets whole answers.
        let first = &mut all[0];
        assert!((0..100).all(|_| answer(&first.receive().results) == unused()));
    });
}

/// Half a question, and unread answers: each connection ends after its timeout.
#[test]
fn stalled_askers_are_ended() {
    const STALLED_S: u32 = 2;
    let f = fixture(Settings { stalled_s: STALLED_S, ..Settings::for_descriptors(2, 10_000) });
    let start = Instant::now();
    let [mut idle, mut half, mut deaf] = [(); 3].map(|()| f.connect());
    half.send_bytes(&asked(VERSION_1)[..30]).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&deaf.stream, 64 << 10).unwrap();
    send_until_blocked(&mut deaf, &asked(VERSION_2).repeat(1000));
    wait_until("the end of two", || f.running.server.view().connections() == 1);
    assert!(start.elapsed() >= Duration::from_secs(STALLED_S.into()));
    f.assert_others_served(&mut idle);
}
