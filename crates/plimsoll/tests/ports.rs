//! The ports of `plimsoll export`, and how clients find them.
//!
//! Every test listens on its own loopback address. Another service may still use the standard ports: tests that need
//! them run once more in their own network.

#[path = "../../vfs/tests/support/skip.rs"]
mod skip;

use nfs_wire::mount;
use nfs_wire::portmap::{self, Mapping, PmapProcedure, Rpcb, RpcbProcedure, Uaddr};
use nfs_wire::rpc::{CallHeader, RPC_VERSION, RecordMark, ReplyHeader};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use xdr::{Encode, List};

const TCP: u32 = portmap::IPPROTO_TCP;

/// A running `plimsoll export` of one directory, `files`.
struct Server {
    child: Child,
    address: Ipv4Addr,
    /// The mount command for version 3 that it printed.
    hint: String,
    dir: tempfile::TempDir,
}

/// A loopback address for test number `n` of this process.
fn own_address(n: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 1, low, n)
}

fn prepare() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("files/sub")).unwrap();
    std::fs::write(dir.path().join("files/hello"), "hello\n").unwrap();
    dir
}

fn command(dir: &Path, address: Ipv4Addr, port: u16, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("export").arg(dir.join("files")).arg("--state").arg(dir.join("state"));
    command.args(["--squash", "none", "--listen", &format!("{address}:{port}")]).args(options);
    command
}

