//! Addresses that move between machines: network namespaces behind one bridge.
//!
//! The test's own namespace is the client. A holder is a process in another one: this program again, as the test
//! `holder`.

#[path = "../../../../vfs/tests/support/skip.rs"]
mod skip;

use super::address::{AddressMover, Interface};
use super::wake_clients::wake_clients;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use transport::{ConnectionEnds, ReplyDeadline};

const PATIENCE: Duration = Duration::from_secs(30);
/// The time after which traffic must follow a moved address.
const MOVED: Duration = Duration::from_secs(1);
const PORT: u16 = 2049;
const ENDPOINT: &str = "10.99.0.100/24";
const ENDPOINT_V6: &str = "fd99::100/64";

/// A namespace of another machine, at the bridge.
struct Machine {
    sleeper: Child,
    name: &'static str,
}

/// A process that has the address.
struct Holder {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[track_caller]
fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// The client's side: a bridge with an address of its own.
fn prepare_client() {
    sh("ip link set lo up; ip link add br0 type bridge; ip link set br0 up
        ip addr add 10.99.0.1/24 dev br0; ip addr add fd99::1/64 dev br0 nodad");
}

impl Machine {
    fn new(name: &'static str, host: u8) -> Self {
        let sleeper = Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap();
        let (pid, own) = (sleeper.id(), sh("readlink /proc/self/ns/net"));
        eventually("the namespace", || sh(&format!("readlink /proc/{pid}/ns/net || true")) != own);
        let machine = Self { sleeper, name };
        sh(&format!(
            "ip link add {name} type veth peer name eth0 netns {pid}; ip link set {name} master br0 up"
        ));
        machine.sh(&format!(
            "ip link set lo up; ip link set eth0 up
             ip addr add 10.99.0.{host}/24 dev eth0; ip addr add fd99::{host}/64 dev eth0 nodad"
        ));
        eventually("the link", || machine.sh("ip link show eth0").contains("LOWER_UP"));
        machine
    }

    fn namespace(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.sleeper.id())
    }

    #[track_caller]
    fn sh(&self, command: &str) -> String {
        sh(&format!("nsenter {} sh -ec '{command}'", self.namespace()))
    }

    fn mac(&self) -> String {
        let link = self.sh("ip -o link show eth0");
        link.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap().to_owned()
    }

    fn has(&self, address: &str) -> bool {
        self.sh("ip -o addr show dev eth0").contains(address)
    }

    /// Starts a process that acquires the address, and answers with the machine's name.
    fn hold(&self, address: &str, wakes: &[ConnectionEnds]) -> Holder {
        let mut command = Command::new("nsenter");
        command.arg(self.namespace()).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--nocapture", test_name(HOLDER)]);
        let wakes = wakes.iter().map(|ends| format!("{} {}", ends.local, ends.peer)).collect::<Vec<_>>();
        command.envs([("ADDRESS", address), ("NAME", self.name), ("WAKES", &wakes.join("\n"))]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut holder = Holder { child, input, output: BufReader::new(output) };
        holder.expect("acquired");
        holder
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        _ = self.sleeper.kill();
        _ = self.sleeper.wait();
    }
}

impl Holder {
    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        while line.trim() != word {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the holder has ended");
        }
    }

    fn release(&mut self) {
        writeln!(self.input, "release").unwrap();
        self.expect("released");
    }

    fn signal(&self, signal: &str) {
        sh(&format!("kill -{signal} {}", self.child.id()));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

const HOLDER: &str = concat!(module_path!(), "::holder");

/// The name of a test as the test program knows it: without the crate.
fn test_name(path: &str) -> &str {
    path.split_once("::").map_or(path, |(_, name)| name)
}

#[test]
#[ignore = "run by the other tests in a network of its own"]
fn holder() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let name = variable("NAME");
    let mut mover =
        Interface::new("eth0", variable("ADDRESS").parse().unwrap(), ReplyDeadline::default()).unwrap();
    let listener = TcpListener::bind(("::", PORT)).unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(name.as_bytes()).unwrap();
            open.push(stream);
        }
    });
    mover.acquire(Duration::ZERO).unwrap();
    let wakes = variable("WAKES");
    let wakes: Vec<ConnectionEnds> = wakes
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(local, peer)| ConnectionEnds { local: local.parse().unwrap(), peer: peer.parse().unwrap() })
        .collect();
    assert_eq!(wake_clients(&wakes).unwrap(), wakes.len());
    println!("\nacquired");
    let (told, command) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        _ = std::io::stdin().read_line(&mut line);
        _ = told.send(line);
    });
    while command.recv_timeout(Duration::from_millis(500)).is_err() {
        mover.renew().unwrap();
    }
    mover.release().unwrap();
    println!("\nreleased");
    _ = std::io::stdin().read_line(&mut String::new());
}

