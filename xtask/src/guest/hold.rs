//! Drives `xtask/guest/hold.sh`: managed volumes on the host, the kernel's client in the guest, and a limit that grows while
//! the guest's fio runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS, Running};
use super::require_success;
use crate::process::{self, Process};
use crate::server::free_port;

const SCRIPT: &str = include_str!("../../guest/hold.sh");
const MARK: &str = "PLIMSOLL-GUEST-MARK ";
/// How long the service may take to be ready.
const START_MAX: Duration = Duration::from_secs(30);
/// ANF's Standard gives 16 MiB/s for each TiB: little enough for an emulated machine.
const LEVEL: &str = "anf/standard";
const HELD_GIB: u64 = 512;
const SMALL_MIB: u64 = 64;
const CONNECTIONS: u64 = 4;

/// `guest hold`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The machine is killed after so many seconds.
    #[arg(long, default_value_t = 300)]
    timeout_s: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let image = Image::build()?;
    let work = process::target_dir().join("guest").join("hold");
    if work.exists() {
        std::fs::remove_dir_all(&work)?;
    }
    std::fs::create_dir_all(&work)?;
    let binary = args.binary.clone().unwrap_or_else(|| process::target_dir().join("release/plimsoll"));
    let service = Service::start(&binary, &work)?;
    service.make_volumes()?;
    let guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", service.port)
        .set("HELD_BYTES", HELD_GIB << 30)
        .set("SMALL_BYTES", SMALL_MIB << 20)
        .set("BEFORE", HELD_GIB * 16)
        .set("AFTER", HELD_GIB * 32);
    let mut running = guest.start(SCRIPT, Duration::from_secs(args.timeout_s))?;
    expect(&mut running, "clients")?;
    service.check_clients()?;
    expect(&mut running, "resize")?;
    service.manage(&format!("volume resize held {}GiB", 2 * HELD_GIB))?;
    require_success(&running.finish()?)?;
    service.stop()
}

fn expect(running: &mut Running, mark: &str) -> anyhow::Result<()> {
    let line = running.wait_line(MARK)?;
    ensure!(line == format!("{MARK}{mark}"), "expected mark `{mark}`, the guest said `{line}`");
    Ok(())
}

/// A running `plimsoll serve`.
struct Service {
    process: Process,
    binary: PathBuf,
    data: PathBuf,
    port: u16,
}

impl Service {
    fn start(binary: &Path, work: &Path) -> anyhow::Result<Self> {
        let (port, data) = (free_port()?, work.join("data"));
        let text = |path: &Path| path.to_str().map(String::from).context("a path that is not UTF-8");
        let listen = format!("127.0.0.1:{port}");
        let mut argv = vec![text(binary)?, "serve".to_owned(), "--data".to_owned(), text(&data)?];
        argv.extend(["--listen", &listen, "--api", "127.0.0.1:0"].map(String::from));
        let log = process::append_to(&work.join("plimsoll.log"))?;
        let process = Process::start(&argv, Stdio::null(), log.into())?;
        let service = Self { process, binary: binary.to_owned(), data, port };
        let deadline = Instant::now() + START_MAX;
        while let Err(error) = service.manage("status") {
            if Instant::now() > deadline {
                return Err(error.context("the service is not ready"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(service)
    }

    fn make_volumes(&self) -> anyhow::Result<()> {
        for command in [
            format!("pool create held --level {LEVEL} --size {}TiB", HELD_GIB.div_ceil(512)),
            format!("volume create held --pool held --size {HELD_GIB}GiB --allow 127.0.0.1 --squash none"),
            "pool create small --level plimsoll/unlimited --size 1GiB".to_owned(),
            format!("volume create small --pool small --size {SMALL_MIB}MiB --allow 127.0.0.1 --squash none"),
        ] {
            self.manage(&command)?;
        }
        Ok(())
    }

    /// The guest's mounts of both volumes share the connections that `nconnect` made.
    fn check_clients(&self) -> anyhow::Result<()> {
        let clients: serde_json::Value = serde_json::from_str(&self.manage("client list --json")?)?;
        let found =
            clients["items"].as_array().and_then(|clients| clients.first()).context("nobody is connected")?;
        let connections = found["connections"].as_u64().unwrap_or(0);
        ensure!(connections >= CONNECTIONS, "the mounts have {connections} connections: {found}");
        eprintln!("hold: the mounts have {connections} connections");
        Ok(())
    }

    /// Runs a command of the service; what it printed.
    fn manage(&self, command: &str) -> anyhow::Result<String> {
        let done =
            Command::new(&self.binary).args(command.split(' ')).env("PLIMSOLL_DATA", &self.data).output()?;
        if !done.status.success() {
            bail!("plimsoll {command}: {}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(String::from_utf8(done.stdout)?)
    }

    fn stop(self) -> anyhow::Result<()> {
        let status = self.process.terminate(START_MAX)?;
        ensure!(status.success(), "plimsoll ended with {status} on SIGTERM");
        Ok(())
    }
}
