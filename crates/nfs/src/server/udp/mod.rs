//! RPC over UDP, one call per datagram: the port mapper, where clients look first, and the lock manager, which
//! some clients call only this way.
//! The sender of a datagram can be forged. So a reply is never longer than its call, except to this host.
//! Lists are available over TCP. A reply is never answered, so two servers cannot keep each other busy.

mod limit_queue;

use super::cost::admission;
use super::dispatch::{RpcCall, route};
use crate::call::Call;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::programs::Programs;
use crate::records::reply::Records;
use crate::service::Service;
use limit_queue::{AdmittedDatagram, LimitQueue};
use nfs_wire::rpc::{Accepted, CallHeader};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use transport::{CallStats, Outbox, ReplyDeadline, Start, clock};
use vfs::qos::Admission;
use vfs::{Blocking, FsError, Origin, PendingSync, Protection, Wait, panics};
use xdr::{Decode, Reader};

/// Two threads that answer the datagrams of one socket; dropping this stops them.
/// One answers calls that need not wait, the other those that waited for a limit.
pub struct Responder {
    state: Arc<ResponderState>,
    threads: Vec<JoinHandle<()>>,
}

struct ResponderState {
    service: Arc<Service>,
    socket: UdpSocket,
    programs: Programs,
    deadline: ReplyDeadline,
    stopping: AtomicBool,
}

struct Datagram {
    call: RpcCall,
    peer: SocketAddr,
    local: IpAddr,
    bytes: Vec<u8>,
}

/// Interval at which the threads check whether to stop.
const STOP_POLL: Duration = Duration::from_millis(200);

impl Responder {
    /// Answers on `socket` until the deadline.
    pub fn start(
        service: Arc<Service>,
        socket: UdpSocket,
        programs: Programs,
        deadline: ReplyDeadline,
    ) -> io::Result<Self> {
        socket.set_read_timeout(Some(STOP_POLL))?;
        let (queue, admitted) = LimitQueue::new(service.networks);
        let stopping = AtomicBool::new(false);
        let state = Arc::new(ResponderState { service, socket, programs, deadline, stopping });
        let mut responder = Self { state: Arc::clone(&state), threads: Vec::new() };
        let receiving = Arc::clone(&state);
        responder.spawn("datagrams", move || receiving.receive(&queue))?;
        responder.spawn("paid datagrams", move || state.answer_admitted(&admitted))?;
        Ok(responder)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(())
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // Joining fails after a panic, which was logged.
            let _ = thread.join();
        }
    }
}

impl ResponderState {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn receive(&self, queue: &LimitQueue) {
        while !self.is_stopping() {
            // A datagram that causes a panic gets no reply; the next one does.
            if let Ok(Err(error)) = panics::catch(|| self.serve_one(queue)) {
                tracing::warn!(%error, programs = ?self.programs, "cannot receive or send a datagram");
                std::thread::sleep(STOP_POLL);
            }
        }
    }

