//! Drives `xtask/guest/hold.sh`: managed volumes on the host, the kernel's clients of NFS and SMB in the guest, and
//! limits that grow while the guest's fio runs. Then a load on the host saturates a volume, and the guest is its second
//! client.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::ensure;

use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS};
use super::shared::Machine;
use crate::debian::Suite;
use crate::managed::{Managed, smb_password};
use crate::process::{self, Process};
use crate::samba::USER;

const SCRIPT: &str = include_str!("../../guest/hold.sh");
/// 16 MiB/s for each TiB: slow enough for an emulated machine.
const LEVEL: &str = "anf/standard";
const HELD_GIB: u64 = 128;
const SMALL_MIB: u64 = 64;
const CONNECTIONS: u64 = 4;
/// The limit of the volume that the host's load saturates, and a client's share of it.
const BUSY_MIB: u64 = 8;
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 24;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 900)]
    timeout_s: u64,
}

pub(super) fn run(args: &Args, machine: &mut Machine<'_>) -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let work = process::target_dir().join("guest").join("hold");
    process::empty_dir(&work)?;
    let binary = process::binary(args.binary.as_deref());
    let service = Managed::start_with_smb(&binary, &work, &[])?;
    make_volumes(&service)?;
    make_share(&service, &work)?;
    let guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", service.port)
        .set("SMB_PORT", service.smb_port)
        .set("NAME", USER.name)
        .set("PASSWORD", USER.password)
        .set("HELD_BYTES", HELD_GIB << 30)
        .set("SMALL_BYTES", SMALL_MIB << 20)
        .set("BEFORE", HELD_GIB * 16)
        .set("AFTER", HELD_GIB * 32);
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    running.wait_mark("clients")?;
    // The mounts of both volumes share the connections that `nconnect` made.
    let connections = service.connections()?;
    ensure!(connections >= CONNECTIONS, "the mounts have {connections} connections");
    eprintln!("hold: the mounts have {connections} connections");
    for volume in ["held", "shared"] {
        running.wait_mark(&format!("resize-{volume}"))?;
        service.manage(&format!("volume resize {volume} {}GiB", 2 * HELD_GIB))?;
    }
    running.wait_mark("share")?;
    limit_busy(&service, BUSY_MIB / 2)?;
    running.wait_mark("busy")?;
    limit_busy(&service, BUSY_MIB)?;
    let load = load_busy(&binary, &service, &work)?;
    running.finish()?.require_checks(CHECKS_MIN)?;
    load.kill();
    service.stop()
}

fn limit_busy(service: &Managed, mib: u64) -> anyhow::Result<()> {
    service.manage(&format!("volume update busy --limit throughput={mib}MiB/s")).map(drop)
}

/// Two READs of a MiB in flight at any time, by a client with another address than the guest's.
fn load_busy(binary: &Path, service: &Managed, work: &Path) -> anyhow::Result<Process> {
    let target = format!("nfs://127.0.0.1:{}/busy", service.port);
    let mut argv = vec![process::text(binary)?, "bench", "load", &target, "--mount-port"];
    let port = service.port.to_string();
    argv.extend([&port, "--op", "read", "--block", "1m", "--files", "1", "--size", "4m"]);
    argv.extend(["--connections", "1", "--depth", "2", "--source", "127.0.0.2", "--time", "1h"]);
    let argv: Vec<String> = argv.into_iter().map(String::from).collect();
    Process::start(&argv, Stdio::null(), process::append_to(&work.join("load.log"))?.into())
}

fn make_volumes(service: &Managed) -> anyhow::Result<()> {
    for command in [
        format!("pool create held --level {LEVEL} --size {}TiB", HELD_GIB.div_ceil(512)),
        format!("volume create held --pool held --size {HELD_GIB}GiB --allow 127.0.0.1 --squash none"),
        "pool create small --level plimsoll/unlimited --size 1GiB".to_owned(),
        format!("volume create small --pool small --size {SMALL_MIB}MiB --allow 127.0.0.1 --squash none"),
        "pool create busy --level plimsoll/custom --size 1GiB --limit throughput=1GiB/s".to_owned(),
        "volume create busy --pool busy --size 1GiB --limit throughput=1GiB/s --mode 0777 \
         --allow 127.0.0.0/8 --squash none --protocols nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb"
            .to_owned(),
    ] {
        service.manage(&command)?;
    }
    Ok(())
}

fn make_share(service: &Managed, work: &Path) -> anyhow::Result<()> {
    let (id, password) = (USER.id.to_string(), smb_password(work)?);
    service.manage_with(&["user", "create", USER.name, "--uid", &id, "--password-file", &password])?;
    service.manage(&format!(
        "volume create shared --pool held --size {HELD_GIB}GiB --allow 127.0.0.1 --protocols smb --owner {id}:{id}"
    ))?;
    Ok(())
}
