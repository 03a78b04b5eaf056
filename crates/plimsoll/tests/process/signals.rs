//! Signals that others send to long-running processes, and that must not end this one.

use crate::rig::{Process, plimsoll};
use std::io::{BufRead, BufReader};
use std::process::Command;

/// Every command that runs until a signal stops it, and the line with which it reports that it runs.
fn commands(dir: &std::path::Path) -> Vec<(Command, &'static str)> {
    let with = |arguments: &[&str], paths: &[(&str, &str)]| {
        let mut command = plimsoll();
        command.args(arguments);
        paths.iter().for_each(|(option, path)| _ = command.arg(option).arg(dir.join(path)));
        command
    };
    std::fs::create_dir(dir.join("files")).unwrap();
    std::fs::write(dir.join("token"), "0123456789abcdef").unwrap();
    let private = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(dir.join("token"), private).unwrap();
    let mut export = with(&["export", "--listen", "127.0.0.1:0"], &[("--state", "state")]);
    export.arg(dir.join("files"));
    vec![
        (
            with(&["serve", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"], &[("--data", "data")]),
            "Token ",
        ),
        (export, "mount "),
        (with(&["agent", "--listen", "127.0.0.1:0"], &[("--token-file", "token")]), "Agent "),
        (with(&["demo", "--listen", "127.0.0.1:0", "--time", "1s"], &[("--data", "demo")]), "Still serving"),
    ]
}

#[test]
fn signal_that_asks_for_a_reload_is_logged_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (command, ready) in commands(dir.path()) {
        let mut process = Process::start(command, ready);
        let mut log = BufReader::new(process.log.take().unwrap()).lines().map_while(Result::ok);
        for signal in ["HUP", "USR1", "USR2", "HUP"] {
            process.signal(signal);
            assert!(log.any(|line| line.contains(&format!("SIG{signal} is ignored"))), "{ready}{signal}");
        }
        process.stop();
    }
}

/// A terminal that closes leaves the log without a reader.
#[test]
fn process_without_a_reader_of_its_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut process = Process::serve(&data);
    drop(process.log.take());
    for _ in 0..3 {
        process.signal("HUP");
        let mut status = plimsoll();
        let ran = status.args(["status", "--data"]).arg(&data).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    process.stop();
}
