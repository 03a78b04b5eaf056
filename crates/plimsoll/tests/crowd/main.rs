//! Many of everything at one server: clients, most of them of no use, and files. Those that mean well are served, and
//! memory stays bounded.

mod idle;
#[path = "../support/session.rs"]
mod session;
#[path = "../../../vfs/tests/support/skip.rs"]
mod skip;
mod states;
mod users;

use nfs_wire::rpc::{CallHeader, OpaqueAuth, RPC_VERSION, RecordMark};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use xdr::Encode;

const CLIENTS: usize = 10_000;
/// The server's memory limit: 64 MiB are allowed for 100 idle connections, and 20 KiB for each of these.
const RESIDENT_KIB_MAX: u64 = 256 << 10;

struct Server {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Server {
    /// Over NFS, with this soft and hard limit of descriptors, if one is given.
    fn start(descriptors: Option<usize>) -> Self {
        Self::serving(tempfile::tempdir().unwrap(), descriptors, &["--listen", "127.0.0.1:0"])
    }

    /// Serves a new directory `files` in `dir`.
    fn serving(dir: tempfile::TempDir, descriptors: Option<usize>, arguments: &[&str]) -> Self {
        let files = dir.path().join("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::set_permissions(&files, std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new("prlimit");
        command.args(descriptors.map(|most| format!("--nofile={most}:{most}")));
        command
            .arg(env!("CARGO_BIN_EXE_plimsoll"))
            .arg("export")
            .args(["--connections-per-client", "20000"])
            .arg(files)
            .arg("--state")
            .arg(dir.path().join("state"))
            .args(["--squash", "none", "--durability", "relaxed", "--no-portmap", "--mount-port", "0"])
            .args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut hint = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut hint).unwrap();
        let port = hint.split("port=").nth(1).and_then(|rest| rest.split([',', ' ']).next()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
        Self { child, address, _dir: dir }
    }

    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Reads, writes and checks data as a client does.
    fn assert_useful(&self) {
        self.load("mix", &["--verify", "--files", "2", "--size", "1m"]);
    }

    /// Runs the load generator, to which no call may fail.
    fn load(&self, op: &str, options: &[&str]) {
        let target = format!("nfs://{}/files", self.address);
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["bench", "load", &target, "--op", op, "--time", "1s", "--warm-up", "0s"]).args(options);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{op}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call of NFS's procedure 0, which does nothing, as a whole record.
fn null_call(xid: u32) -> Vec<u8> {
    let nobody = OpaqueAuth::default();
    let (prog, vers) = (nfs_wire::v3::PROGRAM, nfs_wire::v3::VERSION);
    let header = CallHeader { xid, rpcvers: RPC_VERSION, prog, vers, proc: 0, cred: nobody, verf: nobody };
    let mut body = Vec::new();
    header.encode(&mut xdr::Writer::new(&mut body));
    let length = u32::try_from(body.len()).unwrap();
    [&RecordMark { last: true, length }.to_word().to_be_bytes()[..], &body].concat()
}

/// Raises the limit of descriptors to what the clients need, or to the hard limit if not even root may exceed it.
fn raise_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = 2 * CLIENTS as u64;
    let most = limit.maximum.map_or(wanted, |most| most.max(wanted));
    let raised = Rlimit { current: Some(most), maximum: Some(most) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    }
    let have = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
    have.unwrap_or(usize::MAX)
}

#[test]
fn ten_thousand_clients_leave_room_for_those_that_mean_well() {
    // The server keeps a third of its descriptors for files, and some for pipes.
    let clients = CLIENTS.min((raise_descriptors() / 3 * 2).saturating_sub(2600));
    if clients < CLIENTS {
        skip::skip(&format!("the limit of descriptors leaves room for {clients} clients only"));
    }
    let server = Server::start(None);
    let mut crowd = Vec::new();
    for number in 0..clients {
        let mut client = TcpStream::connect(server.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let xid = u32::try_from(number).unwrap();
        match number % 4 {
            // Idle.
            0 => {}
            // The beginning of a call, and no more.
            1 => client.write_all(&null_call(xid)[..20]).unwrap(),
            // Calls whose replies it never reads.
            2 => client.write_all(&null_call(xid).repeat(50)).unwrap(),
            _ => {
                client.write_all(&null_call(xid)).unwrap();
                let mut reply = [0; 28];
                client.read_exact(&mut reply).unwrap();
                assert_eq!(reply[4..8], xid.to_be_bytes());
            }
        }
        crowd.push(client);
    }
    server.assert_useful();
    // Each of them is still heard.
    for (number, client) in crowd.iter_mut().enumerate().filter(|(number, _)| number % 4 == 0) {
        client.write_all(&null_call(u32::try_from(number).unwrap())).unwrap();
        client.read_exact(&mut [0; 28]).unwrap();
    }
    let resident = server.resident_kib();
    eprintln!("{clients} clients: {} MiB resident at most", resident >> 10);
    assert!(resident <= RESIDENT_KIB_MAX, "{resident} KiB");
    drop(crowd);
    server.assert_useful();
}

/// Many more files than descriptors: what is remembered of them must not keep them open.
#[test]
fn more_files_than_descriptors_can_be_used() {
    let server = Server::start(Some(1024));
    for op in ["lookup", "readdirplus"] {
        server.load(op, &["--entries", "5000", "--size", "1m"]);
    }
    for op in ["getattr", "read", "mix"] {
        server.load(op, &["--block", "4k", "--files", "600", "--size", "8k"]);
    }
}