impl Server {
    fn start(address: Ipv4Addr, port: u16, options: &[&str]) -> Self {
        let dir = prepare();
        let mut child = command(dir.path(), address, port, options).stdout(Stdio::piped()).spawn().unwrap();
        let mut hint = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut hint).unwrap();
        assert!(hint.starts_with("mount -t nfs "), "{hint:?}");
        Self { child, address, hint, dir }
    }

    /// Asks it to stop, as an administrator does.
    fn stop(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }

    fn tcp(&self, port: u16, target: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
        let mut stream = TcpStream::connect((self.address, port)).unwrap();
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

    fn udp(&self, port: u16, target: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
        let socket = UdpSocket::bind((self.address, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send_to(&call(target, args), (self.address, port)).unwrap();
        let mut reply = [0; 2048];
        let length = socket.recv(&mut reply).unwrap();
        results(&reply[..length])
    }

    /// The ports of NFS and MOUNT that the port mapper at `port` reports.
    fn ask_ports(&self, port: u16) -> [Vec<u8>; 2] {
        let getport = (portmap::PROGRAM, portmap::PMAP_VERSION, PmapProcedure::GETPORT.0);
        let wanted = |prog| Mapping { prog, vers: 3, prot: TCP, port: 0 };
        let by_tcp =
            [nfs_wire::v3::PROGRAM, mount::PROGRAM].map(|prog| self.tcp(port, getport, &wanted(prog)));
        let by_udp =
            [nfs_wire::v3::PROGRAM, mount::PROGRAM].map(|prog| self.udp(port, getport, &wanted(prog)));
        assert_eq!(by_tcp, by_udp);
        by_tcp
    }

    fn exports(&self, port: u16) -> Vec<u8> {
        self.tcp(port, (mount::PROGRAM, mount::VERSION, mount::Procedure::EXPORT.0), &())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const XID: u32 = 77;

fn call(procedure: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
    let (prog, vers, proc) = procedure;
    let header = CallHeader { xid: XID, rpcvers: RPC_VERSION, prog, vers, proc, ..CallHeader::default() };
    [header.to_bytes(), args.to_bytes()].concat()
}

/// The results behind the header of a successful reply.
fn results(reply: &[u8]) -> Vec<u8> {
    reply.strip_prefix(&ReplyHeader::success(XID)).unwrap_or_else(|| panic!("no success: {reply:?}")).to_vec()
}

/// Whether MOUNT's and the port mapper's standard ports accept connections, perhaps of another service of this machine.
fn answered(address: Ipv4Addr) -> [bool; 2] {
    [635, 111].map(|port| TcpStream::connect((address, port)).is_ok())
}

fn free_ports<const N: usize>(address: Ipv4Addr) -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind((address, 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

/// The list that EXPORT gives: `files`, for everybody.
fn files_exported() -> Vec<u8> {
    List(vec![mount::ExportNode { dir: b"/files", groups: List(vec![]) }]).to_bytes()
}

#[test]
fn chosen_ports_are_served() {
    let address = own_address(1);
    let [nfs, mount, portmap] = free_ports(address);
    let options = ["--mount-port", &mount.to_string(), "--portmap-port", &portmap.to_string()];
    let server = Server::start(address, nfs, &options);
    assert_eq!(
        server.hint,
        format!("mount -t nfs -o vers=3,proto=tcp,port={nfs},mountport={nfs},nolock {address}:/files /mnt\n"),
        "clients look for a port mapper on its standard port only"
    );
    assert_eq!(
        server.ask_ports(portmap),
        [u32::from(nfs), u32::from(nfs)].map(|port| port.to_be_bytes().to_vec())
    );
    assert_eq!(server.exports(nfs), files_exported());
    assert_eq!(server.exports(mount), files_exported());
    let wanted = Rpcb { prog: mount::PROGRAM, vers: 3, netid: b"tcp", addr: b"", owner: b"" };
    let [high, low] = nfs.to_be_bytes();
    assert_eq!(
        server.udp(portmap, (portmap::PROGRAM, portmap::RPCB_VERSION_4, RpcbProcedure::GETADDR.0), &wanted),
        Uaddr(format!("{address}.{high}.{low}").as_bytes()).to_bytes()
    );
    assert!(server.stop().success());
    assert!(UdpSocket::bind((address, portmap)).is_ok());
}

#[test]
fn elsewhere_than_on_2049_only_the_nfs_port_is_opened() {
    let address = own_address(2);
    let ([nfs], others) = (free_ports(address), answered(address));
    let server = Server::start(address, nfs, &[]);
    assert_eq!(server.exports(nfs), files_exported());
    assert_eq!(answered(address), others);
    assert!(server.hint.contains(&format!(",port={nfs},mountport={nfs},")), "{}", server.hint);
    assert!(server.stop().success());
}

#[test]
fn a_port_asked_for_must_be_had() {
    let address = own_address(3);
    let [nfs] = free_ports(address);
    let taken = TcpListener::bind((address, 0)).unwrap();
    let taken_udp = UdpSocket::bind((address, 0)).unwrap();
    for (option, port) in [
        ("--mount-port", taken.local_addr().unwrap().port()),
        ("--portmap-port", taken.local_addr().unwrap().port()),
        ("--portmap-port", taken_udp.local_addr().unwrap().port()),
    ] {
        let dir = prepare();
        let output = command(dir.path(), address, nfs, &[option, &port.to_string()]).output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&format!("cannot listen on port {port}")), "{option}: {said}");
    }
}

#[test]
fn standard_ports_are_opened_where_they_can_be_had() {
    let address = own_address(4);
    let mapper_is_there =
        TcpListener::bind((address, 111)).is_ok() && UdpSocket::bind((address, 111)).is_ok();
    let mount_is_there = TcpListener::bind((address, 635)).is_ok();
    let server = Server::start(address, 2049, &[]);
    assert_eq!(server.exports(2049), files_exported());
    let ports = if mapper_is_there { "" } else { ",port=2049,mountport=2049,nolock" };
    assert_eq!(server.hint, format!("mount -t nfs -o vers=3,proto=tcp{ports} {address}:/files /mnt\n"));
    if mapper_is_there {
        assert_eq!(server.ask_ports(111), [vec![0, 0, 8, 1], vec![0, 0, 8, 1]]);
    }
    if mount_is_there {
        assert_eq!(server.exports(635), files_exported());
    }
    assert!(server.stop().success());
}

#[test]
fn standard_ports_can_be_declined_or_taken() {
    let address = own_address(5);
    let others = answered(address);
    let declined = Server::start(address, 2049, &["--no-portmap", "--mount-port", "0"]);
    assert_eq!(answered(address), others);
    assert!(declined.hint.contains(",port=2049,mountport=2049,"), "{}", declined.hint);
    assert!(declined.stop().success());
    if let (Ok(_mount), Ok(_mapper)) = (TcpListener::bind((address, 635)), UdpSocket::bind((address, 111))) {
        let taken = Server::start(address, 2049, &[]);
        assert_eq!(taken.exports(2049), files_exported());
        assert!(TcpListener::bind((address, 111)).is_ok(), "a port mapper serves both transports or none");
        assert!(taken.hint.contains(",port=2049,mountport=2049,"), "{}", taken.hint);
        assert!(taken.stop().success());
    }
}

/// Returns the output of a tool; the tool must succeed.
#[track_caller]
fn output(tool: &str, args: &[&str]) -> String {
    let output = Command::new(tool).args(args).output().unwrap_or_else(|error| panic!("{tool}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tool} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a hidden test of this program in its own network, where the standard ports are free. Returns `false` if the
/// machine does not allow such a network.
fn in_own_network(test: &str) -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--map-root-user", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
    let output = unshare
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .output();
    let Ok(output) = output else { return false };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if !said.contains("running 1 test") {
        return false;
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    true
}

#[test]
fn real_clients_find_their_way() {
    let is_there = |tool: &&str| Command::new(tool).arg("--help").output().is_ok();
    let tools = ["rpcinfo", "showmount", "nfs-ls", "nfs-cat", "nfs-cp", "unshare", "ip"];
    if let Some(missing) = tools.iter().find(|tool| !is_there(tool)) {
        return skip::skip(&format!("{missing} is not installed"));
    }
    for test in ["standard_ports_are_free_in_an_own_network", "real_clients"] {
        if !in_own_network(test) {
            return skip::skip("a network of its own cannot be had here");
        }
    }
}

#[test]
#[ignore = "run by the test above in a network of its own"]
fn standard_ports_are_free_in_an_own_network() {
    assert_eq!(answered(own_address(4)), [false; 2]);
    standard_ports_are_opened_where_they_can_be_had();
    assert_eq!(answered(own_address(5)), [false; 2]);
    standard_ports_can_be_declined_or_taken();
}

#[test]
#[ignore = "run by the test above in a network of its own"]
fn real_clients() {
    let server = Server::start(own_address(6), 2049, &[]);
    let host = server.address.to_string();
    let mappings = output("rpcinfo", &["-p", &host]);
    for line in [
        "100000 4 tcp 111",
        "100000 2 udp 111",
        "100003 3 tcp 2049",
        "100005 3 tcp 2049",
        "100005 1 tcp 2049",
    ] {
        let words = |line: &str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
        assert!(mappings.lines().any(|mapping| words(mapping) == line), "{line} is not in\n{mappings}");
    }
    assert!(output("rpcinfo", &[&host]).contains(&format!("{host}.8.1")), "version 4 tells addresses");
    output("rpcinfo", &["-T", "tcp", &host, "100003", "3"]);
    output("rpcinfo", &["-T", "udp", &host, "100000", "4"]);
    output("rpcinfo", &["-t", &host, "100005", "3"]);
    assert!(output("rpcinfo", &["-l", &host, "100005", "3"]).contains("inet/tcp/cots_ord"));
    assert!(output("showmount", &["--no-headers", "-e", &host]).starts_with("/files (everyone)"));

    let url = format!("nfs://{host}/files");
    assert!(output("nfs-ls", &[&url]).contains("hello"));
    output("nfs-ls", &[&format!("{url}/sub")]);
    assert_eq!(output("nfs-cat", &[&format!("{url}/hello")]), "hello\n");
    let source = server.dir.path().join("source");
    std::fs::write(&source, vec![7; 3 << 20]).unwrap();
    for (name, ports) in
        [("a", ""), ("b", "?nfsport=2049&mountport=2049"), ("c", "?nfsport=2049&mountport=635")]
    {
        output("nfs-cp", &[source.to_str().unwrap(), &format!("{url}/{name}{ports}")]);
        assert_eq!(std::fs::read(server.dir.path().join("files").join(name)).unwrap(), vec![7; 3 << 20]);
    }
    let absent = Command::new("nfs-ls").arg(format!("nfs://{host}/absent")).output().unwrap();
    assert!(String::from_utf8_lossy(&absent.stderr).contains("MNT3ERR_NOENT"));
    assert!(server.stop().success());
}
