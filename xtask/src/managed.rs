//! A running `plimsoll serve`, and its management commands.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process::{self, Process};
use crate::samba::USER;
use crate::server::free_port;

const START_MAX: Duration = Duration::from_secs(120);

pub(crate) struct Managed {
    process: Process,
    argv: Vec<String>,
    log: PathBuf,
    binary: PathBuf,
    data: PathBuf,
    pub(crate) port: u16,
    /// Present if SMB is served.
    pub(crate) smb_port: u16,
}

impl Managed {
    /// Starts the service with its data and its log in `work`. `prefix` precedes the command, such as `taskset`.
    pub(crate) fn start(binary: &Path, work: &Path, prefix: &[&str]) -> anyhow::Result<Self> {
        Self::start_with(binary, work, prefix, &[])
    }

    pub(crate) fn start_with_smb(binary: &Path, work: &Path, prefix: &[&str]) -> anyhow::Result<Self> {
        Self::start_with_smb_and(binary, work, prefix, &[])
    }

    pub(crate) fn start_with_smb_and(
        binary: &Path,
        work: &Path,
        prefix: &[&str],
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let smb_port = free_port()?;
        let listen = format!("127.0.0.1:{smb_port}");
        let options = [&["--smb-listen", &*listen], options].concat();
        let managed = Self::start_with(binary, work, prefix, &options)?;
        Ok(Self { smb_port, ..managed })
    }

    pub(crate) fn start_with(
        binary: &Path,
        work: &Path,
        prefix: &[&str],
        options: &[&str],
    ) -> anyhow::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, free_port()?).into(), binary, work, prefix, options)
    }

    /// Starts the service with NFS at this address.
    pub(crate) fn start_at(
        listen: SocketAddr,
        binary: &Path,
        work: &Path,
        prefix: &[&str],
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let (port, data, log) = (listen.port(), work.join("data"), work.join("plimsoll.log"));
        let text = |path: &Path| path.to_str().map(String::from).context("path is not UTF-8");
        let listen = listen.to_string();
        let mut argv: Vec<String> = prefix.iter().copied().map(String::from).collect();
        argv.extend([text(binary)?, "serve".to_owned(), "--data".to_owned(), text(&data)?]);
        argv.extend(["--listen", &listen, "--api", "127.0.0.1:0"].map(String::from));
        argv.extend(options.iter().copied().map(String::from));
        let process = begin(&argv, &log)?;
        let managed = Self { process, argv, log, binary: binary.to_owned(), data, port, smb_port: 0 };
        managed.wait_until_ready()?;
        Ok(managed)
    }

    fn wait_until_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_MAX;
        while let Err(error) = self.manage("status") {
            if Instant::now() > deadline {
                return Err(error.context("the service is not ready"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Kills the service, and restarts it after the outage.
    pub(crate) fn crash(&mut self, outage: Duration) -> anyhow::Result<()> {
        self.process.end();
        std::thread::sleep(outage);
        self.process = begin(&self.argv, &self.log)?;
        self.wait_until_ready()
    }

    pub(crate) fn api_url(&self) -> anyhow::Result<String> {
        let announced = std::fs::read(self.data.join("service.json"))?;
        let announced: serde_json::Value = serde_json::from_slice(&announced)?;
        announced["api"].as_str().map(String::from).context("the service announces no API")
    }

    /// The token of the role `admin`.
    pub(crate) fn token(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.data.join("admin.token"))?.trim().to_owned())
    }

    pub(crate) fn manage(&self, command: &str) -> anyhow::Result<String> {
        self.manage_with(&command.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn manage_with(&self, words: &[&str]) -> anyhow::Result<String> {
        let done = Command::new(&self.binary).args(words).env("PLIMSOLL_DATA", &self.data).output()?;
        if !done.status.success() {
            bail!("plimsoll {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr));
        }
        Ok(String::from_utf8(done.stdout)?)
    }

    /// The entry of the connected client; there must be exactly one.
    pub(crate) fn client(&self) -> anyhow::Result<serde_json::Value> {
        let clients: serde_json::Value = serde_json::from_str(&self.manage("client list --json")?)?;
        let items = clients["items"].as_array().context("the answer has no list of clients")?;
        let [client] = items.as_slice() else { bail!("{} clients are connected; expected one", items.len()) };
        Ok(client.clone())
    }

    pub(crate) fn connections(&self) -> anyhow::Result<u64> {
        self.client()?["connections"].as_u64().context("a client without a number of connections")
    }

    /// The name must be unique among the volumes, and the file is at the volume's root.
    pub(crate) fn written(&self, name: &str) -> anyhow::Result<PathBuf> {
        let volumes = std::fs::read_dir(self.data.join("volumes"))?;
        let paths = volumes.map(|volume| Ok(volume?.path().join(name)));
        let paths = paths.collect::<std::io::Result<Vec<_>>>()?;
        paths.into_iter().find(|path| path.exists()).with_context(|| format!("no client wrote {name}"))
    }

    /// The service must end with success.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        let status = self.process.terminate(START_MAX)?;
        ensure!(status.success(), "plimsoll ended with {status} on SIGTERM");
        Ok(())
    }
}

/// The file with the password of [`USER`], with mode 600.
pub(crate) fn smb_password(work: &Path) -> anyhow::Result<String> {
    let path = work.join("password");
    std::fs::write(&path, USER.password)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    path.to_str().map(String::from).context("path is not UTF-8")
}

fn begin(argv: &[String], log: &Path) -> anyhow::Result<Process> {
    Process::start(argv, Stdio::null(), process::append_to(log)?.into())
}
