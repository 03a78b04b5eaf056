//! The messages with which systemd follows a service.

use crate::rig::{Process, plimsoll};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

fn next(socket: &UnixDatagram) -> String {
    let mut message = [0; 1024];
    let length = socket.recv(&mut message).unwrap();
    String::from_utf8(message[..length].to_vec()).unwrap()
}

#[test]
fn systemd_learns_when_a_service_is_ready_and_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    std::fs::create_dir(dir.path().join("files")).unwrap();
    let with = |arguments: &[&str]| {
        let mut command: Command = plimsoll();
        command.args(arguments).env("NOTIFY_SOCKET", &path).current_dir(dir.path());
        command
    };
    let serve = with(&["serve", "--data", "data", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"]);
    let export = with(&["export", "files", "--state", "state", "--listen", "127.0.0.1:0"]);
    for (command, line, status) in
        [(serve, "Token ", ", API at http"), (export, "mount ", "NFS on 127.0.0.1:")]
    {
        let process = Process::start(command, line);
        let ready = next(&socket);
        assert!(ready.starts_with("READY=1\nSTATUS=NFS on 127.0.0.1:") && ready.contains(status), "{ready}");
        process.stop();
        assert!(next(&socket).starts_with("STOPPING=1\n"));
    }
}
