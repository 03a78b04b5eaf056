//! A gateway on a machine of its own: its processes, and the signals that they receive.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::setup::{NFS_PORT, SMB_PORT, name_of};
use crate::ceph::cluster::Cluster;
use crate::ceph::network::Machine;
use crate::process::{self, Process};

/// Only a machine that is far too slow takes this long to stop a process.
const SIGNAL_MAX: Duration = Duration::from_secs(10);

/// A gateway with its files in a directory.
pub(super) struct Gateway {
    pub(super) name: &'static str,
    pub(super) machine: Machine,
    /// The words before commands that use the libraries of Ceph.
    in_root: Vec<String>,
    pub(super) dir: PathBuf,
    pub(super) process: Option<Process>,
    /// Variables of the environment of its processes.
    pub(super) environment: Vec<String>,
}

impl Gateway {
    pub(super) fn new(
        name: &'static str,
        number: u8,
        ceph: &Cluster,
        work: &Path,
        nfs: &str,
    ) -> anyhow::Result<Self> {
        let pool = name_of(work)?;
        let dir = work.join(name);
        fs::create_dir(&dir)?;
        let conf = ceph.conf();
        let text = format!(
            "storage = \"cephfs\"\n\
             [nfs]\nlisten = \"0.0.0.0:{NFS_PORT}\"\n{nfs}\
             [smb]\nlisten = \"0.0.0.0:{SMB_PORT}\"\n\
             [ceph]\nconf = {:?}\nuser = \"admin\"\ndirectory = \"/{pool}\"\n\
             [cluster]\npool = \"{pool}\"\ngateway = \"{name}\"\ninterface = \"eth0\"\n",
            process::text(&conf)?
        );
        let config = dir.join("plimsoll.toml");
        fs::write(&config, text)?;
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
        let (machine, in_root) = (Machine::new(number)?, ceph.root().prefix());
        Ok(Self { name, machine, in_root, dir, process: None, environment: Vec::new() })
    }

    /// A copy of this gateway, with its name and key, on another machine.
    pub(super) fn copy(&self, number: u8) -> anyhow::Result<Self> {
        let dir = self.dir.with_file_name(format!("{}-copy", self.name));
        process::empty_dir(&dir.join("data"))?;
        for file in ["plimsoll.toml", "data/cluster.key"] {
            fs::copy(self.dir.join(file), dir.join(file))?;
        }
        let (in_root, environment) = (self.in_root.clone(), self.environment.clone());
        Ok(Self { name: self.name, machine: Machine::new(number)?, in_root, dir, process: None, environment })
    }

    fn argv(&self, binary: &Path, words: &[&str]) -> anyhow::Result<Vec<String>> {
        let (config, data) = (self.dir.join("plimsoll.toml"), self.dir.join("data"));
        let files = ["--config", process::text(&config)?, "--data", process::text(&data)?].map(String::from);
        let mut argv = self.machine.prefix().to_vec();
        argv.extend(self.in_root.iter().cloned());
        argv.push("env".to_owned());
        argv.extend(self.environment.iter().cloned());
        argv.push(process::text(binary)?.to_owned());
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        argv.extend(files);
        Ok(argv)
    }

    pub(super) fn start(&mut self, binary: &Path) -> anyhow::Result<()> {
        let log = process::append_to(&self.dir.join("plimsoll.log"))?;
        let argv = self.argv(binary, &["serve"])?;
        self.process = Some(Process::start(&argv, log.try_clone()?.into(), log.into())?);
        Ok(())
    }

    /// Runs `plimsoll cluster` and returns its output.
    pub(super) fn cluster(&self, binary: &Path, words: &[&str], input: &str) -> anyhow::Result<String> {
        let argv = self.argv(binary, &[&["cluster"], words].concat())?;
        let mut command = Command::new(&argv[0]);
        let command =
            command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
        let done = child.wait_with_output()?;
        if !done.status.success() {
            bail!("plimsoll cluster {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr));
        }
        Ok(String::from_utf8(done.stdout)?)
    }

    /// The process id of the gateway's main process.
    pub(super) fn id(&self) -> anyhow::Result<u32> {
        Ok(self.process.as_ref().with_context(|| format!("{} does not run", self.name))?.id())
    }

    /// The processes of endpoints.
    pub(super) fn endpoints(&self) -> anyhow::Result<Vec<u32>> {
        let id = self.id()?;
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        Ok(children.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }

    /// The process of an endpoint.
    pub(super) fn endpoint(&self, name: &str) -> anyhow::Result<u32> {
        let words = format!("--endpoint\0{name}\0");
        let serves = |id: &u32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&words)
        };
        let found = self.endpoints()?.into_iter().find(serves);
        found.with_context(|| format!("{} has no process for {name}", self.name))
    }

    /// Kills the gateway and its endpoints at once, as a power cut does.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        let children = self.endpoints()?;
        let mut gateway = self.process.take().context("the gateway does not run")?;
        // The gateway is stopped first, so that it starts no other process meanwhile.
        signal("STOP", gateway.id())?;
        children.into_iter().try_for_each(|child| signal("KILL", child))?;
        gateway.end();
        Ok(())
    }

    /// Stops all threads of the gateway and its endpoints. Returns the processes of endpoints.
    pub(super) fn freeze(&self) -> anyhow::Result<Vec<u32>> {
        let id = self.id()?;
        signal("STOP", id)?;
        let endpoints = self.endpoints()?;
        endpoints.iter().try_for_each(|&endpoint| signal("STOP", endpoint))?;
        let deadline = Instant::now() + SIGNAL_MAX;
        while !endpoints.iter().chain([&id]).all(|&id| is_stopped(id)) {
            ensure!(Instant::now() < deadline, "the processes of {} do not stop", self.name);
        }
        Ok(endpoints)
    }

    /// Lets the gateway and these processes go on.
    pub(super) fn thaw(&self, endpoints: &[u32]) -> anyhow::Result<()> {
        endpoints.iter().try_for_each(|&endpoint| signal("CONT", endpoint))?;
        signal("CONT", self.id()?)
    }
}

pub(super) fn signal(name: &str, process: u32) -> anyhow::Result<()> {
    // A process may have ended by itself.
    Command::new("kill").args([format!("-{name}"), process.to_string()]).status()?;
    Ok(())
}

/// Whether a process has ended, even if nobody has waited for it yet.
pub(super) fn has_ended(process: u32) -> bool {
    state(&PathBuf::from(format!("/proc/{process}/stat"))).is_none_or(|state| state == 'Z')
}

fn is_stopped(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    threads
        .is_ok_and(|threads| threads.flatten().all(|thread| state(&thread.path().join("stat")) == Some('T')))
}

/// The state of a process or thread, which follows its name in parentheses.
fn state(stat: &Path) -> Option<char> {
    let text = fs::read_to_string(stat).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}
