//! The server under test: its start, address, kill, and restart.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::ledger::client::Client;
use crate::process::{self, Process};

const START_MAX: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    /// The MOUNT program's port; the same as NFS's for Plimsoll.
    pub(crate) mount_port: u16,
    pub(crate) export: String,
}

impl Endpoint {
    /// MOUNT and NFS have one port.
    pub(crate) fn loopback(port: u16, export: &str) -> Self {
        Self { address: (Ipv4Addr::LOCALHOST, port).into(), mount_port: port, export: export.to_owned() }
    }

    /// Waits until the server answers MOUNT for its export.
    pub(crate) fn wait_until_ready(&self, within: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        loop {
            match Client::mount(self) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    bail!("no server answered at {} within {} s: {error}", self.address, within.as_secs())
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// The only place that contains Plimsoll's command line: serves `directory` as [`PLIMSOLL_EXPORT`], with the key of its
/// handles in `state`.
pub(crate) fn plimsoll_command(binary: &str, directory: &str, state: &str, listen: &str) -> Vec<String> {
    let command = [binary, "export", directory, "--name", "export", "--listen", listen, "--state", state];
    command.into_iter().chain(["--squash", "none"]).map(String::from).collect()
}

/// The path that a client mounts from a server started with [`plimsoll_command`].
pub(crate) const PLIMSOLL_EXPORT: &str = "/export";

/// Another process may take the port before its use.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The options that select the server under test.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Choice {
    /// Server to test.
    #[arg(long, default_value = "target/release/plimsoll", conflicts_with = "server_cmd")]
    binary: PathBuf,
    /// Command of another server, split at spaces; it must stay in the foreground and needs `--port` and `--export`.
    #[arg(long, requires_all = ["port", "export"])]
    server_cmd: Option<String>,
    /// NFS port of that server.
    #[arg(long)]
    port: Option<u16>,
    /// MOUNT port of that server, if it is not the NFS port.
    #[arg(long)]
    mount_port: Option<u16>,
    /// Path that that server exports.
    #[arg(long)]
    export: Option<String>,
}

/// A server on this machine that is started, killed and restarted at the same address.
pub(crate) struct Server {
    argv: Vec<String>,
    log: PathBuf,
    process: Option<Process>,
    pub(crate) endpoint: Endpoint,
}

impl Server {
    /// By default the server is Plimsoll. Its state and log are in `work`.
    pub(crate) fn new(choice: &Choice, directory: &Path, work: &Path) -> anyhow::Result<Self> {
        let (argv, endpoint) = match (&choice.server_cmd, choice.port, &choice.export) {
            (Some(command), Some(port), Some(export)) => {
                let mut endpoint = Endpoint::loopback(port, export);
                endpoint.mount_port = choice.mount_port.unwrap_or(port);
                (command.split_whitespace().map(String::from).collect(), endpoint)
            }
            _ => {
                let state = work.join("state");
                let [binary, directory, state] = [&choice.binary, directory, &state]
                    .map(|path| path.to_str().context("path is not UTF-8"));
                let endpoint = Endpoint::loopback(free_port()?, PLIMSOLL_EXPORT);
                let listen = endpoint.address.to_string();
                (plimsoll_command(binary?, directory?, state?, &listen), endpoint)
            }
        };
        Ok(Self::from_command(argv, endpoint, work))
    }

    /// The command stays in the foreground; its log is in `work`.
    pub(crate) fn from_command(argv: Vec<String>, endpoint: Endpoint, work: &Path) -> Self {
        Self { argv, log: work.join("server.log"), process: None, endpoint }
    }

    pub(crate) fn add(&mut self, options: &[String]) {
        self.argv.extend_from_slice(options);
    }

    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        let log = process::append_to(&self.log)?;
        self.process = Some(Process::start(&self.argv, log.try_clone()?.into(), Stdio::from(log))?);
        self.endpoint.wait_until_ready(START_MAX).with_context(|| format!("see {}", self.log.display()))?;
        // An unrelated server on the same port may answer if this one could not bind it.
        if let Some(status) = self.process.as_mut().map(Process::try_wait).transpose()?.flatten() {
            bail!("the server ended at once ({status}), see {}", self.log.display());
        }
        Ok(())
    }

    /// A server that ended before is an error.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        let mut process = self.process.take().context("the server is not running")?;
        if let Some(status) = process.try_wait()? {
            bail!("the server ended by itself ({status}); see {}", self.log.display());
        }
        process.kill();
        Ok(())
    }

    /// The server must end with success.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        let process = self.process.take().context("the server is not running")?;
        let status = process.terminate(START_MAX)?;
        if !status.success() {
            bail!("the server ended with {status} on SIGTERM, see {}", self.log.display());
        }
        Ok(())
    }
}
