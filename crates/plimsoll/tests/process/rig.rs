//! A real `plimsoll` that runs until a test stops it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// The program, in a clean environment.
pub fn plimsoll() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    for name in ["PLIMSOLL_DATA", "PLIMSOLL_URL", "PLIMSOLL_TOKEN", "PLIMSOLL_CA", "PLIMSOLL_LOG"] {
        command.env_remove(name);
    }
    command
}

/// A process that serves.
pub struct Process {
    child: Child,
    /// The log of the process, until a test takes it.
    pub log: Option<ChildStderr>,
    /// Open, so that it can say more.
    _said: BufReader<ChildStdout>,
}

impl Process {
    /// Starts the process, and waits for a line of output that begins with `ready`.
    #[track_caller]
    pub fn start(mut command: Command, ready: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = child.stderr.take();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let is_ready = said.by_ref().lines().map_while(Result::ok).any(|line| line.starts_with(ready));
        let process = Self { child, log, _said: said };
        assert!(is_ready, "it does not start: {command:?}");
        process
    }

    /// `plimsoll serve` on a data directory.
    pub fn serve(data: &Path) -> Self {
        let mut command = plimsoll();
        command.args(["serve", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--data"]).arg(data);
        Self::start(command, "Token ")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Stops the process and waits for an orderly end; returns the log of its whole life.
    pub fn stop(mut self) -> String {
        self.signal("TERM");
        let mut log = String::new();
        self.log.take().into_iter().for_each(|mut stderr| _ = stderr.read_to_string(&mut log).unwrap());
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }

    /// Kills the process; returns the log of its whole life.
    pub fn kill(mut self) -> String {
        self.child.kill().unwrap();
        let mut log = String::new();
        self.log.take().into_iter().for_each(|mut stderr| _ = stderr.read_to_string(&mut log).unwrap());
        log
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
