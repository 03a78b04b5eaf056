//! The servers in the comparison.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::report::BoundKind;
use super::rows::Row;
use crate::plimsoll::{Options, Plimsoll};
use crate::process::{self, Process, text};
use crate::server::{Endpoint, free_port};

pub(super) const SERVER_CORE: &str = "1";
pub(super) const GENERATOR_CORE: &str = "0";
const DIRECTORY_FILES: usize = 1000;
const GANESHA_PSEUDO: &str = "/measured";
const READY_MAX: Duration = Duration::from_secs(60);
/// The generator's directories, for a floor that has no MKDIR.
const GENERATOR_DIRECTORIES: [&str; 2] = ["plimsoll-bench/many", "plimsoll-bench/scratch"];

#[derive(Clone, Debug)]
pub(super) enum Program {
    Plimsoll(PathBuf),
    Ganesha,
    /// A minimal server: a program of the caller's, `BINARY -p PORT -d DIR -m epoll`.
    Floor(PathBuf),
}

#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) name: String,
    pub(super) program: Program,
    pub(super) bound: Option<BoundKind>,
    /// Called over NFSv4.1, and only in rows with an aim there.
    pub(super) speaks_v41: bool,
    /// The contender whose server it uses; `None` if it starts one.
    pub(super) server_of: Option<usize>,
    /// Used by no other contender, and new at the beginning.
    pub(super) directory: PathBuf,
    /// Precedes the command of a build of this project, such as `valgrind`.
    pub(super) prefix: Vec<String>,
    pub(super) idle: usize,
    /// The first is measured.
    pub(super) exports: usize,
    pub(super) files: usize,
}

pub(super) struct Running {
    child: Child,
    pub(super) pid: u32,
    pub(super) endpoint: Endpoint,
    _idle: Vec<TcpStream>,
}

enum Child {
    Ours(Plimsoll),
    Other(Process),
}

impl Contender {
    /// A server without burdens, over NFSv3, without an aim.
    pub(super) fn new(name: &str, program: Program, work: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program,
            bound: None,
            speaks_v41: false,
            server_of: None,
            directory: work.join(name.replace(' ', "")),
            prefix: Vec::new(),
            idle: 0,
            exports: 1,
            files: 0,
        }
    }

    pub(super) fn is_in(&self, row: &Row) -> bool {
        !self.speaks_v41 || row.v41.is_some()
    }

    /// The contender's name in a row, with its operations where NFSv4.1 has others.
    pub(super) fn name_in(&self, row: &Row) -> String {
        match row.v41.filter(|_| self.speaks_v41) {
            Some(v41) if !v41.title.is_empty() => format!("{}: {}", self.name, v41.title),
            _ => self.name.clone(),
        }
    }

    pub(super) fn target(&self, endpoint: &Endpoint) -> String {
        match (&self.program, self.speaks_v41) {
            (_, false) => format!("nfs://{}{}", endpoint.address, endpoint.export),
            (Program::Ganesha, true) => format!("nfs://{}{GANESHA_PSEUDO}?version=4.1", endpoint.address),
            (_, true) => format!("nfs://{}{}?version=4.1", endpoint.address, endpoint.export),
        }
    }

    /// The directory must not exist.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        for below in GENERATOR_DIRECTORIES {
            fs::create_dir_all(self.exported(0).join(below))?;
        }
        for number in 1..self.exports {
            fs::create_dir(self.exported(number))?;
        }
        for number in 0..self.files {
            let directory = self.exported(0).join(format!("more/{}", number / DIRECTORY_FILES));
            if number % DIRECTORY_FILES == 0 {
                fs::create_dir_all(&directory)?;
            }
            fs::File::create(directory.join(number.to_string()))?;
        }
        Ok(())
    }

    /// Pins the server to its core and waits until it answers.
    pub(super) fn start(&self, relaxed: bool) -> anyhow::Result<Running> {
        self.launch(relaxed).with_context(|| format!("{} did not start to serve", self.name))
    }

    fn launch(&self, relaxed: bool) -> anyhow::Result<Running> {
        let pinned = ["taskset", "-c", SERVER_CORE].map(String::from);
        let (child, endpoint) = match &self.program {
            Program::Plimsoll(binary) => {
                let server = Plimsoll::start(&Options {
                    binary: binary.clone(),
                    directories: (0..self.exports).map(|number| self.exported(number)).collect(),
                    relaxed,
                    prefix: [&pinned[..], &self.prefix].concat(),
                    work: self.directory.clone(),
                })?;
                let endpoint = Endpoint::loopback(server.port, &server.exports[0]);
                (Child::Ours(server), endpoint)
            }
            Program::Ganesha => self.launch_ganesha(&pinned)?,
            Program::Floor(binary) => {
                let (exported, port) = (self.exported(0), free_port()?);
                let argv = [text(binary)?, "-p", &port.to_string(), "-d", text(&exported)?, "-m", "epoll"]
                    .map(String::from);
                (self.child(&pinned, &argv)?, Endpoint::loopback(port, "/"))
            }
        };
        let pid = match &child {
            Child::Ours(server) => server.id(),
            Child::Other(process) => process.id(),
        };
        endpoint.wait_until_ready(READY_MAX)?;
        let idle =
            (0..self.idle).map(|_| idle_connection(endpoint.address)).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Running { child, pid, endpoint, _idle: idle })
    }

    fn launch_ganesha(&self, pinned: &[String]) -> anyhow::Result<(Child, Endpoint)> {
        let (exported, port) = (self.exported(0), free_port()?);
        let mut endpoint = Endpoint::loopback(port, text(&exported)?);
        endpoint.mount_port = free_port()?;
        let (config, pid_file) = (self.directory.join("ganesha.conf"), self.directory.join("ganesha.pid"));
        fs::write(&config, ganesha_config(&endpoint))?;
        let log = self.directory.join("ganesha.log");
        let argv = ["ganesha.nfsd", "-F", "-f", text(&config)?, "-L", text(&log)?, "-p", text(&pid_file)?]
            .map(String::from);
        Ok((self.child(pinned, &argv)?, endpoint))
    }

    fn child(&self, pinned: &[String], argv: &[String]) -> anyhow::Result<Child> {
        let log = process::append_to(&self.directory.join("server.log"))?;
        Ok(Child::Other(Process::start(&[pinned, argv].concat(), log.try_clone()?.into(), log.into())?))
    }

    fn exported(&self, number: usize) -> PathBuf {
        self.directory.join(if number == 0 { "exported".to_owned() } else { format!("exported-{number}") })
    }
}

