//! A virtual machine: boots the image, runs one or several scripts in turn, and reports their exit statuses.
//!
//! The machine sees the root image through a temporary overlay. Its *job* is a second disk that is simply a tar file:
//! the start script, the script to run, its parameters, and further files. A machine for several jobs has a third disk,
//! to which the host writes each job in turn. The output on the guest's serial console is the log. KVM is not used:
//! nested virtualization hangs on some hosts, and a boot takes only 5 s.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::image::Image;
use crate::process::{self, Process};

/// Without 256-bit vector instructions, which are slow to emulate, and with a clock that needs no exit.
const CPU: &str = "Westmere,+rdrand";
/// QEMU finds translated code by its address: programs at the same addresses as in the last run start five times as
/// fast.
const KERNEL_PARAMETERS: &str = "console=ttyS0 quiet panic=-1 mitigations=off norandmaps";
/// Boot attempts. Rarely an emulated kernel crashes or hangs on code that it modifies while the other processor runs
/// it.
const BOOTS_MAX: u32 = 3;
/// A longer boot has failed: it normally takes 5 s.
const BOOT_MAX: Duration = Duration::from_secs(120);
const JOBS_DISK_BYTES: u64 = 2 << 30;
/// The beginning of the first line of every job.
const UP_MARK: &str = "PLIMSOLL-GUEST-UP ";
/// The line that ends every job, followed by the script's exit status.
const EXIT_MARK: &str = "PLIMSOLL-GUEST-EXIT ";
/// The beginning of a line that asks the host for an action, named by the rest.
const MARK: &str = "PLIMSOLL-GUEST-MARK ";
const START_SCRIPT: &str = include_str!("../../guest/start.sh");
/// Files in /job that scripts may source.
const LIBRARY: [(&str, &str); 3] = [
    ("checks", include_str!("../../guest/checks.sh")),
    ("commands", include_str!("../../guest/commands.sh")),
    ("operations", include_str!("../../guest/operations.sh")),
];

/// The address of the host's loopback in the guest, through QEMU's user network.
pub(crate) const HOST_ADDRESS: &str = "10.0.2.2";
/// The host's loopback in a second network ([`Guest::networks`]): a second server for the guest.
pub(crate) const OTHER_ADDRESS: &str = "10.0.3.2";

pub(crate) struct Guest<'a> {
    image: &'a Image,
    memory_mib: u32,
    cpus: u32,
    disks: Vec<String>,
    files: Vec<(String, PathBuf)>,
    parameters: Vec<(String, String)>,
    forwards: Vec<(u16, u16)>,
    networks: usize,
    tap: Option<&'a str>,
    takes_jobs: bool,
}

pub(crate) struct Outcome {
    /// The script's exit status, `None` if the machine ended without reporting one.
    pub(crate) status: Option<i32>,
    pub(crate) log: String,
}

/// Killed when dropped.
pub(super) struct Booted {
    process: Process,
    lines: Receiver<String>,
    /// The tar file that it was booted with, removed with the machine.
    boot_job: PathBuf,
    /// Present if the machine takes further jobs.
    jobs: Option<Jobs>,
}

struct Jobs {
    disk: PathBuf,
    console: ChildStdin,
}

/// The machine is killed when this is dropped.
pub(crate) struct Running<'m> {
    booted: Booted,
    log: String,
    deadline: Instant,
    /// Receives the machine for the next job, after this one succeeds.
    returned_to: Option<&'m mut Option<Booted>>,
}

impl<'a> Guest<'a> {
    pub(crate) fn new(image: &'a Image) -> Self {
        let (disks, files, parameters, forwards) = Default::default();
        Self {
            image,
            memory_mib: 1024,
            cpus: 2,
            disks,
            files,
            parameters,
            forwards,
            networks: 1,
            tap: None,
            takes_jobs: false,
        }
    }

    pub(crate) fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// Adds a disk with 4 KiB sectors, served over the NBD protocol at a Unix socket: `/dev/vdc`, then `/dev/vdd`, …
    pub(crate) fn nbd_disk(mut self, socket: &Path) -> Self {
        self.disks.push(format!("nbd:unix:{}", socket.display()));
        self
    }

    /// Makes a file of the host readable (and executable) in the guest as `/job/NAME`.
    pub(crate) fn file(mut self, name: &str, path: &Path) -> Self {
        self.files.push((name.to_owned(), path.to_owned()));
        self
    }

