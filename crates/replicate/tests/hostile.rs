//! Strangers and peers at the listener for replications: what they may not do, and what it costs.

use replicate::limits::{NETWORK_HANDSHAKES_MAX, PEER_CONNECTIONS_MAX, THREADS_MAX};
use replicate::link::{self, Connection, Identity, Listener, Peers, PublicKey};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vfs::sync::Mutex;

fn identity(number: u8) -> Identity {
    Identity::from_seed([number; 32]).unwrap()
}

fn connect(own: &Identity, address: &str, server: PublicKey) -> std::io::Result<Connection> {
    link::connect(own, address, server, Arc::new(|| false))
}

/// Serves the peers 1 and 2 with an echo.
#[derive(Default)]
struct Echo {
    asked: AtomicUsize,
    served: Mutex<Vec<PublicKey>>,
    removed: Mutex<Vec<PublicKey>>,
}

impl Peers for Echo {
    fn is_peer(&self, key: &PublicKey) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst);
        [1, 2].map(|number| identity(number).public()).contains(key) && !self.removed.lock().contains(key)
    }

    fn serve(&self, mut connection: Connection) {
        self.served.lock().push(connection.peer());
        let mut byte = [0];
        while connection.read(&mut byte).is_ok_and(|len| len > 0) && connection.write_all(&byte).is_ok() {
            _ = connection.flush();
        }
    }
}

fn start() -> (Listener, Arc<Echo>) {
    let peers = Arc::new(Echo::default());
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    (Listener::start(any, &identity(9), Arc::clone(&peers) as _).unwrap(), peers)
}

fn at(listener: &Listener) -> String {
    listener.local_addr().to_string()
}

/// Waits at most 20 seconds until a condition holds.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn echo(connection: &mut Connection) -> std::io::Result<u8> {
    connection.write_all(&[7])?;
    connection.flush()?;
    let mut byte = [0];
    connection.read_exact(&mut byte)?;
    Ok(byte[0])
}

#[test]
fn peers_are_served_and_know_each_other() {
    let (listener, peers) = start();
    for number in [1, 2] {
        let mut connection = connect(&identity(number), &at(&listener), identity(9).public()).unwrap();
        assert_eq!(connection.peer(), identity(9).public());
        assert_eq!(echo(&mut connection).unwrap(), 7);
    }
    assert_eq!(*peers.served.lock(), [1, 2].map(|number| identity(number).public()));
    eventually("both have left", || listener.connections() == (0, 0));
}

#[test]
fn a_stranger_is_refused_in_the_handshake() {
    let (listener, peers) = start();
    // With TLS 1.3 the client has ended its part before the server looks at its key.
    let mut connection = connect(&identity(3), &at(&listener), identity(9).public()).unwrap();
    let error = echo(&mut connection).unwrap_err();
    assert!(error.to_string().contains("has no peer with this service's key"), "{error}");
    assert_eq!(*peers.served.lock(), []);
    eventually("it is gone", || listener.connections() == (0, 0));
}

#[test]
fn a_service_with_another_key_is_refused_by_the_client() {
    let (listener, peers) = start();
    let Err(error) = connect(&identity(1), &at(&listener), identity(8).public()) else {
        panic!("another key");
    };
    assert!(error.to_string().contains("does not have the key that this one expects"), "{error}");
    eventually("it is gone", || listener.connections() == (0, 0));
    assert_eq!((*peers.served.lock()).len(), 0);
}

#[test]
fn a_peer_that_was_removed_is_a_stranger() {
    let (listener, peers) = start();
    let mut first = connect(&identity(1), &at(&listener), identity(9).public()).unwrap();
    assert_eq!(echo(&mut first).unwrap(), 7);
    peers.removed.lock().push(identity(1).public());
    let mut second = connect(&identity(1), &at(&listener), identity(9).public()).unwrap();
    assert!(echo(&mut second).is_err());
}

/// Bytes that are no TLS, from a client that then waits.
fn raw(listener: &Listener, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(listener.local_addr()).unwrap();
    _ = stream.write_all(bytes);
    stream
}

