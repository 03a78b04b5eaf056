//! A client's host: a port mapper and its program on one socket.

use super::*;
use nfs_wire::portmap::PROGRAM as PORTMAP;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use transport::{ReplyLease, clock};

pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) struct Host {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) called: Receiver<(u32, u32, u32, Vec<u8>)>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// A host at 127.0.0.`last`, on `port`, or on any port if that is 0. `reply` returns the results of a call, if any.
    pub(crate) fn start(
        last: u8,
        port: u16,
        mut reply: impl FnMut(u32, &[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind((IpAddr::from([127, 0, 0, last]), port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let local = socket.local_addr().unwrap();
        let stopping = Arc::new(AtomicBool::new(false));
        let stop_requested = Arc::clone(&stopping);
        let (call, called) = mpsc::channel();
        let run = move || {
            let mut datagram = [0; 4096];
            while !stop_requested.load(Ordering::SeqCst) {
                let Ok((length, peer)) = socket.recv_from(&mut datagram) else { continue };
                let mut r = Reader::new(&datagram[..length]);
                let CallHeader { xid, prog, vers, proc, .. } = CallHeader::decode(&mut r).unwrap();
                let results = if prog == PORTMAP {
                    Some(u32::from(local.port()).to_bytes())
                } else {
                    _ = call.send((prog, vers, proc, r.rest().to_vec()));
                    reply(proc, r.rest())
                };
                if let Some(results) = results {
                    let reply = [&ReplyHeader::success(xid)[..], &results].concat();
                    socket.send_to(&reply, peer).unwrap();
                }
            }
        };
        let thread = Some(std::thread::spawn(run));
        Self { address: local.ip(), port: local.port(), called, stopping, thread }
    }

    fn call(&self) -> Outgoing {
        let from = IpAddr::from([127, 0, 0, 1]);
        Outgoing { host: self.address, from, program: 7, version: 1, procedure: 3, args: vec![0, 0, 0, 9] }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        _ = self.thread.take().unwrap().join();
    }
}

#[test]
fn finds_the_port_and_returns_the_results() {
    let host =
        Host::start(2, 0, |procedure, args| Some([&args[..3], &[procedure.to_be_bytes()[3]]].concat()));
    let caller = Caller::new(host.port);
    assert_eq!(caller.call(&host.call()), Some(vec![0, 0, 0, 3]));
    assert_eq!(host.called.recv_timeout(LONG), Ok((7, 1, 3, vec![0, 0, 0, 9])));
    caller.send(&host.call(), 1);
    assert_eq!(host.called.recv_timeout(LONG), Ok((7, 1, 3, vec![0, 0, 0, 9])));
}

#[test]
fn a_host_that_does_not_answer_costs_seconds_and_one_without_a_port_mapper_is_not_asked_again() {
    let host = Host::start(2, 0, |_, _| None);
    let caller = Caller::new(host.port);
    let start = std::time::Instant::now();
    assert_eq!(caller.call(&host.call()), None);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!((0..TRIES).all(|_| host.called.recv_timeout(LONG).is_ok()), "each try");

    let silent = UdpSocket::bind("127.0.0.3:0").unwrap();
    let caller = Caller::new(silent.local_addr().unwrap().port());
    let call = Outgoing { host: silent.local_addr().unwrap().ip(), ..host.call() };
    silent.set_nonblocking(true).unwrap();
    let questions = || (0..).take_while(|_| silent.recv(&mut [0; 4096]).is_ok()).count();
    assert_eq!(caller.call(&call), None);
    assert_eq!(questions(), 2, "each try");
    assert_eq!(caller.call(&call), None);
    assert_eq!(questions(), 0, "it is not asked again");
}

#[test]
fn no_call_leaves_after_the_deadline() {
    let host = Host::start(5, 0, |_, args| Some(args.to_vec()));
    let lease = ReplyLease::new(clock::boot_ns() + 3_600_000_000_000);
    let caller = Caller { deadline: lease.deadline(), ..Caller::new(host.port) };
    let call = host.call();
    assert_eq!(caller.call(&call), Some(call.args.clone()));
    assert_eq!(host.called.recv_timeout(LONG), Ok((7, 1, 3, call.args.clone())));
    lease.end();
    assert_eq!(caller.call(&call), None);
    caller.send(&call, host.port);
    // The next call that arrives is one of another process.
    let other = Outgoing { procedure: 4, ..call };
    assert!(Caller::new(host.port).call(&other).is_some());
    assert_eq!(host.called.recv_timeout(LONG), Ok((7, 1, 4, other.args)));
}

/// Answers a call on each of two connections: first to the port mapper, then to the program.
fn answer_two_calls(listener: &std::net::TcpListener, results: &[u8]) {
    let port = u32::from(listener.local_addr().unwrap().port());
    for results in [&port.to_bytes()[..], results] {
        let (mut stream, _) = listener.accept().unwrap();
        let mut mark = [0; RecordMark::SIZE];
        stream.read_exact(&mut mark).unwrap();
        let mut call = vec![0; RecordMark::from_word(u32::from_be_bytes(mark)).length as usize];
        stream.read_exact(&mut call).unwrap();
        let xid = CallHeader::decode(&mut Reader::new(&call)).unwrap().xid;
        let reply = [&ReplyHeader::success(xid)[..], results].concat();
        let mark = RecordMark { last: true, length: u32::try_from(reply.len()).unwrap() };
        stream.write_all(&[&mark.to_word().to_be_bytes()[..], &reply].concat()).unwrap();
    }
}

#[test]
fn a_host_without_udp_is_called_over_tcp() {
    let listener = std::net::TcpListener::bind("127.0.0.4:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || answer_two_calls(&listener, &[1, 2, 3, 4]));
    let from = IpAddr::from([127, 0, 0, 1]);
    let call = Outgoing { host: address.ip(), from, program: 7, version: 1, procedure: 3, args: Vec::new() };
    assert_eq!(Caller::new(address.port()).call(&call), Some(vec![1, 2, 3, 4]));
    answering.join().unwrap();
}

#[test]
fn only_the_reply_to_the_call_counts() {
    let header = ReplyHeader::success(7);
    let reply = [&header[..], &[1, 2, 3, 4]].concat();
    assert_eq!(results(&reply, 7).unwrap(), Some(vec![1, 2, 3, 4]));
    assert_eq!(results(&reply, 8).unwrap(), None);
    assert_eq!(results(&reply[..10], 7).unwrap(), None, "no reply at all");
    let refusal = ReplyBody::Accepted(OpaqueAuth::default(), Accepted::ProgUnavail);
    let refusal = ReplyHeader { xid: 7, body: refusal }.to_bytes();
    assert!(results(&refusal, 7).is_err());
}
