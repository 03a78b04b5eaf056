//! Child processes that always end: by themselves, at their deadline, or with this process.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// A running child, killed by its process id when dropped.
pub(crate) struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts `argv`. The kernel kills the child when the thread that started it ends, so an interrupted
    /// test leaves nothing running; `setpriv` arranges it, because doing so here would need `unsafe`.
    pub(crate) fn start(argv: &[String], stdout: Stdio, stderr: Stdio) -> anyhow::Result<Self> {
        Self::start_with_stdin(argv, Stdio::null(), stdout, stderr)
    }

    pub(crate) fn start_with_stdin(
        argv: &[String],
        stdin: Stdio,
        stdout: Stdio,
        stderr: Stdio,
    ) -> anyhow::Result<Self> {
        let name = argv.first().context("an empty command")?.clone();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .args(argv)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name })
    }

    /// The process id of the command, because `setpriv` becomes it.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the pipe once; later calls fail.
    pub(crate) fn stdout(&mut self) -> anyhow::Result<std::process::ChildStdout> {
        self.child.stdout.take().with_context(|| format!("the output of {} was taken already", self.name))
    }

    pub(crate) fn stdin(&mut self) -> anyhow::Result<std::process::ChildStdin> {
        self.child.stdin.take().with_context(|| format!("the input of {} was taken already", self.name))
    }

    pub(crate) fn try_wait(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// SIGTERM, and waits up to `within` for an orderly end.
    pub(crate) fn terminate(mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.wait(within)
    }

    /// Kills the child and fails when it takes longer than `within`.
    pub(crate) fn wait(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.end();
        bail!("{} did not end within {} s and was killed", self.name, within.as_secs())
    }

    pub(crate) fn end(&mut self) {
        // Both fail only for a child that has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// An error names the command and quotes the end of the log.
pub(crate) fn run(argv: &[&str], log: &Path, within: Duration) -> anyhow::Result<()> {
    let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
    let file = append_to(log)?;
    let mut child = Process::start(&argv, file.try_clone()?.into(), file.into())?;
    let status = child.wait(within).with_context(|| tail(log))?;
    if !status.success() {
        let how = status.signal().map_or_else(|| status.to_string(), |signal| format!("signal {signal}"));
        bail!("`{}`: {how}\n{}", argv.join(" "), tail(log));
    }
    Ok(())
}

pub(crate) fn output(directory: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).current_dir(directory).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

pub(crate) fn target_dir() -> PathBuf {
    let workspace = workspace();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), |dir| workspace.join(dir))
}

/// Defaults to the program that `cargo build --release` builds.
pub(crate) fn binary(chosen: Option<&Path>) -> PathBuf {
    chosen.map_or_else(|| target_dir().join("release/plimsoll"), Path::to_owned)
}

pub(crate) fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Creates a directory, or removes its contents.
pub(crate) fn empty_dir(directory: &Path) -> anyhow::Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot empty {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))
}

pub(crate) fn append_to(log: &Path) -> anyhow::Result<File> {
    File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot open {}", log.display()))
}

fn tail(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(20)..].join("\n");
    format!("end of {}:\n{last}", log.display())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn shell(script: &str) -> Process {
        let argv = ["sh", "-c", script].map(String::from);
        Process::start(&argv, Stdio::piped(), Stdio::null()).unwrap()
    }

    #[test]
    fn a_child_past_its_deadline_is_killed() {
        let mut child = shell("sleep 60");
        assert!(child.wait(Duration::from_millis(100)).is_err());
        assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(9));
    }

    #[test]
    fn terminate_allows_an_orderly_end() {
        let mut child = shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
        child.stdout().unwrap().read_exact(&mut [0; 6]).unwrap();
        assert_eq!(child.terminate(Duration::from_secs(10)).unwrap().code(), Some(7));
    }

    #[test]
    fn a_failing_command_shows_its_output() {
        let log = std::env::temp_dir().join(format!("xtask-process-{}", std::process::id()));
        let error = run(&["sh", "-c", "echo the reason; exit 3"], &log, Duration::from_secs(10)).unwrap_err();
        std::fs::remove_file(&log).unwrap();
        assert!(format!("{error:#}").contains("the reason"), "{error:#}");
    }
}
