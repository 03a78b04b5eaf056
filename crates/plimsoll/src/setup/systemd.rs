//! The unit of the service, where systemd runs.

use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

/// The configuration that the unit of the package names.
pub(super) const CONFIG: &str = "/etc/plimsoll/plimsoll.toml";
const UNIT: &str = "plimsoll.service";
/// Exists if systemd is the init of this machine: sd_booted(3).
const BOOTED: &str = "/run/systemd/system";
const UNIT_DIRS: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
];

/// Whether systemd can start the service with this configuration.
pub(super) fn has_unit(config: &Path) -> bool {
    let is_there = |dir: &str| Path::new(dir).join(UNIT).exists();
    config == Path::new(CONFIG) && Path::new(BOOTED).exists() && UNIT_DIRS.iter().any(|dir| is_there(dir))
}

/// Enables and restarts the service. The unit has Type=notify, so this waits until the service is ready.
pub(super) fn restart() -> anyhow::Result<()> {
    for arguments in [["enable", UNIT], ["restart", UNIT]] {
        let output = Command::new("systemctl").args(arguments).output().context("cannot run systemctl")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "systemctl {} failed: {} The log says why: journalctl -u {UNIT} -n 20",
                arguments.join(" "),
                said.lines().next().unwrap_or_default()
            );
        }
    }
    Ok(())
}
