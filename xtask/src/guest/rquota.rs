//! Drives `xtask/guest/rquota.sh`: a managed volume with quotas on the host, and `quota` in the guest over mounts of the
//! kernel's client. Then Samba's `smbcquotas` asks on the host for the same quotas.
//!
//! The service is in its own network namespace, where port 111 is free for the port mapper. It is at an address that guest
//! and host know by the same number: the port mapper tells clients the address, too.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::image::Image;
use super::machine::Guest;
use super::namespace;
use super::shared::Machine;
use crate::debian::Suite;
use crate::managed::{Managed, smb_password};
use crate::process;
use crate::samba::USER;

const SCRIPT: &str = include_str!("../../guest/rquota.sh");
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const NFS_PORT: u16 = 2049;
const RQUOTA_PORT: u16 = 4049;
/// The only port that `smbcquotas` tries.
const SMB_PORT: u16 = 445;
const LOGIN: &str = "alice";
/// The user whose files the script leaves: two of 1 MiB in `work`, of which it may have 4 MiB.
const USER_ID: u32 = 1001;
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 19;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 600)]
    timeout_s: u64,
    /// Set by this command itself: the network namespace exists.
    #[arg(long, hide = true)]
    in_namespace: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.in_namespace {
        return run_in_namespace(args, &mut Machine::Own);
    }
    Image::build(Suite::Bookworm)?;
    let binary = process::binary(args.binary.as_deref()).canonicalize().context("cannot find the server")?;
    let (binary, timeout) = (binary.display().to_string(), args.timeout_s.to_string());
    let arguments = ["rquota", "--in-namespace", "--binary", &binary, "--timeout-s", &timeout];
    namespace::run(&arguments, Duration::from_secs(args.timeout_s + 60))
}

/// Runs it with the port of the port mapper free at the loopback.
pub(super) fn run_in_namespace(args: &Args, machine: &mut Machine<'_>) -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let work = process::target_dir().join("guest").join("rquota");
    process::empty_dir(&work)?;
    process::output(&work, "ip", &["address", "replace", &format!("{ADDRESS}/32"), "dev", "lo"])?;
    let service = start(&process::binary(args.binary.as_deref()), &work)?;
    let guest = Guest::new(&image).set("HOST", ADDRESS).set("PORT", NFS_PORT);
    let guest = guest.set("RQUOTA_PORT", RQUOTA_PORT);
    machine
        .start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?
        .finish()?
        .require_checks(CHECKS_MIN)?;
    over_smb(&work)?;
    service.stop()
}

/// `smbcquotas` shows used bytes, soft limit and limit. No limit is all ones.
fn over_smb(work: &Path) -> anyhow::Result<()> {
    let (share, login) = (format!("//{ADDRESS}/work"), format!("{LOGIN}%{}", USER.password));
    let ask = |arguments: &[&str]| {
        let all = [&[share.as_str(), "-U", &login], arguments].concat();
        let output = process::output(work, "smbcquotas", &all)?;
        Ok::<_, anyhow::Error>(String::from_utf8_lossy(&output).split_whitespace().collect::<String>())
    };
    let own = format!("\\{LOGIN}:2097152/{}/4194304", u64::MAX);
    for arguments in [&["-L"][..], &["-u", LOGIN], &["-m", "SMB2_10", "-L"]] {
        let said = ask(arguments)?;
        ensure!(said.ends_with(&own), "smbcquotas {arguments:?}: {said}");
    }
    let said = ask(&["-F"])?;
    ensure!(said.contains("QuotasEnabled:On") && said.contains("DenyDisk:On"), "smbcquotas -F: {said}");
    let set = format!("UQLIM:{LOGIN}:1000/2000");
    for refused in [["-u", "root"], ["-S", &set], ["-S", "FSQLIM:1000/2000"]] {
        ensure!(ask(&refused).is_err(), "smbcquotas {refused:?} was not refused");
    }
    Ok(())
}

/// The volume `work` with limits for user 1001 and group 2001, which the script expects, and `squashed`.
fn start(binary: &Path, work: &Path) -> anyhow::Result<Managed> {
    let config = work.join("plimsoll.toml");
    let text =
        format!("[nfs]\nportmap_port = 111\nrquota_port = {RQUOTA_PORT}\n[api]\nlisten = \"127.0.0.1:0\"\n");
    std::fs::write(&config, text)?;
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600))?;
    let config = process::text(&config)?;
    let smb = format!("{ADDRESS}:{SMB_PORT}");
    let service = Managed::start_at(
        (ADDRESS, NFS_PORT).into(),
        binary,
        work,
        &[],
        &["--config", config, "--snapshots", "copy", "--smb-listen", &smb],
    )?;
    let (id, password) = (USER_ID.to_string(), smb_password(work)?);
    service.manage_with(&["user", "create", LOGIN, "--uid", &id, "--password-file", &password])?;
    service.manage("pool create p --level plimsoll/unlimited --size 4GiB")?;
    let protocols = "--protocols nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb";
    for (name, squash) in [("work", "none"), ("squashed", "root")] {
        service.manage(&format!(
            "volume create {name} --pool p --size 1GiB --mode 0777 --allow {ADDRESS} --squash {squash} {protocols}"
        ))?;
        service.manage(&format!("quota set {name} --user 1001 --bytes 4MiB --files 20"))?;
    }
    service.manage("quota set work --group 2001 --bytes 100GiB --soft-bytes 1MiB --grace 48h")?;
    service.manage("snapshot create work")?;
    Ok(service)
}
