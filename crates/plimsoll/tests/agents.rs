//! Agents in network namespaces of their own, and a coordinator in this one.

#[path = "../../bench/tests/support/job.rs"]
mod job;
#[path = "../../vfs/tests/support/skip.rs"]
mod skip;
#[path = "../../bench/tests/support/tries.rs"]
mod tries;

use bench::Error;
use bench::agent::{Remote, Token, wall_clock};
use bench::engine::{Caller, Control, Engine, Job};
use report::result::{Measurement, Part, Run};
use report::scenario::Work;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tries::{ensure, within_tries};

/// Runs `ip`, which must do it.
#[track_caller]
fn ip(line: &str) {
    let done = Command::new("ip").args(line.split(' ')).output().expect("ip, of the package iproute2");
    assert!(done.status.success(), "ip {line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Machines at one switch: each is a namespace, the coordinator is this one. All is removed on drop.
struct Network {
    /// The prefix of interface names, unique to this test and process. Linux allows 15 characters for a name.
    prefix: String,
    /// The first three numbers of all addresses, of those set aside for benchmarks (RFC 2544).
    net: String,
    machines: usize,
}

impl Network {
    /// `None` without root.
    fn new(machines: usize) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            skip::skip("network namespaces cannot be had here: they need root");
            return None;
        }
        let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let number = pid.wrapping_add(count) % 512;
        let net = format!("198.{}.{}", 18 + number / 256, number % 256);
        let mut network = Self {
            prefix: format!("pl{pid}{}", char::from(b'a' + u8::try_from(count).unwrap())),
            net,
            machines: 0,
        };
        let Self { prefix, net, .. } = &network;
        ip(&format!("link add {prefix}br type bridge"));
        ip(&format!("address add {net}.1/24 dev {prefix}br"));
        ip(&format!("link set {prefix}br up"));
        (0..machines).for_each(|_| network.add());
        Some(network)
    }

    /// One more machine.
    fn add(&mut self) {
        let machine = self.machines;
        self.machines += 1;
        let (Self { prefix, net, .. }, name) = (&*self, self.name(machine));
        ip(&format!("netns add {name}"));
        ip(&format!("link add {prefix}v{machine} type veth peer name eth0 netns {name}"));
        ip(&format!("link set {prefix}v{machine} master {prefix}br up"));
        ip(&format!("-n {name} address add {net}.{}/24 dev eth0", machine + 11));
        ip(&format!("-n {name} link set eth0 up"));
        ip(&format!("-n {name} link set lo up"));
    }

    fn name(&self, machine: usize) -> String {
        format!("{}n{machine}", self.prefix)
    }

    fn address(&self, machine: usize) -> String {
        format!("{}.{}", self.net, machine + 11)
    }

    /// The program's agent on a machine.
    fn agent(&self, machine: usize, token: &Path) -> Agent {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(machine), env!("CARGO_BIN_EXE_plimsoll"), "agent"]);
        command.args(["--listen", &format!("{}:0", self.address(machine)), "--token-file"]).arg(token);
        Agent::start(command)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let remove = |line: String| _ = Command::new("ip").args(line.split(' ')).status();
        (0..self.machines).for_each(|machine| remove(format!("netns del {}", self.name(machine))));
        remove(format!("link del {}br", self.prefix));
    }
}

