//! Volumes over SMB, with Samba's client.

use crate::counters::client;
use crate::rig::{Service, eventually};
use crate::skip::skip;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub const PASSWORD: &str = "correct horse";
pub const SMB: [&str; 2] = ["--smb-listen", "127.0.0.1:0"];

/// A service with SMB and the user alice; `None` where there is no client of Samba's.
fn service() -> Option<Service> {
    if Command::new("smbclient").arg("--version").output().is_err() {
        skip("smbclient is not installed");
        return None;
    }
    let service = Service::start_with(&SMB);
    set_password(&service, &["user", "create", "alice", "--uid", "1000"], PASSWORD);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "4TiB"]);
    Some(service)
}

/// Runs a command that takes a password.
pub fn set_password(service: &Service, args: &[&str], password: &str) {
    let path = service.data().join("secret");
    fs::write(&path, password).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    service.says(&[args, &["--password-file", path.to_str().unwrap()]].concat());
}

/// A volume of alice's.
fn make(service: &Service, name: &str, more: &[&str]) {
    let create = ["volume", "create", name, "--pool", "p1", "--size", "100GiB", "--owner", "1000:1000"];
    service.says(&[&create[..], &["--protocols", "smb,nfsv3"], more].concat());
}

pub fn port(service: &Service) -> String {
    let announced = service.announcement();
    announced["smb"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned()
}

fn smbclient(service: &Service, what: &str, password: &str) -> Command {
    let mut command = Command::new("smbclient");
    command.args([what, "-p", &port(service), "-s", "/dev/null", "-U", &format!("alice%{password}")]);
    command.current_dir(service.data());
    command
}

/// Runs commands of alice's client at a share; returns whether it succeeded, and its output.
fn at(service: &Service, share: &str, commands: &str) -> (bool, String) {
    with(service, share, PASSWORD, commands)
}

fn with(service: &Service, share: &str, password: &str, commands: &str) -> (bool, String) {
    let mut command = smbclient(service, &format!("//127.0.0.1/{share}"), password);
    let output = command.args(["-c", commands]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

/// The shares that alice is shown.
fn shares(service: &Service) -> String {
    let output = smbclient(service, "-gL127.0.0.1", PASSWORD).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let disks = said.lines().filter_map(|line| line.strip_prefix("Disk|")?.split('|').next());
    disks.collect::<Vec<_>>().join(" ")
}

fn file(service: &Service, name: &str, bytes: &[u8]) -> PathBuf {
    let path = service.data().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// A client that stays connected.
struct Connected {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Connected {
    fn to(service: &Service, share: &str) -> Self {
        let of_one = smbclient(service, &format!("//127.0.0.1/{share}"), PASSWORD);
        // What it says comes line by line, not when it ends.
        let mut command = Command::new("stdbuf");
        command.arg("-oL").arg(of_one.get_program()).args(of_one.get_args()).current_dir(service.data());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (told, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).all(|line| told.send(line).is_ok())
        });
        let mut connected = Self { child, input, lines };
        connected.says("ls", "blocks available");
        connected
    }

    /// Sends a command; returns whether the output has this text in time.
    fn hears(&mut self, command: &str, wanted: &str, patience: Duration) -> bool {
        self.send(command);
        self.heard(wanted, patience)
    }

    fn send(&mut self, command: &str) {
        // One that has ended takes nothing, and says no more.
        _ = self.input.write_all(format!("{command}\n").as_bytes());
    }

    /// Whether the output has this text in time.
    fn heard(&mut self, wanted: &str, patience: Duration) -> bool {
        std::iter::from_fn(|| self.lines.recv_timeout(patience).ok()).any(|line| line.contains(wanted))
    }

    /// Sends a command; the output must have this text.
    #[track_caller]
    fn says(&mut self, command: &str, wanted: &str) {
        assert!(self.hears(command, wanted, Duration::from_secs(20)), "{command}: {wanted} is not said");
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn volumes_are_shares_of_the_service_s_users() {
    let Some(service) = service() else { return };
    make(&service, "v1", &["--allow", "127.0.0.1"]);
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let sent = file(&service, "sent", &bytes);
    let (is_done, said) = at(&service, "V1", "put sent; mkdir dir; get sent back");
    assert!(is_done, "{said}");
    assert_eq!(fs::read(service.data().join("back")).unwrap(), fs::read(sent).unwrap());
    let [dir] = &service.volume_dirs()[..] else { panic!("one volume") };
    assert_eq!(fs::read(dir.join("sent")).unwrap(), bytes);
    // The share is as large as the volume, which may grow meanwhile.
    for (size, blocks) in [("100GiB", 26_214_400), ("200GiB", 52_428_800)] {
        service.says(&["volume", "update", "v1", "--size", size]);
        let (_, said) = at(&service, "v1", "ls");
        assert!(said.contains(&format!("{blocks} blocks of size 4096")), "{said}");
    }
    let (is_done, said) = with(&service, "v1", "another", "ls");
    assert!(!is_done && said.contains("LOGON_FAILURE"), "{said}");
    let metrics = client(&service).metrics().unwrap();
    let of =
        |name: &str, direction| metrics.sum(name, &[("volume", "v1"), ("direction", direction)]).unwrap();
    assert_eq!(of("plimsoll_volume_bytes_total", "write"), 300_000.0);
    assert!(of("plimsoll_volume_bytes_total", "read") >= 300_000.0);
    assert_eq!(metrics.sum("plimsoll_smb_refused_logins_total", &[]), Some(1.0));
    let kept = Connected::to(&service, "v1");
    let status = service.json(&["status"]);
    assert_eq!((&status["smb"]["sessions"], &status["smb"]["refused_logins"]), (&1.into(), &1.into()));
    let clients = service.json(&["client", "list"]);
    assert_eq!(clients["items"][0]["volumes"][0]["name"], "v1", "{clients}");
    let refused = service.refuses(&["volume", "delete", "v1", "--yes"]);
    assert!(refused.contains("1 client"), "{refused}");
    drop(kept);
    let mounts = service.says(&["volume", "show", "v1"]);
    let options = format!("vers=3.1.1,username=USER,uid=UID,gid=GID,port={}", port(&service));
    let command = format!("mount -t cifs -o {options} //127.0.0.1/v1");
    assert!(mounts.contains(&command), "{mounts}");
}

#[test]
fn shares_come_and_go_with_volumes_and_their_rules() {
    let Some(service) = service() else { return };
    assert_eq!(shares(&service), "");
    make(&service, "v1", &["--allow", "127.0.0.1", "--share", "Tools"]);
    make(&service, "v2", &["--allow", "192.0.2.1"]);
    service.says(&["volume", "create", "v3", "--pool", "p1", "--size", "100GiB", "--allow", "127.0.0.1"]);
    assert_eq!(shares(&service), "Tools");
    let taken = ["volume", "create", "tools", "--pool", "p1", "--size", "1GiB", "--protocols", "smb"];
    assert!(service.refuses(&taken).contains("v1"));
    let mut connected = Connected::to(&service, "tools");
    for elsewhere in ["v2", "v3"] {
        assert!(!at(&service, elsewhere, "ls").0, "{elsewhere}");
    }
    // Another rule for others changes nothing for those who are connected.
    service.says(&["volume", "access", "add", "v1", "--allow", "192.0.2.7"]);
    service.says(&["volume", "access", "add", "v2", "--allow", "127.0.0.1"]);
    assert_eq!(shares(&service), "Tools v2");
    at(&service, "tools", "mkdir before");
    connected.says("ls", "before");
    service.says(&["volume", "update", "v1", "--protocols", "nfsv3"]);
    connected.says("ls", "NETWORK_NAME_DELETED");
    assert_eq!(shares(&service), "v2");
    let mut connected = Connected::to(&service, "v2");
    service.says(&["volume", "delete", "v2", "--yes", "--force"]);
    connected.says("ls", "NETWORK_NAME_DELETED");
    assert_eq!(shares(&service), "");
}

#[test]
fn users_log_in_with_the_new_password_and_deleted_users_are_logged_out() {
    let Some(service) = service() else { return };
    make(&service, "v1", &["--allow", "127.0.0.1"]);
    let mut connected = Connected::to(&service, "v1");
    set_password(&service, &["user", "set-password", "alice"], "second");
    assert!(!at(&service, "v1", "ls").0, "the old password");
    let (is_done, said) = with(&service, "v1", "second", "ls");
    assert!(is_done, "{said}");
    // Who is logged in stays so.
    connected.says("ls", "blocks available");
    service.says(&["user", "delete", "alice", "--yes"]);
    assert!(!with(&service, "v1", "second", "ls").0);
    let second = Duration::from_secs(1);
    eventually("alice is logged out", || connected.hears("ls", "NT_STATUS_", second));
    eventually("nobody is left", || service.json(&["status"])["smb"]["sessions"] == 0);
}

#[test]
fn watcher_of_a_share_sees_changes_over_nfs() {
    let Some(service) = service() else { return };
    make(&service, "v1", &["--allow", "127.0.0.1", "--mode", "777"]);
    let mut connected = Connected::to(&service, "v1");
    connected.send("notify \\");
    eventually("it watches", || service.json(&["status"])["smb"]["open_files"] == 1);
    let target = format!("nfs://{}/v1", service.nfs());
    let load = ["bench", "load", &target, "--op", "write", "--time", "1s", "--files", "1", "--size", "1m"];
    service.says(&load);
    assert!(connected.heard("0001 ", Duration::from_secs(20)), "no name is told");
}

#[test]
fn a_restart_without_smb_serves_the_rest() {
    let Some(mut service) = service() else { return };
    make(&service, "v1", &["--allow", "127.0.0.1"]);
    service.stop();
    service.start_again_with(&[]);
    assert!(service.announcement().get("smb").is_none());
    let warned = service.says(&["warning", "list"]);
    assert!(warned.contains("v1 is not served over smb"), "{warned}");
    let mounts = service.says(&["volume", "show", "v1"]);
    assert!(mounts.contains("vers=3") && !mounts.contains("cifs"), "{mounts}");
}

/// Modes of a team's share, by the commands and the API, over a restart.
#[test]
fn modes_of_a_share_are_set_shown_and_kept() {
    let mut service = Service::start_with(&SMB);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "4TiB"]);
    make(&service, "team", &["--create-mode", "0660", "--smb", "directory-mode=2770,browsable=off"]);
    let shown = "browsable=off, create-mode=0660, directory-mode=2770";
    assert!(service.says(&["volume", "show", "team"]).contains(shown));
    service.says(&["volume", "update", "team", "--directory-mode", "3770"]);
    service.stop();
    service.start_again();
    let smb = &service.json(&["volume", "show", "team"])["smb"];
    assert_eq!((smb["create_mode"].as_str(), smb["directory_mode"].as_str()), (Some("0660"), Some("3770")));
    for (option, mode, allowed) in [
        ("--create-mode", "0066", "with all of 0600"),
        ("--create-mode", "2660", "nothing beyond 0777"),
        ("--directory-mode", "rwx", "three or four octal digits"),
    ] {
        let said = service.refuses(&["volume", "update", "team", option, mode]);
        assert!(said.contains(mode) && said.contains(allowed), "{said}");
    }
    let said = service.refuses(&["export", "/tmp", "--create-mode", "0660"]);
    assert!(said.contains("--protocols smb"), "{said}");
}

/// Adds a connection to a session, as a load does with two channels.
#[test]
fn sessions_have_one_connection_when_the_configuration_says_so_and_no_flag_overrides_it() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    fs::write(&config, "[api]\nlisten = \"127.0.0.1:0\"\n[smb]\nmultichannel = false\n").unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o600)).unwrap();
    let config = ["--config", config.to_str().unwrap()];
    for (options, has_channels) in [
        (&config[..], false),
        (&[config[0], config[1], "--smb-multichannel", "on"], true),
        (&["--smb-multichannel", "off"], false),
        (&[], true),
    ] {
        let service = Service::start_with(&[&SMB[..], options].concat());
        set_password(&service, &["user", "create", "alice", "--uid", "1000"], PASSWORD);
        service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "4TiB"]);
        make(&service, "v1", &["--allow", "127.0.0.1"]);
        let target = format!("smb://alice@127.0.0.1:{}/v1?channels=2", port(&service));
        let load = ["bench", "load", &target, "--op", "null", "--connections", "2", "--time", "200ms"];
        let mut command = service.command(&load);
        let done = command.args(["--warm-up", "0s"]).env("PLIMSOLL_SMB_PASSWORD", PASSWORD).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.success(), has_channels, "{options:?}: {said}");
        assert_eq!(said.contains("does not offer MULTI_CHANNEL"), !has_channels, "{options:?}: {said}");
    }
}
