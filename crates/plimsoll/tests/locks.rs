//! Locks of NFSv3 clients with the real program: over UDP at the NFS port, and across a restart.

use nfs_wire::mount::{self, DirPath, MountReply};
use nfs_wire::nlm::{self, Lock, LockArgs, Object, Reply, Status};
use nfs_wire::nsm;
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, RecordMark, ReplyHeader};
use nfs_wire::v3::{self, DirOpArgs, FileHandle, LookupArgs, LookupReply};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use xdr::{Decode, Encode, Reader};

const XID: u32 = 77;
/// Seconds in which clients reclaim locks.
const GRACE_S: u64 = 5;

/// A running `plimsoll export` of the directory `files`.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(dir: &Path, address: SocketAddr) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.arg("export").arg(dir.join("files")).arg("--state").arg(dir.join("state"));
        command.args(["--squash", "none", "--no-portmap", "--listen", &address.to_string()]);
        command.args(["--lease", "5", "--grace-period", &GRACE_S.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut hint = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut hint).unwrap();
        assert!(hint.starts_with("mount -t nfs "), "{hint:?}");
        Self { child, address }
    }

    fn tcp(&self, target: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let call = call(target, args);
        let mark = RecordMark { last: true, length: u32::try_from(call.len()).unwrap() };
        stream.write_all(&[&mark.to_word().to_be_bytes()[..], &call].concat()).unwrap();
        let mut mark = [0; RecordMark::SIZE];
        stream.read_exact(&mut mark).unwrap();
        let mut reply = vec![0; RecordMark::from_word(u32::from_be_bytes(mark)).length as usize];
        stream.read_exact(&mut reply).unwrap();
        results(&reply)
    }

    /// Asks by UDP, from this address.
    fn udp(&self, from: Ipv4Addr, target: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send_to(&call(target, args), self.address).unwrap();
        let mut reply = [0; 2048];
        let length = socket.recv(&mut reply).unwrap();
        results(&reply[..length])
    }

    fn file(&self) -> Vec<u8> {
        let target = (mount::PROGRAM, mount::VERSION, mount::Procedure::MNT.0);
        let reply = self.tcp(target, &DirPath(b"/files"));
        let MountReply::Ok(mounted) = MountReply::decode(&mut Reader::new(&reply)).unwrap() else {
            panic!("not mounted")
        };
        let what = DirOpArgs { dir: FileHandle(mounted.fhandle), name: b"hello" };
        let reply = self.tcp((v3::PROGRAM, v3::VERSION, v3::Procedure::LOOKUP.0), &LookupArgs { what });
        match LookupReply::decode(&mut Reader::new(&reply)).unwrap() {
            v3::Reply::Ok(found) => found.object.0.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn lock(&self, from: Ipv4Addr, fh: &[u8], reclaim: bool) -> Status {
        let (fh, oh) = (Object(fh), Object(b"1@client"));
        let alock = Lock { caller_name: b"client", fh, oh, svid: 1, l_offset: 0u64, l_len: 10 };
        let args = LockArgs { cookie: Object(b"c"), block: false, exclusive: true, alock, reclaim, state: 1 };
        let target = (nlm::PROGRAM, nlm::VERSION_4, nlm::Procedure::LOCK.0);
        let reply = self.udp(from, target, &args);
        Reply::decode(&mut Reader::new(&reply)).unwrap().stat
    }

    /// The state number of its status monitor.
    fn state(&self) -> u32 {
        let target = (nsm::PROGRAM, nsm::VERSION, nsm::Procedure::UNMON_ALL.0);
        let reply = self.tcp(target, &nsm::MyId { my_name: b"", my_prog: 0, my_vers: 0, my_proc: 0 });
        nsm::State::decode(&mut Reader::new(&reply)).unwrap().0
    }

    /// Kills the server, as a crash does.
    fn crash(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Has ended already unless the test failed.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn call(procedure: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
    let (prog, vers, proc) = procedure;
    let sys = AuthSys::default().to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys };
    let verf = OpaqueAuth::default();
    let header = CallHeader { xid: XID, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf };
    [header.to_bytes(), args.to_bytes()].concat()
}

/// The results behind the header of a successful reply.
fn results(reply: &[u8]) -> Vec<u8> {
    reply.strip_prefix(&ReplyHeader::success(XID)).unwrap_or_else(|| panic!("no success: {reply:?}")).to_vec()
}

#[test]
fn locks_are_claimed_again_after_a_crash_and_nobody_takes_them_meanwhile() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = |last| Ipv4Addr::new(127, high | 1, low, last);
    let (server, ann, ben) = (address(101), address(102), address(103));
    let port = TcpListener::bind((server, 0)).unwrap().local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("files")).unwrap();
    std::fs::write(dir.path().join("files/hello"), "hello\n").unwrap();

    let running = Server::start(dir.path(), port);
    let (file, state) = (running.file(), running.state());
    assert_eq!(running.lock(ann, &file, false), Status::GRANTED);
    assert_eq!(running.lock(ben, &file, false), Status::DENIED);
    running.crash();

    let start = Instant::now();
    let running = Server::start(dir.path(), port);
    assert_eq!(running.lock(ben, &file, false), Status::DENIED_GRACE_PERIOD);
    assert_eq!(running.lock(ann, &file, true), Status::GRANTED);
    assert_eq!((state % 2, running.state()), (1, state + 2));
    loop {
        match running.lock(ben, &file, false) {
            Status::DENIED_GRACE_PERIOD => std::thread::sleep(Duration::from_millis(50)),
            status => break assert_eq!(status, Status::DENIED),
        }
        assert!(start.elapsed() < Duration::from_secs(GRACE_S + 20), "it does not end");
    }
    assert!(start.elapsed() > Duration::from_secs(GRACE_S - 1), "{:?}", start.elapsed());
    assert_eq!(running.lock(ben, &file, true), Status::DENIED, "too late");
}