fn endpoint(address: &str) -> SocketAddr {
    let (ip, _) = address.split_once('/').unwrap();
    SocketAddr::new(ip.parse().unwrap(), PORT)
}

/// The name of the machine that answers at the address.
fn answering(address: &str, patience: Duration) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&endpoint(address), patience).ok()?;
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut name = [0; 16];
    let length = stream.read(&mut name).ok()?;
    Some(String::from_utf8_lossy(&name[..length]).into_owned())
}

/// The hardware address that this machine remembers.
fn remembered(address: &str) -> String {
    let ip = endpoint(address).ip();
    sh(&format!("ip neigh show {ip}"))
        .split_whitespace()
        .skip_while(|word| *word != "lladdr")
        .nth(1)
        .unwrap_or("")
        .into()
}

/// Runs a test of this file in a network of its own; skips it if there is none.
fn in_own_network(test: &str) {
    let is_there = |tool: &&str| Command::new(tool).arg("--help").output().is_ok();
    if let Some(missing) = ["unshare", "nsenter", "ip"].iter().find(|tool| !is_there(tool)) {
        return skip::skip(&format!("{missing} is not installed"));
    }
    if !rustix::process::geteuid().is_root() {
        return skip::skip("only root has networks of its own");
    }
    let module = test_name(module_path!());
    let output = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", &format!("{module}::{test}")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    print!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn address_moves_between_machines_and_traffic_follows() {
    in_own_network("moves");
}

#[test]
fn address_of_a_killed_or_frozen_process_vanishes() {
    in_own_network("vanishes");
}

#[test]
fn address_of_an_administrator_is_refused() {
    in_own_network("refused");
}

#[test]
fn woken_client_is_reset_long_before_its_retransmission() {
    in_own_network("woken");
}

#[test]
#[ignore = "run by a test above in a network of its own"]
fn moves() {
    prepare_client();
    let (one, two) = (Machine::new("one", 11), Machine::new("two", 12));
    for address in [ENDPOINT, ENDPOINT_V6] {
        let mut first = one.hold(address, &[]);
        assert_eq!(answering(address, MOVED).as_deref(), Some("one"));
        assert_eq!(remembered(address), one.mac());
        first.release();
        assert!(!one.has(address));
        let mut second = two.hold(address, &[]);
        let start = Instant::now();
        assert_eq!(answering(address, MOVED).as_deref(), Some("two"));
        println!("{address}: traffic followed after {:?}", start.elapsed());
        assert_eq!(remembered(address), two.mac());
        second.release();
    }
}

#[test]
#[ignore = "run by a test above in a network of its own"]
fn vanishes() {
    prepare_client();
    let machine = Machine::new("one", 11);
    for address in [ENDPOINT, ENDPOINT_V6] {
        for signal in ["KILL", "STOP"] {
            let holder = machine.hold(address, &[]);
            // Longer than the address lives without renewals.
            std::thread::sleep(Duration::from_millis(4500));
            assert!(machine.has(address), "it is renewed");
            holder.signal(signal);
            let lasted = eventually("the end of the address", || !machine.has(address));
            println!("{address}: gone {lasted:?} after SIG{signal}");
        }
    }
}

