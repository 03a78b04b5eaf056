//! A real `plimsoll serve`, driven by nothing but the commands.
#![allow(dead_code, reason = "each test binary uses its own part")]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use vfs::sync::RwLock;

/// Services run side by side, but the one that measures.
static MACHINE: RwLock<()> = RwLock::new(());

/// A part of the machine, or all of it.
enum Place {
    Shared { _held: RwLockReadGuard<'static, ()> },
    Alone { _held: RwLockWriteGuard<'static, ()> },
}

/// A service with a data directory of its own.
pub struct Service {
    child: Child,
    dir: PathBuf,
    options: Vec<String>,
    /// The directory, if it is not the test's.
    _own: Option<tempfile::TempDir>,
    _place: Place,
}

/// The program, in a clean environment.
pub fn plimsoll(data: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.env("PLIMSOLL_CONFIG", "/dev/null");
    for name in ["PLIMSOLL_DATA", "PLIMSOLL_URL", "PLIMSOLL_TOKEN", "PLIMSOLL_CA", "PLIMSOLL_LOG"] {
        command.env_remove(name);
    }
    data.into_iter().for_each(|data| _ = command.env("PLIMSOLL_DATA", data));
    command
}

fn serve(data: &Path, options: &[&str]) -> Child {
    let mut command = plimsoll(Some(data));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(options);
    if !options.contains(&"--config") {
        command.args(["--api", "127.0.0.1:0"]);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // The last line says that it is ready.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("Token ")), "it does not start: {options:?}");
    child
}

impl Service {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(options: &[&str]) -> Self {
        let held = MACHINE.read();
        Self::start_at(Place::Shared { _held: held }, options)
    }

    /// One that is measured, while no other runs.
    pub fn start_alone() -> Self {
        let held = MACHINE.write();
        Self::start_at(Place::Alone { _held: held }, &[])
    }

    fn start_at(place: Place, options: &[&str]) -> Self {
        let own = tempfile::tempdir().unwrap();
        let dir = own.path().to_owned();
        let child = serve(&dir, options);
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Self { child, dir, options, _own: Some(own), _place: place }
    }

    /// One whose data directory is the test's.
    pub fn start_on(dir: &Path) -> Self {
        Self::start_in(dir, &[])
    }

    /// One whose data directory is the test's, with options.
    pub fn start_in(dir: &Path, options: &[&str]) -> Self {
        let held = MACHINE.read();
        let place = Place::Shared { _held: held };
        let (child, own) = (serve(dir, options), dir.to_owned());
        let options = options.iter().map(ToString::to_string).collect();
        Self { child, dir: own, options, _own: None, _place: place }
    }

    pub fn data(&self) -> &Path {
        &self.dir
    }

    /// The directories of its volumes.
    pub fn volume_dirs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.data().join("volumes")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The file `service.json`, in which the service publishes its addresses.
    pub fn announcement(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.data().join("service.json")).unwrap()).unwrap()
    }

    pub fn nfs(&self) -> SocketAddr {
        self.announcement()["nfs"].as_str().unwrap().parse().unwrap()
    }

    /// A command against the service.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = plimsoll(Some(self.data()));
        command.args(args);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed; returns its output and its warnings.
    #[track_caller]
    pub fn runs(&self, args: &[&str]) -> (String, String) {
        let Output { status, stdout, stderr } = self.output(args);
        let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert!(status.success(), "{args:?}: {out}{err}");
        (out, err)
    }

    /// Runs a command that must succeed; returns its output.
    #[track_caller]
    pub fn says(&self, args: &[&str]) -> String {
        self.runs(args).0
    }

    /// Runs a command with `--json`.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let said = self.says(&[args, &["--json"]].concat());
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{args:?}: {error}: {said}"))
    }

    /// Runs a command that must be refused; returns the reason.
    #[track_caller]
    pub fn refuses(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.output(args);
        let said = String::from_utf8(stderr).unwrap();
        assert!(!status.success(), "{args:?}: {}{said}", String::from_utf8_lossy(&stdout));
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        said
    }

    /// A pool `p1` at anf/ultra and in it a volume `v1` that everybody on this machine may use.
    pub fn with_volume(size: &str, more: &[&str]) -> Self {
        Self::start().furnished(size, more)
    }

    /// A service with such a volume, a certificate, and an issuer of clients' certificates, which is in a directory.
    pub fn with_secured_volume(size: &str, more: &[&str]) -> (Self, tempfile::TempDir) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (cert, key) =
            (write("cert.pem", made.cert.pem()), write("key.pem", made.signing_key.serialize_pem()));
        let options = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &cert];
        (Self::start_with(&options).furnished(size, more), dir)
    }

    /// A service whose volumes have snapshots on any file system, with such a volume.
    pub fn with_snapshots(size: &str) -> Self {
        Self::start_with(&["--snapshots", "copy"]).furnished(size, &[])
    }

    fn furnished(self, size: &str, more: &[&str]) -> Self {
        let service = self;
        service.says(&["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"]);
        let create = ["volume", "create", "v1", "--pool", "p1", "--size", size];
        let open = ["--allow", "127.0.0.0/8", "--squash", "none"];
        service.says(&[&create[..], &open, more].concat());
        service
    }

    /// Stops the service, as an administrator does.
    pub fn stop(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }

    /// Kills the service.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn start_again_with(&mut self, options: &[&str]) {
        self.options = options.iter().map(|&option| option.to_owned()).collect();
        self.start_again();
    }

    pub fn start_again(&mut self) {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        self.child = serve(&self.dir, &options);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Has ended already where a test has ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits at most ten seconds until a condition holds.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..200 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} did not come true");
}
