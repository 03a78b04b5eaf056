//! Drives `xtask/guest/snapshots.sh`: a managed volume on the host, whose snapshots come and go on the guest's request,
//! and the kernel's clients of NFS and SMB in the guest.

use std::path::PathBuf;
use std::time::Duration;

use super::image::{Image, Suite};
use super::machine::{Guest, HOST_ADDRESS};
use super::shared::Machine;
use crate::managed::{Managed, smb_password};
use crate::process;
use crate::samba::USER;

const SCRIPT: &str = include_str!("../../guest/snapshots.sh");
const VERSIONS: [&str; 2] = ["3", "4.2"];
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 38;

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
    let work = process::target_dir().join("guest").join("snapshots");
    process::empty_dir(&work)?;
    let binary = process::binary(args.binary.as_deref());
    let service = Managed::start_with_smb_and(&binary, &work, &[], &["--snapshots", "copy"])?;
    make_volume(&service, &work)?;
    let guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", service.port)
        .set("SMB_PORT", service.smb_port)
        .set("NAME", USER.name)
        .set("PASSWORD", USER.password)
        .set("VERSIONS", VERSIONS.join(" "));
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    for _ in VERSIONS {
        running.wait_mark("create")?;
        service.manage("snapshot create work")?;
        running.wait_mark("delete")?;
        let name = only_snapshot(&service)?;
        service.manage(&format!("snapshot delete work {name} --yes"))?;
    }
    running.wait_mark("create")?;
    service.manage("snapshot create work")?;
    running.finish()?.require_checks(CHECKS_MIN)?;
    service.stop()
}

fn only_snapshot(service: &Managed) -> anyhow::Result<String> {
    let snapshots: serde_json::Value = serde_json::from_str(&service.manage("snapshot list work --json")?)?;
    let name = snapshots["items"][0]["name"].as_str();
    name.map(String::from).ok_or_else(|| anyhow::anyhow!("the volume has no snapshot: {snapshots}"))
}

fn make_volume(service: &Managed, work: &std::path::Path) -> anyhow::Result<()> {
    let (id, password) = (USER.id.to_string(), smb_password(work)?);
    service.manage_with(&["user", "create", USER.name, "--uid", &id, "--password-file", &password])?;
    service.manage("pool create p --level plimsoll/unlimited --size 4GiB")?;
    service.manage(&format!(
        "volume create work --pool p --size 1GiB --mode 0777 --owner {id}:{id} --allow 127.0.0.0/8 --squash none \
         --protocols nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb"
    ))?;
    Ok(())
}