#[test]
#[ignore = "run by a test above in a network of its own"]
fn refused() {
    prepare_client();
    let mover = |name: &str, address: &str| {
        Interface::new(name, address.parse().unwrap(), ReplyDeadline::default()).unwrap()
    };
    let refusal = |name: &str, address: &str| {
        mover(name, address).acquire(Duration::ZERO).err().map(|error| format!("{error:#}"))
    };
    let taken = refusal("br0", "10.99.0.1/24").unwrap();
    assert!(taken.starts_with("10.99.0.1 is already on an interface of this machine"), "{taken}");
    assert!(sh("ip -o addr show dev br0").contains("10.99.0.1/24"), "it stays");
    assert!(refusal("br1", ENDPOINT).unwrap().starts_with("there is no interface \"br1\""));
    sh("ip link add br1 type bridge");
    assert_eq!(
        refusal("br1", ENDPOINT).unwrap(),
        "interface br1 is down: set it up with \"ip link set br1 up\""
    );
    // An address that a process of ours has left is taken over.
    sh("ip addr add 10.99.0.7/32 dev br0 valid_lft 3 preferred_lft 0");
    let mut again = mover("br0", "10.99.0.7/32");
    again.acquire(Duration::ZERO).unwrap();
    assert!(sh("ip -o addr show dev br0").contains("10.99.0.7/32"));
    drop(again);
    assert!(!sh("ip -o addr show dev br0").contains("10.99.0.7/32"), "dropping it removes the address");
    let lease = transport::ReplyLease::new(0);
    let mut late = Interface::new("br0", ENDPOINT.parse().unwrap(), lease.deadline()).unwrap();
    assert!(late.acquire(Duration::ZERO).is_err(), "the lease is over");
    assert!(!sh("ip -o addr show dev br0").contains("10.99.0.100"));
    assert_listens_before_it_has_the_address();
}

/// IP_FREEBIND needs no capability: a service can listen before the address is there.
fn assert_listens_before_it_has_the_address() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let address = endpoint(ENDPOINT);
    assert!(bind(&socket, &address).is_err());
    sockopt::set_ip_freebind(&socket, true).unwrap();
    bind(&socket, &address).unwrap();
    listen(&socket, 8).unwrap();
    let mut mover = Interface::new("br0", ENDPOINT.parse().unwrap(), ReplyDeadline::default()).unwrap();
    mover.acquire(Duration::ZERO).unwrap();
    TcpStream::connect_timeout(&address, PATIENCE).unwrap();
}

/// A client that has sent a request to a machine that is gone.
fn waiting_client(address: &str) -> (TcpStream, ConnectionEnds) {
    let mut stream = TcpStream::connect_timeout(&endpoint(address), PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0; 3]).unwrap();
    stream.set_nonblocking(true).unwrap();
    let ends = ConnectionEnds { local: stream.peer_addr().unwrap(), peer: stream.local_addr().unwrap() };
    (stream, ends)
}

fn is_reset(stream: &TcpStream) -> bool {
    match (&*stream).read(&mut [0]) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => true,
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "run by a test above in a network of its own"]
fn woken() {
    prepare_client();
    let (one, two) = (Machine::new("one", 11), Machine::new("two", 12));
    for address in [ENDPOINT, ENDPOINT_V6] {
        let holder = one.hold(address, &[]);
        let [(woken, ends), (other, _)] = [(); 2].map(|()| waiting_client(address));
        // The machine fails as a whole: its kernel answers nothing either.
        one.sh("ip link set eth0 down");
        drop(holder);
        for mut stream in [&woken, &other] {
            stream.write_all(b"request").unwrap();
        }
        // The retransmissions of Linux come at 0.2, 0.6, 1.4, 3, 6.2 and 12.6 seconds, about.
        std::thread::sleep(Duration::from_millis(6800));
        let start = Instant::now();
        let second = two.hold(address, &[ends]);
        let after = eventually("the reset", || is_reset(&woken));
        assert!(!is_reset(&other), "a client that is not woken waits for its retransmission");
        assert_eq!(answering(address, PATIENCE).as_deref(), Some("two"));
        let woken_after = start.elapsed();
        eventually("the retransmission", || is_reset(&other));
        println!(
            "{address}: reset {after:?} after the wake-up, the other {:?} later",
            start.elapsed() - woken_after
        );
        drop(second);
        eventually("the end of the address", || !two.has(address));
        one.sh("ip link set eth0 up; ip addr add fd99::11/64 dev eth0 nodad");
    }
}
