//! Network namespaces for tests.

use std::process::Command;

use anyhow::ensure;

/// Whether this process was started by [`run_inside`] with this variable.
pub(crate) fn is_inside(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// Runs this command again in a network namespace of its own, with `variable` set. It keeps the mounts of this process: a
/// copy of them would hold file systems that other tests unmount.
pub(crate) fn run_inside(variable: &str) -> anyhow::Result<()> {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command.arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    ensure!(command.env(variable, "1").status()?.success(), "it failed in its network namespace");
    Ok(())
}
