//! A network of its own for the suite, because some tests have the packet filter drop what a connection sends.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;

/// The tests that do so. They share the chains of the filter, and run one at a time.
const BLOCKING: [&str; 5] = [
    "smb2.multichannel.leases.test2",
    "smb2.multichannel.leases.test4",
    "smb2.multichannel.oplocks.test",
    "smb2.oplock.batch22b",
    "smb2.replay.dhv2-pending3",
];
/// Stands for iptables. A client's system confirms what has come up to 40 ms later: where a connection is blocked before, the server
/// sends that again and again, and what the test waits for does not follow it.
const FILTER: &str =
    "#!/bin/sh\ncase \"$*\" in *\" -j DROP\") sleep 0.1 ;; esac\nexec /usr/sbin/iptables \"$@\"\n";
/// Says that this process is in such a network already.
const INSIDE: &str = "XTASK_SMBTORTURE_NETWORK";

/// Whether a test blocks connections.
pub(super) fn blocks(test: &str) -> bool {
    BLOCKING.iter().any(|blocking| test.starts_with(blocking))
}

/// What tells smbtorture to use the filter, in place of a request that Samba alone knows.
pub(super) fn with_filter(work: &Path) -> anyhow::Result<[String; 2]> {
    let filter = work.join("iptables");
    fs::write(&filter, FILTER)?;
    fs::set_permissions(&filter, Permissions::from_mode(0o755))?;
    let command = format!("--option=torture:iptables_command={}", filter.display());
    Ok(["--option=torture:use_iptables=yes".to_owned(), command])
}

/// Whether the suite is still to be run in a network of its own, which needs root.
pub(super) fn is_outside() -> bool {
    rustix::process::geteuid().is_root() && std::env::var_os(INSIDE).is_none()
}

/// Runs this command again, in a network of its own.
pub(super) fn run_inside() -> anyhow::Result<()> {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command.arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    ensure!(command.env(INSIDE, "1").status()?.success(), "smbtorture has failed in a network of its own");
    Ok(())
}