    fn answer_admitted(&self, admitted: &Receiver<AdmittedDatagram>) {
        while !self.is_stopping() {
            match admitted.recv_timeout(STOP_POLL) {
                // A call that panics gets no reply, but has paid.
                Ok(admitted) => drop(panics::catch(|| self.reply(&admitted.datagram))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Waits briefly for a datagram, and answers or queues it.
    fn serve_one(&self, queue: &LimitQueue) -> io::Result<()> {
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let (length, peer) = match self.socket.recv_from(&mut datagram) {
            Ok(received) => received,
            // ECONNREFUSED reports that the previous peer is gone; it does not concern this datagram.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock
                        | ErrorKind::TimedOut
                        | ErrorKind::Interrupted
                        | ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let local = local_address(self.socket.local_addr()?.ip(), peer);
        let bytes = datagram[..length].to_vec();
        match route_datagram(self.programs, peer, local, bytes) {
            Ok(mut datagram) => match datagram.admission(&self.service).map(Admission::try_acquire) {
                None => self.reply(&datagram),
                Some(Ok(_permit)) => self.reply(&datagram),
                Some(Err(admission)) => queue.wait(datagram, admission),
            },
            Err(Some(refusal)) => self.send(&refusal, peer),
            Err(None) => {}
        }
        Ok(())
    }

    fn reply(&self, datagram: &Datagram) {
        if let Some(reply) = datagram.answer(&self.service) {
            self.send(&reply, datagram.peer);
        }
    }

    fn send(&self, reply: &[u8], peer: SocketAddr) {
        let sent = self.deadline.check().and_then(|()| self.socket.send_to(reply, peer));
        if let Err(error) = sent {
            tracing::debug!(%peer, %error, "cannot send a reply");
        }
    }
}

/// The local address that `peer` sent to. A socket on the unspecified address does not report it.
/// The source address of the route to `peer` is correct except on hosts with several routes to one client.
fn local_address(listening: IpAddr, peer: SocketAddr) -> IpAddr {
    if !listening.is_unspecified() {
        return listening;
    }
    let any: IpAddr = match peer.ip().to_canonical() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket sends nothing: it only selects the route.
    let route = || -> io::Result<IpAddr> {
        let probe = UdpSocket::bind((any, 0))?;
        probe.connect((peer.ip().to_canonical(), peer.port()))?;
        Ok(probe.local_addr()?.ip())
    };
    route().unwrap_or(any)
}

/// The call in a datagram, or its refusal, if it gets one.
fn route_datagram(
    programs: Programs,
    peer: SocketAddr,
    local: IpAddr,
    bytes: Vec<u8>,
) -> Result<Datagram, Option<Vec<u8>>> {
    let mut out = Outbox::default();
    let start = out.start();
    match route(programs, &bytes, None, &mut out) {
        Ok(Some(call)) => Ok(Datagram { call, peer, local, bytes }),
        Ok(None) => Err(sendable(&mut out, start, peer, &bytes)),
        Err(_) => Err(None),
    }
}

impl Datagram {
    /// The address that limits charge. With connections, some hosts of a network are clients of their own.
    /// Senders of datagrams are not.
    fn payer(&self, service: &Service) -> IpAddr {
        service.networks.of(self.peer.ip()).address()
    }

    fn admission(&mut self, service: &Service) -> Option<Admission> {
        let (payer, protocol) = (self.payer(service), self.call.protocol());
        let client = self.peer.ip();
        let origin = Origin { client, endpoint: None, protocol, protection: Protection::Plain };
        let args = self.call.args(&self.bytes);
        admission(&mut self.call, args, service, &service.namespace.load(), origin, payer)
    }

    /// Runs the call. Returns the reply, if there is one.
    fn answer(&self, service: &Service) -> Option<Vec<u8>> {
        let mut out = Outbox::default();
        let start = out.start();
        let mut call = Call {
            service,
            namespace: &service.namespace.load_full(),
            peer: self.peer,
            payer: self.payer(service),
            local: self.local,
            endpoint: None,
            protocol: self.call.protocol(),
            protection: Protection::Plain,
            moves_pages: false,
            credential: &self.call.credential,
            now: clock::now(),
            blocking: Blocking::Allowed,
            cache: None,
            pending: &mut PendingSync::default(),
            stats: CallStats::default(),
            permit: &mut None,
        };
        if self.call.perform(self.call.args(&self.bytes), &mut call, &mut out).is_err() {
            self.call.fail(self.call.args(&self.bytes), FsError::Wait(Wait::Recall), &mut out);
        }
        sendable(&mut out, start, self.peer, &self.bytes)
    }
}

/// The reply, unless it would amplify a forged call.
fn sendable(out: &mut Outbox, start: Start, peer: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
    let may_be_sent = |reply: &[u8]| reply.len() <= datagram.len() || peer.ip().to_canonical().is_loopback();
    if !may_be_sent(out.record(start)?) {
        let xid = CallHeader::decode(&mut Reader::new(datagram)).ok()?.xid;
        out.truncate(start);
        out.accept(xid, Accepted::SystemErr);
    }
    out.record(start).filter(|reply| may_be_sent(reply)).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portmap::tests::env;
    use crate::testing::{call_record, words};
    use nfs_wire::portmap::{Mapping, PMAP_VERSION, PROGRAM, PmapProcedure, Rpcb, RpcbProcedure, Uaddr};
    use nfs_wire::rpc::{OpaqueAuth, ReplyBody, ReplyHeader};
    use xdr::Encode;

    const FAR: &str = "10.1.0.9:700";
    const NEAR: &str = "127.0.0.1:700";
    const PORTMAP: Programs =
        Programs { nfs: false, mount: false, portmap: true, locks: false, quotas: false };

    fn ask(peer: &str, datagram: &[u8]) -> Option<Vec<u8>> {
        let env = env("0.0.0.0");
        let (peer, local) = (peer.parse().unwrap(), "10.1.0.1".parse().unwrap());
        match route_datagram(PORTMAP, peer, local, datagram.to_vec()) {
            Ok(datagram) => datagram.answer(&env.service),
            Err(refusal) => refusal,
        }
    }

    fn call(procedure: u32, version: u32, args: &impl Encode) -> Vec<u8> {
        call_record((0, 0), (PROGRAM, version, procedure), args)
    }

    /// A reply to the call in `datagram`.
    fn reply(datagram: &[u8], accepted: Accepted, results: &impl Encode) -> Option<Vec<u8>> {
        let xid = u32::from_be_bytes(datagram[..4].try_into().unwrap());
        let header = ReplyHeader { xid, body: ReplyBody::Accepted(OpaqueAuth::default(), accepted) };
        Some([header.to_bytes(), results.to_bytes()].concat())
    }

    #[test]
    fn answers_without_a_record_mark() {
        let nfs = Mapping { prog: 100_003, vers: 3, prot: 6, port: 0 };
        let datagram = call(PmapProcedure::GETPORT.0, PMAP_VERSION, &nfs);
        assert_eq!(ask(FAR, &datagram), reply(&datagram, Accepted::Success, &2049u32));
        let datagram = call_record((0, 0), (100_003, 3, 0), &());
        assert_eq!(
            ask(FAR, &datagram),
            reply(&datagram, Accepted::ProgUnavail, &()),
            "NFS is not served here"
        );
    }

    #[test]
    fn long_answers_stay_on_this_machine() {
        let dump = call(PmapProcedure::DUMP.0, PMAP_VERSION, &());
        assert_eq!(ask(FAR, &dump), reply(&dump, Accepted::SystemErr, &()));
        assert_eq!(ask("[::ffff:10.1.0.9]:7", &dump), reply(&dump, Accepted::SystemErr, &()));
        let near = ask(NEAR, &dump).unwrap();
        assert!(near.len() > dump.len());
        assert_eq!(near[..24], ReplyHeader::success(u32::from_be_bytes(dump[..4].try_into().unwrap())));
        assert_eq!(ask("[::ffff:127.0.0.1]:7", &dump), Some(near.clone()));
        assert_eq!(ask("[::1]:7", &dump), Some(near));
        // Another version of RPC. The refusal is longer than the shortest such call.
        let other_rpc = words(&[9, 0, 3]);
        assert_eq!(ask(FAR, &other_rpc), None);
        assert_eq!(ask(NEAR, &other_rpc), Some(words(&[9, 1, 1, 0, 2, 2])));
    }

    #[test]
    fn answers_about_quotas_are_no_longer_than_the_question() {
        use nfs_wire::rquota::{self, GetArgs, QuotaReply, Status};
        use vfs::{ExportRule, QuotaKind, QuotaLimits, QuotaRule, QuotaTarget, Squash};
        let squashed = ExportRule { squash: Squash::All, ..ExportRule::everybody() };
        let env = crate::testing::TestEnv::new([crate::testing::export("/e", 1, vec![squashed])], vec![]);
        let target = QuotaTarget { kind: QuotaKind::User, id: None };
        let limits = QuotaLimits { bytes: Some(4096), ..QuotaLimits::default() };
        let volume = Arc::clone(&env.service.namespace.load().exports()[0].volume);
        volume.quotas().unwrap().set_rules(&[QuotaRule { target, limits }]).unwrap();
        let procedure = (rquota::PROGRAM, rquota::VERSION_1, rquota::Procedure::GETQUOTA.0);
        let ask = |peer: &str, datagram: &[u8]| {
            let (peer, local) = (peer.parse().unwrap(), "10.1.0.1".parse().unwrap());
            let quotas = Programs { quotas: true, ..Programs::default() };
            route_datagram(quotas, peer, local, datagram.to_vec()).ok().unwrap().answer(&env.service)
        };
        let args = GetArgs { path: b"/e", uid: 65_534 };
        // A caller without credentials is the user that the rule names: the answer would be longer.
        let nobody = CallHeader {
            xid: 9,
            rpcvers: nfs_wire::rpc::RPC_VERSION,
            prog: procedure.0,
            vers: procedure.1,
            proc: procedure.2,
            ..CallHeader::default()
        };
        let short = [nobody.to_bytes(), args.to_bytes()].concat();
        assert_eq!(ask(FAR, &short), reply(&short, Accepted::SystemErr, &()));
        assert!(ask(NEAR, &short).unwrap().len() > short.len());
        let named = call_record((7, 7), procedure, &args);
        assert!(ask(FAR, &named).unwrap().len() <= named.len());
        let other = [nobody.to_bytes(), GetArgs { path: b"/", uid: 7 }.to_bytes()].concat();
        assert_eq!(ask(FAR, &other), reply(&other, Accepted::Success, &QuotaReply::Err(Status::PERM)));
    }

    #[test]
    fn datagrams_that_are_not_calls_get_no_reply() {
        let datagram = call(PmapProcedure::NULL.0, PMAP_VERSION, &());
        assert!(ask(NEAR, &datagram).is_some());
        let mut is_reply = datagram.clone();
        is_reply[7] = 1;
        assert_eq!(ask(NEAR, &is_reply), None);
        for length in 0..40 {
            assert_eq!(ask(NEAR, &datagram[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_socket_on_every_address_tells_the_one_that_was_used() {
        let env = env("0.0.0.0");
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), socket.local_addr().unwrap().port());
        let responder =
            Responder::start(Arc::new(env.service), socket, PORTMAP, ReplyDeadline::default()).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let args = Rpcb { prog: 100_003, vers: 3, netid: b"tcp", addr: b"", owner: b"" };
        let question = call(RpcbProcedure::GETADDR.0, 4, &args);
        client.send_to(b"noise", to).unwrap();
        client.send_to(&question, to).unwrap();
        let mut bytes = [0; 512];
        let (length, from) = client.recv_from(&mut bytes).unwrap();
        assert_eq!(from, to);
        let expected = reply(&question, Accepted::Success, &Uaddr(b"127.0.0.1.8.1")).unwrap();
        assert_eq!(bytes[..length], expected);
        drop(responder);
        assert!(
            UdpSocket::bind((Ipv4Addr::UNSPECIFIED, to.port())).is_ok(),
            "the thread has ended and let go"
        );
    }
}
