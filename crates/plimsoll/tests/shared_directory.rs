//! `plimsoll bench run` on a directory that others can write, by this process's own engine and by an agent's: links that
//! others have planted there are refused, and lead nowhere.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const MALLORY: u32 = 4711;
const SECRET: &str = "what must stay as it is";

fn plimsoll(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args);
    command
}

/// A directory of Mallory's with a link in place of the benchmark's, and what the link leads to.
fn scene() -> (tempfile::TempDir, PathBuf, PathBuf) {
    assert!(rustix::process::geteuid().is_root(), "only root can own what another user plants");
    let dir = tempfile::tempdir().unwrap();
    let (shared, victim) = (dir.path().join("shared"), dir.path().join("victim"));
    for path in [&shared, &victim] {
        fs::create_dir(path).unwrap();
    }
    for name in ["direct", "client0.0.0"] {
        fs::write(victim.join(name), SECRET).unwrap();
    }
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    chown(&shared, Some(MALLORY), Some(MALLORY)).unwrap();
    plant(&victim, &shared.join("plimsoll-bench"));
    (dir, shared, victim)
}

fn plant(target: &Path, link: &Path) {
    symlink(target, link).unwrap();
    lchown(link, Some(MALLORY), Some(MALLORY)).unwrap();
}

#[track_caller]
fn assert_refused(command: &mut Command, victim: &Path) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    for name in ["direct", "client0.0.0"] {
        assert_eq!(fs::read_to_string(victim.join(name)).unwrap_or_default(), SECRET, "{name}: {said}");
    }
    assert!(!output.status.success());
    assert!(said.contains("plimsoll-bench is a link") && said.contains("remove it"), "{said}");
}

fn run_on(shared: &Path) -> Command {
    let mut command = plimsoll(&["bench", "run", "gcnv-scale-out", "--preset", "quick", "--cleanup"]);
    command.arg("--target").arg(shared).current_dir(shared.parent().unwrap());
    command
}

#[test]
fn a_run_follows_no_link_of_others() {
    let (_dir, shared, victim) = scene();
    assert_refused(&mut run_on(&shared), &victim);
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // Has ended already where it fell over.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_follows_no_link_of_others() {
    let (dir, shared, victim) = scene();
    let token = dir.path().join("token");
    fs::write(&token, "a secret of the coordinator's and the agents'").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = plimsoll(&["agent", "--listen", "127.0.0.1:0", "--token-file"]);
    let mut agent = Agent(command.arg(&token).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.trim().strip_prefix("Agent ").unwrap();
    let mut run = run_on(&shared);
    run.args(["--agents", address, "--agent-token-file"]).arg(&token);
    assert_refused(&mut run, &victim);
}

#[test]
fn a_result_follows_no_link_of_others() {
    let (dir, shared, _) = scene();
    let victim = dir.path().join("kept");
    fs::write(&victim, SECRET).unwrap();
    plant(&victim, &shared.join("run.json"));
    let output = run_on(&shared).arg("--output").arg(shared.join("run.json")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("run.json: it is a link"), "{said}");
    let advice = ["size", "--capacity", "40TiB", "--throughput", "500MiB/s", "--html"];
    plant(&victim, &shared.join("page.html"));
    let output = plimsoll(&advice).arg(shared.join("page.html")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(fs::read_to_string(&victim).unwrap(), SECRET, "{said}");
    assert!(!output.status.success() && said.contains("page.html: it is a link"), "{said}");
}
