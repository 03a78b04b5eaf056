//! Modes of files: the process creates files for their intended readers only, and does not trust files that others may
//! have created.

#[path = "../../../vfs/tests/support/skip.rs"]
mod skip;

use crate::rig::{Process, plimsoll};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip::skip("only root can give files to other users");
    }
    is_root
}

/// A data directory that another user created: others may enter it.
fn entered() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    (dir, data)
}

/// Runs a command on a data directory; returns whether it succeeded, and its output.
fn run(data: &Path, arguments: &[&str]) -> (bool, String) {
    let ran = plimsoll().args(arguments).arg("--data").arg(data).output().unwrap();
    (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// Every path below a directory with its mode, without the served files.
fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let state = fs::symlink_metadata(entry.path()).unwrap();
        found.push((entry.path(), state.mode() & 0o7777));
        if state.is_dir() && entry.file_name() != "volumes" {
            found.extend(modes(&entry.path()));
        }
    }
    found
}

fn make_volume(data: &Path) {
    for arguments in [
        &["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"][..],
        &["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--allow", "127.0.0.1"],
    ] {
        let (done, said) = run(data, arguments);
        assert!(done, "{said}");
    }
}

#[test]
fn file_of_the_service_is_never_for_others_to_write() {
    let (_dir, data) = entered();
    // What the umask of the parent allows shall not matter.
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_plimsoll"), "serve", "--data"]);
    command.arg(&data).args(["--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"]);
    let process = Process::start(command, "Token ");
    make_volume(&data);
    // The second start is the one whose umask is zero when the first file is written.
    process.stop();
    let process = Process::serve(&data);
    for (path, mode) in modes(&data) {
        let wanted = if path.ends_with("service.json") { 0o644 } else { mode & 0o700 };
        assert_eq!(mode, wanted, "{} has the mode {mode:o}", path.display());
    }
    process.stop();
}

#[test]
fn address_that_another_user_may_have_written_is_not_believed() {
    let (_dir, data) = entered();
    let process = Process::serve(&data);
    let told = data.join("service.json");
    assert!(run(&data, &["status"]).0);
    fs::set_permissions(&told, Permissions::from_mode(0o666)).unwrap();
    let (done, said) = run(&data, &["status"]);
    assert!(!done && said.contains("chmod go-w ") && said.contains("service.json"), "{said}");
    fs::set_permissions(&told, Permissions::from_mode(0o644)).unwrap();
    assert!(run(&data, &["status"]).0);
    if is_root() {
        chown(&told, Some(4711), None).unwrap();
        let (done, said) = run(&data, &["status"]);
        assert!(!done && said.contains("belongs to user 4711"), "{said}");
        chown(&told, Some(0), None).unwrap();
        chown(data.join("admin.token"), Some(4711), None).unwrap();
        let (done, said) = run(&data, &["status"]);
        assert!(!done && said.contains("belongs to user 4711"), "{said}");
    }
    process.stop();
}

#[test]
fn link_in_the_place_of_a_draft_is_not_followed() {
    let (dir, data) = entered();
    Process::serve(&data).stop();
    let victim = dir.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    for draft in ["service.json.new", "clients.new", "lock-hosts.new", "admin.token.new"] {
        symlink(&victim, data.join(draft)).unwrap();
    }
    let process = Process::serve(&data);
    assert!(run(&data, &["status"]).0);
    process.stop();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
}

#[test]
fn directory_in_which_others_can_give_names_is_refused() {
    let (dir, data) = entered();
    fs::create_dir(dir.path().join("files")).unwrap();
    for mode in [0o777, 0o1777, 0o775] {
        fs::set_permissions(&data, Permissions::from_mode(mode)).unwrap();
        let mut serve = plimsoll();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--data"]).arg(&data);
        let mut export = plimsoll();
        export
            .args(["export", "--listen", "127.0.0.1:0", "--state"])
            .arg(&data)
            .arg(dir.path().join("files"));
        for mut command in [serve, export] {
            let ran = command.output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(!ran.status.success() && said.contains("chmod go-w "), "{said}");
        }
    }
}

/// The address of another user's service, to which this user's commands would send a token.
#[test]
fn file_that_an_ordinary_user_plants_does_not_redirect_a_command() {
    if !is_root() {
        return;
    }
    let (dir, data) = entered();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let process = Process::serve(&data);
    let script = "echo '{\"api\":\"http://127.0.0.1:1\",\"nfs\":\"127.0.0.1:1\"}' > service.json";
    let wrote =
        Command::new("sh").args(["-c", script]).current_dir(&data).uid(4711).gid(4711).output().unwrap();
    assert!(!wrote.status.success(), "an ordinary user has changed where commands go");
    assert!(run(&data, &["status"]).0);
    process.stop();
}

#[test]
fn file_that_a_command_writes_is_readable_and_not_for_others_to_change() {
    let dir = tempfile::tempdir().unwrap();
    let wrote = Command::new("sh")
        .args(["-c", "umask 0; \"$0\" man --dir pages", env!("CARGO_BIN_EXE_plimsoll")])
        .current_dir(dir.path())
        .status()
        .unwrap();
    assert!(wrote.success());
    let found = modes(dir.path());
    assert!(found.len() > 10);
    for (path, mode) in found {
        let wanted = if path.is_dir() { 0o755 } else { 0o644 };
        assert_eq!(mode, wanted, "{}", path.display());
    }
}