    pub(crate) fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.parameters.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn forward(mut self, host: u16, guest: u16) -> Self {
        self.forwards.push((host, guest));
        self
    }

    /// Sets the number of networks, each with an address of the host: [`HOST_ADDRESS`], [`OTHER_ADDRESS`], …
    pub(crate) fn networks(mut self, networks: usize) -> Self {
        self.networks = networks;
        self
    }

    pub(crate) fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// Connects it to this interface of the host, instead of the user network.
    pub(crate) fn tap(mut self, interface: &'a str) -> Self {
        self.tap = Some(interface);
        self
    }

    /// Makes systemd the first process of the machine, which runs the script as a unit.
    pub(crate) fn under_systemd(self) -> Self {
        self.set("INIT", "systemd")
    }

    /// Makes the machine wait for jobs instead of running a script of its own.
    pub(super) fn takes_jobs(mut self) -> Self {
        self.takes_jobs = true;
        self.set("JOBS", 1)
    }

    /// Decides whether this machine can run a job written for `other`.
    pub(super) fn suffices_for(&self, other: &Guest<'_>) -> bool {
        self.memory_mib >= other.memory_mib
            && self.cpus >= other.cpus
            && self.networks >= other.networks
            && other.disks.is_empty()
            && other.forwards.is_empty()
            && other.tap.is_none()
    }

    pub(crate) fn run(&self, script: &str, within: Duration) -> anyhow::Result<Outcome> {
        self.start(script, within)?.finish()
    }

    /// Boots the machine and kills it at the latest `within` after the script began. A machine that ends or hangs
    /// before that is booted again.
    pub(crate) fn start(&self, script: &str, within: Duration) -> anyhow::Result<Running<'static>> {
        Running::start(|| self.boot(script), within)
    }

    pub(super) fn boot_for_jobs(&self) -> anyhow::Result<Booted> {
        Ok(self.start("", BOOT_MAX)?.booted)
    }

    fn boot(&self, script: &str) -> anyhow::Result<Booted> {
        let boot_job = self.pack(script)?;
        let jobs_disk = self.takes_jobs.then(|| boot_job.with_extension("disk"));
        if let Some(disk) = &jobs_disk {
            File::create(disk)?.set_len(JOBS_DISK_BYTES)?;
        }
        let argv = self.command_line(&boot_job, jobs_disk.as_deref())?;
        let mut process = Process::start_with_stdin(&argv, Stdio::piped(), Stdio::piped(), Stdio::inherit())?;
        let (output, console) = (BufReader::new(process.stdout()?), process.stdin()?);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let jobs = jobs_disk.map(|disk| Jobs { disk, console });
        Ok(Booted { process, lines, boot_job, jobs })
    }

    /// Writes the job disk: a tar file, which the guest unpacks straight from the block device.
    pub(super) fn pack(&self, script: &str) -> anyhow::Result<PathBuf> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = process::target_dir().join("guest").join(format!("job-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("start"), START_SCRIPT)?;
        fs::set_permissions(dir.join("start"), fs::Permissions::from_mode(0o755))?;
        fs::write(dir.join("script"), script)?;
        for (name, text) in LIBRARY {
            fs::write(dir.join(name), text)?;
        }
        let mut env = File::create(dir.join("env"))?;
        for (name, value) in &self.parameters {
            writeln!(env, "{name}='{}'", value.replace('\'', "'\\''"))?;
        }
        for (name, path) in &self.files {
            fs::copy(path, dir.join(name)).with_context(|| format!("cannot read {}", path.display()))?;
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755))?;
        }
        let tar = dir.with_extension("tar");
        let (from, to) = (dir.display().to_string(), tar.display().to_string());
        let log = dir.with_extension("log");
        process::run(
            &["tar", "--owner=0", "--group=0", "-C", &from, "-cf", &to, "."],
            &log,
            Duration::from_secs(60),
        )?;
        fs::remove_file(log)?;
        fs::remove_dir_all(dir)?;
        Ok(tar)
    }

    fn command_line(&self, job: &Path, jobs_disk: Option<&Path>) -> anyhow::Result<Vec<String>> {
        let text = |path: &Path| path.to_str().map(String::from).context("path is not UTF-8");
        let mut argv: Vec<String> =
            "qemu-system-x86_64 -machine q35,accel=tcg -nodefaults -no-user-config -display none -no-reboot \
             -serial stdio"
                .split_whitespace()
                .map(String::from)
                .collect();
        let mut add = |option: &str, value: String| argv.extend([option.to_owned(), value]);
        add("-cpu", CPU.into());
        add("-smp", self.cpus.to_string());
        add("-m", self.memory_mib.to_string());
        add("-kernel", text(&self.image.kernel())?);
        add("-initrd", text(&self.image.initramfs())?);
        add("-append", KERNEL_PARAMETERS.into());
        let root = text(&self.image.root())?;
        // The overlay ends with the machine, so its flushes may be ignored.
        add("-drive", format!("if=none,id=root,format=raw,snapshot=on,cache=unsafe,file={root}"));
        add("-device", "virtio-blk-pci,drive=root".into());
        add("-drive", format!("if=none,id=job,format=raw,readonly=on,file={}", text(job)?));
        add("-device", "virtio-blk-pci,drive=job".into());
        if let Some(disk) = jobs_disk {
            add("-drive", format!("if=none,id=jobs,format=raw,readonly=on,file={}", text(disk)?));
            add("-device", "virtio-blk-pci,drive=jobs".into());
        }
        for (number, disk) in self.disks.iter().enumerate() {
            // cache=none: the guest's flushes are passed on, and QEMU caches no data.
            add("-drive", format!("if=none,id=disk{number},format=raw,cache=none,file={disk}"));
            let block = "logical_block_size=4096,physical_block_size=4096";
            add("-device", format!("virtio-blk-pci,drive=disk{number},write-cache=on,{block}"));
        }
        let mut network = match self.tap {
            Some(interface) => format!("tap,id=net,ifname={interface},script=no,downscript=no"),
            None => "user,id=net".to_owned(),
        };
        for (host, guest) in &self.forwards {
            network += &format!(",hostfwd=tcp:127.0.0.1:{host}-:{guest}");
        }
        add("-netdev", network);
        add("-device", "virtio-net-pci,netdev=net,romfile=".into());
        for number in 1..self.networks {
            add("-netdev", format!("user,id=net{number},net=10.0.{}.0/24", number + 2));
            add("-device", format!("virtio-net-pci,netdev=net{number},romfile="));
        }
        Ok(argv)
    }
}