impl Running {
    pub(super) fn stop(self) -> anyhow::Result<()> {
        match self.child {
            Child::Ours(server) => server.stop(),
            // Their exit status does not matter; Ganesha ends slowly.
            Child::Other(process) => {
                process.kill();
                Ok(())
            }
        }
    }
}

/// NFSv3 and 4.1 on loopback, without other services of a file server; the cache has Debian's defaults.
fn ganesha_config(endpoint: &Endpoint) -> String {
    let Endpoint { address, mount_port, export } = endpoint;
    let port = address.port();
    format!(
        "NFS_CORE_PARAM {{ Bind_addr = 127.0.0.1; NFS_Port = {port}; MNT_Port = {mount_port}; Protocols = 3, 4; \
         Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\n\
         NFSV4 {{ Graceless = true; Minor_Versions = 1; }}\n\
         LOG {{ Default_Log_Level = WARN; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{export}\"; Pseudo = \"{GANESHA_PSEUDO}\"; Access_Type = RW; Squash = None; \
         SecType = sys; Protocols = 3, 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n"
    )
}

/// Starts the portmapper that Ganesha needs, if none runs.
pub(super) fn rpcbind(log: &Path) -> anyhow::Result<Option<Process>> {
    let portmapper = SocketAddr::from((Ipv4Addr::LOCALHOST, 111));
    let is_up = || TcpStream::connect_timeout(&portmapper, Duration::from_secs(1)).is_ok();
    if is_up() {
        return Ok(None);
    }
    let log = process::append_to(log)?;
    let argv = ["rpcbind", "-f", "-w"].map(String::from);
    let process = Process::start(&argv, Stdio::from(log.try_clone()?), log.into())?;
    let came = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        is_up()
    });
    ensure!(came, "rpcbind does not answer on port 111");
    Ok(Some(process))
}

/// A connection that was used once: for NULL, RFC 1813 §3.3.0 in a call of RFC 5531 §9.
fn idle_connection(address: SocketAddr) -> anyhow::Result<TcpStream> {
    const CALL: [u32; 11] = [1 << 31 | 40, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    const REPLY_BYTES: usize = 28;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READY_MAX))?;
    stream.write_all(&CALL.map(u32::to_be_bytes).concat())?;
    let mut reply = [0; REPLY_BYTES];
    stream.read_exact(&mut reply).context("an idle connection's NULL was not answered")?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_contains_the_version() {
        let endpoint = Endpoint::loopback(4001, "/srv/x");
        let target = |program, speaks_v41| {
            let one = Contender { speaks_v41, ..Contender::new("x", program, Path::new("")) };
            one.target(&endpoint)
        };
        assert_eq!(target(Program::Ganesha, false), "nfs://127.0.0.1:4001/srv/x");
        assert_eq!(target(Program::Ganesha, true), "nfs://127.0.0.1:4001/measured?version=4.1");
        assert_eq!(target(Program::Plimsoll("x".into()), true), "nfs://127.0.0.1:4001/srv/x?version=4.1");
    }

    #[test]
    fn the_ganesha_configuration_is_complete() {
        let mut endpoint = Endpoint::loopback(4001, "/srv/x");
        endpoint.mount_port = 4002;
        let config = ganesha_config(&endpoint);
        for part in [
            "NFS_Port = 4001;",
            "MNT_Port = 4002;",
            "Path = \"/srv/x\";",
            "Squash = None;",
            "Protocols = 3, 4;",
        ] {
            assert!(config.contains(part), "{part} is not in {config}");
        }
        assert_eq!(config.matches('{').count(), config.matches('}').count());
    }
}
