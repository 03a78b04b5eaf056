//! Registration with the host's own rpcbind: `--register-rpcbind`, with the installed rpcbind.
//!
//! rpcbind listens at one socket of the whole host. The test therefore has its own network and its own `/run`: see the
//! test `inner`.

#[path = "../../vfs/tests/support/skip.rs"]
mod skip;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than the interval at which the service checks rpcbind.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn rpcbind() -> Running {
    let rpcbind = Running(Command::new("rpcbind").arg("-f").spawn().expect("rpcbind"));
    eventually("rpcbind is there", || Path::new("/run/rpcbind.sock").exists() && !programs().is_empty());
    rpcbind
}

/// Starts a server; returns its error if it fails.
fn serve(port: u16) -> Result<Running, String> {
    let (files, state) = ("/run/files", format!("/run/state-{port}"));
    std::fs::create_dir_all(files).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["export", files, "--state", &state, "--register-rpcbind"]);
    command.args(["--listen", &format!("0.0.0.0:{port}")]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Running(command.spawn().unwrap());
    let mut hint = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut hint).unwrap();
    if hint.starts_with("mount -t nfs -o vers=3,proto=tcp ") {
        return Ok(server);
    }
    let mut said = String::new();
    server.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    Err(hint + &said)
}

/// Registrations that rpcbind lists: program, version, transport, port.
fn programs() -> Vec<String> {
    let output = Command::new("rpcinfo").args(["-p", "127.0.0.1"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ")).collect()
}

fn knows(port: u16) -> bool {
    let programs = programs();
    let wanted = ["100003 3 tcp", "100005 3 tcp", "100021 4 tcp", "100021 4 udp", "100024 1 udp"];
    wanted.iter().all(|wanted| programs.contains(&format!("{wanted} {port}")))
}

#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}; {:?}", programs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn service_registers_with_the_hosts_rpcbind() {
    if !std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        return skip::skip("only root has a network and a /run of its own");
    }
    let there = |tool: &&str| {
        Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap().status.success()
    };
    if let Some(missing) = ["rpcbind", "rpcinfo", "unshare", "ip"].iter().find(|tool| !there(tool)) {
        return skip::skip(&format!("{missing} is not installed"));
    }
    let inner =
        "mount -t tmpfs tmpfs /run && ip link set lo up && exec \"$0\" inner --exact --ignored --nocapture";
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "sh", "-c", inner])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by the test above in a network of its own"]
fn inner() {
    let error = serve(2049).err().expect("there is no rpcbind");
    assert!(error.contains("cannot reach the host's rpcbind at /run/rpcbind.sock"), "{error}");

    let mut host = rpcbind();
    let mut first = serve(2049).unwrap();
    assert!(knows(2049), "{:?}", programs());
    let error = serve(2050).err().expect("the first one has the programs");
    assert!(error.contains("serves program 100003 version 3 at 127.0.0.1:2049"), "{error}");
    assert!(knows(2049), "{:?}", programs());

    drop(host);
    host = rpcbind();
    eventually("rpcbind is told again after its restart", || knows(2049));

    // Killed: its entries stay, and nobody answers there.
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    assert!(knows(2049));
    let mut second = serve(2050).unwrap();
    assert!(knows(2050) && !knows(2049), "{:?}", programs());

    let term = Command::new("kill").arg(second.0.id().to_string()).status().unwrap();
    assert!(term.success() && second.0.wait().unwrap().success());
    let left: Vec<String> = programs().into_iter().filter(|line| line.contains(" 2050")).collect();
    assert_eq!(left, [""; 0], "what is not served any more is forgotten");
    drop(host);
}