impl Outcome {
    /// The error names the failed checks.
    pub(crate) fn require_success(&self) -> anyhow::Result<()> {
        match self.status {
            Some(0) => Ok(()),
            Some(status) => bail!("the guest's script ended with status {status}: {}", self.failures()),
            None => bail!("the guest ended without reporting the script's status"),
        }
    }

    /// Like [`Self::require_success`], and an error if fewer than `checks_min` checks passed.
    pub(crate) fn require_checks(&self, checks_min: usize) -> anyhow::Result<()> {
        self.require_success()?;
        let passed = self.log.lines().filter(|line| line.split(' ').nth(1) == Some("ok")).count();
        ensure!(passed >= checks_min, "only {passed} checks passed; at least {checks_min} are required");
        eprintln!("guest: {passed} checks passed");
        Ok(())
    }

    fn failures(&self) -> String {
        self.log.lines().filter(|line| line.contains("FAIL ")).collect::<Vec<_>>().join("\n")
    }
}

impl Booted {
    /// Hands the machine a job that [`Guest::pack`] created. If the machine has ended, this is not an error here: the
    /// job does not begin.
    pub(super) fn hand(&mut self, job: &Path) -> anyhow::Result<()> {
        let jobs = self.jobs.as_mut().context("this machine takes only one job")?;
        let mut disk = File::options().write(true).open(&jobs.disk)?;
        let length = io::copy(&mut File::open(job)?, &mut disk)?;
        ensure!(
            length <= JOBS_DISK_BYTES,
            "the job of {length} bytes does not fit on its disk of {JOBS_DISK_BYTES} bytes"
        );
        // A machine that has ended has closed its console.
        drop(writeln!(jobs.console, "job"));
        Ok(())
    }
}