fn is_ended(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn other_protocols_and_half_handshakes_are_ended() {
    let (listener, peers) = start();
    let hello_of_1_mib = [&[22, 3, 1, 0x40, 0, 1, 0x10, 0, 0][..], &[0; 1 << 16]].concat();
    let smb = [&[0, 0, 0, 0x40, 0xfe][..], b"SMB", &[0; 60]].concat();
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 100_000], smb, hello_of_1_mib] {
        assert!(is_ended(&mut raw(&listener, &bytes)), "{:?}", &bytes[..9]);
    }
    eventually("all are gone", || listener.connections() == (0, 0));
    assert_eq!(peers.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn silent_strangers_cost_a_bounded_number_of_threads_and_keep_no_peer_out() {
    let (listener, _) = start();
    let mut peer = connect(&identity(1), &at(&listener), identity(9).public()).unwrap();
    // Until the listener has seen the client's key, it is a stranger too.
    assert_eq!(echo(&mut peer).unwrap(), 7);
    let mut silent = Vec::new();
    for number in 0..2_000 {
        silent.push(raw(&listener, &[22, 3, 1]));
        let (strangers, _) = listener.connections();
        assert!(strangers <= THREADS_MAX, "{number}: {strangers}");
        if silent.len() > 300 {
            silent.remove(0);
        }
    }
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert!(threads < 200, "{threads}");
    eventually("the network has its bound", || listener.connections().0 <= NETWORK_HANDSHAKES_MAX);
    assert_eq!(echo(&mut peer).unwrap(), 7, "connections of peers stay");
    let mut second = connect(&identity(2), &at(&listener), identity(9).public()).unwrap();
    assert_eq!(echo(&mut second).unwrap(), 7);
}

#[test]
fn a_peer_has_a_bounded_number_of_connections_and_keeps_no_other_out() {
    let (listener, _) = start();
    let open = |number| connect(&identity(number), &at(&listener), identity(9).public()).unwrap();
    let mut all: Vec<Connection> = (0..PEER_CONNECTIONS_MAX).map(|_| open(1)).collect();
    assert!(all.iter_mut().all(|one| echo(one).is_ok()));
    assert!(echo(&mut open(1)).is_err(), "one too many");
    assert_eq!(echo(&mut open(2)).unwrap(), 7);
    drop(all.pop());
    eventually("there is room again", || echo(&mut open(1)).is_ok());
}

#[test]
fn a_handshake_that_trickles_ends_after_its_time() {
    let (listener, _) = start();
    let mut stream = TcpStream::connect(listener.local_addr()).unwrap();
    stream.write_all(&[22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb]).unwrap();
    let begun = Instant::now();
    // A byte each second keeps no socket alive for longer than a handshake may take.
    while stream.write_all(&[0]).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn a_listener_that_stops_ends_all_connections_at_once() {
    let (listener, _) = start();
    let mut peer = connect(&identity(1), &at(&listener), identity(9).public()).unwrap();
    assert_eq!(echo(&mut peer).unwrap(), 7);
    let mut silent = raw(&listener, &[22]);
    let address = listener.local_addr();
    drop(listener);
    assert!(echo(&mut peer).is_err() && is_ended(&mut silent));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_client_of_a_silent_service_stops_when_it_has_to() {
    let silent = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, polls) = (silent.local_addr().unwrap().to_string(), AtomicUsize::new(0));
    let stop = move || polls.fetch_add(1, Ordering::SeqCst) > 1;
    let begun = Instant::now();
    let Err(error) = link::connect(&identity(1), &address, identity(9).public(), Arc::new(stop)) else {
        panic!("nothing answers there");
    };
    assert!(error.to_string().contains("stopped") && begun.elapsed() < Duration::from_secs(9), "{error}");
    // One that has answered, and is silent from then on.
    let (listener, _) = start();
    let is_stopped = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = Arc::clone(&is_stopped);
    let stop = Arc::new(move || stop.load(Ordering::SeqCst));
    let mut connection = link::connect(&identity(1), &at(&listener), identity(9).public(), stop).unwrap();
    assert_eq!(echo(&mut connection).unwrap(), 7);
    is_stopped.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    assert!(connection.read(&mut [0]).is_err() && begun.elapsed() < Duration::from_secs(30));
}