/// An agent as a process.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().strip_prefix("Agent ").map(str::to_owned);
        Self { child, address: address.unwrap_or_else(|| panic!("{said:?}")) }
    }

    /// One on loopback.
    fn local(token: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["agent", "--listen", "127.0.0.1:0", "--token-file"]).arg(token);
        Self::start(command)
    }

    /// Stops the agent, as an administrator does.
    fn end(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A server of a directory in the coordinator's namespace, which the machines reach.
struct Server {
    child: Child,
    target: String,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(network: &Network) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("files")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.arg("export").arg(dir.path().join("files")).arg("--state").arg(dir.path().join("state"));
        command.args([
            "--listen",
            &format!("{}.1:0", network.net),
            "--allow",
            &format!("{}.0/24", network.net),
        ]);
        command.args(["--squash", "none", "--durability", "relaxed", "--no-portmap", "--mount-port", "0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut hint = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut hint).unwrap();
        let port = hint.split("port=").nth(1).and_then(|rest| rest.split(',').next());
        let target = format!("nfs://{}.1:{}/files", network.net, port.unwrap_or_else(|| panic!("{hint:?}")));
        Self { child, target, _dir: dir }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The share of one of three machines, with a client each.
fn job(machine: usize) -> Job {
    Job {
        read_percent: 70,
        clients_total: 3,
        first_client: machine,
        jobs: 2,
        depth: 2,
        file_size: 2 << 20,
        ..job::job(Work::Transfers)
    }
}

/// Has all machines prepare and run at once; does something when they have run for a second.
fn run(remotes: &mut [Remote], happens: impl FnOnce(&[Control])) -> (Vec<Control>, Vec<Result<Part, Error>>) {
    for (machine, remote) in remotes.iter_mut().enumerate() {
        remote.prepare(&job(machine), &mut |_| Ok(())).unwrap();
    }
    // All hear of it in time, even if the machine stands still for a second.
    let begin = wall_clock() + 3_000_000_000;
    let controls: Vec<Control> = remotes.iter().map(|_| Control::new(begin)).collect();
    let parts = std::thread::scope(|scope| {
        let one = |(remote, control)| scope.spawn(move || Remote::run(remote, control));
        let running: Vec<_> = remotes.iter_mut().zip(&controls).map(one).collect();
        std::thread::sleep(Duration::from_secs(4));
        happens(&controls);
        running.into_iter().map(|running| running.join().unwrap()).collect()
    });
    (controls, parts)
}

/// A token file that is as it must be.
fn token_file(dir: &Path) -> PathBuf {
    let path = dir.join("token");
    std::fs::write(&path, "the token of these tests\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

/// The error with which the program refuses to be an agent.
fn refusal(args: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("agent").args(args).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && !said.contains("panicked"), "{said}");
    said
}

#[test]
fn three_machines_are_known_by_their_clocks() {
    let dir = tempfile::tempdir().unwrap();
    let path = token_file(dir.path());
    let token = Token::read(&path).unwrap();
    let Some(network) = Network::new(3) else { return };
    let agents: Vec<Agent> = (0..3).map(|machine| network.agent(machine, &path)).collect();
    let mut remotes: Vec<Remote> =
        agents.iter().map(|agent| Remote::connect(&agent.address, &token).unwrap()).collect();
    for (number, remote) in remotes.iter_mut().enumerate() {
        let machine = remote.machine();
        assert!(machine.name.starts_with(&format!("{}:", network.address(number))), "{machine:?}");
        assert_eq!(machine.version, env!("CARGO_PKG_VERSION"));
        // It is one clock in truth.
        assert!(machine.clock_offset_us.abs() <= machine.clock_bound_us + 0.1, "{machine:?}");
        assert!(machine.clock_bound_us > 0.0 && machine.clock_bound_us < 5_000.0, "{machine:?}");
        let said = remote.open("nfs://nowhere", &Caller::default()).unwrap_err().to_string();
        assert!(said.contains(&machine.name) && said.contains("nfs://nowhere"), "{said}");
    }
}

#[test]
fn three_machines_load_a_server_together_until_one_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = token_file(dir.path());
    let token = Token::read(&path).unwrap();
    let Some(network) = Network::new(3) else { return };
    let server = Server::start(&network);
    let mut agents: Vec<Agent> = (0..3).map(|machine| network.agent(machine, &path)).collect();
    let mut remotes: Vec<Remote> =
        agents.iter().map(|agent| Remote::connect(&agent.address, &token).unwrap()).collect();
    for remote in &mut remotes {
        remote.open(&server.target, &Caller::default()).unwrap();
        let facts = remote.facts().unwrap();
        assert!(!facts.co_located && facts.target == server.target, "{facts:?}");
    }

    let (controls, parts) =
        run(&mut remotes, |controls| controls.iter().for_each(|control| control.set_window(3, 2)));
    for (control, part) in controls.iter().zip(parts) {
        let part = part.unwrap();
        let ops = part.operations.iter().map(|operation| operation.ops).sum::<u64>();
        let live = control.second(3).0 + control.second(4).0;
        eprintln!("{ops} operations, {live} told, {:?}, {:?}", part.usage, part.caveats);
        assert!(ops > 50 && part.errors.is_empty() && part.seconds == 2.0, "{part:?}");
        assert!(live.abs_diff(ops) <= ops / 10, "{live} {ops}");
        let planned = control.begin as f64 / 1e9 + 3.0;
        assert!((part.started - planned).abs() < 0.05, "{} {planned}", part.started);
        assert!(part.usage.network_share.is_some_and(|share| share > 0.0), "{:?}", part.usage);
    }

    let mut killed = Instant::now();
    let (_, mut results) = run(&mut remotes, |controls| {
        killed = Instant::now();
        agents[0].child.kill().unwrap();
        // What the runner does when one fails.
        controls[1..].iter().for_each(Control::stop);
    });
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    let said = results.remove(0).unwrap_err().to_string();
    assert!(said.contains(&agents[0].address) && said.contains("lost"), "{said}");
    assert!(results.iter().all(|result| matches!(result, Err(Error::Stopped))), "{results:?}");
    remotes[1].clear().unwrap();
}

/// Three clients, one on each machine.
const SCENARIO: &str = r#"
name = "three"
title = "three machines"

[[series]]
name = "8 KiB random"
reads = [70]
clients = [3]
jobs = 2
connections = [2]
depths = [2]
working_set = "12m"
"#;

#[test]
fn a_scenario_is_run_by_three_machines() {
    let dir = tempfile::tempdir().unwrap();
    let path = token_file(dir.path());
    let (scenario, output) = (dir.path().join("three.toml"), dir.path().join("three.json"));
    std::fs::write(&scenario, SCENARIO).unwrap();
    let Some(network) = Network::new(3) else { return };
    let server = Server::start(&network);
    let agents: Vec<Agent> = (0..3).map(|machine| network.agent(machine, &path)).collect();
    let addresses: Vec<&str> = agents.iter().map(|agent| agent.address.as_str()).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    let how = ["--preset", "quick", "--time", "3", "--repetitions", "2"];
    command.args(["bench", "run"]).arg(&scenario).args(how);
    command
        .args(["--target", &server.target, "--agents", &addresses.join(","), "--agent-token-file"])
        .arg(&path);
    command.arg("--output").arg(&output);
    // Where the machine stands still in a window, the few operations that are left may be another mix.
    let run = within_tries(|| {
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let told = String::from_utf8(done.stdout).unwrap();
        let table = told.find("\nRead IOPS").expect("a table");
        let result = told.find(&format!("\nResult: {}\n", output.display())).expect("where the result is");
        assert!(table < result && told[result..].contains("--format html --output "), "{told}");
        let run: Run = serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap();
        let measurements = &run.cells[0].measurements;
        ensure(measurements.iter().all(Measurement::is_valid), format!("{:?}", run.cells[0].caveats))?;
        Ok(run)
    });
    let machines: Vec<&str> = run.machines.iter().map(|machine| machine.name.as_str()).collect();
    assert_eq!(machines, addresses);
    assert!(!run.target.co_located);
    for measured in &run.cells[0].measurements {
        assert_eq!(measured.clients.iter().map(|client| client.machine).collect::<Vec<_>>(), [0, 1, 2]);
        let each = measured.clients.iter().map(|client| client.connections.iter().sum::<u64>());
        assert_eq!(each.sum::<u64>(), measured.ops(None));
        assert!(
            measured.clients.iter().all(|client| client.connections.iter().all(|&ops| ops > 0)),
            "{measured:?}"
        );
        let seconds = measured.clients.iter().flat_map(|client| &client.seconds);
        assert_eq!(seconds.map(|second| second.ops()).sum::<u64>(), measured.ops(None));
        assert_eq!(measured.service(None).count(), measured.ops(None));
    }
}

#[test]
fn a_machine_that_is_unplugged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = token_file(dir.path());
    let token = Token::read(&path).unwrap();
    let Some(network) = Network::new(1) else { return };
    let agent = network.agent(0, &path);
    let mut remote = Remote::connect(&agent.address, &token).unwrap();
    ip(&format!("link set {}v0 down", network.prefix));
    let begun = Instant::now();
    let said = remote.facts().unwrap_err().to_string();
    assert!(said.contains(&agent.address) && said.contains("no message for 5 s"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // The agent, too, gives its coordinator up, and has room for the next.
    ip(&format!("link set {}v0 up", network.prefix));
    while let Err(wrong) = Remote::connect(&agent.address, &token) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{wrong}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn agent_that_is_asked_to_end_ends_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = token_file(dir.path());
    let mut agent = Agent::local(&path);
    let mut remote = Remote::connect(&agent.address, &Token::read(&path).unwrap()).unwrap();
    agent.end();
    let said = remote.facts().unwrap_err().to_string();
    assert!(said.contains("it was told to end") && said.contains(&agent.address), "{said}");
}

#[test]
fn an_agent_needs_a_token_that_is_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let path = token_file(dir.path());
    let file = path.to_str().unwrap();
    assert!(refusal(&["--listen", "0.0.0.0:0"]).contains("--token-file"));
    assert!(refusal(&["--token-file", "none"]).contains("umask 077"));
    let said = refusal(&["--token-file", file, "--listen", "192.0.2.1:0"]);
    assert!(said.contains("cannot listen on 192.0.2.1:0"), "{said}");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let said = refusal(&["--token-file", file]);
    assert!(said.contains("mode 644") && said.contains("chmod 600"), "{said}");
}