impl<'m> Running<'m> {
    /// Tries the next machine of `machine` if one ends or hangs before the script begins.
    pub(super) fn start(
        mut machine: impl FnMut() -> anyhow::Result<Booted>,
        within: Duration,
    ) -> anyhow::Result<Self> {
        for _ in 0..BOOTS_MAX {
            let (booted, deadline) = (machine()?, Instant::now() + BOOT_MAX);
            let mut running = Self { booted, log: String::new(), deadline, returned_to: None };
            match running.wait_until_up() {
                Ok(true) => {
                    running.deadline = Instant::now() + within;
                    return Ok(running);
                }
                Ok(false) => eprintln!("guest: the machine ended before the script began; booting again"),
                Err(why) => {
                    eprintln!("guest: the script did not begin within {} s: {why}", BOOT_MAX.as_secs())
                }
            }
        }
        bail!("the guest did not boot")
    }

    /// The machine is stored only after the job succeeds.
    pub(super) fn returning_to(mut self, place: &'m mut Option<Booted>) -> Self {
        self.returned_to = Some(place);
        self
    }

    /// The next line of the console, `None` once the machine has ended.
    pub(crate) fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        match self.booted.lines.recv_timeout(remaining) {
            Ok(line) => {
                eprintln!("guest| {line}");
                self.log += &line;
                self.log.push('\n');
                Ok(Some(line))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!("the guest exceeded its time limit and was killed"),
        }
    }

    /// Waits until the script begins; `false` if the machine ends before.
    fn wait_until_up(&mut self) -> anyhow::Result<bool> {
        while let Some(line) = self.next_line()? {
            if line.starts_with(UP_MARK) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits for a line that starts with `start`; fails if the machine or the script ends before.
    pub(crate) fn wait_line(&mut self, start: &str) -> anyhow::Result<String> {
        while let Some(line) = self.next_line()? {
            if line.starts_with(start) {
                return Ok(line);
            }
            if line.starts_with(EXIT_MARK) {
                bail!("the guest's script ended ({line}) before it printed `{start}`");
            }
        }
        bail!("the guest ended before it printed `{start}`")
    }

    pub(crate) fn wait_mark(&mut self, mark: &str) -> anyhow::Result<()> {
        let line = self.wait_line(MARK)?;
        ensure!(line == format!("{MARK}{mark}"), "expected mark `{mark}`, the guest printed `{line}`");
        Ok(())
    }

    /// Waits for the script's end, and for the machine's unless another job may follow.
    pub(crate) fn finish(mut self) -> anyhow::Result<Outcome> {
        let mut status = None;
        while let Some(line) = self.next_line()? {
            if let Some(number) = line.strip_prefix(EXIT_MARK) {
                status = number.trim().parse().ok();
                if self.returned_to.is_some() {
                    break;
                }
            }
        }
        // A failed job may leave mounts and processes, so the next job gets a new machine.
        if let (Some(place), Some(0)) = (self.returned_to, status) {
            *place = Some(self.booted);
        }
        Ok(Outcome { status, log: self.log })
    }

    /// SIGKILL, immediately: the guest cannot react.
    pub(crate) fn cut(self) {
        drop(self);
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        self.process.end();
        drop(fs::remove_file(&self.boot_job));
        if let Some(jobs) = &self.jobs {
            drop(fs::remove_file(&jobs.disk));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: Option<i32>, log: &str) -> Outcome {
        Outcome { status, log: log.to_owned() }
    }

    fn why(result: anyhow::Result<()>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn passed_checks_are_counted_by_their_second_word() {
        let ended =
            outcome(Some(0), "1.2 ok mount\n    1 ok of a program\n2.3 ok umount 5 s\ntest x ... ok\n");
        assert!(ended.require_checks(2).is_ok());
        assert_eq!(why(ended.require_checks(3)), "only 2 checks passed; at least 3 are required");
    }

    #[test]
    fn a_failed_check_is_in_the_first_line() {
        let ended = outcome(Some(1), "1.2 ok mount\n2.3 FAIL df status 1: 0\n2.4 FAIL full status 1: 1\n");
        let error =
            "the guest's script ended with status 1: 2.3 FAIL df status 1: 0\n2.4 FAIL full status 1: 1";
        assert_eq!(why(ended.require_checks(0)), error);
    }

    #[test]
    fn a_machine_without_a_status_is_an_error() {
        let error = "the guest ended without reporting the script's status";
        assert_eq!(why(outcome(None, "1.2 ok mount\n").require_checks(1)), error);
    }
}
