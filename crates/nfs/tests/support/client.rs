//! A client over a real socket, and a server for it.

use super::{Auth, PROGRAMS, call, service, trusting, volume};
use nfs::server::{Server, Settings};
use nfs::service::Service;
use nfs::state::call_rates::CallRates;
use nfs_wire::rpc::{RecordMark, ReplyHeader};
use nfs_wire::v3::Procedure;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::{Backend, Durability, Export, FileKey, Namespace, Time, VolumeId};
use vfs_testing::memfs;
use xdr::Encode;

pub const PATIENCE: Duration = Duration::from_secs(20);

/// The time of day, for the volumes of a running server.
pub fn system_clock() -> memfs::Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Time { seconds: i64::try_from(since.as_secs()).unwrap(), nanos: since.subsec_nanos() }
    })
}

pub struct Running {
    pub server: Server,
    pub service: Arc<Service>,
    pub address: SocketAddr,
}

impl Running {
    /// Serves `backend` as the volume [`super::VOLUME`] at `/vol`.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::serving(one_volume(backend))
    }

    pub fn serving(namespace: Namespace) -> Self {
        Self::with(namespace, Settings::for_descriptors(2, 10_000))
    }

    pub fn with(namespace: Namespace, settings: Settings) -> Self {
        Self::rated(namespace, settings, CallRates::unbounded())
    }

    pub fn rated(namespace: Namespace, settings: Settings, rates: CallRates) -> Self {
        let service = Arc::new(Service { rates, ..service(Arc::new(namespace)) });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::start(Arc::clone(&service), vec![(listener, PROGRAMS)], None, settings).unwrap();
        Self { server, service, address }
    }

    pub fn handle(&self, volume: VolumeId, key: &FileKey) -> Vec<u8> {
        self.service.signer.sign(volume.into(), key).bytes().to_vec()
    }

    pub fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }
}

pub fn one_volume(backend: Arc<dyn Backend>) -> Namespace {
    let volume = volume(super::VOLUME, backend, Durability::Sync);
    Namespace::new([Export::new("/vol", volume, vec![trusting()])])
}

pub struct Client {
    pub stream: TcpStream,
}

/// A reply: its xid and the results after the header of a successful reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub xid: u32,
    pub results: Vec<u8>,
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    /// Connects from a port to which the client can return: no other socket has it, not even in TIME-WAIT.
    pub fn connect_to_return(address: SocketAddr) -> Self {
        Self::connect_from(address, 0)
    }

    /// Connects from the port of an earlier connection. A client of another test may have the port briefly.
    pub fn connect_from(address: SocketAddr, port: u16) -> Self {
        Self::connect_between(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), address)
    }

    /// Connects from another address.
    pub fn connect_as(source: [u8; 4], address: SocketAddr) -> Self {
        Self::connect_between(SocketAddrV4::new(source.into(), 0), address)
    }

    fn connect_between(source: SocketAddrV4, address: SocketAddr) -> Self {
        let try_once = || -> rustix::io::Result<Self> {
            let fd = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            sockopt::set_socket_reuseaddr(&fd, true)?;
            bind(&fd, &source)?;
            connect(&fd, &address)?;
            Ok(Self::new(fd.into()))
        };
        for _ in 0..100 {
            match try_once() {
                Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => std::thread::sleep(Duration::from_millis(100)),
                connected => return connected.unwrap(),
            }
        }
        panic!("{source} stays taken");
    }

    pub fn port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    /// Resets the connection, so that the port is free immediately.
    pub fn reset(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    pub fn send(&mut self, xid: u32, auth: Auth, procedure: Procedure, args: &impl Encode) {
        self.send_bytes(&record(xid, auth, procedure, args)).unwrap();
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn receive(&mut self) -> Answer {
        self.try_receive().expect("a reply")
    }

    pub fn try_receive(&mut self) -> io::Result<Answer> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark)?;
        let mark = RecordMark::from_word(u32::from_be_bytes(mark));
        assert!(mark.last, "replies are sent in one fragment");
        let mut reply = vec![0; usize::try_from(mark.length).unwrap()];
        self.stream.read_exact(&mut reply)?;
        let xid = u32::from_be_bytes(*reply.first_chunk().unwrap());
        let (head, results) = reply.split_at(24);
        assert_eq!(head, ReplyHeader::success(xid), "accepted");
        Ok(Answer { xid, results: results.to_vec() })
    }

    pub fn ask(&mut self, xid: u32, auth: Auth, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
        self.send(xid, auth, procedure, args);
        let answer = self.receive();
        assert_eq!(answer.xid, xid);
        answer.results
    }

    /// Whether the server ends the connection; waits for it.
    pub fn is_ended(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// Whether no bytes arrive for a while.
    pub fn hears_nothing(&mut self, pause: Duration) -> bool {
        self.stream.set_read_timeout(Some(pause)).unwrap();
        let heard = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        heard.is_err_and(|error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }
}

/// A call in one fragment.
pub fn record(xid: u32, auth: Auth, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    let body = call(xid, auth, procedure, args);
    [&mark(true, body.len())[..], &body].concat()
}

pub fn mark(last: bool, length: usize) -> [u8; 4] {
    RecordMark { last, length: u32::try_from(length).unwrap() }.to_word().to_be_bytes()
}

/// Waits until `done` is true, or fails.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}
